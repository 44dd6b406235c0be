//! Escaping and formatting for HTML.

use std::fmt::Write;

use crate::units;

/// Escapes a text for element content and quoted attributes.
pub(super) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            _ => escaped.push(character),
        }
    }
    escaped
}

/// Escapes JSON for a script element. The characters that could end the element, begin a comment or end a line of a
/// script occur only in strings, where they can be written as escapes.
pub(super) fn escape_json(json: &str) -> String {
    let mut escaped = String::with_capacity(json.len());
    for character in json.chars() {
        match character {
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => {
                // Writing to a string cannot fail.
                let _ = write!(escaped, "\\u{:04x}", u32::from(character));
            }
            _ => escaped.push(character),
        }
    }
    escaped
}

/// A quantity: formatted text, with the exact number as value and title.
fn quantity(text: &str, value: f64, unit: &str) -> String {
    format!("<data value=\"{value:?}\" title=\"{value:?} {unit}\">{}</data>", escape(text))
}

/// Seconds.
pub(super) fn seconds(value: f64) -> String {
    quantity(&units::seconds(value), value, "s")
}

/// Bytes.
pub(super) fn bytes(value: f64) -> String {
    quantity(&units::bytes(value), value, "bytes")
}

/// A share of 1.
pub(super) fn percent(value: f64) -> String {
    quantity(&units::percent(value), value, "of 1")
}

/// A table in a frame that scrolls. Columns have a name and whether they contain words rather than numbers; the first
/// column heads the rows.
pub(super) fn table(
    id: &str,
    caption: &str,
    columns: &[(&str, bool)],
    rows: impl IntoIterator<Item = Vec<String>>,
) -> String {
    let class = |is_word: bool| if is_word { " class=\"word\"" } else { "" };
    let mut text = format!(
        "<div class=\"scroll tall\" role=\"region\" tabindex=\"0\" aria-label=\"{caption}\">\n\
         <table id=\"{id}\"><caption class=\"hidden\">{caption}</caption><thead><tr>"
    );
    for &(name, is_word) in columns {
        // Writing to a string cannot fail, here and below.
        let _ = write!(text, "<th scope=\"col\"{}>{name}</th>", class(is_word));
    }
    text.push_str("</tr></thead><tbody>\n");
    for row in rows {
        for (column, (cell, &(_, is_word))) in row.iter().zip(columns).enumerate() {
            let _ = match column {
                0 => write!(text, "<tr><th scope=\"row\">{cell}</th>"),
                _ => write!(text, "<td{}>{cell}</td>", class(is_word)),
            };
        }
        text.push_str("</tr>\n");
    }
    text.push_str("</tbody></table></div>\n");
    text
}

/// A count with thousands separators.
///
/// The separator is a thin space, which cannot be mistaken for a decimal point or a decimal comma.
pub(super) fn count(value: usize) -> String {
    let digits = value.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) && digits.len() > 4 {
            text.push('\u{202f}');
        }
        text.push(digit);
    }
    text
}
