//! The states of both programs: the least worst load of a prefix, or of an ideal, for each usage of the devices.

use crate::usage::UsageSpace;

/// The last stage of a state.
#[derive(Debug, Clone, Copy)]
pub(super) struct Last {
    /// The prefix or ideal before it.
    pub(super) start: u32,
    /// The usage before it.
    pub(super) usage: u32,
    pub(super) pool: u32,
    pub(super) replicas: u32,
}

/// `[prefix or ideal][usage]`.
pub(super) struct States<'a> {
    space: &'a UsageSpace,
    value: Vec<f64>,
    last: Vec<Last>,
}

impl<'a> States<'a> {
    /// States of `count` prefixes or ideals, of which the first is empty.
    pub(super) fn new(space: &'a UsageSpace, count: usize) -> Self {
        let nothing = Last { start: 0, usage: 0, pool: 0, replicas: 0 };
        let mut value = vec![f64::INFINITY; count * space.len()];
        value[0] = 0.0;
        States { space, value, last: vec![nothing; count * space.len()] }
    }

    /// Lists the usages at `start` with a value below the cap and a device of the pool left.
    pub(super) fn open(&self, start: usize, pool: usize, cap: f64, open: &mut Vec<(usize, f64)>) {
        let width = self.space.len();
        open.clear();
        let row = self.value[start * width..][..width].iter().copied().enumerate();
        open.extend(row.filter(|&(usage, value)| value < cap && self.space.left(usage, pool) > 0));
    }

    /// Extends the open usages of `start` by a stage that leads to `end`.
    pub(super) fn extend(
        &mut self,
        open: &[(usize, f64)],
        start: usize,
        end: usize,
        stage: (usize, u32),
        load: f64,
    ) {
        let (pool, replicas) = stage;
        let row = end * self.space.len();
        for &(usage, value) in open.iter().filter(|(usage, _)| self.space.left(*usage, pool) >= replicas) {
            let after = row + self.space.after(usage, pool, replicas);
            let candidate = value.max(load);
            if candidate < self.value[after] {
                self.value[after] = candidate;
                self.last[after] =
                    Last { start: start as u32, usage: usage as u32, pool: pool as u32, replicas };
            }
        }
    }

    /// The best value at `end` and its usage; `None` if it was not reached.
    pub(super) fn best(&self, end: usize) -> Option<(usize, f64)> {
        let width = self.space.len();
        let row = self.value[end * width..][..width].iter().copied().enumerate();
        row.min_by(|a, b| a.1.total_cmp(&b.1)).filter(|(_, value)| value.is_finite())
    }

    /// The last stages on the way to a state, the first stage first, each with its end.
    pub(super) fn stages(&self, end: usize, usage: usize) -> Vec<(Last, usize)> {
        let width = self.space.len();
        let (mut end, mut usage, mut stages) = (end, usage, Vec::new());
        while end > 0 {
            let last = self.last[end * width + usage];
            stages.push((last, end));
            (end, usage) = (last.start as usize, last.usage as usize);
        }
        stages.reverse();
        stages
    }
}
