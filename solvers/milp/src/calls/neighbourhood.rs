//! Neighbourhoods of a plan: the calls to open and the classes to free; everything else is fixed.

use rand::{Rng, RngExt};
use rustc_hash::FxHashSet;
use stagewright_core::call_timing::{Call, Offload, Site, Timeline};
use stagewright_core::graph::{ClassId, OpId};
use stagewright_core::ids::Id;

use super::seats::{SeatId, Seats};

/// Maximum number of free classes, and of open calls.
const MAX_CLASSES: usize = 160;
const MAX_CALLS: usize = 6;
/// Minimum and maximum length of a time window, as fractions of the value.
const SHORTEST: f64 = 0.05;
const LONGEST: f64 = 0.4;

/// Shape of a neighbourhood.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    /// Calls with consecutive starts, this many fewer than may be open, with the adjacent operators on hosts.
    Calls(usize),
    /// Everything active in a time window.
    Window,
    /// The operators nearest to a random operator, wherever they run.
    Piece,
}

/// All shapes.
pub(super) const SHAPES: [Shape; 4] = [Shape::Calls(1), Shape::Calls(0), Shape::Window, Shape::Piece];

/// Size limits of a neighbourhood.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Size {
    /// Maximum number of free classes.
    classes: usize,
    /// Maximum number of open calls, not counting an empty one.
    calls: usize,
}

impl Size {
    /// The initial size.
    pub(super) const FIRST: Size = Size { classes: 40, calls: 3 };

    /// The next larger size.
    pub(super) fn grown(self) -> Size {
        Size { classes: (self.classes * 3 / 2).min(MAX_CLASSES), calls: (self.calls + 1).min(MAX_CALLS) }
    }
}

/// A part of a plan to re-optimise.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Neighbourhood {
    /// Seats of the open calls.
    pub(super) open: Vec<SeatId>,
    /// The free colocation classes.
    pub(super) free: Vec<ClassId>,
}

/// A plan with its timeline.
pub(super) struct Timed<'a> {
    offload: &'a Offload<'a>,
    seats: &'a Seats,
    plan: &'a [SeatId],
    timeline: Timeline,
    /// Seats of the calls of the plan, ascending by start.
    calls: Vec<SeatId>,
    value: f64,
}

impl<'a> Timed<'a> {
    /// Schedules a plan; `None` if it has a cycle.
    pub(super) fn new(offload: &'a Offload<'a>, seats: &'a Seats, plan: &'a [SeatId]) -> Option<Timed<'a>> {
        // The k-th call belongs to the k-th seat; calls at the seats of hosts have no operators.
        let call = |(id, seat): (SeatId, super::seats::Seat)| {
            let after = seat.call.filter(|&call| call > 0).map(|_| id.0 - 1);
            Call { pool: seat.pool, after }
        };
        let all: Vec<Call> = seats.all().map(call).collect();
        let site = |&seat: &SeatId| match seats.seat(seat).call {
            Some(_) => Site::Call(seat.0),
            None => Site::Host(seats.seat(seat).pool),
        };
        let sites: Vec<Site> = plan.iter().map(site).collect();
        let mut timeline = Timeline::new(offload.graph());
        let value = timeline.schedule(offload, &sites, &all)?;
        let mut calls: Vec<SeatId> =
            plan.iter().copied().filter(|&seat| seats.seat(seat).call.is_some()).collect();
        calls.sort_unstable();
        calls.dedup();
        let start = |seat: SeatId| timeline.calls()[seat.index()].start;
        calls.sort_by(|&a, &b| start(a).total_cmp(&start(b)).then(a.cmp(&b)));
        Some(Timed { offload, seats, plan, timeline, calls, value })
    }

    /// Draws a neighbourhood of a shape.
    pub(super) fn draw(&self, shape: Shape, size: Size, rng: &mut impl Rng) -> Neighbourhood {
        let graph = self.offload.graph();
        let mut open: Vec<SeatId> = Vec::new();
        let near: Vec<OpId> = match shape {
            Shape::Calls(fewer) => {
                let limit = size.calls - fewer;
                let last = self.calls.len().saturating_sub(limit);
                let first = rng.random_range(0..=last);
                open.extend(self.calls.iter().skip(first).take(limit));
                let mut near: Vec<OpId> =
                    graph.operators().filter(|op| open.contains(&self.plan[op.index()])).collect();
                let around =
                    near.iter().flat_map(|&op| graph.predecessors(op).iter().chain(graph.successors(op)));
                let hosts = around.copied().filter(|op| self.is_on_host(*op));
                let hosts: Vec<OpId> = hosts.collect();
                near.extend(hosts);
                if open.is_empty() { graph.operators().collect() } else { near }
            }
            Shape::Window => {
                let length = self.value * rng.random_range(SHORTEST..LONGEST);
                let from = rng.random_range(0.0..1.0) * (self.value - length);
                let to = from + length;
                let calls = self.timeline.calls();
                let at_work = |seat: &&SeatId| {
                    let call = calls[seat.index()];
                    call.start <= to && call.finish() >= from
                };
                open.extend(self.calls.iter().filter(at_work));
                while open.len() > size.calls {
                    open.remove(rng.random_range(0..open.len()));
                }
                let in_window = |op: &OpId| match self.is_on_host(*op) {
                    true => (from..=to).contains(&self.timeline.ready(*op)),
                    false => open.contains(&self.plan[op.index()]),
                };
                graph.operators().filter(in_window).collect()
            }
            Shape::Piece => {
                let root = OpId(rng.random_range(0..u32::new(graph.operator_count())));
                let mut near = self.nearest(root, size, |_| true);
                for op in &near {
                    let seat = self.plan[op.index()];
                    if !self.is_on_host(*op) && !open.contains(&seat) && open.len() < size.calls {
                        open.push(seat);
                    }
                }
                near.retain(|&op| self.is_on_host(op) || open.contains(&self.plan[op.index()]));
                near
            }
        };
        open.extend(self.empty(rng));
        let free = self.classes(&near, size, rng);
        Neighbourhood { open, free }
    }

    fn is_on_host(&self, op: OpId) -> bool {
        self.seats.seat(self.plan[op.index()]).call.is_none()
    }

    /// A random idle call among the first idle calls of all devices in use and of each pool; `None` if there
    /// are none.
    fn empty(&self, rng: &mut impl Rng) -> Option<SeatId> {
        let used: FxHashSet<SeatId> = self.calls.iter().copied().collect();
        let idle = |id: SeatId| !used.contains(&id);
        let free: Vec<SeatId> = self
            .seats
            .all()
            .filter(|&(id, seat)| {
                let first = |call: u32| {
                    // Take only the first of several identical idle devices.
                    let before =
                        id.0.checked_sub(1)
                            .map(SeatId)
                            .filter(|&previous| self.seats.seat(previous).pool == seat.pool);
                    match call {
                        0 => before.is_none_or(|previous| !idle(self.seats.beside(previous).start)),
                        _ => before.is_none_or(|previous| !idle(previous)),
                    }
                };
                idle(id) && seat.call.is_some_and(first)
            })
            .map(|(id, _)| id)
            .collect();
        (!free.is_empty()).then(|| free[rng.random_range(0..free.len())])
    }

    /// Classes of some operators: all of them, or the classes nearest to a random operator that has a neighbour at
    /// another seat.
    fn classes(&self, near: &[OpId], size: Size, rng: &mut impl Rng) -> Vec<ClassId> {
        let graph = self.offload.graph();
        let with_classes = |ops: &[OpId]| {
            let mut classes: Vec<ClassId> = ops.iter().map(|&op| graph.class_of(op)).collect();
            classes.sort_unstable();
            classes.dedup();
            classes
        };
        let all = with_classes(near);
        if all.len() <= size.classes {
            return all;
        }
        let candidates: FxHashSet<OpId> = near.iter().copied().collect();
        let is_at_border = |op: &OpId| {
            let mut around = graph.predecessors(*op).iter().chain(graph.successors(*op));
            around.any(|next| self.plan[next.index()] != self.plan[op.index()])
        };
        let border: Vec<OpId> = near.iter().copied().filter(is_at_border).collect();
        let roots = if border.is_empty() { near } else { &border };
        let root = roots[rng.random_range(0..roots.len())];
        with_classes(&self.nearest(root, size, |op| candidates.contains(&op)))
    }

    /// Operators of at most `size.classes` classes, breadth first from `root`.
    fn nearest(&self, root: OpId, size: Size, is_candidate: impl Fn(OpId) -> bool) -> Vec<OpId> {
        let graph = self.offload.graph();
        let mut seen: FxHashSet<OpId> = [root].into_iter().collect();
        let mut classes: FxHashSet<ClassId> = [graph.class_of(root)].into_iter().collect();
        let mut queue = vec![root];
        let mut next = 0;
        while next < queue.len() {
            let op = queue[next];
            for &next in graph.predecessors(op).iter().chain(graph.successors(op)) {
                let class = graph.class_of(next);
                let room = classes.len() < size.classes || classes.contains(&class);
                if room && is_candidate(next) && seen.insert(next) {
                    classes.insert(class);
                    queue.push(next);
                }
            }
            next += 1;
        }
        queue
    }
}
