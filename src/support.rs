//! Objectives and rules that a solver supports, found by asking it.
//!
//! [`Support::of`] asks [`Solver::unsupported`] about every valid combination of objective, split, schedule and the other
//! rules, so no list has to be kept beside the solvers.

use serde::Serialize;
use stagewright_core::document::{Communication, Execution, ObjectiveKind, Schedule, Split, Training};
use stagewright_core::objective::{Objective, Throughput};
use stagewright_core::solver::Solver;

/// Objectives and rules that a solver supports, and those that it refuses.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Support {
    /// Supported combinations, each with the defaults of all other rules: serial communication, combined passes and no
    /// replicas.
    pub supports: Vec<Rules>,
    /// Reasons for which the solver refuses some combination, each once for an objective.
    pub refuses: Vec<Refusal>,
}

/// An objective, with the rules that only throughput has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Rules {
    /// Name of the objective.
    pub objective: &'static str,
    /// Name of the split rule.
    pub split: Option<&'static str>,
    /// Name of the schedule, `none` without one.
    pub schedule: Option<&'static str>,
}

/// A reason for refusing an objective, under some or all of its rules.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Refusal {
    /// Name of the objective.
    pub objective: &'static str,
    /// Noun phrase of what is not supported.
    pub reason: &'static str,
}

impl Support {
    /// Asks a solver about all combinations.
    ///
    /// ```
    /// use stagewright::registry::named;
    /// use stagewright::support::Support;
    ///
    /// let support = Support::of(named("heft").ok_or("no such solver")?);
    /// assert_eq!(support.supports.len(), 1);
    /// assert_eq!(support.supports[0].objective, "makespan");
    /// # Ok::<(), &str>(())
    /// ```
    pub fn of(solver: &dyn Solver) -> Support {
        let (mut supports, mut refuses) = (Vec::new(), Vec::new());
        for objective in objectives() {
            match solver.unsupported(&objective) {
                Some(reason) => {
                    push_new(&mut refuses, Refusal { objective: objective.kind().name(), reason })
                }
                None if has_usual_rules(&objective) => push_new(&mut supports, rules(&objective)),
                None => {}
            }
        }
        Support { supports, refuses }
    }
}

fn push_new<T: PartialEq>(list: &mut Vec<T>, item: T) {
    if !list.contains(&item) {
        list.push(item);
    }
}

/// Every combination of rules that is valid.
fn objectives() -> Vec<Objective> {
    let mut found = Vec::new();
    for split in [Split::Contiguous, Split::Convex, Split::Free] {
        for schedule in [Schedule::None, Schedule::GPipe, Schedule::OneFOneB, Schedule::ZeroBubble] {
            let microbatches = if schedule == Schedule::None { 1 } else { 4 };
            let rules = Throughput { split, schedule, microbatches, ..Throughput::default() };
            for communication in [Communication::Serial, Communication::Overlap, Communication::Duplex] {
                for training in [Training::Combined, Training::Separate] {
                    for max_replicas in [1, 2] {
                        found.push(Throughput { communication, training, max_replicas, ..rules }.into());
                    }
                }
            }
        }
    }
    found.extend([1, 2].map(|calls| Objective::Latency { calls }));
    found.extend(
        [Execution::Ports, Execution::ContentionFree].map(|execution| Objective::Makespan { execution }),
    );
    found.retain(|objective| objective.validate().is_ok());
    found
}

/// Whether all rules but the split and the schedule are the defaults.
fn has_usual_rules(objective: &Objective) -> bool {
    let Objective::Throughput(rules) = *objective else { return true };
    let Throughput { split, schedule, microbatches, .. } = rules;
    rules == Throughput { split, schedule, microbatches, ..Throughput::default() }
}

fn rules(objective: &Objective) -> Rules {
    let is_throughput = objective.kind() == ObjectiveKind::Throughput;
    let Throughput { split, schedule, .. } = objective.rules();
    Rules {
        objective: objective.kind().name(),
        split: is_throughput.then(|| split.name()),
        schedule: is_throughput.then(|| schedule.name()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::{SOLVERS, named};

    fn support(name: &str) -> Support {
        Support::of(named(name).unwrap())
    }

    #[test]
    fn support_is_what_solvers_say() {
        let of_throughput = |rules: &&Rules| rules.objective == "throughput";
        let everything = support("one-device");
        assert_eq!(
            everything.supports.iter().filter(of_throughput).count(),
            6,
            "a schedule needs a contiguous split"
        );
        assert_eq!((everything.supports.len(), everything.refuses.as_slice()), (8, [].as_slice()));
        let refused: Vec<_> = support("heft").refuses.iter().map(|refusal| refusal.objective).collect();
        assert_eq!(refused, ["throughput", "latency"]);
    }

    #[test]
    fn a_solver_that_supports_nothing_is_missing_and_names_its_feature() {
        for entry in SOLVERS {
            let Support { supports, refuses } = Support::of(entry.solver);
            let missing = entry.solver.missing_feature().filter(|_| supports.is_empty());
            assert_eq!(supports.is_empty(), missing.is_some(), "{}", entry.solver.name());
            let names_it = |feature| refuses.iter().all(|refusal| refusal.reason.contains(feature));
            assert!(missing.is_none_or(names_it), "{refuses:?}");
        }
    }
}
