//! The objective: the value to minimise, and how compute and communication add up to a device's load.

use thiserror::Error;

use crate::document::{Communication, Execution, ObjectiveKind, Schedule, Split, Training};

/// An objective with its rules. The default is the throughput of a contiguous split with serial communication, combined
/// training, no schedule and no replication.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Objective {
    /// Value to minimise.
    pub kind: ObjectiveKind,
    /// Rule for the sets of operators that may share a device.
    pub split: Split,
    /// Rule that adds communication to compute.
    pub communication: Communication,
    /// Scoring of the passes of a training step.
    pub training: Training,
    /// The pipeline schedule. With a schedule, the value is the time of one iteration of all microbatches (see
    /// [`crate::schedule`]), and the schedule determines the activations in flight.
    pub schedule: Schedule,
    /// Microbatches per iteration; unused and 1 without a schedule.
    pub microbatches: u32,
    /// With a schedule, whether the value is still the largest load and the schedule determines only the memory. This
    /// is the relaxation that [`Objective::bottleneck`] returns, not an option for users.
    pub is_bottleneck: bool,
    /// Maximum number of devices that one stage may be replicated on, at least 1. The replicas of a stage are in one
    /// pool: they are of one kind, and no pin distinguishes them (see [`crate::problem::Pool`]).
    pub max_replicas: u32,
    /// For latency, maximum number of calls per accelerator, at least 1; unused and 1 for other objectives.
    pub calls: u32,
    /// For the makespan, the execution model of a step; unused for other objectives.
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

/// Invalid objective.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
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
        /// The given count.
        count: u32,
        /// The maximum.
        most: u32,
    },
    /// Separately scored passes under a schedule, which determines their order itself.
    #[error(
        "a pipeline schedule runs both passes in its own order: training with separate passes is for no schedule"
    )]
    SeparateUnderSchedule,
    /// Interleaved 1F1B, which runs several stages on a device.
    #[error(
        "interleaved 1f1b runs several stages on a device, which a plan cannot say yet; \
         plan under 1f1b, and let `simulate` divide its stages"
    )]
    InterleavedPlan,
    /// A pipeline rule for an objective other than throughput.
    #[error("{0} is a rule of pipelines, which {kind} does not have", kind = .1)]
    OnlyForThroughput(&'static str, &'static str),
    /// An execution model for an objective other than the makespan.
    #[error("the execution is a rule of the makespan, which {0} does not have")]
    ExecutionWithoutMakespan(&'static str),
    /// Several calls per accelerator for an objective other than latency.
    #[error("{0} calls an accelerator are for latency alone")]
    CallsWithoutLatency(u32),
}

/// Maximum number of microbatches per iteration.
pub const MAX_MICROBATCHES: u32 = 1 << 16;

impl Objective {
    /// Validates everything that does not depend on a graph.
    ///
    /// # Errors
    /// Zero counts, and rules that do not apply to the objective.
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
        if self.microbatches > MAX_MICROBATCHES {
            let (count, most) = (self.microbatches, MAX_MICROBATCHES);
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

    /// Lower bound on the ratio between the value and the smallest possible bottleneck load of a placement: an
    /// iteration of m microbatches takes at least m times the load of the slowest device.
    pub fn repetitions(&self) -> f64 {
        if self.times_iteration() { f64::from(self.microbatches) } else { 1.0 }
    }

    /// Relaxation of the iteration time to the bottleneck load, with a lower bound on the schedule's memory. Its value
    /// times the number of microbatches is at most the iteration time of the same placement, and a placement that is
    /// feasible under the schedule is feasible here. Under GPipe the passes run one after the other, each with its own
    /// slowest stage; under the other schedules a device is busy for m times its load of both passes. With uplinks
    /// GPipe is also relaxed to loads of both passes: an iteration takes m times the load of both passes on one uplink,
    /// but the slowest stage of one pass and the slowest uplink of the other do not add up.
    #[must_use]
    pub fn bottleneck(&self, has_uplinks: bool) -> Objective {
        let (schedule, training) = match self.schedule {
            Schedule::GPipe if !has_uplinks => (Schedule::GPipe, Training::Separate),
            Schedule::ZeroBubble => (Schedule::OneFOneB, self.training),
            other => (other, self.training),
        };
        Objective { schedule, training, is_bottleneck: schedule != Schedule::None, ..*self }
    }

    /// Rejects pipeline rules. One sample through calls and one step under dataflow execution are not pipelines: their
    /// rules determine what overlaps, and nothing is replicated.
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

    /// Number of microbatches whose activations a stage keeps; `from_last` counts from the last stage, which is 1. With
    /// more stages before it the number is at least as large.
    pub fn in_flight(&self, from_last: u32) -> u32 {
        self.in_flight_of(from_last, from_last)
    }

    /// Number of microbatches whose activations a stage keeps in a pipeline of `stages` stages; `from_last` counts from
    /// the last stage, which is 1.
    ///
    /// 1F1B: min(j, m) (Narayanan et al., "Memory-efficient pipeline-parallel DNN training", ICML 2021). GPipe: m
    /// (Huang et al., NeurIPS 2019). Zero-bubble: min(p, m) on every stage, which includes the tensors that weight
    /// gradients still need (Qi et al., ICLR 2024).
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

    /// Number of separately scored loads: 2 (forward, backward) with `separate` training or if a schedule runs the
    /// passes, else 1.
    pub fn passes(&self) -> usize {
        if self.training == Training::Separate || self.times_iteration() { 2 } else { 1 }
    }

    /// Load of one pass of a stage on some replicas, without the synchronisation among them. The replicas share compute
    /// and transfers; every one of them synchronises the gradients of shared parameters, when the transfers are over.
    #[inline]
    pub fn load(&self, sums: &PassSums, replicas: u32) -> f64 {
        let PassSums { compute, sent, received, synchronised } = *sums;
        let shared = match self.communication {
            Communication::Serial => compute + sent + received,
            Communication::Overlap => compute.max(sent + received),
            Communication::Duplex => compute.max(sent).max(received),
        };
        shared / f64::from(replicas) + synchronised
    }
}

/// Sums over a set of units, per pass.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct PassSums {
    /// Seconds of compute.
    pub compute: f64,
    /// Seconds of the cut nets that the set produces.
    pub sent: f64,
    /// Seconds of the cut nets that the set reads.
    pub received: f64,
    /// Seconds to synchronise the gradients of shared parameters with other devices.
    pub synchronised: f64,
}

impl PassSums {
    /// Seconds of communication.
    pub fn communication(&self) -> f64 {
        self.sent + self.received + self.synchronised
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
