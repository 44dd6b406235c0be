//! `simulate` of a serving plan: requests through its replicas, event by event.

use serde::Serialize;
use stagewright_core::document::{ServingPlanDocument, ServingRole, ServingStatistic};
use stagewright_report::grid::{Column, Grid};
use stagewright_report::units::{percent, seconds};
use stagewright_report::wrap::facts;
use stagewright_serving::Problem;
use stagewright_serving::simulator::{
    Arrivals, Fleet, Group, MOST_REQUESTS, Outcome, Settings, Summary, TracedRequest, Traffic, simulate,
};

use super::question::{Serving, duration};
use super::text;
use crate::code::{U001, U008};
use crate::failure::{Failure, Result};
use crate::files::{self, Input};
use crate::tasks::{Shown, Simulating, json};

const SCHEMA: &str = "stagewright.serving-simulation/1";

/// Maximum number of events of a simulation.
pub(super) const EVENTS: u64 = 20_000_000;

/// A simulation as JSON.
#[derive(Clone, Serialize)]
struct Document {
    schema: &'static str,
    /// Arrivals, as they were asked for.
    arrivals: String,
    seed: u64,
    /// Seconds that were measured.
    seconds: f64,
    /// Whether the maximum number of events ended it.
    is_cut: bool,
    /// What planned times are.
    planned: ServingStatistic,
    classes: Vec<Class>,
    replicas: Vec<Replicas>,
}

/// A class of requests, beside the plan's figures.
#[derive(Clone, Serialize)]
struct Class {
    finished: u64,
    refused: u64,
    requests_per_s: f64,
    /// Null if no request finished.
    ttft_s: Option<Times>,
    /// Null if no request with several tokens finished.
    tpot_s: Option<Times>,
    /// Times by the formulas of the plan, weighted by rates; null where no replica has one.
    planned_ttft_s: Option<f64>,
    planned_tpot_s: Option<f64>,
}

/// A distribution of times in seconds.
#[derive(Clone, Serialize)]
struct Times {
    mean: f64,
    p50: f64,
    p95: f64,
    p99: f64,
}

/// Replicas of the plan with the mean batch of a rank, and the share of time in which they work.
#[derive(Clone, Serialize)]
struct Replicas {
    count: u64,
    role: ServingRole,
    stages: String,
    batch: f64,
    utilisation: f64,
}

/// Simulates a plan.
///
/// # Errors
/// If the plan has no replicas (U008), a replica is none of the model, or arrivals cannot be read (U001, L024).
pub(super) fn run(
    task: &Serving,
    plan: &ServingPlanDocument,
    label: &str,
    asked: &Simulating<'_>,
) -> Result<Shown> {
    if plan.replicas.is_empty() {
        return Err(Failure::new(U008, "the plan has no replicas")
            .at(label)
            .help("`plan` says why there are none"));
    }
    let problem = &task.problem;
    let groups = groups(problem, plan, label)?;
    let (arrivals, name) = arrivals(task, plan, asked)?;
    // A file of requests is measured from its beginning.
    let is_trace = arrivals.iter().any(|arrivals| matches!(arrivals, Arrivals::Trace(_)));
    let warm_up_s = if is_trace { 0.0 } else { asked.warm_up_s };
    let traffic = problem.classes.iter().zip(arrivals);
    let traffic = traffic.map(|(&class, arrivals)| Traffic { class, arrivals }).collect();
    let fleet = Fleet { traffic, groups, transfer: problem.fleet.transfer() };
    let settings = Settings { seed: asked.seed, warm_up_s, measured_s: asked.measured_s, events: EVENTS };
    let outcome = simulate(label, &fleet, &settings)?;
    let document = document(plan, &outcome, name, asked.seed);
    Ok(Shown::new(json(&document)?, move |width| shown(&document, width)))
}

/// The replicas of a plan as groups of a simulation.
///
/// # Errors
/// If a replica is none of the model and the cluster (U008).
pub(super) fn groups<'p>(
    problem: &'p Problem,
    plan: &ServingPlanDocument,
    label: &str,
) -> Result<Vec<Group<'p>>> {
    let mut groups = Vec::with_capacity(plan.replicas.len());
    for (index, document) in plan.replicas.iter().enumerate() {
        let replica =
            problem.given(&document.stages).filter(|_| (document.class as usize) < problem.classes.len());
        let Some(replica) = replica else {
            return Err(Failure::new(
                U008,
                format!("replicas[{index}] is no replica of the model and the cluster"),
            )
            .at(label)
            .help("`check` says what is wrong"));
        };
        groups.push(Group {
            class: document.class as usize,
            role: document.role,
            replica,
            count: document.count,
            // Replicas for prompts have no batch of sequences.
            batch: document.batch.max(1),
            weight: document.requests_per_s,
        });
    }
    Ok(groups)
}

/// Arrivals of every class, and their name.
fn arrivals(
    task: &Serving,
    plan: &ServingPlanDocument,
    asked: &Simulating<'_>,
) -> Result<(Vec<Arrivals>, String)> {
    let question = &task.problem.question;
    let shares: Vec<f64> = question.classes.iter().map(|class| class.share).collect();
    let text = match (asked.arrivals, question.rate, question.concurrency) {
        (Some(text), ..) => text.to_owned(),
        (None, Some(rate), _) => format!("poisson:{rate}"),
        (None, None, Some(concurrency)) => format!("closed:{concurrency}"),
        (None, None, None) => format!("poisson:{}", 0.9 * plan.requests_per_s.unwrap_or(0.0)),
    };
    let wrong = || {
        Failure::new(U001, format!("`{text}` cannot be read"))
            .at(asked.place.to_owned())
            .help("write poisson:12.5, closed:64, bursts:8:2s, or the path of a file of requests")
    };
    let whole = |share: f64, number: u64| (share * number as f64).round().max(1.0) as u64;
    // Each request is an event at least.
    let expected = |requests: f64| match requests <= EVENTS as f64 {
        true => Ok(()),
        false => {
            Err(Failure::new(U001, format!("`{text}` has some {requests:.0e} requests, more than {EVENTS}"))
                .at(asked.place.to_owned())
                .help("give fewer, or a shorter --duration"))
        }
    };
    let seconds = asked.warm_up_s + asked.measured_s;
    let parts: Vec<&str> = text.split(':').collect();
    let all: Vec<Arrivals> = match parts[..] {
        ["poisson", rate] => {
            let rate: f64 = rate.parse().map_err(|_| wrong())?;
            expected(rate * seconds)?;
            shares.iter().map(|share| Arrivals::Poisson { rate: rate * share }).collect()
        }
        ["closed", number] => {
            // The concurrency of a plan may be no whole number.
            let number: f64 = number.parse().map_err(|_| wrong())?;
            if !(1.0..=MOST_REQUESTS as f64).contains(&number) {
                return Err(wrong());
            }
            shares
                .iter()
                .map(|&share| Arrivals::Closed { concurrency: whole(share, number as u64) })
                .collect()
        }
        ["bursts", size, every] => {
            let size: u64 = size.parse().map_err(|_| wrong())?;
            let every_s = duration(every).filter(|_| size > 0).ok_or_else(wrong)?;
            expected(size as f64 * (1.0 + seconds / every_s))?;
            shares.iter().map(|&share| Arrivals::Bursts { size: whole(share, size), every_s }).collect()
        }
        _ if shares.len() == 1 => vec![Arrivals::Trace(trace(&text)?)],
        _ => {
            let cause = "a file of requests has no classes, and the plan has several";
            return Err(Failure::new(U001, cause).at(asked.place.to_owned()).help("plan one class"));
        }
    };
    Ok((all, text))
}

/// The requests of a file: a CSV with a header that has `arrival_s`, `input` and `output`.
fn trace(path: &str) -> Result<Vec<TracedRequest>> {
    let Input { label, bytes } = files::read(path.as_ref())?;
    let wrong = |line: usize, cause: &str| {
        Failure::new(U001, cause.to_owned())
            .at(format!("{label}:{line}"))
            .help("give a CSV with the columns arrival_s, input and output, in the order of arrivals")
    };
    let text = std::str::from_utf8(&bytes).map_err(|_| wrong(1, "the file is no text"))?;
    let mut lines = text.lines().enumerate();
    let header: Vec<&str> =
        lines.next().map_or_else(Vec::new, |(_, line)| line.split(',').map(str::trim).collect());
    let column = |name: &str| header.iter().position(|known| *known == name);
    let (Some(arrival), Some(input), Some(output)) = (column("arrival_s"), column("input"), column("output"))
    else {
        return Err(wrong(1, "the header lacks a column"));
    };
    let mut requests = Vec::new();
    for (index, line) in lines.filter(|(_, line)| !line.trim().is_empty()) {
        let cells: Vec<&str> = line.split(',').map(str::trim).collect();
        let cell = |column: usize| cells.get(column).copied().unwrap_or_default();
        let request = (|| {
            Some(TracedRequest {
                arrival_s: cell(arrival).parse().ok()?,
                input: cell(input).parse().ok()?,
                output: cell(output).parse().ok()?,
            })
        })();
        requests.push(request.ok_or_else(|| wrong(index + 1, "a number cannot be read"))?);
    }
    Ok(requests)
}

fn document(plan: &ServingPlanDocument, outcome: &Outcome, arrivals: String, seed: u64) -> Document {
    let times = |summary: &Summary, has_any: bool| {
        has_any.then_some(Times { mean: summary.mean, p50: summary.p50, p95: summary.p95, p99: summary.p99 })
    };
    let classes = outcome.classes.iter().enumerate().map(|(class, own)| Class {
        finished: own.finished,
        refused: own.refused,
        requests_per_s: own.requests_per_s,
        ttft_s: times(&own.ttft, own.finished > 0),
        tpot_s: times(&own.tpot, own.tpot.mean > 0.0),
        planned_ttft_s: planned(plan, class, |replica| replica.ttft_s),
        planned_tpot_s: planned(plan, class, |replica| replica.tpot_s),
    });
    let replicas = plan.replicas.iter().zip(&outcome.groups).map(|(replica, own)| Replicas {
        count: replica.count,
        role: replica.role,
        stages: text::stages(replica, &plan.cluster),
        batch: own.batch,
        utilisation: own.utilisation,
    });
    Document {
        schema: SCHEMA,
        arrivals,
        seed,
        seconds: outcome.seconds,
        is_cut: outcome.is_cut,
        planned: plan.question.limits,
        classes: classes.collect(),
        replicas: replicas.collect(),
    }
}

/// Mean of a time over the replicas of a class that have it, weighted by their rates.
fn planned(
    plan: &ServingPlanDocument,
    class: usize,
    time: impl Fn(&stagewright_core::document::ReplicaDocument) -> Option<f64>,
) -> Option<f64> {
    let own = plan.replicas.iter().filter(|replica| replica.class as usize == class);
    let (mut sum, mut rates) = (0.0, 0.0);
    for (seconds, replica) in own.filter_map(|replica| Some((time(replica)?, replica))) {
        let rate = replica.count as f64 * replica.requests_per_s;
        sum += rate * seconds;
        rates += rate;
    }
    (rates > 0.0).then(|| sum / rates)
}

fn shown(document: &Document, width: Option<u16>) -> String {
    let cut = if document.is_cut { ", ended by the maximum number of events" } else { "" };
    let finished: u64 = document.classes.iter().map(|class| class.finished).sum();
    let refused: u64 = document.classes.iter().map(|class| class.refused).sum();
    let refused = if refused > 0 { format!(", {refused} refused") } else { String::new() };
    let mut text = facts(
        [
            ("arrivals", document.arrivals.clone()),
            ("measured", format!("{}{cut}", seconds(document.seconds))),
            ("requests", format!("{finished} finished{refused}")),
        ],
        width,
    );
    text.push('\n');
    let mut grid = Grid::new([
        ("class", Column::Figures),
        ("time", Column::Keys),
        ("planned", Column::Figures),
        ("mean", Column::Figures),
        ("p50", Column::Figures),
        ("p95", Column::Figures),
        ("p99", Column::Figures),
        ("requests/s", Column::Figures),
    ]);
    let mark = if document.planned.is_mean() { "" } else { " (p95)" };
    for (index, class) in document.classes.iter().enumerate() {
        let rows =
            [("TTFT", &class.ttft_s, class.planned_ttft_s), ("TPOT", &class.tpot_s, class.planned_tpot_s)];
        for (name, times, planned) in rows {
            let shown = |time: fn(&Times) -> f64| {
                times.as_ref().map_or_else(String::new, |times| seconds(time(times)))
            };
            let rate = if name == "TTFT" { format!("{:.3}", class.requests_per_s) } else { String::new() };
            grid.row([
                index.to_string(),
                name.to_owned(),
                planned.map_or_else(String::new, |time| format!("{}{mark}", seconds(time))),
                shown(|times| times.mean),
                shown(|times| times.p50),
                shown(|times| times.p95),
                shown(|times| times.p99),
                rate,
            ]);
        }
    }
    text.push_str(&grid.text(width));
    text.push('\n');
    let mut grid = Grid::new([
        ("replicas", Column::Figures),
        ("role", Column::Words),
        ("stages", Column::Words),
        ("batch", Column::Figures),
        ("busy", Column::Figures),
    ]);
    for replicas in &document.replicas {
        grid.row([
            replicas.count.to_string(),
            replicas.role.name().to_owned(),
            replicas.stages.clone(),
            format!("{:.1}", replicas.batch),
            percent(replicas.utilisation),
        ]);
    }
    text.push_str(&grid.text(width));
    text
}
