//! Measured costs of a model on a cluster.

use std::collections::BTreeMap;

use stagewright_core::cost;
use stagewright_core::document::{ClassDocument, ClusterDocument, GraphDocument, OperatorDocument};

use crate::costs::at_one_precision;
use crate::unmeasured::{Predictor, Unmeasured};
use crate::{Costs, Estimate, Source};

/// Source of the seconds of operators.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Coverage {
    /// Source of each operator of the graph, in its order, by device class; `None` if the class cannot run it.
    pub operators: BTreeMap<String, Vec<Option<Source>>>,
    /// Relative spread of the learned seconds of each operator by device class, in the order of the graph; zero for
    /// seconds from other sources. Empty if what was not measured has stated prices.
    pub spreads: BTreeMap<String, Vec<f64>>,
    /// Names of the kinds whose links were replaced by measured ones.
    pub links: Vec<String>,
    /// Whether any seconds are those of networks or of closed forms of other devices.
    pub has_predicted: bool,
    /// Whether measurements calibrated networks.
    pub is_calibrated: bool,
}

impl Coverage {
    /// Seconds on a class by source, given the seconds of each operator by its index. O(operators).
    pub fn seconds(&self, class: &str, seconds: impl Fn(usize) -> f64) -> BTreeMap<Source, f64> {
        let mut sums = BTreeMap::new();
        for (index, source) in self.operators.get(class).into_iter().flatten().enumerate() {
            if let Some(source) = source {
                *sums.entry(*source).or_insert(0.0) += seconds(index);
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
/// For every operator and every class that can run it, the first of these sources that applies gives the seconds:
///
/// 1. seconds of the operator in the model: kept;
/// 2. seconds of an operator of the same name in the measurements;
/// 3. the sum of its `kernels`, if all are found at its precision, plus the seconds of `bytes_moved` beyond the
///    kernels' operands at the memory bandwidth of the class, plus the launch overhead of every launch beyond the
///    kernels: a kernel includes its own. [`Unmeasured`] says what may price a kernel that is not in the measurements, if the class is
///    a device of the catalogue with the catalogue's figures. Networks also replace what tables of fewer than 200 rows do not have,
///    after a calibration by their rows;
/// 4. nothing: the model is priced by the closed forms or by the roofline of the class.
///
/// The rule of [`Costs`] says which measurements of other classes apply, and when the class gives the precision. The
/// measured seconds from device to device replace latency and bandwidth of the links of kinds of the class. Hosts keep
/// their links and groups their uplinks: an uplink is shared, and was not measured. O(classes · operators) look-ups.
pub fn apply(
    graph: &mut GraphDocument,
    cluster: &mut ClusterDocument,
    costs: &Costs,
    unmeasured: Unmeasured<'_>,
) -> Coverage {
    let mut coverage = Coverage::default();
    let mut classes: Vec<&str> = cluster.kinds.iter().map(|kind| kind.class.as_str()).collect();
    classes.extend(cluster.classes.keys().map(String::as_str));
    classes.sort_unstable();
    classes.dedup();
    for class in classes {
        let document = cluster.classes.get(class);
        let mut predictor = document.and_then(|document| Predictor::new(unmeasured, class, document, costs));
        let mut spreads = vec![0.0; graph.operators.len()];
        let sources = graph
            .operators
            .iter_mut()
            .zip(&mut spreads)
            .map(|(operator, spread)| {
                if operator.unsupported.iter().any(|name| name == class) {
                    return None;
                }
                if operator.seconds.contains_key(class) {
                    return Some(Source::Measured);
                }
                let found = estimate(operator, class, document, costs, predictor.as_mut());
                if let Some((Estimate { seconds, source }, of_networks)) = found {
                    operator.seconds.insert(class.to_owned(), seconds);
                    *spread = of_networks;
                    return Some(source);
                }
                cost::operator_seconds(operator, class, document)?;
                match document.and_then(|document| cost::fitted_seconds(operator, document)) {
                    Some(_) => Some(Source::Fitted),
                    None => Some(Source::Guessed),
                }
            })
            .collect();
        coverage.operators.insert(class.to_owned(), sources);
        if let Some(predictor) = predictor {
            coverage.has_predicted |= predictor.has_predicted;
            coverage.is_calibrated |= predictor.is_calibrated();
            coverage.spreads.insert(class.to_owned(), spreads);
        }
    }
    for kind in cluster.kinds.iter_mut().filter(|kind| !kind.host) {
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

/// Seconds of an operator in the measurements, or predicted where they are sparse, with the relative spread of learned seconds.
fn estimate(
    operator: &OperatorDocument,
    class: &str,
    document: Option<&ClassDocument>,
    costs: &Costs,
    mut predictor: Option<&mut Predictor<'_>>,
) -> Option<(Estimate, f64)> {
    if let Some(seconds) = costs.operator(class, &operator.name) {
        return Some((Estimate { seconds, source: Source::Measured }, 0.0));
    }
    if operator.kernels.is_empty() {
        return None;
    }
    let precision = operator.precision.or_else(|| Some(at_one_precision(class)?.1))?;
    let mut sum = Estimate { seconds: 0.0, source: Source::Measured };
    let mut spread = 0.0;
    for launch in &operator.kernels {
        let in_tables = costs.kernel(class, launch, precision);
        let is_sparse = in_tables.is_none_or(|estimate| estimate.source != Source::Measured)
            && !costs.is_dense(class, launch, precision);
        let learned =
            predictor.as_mut().filter(|_| is_sparse).and_then(|found| found.learned(launch, precision));
        let closed = |predictor: &mut Predictor<'_>| predictor.closed(launch, precision, document?);
        let Estimate { seconds, source } = match (learned, in_tables) {
            (Some((seconds, of_networks)), _) => {
                spread += seconds * of_networks;
                Estimate { seconds, source: Source::Learned }
            }
            (None, Some(in_tables)) => in_tables,
            (None, None) => {
                let seconds = predictor.as_deref_mut().and_then(closed)?;
                Estimate { seconds, source: Source::Fitted }
            }
        };
        sum.seconds += seconds;
        sum.source = sum.source.max(source);
    }
    let spread = spread / sum.seconds;
    sum.seconds += cost::beyond_kernels(operator, document.unwrap_or(&ClassDocument::default()), precision)?;
    sum.seconds.is_finite().then_some((sum, spread))
}
