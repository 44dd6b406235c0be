//! A plan as a self-contained HTML page: one file, without network or server.
//!
//! All text is markup that is written here, so it needs no JavaScript: figures, bars, how value and bound converged,
//! the comparison. The interactive parts are data, as JSON in the page: the operators by layer (`graph`), the step and
//! a period of the full pipeline (`step`, `steady`), which `page/*.js` draws. Pages of joint plans are in [`joint`],
//! those of local plans in [`local`], those of serving plans in [`serving`], those of runs in [`run`].
//!
//! Operator names come from untrusted files. They are escaped in markup. In data, every character that could end a
//! script is escaped, and the scripts turn names into text nodes only. A content security policy admits only the
//! script and the style of this program, by their SHA-256. All quantities are formatted here, by
//! [`units`](super::units), so that the page and the terminal agree; the scripts know no units.
//!
//! Literature: Content Security Policy Level 3 (W3C) for the hashes; the tree view pattern of the ARIA Authoring
//! Practices Guide (W3C) for the keyboard navigation.

mod bars;
mod comparison;
mod convergence;
mod devices;
mod figures;
mod graph;
mod groups;
pub mod joint;
pub mod local;
mod markup;
mod names;
mod origin;
pub mod run;
mod scene;
pub mod serving;
mod shell;
mod steady;
mod step;
mod summary;
mod tables;
mod timeline;

use std::io::{self, Write};

use stagewright_core::document::PlanDocument;
use stagewright_core::placement::Placement;
use stagewright_core::problem::Problem;

use super::comparison::Comparison;
use super::convergence::Convergence;
use super::steady::Steady;
use super::step::Step;
use origin::Origin;

/// Contents of a page.
#[derive(Debug, Clone, Copy)]
pub struct Page<'a> {
    /// Name of the model.
    pub model: &'a str,
    /// Name of the cluster.
    pub cluster: &'a str,
    /// The problem.
    pub problem: &'a Problem,
    /// The plan document; it may report that there is no plan.
    pub document: &'a PlanDocument,
    /// The placement, if there is a plan.
    pub placement: Option<&'a Placement>,
    /// One step of the placement.
    pub step: Option<&'a Step<'a>>,
    /// Convergence of the solve, if it was recorded.
    pub convergence: Option<&'a Convergence>,
    /// Comparison with other solutions of the same problem.
    pub comparison: Option<&'a Comparison>,
}

/// Writes a page, in O((operators + pins) log operators).
///
/// # Errors
/// If the writer fails.
pub fn write(page: &Page, out: &mut dyn Write) -> io::Result<()> {
    let steady = page.placement.map(|placement| Steady::new(page.problem, placement));
    let sections = [
        Some(summary::section(page)),
        devices::section(page),
        graph::section(page),
        step::section(page, steady.as_ref()),
        page.convergence.and_then(|convergence| convergence::section(convergence, page.document)),
        page.comparison.map(comparison::section),
        Some(
            Origin::of_placement(page.document, page.problem.cluster().document())
                .or_of(page.comparison)
                .section(),
        ),
    ];
    let sections: Vec<shell::Section> = sections.into_iter().flatten().collect();
    let title = summary::title(page.model, Some(page.cluster));
    shell::write(&title, &sections, &scene::data(page, steady.as_ref())?, out)
}

/// Returns a page as a string.
///
/// # Panics
/// Never: writing to memory cannot fail, and all of the page is UTF-8.
pub fn page(page: &Page) -> String {
    let mut bytes = Vec::new();
    write(page, &mut bytes).expect("memory takes what is written");
    String::from_utf8(bytes).expect("text is written")
}

#[cfg(test)]
mod tests;
