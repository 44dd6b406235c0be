//! Note about precisions for which a device class has no peak.
//!
//! The roofline uses the class's peak for the operator's precision if it has one, and otherwise the class's general
//! peak, which belongs to another precision. The times of such a plan may be wrong by a factor of several, so a note
//! reports it.

use std::collections::{BTreeMap, BTreeSet};

use stagewright_core::document::{
    ClassDocument, ClusterDocument, GraphDocument, OperatorDocument, Precision,
};

/// A one-line note on the precisions of a model for which a class of the cluster has no peak, and on the peaks used
/// instead. Classes with a single peak for all precisions are left out. `place` names an option.
pub(super) fn note(
    label: &str,
    graph: &GraphDocument,
    cluster: &ClusterDocument,
    place: impl Fn(&str) -> String,
) -> Option<String> {
    let used: BTreeSet<&str> = cluster.kinds.iter().map(|kind| kind.class.as_str()).collect();
    let mut lacking: Vec<String> = Vec::new();
    for (name, class) in cluster.classes.iter().filter(|(name, _)| used.contains(name.as_str())) {
        if class.peaks.is_empty() {
            continue;
        }
        let mut counts: BTreeMap<Precision, usize> = BTreeMap::new();
        for operator in graph.operators.iter().filter(|operator| is_priced(operator, name)) {
            if let Some(precision) =
                operator.precision.filter(|precision| !class.peaks.contains_key(precision))
            {
                *counts.entry(precision).or_default() += 1;
            }
        }
        let told = counts.iter().map(|(&precision, count)| {
            let operators = if *count == 1 { "operator" } else { "operators" };
            format!("{count} {} {operators} on {name}, {}", precision.name(), instead(class))
        });
        lacking.extend(told);
    }
    (!lacking.is_empty()).then(|| {
        let (lacking, option) = (lacking.join("; "), place("precision"));
        format!("{label}: no peak for the precision of {lacking}; {option} casts a model to another")
    })
}

/// Whether an operator's cost on a class depends on the class's peak.
fn is_priced(operator: &OperatorDocument, class: &str) -> bool {
    operator.flop.is_some_and(|flop| flop > 0.0)
        && !operator.seconds.contains_key(class)
        && !operator.unsupported.iter().any(|unsupported| unsupported == class)
}

/// Describes the peak that a class uses for a precision for which it has no peak of its own.
fn instead(class: &ClassDocument) -> String {
    let Some(peak) = class.peak_flops else { return "which cannot run them".to_owned() };
    match class.peaks.iter().find(|&(_, &other)| other == peak) {
        Some((&precision, _)) => format!("priced at its peak of {}", precision.name()),
        None => format!("priced at its general peak of {:.4} TFLOP/s", peak / 1e12),
    }
}
