//! A node of the tree, and the consequences of its decisions.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use stagewright_core::bits;
use stagewright_core::graph::{ClassId, Graph, OpId};
use stagewright_core::ids::Keyed;

/// Decisions of a node.
#[derive(Debug, Clone)]
pub(super) struct Node {
    /// The remaining devices of every class, as bits.
    pub(super) devices: Keyed<ClassId, u64>,
    /// Pairs of operators that share a device, of which the first runs before the second.
    pub(super) orders: Vec<(OpId, OpId)>,
    /// Lower bound on the step.
    pub(super) bound: f64,
}

impl Node {
    /// The device of a class, if it is decided.
    pub(super) fn device_of(&self, class: ClassId) -> Option<usize> {
        let devices = self.devices[class];
        devices.is_power_of_two().then_some(devices.trailing_zeros() as usize)
    }
}

/// Transitive precedence by arcs of the graph and by decided orders.
pub(super) struct Precedence {
    /// A topological order.
    pub(super) order: Vec<OpId>,
    /// By operator, the set of the operators before it.
    before: Vec<u64>,
    words: usize,
}

impl Precedence {
    /// The precedence after some orders are decided; `None` if they form a cycle. Operators of low `rank` come first
    /// where the precedence leaves a choice. O(operators · arcs / 64).
    pub(super) fn new(graph: &Graph, orders: &[(OpId, OpId)], rank: &Keyed<OpId, f64>) -> Option<Precedence> {
        let count = graph.operator_count();
        let mut later: Keyed<OpId, Vec<OpId>> = Keyed::filled(Vec::new(), count);
        let mut waiting: Keyed<OpId, usize> =
            graph.operators().map(|op| graph.predecessors(op).len()).collect();
        for &(first, second) in orders {
            later[first].push(second);
            waiting[second] += 1;
        }
        let key = |op: OpId| Reverse((rank[op].to_bits(), op));
        let mut ready: BinaryHeap<Reverse<(u64, OpId)>> =
            graph.operators().filter(|&op| waiting[op] == 0).map(key).collect();
        let mut order = Vec::with_capacity(count);
        let words = bits::words(count);
        let mut before = vec![0; count * words];
        let mut with_own = vec![0; words];
        while let Some(Reverse((_, op))) = ready.pop() {
            order.push(op);
            with_own.copy_from_slice(&before[op.index() * words..][..words]);
            bits::insert(&mut with_own, op.index());
            for &reader in graph.successors(op).iter().chain(&later[op]) {
                let readers = &mut before[reader.index() * words..][..words];
                readers.iter_mut().zip(&with_own).for_each(|(word, own)| *word |= own);
                waiting[reader] -= 1;
                if waiting[reader] == 0 {
                    ready.push(key(reader));
                }
            }
        }
        (order.len() == count).then_some(Precedence { order, before, words })
    }

    /// The set of the operators before an operator.
    pub(super) fn before(&self, op: OpId) -> &[u64] {
        &self.before[op.index() * self.words..][..self.words]
    }

    /// Whether the precedence demands that `first` ends before `second` starts.
    pub(super) fn is_before(&self, first: OpId, second: OpId) -> bool {
        bits::contains(self.before(second), first.index())
    }

    /// Whether the precedence determines the order of two operators.
    pub(super) fn is_decided(&self, a: OpId, b: OpId) -> bool {
        self.is_before(a, b) || self.is_before(b, a)
    }
}
