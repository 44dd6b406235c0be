//! The objective: the value to minimise, and how compute and communication add up to a device's load.

use thiserror::Error;

use crate::document::{
    Communication, Execution, ObjectiveDocument, ObjectiveKind, Schedule, Split, Training,
};

/// An objective with its rules. The default is the default of [`Throughput`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Objective {
    /// The bottleneck load of a pipeline or, under a schedule, the time of an iteration.
    Throughput(Throughput),
    /// The time of one sample through offloaded calls.
    Latency {
        /// Maximum number of calls per accelerator, at least 1.
        calls: u32,
    },
    /// The time of one step under dataflow execution.
    Makespan {
        /// Execution model of the step.
        execution: Execution,
    },
}

/// The rules of pipelines. The default is a contiguous split with serial communication, combined training, no schedule
/// and no replication.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Throughput {
    /// Rule for the sets of operators that may share a device.
    pub split: Split,
    /// Rule that adds communication to compute.
    pub communication: Communication,
    /// Rule that combines the loads of the passes of a training step.
    pub training: Training,
    /// The pipeline schedule. Under a schedule, the value is the time of one iteration of all microbatches (see
    /// [`crate::schedule`]), and the schedule determines the activations in flight.
    pub schedule: Schedule,
    /// Microbatches per iteration; 1 without a schedule.
    pub microbatches: u32,
    /// Whether the value remains the largest load under a schedule, which then determines only the memory. This is the
    /// relaxation that [`Objective::bottleneck`] returns, not an option for users.
    pub is_bottleneck: bool,
    /// Maximum number of devices that one stage may be replicated on, at least 1. All replicas of a stage are in one
    /// pool, so they are of one kind, and no pin distinguishes them (see [`crate::problem::Pool`]).
    pub max_replicas: u32,
}

impl Default for Throughput {
    fn default() -> Self {
        Throughput {
            split: Split::Contiguous,
            communication: Communication::Serial,
            training: Training::Combined,
            schedule: Schedule::None,
            microbatches: 1,
            is_bottleneck: false,
            max_replicas: 1,
        }
    }
}

impl Default for Objective {
    fn default() -> Self {
        Throughput::default().into()
    }
}

impl From<ObjectiveKind> for Objective {
    /// The objective of a kind with its default rules.
    fn from(kind: ObjectiveKind) -> Self {
        match kind {
            ObjectiveKind::Throughput => Throughput::default().into(),
            ObjectiveKind::Latency => Objective::Latency { calls: 1 },
            ObjectiveKind::Makespan => Objective::Makespan { execution: Execution::Ports },
        }
    }
}

impl From<Throughput> for Objective {
    fn from(rules: Throughput) -> Self {
        Objective::Throughput(rules)
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
    /// A pipeline schedule for a split whose stages have no order.
    #[error("a pipeline schedule needs a contiguous split: a {} split has no order of stages", .0.name())]
    ScheduleWithoutOrder(Split),
    /// More microbatches than an iteration may have.
    #[error("{count} microbatches, expected at most {most}: with that many, the bubble is negligible")]
    TooManyMicrobatches {
        /// The given count.
        count: u32,
        /// The maximum.
        most: u32,
    },
    /// Separately scored passes under a schedule, which orders the passes itself.
    #[error(
        "a pipeline schedule orders both passes itself: training with separate passes needs the schedule none"
    )]
    SeparateUnderSchedule,
    /// A schedule that runs several stages on a device.
    #[error(
        "a placement cannot express the several stages per device of interleaved 1f1b and dualpipe-v; plan under 1f1b and \
         let `simulate` divide its stages, or make a joint plan with --parallel"
    )]
    InterleavedPlan,
    /// Zero-bubble-2p, whose iterations overlap.
    #[error(
        "the iterations of zero-bubble-2p overlap, which only joint plans express; plan under zero-bubble and let \
         `simulate` run its stages, or make a joint plan with --parallel"
    )]
    OverlappingPlan,
    /// A pipeline rule for an objective other than throughput.
    #[error("{0} applies only to pipelines, not to {kind}", kind = .1.name())]
    OnlyForThroughput(&'static str, ObjectiveKind),
    /// An execution model for an objective other than the makespan.
    #[error("the execution applies only to the makespan, not to {kind}", kind = .0.name())]
    ExecutionWithoutMakespan(ObjectiveKind),
    /// Several calls per accelerator for an objective other than latency.
    #[error("{0} calls per accelerator apply only to latency")]
    CallsWithoutLatency(u32),
}

/// Maximum number of microbatches per iteration.
pub const MAX_MICROBATCHES: u32 = 1 << 16;

impl Throughput {
    /// Validates everything that does not depend on a graph.
    fn validate(&self) -> Result<(), ObjectiveError> {
        if self.microbatches == 0 {
            return Err(ObjectiveError::Zero { what: "microbatches" });
        }
        if self.max_replicas == 0 {
            return Err(ObjectiveError::Zero { what: "max_replicas" });
        }
        if self.schedule == Schedule::None && self.microbatches > 1 {
            return Err(ObjectiveError::MicrobatchesWithoutSchedule(self.microbatches));
        }
        if self.schedule != Schedule::None && self.split != Split::Contiguous {
            return Err(ObjectiveError::ScheduleWithoutOrder(self.split));
        }
        if self.microbatches > MAX_MICROBATCHES {
            let (count, limit) = (self.microbatches, MAX_MICROBATCHES);
            return Err(ObjectiveError::TooManyMicrobatches { count, most: limit });
        }
        if self.schedule.has_chunks() {
            return Err(ObjectiveError::InterleavedPlan);
        }
        if self.schedule == Schedule::ZeroBubbleTwice {
            return Err(ObjectiveError::OverlappingPlan);
        }
        if self.times_iteration() && self.training == Training::Separate {
            return Err(ObjectiveError::SeparateUnderSchedule);
        }
        Ok(())
    }

    /// Whether the value is the time of an iteration under a schedule.
    #[inline]
    fn times_iteration(&self) -> bool {
        self.schedule != Schedule::None && !self.is_bottleneck
    }

    /// Load of one pass of a stage on `replicas` replicas, without the synchronisation among them. The replicas share
    /// compute and transfers; each of them synchronises the gradients of shared parameters, after the transfers.
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

impl Objective {
    /// Reads the objective of a document. Its value is ignored, and so is its split rule unless the objective is
    /// throughput.
    ///
    /// # Errors
    /// If a count is zero, if rules contradict one another, or if a rule does not apply to the objective.
    pub fn from_document(document: &ObjectiveDocument) -> Result<Objective, ObjectiveError> {
        let calls = document.calls.unwrap_or(1);
        let rules = Throughput {
            split: document.split,
            communication: document.communication,
            training: document.training,
            schedule: document.schedule,
            microbatches: document.microbatches.unwrap_or(1),
            is_bottleneck: false,
            max_replicas: document.max_replicas.unwrap_or(1),
        };
        if calls == 0 {
            return Err(ObjectiveError::Zero { what: "calls" });
        }
        if calls > 1 && document.kind != ObjectiveKind::Latency {
            return Err(ObjectiveError::CallsWithoutLatency(calls));
        }
        if document.execution != Execution::Ports && document.kind != ObjectiveKind::Makespan {
            return Err(ObjectiveError::ExecutionWithoutMakespan(document.kind));
        }
        let objective = match document.kind {
            ObjectiveKind::Throughput => Objective::Throughput(rules),
            ObjectiveKind::Latency => Objective::Latency { calls },
            ObjectiveKind::Makespan => Objective::Makespan { execution: document.execution },
        };
        if document.kind != ObjectiveKind::Throughput {
            // One sample or one step is not a pipeline: the rules of its own objective determine what overlaps.
            let of_pipelines = [
                (rules.communication != Communication::Serial, "communication that overlaps"),
                (rules.training != Training::Combined, "training with separate passes"),
                (rules.schedule != Schedule::None, "a schedule"),
                (rules.max_replicas > 1, "a replicated stage"),
            ];
            if let Some((_, what)) = of_pipelines.into_iter().find(|&(asked, _)| asked) {
                return Err(ObjectiveError::OnlyForThroughput(what, document.kind));
            }
            Throughput { split: Split::Contiguous, ..rules }.validate()?;
        }
        objective.validate()?;
        Ok(objective)
    }

    /// The document of the objective and a value, omitting parameters that do not apply.
    pub fn to_document(&self, value_s: Option<f64>) -> ObjectiveDocument {
        let Throughput { split, communication, training, schedule, microbatches, max_replicas, .. } =
            self.rules();
        ObjectiveDocument {
            kind: self.kind(),
            split,
            communication,
            training,
            schedule,
            microbatches: (schedule != Schedule::None).then_some(microbatches),
            max_replicas: (max_replicas > 1).then_some(max_replicas),
            calls: (self.kind() == ObjectiveKind::Latency).then_some(self.calls()),
            execution: self.execution(),
            value_s,
        }
    }

    /// Validates everything that does not depend on a graph.
    ///
    /// # Errors
    /// If a count is zero, or if rules contradict one another.
    pub fn validate(&self) -> Result<(), ObjectiveError> {
        match self {
            Objective::Throughput(rules) => rules.validate(),
            Objective::Latency { calls: 0 } => Err(ObjectiveError::Zero { what: "calls" }),
            Objective::Latency { .. } | Objective::Makespan { .. } => Ok(()),
        }
    }

    /// The objective under another split rule; unchanged if it has no split rule.
    #[must_use]
    pub fn with_split(self, split: Split) -> Objective {
        match self {
            Objective::Throughput(rules) => Throughput { split, ..rules }.into(),
            Objective::Latency { .. } | Objective::Makespan { .. } => self,
        }
    }

    /// The kind of value that the objective minimises.
    pub fn kind(&self) -> ObjectiveKind {
        match self {
            Objective::Throughput(_) => ObjectiveKind::Throughput,
            Objective::Latency { .. } => ObjectiveKind::Latency,
            Objective::Makespan { .. } => ObjectiveKind::Makespan,
        }
    }

    /// The rules of the pipeline. One sample or one step is not a pipeline; its rules are any split, serial
    /// communication, one pass, and no replicas.
    #[inline]
    pub fn rules(&self) -> Throughput {
        match self {
            Objective::Throughput(rules) => *rules,
            _ => Throughput { split: Split::Free, ..Throughput::default() },
        }
    }

    /// The maximum number of calls per accelerator: 1 unless the objective is the latency.
    pub fn calls(&self) -> u32 {
        match self {
            Objective::Latency { calls } => *calls,
            _ => 1,
        }
    }

    /// The execution model of one step.
    pub fn execution(&self) -> Execution {
        match self {
            Objective::Makespan { execution } => *execution,
            _ => Execution::Ports,
        }
    }

    /// Whether the value is the time of an iteration under a schedule.
    #[inline]
    pub fn times_iteration(&self) -> bool {
        matches!(self, Objective::Throughput(rules) if rules.times_iteration())
    }

    /// Lower bound on the ratio of the value to the smallest possible bottleneck load of a placement: an iteration of m
    /// microbatches takes at least m times the load of the slowest device.
    pub fn repetitions(&self) -> f64 {
        if self.times_iteration() { f64::from(self.rules().microbatches) } else { 1.0 }
    }

    /// Relaxation of the iteration time to the bottleneck load, with a lower bound on the memory under the schedule.
    /// The value of the relaxation times the number of microbatches is at most the iteration time of the same
    /// placement, and a placement that is feasible under the schedule is feasible here. Under GPipe the passes run one
    /// after the other, each with its own slowest stage; under the other schedules a device is busy for m times its
    /// load of both passes. With uplinks, GPipe is also relaxed to loads of both passes: an iteration takes m times the
    /// load of both passes on one uplink, but the slowest stage of one pass and the slowest uplink of the other do not
    /// add up.
    #[must_use]
    pub fn bottleneck(&self, has_uplinks: bool) -> Objective {
        let Objective::Throughput(rules) = *self else { return *self };
        let (schedule, training) = match rules.schedule {
            Schedule::GPipe if !has_uplinks => (Schedule::GPipe, Training::Separate),
            schedule if schedule.is_split() => (Schedule::OneFOneB, rules.training),
            other => (other, rules.training),
        };
        Throughput { schedule, training, is_bottleneck: schedule != Schedule::None, ..rules }.into()
    }

    /// Number of microbatches whose activations a stage keeps. `from_last` counts stages from the last, which is 1. If
    /// the stage has more stages before it, the number is at least as large.
    #[inline]
    pub fn in_flight(&self, from_last: u32) -> u32 {
        self.in_flight_of(from_last, from_last)
    }

    /// Number of microbatches whose activations a stage keeps in a pipeline of `stages` stages. `from_last` counts
    /// stages from the last, which is 1.
    ///
    /// 1F1B: min(j, m) (Narayanan et al., "Memory-efficient pipeline-parallel DNN training", ICML 2021). GPipe: m
    /// (Huang et al., NeurIPS 2019). Zero-bubble: min(p, m) on every stage, which includes the tensors that weight
    /// gradients still need; zero-bubble-2p: min(2 p − 1, m) (Qi et al., ICLR 2024).
    #[inline]
    pub fn in_flight_of(&self, from_last: u32, stages: u32) -> u32 {
        let Objective::Throughput(Throughput { schedule, microbatches, .. }) = *self else { return 1 };
        match schedule {
            Schedule::None => 1,
            Schedule::GPipe => microbatches,
            // Plans with several stages per device are none of this objective.
            Schedule::OneFOneB | Schedule::Interleaved | Schedule::DualPipeV => {
                microbatches.min(from_last.max(1))
            }
            Schedule::ZeroBubble => microbatches.min(stages.max(1)),
            Schedule::ZeroBubbleTwice => microbatches.min(stages.max(1).saturating_mul(2) - 1),
        }
    }

    /// Whether a stage's memory depends on its distance from the last stage.
    #[inline]
    pub fn memory_depends_on_stage(&self) -> bool {
        self.in_flight(1) != self.in_flight(u32::MAX)
    }

    /// Number of separately scored loads: 2 (forward and backward) with `separate` training, or if a schedule runs the
    /// passes; otherwise 1.
    #[inline]
    pub fn passes(&self) -> usize {
        let Objective::Throughput(rules) = self else { return 1 };
        if rules.training == Training::Separate || rules.times_iteration() { 2 } else { 1 }
    }
}

/// Sums over a set of units, for one pass.
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

/// Seconds per step to synchronise the parameters of a stage replicated on `replicas` devices: a ring all-reduce moves
/// 2 (r − 1)/r of the bytes over each link (Patarasuk and Yuan, JPDC 2009).
#[inline]
pub fn synchronisation(parameter_bytes: f64, replicas: u32, bandwidth: f64) -> f64 {
    if replicas <= 1 {
        return 0.0;
    }
    let replicas = f64::from(replicas);
    2.0 * (replicas - 1.0) / replicas * parameter_bytes / bandwidth
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_keeps_every_rule() {
        let mut objectives = vec![ObjectiveKind::Makespan.into(), Objective::Latency { calls: 3 }];
        objectives.push(Objective::Makespan { execution: Execution::ContentionFree });
        for schedule in [Schedule::None, Schedule::GPipe, Schedule::OneFOneB, Schedule::ZeroBubble] {
            for split in [Split::Contiguous, Split::Convex, Split::Free] {
                for communication in [Communication::Serial, Communication::Overlap, Communication::Duplex] {
                    for training in [Training::Combined, Training::Separate] {
                        let microbatches = if schedule == Schedule::None { 1 } else { 4 };
                        let rules =
                            Throughput { split, communication, training, schedule, ..Default::default() };
                        objectives.push(Throughput { microbatches, max_replicas: 2, ..rules }.into());
                    }
                }
            }
        }
        let (sound, contradictory): (Vec<_>, Vec<_>) =
            objectives.into_iter().partition(|objective: &Objective| objective.validate().is_ok());
        assert_eq!((sound.len(), contradictory.len()), (30, 45));
        for objective in sound {
            assert_eq!(Objective::from_document(&objective.to_document(None)), Ok(objective));
        }
        for objective in contradictory {
            assert!(Objective::from_document(&objective.to_document(None)).is_err(), "{objective:?}");
        }
    }

    #[test]
    fn schedules_that_only_joint_plans_express_are_refused() {
        for (schedule, refused) in [
            (Schedule::Interleaved, ObjectiveError::InterleavedPlan),
            (Schedule::DualPipeV, ObjectiveError::InterleavedPlan),
            (Schedule::ZeroBubbleTwice, ObjectiveError::OverlappingPlan),
        ] {
            let rules = Throughput { schedule, microbatches: 4, ..Throughput::default() };
            assert_eq!(Objective::from(rules).validate(), Err(refused));
        }
    }
}
