//! Error codes of joint plans.

pub use J::*;

stagewright_core::codes! {
    /// joint plans
    pub enum J {
        /// model without layers, or with too many
        ///
        /// A file of Piper has no nodes, more than 2,048 of them, or more than 1,048,576 configurations. Merge layers before profiling
        /// them.
        J001,

        /// nodes and edges that do not fit together
        ///
        /// Two nodes have the same id, an id refers to no node, or two edges join the same nodes. The keys of
        /// `syncTimeFw` are ids of predecessors, those of `syncTimeBw` ids of successors.
        J002,

        /// number out of range
        ///
        /// Times, bytes and the bandwidth are finite and not negative, degrees and numbers of devices and microbatches are at least 1.
        J003,

        /// cycle
        ///
        /// The edges of a file of Piper form a cycle, so no stage can be the first.
        J004,

        /// batch of unknown size
        ///
        /// A file of Piper has no `mbsInBatch`. Add it, or give `--global-batch N`.
        J005,

        /// graph without an order of layers
        ///
        /// A stage of a joint plan is a range of layers, so a layer reads from earlier layers only. Two operators share a name, an operator
        /// is missing, the forward pass has a cycle, or a layer reads from a later one. Correct the names, or put the
        /// operators of such a cycle into one layer.
        J006,

        /// graph without a backward pass
        ///
        /// A joint plan is for training. Give a native graph of a training step, as `--phase training` draws of a language model, `workload … --training` or the exporter for PyTorch
        /// writes it.
        J007,

        /// device or operator without figures
        ///
        /// A kind of a cluster needs a class, memory and a link, and servers a number of devices and a link. Every operator needs FLOP or
        /// bytes moved that the class has a peak and a bandwidth for, or measured seconds for it.
        J008,

        /// too many kinds or layers, or not two kinds for `mixed`
        ///
        /// Joint plans are made for one to four kinds of devices that are not hosts, two with `mixed`, for models of up
        /// to 2,048 layers, and for up to 262,144 combinations of degrees: give the degrees of `tp`, `dp` or `zero`, or
        /// `--microbatch`, for a cluster of many kinds.
        J009,

        /// batch, degree or schedule out of range
        ///
        /// The global batch is from 1 to 131,072 samples, the microbatch and the degree of data parallelism divide it, degrees are at
        /// least 1, groups of copies have at least 2, the stage of ZeRO is from 0 to 3, and `offload` is 0 (nothing is on the
        /// host) or 1 (the states of the optimizer are). Schedules are `1f1b`, `interleaved`, `zero-bubble`,
        /// `zero-bubble-2p` and `dualpipe-v`. Chunks are at least 2, 2 under `dualpipe-v`, and belong to the schedules `interleaved`
        /// and `dualpipe-v`. A cut has the numbers of layers that end in a
        /// number, of every stage: they add up to those of the model, only the first and the last may be 0, and there are as many
        /// stages as devices of a pipeline, times the chunks of each.
        J010,

        /// runtime that does not exist, or constant out of range
        ///
        /// `--runtime` is one of the names that its help lists, `ideal`, or a file with all constants of a runtime, as they are in the
        /// `runtime` of a joint plan. The message says the range of the constant.
        J011,
    }
}
