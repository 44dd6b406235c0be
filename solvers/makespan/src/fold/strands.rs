//! Local search on the whole graph, over strands: operators that differ only in their value on the longest axis.
//!
//! A single operator changes little in a plan of many periods. A move therefore takes the operators of some neighbouring
//! strands that are on one device, at all values or in a range of them, to another device. Some moves return operators in
//! exchange, and most start from the critical path. Two moves at a time are drawn from one state and scored in parallel. The better
//! one is made if it does not lengthen the step or, by a margin that shrinks with the time left, if it hardly exceeds the best.

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::{Duration, Instant};

use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;
use stagewright_core::cluster::DeviceId;
use stagewright_core::graph::{Graph, OpId};
use stagewright_core::seed;
use stagewright_core::simulate::Activity;
use stagewright_core::solver::{Context, SolveError, Stop};

use super::super::instance::Instance;
use super::super::schedule::{Best, Evaluator, Schedule, Score, is_better};
use super::axes::Axes;
use super::by_rank;

/// Number of moves that are drawn from one state, independent of the number of threads.
pub(super) const DRAWN: usize = 2;
/// Number of steps without a time limit.
const STEPS: u64 = 50;
/// Number of steps in a row without a move after which the search ends: hardly an operator may move.
const IDLE: u64 = 10_000;
/// First of the random streams; those before belong to other searches.
const STREAM: u64 = 1 << 32;
/// Base-two logarithm of the largest number of strands in a move.
const DOUBLINGS: u32 = 6;
/// Fraction of the moves that start from the critical path.
const CRITICAL: f64 = 0.75;
/// Fraction of the moves that go to a neighbour's device.
const TO_NEIGHBOUR: f64 = 0.7;
/// Fraction of the moves that take all values.
const ALL_VALUES: f64 = 0.5;
/// Fraction of the moves that exchange operators, and the number of operators among which one to return is looked for.
const EXCHANGED: f64 = 0.3;
const LOOKED_AT: usize = 16;
/// Margin above the best at the beginning.
const MARGIN: f64 = 0.004;

/// The strands of a graph.
pub(super) struct Strands {
    strand_of: Vec<u32>,
    /// By operator, its value on the longest axis; zero if it has none.
    value_of: Vec<u32>,
    members: Vec<Vec<OpId>>,
    /// By strand, those that tensors connect it with.
    beside: Vec<Vec<u32>>,
    /// Number of values of the longest axis.
    len: u32,
}

/// A schedule by rank, with the operators on its critical path.
struct State {
    schedule: Schedule,
    score: Score,
    critical: Vec<OpId>,
}

impl Strands {
    /// The strands of the graph of some axes. O(operators log strands + pins log pins).
    pub(super) fn new(graph: &Graph, axes: &Axes) -> Strands {
        let mut numbers = BTreeMap::new();
        let (mut strand_of, mut value_of) = (Vec::new(), Vec::new());
        for op in graph.operators() {
            let (mut key, mut value) = (u128::from(axes.line_of[op.index()]), 0);
            for place in axes.of(op) {
                match place.axis {
                    0 => value = place.value as u32,
                    axis => {
                        key = key.wrapping_mul(axes.axes[axis].len as u128).wrapping_add(place.value as u128)
                    }
                }
            }
            let next = numbers.len() as u32;
            strand_of.push(*numbers.entry(key).or_insert(next));
            value_of.push(value);
        }
        let mut members = vec![Vec::new(); numbers.len()];
        let mut pairs = Vec::new();
        for op in graph.operators() {
            let strand = strand_of[op.index()];
            members[strand as usize].push(op);
            let others = graph.successors(op).iter().map(|next| strand_of[next.index()]);
            pairs.extend(
                others.filter(|&other| other != strand).flat_map(|other| [(strand, other), (other, strand)]),
            );
        }
        pairs.sort_unstable();
        pairs.dedup();
        let mut beside = vec![Vec::new(); members.len()];
        for (strand, other) in pairs {
            beside[strand as usize].push(other);
        }
        let len = axes.axes.first().map_or(1, |axis| axis.len as u32);
        Strands { strand_of, value_of, members, beside, len }
    }

    /// The best schedule that moves of strands make of another one, by rank. It may be worse than the given one if that
    /// is not by rank.
    ///
    /// # Errors
    /// If the pool of threads cannot be started.
    pub(super) fn improved(
        &self,
        mut evaluators: Vec<&mut Evaluator<'_, '_>>,
        device_of: Vec<DeviceId>,
        stop: &Stop,
        context: &Context<'_>,
    ) -> Result<Option<Best>, SolveError> {
        let Some(mut state) = scored(evaluators[0], device_of, f64::INFINITY) else { return Ok(None) };
        let mut best = Best { score: state.score, schedule: state.schedule.clone() };
        let (time, seed) = (stop.remaining(), context.seed());
        let (mut longest, mut simulated, mut moved_at) = (Duration::ZERO, 0, 0);
        for step in 0.. {
            let is_late = stop.remaining().is_some_and(|left| left < longest);
            let is_last = step - moved_at > IDLE || (time.is_none() && step >= STEPS);
            if is_late || is_last || stop.reason().is_some() {
                break;
            }
            let begin = Instant::now();
            let left = stop.remaining().zip(time).map(|(left, time)| left.as_secs_f64() / time.as_secs_f64());
            let margin = MARGIN * left.unwrap_or(1.0 - step as f64 / STEPS as f64);
            let limit = state.score.energy().max(best.score.energy() * (1.0 + margin));
            let draw = |(index, evaluator): (usize, &mut &mut Evaluator<'_, '_>)| {
                let mut rng = seed::stream(seed, STREAM + step * DRAWN as u64 + index as u64);
                let moved = self.moved(evaluator.instance(), &state, &mut rng)?;
                scored(evaluator, moved, limit).filter(|found| found.score.energy() <= limit)
            };
            let found: Vec<Option<State>> =
                context.in_pool(|| evaluators.par_iter_mut().enumerate().map(draw).collect())?;
            longest = longest.max(begin.elapsed());
            let runs = evaluators.iter().map(|evaluator| evaluator.runs).sum();
            if runs > simulated {
                (simulated, moved_at) = (runs, step);
            }
            let found = found.into_iter().flatten();
            let Some(found) = found.min_by(|a, b| a.score.energy().total_cmp(&b.score.energy())) else {
                continue;
            };
            state = found;
            if is_better(state.score, best.score) {
                best = Best { score: state.score, schedule: state.schedule.clone() };
            }
        }
        Ok(Some(best))
    }

    /// The devices after a random move; `None` if it changes nothing.
    fn moved(&self, instance: &Instance<'_>, state: &State, rng: &mut ChaCha8Rng) -> Option<Vec<DeviceId>> {
        let device_of = &state.schedule.device_of;
        let op = match rng.random_bool(CRITICAL) && !state.critical.is_empty() {
            true => state.critical[rng.random_range(0..state.critical.len())],
            false => OpId(rng.random_range(0..device_of.len()) as u32),
        };
        let from = device_of[op.index()];
        let to = target(instance, device_of, op, rng).filter(|&to| to != from)?;
        let values = self.values(op, rng);
        let size = 1 << rng.random_range(0..=DOUBLINGS);
        let mut moves: Vec<(OpId, DeviceId)> = Vec::new();
        moves.extend(self.around(op, &values, size, device_of, rng).into_iter().map(|op| (op, to)));
        if rng.random_bool(EXCHANGED) {
            let mut any = (0..LOOKED_AT).map(|_| OpId(rng.random_range(0..device_of.len()) as u32));
            if let Some(other) = any.find(|other| device_of[other.index()] == to) {
                moves.extend(
                    self.around(other, &values, size, device_of, rng).into_iter().map(|op| (op, from)),
                );
            }
        }
        let mut moved = device_of.clone();
        let mut is_new = false;
        for (op, to) in moves {
            if moved[op.index()] != to && instance.homes(op).binary_search(&to).is_ok() {
                let class = instance.graph().class_of(op);
                instance.graph().class(class).iter().for_each(|member| moved[member.index()] = to);
                is_new = true;
            }
        }
        is_new.then_some(moved)
    }

    /// All values, or some before an operator's, after it or around it. Their number is drawn by its logarithm.
    fn values(&self, op: OpId, rng: &mut ChaCha8Rng) -> Range<u32> {
        if rng.random_bool(ALL_VALUES) {
            return 0..self.len;
        }
        let reach = f64::from(self.len).powf(rng.random::<f64>()) as u32;
        let value = self.value_of[op.index()];
        match rng.random_range(0..3) {
            0 => value.saturating_sub(reach)..value + 1,
            1 => value..value + reach + 1,
            _ => value.saturating_sub(reach / 2)..value + reach / 2 + 1,
        }
    }

    /// The operators on the device of `op`, at some values, of its strand and of up to `size` strands around it.
    fn around(
        &self,
        op: OpId,
        values: &Range<u32>,
        size: usize,
        device_of: &[DeviceId],
        rng: &mut ChaCha8Rng,
    ) -> Vec<OpId> {
        let device = device_of[op.index()];
        let is_taken =
            |op: &&OpId| device_of[op.index()] == device && values.contains(&self.value_of[op.index()]);
        let taken = |strand: u32| self.members[strand as usize].iter().filter(is_taken).copied();
        let mut strands = vec![self.strand_of[op.index()]];
        let mut all: Vec<OpId> = taken(strands[0]).collect();
        for _ in 0..3 * size {
            if strands.len() >= size {
                break;
            }
            let beside = &self.beside[strands[rng.random_range(0..strands.len())] as usize];
            if beside.is_empty() {
                continue;
            }
            let strand = beside[rng.random_range(0..beside.len())];
            let before = all.len();
            if !strands.contains(&strand) {
                all.extend(taken(strand));
            }
            if all.len() > before {
                strands.push(strand);
            }
        }
        all
    }
}

/// A device for an operator, mostly that of a neighbour.
fn target(
    instance: &Instance<'_>,
    device_of: &[DeviceId],
    op: OpId,
    rng: &mut ChaCha8Rng,
) -> Option<DeviceId> {
    let [before, after] = [instance.graph().predecessors(op), instance.graph().successors(op)];
    let count = before.len() + after.len();
    if count > 0 && rng.random_bool(TO_NEIGHBOUR) {
        let index = rng.random_range(0..count);
        let neighbour = before.get(index).copied().unwrap_or_else(|| after[index - before.len()]);
        let there = device_of[neighbour.index()];
        if there != device_of[op.index()] {
            return Some(there);
        }
    }
    let homes = instance.homes(op);
    (!homes.is_empty()).then(|| homes[rng.random_range(0..homes.len())])
}

/// The state of an assignment, by rank; `None` if the step takes at least as long as the limit.
fn scored(evaluator: &mut Evaluator<'_, '_>, device_of: Vec<DeviceId>, limit: f64) -> Option<State> {
    let schedule = by_rank(evaluator.instance(), device_of);
    let score = evaluator.score_below(&schedule, limit)?;
    let (flow, timeline) = evaluator.last();
    let operator = |activity: Activity| match activity {
        Activity::Operator(op) => OpId(op),
        Activity::Transfer(transfer) => OpId(flow.producer_of(transfer)),
    };
    let critical = timeline.critical_path(flow).iter().map(|step| operator(step.activity)).collect();
    Some(State { schedule, score, critical })
}
