//! Finds, for an ideal J, every ideal I ⊃ J whose difference I \ J a device can hold, by a walk over supersets.
//!
//! Units are added in ascending order, depth first, so each superset is reached exactly once, without a hash table.
//! Skipped units stay out: a net with a pin in the stage and a pin in J or among the skipped units is cut for good.
//! The load of every superset below the current one is therefore at least
//!
//! ```text
//! compute so far + transfer of the nets cut for good          (serial)
//! ```
//!
//! and if the windows require a compute of at least w, then w replaces a smaller compute so far. Nets that may still
//! close are sorted by their first pin outside the ideal. Trying units in ascending order settles a prefix of that
//! list, entry by entry, so most units that cannot be added are rejected in constant time. Adding a unit takes the time
//! to copy the rest of the list and to visit the nets of the unit.

use stagewright_core::bits;
use stagewright_core::bits::{contains, members};
use stagewright_core::document::Communication;
use stagewright_core::ids::Keyed;
use stagewright_core::stage_load::Compensated;

use crate::allowance::Halt;
use crate::lattice::{Lattice, LocalNet, Position};
use crate::stage::{Arrival, Demands, Found, Ideal, Rules, Source, StageSums};
use crate::window::Measures;

/// Steps between two checks of the clock and of the allowance.
const STEPS_BETWEEN_CHECKS: u64 = 4096;
/// Number of units from which every step checks the clock: the resources of a stage of many units take milliseconds to
/// compute.
const MANY_UNITS: usize = 2048;
/// Number of moves that take about as long as one superset.
const MOVES_PER_STEP: u64 = 8;

/// A net with a pin in the ideal that may still close.
#[derive(Clone, Copy)]
struct OpenNet {
    /// First pin of the net outside the ideal; lists are sorted by it.
    first: Position,
    net: LocalNet,
    /// Index of the first outside pin among the pins of the net.
    place: u32,
    /// Whether all pins of the net in the ideal are in the stage, so that the net is free once closed.
    stage_only: bool,
}

#[derive(Clone, Copy, Default)]
struct Sums {
    compute: [f64; 2],
    /// Transfer time of nets cut for good.
    settled: [f64; 2],
    sent: [Compensated; 2],
    received: [Compensated; 2],
    /// Transfer time of the gradients of shared parameters whose nets are cut for good.
    synchronised: [f64; 2],
    /// Minimum transfer time of nets that cross the ideal permanently.
    crossing_settled: [f64; 2],
    fixed: f64,
    activations: f64,
    parameters: f64,
}

impl Sums {
    /// Adds a net that is cut for good.
    #[inline]
    fn settle(&mut self, lattice: &Lattice, net: LocalNet, transfer: &Keyed<LocalNet, f64>) {
        let pass = usize::from(lattice.net_pass[net]);
        match lattice.producer[net] {
            Some(_) => self.settled[pass] += transfer[net],
            None => self.synchronised[pass] += transfer[net],
        }
    }
}

struct Frame {
    /// The unit added last; `None` at the root.
    unit: Option<Position>,
    next: usize,
    /// Sums of the stage, including the nets settled by units skipped since.
    sums: Sums,
    open_from: usize,
    open_to: usize,
    /// First open net that no skipped unit has settled.
    cursor: usize,
}

/// Workspace of expansions, one per thread.
pub(crate) struct Walker<'a> {
    rules: &'a Rules<'a>,
    set: Vec<u64>,
    before: Vec<u64>,
    ready: Vec<u64>,
    waiting: Keyed<Position, u32>,
    pins_before: Keyed<LocalNet, u32>,
    pins_in_stage: Keyed<LocalNet, u32>,
    /// `[position][weight]`: total weight of the positions from this one on that are not in J.
    rest: Vec<f64>,
    frames: Vec<Frame>,
    nets: Vec<OpenNet>,
    weights: Vec<f64>,
    arrivals: Vec<Arrival>,
    size: usize,
    steps: u64,
}

impl<'a> Walker<'a> {
    pub(crate) fn new(rules: &'a Rules<'a>) -> Self {
        let lattice = rules.lattice;
        Walker {
            rules,
            set: vec![0; lattice.words],
            before: vec![0; lattice.words],
            ready: vec![0; lattice.words],
            waiting: Keyed::filled(0, lattice.len),
            pins_before: Keyed::filled(0, lattice.net_count()),
            pins_in_stage: Keyed::filled(0, lattice.net_count()),
            rest: vec![0.0; (lattice.len + 1) * rules.windows.weights.count],
            frames: Vec::new(),
            nets: Vec::new(),
            weights: Vec::new(),
            arrivals: Vec::new(),
            size: 0,
            steps: 0,
        }
    }

    /// Number of supersets examined so far.
    pub(crate) fn steps(&self) -> u64 {
        self.steps
    }

    /// Calls `emit` for every superset of a state that could not be pruned.
    pub(crate) fn expand(
        &mut self,
        source: Source<'_>,
        mut emit: impl FnMut(Found<'_>) -> Result<(), Halt>,
    ) -> Result<(), Halt> {
        self.prepare(source);
        for pool in 0..self.rules.lattice.pools.len() {
            self.weights.truncate(self.rules.windows.weights.count);
            if let Some(demands) = Demands::new(self.rules, source.alive, pool, &self.weights) {
                self.expand_on(pool, &demands, &mut emit)?;
            }
        }
        Ok(())
    }

    fn prepare(&mut self, source: Source<'_>) {
        let lattice = self.rules.lattice;
        let weights = self.rules.windows.weights;
        let count = weights.count;
        self.before.copy_from_slice(source.set);
        self.set.copy_from_slice(source.set);
        self.size = source.set.iter().map(|word| word.count_ones() as usize).sum();
        self.waiting.copy_from_slice(&lattice.predecessor_count);
        self.pins_before.fill(0);
        self.weights.clear();
        self.weights.resize(count, 0.0);
        for position in members(source.set).map(Position::new) {
            for &next in lattice.successors(position) {
                self.waiting[next] -= 1;
            }
            for &net in lattice.nets_of(position) {
                self.pins_before[net] += 1;
            }
            for (sum, weight) in self.weights.iter_mut().zip(weights.of(position)) {
                *sum += weight;
            }
        }
        self.ready.fill(0);
        for position in lattice.positions() {
            if self.waiting[position] == 0 && !contains(source.set, position.index()) {
                bits::insert(&mut self.ready, position.index());
            }
        }
        for position in lattice.positions().rev() {
            let inside = contains(source.set, position.index());
            for (weight, &own) in weights.of(position).iter().enumerate() {
                let own = if inside { 0.0 } else { own };
                self.rest[position.index() * count + weight] =
                    self.rest[(position.index() + 1) * count + weight] + own;
            }
        }
    }

    /// Lists the nets that cross J as open, sorted by their first pin outside J.
    fn open_crossing(&mut self) {
        let lattice = self.rules.lattice;
        self.nets.clear();
        for (net, &inside) in self.pins_before.enumerate() {
            if lattice.crosses(net, inside) {
                let place = self.first_outside(net, 0);
                let first = lattice.pins(net)[place];
                self.nets.push(OpenNet { first, net, place: place as u32, stage_only: false });
            }
        }
        self.nets.sort_unstable_by_key(|open| (open.first, open.net));
    }

    /// Index of the first pin, from `place` on, that is not in J.
    fn first_outside(&self, net: LocalNet, place: usize) -> usize {
        let pins = self.rules.lattice.pins(net);
        let outside = pins[place..].iter().position(|&pin| !contains(&self.before, pin.index()));
        outside.map_or(pins.len(), |skipped| place + skipped)
    }

    fn expand_on(
        &mut self,
        pool: usize,
        demands: &Demands,
        emit: &mut impl FnMut(Found<'_>) -> Result<(), Halt>,
    ) -> Result<(), Halt> {
        let lattice = self.rules.lattice;
        self.open_crossing();
        self.frames.clear();
        let (sums, open_to) = (Sums::default(), self.nets.len());
        self.frames.push(Frame { unit: None, next: 0, sums, open_from: 0, open_to, cursor: 0 });
        let mut unspent = 0;
        let mut halt = Ok(());
        while let Some(top) = self.frames.len().checked_sub(1) {
            let from = self.frames[top].next;
            // Once halted, only backtracking is left.
            let Some(unit) = next_member(&self.ready, from).filter(|_| halt.is_ok()) else {
                self.pop();
                continue;
            };
            self.frames[top].next = unit.index() + 1;
            // The moves from a superset count as work too.
            unspent += 1 + demands.moves() as u64 / MOVES_PER_STEP;
            if unspent >= STEPS_BETWEEN_CHECKS {
                self.steps += unspent;
                let allowance = self.rules.allowance;
                halt = allowance.spend(std::mem::take(&mut unspent), 0).and(allowance.hold(self.bytes()));
            } else if lattice.len >= MANY_UNITS {
                halt = self.rules.allowance.check_clock();
            }
            match self.try_add(top, unit, pool, demands) {
                Added::Yes => halt = halt.and(self.report(pool, demands, emit)),
                Added::No => {}
                Added::NoneAfter => self.frames[top].next = lattice.len,
            }
        }
        self.steps += unspent;
        halt.and(self.rules.allowance.spend(unspent, 0))
    }

    /// Bytes of the arrays that grow with the depth of the walk.
    fn bytes(&self) -> u64 {
        (size_of_val(&*self.nets) + size_of_val(&*self.frames) + size_of_val(&*self.weights)) as u64
    }

    /// Adds a unit to the stage of the top frame, if some superset of the result can still be a stage.
    fn try_add(&mut self, top: usize, unit: Position, pool: usize, demands: &Demands) -> Added {
        let Rules { lattice, windows, caps, .. } = *self.rules;
        let costs = &lattice.pools[pool];
        let count = windows.weights.count;
        let base = self.weights.len() - count;
        // Only this unit and later ones can still be added.
        let rest = &self.rest[unit.index() * count..(unit.index() + 1) * count];
        if (0..count).any(|weight| self.weights[base + weight] + rest[weight] < demands.weights[weight].low) {
            return Added::NoneAfter;
        }
        self.settle_before(top, unit, &costs.transfer);
        let Frame { sums: skipped, open_to, cursor, .. } = &self.frames[top];
        if exceeded(demands, skipped, skipped.compute, caps) {
            // A later unit would skip at least the same units, and so settle at least the same nets.
            return Added::NoneAfter;
        }
        if !costs.supported[unit] {
            return Added::No;
        }
        let mut compute = skipped.compute;
        for (pass, compute) in compute.iter_mut().enumerate().take(lattice.passes) {
            *compute += costs.seconds[pass][unit];
        }
        let added = windows.weights.of(unit);
        let fixed = skipped.fixed + lattice.fixed_bytes[unit];
        let activations = skipped.activations + lattice.activation_bytes[unit];
        if (0..count).any(|weight| self.weights[base + weight] + added[weight] > demands.weights[weight].high)
            || demands.too_large(fixed, activations)
            || exceeded(demands, skipped, compute, caps)
        {
            return Added::No;
        }
        let parameters = skipped.parameters + lattice.parameter_bytes[unit];
        let mut sums = Sums { compute, fixed, activations, parameters, ..*skipped };
        let (cursor, open_to) = (*cursor, *open_to);
        let mark = self.nets.len();
        let here = self.nets[cursor..open_to].iter().take_while(|open| open.first == unit).count();
        self.nets.extend_from_within(cursor + here..open_to);
        for index in cursor..cursor + here {
            let open = self.nets[index];
            self.advance(open, mark);
        }
        for &net in lattice.nets_of(unit) {
            self.touch(&mut sums, net, unit, mark, &costs.transfer);
        }
        if exceeded(demands, &sums, compute, caps) {
            self.nets.truncate(mark);
            return Added::No;
        }
        self.push(unit, sums, mark);
        Added::Yes
    }

    /// Adds a unit to the stage, and a frame for it whose open nets begin at `mark`.
    #[inline]
    fn push(&mut self, unit: Position, sums: Sums, mark: usize) {
        let Rules { lattice, windows, .. } = *self.rules;
        let base = self.weights.len() - windows.weights.count;
        for (weight, added) in windows.weights.of(unit).iter().enumerate() {
            self.weights.push(self.weights[base + weight] + added);
        }
        for &net in lattice.nets_of(unit) {
            self.pins_in_stage[net] += 1;
        }
        for &next in lattice.successors(unit) {
            let waiting = &mut self.waiting[next];
            *waiting -= 1;
            if *waiting == 0 {
                bits::insert(&mut self.ready, next.index());
            }
        }
        bits::insert(&mut self.set, unit.index());
        self.size += 1;
        let open_to = self.nets.len();
        let next = unit.index() + 1;
        self.frames.push(Frame { unit: Some(unit), next, sums, open_from: mark, open_to, cursor: mark });
    }

    /// Settles the open nets of a frame whose first outside pin is before `unit` and so has been skipped.
    #[inline]
    fn settle_before(&mut self, top: usize, unit: Position, transfer: &Keyed<LocalNet, f64>) {
        let lattice = self.rules.lattice;
        let frame = &mut self.frames[top];
        while let Some(open) = self.nets[..frame.open_to].get(frame.cursor).filter(|open| open.first < unit) {
            let net = open.net;
            let pass = usize::from(lattice.net_pass[net]);
            frame.sums.crossing_settled[pass] += lattice.least_transfer[net];
            if open.stage_only {
                frame.sums.settle(lattice, net, transfer);
            }
            frame.cursor += 1;
        }
    }

    /// Moves an open net to its next outside pin; a net without one is closed.
    fn advance(&mut self, open: OpenNet, mark: usize) {
        let place = self.first_outside(open.net, open.place as usize + 1);
        if let Some(&first) = self.rules.lattice.pins(open.net).get(place) {
            self.insert(OpenNet { first, place: place as u32, ..open }, mark);
        }
    }

    /// Inserts an open net into the sorted list that begins at `mark`.
    fn insert(&mut self, open: OpenNet, mark: usize) {
        let after = self.nets[mark..].iter().rposition(|other| other.first <= open.first);
        self.nets.insert(after.map_or(mark, |index| mark + index + 1), open);
    }

    /// Updates the sums for a net of the unit being added. Nets in the open list have been advanced already.
    fn touch(
        &mut self,
        sums: &mut Sums,
        net: LocalNet,
        unit: Position,
        mark: usize,
        transfer: &Keyed<LocalNet, f64>,
    ) {
        let lattice = self.rules.lattice;
        let pins = lattice.pins(net);
        let pass = usize::from(lattice.net_pass[net]);
        let (before, inside) = (self.pins_before[net], self.pins_in_stage[net]);
        if inside == 0 {
            if before > 0 {
                sums.settle(lattice, net, transfer);
            } else if pins[0] == unit {
                self.insert(OpenNet { first: pins[1], net, place: 1, stage_only: true }, mark);
            } else {
                sums.settle(lattice, net, transfer);
                sums.crossing_settled[pass] += lattice.least_transfer[net];
            }
        }
        let Some(producer) = lattice.producer[net] else { return };
        if self.rules.objective.rules().communication == Communication::Duplex {
            let all = inside as usize + 1 == pins.len();
            if producer == unit {
                if inside > 0 {
                    sums.received[pass].add(-transfer[net]);
                }
                if !all {
                    sums.sent[pass].add(transfer[net]);
                }
            } else if inside == 0 {
                sums.received[pass].add(transfer[net]);
            } else if all {
                sums.sent[pass].add(-transfer[net]);
            }
        }
    }

    fn pop(&mut self) {
        let lattice = self.rules.lattice;
        let Some(Frame { unit: Some(unit), open_from, .. }) = self.frames.pop() else { return };
        self.nets.truncate(open_from);
        self.weights.truncate(self.weights.len() - self.rules.windows.weights.count);
        bits::remove(&mut self.set, unit.index());
        self.size -= 1;
        for &net in lattice.nets_of(unit) {
            self.pins_in_stage[net] -= 1;
        }
        for &next in lattice.successors(unit) {
            let waiting = &mut self.waiting[next];
            if *waiting == 0 {
                bits::remove(&mut self.ready, next.index());
            }
            *waiting += 1;
        }
    }

    /// Reports the stage of the top frame. Nets that may still close are summed here, from the open nets: a running
    /// sum with additions and subtractions would keep the rounding error of each.
    fn report(
        &mut self,
        pool: usize,
        demands: &Demands,
        emit: &mut impl FnMut(Found<'_>) -> Result<(), Halt>,
    ) -> Result<(), Halt> {
        let lattice = self.rules.lattice;
        let Frame { sums, cursor, open_to, .. } = &self.frames[self.frames.len() - 1];
        let mut crossing = sums.crossing_settled;
        let mut cut = Sums { settled: sums.settled, synchronised: sums.synchronised, ..Sums::default() };
        for open in &self.nets[*cursor..*open_to] {
            let net = open.net;
            let pass = usize::from(lattice.net_pass[net]);
            crossing[pass] += lattice.least_transfer[net];
            if open.stage_only {
                cut.settle(lattice, net, &lattice.pools[pool].transfer);
            }
        }
        let stage = StageSums {
            compute: sums.compute,
            cut: cut.settled,
            synchronised: cut.synchronised,
            sent: sums.sent.map(Compensated::value),
            received: sums.received.map(Compensated::value),
            fixed: sums.fixed,
            activations: sums.activations,
            parameters: sums.parameters,
        };
        let weights = &self.weights[self.weights.len() - self.rules.windows.weights.count..];
        let ideal = Ideal {
            set: &self.set,
            before: &self.before,
            listed: None,
            measures: Measures { weights, crossing },
            full: self.size == lattice.len,
        };
        demands.report(self.rules, ideal, &stage, &mut self.arrivals, emit)
    }
}

enum Added {
    Yes,
    No,
    /// Neither this unit nor any later one can be added to the stage.
    NoneAfter,
}

/// Whether every superset of a stage reaches a cap; `compute` takes the place of the compute in `sums`.
#[inline]
fn exceeded(demands: &Demands, sums: &Sums, compute: [f64; 2], caps: [f64; 2]) -> bool {
    (0..demands.passes).any(|pass| {
        let settled = sums.settled[pass] + sums.synchronised[pass];
        let compute = compute[pass].max(demands.least_compute[pass]);
        let load = match demands.communication {
            Communication::Serial => {
                compute.max(demands.least_with_crossing[pass] + sums.crossing_settled[pass]) + settled
            }
            Communication::Overlap => compute.max(settled),
            // Each cut net is sent or received, so one direction takes at least half of their time.
            Communication::Duplex => compute.max(0.5 * settled),
        };
        demands.at_cap(load, caps[pass])
    })
}

/// First member of a set at or after a position.
#[inline]
fn next_member(set: &[u64], from: usize) -> Option<Position> {
    let mut word = from / 64;
    if word >= set.len() {
        return None;
    }
    let mut bits = set[word] & (u64::MAX << (from % 64));
    loop {
        if bits != 0 {
            return Some(Position::new(word * 64 + bits.trailing_zeros() as usize));
        }
        word += 1;
        bits = *set.get(word)?;
    }
}
