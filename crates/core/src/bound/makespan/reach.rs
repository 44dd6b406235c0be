//! Heads and tails: the distance of every operator from the beginning and from the end of the step.

use super::arcs::Arcs;
use super::local::{Local, Neighbour};
use super::sites::Sites;
use super::windows;
use crate::graph::OpId;
use crate::ids::Keyed;
use crate::problem::Problem;
use crate::stop::Stop;
use crate::tolerance::round_down;

/// Maximum number of operators of a set that must run on one device, for heads and tails by device. A search computes
/// these at every node, where larger sets cost more time than their bounds save.
const MAX_BY_DEVICE: usize = 6;

/// Number of pairs of sites, over all arcs, between two checks of the clock.
const BETWEEN_CHECKS: usize = 1 << 12;

/// Lower bounds on the start of an operator, and on the time that must follow its end, by the pool that runs
/// it.
///
/// *Head.* Let v run on a device d of pool k. Its inputs from an operator u on another device, of pool j, are sent
/// after u's end, so they arrive at head(u, j) + p(u, j) + c or later, where c is the minimum time of these tensors
/// between devices of the two pools; the minimum over j is a bound. Its inputs from operators on d itself are produced
/// there one after another. Which operators are on d is a free choice, so head(v, k) is the value of the best choice,
/// or less.
///
/// *Tail.* The same in reverse: a reader w of v on another device receives its tensors c after the end of v, and starts
/// p(w, j) + tail(w, j) or more before the end of the step; the readers on d itself run one after another.
///
/// Operators of one colocation class are on one device. A pool that cannot run all of an operator's class, because of
/// support, pins, or a class that alone exceeds the memory of one device, has an infinite head and tail. So these
/// values hold for every placement without violations, and for every priority; they do not depend on the order of the
/// engine's queues. They are summed in a different order from the simulator's, so compare them after rounding.
///
/// *Part.* Between the end of an operator u and the start of an operator w run all operators that follow u and precede
/// w. In this part, a head is a lower bound on the time from the end of u to the start of v, and a tail one on the time
/// from the end of v to the start of w: u is an operator of zero seconds from which the operators of the part read,
/// and w is one that reads from them.
#[derive(Debug)]
pub struct Reach<'p> {
    pub(super) problem: &'p Problem,
    arcs: Arcs,
    pub(super) sites: Sites<'p>,
    pub(super) heads: Side,
    pub(super) tails: Side,
    /// The operators with heads and tails, in topological order.
    pub(super) operators: Vec<OpId>,
    /// Maximum number of operators of a set that must run on one device.
    most: usize,
    /// The operators u and w of a part.
    ends: [Option<OpId>; 2],
    /// Whether the ends of each arc are known to be on different devices; empty if that is known of no arc.
    apart: Vec<bool>,
    /// The operators that must run before (0) and after (1) each operator on the same device.
    decided: [Keyed<OpId, Vec<OpId>>; 2],
    /// Number of the latest part that contained each operator.
    part: Keyed<OpId, u32>,
    parts: u32,
}

/// Heads, or tails.
#[derive(Debug, Default)]
pub(super) struct Side {
    /// Heads (or tails) by operator and site.
    far: Vec<f64>,
    /// Heads (or tails) by operator and site if all inputs (or readers) of the operator are on other devices.
    alone: Vec<f64>,
    /// Arrival of each arc's tensors from another device, by arc and site of the reader.
    arrivals: Vec<f64>,
}

/// Minimum seconds from the end of every operator to the end of the step, over all devices. They are rounded down,
/// since the simulator adds in another order, and are zero if some operator cannot run anywhere. The windows of
/// [`Windows`] after an operator of its path count as well. Computed once per problem.
///
/// [`Windows`]: super::Windows
pub fn tails(problem: &Problem) -> Vec<f64> {
    tails_before(problem, &Stop::never())
}

/// The tails of [`tails`]; zeros if `stop` applies before they are known.
pub fn tails_before(problem: &Problem, stop: &Stop) -> Vec<f64> {
    struct Tails(Vec<f64>);
    let compute = || {
        let graph = problem.graph();
        let Some(reach) = Reach::before(problem, stop) else {
            return Tails(vec![0.0; graph.operator_count()]);
        };
        let least = |seconds_on: &dyn Fn(usize) -> f64| {
            (0..problem.pools().len()).map(seconds_on).fold(f64::INFINITY, f64::min)
        };
        let mut tails: Keyed<OpId, f64> =
            graph.operators().map(|op| least(&|pool| reach.tail(op, pool))).collect();
        for (op, seconds) in windows::tails(problem, stop) {
            tails[op] = tails[op].max(seconds);
        }
        for &op in graph.topological().iter().rev() {
            let seconds = least(&|pool| problem.seconds(op, pool).unwrap_or(f64::INFINITY)) + tails[op];
            for &input in graph.predecessors(op) {
                tails[input] = tails[input].max(seconds);
            }
        }
        Tails(tails.iter().map(|&seconds| round_down(seconds)).collect())
    };
    problem.memo_before(compute, stop).0.clone()
}

impl<'p> Reach<'p> {
    /// Computes the heads and tails of a problem; `None` if some operator cannot run anywhere.
    ///
    /// Takes O(pools² · arcs + pools · operators · log degree) time, and memory for pools · (arcs + operators) values.
    /// If that is too much, all pools are treated as one, within which communication is free.
    pub fn new(problem: &'p Problem) -> Option<Reach<'p>> {
        Reach::before(problem, &Stop::never())
    }

    /// The reach of [`Reach::new`]; `None` also if `stop` applies before it is known.
    pub fn before(problem: &'p Problem, stop: &Stop) -> Option<Reach<'p>> {
        let arcs = Arcs::new(problem.graph());
        let sites = Sites::new(problem, arcs.len())?;
        Reach::over(problem, arcs, sites, usize::MAX, Vec::new(), stop)
    }

    /// The reach of [`Reach::new`], given that the ends of some arcs are on different devices: those for which `apart`
    /// is true.
    pub(super) fn with_apart(problem: &'p Problem, apart: Vec<bool>) -> Option<Reach<'p>> {
        let arcs = Arcs::new(problem.graph());
        let sites = Sites::new(problem, arcs.len())?;
        Reach::over(problem, arcs, sites, usize::MAX, apart, &Stop::never())
    }

    /// The reach of [`Reach::new`], with a value for every device instead of every pool; the site of a device is
    /// `device.index()`. `None` also if there are too many devices.
    pub fn by_device(problem: &'p Problem) -> Option<Reach<'p>> {
        let arcs = Arcs::new(problem.graph());
        let sites = Sites::by_device(problem, arcs.len())?;
        Reach::over(problem, arcs, sites, MAX_BY_DEVICE, Vec::new(), &Stop::never())
    }

    fn over(
        problem: &'p Problem,
        arcs: Arcs,
        sites: Sites<'p>,
        limit: usize,
        apart: Vec<bool>,
        stop: &Stop,
    ) -> Option<Reach<'p>> {
        let graph = problem.graph();
        let side = || Side {
            far: vec![f64::INFINITY; graph.operator_count() * sites.count()],
            alone: vec![f64::INFINITY; graph.operator_count() * sites.count()],
            arrivals: vec![f64::INFINITY; arcs.len() * sites.count()],
        };
        let mut reach = Reach {
            heads: side(),
            tails: side(),
            operators: graph.topological().to_vec(),
            most: limit,
            apart,
            ends: [None; 2],
            decided: [0, 1].map(|_| Keyed::filled(Vec::new(), graph.operator_count())),
            part: Keyed::filled(0, graph.operator_count()),
            parts: 0,
            problem,
            arcs,
            sites,
        };
        reach.sweep(stop).then_some(reach)
    }

    /// Computes heads and tails under a partial decision. `seconds` has the seconds of every operator at every site,
    /// infinite at excluded sites. `orders` has pairs of operators on one device, of which the first runs first.
    /// `operators` is a topological order that respects these pairs.
    pub fn decide(&mut self, seconds: &[f64], orders: &[(OpId, OpId)], operators: Vec<OpId>) {
        for (op, row) in self.problem.graph().operators().zip(seconds.chunks_exact(self.sites.count())) {
            self.sites.seconds_mut(op).copy_from_slice(row);
            self.decided.iter_mut().for_each(|side| side[op].clear());
        }
        for &(first, second) in orders {
            self.decided[0][second].push(first);
            self.decided[1][first].push(second);
        }
        (self.ends, self.operators) = ([None; 2], operators);
        self.part.iter_mut().for_each(|part| *part = self.parts);
        self.sweep(&Stop::never());
    }

    /// Head, seconds and tail of an operator at a site, after the last decision.
    pub fn at(&self, op: OpId, site: usize) -> [f64; 3] {
        let sides = [&self.heads, &self.tails].map(|side| side.far(&self.sites, op)[site]);
        [sides[0], self.sites.seconds(op)[site], sides[1]]
    }

    /// Computes the heads and tails of the part between the end of one operator and the start of another. `None` for
    /// either stands for the beginning or the end of the step. `operators` are those between, in topological order.
    pub(super) fn restrict(&mut self, ends: [Option<OpId>; 2], operators: Vec<OpId>) {
        self.parts += 1;
        for &op in operators.iter().chain(ends.iter().flatten()) {
            self.part[op] = self.parts;
        }
        (self.ends, self.operators) = (ends, operators);
        self.sweep(&Stop::never());
    }

    /// Lower bound on the length of the step or part: the longest path through any one operator.
    pub fn longest(&self) -> f64 {
        let through = |&op: &OpId| {
            let sides = self.heads.far(&self.sites, op).iter().zip(self.tails.far(&self.sites, op));
            let sums =
                self.sites.seconds(op).iter().zip(sides).map(|(seconds, (head, tail))| head + seconds + tail);
            sums.fold(f64::INFINITY, f64::min)
        };
        self.operators.iter().map(through).fold(0.0, f64::max)
    }

    /// Whether the part begins (side 0) or ends (side 1) at an operator, not at an end of the step.
    pub(super) fn is_between(&self, side: usize) -> bool {
        self.ends[side].is_some()
    }

    /// Computes heads and tails. Returns whether it finished before `stop` applied.
    fn sweep(&mut self, stop: &Stop) -> bool {
        for backward in [false, true] {
            let mut side = std::mem::take(if backward { &mut self.tails } else { &mut self.heads });
            let is_whole = Sweep { reach: self, backward }.run(&mut side, stop);
            *(if backward { &mut self.tails } else { &mut self.heads }) = side;
            if !is_whole {
                return false;
            }
        }
        true
    }

    /// Lower bound on the start of an operator on a device of a pool, in seconds; infinite if it cannot be
    /// there.
    pub fn head(&self, op: OpId, pool: usize) -> f64 {
        self.heads.far(&self.sites, op)[self.sites.site(pool)]
    }

    /// Lower bound on the seconds between the end of an operator on a device of a pool and the end of the
    /// step; infinite if it cannot be there.
    pub fn tail(&self, op: OpId, pool: usize) -> f64 {
        self.tails.far(&self.sites, op)[self.sites.site(pool)]
    }

    /// Producer and reader of every arc.
    pub(super) fn arcs(&self) -> impl ExactSizeIterator<Item = (u32, [OpId; 2])> {
        (0..self.arcs.len()).map(|arc| (arc as u32, self.arcs.ends(arc as u32)))
    }

    /// Lower bound on the arrival of an arc's tensors at its reader on a device of a pool, from another device.
    pub(super) fn arrival(&self, arc: u32, pool: usize) -> f64 {
        self.heads.arrivals[arc as usize * self.sites.count() + self.sites.site(pool)]
    }

    /// Lower bound on the time from the departure of an arc's tensors to another device, out of a device of a pool that
    /// runs their producer, to the end of the step.
    pub(super) fn departure(&self, arc: u32, pool: usize) -> f64 {
        self.tails.arrivals[arc as usize * self.sites.count() + self.sites.site(pool)]
    }

    /// Seconds of an operator on a pool; infinite if its colocation class cannot be there.
    pub fn seconds(&self, op: OpId, pool: usize) -> f64 {
        self.sites.seconds(op)[self.sites.site(pool)]
    }
}

impl Side {
    /// Heads or tails of an operator by site.
    pub(super) fn far(&self, sites: &Sites<'_>, op: OpId) -> &[f64] {
        &self.far[op.index() * sites.count()..][..sites.count()]
    }

    /// Heads or tails of an operator by site, given that it is the first or last operator on its device.
    pub(super) fn alone(&self, sites: &Sites<'_>, op: OpId) -> &[f64] {
        &self.alone[op.index() * sites.count()..][..sites.count()]
    }
}

/// One pass over the graph, forward for heads and backward for tails. The comments describe heads.
struct Sweep<'a> {
    reach: &'a Reach<'a>,
    backward: bool,
}

impl Sweep<'_> {
    fn run(&self, side: &mut Side, stop: &Stop) -> bool {
        let sites = &self.reach.sites;
        let count = sites.count();
        let operators = &self.reach.operators;
        let decided = &self.reach.decided[usize::from(self.backward)];
        let mut local = Local::new(operators.len() * count, self.reach.most);
        if let Some(end) = self.reach.ends[usize::from(self.backward)] {
            side.far[end.index() * count..][..count].fill(0.0);
        }
        let mut settle = |op: OpId| {
            for arc in self.reads(op) {
                self.arrive(arc, side);
            }
            for site in 0..count {
                if sites.seconds(op)[site].is_infinite() {
                    side.far[op.index() * count + site] = f64::INFINITY;
                    side.alone[op.index() * count + site] = f64::INFINITY;
                    continue;
                }
                let neighbour = |other: OpId, arrival: f64, seconds: f64| Neighbour {
                    op: other,
                    arrival,
                    head: side.far[other.index() * count + site],
                    seconds,
                };
                let neighbours = |op: OpId| {
                    let reads = self.reads(op).map(|arc| {
                        let other = self.other(arc);
                        let apart = self.reach.apart.get(arc as usize).is_some_and(|&apart| apart);
                        let seconds = if apart { f64::INFINITY } else { self.seconds(other, site) };
                        neighbour(other, side.arrivals[arc as usize * count + site], seconds)
                    });
                    let before = decided[op].iter();
                    reads.chain(before.map(move |&op| neighbour(op, f64::INFINITY, self.seconds(op, site))))
                };
                let alone = neighbours(op).map(|neighbour| neighbour.arrival).fold(0.0, f64::max);
                let far = local.start(neighbours(op), neighbours);
                side.far[op.index() * count + site] = far;
                side.alone[op.index() * count + site] = alone;
            }
        };
        let mut work = 0;
        (0..operators.len()).all(|place| {
            let op = operators[if self.backward { operators.len() - 1 - place } else { place }];
            settle(op);
            work += count + self.reads(op).count() * count * count;
            if work < BETWEEN_CHECKS {
                return true;
            }
            work = 0;
            stop.reason().is_none()
        })
    }

    /// The seconds of an operator; zero for the operator that ends the part.
    fn seconds(&self, op: OpId, site: usize) -> f64 {
        let seconds = self.reach.sites.seconds(op)[site];
        let is_end = self.reach.ends[usize::from(self.backward)] == Some(op);
        if is_end && seconds.is_finite() { 0.0 } else { seconds }
    }

    /// The arcs over which an operator reads within the part.
    fn reads(&self, op: OpId) -> impl Iterator<Item = u32> {
        let Reach { arcs, part, parts, .. } = self.reach;
        let reads = if self.backward { arcs.out_of(op) } else { arcs.into(op) };
        // The operator that ends a part reads nothing here, since none of its inputs is in the part.
        reads.iter().copied().filter(move |&arc| part[self.other(arc)] == *parts)
    }

    /// The operator that an arc comes from in the direction of the sweep.
    fn other(&self, arc: u32) -> OpId {
        self.reach.arcs.ends(arc)[usize::from(self.backward)]
    }

    /// Computes the arrival times of an arc's tensors from another device.
    fn arrive(&self, arc: u32, side: &mut Side) {
        let Reach { problem, arcs, sites, .. } = self.reach;
        let (graph, count) = (problem.graph(), sites.count());
        let [from, to] = arcs.ends(arc);
        let arrivals = &mut side.arrivals[arc as usize * count..][..count];
        arrivals.fill(f64::INFINITY);
        if graph.class_of(from) == graph.class_of(to) {
            return;
        }
        let (other, tensors) = (self.other(arc), arcs.tensors(arc));
        for (site, arrival) in arrivals.iter_mut().enumerate() {
            for there in 0..count {
                let end = side.far[other.index() * count + there] + self.seconds(other, there);
                if end < *arrival {
                    let [from, to] = if self.backward { [site, there] } else { [there, site] };
                    *arrival = arrival.min(end + sites.transfer(tensors, from, to));
                }
            }
        }
    }
}
