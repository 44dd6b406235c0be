//! Seconds of collective operations (Thakur et al. 2005), with α the latency and β the bandwidth of a link.

use stagewright_core::document::LinkDocument;

/// Seconds of an all-gather: (n − 1) · α + (n − 1) / n · bytes / β.
pub(super) fn all_gather(devices: u64, bytes: f64, link: &LinkDocument) -> f64 {
    steps(devices) * link.latency_s + share(devices) * bytes / link.bandwidth
}

/// Seconds of a reduce-scatter, the same as for an all-gather.
pub(super) fn reduce_scatter(devices: u64, bytes: f64, link: &LinkDocument) -> f64 {
    all_gather(devices, bytes, link)
}

/// Seconds of an all-reduce: a reduce-scatter and an all-gather.
pub(super) fn all_reduce(devices: u64, bytes: f64, link: &LinkDocument) -> f64 {
    2.0 * all_gather(devices, bytes, link)
}

/// Seconds of an all-reduce that has the latency of one collective: (n − 1) · α + 2 · (n − 1) / n · bytes / β. Trees
/// replace rings where latency counts.
pub(super) fn tree_all_reduce(devices: u64, bytes: f64, link: &LinkDocument) -> f64 {
    all_gather(devices, 2.0 * bytes, link)
}

/// Seconds of an all-to-all: (n − 1) · α + (n − 1) / n · bytes / (n · β).
pub(super) fn all_to_all(devices: u64, bytes: f64, link: &LinkDocument) -> f64 {
    all_gather(devices, bytes / devices.max(1) as f64, link)
}

/// Seconds of a transfer between two devices: α + bytes / β.
pub(super) fn point_to_point(bytes: f64, link: &LinkDocument) -> f64 {
    link.latency_s + bytes / link.bandwidth
}

fn steps(devices: u64) -> f64 {
    devices.saturating_sub(1) as f64
}

fn share(devices: u64) -> f64 {
    steps(devices) / devices.max(1) as f64
}
