//! The sets of nodes that are closed under predecessors.

use std::ops::Range;

use rustc_hash::FxHashMap;
use stagewright_core::bits;
use stagewright_core::id;
use stagewright_core::ids::Keyed;
use stagewright_core::solver::Stop;

use super::nodes::{NetId, NodeId, Nodes};

id! {
    /// Index of an ideal.
    pub(super) IdealId;
}

/// Maximum number of open nets, summed over all ideals, which take one gibibyte.
const MAX_OPEN: usize = 1 << 28;

/// All ideals, smaller ones first, the empty one at 0.
pub(super) struct Ideals {
    words: usize,
    sets: Vec<u64>,
    /// Offsets into `covers`: the covers of ideal i are `covers[offsets[i]..offsets[i + 1]]`.
    offsets: Vec<u32>,
    covers: Vec<Cover>,
    /// A parent of each ideal but the first: an ideal with one node less.
    parent: Keyed<IdealId, Cover>,
    /// Nets with their producer inside and a consumer outside, by ideal.
    open_offsets: Vec<u32>,
    open: Vec<NetId>,
}

/// An ideal with one node more or less.
#[derive(Clone, Copy)]
pub(super) struct Cover {
    pub(super) node: NodeId,
    pub(super) ideal: IdealId,
}

impl Ideals {
    /// Enumerates the ideals in O(ideals · (nodes + nets) · words); `None` if there are more than `limit`, if they
    /// leave too many nets open, or if the enumeration is stopped.
    pub(super) fn list(nodes: &Nodes, limit: usize, stop: &Stop) -> Option<Ideals> {
        let words = nodes.words;
        let mut ideals = Ideals {
            words,
            sets: vec![0u64; words],
            offsets: vec![0],
            covers: Vec::new(),
            parent: vec![Cover { node: NodeId(0), ideal: IdealId(0) }].into(),
            open_offsets: vec![0],
            open: Vec::new(),
        };
        let mut index: FxHashMap<Box<[u64]>, IdealId> = FxHashMap::default();
        index.insert(vec![0u64; words].into(), IdealId(0));
        let mut next = 0;
        while next < ideals.len() {
            if next % 1024 == 0 && stop.reason().is_some() {
                return None;
            }
            let from = IdealId::new(next);
            let mut set: Box<[u64]> = ideals.set(from).into();
            for node in nodes.group.ids() {
                if bits::contains(&set, node.index()) || !bits::within(nodes.before(node), &set) {
                    continue;
                }
                bits::insert(&mut set, node.index());
                let ideal = match index.get(&set) {
                    Some(&ideal) => ideal,
                    None if ideals.len() == limit => return None,
                    None => {
                        ideals.sets.extend_from_slice(&set);
                        let fresh = ideals.parent.push(Cover { node, ideal: from });
                        index.insert(set.clone(), fresh);
                        fresh
                    }
                };
                bits::remove(&mut set, node.index());
                ideals.covers.push(Cover { node, ideal });
            }
            ideals.offsets.push(ideals.covers.len() as u32);
            ideals.list_open(nodes, from);
            if ideals.open.len() > MAX_OPEN {
                return None;
            }
            next += 1;
        }
        Some(ideals)
    }

    /// Number of ideals.
    pub(super) fn len(&self) -> usize {
        self.parent.len()
    }

    /// The nodes of an ideal, as a set.
    pub(super) fn set(&self, ideal: IdealId) -> &[u64] {
        &self.sets[ideal.index() * self.words..][..self.words]
    }

    /// The ideals with one more node.
    pub(super) fn covers(&self, ideal: IdealId) -> &[Cover] {
        &self.covers[row(&self.offsets, ideal)]
    }

    /// An ideal with one node less; the empty ideal is its own parent.
    pub(super) fn parent(&self, ideal: IdealId) -> Cover {
        self.parent[ideal]
    }

    /// The nets that an ideal produces and a node outside reads.
    pub(super) fn open(&self, ideal: IdealId) -> &[NetId] {
        &self.open[row(&self.open_offsets, ideal)]
    }

    /// Lists the open nets of an ideal: those of its parent that are still open, and the outputs of its last node.
    fn list_open(&mut self, nodes: &Nodes, ideal: IdealId) {
        let set = &self.sets[ideal.index() * self.words..][..self.words];
        if ideal != IdealId(0) {
            let Cover { node, ideal: parent } = self.parent[ideal];
            for position in row(&self.open_offsets, parent) {
                let net = self.open[position];
                let consumers = &nodes.nets[net].consumers;
                if consumers.iter().any(|&node| !bits::contains(set, node.index())) {
                    self.open.push(net);
                }
            }
            self.open.extend_from_slice(&nodes.outputs[node]);
        }
        self.open_offsets.push(self.open.len() as u32);
    }
}

/// Range of the row of an ideal.
fn row(offsets: &[u32], ideal: IdealId) -> Range<usize> {
    offsets[ideal.index()] as usize..offsets[ideal.index() + 1] as usize
}
