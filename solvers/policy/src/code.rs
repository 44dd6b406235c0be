//! Error codes of the learned policy.

pub use K::*;

stagewright_core::codes! {
    /// checkpoints and steps of the learned policy
    pub enum K {
        /// checkpoint cannot be read
        ///
        /// The file is not a safetensors file, or is truncated, for example by a full disk or an interrupted download. Copy it again,
        /// or train again.
        K001,

        /// not a checkpoint
        ///
        /// The file is safetensors, but its metadata or the names of its tensors are not those of the policy or of a learned system.
        /// Give a file that `stagewright train` or `stagewright finetune` wrote.
        K002,

        /// unknown checkpoint schema
        ///
        /// The metadata name a schema other than the expected one: `stagewright.policy/1` for the policy,
        /// `stagewright.system/1` for one of the learned systems. It is a checkpoint of another version or of another solver,
        /// or the state of a run of the policy, which contains more than a network. In the folder of a run, `best.safetensors`
        /// is the checkpoint.
        K003,

        /// checkpoint for other features
        ///
        /// The network was trained on another version of the features than this program computes, so its output would be
        /// meaningless. Use the version that wrote it, or train again.
        K004,

        /// invalid network size
        ///
        /// The sizes that the checkpoint declares are not valid for a network. The file was changed by hand or by a defect.
        K005,

        /// checkpoint without its network
        ///
        /// The parameters in the file do not match a network of the declared size: one is missing, superfluous or of another shape.
        K006,

        /// checkpoint with numbers that are not finite
        ///
        /// A parameter is infinite or not a number: training diverged, or the file is damaged. Use an earlier checkpoint, or train
        /// with a lower learning rate.
        K007,

        /// checkpoint in another precision
        ///
        /// Parameters are 32-bit floating-point numbers. Convert them.
        K008,

        /// training step failed
        ///
        /// A tensor could not be created, usually for lack of memory. Reduce `batch` or the network.
        K009,

        /// training diverged
        ///
        /// The gradients are not finite. The state of the last measurement is kept; lower `adam.rate` and train again.
        K010,
    }
}
