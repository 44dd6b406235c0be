//! Heads and tails: the distance of every operator from the beginning and from the end of the step.

use super::arcs::Arcs;
use super::local::{Local, Neighbour};
use super::sites::Sites;
use crate::graph::OpId;
use crate::problem::Problem;

/// Lower bounds on the start of an operator, and on the time that must follow its end, by the pool that runs
/// it.
///
/// *Head.* Let v run on a device d of pool k. Its inputs from an operator u on another device, of pool j, are
/// sent after u's end, so they arrive at head(u, j) + p(u, j) + c or later, where c is the least time of
/// these tensors between devices of the two pools; the minimum over j is a bound. Its inputs from operators
/// on d itself are produced there one after another. The choice of operators on d is free, so head(v, k) is
/// that of the best choice, or less.
///
/// *Tail.* The same in reverse: a reader w of v on another device has its tensors c after the end of v, and
/// starts p(w, j) + tail(w, j) or more before the end of the step; the readers on d itself run one after
/// another.
///
/// Operators of one colocation class are on one device. A pool that cannot run all of an operator's class,
/// because of support, pins, or a class that alone exceeds the memory of one device, has an infinite head and
/// tail. So these values hold for every placement without violations, and for every priority; the engine's
/// order of queues is not used. They are sums in another order than the simulator's: compare them after
/// rounding.
#[derive(Debug)]
pub struct Reach<'p> {
    pub(super) sites: Sites<'p>,
    pub(super) heads: Side,
    pub(super) tails: Side,
}

/// Heads, or tails.
#[derive(Debug)]
pub(super) struct Side {
    /// By operator and site.
    far: Vec<f64>,
    /// As `far`, for an operator that is the first (for tails, the last) of all on its device.
    alone: Vec<f64>,
}

impl<'p> Reach<'p> {
    /// Computes the heads and tails of a problem; `None` if some operator cannot run anywhere.
    ///
    /// Takes O(pools² · arcs + pools · operators · log degree) time and memory for pools · (arcs + operators)
    /// values. If that is too much, all pools count as one, on which communication is free.
    pub fn new(problem: &'p Problem) -> Option<Reach<'p>> {
        let graph = problem.graph();
        let arcs = Arcs::new(graph);
        let sites = Sites::new(problem, arcs.len())?;
        let sweep = |backward| Sweep { problem, sites: &sites, arcs: &arcs, backward };
        let heads = sweep(false).run(graph.topological().iter().copied());
        let tails = sweep(true).run(graph.topological().iter().rev().copied());
        Some(Reach { sites, heads, tails })
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

    /// Seconds of an operator on a pool; infinite if its colocation class cannot be there.
    pub fn seconds(&self, op: OpId, pool: usize) -> f64 {
        self.sites.seconds(op)[self.sites.site(pool)]
    }
}

impl Side {
    /// Values by site.
    pub(super) fn far(&self, sites: &Sites<'_>, op: OpId) -> &[f64] {
        &self.far[op.index() * sites.count()..][..sites.count()]
    }

    /// Values by site, for an operator that is the first or last of its device.
    pub(super) fn alone(&self, sites: &Sites<'_>, op: OpId) -> &[f64] {
        &self.alone[op.index() * sites.count()..][..sites.count()]
    }
}

/// One pass over the graph, forward for heads and backward for tails. Its comments describe heads.
struct Sweep<'a> {
    problem: &'a Problem,
    sites: &'a Sites<'a>,
    arcs: &'a Arcs,
    backward: bool,
}

impl Sweep<'_> {
    fn run(&self, order: impl Iterator<Item = OpId>) -> Side {
        let count = self.sites.count();
        let entries = self.problem.graph().operator_count() * count;
        let mut side = Side { far: vec![f64::INFINITY; entries], alone: vec![f64::INFINITY; entries] };
        // By arc and site of the reader, for a producer on another device.
        let mut arrivals = vec![f64::INFINITY; self.arcs.len() * count];
        let mut local = Local::new(entries);
        for op in order {
            for &arc in self.reads(op) {
                self.arrive(arc, &side, &mut arrivals);
            }
            for site in 0..count {
                if self.sites.seconds(op)[site].is_infinite() {
                    continue;
                }
                let neighbours = |op: OpId| {
                    self.reads(op).iter().map(|&arc| {
                        let other = self.other(arc);
                        Neighbour {
                            op: other,
                            arrival: arrivals[arc as usize * count + site],
                            head: side.far[other.index() * count + site],
                            seconds: self.sites.seconds(other)[site],
                        }
                    })
                };
                let alone = neighbours(op).map(|neighbour| neighbour.arrival).fold(0.0, f64::max);
                let far = local.start(neighbours(op), neighbours);
                side.far[op.index() * count + site] = far;
                side.alone[op.index() * count + site] = alone;
            }
        }
        side
    }

    /// The arcs over which an operator reads.
    fn reads(&self, op: OpId) -> &[u32] {
        if self.backward { self.arcs.out_of(op) } else { self.arcs.into(op) }
    }

    /// The operator that it reads from.
    fn other(&self, arc: u32) -> OpId {
        self.arcs.ends(arc)[usize::from(self.backward)]
    }

    /// Updates the arrival times of an arc's tensors from another device.
    fn arrive(&self, arc: u32, side: &Side, arrivals: &mut [f64]) {
        let (graph, count) = (self.problem.graph(), self.sites.count());
        let [from, to] = self.arcs.ends(arc);
        if graph.class_of(from) == graph.class_of(to) {
            return;
        }
        let (other, tensors) = (self.other(arc), self.arcs.tensors(arc));
        for (site, arrival) in arrivals[arc as usize * count..][..count].iter_mut().enumerate() {
            for there in 0..count {
                let end = side.far[other.index() * count + there] + self.sites.seconds(other)[there];
                if end < *arrival {
                    let [from, to] = if self.backward { [site, there] } else { [there, site] };
                    *arrival = arrival.min(end + self.sites.transfer(tensors, from, to));
                }
            }
        }
    }
}
