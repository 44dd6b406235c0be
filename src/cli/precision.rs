//! Telling of numbers that a device has no peak for.
//!
//! The roofline takes the peak of an operator's precision where the device class has one, and else the class's own peak,
//! which is that of some other precision. A plan made at such prices may be several times off, so it is told.

use std::collections::{BTreeMap, BTreeSet};

use stagewright::core::document::{
    ClassDocument, ClusterDocument, GraphDocument, OperatorDocument, Precision,
};

use super::output;

/// Says on standard error, in one line, which precisions of a model lack a peak on which classes of the cluster, and what
/// prices them instead. A class that tells no precisions apart was given one peak for all, and nothing is told.
pub(crate) fn tell(label: &str, graph: &GraphDocument, cluster: &ClusterDocument) {
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
    if !lacking.is_empty() {
        output::note(&format!(
            "note: {label}: no peak for the precision of {}; --precision casts an ONNX model",
            lacking.join("; ")
        ));
    }
}

/// Whether the peak of a class enters the price of an operator.
fn is_priced(operator: &OperatorDocument, class: &str) -> bool {
    operator.flop.is_some_and(|flop| flop > 0.0)
        && !operator.seconds.contains_key(class)
        && !operator.unsupported.iter().any(|unsupported| unsupported == class)
}

/// What a class has in the place of a peak of some precision.
fn instead(class: &ClassDocument) -> String {
    let Some(peak) = class.peak_flops else { return "which cannot run them".to_owned() };
    match class.peaks.iter().find(|&(_, &other)| other == peak) {
        Some((&precision, _)) => format!("priced at its peak of {}", precision.name()),
        None => format!("priced at its general peak of {:.4} TFLOP/s", peak / 1e12),
    }
}
