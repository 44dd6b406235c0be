//! Megatron-LM: options of `pretrain_gpt.py`, one per line.
//!
//! Source: `megatron/training/arguments.py` and the "Parallelism Strategies Guide" of Megatron-LM, Megatron Core
//! 0.16.1; `examples/megatron_fsdp` for the options that accompany `--use-megatron-fsdp`.

use super::megatron::{Settings, Sharding};
use crate::joint::recompute::Recomputation;
use crate::joint::{Joint, JointTarget};
use crate::{Export, Result};

pub(super) static TARGET: JointTarget = JointTarget {
    name: "megatron-lm",
    summary: "Megatron-LM: command-line options, one per line",
    limits: "one degree of tensor parallelism; one stack of layers; no zero-bubble or dualpipe-v; ZeRO 2 and 3 with one stage; states of \
             the optimizer on the host with ZeRO 1 or one copy; \
             recomputation of all layers alike or of equally many first layers of every stage",
    write,
};

fn write(plan: &Joint) -> Result<Export> {
    let settings = Settings::new(plan, "Megatron-LM")?;
    let mut options = vec![
        format!("--num-layers {}", settings.layers),
        format!("--tensor-model-parallel-size {}", settings.tensor),
        format!("--pipeline-model-parallel-size {}", settings.devices),
        format!("--expert-model-parallel-size {}", settings.expert),
    ];
    if let Some((context, communication)) = settings.context {
        options.push(format!("--context-parallel-size {context}"));
        options.push(format!("--cp-comm-type {communication}"));
    }
    if settings.tensor > 1 {
        options.push("--sequence-parallel".into());
    }
    // Megatron-LM counts the virtual stages of a layout itself, and accepts no separate number of them.
    match (&settings.layout, settings.chunks) {
        (Some(layout), _) => options.push(format!("--pipeline-model-parallel-layout '{layout}'")),
        (None, Some(chunks)) => options.push(format!("--num-virtual-stages-per-pipeline-rank {chunks}")),
        (None, None) => {}
    }
    options.push(format!("--micro-batch-size {}", settings.microbatch));
    options.push(format!("--global-batch-size {}", settings.global_batch));
    match settings.sharding {
        Sharding::None => {}
        Sharding::Optimizer => options.push("--use-distributed-optimizer".into()),
        Sharding::Fsdp(strategy) => options.extend([
            "--use-distributed-optimizer".into(),
            "--use-megatron-fsdp".into(),
            format!("--data-parallel-sharding-strategy {strategy}"),
            "--ckpt-format fsdp_dtensor".into(),
        ]),
    }
    if settings.groups > 1 {
        options.push(format!("--num-distributed-optimizer-instances {}", settings.groups));
    }
    if settings.offload {
        options.extend(
            [
                "--optimizer-cpu-offload",
                "--optimizer-offload-fraction 1.0",
                "--use-precision-aware-optimizer",
            ]
            .map(String::from),
        );
    }
    let full = |method: &str, layers: usize| {
        [
            "--recompute-granularity full".to_owned(),
            format!("--recompute-method {method}"),
            format!("--recompute-num-layers {layers}"),
        ]
    };
    match settings.recompute {
        Recomputation::None => {}
        Recomputation::Selective => options.extend([
            "--recompute-granularity selective".into(),
            format!("--recompute-modules {}", settings.modules().join(" ")),
        ]),
        Recomputation::All => options.extend(full("uniform", 1)),
        Recomputation::First(layers) => options.extend(full("block", layers)),
    }
    Ok(settings.noted(Export::new(options.join("\n") + "\n"), plan))
}

#[cfg(test)]
mod tests {
    use stagewright_core::document::ContextExchange;

    use crate::joint::export_joint_noted;
    use crate::joint::testing::{divide, execution, interleaved, plan, text, with};

    #[test]
    fn tokens_and_states_are_divided_over_adjacent_copies() {
        let mut divided = with(plan(&["E 0 1 H"]), 2, 4, 1);
        divide(&mut divided, 2, ContextExchange::Ring);
        let ring = text(&divided, "megatron-lm");
        assert!(
            ring.contains("\n--context-parallel-size 2\n--cp-comm-type p2p\n--sequence-parallel\n"),
            "{ring}"
        );
        assert!(ring.ends_with("--use-distributed-optimizer\n"), "{ring}");
        divide(&mut divided, 2, ContextExchange::AllToAll);
        // 8 copies of the states: 4 of the plan, each on 2 groups of devices.
        execution(&mut divided).shards = Some(2);
        let groups = text(&divided, "megatron-lm");
        assert!(groups.contains("--cp-comm-type a2a\n"), "{groups}");
        assert!(
            groups.ends_with("--use-distributed-optimizer\n--num-distributed-optimizer-instances 4\n"),
            "{groups}"
        );
        execution(&mut divided).zero = 3;
        let groups = text(&divided, "megatron-lm");
        assert!(
            groups.ends_with("--ckpt-format fsdp_dtensor\n--num-distributed-optimizer-instances 4\n"),
            "{groups}"
        );
        // One copy on several devices divides its states.
        let mut single = with(plan(&["E 0 1 H"]), 1, 1, 1);
        assert!(!text(&single, "megatron-lm").contains("distributed"));
        divide(&mut single, 2, ContextExchange::Ring);
        assert!(text(&single, "megatron-lm").contains("--use-distributed-optimizer\n"));
    }

    #[test]
    fn even_stages_need_no_layout() {
        let even = text(&with(plan(&["E 0 1", "2 3 H"]), 1, 2, 1), "megatron-lm");
        assert_eq!(
            even,
            "--num-layers 4\n--tensor-model-parallel-size 1\n--pipeline-model-parallel-size 2\n\
             --expert-model-parallel-size 1\n--micro-batch-size 1\n--global-batch-size 16\n\
             --use-distributed-optimizer\n"
        );
    }

    #[test]
    fn uneven_stages_have_a_layout() {
        let uneven = text(&plan(&["E 0f 1", "2f 3 4", "5f H"]), "megatron-lm");
        let lines: Vec<&str> = uneven.lines().collect();
        assert_eq!(lines[4..6], ["--sequence-parallel", "--pipeline-model-parallel-layout 'Et*2|t*3|tL'"]);
        assert_eq!(
            lines[8..],
            ["--recompute-granularity full", "--recompute-method block", "--recompute-num-layers 1"]
        );
        assert!(text(&plan(&["E", "0 1 H"]), "megatron-lm").contains("-layout 'E|t*2,L'"));
    }

    #[test]
    fn stages_of_a_device_are_virtual() {
        let even = text(&interleaved(&["E 0", "1", "2", "3 H"], 2), "megatron-lm");
        assert!(even.contains("--pipeline-model-parallel-size 2\n"), "{even}");
        assert!(
            even.contains("--num-virtual-stages-per-pipeline-rank 2\n") && !even.contains("layout"),
            "{even}"
        );
        let uneven = text(&interleaved(&["E", "0f 1", "2f 3 4", "5f 6", "7f", "8f H"], 3), "megatron-lm");
        assert!(uneven.contains("--pipeline-model-parallel-size 2\n"), "{uneven}");
        assert!(uneven.contains("-layout 'E|t*2|t*3|t*2|t|tL'\n") && !uneven.contains("virtual"), "{uneven}");
        assert!(uneven.ends_with("--recompute-method block\n--recompute-num-layers 1\n"), "{uneven}");
    }

    #[test]
    fn recomputation_of_all_layers_is_by_layer() {
        let full = text(&plan(&["E 0f 1f", "2f 3f H"]), "megatron-lm");
        assert!(full.contains("--recompute-method uniform\n--recompute-num-layers 1\n"), "{full}");
        let mut selective = plan(&["E 0s 1s", "2s 3s H"]);
        let written = export_joint_noted(&selective, "megatron-lm").unwrap();
        assert!(written.text.ends_with("--recompute-granularity selective\n--recompute-modules layernorm\n"));
        assert_eq!(written.notes.len(), 4);
        assert!(written.notes.iter().any(|note| note.contains("CUDA_DEVICE_MAX_CONNECTIONS=1")));
        execution(&mut selective).expert = 2;
        let experts = text(&selective, "megatron-lm");
        assert!(experts.contains("--expert-model-parallel-size 2\n"), "{experts}");
        assert!(experts.ends_with("--recompute-modules layernorm moe_act\n"), "{experts}");
    }

    #[test]
    fn divided_parameters_are_those_of_megatron_fsdp() {
        let strategy = |zero| text(&with(plan(&["E 0 1 H"]), 1, 2, zero), "megatron-lm");
        assert!(strategy(2).contains("--use-megatron-fsdp\n--data-parallel-sharding-strategy optim_grads\n"));
        assert!(strategy(3).ends_with("strategy optim_grads_params\n--ckpt-format fsdp_dtensor\n"));
        // A single copy has nothing to shard.
        assert!(!text(&with(plan(&["E 0 1 H"]), 1, 1, 3), "megatron-lm").contains("fsdp"));
    }
}
