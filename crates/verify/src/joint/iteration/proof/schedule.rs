//! Minimum time of pipelines whose stages run 1F1B, zero-bubble or zero-bubble-2p, from the time around one stage.
//!
//! For a stage of a pipeline of p stages and m microbatches, let j be the number of stages from it to the last, i = p −
//! j the number of stages before it, and f, b and w the seconds of its passes. Its backward passes are h − 1 slots behind
//! its forward passes: h = j, but h = 2 j − 1 under zero-bubble-2p. The stage runs j' = min(h, m) forward passes before its
//! first backward pass, and j' − 1 backward passes between its last forward and its last backward pass; the seconds of
//! the two passes through the stages behind it sum up to at least R. Then:
//!
//! - Between the end of its first forward pass and the start of its first backward pass, R seconds pass, in which it runs
//!   no more than j' − 1 forward passes. So it is idle for [R − (j' − 1) f]⁺.
//! - Between the end of its last forward pass and the start of its last backward pass, R seconds pass, in which it runs no
//!   more than j' − 1 backward passes, and under both zero-bubble schedules q weight gradients. So it is idle for
//!   [R − (j' − 1) b − q w]⁺.
//!
//! If m > h, the first interval ends before the second begins, and the two idle times add up; otherwise the larger
//! counts. Before its first forward pass, the first microbatch passes through the stages before it; the rest depends on
//! the schedule.
//!
//! - 1F1B: after its last backward pass, the last microbatch goes back through the stages before it. It needs
//!   m (f + b) + idle, and every stage before it adds f + b.
//! - Zero-bubble, to its last weight gradient: it needs m (f + b + w) + idle, and every stage before it adds f. The idle time
//!   is counted with q = j' − 1.
//! - Zero-bubble, to its last backward pass: that pass is in slot m − 1 + j − 1, and weight gradients are p − 1 slots
//!   late, so before it the stage has run c = [m − i − 1]⁺ of them, and at most q = min(j' − 1, c) in the interval. It
//!   needs m (f + b) + c w + idle, every stage before it adds f + b, and the first stage then runs the weight gradients
//!   of its last microbatch.
//!
//! - Zero-bubble-2p, to its last weight gradient: an iteration takes as long as any stage from its first pass to the end of
//!   its update. In between the stage runs all of its passes, so it needs m (f + b + w) + idle, and stages before it add
//!   nothing. Each of the 2 (j − 1) slots between its last forward and its last backward pass has at most one weight
//!   gradient, and there are at most m − 1 in them, so q = j' − 1.
//! - Zero-bubble-2p, to its last backward pass: as under zero-bubble with c = [m − 2 i − 1]⁺, since weight gradients are
//!   2 (p − 1) slots late. The time from the first pass of the first stage to its last is at least that, and includes the
//!   first forward pass on its way to the stage, and the last backward pass on its way back.
//!
//! An update follows: of any stage under 1F1B and zero-bubble; under zero-bubble-2p of the stage itself, and of the first
//! stage after its last backward pass. All of these terms increase with f, since j' − 1 < m, with b, and with b + w for
//! fixed b, so lower bounds on f, on b and on b + w give a lower bound on the iteration.

use stagewright_core::document::Schedule;

use super::configurations::Point;
use crate::joint::iteration::order::has_weights_apart;

/// Position of a stage in its pipeline.
#[derive(Debug, Clone, Copy)]
pub(super) struct Position {
    /// Microbatches.
    m: f64,
    /// j' − 1.
    between: f64,
    /// Whether m > j.
    is_apart: bool,
    /// c and q; `None` if no weight gradients run separately.
    weights: Option<[f64; 2]>,
    /// Whether iterations overlap, as under zero-bubble-2p.
    is_overlapping: bool,
}

/// A stage without a choice of configurations.
#[derive(Debug, Clone, Copy)]
pub(super) struct Fixed {
    pub(super) forward: f64,
    pub(super) update: f64,
}

/// Seconds that a stage, or the stages from it on, take until their last passes end.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Ends {
    /// Seconds to the last weight gradient; zero if none run separately.
    pub(super) weight: f64,
    /// Seconds to the last backward pass.
    pub(super) backward: f64,
}

impl Position {
    /// Position of a stage with `from` stages from it to the last; `stages` is the number of stages of the pipeline if
    /// its weight gradients run separately.
    pub(super) fn new(schedule: Schedule, microbatches: u32, from: usize, stages: usize) -> Self {
        let m = f64::from(microbatches);
        let is_overlapping = schedule == Schedule::ZeroBubbleTwice;
        let each = if is_overlapping { 2.0 } else { 1.0 };
        let held = each * (from as f64 - 1.0) + 1.0;
        let between = m.min(held) - 1.0;
        let weights = has_weights_apart(schedule).then(|| {
            let done = (m - each * (stages - from) as f64 - 1.0).max(0.0);
            [done, done.min(between)]
        });
        Position { m, between, is_apart: m > held, weights, is_overlapping }
    }

    /// Seconds to the last weight gradient that stages before add, from the sum of their forward passes of a microbatch
    /// and from that of both passes.
    pub(super) fn added(&self, forward: f64, passes: f64) -> f64 {
        match self.weights {
            _ if self.is_overlapping => 0.0,
            None => passes,
            Some(_) => forward,
        }
    }

    /// Seconds of the update after the last backward pass and weight gradient of the first stage, if they are not those of
    /// the stage whose time it is.
    pub(super) fn update_of_first(&self, update: f64) -> f64 {
        if self.is_overlapping { update } else { 0.0 }
    }

    /// Seconds that a stage needs, if the stages after it take `rest` seconds for the two passes of a microbatch.
    pub(super) fn needs(&self, fixed: Fixed, point: Point, rest: f64) -> Ends {
        let Fixed { forward, update } = fixed;
        let Point { backward, both } = point;
        let idle = |in_backward: f64| {
            let first = (rest - self.between * forward).max(0.0);
            let last = (rest - in_backward).max(0.0);
            if self.is_apart { first + last } else { first.max(last) }
        };
        match self.weights {
            None => {
                let seconds = self.m * (forward + backward) + idle(self.between * backward);
                Ends { weight: 0.0, backward: seconds + update }
            }
            Some([done, in_interval]) => {
                let weight = both - backward;
                let to_weight = self.m * (forward + both) + idle(self.between * both);
                let to_backward = self.m * (forward + backward)
                    + done * weight
                    + idle(self.between * backward + in_interval * weight);
                let update_of_chain = if self.is_overlapping { 0.0 } else { update };
                Ends { weight: to_weight + update, backward: to_backward + update_of_chain }
            }
        }
    }

    /// Coefficients in the time of a stage: of the two passes of a microbatch through all stages, and of f + b and of w
    /// of the stage beyond them.
    ///
    /// Each of the two idle times alone is a bound, and so is the mean of the two:
    /// m (f + b) + c w + R − ((j' − 1) (f + b) + q w) / 2, of which f + b + R are in the passes through all stages. Under
    /// zero-bubble-2p, the stages before are not in the time to the last weight gradient, of which m (f + b + w) counts.
    pub(super) fn slope(&self) -> [f64; 3] {
        let both = self.m - 1.0 - self.between / 2.0;
        match self.weights {
            _ if self.is_overlapping => [0.0, self.m, self.m],
            None => [1.0, both, 0.0],
            Some([done, in_interval]) => [1.0, both, done - in_interval / 2.0],
        }
    }
}

#[cfg(test)]
mod tests {
    use stagewright_core::document::Schedule;

    use super::{Fixed, Point, Position};
    use crate::joint::iteration::order::Pipeline;
    use crate::joint::iteration::schedule::{Times, seconds};

    /// The largest of the bounds from the stages of a pipeline.
    fn bound(schedule: Schedule, times: &[Times], updates: &[f64], microbatches: u32) -> f64 {
        let stages = times.len();
        let sum = |figure: &dyn Fn(&Times) -> f64, range: std::ops::Range<usize>| -> f64 {
            times[range].iter().map(figure).sum()
        };
        let mut longest = 0.0f64;
        for (stage, &[forward, backward, weight]) in times.iter().enumerate() {
            let position = Position::new(schedule, microbatches, stages - stage, stages);
            let rest = sum(&|times| times[0] + times[1], stage + 1..stages);
            let point = Point { backward, both: backward + weight };
            let update = updates[stage];
            let ends = position.needs(Fixed { forward, update }, point, rest);
            let last = if stage == 0 { 0.0 } else { times[0][2] };
            let before = [0, 1].map(|pass| sum(&|times| times[pass], 0..stage));
            let both_before = before[0] + before[1];
            longest = longest.max(ends.weight + position.added(before[0], both_before));
            let last = last + position.update_of_first(updates[0]);
            longest = longest.max(ends.backward + both_before + last);
            let [passes, both, apart] = position.slope();
            let passes = passes * sum(&|times| times[0] + times[1], 0..stages);
            let slope = passes + both * (forward + backward) + apart * weight + update;
            assert!(slope <= longest + 1e-9, "{slope} {longest}");
        }
        longest
    }

    #[test]
    fn no_schedule_is_shorter_than_its_bound() {
        // Small whole numbers from a linear congruential generator.
        let mut state = 1u64;
        let mut draw = |below: u64| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 33) % below
        };
        let schedules = [Schedule::OneFOneB, Schedule::ZeroBubble, Schedule::ZeroBubbleTwice];
        let mut exact = 0;
        for _ in 0..9000 {
            let (stages, microbatches) = (1 + draw(6) as usize, 1 + draw(14) as u32);
            let schedule = schedules[draw(3) as usize];
            let mut times = vec![[0.0; 3]; stages];
            for time in &mut times {
                let weight = if schedule == Schedule::OneFOneB { 0.0 } else { draw(5) as f64 };
                *time = [draw(6) as f64, draw(8) as f64, weight];
            }
            let updates: Vec<f64> = times.iter().map(|_| draw(30) as f64).collect();
            let pipeline =
                Pipeline { schedule, devices: stages, chunks: 1, microbatches: microbatches as usize };
            let found = seconds(&times, &updates, &pipeline);
            let bound = bound(schedule, &times, &updates, microbatches);
            assert!(bound <= found + 1e-9, "{times:?} {microbatches} {schedule:?}: {bound} {found}");
            exact += usize::from(schedule == Schedule::ZeroBubbleTwice && bound == found);
        }
        // A third of the cases has this schedule.
        assert!(exact > 1500, "{exact}");
    }

    #[test]
    fn bounds_of_equal_stages_are_exact() {
        for (stages, microbatches) in [(1, 4), (2, 2), (3, 8), (5, 7), (4, 2)] {
            let times = vec![[1.0, 2.0, 0.0]; stages];
            let bound = bound(Schedule::OneFOneB, &times, &vec![0.0; stages], microbatches);
            assert_eq!(bound, 3.0 * f64::from(microbatches + stages as u32 - 1));
        }
        for (stages, microbatches) in [(1, 4), (2, 2), (3, 8), (5, 7)] {
            let times = vec![[2.0, 2.0, 1.0]; stages];
            let exact = 5.0 * f64::from(microbatches) + 3.0 * (stages as f64 - 1.0);
            assert_eq!(bound(Schedule::ZeroBubble, &times, &vec![0.0; stages], microbatches), exact);
        }
        for (stages, microbatches) in [(1, 4), (2, 2), (3, 8), (5, 7), (5, 9)] {
            let (times, updates) = (vec![[2.0, 3.0, 1.0]; stages], vec![4.0; stages]);
            let (devices, microbatches) = (stages, microbatches as usize);
            let schedule = Schedule::ZeroBubbleTwice;
            let exact = seconds(&times, &updates, &Pipeline { schedule, devices, chunks: 1, microbatches });
            assert_eq!(bound(schedule, &times, &updates, microbatches as u32), exact);
        }
    }
}
