//! `--costs`: measurements applied to a model and a cluster.

use std::path::PathBuf;

use stagewright::core::document::{ClusterDocument, CostsDocument};
use stagewright::costs::import;
use stagewright::costs::{Costs, Coverage, Source, apply};
use stagewright::formats::Imported;

use super::error::Result;
use super::files::{Input, read};
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

/// Writes the measurements of files into a model and a cluster. A note says if they apply to nothing.
pub(crate) fn on(model: &mut Imported, cluster: &mut ClusterDocument, paths: &[PathBuf]) -> Result<Coverage> {
    let documents = documents(paths)?;
    let before = counted(&apply(&mut model.graph.clone(), &mut cluster.clone(), &Costs::default()));
    let coverage = apply(&mut model.graph, cluster, &Costs::new(documents)?);
    if !paths.is_empty() && counted(&coverage) == before && coverage.links.is_empty() {
        let classes: Vec<&str> = coverage.operators.keys().map(String::as_str).collect();
        output::note(&format!(
            "note: no measurement of --costs is of an operator or a kernel of the model on {}",
            classes.join(", ")
        ));
    }
    Ok(coverage)
}

/// Number of operators, over all classes, whose seconds come from measurements.
fn counted(coverage: &Coverage) -> usize {
    let sources = coverage.operators.values().flatten().flatten();
    sources.filter(|source| matches!(source, Source::Measured | Source::Interpolated)).count()
}
