//! `plan`, `bound` and `check` for strategy problems, which have strategies in place of devices.

use std::path::Path;

use serde::Serialize;
use stagewright::core::document::{
    PlanStatus, STRATEGY_PLAN_SCHEMA, StrategyBoundDocument, StrategyPlanDocument,
};
use stagewright::core::solver::{Context, Status};
use stagewright::core::tolerance;
use stagewright::formats::strategies::HEAD;
use stagewright::formats::{import_strategies, import_strategy_plan, is_strategies, write_strategy_plan};
use stagewright::report::units::{percent, seconds};
use stagewright::report::wrap::{self, facts};
use stagewright::shard::{self, NAME, Problem, Request, Solution};
use stagewright::text::visible;
use stagewright_verify::{StrategyReport, StrategyVerdict, check_strategies};

use super::args::{AroundArguments, BoundArguments, CheckArguments, ObjectiveArguments, PlanArguments};
use super::error::{CliError, Result};
use super::exit::Exit;
use super::files::{self, Input, at_most_one_standard};
use super::progress::Progress;
use super::resolve::{self, Solving};
use super::{interrupt, output};

/// Whether an input is a strategy problem.
pub(super) fn is_problem(path: &Path) -> bool {
    is_strategies(&files::head(path, HEAD))
}

/// `plan`.
pub(super) fn plan(arguments: &PlanArguments, verbose: bool) -> Result<Exit> {
    refuse(&[
        ("--robust", arguments.robust.is_some()),
        ("--simulations", arguments.simulations.is_some()),
        ("--checkpoint", arguments.checkpoint.is_some()),
        ("--dot", arguments.dot.is_some()),
        ("--trace", arguments.trace.is_some()),
        ("--html", arguments.html.is_some()),
        ("--convergence", arguments.convergence.is_some()),
        ("--solver", !["auto", NAME].contains(&&*arguments.solver)),
    ])?;
    refuse_around(&arguments.model.around, &arguments.objective)?;
    let outputs = [("--out", arguments.out.as_deref())];
    files::outputs(&outputs)?;
    let solving = resolve::solving(&arguments.solve)?;
    at_most_one_standard(&[Some(&arguments.model.model), arguments.start.as_deref()])?;
    let problem = read(&arguments.model.model)?;
    let start = arguments.start.as_deref().map(read_plan).transpose()?;
    let request = Request {
        strategies: start.as_ref().map(|plan| &plan.strategies[..]),
        certificate: start.as_ref().and_then(|plan| plan.bound.certificate.as_ref()),
        root_only: false,
    };
    let (solution, took) = solve(&problem, request, &solving, verbose)?;
    let document = document(&problem, &solution, solving.seed, took);
    let prints_json = arguments.json || arguments.out.as_deref().is_some_and(files::is_standard);
    match prints_json {
        true => output::data(&write_strategy_plan(&document))?,
        false => output::result(&text(&document, &problem, output::width()))?,
    }
    if let Some(path) = arguments.out.as_deref().filter(|path| !files::is_standard(path)) {
        files::write(path, &write_strategy_plan(&document))?;
    }
    Ok(match (solution.status, document.gap, solving.gap) {
        (Status::Infeasible, _, _) => Exit::Infeasible,
        _ if solution.cost.is_none() => Exit::NoPlan,
        (Status::Feasible, reached, Some(wanted)) if reached.is_none_or(|reached| reached > wanted) => {
            Exit::GapNotReached
        }
        _ => Exit::Done,
    })
}

/// `bound`: the bound without a tree.
pub(super) fn bound(arguments: &BoundArguments, verbose: bool) -> Result<Exit> {
    refuse(&[("--solver", arguments.solver.is_some())])?;
    refuse_around(&arguments.model.around, &arguments.objective)?;
    let solving = resolve::solving(&arguments.solve)?;
    let problem = read(&arguments.model.model)?;
    let request = Request { root_only: true, ..Request::default() };
    let (solution, _) = solve(&problem, request, &solving, verbose)?;
    let bound = bound_of(&solution);
    if solution.status == Status::Infeasible {
        output::note("infeasible: there is no plan to bound");
    }
    match arguments.json {
        true => output::data(&output::json(&Bounds { bounds: [&bound], strongest: &bound })?)?,
        false => output::result(&facts([("bound", shown(&bound))], output::width()))?,
    }
    Ok(match solution.status {
        Status::Infeasible => Exit::Infeasible,
        _ if bound.cost.is_none() => Exit::NoPlan,
        _ => Exit::Done,
    })
}

/// The output of `bound --json`.
#[derive(Serialize)]
struct Bounds<'b> {
    bounds: [&'b StrategyBoundDocument; 1],
    strongest: &'b StrategyBoundDocument,
}

/// `check`.
pub(super) fn check(arguments: &CheckArguments) -> Result<Exit> {
    refuse_around(&arguments.model.around, &arguments.objective)?;
    at_most_one_standard(&[Some(&arguments.model.model), Some(&arguments.plan)])?;
    let plan = read_plan(&arguments.plan)?;
    let report = report(&arguments.model.model, &plan, &arguments.plan.display().to_string())?;
    match arguments.json {
        true => output::data(&output::json(&Summary::new(&report))?)?,
        false => output::result(&checked(&plan, &report, output::width()))?,
    }
    Ok(if report.holds() { Exit::Done } else { Exit::Violation })
}

/// The answer to the request of `plan`.
pub(super) fn answer(arguments: &PlanArguments) -> Result<StrategyPlanDocument> {
    let problem = read(&arguments.model.model)?;
    let solving = resolve::solving(&arguments.solve)?;
    let (solution, took) = solve(&problem, Request::default(), &solving, false)?;
    Ok(document(&problem, &solution, solving.seed, took))
}

/// Checks the plan called `label`.
pub(super) fn report(model: &Path, plan: &StrategyPlanDocument, label: &str) -> Result<StrategyReport> {
    let Input { label: model, bytes } = files::read(model)?;
    let problem = import_strategies(&model, &bytes)?;
    check_strategies(&problem, plan).map_err(|error| {
        CliError::new(&format!("V:{}", error.code()), error.to_string())
            .at(format!("{model}, {label}"))
            .help("correct the named document; the plan itself was not checked")
    })
}

/// Refuses options that were given.
fn refuse(options: &[(&str, bool)]) -> Result<()> {
    match options.iter().find(|option| option.1) {
        Some((option, _)) => {
            Err(CliError::new("U013", format!("{option} does not apply to a strategy problem"))
                .at(*option)
                .help("leave it out"))
        }
        None => Ok(()),
    }
}

fn refuse_around(around: &AroundArguments, objective: &ObjectiveArguments) -> Result<()> {
    refuse(&[
        ("--cluster", around.cluster.is_some()),
        ("--pins", around.pins.is_some()),
        ("--memory-reserve", around.memory_reserve.is_some()),
    ])?;
    refuse(&objective.given())
}

fn read(path: &Path) -> Result<Problem> {
    let Input { label, bytes } = files::read(path)?;
    let document = import_strategies(&label, &bytes)?;
    Problem::new(document)
        .map_err(|error| CliError::new(error.code(), error.to_string()).at(label).help(error.help()))
}

fn read_plan(path: &Path) -> Result<StrategyPlanDocument> {
    let Input { label, bytes } = files::read(path)?;
    Ok(import_strategy_plan(&label, &bytes)?)
}

/// A cost for display.
fn cost(cost: f64) -> String {
    format!("{cost:.0}")
}

/// Solves a problem; also returns the seconds that took.
fn solve(
    problem: &Problem,
    request: Request<'_>,
    solving: &Solving,
    verbose: bool,
) -> Result<(Solution, f64)> {
    let mut progress = Progress::with_format(verbose, cost);
    let mut context = Context::new(solving.limits, interrupt::watch(), &mut progress);
    context.seed = solving.seed;
    context.threads = solving.threads;
    let solution = shard::solve(problem, request, &mut context)
        .map_err(|error| CliError::new("X001", error.to_string()).at(format!("--solver {NAME}")))?;
    let took = context.elapsed().as_secs_f64();
    Ok((solution, took))
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
        status: match solution.status {
            Status::Optimal => PlanStatus::Optimal,
            Status::Feasible => PlanStatus::Feasible,
            Status::Infeasible => PlanStatus::Infeasible,
            Status::Unknown => PlanStatus::Unknown,
        },
        solver: NAME.into(),
        problem: problem.document().name.clone(),
        cost: solution.cost,
        peak_usage: solution.peak_usage,
        bound: bound_of(solution),
        gap: known.map(|(cost, bound)| tolerance::gap(cost as f64, bound)),
        seconds: took,
        seed,
        stop: solution.stop.map(|reason| reason.name().to_owned()),
        strategies: solution.strategies.clone().unwrap_or_default(),
    }
}

fn shown(bound: &StrategyBoundDocument) -> String {
    match bound.cost {
        Some(value) => format!("{} ({})", cost(value), bound.source),
        None => "none".into(),
    }
}

/// Formats a plan for a terminal of `width` characters.
fn text(plan: &StrategyPlanDocument, problem: &Problem, width: Option<u16>) -> String {
    let mut lines = vec![("problem", format!("{}, {} nodes", plan.problem, problem.node_count()))];
    lines.push(("cost", plan.cost.map_or_else(|| "no plan".into(), |cost| cost.to_string())));
    lines.push(("bound", shown(&plan.bound)));
    lines.extend(plan.gap.map(|gap| ("gap", percent(gap))));
    if let Some(peak) = plan.peak_usage {
        let of = problem.document().usage_limit.map(|limit| format!(" of {limit}")).unwrap_or_default();
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
            format!("not verified, its certificate proves {}", cost(proved))
        }
        StrategyVerdict::Verified { proved } => format!("verified, its certificate proves {}", cost(proved)),
        StrategyVerdict::Refuted => "refuted".into(),
    }
}

/// Formats the result of a check.
fn checked(plan: &StrategyPlanDocument, report: &StrategyReport, width: Option<u16>) -> String {
    let or_none = |figure: Option<i64>| figure.map_or_else(|| "none".into(), |figure| figure.to_string());
    let mut lines = vec![("cost", or_none(report.cost)), ("peak usage", or_none(report.peak_usage))];
    lines.extend(plan.cost.map(|cost| ("claimed", cost.to_string())));
    lines.push(("bound", format!("{}: {}", shown(&plan.bound), verdict(report.bound))));
    lines.push((
        "result",
        match report.violations.len() {
            0 if plan.status == PlanStatus::Infeasible => "not verified: infeasibility".into(),
            0 if report.peak_usage.is_none() => "no plan to check".into(),
            0 => "the plan is feasible, and its claims hold".into(),
            1 => "1 violation".into(),
            count => format!("{count} violations"),
        },
    ));
    let mut text = facts(lines, width);
    if !report.violations.is_empty() {
        text.push('\n');
        for violation in &report.violations {
            text.push_str(&wrap::lines(&visible(&violation.to_string()), width));
        }
    }
    text
}

/// The output of `check --json`.
#[derive(Serialize)]
struct Summary {
    holds: bool,
    cost: Option<i64>,
    peak_usage: Option<i64>,
    bound: BoundSummary,
    violations: Vec<ViolationSummary>,
}

#[derive(Serialize)]
struct BoundSummary {
    verdict: &'static str,
    proved: Option<f64>,
}

#[derive(Serialize)]
struct ViolationSummary {
    kind: &'static str,
    message: String,
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
