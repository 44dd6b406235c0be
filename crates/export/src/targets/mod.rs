//! One file per target.

mod accelerate;
mod deepspeed;
mod dot;
mod drawing;
mod llama_cpp;
mod megatron;
mod megatron_layers;
mod mermaid;
mod onnxruntime;
mod openvino;
mod pipedream;
mod sglang;
mod torch_pipelining;
mod torchgpipe;
mod torchtitan;
mod vllm;

use super::Target;

/// All targets, in display order.
pub static TARGETS: &[&Target] = &[
    &torch_pipelining::TARGET,
    &torchtitan::TARGET,
    &megatron::TARGET,
    &megatron_layers::TARGET,
    &deepspeed::TARGET,
    &accelerate::TARGET,
    &vllm::TARGET,
    &sglang::TARGET,
    &torchgpipe::TARGET,
    &llama_cpp::TARGET,
    &openvino::TARGET,
    &onnxruntime::TARGET,
    &pipedream::TARGET,
    &dot::TARGET,
    &mermaid::TARGET,
];
