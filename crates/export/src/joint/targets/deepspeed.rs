//! DeepSpeed: its configuration, in JSON.
//!
//! The configuration has no stages: a pipeline is a `PipelineModule` in the training program. It also has no option
//! that turns recomputation on: `activation_checkpointing` tunes `deepspeed.checkpointing`, which the model calls.
//! Settings that a plan does not state, such as the precision if it was not given, are not written.
//!
//! Sequence parallelism of Ulysses is no entry of the configuration either. `zero_hpz_partition_size` keeps a second
//! division of parameters over a group, beside that over all copies, and MiCS, which divided states over groups, has
//! been removed.
//!
//! `offload_optimizer` needs ZeRO 1 to 3. A single copy gets ZeRO 1, which divides nothing there. With it, DeepSpeed adds up the
//! gradients of all microbatches on the host (`async_accumulate_grad_in_cpu_via_gpu`); the plan does so on the device.
//!
//! Source: the page "DeepSpeed Configuration JSON" and `deepspeed/runtime/config.py` of DeepSpeed 0.19.8;
//! `deepspeed/runtime/tensor_parallel/config.py` for AutoTP, and `deepspeed/module_inject/auto_ep_config.py` for
//! AutoEP.

use stagewright_core::document::Precision;

use crate::error::JointError;
use crate::joint::{Joint, JointTarget, notes, recompute};
use crate::runtime::figures;
use crate::{Export, Result, literal};

pub(super) static TARGET: JointTarget = JointTarget {
    name: "deepspeed",
    summary: "DeepSpeed: its configuration, in JSON",
    limits: "one stage; no recomputation; no context parallelism; states over all copies, and on the host with ZeRO 1 to 3 \
             or one copy; experts without tensor parallelism",
    write,
};

fn write(plan: &Joint) -> Result<Export> {
    let execution = plan.execution;
    if plan.stages.len() > 1 {
        return Err(JointError::Stages {
            stages: plan.stages.len(),
            rule: "the configuration of DeepSpeed has none: a pipeline is a PipelineModule in the training program",
            help: "plan with one stage, or export to megatron-lm or torchtitan",
        }
        .into());
    }
    plan.no_context(
        "the configuration of DeepSpeed has none: the training program sets up its Ulysses",
        "plan without `cp`, or export to megatron-lm",
    )?;
    if let Some(shards) = execution.shards {
        let rule = "the configuration of DeepSpeed divides states over all copies, and with zero_hpz_partition_size keeps \
                    parameters a second time";
        return Err(plan.groups(shards, rule, "plan without `shard`, or export to fsdp2"));
    }
    recompute::no_layer(
        plan,
        "the configuration of DeepSpeed cannot turn it on: the model must call deepspeed.checkpointing",
        "plan without `recompute`, or export to fsdp2, which recomputes layers by name",
    )?;
    let tensor = plan.tensor("DeepSpeed")?;
    if execution.expert > 1 && tensor > 1 {
        return Err(JointError::Experts {
            expert: execution.expert,
            rule: "AutoEP of DeepSpeed does not split experts over tensor-parallel devices",
            help: "plan with tensor parallelism 1, or export to megatron-lm",
        }
        .into());
    }
    let zero = zero(plan)?;
    let offload = match execution.offload {
        true => ", \"offload_optimizer\": {\"device\": \"cpu\", \"pin_memory\": true}",
        false => "",
    };
    let mut entries = vec![
        ("train_batch_size", plan.global_batch.to_string()),
        ("train_micro_batch_size_per_gpu", execution.microbatch.to_string()),
        ("gradient_accumulation_steps", execution.microbatches.to_string()),
        ("zero_optimization", format!("{{\"stage\": {zero}{offload}}}")),
    ];
    if tensor > 1 {
        entries.push(("tensor_parallel", format!("{{\"autotp_size\": {tensor}}}")));
    }
    if execution.expert > 1 {
        entries.push((
            "expert_parallel",
            format!("{{\"enabled\": true, \"autoep_size\": {}}}", execution.expert),
        ));
    }
    let precision = plan.options.and_then(|options| options.precision);
    let known = precision.filter(|precision| [Precision::Bf16, Precision::Fp16].contains(precision));
    entries.extend(known.map(|precision| (precision.name(), "{\"enabled\": true}".to_owned())));
    let entries = entries.into_iter().map(|(key, value)| literal::entry(key, &value));
    Ok(Export::new(literal::lines('{', entries, '}') + "\n")
        .note(notes::devices(plan))
        .also(figures(plan.options, None))
        .also(precision.is_none().then(|| "the plan does not say the precision: add bf16 or fp16".into()))
        .also(execution.offload.then(|| {
            "DeepSpeed keeps reduced gradients on the host with the states of the optimizer, and moves them there in every \
             microbatch: it takes less memory of the device than planned, more of the host, and more transfers"
                .into()
        }))
        .also(execution.offload.then(|| {
            "an optimizer that the training program makes must be deepspeed.ops.adam.DeepSpeedCPUAdam, unless the configuration \
             has \"zero_force_ds_cpu_optimizer\": false"
                .into()
        }))
        .also((tensor > 1).then(|| {
            "AutoTP of DeepSpeed keeps norms and residual sums whole on every device, and the plan splits their \
             sequence: memory is larger than planned"
                .into()
        })))
}

/// The stage of ZeRO, which is at least 1 for states of the optimizer on the host.
fn zero(plan: &Joint) -> Result<u32> {
    match plan.zero() {
        0 if plan.execution.offload && plan.copies() > 1 => Err(JointError::Offload {
            rule: "DeepSpeed has that only with ZeRO 1 to 3",
            help: "plan with ZeRO 1, 2 or 3, or with offload=0",
        }
        .into()),
        0 if plan.execution.offload => Ok(1),
        zero => Ok(zero),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use stagewright_core::document::ContextExchange;

    use crate::joint::testing::{divide, execution, interleaved, plan, refused, text, with};

    fn configuration(plan: &stagewright_core::document::JointPlanDocument) -> Value {
        serde_json::from_str(&text(plan, "deepspeed")).unwrap()
    }

    #[test]
    fn batches_and_degrees_are_written() {
        let batches = json!({
            "train_batch_size": 16,
            "train_micro_batch_size_per_gpu": 1,
            "gradient_accumulation_steps": 8,
            "zero_optimization": {"stage": 2},
            "tensor_parallel": {"autotp_size": 2}
        });
        assert_eq!(configuration(&with(plan(&["E 0 1 H"]), 2, 2, 2)), batches);
        let mut experts = with(plan(&["E 0 1 H"]), 1, 2, 3);
        execution(&mut experts).expert = 2;
        let experts = configuration(&experts);
        assert_eq!(experts["expert_parallel"], json!({"enabled": true, "autoep_size": 2}));
        assert_eq!(experts.get("tensor_parallel"), None);
    }

    #[test]
    fn states_on_the_host_need_divided_states() {
        let offload = json!({"device": "cpu", "pin_memory": true});
        for (copies, zero, stage) in [(2, 1, 1), (2, 3, 3), (1, 0, 1)] {
            let mut offloaded = with(plan(&["E 0 1 H"]), 1, copies, zero);
            execution(&mut offloaded).offload = true;
            let written = configuration(&offloaded);
            assert_eq!(written["zero_optimization"], json!({"stage": stage, "offload_optimizer": offload}));
        }
        let mut whole = with(plan(&["E 0 1 H"]), 1, 2, 0);
        execution(&mut whole).offload = true;
        let (code, place, message) = refused(&whole, "deepspeed");
        assert_eq!((code, place.as_deref()), ("E034", Some("execution.offload")));
        assert_eq!(
            message,
            "the plan keeps states of the optimizer in the host's memory, but DeepSpeed has that only with ZeRO 1 to 3"
        );
    }

    #[test]
    fn pipelines_recomputation_and_split_experts_are_refused() {
        let (code, place, message) = refused(&plan(&["E 0", "1 H"]), "deepspeed");
        assert_eq!((code, place.as_deref()), ("E026", Some("stages")));
        assert!(
            message.starts_with("the plan has 2 stages, but the configuration of DeepSpeed has none"),
            "{message}"
        );
        assert_eq!(refused(&interleaved(&["E 0", "1", "2", "3 H"], 2), "deepspeed").0, "E026");
        let (code, place, _) = refused(&plan(&["E 0 1f H"]), "deepspeed");
        assert_eq!((code, place.as_deref()), ("E025", Some("stages[0].layers[2]")));
        let mut divided = with(plan(&["E 0 H"]), 1, 4, 3);
        execution(&mut divided).shards = Some(2);
        let (code, place, _) = refused(&divided, "deepspeed");
        assert_eq!((code, place.as_deref()), ("E024", Some("execution.shards")));
        divide(&mut divided, 2, ContextExchange::AllToAll);
        let (code, place, message) = refused(&divided, "deepspeed");
        assert_eq!((code, place.as_deref()), ("E033", Some("execution.context")));
        assert!(message.starts_with("the plan has context parallelism 2 by all-to-all, but"), "{message}");
        let mut experts = plan(&["E 0 H"]);
        execution(&mut experts).expert = 2;
        assert_eq!(refused(&experts, "deepspeed").0, "E027");
    }
}
