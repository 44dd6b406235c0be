//! Seconds of every operator on every kind, and of every tensor over every link.
//!
//! The time of an operator is measured (`seconds` in the graph) or derived by the roofline
//!
//! ```text
//! max(flop / (peak · efficiency), bytes moved / memory bandwidth) + launches · launch overhead
//! ```
//!
//! (Williams, Waterman and Patterson, "Roofline", CACM 2009). The peak is the one that the class lists for the
//! operator's precision, otherwise the general peak of the class. If the operator names its library kernels and the
//! class has a fit for each of them at its precision ([`crate::kernel`]), the operator takes
//!
//! ```text
//! Σ fitted seconds + (bytes moved − operands of the kernels) / memory bandwidth + further launches · launch overhead
//! ```
//!
//! instead, where a negative difference counts as zero and each kernel includes its own launch. If a kind cannot run an
//! operator, the operator has no time there, rather than an infinite time.

use thiserror::Error;

use crate::cluster::Cluster;
use crate::document::{ClassDocument, LinkDocument, OperatorDocument, Pass, Precision};
use crate::graph::ClassId;
use crate::graph::{Graph, OpId, TensorId};
use crate::kernel;
use crate::tolerance::SMALLEST_SECONDS;

/// Error that arises when costs are derived.
#[derive(Debug, Clone, PartialEq, Error)]
#[non_exhaustive]
pub enum CostError {
    /// A kind without a link, for a tensor without a measured time for the kind's class.
    #[error(
        "kind `{kind}` has no link, and tensor {tensor} ({name}) no measured seconds for its class `{class}`"
    )]
    NoLink {
        /// The kind.
        kind: String,
        /// Class of the kind.
        class: String,
        /// Index of the tensor.
        tensor: usize,
        /// Name of the tensor.
        name: String,
    },
    /// A kind without a link, for a parameter whose gradient its devices may have to synchronise.
    #[error(
        "kind `{kind}` has no link over which to synchronise the gradient of the parameter `{parameter}`"
    )]
    NoLinkForGradient {
        /// The kind.
        kind: String,
        /// Name of the parameter.
        parameter: String,
    },
    /// Finite costs or bytes whose sum exceeds [`LARGEST_SUM`](crate::tolerance::LARGEST_SUM).
    #[error("{what} sum to {sum:e}, mostly from {largest}")]
    Overflow {
        /// The summed quantity.
        what: String,
        /// The sum.
        sum: f64,
        /// The operator or tensor with the largest share.
        largest: String,
    },
    /// A time above zero that is shorter than [`SMALLEST_SECONDS`].
    #[error("{what} takes {seconds:e} s; the shortest time above zero is {SMALLEST_SECONDS:e} s")]
    Underflow {
        /// The cost, and where it is incurred.
        what: String,
        /// The time in seconds.
        seconds: f64,
    },
}

/// One of the costs of a problem.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cost {
    /// Seconds of an operator on a kind.
    Operator(OpId, usize),
    /// Seconds of a tensor over the link of a kind.
    Transfer(TensorId, usize),
    /// Seconds of a tensor over the uplink of a group.
    Uplink(TensorId, usize),
    /// Seconds of the gradient of a shared parameter over the link of a kind.
    Gradient(usize, usize),
    /// Seconds of the gradient of a shared parameter over the uplink of a group.
    GradientUplink(usize, usize),
    /// Seconds in which the replicas of a stage on a kind synchronise.
    Replicas(usize),
}

/// Gives the name of a row or a column of a table.
type Naming<'a> = &'a dyn Fn(usize) -> String;

/// The cost tables of a graph on a cluster.
#[derive(Debug, Clone)]
pub struct CostTable {
    kinds: usize,
    groups: usize,
    seconds: Vec<Option<f64>>,
    transfer: Vec<f64>,
    uplink: Vec<f64>,
    /// `[parameter][kind]`.
    gradient: Vec<f64>,
    /// `[parameter][group]`.
    gradient_uplink: Vec<f64>,
}

impl CostTable {
    /// Derives the tables in time O((kinds + groups) · (operators + tensors)).
    ///
    /// # Errors
    /// If a transfer has neither a measured time nor a link.
    pub fn new(graph: &Graph, cluster: &Cluster) -> Result<CostTable, CostError> {
        let kinds = cluster.kind_count();
        let groups = cluster.group_count();
        let mut seconds = Vec::with_capacity(graph.operator_count() * kinds);
        let names = (0..kinds).map(|kind| &cluster.kind(kind).class);
        let classes: Vec<_> = names.map(|name| (name, cluster.document().classes.get(name))).collect();
        for op in graph.operators() {
            let operator = graph.operator(op);
            seconds.extend(classes.iter().map(|&(name, class)| operator_seconds(operator, name, class)));
        }
        let mut transfer = Vec::with_capacity(graph.tensor_count() * kinds);
        let mut uplink = Vec::with_capacity(graph.tensor_count() * groups);
        for tensor in graph.tensors() {
            for kind in 0..kinds {
                transfer.push(transfer_seconds(graph, cluster, tensor, kind)?);
            }
            for group in &cluster.document().groups {
                uplink.push(over(&group.uplink, graph.bytes(tensor)));
            }
        }
        let mut gradient = Vec::with_capacity(graph.parameters().len() * kinds);
        let mut gradient_uplink = Vec::with_capacity(graph.parameters().len() * groups);
        for parameter in 0..graph.parameters().len() {
            let bytes = gradient_bytes(graph, parameter);
            for kind in 0..kinds {
                gradient.push(gradient_seconds(graph, cluster, parameter, bytes, kind)?);
            }
            for group in &cluster.document().groups {
                gradient_uplink.push(bytes.map_or(0.0, |bytes| over(&group.uplink, bytes)));
            }
        }
        Ok(CostTable { kinds, groups, seconds, transfer, uplink, gradient, gradient_uplink })
    }

    /// Checks that no time is so short that its reciprocal, or its ratio to another time, is not finite. O((kinds +
    /// groups) · (operators + tensors)).
    ///
    /// # Errors
    /// [`CostError::Underflow`] for the first time that is too short.
    pub(crate) fn check_shortest(&self, graph: &Graph, cluster: &Cluster) -> Result<(), CostError> {
        let kind = |index: usize| format!("kind `{}`", cluster.kind(index).name);
        let group = |index: usize| format!("the uplink of group `{}`", cluster.document().groups[index].name);
        let operator = |index: usize| {
            let op = graph.operators().nth(index).map(|op| graph.operator(op).name.as_str());
            format!("operator `{}`", op.unwrap_or_default())
        };
        let tensor = |index: usize| {
            let tensor = graph.tensors().nth(index).map(|tensor| graph.tensor_name(tensor).to_string());
            format!("tensor {index} ({})", tensor.unwrap_or_default())
        };
        let parameter =
            |index: usize| format!("the gradient of parameter `{}`", graph.parameters()[index].name);
        let seconds: Vec<f64> = self.seconds.iter().map(|seconds| seconds.unwrap_or(0.0)).collect();
        let tables: [(&[f64], usize, Naming<'_>, Naming<'_>); 5] = [
            (&seconds, self.kinds, &operator, &kind),
            (&self.transfer, self.kinds, &tensor, &kind),
            (&self.uplink, self.groups, &tensor, &group),
            (&self.gradient, self.kinds, &parameter, &kind),
            (&self.gradient_uplink, self.groups, &parameter, &group),
        ];
        for (table, width, row, column) in tables {
            let is_short = |seconds: &f64| *seconds > 0.0 && *seconds < SMALLEST_SECONDS;
            if let Some(index) = table.iter().position(is_short) {
                let what = format!("{} on {}", row(index / width), column(index % width));
                return Err(CostError::Underflow { what, seconds: table[index] });
            }
        }
        Ok(())
    }

    /// Divides the costs that are incurred once per iteration among `microbatches`: updates of the parameters, tensors
    /// that only updates read or produce, and the synchronisation of gradients. O((kinds + groups) · (operators +
    /// tensors)).
    #[must_use]
    pub fn per_microbatch(mut self, graph: &Graph, microbatches: u32) -> CostTable {
        let share = 1.0 / f64::from(microbatches);
        let is_update = |op: OpId| graph.operator(op).pass == Pass::Update;
        for op in graph.operators().filter(|&op| is_update(op)) {
            let row = op.index() * self.kinds..(op.index() + 1) * self.kinds;
            self.seconds[row].iter_mut().flatten().for_each(|seconds| *seconds *= share);
        }
        for tensor in graph.tensors() {
            let readers = graph.consumers(tensor);
            let is_of_updates = !readers.is_empty() && readers.iter().all(|&op| is_update(op));
            if is_of_updates || is_update(graph.producer(tensor)) {
                let index = tensor.index();
                self.transfer[index * self.kinds..(index + 1) * self.kinds]
                    .iter_mut()
                    .for_each(|s| *s *= share);
                self.uplink[index * self.groups..(index + 1) * self.groups]
                    .iter_mut()
                    .for_each(|s| *s *= share);
            }
        }
        self.gradient.iter_mut().chain(&mut self.gradient_uplink).for_each(|seconds| *seconds *= share);
        self
    }

    /// Multiplies every cost by the factor that `factor` returns for it, in a fixed order. O((kinds + groups) ·
    /// (operators + tensors)).
    #[must_use]
    pub fn scaled(mut self, factor: &mut dyn FnMut(Cost) -> f64) -> CostTable {
        let (kinds, groups) = (self.kinds, self.groups);
        for (index, seconds) in self.seconds.iter_mut().enumerate() {
            // Called even for operators that a kind cannot run, so that the factors of other operators do not depend on
            // them.
            let factor = factor(Cost::Operator(OpId::new(index / kinds), index % kinds));
            seconds.iter_mut().for_each(|seconds| *seconds *= factor);
        }
        for (index, seconds) in self.transfer.iter_mut().enumerate() {
            *seconds *= factor(Cost::Transfer(TensorId::new(index / kinds), index % kinds));
        }
        for (index, seconds) in self.uplink.iter_mut().enumerate() {
            *seconds *= factor(Cost::Uplink(TensorId::new(index / groups), index % groups));
        }
        for (index, seconds) in self.gradient.iter_mut().enumerate() {
            *seconds *= factor(Cost::Gradient(index / kinds, index % kinds));
        }
        for (index, seconds) in self.gradient_uplink.iter_mut().enumerate() {
            *seconds *= factor(Cost::GradientUplink(index / groups, index % groups));
        }
        self
    }

    /// Seconds of an operator on a kind; `None` if the kind cannot run it.
    pub fn seconds(&self, op: OpId, kind: usize) -> Option<f64> {
        self.seconds[op.index() * self.kinds + kind]
    }

    /// Seconds to move a tensor once over the link of a kind; zero for a host.
    pub fn transfer(&self, tensor: TensorId, kind: usize) -> f64 {
        self.transfer[tensor.index() * self.kinds + kind]
    }

    /// Seconds over the link of a kind that a device spends to synchronise the gradient of a shared parameter that
    /// another device also holds; zero for a host, without a backward pass, and for an untrained parameter.
    pub fn gradient(&self, parameter: usize, kind: usize) -> f64 {
        self.gradient[parameter * self.kinds + kind]
    }

    /// Seconds to synchronise the gradient of a shared parameter over the uplink of a group, if there are copies inside
    /// and outside.
    pub fn gradient_uplink(&self, parameter: usize, group: usize) -> f64 {
        self.gradient_uplink[parameter * self.groups + group]
    }

    /// Seconds that a tensor takes over the uplink of a group.
    pub fn uplink(&self, tensor: TensorId, group: usize) -> f64 {
        self.uplink[tensor.index() * self.groups + group]
    }
}

/// Bytes that each holder of a shared parameter sends and receives to synchronise its gradient; `None` if the gradient
/// is not synchronised.
///
/// A ring all-reduce among m devices moves 2 (m − 1)/m of the bytes over each link (Patarasuk and Yuan, JPDC 2009).
/// Here m is the maximum number of devices that can hold a copy, which is the number of colocation classes with a
/// reader. The cost of a device thus depends neither on the number of other holders nor on the size of the cluster. It
/// is exact for two readers, such as those of a tied embedding, and if every class has its own device; otherwise it is
/// too high by less than a factor of two.
fn gradient_bytes(graph: &Graph, parameter: usize) -> Option<f64> {
    let document = &graph.parameters()[parameter];
    if !document.trained || !graph.has_backward() {
        return None;
    }
    let mut classes: Vec<ClassId> = graph.readers(parameter).iter().map(|&op| graph.class_of(op)).collect();
    classes.sort_unstable();
    classes.dedup();
    let copies = classes.len() as f64;
    (copies > 1.0).then(|| 2.0 * (copies - 1.0) / copies * document.bytes)
}

fn gradient_seconds(
    graph: &Graph,
    cluster: &Cluster,
    parameter: usize,
    bytes: Option<f64>,
    kind: usize,
) -> Result<f64, CostError> {
    let spec = cluster.kind(kind);
    match (bytes, &spec.link) {
        (Some(bytes), Some(link)) if !spec.host && spec.count > 0 => Ok(over(link, bytes)),
        (Some(_), None) if !spec.host && spec.count > 0 => Err(CostError::NoLinkForGradient {
            kind: spec.name.clone(),
            parameter: graph.parameters()[parameter].name.clone(),
        }),
        _ => Ok(0.0),
    }
}

/// Seconds to move `bytes` bytes over a link.
pub fn over(link: &LinkDocument, bytes: f64) -> f64 {
    link.latency_s + bytes / link.bandwidth
}

/// Seconds of an operator on the class with this name: the measured seconds, otherwise those of the fits of the class,
/// otherwise those of its roofline. `None` if the class cannot run the operator. O(kernels · fits).
pub fn operator_seconds(
    operator: &OperatorDocument,
    name: &str,
    class: Option<&ClassDocument>,
) -> Option<f64> {
    if operator.unsupported.iter().any(|unsupported| unsupported == name) {
        return None;
    }
    if let Some(&measured) = operator.seconds.get(name) {
        return Some(measured);
    }
    let class = class?;
    if let Some(fitted) = fitted_seconds(operator, class) {
        return Some(fitted);
    }
    if operator.flop.is_none() && operator.bytes_moved.is_none() {
        return None;
    }
    let term = |amount: Option<f64>, rate: Option<f64>| match (amount, rate) {
        (None, _) => Some(0.0),
        (Some(0.0), _) => Some(0.0),
        (Some(amount), Some(rate)) => Some(amount / rate),
        (Some(_), None) => None,
    };
    let peak =
        operator.precision.and_then(|precision| class.peaks.get(&precision).copied()).or(class.peak_flops);
    let compute = term(operator.flop, peak.map(|peak| peak * class.efficiency.unwrap_or(1.0)))?;
    let memory = term(operator.bytes_moved, class.memory_bandwidth)?;
    Some(compute.max(memory) + operator.launches.unwrap_or(1.0) * class.launch_overhead_s)
}

/// Seconds by the fits of the class; `None` unless there is a fit for every kernel, and for dimensions without a finite
/// result, such as zero heads.
pub fn fitted_seconds(operator: &OperatorDocument, class: &ClassDocument) -> Option<f64> {
    let precision = operator.precision.filter(|_| !operator.kernels.is_empty())?;
    let mut seconds = 0.0;
    for launch in &operator.kernels {
        seconds += kernel::seconds(kernel::fit(class, launch, precision)?, kernel::work(launch, precision));
    }
    let seconds = seconds + beyond_kernels(operator, class, precision)?;
    seconds.is_finite().then_some(seconds)
}

/// Seconds for the bytes and launches of an operator beyond those of its kernels; `None` if there are such bytes but
/// the class has no memory bandwidth.
pub fn beyond_kernels(
    operator: &OperatorDocument,
    class: &ClassDocument,
    precision: Precision,
) -> Option<f64> {
    let operands: f64 = operator.kernels.iter().map(|launch| kernel::operand_bytes(launch, precision)).sum();
    let bytes = operator.bytes_moved.unwrap_or(0.0) - operands;
    let traffic = if bytes > 0.0 { bytes / class.memory_bandwidth? } else { 0.0 };
    let launches = operator.launches.unwrap_or(1.0) - operator.kernels.len() as f64;
    Some(traffic + launches.max(0.0) * class.launch_overhead_s)
}

fn transfer_seconds(
    graph: &Graph,
    cluster: &Cluster,
    tensor: TensorId,
    kind: usize,
) -> Result<f64, CostError> {
    let spec = cluster.kind(kind);
    if spec.host || spec.count == 0 {
        return Ok(0.0);
    }
    if let Some(&measured) = graph.document().tensors[tensor.index()].seconds.get(&spec.class) {
        return Ok(measured);
    }
    match &spec.link {
        Some(link) => Ok(over(link, graph.bytes(tensor))),
        None => Err(CostError::NoLink {
            kind: spec.name.clone(),
            class: spec.class.clone(),
            tensor: tensor.index(),
            name: graph.tensor_name(tensor),
        }),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::document::{KernelDocument, KernelFitDocument, KernelKind};

    fn class() -> ClassDocument {
        ClassDocument {
            peak_flops: Some(100.0),
            peaks: BTreeMap::from([(Precision::Fp32, 10.0), (Precision::Int8, 200.0)]),
            memory_bandwidth: Some(4.0),
            launch_overhead_s: 0.5,
            efficiency: Some(0.5),
            training_efficiency: None,
            fits: Vec::new(),
            source: None,
        }
    }

    fn seconds(operator: &OperatorDocument, class: &ClassDocument) -> Option<f64> {
        operator_seconds(operator, "gpu", Some(class))
    }

    #[test]
    fn the_peak_is_that_of_the_precision_where_the_class_says_it() {
        let operator = |precision| OperatorDocument {
            flop: Some(1000.0),
            precision,
            ..OperatorDocument::named("product")
        };
        assert_eq!(seconds(&operator(Some(Precision::Fp32)), &class()), Some(200.5));
        assert_eq!(seconds(&operator(Some(Precision::Int8)), &class()), Some(10.5));
        assert_eq!(seconds(&operator(Some(Precision::Bf16)), &class()), Some(20.5), "not among the peaks");
        assert_eq!(seconds(&operator(None), &class()), Some(20.5));
        let peaks_only = ClassDocument { peak_flops: None, ..class() };
        assert_eq!(
            seconds(&operator(Some(Precision::Fp32)), &peaks_only),
            Some(200.5),
            "a class may have peaks alone"
        );
        assert_eq!(seconds(&operator(Some(Precision::Bf16)), &peaks_only), None);
    }

    #[test]
    fn the_overhead_is_paid_once_for_each_launch() {
        let operator = |launches| OperatorDocument {
            bytes_moved: Some(8.0),
            launches,
            ..OperatorDocument::named("copy")
        };
        assert_eq!(seconds(&operator(None), &class()), Some(2.5));
        assert_eq!(seconds(&operator(Some(1.0)), &class()), Some(2.5));
        assert_eq!(seconds(&operator(Some(0.0)), &class()), Some(2.0));
        assert_eq!(seconds(&operator(Some(6.0)), &class()), Some(5.0));
    }

    #[test]
    fn fits_price_operators_with_kernels_and_only_those() {
        let fit = KernelFitDocument {
            kernel: KernelKind::Product,
            precision: Precision::Bf16,
            launch_s: 1.0,
            step_s: 0.0,
            flops: 10.0,
            bandwidth: 1e9,
            sharpness: 4.0,
            cache_bytes: 0.0,
            row_s: 0.0,
            source: None,
        };
        let fitted = ClassDocument { fits: vec![fit], ..class() };
        let product = KernelDocument::Product { batch: 1.0, m: 10.0, n: 10.0, k: 1.0 };
        let operator = |precision, kernels| OperatorDocument {
            flop: Some(200.0),
            bytes_moved: Some(240.0 + 8.0),
            precision: Some(precision),
            launches: Some(3.0),
            kernels,
            ..OperatorDocument::named("product")
        };
        // 1 for the launch + 200 / 10 + 8 further bytes at 4 bytes/s + 2 further launches.
        let seconds_of =
            |operator: &OperatorDocument, class: &ClassDocument| seconds(operator, class).unwrap();
        let by_fit = seconds_of(&operator(Precision::Bf16, vec![product]), &fitted);
        assert!((by_fit - (1.0 + 20.0 + 2.0 + 1.0)).abs() < 1e-6, "{by_fit}");
        let roofline = |operator: &OperatorDocument| seconds_of(operator, &class());
        for other in [
            operator(Precision::Bf16, Vec::new()),
            operator(Precision::Fp32, vec![product]),
            OperatorDocument { precision: None, ..operator(Precision::Bf16, vec![product]) },
        ] {
            assert_eq!(seconds_of(&other, &fitted).to_bits(), roofline(&other).to_bits());
        }
        let measured = OperatorDocument {
            seconds: BTreeMap::from([("gpu".to_owned(), 7.0)]),
            ..operator(Precision::Bf16, vec![product])
        };
        assert_eq!(seconds_of(&measured, &fitted), 7.0);
    }
}
