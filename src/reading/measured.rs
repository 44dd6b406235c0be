//! Measurements applied to a model and a cluster.

use std::collections::BTreeMap;

use stagewright_core::cost::operator_seconds;
use stagewright_core::document::{ClusterDocument, CostsDocument, GraphDocument, SourcesDocument};
use stagewright_core::placement::Placement;
use stagewright_core::problem::Problem;
use stagewright_costs::{Costs, Coverage, Source, Unmeasured, apply};
use stagewright_formats::Imported;

use crate::failure::Result;

/// Writes measurements, with their labels, into a model and a cluster, and the prices of what was not measured. Notes
/// report measurements that apply to nothing, and links that were replaced. `place` maps the name of an option in a
/// plan's `model` to the place where users give it.
///
/// # Errors
/// If the measurements contradict one another.
pub fn measured(
    model: &mut Imported,
    cluster: &mut ClusterDocument,
    documents: Vec<(String, CostsDocument)>,
    unmeasured: Unmeasured<'_>,
    notes: &mut Vec<String>,
    place: impl Fn(&str) -> String,
) -> Result<Coverage> {
    let (before, is_given) = (priced(model), !documents.is_empty());
    let coverage = apply(&mut model.graph, cluster, &Costs::new(documents)?, unmeasured);
    let is_applied = match coverage.has_predicted {
        // Predictions price operators as well.
        true => coverage
            .operators
            .values()
            .flatten()
            .any(|source| matches!(source, Some(Source::Measured | Source::Interpolated))),
        false => priced(model) != before,
    };
    if is_given && !is_applied && !coverage.is_calibrated && coverage.links.is_empty() {
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

/// Shares of a placement's compute time by source of cost; `None` if there is no compute time.
pub fn sources(problem: &Problem, placement: &Placement, coverage: &Coverage) -> Option<SourcesDocument> {
    let (graph, cluster) = (problem.graph(), problem.cluster());
    let on = |op| cluster.kind(cluster.kind_of(placement.device_of(op))).class.as_str();
    let operators = graph.operators().map(|op| (op.index(), on(op)));
    sources_on(graph.document(), cluster.document(), operators, coverage)
}

/// Shares of the operators' seconds by source of cost, for operators given by their index in the graph, each with the
/// name of its device class. `None` if they take no time, or a class cannot run its operator.
pub fn sources_on<'c>(
    graph: &GraphDocument,
    cluster: &ClusterDocument,
    operators: impl IntoIterator<Item = (usize, &'c str)>,
    coverage: &Coverage,
) -> Option<SourcesDocument> {
    let (mut sums, mut spread): (BTreeMap<Source, f64>, f64) = (BTreeMap::new(), 0.0);
    for (index, class) in operators {
        let source = coverage.operators.get(class)?.get(index).copied().flatten()?;
        let seconds = operator_seconds(&graph.operators[index], class, cluster.classes.get(class))?;
        *sums.entry(source).or_default() += seconds;
        spread +=
            seconds * coverage.spreads.get(class).and_then(|spreads| spreads.get(index)).unwrap_or(&0.0);
    }
    shares(&sums, spread)
}

/// Shares of a sum of seconds, with the sum of learned seconds times their spreads; `None` if the sum is zero.
fn shares(sums: &BTreeMap<Source, f64>, spread: f64) -> Option<SourcesDocument> {
    let total: f64 = sums.values().sum();
    let share = |source| sums.get(&source).map_or(0.0, |sum| sum / total);
    let shares = SourcesDocument {
        measured: share(Source::Measured),
        interpolated: share(Source::Interpolated),
        learned: share(Source::Learned),
        learned_spread: sums.get(&Source::Learned).filter(|sum| **sum > 0.0).map(|sum| spread / sum),
        fitted: share(Source::Fitted),
        guessed: share(Source::Guessed),
    };
    (total > 0.0).then_some(shares)
}

/// Number of times, in seconds, that a model states for its operators, over all classes.
fn priced(model: &Imported) -> usize {
    model.graph.operators.iter().map(|operator| operator.seconds.len()).sum()
}
