//! Minimum time of pipelines whose stages run 1F1B or zero-bubble, from the time around one stage.
//!
//! For a stage of a pipeline of p stages and m microbatches, let j be the number of stages from it to the last, i = p −
//! j the number of stages before it, and f, b and w the seconds of its passes. The stage runs j' = min(j, m) forward
//! passes before its first backward pass, and j' − 1 backward passes between its last forward and its last backward
//! pass; the seconds of the two passes through the stages behind it sum up to at least R. Then:
//!
//! - Between the end of its first forward pass and the start of its first backward pass, R seconds pass, in which it runs
//!   no more than j' − 1 forward passes. So it is idle for [R − (j' − 1) f]⁺.
//! - Between the end of its last forward pass and the start of its last backward pass, R seconds pass, in which it runs no
//!   more than j' − 1 backward passes, and under zero-bubble q weight gradients. So it is idle for [R − (j' − 1) b − q w]⁺.
//!
//! If m > j, the first interval ends before the second begins, and the two idle times add up; otherwise the larger
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
//! The update of some stage follows. All of these terms increase with b, and with b + w for fixed b, so lower bounds on b and
//! on b + w give a lower bound on the iteration.

use super::configurations::Point;

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
    /// Position of a stage with `from` stages from it to the last; `zero_bubble` is the number of stages of the
    /// pipeline if its schedule is zero-bubble.
    pub(super) fn new(microbatches: u32, from: usize, zero_bubble: Option<usize>) -> Self {
        let m = f64::from(microbatches);
        let between = m.min(from as f64) - 1.0;
        let weights = zero_bubble.map(|devices| {
            let before = (devices - from) as f64;
            let done = (m - before - 1.0).max(0.0);
            [done, done.min(between)]
        });
        Position { m, between, is_apart: m > from as f64, weights }
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
                Ends { weight: to_weight + update, backward: to_backward + update }
            }
        }
    }

    /// Coefficients of f + b and of w in the time of a stage beyond the two passes of a microbatch through all stages.
    ///
    /// Each of the two idle times alone is a bound, and so is the mean of the two:
    /// m (f + b) + c w + R − ((j' − 1) (f + b) + q w) / 2, of which f + b + R are in the passes through all stages.
    pub(super) fn slope(&self) -> [f64; 2] {
        let [done, in_interval] = self.weights.unwrap_or_default();
        [self.m - 1.0 - self.between / 2.0, done - in_interval / 2.0]
    }
}

#[cfg(test)]
mod tests {
    use stagewright_core::document::Schedule;

    use super::{Fixed, Point, Position};
    use crate::joint::iteration::order::Pipeline;
    use crate::joint::iteration::schedule::{Times, seconds};

    /// The largest of the bounds from the stages of a pipeline.
    fn bound(times: &[Times], microbatches: u32, is_zero_bubble: bool) -> f64 {
        let stages = times.len();
        let sum = |figure: &dyn Fn(&Times) -> f64, range: std::ops::Range<usize>| -> f64 {
            times[range].iter().map(figure).sum()
        };
        let mut longest = 0.0f64;
        for (stage, &[forward, backward, weight]) in times.iter().enumerate() {
            let position = Position::new(microbatches, stages - stage, is_zero_bubble.then_some(stages));
            let rest = sum(&|times| times[0] + times[1], stage + 1..stages);
            let point = Point { backward, both: backward + weight };
            let ends = position.needs(Fixed { forward, update: 0.0 }, point, rest);
            let last = if stage == 0 { 0.0 } else { times[0][2] };
            longest = longest.max(ends.weight + sum(&|times| times[0], 0..stage));
            longest = longest.max(ends.backward + sum(&|times| times[0] + times[1], 0..stage) + last);
            let [both, apart] = position.slope();
            let passes = sum(&|times| times[0] + times[1], 0..stages);
            let slope = passes + both * (forward + backward) + apart * weight;
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
        for _ in 0..4000 {
            let (stages, microbatches) = (1 + draw(6) as usize, 1 + draw(9) as u32);
            let is_zero_bubble = draw(2) == 1;
            let mut times = vec![[0.0; 3]; stages];
            for time in &mut times {
                let weight = if is_zero_bubble { draw(5) as f64 } else { 0.0 };
                *time = [draw(6) as f64, draw(8) as f64, weight];
            }
            let schedule = if is_zero_bubble { Schedule::ZeroBubble } else { Schedule::OneFOneB };
            let pipeline =
                Pipeline { schedule, devices: stages, chunks: 1, microbatches: microbatches as usize };
            let (found, bound) = (seconds(&times, &pipeline), bound(&times, microbatches, is_zero_bubble));
            assert!(bound <= found + 1e-9, "{times:?} {microbatches} {schedule:?}: {bound} {found}");
        }
    }

    #[test]
    fn bounds_of_equal_stages_are_exact() {
        for (stages, microbatches) in [(1, 4), (2, 2), (3, 8), (5, 7), (4, 2)] {
            let times = vec![[1.0, 2.0, 0.0]; stages];
            assert_eq!(bound(&times, microbatches, false), 3.0 * f64::from(microbatches + stages as u32 - 1));
        }
        for (stages, microbatches) in [(1, 4), (2, 2), (3, 8), (5, 7)] {
            let times = vec![[2.0, 2.0, 1.0]; stages];
            let exact = 5.0 * f64::from(microbatches) + 3.0 * (stages as f64 - 1.0);
            assert_eq!(bound(&times, microbatches, true), exact);
        }
    }
}
