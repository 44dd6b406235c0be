//! Error codes about models in the reference format.

stagewright_core::codes! {
    /// models in the reference format
    pub enum R {
        /// duplicate node id
        ///
        /// Edges and splits refer to nodes by id, so ids must be unique; gaps are allowed.
        R001,

        /// edge to an unknown node
        ///
        /// `sourceId` or `destId` of an edge is not the id of a node. Add the node, or remove the edge.
        R002,

        /// edge from a node to itself
        ///
        /// `sourceId` and `destId` of an edge are the same, and no node can wait for itself. Remove the edge.
        R003,

        /// edges of one node with different costs
        ///
        /// All edges out of a node are one tensor, sent to every reader at the same `cost`. Make the costs equal, or give each tensor
        /// a node of its own.
        R004,

        /// edge from a backward to a forward node
        ///
        /// Forward nodes run before backward ones. Correct `isBackwardNode` of one of the two, or remove the edge.
        R005,

        /// cycle of edges
        ///
        /// Following the edges leads back to the start; the message has the ids. Unroll loops, and give a gradient a backward node of
        /// its own.
        R006,

        /// invalid number in a reference model
        ///
        /// A time, size or cost is negative or not finite. A node that does not run on an accelerator has `supportedOnFpga` false and
        /// any time.
        R007,

        /// invalid number of devices
        ///
        /// `maxFPGAs` and `maxCPUs` are whole numbers from 0 to a million.
        R008,

        /// model without nodes
        ///
        /// `nodes` is empty, so there is nothing to place.
        R009,

        /// model without a cluster
        ///
        /// The reference format holds a model together with its devices. Give them: `convert MODEL OUT --to reference --cluster
        /// FILE`.
        R011,

        /// cluster that the format cannot express
        ///
        /// The reference format has one kind of accelerator and one of host, without groups or matrix, and unlimited host memory.
        /// Give such a cluster.
        R012,

        /// operator without a measured time
        ///
        /// The reference format has only times, no FLOP or bytes to derive them from, and cannot say that a node does not run on
        /// hosts. Give the operator `seconds` for both classes, or give a cluster without a host.
        R013,

        /// operator with several outputs
        ///
        /// In the reference format a node makes one tensor. Give every further tensor an operator of its own, without cost.
        R014,

        /// transfer without a time
        ///
        /// The reference format has the seconds of every transfer. Give the tensor `seconds`, or the kind of accelerators a link to
        /// derive them from.
        R015,

        /// unknown or ambiguous name
        ///
        /// A tensor names an unknown operator, or two operators have the same name, so their nodes cannot be numbered. Correct the
        /// names.
        R016,

        /// cost that the format cannot express
        ///
        /// In the reference format a node is forward or backward and has one size, which a device holds once. An update pass,
        /// activations stashed for each microbatch in flight, and the live tensors and shared parameters of `stagewright.graph/2` are
        /// refused, because without them the problem would be a different one. Merge updates into backward operators, and count
        /// bytes held once as `parameter_bytes` of a `stagewright.graph/1`.
        R017,
    }
}
