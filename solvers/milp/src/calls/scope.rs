//! Scopes: the part of a plan that a program decides, and the fixed rest.
//!
//! A *block* is a set of operators that always share a seat: a colocation class if an accelerator makes one call,
//! otherwise a single operator. The blocks of a scope have domains of seats; the calls among those seats are *open*.
//! Everything else is *outside*: operators on hosts and calls, as in a plan. An outside node is of one of three sorts,
//! and a program sees nothing else of it:
//!
//! - *known*: no open call or free operator comes before the node; the time at which its result is ready is constant;
//! - *last*: none comes after it; the time from its start until everything after it is done is constant;
//! - *between*: some come before it and some after; its time depends on the decisions, but its duration does not, since
//!   a call pays for transfers to and from blocks elsewhere wherever these blocks are.

use rustc_hash::FxHashSet;
use stagewright_core::call_timing::{Call, Offload, Site, Timeline};
use stagewright_core::graph::{ClassId, OpId};
use stagewright_core::id;
use stagewright_core::ids::{Id, Keyed};

use super::nodes::{NodeId, Nodes};
use super::seats::{SeatId, Seats};

id! {
    /// Index of a block.
    pub BlockId;
    /// Index of an open call.
    pub CallId;
}

/// Approximate number of matrix entries per edge and call.
const ENTRIES_PER_EDGE: usize = 24;
/// Maximum number of positions in an order of operators and calls. A cycle has at most two rows per position, and each
/// row may be off by 1e-9; the total error is a fifth of a step, which is one over the number of positions.
const MAX_PLACES: usize = 10_000;
/// Absent block or node.
const NO_BLOCK: BlockId = BlockId(u32::MAX);
const NO_NODE: NodeId = NodeId(u32::MAX);

/// Operators that share a seat.
#[derive(Debug, Clone)]
pub struct Block {
    /// The operators.
    pub ops: Vec<OpId>,
    /// Seats by index; never empty.
    pub domain: Vec<SeatId>,
    /// Colocation class of the operators.
    pub class: ClassId,
}

/// Time of an outside node, in seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Moment {
    /// The node is done at this time.
    Known(f64),
    /// The node takes this time.
    Between(f64),
    /// Time from the start of the node until everything is done.
    Last(f64),
}

/// A call, open or not, on an accelerator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The open call of this index.
    Open(CallId),
    /// The closed call with this node.
    Closed(NodeId),
}

/// A part of a problem.
#[derive(Debug, Clone)]
pub struct Scope<'a> {
    pub(super) offload: &'a Offload<'a>,
    pub(super) seats: &'a Seats,
    pub(super) blocks: Keyed<BlockId, Block>,
    /// The block of each operator.
    block_of: Keyed<OpId, BlockId>,
    /// Seats of the open calls, by index.
    pub(super) calls: Keyed<CallId, SeatId>,
    /// The node of each operator, if it is outside.
    node_of: Keyed<OpId, NodeId>,
    /// The time of each node.
    moments: Keyed<NodeId, Moment>,
    /// Pairs of consecutive calls on an accelerator.
    pub(super) chain: Vec<(End, End)>,
    /// Bytes of the outside operators by seat.
    pub(super) bytes_outside: Keyed<SeatId, f64>,
    /// Latest time that is known before the decisions.
    pub(super) latest_known: f64,
}

impl<'a> Scope<'a> {
    /// Scope of a whole problem; `None` if a class has no seat. O(classes · seats).
    pub fn whole(offload: &'a Offload<'a>, seats: &'a Seats) -> Option<Scope<'a>> {
        let graph = offload.graph();
        let mut blocks = Vec::new();
        for class in graph.class_ids() {
            let capable = domain(offload, seats, class);
            blocks.extend(blocks_of_class(offload, class, |_| capable.clone())?);
        }
        let calls = seats.all().filter(|(_, seat)| seat.call.is_some()).map(|(id, _)| id).collect();
        let mut scope = Scope::of_blocks(offload, seats, blocks, calls);
        let follow =
            |pair: &[SeatId]| (seats.beside(pair[0]).contains(&pair[1])).then_some((pair[0], pair[1]));
        let pairs: Vec<_> = scope.calls.windows(2).filter_map(follow).collect();
        let open = |seat| End::Open(scope.call_at(seat).expect("every call is open"));
        scope.chain = pairs.into_iter().map(|(call, next)| (open(call), open(next))).collect();
        Some(scope)
    }

    /// Scope of some colocation classes (`free`) and some calls (`open`) of a plan, given as the seat of every
    /// operator. A class with an operator in a call that is not open stays fixed. `None` if the plan has a cycle or
    /// nothing is free. O(pins log pins + seats).
    pub fn around(
        offload: &'a Offload<'a>,
        seats: &'a Seats,
        plan: &[SeatId],
        open: &[SeatId],
        free: &[ClassId],
    ) -> Option<Scope<'a>> {
        let graph = offload.graph();
        let mut calls = open.to_vec();
        calls.sort_unstable();
        calls.dedup();
        let is_open = |seat: SeatId| calls.binary_search(&seat).is_ok();
        let is_host = |seat: SeatId| seats.seat(seat).call.is_none();
        let free: FxHashSet<ClassId> = free.iter().copied().collect();
        let mut blocks = Vec::new();
        let mut freed = false;
        for class in graph.class_ids() {
            let mut class_seats = graph.class(class).iter().map(|op| plan[op.index()]);
            if free.contains(&class) && class_seats.all(|seat| is_open(seat) || is_host(seat)) {
                let capable = domain(offload, seats, class);
                let domain = |op: OpId| {
                    let here = plan[op.index()];
                    let others = capable.iter().copied();
                    let others = others.filter(|&seat| seat != here && (is_open(seat) || is_host(seat)));
                    std::iter::once(here).chain(others).collect()
                };
                blocks.extend(blocks_of_class(offload, class, domain)?);
                freed = true;
                continue;
            }
            let stays = graph.class(class).iter().filter(|op| is_open(plan[op.index()]));
            blocks.extend(stays.map(|&op| Block { ops: vec![op], domain: vec![plan[op.index()]], class }));
        }
        freed.then(|| Scope::of_blocks(offload, seats, blocks, calls))?.with_outside(plan)
    }

    fn of_blocks(
        offload: &'a Offload<'a>,
        seats: &'a Seats,
        blocks: Vec<Block>,
        calls: Vec<SeatId>,
    ) -> Scope<'a> {
        let operators = offload.graph().operator_count();
        let blocks = Keyed::from(blocks);
        let mut block_of = Keyed::filled(NO_BLOCK, operators);
        for (id, block) in blocks.enumerate() {
            for &op in &block.ops {
                block_of[op] = id;
            }
        }
        Scope {
            offload,
            seats,
            blocks,
            block_of,
            calls: calls.into(),
            node_of: Keyed::filled(NO_NODE, operators),
            moments: Keyed::new(),
            chain: Vec::new(),
            bytes_outside: Keyed::filled(0.0, seats.len()),
            latest_known: 0.0,
        }
    }

    /// Adds the nodes outside, from a plan; `None` if the plan has a cycle.
    fn with_outside(mut self, plan: &[SeatId]) -> Option<Scope<'a>> {
        let timed = Timed::new(&self, plan)?;
        let end = |call: u32| match self.call_at(timed.used[call]) {
            Some(open) => End::Open(open),
            None => End::Closed(timed.nodes.of_call(call)),
        };
        let follow = |(node, call): (u32, &Call)| Some((end(call.after?), end(node)));
        self.chain = timed.calls.enumerate().filter_map(follow).collect();
        (self.moments, self.latest_known) = self.moments_of(&timed);
        let graph = self.offload.graph();
        for op in graph.operators().filter(|&op| self.block_of[op] == NO_BLOCK) {
            self.node_of[op] = timed.nodes.of(op);
            self.bytes_outside[plan[op.index()]] += graph.least_bytes(op);
        }
        Some(self)
    }

    /// Classifies the nodes of a plan. Also returns the latest known time.
    fn moments_of(&self, timed: &Timed<'_>) -> (Keyed<NodeId, Moment>, f64) {
        let nodes = &timed.nodes;
        let decided = |node: NodeId| match nodes.call(node) {
            Some(call) => self.call_at(timed.used[call]).is_some(),
            None => self.block_of[OpId(node.0)] != NO_BLOCK,
        };
        let mut behind = Keyed::filled(false, nodes.count());
        for &node in nodes.order() {
            if decided(node) || behind[node] {
                nodes.successors(node).for_each(|next| behind[next] = true);
            }
        }
        let mut before = Keyed::filled(false, nodes.count());
        let mut tail = Keyed::filled(0.0f64, nodes.count());
        let mut moments = Keyed::filled(Moment::Known(0.0), nodes.count());
        let mut latest_known = 0.0f64;
        for &node in nodes.order().iter().rev() {
            let seconds = timed.seconds(node);
            before[node] = nodes.successors(node).any(|next| decided(next) || before[next]);
            tail[node] = seconds + nodes.successors(node).map(|next| tail[next]).fold(0.0, f64::max);
            moments[node] = match (behind[node], before[node]) {
                (false, _) => Moment::Known(timed.finish(node)),
                (true, false) => Moment::Last(tail[node]),
                (true, true) => Moment::Between(seconds),
            };
            if !behind[node] && !decided(node) {
                latest_known = latest_known.max(timed.finish(node));
            }
        }
        (moments, latest_known)
    }

    /// Block of an operator; `None` if it is outside.
    pub(super) fn block_of(&self, op: OpId) -> Option<BlockId> {
        Some(self.block_of[op]).filter(|&block| block != NO_BLOCK)
    }

    /// Node and time of an outside operator.
    pub(super) fn outside(&self, op: OpId) -> Option<(NodeId, Moment)> {
        let node = self.node_of[op];
        (node != NO_NODE).then(|| (node, self.moments[node]))
    }

    /// Time of an outside node.
    pub(super) fn moment(&self, node: NodeId) -> Moment {
        self.moments[node]
    }

    /// Index of the open call at a seat.
    pub(super) fn call_at(&self, seat: SeatId) -> Option<CallId> {
        self.calls.binary_search(&seat).ok().map(CallId::new)
    }

    /// Seconds of an operator at a seat of its domain.
    pub(super) fn seconds(&self, op: OpId, seat: SeatId) -> f64 {
        let seconds = self.offload.seconds(op, self.seats.pool(seat));
        seconds.expect("domains have seats that can run it")
    }

    /// Seat of every operator, from the seats of the blocks and a plan for the rest.
    pub fn seats_of(&self, chosen: &[SeatId], plan: Option<&[SeatId]>) -> Vec<SeatId> {
        let mut seats = plan.map_or_else(|| vec![SeatId(0); self.block_of.len()], <[SeatId]>::to_vec);
        for (block, &seat) in self.blocks.iter().zip(chosen) {
            for op in &block.ops {
                seats[op.index()] = seat;
            }
        }
        seats
    }

    /// Seat of every block in a plan.
    pub fn chosen(&self, plan: &[SeatId]) -> Vec<SeatId> {
        self.blocks.iter().map(|block| plan[block.ops[0].index()]).collect()
    }

    /// Total time of all operators at their slowest and of every transfer as many times as it can occur: an upper bound
    /// on the value of every plan without idle time.
    pub fn one_after_the_other(&self) -> f64 {
        let offload = self.offload;
        let pools = 0..offload.problem().pools().len();
        let slowest =
            |op: OpId| pools.clone().filter_map(|pool| offload.seconds(op, pool)).fold(0.0, f64::max);
        let graph = offload.graph();
        let compute: f64 = graph.operators().map(slowest).sum();
        let transfers = graph.tensors().map(|tensor| {
            let dearest = pools.clone().map(|pool| offload.transfer(tensor, pool)).fold(0.0, f64::max);
            dearest * (1 + graph.consumers(tensor).len()) as f64
        });
        compute + transfers.sum::<f64>()
    }

    /// Approximate number of matrix entries of the program, without [`Self::order_entries`].
    pub(super) fn entries(&self) -> usize {
        let seats: usize = self.blocks.iter().map(|block| block.domain.len()).sum();
        let by_call = self.calls.len().saturating_mul(self.edges_and_operators());
        by_call.saturating_add(seats).saturating_mul(ENTRIES_PER_EDGE)
    }

    /// Approximate number of matrix entries of the rows of the order of calls: for every edge the later calls, and for
    /// every operator the earlier calls.
    pub(super) fn order_entries(&self) -> usize {
        let calls = self.calls.len();
        (calls.saturating_mul(calls) / 2).saturating_mul(self.edges_and_operators())
    }

    /// Number of operators in blocks, plus number of edges from and to them.
    fn edges_and_operators(&self) -> usize {
        let graph = self.offload.graph();
        let is_decided = |op: OpId| self.block_of(op).is_some();
        let touched = |op: OpId| {
            let all = is_decided(op);
            usize::from(all) + graph.successors(op).iter().filter(|&&to| all || is_decided(to)).count()
        };
        graph.operators().map(touched).sum()
    }

    /// Number of positions in an order of everything that can be on a cycle: the operators of blocks, the open calls
    /// and the nodes between.
    pub(super) fn places(&self) -> usize {
        let decided: usize = self.blocks.iter().map(|block| block.ops.len()).sum();
        let between = self.moments.iter().filter(|moment| matches!(moment, Moment::Between(_)));
        decided + self.calls.len() + between.count()
    }

    /// Whether the step between two positions exceeds the numerical error that can accumulate around a cycle.
    pub(super) fn has_positions(&self) -> bool {
        self.places() <= MAX_PLACES
    }

    /// Domain of every block.
    pub fn domains(&self) -> Vec<Vec<SeatId>> {
        self.blocks.iter().map(|block| block.domain.clone()).collect()
    }

    /// Number of binary variables for the seats of blocks.
    pub fn decisions(&self) -> usize {
        self.blocks.iter().map(|block| block.domain.len()).filter(|&len| len > 1).sum()
    }
}

/// A plan with the times of its calls and operators.
struct Timed<'s> {
    offload: &'s Offload<'s>,
    seats: &'s Seats,
    plan: &'s [SeatId],
    /// Seats of the calls of the plan and of the open calls, with or without operators.
    used: Keyed<u32, SeatId>,
    calls: Keyed<u32, Call>,
    nodes: Nodes,
    timeline: Timeline,
}

impl<'s> Timed<'s> {
    /// Schedules a plan; `None` if it has a cycle.
    fn new(scope: &Scope<'s>, plan: &'s [SeatId]) -> Option<Timed<'s>> {
        let (offload, seats) = (scope.offload, scope.seats);
        let mut used: Keyed<u32, SeatId> =
            plan.iter().copied().filter(|&seat| seats.seat(seat).call.is_some()).collect();
        used.extend(scope.calls.iter());
        used.sort_unstable();
        used.dedup();
        let mut calls: Keyed<u32, Call> = Keyed::new();
        for (index, &seat) in used.enumerate() {
            let after = index.checked_sub(1).filter(|&previous| seats.beside(seat).contains(&used[previous]));
            calls.push(Call { pool: seats.seat(seat).pool, after });
        }
        let site = |&seat: &SeatId| match used.binary_search(&seat) {
            Ok(call) => Site::Call(u32::new(call)),
            Err(_) => Site::Host(seats.seat(seat).pool),
        };
        let sites: Vec<Site> = plan.iter().map(site).collect();
        let nodes = Nodes::new(offload.graph(), &sites, &calls)?;
        let mut timeline = Timeline::new(offload.graph());
        timeline.schedule(offload, &sites, &calls)?;
        Some(Timed { offload, seats, plan, used, calls, nodes, timeline })
    }

    /// Duration of a node.
    fn seconds(&self, node: NodeId) -> f64 {
        match self.nodes.call(node) {
            Some(call) => self.timeline.calls()[call as usize].load(),
            None => {
                let (op, seat) = (OpId(node.0), self.plan[node.index()]);
                self.offload.seconds(op, self.seats.pool(seat)).unwrap_or(0.0)
            }
        }
    }

    /// Time at which a node is done.
    fn finish(&self, node: NodeId) -> f64 {
        match self.nodes.call(node) {
            Some(call) => self.timeline.calls()[call as usize].finish(),
            None => self.timeline.ready(OpId(node.0)),
        }
    }
}

/// Blocks of a class; `None` if one has no seat.
fn blocks_of_class(
    offload: &Offload<'_>,
    class: ClassId,
    domain: impl Fn(OpId) -> Vec<SeatId>,
) -> Option<Vec<Block>> {
    let members = offload.graph().class(class);
    let parts: Vec<Vec<OpId>> = match offload.problem().objective().calls() {
        1 => vec![members.to_vec()],
        _ => members.iter().map(|&op| vec![op]).collect(),
    };
    let block = |ops: Vec<OpId>| Block { domain: domain(ops[0]), ops, class };
    let blocks: Vec<Block> = parts.into_iter().map(block).collect();
    blocks.iter().all(|block| !block.domain.is_empty()).then_some(blocks)
}

/// Seats that can run a class. A host pool is dropped if another host pool with memory for everything is at least as
/// fast for every operator. Of identical hosts, the k-th class needs only the first k + 1.
fn domain(offload: &Offload<'_>, seats: &Seats, class: ClassId) -> Vec<SeatId> {
    let problem = offload.problem();
    let members = problem.graph().class(class);
    let capable = |pool: usize| members.iter().all(|&op| offload.seconds(op, pool).is_some());
    let as_fast = |first: usize, second: usize| {
        members.iter().all(|&op| offload.seconds(op, first) <= offload.seconds(op, second))
    };
    let pools = problem.pools();
    let needless = |pool: usize| {
        pools[pool].host
            && (0..pools.len()).any(|other| {
                let better = as_fast(other, pool) && (other < pool || !as_fast(pool, other));
                other != pool
                    && pools[other].host
                    && seats.all_fit(pools[other].memory)
                    && capable(other)
                    && better
            })
    };
    let kept: Vec<bool> = (0..pools.len()).map(|pool| capable(pool) && !needless(pool)).collect();
    let of_class = seats
        .all()
        .filter(|&(id, seat)| kept[seats.pool(id)] && (seat.call.is_some() || seats.position(id) <= class.0));
    of_class.map(|(id, _)| id).collect()
}
