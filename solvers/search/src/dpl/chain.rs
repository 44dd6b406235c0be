//! The exact dynamic program over one linear order.
//!
//! With the units in a fixed order, a stage is an interval, and
//!
//! ```text
//! f(u, i) = min over pools c, replicas r and j < i of  max(f(u − r·e_c, j), load_c(j..i) / r + sync)
//! ```
//!
//! is the minimum bottleneck of the first i units on the devices u. For each start j and pool c the interval grows one
//! unit at a time in a [`StageLoad`], until its compute alone reaches the cap. Growing an interval takes time
//! proportional to the unit's nets, so the total is O(p · (w + q · Π(n_c + 1))), where p is the number of cut
//! positions, w the number of units and q the number of positions in the longest interval below the cap. The
//! restriction to a linear order is DPL of Tarnawski et al. (NeurIPS 2020). Any topological order gives a contiguous
//! split, since the order of the stages respects it.

use std::cell::Cell;

use stagewright_core::contraction::{UnitId, Units};
use stagewright_core::ids::{Id, Keyed};
use stagewright_core::placement::StageAssignment;
use stagewright_core::problem::Problem;
use stagewright_core::solver::Stop;
use stagewright_core::stage_load::StageLoad;

use super::positions::{Cut, Positions};
use crate::sweep::{Minimised, sweep};
use crate::usage::UsageSpace;

#[derive(Debug, Clone, Copy)]
struct Parent {
    /// Index of the position where the last stage starts.
    start: Cut,
    usage: u32,
    pool: u32,
    replicas: u32,
}

/// Minimum bottleneck and last stage of every state: `[index of the position][usage]`, so that the states of one start
/// are contiguous.
struct Table {
    value: Vec<f64>,
    parent: Vec<Parent>,
}

/// The states at a position that a stage on some pool can extend.
struct Open {
    start: Cut,
    pool: usize,
    states: Vec<OpenState>,
}

struct OpenState {
    usage: usize,
    value: f64,
    /// Devices of the pool not in use.
    left: u32,
    /// Microbatches in flight in the stage that extends the state.
    in_flight: u32,
}

/// Bytes per state of the tables.
pub(super) const STATE_BYTES: u64 = (size_of::<f64>() + size_of::<Parent>()) as u64;

/// Intervals between clock checks.
const INTERVALS_BETWEEN_CHECKS: u32 = 1024;
/// Number of states from which every interval checks the clock.
const MANY_STATES: usize = 4096;
/// Number of units from which every interval checks the clock: the resources of a stage of many units may take
/// milliseconds to compute.
const MANY_UNITS: usize = 2048;

/// An order of the units, its cut positions, and the devices that its stages may use.
#[derive(Clone, Copy)]
pub struct Line<'a> {
    /// The units.
    pub order: &'a [UnitId],
    /// The cut positions.
    pub positions: &'a Positions,
    /// The usages of devices.
    pub space: &'a UsageSpace,
}

/// The best stages over an order with a value below `cap`, if any; the value ignores uplinks. Also `None` if the solve
/// has to stop first.
pub fn best_stages(
    problem: &Problem,
    units: &Units,
    line: Line<'_>,
    cap: f64,
    stop: &Stop,
) -> Option<(f64, Vec<StageAssignment>)> {
    let from_end = problem.objective().memory_depends_on_stage();
    let Line { order, positions, space } = line;
    let reversed: (Vec<UnitId>, Positions);
    let (order, positions) = if from_end {
        reversed = (order.iter().rev().copied().collect(), positions.reversed(order.len()));
        (&*reversed.0, &reversed.1)
    } else {
        (order, positions)
    };
    let positions = positions.list();
    let chain = Chain { problem, units, order, positions, space, stop, intervals: Cell::new(0) };
    let best = if problem.objective().passes() == 1 {
        chain.minimise(0, [cap, cap]).map(|found| (found.loads[0], found.placement))
    } else {
        let swept = sweep(cap, |pass, caps| Ok::<_, std::convert::Infallible>(chain.minimise(pass, caps)));
        match swept {
            Ok(best) => best,
            Err((never, _)) => match never {},
        }
    };
    best.map(|(value, mut stages)| {
        if from_end {
            stages.reverse();
        }
        (value, stages)
    })
}

struct Chain<'a> {
    problem: &'a Problem,
    units: &'a Units,
    order: &'a [UnitId],
    positions: &'a Keyed<Cut, usize>,
    space: &'a UsageSpace,
    stop: &'a Stop,
    intervals: Cell<u32>,
}

impl Chain<'_> {
    /// Minimises the largest load of `pass` over the stages whose loads are all below the caps. `None` if there are
    /// none, or if the solve has to stop.
    fn minimise(&self, pass: usize, caps: [f64; 2]) -> Option<Minimised<Vec<StageAssignment>>> {
        let last = Cut::new(self.positions.len() - 1);
        let width = self.space.len();
        let states = self.positions.len() * width;
        let mut table = Table {
            value: vec![f64::INFINITY; states],
            parent: vec![Parent { start: Cut(0), usage: 0, pool: 0, replicas: 0 }; states],
        };
        table.value[0] = 0.0;
        let mut pool_loads: Vec<StageLoad<'_>> = (0..self.problem.pools().len())
            .map(|pool| StageLoad::new(self.units, self.problem.objective(), pool))
            .collect();
        let mut open = Open { start: Cut(0), pool: 0, states: Vec::new() };
        for start in Cut::first(last.index()) {
            if self.stop.reason().is_some() {
                return None;
            }
            for (pool, stage_load) in pool_loads.iter_mut().enumerate() {
                self.open(start, pool, caps[pass], &table, &mut open);
                if !open.states.is_empty() && !self.grow(&open, stage_load, pass, caps, &mut table) {
                    return None;
                }
            }
        }
        let (usage, &best) = table.value[last.index() * width..]
            .iter()
            .enumerate()
            .min_by(|a, b| a.1.total_cmp(b.1))
            .filter(|(_, value)| value.is_finite())?;
        let stages = self.walk_back(usage, &table.parent);
        let mut loads = [0.0; 2];
        for stage in &stages {
            let own = stage_loads(self.problem, self.units, stage);
            for pass in 0..2 {
                loads[pass] = f64::max(loads[pass], own[pass]);
            }
        }
        loads[pass] = loads[pass].max(best);
        Some(Minimised { loads, placement: stages })
    }

    /// Finds the states at a position with a value below `cap` and a device of the pool left.
    fn open(&self, start: Cut, pool: usize, cap: f64, table: &Table, open: &mut Open) {
        let objective = self.problem.objective();
        let width = self.space.len();
        (open.start, open.pool) = (start, pool);
        open.states.clear();
        for (usage, &value) in table.value[start.index() * width..][..width].iter().enumerate() {
            if value >= cap {
                continue;
            }
            let left = self.space.left(usage, pool);
            if left > 0 {
                let in_flight = objective.in_flight(self.space.stages(usage) + 1);
                open.states.push(OpenState { usage, value, left, in_flight });
            }
        }
    }

    /// Grows the interval from a position on a pool, unit by unit. At every cut position where the interval is below
    /// the caps, extends the open states by the interval. Returns `false` if the solve has to stop.
    fn grow(
        &self,
        open: &Open,
        stage_load: &mut StageLoad<'_>,
        pass: usize,
        caps: [f64; 2],
        table: &mut Table,
    ) -> bool {
        let &Open { start, pool, .. } = open;
        let objective = self.problem.objective();
        let memory = self.problem.pools()[pool].memory;
        let passes = objective.passes();
        let max_replicas = objective.rules().max_replicas.min(self.problem.pools()[pool].count());
        let least_in_flight = objective.in_flight(1);
        stage_load.clear();
        let from = self.positions[start];
        let mut end = Cut(start.0 + 1);
        for (position, &unit) in self.order.iter().enumerate().skip(from) {
            stage_load.add(unit);
            let too_long =
                (0..passes).any(|pass| stage_load.compute(pass) / f64::from(max_replicas) >= caps[pass]);
            if !stage_load.supported() || too_long || !stage_load.memory().may_fit(least_in_flight, memory) {
                break;
            }
            if self.positions[end] != position + 1 {
                continue;
            }
            for replicas in 1..=max_replicas {
                if self.has_to_stop() {
                    return false;
                }
                let loads = loads_of(self.problem, stage_load, pool, replicas);
                if (0..passes).any(|pass| loads[pass] >= caps[pass]) {
                    continue;
                }
                // Memory is computed only for stages below the caps.
                if !stage_load.memory().fits(least_in_flight, memory) {
                    break;
                }
                self.extend(open, end, replicas, stage_load, loads[pass], table);
            }
            end.0 += 1;
        }
        true
    }

    /// Extends the open states by a stage that ends at `end`.
    #[inline]
    fn extend(
        &self,
        open: &Open,
        end: Cut,
        replicas: u32,
        stage_load: &StageLoad<'_>,
        load: f64,
        table: &mut Table,
    ) {
        let &Open { start, pool, ref states } = open;
        let memory = self.problem.pools()[pool].memory;
        let by_stage = self.problem.objective().memory_depends_on_stage();
        let width = self.space.len();
        let row = end.index() * width;
        let (value, parent) = (&mut table.value[row..][..width], &mut table.parent[row..][..width]);
        for state in states {
            if state.left < replicas || by_stage && !stage_load.memory().fits(state.in_flight, memory) {
                continue;
            }
            let after = self.space.after(state.usage, pool, replicas);
            let candidate = state.value.max(load);
            if candidate < value[after] {
                value[after] = candidate;
                parent[after] = Parent { start, usage: state.usage as u32, pool: pool as u32, replicas };
            }
        }
    }

    /// Checks the clock periodically.
    fn has_to_stop(&self) -> bool {
        let intervals = self.intervals.get().wrapping_add(1);
        self.intervals.set(intervals);
        let is_slow = self.space.len() >= MANY_STATES || self.order.len() >= MANY_UNITS;
        (is_slow || intervals.is_multiple_of(INTERVALS_BETWEEN_CHECKS)) && self.stop.reason().is_some()
    }

    /// The stages on the path to a usage at the end of the order.
    fn walk_back(&self, usage: usize, parent: &[Parent]) -> Vec<StageAssignment> {
        let width = self.space.len();
        let mut stages = Vec::new();
        let mut end = Cut::new(self.positions.len() - 1);
        let mut usage = usage;
        while end > Cut(0) {
            let step = parent[end.index() * width + usage];
            let interval = self.positions[step.start]..self.positions[end];
            stages.push(StageAssignment {
                pool: step.pool as usize,
                replicas: step.replicas,
                units: self.order[interval].to_vec(),
            });
            end = step.start;
            usage = step.usage as usize;
        }
        stages.reverse();
        stages
    }
}

/// Load of a stage per pass, divided among its replicas, including synchronisation.
pub fn stage_loads(problem: &Problem, units: &Units, stage: &StageAssignment) -> [f64; 2] {
    let mut stage_load = StageLoad::new(units, problem.objective(), stage.pool);
    for &unit in &stage.units {
        stage_load.add(unit);
    }
    loads_of(problem, &stage_load, stage.pool, stage.replicas)
}

/// The loads of [`stage_loads`] for the units of a [`StageLoad`].
fn loads_of(problem: &Problem, stage_load: &StageLoad<'_>, pool: usize, replicas: u32) -> [f64; 2] {
    let passes = problem.objective().passes();
    let mut loads = [0.0; 2];
    for (pass, load) in loads.iter_mut().enumerate().take(passes) {
        *load = stage_load.load(pass, replicas);
    }
    loads[passes - 1] += problem.pools()[pool].synchronisation(stage_load.parameter_bytes(), replicas);
    loads
}
