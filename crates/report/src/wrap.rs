//! Text wrapped to the width of a terminal. Without a width, no line is broken.

use comfy_table::{Cell, ContentArrangement, Table, presets};

use stagewright_core::text::visible;

/// Minimum width of text: narrower text is unreadable anyway.
const LEAST: u16 = 20;

/// Spaces between two columns.
pub(super) const GAP: u16 = 2;

/// Indentation of example lines of a page, which keep their line breaks.
const EXAMPLE: &str = "    ";

/// `name  text` lines, aligned. Every character of a text is visible, and a wrapped text continues below its first
/// line.
pub fn facts<'a>(lines: impl IntoIterator<Item = (&'a str, String)>, width: Option<u16>) -> String {
    let mut table = borderless(width);
    for (name, text) in lines {
        table.add_row([Cell::new(visible(name)), Cell::new(visible(&text))]);
    }
    finish(table)
}

/// Wraps every line separately.
pub fn lines(text: &str, width: Option<u16>) -> String {
    let mut table = borderless(width);
    for line in text.lines() {
        table.add_row([Cell::new(line)]);
    }
    finish(table)
}

/// Re-wraps the paragraphs of a documentation page if any of its lines is wider than `width`.
pub fn page(text: &str, width: Option<u16>) -> String {
    let Some(width) = width.filter(|&width| text.lines().any(|line| line.chars().count() > width.into()))
    else {
        return lines(text, None);
    };
    let paragraphs = text.split("\n\n").map(|paragraph| {
        let is_prose = !paragraph.starts_with(EXAMPLE) && !paragraph.starts_with("- ");
        let paragraph = if is_prose { paragraph.replace('\n', " ") } else { paragraph.to_owned() };
        lines(&paragraph, Some(width))
    });
    paragraphs.collect::<Vec<_>>().join("\n")
}

/// Returns an empty table without borders, so that it reads as text and pastes well.
pub(super) fn borderless(width: Option<u16>) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    match width {
        // The spaces after the last column are trimmed.
        Some(width) => table
            .set_content_arrangement(ContentArrangement::Dynamic)
            .set_width(width.max(LEAST).saturating_add(GAP)),
        None => table.set_content_arrangement(ContentArrangement::Disabled),
    };
    table
}

/// Formats a table.
pub(super) fn finish(mut table: Table) -> String {
    for column in table.column_iter_mut() {
        column.set_padding((0, GAP));
    }
    table.lines().map(|line| format!("{}\n", line.trim_end())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_are_aligned_and_wrap_below_their_text() {
        let lines = || [("value", "1 ms".to_owned()), ("reason", "one\ntwo".to_owned())];
        let text = "value   1 ms\nreason  one\\ntwo\n";
        assert_eq!(facts(lines(), None), text);
        assert_eq!(facts(lines(), Some(20)), text);
        let narrow = facts([("reason", "many words that wrap".to_owned())], Some(20));
        assert_eq!(narrow, "reason  many words\n        that wrap\n");
    }

    #[test]
    fn a_page_is_wrapped_anew_only_where_it_is_too_wide() {
        let text = "one two three four\nfive six.\n\n    x = 1\n    y = 2\n\n- an item of a list\n";
        assert_eq!(page(text, None), text);
        assert_eq!(page(text, Some(60)), text);
        let wide = format!("{}\nfive six.\n\n    x = 1\n    y = 2\n", "word ".repeat(8).trim_end());
        assert_eq!(
            page(&wide, Some(24)),
            "word word word word word\nword word word five six.\n\n    x = 1\n    y = 2\n"
        );
    }
}
