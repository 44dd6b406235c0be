//! Error codes about model, cluster, objective and pins together.

crate::codes! {
    /// model, cluster, objective and pins together
    pub enum P {
        /// transfer without a time
        ///
        /// An operator may have to send a tensor from a kind without a link, and the tensor has no measured seconds for its class.
        /// Give the kind a link, or the tensor `seconds`.
        P001,

        /// sums too large
        ///
        /// Costs or bytes that are finite one by one add up to more than the program can compute with. Times are in seconds and
        /// sizes in bytes; the message names the largest term.
        P002,

        /// contradictory objective
        ///
        /// Options contradict one another: a count of 0, microbatches without a schedule, a schedule for a split without an order of
        /// stages, calls for an objective other than latency. The message says which; correct the options or, in a plan, its
        /// `objective`.
        P003,

        /// pin of an unknown operator
        ///
        /// The pins name an operator that the graph does not have. Correct the name, or remove the pin.
        P004,

        /// unknown pin target
        ///
        /// The pins name something that is not a device, kind or class of the cluster. A device is named after its kind and a number
        /// from 0, as `acc0`.
        P005,

        /// pin without a target
        ///
        /// An operator is pinned to an empty list, so no device could run it. List a device, kind or class, or remove the pin.
        P006,

        /// replicas without a link
        ///
        /// Replicas of a stage send gradients to each other, and the kind has no link from which to compute the time. Give the kind a
        /// link, or omit `--max-replicas`.
        P007,

        /// backward pass in one piece
        ///
        /// Zero-bubble defers the gradients of the weights, and no backward operator of this graph computes only those. Use
        /// `--schedule 1f1b`, or give the gradient of the weights an operator separate from that of the inputs.
        P008,

        /// time too short
        ///
        /// An operator or a transfer takes a time above zero that is shorter than 10⁻¹⁰⁰ seconds, so that rates and speed-ups are not
        /// finite. Times are in seconds, sizes in bytes and bandwidths in bytes per second; the message names the operator or tensor.
        /// Correct the figure, or give 0 for what takes no time.
        P009,

        /// layer flow out of range
        ///
        /// A problem of layer flow has up to 1,000 layers and 1,000 nodes. Every node serves a positive number of tokens per second
        /// with each number of layers that it may hold, and links carry 0 tokens per second or more between two nodes, from the
        /// `"source"` or to the `"sink"`. The message names the figure; correct the file.
        P010,
    }
}
