//! Error codes about pipeline schedules.

crate::codes! {
    /// pipeline schedules
    pub enum T {
        /// empty pipeline
        ///
        /// There is no stage or no microbatch, so there is nothing to schedule. Give a plan with a stage, and at least one
        /// microbatch.
        T001,

        /// no schedule
        ///
        /// The schedule is `none`. Name `gpipe`, `1f1b`, `interleaved`, `zero-bubble`,
        /// `zero-bubble-2p` or `dualpipe-v`.
        T002,

        /// several stages on a device
        ///
        /// Only interleaved 1F1B and DualPipeV run several stages on a device. Use `--schedule interleaved` or `--schedule
        /// dualpipe-v`, or one stage for each device.
        T003,

        /// stages that cannot be distributed evenly
        ///
        /// Interleaved 1F1B assigns stages to devices round-robin, the same number to each. Make the number of stages a multiple of
        /// the number of devices.
        T004,

        /// microbatches that do not fill whole rounds
        ///
        /// Interleaved 1F1B processes microbatches in rounds, one per device. Make their number a multiple of the number of devices.
        T005,

        /// too many tasks
        ///
        /// Every stage runs every microbatch in two or three tasks, and these would not fit in memory. Simulate fewer microbatches:
        /// after a few rounds they repeat.
        T006,

        /// transfer times for other boundaries
        ///
        /// Transfer times come as a pair, forward and backward, for each boundary between two stages, or not at all.
        T007,

        /// negative or non-finite value
        ///
        /// A time or size of a stage is negative or not finite, or their sum is more than the program can compute with. Times are in
        /// seconds, sizes in bytes.
        T008,

        /// invalid number of chunks
        ///
        /// `--chunks` divides every stage: it is 2 under DualPipeV, at least 1 under interleaved 1F1B, and absent under
        /// other schedules.
        T009,

        /// stage on two devices
        ///
        /// Operators that must share a stage are on several devices, so the plan is not a pipeline. Give a contiguous split; `check`
        /// reports the faults of this one.
        T010,

        /// device that cannot run a stage
        ///
        /// Interleaved 1F1B and DualPipeV assign stages to all devices, so each must be able to run every operator. Use another schedule, or
        /// devices of one kind.
        T011,

        /// stage that cannot be divided
        ///
        /// The stage has fewer inseparable parts than `--chunks`. Use fewer chunks, or fewer devices.
        T012,

        /// number of stages that DualPipeV cannot run
        ///
        /// Under DualPipeV, device i of p runs the stages i and 2 p − 1 − i. Divide the model into twice as many stages as
        /// devices.
        T013,

        /// too few microbatches for DualPipeV
        ///
        /// DualPipeV fills its pipeline with two microbatches for each device. Use smaller microbatches, or fewer devices.
        T014,
    }
}
