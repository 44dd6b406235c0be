//! The page of a local plan: its command line, the layers by device, and memory and time by device.

mod layers;
mod memory;
mod summary;

use std::io::{self, Write};

use stagewright_core::document::{LocalMemoryDocument, LocalPlanDocument, LocalSettingDocument};

use super::devices::colour;
use super::origin::Origin;
use super::{comparison, shell, summary::title};
use crate::comparison::Comparison;
use crate::local::LocalTimes;

/// Contents of a page.
#[derive(Debug, Clone, Copy)]
pub struct LocalPage<'a> {
    /// The plan; it may report that there is none.
    pub document: &'a LocalPlanDocument,
    /// Seconds of a token by where they pass, if known.
    pub times: Option<&'a LocalTimes>,
    /// Comparison with other settings for the same question.
    pub comparison: Option<&'a Comparison>,
}

/// Writes a page, in O(layers · overrides).
///
/// # Errors
/// If the writer fails.
pub fn write(page: &LocalPage, out: &mut dyn Write) -> io::Result<()> {
    let plan = page.document;
    let setting = plan.setting.as_ref();
    let sections = [
        Some(summary::section(page)),
        setting.map(summary::command),
        page.comparison.map(comparison::section),
        setting.map(layers::section),
        setting.map(|setting| memory::section(page, setting)),
        Some(Origin::of_local(plan).or_of(page.comparison).section()),
    ];
    let sections: Vec<shell::Section> = sections.into_iter().flatten().collect();
    shell::write(&title(&plan.model, Some(&plan.cluster.name)), &sections, "null", out)
}

/// The host and the devices in the order of the setting, each with the classes of its colour.
fn memories(setting: &LocalSettingDocument) -> Vec<(&LocalMemoryDocument, String)> {
    let devices = setting.devices.iter().enumerate().map(|(index, device)| (device, colour(index)));
    std::iter::once((&setting.host, "rest".to_owned())).chain(devices).collect()
}

#[cfg(test)]
mod tests;
