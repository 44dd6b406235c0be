//! Integer programming on HiGHS: the cut-net model of free and convex splits, the model of calls for latency, branch
//! and price over sets that one device can hold, and large-neighbourhood search.

mod adaptive;
mod bnp;
pub mod calls;
mod choice;
pub mod colgen;
pub mod cutnet;
mod first;
mod lns;
mod milp;
pub mod run;
mod search;

pub use bnp::Bnp;
pub use choice::Choices;
pub use lns::Lns;
pub use milp::Milp;
