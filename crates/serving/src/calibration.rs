//! Calibrations: measured factors on predicted times, `stagewright.serving-calibration/1`.

use serde::{Deserialize, Serialize};
use stagewright_formats::code::L;
use stagewright_formats::{InputError, Result};

use crate::request::{Load, Prediction, RequestClass};

/// Schema of a calibration.
pub const SCHEMA: &str = "stagewright.serving-calibration/1";

/// Fewest measurements that make a factor.
pub const FEWEST: usize = 4;

/// Factors on predicted times, each for a model on a system under an engine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Calibration {
    /// Schema, [`SCHEMA`].
    pub schema: String,
    /// Factors.
    pub factors: Vec<Factor>,
}

/// Factors for a model on a system under an engine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Factor {
    /// Name of the model.
    pub model: String,
    /// Name of the device.
    pub system: String,
    /// Name of the engine.
    pub engine: String,
    /// Measured times to the first token by predicted ones.
    pub ttft: f64,
    /// Measured times between tokens by predicted ones.
    pub tpot: f64,
    /// Number of measurements.
    pub measurements: u64,
}

impl Calibration {
    /// A calibration of factors.
    pub fn new(factors: Vec<Factor>) -> Calibration {
        Calibration { schema: SCHEMA.into(), factors }
    }

    /// Reads a calibration in JSON. `label` names the file in errors.
    ///
    /// # Errors
    /// If the text is no calibration, has a factor that is no positive number, or one setting twice (L025).
    pub fn read(label: &str, bytes: &[u8]) -> Result<Calibration> {
        let wrong = |path: String, message: String, help: &str| {
            InputError::at_path(L::L025, label, path, message, help)
        };
        let calibration: Calibration = serde_json::from_slice(bytes)
            .map_err(|error| wrong(String::new(), error.to_string(), "give a calibration of serving"))?;
        if calibration.schema != SCHEMA {
            let message = format!("the schema is `{}`", calibration.schema);
            return Err(wrong("schema".into(), message, &format!("give `{SCHEMA}`")));
        }
        for (index, factor) in calibration.factors.iter().enumerate() {
            let is_positive = |value: f64| value.is_finite() && value > 0.0;
            if !is_positive(factor.ttft) || !is_positive(factor.tpot) {
                let message = format!("factors {} and {}", factor.ttft, factor.tpot);
                return Err(wrong(format!("factors[{index}]"), message, "give positive numbers"));
            }
            let earlier = &calibration.factors[..index];
            if earlier.iter().any(|other| other.is_for(&factor.model, &factor.system, &factor.engine)) {
                let message = format!(
                    "`{}` on `{}` under `{}` is given twice",
                    factor.model, factor.system, factor.engine
                );
                return Err(wrong(format!("factors[{index}]"), message, "keep one of them"));
            }
        }
        Ok(calibration)
    }

    /// Writes the calibration in JSON.
    pub fn write(&self) -> String {
        serde_json::to_string_pretty(self).expect("a calibration has only texts and numbers")
    }

    /// The factor of a model, a system and an engine, if there is one.
    pub fn find(&self, model: &str, system: &str, engine: &str) -> Option<&Factor> {
        self.factors.iter().find(|factor| factor.is_for(model, system, engine))
    }
}

impl Factor {
    fn is_for(&self, model: &str, system: &str, engine: &str) -> bool {
        self.model == model && self.system == system && self.engine == engine
    }

    /// A prediction with the factors on its times.
    pub fn apply(&self, prediction: Prediction, class: &RequestClass, load: &Load) -> Prediction {
        prediction.scaled(class, load, self.ttft, self.tpot)
    }
}

/// The factor that most measurements agree on: the median of measured by predicted times; `None` of fewer than [`FEWEST`].
pub fn factor(ratios: impl Iterator<Item = f64>) -> Option<f64> {
    let mut ratios: Vec<f64> = ratios.filter(|ratio| ratio.is_finite() && *ratio > 0.0).collect();
    if ratios.len() < FEWEST {
        return None;
    }
    ratios.sort_by(f64::total_cmp);
    let middle = ratios.len() / 2;
    let is_even = ratios.len().is_multiple_of(2);
    Some(if is_even { (ratios[middle - 1] * ratios[middle]).sqrt() } else { ratios[middle] })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given() -> Factor {
        Factor {
            model: "m".into(),
            system: "h100".into(),
            engine: "vllm".into(),
            ttft: 1.5,
            tpot: 0.9,
            measurements: 7,
        }
    }

    #[test]
    fn calibrations_are_read_as_they_are_written() {
        let calibration = Calibration::new(vec![given()]);
        let read = Calibration::read("c.json", calibration.write().as_bytes()).unwrap();
        assert_eq!(read, calibration);
        assert_eq!(read.find("m", "h100", "vllm"), Some(&given()));
        assert_eq!(read.find("m", "h200", "vllm"), None);
    }

    #[test]
    fn unusable_calibrations_are_refused() {
        let twice = Calibration::new(vec![given(), given()]).write();
        let negative = Calibration::new(vec![Factor { tpot: -1.0, ..given() }]).write();
        let schema = Calibration { schema: "other/1".into(), factors: vec![] }.write();
        for (text, path) in
            [(twice, "factors[1]"), (negative, "factors[0]"), (schema, "schema"), ("{".into(), "")]
        {
            let error = Calibration::read("c.json", text.as_bytes()).unwrap_err();
            assert_eq!((error.code.name, error.place.at.to_string().as_str()), ("L025", path));
        }
    }

    #[test]
    fn a_factor_is_the_median_and_needs_four_measurements() {
        assert_eq!(factor([1.0, 2.0, 100.0].into_iter()), None);
        assert_eq!(factor([1.0, 2.0, 8.0, 100.0].into_iter()), Some(4.0));
        assert_eq!(factor([1.0, 2.0, 3.0, 50.0, 100.0].into_iter()), Some(3.0));
    }
}
