//! Seconds of an operator on a kind, and of a tensor over a link.
//!
//! An operator takes its measured seconds for the class, otherwise those of the roofline model: a device computes at
//! its peak and moves bytes at its memory bandwidth, both concurrently, so the slower of the two counts (Williams,
//! Waterman, Patterson, 2009), plus the time to launch its kernels. The peak depends on the precision of the operator.

use stagewright_core::document::{ClassDocument, LinkDocument, OperatorDocument};

use crate::error::CheckError;
use crate::read::{Cluster, Gradient, Graph, Kind, Tensor};

/// Seconds of an operator on a device of a kind; `None` if it can't run there.
pub(crate) fn seconds(operator: &OperatorDocument, kind: &Kind) -> Option<f64> {
    parts(operator, kind, 0.0).map(|parts| parts.work + parts.launch)
}

/// Seconds of an operator by what they depend on.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Parts {
    /// Seconds in proportion to the batch.
    pub(crate) work: f64,
    /// Seconds to launch its kernels.
    pub(crate) launch: f64,
}

/// Parts of the seconds of an operator on a device of a kind; `None` if it can't run there. Of the bytes that it moves,
/// `unmoved` stay in a kernel.
pub(crate) fn parts(operator: &OperatorDocument, kind: &Kind, unmoved: f64) -> Option<Parts> {
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
    roofline(operator, kind.class?, unmoved)
}

/// The roofline model. A zero or absent amount takes no time; a positive one needs a rate.
fn roofline(operator: &OperatorDocument, class: &ClassDocument, unmoved: f64) -> Option<Parts> {
    let compute =
        term(operator.flop, peak(operator, class).map(|peak| peak * class.efficiency.unwrap_or(1.0)))?;
    let moved = operator.bytes_moved.map(|moved| moved - unmoved);
    let traffic = term(moved, class.memory_bandwidth)?;
    let launches = operator.launches.unwrap_or(1.0);
    Some(Parts { work: compute.max(traffic), launch: launches * class.launch_overhead_s })
}

/// Peak rate for an operator: the one listed for its precision, if any, else the general one.
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
