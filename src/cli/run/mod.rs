//! `run`: a plan as a pipeline of processes on this machine, predicted and measured.

mod trace;

use std::collections::BTreeMap;
use std::path::Path;

use serde::Serialize;
use stagewright::core::cluster::Cluster;
use stagewright::core::document::{Communication, ObjectiveKind, PlanDocument, Schedule};
use stagewright::formats::PlanFile;
use stagewright::report::grid::{Column, Grid};
use stagewright::report::wrap::facts;
use stagewright::runtime::RunError;
use stagewright::runtime::pipeline::{self, Host, Measured, Run};
use stagewright::runtime::protocol::Throttle;

use super::args::RunArguments;
use super::error::{CliError, Result};
use super::exit::Exit;
use super::files::{self, Input};
use super::machine;
use super::model_options::{Kept, ModelOptions};
use super::{output, resolve};

/// The result, for programs.
#[derive(Debug, Serialize)]
struct Outcome {
    /// Predicted and measured seconds per sample.
    predicted_s: f64,
    measured_s: f64,
    /// Measured seconds per sample of every repeat.
    repeats_s: Vec<f64>,
    /// Predicted divided by measured, minus one.
    error: f64,
    /// Mean seconds of a sample from its start to its end.
    latency_s: f64,
    /// Largest difference to the outputs of the whole model, relative to the largest number of each.
    difference: Option<f64>,
    devices: Vec<OutcomeDevice>,
}

#[derive(Debug, Serialize)]
struct OutcomeDevice {
    name: String,
    segments: usize,
    predicted_compute_s: f64,
    measured_compute_s: f64,
    predicted_communication_s: f64,
    measured_communication_s: f64,
    /// Share of the time in which it computed.
    busy: f64,
    /// Largest resident memory in bytes.
    peak_memory_bytes: Option<u64>,
}

pub(crate) fn run(arguments: &RunArguments) -> Result<Exit> {
    files::outputs(&[
        ("--json", arguments.json.then_some(Path::new("-"))),
        ("--trace", arguments.trace.as_deref()),
    ])?;
    let host = machine::host(&arguments.host)?;
    let Input { label: plan_label, bytes } = files::read(&arguments.plan)?;
    let plan = PlanFile::read(&plan_label, &bytes)?;
    let kept = Kept::from_plan(&plan_label, plan.native());
    let options = ModelOptions::new(&arguments.import, None, kept)?;
    let (_, imported) = resolve::model(&arguments.model, &arguments.import, kept)?;
    let plan = plan.for_model(&imported)?;
    let predicted_s = runnable(&plan, &plan_label, &host)?;
    let folder = machine::folder()?;
    let (label, whole) =
        machine::whole(&arguments.model, &options.reading()?, &arguments.host, folder.path())?;
    let mut placement = BTreeMap::new();
    for (number, device) in plan.devices.iter().enumerate() {
        placement.extend(device.ops.iter().map(|name| (name.clone(), number)));
    }
    let run = Run {
        devices: plan.devices.iter().map(|device| device.name.clone()).collect(),
        placement,
        samples: arguments.samples,
        seed: arguments.host.seed,
        communication: plan.objective.communication,
        throttle: throttles(arguments, &plan)?,
        one_by_one: plan.objective.kind != ObjectiveKind::Throughput,
        compare: !arguments.no_compare,
    };
    let mut all: Vec<Measured> = Vec::new();
    for at in 0..arguments.repeat.max(1) {
        let run = Run { compare: run.compare && at == 0, ..run.clone() };
        match pipeline::run(&host, &whole, &run, folder.path()) {
            Ok(measured) => all.push(measured),
            Err(RunError::Interrupted) => break,
            Err(error) => return Err(machine::failed(&label, &error)),
        }
    }
    if all.is_empty() {
        output::note("note: interrupted before a run was finished");
        return Ok(Exit::NoPlan);
    }
    let outcome = outcome(&plan, predicted_s, &run, &all);
    if let (Some(path), Some(measured)) = (&arguments.trace, all.last()) {
        files::write_with(path, |file| trace::write(file, &plan, measured))?;
    }
    if arguments.json {
        output::data(&output::json(&outcome)?)?;
    } else {
        output::result(&table(&outcome, &run))?;
    }
    Ok(Exit::Done)
}

/// Rejects plans that cannot be run as processes; returns the predicted seconds per sample.
fn runnable(plan: &PlanDocument, label: &str, host: &Host) -> Result<f64> {
    let refused = |cause: String, help: &str| Err(machine::not_runnable(label, cause, help));
    let Some(value) = plan.objective.value_s else {
        return refused("the plan has no placement".into(), "give a plan that was found");
    };
    if plan.objective.schedule != Schedule::None {
        return refused(
            "the plan is for a schedule of training steps".into(),
            "give a plan for throughput or latency",
        );
    }
    if let Some(device) = plan.devices.iter().find(|device| device.replicas > 1) {
        let cause = format!("the stage of {} is replicated on {} devices", device.name, device.replicas);
        return refused(cause, "plan without --replicas");
    }
    let (devices, cores) = (plan.devices.len(), host.cores.len());
    if devices > cores {
        let cause = format!("the plan uses {devices} devices, and there are {cores} cores");
        return refused(
            cause,
            "plan for as many devices as cores: `profile --machine` writes such a cluster",
        );
    }
    Ok(value)
}

/// Limits on the links of the plan's devices.
fn throttles(arguments: &RunArguments, plan: &PlanDocument) -> Result<Vec<Option<Throttle>>> {
    let Some(path) = &arguments.throttle else { return Ok(Vec::new()) };
    let (label, cluster) = resolve::cluster_file(path)?;
    // Links that no transfer could pass are errors of the cluster.
    let cluster = Cluster::from_document(cluster).map_err(|error| CliError::cluster(&label, &error))?;
    let cluster = cluster.document();
    let limit = |kind: &str| {
        let kind = cluster.kinds.iter().find(|other| other.name == kind).ok_or_else(|| {
            let cause = format!("the cluster has no kind `{kind}`, on which the plan has a device");
            machine::not_runnable(&label, cause, "give the cluster that the plan was made for")
        })?;
        Ok(kind.link.map(|link| Throttle { bandwidth: link.bandwidth, latency_s: link.latency_s }))
    };
    plan.devices.iter().map(|device| limit(&device.kind)).collect()
}

/// Median; of an even number, the mean of the middle two.
fn median(numbers: impl Iterator<Item = f64>) -> f64 {
    let mut numbers: Vec<f64> = numbers.collect();
    numbers.sort_by(f64::total_cmp);
    let middle = numbers.len() / 2;
    match numbers.len() {
        0 => 0.0,
        count if count % 2 == 0 => 0.5 * (numbers[middle - 1] + numbers[middle]),
        _ => numbers[middle],
    }
}

fn outcome(plan: &PlanDocument, predicted_s: f64, run: &Run, all: &[Measured]) -> Outcome {
    let value =
        |measured: &Measured| if run.one_by_one { measured.latency_s } else { measured.seconds_per_sample };
    let measured_s = median(all.iter().map(value));
    let devices = plan.devices.iter().enumerate().map(|(number, device)| {
        let stages =
            || all.iter().filter_map(|measured| measured.stages.iter().find(|stage| stage.device == number));
        OutcomeDevice {
            name: device.name.clone(),
            segments: stages().next().map_or(0, |stage| stage.segments),
            predicted_compute_s: device.compute_s,
            measured_compute_s: median(stages().map(|stage| stage.compute_s)),
            predicted_communication_s: device.communication_s,
            measured_communication_s: median(stages().map(|stage| stage.communication_s)),
            busy: median(stages().map(|stage| stage.busy)),
            peak_memory_bytes: stages().filter_map(|stage| stage.report.peak_memory).max(),
        }
    });
    Outcome {
        predicted_s,
        measured_s,
        repeats_s: all.iter().map(value).collect(),
        error: predicted_s / measured_s - 1.0,
        latency_s: median(all.iter().map(|measured| measured.latency_s)),
        difference: all.first().and_then(|measured| measured.difference),
        devices: devices.collect(),
    }
}

fn table(outcome: &Outcome, run: &Run) -> String {
    let names =
        ["segments", "compute, ms", "measured", "communication, ms", "measured", "busy", "memory, MB"];
    let mut grid = Grid::of(&[(Column::Names, &["device"]), (Column::Figures, &names)]);
    let ms = |seconds: f64| format!("{:.3}", 1e3 * seconds);
    for device in &outcome.devices {
        grid.row([
            device.name.clone(),
            device.segments.to_string(),
            ms(device.predicted_compute_s),
            ms(device.measured_compute_s),
            ms(device.predicted_communication_s),
            ms(device.measured_communication_s),
            format!("{:.0}%", 100.0 * device.busy),
            device.peak_memory_bytes.map_or("-".into(), |bytes| format!("{:.0}", bytes as f64 / 1e6)),
        ]);
    }
    let width = output::width();
    let (low, high) =
        outcome.repeats_s.iter().fold((f64::INFINITY, 0.0_f64), |(low, high), &s| (low.min(s), high.max(s)));
    let spread = match outcome.repeats_s.len() {
        1 => String::new(),
        count => format!(", {} to {} in {count} runs", ms(low), ms(high)),
    };
    let what = if run.one_by_one { "latency" } else { "time per sample" };
    let communication = match run.communication {
        Communication::Serial => "between computations",
        Communication::Overlap | Communication::Duplex => "beside computations",
    };
    let mut lines = vec![
        (
            what,
            format!(
                "{} ms predicted, {} ms measured{spread}",
                ms(outcome.predicted_s),
                ms(outcome.measured_s)
            ),
        ),
        ("prediction", format!("{:+.1}%", 100.0 * outcome.error)),
        ("transfers", communication.to_owned()),
    ];
    if let Some(difference) = outcome.difference {
        lines.push((
            "outputs",
            format!("those of the whole model, to {difference:.0e} of the largest number"),
        ));
    }
    format!("{}\n{}", grid.text(width), facts(lines, width))
}
