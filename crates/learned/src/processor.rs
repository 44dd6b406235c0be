//! Figures of a device that kernels depend on, and which devices are alike.

use libm::{exp, log2, sqrt};
use stagewright_core::document::Precision;
use stagewright_formats::clusters::Device;

/// Bandwidth of the last cache as a multiple of the memory's, at most: the lower bound of a kernel assumes it.
const CACHE_SPEED: f64 = 5.0;

/// Largest distance of devices that are siblings: H100 and H200 are 0.26 apart, A100 and H100 more than 1.
const SIBLING: f64 = 0.8;

/// Distance at which the weight of a sibling has fallen to 1/e.
const NEAR: f64 = 0.3;

/// Cards of at most 75 W, by their makers' data sheets.
const HELD_BY_POWER: [&str; 4] = ["p4", "t4", "l4", "rtx-2000-ada"];

/// Whether a device's power holds large kernels far below its peaks, which no figure of it says: in single precision, the L4 reaches
/// 29% of its peak where the H100 reaches 74% (NeuSight's measurements), and half of the peak was the better guess.
pub fn is_held_by_power(device: &Device) -> bool {
    HELD_BY_POWER.contains(&device.name.as_str())
}

/// A device at one precision, as kernels see it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Processor {
    /// Dense peak at the precision, in FLOP per second.
    pub flops: f64,
    /// Memory bandwidth, in bytes per second.
    pub bandwidth: f64,
    /// Number of multiprocessors.
    pub multiprocessors: f64,
    /// Bytes of the last cache before memory.
    pub cache_bytes: f64,
    /// Boost clock, in cycles per second.
    pub clock_hz: f64,
}

impl Processor {
    /// A device at a precision; `None` without figures of its chip, its bandwidth or a peak at the precision. fp16 and
    /// bf16 stand in for each other.
    pub fn new(device: &Device, precision: Precision) -> Option<Processor> {
        let chip = device.chip?;
        let peak = |precision| device.peak_flops.get(&precision).copied();
        let flops = match precision {
            Precision::Fp32 => chip.fp32_products.or(peak(Precision::Fp32)),
            Precision::Bf16 => peak(Precision::Bf16).or(peak(Precision::Fp16)),
            Precision::Fp16 => peak(Precision::Fp16).or(peak(Precision::Bf16)),
            other => peak(other),
        }?;
        Some(Processor {
            flops,
            bandwidth: device.memory_bandwidth?,
            multiprocessors: f64::from(chip.multiprocessors),
            cache_bytes: chip.cache_bytes,
            clock_hz: chip.clock_hz,
        })
    }

    /// Thousands of cycles of some seconds.
    pub fn kilocycles(&self, seconds: f64) -> f64 {
        seconds * self.clock_hz / 1e3
    }

    /// Seconds of thousands of cycles.
    pub fn seconds(&self, kilocycles: f64) -> f64 {
        kilocycles * 1e3 / self.clock_hz
    }

    /// Lower bound of the seconds in which the processor can move some bytes, with the last cache at five times the bandwidth of
    /// memory.
    pub fn least_memory_seconds(&self, bytes: f64) -> f64 {
        let cached = bytes.min(self.cache_bytes);
        (bytes - cached + cached / CACHE_SPEED) / self.bandwidth
    }

    /// Distance of two processors: Euclidean, over the logarithms to base 2 of FLOP and of bytes per cycle and
    /// multiprocessor, of the numbers of multiprocessors, of the roots of the caches, and of the clocks.
    pub fn distance(&self, other: &Processor) -> f64 {
        let figures = |processor: &Processor| {
            let share = processor.multiprocessors * processor.clock_hz;
            [
                log2(processor.flops / share),
                log2(processor.bandwidth / share),
                log2(processor.multiprocessors),
                0.5 * log2(processor.cache_bytes),
                log2(processor.clock_hz),
            ]
        };
        let (own, others) = (figures(self), figures(other));
        sqrt(own.iter().zip(others).map(|(own, other)| (own - other) * (own - other)).sum())
    }

    /// Weights of the processors that are siblings of this one, which sum to one; `None` for the others. All are `None`
    /// without a sibling. O(others).
    pub fn sibling_weights(&self, others: &[Processor]) -> Vec<Option<f64>> {
        let weight = |other: &Processor| {
            let distance = self.distance(other);
            (distance < SIBLING).then(|| exp(-(distance / NEAR) * (distance / NEAR)))
        };
        let weights: Vec<Option<f64>> = others.iter().map(weight).collect();
        let total: f64 = weights.iter().flatten().sum();
        weights.into_iter().map(|weight| Some(weight? / total)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use stagewright_formats::clusters::device;

    fn named(name: &str) -> Processor {
        Processor::new(device(name).unwrap(), Precision::Bf16).unwrap()
    }

    #[test]
    fn devices_of_one_die_are_siblings_and_others_are_not() {
        let [h100, h200, a100, l40s, rtx_4090] = ["h100", "h200", "a100", "l40s", "rtx-4090"].map(named);
        let weights = h100.sibling_weights(&[h200, a100]);
        assert_eq!(weights, [Some(1.0), None]);
        assert_eq!(a100.sibling_weights(&[h200, l40s]), [None, None]);
        assert!(h100.distance(&h200) < h100.distance(&a100));
        assert_eq!(h100.distance(&h100), 0.0);
        let halves = h100.sibling_weights(&[h200, h200]);
        assert_eq!(halves, [Some(0.5), Some(0.5)]);
        assert!(rtx_4090.distance(&l40s) > 0.0);
    }

    #[test]
    fn a_cache_shortens_memory_traffic_by_at_most_its_bytes() {
        let h100 = named("h100");
        let cache = h100.cache_bytes;
        let all = h100.least_memory_seconds(3.0 * cache);
        assert!((all - (2.0 * cache + cache / 5.0) / h100.bandwidth).abs() < 1e-18);
        assert_eq!(h100.seconds(h100.kilocycles(1e-3)), 1e-3);
    }

    #[test]
    fn a_device_without_a_peak_or_a_chip_is_no_processor() {
        assert_eq!(Processor::new(device("a100").unwrap(), Precision::Fp8), None);
        assert_eq!(Processor::new(device("tpu-v4").unwrap(), Precision::Bf16), None);
        let single = Processor::new(device("mi100").unwrap(), Precision::Fp32).unwrap();
        assert_eq!(single.flops, 46.1e12, "products run on matrix units");
    }
}
