//! Seconds of a kernel on a device of the catalogue.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use libm::{hypot, log, sqrt};
use stagewright_core::document::{KernelDocument, Precision};
use stagewright_formats::clusters::{Device, device};

use crate::checkpoint;
use crate::downhill::minimise;
use crate::ensemble::{Ensemble, Prediction};
use crate::features::features;
use crate::network::{OUTPUTS, head};
use crate::processor::{Processor, is_held_by_power};
use crate::shape::{Group, Shape};

/// Lower bound of the seconds of a kernel, as a share of those of the kernel of half the size. Measured products do get shorter when
/// they grow, but seldom by more.
const HALF: f64 = 0.8;

/// Logarithms of errors below this count squared in a calibration.
const SMOOTH: f64 = 0.02;

/// Weight of the squares of the offsets of a calibration, each divided by its usual deviation.
const PENALTY: f64 = 0.05;
const DEVIATIONS: [f64; OUTPUTS] = [0.5, 0.7, 0.7];

/// Half width, in natural logarithms, of the interval that held 68% of the errors of predictions on measurements that the networks did
/// not see (`data/kernels/README.md`), by basis. They hardly depend on the deviation of the networks, which counts twice besides:
/// it grows where networks extrapolate.
const WIDTHS: [f64; 3] = [0.066, 0.098, 0.24];
const DEVIATION: f64 = 2.0;

/// Measured kernels from which their own errors say how far off a calibration is.
const MEASURED: usize = 8;

/// Basis of a prediction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Basis {
    /// Measurements of the device itself.
    Seen,
    /// Measurements of devices that are alike.
    Siblings,
    /// Measurements of other devices.
    Others,
}

/// Seconds of a kernel.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    /// Seconds, finite and positive.
    pub seconds: f64,
    /// Half width, in natural logarithms, of an interval that holds 68% of such errors.
    pub spread: f64,
    /// Basis of the prediction.
    pub basis: Basis,
}

/// Predicts seconds of kernels.
#[derive(Debug, Clone, Default)]
pub struct Estimator {
    ensembles: BTreeMap<Group, Ensemble>,
    /// From kernels that a user measured, by device, group and variant.
    calibrations: BTreeMap<(String, Group, &'static str), Calibration>,
}

/// Offsets of the outputs of networks for a device.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Calibration {
    offsets: [f64; OUTPUTS],
    /// Half width of the interval that holds 68% of the errors, as far as enough kernels say it.
    width: Option<f64>,
}

impl Estimator {
    /// An estimator from ensembles, at most one for each group.
    pub fn new(ensembles: impl IntoIterator<Item = Ensemble>) -> Estimator {
        let ensembles = ensembles.into_iter().map(|ensemble| (ensemble.group, ensemble)).collect();
        Estimator { ensembles, calibrations: BTreeMap::new() }
    }

    /// The estimator of `data/kernels/checkpoint.safetensors`.
    pub fn shipped() -> &'static Estimator {
        static SHIPPED: LazyLock<Estimator> = LazyLock::new(|| {
            let bytes = include_bytes!("../../../data/kernels/checkpoint.safetensors");
            let (ensembles, _) = checkpoint::read(bytes)
                .unwrap_or_else(|error| panic!("data/kernels/checkpoint.safetensors: {error}"));
            Estimator::new(ensembles)
        });
        &SHIPPED
    }

    /// Seconds of a kernel, as by [`Estimator::seconds`], where networks were better than closed forms on measurements
    /// that they did not see (`data/kernels/README.md`): on NVIDIA's devices that were measured, are siblings of such or have eight
    /// kernels measured by the user, and for attention to more than one query on all of NVIDIA's. Cards whose power holds them below
    /// their peaks need measured kernels. O(weights).
    pub fn in_use(&self, device: &Device, shape: &Shape, precision: Precision) -> Option<Estimate> {
        if !device.is_nvidia() {
            return None;
        }
        let estimate = self.seconds(device, shape, precision)?;
        let is_calibrated =
            self.calibration(device, shape, precision).is_some_and(|found| found.width.is_some());
        if is_held_by_power(device) && !is_calibrated {
            return None;
        }
        let is_known = estimate.basis != Basis::Others || is_calibrated;
        let is_better = match shape.group(precision)? {
            Group::Products | Group::SingleProducts => is_known,
            Group::Attention => is_known || shape.variant(precision) != "decode",
            Group::Rows | Group::Convolutions => false,
        };
        is_better.then_some(estimate)
    }

    fn calibration(&self, device: &Device, shape: &Shape, precision: Precision) -> Option<Calibration> {
        let key = (device.name.clone(), shape.group(precision)?, shape.variant(precision));
        self.calibrations.get(&key).copied()
    }

    /// The estimator with offsets of the launch and of both shares for a device, fitted to kernels that were measured on
    /// it: to the smoothed absolute errors of the logarithm, with a penalty that keeps the offsets of few kernels small. Each
    /// variant of a group of kernels has offsets of its own. O(kernels).
    pub fn calibrated(&self, device: &Device, measured: &[(Shape, Precision, f64)]) -> Estimator {
        let mut estimator = self.clone();
        let mut examples: BTreeMap<(Group, &str), Vec<_>> = BTreeMap::new();
        for (shape, precision, seconds) in measured.iter().filter(|(.., seconds)| *seconds > 0.0) {
            let Some(group) = shape.group(*precision).filter(|_| shape.is_valid()) else { continue };
            let Some(ensemble) = self.ensembles.get(&group) else { continue };
            let Some(processor) = Processor::new(device, *precision) else { continue };
            let Some(seen) = features(shape, *precision, &processor) else { continue };
            let variant = shape.variant(*precision);
            let (classes, _) = classes(ensemble, device, &processor, variant, *precision);
            let outputs = ensemble.outputs(&seen, &classes);
            let target = log(processor.kilocycles(*seconds));
            examples.entry((group, variant)).or_default().push((outputs, seen.kilocycles, target));
        }
        for ((group, variant), examples) in examples {
            let error = |outputs: &[[f64; OUTPUTS]], offsets: &[f64; OUTPUTS], kilocycles, target: f64| {
                let moved = outputs.iter().map(|outputs| {
                    head(std::array::from_fn(|index| outputs[index] + offsets[index]), kilocycles)
                });
                moved.sum::<f64>() / outputs.len().max(1) as f64 - target
            };
            let loss = |offsets: &[f64; OUTPUTS]| {
                let errors = examples.iter().map(|(outputs, kilocycles, target)| {
                    let error = error(outputs, offsets, *kilocycles, *target);
                    sqrt(error * error + SMOOTH * SMOOTH)
                });
                let squares = offsets.iter().zip(DEVIATIONS).map(|(offset, usual)| (offset / usual).powi(2));
                errors.sum::<f64>() + PENALTY * squares.sum::<f64>()
            };
            let offsets = minimise(&loss, [0.0; OUTPUTS], 0.3, 220);
            let mut errors: Vec<f64> = examples
                .iter()
                .map(|(outputs, kilocycles, target)| error(outputs, &offsets, *kilocycles, *target).abs())
                .collect();
            errors.sort_by(f64::total_cmp);
            // The offsets were fitted to these very kernels.
            let count = errors.len() as f64;
            let width = (errors.len() >= MEASURED).then(|| {
                let quantile = errors[(0.68 * count) as usize];
                (quantile * sqrt(count / (count - OUTPUTS as f64))).max(WIDTHS[0])
            });
            let key = (device.name.clone(), group, variant);
            estimator.calibrations.insert(key, Calibration { offsets, width });
        }
        estimator
    }

    /// Seconds of a kernel on a device at a precision; `None` without networks for the kernel, for sizes that are not
    /// positive and finite, and for a device without the figures of a processor. O(weights).
    pub fn seconds(&self, device: &Device, shape: &Shape, precision: Precision) -> Option<Estimate> {
        let processor = Processor::new(device, precision)?;
        let group = shape.group(precision).filter(|_| shape.is_valid())?;
        let ensemble = self.ensembles.get(&group)?;
        let (classes, basis) = classes(ensemble, device, &processor, shape.variant(precision), precision);
        let calibration = self.calibration(device, shape, precision);
        let offsets = calibration.map(|calibration| calibration.offsets).unwrap_or_default();
        let width = calibration.and_then(|calibration| calibration.width).unwrap_or(WIDTHS[basis as usize]);
        let predict = |shape: &Shape| -> Option<(Prediction, f64)> {
            let features = features(shape, precision, &processor)?;
            let [compute, memory] = features.kilocycles;
            let prediction = ensemble.predict(&features, &classes, offsets);
            Some((prediction, prediction.kilocycles.max(compute).max(memory)))
        };
        let (prediction, mut kilocycles) = predict(shape)?;
        if let Some(half) = halved(shape) {
            kilocycles = kilocycles.max(HALF * predict(&half)?.1);
        }
        let seconds = processor.seconds(kilocycles);
        (seconds.is_finite() && seconds > 0.0).then_some(Estimate {
            seconds,
            spread: hypot(width, DEVIATION * prediction.spread),
            basis,
        })
    }
}

/// Classes of an ensemble for a device, with weights that sum to one or to zero, and what they are to the device.
pub fn classes(
    ensemble: &Ensemble,
    device_of: &Device,
    processor: &Processor,
    variant: &str,
    precision: Precision,
) -> (Vec<(usize, f64)>, Basis) {
    if let Some(class) = ensemble.class(&device_of.name, variant) {
        return (vec![(class, 1.0)], Basis::Seen);
    }
    let known: Vec<(usize, Processor)> = ensemble
        .classes
        .iter()
        .enumerate()
        .filter_map(|(index, class)| {
            let (name, of_class) = class.split_once('/')?;
            let other = Processor::new(device(name)?, precision)?;
            (of_class == variant).then_some((index, other))
        })
        .collect();
    let others: Vec<Processor> = known.iter().map(|(_, other)| *other).collect();
    let weights = processor.sibling_weights(&others);
    let classes: Vec<(usize, f64)> =
        known.iter().zip(weights).filter_map(|((index, _), weight)| Some((*index, weight?))).collect();
    let basis = if classes.is_empty() { Basis::Others } else { Basis::Siblings };
    (classes, basis)
}

/// The kernel of half the rows or keys; `None` for a kernel that cannot be halved.
fn halved(shape: &Shape) -> Option<Shape> {
    match *shape {
        Shape::Library(KernelDocument::Product { batch, m, n, k }) if m >= 2.0 => {
            Some(Shape::Library(KernelDocument::Product { batch, m: (m / 2.0).floor(), n, k }))
        }
        Shape::Library(KernelDocument::Attention {
            batch,
            queries,
            keys,
            heads,
            kv_heads,
            head_dim,
            causal,
        }) if keys >= 2.0 && queries <= 1.0 => Some(Shape::Library(KernelDocument::Attention {
            batch,
            queries,
            keys: (keys / 2.0).floor(),
            heads,
            kv_heads,
            head_dim,
            causal,
        })),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::{Class, EMBEDDING, Layer, Network};

    fn product(batch: f64, m: f64, n: f64, k: f64) -> Shape {
        Shape::Library(KernelDocument::Product { batch, m, n, k })
    }

    fn attention(queries: f64, keys: f64, causal: bool) -> Shape {
        let (batch, heads, kv_heads, head_dim) = (4.0, 32.0, 8.0, 128.0);
        Shape::Library(KernelDocument::Attention { batch, queries, keys, heads, kv_heads, head_dim, causal })
    }

    /// Networks that reach a tenth of the peaks after a launch of a thousand cycles.
    fn constant(group: Group, classes: &[&str]) -> Ensemble {
        let features = group.features();
        let tenth = (1.0_f32 / 9.0).ln();
        let network = Network {
            layers: vec![Layer {
                weights: vec![0.0; 3 * (features + EMBEDDING)],
                biases: vec![0.0, tenth, tenth],
            }],
            classes: vec![Class::default(); classes.len()],
        };
        let scale = crate::ensemble::Scale { mean: 0.0, deviation: 1.0, least: -9.0, most: 9.0 };
        Ensemble {
            group,
            scales: vec![scale; features],
            classes: classes.iter().map(|class| (*class).to_owned()).collect(),
            networks: vec![network],
        }
    }

    #[test]
    fn seconds_follow_from_the_shares_and_the_clock() {
        let estimator = Estimator::new([constant(Group::Products, &["h100/bf16"])]);
        let h100 = device("h100").unwrap();
        let shape = product(1.0, 8192.0, 8192.0, 8192.0);
        let estimate = estimator.seconds(h100, &shape, Precision::Bf16).unwrap();
        let compute = 2.0 * 8192_f64.powi(3) / 989.4e12;
        let bytes = 2.0 * 3.0 * 8192_f64.powi(2);
        let memory = ((bytes - 50.0 * 1_048_576.0) + 10.0 * 1_048_576.0) / 3.35e12;
        let expected = 1e3 / 1.98e9 + 10.0 * compute.hypot(memory);
        assert!((estimate.seconds / expected - 1.0).abs() < 1e-6, "{estimate:?}, {expected}");
        assert_eq!((estimate.basis, estimate.spread), (Basis::Seen, WIDTHS[0]));
        let basis =
            |name: &str| estimator.seconds(device(name).unwrap(), &shape, Precision::Bf16).unwrap().basis;
        assert_eq!((basis("h200"), basis("rtx-3060")), (Basis::Siblings, Basis::Others));
        assert_eq!(estimator.seconds(h100, &attention(1.0, 64.0, false), Precision::Bf16), None);
        assert_eq!(estimator.seconds(h100, &shape, Precision::Int8), None);
    }

    #[test]
    fn shipped_seconds_are_above_the_roofline_and_finite_at_any_size() {
        let estimator = Estimator::shipped();
        let sizes = [1.0, 3.0, 64.0, 1000.0, 65536.0, 1e9, 1e15];
        for name in ["h100", "b200", "t4", "rtx-4090", "k80", "mi300x"] {
            let device = device(name).unwrap();
            for precision in [Precision::Bf16, Precision::Fp16, Precision::Fp8, Precision::Fp32] {
                let Some(processor) = Processor::new(device, precision) else { continue };
                for (m, n) in sizes.into_iter().flat_map(|m| sizes.map(|n| (m, n))) {
                    for shape in [product(1.0, m, n, 128.0), product(n, m, 64.0, m), attention(m, n, true)] {
                        let Some(estimate) = estimator.seconds(device, &shape, precision) else { continue };
                        let [compute, memory] = features(&shape, precision, &processor).unwrap().kilocycles;
                        let least = processor.seconds(compute.max(memory));
                        let is_sound =
                            estimate.seconds >= least * (1.0 - 1e-12) && estimate.seconds.is_finite();
                        assert!(
                            is_sound && estimate.spread >= 0.0,
                            "{name} {shape:?}: {estimate:?}, {least}"
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn sizes_that_are_no_sizes_have_no_seconds() {
        let h100 = device("h100").unwrap();
        for size in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e300] {
            for shape in
                [product(1.0, size, 8.0, 8.0), product(size, 8.0, 8.0, 8.0), attention(1.0, size, false)]
            {
                assert_eq!(Estimator::shipped().seconds(h100, &shape, Precision::Bf16), None, "{shape:?}");
            }
        }
    }

    #[test]
    fn a_kernel_takes_at_least_four_fifths_of_half_of_it() {
        let (estimator, h100) = (Estimator::shipped(), device("h100").unwrap());
        let seconds = |m: f64| {
            let shape = product(1.0, m, 4096.0, 4096.0);
            estimator.seconds(h100, &shape, Precision::Bf16).unwrap().seconds
        };
        for m in 1..=512 {
            // The guard looks one halving back, so what it raises there may count again.
            let (half, whole) = (seconds(f64::from(m)), seconds(f64::from(2 * m)));
            assert!(whole >= 0.8 * 0.8 * half, "{m}: {half}, {whole}");
        }
    }

    #[test]
    fn eight_measured_kernels_bring_networks_into_use_and_say_how_far_off_they_are() {
        let estimator = Estimator::shipped();
        let shape = product(1.0, 3000.0, 4096.0, 4096.0);
        for name in ["rtx-4090", "l4"] {
            let device = device(name).unwrap();
            let before = estimator.seconds(device, &shape, Precision::Bf16).unwrap();
            assert_eq!(estimator.in_use(device, &shape, Precision::Bf16), None, "{name}");
            let calibrated = |count: i32, noise: f64| {
                let row = |index: i32| {
                    let shape = product(1.0, 500.0 * f64::from(index), 4096.0, 4096.0);
                    let own = estimator.seconds(device, &shape, Precision::Bf16).unwrap().seconds;
                    let factor = 1.5 * noise.powi(if index % 2 == 0 { 1 } else { -1 });
                    (shape, Precision::Bf16, factor * own)
                };
                let rows: Vec<_> = (1..=count).map(row).collect();
                estimator.calibrated(device, &rows).in_use(device, &shape, Precision::Bf16)
            };
            assert_eq!(calibrated(7, 1.0), None, "{name}");
            let after = calibrated(8, 1.0).unwrap();
            let ratio = after.seconds / before.seconds;
            assert!((1.35..1.6).contains(&ratio) && after.spread < before.spread, "{name}: {ratio}");
            assert!(calibrated(8, 1.3).unwrap().spread > after.spread, "{name}");
        }
        let l4 = device("l4").unwrap();
        assert_eq!(estimator.in_use(l4, &attention(1024.0, 1024.0, true), Precision::Bf16), None);
    }
}
