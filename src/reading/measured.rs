//! Measurements applied to a model and a cluster.

use std::collections::BTreeMap;

use stagewright_core::document::{ClusterDocument, CostsDocument, SourcesDocument};
use stagewright_core::placement::Placement;
use stagewright_core::problem::Problem;
use stagewright_costs::{Costs, Coverage, Source, apply};
use stagewright_formats::Imported;

use crate::failure::Result;

/// Writes measurements, with their labels, into a model and a cluster. Notes say if they apply to nothing, and whose links
/// they replace. `place` is where an option is given, by its name in a plan's `model`.
///
/// # Errors
/// If the measurements contradict one another.
pub fn measured(
    model: &mut Imported,
    cluster: &mut ClusterDocument,
    documents: Vec<(String, CostsDocument)>,
    notes: &mut Vec<String>,
    place: impl Fn(&str) -> String,
) -> Result<Coverage> {
    let (before, is_given) = (priced(model), !documents.is_empty());
    let coverage = apply(&mut model.graph, cluster, &Costs::new(documents)?);
    if is_given && priced(model) == before && coverage.links.is_empty() {
        let classes: Vec<&str> = coverage.operators.keys().map(String::as_str).collect();
        let classes = classes.join(", ");
        let costs = place("costs");
        notes.push(format!(
            "no measurement of {costs} is of an operator or a kernel of the model on {classes}"
        ));
    }
    if !coverage.links.is_empty() {
        notes.push(format!("the links of {} are those of {}", coverage.links.join(", "), place("costs")));
    }
    Ok(coverage)
}

/// Shares of a plan's compute time by source; `None` if all of it is measured, or there is none.
pub fn sources(problem: &Problem, placement: &Placement, coverage: &Coverage) -> Option<SourcesDocument> {
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
