//! Commands of the learned policy; without the feature `policy` they say that it is not in the build.

#[cfg(not(feature = "policy"))]
mod off;
#[cfg(feature = "policy")]
mod on;

#[cfg(not(feature = "policy"))]
pub(crate) use off::*;
#[cfg(feature = "policy")]
pub(crate) use on::*;
