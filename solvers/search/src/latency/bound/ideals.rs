//! The sets of nodes that are closed under predecessors.

use rustc_hash::FxHashMap;
use stagewright_core::bits;
use stagewright_core::solver::Stop;

use super::nodes::Nodes;

/// Maximum number of open nets over all ideals: one gibibyte.
const MAX_OPEN: usize = 1 << 28;

/// All ideals, smaller ones first, the empty one at 0.
pub(super) struct Ideals {
    words: usize,
    sets: Vec<u64>,
    /// The covers of ideal i are `covers[offsets[i]..offsets[i + 1]]`.
    offsets: Vec<u32>,
    covers: Vec<Cover>,
    /// For each ideal but the first, one ideal with one node less.
    parent: Vec<Cover>,
    /// Nets with their producer inside and a consumer outside, by ideal.
    open_offsets: Vec<u32>,
    open: Vec<u32>,
}

/// An ideal with one node more or less.
#[derive(Clone, Copy)]
pub(super) struct Cover {
    pub(super) node: u32,
    pub(super) ideal: u32,
}

impl Ideals {
    /// Enumerates the ideals in O(ideals · (nodes + nets) · words); `None` if there are more than `most`, if
    /// they leave too many nets open, or if stopped.
    pub(super) fn list(nodes: &Nodes, most: usize, stop: &Stop) -> Option<Ideals> {
        let words = nodes.words;
        let mut ideals = Ideals {
            words,
            sets: vec![0u64; words],
            offsets: vec![0],
            covers: Vec::new(),
            parent: vec![Cover { node: 0, ideal: 0 }],
            open_offsets: vec![0],
            open: Vec::new(),
        };
        let mut index: FxHashMap<Box<[u64]>, u32> = FxHashMap::default();
        index.insert(vec![0u64; words].into(), 0);
        let mut at = 0;
        while at < ideals.len() {
            if at % 1024 == 0 && stop.reason().is_some() {
                return None;
            }
            let mut set: Box<[u64]> = ideals.set(at).into();
            for node in 0..nodes.len() {
                if bits::contains(&set, node) || !bits::within(nodes.before(node), &set) {
                    continue;
                }
                bits::insert(&mut set, node);
                let ideal = match index.get(&set) {
                    Some(&ideal) => ideal,
                    None if ideals.len() == most => return None,
                    None => {
                        let fresh = ideals.len() as u32;
                        ideals.sets.extend_from_slice(&set);
                        ideals.parent.push(Cover { node: node as u32, ideal: at as u32 });
                        index.insert(set.clone(), fresh);
                        fresh
                    }
                };
                bits::remove(&mut set, node);
                ideals.covers.push(Cover { node: node as u32, ideal });
            }
            ideals.offsets.push(ideals.covers.len() as u32);
            ideals.list_open(nodes, at);
            if ideals.open.len() > MAX_OPEN {
                return None;
            }
            at += 1;
        }
        Some(ideals)
    }

    /// Number of ideals.
    pub(super) fn len(&self) -> usize {
        self.parent.len()
    }

    /// The nodes of an ideal, as a set.
    pub(super) fn set(&self, ideal: usize) -> &[u64] {
        &self.sets[ideal * self.words..(ideal + 1) * self.words]
    }

    /// The ideals with one more node.
    pub(super) fn covers(&self, ideal: usize) -> &[Cover] {
        &self.covers[self.offsets[ideal] as usize..self.offsets[ideal + 1] as usize]
    }

    /// An ideal with one node less; the empty ideal is its own parent.
    pub(super) fn parent(&self, ideal: usize) -> Cover {
        self.parent[ideal]
    }

    /// The nets that an ideal produces and a node outside reads.
    pub(super) fn open(&self, ideal: usize) -> &[u32] {
        &self.open[self.open_offsets[ideal] as usize..self.open_offsets[ideal + 1] as usize]
    }

    /// Lists the nets of its parent that are still open, and the outputs of its last node.
    fn list_open(&mut self, nodes: &Nodes, ideal: usize) {
        let set = &self.sets[ideal * self.words..(ideal + 1) * self.words];
        if ideal > 0 {
            let Cover { node, ideal: parent } = self.parent[ideal];
            let of_parent = self.open_offsets[parent as usize]..self.open_offsets[parent as usize + 1];
            for at in of_parent {
                let net = self.open[at as usize];
                let consumers = &nodes.nets[net as usize].consumers;
                if consumers.iter().any(|&node| !bits::contains(set, node as usize)) {
                    self.open.push(net);
                }
            }
            self.open.extend_from_slice(&nodes.outputs[node as usize]);
        }
        self.open_offsets.push(self.open.len() as u32);
    }
}
