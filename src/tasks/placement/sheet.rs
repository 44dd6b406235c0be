//! A placement as a table, a page, a drawing or a timeline.

use std::io::{self, Write};

use stagewright_core::document::PlanDocument;
use stagewright_core::objective::Objective;
use stagewright_core::problem::Problem;
use stagewright_core::solver::Solution;
use stagewright_export::{ExportError, Placed, target};
use stagewright_report::convergence::Convergence;
use stagewright_report::html::{self, Page};
use stagewright_report::step::{Step, trace};
use stagewright_report::table;

use crate::failure::{Failure, Result};
use crate::tasks::Document;
use crate::tasks::answer::Sheet;

/// A solved problem.
pub(super) struct PlacementSheet {
    /// The model's label.
    pub(super) label: String,
    pub(super) problem: Problem,
    pub(super) solution: Solution,
}

/// The problem of one step, for placements made for another objective.
///
/// # Errors
/// If the costs do not form a valid problem for one step.
pub fn step_problem(problem: &Problem, label: &str) -> Result<Problem> {
    let execution = problem.objective().execution();
    problem.with_objective(Objective::Makespan { execution }).map_err(|error| Failure::problem(label, &error))
}

/// Name of the model in a report: its own name, otherwise its file.
pub fn model_name<'a>(problem: &'a Problem, label: &'a str) -> &'a str {
    match problem.graph().name() {
        "" => label,
        name => name,
    }
}

/// Name of the cluster in a report: its own name, otherwise the one given.
pub fn cluster_name<'a>(problem: &'a Problem, given: Option<&'a str>) -> &'a str {
    match (problem.cluster().document().name.as_str(), given) {
        ("", Some(given)) => given,
        ("", None) => "its own cluster",
        (name, _) => name,
    }
}

impl PlacementSheet {
    fn with_step<T>(&self, show: impl FnOnce(Option<&Step<'_>>) -> T) -> Result<T> {
        let Some(plan) = &self.solution.plan else { return Ok(show(None)) };
        let step = step_problem(&self.problem, &self.label)?;
        let played = plan.placement.as_step(self.problem.graph(), self.problem.objective().kind());
        Ok(show(Some(&Step::new(&step, &played))))
    }
}

impl Sheet for PlacementSheet {
    fn text(&self, document: &Document, width: Option<u16>) -> String {
        of(document)
            .map_or_else(String::new, |plan| table::plan(plan, self.problem.cluster().document(), width))
    }

    fn html(
        &self,
        document: &Document,
        cluster: Option<&str>,
        convergence: &Convergence,
        out: &mut dyn Write,
    ) -> Result<io::Result<()>> {
        let Some(document) = of(document) else { return Ok(Ok(())) };
        self.with_step(|step| {
            let page = Page {
                model: model_name(&self.problem, &self.label),
                cluster: cluster_name(&self.problem, cluster),
                problem: &self.problem,
                document,
                placement: self.solution.plan.as_ref().map(|plan| &plan.placement),
                step,
                convergence: Some(convergence),
                comparison: None,
            };
            html::write(&page, out)
        })
    }

    fn drawing(&self, document: &Document, label: &str) -> Result<Option<String>> {
        let Some(plan) = of(document).filter(|plan| !plan.devices.is_empty()) else { return Ok(None) };
        let cluster = self.problem.cluster().document();
        let drawing = Placed::new(plan, Some(self.problem.graph()), Some(cluster))
            .and_then(|placed| target("dot")?.export(&placed))
            .map_err(|error| unwritten(label, &error))?;
        Ok(Some(drawing.text))
    }

    fn has_step(&self) -> bool {
        self.solution.plan.is_some()
    }

    fn trace(&self, out: &mut dyn Write) -> Result<io::Result<()>> {
        self.with_step(|step| step.map_or(Ok(()), |step| trace::write(step, out)))
    }
}

fn of(document: &Document) -> Option<&PlanDocument> {
    match document {
        Document::Placement(plan) => Some(plan),
        _ => None,
    }
}

/// The error for a plan that cannot be exported, or for an unknown target.
pub fn unwritten(label: &str, error: &ExportError) -> Failure {
    let place = match error.place() {
        Some(path) => format!("{label}: {path}"),
        None => label.to_owned(),
    };
    Failure::new(error.code(), error.to_string()).at(place).help(error.help())
}
