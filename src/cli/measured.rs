//! `--costs`: measurements applied to a model and a cluster.

use std::collections::BTreeMap;
use std::path::PathBuf;

use stagewright::core::document::{ClusterDocument, CostsDocument, SourcesDocument};
use stagewright::core::placement::Placement;
use stagewright::core::problem::Problem;
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

/// Writes the measurements of files into a model and a cluster. Notes say if they apply to nothing, and whose links they
/// replace.
pub(crate) fn on(model: &mut Imported, cluster: &mut ClusterDocument, paths: &[PathBuf]) -> Result<Coverage> {
    let documents = documents(paths)?;
    let before = priced(model);
    let coverage = apply(&mut model.graph, cluster, &Costs::new(documents)?);
    if !paths.is_empty() && priced(model) == before && coverage.links.is_empty() {
        let classes: Vec<&str> = coverage.operators.keys().map(String::as_str).collect();
        output::note(&format!(
            "note: no measurement of --costs is of an operator or a kernel of the model on {}",
            classes.join(", ")
        ));
    }
    if !coverage.links.is_empty() {
        output::note(&format!("note: the links of {} are those of --costs", coverage.links.join(", ")));
    }
    Ok(coverage)
}

/// Shares of a plan's compute time by source; `None` if all of it is measured, or there is none.
pub(crate) fn sources(
    problem: &Problem,
    placement: &Placement,
    coverage: &Coverage,
) -> Option<SourcesDocument> {
    let mut sums: BTreeMap<Source, f64> = BTreeMap::new();
    for op in problem.graph().operators() {
        let pool = problem.pool_of(placement.device_of(op));
        let class = &problem.cluster().kind(problem.pools()[pool].kind).class;
        let source = coverage.operators.get(class)?.get(op.index()).copied().flatten()?;
        *sums.entry(source).or_default() += problem.seconds(op, pool).unwrap_or(0.0);
    }
    let total: f64 = sums.values().sum();
    let share = |source| sums.get(&source).map_or(0.0, |sum| sum / total);
    let shares = SourcesDocument {
        measured: share(Source::Measured),
        interpolated: share(Source::Interpolated),
        fitted: share(Source::Fitted),
        guessed: share(Source::Guessed),
    };
    (total > 0.0 && shares.measured < 1.0).then_some(shares)
}

/// Number of seconds in a model, over all operators and classes.
fn priced(model: &Imported) -> usize {
    model.graph.operators.iter().map(|operator| operator.seconds.len()).sum()
}
