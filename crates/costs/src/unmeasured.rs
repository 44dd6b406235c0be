//! Seconds of kernels that were not measured: by networks, or by closed forms of other devices.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::Path;

use stagewright_core::document::{ClassDocument, KernelDocument, KernelFitDocument, KernelKind, Precision};
use stagewright_core::kernel;
use stagewright_formats::clusters::{self, Device};
use stagewright_learned::processor::is_held_by_power;
use stagewright_learned::{Estimator, Processor, Shape};

use crate::costs::{Costs, at_one_precision};
use crate::fit::from_others;

/// The prices of kernels that were not measured.
#[derive(Debug, Clone, Copy, Default)]
pub enum Unmeasured<'e> {
    /// The closed forms that a class states, and its roofline.
    #[default]
    Stated,
    /// Also the closed forms of other devices, for a class that states none.
    Closed,
    /// Networks, where they are in use, before all closed forms.
    Learned(&'e Estimator),
}

impl Unmeasured<'static> {
    /// The word for closed forms among files of measurements.
    pub const CLOSED: &'static str = "closed";

    /// The word for networks among files of measurements.
    pub const LEARNED: &'static str = "learned";

    /// The networks that the program ships.
    pub fn learned() -> Unmeasured<'static> {
        Unmeasured::Learned(Estimator::shipped())
    }

    /// The prices of a word; `None` for a file.
    pub fn named(word: &str) -> Option<Unmeasured<'static>> {
        match word {
            Unmeasured::CLOSED => Some(Unmeasured::Closed),
            Unmeasured::LEARNED => Some(Unmeasured::learned()),
            _ => None,
        }
    }

    /// Whether a path among files of measurements is a word.
    pub fn is_word(path: &Path) -> bool {
        path.to_str().is_some_and(|word| Unmeasured::named(word).is_some())
    }

    /// The prices of the last word among files of measurements.
    pub fn among(files: &[String]) -> Option<Unmeasured<'static>> {
        files.iter().rev().find_map(|file| Unmeasured::named(file))
    }
}

/// Seconds and relative spread of a kernel, if networks are in use for it.
type Known = Option<(f64, f64)>;

/// Seconds of kernels on one class.
pub(crate) struct Predictor<'a> {
    device: &'static Device,
    /// Calibrated by what was measured on the class.
    estimator: Option<Cow<'a, Estimator>>,
    /// Seconds and spreads of kernels by precision and sizes: the kernels of a model are alike.
    learned: BTreeMap<(Precision, [u64; 7]), Known>,
    /// Closed forms of other devices by kind of kernel and precision.
    others: BTreeMap<(KernelKind, Precision), Option<KernelFitDocument>>,
    /// Whether any seconds came from networks or from another device.
    pub(crate) has_predicted: bool,
}

impl<'a> Predictor<'a> {
    /// `None` for prices that the class states, and unless the class is a device of the catalogue, with the catalogue's bandwidth
    /// and peaks.
    pub(crate) fn new(
        unmeasured: Unmeasured<'a>,
        class: &str,
        document: &ClassDocument,
        costs: &Costs,
    ) -> Option<Predictor<'a>> {
        let estimator = match unmeasured {
            Unmeasured::Stated => return None,
            Unmeasured::Closed => None,
            Unmeasured::Learned(estimator) => Some(estimator),
        };
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
        let estimator = estimator.map(|estimator| match measured.is_empty() {
            true => Cow::Borrowed(estimator),
            false => Cow::Owned(estimator.calibrated(device, &measured)),
        });
        Some(Predictor {
            device,
            estimator,
            learned: BTreeMap::new(),
            others: BTreeMap::new(),
            has_predicted: false,
        })
    }

    /// Whether measurements calibrated the networks.
    pub(crate) fn is_calibrated(&self) -> bool {
        matches!(self.estimator, Some(Cow::Owned(_)))
    }

    /// Seconds and relative spread of a kernel by networks. O(weights) for each kernel that differs.
    pub(crate) fn learned(&mut self, kernel: &KernelDocument, precision: Precision) -> Known {
        let estimator = self.estimator.as_ref()?;
        let sizes = match *kernel {
            KernelDocument::Product { batch, m, n, k } => [batch, m, n, k, 0.0, 0.0, -1.0],
            KernelDocument::Attention { batch, queries, keys, heads, kv_heads, head_dim, causal } => {
                [batch, queries, keys, heads, kv_heads, head_dim, f64::from(u8::from(causal))]
            }
        };
        let found = *self.learned.entry((precision, sizes.map(f64::to_bits))).or_insert_with(|| {
            let estimate = estimator.in_use(self.device, &Shape::Library(*kernel), precision)?;
            Some((estimate.seconds, estimate.spread))
        });
        self.has_predicted |= found.is_some();
        found
    }

    /// Seconds of a kernel by the closed form of the class, or else of other devices.
    pub(crate) fn closed(
        &mut self,
        kernel: &KernelDocument,
        precision: Precision,
        class: &ClassDocument,
    ) -> Option<f64> {
        let work = kernel::work(kernel, precision);
        let seconds = match kernel::fit(class, kernel, precision) {
            Some(own) => kernel::seconds(own, work),
            None => {
                let key = (kernel::kind(kernel), precision);
                let form =
                    self.others.entry(key).or_insert_with(|| of_others(self.device, kernel, precision));
                let seconds = kernel::seconds(form.as_ref()?, work);
                self.has_predicted = true;
                seconds
            }
        };
        seconds.is_finite().then_some(seconds)
    }
}

/// The closed form of a device of NVIDIA for a kernel from those of NVIDIA's other devices in the catalogue: how much of its peak
/// another vendor's device reaches does not follow from theirs, nor how much a card that its power holds reaches.
fn of_others(device: &Device, kernel: &KernelDocument, precision: Precision) -> Option<KernelFitDocument> {
    if !device.is_nvidia() || is_held_by_power(device) {
        return None;
    }
    let own = Processor::new(device, precision)?;
    let classes: Vec<(&Device, ClassDocument)> = clusters::devices()
        .iter()
        .filter(|other| other.is_nvidia() && !other.fits.is_empty() && other.name != device.name)
        .filter_map(|other| Some((other, other.class(precision)?)))
        .collect();
    let others: Vec<(Processor, &KernelFitDocument)> = classes
        .iter()
        .filter_map(|(other, class)| {
            Some((Processor::new(other, precision)?, kernel::fit(class, kernel, precision)?))
        })
        .collect();
    from_others(&others, &own, precision)
}
