//! One file per target.

mod deepspeed;
mod fsdp2;
mod megatron;
mod megatron_bridge;
mod megatron_lm;
mod torchtitan;

use super::JointTarget;

/// All targets for joint plans, in display order.
pub static JOINT_TARGETS: &[&JointTarget] = &[
    &megatron_lm::TARGET,
    &megatron_bridge::TARGET,
    &torchtitan::TARGET,
    &deepspeed::TARGET,
    &fsdp2::TARGET,
];
