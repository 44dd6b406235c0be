//! The claims, one file each: what a plan says of itself, against what was recomputed.

pub(crate) mod bound;
pub(crate) mod certificate;
mod columns;
pub(crate) mod figures;
pub(crate) mod gap;
pub(crate) mod status;
