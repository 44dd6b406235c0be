//! Samples as networks see them: scaled features, classes by number, and the logarithm of cycles.

use stagewright_learned::ensemble::Scale;
use stagewright_learned::features::features;
use stagewright_learned::{Group, Processor};

use super::Sample;

/// Room beyond what training saw, in deviations: a network may extrapolate a little.
const BEYOND: f32 = 2.0;

/// Examples of a group.
#[derive(Debug, Clone, PartialEq)]
pub struct Examples {
    /// The group.
    pub group: Group,
    /// Scales of the features.
    pub scales: Vec<Scale>,
    /// Classes, in order.
    pub classes: Vec<String>,
    /// Scaled features, one row for each example.
    pub features: Vec<f32>,
    /// Lower bounds of computation and memory traffic, in thousands of cycles, for each example.
    pub kilocycles: Vec<[f32; 2]>,
    /// Class of each example.
    pub class: Vec<u32>,
    /// Natural logarithm of the measured thousands of cycles of each example.
    pub target: Vec<f32>,
}

impl Examples {
    /// Examples of the samples of a group; samples of other groups are left out. O(n · features).
    pub fn new<'s>(group: Group, samples: impl IntoIterator<Item = &'s Sample>) -> Examples {
        let mut rows = Vec::new();
        let (mut kilocycles, mut names, mut target) = (Vec::new(), Vec::new(), Vec::new());
        for sample in samples {
            if sample.group() != Some(group) {
                continue;
            }
            let Some(processor) = Processor::new(sample.device, sample.precision) else { continue };
            let Some(seen) = features(&sample.shape, sample.precision, &processor) else { continue };
            rows.push(seen.values);
            kilocycles.push(seen.kilocycles.map(|cycles| cycles as f32));
            names.push(sample.class());
            target.push(processor.kilocycles(sample.seconds).ln() as f32);
        }
        let mut classes = names.clone();
        classes.sort();
        classes.dedup();
        let class =
            names.iter().filter_map(|name| classes.binary_search(name).ok()).map(|index| index as u32);
        let class = class.collect();
        let count = rows.len().max(1) as f64;
        let scales: Vec<Scale> = (0..group.features())
            .map(|feature| {
                let column = || rows.iter().map(|row| row[feature]);
                let mean = column().sum::<f64>() / count;
                let deviation =
                    (column().map(|value| (value - mean).powi(2)).sum::<f64>() / count).sqrt().max(1e-3);
                let scaled = |value: f64| ((value - mean) / deviation) as f32;
                let least = column().fold(f64::INFINITY, f64::min);
                let most = column().fold(f64::NEG_INFINITY, f64::max);
                Scale {
                    mean: mean as f32,
                    deviation: deviation as f32,
                    least: scaled(least) - BEYOND,
                    most: scaled(most) + BEYOND,
                }
            })
            .collect();
        let features = rows
            .iter()
            .flat_map(|row| row.iter().zip(&scales).map(|(value, scale)| scale.scaled(*value)))
            .collect();
        Examples { group, scales, classes, features, kilocycles, class, target }
    }

    /// Number of examples.
    pub fn len(&self) -> usize {
        self.target.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.target.is_empty()
    }
}
