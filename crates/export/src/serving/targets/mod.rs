//! One file per engine, or per program that starts engines.

mod dynamo;
mod llm_d;
mod manifests;
mod router_weights;
mod sglang;
mod tensorrt_llm;
mod vllm;

use super::ServingTarget;

/// All targets for serving plans, in display order.
pub static SERVING_TARGETS: &[&ServingTarget] = &[
    &vllm::TARGET,
    &sglang::TARGET,
    &tensorrt_llm::TARGET,
    &dynamo::TARGET,
    &llm_d::TARGET,
    &router_weights::TARGET,
];
