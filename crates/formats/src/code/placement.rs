//! Error codes about placements read from plans.

stagewright_core::codes! {
    /// placements read from plans
    pub enum L {
        /// plan for other devices
        ///
        /// The plan names a device that the cluster does not have, so it was made for another cluster. Give that cluster.
        L001,

        /// plan for another model
        ///
        /// The plan names an operator that the model does not have. Give the model that the plan was made for, in the same format
        /// and with the same options: another batch or granularity makes other operators.
        L002,

        /// operator placed twice
        ///
        /// The plan lists an operator on two devices, or twice on one, but it runs in one place. Remove one of them.
        L003,

        /// unplaced operators
        ///
        /// The plan omits operators of the model. Every operator needs a device; the message has the first one without.
        L004,

        /// call not on the device of its operators
        ///
        /// A plan for latency says which call of a device runs which operator, and one of its calls names an operator that is on
        /// another device. Correct the list of the call, or the device of the operator.
        L005,

        /// plan of another architecture
        ///
        /// `plan --start` carries a plan over to another model by the names of its operators without their numbers, such as
        /// `decoder.layer.#.step#.hidden`. No such name occurs in both models, or the plan places nothing. Give a plan of the same architecture from
        /// the same exporter, with a status of `feasible` or `optimal`.
        L006,
    }
}
