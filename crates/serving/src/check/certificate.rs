//! Replay of a certificate: a tree of branching with prices at its leaves.

use stagewright_core::document::ServingNodeDocument;

use super::program::Program;

/// A limit on the number of replicas of a size.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Limit {
    /// At most a number.
    Most(u64),
    /// At least a number.
    Least(u64),
}

/// How a node is reached: the node above it, and the limit between, with the size if a replica has it.
type Arrow = (usize, Option<usize>, Limit);

/// The weakest bound of the leaves, in maximised form; negative infinity if no leaf has a plan, `None` if the tree or a price is
/// wrong. Takes time proportional to the depth and the program for every leaf.
pub(super) fn bound(program: &Program, nodes: &[ServingNodeDocument]) -> Option<f64> {
    let mut arrows: Vec<Option<Arrow>> = vec![None; nodes.len()];
    let mut weakest = f64::NEG_INFINITY;
    if nodes.is_empty() {
        return None;
    }
    for (index, node) in nodes.iter().enumerate() {
        // Children come later, so that a node that is not reached by now never is.
        let is_reached = index == 0 || arrows[index].is_some();
        match node {
            _ if !is_reached => {}
            ServingNodeDocument::Branch { size, most, children } => {
                let size = program.space.position(size);
                let limits = [Limit::Most(*most), Limit::Least(most.saturating_add(1))];
                for (&child, limit) in children.iter().zip(limits) {
                    let arrow = arrows.get_mut(child as usize).filter(|_| child as usize > index)?;
                    if arrow.replace((index, size, limit)).is_some() {
                        return None;
                    }
                }
            }
            ServingNodeDocument::Leaf { prices } => {
                let is_price = |price: &f64| price.is_finite() && *price >= 0.0;
                if prices.len() != program.right.len() || !prices.iter().all(is_price) {
                    return None;
                }
                if let Some(ranges) = ranges(program, &arrows, index) {
                    weakest = weakest.max(program.bound(prices, &ranges));
                }
            }
        }
    }
    Some(weakest)
}

/// Numbers of replicas at a node, by sizes; `None` if there are none.
fn ranges(program: &Program, arrows: &[Option<Arrow>], node: usize) -> Option<Vec<(u64, u64)>> {
    let mut ranges = program.ranges();
    let mut next = arrows[node];
    while let Some((above, size, limit)) = next {
        // There are 0 replicas of a size that is not in the space.
        let mut none = (0, 0);
        let range = match size {
            Some(size) => &mut ranges[size],
            None => &mut none,
        };
        match limit {
            Limit::Most(most) => range.1 = range.1.min(most),
            Limit::Least(least) => range.0 = range.0.max(least),
        }
        if range.0 > range.1 {
            return None;
        }
        next = arrows[above];
    }
    Some(ranges)
}
