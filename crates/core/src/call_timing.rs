//! Timing of one sample through offloaded calls: when every call starts and every result is ready.
//!
//! An accelerator runs a set of operators as one call j: it waits for every input, receives the inputs, computes and
//! sends the outputs, all in sequence. Hosts run any number of operators concurrently and pay nothing for transfers:
//!
//! - start_j ≥ ready_u for every operator u outside j that feeds j, and start_j ≥ finish_i for the call i before j
//!   on the same accelerator;
//! - finish_j = start_j + Σ_{v∈j} p_v + Σ x_t over the tensors t produced outside j and read inside + Σ x_t over the
//!   tensors produced inside and read outside, another call of the same accelerator included;
//! - ready_v = finish_j for v ∈ j, and on a host the largest ready_u over its inputs, plus p_v.
//!
//! The value is the largest ready time (Tarnawski et al., "Efficient Algorithms for Device Placement of DNN Graph
//! Operators", NeurIPS 2020, Section 4). It is a longest path over calls and host operators, and exists iff their
//! dependencies, together with the order of each accelerator's calls, are acyclic; then every call is convex as well.

use crate::graph::{Graph, OpId, TensorId};
use crate::ids::Keyed;
use crate::problem::Problem;

/// Flat tables of the seconds of operators and transfers by pool, and the problem to which they belong.
#[derive(Debug, Clone)]
pub struct Offload<'p> {
    problem: &'p Problem,
    /// Row of each pool in the tables.
    row: Vec<usize>,
    /// `[row][operator]`; NaN if the pool cannot run the operator.
    seconds: Vec<f64>,
    /// `[row][tensor]`; zero for hosts.
    transfer: Vec<f64>,
}

/// Location of an operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Site {
    /// A host, by its pool.
    Host(u32),
    /// A call, by its number.
    Call(u32),
}

/// A call of an accelerator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Call {
    /// Pool of the accelerator.
    pub pool: u32,
    /// The previous call of the same accelerator.
    pub after: Option<u32>,
}

/// Times of a call, in seconds.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct CallSums {
    /// Compute time of the call's operators.
    pub compute: f64,
    /// Transfer time of the call's outputs.
    pub sent: f64,
    /// Transfer time of the call's inputs.
    pub received: f64,
    /// Start of the call, in seconds from the start of the sample.
    pub start: f64,
}

impl CallSums {
    /// Seconds from the start of the call to its end.
    pub fn load(&self) -> f64 {
        self.compute + self.received + self.sent
    }

    /// End of the call, in seconds from the start of the sample.
    pub fn finish(&self) -> f64 {
        self.start + self.load()
    }
}

const NO_OP: OpId = OpId(u32::MAX);
const NO_CALL: u32 = u32::MAX;
const NO_TENSOR: TensorId = TensorId(u32::MAX);

impl<'p> Offload<'p> {
    /// Builds the tables, in O(pools · (operators + tensors)).
    pub fn new(problem: &'p Problem) -> Offload<'p> {
        Offload::of_pools(problem, &(0..problem.pools().len()).collect::<Vec<_>>())
    }

    /// Builds the tables for `pools` only; no other pool may be queried. O(pools · (operators + tensors)).
    pub fn of_pools(problem: &'p Problem, pools: &[usize]) -> Offload<'p> {
        let graph = problem.graph();
        let mut row = vec![usize::MAX; problem.pools().len()];
        for (index, &pool) in pools.iter().enumerate() {
            row[pool] = index;
        }
        let seconds = pools
            .iter()
            .flat_map(|&pool| graph.operators().map(move |op| problem.seconds(op, pool).unwrap_or(f64::NAN)));
        let transfer = pools.iter().map(|&pool| &problem.pools()[pool]).flat_map(|pool| {
            let over_link =
                |tensor| if pool.host { 0.0 } else { problem.costs().transfer(tensor, pool.kind) };
            graph.tensors().map(over_link)
        });
        Offload { seconds: seconds.collect(), transfer: transfer.collect(), row, problem }
    }

    /// The problem.
    pub fn problem(&self) -> &'p Problem {
        self.problem
    }

    /// The graph.
    pub fn graph(&self) -> &'p Graph {
        self.problem.graph()
    }

    /// Seconds of an operator on a pool; `None` if it cannot or must not run there.
    #[inline]
    pub fn seconds(&self, op: OpId, pool: usize) -> Option<f64> {
        let seconds = self.seconds[self.row[pool] * self.graph().operator_count() + op.index()];
        (!seconds.is_nan()).then_some(seconds)
    }

    /// Seconds that a tensor takes over the link of a pool; zero for hosts.
    #[inline]
    pub fn transfer(&self, tensor: TensorId, pool: usize) -> f64 {
        self.transfer[self.row[pool] * self.graph().tensor_count() + tensor.index()]
    }
}

/// The longest path over calls and host operators, with the buffers to recompute it without allocating.
#[derive(Debug, Clone)]
pub struct Timeline {
    calls: Keyed<u32, CallSums>,
    ready: Keyed<OpId, f64>,
    /// Operators of each call as a linked list: `first` has the first of each call, `next` the successor of each
    /// operator.
    first: Keyed<u32, OpId>,
    next: Keyed<OpId, OpId>,
    /// Number of inputs for which each host operator, and each call, still waits.
    waiting_ops: Keyed<OpId, u32>,
    waiting_calls: Keyed<u32, u32>,
    /// The next call of the same accelerator.
    following: Keyed<u32, u32>,
    /// The last tensor that each call has received.
    received: Keyed<u32, TensorId>,
    open: Vec<Node>,
}

/// An operator on a host, or a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Node {
    Op(OpId),
    Call(u32),
}

impl Timeline {
    /// A timeline for the operators of a graph.
    pub fn new(graph: &Graph) -> Timeline {
        let operators = graph.operator_count();
        Timeline {
            calls: Keyed::default(),
            ready: Keyed::filled(0.0, operators),
            first: Keyed::default(),
            next: Keyed::filled(NO_OP, operators),
            waiting_ops: Keyed::filled(0, operators),
            waiting_calls: Keyed::default(),
            following: Keyed::default(),
            received: Keyed::default(),
            open: Vec::new(),
        }
    }

    /// Times of the calls in the last schedule.
    pub fn calls(&self) -> &[CallSums] {
        &self.calls
    }

    /// Seconds until the result of an operator is ready, in the last schedule.
    pub fn ready(&self, op: OpId) -> f64 {
        self.ready[op]
    }

    /// The operators of a call in the last schedule, from the last to the first.
    pub fn members(&self, call: u32) -> impl Iterator<Item = OpId> + '_ {
        let some = |op: OpId| (op != NO_OP).then_some(op);
        std::iter::successors(some(self.first[call]), move |&op| some(self.next[op]))
    }

    /// Whether a call is on a cycle, or downstream of one, after a schedule that failed.
    pub fn is_stuck(&self, call: u32) -> bool {
        self.waiting_calls[call] > 0
    }

    /// Schedules all calls and host operators, in O(operators + pins). Returns the value, or `None` if the dependencies
    /// are cyclic. An operator takes no time on a pool that cannot run it. Calls may be empty, and then take no time.
    ///
    /// # Panics
    /// If a site names a call that is not in `calls`, or a call names a missing one.
    pub fn schedule(&mut self, offload: &Offload<'_>, sites: &[Site], calls: &[Call]) -> Option<f64> {
        self.gather(offload, sites, calls);
        let mut value = 0.0f64;
        let mut left = calls.len();
        self.open.clear();
        self.open.extend(offload.graph().operators().filter_map(|op| {
            let free = matches!(sites[op.index()], Site::Host(_)) && self.waiting_ops[op] == 0;
            free.then_some(Node::Op(op))
        }));
        left += sites.iter().filter(|site| matches!(site, Site::Host(_))).count();
        let free_calls = self.calls.ids().filter(|&call| self.waiting_calls[call] == 0);
        self.open.extend(free_calls.map(Node::Call));
        while let Some(node) = self.open.pop() {
            left -= 1;
            match node {
                Node::Op(op) => {
                    let Site::Host(pool) = sites[op.index()] else { unreachable!("calls are other nodes") };
                    let seconds = offload.seconds(op, pool as usize).unwrap_or(0.0);
                    self.ready[op] += seconds;
                    value = value.max(self.ready[op]);
                    self.release(offload, sites, op);
                }
                Node::Call(call) => {
                    let finish = self.calls[call].finish();
                    value = value.max(finish);
                    let mut member = self.first[call];
                    while member != NO_OP {
                        self.ready[member] = finish;
                        self.release(offload, sites, member);
                        member = self.next[member];
                    }
                    if self.following[call] != NO_CALL {
                        self.arrive(Node::Call(self.following[call]), finish);
                    }
                }
            }
        }
        (left == 0).then_some(value)
    }

    /// Computes the sums of the calls, and the number of inputs for which every node waits.
    fn gather(&mut self, offload: &Offload<'_>, sites: &[Site], calls: &[Call]) {
        let graph = offload.graph();
        self.first.clear();
        self.first.resize(calls.len(), NO_OP);
        self.following.clear();
        self.following.resize(calls.len(), NO_CALL);
        self.received.clear();
        self.received.resize(calls.len(), NO_TENSOR);
        self.calls.clear();
        self.calls.resize(calls.len(), CallSums::default());
        self.waiting_calls.clear();
        self.waiting_calls.resize(calls.len(), 0);
        self.waiting_ops.fill(0);
        self.ready.fill(0.0);
        let pool_of = |call: u32| calls[call as usize].pool as usize;
        for (index, call) in (0..).zip(calls) {
            if let Some(after) = call.after {
                self.following[after] = index;
                self.waiting_calls[index] += 1;
            }
        }
        for op in graph.operators() {
            if let Site::Call(call) = sites[op.index()] {
                self.calls[call].compute += offload.seconds(op, pool_of(call)).unwrap_or(0.0);
                self.next[op] = std::mem::replace(&mut self.first[call], op);
            }
        }
        for tensor in graph.tensors() {
            let from = sites[graph.producer(tensor).index()];
            let mut leaves = false;
            for &consumer in graph.consumers(tensor) {
                match sites[consumer.index()] {
                    Site::Host(_) => self.waiting_ops[consumer] += 1,
                    here if here == from => continue,
                    Site::Call(call) => {
                        self.waiting_calls[call] += 1;
                        if std::mem::replace(&mut self.received[call], tensor) != tensor {
                            self.calls[call].received += offload.transfer(tensor, pool_of(call));
                        }
                    }
                }
                leaves = true;
            }
            if let (true, Site::Call(call)) = (leaves, from) {
                self.calls[call].sent += offload.transfer(tensor, pool_of(call));
            }
        }
    }

    /// Delivers the result of an operator to its readers on hosts and in other calls.
    fn release(&mut self, offload: &Offload<'_>, sites: &[Site], op: OpId) {
        let graph = offload.graph();
        let (from, ready) = (sites[op.index()], self.ready[op]);
        for &tensor in graph.outputs(op) {
            for &consumer in graph.consumers(tensor) {
                match sites[consumer.index()] {
                    Site::Host(_) => self.arrive(Node::Op(consumer), ready),
                    here if here == from => {}
                    Site::Call(call) => self.arrive(Node::Call(call), ready),
                }
            }
        }
    }

    fn arrive(&mut self, node: Node, time: f64) {
        let (waiting, since) = match node {
            Node::Op(op) => (&mut self.waiting_ops[op], &mut self.ready[op]),
            Node::Call(call) => (&mut self.waiting_calls[call], &mut self.calls[call].start),
        };
        *since = since.max(time);
        *waiting -= 1;
        if *waiting == 0 {
            self.open.push(node);
        }
    }
}
