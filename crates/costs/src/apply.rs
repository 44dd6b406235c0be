//! Measured costs of a model on a cluster.

use std::collections::BTreeMap;

use stagewright_core::cost;
use stagewright_core::document::{ClassDocument, ClusterDocument, GraphDocument, OperatorDocument};
use stagewright_core::kernel;

use crate::{Costs, Estimate, Source};

/// Where the seconds of operators come from.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Coverage {
    /// Source of each operator of the graph, in its order, by device class; `None` if the class cannot run it.
    pub operators: BTreeMap<String, Vec<Option<Source>>>,
    /// Names of the kinds whose link was replaced by measurements.
    pub links: Vec<String>,
}

impl Coverage {
    /// Seconds on a class by source, given the seconds of each operator by its index. O(operators).
    pub fn seconds(&self, class: &str, seconds: impl Fn(usize) -> f64) -> BTreeMap<Source, f64> {
        let mut sums = BTreeMap::new();
        for (at, source) in self.operators.get(class).into_iter().flatten().enumerate() {
            if let Some(source) = source {
                *sums.entry(*source).or_insert(0.0) += seconds(at);
            }
        }
        sums
    }

    /// Number of operators on a class by source. O(operators).
    pub fn counts(&self, class: &str) -> BTreeMap<Source, usize> {
        let mut counts = BTreeMap::new();
        for source in self.operators.get(class).into_iter().flatten().flatten() {
            *counts.entry(*source).or_insert(0) += 1;
        }
        counts
    }
}

/// Writes measured seconds into a model, for every class of a cluster, and measured links into the cluster.
///
/// For every operator and class that can run it, the first that applies:
///
/// 1. seconds of the operator in the model: kept;
/// 2. seconds of an operator of its name in the measurements;
/// 3. the sum of its `kernels`, if all are found at its precision, plus the seconds of `bytes_moved` beyond their operands
///    at the memory bandwidth of the class, plus the launch overhead of every launch beyond the kernels: a kernel includes
///    its own;
/// 4. nothing: the model is priced by the fits or by the roofline of the class.
///
/// An operator without a precision has that of the class, if its name ends in one. The measured seconds from device to
/// device replace latency and bandwidth of the links of kinds of the class. O(classes · operators) look-ups.
pub fn apply(graph: &mut GraphDocument, cluster: &mut ClusterDocument, costs: &Costs) -> Coverage {
    let mut coverage = Coverage::default();
    let mut classes: Vec<&str> = cluster.kinds.iter().map(|kind| kind.class.as_str()).collect();
    classes.extend(cluster.classes.keys().map(String::as_str));
    classes.sort_unstable();
    classes.dedup();
    for class in classes {
        let document = cluster.classes.get(class);
        let sources = graph
            .operators
            .iter_mut()
            .map(|operator| {
                if operator.unsupported.iter().any(|name| name == class) {
                    return None;
                }
                if operator.seconds.contains_key(class) {
                    return Some(Source::Measured);
                }
                if let Some(Estimate { seconds, source }) = estimate(operator, class, document, costs) {
                    operator.seconds.insert(class.to_owned(), seconds);
                    return Some(source);
                }
                let is_fitted = document.is_some_and(|document| has_fits(operator, document));
                Some(if is_fitted { Source::Fitted } else { Source::Guessed })
            })
            .collect();
        coverage.operators.insert(class.to_owned(), sources);
    }
    for kind in &mut cluster.kinds {
        let mut is_measured = false;
        if let Some(link) = costs.link(&kind.class, false) {
            kind.link = Some(link);
            is_measured = true;
        }
        if let (Some(server), Some(link)) = (&mut kind.server, costs.link(&kind.class, true)) {
            server.link = link;
            is_measured = true;
        }
        if is_measured {
            coverage.links.push(kind.name.clone());
        }
    }
    coverage
}

/// Seconds of an operator in the measurements.
fn estimate(
    operator: &OperatorDocument,
    class: &str,
    document: Option<&ClassDocument>,
    costs: &Costs,
) -> Option<Estimate> {
    if let Some(seconds) = costs.operator(class, &operator.name) {
        return Some(Estimate { seconds, source: Source::Measured });
    }
    if operator.kernels.is_empty() {
        return None;
    }
    let of_class = || {
        class.rsplit_once('-').and_then(|(_, suffix)| stagewright_core::document::Precision::named(suffix))
    };
    let precision = operator.precision.or_else(of_class)?;
    let mut sum = Estimate { seconds: 0.0, source: Source::Measured };
    for one in &operator.kernels {
        let Estimate { seconds, source } = costs.kernel(class, one, precision)?;
        sum.seconds += seconds;
        sum.source = sum.source.max(source);
    }
    sum.seconds += cost::beyond_kernels(operator, document.unwrap_or(&ClassDocument::default()), precision)?;
    sum.seconds.is_finite().then_some(sum)
}

/// Whether the fits of a class price an operator.
fn has_fits(operator: &OperatorDocument, class: &ClassDocument) -> bool {
    operator.precision.is_some_and(|precision| {
        !operator.kernels.is_empty()
            && operator.kernels.iter().all(|one| kernel::fit(class, one, precision).is_some())
    })
}
