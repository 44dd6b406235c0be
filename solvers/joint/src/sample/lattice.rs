//! Sets of layers that may be the last stages of a pipeline, and the stages that may precede them.
//!
//! Layers are numbered against the direction of the edges, so that a set closed under successors grows by layers of
//! ascending position. The sets that extend a set are visited depth first, each once: a layer that was skipped stays
//! excluded.

use stagewright_core::bits;

use crate::sample::problem::Problem;

/// The layers of a problem in the order in which sets grow.
pub(crate) struct Lattice {
    /// Layer of each position.
    pub(crate) layer_at: Vec<usize>,
    /// Positions that may join a set after each position: predecessors of its layer.
    following: Vec<Vec<u32>>,
    /// Number of positions that must join a set before each position.
    needed: Vec<u32>,
}

impl Lattice {
    /// All sets closed under successors or, if `is_linear`, only those that are the end of one linear order.
    pub(crate) fn new(problem: &Problem, is_linear: bool) -> Lattice {
        let mut layer_at = problem.topological_order();
        layer_at.reverse();
        let count = layer_at.len();
        if is_linear {
            let following = (1..=count).map(|next| if next < count { vec![next as u32] } else { vec![] });
            let needed = (0..count).map(|position| u32::from(position > 0)).collect();
            return Lattice { layer_at, following: following.collect(), needed };
        }
        let mut position = vec![0u32; count];
        for (index, &layer) in layer_at.iter().enumerate() {
            position[layer] = index as u32;
        }
        let mut following: Vec<Vec<u32>> = Vec::with_capacity(count);
        let mut needed = vec![0; count];
        for &layer in &layer_at {
            let mut sources: Vec<u32> =
                problem.inputs[layer].iter().map(|&edge| position[problem.edges[edge].source]).collect();
            sources.sort_unstable();
            sources.iter().for_each(|&source| needed[source as usize] += 1);
            following.push(sources);
        }
        Lattice { layer_at, following, needed }
    }

    /// Number of layers.
    pub(crate) fn len(&self) -> usize {
        self.layer_at.len()
    }

    /// Number of 64-bit words of a set.
    pub(crate) fn words(&self) -> usize {
        bits::words(self.len())
    }

    /// Positions that may join a set, and the number of positions that each position still waits for.
    pub(crate) fn frontier(&self, set: &[u64]) -> (Vec<u32>, Vec<u32>) {
        let mut missing = self.needed.clone();
        for index in bits::members(set) {
            for &next in &self.following[index] {
                missing[next as usize] -= 1;
            }
        }
        let is_ready = |&index: &u32| missing[index as usize] == 0 && !bits::contains(set, index as usize);
        ((0..self.len() as u32).filter(is_ready).collect(), missing)
    }

    /// Positions that may follow a position.
    pub(crate) fn following(&self, index: usize) -> &[u32] {
        &self.following[index]
    }
}
