//! Repeated measurements of named operators, reduced to a median and a spread.

use std::collections::BTreeMap;

use stagewright_core::document::OperatorCostsDocument;
use stagewright_formats::{InputError, Result};

use crate::code::Q103;

/// Largest number of microseconds that is a plausible duration: as long as the longest of a costs document.
const LONGEST: f64 = 1e21;

/// Seconds of a duration in microseconds.
///
/// # Errors
/// If it is negative or absurdly large (Q103).
pub(super) fn seconds(label: &str, path: impl FnOnce() -> String, micros: f64) -> Result<f64> {
    if (0.0..=LONGEST).contains(&micros) {
        // Division gives the number nearest to the one in the text; multiplication by 1e-6 may not.
        return Ok(micros / 1e6);
    }
    let message = format!("{micros} is no duration in microseconds");
    let help = "measure again: the program that wrote the file lost the start or the end of the event";
    Err(InputError::at_path(Q103, label, path(), message, help))
}

/// Seconds of every call of every operator, in the order of the calls.
#[derive(Debug, Default)]
pub(super) struct Samples(BTreeMap<String, Vec<f64>>);

impl Samples {
    pub(super) fn add(&mut self, name: &str, seconds: f64) {
        match self.0.get_mut(name) {
            Some(calls) => calls.push(seconds),
            None => {
                self.0.insert(name.to_owned(), vec![seconds]);
            }
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Reduces the samples to medians and spreads. The first `warm_up` calls of an operator are left out if at least
    /// two others remain. An operator of a single call, or of median 0, has no spread.
    pub(super) fn summarise(self, class: String, source: String, warm_up: usize) -> OperatorCostsDocument {
        let (mut medians, mut spread) = (BTreeMap::new(), BTreeMap::new());
        for (name, mut calls) in self.0 {
            if calls.len() >= warm_up.saturating_add(2) {
                calls.drain(..warm_up);
            }
            calls.sort_by(f64::total_cmp);
            let middle = quantile(&calls, 0.5);
            if calls.len() > 1 && middle > 0.0 {
                let share = (quantile(&calls, 0.75) - quantile(&calls, 0.25)) / middle;
                if share.is_finite() {
                    spread.insert(name.clone(), share);
                }
            }
            medians.insert(name, middle);
        }
        OperatorCostsDocument { class, source, seconds: medians, spread }
    }
}

/// Median of measurements in any order; 0 if there are none.
pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    quantile(&values, 0.5)
}

/// Quantile of sorted numbers, interpolated between two; 0 if there are none.
fn quantile(sorted: &[f64], share: f64) -> f64 {
    let Some(last) = sorted.len().checked_sub(1) else { return 0.0 };
    let place = share * last as f64;
    let (low, high) = (sorted[place.floor() as usize], sorted[place.ceil() as usize]);
    low + (high - low) * place.fract()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(calls: &[f64], warm_up: usize) -> OperatorCostsDocument {
        let mut samples = Samples::default();
        for &call in calls {
            samples.add("x", call);
        }
        samples.summarise("cpu".into(), "test".into(), warm_up)
    }

    #[test]
    fn the_first_call_is_left_out_if_two_others_remain() {
        assert_eq!(of(&[9.0, 1.0, 3.0], 1).seconds["x"], 2.0);
        assert_eq!(of(&[9.0, 1.0], 1).seconds["x"], 5.0);
        assert_eq!(of(&[9.0, 1.0, 3.0], 0).seconds["x"], 3.0);
        assert_eq!(of(&[9.0, 1.0, 3.0], usize::MAX).seconds["x"], 3.0);
    }

    #[test]
    fn the_spread_is_the_middle_half_by_the_median() {
        let costs = of(&[5.0, 1.0, 2.0, 3.0, 4.0], 0);
        assert_eq!(costs.seconds["x"], 3.0);
        assert_eq!(costs.spread["x"], 2.0 / 3.0);
        assert!(of(&[1.0], 0).spread.is_empty());
        assert!(of(&[0.0, 0.0], 0).spread.is_empty());
    }

    #[test]
    fn microseconds_are_divided_exactly() {
        assert_eq!(seconds("f", String::new, 117.0), Ok(117e-6));
        for wrong in [-1.0, f64::NAN, f64::INFINITY, 1e31] {
            assert_eq!(seconds("f", String::new, wrong).unwrap_err().code, "Q103");
        }
    }
}
