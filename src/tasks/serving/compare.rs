//! The best serving plan beside what people use: one kind of devices, pipelines of one kind each, equal layers, copies of one unit, and
//! one ring of all devices.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use serde::Serialize;
use stagewright_core::document::{OriginDocument, ServingGoal, ServingPlanDocument};
use stagewright_core::tolerance;
use stagewright_report::grid::{BEST as MARK, Column, Grid};
use stagewright_report::records;
use stagewright_report::units::{percent, seconds};

use super::question::Serving;
use super::ruled;
use super::text::{amount, rate};
use crate::code::{U003, X001};
use crate::failure::{Failure, Result};
use crate::nearest::instead;
use crate::tasks::compare::{Contest, Entered, is_without_solvers};
use crate::tasks::{Session, json};

/// Rules whose plans may be outside of the space of the best plan, so that its bound says nothing of them.
const OUTSIDE: [&str; 2] = ["equal-layers", "exo"];

/// Name of the best plan in a comparison.
const BEST: &str = "best";

const SCHEMA: &str = "stagewright.serving-comparison/1";

const COLUMNS: [&str; 11] = [
    "model",
    "contender",
    "status",
    "goal",
    "value",
    "bound",
    "gap",
    "devices",
    "requests_per_s",
    "seconds",
    "reason",
];

/// The best plan and those of rules for one question, the best first.
#[derive(Debug, Clone, Serialize)]
pub struct ServingComparison {
    /// Name of the model.
    pub model: String,
    /// Number of devices of the cluster by kind.
    pub devices: BTreeMap<String, u64>,
    /// Goal that values are of.
    pub goal: ServingGoal,
    /// Bound on the value of every plan of the space; `None` if the best plan does not take part or has none.
    pub bound: Option<f64>,
    /// Rows: plans by value, then contenders without one.
    pub rows: Vec<ServingRow>,
    #[serde(skip)]
    origin: OriginDocument,
}

/// A contender with its plan.
#[derive(Debug, Clone, Serialize)]
pub struct ServingRow {
    /// `best`, or the name of a rule.
    pub name: String,
    /// Proof status.
    pub status: &'static str,
    /// Value of the goal; `None` without a plan.
    pub value: Option<f64>,
    /// Distance of the value and the bound, as a share of the larger; `None` for rules whose plans the bound does not cover.
    pub gap: Option<f64>,
    /// Devices that replicas take.
    pub devices: Option<u64>,
    /// Requests per second of all replicas.
    pub requests_per_s: Option<f64>,
    /// Duration of the choice in seconds.
    pub seconds: f64,
    /// Why there is no plan.
    pub reason: Option<String>,
}

/// Names of the contenders of a list, all of them if it is empty.
///
/// # Errors
/// A name of no rule (U003).
pub(super) fn entrants(task: &Serving, list: &[String]) -> Result<Vec<Entered>> {
    let known = serving_contenders;
    if let Some(name) =
        list.iter().find(|name| !is_without_solvers(list) && !known().any(|rule| rule == *name))
    {
        return Err(Failure::new(U003, format!("unknown rule `{name}`"))
            .at((task.place)("solvers"))
            .help(instead(name, known())));
    }
    let is_listed = |name: &&str| list.is_empty() || list.iter().any(|listed| listed == name);
    let entered = |name: &str| Entered { name: name.to_owned(), refusal: None };
    Ok(known().filter(is_listed).map(entered).collect())
}

/// Names of the contenders for serving plans: the best plan, and rules of thumb.
pub fn serving_contenders() -> impl Iterator<Item = &'static str> {
    std::iter::once(BEST).chain(rules())
}

#[cfg(feature = "milp")]
fn rules() -> impl Iterator<Item = &'static str> {
    stagewright_replicas::rules::RULES.iter().map(|rule| rule.name)
}

#[cfg(not(feature = "milp"))]
fn rules() -> impl Iterator<Item = &'static str> {
    std::iter::empty()
}

/// Compares contenders until an interrupt comes.
///
/// # Errors
/// As [`Task::rank`](crate::tasks::Task::rank) says.
pub(super) fn rank(
    task: &Serving,
    contest: Contest<'_>,
    session: &mut Session<'_>,
) -> Result<ServingComparison> {
    let interrupt = session.options.settings.interrupt.clone();
    let mut plans = Vec::new();
    for Entered { name, .. } in entrants(task, contest.solvers)? {
        if interrupt.load(Ordering::Relaxed) {
            session.note(&format!("interrupted: {name} and what follows on {} were left out", contest.model));
            break;
        }
        let mut observer = (contest.observer)(&name, session.options.settings.seed);
        let plan =
            if name == BEST { task.answered(session)? } else { ruled(task, &name, session, &mut *observer)? };
        plans.push((name, plan));
    }
    let goal = task.problem.question.goal;
    let bound = plans.iter().find(|(name, _)| name == BEST).and_then(|(_, plan)| plan.bound.value);
    let mut rows: Vec<ServingRow> =
        plans.into_iter().map(|(name, plan)| row(name, plan, goal, bound)).collect();
    let cost = |row: &ServingRow| match row.value {
        Some(value) if goal.is_maximised() => -value,
        Some(value) => value,
        None => f64::INFINITY,
    };
    rows.sort_by(|left, right| cost(left).total_cmp(&cost(right)));
    let kinds = task.problem.fleet.kinds.iter();
    let devices = kinds.map(|kind| (kind.name.clone(), kind.count)).collect();
    let model = contest.model.to_owned();
    Ok(ServingComparison { model, devices, goal, bound, rows, origin: contest.origin })
}

fn row(name: String, plan: ServingPlanDocument, goal: ServingGoal, bound: Option<f64>) -> ServingRow {
    let gap = |(value, bound): (f64, f64)| match goal.is_maximised() {
        true => tolerance::gap(bound, value),
        false => tolerance::gap(value, bound),
    };
    let covered = bound.filter(|_| !OUTSIDE.contains(&name.as_str()));
    ServingRow {
        name,
        status: plan.status.name(),
        value: plan.value,
        gap: plan.value.zip(covered).map(gap),
        devices: plan.devices,
        requests_per_s: plan.requests_per_s,
        seconds: plan.seconds,
        reason: plan.reason,
    }
}

impl ServingComparison {
    /// Whether any contender has a plan.
    pub fn is_planned(&self) -> bool {
        self.rows.iter().any(|row| row.value.is_some())
    }

    /// Whether the plan of the search is within a gap of the bound.
    pub fn is_within(&self, gap: f64) -> bool {
        let best = self.rows.iter().find(|row| row.name == BEST);
        best.and_then(|row| row.gap).is_some_and(|reached| reached <= gap)
    }

    fn cells(&self, row: &ServingRow) -> [String; COLUMNS.len()] {
        fn shown<T: ToString>(value: Option<T>) -> String {
            value.map(|value| value.to_string()).unwrap_or_default()
        }
        [
            self.model.clone(),
            row.name.clone(),
            row.status.to_owned(),
            self.goal.name().to_owned(),
            shown(row.value),
            shown(self.bound),
            shown(row.gap),
            shown(row.devices),
            shown(row.requests_per_s),
            row.seconds.to_string(),
            row.reason.clone().unwrap_or_default(),
        ]
    }
}

/// Comparisons as JSON.
///
/// # Errors
/// If they have no JSON (X001).
pub fn serving_json(comparisons: &[ServingComparison]) -> Result<String> {
    #[derive(Serialize)]
    struct Document<'a> {
        schema: &'static str,
        origin: Option<&'a OriginDocument>,
        models: &'a [ServingComparison],
    }
    let origin = comparisons.first().map(|comparison| &comparison.origin);
    json(&Document { schema: SCHEMA, origin, models: comparisons })
}

/// Comparisons as CSV with a header.
///
/// # Errors
/// If the writer fails (X001).
pub fn serving_csv(comparisons: &[ServingComparison]) -> Result<String> {
    let rows = comparisons
        .iter()
        .flat_map(|comparison| comparison.rows.iter().map(move |row| comparison.cells(row)));
    records::csv(&COLUMNS, rows).map_err(|error| Failure::new(X001, format!("cannot write CSV: {error}")))
}

/// Comparisons as a table, a row for each model and contender, with the reasons why some have no plan, a line each.
pub fn serving_table(comparisons: &[ServingComparison]) -> (Grid, String) {
    let has_models = comparisons.len() > 1;
    let model = has_models.then_some(("model", Column::Names));
    let rest = [
        ("contender", Column::Names),
        ("value", Column::Figures),
        ("bound", Column::Figures),
        ("gap", Column::Figures),
        ("devices", Column::Figures),
        ("requests/s", Column::Figures),
        ("time", Column::Figures),
        ("result", Column::Words),
    ];
    let mut grid = Grid::new(model.into_iter().chain(rest));
    let mut reasons = String::new();
    for comparison in comparisons {
        let best = comparison.rows.first().and_then(|row| row.value);
        for row in &comparison.rows {
            let mark = if row.value.is_some() && row.value == best { MARK } else { "" };
            let value = row.value.map(|value| format!("{mark}{}", amount(comparison.goal, value)));
            let cells = [
                row.name.clone(),
                value.unwrap_or_default(),
                comparison.bound.map(|bound| amount(comparison.goal, bound)).unwrap_or_default(),
                row.gap.map(percent).unwrap_or_default(),
                row.devices.map(|devices| devices.to_string()).unwrap_or_default(),
                row.requests_per_s.map(rate).unwrap_or_default(),
                seconds(row.seconds),
                row.status.to_owned(),
            ];
            grid.row(has_models.then(|| comparison.model.clone()).into_iter().chain(cells));
        }
        for rows in comparison.rows.chunk_by(|left, right| left.reason == right.reason) {
            let Some(line) = rows[0].reason.as_deref().and_then(|reason| reason.lines().next()) else {
                continue;
            };
            let model = if has_models { format!("{}, ", comparison.model) } else { String::new() };
            let names: Vec<&str> = rows.iter().map(|row| row.name.as_str()).collect();
            reasons.push_str(&format!("{model}{}: {line}\n", names.join(", ")));
        }
    }
    (grid, reasons)
}
