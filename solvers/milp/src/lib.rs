//! Integer programming on HiGHS: the cut-net model of free and convex splits, branch and price over what one
//! device can hold, and large-neighbourhood search.

mod bnp;
pub mod colgen;
pub mod cutnet;
mod first;
mod lns;
mod milp;

pub use bnp::Bnp;
pub use lns::Lns;
pub use milp::Milp;
