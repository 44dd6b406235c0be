//! Seconds of an operator on a kind, and of a tensor over a link.
//!
//! An operator takes its measured seconds for the class, otherwise those of the roofline model: a device computes at
//! its peak and moves bytes at its memory bandwidth, both concurrently, so the slower of the two counts (Williams,
//! Waterman, Patterson, 2009), plus the time to launch its kernels. The peak depends on the precision of the operator.
//! Outside of joint plans, an operator whose library kernels all have a fit for the class at the operator's precision
//! takes the fitted seconds instead (`fitted`), as the doc comments of `ClassDocument` and `KernelFitDocument` define
//! them.

use stagewright_core::document::{
    ClassDocument, KernelDocument, KernelFitDocument, KernelKind, LinkDocument, OperatorDocument, Precision,
};

use crate::error::CheckError;
use crate::read::{Cluster, Gradient, Graph, Kind, Tensor};

/// Seconds of an operator on a device of a kind; `None` if it can't run there.
pub(crate) fn seconds(operator: &OperatorDocument, kind: &Kind) -> Option<f64> {
    let class = &kind.document.class;
    let is_derived = !operator.unsupported.contains(class) && !operator.seconds.contains_key(class);
    let fitted = kind.class.filter(|_| is_derived).and_then(|class| fitted(operator, class));
    fitted.or_else(|| parts(operator, kind, &Terms::STATED).map(|parts| parts.work + parts.launch))
}

/// Seconds by the fits of a class: those of every kernel, plus those of moving the bytes that belong to no kernel at
/// memory bandwidth, plus those of the launches that belong to no kernel. `None` if a kernel has no fit, or the result
/// is not finite.
fn fitted(operator: &OperatorDocument, class: &ClassDocument) -> Option<f64> {
    let precision = operator.precision?;
    if operator.kernels.is_empty() {
        return None;
    }
    let mut total = 0.0;
    let mut other_bytes = operator.bytes_moved.unwrap_or(0.0);
    let mut other_launches = operator.launches.unwrap_or(1.0);
    for kernel in &operator.kernels {
        let load = Load::of(kernel, precision);
        total += load.seconds(load.choose(class, precision)?);
        other_bytes -= load.operands;
        other_launches -= 1.0;
    }
    if other_bytes > 0.0 {
        total += other_bytes / class.memory_bandwidth?;
    }
    total += other_launches.max(0.0) * class.launch_overhead_s;
    total.is_finite().then_some(total)
}

/// Operations and bytes of a kernel.
struct Load {
    /// Kinds of fit that apply, the best first.
    kinds: &'static [KernelKind],
    flop: f64,
    /// Bytes with padding, as the fit counts them.
    moved: f64,
    /// Bytes without padding.
    operands: f64,
    inner: f64,
    /// Rows whose quantisation counts.
    quantised: f64,
}

impl Load {
    fn of(kernel: &KernelDocument, precision: Precision) -> Load {
        let width = precision.bytes();
        match *kernel {
            KernelDocument::Product { batch, m, n, k } => {
                // Products of numbers narrower than 16 bits have 16-bit results.
                let moved = batch * (width * (m * k + k * n) + width.max(2.0) * m * n);
                Load {
                    kinds: &[KernelKind::Product],
                    flop: 2.0 * batch * m * n * k,
                    moved,
                    operands: moved,
                    inner: k,
                    quantised: m * batch,
                }
            }
            KernelDocument::Attention { batch, queries, keys, heads, kv_heads, head_dim, causal } => {
                let kinds: &[KernelKind] = match (queries <= 1.0, causal) {
                    (true, _) => &[KernelKind::DecodeAttention],
                    (false, true) => &[KernelKind::CausalAttention, KernelKind::Attention],
                    (false, false) => &[KernelKind::Attention, KernelKind::CausalAttention],
                };
                let padded = |rows: f64| 64.0 * (rows / 64.0).ceil();
                let rows = batch * kv_heads * padded(heads / kv_heads * queries);
                let masked =
                    if causal { (queries / 2.0 - 64.0).clamp(0.0, keys.max(0.0)) / keys } else { 0.0 };
                // Queries and results have the same size, as do keys and values.
                let moved = |keys: f64| width * batch * head_dim * 2.0 * (heads * queries + kv_heads * keys);
                Load {
                    kinds,
                    flop: 4.0 * rows * padded(keys) * head_dim * (1.0 - masked),
                    moved: moved(padded(keys)),
                    operands: moved(keys),
                    inner: keys,
                    quantised: 0.0,
                }
            }
        }
    }

    fn choose<'a>(&self, class: &'a ClassDocument, precision: Precision) -> Option<&'a KernelFitDocument> {
        self.kinds
            .iter()
            .find_map(|&kind| class.fits.iter().find(|fit| fit.kernel == kind && fit.precision == precision))
    }

    fn seconds(&self, fit: &KernelFitDocument) -> f64 {
        let compute = self.flop / fit.flops;
        let from_memory = (self.moved - fit.cache_bytes).max(0.0);
        let memory = (from_memory + (self.moved - from_memory) / 4.0) / fit.bandwidth;
        let (long, short) = if compute > memory { (compute, memory) } else { (memory, compute) };
        let rounded = match long > 0.0 {
            true => long * (1.0 + (short / long).powf(fit.sharpness)).powf(fit.sharpness.recip()),
            false => 0.0,
        };
        fit.launch_s + fit.step_s * self.inner.sqrt() + fit.row_s * self.quantised + rounded
    }
}

/// Seconds of an operator, split by what they depend on.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Parts {
    /// Seconds in proportion to the batch.
    pub(crate) work: f64,
    /// Seconds to launch the operator's kernels.
    pub(crate) launch: f64,
}

/// Amounts and rates of an operator in the roofline model.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Terms {
    /// Moved bytes that stay within a kernel.
    pub(crate) unmoved: f64,
    /// Factors of its FLOP, of the bytes that it moves, of the memory bandwidth, and of the time to launch its kernels.
    pub(crate) flop: f64,
    pub(crate) moved: f64,
    pub(crate) bandwidth: f64,
    pub(crate) launch: f64,
    /// Whether it runs at the efficiency of products in training, if the class has one.
    pub(crate) is_trained: bool,
}

impl Terms {
    /// The operator as the documents state it.
    pub(crate) const STATED: Terms =
        Terms { unmoved: 0.0, flop: 1.0, moved: 1.0, bandwidth: 1.0, launch: 1.0, is_trained: false };
}

/// Parts of the seconds of an operator on a device of a kind; `None` if it can't run there.
pub(crate) fn parts(operator: &OperatorDocument, kind: &Kind, terms: &Terms) -> Option<Parts> {
    let class = &kind.document.class;
    if operator.unsupported.contains(class) {
        return None;
    }
    if let Some(&measured) = operator.seconds.get(class) {
        return Some(Parts { work: measured, launch: 0.0 });
    }
    if operator.flop.is_none() && operator.bytes_moved.is_none() {
        return None;
    }
    roofline(operator, kind.class?, terms)
}

/// The roofline model. A zero or absent amount takes no time; a positive one needs a rate.
fn roofline(operator: &OperatorDocument, class: &ClassDocument, terms: &Terms) -> Option<Parts> {
    let trained = class.training_efficiency.filter(|_| terms.is_trained);
    let efficiency = trained.or(class.efficiency).unwrap_or(1.0);
    let flop = operator.flop.map(|flop| flop * terms.flop);
    let compute = term(flop, peak(operator, class).map(|peak| peak * efficiency))?;
    let moved = operator.bytes_moved.map(|moved| (moved - terms.unmoved) * terms.moved);
    let traffic = term(moved, class.memory_bandwidth.map(|bandwidth| bandwidth * terms.bandwidth))?;
    let launches = operator.launches.unwrap_or(1.0) * terms.launch;
    Some(Parts { work: compute.max(traffic), launch: launches * class.launch_overhead_s })
}

/// Peak rate for an operator: the one listed for its precision, if any, otherwise the general one.
fn peak(operator: &OperatorDocument, class: &ClassDocument) -> Option<f64> {
    match operator.precision {
        Some(precision) if class.peaks.contains_key(&precision) => class.peaks.get(&precision).copied(),
        _ => class.peak_flops,
    }
}

fn term(amount: Option<f64>, rate: Option<f64>) -> Option<f64> {
    match amount {
        Some(amount) if amount > 0.0 => rate.map(|rate| amount / rate),
        _ => Some(0.0),
    }
}

/// Seconds to move a tensor once over the link of a device of a kind: zero for a host, whose memory already holds the
/// data.
pub(crate) fn transfer(tensor: &Tensor, kind: &Kind) -> Result<f64, CheckError> {
    if kind.document.host {
        return Ok(0.0);
    }
    if let Some(&measured) = tensor.document.seconds.get(&kind.document.class) {
        return Ok(measured);
    }
    match &kind.document.link {
        Some(link) => Ok(over(link, tensor.document.bytes)),
        None => Err(no_link(kind, tensor.label())),
    }
}

/// Seconds that a device of a kind takes to synchronise the gradient of a parameter that other devices hold as well.
pub(crate) fn gradient(gradient: &Gradient, kind: &Kind) -> Result<f64, CheckError> {
    match &kind.document.link {
        _ if kind.document.host => Ok(0.0),
        Some(link) => Ok(over(link, gradient.bytes)),
        None => Err(no_link(kind, format!("the gradient of {:?}", gradient.parameter.document.name))),
    }
}

/// Seconds to move bytes over a link.
pub(crate) fn over(link: &LinkDocument, bytes: f64) -> f64 {
    link.latency_s + bytes / link.bandwidth
}

/// Seconds that `replicas` devices of a kind take to synchronise parameters in a ring: each byte is sent
/// 2 (r − 1) / r times, once to reduce and once to gather.
pub(crate) fn synchronisation(parameter_bytes: f64, replicas: u32, kind: &Kind) -> Result<f64, CheckError> {
    if replicas <= 1 || kind.document.host {
        return Ok(0.0);
    }
    let Some(link) = &kind.document.link else {
        return Err(no_link(kind, "the synchronisation of replicas".to_owned()));
    };
    let replicas = f64::from(replicas);
    Ok(2.0 * (replicas - 1.0) / replicas * parameter_bytes / link.bandwidth)
}

/// Checks that every kind with devices can move every tensor that has readers.
pub(crate) fn require_links(graph: &Graph, cluster: &Cluster) -> Result<(), CheckError> {
    for kind in &cluster.kinds {
        if kind.document.count > 0 && !kind.document.host && kind.document.link.is_none() {
            let mut read = graph.tensors.iter().filter(|tensor| !tensor.consumers.is_empty());
            read.try_for_each(|tensor| transfer(tensor, kind).map(drop))?;
        }
    }
    Ok(())
}

fn no_link(kind: &Kind, needed_for: String) -> CheckError {
    CheckError::NoLink { kind: kind.document.name.clone(), needed_for }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use stagewright_core::document::KindDocument;

    use super::*;

    fn fit(kernel: KernelKind, sharpness: f64) -> KernelFitDocument {
        KernelFitDocument {
            kernel,
            precision: Precision::Bf16,
            launch_s: 1.0,
            step_s: 0.25,
            flops: 1000.0,
            bandwidth: 10.0,
            sharpness,
            cache_bytes: 40.0,
            row_s: 0.0,
            source: None,
        }
    }

    fn class(fits: Vec<KernelFitDocument>) -> ClassDocument {
        ClassDocument {
            peak_flops: Some(500.0),
            memory_bandwidth: Some(4.0),
            launch_overhead_s: 0.5,
            fits,
            ..ClassDocument::default()
        }
    }

    fn seconds_on(operator: &OperatorDocument, class: &ClassDocument) -> Option<f64> {
        let document = KindDocument::named("gpu", 1);
        let kind = Kind { document: &document, class: Some(class), group: None, before: 0 };
        seconds(operator, &kind)
    }

    fn product() -> OperatorDocument {
        OperatorDocument {
            flop: Some(2.0 * 5.0 * 10.0 * 16.0),
            // Operands and result with two bytes per element, plus 8 bytes.
            bytes_moved: Some(2.0 * (5.0 * 16.0 + 16.0 * 10.0 + 5.0 * 10.0) + 8.0),
            precision: Some(Precision::Bf16),
            launches: Some(3.0),
            kernels: vec![KernelDocument::Product { batch: 1.0, m: 5.0, n: 10.0, k: 16.0 }],
            ..OperatorDocument::named("product")
        }
    }

    #[test]
    fn a_product_takes_its_fit_and_what_no_kernel_does() {
        // 580 bytes, of which 40 move four times as fast: 55 s. The computation of 1.6 s vanishes, since the corner is
        // sharp.
        let expected = 1.0 + 0.25 * 4.0 + 55.0 + 8.0 / 4.0 + 2.0 * 0.5;
        let own = seconds_on(&product(), &class(vec![fit(KernelKind::Product, 50.0)])).unwrap();
        assert!((own - expected).abs() < 1e-9, "{own}, not {expected}");
        let sum = seconds_on(&product(), &class(vec![fit(KernelKind::Product, 1.0)])).unwrap();
        assert!((sum - expected - 1.6).abs() < 1e-9, "{sum}: without a corner both are paid");
    }

    #[test]
    fn without_a_fit_for_every_kernel_the_roofline_counts() {
        let roofline = seconds_on(&product(), &class(Vec::new()));
        assert_eq!(seconds_on(&product(), &class(vec![fit(KernelKind::Attention, 2.0)])), roofline);
        let fitted = class(vec![fit(KernelKind::Product, 2.0)]);
        assert_ne!(seconds_on(&product(), &fitted), roofline);
        let mut mixed = product();
        mixed.kernels.push(KernelDocument::Attention {
            batch: 1.0,
            queries: 1.0,
            keys: 64.0,
            heads: 1.0,
            kv_heads: 1.0,
            head_dim: 64.0,
            causal: false,
        });
        assert_eq!(seconds_on(&mixed, &fitted), roofline);
        assert_eq!(seconds_on(&OperatorDocument { precision: None, ..product() }, &fitted), roofline);
    }

    #[test]
    fn measured_seconds_and_unsupported_classes_come_before_fits() {
        let fitted = class(vec![fit(KernelKind::Product, 2.0)]);
        let measured = OperatorDocument { seconds: BTreeMap::from([("gpu".to_owned(), 7.0)]), ..product() };
        assert_eq!(seconds_on(&measured, &fitted), Some(7.0));
        let unsupported = OperatorDocument { unsupported: vec!["gpu".into()], ..product() };
        assert_eq!(seconds_on(&unsupported, &fitted), None);
    }
}
