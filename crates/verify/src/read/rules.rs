//! The rules in the objective of a plan.

use stagewright_core::document::{
    Communication, Execution, ObjectiveDocument, ObjectiveKind, Schedule, Split, Training,
};

use crate::error::CheckError;

/// Number of microbatches for which a stage keeps activations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum InFlight {
    /// One microbatch, without a schedule.
    One,
    /// GPipe: every stage keeps the given number of microbatches.
    All(u32),
    /// min(j, this number) microbatches on the j-th used stage from the last, which is 1: 1F1B.
    FromLast(u32),
    /// min(number of stages, this number) microbatches on every stage: zero-bubble.
    Stages(u32),
}

/// Maximum number of microbatches of an iteration, since the checker simulates all of them.
const MAX_MICROBATCHES: u32 = 65536;

/// The quantity to minimise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Objective {
    /// The bottleneck load.
    Throughput,
    /// Latency of one sample through offloaded calls, at most `calls` for each accelerator.
    Latency { calls: u32 },
    /// Duration of one step under dataflow execution.
    Makespan { execution: Execution },
}

/// The rules under which a plan is scored.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rules {
    pub(crate) objective: Objective,
    /// Split rule. Ignored for latency, whose split rule is that of its calls, and for makespan, which has no split
    /// rule.
    pub(crate) split: Split,
    pub(crate) communication: Communication,
    pub(crate) training: Training,
    pub(crate) schedule: Schedule,
    /// Number of microbatches of an iteration; 1 without a schedule.
    pub(crate) microbatches: u32,
    pub(crate) in_flight: InFlight,
    pub(crate) max_replicas: u32,
}

impl Rules {
    /// Reads the objective.
    pub(super) fn read(objective: &ObjectiveDocument) -> Result<Self, CheckError> {
        let minimised = minimised(objective)?;
        let microbatches = |rule| match objective.microbatches {
            Some(count) if count > MAX_MICROBATCHES => {
                Err(CheckError::Rule { rule, needs: "at most 65536 microbatches" })
            }
            Some(count) if count > 0 => Ok(count),
            _ => Err(CheckError::Rule { rule, needs: "at least one microbatch" }),
        };
        let in_flight = match objective.schedule {
            Schedule::None => without_schedule(objective.microbatches)?,
            Schedule::GPipe => InFlight::All(microbatches("the schedule gpipe")?),
            Schedule::OneFOneB => InFlight::FromLast(microbatches("the schedule 1f1b")?),
            Schedule::Interleaved => {
                return Err(CheckError::NotChecked { what: "the schedule interleaved" });
            }
            Schedule::DualPipeV => {
                return Err(CheckError::NotChecked { what: "the schedule dualpipe-v" });
            }
            Schedule::ZeroBubbleTwice => {
                return Err(CheckError::NotChecked { what: "the schedule zero-bubble-2p" });
            }
            Schedule::ZeroBubble => InFlight::Stages(microbatches("the schedule zero-bubble")?),
        };
        if objective.schedule != Schedule::None && objective.training == Training::Separate {
            return Err(CheckError::Rule { rule: "a schedule", needs: "training with combined passes" });
        }
        if objective.schedule != Schedule::None && objective.split != Split::Contiguous {
            return Err(CheckError::Rule { rule: "a schedule", needs: "a contiguous split" });
        }
        let max_replicas = objective.max_replicas.unwrap_or(1);
        if max_replicas == 0 {
            return Err(CheckError::Rule { rule: "max_replicas", needs: "at least one device per stage" });
        }
        match minimised {
            Objective::Throughput => {}
            Objective::Latency { .. } => nothing_of_pipelines("the objective latency", objective)?,
            Objective::Makespan { .. } => nothing_of_pipelines("the objective makespan", objective)?,
        }
        Ok(Rules {
            objective: minimised,
            split: objective.split,
            communication: objective.communication,
            training: objective.training,
            schedule: objective.schedule,
            microbatches: match in_flight {
                InFlight::One => 1,
                InFlight::All(count) | InFlight::FromLast(count) | InFlight::Stages(count) => count,
            },
            in_flight,
            max_replicas,
        })
    }
}

/// Microbatches in flight without a schedule: the order of several microbatches is undefined, so at most one is
/// allowed.
fn without_schedule(microbatches: Option<u32>) -> Result<InFlight, CheckError> {
    match microbatches {
        None | Some(1) => Ok(InFlight::One),
        Some(0) => Err(CheckError::Rule { rule: "an iteration", needs: "at least one microbatch" }),
        Some(_) => {
            Err(CheckError::Rule { rule: "an iteration of several microbatches", needs: "a schedule" })
        }
    }
}

fn minimised(objective: &ObjectiveDocument) -> Result<Objective, CheckError> {
    let calls = objective.calls.unwrap_or(1);
    match objective.kind {
        _ if calls == 0 => {
            Err(CheckError::Rule { rule: "calls", needs: "at least one call per accelerator" })
        }
        ObjectiveKind::Throughput | ObjectiveKind::Makespan if calls > 1 => {
            Err(CheckError::Rule { rule: "several calls per accelerator", needs: "the objective latency" })
        }
        ObjectiveKind::Throughput | ObjectiveKind::Latency if objective.execution != Execution::Ports => {
            Err(CheckError::Rule { rule: "an execution without contention", needs: "the objective makespan" })
        }
        ObjectiveKind::Throughput => Ok(Objective::Throughput),
        ObjectiveKind::Latency => Ok(Objective::Latency { calls }),
        ObjectiveKind::Makespan => Ok(Objective::Makespan { execution: objective.execution }),
    }
}

/// Rejects options of pipelines. A call receives its inputs, computes and sends its outputs, one after the
/// other and for one sample; makespan is about one step, whose rules determine the overlap.
fn nothing_of_pipelines(rule: &'static str, objective: &ObjectiveDocument) -> Result<(), CheckError> {
    let needs = [
        (objective.communication == Communication::Serial, "serial communication"),
        (objective.training == Training::Combined, "combined training"),
        (objective.schedule == Schedule::None, "no schedule"),
        (objective.max_replicas.is_none_or(|limit| limit <= 1), "a max_replicas of 1"),
    ];
    match needs.into_iter().find(|(met, _)| !met) {
        Some((_, needs)) => Err(CheckError::Rule { rule, needs }),
        None => Ok(()),
    }
}
