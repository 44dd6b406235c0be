//! Error codes about splits of the reference package.

stagewright_core::codes! {
    /// splits of the reference package
    pub enum S {
        /// split of other nodes
        ///
        /// A split lists an id that no node of the model has. Give the split that was made for this model.
        S001,

        /// node placed twice
        ///
        /// A split lists an id twice, on one device or on two. Keep one of them.
        S002,

        /// split for more devices
        ///
        /// A split puts nodes on more devices than the model has. Devices without nodes may be listed. Give a split for this cluster.
        S003,

        /// unplaced nodes
        ///
        /// A split omits nodes. A node may be omitted only if its colour class is on a device, which it then joins. List the others.
        S004,

        /// omitted node of a divided class
        ///
        /// An omitted node joins the rest of its colour class, but that class is on several devices. List the node, or keep its class
        /// on one device.
        S005,

        /// split for a model without ids
        ///
        /// A split refers to nodes by the ids of the reference format, and this model is in another format. Give the model in that
        /// format, or a native plan. A list of devices and operators needs the model as well.
        S006,

        /// devices of another number of operators
        ///
        /// A list of devices in the order of the operators has a device for every operator of the model, and other forms name at least
        /// one. `convert MODEL -` prints the
        /// operators. Give a list of that length, or a map such as `{"conv1": "gpu0"}`, which needs no order.
        S007,

        /// number of a device
        ///
        /// The number of a device counts the devices of the cluster from 0, kind by kind. Give the cluster, a smaller
        /// number, or the name of the device.
        S008,
    }
}
