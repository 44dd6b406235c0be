//! Figures of devices and links in words, with the units and digits of datasheets.

use std::fmt::Display;

use stagewright_core::document::{ClassDocument, LinkDocument};

use super::units::{bandwidth, datasheet, seconds};

/// Peaks in TFLOP per second by precision, as `fp32 19.5, bf16 312`.
pub fn peaks<'p, P: Display + 'p>(peaks: impl Iterator<Item = (P, &'p f64)>) -> String {
    let shown = peaks.map(|(precision, peak)| format!("{precision} {}", datasheet(peak / 1e12)));
    shown.collect::<Vec<_>>().join(", ")
}

/// Peaks of a class in TFLOP per second, by precision if they are known; `None` if no peak is known.
pub fn peaks_of(class: &ClassDocument) -> Option<String> {
    match class.peaks.is_empty() {
        true => class.peak_flops.map(|peak| datasheet(peak / 1e12)),
        false => Some(peaks(class.peaks.iter())),
    }
}

/// Bandwidth and latency of a link.
pub fn link(link: LinkDocument) -> String {
    format!("{}, {} latency", bandwidth(link.bandwidth), seconds(link.latency_s))
}
