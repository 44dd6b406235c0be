//! The page of a joint plan: stages, the configurations of layers, and an iteration.

mod layers;
mod parts;
mod stages;
mod summary;
mod timeline;

use std::io::{self, Write};

use stagewright_core::document::{JointPartsDocument, JointPlanDocument};

use super::origin::Origin;
use super::{comparison, shell, summary::title};
use crate::comparison::Comparison;
use crate::joint::JointFigures;

/// Contents of a page.
#[derive(Debug, Clone, Copy)]
pub struct JointPage<'a> {
    /// Name of the model.
    pub model: &'a str,
    /// Name of the cluster; `None` if the devices are those in the model's file.
    pub cluster: Option<&'a str>,
    /// The plan; it may report that there is none.
    pub document: &'a JointPlanDocument,
    /// Time and memory of every stage by part, if known.
    pub parts: Option<&'a [JointPartsDocument]>,
    /// Figures of the model, for the rate.
    pub figures: JointFigures,
    /// Comparison with other plans for the same question.
    pub comparison: Option<&'a Comparison>,
}

/// Writes a page, in O(layers + tasks log tasks), where tasks are those of an iteration.
///
/// # Errors
/// If the writer fails.
pub fn write(page: &JointPage, out: &mut dyn Write) -> io::Result<()> {
    let (timeline, data) = timeline::section(page)?;
    let sections = [
        Some(summary::section(page)),
        page.comparison.map(comparison::section),
        stages::section(page),
        layers::section(page),
        timeline,
        Some(Origin::of_joint(page.document).or_of(page.comparison).section()),
    ];
    let sections: Vec<shell::Section> = sections.into_iter().flatten().collect();
    shell::write(&title(page.model, page.cluster), &sections, &data, out)
}

#[cfg(test)]
mod tests;
