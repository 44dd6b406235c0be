//! Times of collectives (Thakur, Rabenseifner and Gropp, "Optimization of Collective Communication Operations in MPICH",
//! 2005).

use stagewright_core::document::LinkDocument;

/// Time of an all-gather or a reduce-scatter of `bytes` over `devices`.
pub(crate) fn gather(link: LinkDocument, devices: u32, bytes: f64) -> f64 {
    let (devices, steps) = (f64::from(devices), f64::from(devices - 1));
    steps * link.latency_s + steps / devices * bytes / link.bandwidth
}

/// Time of an all-reduce.
pub(crate) fn reduce(link: LinkDocument, devices: u32, bytes: f64) -> f64 {
    2.0 * gather(link, devices, bytes)
}

/// Time of an all-reduce with the latency of one of its halves: trees replace rings where latency counts.
pub(crate) fn reduce_by_trees(link: LinkDocument, devices: u32, bytes: f64) -> f64 {
    gather(link, devices, 2.0 * bytes)
}

/// Time of an all-to-all of a tensor of `bytes`, of which every device has an equal part.
pub(crate) fn exchange(link: LinkDocument, devices: u32, bytes: f64) -> f64 {
    gather(link, devices, bytes / f64::from(devices))
}

/// Time to send `bytes` from one device to another.
pub(crate) fn send(link: LinkDocument, bytes: f64) -> f64 {
    link.latency_s + bytes / link.bandwidth
}
