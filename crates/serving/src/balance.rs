//! Layers of the stages of a pipeline.

use std::ops::Range;

use stagewright_core::document::LinkDocument;

use crate::engine::Engine;
use crate::worker::{HIDDEN_BYTES, Step, Worker};

/// Relative width at which the bisection of the slowest stage's seconds ends.
const WIDTH: f64 = 1e-12;

/// How layers are divided among the stages of a replica.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Division {
    /// The slowest stage is as fast as possible in decode steps, or for prompts alone in their steps.
    Balanced,
    /// The slowest stage is as fast as possible in steps of prompts, though sequences are decoded as well.
    ForPrompts,
    /// Stages have equally many layers, as engines divide them by default.
    Equal,
}

/// Ranges of layers for workers in a row, so that the slowest one is as fast as possible in a step; `None` if `sequences` sequences of a
/// rank, of `context` tokens each, do not fit beside the weights however layers are divided.
///
/// `links` go from each worker to the next. Bisects the seconds of the slowest stage: within given seconds, each stage in turn takes
/// as many layers as it can, which is best because seconds and bytes grow with every layer. Takes O(stages · layers) and
/// O(stages · log layers) for each of some forty bisections.
pub fn balance(
    stages: &[Worker],
    links: &[LinkDocument],
    step: &Step,
    sequences: f64,
    context: u64,
) -> Option<Vec<Range<usize>>> {
    let count = stages.len();
    let lines: Vec<Line> = stages
        .iter()
        .enumerate()
        .map(|(index, stage)| Line::new(stage, links.get(index), step, (sequences, context), (index, count)))
        .collect();
    let layers = lines.first()?.seconds.len() - 1;
    if layers < count {
        return None;
    }
    let mut best = divide(&lines, layers, f64::INFINITY)?;
    let mut high = slowest(&lines, &best);
    let mut low = 0.0;
    while high - low > WIDTH * high {
        let middle = f64::midpoint(low, high);
        match divide(&lines, layers, middle) {
            Some(ranges) => {
                high = slowest(&lines, &ranges);
                best = ranges;
            }
            None => low = middle,
        }
    }
    Some(best)
}

/// Ranges of equally many layers; those that remain go to the stages before the last, from the end, as vLLM does. `None` if there
/// are fewer layers than stages.
pub(crate) fn equal(layers: usize, stages: usize) -> Option<Vec<Range<usize>>> {
    if layers < stages || stages == 0 {
        return None;
    }
    let (share, rest) = (layers / stages, layers % stages);
    let mut start = 0;
    let range = |stage: usize| {
        let is_longer = stage + 1 < stages && stage + 1 + rest >= stages;
        let end = start + share + usize::from(is_longer);
        std::mem::replace(&mut start, end)..end
    };
    Some((0..stages).map(range).collect())
}

/// Sums over the first layers on one stage.
struct Line<'s> {
    seconds: Vec<f64>,
    weights: Vec<f64>,
    caches: Vec<f64>,
    /// Seconds and bytes besides those of layers.
    end: f64,
    outside: f64,
    engine: &'s Engine,
    memory: f64,
}

impl<'s> Line<'s> {
    fn new(
        stage: &Worker<'s>,
        link: Option<&LinkDocument>,
        step: &Step,
        (sequences, context): (f64, u64),
        (index, count): (usize, usize),
    ) -> Line<'s> {
        let model = stage.model();
        let is_last = index + 1 == count;
        let whole = stage.clone().with_layers(0..model.layers.len());
        let kinds = 0..model.kinds.len();
        let seconds: Vec<f64> = kinds.clone().map(|kind| stage.kind_seconds(kind, step)).collect();
        let weights: Vec<f64> = kinds.clone().map(|kind| stage.kind_weight_bytes(kind)).collect();
        let caches: Vec<f64> = kinds.map(|kind| sequences * stage.kind_cache_bytes(kind, context)).collect();
        let sum = |values: &[f64]| {
            let mut total = 0.0;
            let sums = model.layers.iter().map(|&kind| {
                total += values[kind];
                total
            });
            std::iter::once(0.0).chain(sums).collect()
        };
        let hop = link.map_or(0.0, |link| {
            link.latency_s + step.tokens() * model.hidden * HIDDEN_BYTES / link.bandwidth
        });
        Line {
            seconds: sum(&seconds),
            weights: sum(&weights),
            caches: sum(&caches),
            end: if is_last { whole.end_seconds(step) } else { hop },
            outside: whole.end_weight_bytes(index == 0, is_last),
            engine: stage.engine(),
            memory: stage.device().memory,
        }
    }

    fn seconds_of(&self, range: &Range<usize>) -> f64 {
        self.seconds[range.end] - self.seconds[range.start] + self.end
    }

    fn fits(&self, range: &Range<usize>) -> bool {
        let weights = self.weights[range.end] - self.weights[range.start] + self.outside;
        let budget = self.engine.cache_budget(self.memory, weights);
        budget >= 0.0 && self.caches[range.end] - self.caches[range.start] <= budget
    }
}

/// The ranges if each stage in turn takes as many layers as it can within some seconds, and leaves one to each later stage.
fn divide(lines: &[Line], layers: usize, seconds: f64) -> Option<Vec<Range<usize>>> {
    let mut start = 0;
    let mut ranges = Vec::with_capacity(lines.len());
    for (index, line) in lines.iter().enumerate() {
        let largest = layers - (lines.len() - 1 - index);
        let is_possible = |end: usize| line.seconds_of(&(start..end)) <= seconds && line.fits(&(start..end));
        let (mut low, mut high) = (start, largest + 1);
        while high - low > 1 {
            let middle = usize::midpoint(low, high);
            if is_possible(middle) { low = middle } else { high = middle }
        }
        if low == start {
            return None;
        }
        ranges.push(start..low);
        start = low;
    }
    (start == layers).then_some(ranges)
}

fn slowest(lines: &[Line], ranges: &[Range<usize>]) -> f64 {
    lines.iter().zip(ranges).map(|(line, range)| line.seconds_of(range)).fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::equal;

    #[test]
    fn layers_that_remain_are_before_the_last_stage() {
        assert_eq!(equal(10, 4), Some(vec![0..2, 2..5, 5..8, 8..10]));
        assert_eq!(equal(4, 4), Some(vec![0..1, 1..2, 2..3, 3..4]));
        assert_eq!(equal(3, 4), None);
    }
}
