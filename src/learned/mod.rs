//! The learned policy and the learned systems of the literature; without the feature `policy` they refuse every problem.

#[cfg(not(feature = "policy"))]
mod off;
#[cfg(feature = "policy")]
mod on;

#[cfg(not(feature = "policy"))]
pub(crate) use off::*;
#[cfg(feature = "policy")]
pub use on::*;
