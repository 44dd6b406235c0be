//! Errors of pipeline schedules.

use thiserror::Error;

use crate::code::Code;
use crate::code::T::*;
use crate::simulate::FlowError;

/// A pipeline that cannot be scheduled.
#[derive(Debug, Clone, PartialEq, Error)]
#[non_exhaustive]
pub enum ScheduleError {
    /// No stage or no microbatch.
    #[error("a pipeline needs at least one stage and one microbatch")]
    Empty,
    /// No schedule.
    #[error("the schedule is none: there is nothing to run")]
    NoSchedule,
    /// Several stages per device under a schedule that allows only one.
    #[error(
        "{stages} stages on {devices} devices: only interleaved 1f1b and dualpipe-v run several stages on a device"
    )]
    OneStageEach {
        /// Stages.
        stages: usize,
        /// Devices.
        devices: u32,
    },
    /// Stages that cannot be divided evenly among the devices.
    #[error("{stages} stages cannot be distributed evenly over {devices} devices")]
    Uneven {
        /// Stages.
        stages: usize,
        /// Devices.
        devices: u32,
    },
    /// Microbatches that interleaved 1F1B cannot run in whole rounds.
    #[error(
        "interleaved 1f1b takes microbatches in rounds of {devices}, and {microbatches} is not a multiple of that"
    )]
    Rounds {
        /// Microbatches.
        microbatches: u32,
        /// Devices.
        devices: u32,
    },
    /// Other than two stages per device under DualPipeV.
    #[error("{stages} stages on {devices} devices: dualpipe-v runs two stages on each device")]
    TwoStagesEach {
        /// Stages.
        stages: usize,
        /// Devices.
        devices: u32,
    },
    /// Fewer microbatches than DualPipeV has stages.
    #[error(
        "dualpipe-v on {devices} devices needs at least twice as many microbatches, and there are {microbatches}"
    )]
    FewMicrobatches {
        /// Microbatches.
        microbatches: u32,
        /// Devices.
        devices: u32,
    },
    /// Too many tasks to keep in memory.
    #[error("{stages} stages and {microbatches} microbatches make more than {most} tasks")]
    TooMany {
        /// Stages.
        stages: usize,
        /// Microbatches.
        microbatches: u32,
        /// Maximum number of tasks.
        most: usize,
    },
    /// Transfer times for a wrong number of boundaries.
    #[error("{given} pairs of transfer times for {stages} stages, expected one per stage boundary")]
    Transfers {
        /// Pairs given.
        given: usize,
        /// Stages.
        stages: usize,
    },
    /// Invalid number of chunks.
    #[error(
        "{chunks} stages per device, expected 2 under dualpipe-v, at least 1 under interleaved 1f1b and 1 under others"
    )]
    Chunks {
        /// Stages on each device.
        chunks: u32,
    },
    /// Operators of one stage on several devices.
    #[error("operator `{operator}` is on another device than the operators that must share its stage")]
    Parted {
        /// An operator of the stage.
        operator: String,
    },
    /// An operator on a device that cannot run it.
    #[error("operator `{operator}` cannot run on {device}")]
    Unsupported {
        /// The operator.
        operator: String,
        /// The device.
        device: String,
    },
    /// A stage too small to be divided.
    #[error("the stage of {device} has {units} units and cannot be divided into {chunks} chunks")]
    FewUnits {
        /// The device.
        device: String,
        /// Parts.
        units: usize,
        /// Requested chunks.
        chunks: usize,
    },
    /// Negative or non-finite value.
    #[error(transparent)]
    Figure(#[from] FlowError),
}

impl ScheduleError {
    /// Stable error code.
    pub fn code(&self) -> Code {
        match self {
            ScheduleError::Empty => T001,
            ScheduleError::NoSchedule => T002,
            ScheduleError::OneStageEach { .. } => T003,
            ScheduleError::Uneven { .. } => T004,
            ScheduleError::Rounds { .. } => T005,
            ScheduleError::TooMany { .. } => T006,
            ScheduleError::Transfers { .. } => T007,
            ScheduleError::Figure(_) => T008,
            ScheduleError::Chunks { .. } => T009,
            ScheduleError::Parted { .. } => T010,
            ScheduleError::Unsupported { .. } => T011,
            ScheduleError::FewUnits { .. } => T012,
            ScheduleError::TwoStagesEach { .. } => T013,
            ScheduleError::FewMicrobatches { .. } => T014,
        }
        .into()
    }

    /// Suggested fix.
    pub fn help(&self) -> &'static str {
        match self {
            ScheduleError::Empty => "give a plan with at least one stage, and at least one microbatch",
            ScheduleError::NoSchedule => {
                "use gpipe, 1f1b, interleaved, zero-bubble, zero-bubble-2p or dualpipe-v"
            }
            ScheduleError::OneStageEach { .. } => {
                "use interleaved 1f1b or dualpipe-v, or one stage for each device"
            }
            ScheduleError::TwoStagesEach { .. } => "divide the model into twice as many stages as devices",
            ScheduleError::FewMicrobatches { .. } => "use smaller microbatches, or fewer devices",
            ScheduleError::Uneven { .. } => "give every device the same number of stages",
            ScheduleError::Rounds { .. } => "use a multiple of the number of devices",
            ScheduleError::TooMany { .. } => "simulate fewer microbatches: after a few rounds they repeat",
            ScheduleError::Transfers { .. } => "give one pair per boundary, or none",
            ScheduleError::Chunks { .. } => {
                "give 2 chunks under dualpipe-v, omit them under schedules without chunks"
            }
            ScheduleError::Parted { .. } => {
                "give a contiguous split; `check` lists every violation of this one"
            }
            ScheduleError::Unsupported { .. } => {
                "let every device run every operator: interleaved 1f1b assigns the stages to all devices"
            }
            ScheduleError::FewUnits { .. } => "use fewer chunks, or fewer devices",
            ScheduleError::Figure(_) => "correct the figures: times are in seconds, sizes in bytes",
        }
    }
}
