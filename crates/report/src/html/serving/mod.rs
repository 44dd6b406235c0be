//! The page of a serving plan: its pools, the replicas with their stages, and what other limits on times give.

mod limits;
mod pools;
mod replicas;
mod summary;

use std::io::{self, Write};

use serde::Serialize;
use stagewright_core::document::ServingPlanDocument;

use super::devices::colour;
use super::origin::Origin;
use super::{shell, summary::title};

/// Contents of a page.
#[derive(Debug, Clone, Copy)]
pub struct ServingPage<'a> {
    /// The plan; it may report that there is none.
    pub document: &'a ServingPlanDocument,
    /// Memory of a device of every stage, by replica; empty if it is unknown.
    pub memory: &'a [Vec<StageMemory>],
    /// Answers to changed questions, if they were asked.
    pub explained: Option<&'a Explained>,
}

/// Memory of a device of a stage, in bytes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StageMemory {
    /// Weights.
    pub weights: f64,
    /// Caches of a full batch.
    pub caches: f64,
    /// Room for caches beside the weights.
    pub room: f64,
    /// All memory of the device.
    pub memory: f64,
}

/// Answers to questions beside that of a plan.
#[derive(Debug, Clone, Default)]
pub struct Explained {
    /// Names of what keeps each replica from serving more.
    pub binds: Vec<Vec<&'static str>>,
    /// Changed clusters.
    pub what_ifs: Vec<WhatIf>,
    /// Changed limits on times.
    pub frontier: Vec<Point>,
}

/// A change, and the value of the best plan under it.
#[derive(Debug, Clone, Serialize)]
pub struct WhatIf {
    /// The change in words.
    pub change: String,
    /// The value; `None` without a plan.
    pub value: Option<f64>,
}

/// Limits on times, and the value of the best plan within them.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Point {
    /// Limit on the time to the first token, in seconds.
    pub ttft_s: Option<f64>,
    /// Limit on the time between tokens, in seconds.
    pub tpot_s: Option<f64>,
    /// The value; `None` without a plan.
    pub value: Option<f64>,
}

/// Writes a page, in O(stages · kinds).
///
/// # Errors
/// If the writer fails.
pub fn write(page: &ServingPage, out: &mut dyn Write) -> io::Result<()> {
    let plan = page.document;
    let has_replicas = !plan.replicas.is_empty();
    let sections = [
        Some(summary::section(plan)),
        has_replicas.then(|| pools::section(plan)),
        has_replicas.then(|| replicas::section(page)),
        page.explained.and_then(|explained| limits::section(plan, explained)),
        Some(Origin::of_serving(plan).section()),
    ];
    let sections: Vec<shell::Section> = sections.into_iter().flatten().collect();
    shell::write(&title(&plan.model, Some(&plan.cluster.name)), &sections, "null", out)
}

/// Classes of the colour of a kind.
fn colour_of(plan: &ServingPlanDocument, kind: &str) -> String {
    let index = plan.cluster.kinds.iter().position(|known| known.name == kind);
    index.map_or_else(|| "rest".to_owned(), colour)
}

#[cfg(test)]
mod tests;
