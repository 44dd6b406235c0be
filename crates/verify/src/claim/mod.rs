//! Claims of a plan, one file each, compared with the recomputed figures.

pub(crate) mod bound;
mod certificate;
mod columns;
mod critical_path;
pub(crate) mod figures;
pub(crate) mod gap;
mod limits;
pub(crate) mod names;
pub(crate) mod robust;
pub(crate) mod second_goal;
pub(crate) mod seconds;
pub(crate) mod status;
mod windows;
