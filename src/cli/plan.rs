//! `plan`: find a plan and prove how good it is.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use stagewright::core::problem::Problem;
use stagewright::core::solver::{Context, Solution, SolveError, Status};
use stagewright::diagnose::{Effort, diagnose};
use stagewright::formats::write_plan;
use stagewright::report::document::{Provenance, plan_document};
use stagewright::report::step::Step;
use stagewright::report::table;

use super::args::PlanArguments;
use super::error::CliError;
use super::exit::Exit;
use super::progress::Progress;
use super::resolve::{self, Chosen, Solving};
use super::{files, interrupt, output, simulate};

/// Most time that a diagnosis takes, of what the solve left of the time limit.
const DIAGNOSIS: Duration = Duration::from_secs(20);

pub(crate) fn run(arguments: &PlanArguments, verbose: bool) -> Result<Exit, CliError> {
    let objective = resolve::objective(&arguments.objective)?;
    let solving = resolve::solving(&arguments.solve)?;
    let chosen = resolve::solver(&arguments.solver, &objective)?;
    let documents = resolve::documents(&arguments.model, None)?;
    let problem = resolve::problem(documents, objective)?;
    let interrupt = interrupt::watch();
    if arguments.solver == "auto" && verbose {
        output::note(&format!("solver: {}", chosen.label));
    }
    let started = Instant::now();
    let solution = solve(&problem, &chosen, &solving, &interrupt, verbose)?;
    let elapsed = started.elapsed();
    let provenance =
        Provenance { solver: chosen.label.clone(), seconds: elapsed.as_secs_f64(), seed: solving.seed };
    let mut document = plan_document(&problem, &solution, provenance);
    if solution.status == Status::Infeasible {
        let why = explain(&problem, &chosen, &solving, elapsed, interrupt);
        document.reason = Some(document.reason.into_iter().chain(why).collect::<Vec<_>>().join("\n"));
    }
    let json = write_plan(&document);
    output::result(&if arguments.json {
        json.clone()
    } else {
        table::plan(&document, problem.cluster().document())
    })?;
    // Written after it is printed, so that a full disk does not lose the result.
    if let Some(path) = &arguments.out {
        files::write(path, &json)?;
    }
    match (&arguments.trace, &solution.plan) {
        (Some(path), Some(plan)) => {
            let problem = simulate::step_problem(&problem, &arguments.model.model.display().to_string())?;
            simulate::write_trace(path, &Step::of(&problem, &plan.placement))?;
        }
        (Some(_), None) => output::note("there is no plan, so no timeline was written"),
        (None, _) => {}
    }
    Ok(Exit::of(&solution, solving.gap))
}

/// Runs a solver under the limits, with progress on standard error.
pub(crate) fn solve(
    problem: &Problem,
    chosen: &Chosen,
    solving: &Solving,
    interrupt: &Arc<AtomicBool>,
    verbose: bool,
) -> Result<Solution, CliError> {
    let mut progress = Progress::new(verbose);
    let mut context = Context::new(solving.limits, interrupt.clone(), &mut progress);
    context.seed = solving.seed;
    context.threads = solving.threads;
    let outcome = chosen.solver.solve(problem, &mut context);
    progress.finish();
    outcome.map_err(|error| match error {
        SolveError::Unsupported { .. } => CliError::new("U004", error.to_string()).at("--solver"),
        _ => CliError::new("X001", error.to_string()).at(format!("--solver {}", chosen.solver.name())),
    })
}

/// Why there is no plan and what would give one, a line each.
fn explain(
    problem: &Problem,
    chosen: &Chosen,
    solving: &Solving,
    elapsed: Duration,
    interrupt: Arc<AtomicBool>,
) -> Vec<String> {
    let left = solving.limits.time.map_or(DIAGNOSIS, |limit| limit.saturating_sub(elapsed).min(DIAGNOSIS));
    let effort = Effort {
        solver: chosen.solver,
        time: left,
        memory: solving.limits.memory,
        threads: solving.threads,
        interrupt,
    };
    diagnose(problem, &effort).iter().map(ToString::to_string).collect()
}
