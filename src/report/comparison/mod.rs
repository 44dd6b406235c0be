//! Solvers, expert rules and given plans side by side on one problem.

mod list;
mod show;

use serde::Serialize;
use stagewright_core::document::{ClusterDocument, ObjectiveKind, PlanDocument, PlanStatus, Schedule, Split};
use stagewright_core::tolerance;

pub use list::csv;
pub use show::{contenders, models, reasons};

use super::table;

/// Contenders on one problem, the best first.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Comparison {
    /// What the model is called.
    pub model: String,
    /// Name of the row whose value is the unit of [`Row::speedup`]; none where it has no value.
    pub baseline: Option<String>,
    /// The contenders: valid plans by value, then those that break a rule, then those without a plan.
    pub rows: Vec<Row>,
    /// Their names in the order in which they were given.
    #[serde(skip)]
    pub entered: Vec<String>,
}

/// One contender.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    /// The solver with its options, or what the plan is called.
    pub name: String,
    /// What came of it.
    pub status: Status,
    /// The rules that a given plan breaks, by their names in `check`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub breaks: Vec<String>,
    /// The split rule, where the objective reads it: rows of different rules are of different problems.
    pub split: Option<Split>,
    /// Seconds; none without a plan.
    pub value_s: Option<f64>,
    /// The strongest lower bound of all rows that holds under this row's rule, in seconds.
    pub bound_s: Option<f64>,
    /// (value − bound) / value; none of a plan that breaks a rule.
    pub gap: Option<f64>,
    /// Seconds of the solve; none of a given plan.
    pub seconds: Option<f64>,
    /// Most bytes on any device.
    pub memory_bytes: Option<f64>,
    /// The largest share of a device's memory in use; none where all devices are unlimited.
    pub memory_share: Option<f64>,
    /// Seconds of communication of all devices together.
    pub communication_s: Option<f64>,
    /// Share of the time of the devices in use that they are idle: of an iteration under a schedule, of a full
    /// pipeline without one, of the step for the makespan and latency.
    pub idle_share: Option<f64>,
    /// Value of the baseline over this one; none of a plan that breaks a rule, or over one that does.
    pub speedup: Option<f64>,
    /// Why there is no plan.
    pub reason: Option<String>,
    /// The plan itself.
    #[serde(skip)]
    pub plan: Option<PlanDocument>,
}

/// What came of a contender.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// A solver's answer.
    Solved(PlanStatus),
    /// A plan that was given and keeps all rules.
    Given,
    /// A plan that was given and breaks a rule, or cannot be valued.
    Invalid,
}

impl Status {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Status::Solved(status) => table::status(status),
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

/// A plan that takes part, before it is compared.
#[derive(Debug, Clone)]
pub struct Contender {
    /// What the row is called.
    pub name: String,
    /// The plan, or the answer that there is none.
    pub plan: PlanDocument,
    /// Of a plan that was given rather than solved for, the rules that it breaks. Its seconds are of another
    /// solve, and its bound is a claim that nobody here has proved.
    pub given: Option<Vec<String>>,
}

impl Comparison {
    /// Compares contenders on one model and cluster, in O(contenders² + devices · kinds). The row called `baseline`
    /// is the unit of all speed-ups.
    pub fn new(
        model: &str,
        cluster: &ClusterDocument,
        contenders: Vec<Contender>,
        baseline: Option<&str>,
    ) -> Comparison {
        let unit = baseline.and_then(|name| {
            let found = contenders.iter().find(|contender| contender.name == name)?;
            // What breaks the rules is no measure of what keeps them.
            let keeps_rules = found.given.as_ref().is_none_or(Vec::is_empty);
            found.plan.objective.value_s.filter(|_| keeps_rules)
        });
        let entered = contenders.iter().map(|contender| contender.name.clone()).collect();
        let bounds: Vec<Option<f64>> =
            contenders.iter().map(|contender| strongest(contender, &contenders)).collect();
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

    /// The least value of a plan that keeps all rules.
    pub fn best(&self) -> Option<f64> {
        self.rows.iter().filter(|row| row.status != Status::Invalid).find_map(|row| row.value_s)
    }
}

impl Row {
    /// Whether its plan keeps all rules and is worth as much as the best.
    pub fn is_as_good_as(&self, best: Option<f64>) -> bool {
        let same = self.value_s.zip(best).is_some_and(|(value, best)| tolerance::same(value, best));
        same && self.status != Status::Invalid
    }
}

/// The strongest bound proved for a problem that allows at least as much as this contender's.
fn strongest(of: &Contender, all: &[Contender]) -> Option<f64> {
    let holds = |by: &&Contender| {
        let (own, other) = (&of.plan.objective, &by.plan.objective);
        let same = other.kind == own.kind
            && other.communication == own.communication
            && other.training == own.training
            && other.schedule == own.schedule
            && other.microbatches == own.microbatches
            && other.execution == own.execution
            && other.calls == own.calls
            && other.max_replicas == own.max_replicas;
        let allows = own.kind != ObjectiveKind::Throughput || looseness(other.split) >= looseness(own.split);
        same && allows && by.given.is_none()
    };
    all.iter().filter(holds).filter_map(|by| by.plan.bound.value_s).reduce(f64::max)
}

/// A share below this is none.
const LEAST_SHARE: f64 = 1e-9;

/// Every split that one rule allows is allowed by the rules after it.
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
        Some(device.memory_bytes / limit)
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
            .map(|(value, unit)| if value == unit { 1.0 } else { unit / value }),
        reason: plan.reason.clone().filter(|_| value.is_none()),
        breaks: given.unwrap_or_default(),
        status,
        name,
        plan: value.map(|_| plan),
    }
}

/// The idle share of the time of the devices in use.
fn idle_share(plan: &PlanDocument, value: f64) -> f64 {
    let objective = &plan.objective;
    let is_iteration = objective.kind == ObjectiveKind::Throughput && objective.schedule != Schedule::None;
    let times = if is_iteration { f64::from(objective.microbatches.unwrap_or(1)) } else { 1.0 };
    let busy: f64 = match objective.kind {
        // Loads of a step count the seconds of links as well, which pass beside those of devices.
        ObjectiveKind::Makespan => plan.devices.iter().map(|device| device.compute_s).sum(),
        _ => plan.devices.iter().map(|device| f64::from(device.replicas) * device.load_s).sum(),
    };
    let devices: usize = plan.devices.iter().map(|device| device.replicas as usize).sum();
    let share = stagewright_core::schedule::bubble(times * busy, devices, value);
    // Sums of the same seconds in another order differ by as much.
    if share < LEAST_SHARE { 0.0 } else { share }
}

/// The name of a split rule.
pub(super) fn split_name(split: Split) -> &'static str {
    match split {
        Split::Contiguous => "contiguous",
        Split::Convex => "convex",
        Split::Free => "free",
    }
}
