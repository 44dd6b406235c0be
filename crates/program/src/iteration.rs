//! `simulate --schedule`: simulates an iteration of a pipeline schedule.

use stagewright::code::U001;
use stagewright::core::document::{PlanDocument, Schedule};
use stagewright::core::evaluate::{Violation, evaluate};
use stagewright::core::objective::Throughput;
use stagewright::core::tolerance;
use stagewright::core::units::bytes_apart;
use stagewright::placement::placement;
use stagewright::report::schedule::IterationReport;
use stagewright::tasks::placement::Documents;

use super::args::SimulateArguments;
use super::error::{CliError, Result};
use super::exit::Exit;
use super::output;

/// Simulates the stages of a plan under a schedule, with their loads under the plan's own rules.
pub(crate) fn run(
    arguments: &SimulateArguments,
    schedule: Schedule,
    documents: Documents,
    plan: &PlanDocument,
    label: &str,
) -> Result<Exit> {
    let microbatches = arguments.microbatches.or(plan.objective.microbatches).ok_or_else(|| {
        CliError::new(U001, "an iteration needs a number of microbatches, and the plan does not state one")
            .at("--schedule")
            .help("add --microbatches M")
    })?;
    // A plan has one stage per device. The whole stages are evaluated under a schedule with one; the report divides them
    // into chunks.
    // Iterations of a plan do not overlap, so the stages of zero-bubble-2p are evaluated under zero-bubble.
    let whole = match schedule {
        Schedule::Interleaved => Schedule::OneFOneB,
        Schedule::DualPipeV => Schedule::ZeroBubble,
        Schedule::ZeroBubbleTwice => Schedule::ZeroBubble,
        other => other,
    };
    let objective = Throughput {
        schedule: whole,
        microbatches,
        communication: plan.objective.communication,
        max_replicas: plan.objective.max_replicas.unwrap_or(1),
        ..Throughput::default()
    };
    let problem = documents.problem(objective.into())?;
    let placement = placement(&problem, plan).map_err(|error| CliError::placement(label, &error))?;
    // Memory is checked below against the report, which takes the chunks into account.
    let is_memory = |violation: &Violation| matches!(violation, Violation::Memory { .. });
    for violation in evaluate(&problem, &placement).violations.iter().filter(|it| !is_memory(it)) {
        output::note(&format!("note: the plan is infeasible under this schedule: {violation}"));
    }
    let chunks = arguments.chunks.unwrap_or(if schedule == Schedule::DualPipeV { 2 } else { 1 });
    let report = IterationReport::new(&problem, &placement, schedule, chunks)
        .map_err(|error| CliError::new(error.code(), error.to_string()).at(label).help(error.help()))?;
    for device in &report.devices {
        if let Some(limit) = device.memory_bytes.filter(|&limit| !tolerance::fits(device.peak_bytes, limit)) {
            let (name, [peak, limit]) = (&device.name, bytes_apart(device.peak_bytes, limit));
            output::note(&format!("note: under this schedule {name} needs {peak} of {limit}"));
        }
    }
    match arguments.json {
        true => output::data(&output::json(&report)?)?,
        false => output::result(&report.text(output::width()))?,
    }
    Ok(Exit::Done)
}
