//! The Python API: the signatures and docstrings of the stubs of the package, if it is there.

use std::fmt::Write as _;
use std::path::Path;

use crate::contents::Page;
use crate::error::Result;
use crate::files;
use crate::markdown::escaped;

/// Folder of the stubs.
const FOLDER: &str = "bindings/python/python/stagewright";

/// A page with a section for each stub; none without the package.
pub(super) fn pages(root: &Path) -> Result<Vec<Page>> {
    let folder = root.join(FOLDER);
    if !folder.is_dir() {
        return Ok(Vec::new());
    }
    let mut text = String::from("# Python API\n");
    let mut stubs = 0;
    for path in files::list(&folder)? {
        let is_stub = path.extension().is_some_and(|extension| extension == "pyi");
        let Some(name) = path.file_stem().and_then(|name| name.to_str()).filter(|_| is_stub) else {
            continue;
        };
        let module = if name == "__init__" { "stagewright".into() } else { format!("stagewright.{name}") };
        let _ = writeln!(text, "\n## {}\n", escaped(&module));
        text += &section(&files::read(&path)?);
        stubs += 1;
    }
    Ok(if stubs == 0 { Vec::new() } else { vec![Page::generated("reference/python.md", text)] })
}

/// Public classes, methods and functions of a stub with their docstrings. Anything else of a stub is not shown.
fn section(stub: &str) -> String {
    let mut text = String::new();
    let mut lines = stub.lines().peekable();
    // The class that the lines belong to is private.
    let mut is_hidden = false;
    while let Some(line) = lines.next() {
        let trimmed = line.trim_start();
        let depth = (line.len() - trimmed.len()) / 4;
        if trimmed.starts_with("\"\"\"") {
            let _ = writeln!(text, "{}\n", docstring(trimmed, &mut lines));
            continue;
        }
        let Some(name) = ["class ", "def ", "async def "].iter().find_map(|word| trimmed.strip_prefix(word))
        else {
            is_hidden &= depth > 0 || trimmed.is_empty();
            continue;
        };
        let mut signature = trimmed.to_owned();
        while depth < 2 && !ends_signature(&signature) {
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

/// Whether all brackets of a signature are closed and its colon is there.
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
    text.join("\n").trim().to_owned()
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
}
