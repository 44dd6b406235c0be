//! A network: features and the embedding of a class to launch cycles and the shares of compute and memory that a kernel
//! reaches.
//!
//! ```text
//! t = e^z₀ + √((C / σ(z₁))² + (M / σ(z₂))²)      in thousands of cycles
//! ```
//!
//! with the least cycles C and M of computation and of memory traffic. Every sum has a fixed order and no term is fused
//! or reordered, and the exponentials are this module's and `libm`'s, so the result is the same, bit by bit, on every
//! machine, whatever its vector units.

use libm::{exp, log, sqrt};

/// Numbers that describe a class.
pub const EMBEDDING: usize = 3;

/// Outputs before the head.
pub const OUTPUTS: usize = 3;

/// Largest absolute value of an output before the head.
pub const LARGEST: f64 = 12.0;

/// A dense layer.
#[derive(Debug, Clone, PartialEq)]
pub struct Layer {
    /// Weights, one row of outputs for each input.
    pub weights: Vec<f32>,
    /// Biases, one for each output.
    pub biases: Vec<f32>,
}

/// Parameters of a class.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Class {
    /// Further inputs.
    pub embedding: [f32; EMBEDDING],
    /// Added to the outputs before the head.
    pub offsets: [f32; OUTPUTS],
}

/// A network.
#[derive(Debug, Clone, PartialEq)]
pub struct Network {
    /// Layers; all but the last are followed by SiLU.
    pub layers: Vec<Layer>,
    /// Classes, in the order of the ensemble.
    pub classes: Vec<Class>,
}

impl Network {
    /// Mean of classes, weighted; classes that are not mentioned count as zero.
    pub fn mean(&self, weights: &[(usize, f64)]) -> Class {
        let mut mean = Class::default();
        for &(class, weight) in weights {
            let Class { embedding, offsets } = self.classes[class];
            for (sum, number) in mean.embedding.iter_mut().zip(embedding) {
                *sum += weight as f32 * number;
            }
            for (sum, number) in mean.offsets.iter_mut().zip(offsets) {
                *sum += weight as f32 * number;
            }
        }
        mean
    }

    /// Outputs before the head, for scaled features. O(weights).
    pub fn outputs(&self, features: &[f32], class: &Class) -> [f64; OUTPUTS] {
        let mut values: Vec<f32> = features.iter().chain(&class.embedding).copied().collect();
        for (index, Layer { weights, biases }) in self.layers.iter().enumerate() {
            let mut sums = biases.clone();
            for (value, row) in values.iter().zip(weights.chunks_exact(biases.len())) {
                for (sum, weight) in sums.iter_mut().zip(row) {
                    *sum += value * weight;
                }
            }
            if index + 1 < self.layers.len() {
                sums.iter_mut().for_each(|sum| *sum = silu(*sum));
            }
            values = sums;
        }
        let mut outputs = [0.0; OUTPUTS];
        for ((output, value), offset) in outputs.iter_mut().zip(&values).zip(class.offsets) {
            *output = f64::from(value + offset);
        }
        outputs
    }
}

/// Natural logarithm of thousands of cycles, from the outputs of a network and the least thousands of cycles of
/// computation and of memory traffic.
pub fn head(outputs: [f64; OUTPUTS], [compute, memory]: [f64; 2]) -> f64 {
    let [launch, of_compute, of_memory] = outputs.map(|output| output.clamp(-LARGEST, LARGEST));
    let compute = compute * (1.0 + exp(-of_compute));
    let memory = memory * (1.0 + exp(-of_memory));
    log(exp(launch) + sqrt(compute * compute + memory * memory))
}

fn silu(value: f32) -> f32 {
    value / (1.0 + exponential(-value))
}

/// e^x in single precision, to a relative error of 10⁻⁶: x = n ln 2 + r with |r| ≤ ln 2 / 2, a polynomial of r, and n
/// as the exponent.
fn exponential(value: f32) -> f32 {
    let value = value.clamp(-87.0, 87.0);
    let whole = (value * std::f32::consts::LOG2_E + 12_582_912.0) - 12_582_912.0;
    // ln 2 in two parts, so that the remainder is exact.
    let rest = value - whole * 0.693_359_4 + whole * 2.121_944_4e-4;
    let mut sum = 1.0 / 720.0;
    for coefficient in [1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0, 0.5, 1.0, 1.0] {
        sum = sum * rest + coefficient;
    }
    sum * f32::from_bits((((whole as i32) + 127) << 23) as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_exponential_is_that_of_the_library() {
        for step in -8700..=8700 {
            let value = step as f32 / 100.0;
            let (own, known) = (f64::from(exponential(value)), f64::from(value).exp());
            assert!((own / known - 1.0).abs() < 2e-6, "{value}: {own}, {known}");
        }
        assert!(exponential(f32::NEG_INFINITY) >= 0.0 && exponential(1e30).is_finite());
        assert_eq!(silu(0.0), 0.0);
    }

    #[test]
    fn a_network_is_its_layers_and_its_class() {
        let network = Network {
            layers: vec![
                Layer { weights: vec![1.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0], biases: vec![0.0, 0.5] },
                Layer { weights: vec![1.0, 2.0, 3.0, 0.0, 0.0, 1.0], biases: vec![0.0; 3] },
            ],
            classes: vec![Class { embedding: [1.0, 0.0, 0.0], offsets: [0.0, 0.0, 4.0] }],
        };
        // The single feature is 2, the first number of the embedding 1.
        let class = network.mean(&[(0, 1.0)]);
        let [first, second] = [silu(2.0), silu(1.5)].map(f64::from);
        let outputs = network.outputs(&[2.0], &class);
        let expected = [first, 2.0 * first, 3.0 * first + second + 4.0];
        assert!(outputs.iter().zip(expected).all(|(own, known)| (own - known).abs() < 1e-5), "{outputs:?}");
        assert_eq!(network.mean(&[]), Class::default());
    }

    #[test]
    fn the_head_adds_a_launch_to_what_shares_of_the_peaks_take() {
        // Shares of one half: six and eight thousand cycles.
        assert!((head([0.0, 0.0, 0.0], [3.0, 4.0]) - 11.0_f64.ln()).abs() < 1e-12);
        assert!(head([1e9, -1e9, f64::MAX], [1e9, 1e9]).is_finite());
    }
}
