//! Solvers, expert rules and given plans side by side on one problem.

mod joint;
mod list;
mod placement;
mod show;

use serde::Serialize;
use stagewright_core::document::{
    ClusterDocument, JointPlanDocument, ObjectiveDocument, PlanDocument, PlanStatus, Split,
};
use stagewright_core::tolerance;

pub use joint::Degrees;
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
    /// Speed-up: the baseline's value divided by this row's. `None` if either plan breaks a rule.
    pub speedup: Option<f64>,
    /// Reason why there is no plan.
    pub reason: Option<String>,
    /// Degrees of parallelism of a joint plan; `None` for a placement.
    #[serde(flatten)]
    pub degrees: Option<Degrees>,
    /// The plan.
    #[serde(skip)]
    pub plan: Option<Planned>,
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
    pub plan: Planned,
    /// Rules that a given plan breaks; `None` if a solver made the plan. The seconds of a given plan are those of
    /// another solve, and its bound is a claim that was not proved here.
    pub given: Option<Vec<String>>,
}

/// A plan document of a kind that is compared.
#[derive(Debug, Clone, PartialEq)]
pub enum Planned {
    /// A device for every operator.
    Placement(Box<PlanDocument>),
    /// Stages with degrees of parallelism.
    Joint(Box<JointPlanDocument>),
}

impl Planned {
    fn value(&self) -> Option<f64> {
        match self {
            Planned::Placement(plan) => plan.objective.value_s,
            Planned::Joint(plan) => plan.objective.value_s,
        }
    }

    fn bound(&self) -> Option<f64> {
        match self {
            Planned::Placement(plan) => plan.bound.value_s,
            Planned::Joint(plan) => plan.bound.value_s,
        }
    }

    fn status(&self) -> PlanStatus {
        match self {
            Planned::Placement(plan) => plan.status,
            Planned::Joint(plan) => plan.status,
        }
    }

    fn seconds(&self) -> f64 {
        match self {
            Planned::Placement(plan) => plan.seconds,
            Planned::Joint(plan) => plan.seconds,
        }
    }

    fn reason(&self) -> Option<&String> {
        match self {
            Planned::Placement(plan) => plan.reason.as_ref(),
            Planned::Joint(plan) => plan.reason.as_ref(),
        }
    }

    /// Whether a bound on plans for the question of this one holds for plans for the question of another.
    fn bounds(&self, other: &Planned) -> bool {
        match (self, other) {
            (Planned::Placement(own), Planned::Placement(other)) => {
                placement::allows(&own.objective, &other.objective)
            }
            (Planned::Joint(own), Planned::Joint(other)) => joint::allows(&own.objective, &other.objective),
            _ => false,
        }
    }
}

/// Figures of a plan that depend on its kind.
#[derive(Debug, Default)]
struct Figures {
    split: Option<Split>,
    memory_bytes: Option<f64>,
    memory_share: Option<f64>,
    communication_s: Option<f64>,
    idle_share: Option<f64>,
    degrees: Option<Degrees>,
}

impl Comparison {
    /// Compares contenders on one model and cluster, in O(contenders² + devices · kinds). `proved` has bounds that need
    /// no solver, with their objectives. Speed-ups are relative to the row named `baseline`.
    pub fn new(
        model: &str,
        cluster: Option<&ClusterDocument>,
        contenders: Vec<Contender>,
        proved: &[(ObjectiveDocument, f64)],
        baseline: Option<&str>,
    ) -> Comparison {
        let unit = baseline.and_then(|name| {
            let found = contenders.iter().find(|contender| contender.name == name)?;
            // A plan that breaks rules is no baseline for plans that keep them.
            let keeps_rules = found.given.as_ref().is_none_or(Vec::is_empty);
            found.plan.value().filter(|_| keeps_rules)
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

    /// The rows in the order in which the contenders entered.
    pub fn as_entered(&self) -> impl Iterator<Item = &Row> {
        self.entered.iter().filter_map(|name| self.rows.iter().find(|row| row.name == *name))
    }

    /// Whether any contender has a plan.
    pub fn is_planned(&self) -> bool {
        self.rows.iter().any(|row| row.value_s.is_some())
    }

    /// The best row that satisfies all rules, with its plan; `None` if no row does.
    pub fn leader(&self) -> Option<(&Row, &Planned)> {
        let row = self.rows.iter().find(|row| row.is_as_good_as(self.best()))?;
        Some((row, row.plan.as_ref()?))
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

/// Strongest bound proved for this contender's question or for one that allows all plans for it.
fn strongest(contender: &Contender, all: &[Contender], proved: &[(ObjectiveDocument, f64)]) -> Option<f64> {
    let solved = all.iter().filter(|contender| contender.given.is_none());
    let solved =
        solved.filter(|other| other.plan.bounds(&contender.plan)).filter_map(|other| other.plan.bound());
    let proved = proved.iter().filter(|(objective, value)| {
        let holds = match &contender.plan {
            Planned::Placement(plan) => placement::allows(objective, &plan.objective),
            Planned::Joint(_) => false,
        };
        holds && *value > 0.0
    });
    solved.chain(proved.map(|(_, value)| *value)).reduce(f64::max)
}

fn row(
    contender: Contender,
    bound: Option<f64>,
    cluster: Option<&ClusterDocument>,
    unit: Option<f64>,
) -> Row {
    let Contender { name, plan, given } = contender;
    let value = plan.value();
    let status = match &given {
        None => Status::Solved(plan.status()),
        Some(breaks) if breaks.is_empty() && value.is_some() => Status::Given,
        Some(_) => Status::Invalid,
    };
    let figures = match &plan {
        Planned::Placement(plan) => placement::figures(plan, cluster),
        Planned::Joint(plan) => joint::figures(plan),
    };
    let gap = value.zip(bound).map(|(value, bound)| tolerance::gap(value, bound));
    Row {
        split: figures.split,
        value_s: value,
        bound_s: bound,
        gap: gap.filter(|_| status != Status::Invalid),
        seconds: given.is_none().then_some(plan.seconds()),
        memory_bytes: figures.memory_bytes,
        memory_share: figures.memory_share,
        communication_s: figures.communication_s,
        idle_share: figures.idle_share,
        speedup: value
            .zip(unit)
            .filter(|_| status != Status::Invalid)
            .map(|(value, unit)| if value == unit { 1.0 } else { unit / value })
            .filter(|speedup| speedup.is_finite()),
        reason: plan.reason().cloned().filter(|_| value.is_none()),
        degrees: figures.degrees,
        breaks: given.unwrap_or_default(),
        status,
        name,
        plan: value.map(|_| plan),
    }
}
