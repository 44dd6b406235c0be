//! Error codes of the checker.

stagewright_core::codes! {
    /// documents that `check` cannot read
    ///
    /// `check` shares no code with the rest of the program and reads the documents on its own. If they do not describe a problem
    /// and a plan for it, `check` says so and does not evaluate the plan: correct the document that the message names.
    pub enum V {
        /// a document is of another type or version than expected.
        Schema = "V:schema",

        /// a name that must be unique occurs twice.
        Duplicate = "V:duplicate",

        /// a name refers to nothing, such as a device that the cluster does not have.
        Unknown = "V:unknown-name",

        /// a number is out of range.
        Figure = "V:figure",

        /// the operators form a cycle.
        Cycle = "V:cycle",

        /// a kind has to move data and has no link.
        NoLink = "V:no-link",

        /// one name means two devices; rename a kind.
        AmbiguousDevice = "V:ambiguous-device",

        /// a matrix does not have a row and a column for every device.
        Matrix = "V:matrix",

        /// a rule of the objective lacks a figure that it needs.
        Rule = "V:rule",

        /// this version does not check this part of the cost model.
        NotChecked = "V:not-checked",
    }
}
