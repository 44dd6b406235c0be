//! One file per program.

mod ik_llama_cpp;
mod llama_bench;
mod llama_cpp;
mod lm_studio;
mod ollama;

use super::LocalTarget;

/// All targets for local plans, in display order.
pub static LOCAL_TARGETS: &[&LocalTarget] = &[
    &llama_cpp::SERVER,
    &llama_cpp::CLI,
    &llama_bench::TARGET,
    &ik_llama_cpp::TARGET,
    &ollama::TARGET,
    &lm_studio::TARGET,
];
