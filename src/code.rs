//! Error codes of the facade, which the program and the Python package also give.

pub use I::*;
pub use U::*;
pub use X::*;
pub use Z::*;

stagewright_core::codes! {
    /// files and streams
    pub enum I {
        /// file cannot be read
        ///
        /// The file does not exist, is a folder, or is not readable. For a cluster, an argument with a dot or a slash is always taken
        /// for a file, and anything else for a name if there is no such file.
        I001,

        /// file cannot be written
        ///
        /// The folder does not exist or is not writable, or the disk is full. A file is written completely or not at all, so an
        /// existing file is unchanged.
        I002,

        /// standard output cannot be written
        ///
        /// The disk that receives the output is full, or the device has failed. A reader that closes the pipe, as `head` does, is not
        /// an error.
        I003,

        /// standard input used twice
        ///
        /// `-` means standard input, which can be read once. Give one of the two as a file.
        I004,

        /// corrupt gzip file
        ///
        /// The file begins like gzip, but is truncated or damaged, or unpacks to more than 1 GiB. Write it again;
        /// unpack a larger file with `gunzip` and give the result.
        I005,

        /// input too large
        ///
        /// An input that is held in memory whole is larger than 1 GiB: a file, a device, a pipe or standard input. Only an ONNX model
        /// may be larger, as an unpacked file, because it is read without its weights. Check that the file is the one you mean.
        I006,
    }
}

stagewright_core::codes! {
    /// options
    pub enum U {
        /// invalid value of an option
        ///
        /// A count is 0 or out of its range, a time, size or share is invalid or has no unit, the option conflicts with the other options,
        /// two options name the same output file, or an output file is one that the command reads. Times are written 60s, 500ms, 2m or
        /// none, sizes 8GiB, 512MiB or 1000B, shares 1% or 0.01. From Python, the place is the argument.
        U001,

        /// missing cluster
        ///
        /// Neither the model nor a plan that is read contains a cluster, so the devices are unknown. Give one: a file, a name, or devices:
        ///
        /// ```text
        /// stagewright plan model.json --cluster 8xa100
        /// ```
        U002,

        /// unknown solver
        ///
        /// `stagewright solvers` lists the solvers, with what they support and those that this build lacks: one without the cargo
        /// feature `milp` has no solvers on HiGHS. `auto`, the default, chooses by the objective.
        U003,

        /// solver that does not support the objective
        ///
        /// Every solver takes only some objectives, splits and rules. The help lists those that take this one; `auto` chooses among
        /// them. `--robust` is for throughput in one pass and without a schedule: only there is the worst case the maximum of the worst
        /// loads.
        U004,

        /// unknown format
        ///
        /// `--format` or `--to` names an unknown format, or one that this input cannot be written in. The help lists the possible
        /// ones.
        U005,

        /// placement on a device that cannot run the operator
        ///
        /// A step of such a plan is meaningless, so it is not simulated. `check` lists everything that is wrong with the plan.
        U006,

        /// baseline that does not apply
        ///
        /// `--baseline` names the contender that speed-ups are relative to. Add the name to `--solvers`, or name one of the
        /// contenders.
        U007,

        /// plan without a value
        ///
        /// There is nothing to explain, because the plan has no value: for example, an operator is on a device that cannot run it.
        /// `check` lists its faults.
        U008,

        /// unknown error code
        ///
        /// `--explain` takes a code as it appears in brackets in an error, such as `G004`, in upper or lower case. This page has all
        /// of them.
        U009,

        /// build without the learned policy
        ///
        /// The program was built without the feature `policy`, which is on by default.
        U010,

        /// class of devices missing in the cluster
        ///
        /// The times of a profile are for one class of devices. The cluster has no such class, or the profile does not name its class
        /// and the cluster has accelerators of several classes. Give one of the classes of the cluster with `--profile-class`: that
        /// of `8xa100` is `a100-80gb`, as `convert 8xa100 -` shows.
        U011,

        /// option of another format
        ///
        /// The option has no effect on a model of this format: `--dim`, for example, gives sizes that ONNX leaves open, and a
        /// `stagewright.graph` document leaves none open. Omit the option, or make the change where the document is made: with
        /// `convert` from the original model, or with `workload`.
        U012,

        /// option that does not apply
        ///
        /// A strategy problem has no devices, objective or timeline, and one solver, `lagrangian`, so options about these do not apply to
        /// it. A joint plan has an objective of its own, of which only `--schedule` can be given, and only
        /// for a training graph; `check` and `explain` take all of it from the plan. Omit the option.
        U013,

        /// log of training that does not fit the plan
        ///
        /// The log of `explain --measured` counts tokens, and the graph does not say how many a sample has. State `tokens` in `batch`
        /// of the graph, or give a log with seconds of iterations.
        U014,

        /// runtime that cannot be calibrated
        ///
        /// `--calibrate` fits the constants of the runtime of the plan. The ideal runtime has none: plan with a runtime such as
        /// `megatron`. Or the log is faster than the plan is without any compute, because of the host, of collectives or of
        /// updates, as the message says: usually the log is of another model, batch or cluster.
        U015,
    }
}

stagewright_core::codes! {
    /// the program itself
    pub enum X {
        /// internal failure
        ///
        /// A solver or writer broke an invariant of its own, or no worker threads could be started. If the message says that it is an
        /// internal error, it is a defect: please report it, with the input and the command.
        X001,
    }
}

stagewright_core::codes! {
    /// arguments of the Python package
    pub enum Z {
        /// array of another shape or type
        ///
        /// Placements are an array of shape (placements, operators) with the number of a device for every operator: integers from 0 in
        /// the order of `problem.devices`, best as `uint16`, which is not copied. Priorities are numbers of the same shape. An array that
        /// is not contiguous becomes so with `numpy.ascontiguousarray`. A cluster of more than 65,536 devices has no such arrays.
        Z001,

        /// operator without a device, or unknown name
        ///
        /// A placement by name has a device for every operator of `problem.operators`, and no other operators; devices are those of
        /// `problem.devices`.
        Z002,

        /// placement that violates a constraint
        ///
        /// There is no plan of such a placement. `Problem.violations` lists every violated constraint, and `Problem.evaluate` gives
        /// infinity for such placements.
        Z003,
    }
}
