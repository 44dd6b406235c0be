//! `explain` of a serving plan: what binds each replica, what one more device is worth, and what other limits give.

use std::time::Instant;

use serde::Serialize;
use stagewright_core::document::{ReplicaDocument, ServingGoal, ServingPlanDocument, ServingRole};
use stagewright_report::grid::{Column, Grid};
use stagewright_report::html::serving::{Explained, Point, WhatIf};
use stagewright_report::units::{percent, seconds};
use stagewright_report::wrap::facts;
use stagewright_serving::Problem;

use super::measured::Measured;
use super::question::Serving;
use super::{page, solve_other, text};
use crate::code::U008;
use crate::failure::{Failure, Result};
use crate::tasks::{Explaining, Measurements, Session, Shown, json};

const SCHEMA: &str = "stagewright.serving-explanation/1";

/// Share of a limit from which it binds.
const BINDING: f64 = 0.98;

/// Multiples of limits on times, whose best plans make the frontier.
const FRONTIER: [f64; 6] = [0.5, 0.75, 1.0, 1.5, 2.0, 4.0];

/// An explanation as JSON.
#[derive(Clone, Serialize)]
struct Document {
    schema: &'static str,
    goal: ServingGoal,
    value: f64,
    replicas: Vec<Binding>,
    /// Requests a second of every class by pool; null for a class without pools.
    pools: Vec<Option<Pools>>,
    what_ifs: Vec<WhatIf>,
    frontier: Vec<Point>,
    #[serde(skip_serializing_if = "Option::is_none")]
    measured: Option<Measured>,
}

/// A replica with what keeps it from serving more.
#[derive(Clone, Serialize)]
struct Binding {
    count: u64,
    role: ServingRole,
    stages: String,
    binds: Vec<&'static str>,
}

/// Requests a second that pools of a class serve.
#[derive(Clone, Serialize)]
struct Pools {
    prefill: f64,
    decode: f64,
}

/// Explains a plan.
///
/// # Errors
/// If the plan has no value (U008).
pub(super) fn explain(
    task: &Serving,
    plan: &ServingPlanDocument,
    label: &str,
    asked: Explaining<'_>,
    session: &mut Session<'_>,
) -> Result<Shown> {
    let Some(value) = plan.value else {
        let help = "`plan` says why there is none";
        return Err(Failure::new(U008, "the plan has no value to explain").at(label).help(help));
    };
    let problem = &task.problem;
    for (index, replica) in plan.replicas.iter().enumerate() {
        let is_known =
            problem.classes.len() > replica.class as usize && problem.given(&replica.stages).is_some();
        if !is_known {
            let cause = format!("replicas[{index}] is no replica of the model and the cluster");
            return Err(Failure::new(U008, cause).at(label).help("`check` says what is wrong"));
        }
    }
    let replicas = plan.replicas.iter().map(|replica| Binding {
        count: replica.count,
        role: replica.role,
        stages: text::stages(replica, &plan.cluster),
        binds: binding(problem, replica),
    });
    let replicas = replicas.collect();
    let pools = (0..problem.classes.len()).map(|class| pools(plan, class as u32)).collect();
    let (what_ifs, frontier) = match asked.what_if {
        true => {
            let mut asking = Asking::new(session);
            (what_ifs(task, &mut asking), frontier(problem, &mut asking))
        }
        false => (Vec::new(), Vec::new()),
    };
    let goal = problem.question.goal;
    let measured = match asked.measured {
        Some(Measurements::Serving(runs)) => Some(Measured::new(task, plan, label, runs)?),
        Some(Measurements::Training(_)) | None => None,
    };
    let document = Document { schema: SCHEMA, goal, value, replicas, pools, what_ifs, frontier, measured };
    let explained = Explained {
        binds: document.replicas.iter().map(|replica| replica.binds.clone()).collect(),
        what_ifs: document.what_ifs.clone(),
        frontier: document.frontier.clone(),
    };
    let (plan, memory) = (plan.clone(), page::memory(problem, plan));
    let shown = Shown::new(json(&document)?, move |width| shown(&document, width));
    Ok(shown.with_page(move |out| page::write(&plan, &memory, Some(&explained), out)))
}

/// What keeps a replica from serving more requests.
fn binding(problem: &Problem, replica: &ReplicaDocument) -> Vec<&'static str> {
    let question = &problem.question;
    let class = problem.classes.get(replica.class as usize);
    let reaches = |time: Option<f64>, limit: Option<f64>| {
        time.zip(limit).is_some_and(|(time, limit)| time >= BINDING * limit)
    };
    let data: u64 = replica.stages.first().map_or(1, |stage| stage.data);
    let sequences = replica.batch.saturating_add(1).saturating_mul(data);
    let needed = class.map_or(0, |class| sequences.saturating_mul(class.longest()));
    let mut binds = Vec::new();
    if reaches(replica.ttft_s, question.ttft_s) {
        binds.push("TTFT");
    }
    if reaches(replica.tpot_s, question.tpot_s) {
        binds.push("TPOT");
    }
    if replica.role != ServingRole::Prefill && needed > replica.cache_tokens {
        binds.push("memory");
    }
    if replica.role != ServingRole::Prefill && question.max_batch.is_some_and(|limit| replica.batch >= limit)
    {
        binds.push("batch");
    }
    if replica.utilisation.is_some_and(|share| share >= BINDING * stagewright_serving::fleet::BUSIEST) {
        binds.push("time");
    }
    if binds.is_empty() {
        binds.push("load");
    }
    binds
}

/// Rates of the pools of a class.
fn pools(plan: &ServingPlanDocument, class: u32) -> Option<Pools> {
    let rate = |role| -> f64 {
        let own = plan.replicas.iter().filter(|replica| replica.role == role && replica.class == class);
        own.map(|replica| replica.count as f64 * replica.requests_per_s).sum()
    };
    let (prefill, decode) = (rate(ServingRole::Prefill), rate(ServingRole::Decode));
    (prefill > 0.0 || decode > 0.0).then_some(Pools { prefill, decode })
}

/// Changed questions, all within one limit of time.
struct Asking<'s, 'o> {
    session: &'s mut Session<'o>,
    started: Instant,
}

impl<'s, 'o> Asking<'s, 'o> {
    fn new(session: &'s mut Session<'o>) -> Asking<'s, 'o> {
        Asking { session, started: Instant::now() }
    }

    /// The value of the best plan of a changed question; `None` if there is none, or no time is left.
    fn value(&mut self, name: String, problem: &Problem) -> Option<f64> {
        self.session.begin(name);
        let limit = self.session.options.settings.limits.time;
        let left = limit.map(|limit| limit.saturating_sub(self.started.elapsed()));
        let options = self.session.options.clone().time_limit(left);
        let mut context = options.context(self.session.observer);
        solve_other(problem, &mut context)?.plan.map(|plan| plan.value)
    }
}

/// One more device of each kind, and one less.
fn what_ifs(task: &Serving, asking: &mut Asking<'_, '_>) -> Vec<WhatIf> {
    let problem = &task.problem;
    let mut found = Vec::new();
    for kind in 0..problem.fleet.kinds.len() {
        let name = text::kind(&problem.fleet.kinds[kind].name, &task.cluster);
        let mut changed = |change: String, count: u64| {
            let mut other = problem.clone();
            other.fleet.kinds[kind].count = count;
            let value = asking.value(format!("what if: {change}"), &other);
            found.push(WhatIf { change, value });
        };
        let count = problem.fleet.kinds[kind].count;
        changed(format!("one more {name}"), count + 1);
        if count > 1 {
            changed(format!("one {name} fails"), count - 1);
        }
    }
    found
}

/// The best plans within multiples of the limits.
fn frontier(problem: &Problem, asking: &mut Asking<'_, '_>) -> Vec<Point> {
    let (ttft, tpot) = (problem.question.ttft_s, problem.question.tpot_s);
    let scaled = |limit: Option<f64>, factor: f64| limit.map(|limit| limit * factor);
    let mut limits = Vec::new();
    if tpot.is_some() {
        limits.extend(FRONTIER.map(|factor| (ttft, scaled(tpot, factor))));
    }
    if ttft.is_some() {
        let others = FRONTIER.into_iter().filter(|&factor| factor != 1.0 || tpot.is_none());
        limits.extend(others.map(|factor| (scaled(ttft, factor), tpot)));
    }
    let point = |(ttft_s, tpot_s)| {
        let mut other = problem.clone();
        other.question.ttft_s = ttft_s;
        other.question.tpot_s = tpot_s;
        Point { ttft_s, tpot_s, value: asking.value("frontier of limits".to_owned(), &other) }
    };
    limits.into_iter().map(point).collect()
}

fn shown(document: &Document, width: Option<u16>) -> String {
    let goal = document.goal;
    let mut rows = vec![(goal.name(), text::amount(goal, document.value))];
    for pools in document.pools.iter().flatten() {
        let Pools { prefill, decode } = pools;
        let idle = 1.0 - prefill.min(*decode) / prefill.max(*decode);
        let idler = if prefill > decode { "prefill" } else { "decode" };
        let text = format!(
            "prefill {prefill:.3}, decode {decode:.3} requests/s; {} of {idler} is idle",
            percent(idle)
        );
        rows.push(("pools", text));
    }
    let mut text = facts(rows, width);
    text.push('\n');
    let mut grid = Grid::new([
        ("replicas", Column::Figures),
        ("role", Column::Words),
        ("stages", Column::Words),
        ("bound by", Column::Words),
    ]);
    for replica in &document.replicas {
        grid.row([
            replica.count.to_string(),
            replica.role.name().to_owned(),
            replica.stages.clone(),
            replica.binds.join(", "),
        ]);
    }
    text.push_str(&grid.text(width));
    let amount =
        |value: Option<f64>| value.map_or_else(|| "no plan".into(), |value| text::amount(goal, value));
    let change = |value: Option<f64>| match value {
        Some(value) if document.value > 0.0 => format!("{:+.1}%", 100.0 * (value / document.value - 1.0)),
        _ => String::new(),
    };
    if !document.what_ifs.is_empty() {
        text.push('\n');
        let mut grid =
            Grid::new([("what if", Column::Words), ("value", Column::Figures), ("change", Column::Figures)]);
        for what_if in &document.what_ifs {
            grid.row([what_if.change.clone(), amount(what_if.value), change(what_if.value)]);
        }
        text.push_str(&grid.text(width));
    }
    if !document.frontier.is_empty() {
        text.push('\n');
        let mut grid = Grid::new([
            ("TTFT at most", Column::Figures),
            ("TPOT at most", Column::Figures),
            ("value", Column::Figures),
            ("change", Column::Figures),
        ]);
        let limit = |limit: Option<f64>| limit.map_or_else(|| "any".into(), seconds);
        for point in &document.frontier {
            grid.row([limit(point.ttft_s), limit(point.tpot_s), amount(point.value), change(point.value)]);
        }
        text.push_str(&grid.text(width));
    }
    text.extend(document.measured.as_ref().map(|measured| measured.text(width)));
    text
}
