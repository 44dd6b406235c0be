//! Names that plan documents store as text because new ones may be added: sources of lower bounds and reasons to stop.
//!
//! Every writer of plans uses these names, and the checker accepts no others.

/// Sources of the lower bound of a plan: the names of bounds, and of searches that prove one.
pub const BOUND_SOURCES: &[&str] = &[
    "none",
    "trivial",
    "fluid",
    "heaviest-unit",
    "critical-path",
    "one-machine",
    "energetic",
    "windows",
    "memory",
    "segments",
    "destructive",
    "anchored",
    "anchored-fluid",
    "boundary-cuts",
    "call-chains",
    "longest-path",
    "column-generation",
    "milp",
    "branch-and-bound",
    "branch-and-price",
    "search",
    "exhausted",
];

/// Sources of the bound on a worst case, in addition to [`BOUND_SOURCES`].
pub const ROBUST_BOUND_SOURCES: &[&str] =
    &["an average of scenarios", "the nominal bound, scaled to the average of all scenarios"];

/// Sources of the lower bound of a joint plan.
pub const JOINT_BOUND_SOURCES: &[&str] = &["none", "joint", "threshold"];

/// Sources of the lower bound of a strategy plan.
pub const STRATEGY_BOUND_SOURCES: &[&str] = &["none", "lagrangian", "branch-and-bound"];

/// Reasons why a search stopped before a proof.
pub const STOP_REASONS: &[&str] = &["time", "memory", "gap", "interrupted"];
