//! Links of Markdown, as mdBook reads them, and text that is not Markdown.

use std::ops::Range;

use pulldown_cmark::{Event, LinkType, Options, Parser, Tag, TagEnd};

/// A link or an image of a page.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Link {
    /// Line of the link, from 1.
    pub(crate) line: usize,
    /// The file and the anchor that the link leads to.
    pub(crate) target: String,
    /// Range of the link's text in the page.
    pub(crate) text: Range<usize>,
    /// Range of the link's target in the page; `None` if the target is written elsewhere.
    pub(crate) place: Option<Range<usize>>,
}

/// A link or an image whose end is not read yet.
struct Open {
    target: String,
    link_type: LinkType,
    whole: Range<usize>,
    text: Option<Range<usize>>,
}

/// Markdown as mdBook reads it, without smart punctuation.
const OPTIONS: Options = Options::ENABLE_TABLES
    .union(Options::ENABLE_FOOTNOTES)
    .union(Options::ENABLE_STRIKETHROUGH)
    .union(Options::ENABLE_TASKLISTS)
    .union(Options::ENABLE_HEADING_ATTRIBUTES)
    .union(Options::ENABLE_DEFINITION_LIST)
    .union(Options::ENABLE_GFM);

/// Links and images of a page, in order, except addresses on the network. HTML counts as a link without a place: it may
/// be one, or a word in angle brackets that mdBook would not show.
pub(crate) fn links(page: &str) -> Vec<Link> {
    let mut found: Vec<Link> = Vec::new();
    // Links and images that are open: an image can be the text of a link.
    let mut open: Vec<Open> = Vec::new();
    for (event, range) in Parser::new_ext(page, OPTIONS).into_offset_iter() {
        match event {
            Event::Start(Tag::Link { dest_url, link_type, .. } | Tag::Image { dest_url, link_type, .. }) => {
                open.push(Open { target: dest_url.to_string(), link_type, whole: range.clone(), text: None });
            }
            Event::End(TagEnd::Link | TagEnd::Image) => {
                let Some(Open { target, link_type, whole, text }) = open.pop() else { continue };
                let text = text.unwrap_or(whole.start + 1..whole.start + 1);
                let place = page[text.end..whole.end].find(&target).map(|offset| {
                    let start = text.end + offset;
                    start..start + target.len()
                });
                let place = place.filter(|_| link_type == LinkType::Inline);
                found.push(Link { line: line(page, whole.start), target, text, place });
            }
            // All HTML but the breaks in cells of generated tables.
            Event::Html(html) | Event::InlineHtml(html) if html.as_ref() != "<br>" => {
                let (line, text) = (line(page, range.start), range.clone());
                found.push(Link { line, target: html.trim().to_owned(), text, place: None });
            }
            _ => {}
        }
        // The text of a link spans all that is read before it ends.
        for Open { whole, text, .. } in &mut open {
            if range != *whole {
                let start = text.as_ref().map_or(range.start, |text| text.start);
                *text = Some(start..range.end);
            }
        }
    }
    found.retain(|link| !is_address(&link.target));
    found
}

/// Whether a target has a scheme, as in `https://…`.
fn is_address(target: &str) -> bool {
    target.split_once(':').is_some_and(|(scheme, _)| {
        scheme.starts_with(|first: char| first.is_ascii_alphabetic())
            && scheme.chars().all(|other| other.is_ascii_alphanumeric() || "+.-".contains(other))
    })
}

fn line(page: &str, offset: usize) -> usize {
    page[..offset].matches('\n').count() + 1
}

/// A text in one cell of a table, in which only code spans in backticks are Markdown.
pub(crate) fn cell(text: &str) -> String {
    escaped(text).replace("\n\n", "<br>").replace('\n', " ").replace('|', "\\|")
}

/// A text in which only code spans in backticks are Markdown.
pub(crate) fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    let mut is_code = false;
    for character in text.chars() {
        is_code ^= character == '`';
        if !is_code && matches!(character, '\\' | '<' | '*' | '_' | '[' | ']') {
            escaped.push('\\');
        }
        escaped.push(character);
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_have_a_line_a_text_and_a_place() {
        let page = "# A\n\nSee [`b.md`](docs/b.md#c), <https://d.example> and\n![e](f.png).\n\n    [g](h)\n";
        let found = links(page);
        let shown: Vec<_> = found
            .iter()
            .map(|link| {
                (
                    link.line,
                    &*link.target,
                    &page[link.text.clone()],
                    &page[link.place.clone().expect("inline")],
                )
            })
            .collect();
        assert_eq!(shown, [(3, "docs/b.md#c", "`b.md`", "docs/b.md#c"), (4, "f.png", "e", "f.png")]);
    }

    #[test]
    fn html_and_links_by_reference_have_no_place() {
        let found = links("a [b][c] <FILE> <br>\n\n[c]: e.md\n");
        let shown: Vec<_> = found.iter().map(|link| (&*link.target, link.place.is_some())).collect();
        assert_eq!(shown, [("e.md", false), ("<FILE>", false)]);
    }

    #[test]
    fn only_code_is_markdown_in_a_cell() {
        assert_eq!(cell("a_b `c_d`\n\n<e> | [f]"), "a\\_b `c_d`<br>\\<e> \\| \\[f\\]");
    }
}
