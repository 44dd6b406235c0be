//! Solvers, expert rules and given plans side by side on one problem.

mod list;
mod show;

use serde::Serialize;
use stagewright_core::document::{
    ClusterDocument, ObjectiveDocument, ObjectiveKind, PlanDocument, PlanStatus, Schedule, Split,
};
use stagewright_core::tolerance;

pub use list::csv;
pub use show::{contenders, models, reasons};

/// Contenders on one problem, the best first.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Comparison {
    /// Name of the model.
    pub model: String,
    /// Name of the row that [`Row::speedup`] is relative to; `None` if there is no such row with a valid value.
    pub baseline: Option<String>,
    /// Rows: valid plans by value, then plans that break a rule, then contenders without a plan.
    pub rows: Vec<Row>,
    /// Names of the contenders in input order.
    #[serde(skip)]
    pub entered: Vec<String>,
}

/// One contender.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    /// Solver with its options, or name of the plan.
    pub name: String,
    /// Outcome.
    pub status: Status,
    /// Rules that a given plan breaks, by their names in `check`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub breaks: Vec<String>,
    /// Split rule, if the objective uses it. Rows with different rules solve different problems.
    pub split: Option<Split>,
    /// Value in seconds; `None` without a plan.
    pub value_s: Option<f64>,
    /// The strongest lower bound of all rows that holds under this row's rule, in seconds.
    pub bound_s: Option<f64>,
    /// (value − bound) / value; `None` for a plan that breaks a rule.
    pub gap: Option<f64>,
    /// Duration of the solve in seconds; `None` for a given plan.
    pub seconds: Option<f64>,
    /// Maximum memory use of a device, in bytes.
    pub memory_bytes: Option<f64>,
    /// Maximum share of a device's memory in use; `None` if all devices are unlimited.
    pub memory_share: Option<f64>,
    /// Total communication time of all devices, in seconds.
    pub communication_s: Option<f64>,
    /// Idle share of the time of the devices in use: over an iteration under a schedule, over a full pipeline
    /// without one, over the step for the makespan and latency.
    pub idle_share: Option<f64>,
    /// Speed-up: the value of the baseline divided by this value. `None` if either plan breaks a rule.
    pub speedup: Option<f64>,
    /// Reason why there is no plan.
    pub reason: Option<String>,
    /// The plan.
    #[serde(skip)]
    pub plan: Option<PlanDocument>,
}

/// Outcome of a contender.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// A solver's answer.
    Solved(PlanStatus),
    /// A given plan that satisfies all rules.
    Given,
    /// A given plan that breaks a rule or cannot be evaluated.
    Invalid,
}

impl Status {
    /// Name of the status.
    pub fn name(self) -> &'static str {
        match self {
            Status::Solved(status) => status.name(),
            Status::Given => "given",
            Status::Invalid => "invalid",
        }
    }
}

impl Serialize for Status {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

/// A plan to compare.
#[derive(Debug, Clone)]
pub struct Contender {
    /// Name of the row.
    pub name: String,
    /// The plan document; it may report that there is no plan.
    pub plan: PlanDocument,
    /// Rules that a given plan breaks; `None` if a solver made the plan. The seconds of a given plan are those of
    /// another solve, and its bound is a claim that was not proved here.
    pub given: Option<Vec<String>>,
}

impl Comparison {
    /// Compares contenders on one model and cluster, in O(contenders² + devices · kinds). `proved` has bounds that need
    /// no solver, with their objectives. Speed-ups are relative to the row named `baseline`.
    pub fn new(
        model: &str,
        cluster: &ClusterDocument,
        contenders: Vec<Contender>,
        proved: &[(ObjectiveDocument, f64)],
        baseline: Option<&str>,
    ) -> Comparison {
        let unit = baseline.and_then(|name| {
            let found = contenders.iter().find(|contender| contender.name == name)?;
            // A plan that breaks rules is no baseline for plans that keep them.
            let keeps_rules = found.given.as_ref().is_none_or(Vec::is_empty);
            found.plan.objective.value_s.filter(|_| keeps_rules)
        });
        let entered = contenders.iter().map(|contender| contender.name.clone()).collect();
        let bounds: Vec<Option<f64>> =
            contenders.iter().map(|contender| strongest(contender, &contenders, proved)).collect();
        let mut rows: Vec<Row> = contenders
            .into_iter()
            .zip(bounds)
            .map(|(contender, bound)| row(contender, bound, cluster, unit))
            .collect();
        rows.sort_by(|a, b| {
            let value = |row: &Row| row.value_s.unwrap_or(f64::INFINITY);
            let class = |row: &Row| (row.value_s.is_none(), row.status == Status::Invalid);
            class(a).cmp(&class(b)).then(value(a).total_cmp(&value(b)))
        });
        let baseline = unit.and(baseline).map(str::to_owned);
        Comparison { model: model.into(), baseline, rows, entered }
    }

    /// Smallest value of a plan that satisfies all rules.
    pub fn best(&self) -> Option<f64> {
        self.rows.iter().filter(|row| row.status != Status::Invalid).find_map(|row| row.value_s)
    }
}

impl Row {
    /// Whether the plan satisfies all rules and its value equals `best` within tolerance.
    pub fn is_as_good_as(&self, best: Option<f64>) -> bool {
        let same = self.value_s.zip(best).is_some_and(|(value, best)| tolerance::same(value, best));
        same && self.status != Status::Invalid
    }
}

/// Strongest bound proved for this contender's problem or for the same problem with a looser split rule.
fn strongest(contender: &Contender, all: &[Contender], proved: &[(ObjectiveDocument, f64)]) -> Option<f64> {
    let holds = |other: &ObjectiveDocument| {
        let own = &contender.plan.objective;
        let same = other.kind == own.kind
            && other.communication == own.communication
            && other.training == own.training
            && other.schedule == own.schedule
            && other.microbatches == own.microbatches
            && other.execution == own.execution
            && other.calls == own.calls
            && other.max_replicas == own.max_replicas;
        let allows = own.kind != ObjectiveKind::Throughput || looseness(other.split) >= looseness(own.split);
        same && allows
    };
    let solved = all.iter().filter(|contender| contender.given.is_none());
    let solved =
        solved.filter_map(|contender| Some((&contender.plan.objective, contender.plan.bound.value_s?)));
    let proved =
        proved.iter().map(|(objective, value)| (objective, *value)).filter(|(_, value)| *value > 0.0);
    solved.chain(proved).filter(|(objective, _)| holds(objective)).map(|(_, value)| value).reduce(f64::max)
}

/// Idle shares below this are set to zero.
const LEAST_SHARE: f64 = 1e-9;

/// Rank of a split rule: a rule allows every split that the rules of lower rank allow.
fn looseness(split: Split) -> u8 {
    match split {
        Split::Contiguous => 0,
        Split::Convex => 1,
        Split::Free => 2,
    }
}

fn row(contender: Contender, bound: Option<f64>, cluster: &ClusterDocument, unit: Option<f64>) -> Row {
    let Contender { name, plan, given } = contender;
    let value = plan.objective.value_s;
    let status = match &given {
        None => Status::Solved(plan.status),
        Some(breaks) if breaks.is_empty() && value.is_some() => Status::Given,
        Some(_) => Status::Invalid,
    };
    let shares = plan.devices.iter().filter_map(|device| {
        let kind = cluster.kinds.iter().find(|kind| kind.name == device.kind)?;
        let limit = kind.memory_bytes.filter(|&limit| limit > 0.0)?;
        Some(device.memory_bytes / limit).filter(|share| share.is_finite())
    });
    let memory_share = shares.reduce(f64::max);
    let memory = plan.devices.iter().map(|device| device.memory_bytes);
    let communication = plan.devices.iter().map(|device| device.communication_s).sum();
    let gap = value.zip(bound).map(|(value, bound)| tolerance::gap(value, bound));
    Row {
        split: (plan.objective.kind == ObjectiveKind::Throughput).then_some(plan.objective.split),
        value_s: value,
        bound_s: bound,
        gap: gap.filter(|_| status != Status::Invalid),
        seconds: given.is_none().then_some(plan.seconds),
        memory_bytes: value.and_then(|_| memory.reduce(f64::max)),
        memory_share: value.and(memory_share),
        communication_s: value.map(|_| communication),
        idle_share: value.map(|value| idle_share(&plan, value)),
        speedup: value
            .zip(unit)
            .filter(|_| status != Status::Invalid)
            .map(|(value, unit)| if value == unit { 1.0 } else { unit / value })
            .filter(|speedup| speedup.is_finite()),
        reason: plan.reason.clone().filter(|_| value.is_none()),
        breaks: given.unwrap_or_default(),
        status,
        name,
        plan: value.map(|_| plan),
    }
}

/// Idle share of the time of the devices in use.
fn idle_share(plan: &PlanDocument, value: f64) -> f64 {
    let objective = &plan.objective;
    let is_iteration = objective.kind == ObjectiveKind::Throughput && objective.schedule != Schedule::None;
    let times = if is_iteration { f64::from(objective.microbatches.unwrap_or(1)) } else { 1.0 };
    let busy: f64 = match objective.kind {
        // The loads of a step include link time, which overlaps with compute.
        ObjectiveKind::Makespan => plan.devices.iter().map(|device| device.compute_s).sum(),
        _ => plan.devices.iter().map(|device| f64::from(device.replicas) * device.load_s).sum(),
    };
    let devices: usize = plan.devices.iter().map(|device| device.replicas as usize).sum();
    let share = stagewright_core::schedule::bubble(times * busy, devices, value);
    // Rounding error: sums of the same seconds in different orders.
    if share < LEAST_SHARE { 0.0 } else { share }
}
