//! The constraints on a feasible placement, one file each.
//!
//! A device of a plan that runs nothing is not in use: it has no position in the pipeline and does not count towards
//! the devices of its kind.

pub(crate) mod calls;
pub(crate) mod colocation;
pub(crate) mod contiguous;
pub(crate) mod convex;
pub(crate) mod memory;
pub(crate) mod peak;
pub(crate) mod pins;
pub(crate) mod placement;
pub(crate) mod priority;
pub(crate) mod replicas;
pub(crate) mod requirements;
pub(crate) mod resident;
pub(crate) mod stages;
pub(crate) mod support;
pub(crate) mod waits;

pub(crate) use placement::Placed;
