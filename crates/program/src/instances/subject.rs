//! An instance as a problem, which the code of the commands checks, bounds and solves.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use stagewright::code::I002;
use stagewright::core::document::PlanStatus;
use stagewright::core::solver::{Silent, Stop};
use stagewright::tasks::{Kind, Session, Size, SolverChoice, Task};
use tempfile::TempDir;

use super::entry::{Entry, Proof};
use super::model::{arguments, place};
use crate::args::PlanArguments;
use crate::code::O002;
use crate::error::{CliError, Result};
use crate::files::Input;
use crate::resolve::{self, Question};
use crate::{output, plan};

/// An instance, with its model written to a file.
pub(super) struct Subject {
    label: String,
    arguments: PlanArguments,
    /// Removed when dropped.
    _folder: TempDir,
}

/// The findings of the checker on a plan.
pub(super) struct Checked {
    /// The recomputed value.
    pub(super) value: Option<f64>,
    /// The bound that the plan claims.
    pub(super) bound: Option<f64>,
    /// Whether the checker proves the claimed bound.
    pub(super) is_proved: bool,
    /// Violations of the plan, including an objective that differs from the instance's.
    pub(super) violations: Vec<String>,
}

/// The outcome of a solver, or of computing the bounds that need no search.
pub(super) struct Solved {
    pub(super) is_infeasible: bool,
    pub(super) value: Option<f64>,
    pub(super) bound: Option<f64>,
}

impl Subject {
    /// Writes the model to a temporary file.
    pub(super) fn new(entry: &Entry, model: &[u8]) -> Result<Subject> {
        let failed = |error: std::io::Error| {
            CliError::new(I002, format!("cannot write a temporary file: {error}"))
                .at(place(entry))
                .help("check that the folder for temporary files is writable and has space")
        };
        // The file is named after the instance, because messages show its name.
        let folder = tempfile::tempdir().map_err(failed)?;
        let file = folder.path().join(&entry.name);
        fs::write(&file, model).map_err(failed)?;
        let solver = match &entry.proof {
            Proof::Solver(name) => name,
            _ => "auto",
        };
        let arguments = arguments(entry, &file, solver)?;
        Ok(Subject { label: place(entry), arguments, _folder: folder })
    }

    /// The question of the instance, without a solver.
    fn task(&self) -> Result<Box<dyn Task>> {
        let solver = || Ok(SolverChoice::None);
        let question = plan::question(&self.arguments, &solver);
        resolve::task(&self.arguments.model, Question { is_stated: true, ..question })
    }

    /// Number of operators, layers or nodes, and of devices.
    pub(super) fn size(&self) -> Result<Size> {
        self.task()?.size()
    }

    /// Checks a plan.
    pub(super) fn check(&self, plan: &Input) -> Result<Checked> {
        let asked = self.task()?;
        let is_placement = asked.kind() == Kind::Placement;
        // A joint plan states its objective and options itself. If they differ from the instance's, this is reported
        // below.
        let objective = Some(&self.arguments.objective).filter(|_| is_placement);
        let question = Question { objective, ..Question::default() };
        let (task, plan, label) =
            resolve::planned_input(&self.arguments.model, plan, question, !is_placement)?;
        let difference = asked.difference(&plan);
        let note = &mut |line: &str| output::note(line);
        let observer = &mut Silent;
        let mut session = Session::new(stagewright::Options::default(), observer, note);
        let checked = task.check(plan, &label, &mut session)?;
        Ok(Checked {
            value: checked.value,
            bound: checked.bound,
            is_proved: checked.is_proved,
            violations: checked.violations.into_iter().chain(difference.map(str::to_owned)).collect(),
        })
    }

    /// Runs the solver that proves the instance's bound.
    pub(super) fn solve(&self, interrupt: &Arc<AtomicBool>) -> Result<Solved> {
        let options = resolve::solving(&self.arguments.solve)?.options().interrupt(interrupt.clone());
        let solver = || plan::solver(&self.arguments);
        let question = Question { is_stated: true, ..plan::question(&self.arguments, &solver) };
        let task = resolve::task(&self.arguments.model, question)?;
        let note = &mut |line: &str| output::note(line);
        let document = task.solve(&mut Session::new(options, &mut Silent, note))?.document;
        Ok(Solved {
            is_infeasible: document.status() == PlanStatus::Infeasible,
            value: document.value(),
            bound: document.bound(),
        })
    }

    /// Computes the strongest of the bounds that need no search.
    pub(super) fn bound(&self, interrupt: &Arc<AtomicBool>) -> Result<Solved> {
        // Without a time limit, bounds that improve with time end after a fixed amount of work, which is the same on
        // every machine.
        let bound = self.task()?.bound_without_search(&Stop::new(None, interrupt.clone()))?;
        if bound.is_none() {
            return Err(CliError::new(O002, "no bound without a search has a value")
                .at(self.label.clone())
                .help("give a solver or a certificate as `proof` in the index"));
        }
        Ok(Solved { is_infeasible: false, value: None, bound })
    }
}
