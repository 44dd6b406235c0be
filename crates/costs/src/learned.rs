//! Learned seconds of the kernels of one class.

use std::borrow::Cow;
use std::collections::BTreeMap;

use stagewright_core::document::{ClassDocument, KernelDocument, Precision};
use stagewright_formats::clusters::{self, Device};
use stagewright_learned::{Estimator, Shape};

use crate::Costs;
use crate::costs::at_one_precision;

/// Seconds and spread of a kernel, if the estimator is in use for it.
type Known = Option<(f64, f64)>;

/// An estimator for one class, calibrated by what was measured on it.
pub(crate) struct Learned<'a> {
    estimator: Cow<'a, Estimator>,
    device: &'static Device,
    /// Seconds and spreads of kernels by precision and sizes: the kernels of a model are alike.
    known: BTreeMap<(Precision, [u64; 7]), Known>,
}

impl<'a> Learned<'a> {
    /// `None` unless the class is a device of the catalogue, with the catalogue's bandwidth and peaks.
    pub(crate) fn new(
        estimator: &'a Estimator,
        class: &str,
        document: &ClassDocument,
        costs: &Costs,
    ) -> Option<Learned<'a>> {
        let device = clusters::device(class)
            .or_else(|| at_one_precision(class).and_then(|(name, _)| clusters::device(name)))?;
        let is_own = |peak: &f64| device.peak_flops.values().any(|own| own == peak);
        let is_catalogued = document.memory_bandwidth == device.memory_bandwidth
            && document.peaks.values().chain(&document.peak_flops).all(is_own);
        if !is_catalogued {
            return None;
        }
        let measured: Vec<(Shape, Precision, f64)> = costs
            .samples(class)
            .map(|(kernel, precision, seconds)| (Shape::Library(kernel), precision, seconds))
            .collect();
        let estimator = match measured.is_empty() {
            true => Cow::Borrowed(estimator),
            false => Cow::Owned(estimator.calibrated(device, &measured)),
        };
        Some(Learned { estimator, device, known: BTreeMap::new() })
    }

    /// Seconds and relative spread of a kernel at a precision. O(weights) for each kernel that differs.
    pub(crate) fn kernel(&mut self, kernel: &KernelDocument, precision: Precision) -> Known {
        let sizes = match *kernel {
            KernelDocument::Product { batch, m, n, k } => [batch, m, n, k, 0.0, 0.0, -1.0],
            KernelDocument::Attention { batch, queries, keys, heads, kv_heads, head_dim, causal } => {
                [batch, queries, keys, heads, kv_heads, head_dim, f64::from(u8::from(causal))]
            }
        };
        let Learned { estimator, device, known } = self;
        *known.entry((precision, sizes.map(f64::to_bits))).or_insert_with(|| {
            let estimate = estimator.in_use(device, &Shape::Library(*kernel), precision)?;
            Some((estimate.seconds, estimate.spread))
        })
    }
}
