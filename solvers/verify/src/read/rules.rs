//! The rules that the objective of a plan states.

use stagewright_core::document::{
    Communication, ObjectiveDocument, ObjectiveKind, Schedule, Split, Training,
};

use crate::error::CheckError;

/// How many microbatches a stage keeps activations for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum InFlight {
    /// One, without a schedule.
    One,
    /// This many on every stage: GPipe.
    All(u32),
    /// On the j-th used stage from the last, which is 1, the smaller of j and this many: 1F1B.
    FromLast(u32),
}

/// The rules under which a plan is scored.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rules {
    pub(crate) split: Split,
    pub(crate) communication: Communication,
    pub(crate) training: Training,
    pub(crate) in_flight: InFlight,
    pub(crate) max_replicas: u32,
}

impl Rules {
    /// Reads the objective, unless it is one that this version does not check.
    pub(super) fn read(objective: &ObjectiveDocument) -> Result<Self, CheckError> {
        match objective.kind {
            ObjectiveKind::Throughput => {}
            ObjectiveKind::Latency => return Err(CheckError::NotChecked { what: "the objective latency" }),
            ObjectiveKind::Makespan => return Err(CheckError::NotChecked { what: "the objective makespan" }),
        }
        let microbatches = |rule| match objective.microbatches {
            Some(count) if count > 0 => Ok(count),
            _ => Err(CheckError::Rule { rule, needs: "at least one microbatch" }),
        };
        let in_flight = match objective.schedule {
            Schedule::None => InFlight::One,
            Schedule::GPipe => InFlight::All(microbatches("the schedule gpipe")?),
            Schedule::OneFOneB => InFlight::FromLast(microbatches("the schedule 1f1b")?),
            Schedule::Interleaved => {
                return Err(CheckError::NotChecked { what: "the schedule interleaved" });
            }
            Schedule::ZeroBubble => {
                return Err(CheckError::NotChecked { what: "the schedule zero-bubble" });
            }
        };
        let max_replicas = objective.max_replicas.unwrap_or(1);
        if max_replicas == 0 {
            return Err(CheckError::Rule { rule: "max_replicas", needs: "at least one device a stage" });
        }
        Ok(Rules {
            split: objective.split,
            communication: objective.communication,
            training: objective.training,
            in_flight,
            max_replicas,
        })
    }
}
