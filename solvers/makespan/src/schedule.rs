//! Schedules and their simulated scores.

use stagewright_core::bound::LowerBound;
use stagewright_core::bound::makespan::{tails, tails_before};
use stagewright_core::cluster::DeviceId;
use stagewright_core::graph::OpId;
use stagewright_core::ids::Id;
use stagewright_core::placement::Placement;
use stagewright_core::problem::Problem;
use stagewright_core::simulate::{Change, Flow, Rerun, Simulator, Template, Timeline};
use stagewright_core::solver::{Context, Plan, Solution, SolveError, Status, Stop, StopReason};
use stagewright_core::tolerance;

use super::instance::Instance;

/// A device and a queue position for every operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Schedule {
    /// The device of every operator.
    pub device_of: Vec<DeviceId>,
    /// Rank in the queue: lowest first, ties by index. Empty if queues are ordered by the time at which operators
    /// become ready.
    pub ranks: Vec<u32>,
}

impl Schedule {
    /// A schedule without priorities.
    pub fn without_priority(device_of: Vec<DeviceId>) -> Schedule {
        Schedule { device_of, ranks: Vec::new() }
    }

    /// A schedule with queues in an order that contains every operator once.
    pub fn by_order(device_of: Vec<DeviceId>, order: &[OpId]) -> Schedule {
        let mut ranks = vec![0; device_of.len()];
        for (rank, op) in (0..).zip(order) {
            ranks[op.index()] = rank;
        }
        Schedule { device_of, ranks }
    }

    /// The schedule of a placement.
    pub fn of_placement(instance: &Instance<'_>, placement: &Placement) -> Schedule {
        let device_of = instance.graph().operators().map(|op| placement.device_of(op)).collect();
        match placement.priority().len() == instance.graph().operator_count() {
            true => Schedule::by_order(device_of, placement.priority()),
            false => Schedule::without_priority(device_of),
        }
    }

    /// Applies changes to the schedule in the same way as the simulator.
    pub(super) fn apply(&mut self, changes: &[Change]) {
        for &change in changes {
            match change {
                Change::Device(op, to) => self.device_of[op.index()] = to,
                Change::Rank(op, rank) => self.ranks[op.index()] = rank,
            }
        }
    }

    /// The schedule as a placement.
    pub fn placement(&self) -> Placement {
        if self.ranks.is_empty() {
            return Placement::new(self.device_of.clone());
        }
        let mut order: Vec<OpId> = OpId::first(self.device_of.len()).collect();
        order.sort_by_key(|op| self.ranks[op.index()]);
        Placement::with_priority(self.device_of.clone(), order)
    }
}

/// Score of a schedule. Lacking less memory is better; if that is equal, a shorter step is.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
pub struct Score {
    /// Memory lacking at the peak, relative to each device's memory and summed over devices; zero if everything fits.
    pub lack: f64,
    /// Seconds of the step.
    pub makespan: f64,
}

impl Score {
    /// A score that every other beats.
    pub const WORST: Score = Score { lack: f64::INFINITY, makespan: f64::INFINITY };

    /// Penalised makespan for walks through schedules that do not fit: twice the makespan, plus one makespan for every
    /// tenth of a device's memory that is lacking.
    pub fn energy(&self) -> f64 {
        if self.fits() { self.makespan } else { self.makespan * (2.0 + 10.0 * self.lack) }
    }

    /// Whether the memory of every device suffices.
    pub fn fits(&self) -> bool {
        self.lack == 0.0
    }
}

/// Reason why there is no plan: a limit was reached before a schedule was completed.
pub(super) const NOT_COMPLETED: &str = "no schedule was completed";
/// Reason why there is no plan: no schedule found fits the memory.
pub(super) const NOT_FITTING: &str = "no schedule found fits the memory of the devices";

/// Factor below which a makespan counts as an improvement rather than as rounding.
const BETTER: f64 = 1.0 - 1e-12;

/// Whether `a` is better than `b` by more than rounding.
pub fn is_better(a: Score, b: Score) -> bool {
    a.lack < b.lack || (a.lack == b.lack && a.makespan < b.makespan * BETTER)
}

/// Evaluates schedules on the simulator, reusing its memory.
#[derive(Debug, Clone)]
pub struct Evaluator<'s, 'p> {
    instance: &'s Instance<'p>,
    template: Template<'p>,
    simulator: Simulator,
    flow: Flow,
    /// Re-simulates changes of the settled schedule.
    rerun: Rerun<'p>,
    /// Lower bound on the seconds from the end of every operator to the end of the step.
    tails: Vec<f64>,
    memory: Vec<f64>,
    /// Number of simulations so far.
    pub runs: u64,
}

impl<'s, 'p> Evaluator<'s, 'p> {
    /// An evaluator of schedules for an instance.
    pub fn new(instance: &'s Instance<'p>) -> Evaluator<'s, 'p> {
        Evaluator::with_tails(instance, tails(instance.problem()))
    }

    /// An evaluator with the same results that is faster to build, but slower to score a schedule below a limit.
    pub fn without_tails(instance: &'s Instance<'p>) -> Evaluator<'s, 'p> {
        Evaluator::with_tails(instance, vec![0.0; instance.graph().operator_count()])
    }

    /// Computes the tails; they are zero if `stop` applies before they are known.
    pub fn find_tails(&mut self, stop: &Stop) {
        self.tails = tails_before(self.instance.problem(), stop);
        self.rerun.set_tails(self.tails.clone());
    }

    fn with_tails(instance: &'s Instance<'p>, tails: Vec<f64>) -> Evaluator<'s, 'p> {
        let problem = instance.problem();
        Evaluator {
            instance,
            template: Template::new(problem),
            simulator: Simulator::new(),
            flow: Flow::default(),
            rerun: Rerun::new(problem, tails.clone()),
            tails,
            memory: problem.cluster().devices().map(|device| instance.memory(device)).collect(),
            runs: 0,
        }
    }

    /// The instance.
    pub fn instance(&self) -> &'s Instance<'p> {
        self.instance
    }

    /// The score of a schedule.
    pub fn score(&mut self, schedule: &Schedule) -> Score {
        self.score_below(schedule, f64::INFINITY).unwrap_or(Score::WORST)
    }

    /// The score of a schedule; `None` if its makespan is at least the limit. A schedule that exceeds the memory may be
    /// abandoned below the limit, since the tails assume schedules that fit.
    pub fn score_below(&mut self, schedule: &Schedule, limit: f64) -> Option<Score> {
        let spare = std::mem::take(&mut self.flow);
        self.flow = self.template.flow(&schedule.device_of, &schedule.ranks, spare);
        self.runs += 1;
        let timeline = self.simulator.run_below(&self.flow, &self.tails, limit)?;
        Some(score(timeline.makespan(), timeline.peak_bytes(), &self.memory))
    }

    /// The flow and the timeline of the last scored schedule.
    pub fn last(&self) -> (&Flow, &Timeline) {
        (&self.flow, self.simulator.timeline())
    }

    /// Settles on a base schedule for changes and returns its score.
    pub fn settle(&mut self, schedule: &Schedule) -> Score {
        self.runs += 1;
        let timeline = self.rerun.settle(&schedule.device_of, &schedule.ranks);
        score(timeline.makespan(), timeline.peak_bytes(), &self.memory)
    }

    /// The score of the settled schedule after some changes; `None` if its makespan is at least the limit. In either
    /// case the caller must keep the changes or take them back.
    pub fn change(&mut self, changes: impl IntoIterator<Item = Change>, limit: f64) -> Option<Score> {
        self.runs += 1;
        self.rerun.change(changes);
        let outcome = self.rerun.run_below(limit)?;
        Some(score(outcome.makespan, &outcome.peak_bytes, &self.memory))
    }

    /// Settles on the changed schedule.
    pub fn keep(&mut self) {
        self.rerun.keep();
    }

    /// Returns to the settled schedule.
    pub fn take_back(&mut self) {
        self.rerun.take_back();
    }

    /// The flow and the timeline of the settled schedule.
    pub fn settled(&self) -> (&Flow, &Timeline) {
        (self.rerun.flow(), self.rerun.timeline())
    }
}

/// The score of a step from its makespan and the peak memory of every device.
fn score(makespan: f64, peak_bytes: &[f64], memory: &[f64]) -> Score {
    let lack = |(&bytes, &memory): (&f64, &f64)| match tolerance::fits(bytes, memory) {
        true => 0.0,
        // A device without memory lacks all required bytes.
        false => (bytes - memory) / memory.max(1.0),
    };
    Score { lack: peak_bytes.iter().zip(memory).map(lack).sum(), makespan }
}

/// The best schedule so far.
#[derive(Debug, Clone)]
pub struct Best {
    /// Score of the schedule.
    pub score: Score,
    /// The schedule.
    pub schedule: Schedule,
}

impl Best {
    /// The better of the current best and a schedule; ties go to the current best.
    pub fn better_of(
        best: Option<Best>,
        evaluator: &mut Evaluator<'_, '_>,
        schedule: Schedule,
    ) -> Option<Best> {
        let score = evaluator.score(&schedule);
        match best {
            Some(best) if best.score <= score => Some(best),
            _ => Some(Best { score, schedule }),
        }
    }
}

/// Solves the instance of a problem, unless it is evidently infeasible.
///
/// # Errors
/// If `solve` fails.
pub fn solve_instance<'p>(
    name: &'static str,
    problem: &'p Problem,
    solve: impl FnOnce(&Instance<'p>) -> Result<Solution, SolveError>,
) -> Result<Solution, SolveError> {
    let instance = Instance::new(problem);
    match instance.impossible() {
        Some(reason) => {
            let bound = LowerBound::TRIVIAL;
            Ok(Solution::without_plan(name, Status::Infeasible, bound, None, reason))
        }
        None => solve(&instance),
    }
}

/// The outcome of a solver based on schedules.
pub fn solution(
    name: &'static str,
    instance: &Instance<'_>,
    best: Option<Best>,
    bound: LowerBound,
    context: &Context<'_>,
) -> Result<Solution, SolveError> {
    let stop = context.stop().reason();
    let lacking = |reason: &str| {
        Ok(Solution::without_plan(name, Status::Unknown, bound.clone(), stop, reason.to_string()))
    };
    match best {
        None => lacking(NOT_COMPLETED),
        Some(best) if !best.score.fits() => lacking(NOT_FITTING),
        Some(best) => {
            let plan = Plan::new(instance.problem(), best.schedule.placement())?;
            let stop = match context.gap_reached(plan.value(), bound.value) {
                true => Some(StopReason::Gap),
                false => stop,
            };
            Ok(Solution::with_plan(name, plan, bound, stop))
        }
    }
}
