//! `--costs`: files of measurements.

use std::path::PathBuf;

use stagewright::core::document::{ClusterDocument, CostsDocument};
use stagewright::costs::{Coverage, import};
use stagewright::formats::Imported;
use stagewright::reading::measured;

use super::error::Result;
use super::files::{Input, read};
use super::model_options::option;
use super::output;

/// Reads files of measurements, with their labels.
pub(crate) fn documents(paths: &[PathBuf]) -> Result<Vec<(String, CostsDocument)>> {
    let mut documents = Vec::new();
    for path in paths {
        let Input { label, bytes } = read(path)?;
        let document = import::import(&label, &bytes, &import::Options::default())?;
        documents.push((label, document));
    }
    Ok(documents)
}

/// Writes the measurements of files into a model and a cluster, with notes on standard error.
pub(crate) fn on(model: &mut Imported, cluster: &mut ClusterDocument, paths: &[PathBuf]) -> Result<Coverage> {
    let mut notes = Vec::new();
    let coverage = measured(model, cluster, documents(paths)?, &mut notes, option)?;
    output::notes(&notes);
    Ok(coverage)
}
