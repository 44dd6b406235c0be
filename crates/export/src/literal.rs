//! Literals that are valid in both JSON and Python: Python reads every JSON escape the same way, and all
//! other characters are literal in both.

/// A string literal.
pub(super) fn string(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// A list on one line.
pub(super) fn list(items: impl IntoIterator<Item = String>) -> String {
    format!("[{}]", items.into_iter().collect::<Vec<_>>().join(", "))
}

/// A list or a dictionary with one item per line.
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
