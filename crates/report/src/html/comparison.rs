//! The table of a comparison.

use std::fmt::Write;

use super::markup::{self, escape};
use super::names::visible;
use super::shell::Section;
use super::summary;
use crate::comparison::{Comparison, Row, facts_of_figures, some, value};

/// Columns after the name, each with whether it contains words rather than numbers.
const COLUMNS: [(&str, bool); 9] = [
    ("status", true),
    ("value", false),
    ("bound", false),
    ("gap", false),
    ("speed-up", false),
    ("communication", false),
    ("memory", false),
    ("idle", false),
    ("solved in", false),
];

/// Comparison section, with one row per contender.
pub(super) fn section(comparison: &Comparison) -> Section {
    let mut markup = String::from("<h2 id=\"comparison-title\">Comparison</h2>\n");
    if let Some(baseline) = &comparison.baseline {
        // Writing to a string cannot fail, here and below.
        let _ = writeln!(
            markup,
            "<p class=\"lead\">Speed-ups are over <bdi>{}</bdi>.</p>",
            escape(&visible(baseline))
        );
    }
    markup.push_str(
        "<div class=\"scroll\" role=\"region\" tabindex=\"0\" aria-label=\"Comparison\">\n\
         <table id=\"comparison-table\"><caption class=\"hidden\">Contenders, the best first</caption><thead><tr>\
         <th scope=\"col\">contender</th>",
    );
    for (name, is_word) in COLUMNS {
        let class = if is_word { " class=\"word\"" } else { "" };
        let _ = write!(markup, "<th scope=\"col\"{class}>{name}</th>");
    }
    markup.push_str("</tr></thead><tbody>\n");
    for row in &comparison.rows {
        let _ = write!(markup, "<tr><th scope=\"row\"><bdi>{}</bdi>", escape(&visible(&row.name)));
        if let Some(reason) = row.reason.as_deref().and_then(|reason| reason.lines().next()) {
            let _ = write!(markup, "<small><bdi>{}</bdi></small>", escape(&visible(reason)));
        }
        markup.push_str("</th>");
        for ((_, is_word), cell) in COLUMNS.iter().zip(cells(row)) {
            let class = if *is_word { " class=\"word\"" } else { "" };
            let _ = write!(markup, "<td{class}>{cell}</td>");
        }
        markup.push_str("</tr>\n");
    }
    markup.push_str("</tbody></table>\n</div>\n");
    // The section of the origin states the rest.
    let facts = facts_of_figures(comparison).into_iter();
    let facts: Vec<_> = facts.map(|(name, fact)| (name, escape(&visible(&fact)))).collect();
    markup.push_str(&summary::facts(&facts));
    Section { id: "comparison", title: "Comparison", markup }
}

fn cells(row: &Row) -> [String; COLUMNS.len()] {
    let seconds = |value: Option<f64>| value.map(markup::seconds).unwrap_or_default();
    let percent = |value: Option<f64>| value.map(markup::percent).unwrap_or_default();
    let split = row.split.map(|split| format!(", {}", split.name())).unwrap_or_default();
    let memory = row.memory_bytes.map(markup::bytes).unwrap_or_default();
    let share = row.memory_share.map(|share| format!(" <small>{}</small>", markup::percent(share)));
    [
        format!("{}{split}{}", row.status.name(), broken(row)),
        match (row.value_s, row.interval_s) {
            (Some(_), Some(_)) => escape(&value(row).unwrap_or_default()),
            (value, _) => seconds(value) + &escape(&some(row)),
        },
        seconds(row.bound_s),
        percent(row.gap),
        row.speedup.map(|speedup| format!("{speedup:.2}×")).unwrap_or_default(),
        seconds(row.communication_s),
        format!("{memory}{}", share.unwrap_or_default()),
        percent(row.idle_share),
        seconds(row.seconds),
    ]
}

/// Rules that a plan breaks, if any.
fn broken(row: &Row) -> String {
    if row.breaks.is_empty() { String::new() } else { escape(&format!(": breaks {}", row.breaks.join(", "))) }
}
