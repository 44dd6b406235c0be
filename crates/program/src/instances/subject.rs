//! An instance as a problem: checked, bounded and solved by what the commands use.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use stagewright::bounds;
use stagewright::core::document::{ClusterDocument, PlanStatus};
use stagewright::core::solver::{Status, Stop};
use stagewright::formats::{
    PlanFile, import_piper, import_strategies, import_strategy_plan, is_piper, is_strategies,
};
use stagewright_verify::{BoundVerdict, JointVerdict, StrategyVerdict, check};
use tempfile::TempDir;

use super::entry::{Entry, Proof};
use super::model::{arguments, place};
use crate::args::PlanArguments;
use crate::error::{CliError, Result};
use crate::files::Input;
use crate::{joint, plan, resolve, strategies};

/// An instance with its model in a file.
pub(super) struct Subject {
    label: String,
    kind: Kind,
    arguments: PlanArguments,
    model: Vec<u8>,
    /// Removed when dropped.
    _folder: TempDir,
}

/// What is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Placement,
    Joint,
    Strategies,
}

/// A plan as the checker finds it.
pub(super) struct Checked {
    /// The recomputed value.
    pub(super) value: Option<f64>,
    /// The bound that the plan claims.
    pub(super) bound: Option<f64>,
    /// Whether the checker proves that bound.
    pub(super) is_proved: bool,
    /// Violations, the objective of another problem included.
    pub(super) violations: Vec<String>,
}

/// The outcome of a solver, or of bounds that need no search.
pub(super) struct Solved {
    pub(super) is_infeasible: bool,
    pub(super) value: Option<f64>,
    pub(super) bound: Option<f64>,
}

impl Subject {
    /// Writes the model to a temporary file.
    pub(super) fn new(entry: &Entry, model: Vec<u8>) -> Result<Subject> {
        let failed = |error: std::io::Error| {
            CliError::new("I002", format!("cannot write a temporary file: {error}"))
                .at(place(entry))
                .help("check that the folder for temporary files is writable and has space")
        };
        // The file has the name of the instance, which messages about it show.
        let folder = tempfile::tempdir().map_err(failed)?;
        let file = folder.path().join(&entry.name);
        fs::write(&file, &model).map_err(failed)?;
        let solver = match &entry.proof {
            Proof::Solver(name) => name,
            _ => "auto",
        };
        let arguments = arguments(entry, &file, solver)?;
        let kind = match arguments.parallel.parallel {
            _ if is_strategies(&model) => Kind::Strategies,
            Some(_) => Kind::Joint,
            None => Kind::Placement,
        };
        Ok(Subject { label: place(entry), kind, arguments, model, _folder: folder })
    }

    /// Operators, layers or nodes, and devices.
    pub(super) fn size(&self) -> Result<(usize, Option<u64>)> {
        if self.kind == Kind::Strategies {
            return Ok((import_strategies(&self.label, &self.model)?.nodes.intervals.len(), None));
        }
        if self.kind == Kind::Joint && is_piper(&self.model) {
            let cluster = self.arguments.model.around.cluster.as_deref();
            let devices = cluster.map(resolve::cluster_file).transpose()?.map(|(_, cluster)| count(&cluster));
            return Ok((import_piper(&self.label, &self.model)?.nodes.len(), devices));
        }
        let documents = resolve::documents(&self.arguments.model)?;
        Ok((documents.model.graph.operators.len(), Some(count(&documents.cluster))))
    }

    /// Checks a plan.
    pub(super) fn check(&self, plan: &Input) -> Result<Checked> {
        let other = "the plan is for another objective or for other options".to_owned();
        match self.kind {
            Kind::Placement => {
                let documents = resolve::documents(&self.arguments.model)?;
                let asked = resolve::objective(&self.arguments.objective)?.to_document(None);
                let plan = PlanFile::read(&plan.label, &plan.bytes)?
                    .for_model(&documents.model, Some(&documents.cluster))?;
                let is_answer = resolve::same_objective(&asked, &plan.objective);
                let pins = documents.pins.unwrap_or_default();
                // Pins of its own restrict what its bound is about.
                let is_restricted = plan.pins != pins;
                let report = check(&documents.model.graph, &documents.cluster, Some(&pins), &plan)
                    .map_err(|error| CliError::new(&format!("V:{}", error.code()), error.to_string()))?;
                let violations = report.violations.iter().map(ToString::to_string);
                let violations = violations
                    .chain(is_restricted.then(|| "the plan has other pins than the instance".to_owned()));
                Ok(Checked {
                    value: report.value_s,
                    bound: plan.bound.value_s,
                    is_proved: matches!(report.bound, BoundVerdict::Verified { .. }),
                    violations: violations.chain((!is_answer).then_some(other)).collect(),
                })
            }
            Kind::Joint => {
                let joint::Checked { plan, report, is_answer } =
                    joint::check_answer(&self.arguments, &plan.label, &plan.bytes)?;
                let violations = report.violations.iter().map(ToString::to_string);
                let unproved = [JointVerdict::NoClaim, JointVerdict::NotVerified, JointVerdict::Refuted];
                Ok(Checked {
                    value: report.value_s,
                    bound: plan.bound.value_s,
                    is_proved: !unproved.contains(&report.bound),
                    violations: violations.chain((!is_answer).then_some(other)).collect(),
                })
            }
            Kind::Strategies => {
                let document = import_strategy_plan(&plan.label, &plan.bytes)?;
                let report = strategies::report(&self.arguments.model.model, &document, &plan.label)?;
                Ok(Checked {
                    value: report.cost.map(|cost| cost as f64),
                    bound: document.bound.cost,
                    is_proved: matches!(report.bound, StrategyVerdict::Verified { .. }),
                    violations: report.violations.iter().map(ToString::to_string).collect(),
                })
            }
        }
    }

    /// Runs the solver of the proof.
    pub(super) fn solve(&self, interrupt: &Arc<AtomicBool>) -> Result<Solved> {
        match self.kind {
            Kind::Placement => {
                let objective = resolve::objective(&self.arguments.objective)?;
                let chosen = resolve::solver(&self.arguments.solver, &objective)?;
                let problem = resolve::problem(resolve::documents(&self.arguments.model)?, objective)?;
                let solving = resolve::solving(&self.arguments.solve)?;
                let solution = plan::solve(&problem, &chosen, &solving, interrupt, false)?;
                let (is_infeasible, value) = (solution.status == Status::Infeasible, solution.value());
                Ok(Solved { is_infeasible, value, bound: Some(solution.bound.value) })
            }
            Kind::Joint => {
                let answer = joint::answer(&self.arguments)?;
                Ok(Solved {
                    is_infeasible: answer.status == PlanStatus::Infeasible,
                    value: answer.objective.value_s,
                    bound: answer.bound.value_s,
                })
            }
            Kind::Strategies => {
                let answer = strategies::answer(&self.arguments)?;
                Ok(Solved {
                    is_infeasible: answer.status == PlanStatus::Infeasible,
                    value: answer.cost.map(|cost| cost as f64),
                    bound: answer.bound.cost,
                })
            }
        }
    }

    /// The strongest of the bounds that need no search.
    pub(super) fn bound(&self, interrupt: &Arc<AtomicBool>) -> Result<Solved> {
        if self.kind != Kind::Placement {
            return Err(CliError::new(
                "O002",
                "no bounds without a search exist for joint plans and strategies",
            )
            .at(self.label.clone())
            .help("give a solver or a certificate as `proof` in the index"));
        }
        let objective = resolve::objective(&self.arguments.objective)?;
        let problem = resolve::problem(resolve::documents(&self.arguments.model)?, objective)?;
        // Without a time limit, bounds that improve with time end at a limit on their work, the same on every machine.
        let stop = Stop::new(None, interrupt.clone());
        let bound = Some(bounds::strongest(&problem, &stop).value).filter(|&value| value > 0.0);
        Ok(Solved { is_infeasible: false, value: None, bound })
    }
}

fn count(cluster: &ClusterDocument) -> u64 {
    cluster.kinds.iter().map(|kind| u64::from(kind.count)).sum()
}
