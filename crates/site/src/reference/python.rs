//! The Python API: signatures and docstrings, from the sources of the package.

use std::fmt::Write as _;
use std::path::Path;

use crate::error::Result;
use crate::files;
use crate::markdown::escaped;
use crate::page::Page;

/// Folder of the package.
const FOLDER: &str = "bindings/python/python/stagewright";

/// Modules that users import, and the files that define them.
const MODULES: [(&str, &[&str]); 2] = [
    ("stagewright", &["models", "problems", "plans", "comparison", "program", "errors"]),
    ("stagewright.envs", &["envs"]),
];

/// The page of the package.
pub(super) fn page(root: &Path) -> Result<Page> {
    let mut text = String::from("# Python API\n");
    for (module, names) in MODULES {
        let _ = writeln!(text, "\n## {}\n", escaped(module));
        for name in names {
            text += &section(&files::read(&root.join(FOLDER).join(format!("{name}.py")))?);
        }
    }
    Ok(Page::generated("reference/python.md", text))
}

/// Public classes, methods and functions of a module with their docstrings, and the docstring of the module.
fn section(module: &str) -> String {
    let mut text = String::new();
    let mut lines = module.lines().peekable();
    // Whether the class that the lines belong to is private.
    let mut is_hidden = false;
    while let Some(line) = lines.next() {
        let trimmed = line.trim_start();
        let depth = (line.len() - trimmed.len()) / 4;
        if trimmed.starts_with("\"\"\"") {
            let documentation = docstring(trimmed, &mut lines);
            if depth == 0 {
                let _ = writeln!(text, "{documentation}\n");
            }
            continue;
        }
        let defined = ["class ", "def ", "async def "].iter().find_map(|word| trimmed.strip_prefix(word));
        // Functions within functions are not part of the interface.
        let Some(name) = defined.filter(|_| depth < 2) else {
            is_hidden &= depth > 0 || trimmed.is_empty();
            continue;
        };
        let mut signature = trimmed.to_owned();
        while !ends_signature(&signature) {
            let Some(next) = lines.next() else { break };
            signature += "\n";
            signature += next.get(depth * 4..).unwrap_or(next.trim_start());
        }
        let is_private = name.starts_with('_') && !name.starts_with("__init__");
        is_hidden = if depth == 0 { is_private } else { is_hidden };
        let documented = lines.next_if(|line| line.trim_start().starts_with("\"\"\""));
        let documentation = documented.map(|first| docstring(first.trim_start(), &mut lines));
        if is_private || is_hidden {
            continue;
        }
        let name = name.split(|other: char| !other.is_alphanumeric() && other != '_').next().unwrap_or(name);
        let marks = if depth == 0 { "###" } else { "####" };
        let signature = signature.strip_suffix(" ...").unwrap_or(&signature).trim_end_matches(':');
        let _ = writeln!(text, "{marks} {}\n\n```python\n{signature}\n```\n", escaped(name));
        if let Some(documentation) = documentation {
            let _ = writeln!(text, "{documentation}\n");
        }
    }
    text
}

/// Whether all brackets of a signature are closed and its colon is present.
fn ends_signature(signature: &str) -> bool {
    let count = |brackets: [char; 2]| signature.matches(brackets).count();
    count(['(', '[']) == count([')', ']']) && signature.trim_end_matches(" ...").ends_with(':')
}

/// The text of a docstring that begins on a line, without its quotes and its indentation.
fn docstring<'a>(first: &'a str, lines: &mut impl Iterator<Item = &'a str>) -> String {
    let first = first.trim_start_matches("\"\"\"");
    if let Some((text, _)) = first.split_once("\"\"\"") {
        return text.trim().to_owned();
    }
    let mut text = vec![first.to_owned()];
    let mut rest = Vec::new();
    for line in lines {
        if let Some((last, _)) = line.split_once("\"\"\"") {
            rest.push(last);
            break;
        }
        rest.push(line);
    }
    let indents =
        rest.iter().filter(|line| !line.trim().is_empty()).map(|line| line.len() - line.trim_start().len());
    let indent = indents.min().unwrap_or(0);
    text.extend(rest.iter().map(|line| line.get(indent..).unwrap_or_default().to_owned()));
    markdown(&text.join("\n"))
}

/// A docstring in Google's style as Markdown: its sections become lists, its references code.
fn markdown(docstring: &str) -> String {
    let mut text = String::new();
    let mut section = "";
    for line in docstring.trim().lines() {
        let indent = line.len() - line.trim_start().len();
        let is_heading = ["Args:", "Attributes:", "Raises:", "Returns:", "Example:"].contains(&line);
        match (section, line.trim_start()) {
            (_, heading) if is_heading => {
                section = heading;
                let _ = writeln!(text, "**{}**\n", heading.trim_end_matches(':'));
                continue;
            }
            ("Args:" | "Attributes:" | "Raises:", item) if indent == 4 => {
                let (name, meaning) = item.split_once(": ").unwrap_or((item, ""));
                let _ = write!(text, "- `{name}`: {meaning}");
            }
            ("Args:" | "Attributes:" | "Raises:", more) if indent > 4 => {
                let _ = write!(text, "  {more}");
            }
            ("Returns:", _) if indent >= 4 => text += &line[4..],
            _ => {
                // Code stays indented, and only code does.
                text += line;
            }
        }
        text.push('\n');
    }
    [":func:`", ":class:`", ":meth:`"]
        .iter()
        .fold(text, |text, role| text.replace(role, "`"))
        .trim()
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_and_functions_have_their_signature_and_docstring() {
        let stub = "\"\"\"The package.\"\"\"\n\nfrom typing import Any\n\nclass Problem:\n    \"\"\"A problem.\n\n    With a model.\n    \"\"\"\n\n    def evaluate(\n        self,\n        placements: Any,\n    ) -> float:\n        \"\"\"Values.\"\"\"\n    def _hidden(self) -> None: ...\n\nclass _Private:\n    def shown(self) -> None: ...\n\ndef load(path: str) -> Problem: ...\n";
        let expected = "The package.\n\n### Problem\n\n```python\nclass Problem\n```\n\nA problem.\n\nWith a model.\n\n#### evaluate\n\n```python\ndef evaluate(\n    self,\n    placements: Any,\n) -> float\n```\n\nValues.\n\n### load\n\n```python\ndef load(path: str) -> Problem\n```\n\n";
        assert_eq!(section(stub), expected);
    }

    #[test]
    fn sections_of_docstrings_become_lists() {
        let docstring = "Reads.\n\nArgs:\n    path: The file, see\n        :func:`load`.\n\nReturns:\n    A model.\n\nExample:\n    >>> load()\n";
        let expected = "Reads.\n\n**Args**\n\n- `path`: The file, see\n  `load`.\n\n**Returns**\n\nA model.\n\n**Example**\n\n    >>> load()";
        assert_eq!(markdown(docstring), expected);
    }
}
