//! What the build script makes of `onnx.proto`.
#![allow(missing_docs, unreachable_pub, clippy::all, reason = "generated")]

include!(concat!(env!("OUT_DIR"), "/onnx.rs"));
