//! YAML of manifests.

use std::fmt::Write as _;

use serde_json::Value;

use crate::literal::string;

/// Words that YAML 1.1 reads as something other than text.
const RESERVED: [&str; 9] = ["true", "false", "null", "yes", "no", "on", "off", "y", "n"];

/// A document in block style. A literal of JSON is one of YAML, so texts with marks are in double quotes.
pub(super) fn document(value: &Value) -> String {
    let mut text = String::new();
    block(value, 0, &mut text);
    text
}

/// Documents, separated by lines of three hyphens.
pub(super) fn documents(values: &[Value]) -> String {
    values.iter().map(document).collect::<Vec<_>>().join("---\n")
}

/// Writes a value on lines of its own, indented by `depth` levels.
fn block(value: &Value, depth: usize, text: &mut String) {
    let indent = "  ".repeat(depth);
    match value {
        Value::Object(entries) if !entries.is_empty() => {
            for (key, value) in entries {
                text.push_str(&indent);
                entry(&format!("{}:", plain(key)), value, depth, text);
            }
        }
        Value::Array(items) if !items.is_empty() => {
            for item in items {
                let start = text.len();
                block(item, depth + 1, text);
                // The first line of an item has its hyphen in place of the last level of its indent.
                text.replace_range(start + indent.len()..start + indent.len() + 2, "- ");
            }
        }
        scalar => {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{indent}{}", inline(scalar));
        }
    }
}

/// Writes a key with its value, on one line or below.
fn entry(key: &str, value: &Value, depth: usize, text: &mut String) {
    let is_nested = match value {
        Value::Object(entries) => !entries.is_empty(),
        Value::Array(items) => !items.is_empty(),
        _ => false,
    };
    text.push_str(key);
    if is_nested {
        text.push('\n');
        block(value, depth + 1, text);
    } else {
        let _ = writeln!(text, " {}", inline(value));
    }
}

fn inline(value: &Value) -> String {
    match value {
        Value::String(name) => plain(name),
        other => other.to_string(),
    }
}

/// A text without quotes if it can have no other meaning.
fn plain(text: &str) -> String {
    let is_first = |character: char| character.is_ascii_alphabetic();
    let is_other = |character: char| character.is_ascii_alphanumeric() || "_./-".contains(character);
    let is_plain = text.starts_with(is_first)
        && text.chars().all(is_other)
        && !RESERVED.contains(&text.to_ascii_lowercase().as_str());
    if is_plain { text.to_owned() } else { string(text) }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{document, documents};

    #[test]
    fn values_are_in_block_style() {
        let value = json!({
            "name": "a-b/c.d",
            "number": 3,
            "list": [{}, { "first": "1", "second": [] }, "--option", { "nested": { "deep": true } }, [1, 2]],
            "none": {},
        });
        let expected = "list:\n  - {}\n  - first: \"1\"\n    second: []\n  - \"--option\"\n  - nested:\n      deep: true\n  - - 1\n    - 2\n\
                        name: a-b/c.d\nnone: {}\nnumber: 3\n";
        assert_eq!(document(&value), expected);
        assert_eq!(documents(&[json!({"a": 1}), json!({"b": 2})]), "a: 1\n---\nb: 2\n");
    }

    #[test]
    fn texts_with_other_meanings_are_quoted() {
        for (text, shown) in [
            ("yes", r#""yes""#),
            ("No", r#""No""#),
            ("a: b", r#""a: b""#),
            ("", r#""""#),
            ("1e3", r#""1e3""#),
            ("a\nb", r#""a\nb""#),
        ] {
            assert_eq!(document(&json!({ "key": text })), format!("key: {shown}\n"));
        }
    }
}
