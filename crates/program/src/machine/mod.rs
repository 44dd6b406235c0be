//! Commands that run models on this machine; without the feature `onnxruntime` they say that it is not in the build.

#[cfg(not(feature = "onnxruntime"))]
mod off;
#[cfg(feature = "onnxruntime")]
mod on;

#[cfg(not(feature = "onnxruntime"))]
pub(crate) use off::*;
#[cfg(feature = "onnxruntime")]
pub(crate) use on::*;
