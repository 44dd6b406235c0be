//! Faults of documents in plain words.
//!
//! serde and the parsers of JSON and TOML report faults as English text, which names types of Rust: `invalid type: string
//! "a", expected u64`. This module reads such a text and says the same in the terms of the notations: `the value is the
//! text "a", expected a whole number that is not negative`, with the possible names in the help.
//!
//! The kind of a fault follows from the first words of its text, which serde's documentation fixes for the constructors of
//! `serde::de::Error`.

use super::nearest::nearest;
use crate::code::F::{self, *};

/// A fault of a document, without its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// Stable error code.
    pub code: F,
    /// Cause.
    pub message: String,
    /// A hint for fixing the fault.
    pub help: String,
}

impl Fault {
    fn new(code: F, message: impl Into<String>, help: impl Into<String>) -> Fault {
        Fault { code, message: message.into(), help: help.into() }
    }

    /// The fault of a value, from the message of serde. Messages of unknown kind are kept, with code F005.
    ///
    /// ```
    /// use stagewright_formats::fault::Fault;
    /// let fault = Fault::of_value("unknown variant `fast`, expected `slow` or `fast-ish`");
    /// assert_eq!(fault.message, "unknown value `fast`");
    /// assert_eq!(fault.help, "did you mean `fast-ish`? The values are slow, fast-ish");
    /// ```
    pub fn of_value(message: &str) -> Fault {
        shape(message).unwrap_or_else(|| Fault::new(F005, message, HELP_OF_VALUE))
    }

    /// The fault of a text in JSON: of its notation, or of a value in it.
    pub fn of_json(error: &serde_json::Error) -> Fault {
        let text = error.to_string();
        let message = if error.line() > 0 { without_position(&text) } else { &text };
        if message == "number out of range" {
            return Fault::new(F010, message, "write a number below about 1.8e308");
        }
        if error.is_data() {
            return Fault::of_value(message);
        }
        let help = match message {
            "recursion limit exceeded" => {
                "no format nests this deeply: check the program that wrote the file"
            }
            _ if error.is_eof() => "the file is truncated: check that the program that wrote it finished",
            _ => "write valid JSON, which has no comments, trailing commas, NaN or infinity",
        };
        let plain = JSON_WORDS.iter().find(|(word, _)| *word == message).map_or(message, |(_, plain)| plain);
        Fault::new(F002, plain, help)
    }

    /// The fault of a text in TOML: of its notation, or of a value in it.
    pub fn of_toml(error: &toml::de::Error) -> Fault {
        let message = error.message();
        shape(message).unwrap_or_else(|| {
            let plain = TOML_WORDS.iter().find(|(word, _)| message.contains(word));
            let message = plain.map_or(message, |(_, plain)| plain);
            Fault::new(F002, message, "write valid TOML (or JSON, starting with a brace)")
        })
    }

    /// The fault of a number that is infinite or not a number.
    pub(super) fn not_finite() -> Fault {
        let help = "write a finite number, or omit the field if the value is unknown or unlimited";
        Fault::new(F010, "the number is not finite", help)
    }
}

const HELP_OF_VALUE: &str = "write a value as the message says";

/// Messages of serde_json about the notation.
const JSON_WORDS: [(&str, &str); 12] = [
    ("EOF while parsing a list", "the text ends within a list"),
    ("EOF while parsing an object", "the text ends within an object"),
    ("EOF while parsing a string", "the text ends within quotes"),
    ("EOF while parsing a value", "the text ends before a value"),
    ("expected ident", "a word that is not true, false or null"),
    ("expected value", "expected a value"),
    ("trailing characters", "text after the end of a value"),
    ("trailing comma", "a comma after the last value"),
    ("key must be a string", "a name without quotes"),
    ("lone leading surrogate in hex escape", "half of a character after \\u"),
    ("unexpected end of hex escape", "\\u without four hexadecimal digits"),
    ("recursion limit exceeded", "values nested too deeply"),
];

/// Parts of messages of toml about the notation or about numbers.
const TOML_WORDS: [(&str, &str); 6] = [
    ("recurse further", "values nested too deeply"),
    ("recursion limit", "values nested too deeply"),
    ("integer number overflowed", "the number is too large"),
    ("floating-point number overflowed", "the number is too large"),
    ("string values must be quoted", "a text needs quotes"),
    ("wanted string or table", "expected a text or a table"),
];

/// The fault of the shape of a document; `None` if the message is of another kind.
fn shape(message: &str) -> Option<Fault> {
    let (found, expected) = message.rsplit_once(", expected ").unwrap_or((message, ""));
    if let Some(found) = found.strip_prefix("unknown field ") {
        let found = found.split("`, there are no fields").next().unwrap_or(found).trim_matches('`');
        let help = match quoted(expected).as_slice() {
            [] => "remove the field".to_owned(),
            [field] => format!("write `{field}`, the only field here, or remove it"),
            fields => choice(found, fields, "fields here"),
        };
        return Some(Fault::new(F004, format!("unknown field `{found}`"), help));
    }
    if let Some(found) = found.strip_prefix("unknown variant ") {
        let (found, values) = (found.trim_matches('`'), quoted(expected));
        let help = choice(found, &values, "values");
        return Some(Fault::new(F005, format!("unknown value `{found}`"), help));
    }
    let (expected, help) = (expectation(expected), HELP_OF_VALUE);
    if let Some(found) =
        ["invalid type: ", "invalid value: "].iter().find_map(|kind| found.strip_prefix(kind))
    {
        return Some(Fault::new(F005, format!("the value is {}, expected {expected}", value(found)), help));
    }
    if let Some(length) = found.strip_prefix("invalid length ") {
        let values = if length == "1" { "value" } else { "values" };
        return Some(Fault::new(F005, format!("the list has {length} {values}, expected {expected}"), help));
    }
    if message.starts_with("missing field ") {
        return Some(Fault::new(F003, message, "add the field"));
    }
    if message.starts_with("duplicate field ") || message.starts_with("duplicate key") {
        return Some(Fault::new(F009, message, "keep one of the two"));
    }
    // Types with several forms say themselves what they accept.
    message.starts_with("expected ").then(|| Fault::new(F005, message, HELP_OF_VALUE))
}

/// A message of serde_json without the position at its end.
fn without_position(message: &str) -> &str {
    message.rfind(" at line ").map_or(message, |end| &message[..end])
}

/// The names in backquotes in a list of serde, such as "one of `a`, `b`".
fn quoted(list: &str) -> Vec<&str> {
    list.split('`').skip(1).step_by(2).collect()
}

/// All possible names, after the one that is similar to a mistyped name.
fn choice(found: &str, names: &[&str], what: &str) -> String {
    let all = names.join(", ");
    match nearest(found, names.iter().copied()) {
        Some(name) => format!("did you mean `{name}`? The {what} are {all}"),
        None => format!("the {what} are {all}"),
    }
}

/// A value that serde describes, such as "integer `1`".
fn value(found: &str) -> String {
    if let Some(text) = found.strip_prefix("string ") {
        return format!("the text {text}");
    }
    match found {
        "null" | "unit value" | "Option value" => "null".to_owned(),
        "map" => "an object".to_owned(),
        "sequence" => "a list".to_owned(),
        _ => {
            let plain =
                ["integer ", "floating point ", "boolean "].iter().find_map(|kind| found.strip_prefix(kind));
            plain.map_or(found, |value| value.trim_matches('`')).to_owned()
        }
    }
}

/// Values that a type of Rust accepts, in words. Every other text is the project's own and stays.
fn expectation(expected: &str) -> String {
    const LISTS: [&str; 3] = ["an array of length ", "a tuple of size ", "tuple of "];
    if let Some(size) = LISTS.iter().find_map(|list| expected.strip_prefix(list)) {
        return format!("a list of {} values", size.trim_end_matches(" elements"));
    }
    let is_structure =
        ["struct ", "internally tagged ", "adjacently tagged "].iter().any(|kind| expected.starts_with(kind));
    let plain = match expected {
        "f32" | "f64" => "a number",
        "i8" | "i16" | "i32" | "i64" | "i128" | "isize" => "a whole number",
        "u8" => "a whole number from 0 to 255",
        "u16" => "a whole number from 0 to 65535",
        "u32" => "a whole number from 0 to 4294967295",
        "u64" | "u128" | "usize" => "a whole number that is not negative",
        "a nonzero u32" => "a whole number from 1 to 4294967295",
        "a nonzero u64" | "a nonzero usize" => "a whole number above 0",
        "a boolean" => "true or false",
        "a string" | "a borrowed string" | "path string" | "string or table" => "a text",
        "a sequence" => "a list",
        "a map" => "an object",
        "unit" => "null",
        _ if is_structure => "an object with fields",
        _ if expected.starts_with("enum ") || expected == "string or map" => {
            "a text or an object with one field"
        }
        other => other,
    };
    plain.to_owned()
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    #[allow(dead_code, reason = "only its shape counts")]
    enum Pass {
        Forward,
        Backward,
    }

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    #[allow(dead_code, reason = "only its shape counts")]
    struct Inner {
        seconds: f64,
    }

    #[derive(Debug, Deserialize, Default)]
    #[serde(deny_unknown_fields, default)]
    #[allow(dead_code, reason = "only its shape counts")]
    struct Document {
        name: String,
        count: u32,
        large: u64,
        seconds: f64,
        host: bool,
        pair: Option<[f64; 2]>,
        names: Vec<String>,
        pass: Option<Pass>,
        inner: Option<Inner>,
    }

    fn of_json(text: &str) -> Fault {
        Fault::of_json(&serde_json::from_str::<Document>(text).unwrap_err())
    }

    fn of_toml(text: &str) -> Fault {
        Fault::of_toml(&toml::from_str::<Document>(text).unwrap_err())
    }

    /// Words of serde, of the parsers and of Rust.
    const FOREIGN: [&str; 14] = [
        "invalid", "variant", "struct", "u32", "u64", "f64", "sequence", "map", "at line", "string", "enum",
        "EOF", "boolean", "tuple",
    ];

    #[test]
    fn both_notations_give_the_same_plain_words() {
        let whole = "a whole number from 0 to 4294967295";
        for (field, [json, toml], message) in [
            ("name", ["5", "5"], "the value is 5, expected a text".to_owned()),
            ("count", ["\"a\"", "\"a\""], format!("the value is the text \"a\", expected {whole}")),
            ("count", ["-1", "-1"], format!("the value is -1, expected {whole}")),
            ("count", ["1.5", "1.5"], format!("the value is 1.5, expected {whole}")),
            ("large", ["-1", "-1"], "the value is -1, expected a whole number that is not negative".into()),
            ("seconds", ["true", "true"], "the value is true, expected a number".into()),
            ("seconds", ["[1]", "[1]"], "the value is a list, expected a number".into()),
            ("host", ["{}", "{}"], "the value is an object, expected true or false".into()),
            ("pair", ["[1.0]", "[1.0]"], "the list has 1 value, expected a list of 2 values".into()),
            ("names", ["\"a\"", "\"a\""], "the value is the text \"a\", expected a list".into()),
            ("inner", ["1", "1"], "the value is 1, expected an object with fields".into()),
            ("pass", ["\"x\"", "\"x\""], "unknown value `x`".into()),
            ("inner", ["{}", "{}"], "missing field `seconds`".into()),
            ("colour", ["1", "1"], "unknown field `colour`".into()),
        ] {
            for fault in [of_json(&format!("{{\"{field}\": {json}}}")), of_toml(&format!("{field} = {toml}"))]
            {
                assert_eq!(fault.message, message, "{field}");
                let text = format!("{} {}", fault.message, fault.help);
                assert!(!FOREIGN.iter().any(|word| text.contains(word)), "{text}");
            }
        }
        assert_eq!(of_json("{\"name\": null}").message, "the value is null, expected a text");
    }

    #[test]
    fn the_help_has_the_names_that_are_possible() {
        let fault = of_json("{\"secons\": 1}");
        assert_eq!(fault.code, F004);
        assert_eq!(
            fault.help,
            "did you mean `seconds`? The fields here are name, count, large, seconds, host, pair, names, pass, inner"
        );
        let fault = of_json("{\"pass\": \"forwards\"}");
        assert_eq!(
            (fault.code, fault.help.as_str()),
            (F005, "did you mean `forward`? The values are forward, backward")
        );
        assert_eq!(of_toml("inner = { x = 1 }").help, "write `seconds`, the only field here, or remove it");
        let hostile = of_json("{\"a`, expected `b\": 1}");
        assert_eq!(hostile.message, "unknown field `a`, expected `b`");
        assert!(hostile.help.starts_with("the fields here are name, "), "{}", hostile.help);
    }

    #[test]
    fn faults_of_the_notation_are_in_plain_words() {
        for (text, message) in [
            ("{\"names\": [\"a\"", "the text ends within a list"),
            ("{\"names\"", "the text ends within an object"),
            ("{\"name\": \"a", "the text ends within quotes"),
            ("{\"name\": ", "the text ends before a value"),
            ("{\"name\": \"a\"} x", "text after the end of a value"),
            ("{\"pair\": [1, 2, 3]}", "text after the end of a value"),
            ("{\"names\": [\"a\",]}", "a comma after the last value"),
            ("{name: 1}", "a name without quotes"),
            ("{\"seconds\": tru}", "a word that is not true, false or null"),
        ] {
            let fault = of_json(text);
            assert_eq!((fault.message.as_str(), fault.code), (message, F002), "{text}");
        }
        let deep = format!("{{\"colour\": {}", "[".repeat(200));
        assert_eq!(of_json(&deep).code, F004, "a field is refused before its value");
        for (text, message) in [
            ("name = a", "a text needs quotes"),
            ("count = 99999999999999999999999999999999999999999", "the number is too large"),
        ] {
            let fault = of_toml(text);
            assert_eq!((fault.message.as_str(), fault.code), (message, F002), "{text}");
        }
    }
}
