//! The boundaries between the stages of a contiguous plan, and the number of samples in which each one moves.

use serde::Serialize;
use stagewright_core::bits;
use stagewright_core::cluster::DeviceId;
use stagewright_core::document::Split;
use stagewright_core::graph::OpId;
use stagewright_core::placement::Placement;
use stagewright_core::problem::Problem;

use super::median;

/// Maximum number of boundaries that are reported.
const KEPT: usize = 5;

/// A boundary between two stages that better plans place elsewhere.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Boundary {
    /// The stage before the boundary, from 0.
    pub stage: usize,
    /// The operator before the boundary whose output is the largest tensor across it.
    pub before: String,
    /// The first operator after the boundary that reads the largest tensor across it.
    pub after: String,
    /// Number of samples in which a better plan does not have the boundary.
    pub moved: usize,
    /// Median loss of the plan in the samples in which a better plan does not have the boundary.
    pub median_loss: f64,
    /// Largest loss of the plan in the samples in which a better plan does not have the boundary.
    pub largest_loss: f64,
}

/// The boundaries of a plan with the losses of the samples in which each has moved.
pub(super) struct Boundaries<'a> {
    problem: &'a Problem,
    placement: &'a Placement,
    /// Forward operators that take time. An operator that takes none may be on either side of a boundary.
    decisive: Vec<OpId>,
    /// For each boundary, the stage before it and the set of decisive operators before it.
    before: Vec<(usize, Vec<u64>)>,
    losses: Vec<Vec<f64>>,
}

impl<'a> Boundaries<'a> {
    /// The boundaries of a plan. Empty unless the plan has ordered stages.
    pub(super) fn new(problem: &'a Problem, placement: &'a Placement) -> Self {
        let takes_time = |op: OpId| {
            let seconds = (0..problem.pools().len()).filter_map(|pool| problem.seconds(op, pool));
            problem.graph().is_forward(op) && seconds.fold(0.0, f64::max) > 0.0
        };
        let decisive: Vec<OpId> = problem.graph().operators().filter(|&op| takes_time(op)).collect();
        let is_ordered = problem.objective().rules().split == Split::Contiguous;
        let before = if is_ordered { prefixes(&decisive, placement) } else { Vec::new() };
        let losses = vec![Vec::new(); before.len()];
        Boundaries { problem, placement, decisive, before, losses }
    }

    /// Records the loss at every boundary that a better plan lacks. Does nothing without a better plan.
    pub(super) fn compare(&mut self, better: Option<&Placement>, loss: f64) {
        let Some(better) = better else { return };
        if self.before.is_empty() {
            return;
        }
        let theirs = prefixes(&self.decisive, better);
        for ((_, own), losses) in self.before.iter().zip(&mut self.losses) {
            if !theirs.iter().any(|(_, set)| set == own) {
                losses.push(loss);
            }
        }
    }

    /// The boundaries that moved, the most often moved first.
    pub(super) fn moved(self) -> Vec<Boundary> {
        let used = self.placement.used();
        let mut moved: Vec<Boundary> = self
            .before
            .iter()
            .zip(&self.losses)
            .filter_map(|(&(stage, _), losses)| {
                let mut losses = losses.clone();
                losses.sort_by(f64::total_cmp);
                let (median_loss, largest_loss) = (median(&losses)?, *losses.last()?);
                let [before, after] = self.around(&used, stage);
                Some(Boundary { stage, before, after, moved: losses.len(), median_loss, largest_loss })
            })
            .collect();
        moved.sort_by(|left, right| right.moved.cmp(&left.moved).then(left.stage.cmp(&right.stage)));
        moved.truncate(KEPT);
        moved
    }

    /// The names of an operator before and an operator after a boundary, linked by the largest forward tensor across
    /// it.
    fn around(&self, used: &[DeviceId], stage: usize) -> [String; 2] {
        let graph = self.problem.graph();
        let is_before = |op: OpId| used[..=stage].contains(&self.placement.device_of(op));
        let across = graph.tensors().filter_map(|tensor| {
            let from = graph.producer(tensor);
            if !graph.is_forward(from) || !is_before(from) {
                return None;
            }
            let to =
                graph.consumers(tensor).iter().copied().find(|&to| graph.is_forward(to) && !is_before(to))?;
            Some((graph.bytes(tensor), from, to))
        });
        let largest = across.max_by(|left, right| left.0.total_cmp(&right.0));
        let name = |op: OpId| graph.operator(op).name.clone();
        match largest {
            Some((_, from, to)) => [name(from), name(to)],
            None => {
                let last = self.decisive.iter().rev().find(|&&op| is_before(op));
                let first = self.decisive.iter().find(|&&op| !is_before(op));
                [last, first].map(|op| op.map_or_else(String::new, |&op| name(op)))
            }
        }
    }
}

/// For every boundary with decisive operators on both sides, the stage before it and the decisive operators before it.
fn prefixes(decisive: &[OpId], placement: &Placement) -> Vec<(usize, Vec<u64>)> {
    let mut set = vec![0; bits::words(decisive.len())];
    let mut count = 0;
    let mut prefixes = Vec::new();
    for (stage, device) in placement.used().into_iter().enumerate() {
        for (index, &op) in decisive.iter().enumerate() {
            if placement.device_of(op) == device {
                bits::insert(&mut set, index);
                count += 1;
            }
        }
        if (1..decisive.len()).contains(&count) {
            prefixes.push((stage, set.clone()));
        }
    }
    prefixes
}
