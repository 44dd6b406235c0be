//! The networks of a group, with the classes that they were trained on.

use libm::{exp, sqrt};

use crate::features::Features;
use crate::network::{Network, OUTPUTS, head};
use crate::shape::Group;

/// How a feature is scaled before a network sees it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Scale {
    /// Mean in training.
    pub mean: f32,
    /// Standard deviation in training, at least 10⁻³.
    pub deviation: f32,
    /// Smallest scaled value in training.
    pub least: f32,
    /// Largest scaled value in training.
    pub most: f32,
}

impl Scale {
    /// The scaled feature, within what training saw.
    pub fn scaled(&self, value: f64) -> f32 {
        (((value - f64::from(self.mean)) / f64::from(self.deviation)) as f32).clamp(self.least, self.most)
    }
}

/// The networks of a group.
#[derive(Debug, Clone, PartialEq)]
pub struct Ensemble {
    /// Kernels that the networks predict.
    pub group: Group,
    /// Scales of the features.
    pub scales: Vec<Scale>,
    /// Classes of the training data: a device and a variant, such as `h100/fp8`.
    pub classes: Vec<String>,
    /// The networks, trained from different seeds.
    pub networks: Vec<Network>,
}

/// Prediction of an ensemble.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Prediction {
    /// Thousands of cycles: the geometric mean of the networks.
    pub kilocycles: f64,
    /// Standard deviation of the networks' natural logarithms.
    pub spread: f64,
}

impl Ensemble {
    /// The class of a device and a variant, if the networks were trained on it. O(classes).
    pub fn class(&self, device: &str, variant: &str) -> Option<usize> {
        self.classes.iter().position(|class| {
            class.strip_suffix(variant).and_then(|rest| rest.strip_suffix('/')) == Some(device)
        })
    }

    /// Outputs of each network before the head, for features and a weighted mean of classes. O(weights).
    pub fn outputs(&self, features: &Features, classes: &[(usize, f64)]) -> Vec<[f64; OUTPUTS]> {
        let values: Vec<f32> =
            features.values.iter().zip(&self.scales).map(|(value, scale)| scale.scaled(*value)).collect();
        self.networks.iter().map(|network| network.outputs(&values, &network.mean(classes))).collect()
    }

    /// Prediction for features and a weighted mean of classes; none at all for an unknown class. `offsets` are added to
    /// the outputs, as calibration finds them. O(weights).
    pub fn predict(
        &self,
        features: &Features,
        classes: &[(usize, f64)],
        offsets: [f64; OUTPUTS],
    ) -> Prediction {
        let logarithms: Vec<f64> = self
            .outputs(features, classes)
            .into_iter()
            .map(|outputs| {
                let mut outputs = outputs;
                outputs.iter_mut().zip(offsets).for_each(|(output, offset)| *output += offset);
                head(outputs, features.kilocycles)
            })
            .collect();
        let count = logarithms.len().max(1) as f64;
        let mean = logarithms.iter().sum::<f64>() / count;
        let variance = logarithms.iter().map(|value| (value - mean) * (value - mean)).sum::<f64>() / count;
        Prediction { kilocycles: exp(mean), spread: sqrt(variance) }
    }
}
