//! Code that the build script generates from `onnx.proto`.
#![allow(missing_docs, unreachable_pub, clippy::all, reason = "generated")]

include!(concat!(env!("OUT_DIR"), "/onnx.rs"));
