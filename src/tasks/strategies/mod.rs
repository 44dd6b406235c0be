//! Strategy problems: a strategy for every node under a memory limit, in place of devices.

use std::io::{self, Write};

use serde::Serialize;
use stagewright_core::document::{
    OriginDocument, STRATEGY_PLAN_SCHEMA, StrategyBoundDocument, StrategyPlanDocument,
    StrategyProblemDocument,
};
use stagewright_core::solver::Status;
use stagewright_core::tolerance;
use stagewright_formats::{import_strategies, import_strategy_plan};
use stagewright_report::convergence::Convergence;
use stagewright_report::units::{percent, seconds};
use stagewright_report::wrap::facts;
use stagewright_shard::{self as shard, NAME, Problem, Request as ShardRequest, Solution};
use stagewright_verify::{StrategyReport, StrategyVerdict, check_strategies};

use super::answer::{BoundSummary, Sheet, ViolationSummary, bound_json, checked_text};
use super::options::no_effect;
use super::{
    Answer, Bounds, Checked, Document, Explaining, Kind, PlanFile, Request, Session, Shown, Size,
    SolverChoice, Task, json,
};
use crate::code::{U008, U013, X001};
use crate::failure::{Failure, Result};
use crate::files::Input;
use crate::reading::Place;

/// A strategy problem.
pub struct Strategies {
    label: String,
    question: Question,
    start: Option<StrategyPlanDocument>,
    place: Place,
}

/// The problem to solve, or the document of a plan's problem.
enum Question {
    /// A problem to be solved.
    Asked(Problem),
    /// The problem of a plan, as the document that the checker reads.
    Planned(Box<StrategyProblemDocument>),
}

impl Strategies {
    /// Reads a problem or, with `is_planned`, the document of a plan's problem.
    ///
    /// # Errors
    /// Options without effect (U013), or documents that are not valid.
    pub(super) fn read(request: Request, is_planned: bool) -> Result<Strategies> {
        let Request { model, options, place, start, solver, .. } = request;
        let is_other = match &solver {
            SolverChoice::None | SolverChoice::Auto => false,
            SolverChoice::Named(name) => name != NAME,
            SolverChoice::Own(..) => true,
        };
        let what = format!("a {}", Kind::Strategies.name());
        if is_other {
            return Err(no_effect("solver", &what, &place));
        }
        if let Some(name) = options.given.first() {
            return Err(no_effect(name, &what, &options.place));
        }
        let Input { label, bytes } = model.whole()?;
        let document = import_strategies(&label, &bytes)?;
        let question = match is_planned {
            true => Question::Planned(Box::new(document)),
            false => Question::Asked(Problem::new(document).map_err(|error| {
                Failure::new(error.code(), error.to_string()).at(label.clone()).help(error.help())
            })?),
        };
        let start = match start {
            None => None,
            Some(Input { label, bytes }) => Some(import_strategy_plan(&label, &bytes)?),
        };
        Ok(Strategies { label, question, start, place })
    }

    /// Solves the problem. Also returns the seconds that the solve took.
    fn solved(&self, request: ShardRequest<'_>, session: &mut Session<'_>) -> Result<(Solution, f64)> {
        let mut context = session.context();
        let solution = shard::solve(self.problem()?, request, &mut context).map_err(|error| {
            Failure::new(X001, error.to_string()).at(format!("{} {NAME}", (self.place)("solver")))
        })?;
        let took = context.elapsed().as_secs_f64();
        Ok((solution, took))
    }

    fn problem(&self) -> Result<&Problem> {
        match &self.question {
            Question::Asked(problem) => Ok(problem),
            Question::Planned(_) => Err(Failure::new(X001, "the problem was read for a plan")),
        }
    }

    fn document(&self) -> &StrategyProblemDocument {
        match &self.question {
            Question::Asked(problem) => problem.document(),
            Question::Planned(document) => document,
        }
    }
}

impl Task for Strategies {
    fn kind(&self) -> Kind {
        Kind::Strategies
    }

    fn size(&self) -> Result<Size> {
        Ok(Size { parts: self.document().nodes.intervals.len(), devices: None })
    }

    fn plan(&self, file: PlanFile<'_>) -> Result<Document> {
        match file {
            PlanFile::Whole(_, document) => Ok(document),
            PlanFile::Placement { label, .. } => {
                Err(Failure::new(X001, "a placement is no plan of strategies").at(label))
            }
        }
    }

    fn difference(&self, plan: &Document) -> Option<&'static str> {
        (plan.kind() != Kind::Strategies).then_some("the plan is for a question of another kind")
    }

    fn solve(&self, session: &mut Session<'_>) -> Result<Answer> {
        let request = ShardRequest {
            strategies: self.start.as_ref().map(|plan| &plan.strategies[..]),
            certificate: self.start.as_ref().and_then(|plan| plan.bound.certificate.as_ref()),
            root_only: false,
        };
        let (solution, took) = self.solved(request, session)?;
        let problem = self.problem()?;
        let document = document(problem, &solution, session.options.settings.seed, took);
        let sheet =
            StrategySheet { nodes: problem.node_count(), usage_limit: problem.document().usage_limit };
        Ok(Answer::new(Document::Strategies(Box::new(document)), sheet))
    }

    /// The bound at the root of the search tree.
    fn bounds(&self, session: &mut Session<'_>) -> Result<Bounds> {
        let request = ShardRequest { root_only: true, ..ShardRequest::default() };
        let (solution, _) = self.solved(request, session)?;
        let bound = bound_of(&solution);
        let json = bound_json(&bound)?;
        Ok(Bounds {
            strongest: bound.cost,
            is_infeasible: solution.status == Status::Infeasible,
            is_cut_short: bound.cost.is_none(),
            shown: Shown::new(json, move |width| facts([("bound", shown(&bound))], width)),
        })
    }

    fn check(&self, plan: Document, label: &str, _session: &mut Session<'_>) -> Result<Checked> {
        let plan = strategies(plan)?;
        let report = check_strategies(self.document(), &plan).map_err(|error| {
            Failure::new(error.code(), error.to_string())
                .at(format!("{}, {label}", self.label))
                .help("correct the named document; the plan itself was not checked")
        })?;
        Ok(Checked {
            holds: report.holds(),
            value: report.cost.map(|cost| cost as f64),
            bound: plan.bound.cost,
            is_proved: matches!(report.bound, StrategyVerdict::Verified { .. }),
            violations: report.violations.iter().map(ToString::to_string).collect(),
            shown: Shown::new(json(&Summary::new(&report))?, move |width| checked(&plan, &report, width)),
        })
    }

    fn explain(
        &self,
        _plan: Document,
        label: &str,
        _asked: Explaining<'_>,
        _session: &mut Session<'_>,
    ) -> Result<Shown> {
        Err(Failure::new(U008, "the costs of strategies have no parts to explain")
            .at(label)
            .help("`check` shows the cost and the peak usage of the plan"))
    }
}

/// The strategy plan in a document.
fn strategies(plan: Document) -> Result<StrategyPlanDocument> {
    match plan {
        Document::Strategies(plan) => Ok(*plan),
        other => Err(Failure::new(X001, format!("a plan of a {} has no strategies", other.kind().name()))),
    }
}

/// Data besides the document that showing a strategy plan needs.
struct StrategySheet {
    nodes: usize,
    usage_limit: Option<i64>,
}

impl Sheet for StrategySheet {
    fn text(&self, document: &Document, width: Option<u16>) -> String {
        match document {
            Document::Strategies(plan) => text(plan, self, width),
            _ => String::new(),
        }
    }

    fn html(
        &self,
        _document: &Document,
        _cluster: Option<&str>,
        _convergence: &Convergence,
        _out: &mut dyn Write,
    ) -> Result<io::Result<()>> {
        Err(Failure::new(U013, "a plan of strategies has no page"))
    }
}

fn bound_of(solution: &Solution) -> StrategyBoundDocument {
    let source = match solution.bound {
        None => "none",
        Some(_) if solution.is_of_tree => "branch-and-bound",
        Some(_) => NAME,
    };
    StrategyBoundDocument {
        cost: solution.bound,
        source: source.into(),
        certificate: solution.certificate.clone(),
    }
}

fn document(problem: &Problem, solution: &Solution, seed: u64, took: f64) -> StrategyPlanDocument {
    let known = solution.cost.zip(solution.bound);
    StrategyPlanDocument {
        schema: STRATEGY_PLAN_SCHEMA.into(),
        status: solution.status.into(),
        solver: NAME.into(),
        problem: problem.document().name.clone(),
        cost: solution.cost,
        peak_usage: solution.peak_usage,
        bound: bound_of(solution),
        gap: known.map(|(cost, bound)| tolerance::gap(cost as f64, bound)),
        seconds: took,
        seed,
        origin: Some(OriginDocument::of_library()),
        stop: solution.stop.map(|reason| reason.name().to_owned()),
        strategies: solution.strategies.clone().unwrap_or_default(),
    }
}

fn shown(bound: &StrategyBoundDocument) -> String {
    match bound.cost {
        Some(value) => format!("{} ({})", Kind::Strategies.amount(value), bound.source),
        None => "none".into(),
    }
}

/// Formats a plan for a terminal of `width` characters.
fn text(plan: &StrategyPlanDocument, sheet: &StrategySheet, width: Option<u16>) -> String {
    let mut lines = vec![("problem", format!("{}, {} nodes", plan.problem, sheet.nodes))];
    lines.push(("cost", plan.cost.map_or_else(|| "no plan".into(), |cost| cost.to_string())));
    lines.push(("bound", shown(&plan.bound)));
    lines.extend(plan.gap.map(|gap| ("gap", percent(gap))));
    if let Some(peak) = plan.peak_usage {
        let of = sheet.usage_limit.map(|limit| format!(" of {limit}")).unwrap_or_default();
        lines.push(("peak usage", format!("{peak}{of}")));
    }
    let stopped = plan.stop.as_ref().map(|stop| format!(", stopped by {stop}")).unwrap_or_default();
    lines.push(("status", format!("{}{stopped}", plan.status.name())));
    lines.push(("solver", format!("{}, {}", plan.solver, seconds(plan.seconds))));
    facts(lines, width)
}

fn verdict(verdict: StrategyVerdict) -> String {
    match verdict {
        StrategyVerdict::NoClaim => "not claimed".into(),
        StrategyVerdict::NotVerified { proved: None } => "not verified".into(),
        StrategyVerdict::NotVerified { proved: Some(proved) } => {
            format!("not verified, its certificate proves {}", Kind::Strategies.amount(proved))
        }
        StrategyVerdict::Verified { proved } => {
            format!("verified, its certificate proves {}", Kind::Strategies.amount(proved))
        }
        StrategyVerdict::Refuted => "refuted".into(),
    }
}

/// Formats the result of a check.
fn checked(plan: &StrategyPlanDocument, report: &StrategyReport, width: Option<u16>) -> String {
    let or_none = |figure: Option<i64>| figure.map_or_else(|| "none".into(), |figure| figure.to_string());
    let mut lines = vec![("cost", or_none(report.cost)), ("peak usage", or_none(report.peak_usage))];
    lines.extend(plan.cost.map(|cost| ("claimed", cost.to_string())));
    lines.push(("bound", format!("{}: {}", shown(&plan.bound), verdict(report.bound))));
    checked_text(lines, plan.status, report.peak_usage.is_some(), false, &report.violations, width)
}

/// The report as JSON.
#[derive(Serialize)]
struct Summary {
    holds: bool,
    cost: Option<i64>,
    peak_usage: Option<i64>,
    bound: BoundSummary,
    violations: Vec<ViolationSummary>,
}

impl Summary {
    fn new(report: &StrategyReport) -> Summary {
        let (verdict, proved) = match report.bound {
            StrategyVerdict::NoClaim => ("no-claim", None),
            StrategyVerdict::NotVerified { proved } => ("not-verified", proved),
            StrategyVerdict::Verified { proved } => ("verified", Some(proved)),
            StrategyVerdict::Refuted => ("refuted", None),
        };
        let violations = report.violations.iter();
        Summary {
            holds: report.holds(),
            cost: report.cost,
            peak_usage: report.peak_usage,
            bound: BoundSummary { verdict, proved },
            violations: violations
                .map(|violation| ViolationSummary { kind: violation.kind(), message: violation.to_string() })
                .collect(),
        }
    }
}
