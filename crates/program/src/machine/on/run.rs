//! `run`: runs a plan as a pipeline of processes on this machine, and compares predicted with measured times.

use std::collections::BTreeMap;
use std::path::Path;

use stagewright::core::cluster::Cluster;
use stagewright::core::document::{PlanDocument, Schedule};
use stagewright::report::html;
use stagewright::report::run::{RunActivity, RunDevice, RunOutcome, RunSpan, is_pipeline, predicted, trace};
use stagewright::runtime::RunError;
use stagewright::runtime::pipeline::{self, Host, Measured, Run};
use stagewright::runtime::protocol::{SpanKind, Throttle};
use stagewright::tasks::{Kind, PlanFile};

use super as machine;
use crate::args::RunArguments;
use crate::error::{CliError, Result};
use crate::exit::Exit;
use crate::files::{self, Input, Outputs};
use crate::model_options::{Kept, model_options};
use crate::{output, resolve};

pub(crate) fn run(arguments: &RunArguments) -> Result<Exit> {
    let outputs = files::outputs(&[
        ("--json", arguments.json.then_some(Path::new("-"))),
        ("--trace", arguments.trace.as_deref()),
        ("--html", arguments.html.as_deref()),
    ])?;
    files::at_most_one_standard(&[
        Some(&arguments.model),
        Some(&arguments.plan),
        arguments.throttle.as_deref(),
    ])?;
    let Input { label: plan_label, bytes } = files::read(&arguments.plan)?;
    let plan = PlanFile::read(Kind::Placement, &plan_label, &bytes)?;
    let options = model_options(&arguments.import, Kept::of(&plan))?;
    // A model that cannot run needs no runtime.
    let mut model = machine::model(&arguments.model, &options)?;
    let host = machine::host(&arguments.host)?;
    let plan = resolve::placed(plan, &model.imported, None)?;
    let predicted_s = runnable(&plan, &plan_label, &host)?;
    let folder = machine::folder()?;
    machine::move_weights(&mut model, &arguments.model, &arguments.host, folder.path())?;
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
        one_by_one: !is_pipeline(&plan.objective),
        compare: !arguments.no_compare,
    };
    let mut all: Vec<Measured> = Vec::new();
    for at in 0..arguments.repeat.max(1) {
        let run = Run { compare: run.compare && at == 0, ..run.clone() };
        match pipeline::run(&host, &model.whole, &run, folder.path()) {
            Ok(measured) => all.push(measured),
            Err(RunError::Interrupted) => break,
            Err(error) => return Err(machine::failed(&model.label, &error)),
        }
    }
    if all.is_empty() {
        output::note("note: interrupted before a run was finished");
        return Ok(Exit::NoPlan);
    }
    let outcome = outcome(&plan, predicted_s, &run, &all);
    if let Some(measured) = all.last().filter(|_| arguments.trace.is_some() || arguments.html.is_some()) {
        write_timeline(arguments, &model.label, &plan, &outcome, measured)?;
    }
    if arguments.json {
        output::data(&output::json(&outcome)?)?;
    } else if outputs == Outputs::Files {
        output::result(&outcome.table(&plan.objective, output::width()))?;
    }
    Ok(Exit::Done)
}

/// Writes the timeline of the devices in a run, as a trace and as a page.
fn write_timeline(
    arguments: &RunArguments,
    model: &str,
    plan: &PlanDocument,
    outcome: &RunOutcome,
    measured: &Measured,
) -> Result<()> {
    let (samples, spans) = timeline(plan, measured);
    if let Some(path) = &arguments.trace {
        let devices: Vec<&str> = plan.devices.iter().map(|device| device.name.as_str()).collect();
        files::write_with(path, |file| trace::write(file, &devices, &spans))?;
    }
    if let Some(path) = &arguments.html {
        let page = html::run::RunPage { model, plan, outcome, spans: &spans, samples };
        files::write_with(path, |file| html::run::write(&page, file))?;
    }
    Ok(())
}

/// Rejects plans that cannot run as processes; returns the predicted seconds per sample.
fn runnable(plan: &PlanDocument, label: &str, host: &Host) -> Result<f64> {
    let refused = |cause: String, help: &str| Err(machine::not_runnable(label, cause, help));
    let Some(value) = plan.objective.value_s else {
        return refused("the plan predicts no time".into(), "give a plan that `plan` found");
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

/// The limits to which the links of the plan's devices are throttled.
fn throttles(arguments: &RunArguments, plan: &PlanDocument) -> Result<Vec<Option<Throttle>>> {
    let Some(path) = &arguments.throttle else { return Ok(Vec::new()) };
    let (label, cluster) = resolve::cluster_file(path)?;
    // Rejects a cluster with links that no transfer could pass.
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

/// The median; for an even count, the mean of the middle two.
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

fn outcome(plan: &PlanDocument, predicted_s: f64, run: &Run, all: &[Measured]) -> RunOutcome {
    let value =
        |measured: &Measured| if run.one_by_one { measured.latency_s } else { measured.seconds_per_sample };
    let measured_s = median(all.iter().map(value));
    let devices = plan.devices.iter().enumerate().map(|(number, device)| {
        let stages =
            || all.iter().filter_map(|measured| measured.stages.iter().find(|stage| stage.device == number));
        RunDevice {
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
    RunOutcome {
        predicted_s,
        measured_s,
        repeats_s: all.iter().map(value).collect(),
        error: predicted_s / measured_s - 1.0,
        latency_s: median(all.iter().map(|measured| measured.latency_s)),
        difference: all.first().and_then(|measured| measured.difference),
        devices: devices.collect(),
    }
}

/// Number of samples in a run, and the activities of its devices, measured and as the plan predicts them.
fn timeline(plan: &PlanDocument, measured: &Measured) -> (u32, Vec<RunSpan>) {
    let all = || {
        measured.stages.iter().flat_map(|stage| stage.report.spans.iter().map(|span| (stage.device, span)))
    };
    let start = all().map(|(_, span)| span.start_ns).min().unwrap_or(0);
    let samples = all().map(|(_, span)| span.sample + 1).max().unwrap_or(0);
    let after = |ns: u64| ns.saturating_sub(start) as f64 * 1e-9;
    let happened = all().map(|(device, span)| RunSpan {
        device,
        activity: match span.kind {
            SpanKind::Run => RunActivity::Compute,
            SpanKind::Send => RunActivity::Send,
            SpanKind::Receive => RunActivity::Receive,
        },
        sample: span.sample,
        start_s: after(span.start_ns),
        end_s: after(span.end_ns.max(span.start_ns)),
    });
    (samples, happened.chain(predicted(plan, samples)).collect())
}
