//! A plan as a page: one HTML file that needs nothing else, no network and no server.
//!
//! What there is to read is markup, written here, and is there without JavaScript: figures, bars, how value and
//! bound converged, the comparison. What there is to explore is data, as JSON in the page: the operators by layer
//! (`graph`), the step and a period of the full pipeline (`timeline`, `steady`), which `page/*.js` draws.
//!
//! Names of operators come from files that nobody has looked at. In markup they are escaped, in data every
//! character that could end a script is, the scripts make text nodes of them and nothing else, and a
//! content security policy lets no script and no style run but the two that are part of this program, by
//! their SHA-256. Every quantity is put into words here, by [`units`](super::units), so that the page and the
//! terminal say the same; the scripts know no units.
//!
//! Literature: Content Security Policy Level 3 (W3C) for the hashes; the tree view pattern of the ARIA Authoring
//! Practices Guide (W3C) for the keys.

mod comparison;
mod convergence;
mod devices;
mod figures;
mod graph;
mod groups;
mod markup;
mod names;
mod scene;
mod shell;
mod steady;
mod summary;
mod timeline;

use std::io::{self, Write};

use stagewright_core::document::PlanDocument;
use stagewright_core::placement::Placement;
use stagewright_core::problem::Problem;

use super::comparison::Comparison;
use super::convergence::Convergence;
use super::steady::Steady;
use super::step::Step;

/// What a page shows.
#[derive(Debug, Clone, Copy)]
pub struct Page<'a> {
    /// What the model is called.
    pub model: &'a str,
    /// What the cluster is called.
    pub cluster: &'a str,
    /// The problem.
    pub problem: &'a Problem,
    /// The answer, which may be that there is no plan.
    pub document: &'a PlanDocument,
    /// The placement, where there is a plan.
    pub placement: Option<&'a Placement>,
    /// One step of that placement.
    pub step: Option<&'a Step<'a>>,
    /// How the solve went, where it was watched.
    pub convergence: Option<&'a Convergence>,
    /// Other answers to the same problem.
    pub comparison: Option<&'a Comparison>,
}

/// Writes a page, in O((operators + pins) log operators).
///
/// # Errors
/// What the writer says.
pub fn write(page: &Page, out: &mut dyn Write) -> io::Result<()> {
    let steady = page.placement.map(|placement| Steady::of(page.problem, placement));
    let sections = [
        Some(summary::section(page)),
        devices::section(page),
        graph::section(page),
        timeline::section(page, steady.as_ref()),
        page.convergence.and_then(|convergence| convergence::section(convergence, page.document)),
        page.comparison.map(comparison::section),
    ];
    let sections: Vec<shell::Section> = sections.into_iter().flatten().collect();
    shell::write(page, &sections, &scene::data(page, steady.as_ref())?, out)
}

/// A page as a text.
///
/// # Panics
/// Never: a text in memory takes whatever is written to it, and all of it is UTF-8.
pub fn page(page: &Page) -> String {
    let mut bytes = Vec::new();
    write(page, &mut bytes).expect("memory takes what is written");
    String::from_utf8(bytes).expect("text is written")
}

#[cfg(test)]
mod tests;
