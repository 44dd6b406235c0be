//! Error codes about names of built-in clusters.

stagewright_core::codes! {
    /// names of built-in clusters
    pub enum N {
        /// unknown cluster or device
        ///
        /// The name is neither a built-in cluster nor a device nor an existing file. `stagewright clusters` and
        /// `stagewright devices` list all names; with a name they show its figures, each with its source.
        N001,

        /// incomplete cluster shorthand
        ///
        /// Devices are written `COUNTxDEVICE[:PRECISION][:MEMORY][@LINK]`, joined by `+`:
        ///
        /// ```text
        /// 8xv100:fp32@nvlink+1xepyc-7742
        /// ```
        ///
        /// Something is missing next to one of the signs or is there twice, or a cluster is used in place of a device. To
        /// modify a cluster, write it to a file (`stagewright convert NAME cluster.toml`).
        N002,

        /// device count of zero
        ///
        /// The count is 0. Give at least 1, or omit the term.
        N003,

        /// too many devices or terms
        ///
        /// The counts add up to more than a million devices, or there are more than 26 terms. Correct the counts, or write the
        /// cluster to a file.
        N004,

        /// precision without a peak
        ///
        /// The device has no known peak at this precision. The help lists its precisions; without one, the default is used.
        N005,

        /// unknown link of a device
        ///
        /// The device has no link of this name, is a host, which needs none, or the link is a bridge between two
        /// devices and there are more than two. Omit the link, or write the cluster to a file with a group for each
        /// pair.
        N006,
    }
}
