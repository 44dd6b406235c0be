//! Multilevel partitioning of a graph by METIS; without the feature `metis` it fails.

#[cfg(not(feature = "metis"))]
mod off;
#[cfg(feature = "metis")]
mod on;

#[cfg(not(feature = "metis"))]
pub(super) use off::*;
#[cfg(feature = "metis")]
pub(super) use on::*;
