//! The solvers that need HiGHS; without the feature `milp` they refuse every problem.

#[cfg(not(feature = "milp"))]
mod off;
#[cfg(feature = "milp")]
mod on;

#[cfg(not(feature = "milp"))]
pub(crate) use off::*;
#[cfg(feature = "milp")]
pub(crate) use on::*;
