//! Error codes of strategy problems.

pub use Y::*;

stagewright_core::codes! {
    /// strategy problems
    pub enum Y {
        /// columns of different lengths
        ///
        /// Every node of a strategy problem has an interval, and a cost and a usage for every strategy; every edge has
        /// a cost for every pair of strategies of its ends. Correct the file.
        Y001,

        /// node without strategies
        ///
        /// A node has no strategy to choose. Give it at least one; a strategy that is not allowed has a cost of 10^18.
        Y002,

        /// number out of range
        ///
        /// A cost, a usage or the limit is negative. Give 0 or more.
        Y003,

        /// interval that ends before it begins
        ///
        /// The second number of an interval is the first time at which the node is no longer live, so it must not be
        /// less than the first one.
        Y004,

        /// edge without two nodes
        ///
        /// An end of an edge does not exist, or both ends are the same node. Nodes are numbered from 0. A cost that
        /// depends on one node alone belongs to the costs of that node.
        Y005,

        /// sums out of range
        ///
        /// The largest usages of all nodes add up to more than 2^53, beyond which sums in double precision are not exact, or the largest
        /// costs of nodes and edges to more than 2^62. Scale the numbers down. A cost of 10^18 or more is not counted: it means that
        /// something is not allowed.
        Y006,
    }
}
