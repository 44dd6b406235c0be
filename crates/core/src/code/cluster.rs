//! Error codes about clusters.

crate::codes! {
    /// clusters
    pub enum C {
        /// unknown cluster schema
        ///
        /// The document declares another schema or version. A cluster begins with
        ///
        /// ```text
        /// schema = "stagewright.cluster/1"
        /// ```
        ///
        /// Correct that line, or give the file to the option that it was made for.
        C001,

        /// a cluster without devices
        ///
        /// No kind has a `count` of at least 1, so there is no device to run anything. Give one kind a count.
        C002,

        /// too many devices
        ///
        /// The counts of all kinds add up to more than a million, which is taken for a typing error. Correct the counts.
        C003,

        /// empty or duplicate name in a cluster
        ///
        /// Kinds, groups and devices need unique names. A device is named after its kind and a number, so two kinds can both name
        /// the same device:
        ///
        /// ```text
        /// acc1 + 0  =  acc10  =  acc + 10
        /// ```
        ///
        /// Rename one of the two.
        C004,

        /// unlisted group
        ///
        /// The `group` of a kind is not listed under `groups`. Correct the name, or add the group with its uplink.
        C005,

        /// number out of range in a cluster
        ///
        /// A bandwidth or peak must be above 0, an efficiency above 0 and at most 1, and a latency, delay, overhead or memory finite
        /// and at least 0. The memory of a host (`ram`) is above 0, and so are its bandwidths. Omit `memory_bytes` for unlimited
        /// memory.
        C006,

        /// matrix of the wrong size
        ///
        /// `delay_s` and `seconds_per_byte` each need a row and a column for every device, in the order of the kinds: with 3
        /// devices they are 3 by 3.
        C007,
    }
}
