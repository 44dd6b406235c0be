//! A node of the search: the linear relaxation under its rules, and the plan of a partition.
//!
//! At a threshold T, the cover is relaxed first, since its prices converge sooner; if fractions of columns cover
//! everything, the partition is relaxed next. Prices that exclude either of them exclude every partition of the node
//! into columns at T. Nothing else is claimed: if the rounds end early, the shares of the columns are those of the last
//! LP solution, which suffices for branching and diving.
//!
//! Only [`Plan::new`] decides whether a partition is a plan, since it evaluates operators and tensors. Columns ignore
//! uplinks, memory if there is another second resource, and the maxima of the two passes of `separate` training.

use std::collections::BTreeMap;
use std::sync::Arc;

use stagewright_core::cluster::DeviceId;
use stagewright_core::contraction::{UnitId, Units};
use stagewright_core::ids::Keyed;
use stagewright_core::placement::Placement;
use stagewright_core::problem::Problem;
use stagewright_core::solver::{Plan, Stop};

use super::generation::{Generation, Pace, Verdict};
use super::master::{Coverage, LpError};
use super::preparation::Preparation;
use super::rules::{Column, Rules};

/// Distance from an integer up to which a share counts as integral.
pub const WHOLE: f64 = 1e-6;

/// Data shared by all nodes.
#[derive(Clone, Copy)]
pub struct Ground<'a> {
    /// The problem.
    pub problem: &'a Problem,
    /// Units of the problem.
    pub units: &'a Units,
    /// The root's kinds and state graph.
    pub preparation: &'a Preparation,
    /// Maximum number of states of a node's state graph.
    pub states: usize,
    /// Memory limit of one node, in bytes.
    pub memory: Option<u64>,
}

/// A node: its rules, and initial columns, of which the node uses those that the rules admit.
#[derive(Clone)]
pub struct Node {
    /// The rules.
    pub rules: Rules,
    /// The initial columns.
    pub columns: Arc<[Column]>,
}

/// Parameters of a relaxation.
#[derive(Debug, Clone, Copy)]
pub struct Task {
    /// The threshold.
    pub threshold: f64,
    /// Maximum number of rounds for each form of the relaxation.
    pub rounds: u64,
    /// Pricing effort.
    pub pace: Pace,
}

/// Result of relaxing a node.
pub enum Relaxed {
    /// No partition of the node has a value of the threshold or less.
    Excluded,
    /// The node is not excluded; holds the shares of its columns.
    Open(Shares),
    /// Unknown, for lack of memory for the state graph, or of time.
    Unknown,
}

/// Shares of columns in a fractional partition of the units that are not placed.
pub struct Shares {
    /// Columns with a share above zero.
    pub of: Vec<(Column, f64)>,
    /// All columns of the node.
    pub columns: Arc<[Column]>,
    /// Whether the columns cover every unit exactly once.
    pub whole: bool,
}

impl Shares {
    /// The columns with a share, if all these shares are one and the columns form a partition.
    pub fn partition(&self) -> Option<Vec<&Column>> {
        let whole = self.whole && self.of.iter().all(|&(_, share)| share > 1.0 - WHOLE);
        whole.then(|| self.of.iter().map(|(column, _)| column).collect())
    }
}

impl Ground<'_> {
    /// Relaxes a node.
    ///
    /// # Errors
    /// If the LP solver fails.
    pub fn relax(&self, node: &Node, task: Task, stop: &Stop) -> Result<Relaxed, LpError> {
        let Some(preparation) = self.preparation.under(&node.rules, self.states) else {
            return Ok(Relaxed::Unknown);
        };
        let mut generation =
            Generation::under(self.problem, self.units, &preparation, &node.rules, self.memory);
        generation.inherit(node.columns.iter().filter(|column| node.rules.admit(column)).cloned());
        generation.set_pace(task.pace);
        let mut whole = false;
        for coverage in [Coverage::Cover, Coverage::Partition] {
            generation.require(coverage);
            match generation.decide(task.threshold, task.rounds, stop)? {
                Verdict::Excluded(_) => return Ok(Relaxed::Excluded),
                _ if stop.reason().is_some() => return Ok(Relaxed::Unknown),
                verdict => whole = verdict == Verdict::Covered,
            }
        }
        let shares = generation.shares().into_iter().map(|(column, share)| (column.clone(), share)).collect();
        Ok(Relaxed::Open(Shares { of: shares, columns: generation.columns().into(), whole }))
    }

    /// The plan that some columns form; `None` if they hold a unit twice or not at all, need more devices than exist,
    /// or violate a constraint that columns ignore.
    pub fn plan<'c>(&self, columns: impl IntoIterator<Item = &'c Column>) -> Option<Plan> {
        let pools = self.problem.pools();
        let mut used = vec![0usize; pools.len()];
        let mut device_of: Keyed<UnitId, Option<DeviceId>> = Keyed::filled(None, self.units.len());
        let mut replicas = BTreeMap::new();
        for column in columns {
            let kind = &self.preparation.kinds[column.kind];
            let device = *pools[kind.pool].devices.get(used[kind.pool])?;
            used[kind.pool] += kind.replicas as usize;
            if kind.replicas > 1 {
                replicas.insert(device, kind.replicas);
            }
            for &unit in column.units.iter() {
                if device_of[unit].replace(device).is_some() {
                    return None;
                }
            }
        }
        let operators = self.problem.graph().operators();
        let placed: Option<Vec<DeviceId>> = operators.map(|op| device_of[self.units.unit_of(op)]).collect();
        Plan::new(self.problem, Placement::with_stages(placed?, Vec::new(), replicas)).ok()
    }
}
