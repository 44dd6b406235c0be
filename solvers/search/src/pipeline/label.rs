//! Labels: a few numbers that bound the iteration of the stages so far.
//!
//! Stages are added from the last to the first. Write f and b for the times of the two passes of a stage, b including
//! the weight gradient unless a schedule defers it, and g for a deferred weight gradient; l = f + b + g; w is the
//! number of stages after the stage, p the number of all stages, m the number of microbatches. All labels begin with S,
//! the time of one microbatch through all stages so far.
//!
//! **GPipe.** (S, F, B) with the largest f and b. The value S + (m − 1) (F + B) is the iteration itself.
//!
//! **1F1B.** (S, V), where V is the length of the longest of some paths through the stages so far. A stage added before
//! them lengthens each path by its f at one end and its b at the other, and starts paths of its own:
//!
//! - all of its tasks: m l;
//! - its tasks up to F of microbatch k, then forward through all later stages and back again, then its tasks from B of
//!   microbatch k on. The order of 1F1B has max(k, m − w) of its F on this path and max(m − k + 1, m − w) of its B,
//!   which is maximal for k = 1 or k = m: S + l + (m − 1) max(f, b) + max(m − 1 − w, 0) min(f, b).
//!
//! **Zero-bubble.** (S, V, U), S without g. V bounds the time of the last task: its paths end with the last g of their
//! stage, and only forward passes come before them: V + f, m l. U bounds the time of the last backward pass and grows
//! at both ends: U + f + b; the paths of 1F1B; and the tasks of the stage up to its last B, which under ZB-H1 comes
//! after m − 1 − (p − 1 − w) of its g.
//!
//! When a stage is added, each component of the new label is a non-decreasing function of every component of the old
//! label, and so is the value. A label that is nowhere lower than another one therefore leads to nothing better.

use stagewright_core::document::Schedule;
use stagewright_core::schedule::StageTimes;

/// The components; those that a schedule does not use are zero.
pub(super) type Label = [f64; 3];

/// Growth of labels under a schedule.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rule {
    pub(super) schedule: Schedule,
    pub(super) microbatches: u32,
    /// Number of stages of the pipeline, under zero-bubble.
    pub(super) stages: u32,
}

/// Minimum time of the units not yet placed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rest {
    /// Minimum time of the forward passes.
    pub(super) forward: f64,
    /// Minimum time of both passes, without deferred work.
    pub(super) passes: f64,
}

impl Rule {
    /// The label of an empty pipeline.
    pub(super) const NOTHING: Label = [0.0; 3];

    /// The label after adding a stage before `behind` later stages.
    #[inline]
    pub(super) fn extend(&self, label: Label, stage: &StageTimes, behind: u32) -> Label {
        let m = f64::from(self.microbatches);
        let [sum, first, second] = label;
        let (f, b) = match self.schedule {
            Schedule::ZeroBubble => (stage.forward, stage.backward),
            _ => (stage.forward, stage.backward + stage.weight),
        };
        let turned = |first: f64| {
            let again = (m - 1.0 - f64::from(behind)).max(0.0);
            first + (m - 1.0) * f.max(b) + again * f.min(b)
        };
        let after = sum + f + b;
        match self.schedule {
            Schedule::GPipe => [after, first.max(f), second.max(b)],
            Schedule::ZeroBubble => {
                let ahead = self.stages.saturating_sub(1 + behind);
                let early = (m - 1.0 - f64::from(ahead)).max(0.0);
                let own = turned(after).max(m * (f + b) + early * stage.weight);
                [after, (first + f).max(m * stage.total()), (second + f + b).max(own)]
            }
            _ => [after, (first + f + b).max(m * (f + b)).max(turned(after)), 0.0],
        }
    }

    /// Lower bound on the iteration of every pipeline whose last stages have this label and whose other stages hold the
    /// rest.
    #[inline]
    pub(super) fn value(&self, label: Label, rest: Rest) -> f64 {
        let [sum, first, second] = label;
        match self.schedule {
            Schedule::GPipe => {
                sum + rest.passes + f64::from(self.microbatches.saturating_sub(1)) * (first + second)
            }
            Schedule::ZeroBubble => (first + rest.forward).max(second + rest.passes),
            _ => first + rest.passes,
        }
    }
}

/// Whether `left` is at most `right` in every component.
#[inline]
pub(super) fn dominates(left: &Label, right: &Label) -> bool {
    left.iter().zip(right).all(|(left, right)| left <= right)
}
