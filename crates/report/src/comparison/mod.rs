//! Solvers, expert rules and given plans side by side on one problem.

mod joint;
mod list;
mod local;
mod placement;
mod runs;
mod setting;
mod show;

use serde::Serialize;
use stagewright_core::document::{
    ClusterDocument, JointObjectiveDocument, JointPlanDocument, LocalObjectiveDocument, LocalPlanDocument,
    ObjectiveDocument, PlanDocument, PlanStatus, Split, ThroughputDocument,
};
use stagewright_core::tolerance;

pub use joint::Degrees;
pub use list::csv;
pub use runs::Run;
pub(crate) use setting::facts_of_figures;
pub use setting::{Setting, facts};
pub use show::{contenders, models, paper, reasons};
pub(crate) use show::{some, value};

/// Contenders on one problem, the best first.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Comparison {
    /// Name of the model.
    pub model: String,
    /// Devices, costs and options of the model.
    #[serde(flatten)]
    pub setting: Setting,
    /// Name of the row that [`Row::speedup`] is relative to; `None` if there is no such row with a valid value.
    pub baseline: Option<String>,
    /// Smallest value in seconds that is known for the question: of all valid rows whose plans answer it, and the value
    /// recorded for an instance of the library.
    pub best_known_s: Option<f64>,
    /// Value recorded for an instance of the library, in seconds; `None` for any other model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recorded_s: Option<f64>,
    /// The strongest lower bound for the question, in seconds.
    pub bound_s: Option<f64>,
    /// Rows: valid plans by value, then those of solvers that lack a plan for some seed, then plans that break a rule, then
    /// contenders without a plan.
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
    /// Value in seconds, the mean over the runs with a plan; `None` without a plan.
    pub value_s: Option<f64>,
    /// Half of the 95% interval of the mean (Student t), in seconds; `None` for fewer than two runs with a plan.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interval_s: Option<f64>,
    /// The strongest lower bound of all rows that holds under this row's rule, in seconds.
    pub bound_s: Option<f64>,
    /// (value − bound) / value; `None` for a plan that breaks a rule.
    pub gap: Option<f64>,
    /// Duration of the solve in seconds, the mean over the runs; `None` for a given plan.
    pub seconds: Option<f64>,
    /// Maximum memory use of a device, in bytes. Memory, communication, idle share and degrees are those of the best run.
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
    /// Rate at the value; `None` if it is not known what a run of the model processes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub throughput: Option<ThroughputDocument>,
    /// Reason why there is no plan, in the first run without one.
    pub reason: Option<String>,
    /// The runs of a solver that ran with several seeds.
    #[serde(skip_serializing_if = "is_single")]
    pub runs: Vec<Run>,
    /// Degrees of parallelism of a joint plan; `None` for a placement.
    #[serde(flatten)]
    pub degrees: Option<Degrees>,
    /// The plan of the best run.
    #[serde(skip)]
    pub plan: Option<Planned>,
}

fn is_single(runs: &[Run]) -> bool {
    runs.len() < 2
}

/// Outcome of a contender.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// A solver's answer.
    Solved(PlanStatus),
    /// A given plan that satisfies all rules.
    Given,
    /// A plan that breaks a rule or cannot be evaluated.
    Invalid,
    /// A solver that does not support the objective.
    Unsupported,
    /// A solver that ended with an error.
    Failed,
}

impl Status {
    /// Name of the status.
    pub fn name(self) -> &'static str {
        match self {
            Status::Solved(status) => status.name(),
            Status::Given => "given",
            Status::Invalid => "invalid",
            Status::Unsupported => "unsupported",
            Status::Failed => "error",
        }
    }
}

impl Serialize for Status {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

/// A solver, an expert rule or a given plan, with its plans.
#[derive(Debug, Clone)]
pub struct Contender {
    /// Name of the row.
    pub name: String,
    /// Plans, or why there are none.
    pub entry: Entry,
}

/// Plans of a contender, or why there are none.
#[derive(Debug, Clone)]
pub enum Entry {
    /// A solver's plans with their seeds, at least one; a plan document may report that there is no plan.
    Solved(Vec<(u64, Planned)>),
    /// A given plan with the rules that it breaks. Its seconds are those of another solve, and its bound is a claim that was not
    /// proved here.
    Given(Planned, Vec<String>),
    /// The reason why a solver does not support the question.
    Unsupported(String),
}

impl Entry {
    /// The plans of a solver that ran here.
    fn solved(&self) -> &[(u64, Planned)] {
        match self {
            Entry::Solved(plans) => plans,
            Entry::Given(..) | Entry::Unsupported(_) => &[],
        }
    }

    /// The first plan document; `None` if the question is not supported.
    fn first(&self) -> Option<&Planned> {
        match self {
            Entry::Solved(plans) => plans.first().map(|(_, plan)| plan),
            Entry::Given(plan, _) => Some(plan),
            Entry::Unsupported(_) => None,
        }
    }

    fn runs(&self) -> Vec<Run> {
        let run = |seed, status, plan: &Planned| Run {
            seed,
            status,
            value_s: plan.value(),
            seconds: seed.map(|_| plan.seconds()),
            reason: plan.reason().cloned().filter(|_| plan.value().is_none()),
        };
        match self {
            Entry::Solved(plans) => plans
                .iter()
                .map(|(seed, plan)| run(Some(*seed), Status::Solved(plan.status()), plan))
                .collect(),
            Entry::Given(plan, breaks) => {
                let is_valid = breaks.is_empty() && plan.value().is_some();
                vec![run(None, if is_valid { Status::Given } else { Status::Invalid }, plan)]
            }
            Entry::Unsupported(_) => Vec::new(),
        }
    }

    /// The plan of least value, the first on a tie.
    fn into_best(self) -> Option<Planned> {
        let plans = match self {
            Entry::Solved(plans) => plans.into_iter().map(|(_, plan)| plan).collect(),
            Entry::Given(plan, _) => vec![plan],
            Entry::Unsupported(_) => Vec::new(),
        };
        let value = |plan: &Planned| plan.value().unwrap_or(f64::INFINITY);
        plans.into_iter().min_by(|left, right| value(left).total_cmp(&value(right)))
    }
}

/// A question, with the bounds and the value that are known without its contenders.
#[derive(Debug, Clone)]
pub struct Known<'a> {
    /// The question.
    pub question: Question<'a>,
    /// Bounds that need no solver, with their objectives.
    pub bounds: &'a [(ObjectiveDocument, f64)],
    /// Value recorded for an instance of the library.
    pub recorded_s: Option<f64>,
}

/// An objective with its rules.
#[derive(Debug, Clone, Copy)]
pub enum Question<'a> {
    /// The objective of placements.
    Placement(&'a ObjectiveDocument),
    /// The objective of joint plans.
    Joint(&'a JointObjectiveDocument),
    /// The objective of local plans.
    Local(&'a LocalObjectiveDocument),
}

impl Question<'_> {
    /// Whether every plan that `narrow` allows is one that this question allows, at the same value: then a bound on this
    /// question holds for the other, and a value of the other is one of this question.
    fn allows(self, narrow: Question<'_>) -> bool {
        match (self, narrow) {
            (Question::Placement(wide), Question::Placement(narrow)) => placement::allows(wide, narrow),
            (Question::Joint(wide), Question::Joint(narrow)) => joint::allows(wide, narrow),
            (Question::Local(wide), Question::Local(narrow)) => local::allows(wide, narrow),
            _ => false,
        }
    }
}

/// A plan document of a kind that is compared.
#[derive(Debug, Clone, PartialEq)]
pub enum Planned {
    /// A device for every operator.
    Placement(Box<PlanDocument>),
    /// Stages with degrees of parallelism.
    Joint(Box<JointPlanDocument>),
    /// A language model under llama.cpp on one machine.
    Local(Box<LocalPlanDocument>),
}

impl Planned {
    fn value(&self) -> Option<f64> {
        match self {
            Planned::Placement(plan) => plan.objective.value_s,
            Planned::Joint(plan) => plan.objective.value_s,
            Planned::Local(plan) => plan.objective.value_s,
        }
    }

    fn bound(&self) -> Option<f64> {
        match self {
            Planned::Placement(plan) => plan.bound.value_s,
            Planned::Joint(plan) => plan.bound.value_s,
            Planned::Local(plan) => plan.bound.value_s,
        }
    }

    fn status(&self) -> PlanStatus {
        match self {
            Planned::Placement(plan) => plan.status,
            Planned::Joint(plan) => plan.status,
            Planned::Local(plan) => plan.status,
        }
    }

    fn seconds(&self) -> f64 {
        match self {
            Planned::Placement(plan) => plan.seconds,
            Planned::Joint(plan) => plan.seconds,
            Planned::Local(plan) => plan.seconds,
        }
    }

    fn reason(&self) -> Option<&String> {
        match self {
            Planned::Placement(plan) => plan.reason.as_ref(),
            Planned::Joint(plan) => plan.reason.as_ref(),
            Planned::Local(plan) => plan.reason.as_ref(),
        }
    }

    /// The question that the plan answers.
    fn question(&self) -> Question<'_> {
        match self {
            Planned::Placement(plan) => Question::Placement(&plan.objective),
            Planned::Joint(plan) => Question::Joint(&plan.objective),
            Planned::Local(plan) => Question::Local(&plan.objective),
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
    /// Compares contenders on one model and cluster, in O(contenders² · runs + devices · kinds). Speed-ups are relative to the
    /// row named `baseline`.
    pub fn new(
        model: &str,
        cluster: Option<&ClusterDocument>,
        contenders: Vec<Contender>,
        known: &Known<'_>,
        baseline: Option<&str>,
    ) -> Comparison {
        let bound_s = strongest(known.question, &contenders, known.bounds);
        let bounds: Vec<Option<f64>> = contenders
            .iter()
            .map(|contender| strongest(contender.entry.first()?.question(), &contenders, known.bounds))
            .collect();
        let rows: Vec<Row> = contenders
            .into_iter()
            .zip(bounds)
            .map(|(contender, bound)| row(contender, bound, cluster))
            .collect();
        let answers = rows.iter().filter(|row| {
            row.status != Status::Invalid
                && row.plan.as_ref().is_some_and(|plan| known.question.allows(plan.question()))
        });
        let values = answers.filter_map(Row::best_s).chain(known.recorded_s);
        let best_known_s = values.reduce(f64::min);
        let found =
            Comparison { best_known_s, recorded_s: known.recorded_s, bound_s, ..Comparison::default() };
        found.of_rows(model, rows, baseline)
    }

    /// Compares contenders of which only the runs are known. `bound_s` is the strongest lower bound.
    pub fn of_runs(
        model: &str,
        contenders: Vec<(String, Vec<Run>, Option<String>)>,
        bound_s: Option<f64>,
        baseline: Option<&str>,
    ) -> Comparison {
        let rows: Vec<Row> = contenders
            .into_iter()
            .map(|(name, runs, reason)| {
                let row = of_runs(name, runs, bound_s);
                Row { reason: reason.or(row.reason.clone()), ..row }
            })
            .collect();
        let best_known_s =
            rows.iter().filter(|row| row.status != Status::Invalid).filter_map(Row::best_s).reduce(f64::min);
        Comparison { best_known_s, bound_s, ..Comparison::default() }.of_rows(model, rows, baseline)
    }

    /// The comparison with its rows, as they entered, sorted and with their speed-ups.
    fn of_rows(self, model: &str, mut rows: Vec<Row>, baseline: Option<&str>) -> Comparison {
        let entered = rows.iter().map(|row| row.name.clone()).collect();
        // A plan that breaks rules is no baseline for plans that keep them.
        let unit = baseline.and_then(|name| {
            rows.iter().find(|row| row.name == name && row.status != Status::Invalid)?.value_s
        });
        for row in rows.iter_mut().filter(|row| row.status != Status::Invalid) {
            let speedup = row.value_s.zip(unit);
            let speedup = speedup.map(|(value, unit)| if value == unit { 1.0 } else { unit / value });
            row.speedup = speedup.filter(|speedup| speedup.is_finite());
        }
        rows.sort_by(|a, b| {
            let value = |row: &Row| row.value_s.unwrap_or(f64::INFINITY);
            let class =
                |row: &Row| (row.value_s.is_none(), row.status == Status::Invalid, !row.is_complete());
            class(a).cmp(&class(b)).then(value(a).total_cmp(&value(b)))
        });
        let baseline = unit.and(baseline).map(str::to_owned);
        Comparison { model: model.into(), baseline, rows, entered, ..self }
    }

    /// The comparison with the rate of every row, from its value.
    #[must_use]
    pub fn with_rates(mut self, rate: impl Fn(&Row, f64) -> Option<ThroughputDocument>) -> Comparison {
        for row in &mut self.rows {
            row.throughput = row.value_s.and_then(|value| rate(row, value));
        }
        self
    }

    /// The rows in the order in which the contenders entered.
    pub fn as_entered(&self) -> impl Iterator<Item = &Row> {
        self.entered.iter().filter_map(|name| self.rows.iter().find(|row| row.name == *name))
    }

    /// Whether any contender has a plan.
    pub fn is_planned(&self) -> bool {
        self.rows.iter().any(|row| row.value_s.is_some())
    }

    /// The row of the best run that satisfies all rules, with its plan; `None` if no row does.
    pub fn leader(&self) -> Option<(&Row, &Planned)> {
        let valid = || self.rows.iter().filter(|row| row.status != Status::Invalid);
        let best = valid().filter_map(Row::best_s).reduce(f64::min)?;
        let row = valid().find(|row| row.best_s().is_some_and(|value| tolerance::same(value, best)))?;
        Some((row, row.plan.as_ref()?))
    }

    /// Whether the plan of the [leader](Comparison::leader) was given, and not found by a solver of the comparison.
    pub(crate) fn is_leader_given(&self) -> bool {
        self.leader().is_some_and(|(row, _)| row.status == Status::Given)
    }

    /// Smallest value of a contender that satisfies all rules and has a plan in every run.
    pub fn best(&self) -> Option<f64> {
        let valid = self.rows.iter().filter(|row| row.status != Status::Invalid && row.is_complete());
        valid.filter_map(|row| row.value_s).next()
    }
}

impl Row {
    /// Whether the plan satisfies all rules and its value equals `best` within tolerance.
    pub fn is_as_good_as(&self, best: Option<f64>) -> bool {
        let same = self.value_s.zip(best).is_some_and(|(value, best)| tolerance::same(value, best));
        same && self.status != Status::Invalid && self.is_complete()
    }

    /// Smallest value of a run.
    pub fn best_s(&self) -> Option<f64> {
        self.runs.iter().filter_map(|run| run.value_s).reduce(f64::min)
    }

    /// Number of runs with a plan.
    pub fn solved(&self) -> usize {
        self.runs.iter().filter(|run| run.value_s.is_some()).count()
    }

    /// Whether every run has a plan.
    pub fn is_complete(&self) -> bool {
        self.solved() == self.runs.len()
    }
}

/// Strongest bound proved for a question or for one that allows all of its plans.
fn strongest(question: Question<'_>, all: &[Contender], proved: &[(ObjectiveDocument, f64)]) -> Option<f64> {
    let solved = all
        .iter()
        .flat_map(|contender| contender.entry.solved())
        .filter_map(|(_, plan)| plan.question().allows(question).then(|| plan.bound())?);
    let proved = proved
        .iter()
        .filter(|(objective, value)| Question::Placement(objective).allows(question) && *value > 0.0);
    solved.chain(proved.map(|(_, value)| *value)).reduce(f64::max)
}

/// The row of some runs, without figures of plans.
fn of_runs(name: String, runs: Vec<Run>, bound: Option<f64>) -> Row {
    let values: Vec<f64> = runs.iter().filter_map(|run| run.value_s).collect();
    let status = runs::outcome(&runs);
    let value = runs::mean(values.iter().copied());
    let gap = value.zip(bound).map(|(value, bound)| tolerance::gap(value, bound));
    Row {
        name,
        status,
        breaks: Vec::new(),
        split: None,
        value_s: value,
        interval_s: runs::half_interval(&values),
        bound_s: bound,
        gap: gap.filter(|_| status != Status::Invalid),
        seconds: runs::mean(runs.iter().filter_map(|run| run.seconds)),
        memory_bytes: None,
        memory_share: None,
        communication_s: None,
        idle_share: None,
        speedup: None,
        throughput: None,
        reason: runs.iter().find_map(|run| run.reason.clone()),
        runs,
        degrees: None,
        plan: None,
    }
}

fn row(contender: Contender, bound: Option<f64>, cluster: Option<&ClusterDocument>) -> Row {
    let Contender { name, entry } = contender;
    let row = of_runs(name, entry.runs(), bound);
    let breaks = match &entry {
        Entry::Given(_, breaks) => breaks.clone(),
        Entry::Solved(_) | Entry::Unsupported(_) => Vec::new(),
    };
    let reason = match &entry {
        Entry::Unsupported(reason) => Some(reason.clone()),
        Entry::Solved(_) | Entry::Given(..) => row.reason.clone(),
    };
    let plan = entry.into_best();
    let figures = match &plan {
        Some(Planned::Placement(plan)) => placement::figures(plan, cluster),
        Some(Planned::Joint(plan)) => joint::figures(plan),
        Some(Planned::Local(plan)) => local::figures(plan),
        None => Figures::default(),
    };
    Row {
        breaks,
        reason,
        split: figures.split,
        memory_bytes: figures.memory_bytes,
        memory_share: figures.memory_share,
        communication_s: figures.communication_s,
        idle_share: figures.idle_share,
        degrees: figures.degrees,
        plan: plan.filter(|plan| plan.value().is_some()),
        ..row
    }
}
