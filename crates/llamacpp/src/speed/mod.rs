//! Seconds for a token and for a prompt, estimated from bytes and bandwidths.
//!
//! A single sequence reads every weight that it needs for each token, so that memory decides. Devices work one after the
//! other:
//!
//! ```text
//! t = Σ bytes · (1 + arithmetic / bytes of a number) / (bandwidth · efficiency)
//!     + layers · o + layers with experts · o' + hops between devices + crossings to the host
//! ```
//!
//! where arithmetic is the bytes that the device reads while it unpacks and multiplies one weight: some FLOP times bandwidth
//! over its peak outside of matrix units. Cards with much bandwidth for their arithmetic thus reach a smaller share of it, and
//! weights of few bits are read a little slower, without a constant for either.
//!
//! [`Work`] counts bytes, layers, hops and crossings, and [`decode`] prices them by the [`constants`](crate::constants). Over 65 published
//! measurements the median error is 4.9%, and 13.5% at the 90th percentile; 5.8% and 20% if each source is left out in turn. One
//! efficiency and no overheads gave 17.6% and 54%. Experts on the host are the weak part: few measurements name the bandwidth
//! of RAM.
//!
//! The objective of bytes over bandwidth by device with links between them is that of exo (issue 957).

pub mod parts;
mod prefill;
mod work;

pub use prefill::{batch_seconds, prefill};
pub use work::{Reads, Work};

use crate::constants::{CROSSING, HOP, Rates};
use crate::device::Host;
use crate::setting::Setting;

/// Seconds for a token, by [`Work`] on the devices of a setting.
///
/// # Panics
/// If the work is of another number of devices.
pub fn decode(work: &Work, setting: &Setting, host: Host) -> f64 {
    assert_eq!(work.devices.len(), setting.devices.len(), "work of the setting's devices");
    let devices = setting.devices.iter().zip(&work.devices);
    let devices: f64 = devices.map(|(device, reads)| seconds(reads, device.rates, device.bandwidth)).sum();
    let on_host = work.host.bytes / (host.bandwidth * host.efficiency) + work.host.layers as f64 * host.layer;
    devices + on_host + work.hops as f64 * HOP + work.crossings as f64 * CROSSING
}

/// Seconds of one device for a token.
fn seconds(reads: &Reads, rates: Rates, bandwidth: f64) -> f64 {
    reads.bytes / (bandwidth * rates.efficiency)
        + reads.layers as f64 * rates.layer
        + reads.expert_layers as f64 * rates.expert_layer
}
