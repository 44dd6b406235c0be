//! All blocks that can follow an ideal: its supersets, depth first, with the load of a call and the path on the hosts.

use stagewright_core::contraction::{NetId, Units};
use stagewright_core::ids::Keyed;
use stagewright_core::stage_load::Compensated;
use stagewright_core::stage_memory::{MemorySums, StageMemory};

use super::Limits;
use super::costs::{Costs, PoolCosts, PoolId};
use super::ideals::{IdealId, Ideals, Position};
use super::table::{Made, Pending, Settled};

/// Number of supersets visited and cells offered an improvement between two checks of the clock.
const BETWEEN_CHECKS: usize = 1 << 16;

/// Marks a stopped walk.
#[derive(Debug)]
pub(super) struct Halted;

/// Walks the supersets of one ideal at a time.
pub(super) struct Walker<'a> {
    costs: &'a Costs,
    ideals: &'a Ideals,
    limits: Limits<'a>,
    /// Number of readers of each net outside the superset.
    left: Keyed<NetId, u32>,
    /// Number of readers of each net in the block.
    inside: Keyed<NetId, u32>,
    /// Seconds on the hosts until a unit of the block is ready; zero for units outside the block, which are ready
    /// earlier.
    ready: Keyed<Position, f64>,
    in_block: Keyed<Position, bool>,
    /// Memory of the block; `None` if it is the sum in [`BlockSums`].
    memory: Option<Memory<'a>>,
    /// Number of steps that a superset counts as, since computing its memory may visit all units.
    steps_each: usize,
    frames: Vec<Frame>,
    call_ways: Vec<(Made, f64)>,
    host_ways: Vec<(Made, f64)>,
    steps: usize,
    /// The prefix for which `left` is valid.
    prefix: IdealId,
}

/// Memory of the units of a block, with the marks that undo their additions.
struct Memory<'a> {
    holdings: StageMemory<'a>,
    marks: Vec<MemorySums>,
}

const NOTHING: Position = Position(u32::MAX);

/// A superset on the current path.
#[derive(Debug, Clone, Copy)]
struct Frame {
    ideal: IdealId,
    /// The position added last, or [`NOTHING`].
    added: Position,
    /// Next transition to try.
    next: usize,
    call: Option<BlockSums>,
    /// The longest path of the block on the hosts.
    path: Option<f64>,
}

#[derive(Debug, Clone, Copy, Default)]
struct BlockSums {
    compute: f64,
    received: f64,
    /// Seconds of sent tensors; a tensor is removed again when its last reader joins.
    sent: Compensated,
    bytes: f64,
}

impl BlockSums {
    fn load(&self) -> f64 {
        self.compute + self.received + self.sent.value()
    }
}

impl<'a> Walker<'a> {
    pub(super) fn new(
        units: &'a Units,
        costs: &'a Costs,
        ideals: &'a Ideals,
        limits: Limits<'a>,
    ) -> Walker<'a> {
        let memory = || Memory { holdings: StageMemory::new(units), marks: Vec::new() };
        Walker {
            costs,
            ideals,
            limits,
            left: costs.readers.clone(),
            inside: Keyed::filled(0, costs.readers.len()),
            ready: Keyed::filled(0.0, costs.host.len()),
            in_block: Keyed::filled(false, costs.host.len()),
            memory: (!units.bytes_are_sums()).then(memory),
            steps_each: if units.bytes_are_sums() { 1 } else { 1 + units.len() },
            frames: Vec::new(),
            call_ways: Vec::new(),
            host_ways: Vec::new(),
            steps: 0,
            prefix: IdealId(0),
        }
    }

    /// Records every block that can follow an ideal in a plan below the requested value.
    pub(super) fn expand(
        &mut self,
        from: IdealId,
        settled: &Settled,
        pending: &mut Pending,
    ) -> Result<(), Halted> {
        let (least, least_called) = settled.least(from);
        let below = self.limits.below - self.tail(from);
        if least >= below {
            return Ok(());
        }
        settled.before_hosts(from, below, &mut self.host_ways);
        let mut hosts = (least_called < below).then_some(least_called);
        self.prepare(from);
        for (pool_id, pool) in self.costs.pools.enumerate() {
            settled.before_call(from, pool_id, below, &mut self.call_ways);
            self.steps += settled.width();
            let call = (!self.call_ways.is_empty()).then_some(least);
            // The hosts share the walk of the first pool.
            self.walk(from, pool_id, pool, call, hosts.take(), pending)?;
        }
        // Without accelerators, the hosts have a walk of their own.
        if self.costs.pools.is_empty() {
            self.walk(from, PoolId(0), &PoolCosts::default(), None, hosts, pending)?;
        }
        Ok(())
    }

    /// Lower bound on the seconds of the units outside an ideal.
    fn tail(&self, ideal: IdealId) -> f64 {
        let next = self.ideals.transitions(ideal).iter();
        next.map(|&(unit, _)| self.costs.tail[unit]).fold(0.0, f64::max)
    }

    fn prepare(&mut self, from: IdealId) {
        // Ideals are in order of size, so prefixes only grow.
        if self.ideals.are_prefixes() {
            let before = std::mem::replace(&mut self.prefix, from);
            for unit in (before.0..from.0).map(Position) {
                for &net in &self.costs.read[unit] {
                    self.left[net] -= 1;
                }
            }
            return;
        }
        self.left.copy_from_slice(&self.costs.readers);
        for unit in self.ideals.members(from) {
            for &net in &self.costs.read[unit] {
                self.left[net] -= 1;
            }
        }
    }

    /// Walks the supersets for calls on one pool and, if given, for host segments. `call` and `hosts` are the minimum
    /// values before a call and before a host segment.
    fn walk(
        &mut self,
        from: IdealId,
        pool_id: PoolId,
        pool: &PoolCosts,
        call: Option<f64>,
        hosts: Option<f64>,
        pending: &mut Pending,
    ) -> Result<(), Halted> {
        if call.is_none() && hosts.is_none() {
            return Ok(());
        }
        let sums = call.map(|_| BlockSums::default());
        let path = hosts.map(|_| 0.0);
        self.frames.push(Frame { ideal: from, added: NOTHING, next: 0, call: sums, path });
        let mut halted = false;
        while let Some(&Frame { ideal, added, next, call: sums, path }) = self.frames.last() {
            let transitions = self.ideals.transitions(ideal);
            let Some(&(unit, to)) = transitions.get(next).filter(|_| !halted) else {
                self.frames.pop();
                if added != NOTHING {
                    self.remove(added);
                }
                continue;
            };
            if let Some(top) = self.frames.last_mut() {
                top.next += 1;
            }
            if added != NOTHING && unit < added {
                continue;
            }
            self.steps += self.steps_each;
            if self.steps >= BETWEEN_CHECKS {
                self.steps = 0;
                halted = self.limits.stop.reason().is_some();
            }
            let Some((sums, path)) = self.extend(pool, sums.zip(call), path.zip(hosts), unit) else {
                continue;
            };
            let below = self.limits.below;
            let below = below - self.tail(to);
            if let (Some(sums), Some(least)) = (sums, call)
                && least + sums.load() < below
            {
                self.steps += self.call_ways.len();
                pending.call(from, to, pool_id, sums.load(), &self.call_ways);
            }
            if let (Some(path), Some(least)) = (path, hosts)
                && least + path < below
            {
                self.steps += self.host_ways.len();
                pending.host(from, to, path, &self.host_ways);
            }
            self.frames.push(Frame { ideal: to, added: unit, next: 0, call: sums, path });
        }
        if halted { Err(Halted) } else { Ok(()) }
    }

    /// Adds a unit to the block if the block can then still be a call on the pool or a host segment. Takes the sums of
    /// the call and the longest path on the hosts, each with the minimum value before such a block, and returns the new
    /// ones.
    fn extend(
        &mut self,
        pool: &PoolCosts,
        call: Option<(BlockSums, f64)>,
        hosts: Option<(f64, f64)>,
        unit: Position,
    ) -> Option<(Option<BlockSums>, Option<f64>)> {
        let below = self.limits.below;
        let sums = call.and_then(|(sums, least)| {
            let sums = self.with_call(pool, sums, unit)?;
            (least + sums.compute + sums.received < below).then_some(sums)
        });
        let path = hosts.and_then(|(path, least)| {
            let ready = self.with_host(unit)?;
            let path = path.max(ready);
            (least + path < below).then_some((path, ready))
        });
        if sums.is_none() && path.is_none() {
            return None;
        }
        self.add(unit, path.map_or(0.0, |path| path.1));
        // The sums only bound the memory from below, so the memory itself is checked too.
        let sums = sums.filter(|_| self.fits(pool));
        if sums.is_none() && path.is_none() {
            self.remove(unit);
            return None;
        }
        Some((sums, path.map(|path| path.0)))
    }

    /// The sums of a call with one more unit; `None` if the unit cannot be in the call.
    #[inline]
    fn with_call(&self, pool: &PoolCosts, sums: BlockSums, unit: Position) -> Option<BlockSums> {
        let seconds = pool.seconds[unit];
        let bytes = sums.bytes + self.costs.bytes[unit];
        if seconds.is_nan() || !stagewright_core::tolerance::fits(bytes, pool.memory) {
            return None;
        }
        let mut sums = BlockSums { compute: sums.compute + seconds, bytes, ..sums };
        for &net in &self.costs.read[unit] {
            if !self.in_block[self.costs.producer[net]] {
                if self.inside[net] == 0 {
                    sums.received += pool.transfer[net];
                }
            } else if self.left[net] == 1 {
                sums.sent.add(-pool.transfer[net]);
            }
        }
        for &net in &self.costs.made[unit] {
            sums.sent.add(pool.transfer[net]);
        }
        Some(sums)
    }

    /// Seconds on the hosts until one more unit is ready; `None` if no host can run it.
    #[inline]
    fn with_host(&self, unit: Position) -> Option<f64> {
        let own = self.costs.host[unit];
        let before = self.costs.predecessors[unit].iter().map(|&before| self.ready[before]);
        (!own.is_nan()).then(|| before.fold(0.0, f64::max) + own)
    }

    fn add(&mut self, unit: Position, ready: f64) {
        for &net in &self.costs.read[unit] {
            self.left[net] -= 1;
            self.inside[net] += 1;
        }
        self.in_block[unit] = true;
        self.ready[unit] = ready;
        if let Some(memory) = &mut self.memory {
            memory.marks.push(memory.holdings.mark());
            memory.holdings.add(self.ideals.order()[unit]);
        }
    }

    /// Whether the block fits into the memory of a device of a pool, if its sums do not exclude that.
    fn fits(&self, pool: &PoolCosts) -> bool {
        self.memory.as_ref().is_none_or(|memory| memory.holdings.fits(1, pool.memory))
    }

    fn remove(&mut self, unit: Position) {
        for &net in &self.costs.read[unit] {
            self.left[net] += 1;
            self.inside[net] -= 1;
        }
        self.in_block[unit] = false;
        self.ready[unit] = 0.0;
        if let Some(memory) = &mut self.memory
            && let Some(before) = memory.marks.pop()
        {
            memory.holdings.undo(before);
        }
    }
}
