//! `bound`: lower bounds by source.

use stagewright::bounds;
use stagewright::core::document::{BoundDocument, ObjectiveDocument};
use stagewright::core::solver::{Status, Stop};
use stagewright::report::document::{Provenance, plan_document};
use stagewright::report::table;
use stagewright::report::wrap::facts;

use super::args::BoundArguments;
use super::error::{CliError, Result};
use super::exit::Exit;
use super::{external, interrupt, joint, output, plan, resolve, strategies};

/// The output of `--json`.
#[derive(serde::Serialize)]
struct Bounds {
    objective: ObjectiveDocument,
    bounds: Vec<BoundDocument>,
    strongest: Option<BoundDocument>,
}

pub(crate) fn run(arguments: &BoundArguments, verbose: bool) -> Result<Exit> {
    if strategies::is_problem(&arguments.model.model) {
        return strategies::bound(arguments, verbose);
    }
    if arguments.parallel.parallel.is_some() {
        return joint::bound(arguments, verbose);
    }
    let objective = resolve::objective(&arguments.objective)?;
    let solving = resolve::solving(&arguments.solve)?;
    if arguments.solver.as_deref().is_some_and(|name| name.starts_with(external::PREFIX)) {
        return Err(CliError::new("U004", "a solver in another program proves no bound")
            .at("--solver")
            .help("leave it out, or name a solver of this program"));
    }
    let chosen = arguments.solver.as_deref().map(|name| resolve::solver(name, &objective)).transpose()?;
    let problem = resolve::problem(resolve::documents(&arguments.model)?, objective)?;
    let interrupt = interrupt::watch();
    let stop = Stop::new(solving.limits.time, interrupt.clone());
    let mut bounds: Vec<BoundDocument> = bounds::by_name(&problem, &stop)
        .into_iter()
        .map(|(name, found)| BoundDocument {
            value_s: found.as_ref().map(|bound| bound.value),
            source: name.into(),
            certificate: found
                .and_then(|bound| bound.certificate)
                .map(|certificate| certificate.to_document(&problem)),
        })
        .collect();
    let mut exit = Exit::Done;
    if let Some(chosen) = chosen {
        let solution = plan::solve(&problem, &chosen, &solving, &interrupt, verbose)?;
        if solution.status == Status::Infeasible {
            exit = Exit::Infeasible;
            output::note("infeasible: there is no plan to bound; `plan` explains why");
        }
        let provenance = Provenance { solver: chosen.label.clone(), seconds: 0.0, seed: solving.seed };
        let mut proved = plan_document(&problem, &solution, provenance).bound;
        proved.source = format!("{}: {}", chosen.label, proved.source);
        bounds.push(proved);
    }
    let value = |bound: &BoundDocument| bound.value_s.unwrap_or(f64::NEG_INFINITY);
    // The first on a tie, as in a plan.
    let strongest = bounds
        .iter()
        .rev()
        .filter(|bound| bound.value_s.is_some())
        .max_by(|a, b| value(a).total_cmp(&value(b)))
        .cloned();
    if arguments.json {
        let bounds = Bounds { objective: objective.to_document(None), bounds, strongest };
        output::data(&output::json(&bounds)?)?;
    } else if bounds.is_empty() {
        output::result("no bound applies to this objective\n")?;
    } else {
        let line = strongest.as_ref().map_or_else(|| "none".into(), table::bound);
        let lines = [("objective", table::objective(&objective.to_document(None))), ("strongest", line)];
        let width = output::width();
        output::result(&format!("{}\n{}", facts(lines, width), table::bounds(&bounds).text(width)))?;
    }
    Ok(exit)
}
