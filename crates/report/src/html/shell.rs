//! The page around its sections: template, style, scripts, and the policy that admits only these.

use std::io::{self, Write};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};

use super::markup::{escape, escape_json};

const TEMPLATE: &str = include_str!("page/page.html");
const STYLE: &str =
    concat!(include_str!("page/page.css"), include_str!("page/plot.css"), include_str!("page/graph.css"));
/// A single script, whose parts share one private scope.
const SCRIPT: &str = concat!(
    "\"use strict\";\n(() => {\n",
    include_str!("page/theme.js"),
    include_str!("page/scene.js"),
    include_str!("page/layout.js"),
    include_str!("page/details.js"),
    include_str!("page/graph.js"),
    include_str!("page/timeline.js"),
    "})();\n"
);

/// A section of the page.
#[derive(Debug)]
pub(super) struct Section {
    /// Element identifier, the target of links.
    pub(super) id: &'static str,
    /// Heading.
    pub(super) title: &'static str,
    /// Markup, heading included.
    pub(super) markup: String,
}

/// Writes a page from its title, its sections and the JSON data that its scripts draw.
pub(super) fn write(title: &str, sections: &[Section], data: &str, out: &mut dyn Write) -> io::Result<()> {
    let links: String = sections
        .iter()
        .map(|section| format!("<li><a href=\"#{}\">{}</a></li>", section.id, section.title))
        .collect();
    let markup: String = sections
        .iter()
        .map(|Section { id, markup, .. }| {
            format!("<section id=\"{id}\" aria-labelledby=\"{id}-title\">\n{markup}</section>\n")
        })
        .collect();
    fill(out, |name| match name {
        "policy" => policy(),
        "title" => escape(title),
        "version" => env!("CARGO_PKG_VERSION").into(),
        "style" => STYLE.into(),
        "links" => links.clone(),
        "sections" => markup.clone(),
        "data" => escape_json(data),
        "script" => SCRIPT.into(),
        // Not a placeholder of the template; a test counts the placeholders.
        _ => String::new(),
    })
}

/// Writes the template with each `{{name}}` replaced by its text. Inserted text is not expanded again.
fn fill(out: &mut dyn Write, text_of: impl Fn(&str) -> String) -> io::Result<()> {
    let mut rest = TEMPLATE;
    while let Some((before, after)) = rest.split_once("{{") {
        out.write_all(before.as_bytes())?;
        let (name, after) = after.split_once("}}").unwrap_or((after, ""));
        out.write_all(text_of(name).as_bytes())?;
        rest = after;
    }
    out.write_all(rest.as_bytes())
}

/// Content security policy: nothing is loaded, and only the style and the script of this program take effect, whatever
/// else the page contains.
fn policy() -> String {
    let hash = |text: &str| STANDARD.encode(Sha256::digest(text.as_bytes()));
    format!(
        "default-src 'none'; script-src 'sha256-{}'; style-src 'sha256-{}'; base-uri 'none'; form-action 'none'",
        hash(SCRIPT),
        hash(STYLE)
    )
}
