//! Megatron Bridge: overrides of a recipe, in YAML.
//!
//! A recipe may set features that a plan lacks, such as virtual stages, context parallelism or recomputation, so every
//! such field is written, even if it is null. With virtual stages transfers overlap, as Megatron-LM demands on two
//! devices and as Megatron Bridge does by itself if the recipe has a `comm_overlap`.
//!
//! Source: `ConfigContainer` and `process_config_with_overrides` of Megatron Bridge 0.3.1, and the pages "Parallelisms
//! Guide", "Activation Recomputation" and "Megatron FSDP" of its documentation; the fields of `model` are those of
//! Megatron Core.

use super::megatron::{Settings, Sharding};
use crate::joint::recompute::Recomputation;
use crate::joint::{Joint, JointTarget};
use crate::{Export, Result, literal};

pub(super) static TARGET: JointTarget = JointTarget {
    name: "megatron-bridge",
    summary: "Megatron Bridge: overrides of a recipe, in YAML",
    limits: "as megatron-lm",
    write,
};

const NULL: &str = "null";

fn write(plan: &Joint) -> Result<Export> {
    let settings = Settings::new(plan, "Megatron Bridge")?;
    let layout = settings.layout.as_deref().map_or(NULL.to_owned(), literal::string);
    let chunks = settings.chunks.map_or(NULL.to_owned(), |chunks| chunks.to_string());
    let mut model = vec![
        ("num_layers", settings.layers.to_string()),
        ("tensor_model_parallel_size", settings.tensor.to_string()),
        ("sequence_parallel", (settings.tensor > 1).to_string()),
        ("pipeline_model_parallel_size", settings.devices.to_string()),
        ("virtual_pipeline_model_parallel_size", chunks),
        ("pipeline_model_parallel_layout", layout),
        ("context_parallel_size", settings.context.map_or(1, |(context, _)| context).to_string()),
        ("expert_model_parallel_size", settings.expert.to_string()),
        ("expert_tensor_parallel_size", settings.tensor.to_string()),
    ];
    model.extend(settings.context.map(|(_, communication)| ("cp_comm_type", communication.into())));
    if settings.chunks.is_some() {
        model.extend([
            ("microbatch_group_size_per_vp_stage", settings.devices.to_string()),
            ("overlap_p2p_comm", "true".into()),
            ("batch_p2p_comm", "false".into()),
        ]);
    }
    model.extend(recompute(&settings));
    let train = vec![
        ("micro_batch_size", settings.microbatch.to_string()),
        ("global_batch_size", settings.global_batch.to_string()),
    ];
    let distributed = (settings.sharding != Sharding::None).to_string();
    let fsdp = matches!(settings.sharding, Sharding::Fsdp(_)).to_string();
    let mut ddp = vec![
        ("use_distributed_optimizer", distributed.clone()),
        ("num_distributed_optimizer_instances", settings.groups.to_string()),
        ("use_megatron_fsdp", fsdp),
    ];
    let mut checkpoint = Vec::new();
    match settings.sharding {
        // Only the distributed optimizer gathers parameters.
        Sharding::None => ddp.push(("overlap_param_gather", "false".into())),
        Sharding::Optimizer => {}
        Sharding::Fsdp(strategy) => {
            ddp.push(("data_parallel_sharding_strategy", strategy.into()));
            if settings.groups > 1 {
                ddp.push(("outer_dp_sharding_strategy", "no_shard".into()));
            }
            checkpoint.push(("ckpt_format", "fsdp_dtensor".into()));
        }
    }
    let mut optimizer = vec![
        ("use_distributed_optimizer", distributed),
        ("optimizer_cpu_offload", settings.offload.to_string()),
    ];
    if settings.offload {
        optimizer.push(("optimizer_offload_fraction", "1.0".into()));
        optimizer.push(("use_precision_aware_optimizer", "true".into()));
    }
    let text = [
        section("model", &model),
        section("train", &train),
        section("ddp", &ddp),
        section("optimizer", &optimizer),
        section("checkpoint", &checkpoint),
    ]
    .concat();
    Ok(settings.noted(Export::new(text), plan))
}

fn recompute(settings: &Settings) -> [(&'static str, String); 4] {
    let (granularity, method, layers, modules) = match settings.recompute {
        Recomputation::None => (NULL, NULL, NULL.into(), NULL.into()),
        Recomputation::Selective => {
            let modules = settings.modules().iter().map(|module| (*module).to_owned());
            ("selective", NULL, NULL.into(), literal::list(modules))
        }
        Recomputation::All => ("full", "uniform", "1".to_owned(), NULL.into()),
        Recomputation::First(layers) => ("full", "block", layers.to_string(), NULL.into()),
    };
    [
        ("recompute_granularity", granularity.into()),
        ("recompute_method", method.into()),
        ("recompute_num_layers", layers),
        ("recompute_modules", modules),
    ]
}

/// A section of the file; empty if it has no fields.
fn section(name: &str, fields: &[(&str, String)]) -> String {
    if fields.is_empty() {
        return String::new();
    }
    let fields: String = fields.iter().map(|(field, value)| format!("  {field}: {value}\n")).collect();
    format!("{name}:\n{fields}")
}

#[cfg(test)]
mod tests {
    use stagewright_core::document::ContextExchange;

    use crate::joint::testing::{divide, execution, interleaved, plan, text, with};

    #[test]
    fn fields_that_a_plan_has_not_are_null() {
        let even = text(&with(plan(&["E 0 1", "2 3 H"]), 2, 2, 1), "megatron-bridge");
        assert_eq!(
            even,
            "model:\n  num_layers: 4\n  tensor_model_parallel_size: 2\n  sequence_parallel: true\n  \
             pipeline_model_parallel_size: 2\n  virtual_pipeline_model_parallel_size: null\n  \
             pipeline_model_parallel_layout: null\n  context_parallel_size: 1\n  expert_model_parallel_size: 1\n  \
             expert_tensor_parallel_size: 2\n  recompute_granularity: null\n  recompute_method: null\n  \
             recompute_num_layers: null\n  recompute_modules: null\ntrain:\n  micro_batch_size: 1\n  \
             global_batch_size: 16\nddp:\n  use_distributed_optimizer: true\n  \
             num_distributed_optimizer_instances: 1\n  use_megatron_fsdp: false\noptimizer:\n  use_distributed_optimizer: true\n  \
             optimizer_cpu_offload: false\n"
        );
    }

    #[test]
    fn stages_of_a_device_are_virtual() {
        let virtual_stages = text(&interleaved(&["E 0 1", "2", "3", "4 H"], 2), "megatron-bridge");
        for line in [
            "  pipeline_model_parallel_size: 2\n  virtual_pipeline_model_parallel_size: 2\n",
            "  pipeline_model_parallel_layout: \"Et*2|t|t|tL\"\n",
            "  microbatch_group_size_per_vp_stage: 2\n  overlap_p2p_comm: true\n  batch_p2p_comm: false\n",
        ] {
            assert!(virtual_stages.contains(line), "{virtual_stages}");
        }
    }

    #[test]
    fn layouts_and_recomputation_are_written() {
        let uneven = text(&plan(&["E 0f 1f", "2f H"]), "megatron-bridge");
        for line in [
            "  pipeline_model_parallel_layout: \"Et*2|tL\"\n",
            "  recompute_granularity: full\n  recompute_method: uniform\n  recompute_num_layers: 1\n",
            "ddp:\n  use_distributed_optimizer: false\n  num_distributed_optimizer_instances: 1\n  use_megatron_fsdp: \
             false\n  overlap_param_gather: false\n",
        ] {
            assert!(uneven.contains(line), "{uneven}");
        }
        let selective = text(&plan(&["E 0s 1s H"]), "megatron-bridge");
        assert!(selective.contains("  recompute_modules: [layernorm]\n"), "{selective}");
        let mut divided = with(plan(&["E 0 H"]), 1, 2, 1);
        divide(&mut divided, 4, ContextExchange::Ring);
        execution(&mut divided).shards = Some(4);
        let both = divided.clone();
        execution(&mut divided).zero = 2;
        let fsdp = text(&divided, "megatron-bridge");
        assert!(fsdp.contains("optim_grads\n  outer_dp_sharding_strategy: no_shard\n"), "{fsdp}");
        let divided = text(&both, "megatron-bridge");
        for line in [
            "  context_parallel_size: 4\n",
            "  cp_comm_type: p2p\n",
            "  num_distributed_optimizer_instances: 2\n",
        ] {
            assert!(divided.contains(line), "{divided}");
        }
        let sharded = text(&with(plan(&["E 0 1 H"]), 1, 2, 3), "megatron-bridge");
        assert!(sharded.contains("  data_parallel_sharding_strategy: optim_grads_params\n"), "{sharded}");
        assert!(sharded.ends_with("checkpoint:\n  ckpt_format: fsdp_dtensor\n"), "{sharded}");
    }
}
