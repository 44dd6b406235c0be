//! Serving plans: replicas of a language model on the devices of a cluster.

mod compare;
mod explain;
mod measured;
mod page;
mod question;
mod reason;
mod running;
mod simulate;
mod text;

use serde::Serialize;
use stagewright_core::document::{ClusterDocument, PlanStatus, ServingPlanDocument};
use stagewright_core::solver::Observer;
use stagewright_replicas::{NAME, Solution};
use stagewright_report::wrap::facts;
use stagewright_serving::{Report, Verdict, check};

use super::answer::{BoundSummary, ViolationSummary, bound_json};
use super::cluster::{is_same, made_for_another};
use super::compare::{Contest, Entered};
use super::options::no_effect;
use super::{
    Answer, Bounds, Checked, Document, Explaining, Kind, Measurements, PlanFile, Request, Session, Shown,
    Simulating, Size, SolverChoice, Task, json,
};
#[cfg(not(feature = "milp"))]
use crate::code::U013;
use crate::code::X001;
use crate::failure::{Failure, Result};
pub use compare::{
    ServingComparison, ServingRow, serving_contenders, serving_csv, serving_json, serving_table,
};
pub use question::{Serving, ServingOptions};

impl Serving {
    /// Reads a question or, if there is a plan, that of the plan.
    ///
    /// # Errors
    /// Options without effect (U013), a model that is no decoder (L023), or a question that contradicts itself (L024).
    pub(super) fn read(request: Request, plan: Option<&PlanFile<'_>>) -> Result<(Serving, Vec<String>)> {
        if let SolverChoice::Named(name) = &request.solver
            && name != NAME
        {
            return Err(no_effect("solver", &format!("a {}", Kind::Serving.name()), &request.place));
        }
        question::read(request, plan)
    }

    #[cfg(feature = "milp")]
    fn solved(&self, session: &mut Session<'_>) -> Result<(Solution, f64)> {
        let mut context = session.context();
        let solution = stagewright_replicas::solve(&self.problem, &mut context)
            .map_err(|error| Failure::new(X001, error.to_string()).at(self.label.clone()))?;
        let took = context.elapsed().as_secs_f64();
        Ok((solution, took))
    }

    #[cfg(not(feature = "milp"))]
    fn solved(&self, _session: &mut Session<'_>) -> Result<(Solution, f64)> {
        let cause =
            format!("this build cannot solve a {}: it needs the feature `milp`", Kind::Serving.name());
        Err(Failure::new(U013, cause).at(self.label.clone()).help("build with the default features"))
    }

    /// The answer as a document, with the reason if there is no plan.
    fn answered(&self, session: &mut Session<'_>) -> Result<ServingPlanDocument> {
        let (solution, took) = self.solved(session)?;
        let document = solution.document(&self.problem, &self.cluster, took);
        let mut document =
            ServingPlanDocument { model: self.label.clone(), options: self.options.clone(), ..document };
        if document.status == PlanStatus::Infeasible {
            document.reason = Some(reason::reason(&self.problem, session, |problem, session| {
                let mut context = session.context();
                solve_other(problem, &mut context)
            }));
        }
        Ok(document)
    }
}

/// Solves a changed problem; `None` if this build or machine cannot.
#[cfg(feature = "milp")]
fn solve_other(
    problem: &stagewright_serving::Problem,
    context: &mut stagewright_core::solver::Context<'_>,
) -> Option<Solution> {
    stagewright_replicas::solve(problem, context).ok()
}

/// The plan of a rule.
#[cfg(feature = "milp")]
fn ruled(
    task: &Serving,
    name: &str,
    session: &mut Session<'_>,
    observer: &mut dyn Observer,
) -> Result<ServingPlanDocument> {
    let mut context = session.options.context(observer);
    stagewright_replicas::rules::rule(&task.problem, &task.cluster, name, &mut context)
        .map_err(|error| error.to_string())
        .and_then(|plan| plan.ok_or_else(|| format!("unknown rule `{name}`")))
        .map_err(|cause| Failure::new(X001, cause).at(task.label.clone()))
}

#[cfg(not(feature = "milp"))]
fn ruled(
    task: &Serving,
    name: &str,
    _session: &mut Session<'_>,
    _observer: &mut dyn Observer,
) -> Result<ServingPlanDocument> {
    Err(Failure::new(X001, format!("unknown rule `{name}`")).at(task.label.clone()))
}

#[cfg(not(feature = "milp"))]
fn solve_other(
    _problem: &stagewright_serving::Problem,
    _context: &mut stagewright_core::solver::Context<'_>,
) -> Option<Solution> {
    None
}

impl Task for Serving {
    fn kind(&self) -> Kind {
        Kind::Serving
    }

    fn size(&self) -> Result<Size> {
        Ok(Size { parts: self.problem.model.layers.len(), devices: Some(self.problem.fleet.devices()) })
    }

    fn cluster(&self) -> Option<&ClusterDocument> {
        Some(&self.cluster)
    }

    fn plan(&self, file: PlanFile<'_>) -> Result<Document> {
        match file {
            PlanFile::Whole(_, document) => Ok(document),
            PlanFile::Placement { label, .. } => {
                Err(Failure::new(X001, "a placement is no serving plan").at(label))
            }
        }
    }

    fn difference(&self, plan: &Document) -> Option<&'static str> {
        match plan {
            Document::Serving(plan) => {
                (plan.question != self.problem.question).then_some("the plan is for another question")
            }
            _ => Some("the plan is for a question of another kind"),
        }
    }

    fn solve(&self, session: &mut Session<'_>) -> Result<Answer> {
        let document = self.answered(session)?;
        let sheet = page::ServingSheet(page::memory(&self.problem, &document));
        Ok(Answer::new(Document::Serving(Box::new(document)), sheet))
    }

    fn bounds(&self, session: &mut Session<'_>) -> Result<Bounds> {
        let document = self.answered(session)?;
        let (goal, bound) = (self.problem.question.goal, document.bound);
        let json = bound_json(&bound)?;
        Ok(Bounds {
            strongest: bound.value,
            is_infeasible: document.status == PlanStatus::Infeasible,
            is_cut_short: bound.value.is_none(),
            shown: Shown::new(json, move |width| facts([("bound", text::shown(goal, &bound))], width)),
        })
    }

    fn check(&self, plan: Document, label: &str, session: &mut Session<'_>) -> Result<Checked> {
        let plan = serving(plan)?;
        if !is_same(&self.cluster, &plan.cluster) {
            session.note(&made_for_another(label));
        }
        let report = check(&self.problem, &plan);
        Ok(Checked {
            holds: report.holds(),
            value: report.value,
            bound: plan.bound.value,
            is_proved: matches!(report.bound, Verdict::Verified { .. }),
            violations: report.violations.iter().map(ToString::to_string).collect(),
            shown: Shown::new(json(&Summary::new(&report))?, move |width| {
                text::checked(&plan, &report, width)
            }),
        })
    }

    fn explain(
        &self,
        plan: Document,
        label: &str,
        asked: Explaining<'_>,
        session: &mut Session<'_>,
    ) -> Result<Shown> {
        explain::explain(self, &serving(plan)?, label, asked, session)
    }

    fn entrants(
        &self,
        list: &[String],
        _choice: &dyn Fn(&str) -> Result<SolverChoice>,
    ) -> Result<Vec<Entered>> {
        compare::entrants(self, list)
    }

    fn rank(&self, contest: Contest<'_>, session: &mut Session<'_>) -> Result<ServingComparison> {
        compare::rank(self, contest, session)
    }

    fn calibrated(&self, plan: Document, label: &str, measured: &Measurements) -> Result<String> {
        match measured {
            Measurements::Serving(runs) => {
                let plan = serving(plan)?;
                let found = measured::Measured::new(self, &plan, label, runs)?;
                Ok(found.calibration(self, &plan).write() + "\n")
            }
            Measurements::Training(_) => {
                Err(Failure::new(X001, "a log of training beside a serving plan").at(label))
            }
        }
    }

    fn simulate(&self, plan: Document, label: &str, asked: &Simulating<'_>) -> Result<Shown> {
        simulate::run(self, &serving(plan)?, label, asked)
    }
}

/// The serving plan of a document.
fn serving(plan: Document) -> Result<ServingPlanDocument> {
    match plan {
        Document::Serving(plan) => Ok(*plan),
        other => Err(Failure::new(X001, format!("a plan of a {} has no replicas", other.kind().name()))),
    }
}

/// The report as JSON.
#[derive(Serialize)]
struct Summary {
    holds: bool,
    value: Option<f64>,
    bound: BoundSummary,
    violations: Vec<ViolationSummary>,
}

impl Summary {
    fn new(report: &Report) -> Summary {
        let (verdict, proved) = match report.bound {
            Verdict::NoClaim => ("no-claim", None),
            Verdict::NotVerified => ("not-verified", None),
            // Without a plan for the load, tables prove every number, which is infinite.
            Verdict::Verified { proved } => ("verified", Some(proved).filter(|proved| proved.is_finite())),
            Verdict::Refuted => ("refuted", None),
        };
        let violation = |violation: &stagewright_serving::Violation| ViolationSummary {
            kind: violation.kind,
            message: violation.to_string(),
        };
        Summary {
            holds: report.holds(),
            value: report.value,
            bound: BoundSummary { verdict, proved },
            violations: report.violations.iter().map(violation).collect(),
        }
    }
}
