//! What is minimised, and how the parts of a device's load add up.

use thiserror::Error;

use crate::document::{Communication, Execution, ObjectiveKind, Schedule, Split, Training};

/// An objective with its rules. The default is the throughput of a contiguous split, serial communication,
/// combined training, no schedule, no replication.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Objective {
    /// What is minimised.
    pub kind: ObjectiveKind,
    /// Which sets may share a device.
    pub split: Split,
    /// How communication adds to compute.
    pub communication: Communication,
    /// How the passes of a training step are scored.
    pub training: Training,
    /// The pipeline schedule. With one the value is the time of an iteration of all microbatches under it (see
    /// [`crate::schedule`]), and it decides the activations in flight.
    pub schedule: Schedule,
    /// Microbatches of the schedule; without a schedule it means nothing and is 1.
    pub microbatches: u32,
    /// With a schedule, whether the value is the largest load all the same and the schedule decides the memory alone:
    /// the relaxation that [`Objective::bottleneck`] makes, not one that users ask for.
    pub is_bottleneck: bool,
    /// Most devices that one stage may be replicated on, at least 1. The replicas of a stage lie in one pool:
    /// they are of one kind, and no pin tells them apart (see [`crate::problem::Pool`]).
    pub max_replicas: u32,
    /// For latency, most calls of one accelerator, at least 1; it means nothing for other objectives and is 1.
    pub calls: u32,
    /// For the makespan, how a step runs; it means nothing for other objectives.
    pub execution: Execution,
}

impl Default for Objective {
    fn default() -> Self {
        Objective {
            kind: ObjectiveKind::Throughput,
            split: Split::Contiguous,
            communication: Communication::Serial,
            training: Training::Combined,
            schedule: Schedule::None,
            microbatches: 1,
            is_bottleneck: false,
            max_replicas: 1,
            calls: 1,
            execution: Execution::Ports,
        }
    }
}

/// An objective that makes no sense.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ObjectiveError {
    /// A count of zero.
    #[error("{what} is 0, expected at least 1")]
    Zero {
        /// Microbatches, replicas or calls.
        what: &'static str,
    },
    /// Microbatches without a schedule.
    #[error("{0} microbatches without a schedule")]
    MicrobatchesWithoutSchedule(u32),
    /// A schedule of a split that has no pipeline order.
    #[error("a pipeline schedule needs a contiguous split: a {0:?} split has no order of stages")]
    ScheduleWithoutOrder(Split),
    /// More microbatches than an iteration may have.
    #[error(
        "{count} microbatches, at most {most} are scheduled: the bubble of that many is the bottleneck alone"
    )]
    TooManyMicrobatches {
        /// Given.
        count: u32,
        /// Most.
        most: u32,
    },
    /// Passes scored apart under a schedule, which says itself how they follow one another.
    #[error(
        "a pipeline schedule runs both passes in its own order: training with separate passes is for no schedule"
    )]
    SeparateUnderSchedule,
    /// Several stages on a device.
    #[error(
        "interleaved 1f1b runs several stages on a device, which a plan cannot say yet; \
         plan under 1f1b, and let `simulate` divide its stages"
    )]
    InterleavedPlan,
    /// A rule of pipelines for an objective that is not one.
    #[error("{0} is a rule of pipelines, which {kind} does not have", kind = .1)]
    OnlyForThroughput(&'static str, &'static str),
    /// A way to run a step where no step is run.
    #[error("the execution is a rule of the makespan, which {0} does not have")]
    ExecutionWithoutMakespan(&'static str),
    /// Several calls of an accelerator where nothing is called.
    #[error("{0} calls an accelerator are for latency alone")]
    CallsWithoutLatency(u32),
}

/// Most microbatches of an iteration.
pub const MOST_MICROBATCHES: u32 = 1 << 16;

impl Objective {
    /// Checks what can be checked without a graph.
    ///
    /// # Errors
    /// Zero counts, and microbatches or schedules where they mean nothing.
    pub fn validate(&self) -> Result<(), ObjectiveError> {
        if self.microbatches == 0 {
            return Err(ObjectiveError::Zero { what: "microbatches" });
        }
        if self.max_replicas == 0 {
            return Err(ObjectiveError::Zero { what: "max_replicas" });
        }
        if self.calls == 0 {
            return Err(ObjectiveError::Zero { what: "calls" });
        }
        if self.calls > 1 && self.kind != ObjectiveKind::Latency {
            return Err(ObjectiveError::CallsWithoutLatency(self.calls));
        }
        if self.execution != Execution::Ports && self.kind != ObjectiveKind::Makespan {
            return Err(ObjectiveError::ExecutionWithoutMakespan(match self.kind {
                ObjectiveKind::Latency => "latency",
                _ => "throughput",
            }));
        }
        match self.kind {
            ObjectiveKind::Throughput => {}
            ObjectiveKind::Latency => self.validate_single("latency")?,
            ObjectiveKind::Makespan => self.validate_single("makespan")?,
        }
        if self.schedule == Schedule::None && self.microbatches > 1 {
            return Err(ObjectiveError::MicrobatchesWithoutSchedule(self.microbatches));
        }
        if self.schedule != Schedule::None && self.split != Split::Contiguous {
            return Err(ObjectiveError::ScheduleWithoutOrder(self.split));
        }
        if self.microbatches > MOST_MICROBATCHES {
            let (count, most) = (self.microbatches, MOST_MICROBATCHES);
            return Err(ObjectiveError::TooManyMicrobatches { count, most });
        }
        if self.schedule == Schedule::Interleaved {
            return Err(ObjectiveError::InterleavedPlan);
        }
        if self.times_iteration() && self.training == Training::Separate {
            return Err(ObjectiveError::SeparateUnderSchedule);
        }
        Ok(())
    }

    /// Whether the value is the time of an iteration under a schedule.
    pub fn times_iteration(&self) -> bool {
        self.kind == ObjectiveKind::Throughput && self.schedule != Schedule::None && !self.is_bottleneck
    }

    /// How often the least largest load of any placement is contained in the value, at least: an iteration of m
    /// microbatches takes m times the load of the device that takes longest.
    pub fn repetitions(&self) -> f64 {
        if self.times_iteration() { f64::from(self.microbatches) } else { 1.0 }
    }

    /// The largest load instead of the iteration time, with the memory that the schedule asks for at least. Its value
    /// times the microbatches is at most the iteration time of the same placement, which is feasible here if it is under
    /// the schedule: under GPipe the passes come one after the other, each with its own slowest stage, and under the
    /// others a device is busy for m times its load of both passes. With uplinks that holds under GPipe as well: an
    /// iteration takes m times what both passes take on one uplink, and the slowest stage of one pass says nothing of the
    /// slowest uplink of the other.
    #[must_use]
    pub fn bottleneck(&self, has_uplinks: bool) -> Objective {
        let (schedule, training) = match self.schedule {
            Schedule::GPipe if !has_uplinks => (Schedule::GPipe, Training::Separate),
            Schedule::ZeroBubble => (Schedule::OneFOneB, self.training),
            other => (other, self.training),
        };
        Objective { schedule, training, is_bottleneck: schedule != Schedule::None, ..*self }
    }

    /// One sample through calls, and one step under dataflow execution, are no pipelines: what overlaps is the
    /// outcome of their rules, and nothing is replicated.
    fn validate_single(&self, kind: &'static str) -> Result<(), ObjectiveError> {
        let of_pipelines = [
            (self.communication != Communication::Serial, "communication that overlaps"),
            (self.training != Training::Combined, "training with separate passes"),
            (self.schedule != Schedule::None, "a schedule"),
            (self.max_replicas > 1, "a replicated stage"),
        ];
        match of_pipelines.into_iter().find(|&(asked, _)| asked) {
            Some((_, what)) => Err(ObjectiveError::OnlyForThroughput(what, kind)),
            None => Ok(()),
        }
    }

    /// Microbatches whose activations a stage keeps, `from_last` counting from the last stage, which is 1; in a pipeline
    /// with more stages before it no fewer.
    pub fn in_flight(&self, from_last: u32) -> u32 {
        self.in_flight_of(from_last, from_last)
    }

    /// Microbatches whose activations a stage keeps in a pipeline of so many stages, `from_last` counting from the last
    /// stage, which is 1.
    ///
    /// 1F1B: min(j, m) (Narayanan et al., "Memory-efficient pipeline-parallel DNN training", ICML 2021).
    /// GPipe: m (Huang et al., NeurIPS 2019). Zero-bubble: min(p, m) on every stage, which holds what the gradients of
    /// the weights still need (Qi et al., ICLR 2024).
    pub fn in_flight_of(&self, from_last: u32, stages: u32) -> u32 {
        match self.schedule {
            Schedule::None => 1,
            Schedule::GPipe => self.microbatches,
            Schedule::OneFOneB | Schedule::Interleaved => self.microbatches.min(from_last.max(1)),
            Schedule::ZeroBubble => self.microbatches.min(stages.max(1)),
        }
    }

    /// Whether a stage's memory depends on its distance from the last stage.
    pub fn memory_depends_on_stage(&self) -> bool {
        self.in_flight(1) != self.in_flight(u32::MAX)
    }

    /// Number of loads that are scored apart: 2 (forward, backward) with `separate` training and where a schedule runs
    /// the passes, else 1.
    pub fn passes(&self) -> usize {
        if self.training == Training::Separate || self.times_iteration() { 2 } else { 1 }
    }

    /// Load of one pass from its compute, sent and received seconds.
    #[inline]
    pub fn load(&self, compute: f64, sent: f64, received: f64) -> f64 {
        match self.communication {
            Communication::Serial => compute + sent + received,
            Communication::Overlap => compute.max(sent + received),
            Communication::Duplex => compute.max(sent).max(received),
        }
    }
}

/// Seconds to synchronise the parameters of a stage replicated on `replicas` devices, per step: a ring
/// all-reduce moves 2 (r − 1)/r of the bytes over each link (Patarasuk and Yuan, JPDC 2009).
#[inline]
pub fn synchronisation(parameter_bytes: f64, replicas: u32, bandwidth: f64) -> f64 {
    if replicas <= 1 {
        return 0.0;
    }
    let replicas = f64::from(replicas);
    2.0 * (replicas - 1.0) / replicas * parameter_bytes / bandwidth
}
