//! The settings of Megatron Core, which Megatron-LM and Megatron Bridge share.
//!
//! Source: `TransformerConfig`, `DistributedDataParallelConfig` and `PipelineParallelLayerLayout` of Megatron Core
//! 0.16.1, and the pages "Custom Pipeline Model Parallel Layout", "Distributed Optimizer" and "Megatron-FSDP" of its
//! user guide. `recompute_method` `block` recomputes the first layers of a stage, at most `recompute_num_layers`
//! (`TransformerBlock._checkpointed_forward`); `selective` applies to all layers.
//!
//! Virtual stages are those of interleaved 1F1B (`forward_backward_pipelining_with_interleaving`). Groups have one
//! microbatch per device, the default of `microbatch_group_size_per_vp_stage`, which gives the order of the plan.
//! Virtual stage k of a layout is on rank k mod p, and `recompute_num_layers` counts in every virtual stage. On two
//! devices, Megatron-LM takes virtual stages only with transfers that overlap, which is its default.
//!
//! `cp_comm_type` says how the devices of a context-parallel group, which are adjacent copies, exchange tokens: `p2p`
//! is the ring, with two pieces of every sample on a device, and `a2a` exchanges tokens for heads. With
//! `num_distributed_optimizer_instances`, as many groups of adjacent copies each divide the states, and gradients are
//! reduced between them after the last microbatch; in Megatron-FSDP as well, unless `outer_dp_sharding_strategy`
//! divides states between groups.
//!
//! States of the optimizer on the host (`optimizer_cpu_offload`, all of them with a fraction of 1) need the precision-aware
//! optimizer, and that the distributed one (`validate_args` of Megatron-LM, `OptimizerConfig.__post_init__`); the distributed
//! optimizer of a single copy divides nothing. The tensors of Megatron-FSDP do not go through it (pull request 4623 of
//! Megatron-LM).
//!
//! Megatron has no zero-bubble schedule: `delay_wgrad_compute` defers weight gradients only until after the all-to-all
//! of experts.

use stagewright_core::document::{ContextExchange, Schedule};

use crate::error::JointError;
use crate::joint::notes;
use crate::joint::plan::Joint;
use crate::joint::recompute::Recomputation;
use crate::joint::stack::Stack;
use crate::runtime::{MEGATRON_TIES, figures};
use crate::{Export, Result};

/// Modules that are recomputed selectively: those that are not products, as in the plan. The attention is fused in the
/// plan, so it is not among them.
const SELECTIVE: [&str; 1] = ["layernorm"];

/// Modules that are recomputed selectively if experts are in one grouped product: the activation function of the
/// experts as well.
const SELECTIVE_EXPERTS: [&str; 2] = ["layernorm", "moe_act"];

/// The settings of a plan.
#[derive(Debug)]
pub(super) struct Settings {
    pub(super) layers: usize,
    pub(super) tensor: u32,
    pub(super) devices: usize,
    /// Virtual stages per device, if there are several.
    pub(super) chunks: Option<u32>,
    /// The layers of each stage, if stages differ.
    pub(super) layout: Option<String>,
    /// Degree of context parallelism and the name of its exchange, if there is any.
    pub(super) context: Option<(u32, &'static str)>,
    pub(super) expert: u32,
    pub(super) microbatch: u32,
    pub(super) global_batch: u64,
    pub(super) sharding: Sharding,
    /// Whether states of the optimizer are on the host.
    pub(super) offload: bool,
    /// Groups of copies, each of which divides the states.
    pub(super) groups: u64,
    pub(super) recompute: Recomputation,
}

/// The states that copies shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sharding {
    None,
    /// States of the optimizer: the distributed optimizer.
    Optimizer,
    /// More than the states of the optimizer: Megatron-FSDP with a strategy.
    Fsdp(&'static str),
}

impl Settings {
    /// The settings of a plan.
    ///
    /// # Errors
    /// If Megatron Core has no settings for the plan (E014, E015, E023 to E025, E030 and E034).
    pub(super) fn new(plan: &Joint, runtime: &'static str) -> Result<Settings> {
        if plan.schedule.is_split() {
            return Err(JointError::Schedule {
                schedule: plan.schedule.name(),
                rule: "Megatron has only 1F1B and interleaved 1F1B",
                help: "plan with --schedule 1f1b or interleaved, or with zero-bubble or dualpipe-v and export to torchtitan",
            }
            .into());
        }
        let tensor = plan.tensor(runtime)?;
        let stack = Stack::new(plan, runtime)?;
        Ok(Settings {
            layers: stack.layers(),
            tensor,
            devices: plan.devices,
            chunks: (plan.schedule == Schedule::Interleaved).then_some(plan.execution.chunks),
            layout: (!stack.is_even()).then(|| layout(&stack)),
            context: plan.context().map(|(context, exchange)| (context, communication(exchange))),
            expert: plan.execution.expert,
            microbatch: plan.execution.microbatch,
            global_batch: plan.global_batch,
            sharding: sharding(plan)?,
            offload: plan.execution.offload,
            groups: plan.execution.shards.map_or(1, |shards| plan.copies() / u64::from(shards)),
            recompute: Recomputation::new(plan)?,
        })
    }

    /// Modules for selective recomputation.
    pub(super) fn modules(&self) -> &'static [&'static str] {
        if self.expert > 1 { &SELECTIVE_EXPERTS } else { &SELECTIVE }
    }

    /// Adds the notes on a plan with these settings to its export.
    pub(super) fn noted(&self, export: Export, plan: &Joint) -> Export {
        let selective = match self.recompute {
            Recomputation::Selective if self.expert > 1 => Some(
                "selective: Megatron recomputes norms and the activation functions of experts, with grouped products \
                 of experts and fused attention; the plan recomputes all that is no product",
            ),
            Recomputation::Selective => Some(
                "selective: Megatron recomputes norms, with fused attention; the plan recomputes the activation \
                 function of feed-forward layers as well, whose output Megatron keeps",
            ),
            _ => None,
        };
        let connections = match self.sharding {
            Sharding::Fsdp(_) => {
                Some("Megatron-FSDP must not have CUDA_DEVICE_MAX_CONNECTIONS=1 in its environment")
            }
            _ if self.context.is_some() || self.tensor > 1 => Some(
                "devices before Blackwell need CUDA_DEVICE_MAX_CONNECTIONS=1 in the environment for tensor and \
                 context parallelism",
            ),
            _ => None,
        };
        let updates = self.offload.then(|| {
            "updates on the host are those of AdamW of PyTorch; --overlap-cpu-optimizer-d2h-h2d \
             (overlap_cpu_optimizer_d2h_h2d) runs their transfers beside them, which the plan does not count on"
                .to_owned()
        });
        export
            .note(notes::devices(plan))
            .also(figures(plan.options, None))
            .note(MEGATRON_TIES)
            .also(selective.map(str::to_owned))
            .also(connections.map(str::to_owned))
            .also(updates)
    }
}

fn sharding(plan: &Joint) -> Result<Sharding> {
    let zero = plan.zero();
    if zero > 1 && plan.stages.len() > 1 {
        return Err(JointError::Sharding {
            zero,
            copies: plan.copies(),
            rule: "the distributed optimizer of Megatron, the one for pipelines, divides states of the optimizer alone",
            help: "plan with ZeRO 0 or 1, or with one stage",
        }
        .into());
    }
    let offload = plan.execution.offload;
    let refuse = |rule| {
        let help = "plan with ZeRO 1, with offload=0, or export to deepspeed";
        Err(JointError::Offload { rule, help }.into())
    };
    if offload && zero == 0 && plan.copies() > 1 {
        return refuse("Megatron does so with the distributed optimizer, which divides states over copies");
    }
    if offload && zero > 1 {
        return refuse("Megatron-FSDP, which divides gradients, does not");
    }
    Ok(match zero {
        0 if offload => Sharding::Optimizer,
        0 => Sharding::None,
        1 => Sharding::Optimizer,
        2 => Sharding::Fsdp("optim_grads"),
        _ => Sharding::Fsdp("optim_grads_params"),
    })
}

/// Name of an exchange of tokens.
fn communication(exchange: ContextExchange) -> &'static str {
    match exchange {
        ContextExchange::Ring => "p2p",
        ContextExchange::AllToAll => "a2a",
    }
}

/// The layers of each stage: `E` is the embedding, `t` a layer and `L` the head with the loss.
fn layout(stack: &Stack) -> String {
    let last = stack.counts.len() - 1;
    let stage = |(stage, &count): (usize, &usize)| {
        let layers = match count {
            0 => String::new(),
            1 => "t".to_owned(),
            count => format!("t*{count}"),
        };
        // The comma has no meaning: it separates the loss from a number.
        let comma = if stage == last && count > 1 { "," } else { "" };
        let (first, last) = (if stage == 0 { "E" } else { "" }, if stage == last { "L" } else { "" });
        format!("{first}{layers}{comma}{last}")
    };
    stack.counts.iter().enumerate().map(stage).collect::<Vec<_>>().join("|")
}

#[cfg(test)]
mod tests {
    use stagewright_core::document::Schedule;

    use super::MEGATRON_TIES;
    use crate::joint::export_joint_noted;
    use crate::joint::testing::{dualpipe_v, execution, plan, refused, with};

    #[test]
    fn zero_bubble_is_refused() {
        let mut bubble = plan(&["E 0", "1 H"]);
        for (schedule, target) in [Schedule::ZeroBubble, Schedule::ZeroBubbleTwice]
            .into_iter()
            .flat_map(|schedule| ["megatron-lm", "megatron-bridge"].map(|target| (schedule, target)))
        {
            execution(&mut bubble).schedule = schedule;
            let (code, place, message) = refused(&bubble, target);
            assert_eq!((code, place.as_deref()), ("E030", Some("execution.schedule")));
            let name = schedule.name();
            let why = "but Megatron has only 1F1B and interleaved 1F1B";
            assert_eq!(message, format!("the plan has the schedule {name}, {why}"));
        }
        let folded = dualpipe_v(&["E 0", "1", "2", "3 H"]);
        assert_eq!(refused(&folded, "megatron-lm").0, "E030");
    }

    #[test]
    fn ties_are_noted_with_any_number_of_stages() {
        for stages in [&["E 0 1 H"][..], &["E 0", "1 H"]] {
            let notes = export_joint_noted(&plan(stages), "megatron-lm").unwrap().notes;
            assert!(notes.iter().any(|note| note == MEGATRON_TIES), "{notes:?}");
        }
    }

    #[test]
    fn other_degrees_of_a_stage_are_refused() {
        let mut mixed = plan(&["E 0", "1 H"]);
        mixed.stages[1].tensor = 4;
        let (code, place, message) = refused(&mixed, "megatron-bridge");
        assert_eq!((code, place.as_deref()), ("E023", Some("stages[1].tensor")));
        assert_eq!(
            message,
            "stage 2 has tensor parallelism 4 and stage 1 has 2, but Megatron Bridge has one degree for all stages"
        );
    }

    #[test]
    fn states_on_the_host_need_the_distributed_optimizer() {
        for (copies, zero, is_refused) in
            [(2, 0, true), (2, 1, false), (2, 2, true), (2, 3, true), (1, 0, false)]
        {
            let mut offloaded = with(plan(&["E 0 1 H"]), 1, copies, zero);
            execution(&mut offloaded).offload = true;
            for target in ["megatron-lm", "megatron-bridge"] {
                if is_refused {
                    let (code, place, _) = refused(&offloaded, target);
                    assert_eq!((code, place.as_deref()), ("E034", Some("execution.offload")), "{zero}");
                    continue;
                }
                let export = export_joint_noted(&offloaded, target).unwrap();
                assert!(export.notes.iter().any(|note| note.contains("AdamW")), "{:?}", export.notes);
                let written: &[&str] = match target {
                    "megatron-lm" => &[
                        "--use-distributed-optimizer\n",
                        "--optimizer-cpu-offload\n--optimizer-offload-fraction 1.0\n--use-precision-aware-optimizer\n",
                    ],
                    _ => &[
                        "ddp:\n  use_distributed_optimizer: true\n",
                        "optimizer:\n  use_distributed_optimizer: true\n  optimizer_cpu_offload: true\n  \
                         optimizer_offload_fraction: 1.0\n  use_precision_aware_optimizer: true\n",
                    ],
                };
                for options in written {
                    assert!(export.text.contains(options), "{}", export.text);
                }
            }
        }
    }

    #[test]
    fn divided_gradients_are_refused_in_a_pipeline() {
        for zero in [2, 3] {
            let (code, place, _) = refused(&with(plan(&["E 0", "1 H"]), 1, 2, zero), "megatron-lm");
            assert_eq!((code, place.as_deref()), ("E024", Some("execution.zero")));
        }
    }
}
