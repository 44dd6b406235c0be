//! Pipelines under 1F1B, zero-bubble or zero-bubble-2p, laid out stage by stage from the last.
//!
//! A state consists of the first layer of the stages so far and the number of these stages on every kind, on which the
//! activations in memory depend. It keeps three figures, each the minimum over all ways to reach the state: the seconds
//! of the two passes of a microbatch through its stages; and, to the last backward pass and to the last weight
//! gradient, the maximum over its stages of the time of a stage with those before it ([`super::schedule`]). Each figure
//! increases with the figures of the following state, so the minimum of each is enough for a bound, though the three
//! may belong to different pipelines.
//!
//! Stages and states that can only end at or above the cutoff are dropped: stages that take too long with the layers
//! that remain before them, and states whose earlier layers do not fit on the remaining devices, in time or in memory.
//! A pipeline below the cutoff has no such stage or state, so if no pipeline of all layers is left, there is none below
//! the cutoff.

use std::collections::BTreeMap;
use std::collections::hash_map::Entry;
use std::ops::Range;

use rustc_hash::FxHashMap;
use stagewright_core::document::Schedule;

use super::configurations::{self, Group, Point};
use super::layers::Layers;
use super::place::{Place, Sums, Transfers};
use super::schedule::{Ends, Fixed, Position};
use super::{Effort, Exhausted};
use crate::joint::iteration::order::Pipeline;

/// Maximum numbers of states, stages and choices, limited by the memory that they take.
const MOST_STATES: usize = 1 << 23;
const MOST_ROWS: usize = 1 << 22;
const MOST_CHOICES: usize = 1 << 21;

/// A kind of devices for stages.
#[derive(Debug)]
pub(super) struct Side<'p> {
    pub(super) place: &'p Place<'p>,
    pub(super) sums: &'p Sums,
    pub(super) transfers: &'p Transfers,
}

/// Pipelines to exclude.
#[derive(Debug)]
pub(super) struct Program<'p> {
    pub(super) layers: &'p Layers<'p>,
    pub(super) sides: Vec<Side<'p>>,
    pub(super) microbatches: u32,
    /// The schedule; the number of stages is fixed if weight gradients run separately.
    pub(super) schedule: Schedule,
    /// Minimum and maximum number of stages.
    pub(super) stages: [usize; 2],
    pub(super) cutoff: f64,
}

/// Minimum figures of the stages after a boundary.
#[derive(Debug, Clone, Copy)]
struct State {
    /// Seconds of the two passes of a microbatch.
    passes: f64,
    ends: Ends,
}

/// State that no pipeline reaches.
const UNREACHED: State =
    State { passes: f64::INFINITY, ends: Ends { weight: f64::INFINITY, backward: f64::INFINITY } };

impl State {
    fn is_reached(&self) -> bool {
        self.passes < f64::INFINITY
    }

    fn improve(&mut self, other: State) {
        self.passes = self.passes.min(other.passes);
        self.ends.weight = self.ends.weight.min(other.ends.weight);
        self.ends.backward = self.ends.backward.min(other.ends.backward);
    }
}

/// Prefix sums over the layers, each on its cheapest kind.
#[derive(Debug)]
struct Before {
    forward: Vec<f64>,
    passes: Vec<f64>,
    state: Vec<f64>,
    /// Bytes in hosts' memories.
    host: Vec<f64>,
    /// Seconds of a microbatch, multiplied by the share of the kind.
    shared: Vec<f64>,
    /// The share of every kind.
    shares: Vec<f64>,
}

impl Before {
    fn new(sides: &[Side]) -> Self {
        let count = sides[0].sums.workspace.len();
        let seconds = |side: &Side, layer: usize| {
            side.sums.forward[layer + 1] - side.sums.forward[layer] + side.sums.both[layer + 1]
                - side.sums.both[layer]
        };
        let shares: Vec<f64> = sides
            .iter()
            .map(|side| {
                let all = side.sums.forward[count] + side.sums.both[count];
                if all > 0.0 { 1.0 / all } else { 1.0 }
            })
            .collect();
        let sums = |figure: &dyn Fn(usize, &Side, usize) -> f64| {
            let mut sum = 0.0;
            let after = (0..count).map(|layer| {
                let here = sides.iter().enumerate();
                let here = here.filter(|(_, side)| side.sums.workspace[layer] < f64::INFINITY);
                sum += here.map(|(index, side)| figure(index, side, layer)).fold(f64::INFINITY, f64::min);
                sum
            });
            std::iter::once(0.0).chain(after).collect::<Vec<_>>()
        };
        let part = |sums: &[f64], layer: usize| sums[layer + 1] - sums[layer];
        Before {
            forward: sums(&|_, side, layer| part(&side.sums.forward, layer)),
            passes: sums(&|_, side, layer| {
                part(&side.sums.forward, layer) + part(&side.sums.backward, layer)
            }),
            state: sums(&|_, side, layer| part(&side.sums.state, layer)),
            host: sums(&|_, side, layer| part(&side.sums.host, layer)),
            shared: sums(&|index, side, layer| shares[index] * seconds(side, layer)),
            shares,
        }
    }
}

/// Choices of configurations by kind, interval and number of stages from this one to the last.
type Choices = FxHashMap<(usize, u32, usize), Vec<Point>>;

impl Program<'_> {
    /// Whether no pipeline takes less than the cutoff.
    pub(super) fn excludes_all(&self, effort: &mut Effort) -> Result<bool, Exhausted> {
        let before = Before::new(&self.sides);
        let [_, max_stages] = self.stages;
        let rooms: Vec<usize> = self.sides.iter().map(|side| side.place.room.min(max_stages)).collect();
        let width = self.layers.len() + 1;
        let rows = rooms.iter().try_fold(1usize, |rows, room| rows.checked_mul(room + 1));
        let rows = rows.filter(|&rows| rows <= MOST_ROWS).ok_or(Exhausted)?;
        effort.spend(rows as u64)?;
        // States by the numbers of stages on every kind; empty if no pipeline reaches them.
        let mut states: Vec<Vec<State>> = vec![Vec::new(); rows];
        // The boundary after the last layer.
        states[0] = vec![UNREACHED; width];
        states[0][width - 1] = State { passes: 0.0, ends: Ends { weight: 0.0, backward: 0.0 } };
        let mut reached = width;
        let mut choices = Choices::default();
        let mut used = vec![0; rooms.len()];
        for row in 1..rows {
            // Advance to the next numbers of stages; the number on the first kind changes fastest.
            for (used, room) in used.iter_mut().zip(&rooms) {
                *used += 1;
                if *used <= *room {
                    break;
                }
                *used = 0;
            }
            let behind = behind(row, &used, &rooms, &states);
            let places = self.sides.iter().map(|side| side.place).zip(used.iter().copied());
            let has_devices = Place::have_devices(places);
            if used.iter().sum::<usize>() > max_stages || behind.is_empty() || !has_devices {
                continue;
            }
            let here = Row::new(self, &used, &rooms, &before);
            let filled = self.fill(&here, &behind, &before, &mut choices, effort)?;
            if filled[0].is_reached() {
                return Ok(false);
            }
            if filled.iter().any(State::is_reached) {
                reached += width;
                states[row] = filled;
            }
            if reached > MOST_STATES || choices.len() > MOST_CHOICES {
                return Err(Exhausted);
            }
        }
        Ok(true)
    }

    /// The states of a row, by their first layers. `behind` has the tables of the rows with one stage fewer on a kind.
    fn fill(
        &self,
        row: &Row,
        behind: &[(usize, &[State])],
        before: &Before,
        choices: &mut Choices,
        effort: &mut Effort,
    ) -> Result<Vec<State>, Exhausted> {
        let (m, cutoff) = (f64::from(self.microbatches), self.cutoff);
        let width = self.layers.len() + 1;
        let in_flight = self.in_flight(row.from);
        let position = Position::new(self.schedule, self.microbatches, row.from, self.stages[0]);
        let added = |start: usize| position.added(before.forward[start], before.passes[start]);
        let mut states = vec![UNREACHED; width];
        for &(index, behind) in behind {
            let side = &self.sides[index];
            let Place { limit, host_limit, .. } = *side.place;
            let sums = side.sums;
            for (end, &behind) in behind.iter().enumerate().filter(|(_, behind)| behind.is_reached()) {
                let given = self.layers.given_stage(self.stages[0], row.from);
                if given.is_some_and(|[_, last]| last != end) {
                    continue;
                }
                let mut workspace = 0.0f64;
                for start in (row.least..end).rev() {
                    effort.spend(1)?;
                    let part = |sums: &[f64]| sums[end] - sums[start];
                    workspace = workspace.max(sums.workspace[start]);
                    let (forward, both, state) = (part(&sums.forward), part(&sums.both), part(&sums.state));
                    // Further layers only take longer and need more memory.
                    if m * (forward + both) + added(start) >= cutoff
                        || state + workspace > limit
                        || part(&sums.host) > host_limit
                        || workspace.is_infinite()
                    {
                        break;
                    }
                    let is_elsewhere = given.is_some_and(|[first, _]| first != start);
                    if is_elsewhere || if start == 0 { !row.may_be_all } else { start > row.most } {
                        continue;
                    }
                    let (there, back) = (side.transfers[start][0], side.transfers[end][1]);
                    let fixed = Fixed { forward: forward + there, update: part(&sums.update) };
                    let fastest = Point { backward: part(&sums.backward), both };
                    let next = |point: &Point| {
                        let point = Point { backward: point.backward + back, both: point.both + back };
                        self.extend(&position, behind, fixed, point, start)
                            .filter(|next| next.ends.weight + added(start) < cutoff)
                            .filter(|next| next.ends.backward + before.passes[start] < cutoff)
                    };
                    let Some(least) = next(&fastest) else { continue };
                    let [until_backward, until_weight] = [0, 1].map(|until| part(&sums.activations[until]));
                    let kept = in_flight[0] * until_backward + in_flight[1] * until_weight;
                    let target = &mut states[start];
                    if state + kept + workspace <= limit {
                        target.improve(least);
                    } else {
                        let room = limit - state;
                        let points = self.points(choices, index, start..end, row.from, room, effort)?;
                        points.iter().filter_map(next).for_each(|next| target.improve(next));
                    }
                }
            }
        }
        Ok(states)
    }

    /// Microbatches that a stage keeps until the backward pass and until the weight gradients; `from` counts the stages
    /// from this one to the last.
    fn in_flight(&self, from: usize) -> [f64; 2] {
        let [_, devices] = self.stages;
        let microbatches = self.microbatches as usize;
        let pipeline = Pipeline { schedule: self.schedule, devices, chunks: 1, microbatches };
        pipeline.in_flight(devices - from).map(|count| count as f64)
    }

    /// The state after a stage is put before the stages of the state `behind`; `None` if no pipeline reaches it.
    fn extend(
        &self,
        position: &Position,
        behind: State,
        fixed: Fixed,
        point: Point,
        start: usize,
    ) -> Option<State> {
        let needs = position.needs(fixed, point, behind.passes);
        let passes = fixed.forward + point.backward;
        let mut ends = Ends {
            weight: needs.weight.max(behind.ends.weight + position.added(fixed.forward, passes)),
            backward: needs.backward.max(behind.ends.backward + passes),
        };
        if start == 0 {
            // The first stage ends with a weight gradient.
            let update = position.update_of_first(fixed.update);
            ends.weight = ends.weight.max(behind.ends.backward + fixed.forward + point.both + update);
        }
        let next = State { passes: behind.passes + passes, ends };
        next.is_reached().then_some(next)
    }

    /// The points of a stage whose fastest configurations do not fit on a kind, computed once for every interval;
    /// `from` counts the stages from this one to the last.
    fn points<'c>(
        &self,
        choices: &'c mut Choices,
        kind: usize,
        range: Range<usize>,
        from: usize,
        room: f64,
        effort: &mut Effort,
    ) -> Result<&'c [Point], Exhausted> {
        let open = match choices.entry((kind, self.layers.interval(range.start, range.end), from)) {
            Entry::Occupied(known) => return Ok(known.into_mut()),
            Entry::Vacant(open) => open,
        };
        effort.spend(range.len() as u64)?;
        let mut counts: BTreeMap<usize, usize> = BTreeMap::new();
        self.layers.class_of[range].iter().for_each(|&class| *counts.entry(class).or_default() += 1);
        let groups = counts.into_iter().filter_map(|(class, count)| {
            let settings = &self.sides[kind].place.classes[class].as_ref()?.settings;
            Some(Group { count, settings })
        });
        let in_flight = self.in_flight(from);
        let points = configurations::fastest(&groups.collect::<Vec<_>>(), in_flight, room, effort)?;
        Ok(open.insert(points))
    }
}

/// For every kind, the states with one stage fewer on it, if there are any. `row` is the number of the row with the
/// stages `used`.
fn behind<'s>(
    row: usize,
    used: &[usize],
    rooms: &[usize],
    states: &'s [Vec<State>],
) -> Vec<(usize, &'s [State])> {
    let mut stride = 1;
    let mut behind = Vec::new();
    for (index, (&used, room)) in used.iter().zip(rooms).enumerate() {
        if used > 0 && !states[row - stride].is_empty() {
            behind.push((index, states[row - stride].as_slice()));
        }
        stride *= room + 1;
    }
    behind
}

/// States with the same numbers of stages.
#[derive(Debug)]
struct Row {
    /// Total number of stages.
    from: usize,
    /// Whether these may be all stages of a pipeline.
    may_be_all: bool,
    /// Minimum and maximum number of layers that are left for other stages.
    least: usize,
    most: usize,
}

impl Row {
    /// The row in which every kind has the number of stages given by `used`.
    fn new(program: &Program, used: &[usize], rooms: &[usize], before: &Before) -> Self {
        let [fewest, max_stages] = program.stages;
        let from: usize = used.iter().sum();
        let kinds = used.iter().filter(|&&used| used > 0).count();
        // Pipelines on a single kind are excluded separately, with the links of that kind.
        let is_of_kinds = kinds > 1 || program.sides.len() == 1;
        let stages = max_stages - from;
        // Maximum time and memory of the stages before these.
        let most_of = |figure: &dyn Fn(usize) -> f64| -> f64 {
            let left = (0..used.len())
                .flat_map(|index| std::iter::repeat_n(figure(index), rooms[index] - used[index]));
            let mut left: Vec<f64> = left.collect();
            left.sort_by(|left, right| right.total_cmp(left));
            left.into_iter().take(stages).sum()
        };
        let share = most_of(&|index| before.shares[index]);
        let memory = most_of(&|index| program.sides[index].place.limit);
        let of_hosts = most_of(&|index| program.sides[index].place.host_limit);
        let m = f64::from(program.microbatches);
        let fits = |&layers: &usize| {
            m * before.shared[layers] < program.cutoff * share
                && before.state[layers] <= memory
                && before.host[layers] <= of_hosts
        };
        let layers = program.layers.len();
        Row {
            from,
            may_be_all: from >= fewest && is_of_kinds,
            least: fewest.saturating_sub(from),
            most: (1..=layers).take_while(fits).count(),
        }
    }
}
