//! The claims, one file each: what a plan says of itself, against what was recomputed.

pub(crate) mod bound;
pub(crate) mod certificate;
mod columns;
mod critical_path;
pub(crate) mod figures;
pub(crate) mod gap;
pub(crate) mod seconds;
pub(crate) mod status;
