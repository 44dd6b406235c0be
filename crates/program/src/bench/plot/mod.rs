//! Plots of a suite; without the feature `plots`, `--plots` says that they are not in the build.

#[cfg(not(feature = "plots"))]
mod off;
#[cfg(feature = "plots")]
mod on;

#[cfg(not(feature = "plots"))]
pub(in crate::bench) use off::write;
#[cfg(feature = "plots")]
pub(in crate::bench) use on::write;
