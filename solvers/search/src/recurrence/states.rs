//! The recurrence shared by the dynamic programs over orders and over ideals: the minimum score of a prefix, or of an
//! ideal, for each usage of the devices.

use stagewright_core::contraction::UnitId;
use stagewright_core::placement::StageAssignment;

use super::{Growing, Program};
use crate::usage::UsageSpace;

/// Amount of work, in states extended and units added (each counts for [`UNIT`]), between checks of the clock.
const BETWEEN_CHECKS: usize = 1 << 14;
/// Amount of work that adding a unit counts for.
const UNIT: usize = 64;

/// Maximum number of states of a program.
const MOST_STATES: u64 = 1 << 22;

/// Bytes of a state.
const STATE_BYTES: u64 = (size_of::<f64>() + size_of::<Last>()) as u64;

/// Stages of a pipeline in order, with their score.
pub(crate) type Stages = (f64, Vec<StageAssignment>);

/// The last stage of a state.
#[derive(Debug, Clone, Copy)]
struct Last {
    /// The prefix or ideal before the stage.
    start: u32,
    /// The usage before the stage.
    usage: u32,
    pool: u32,
    replicas: u32,
}

impl<G: Growing> Program<'_, G> {
    /// The usages of devices for tables over `count` prefixes or ideals, next to `bytes` bytes of other tables: all
    /// usages, or as many as there is room for if the tables `may_lack` some.
    pub(super) fn usages(&self, bytes: u64, count: usize, may_lack: bool) -> Option<UsageSpace> {
        let most = MOST_STATES.min(self.room.saturating_sub(bytes) / STATE_BYTES) as usize / count;
        let space = match may_lack {
            true => UsageSpace::fitting(self.problem, self.units.len(), most),
            false => UsageSpace::new(self.problem, self.units.len(), most),
        };
        let size = UsageSpace::size(self.problem, self.units.len());
        let has_all = space.as_ref().is_some_and(|space| space.len() as f64 >= size);
        if !has_all && size * count as f64 <= MOST_STATES as f64 {
            self.lacks_room.set(true);
        }
        space
    }
}

/// The states, `[prefix or ideal][usage]`, and the stage that grows.
pub(super) struct Recurrence<'a, G> {
    program: &'a Program<'a, G>,
    space: &'a UsageSpace,
    cap: f64,
    value: Vec<f64>,
    last: Vec<Last>,
    /// The stage on each pool, only one of which grows at a time.
    growing: Vec<G>,
    /// The prefix or ideal where the growing stage starts.
    start: usize,
    /// Pool of the growing stage.
    pool: usize,
    /// Usages before the growing stage, with their values.
    open: Vec<(usize, f64)>,
    /// Work since the last check of the clock.
    unchecked: usize,
}

impl<'a, G: Growing> Recurrence<'a, G> {
    /// States of `count` prefixes or ideals, of which the first is empty, with values below the cap.
    pub(super) fn new(program: &'a Program<'a, G>, space: &'a UsageSpace, count: usize, cap: f64) -> Self {
        let nothing = Last { start: 0, usage: 0, pool: 0, replicas: 0 };
        let mut value = vec![f64::INFINITY; count * space.len()];
        value[0] = 0.0;
        Recurrence {
            program,
            space,
            cap,
            value,
            last: vec![nothing; count * space.len()],
            growing: (0..program.problem.pools().len()).map(program.stage).collect(),
            start: 0,
            pool: 0,
            open: Vec::new(),
            unchecked: 0,
        }
    }

    /// Begins a stage at `start` on a pool. Returns whether any state there has a value below the cap and a device of
    /// the pool left.
    pub(super) fn begin(&mut self, start: usize, pool: usize) -> bool {
        let width = self.space.len();
        let row = self.value[start * width..][..width].iter().copied().enumerate();
        self.open.clear();
        self.open.extend(row.filter(|&(usage, value)| value < self.cap && self.space.left(usage, pool) > 0));
        if self.open.is_empty() {
            return false;
        }
        (self.start, self.pool) = (start, pool);
        self.growing[pool].clear();
        true
    }

    /// Adds a unit to the stage. Returns what [`Recurrence::undo`] needs, or `None` if the solve has to stop.
    pub(super) fn add(&mut self, unit: UnitId) -> Option<G::Before> {
        self.count(UNIT)?;
        Some(self.growing[self.pool].add(unit))
    }

    /// Counts work, and checks the clock from time to time. `None` if the solve has to stop.
    fn count(&mut self, work: usize) -> Option<()> {
        self.unchecked += work;
        if self.unchecked >= BETWEEN_CHECKS {
            self.unchecked = 0;
            return self.program.stop.reason().is_none().then_some(());
        }
        Some(())
    }

    /// Removes the unit that was added last.
    pub(super) fn undo(&mut self, unit: UnitId, before: G::Before) {
        self.growing[self.pool].undo(unit, before);
    }

    /// Whether no larger stage is below the cap.
    pub(super) fn is_hopeless(&self) -> bool {
        self.growing[self.pool].is_hopeless(self.cap, self.program.most_replicas(self.pool))
    }

    /// Ends the stage at `end`, with every number of replicas that is below the cap. `None` if the solve has to stop.
    pub(super) fn end(&mut self, end: usize) -> Option<()> {
        let (space, pool, row) = (self.space, self.pool, end * self.space.len());
        for replicas in 1..=self.program.most_replicas(pool) {
            let score = self.growing[pool].score(replicas);
            if score < self.cap {
                if !self.growing[pool].fits() {
                    return Some(());
                }
                self.count(self.open.len())?;
                let open = self.open.iter().filter(|(usage, _)| space.left(*usage, pool) >= replicas);
                for &(usage, value) in open {
                    let after = row + space.after(usage, pool, replicas);
                    let candidate = self.program.combine.of(value, score);
                    if candidate < self.value[after].min(self.cap) {
                        let (start, usage, pool) = (self.start as u32, usage as u32, pool as u32);
                        self.value[after] = candidate;
                        self.last[after] = Last { start, usage, pool, replicas };
                    }
                }
            }
        }
        Some(())
    }

    /// The best value at `end` and its stages; `units` lists the units between a start and an end. `None` if no state
    /// there has a value below the cap.
    pub(super) fn best(&self, end: usize, units: impl Fn(usize, usize) -> Vec<UnitId>) -> Option<Stages> {
        let width = self.space.len();
        let row = self.value[end * width..][..width].iter().copied().enumerate();
        let row = row.filter(|&(usage, _)| (self.program.is_allowed)(self.space, usage));
        let (mut usage, value) =
            row.min_by(|a, b| a.1.total_cmp(&b.1)).filter(|(_, value)| value.is_finite())?;
        let (mut end, mut stages) = (end, Vec::new());
        while end > 0 {
            let last = self.last[end * width + usage];
            let start = last.start as usize;
            stages.push(StageAssignment {
                pool: last.pool as usize,
                replicas: last.replicas,
                units: units(start, end),
            });
            (end, usage) = (start, last.usage as usize);
        }
        stages.reverse();
        Some((value, stages))
    }
}
