//! Sections without their middle, and the rules by which the values of a whole section repeat those left.

use super::axes::Section;

/// A section and how many of its values remain.
#[derive(Debug, Clone, Copy)]
pub(super) struct Part {
    pub(super) section: Section,
    /// Number of values that remain; the others are missing after the first half of these.
    pub(super) kept: usize,
    /// Where the section starts in the folded axis.
    pub(super) start: usize,
}

impl Part {
    /// Number of values before the gap.
    fn head(&self) -> usize {
        self.kept / 2
    }

    /// The folded value of a value of the section.
    pub(super) fn fold(&self, value: usize) -> Option<usize> {
        let (index, missing) = (value - self.section.start, self.section.len - self.kept);
        match index {
            _ if index < self.head() => Some(self.start + index),
            _ if index >= self.head() + missing => Some(self.start + index - missing),
            _ => None,
        }
    }
}

/// A rule by which a plan of a folded axis becomes one of the whole axis.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Unfolding {
    /// The place in the section stays: a value stands for the values around it.
    Stretched,
    /// The first and the last values of a section keep their devices, and the values between repeat those of some
    /// periods: the steady state between its ramps.
    Repeated {
        /// Number of periods that are repeated.
        periods: usize,
        /// Share of the other values that come before them.
        before: f64,
    },
}

/// Numbers of periods that are repeated, as given and as fractions of the periods of a folded section.
const PERIODS: [usize; 3] = [1, 2, 4];
const FRACTIONS: [f64; 4] = [0.25, 0.5, 0.75, 1.0];
/// Shares of the other values that come before the repeated ones.
const BEFORE: [f64; 3] = [0.5, 0.0, 1.0];

impl Unfolding {
    /// The rules that are tried for an axis whose longest folded section has a number of periods.
    pub(super) fn candidates(longest: usize) -> Vec<Unfolding> {
        let fractions = FRACTIONS.iter().map(|fraction| (fraction * longest as f64) as usize);
        let mut all: Vec<usize> = PERIODS.into_iter().chain(fractions).collect();
        all.retain(|periods| (1..=longest).contains(periods));
        all.sort_unstable();
        all.dedup();
        let repeated = all.into_iter().flat_map(|periods| {
            let shares = if periods == longest { &BEFORE[..1] } else { &BEFORE[..] };
            shares.iter().map(move |&before| Unfolding::Repeated { periods, before })
        });
        std::iter::once(Unfolding::Stretched).chain(repeated).collect()
    }

    /// By value of an axis of length `len`, the folded value whose devices it gets. Values of no part stay zero.
    pub(super) fn values(self, parts: &[Part], len: usize) -> Vec<u32> {
        let mut values = vec![0; len];
        for part in parts {
            for index in 0..part.section.len {
                values[part.section.start + index] = (part.start + self.index(part, index)) as u32;
            }
        }
        values
    }

    /// The place in the folded section of a place in the section.
    fn index(self, part: &Part, index: usize) -> usize {
        let (len, kept, period) = (part.section.len, part.kept, part.section.period);
        if kept == len {
            return index;
        }
        let (all, remaining) = (len / period, kept / period);
        match self {
            Unfolding::Stretched => {
                let last = (all - 1).max(1);
                let nearest = ((index / period).min(last) * remaining.saturating_sub(1) + last / 2) / last;
                (nearest * period + index % period).min(kept - 1)
            }
            Unfolding::Repeated { periods, before } => {
                let repeated = periods.clamp(1, remaining) * period;
                let before = ((kept - repeated) as f64 * before) as usize;
                let after = kept - repeated - before;
                match index {
                    _ if index < before => index,
                    _ if index + after >= len => index + kept - len,
                    _ => before + (index - before) % repeated,
                }
            }
        }
    }
}
