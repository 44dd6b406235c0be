//! Stage boundaries as minimum cuts: a lower bound that counts communication, and a refinement of plans.
//!
//! A contiguous split is a chain of ideals, sets of units closed under predecessors, and what its stages send each
//! other is what the boundaries of the chain cut. A minimum cut over the units that may lie on either side of a
//! boundary bounds what it costs from below ([`boundary_cuts`]), and one between two neighbouring stages makes a plan
//! better ([`refined`]). Both reach graphs of 10⁵ operators, whose ideals cannot be counted.

mod bound;
mod reach;
mod refine;

pub use bound::{BoundaryCuts, boundary_cuts};
pub use refine::refined;
