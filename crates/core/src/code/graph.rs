//! Error codes about graphs.

crate::codes! {
    /// graphs
    pub enum G {
        /// unknown graph schema
        ///
        /// The document declares another schema or version. A graph begins with
        ///
        /// ```text
        /// { "schema": "stagewright.graph/1", … }
        /// ```
        ///
        /// Correct that field, or name the format of the file with `--format`.
        G001,

        /// duplicate operator name
        ///
        /// Tensors, pins and plans refer to operators by name, so names must be unique. The message has the positions of both.
        G002,

        /// operator without a name
        ///
        /// The name of an operator is empty. Give it a name.
        G003,

        /// invalid number in a graph
        ///
        /// A time, a size or a count of FLOP is negative, infinite or not a number. Costs are finite and at least 0:
        ///
        /// ```text
        /// { "name": "conv1", "seconds": { "gpu": -1.0 } }
        /// ```
        ///
        /// For an operator that a class cannot run, list the class under `unsupported` instead of giving an infinite time.
        G004,

        /// tensor of an unknown operator
        ///
        /// The `producer` or a consumer of a tensor is not among the operators. Correct the name, or add the operator.
        G005,

        /// operator listed twice in a tensor
        ///
        /// A consumer is listed twice, or is also the producer. List every reader once; an operator does not read its own output.
        G006,

        /// cycle of operators
        ///
        /// Following tensors from operator to operator leads back to the start, so none of these operators could start. The message
        /// has one such cycle. A graph describes one sample or step: unroll loops, and give a gradient an operator of its own.
        G007,

        /// forward operator that reads a backward one
        ///
        /// An operator with `"pass": "forward"` reads an output of a backward or update operator, but the forward pass runs first.
        /// Correct the `pass` of one of the two.
        G008,

        /// graph too large
        ///
        /// There are more operators, tensors or pins than 32-bit indices can number. Coarsen the graph: layers instead of operators.
        G009,

        /// parameters in a graph of version 1
        ///
        /// `parameters`, which several operators share, exist only in `stagewright.graph/2`. Set `schema` to that; memory then counts
        /// live tensors and workspace as in that version.
        G010,

        /// parameter without readers
        ///
        /// `readers` of a shared parameter is empty, so no device would hold it. List the operators that read it, or remove it.
        G011,

        /// unknown reader of a parameter
        ///
        /// `readers` names an operator that is not in the graph. Correct the name or add the operator.
        G012,

        /// duplicate reader of a parameter
        ///
        /// A shared parameter lists an operator twice among its readers. List every reader once.
        G013,
    }
}
