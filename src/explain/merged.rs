//! Work that colocation merges into one unit.
//!
//! A unit runs on a single device, so a unit with a large share of the work bounds the value by itself, whatever the
//! plan. Whether its operators must form one unit is a modelling decision: tied weights, a constant with many readers,
//! and layers kept whole are all choices.

use serde::Serialize;
use stagewright_core::bound::{Bound, HeaviestUnit};
use stagewright_core::contraction::{UnitId, Units};
use stagewright_core::document::{Pass, Split};
use stagewright_core::graph::{ClassId, OpId};
use stagewright_core::objective::Objective;
use stagewright_core::problem::Problem;
use stagewright_core::tolerance::round_down;

use crate::report::units::{name, percent, seconds};

/// Minimum share of the work for a unit to be reported.
const MUCH: f64 = 0.2;

/// A unit with a large share of the work.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Merged {
    /// Colocation group of the unit; the one with the most work if there are several.
    pub group: String,
    /// Number of colocation groups in the unit, plus its operators without a group. In a contiguous split, they form
    /// one unit because they lie on a cycle.
    pub groups: usize,
    /// Number of operators of the unit.
    pub operators: usize,
    /// Share of the unit in the work of all operators, each on the fastest class of devices.
    pub share: f64,
    /// Lower bound on the value in seconds, from this unit alone.
    pub bound_s: f64,
}

impl Merged {
    /// The unit with the most work, if colocation made it and it has more than a fifth of all work. The gradients and
    /// updates of a forward operator do not count as merged with it. Takes time O(pools · operators) in addition to the
    /// contraction.
    pub fn from_problem(problem: &Problem) -> Option<Merged> {
        // Operators outside of accelerator calls overlap, so a unit gives no bound under such an objective.
        if !HeaviestUnit.applies(problem) {
            return None;
        }
        let graph = problem.graph();
        let pools = problem.pools().len();
        let fastest = |op: OpId| {
            let seconds = (0..pools).filter_map(|pool| problem.seconds(op, pool));
            seconds.min_by(f64::total_cmp).unwrap_or(0.0)
        };
        let all: f64 = graph.operators().map(fastest).sum();
        // Unless a split must be contiguous, the units are the colocation classes. A contraction of a million operators
        // takes about a second and hundreds of megabytes, and a search under these objectives needs none.
        let is_contiguous =
            matches!(problem.objective(), Objective::Throughput(rules) if rules.split == Split::Contiguous);
        let has_large_class = || {
            graph.class_ids().any(|class| {
                let members = graph.class(class);
                members.len() > 1 && members.iter().map(|&op| fastest(op)).sum::<f64>() > MUCH * all
            })
        };
        if !is_contiguous && !has_large_class() {
            return None;
        }
        let units = Units::of(problem);
        let work = |unit: UnitId| units.members(unit).iter().map(|&op| fastest(op)).sum::<f64>();
        let (unit, heaviest_work) = units
            .ids()
            .map(|unit| (unit, work(unit)))
            .max_by(|a, b| a.1.total_cmp(&b.1).then(b.0.cmp(&a.0)))?;
        let members = units.members(unit);
        let forward = members.iter().filter(|&&op| graph.operator(op).pass == Pass::Forward).count();
        let mut classes: Vec<ClassId> = members.iter().map(|&op| graph.class_of(op)).collect();
        classes.sort_unstable();
        classes.dedup();
        let of_class = |class: ClassId| graph.class(class).iter().map(|&op| fastest(op)).sum::<f64>();
        let (heaviest, _) = classes
            .iter()
            .filter(|&&class| graph.class(class).len() > 1)
            .map(|&class| (class, of_class(class)))
            .max_by(|a, b| a.1.total_cmp(&b.1).then(b.0.cmp(&a.0)))?;
        if forward < 2 || heaviest_work <= MUCH * all {
            return None;
        }
        let first = graph.operator(graph.class(heaviest)[0]);
        Some(Merged {
            group: first.colocation.clone().unwrap_or_else(|| first.name.clone()),
            groups: classes.len(),
            operators: members.len(),
            share: heaviest_work / all,
            bound_s: bound(problem, &units, unit),
        })
    }

    /// Describes the unit in a sentence.
    pub fn text(&self) -> String {
        let group = name(&self.group);
        let others = match self.groups {
            1 => String::new(),
            2 => ", with what lies between its operators,".into(),
            _ => ", with what lies between its operators and other groups,".into(),
        };
        format!(
            "colocation group `{group}`{others} makes one unit of {} operators with {} of the work: no plan is below {} \
             for it",
            self.operators,
            percent(self.share),
            seconds(self.bound_s)
        )
    }
}

/// The bound of [`HeaviestUnit`], whose proof holds for any operators that share a device.
fn bound(problem: &Problem, units: &Units, unit: UnitId) -> f64 {
    let objective = problem.objective();
    let on = |(pool, spec): (usize, &stagewright_core::problem::Pool)| {
        let replicas = objective.rules().max_replicas.min(spec.count());
        Some(units.seconds(unit, pool)? / f64::from(replicas))
    };
    let least = problem.pools().iter().enumerate().filter_map(on).min_by(f64::total_cmp).unwrap_or(0.0);
    round_down(objective.repetitions() * least)
}

#[cfg(test)]
mod tests {
    use stagewright_core::cluster::Cluster;
    use stagewright_core::document::{OperatorDocument, TensorDocument};
    use stagewright_core::graph::GraphBuilder;
    use stagewright_core::objective::Objective;

    use super::*;
    use crate::clusters;

    /// A chain of forward operators of one second each, some of them in the group `tied`.
    fn chain(length: usize, tied: &[usize]) -> Problem {
        let mut builder = GraphBuilder::new("chain");
        for index in 0..length {
            builder.operator(OperatorDocument {
                seconds: [("acc".to_owned(), 1.0)].into(),
                colocation: tied.contains(&index).then(|| "tied".to_owned()),
                ..OperatorDocument::named(format!("op{index}"))
            });
        }
        for index in 1..length {
            builder.timed_tensor(TensorDocument {
                name: None,
                producer: format!("op{}", index - 1),
                consumers: vec![format!("op{index}")],
                bytes: 1.0,
                seconds: [("acc".to_owned(), 0.0)].into(),
            });
        }
        let mut cluster = clusters::find("4xa100").expect("a built-in cluster");
        cluster.kinds[0].class = "acc".into();
        let cluster = Cluster::from_document(cluster).expect("a valid cluster");
        Problem::new(builder.build().expect("a graph"), cluster, Objective::default()).expect("a problem")
    }

    #[test]
    fn a_group_merges_what_lies_between_its_operators() {
        let merged = Merged::from_problem(&chain(10, &[1, 4])).expect("four of ten operators");
        assert_eq!((merged.group.as_str(), merged.groups, merged.operators), ("tied", 3, 4));
        assert!((merged.share - 0.4).abs() < 1e-12 && (merged.bound_s - 4.0).abs() < 1e-6, "{merged:?}");
        assert!(merged.text().contains("`tied`"), "{}", merged.text());
    }

    #[test]
    fn a_fifth_and_less_is_not_told() {
        assert_eq!(Merged::from_problem(&chain(10, &[4, 5])), None);
        assert_eq!(Merged::from_problem(&chain(4, &[])), None);
    }
}
