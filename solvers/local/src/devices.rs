//! Which devices are used, as one number.

use crate::question::DeviceKind;

/// Sets of devices, of which those of a kind count alone: digits of a number, one for each kind.
pub(crate) struct Used {
    /// Weight of each kind's digit.
    weights: Vec<usize>,
    /// Devices of each kind.
    counts: Vec<usize>,
    states: usize,
}

impl Used {
    /// `None` if there are more than `limit` sets.
    pub(crate) fn new(kinds: &[DeviceKind], limit: usize) -> Option<Used> {
        let mut weights = Vec::new();
        let mut states = 1_usize;
        for kind in kinds {
            weights.push(states);
            states = states.checked_mul(kind.members.len() + 1).filter(|&states| states <= limit)?;
        }
        Some(Used { weights, counts: kinds.iter().map(|kind| kind.members.len()).collect(), states })
    }

    /// Number of sets.
    pub(crate) fn states(&self) -> usize {
        self.states
    }

    /// Devices of a kind in a set.
    fn count(&self, state: usize, kind: usize) -> usize {
        state / self.weights[kind] % (self.counts[kind] + 1)
    }

    /// The sum of a value of each device that is not in a set, by kind.
    pub(crate) fn sum_of_unused(&self, state: usize, values: &[f64]) -> f64 {
        let unused = |kind: usize| (self.counts[kind] - self.count(state, kind)) as f64;
        values.iter().enumerate().map(|(kind, value)| unused(kind) * value).sum()
    }

    /// The set with one more device of a kind, which is a larger number; `None` if all are in it.
    pub(crate) fn with(&self, state: usize, kind: usize) -> Option<usize> {
        (self.count(state, kind) < self.counts[kind]).then(|| state + self.weights[kind])
    }
}
