//! Reductions over rows on an NVIDIA GPU; without the feature `cuda` they fail.

#[cfg(not(feature = "cuda"))]
mod off;
#[cfg(feature = "cuda")]
mod on;

#[cfg(not(feature = "cuda"))]
pub(super) use off::*;
#[cfg(feature = "cuda")]
pub(super) use on::*;
