//! Strings and lists for JSON and Python, which are the same: everything that JSON escapes, Python reads
//! alike, and other characters stand for themselves in both.

/// A string.
pub(super) fn string(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// A list on one line.
pub(super) fn list(items: impl IntoIterator<Item = String>) -> String {
    format!("[{}]", items.into_iter().collect::<Vec<_>>().join(", "))
}

/// A list or a dictionary with a line for each of its items.
pub(super) fn lines(open: char, items: impl IntoIterator<Item = String>, close: char) -> String {
    let items: Vec<String> = items.into_iter().map(|item| format!("    {item}")).collect();
    if items.is_empty() {
        format!("{open}{close}")
    } else {
        format!("{open}\n{}\n{close}", items.join(",\n"))
    }
}

/// An entry of a dictionary.
pub(super) fn entry(key: &str, value: &str) -> String {
    format!("{}: {value}", string(key))
}
