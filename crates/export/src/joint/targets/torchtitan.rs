//! torchtitan: a Python function that sets a plan in a `Trainer.Config`.
//!
//! torchtitan is configured in Python; it reads no TOML since 0.3. Modules are named as in its own models:
//! `tok_embeddings`, `layers.N`, `norm` and `lm_head`.
//!
//! Copies are divided by FSDP2. In a pipeline, PyTorch keeps parameters and gradients whole until the last microbatch
//! (`backward_maybe_with_nosync` in `torch/distributed/pipelining/stage.py`): that is ZeRO 1. Without a pipeline,
//! torchtitan reduces gradients after every microbatch: ZeRO 2 if parameters stay whole from the forward to the
//! backward pass, and ZeRO 3 if not.
//!
//! Schedules are those of `torch/distributed/pipelining/schedules.py`, PyTorch 2.15.0. `Schedule1F1B` needs at least as
//! many microbatches as stages. `ScheduleInterleaved1F1B` has the order of the plan; stage k is on rank k mod p
//! (`_get_pp_rank_to_stage_indices_mapping`). `ScheduleInterleavedZeroBubble` with one stage on a device has the order
//! of ZB-H1. `ScheduleDualPipeV` has the order of the plan; stages i and 2 p − 1 − i are on rank i. Under both, the
//! weight gradients of all passes, or of some, are computed in separate autograd passes, one for every group of
//! parameters: each pass would recompute the layer once more, and selective recomputation fails in the second pass. All
//! but `Schedule1F1B` derive from `_PipelineScheduleRuntime`, which keeps at most three stages of a device gathered
//! (`max_active_stages`).
//!
//! FSDP2 divides states over the axes `dp_shard` and `cp` together, and keeps copies of them along `dp_replicate`. The
//! rotation `alltoall` sends the keys and values of a device to the next, and `headtail` gives every device two pieces
//! of a sample.
//!
//! Experts are on devices of the axes `dp_shard` and `tp`, and are not split over `tp`.
//!
//! Source: `TrainingConfig` and `ParallelismConfig` in `torchtitan/config/configs.py`, `ParallelDims`,
//! `activation_checkpoint.py` and `trainer.py` of torchtitan 0.3.0. Its main branch has since renamed
//! `module_fqns_per_model_part` to `pipeline_parallel_module_fqns_per_model_part`, and counts batches in tokens.

use stagewright_core::document::{ContextExchange, Schedule};

use crate::error::JointError;
use crate::joint::plan::Recompute;
use crate::joint::stack::Stack;
use crate::joint::{Joint, JointTarget, notes, recompute};
use crate::runtime::{figures, pytorch};
use crate::{Export, Result, literal};

const RUNTIME: &str = "torchtitan";

/// Stages of a device whose parameters PyTorch keeps gathered.
const GATHERED: usize = 3;

pub(super) static TARGET: JointTarget = JointTarget {
    name: "torchtitan",
    summary: "torchtitan: a function that sets fields of a Trainer.Config, in Python",
    limits: "one degree of tensor parallelism; one stack of layers; ZeRO 0 or 1 with several stages, and 0, 2 or 3 with \
             one; the ring of context parallelism, with ZeRO; experts without tensor parallelism and with divided states; \
             no states on the host alone; \
             recomputation of all layers alike, and none under zero-bubble and dualpipe-v",
    write,
};

fn write(plan: &Joint) -> Result<Export> {
    let execution = plan.execution;
    let stages = plan.stages.len();
    let tensor = plan.tensor(RUNTIME)?;
    let stack = Stack::new(plan, RUNTIME)?;
    plan.no_offload(
        "torchtitan moves parameters and gradients to the host as well (training.enable_cpu_offload)",
        "plan with offload=0, or export to megatron-lm or deepspeed",
    )?;
    let (is_sharded, reshard) = sharding(plan)?;
    let shard = shards(plan, is_sharded)?;
    let context = context(plan)?;
    experts(plan, tensor)?;
    let schedule = schedule(plan)?;
    recompute::on_device(plan, "torchtitan has no option that moves activations to the host")?;
    let policy = match recompute::of_all(plan, RUNTIME)? {
        Recompute::None | Recompute::Offload => None,
        Recompute::Selective => Some("SelectiveAC"),
        Recompute::Full => Some("FullAC"),
    };
    let mut parallelism = vec![
        ("data_parallel_replicate_degree", (execution.data / shard).to_string()),
        ("data_parallel_shard_degree", shard.to_string()),
        ("fsdp_reshard_after_forward", literal::string(reshard)),
        ("tensor_parallel_degree", tensor.to_string()),
        ("context_parallel_degree", context.to_string()),
        ("expert_parallel_degree", execution.expert.to_string()),
        ("pipeline_parallel_degree", plan.devices.to_string()),
    ];
    if context > 1 {
        parallelism.push(("context_parallel_rotate_method", literal::string("alltoall")));
        parallelism.push(("context_parallel_load_balancer", literal::string("headtail")));
    }
    let mut local_batch = u64::from(execution.microbatch);
    if stages > 1 {
        // A local batch is divided into the microbatches of the pipeline; without a pipeline, batches are accumulated.
        local_batch *= u64::from(execution.microbatches);
        parallelism.push(("pipeline_parallel_schedule", literal::string(schedule)));
        parallelism.push(("pipeline_parallel_microbatch_size", execution.microbatch.to_string()));
        parallelism.push(("pipeline_parallel_layers_per_stage", "None".into()));
        parallelism.push(("module_fqns_per_model_part", modules(&stack)));
    }
    let training =
        [("local_batch_size", local_batch.to_string()), ("global_batch_size", plan.global_batch.to_string())];
    let import = policy
        .map(|policy| format!("from torchtitan.distributed.activation_checkpoint import {policy}\n\n\n"));
    let text = format!(
        "{}def apply_plan(config):\n    \"\"\"Sets the plan in a Trainer.Config.\"\"\"\n{}{}    \
         config.activation_checkpoint = {}\n    return config\n",
        import.unwrap_or_default(),
        fields("parallelism", &parallelism),
        fields("training", &training),
        policy.map_or("None".to_owned(), |policy| format!("{policy}.Config()")),
    );
    Ok(noted(Export::new(text), plan, policy))
}

/// Adds notes on where torchtitan differs from a plan.
fn noted(export: Export, plan: &Joint, policy: Option<&str>) -> Export {
    let (execution, stages) = (plan.execution, plan.stages.len());
    export
        .note(notes::devices(plan))
        .note("modules are named as in torchtitan's models: tok_embeddings, layers.N, norm, lm_head")
        .also(figures(plan.options, None))
        .also(
            (stages > 1).then(|| {
                "the plan does not say whether the head has the weight of the embedding: torchtitan takes no tied weights in a \
                 pipeline"
                    .into()
            }),
        )
        .also(
            (policy == Some("SelectiveAC")).then(|| {
                "selective: torchtitan recomputes every second product as well, in less memory".into()
            }),
        )
        .also((plan.devices > 1 && plan.schedule.is_split()).then(|| {
            format!("{} of PyTorch does not run compiled modules: leave torch.compile off", plan.schedule.name())
        }))
        .also((plan.schedule == Schedule::DualPipeV && execution.expert > 1).then(|| {
            "PyTorch runs two passes of dualpipe-v beside each other only if a function for OVERLAP_F_B is registered; \
             otherwise exchanges with experts take longer than planned"
                .into()
        }))
        .also((plan.zero() == 1 && stages > GATHERED * plan.devices).then(|| {
            format!(
                "PyTorch keeps the parameters of {GATHERED} stages of a device gathered, and the plan those of all: it \
                 takes less memory and more transfers than planned"
            )
        }))
        .also(
            (stages == 1 && plan.zero() == 0 && execution.data > 1 && execution.microbatches > 1)
                .then(|| "torchtitan reduces gradients after every microbatch, and the plan once".into()),
        )
        .also((stages == 1 && execution.shards.is_some() && execution.microbatches > 1).then(|| {
            "torchtitan reduces gradients between groups of copies after every microbatch, and the plan once".into()
        }))
        .also((execution.context > 1).then(|| {
            "the ring of PyTorch is that of scaled_dot_product_attention: FlexAttention gathers all keys and values".into()
        }))
}

/// Name of the schedule in PyTorch.
fn schedule(plan: &Joint) -> Result<&'static str> {
    let microbatches = plan.execution.microbatches;
    let name = match plan.schedule {
        Schedule::Interleaved => "Interleaved1F1B",
        Schedule::ZeroBubble => {
            recompute::no_layer(
                plan,
                "zero-bubble of PyTorch would compute it again for the gradients of weights",
                "plan without `recompute`, or with --schedule 1f1b or interleaved",
            )?;
            "InterleavedZeroBubble"
        }
        Schedule::DualPipeV => {
            recompute::no_layer(
                plan,
                "dualpipe-v of PyTorch would compute it again for the gradients of weights",
                "plan without `recompute`, or with --schedule 1f1b or interleaved",
            )?;
            "DualPipeV"
        }
        Schedule::ZeroBubbleTwice => {
            return Err(JointError::Schedule {
                schedule: plan.schedule.name(),
                rule: "PyTorch has 1F1B, interleaved 1F1B, zero-bubble and DualPipeV",
                help: "plan with --schedule 1f1b, interleaved, zero-bubble or dualpipe-v",
            }
            .into());
        }
        _ => "1F1B",
    };
    match pytorch(plan.schedule, microbatches, plan.devices) {
        Some((rule, help)) if plan.devices > 1 => {
            Err(JointError::Microbatches { microbatches, stages: plan.stages.len(), rule, help }.into())
        }
        _ => Ok(name),
    }
}

/// Whether states are divided over copies, and the setting that says whether parameters are divided between the passes.
fn sharding(plan: &Joint) -> Result<(bool, &'static str)> {
    let pipeline = plan.stages.len() > 1;
    let refuse = |rule, help| {
        Err(JointError::Sharding { zero: plan.zero(), copies: plan.copies(), rule, help }.into())
    };
    match plan.zero() {
        0 if plan.execution.context > 1 => refuse(
            "torchtitan divides states over the devices of a sample under context parallelism",
            "plan with ZeRO 1 for several stages and with ZeRO 2 or 3 for one, or export to megatron-lm",
        ),
        0 => Ok((false, "default")),
        1 if pipeline => Ok((true, "never")),
        1 => refuse(
            "torchtitan divides gradients after every microbatch, unless it runs a pipeline",
            "plan with ZeRO 0, 2 or 3",
        ),
        _ if pipeline => refuse(
            "a pipeline of PyTorch keeps parameters and gradients whole until its last microbatch",
            "plan with ZeRO 0 or 1, or with one stage",
        ),
        2 => Ok((true, "never")),
        _ => Ok((true, "always")),
    }
}

/// Copies of a sample's devices that divide states: `data_parallel_shard_degree`, by which torchtitan multiplies the
/// degree of context parallelism.
fn shards(plan: &Joint, is_sharded: bool) -> Result<u32> {
    let execution = plan.execution;
    let Some(shards) = execution.shards else { return Ok(if is_sharded { execution.data } else { 1 }) };
    let shard = shards / execution.context;
    if shard * execution.context != shards || !execution.data.is_multiple_of(shard) {
        let rule = "torchtitan divides states over all devices of a sample";
        return Err(plan.groups(shards, rule, "plan with a multiple of the degree of context parallelism"));
    }
    Ok(shard)
}

/// The degree of context parallelism.
fn context(plan: &Joint) -> Result<u32> {
    match plan.context() {
        Some((_, ContextExchange::AllToAll)) => {
            let rule = "torchtitan passes keys and values from device to device";
            plan.no_context(rule, "plan without `cp`, or export to megatron-lm")?;
            Ok(1)
        }
        Some((context, ContextExchange::Ring)) => Ok(context),
        None => Ok(1),
    }
}

/// Refuses experts that torchtitan would put elsewhere.
fn experts(plan: &Joint, tensor: u32) -> Result<()> {
    let expert = plan.execution.expert;
    let refuse = |rule, help| Err(JointError::Experts { expert, rule, help }.into());
    if expert == 1 {
        return Ok(());
    }
    if tensor > 1 {
        return refuse(
            "torchtitan does not split experts over tensor-parallel devices",
            "plan with tensor parallelism 1, or export to megatron-lm",
        );
    }
    if plan.zero() == 0 {
        return refuse(
            "torchtitan puts experts only on copies that divide states",
            "plan with ZeRO 1 for several stages and with ZeRO 2 or 3 for one, or export to megatron-lm",
        );
    }
    Ok(())
}

/// The modules of every stage.
fn modules(stack: &Stack) -> String {
    let last = stack.counts.len() - 1;
    let mut next = 0;
    let parts = stack.counts.iter().enumerate().map(|(stage, &count)| {
        let mut names: Vec<String> = Vec::new();
        if stage == 0 {
            names.push("tok_embeddings".into());
        }
        names.extend((next..next + count).map(|layer| format!("layers.{layer}")));
        next += count;
        if stage == last {
            names.extend(["norm".into(), "lm_head".into()]);
        }
        literal::list(names.iter().map(|name| literal::string(name)))
    });
    literal::lines('[', parts, ']').replace('\n', "\n    ")
}

fn fields(section: &str, fields: &[(&str, String)]) -> String {
    fields.iter().map(|(field, value)| format!("    config.{section}.{field} = {value}\n")).collect()
}

#[cfg(test)]
mod tests {
    use stagewright_core::document::{ContextExchange, JointPlanDocument, Schedule};

    use crate::joint::export_joint_noted;
    use crate::joint::testing::{divide, dualpipe_v, execution, interleaved, plan, refused, text, with};

    #[test]
    fn a_pipeline_names_the_modules_of_its_stages() {
        let written = text(&with(plan(&["E 0f 1f", "2f H"]), 2, 2, 1), "torchtitan");
        assert_eq!(
            written,
            r#"from torchtitan.distributed.activation_checkpoint import FullAC


def apply_plan(config):
    """Sets the plan in a Trainer.Config."""
    config.parallelism.data_parallel_replicate_degree = 1
    config.parallelism.data_parallel_shard_degree = 2
    config.parallelism.fsdp_reshard_after_forward = "never"
    config.parallelism.tensor_parallel_degree = 2
    config.parallelism.context_parallel_degree = 1
    config.parallelism.expert_parallel_degree = 1
    config.parallelism.pipeline_parallel_degree = 2
    config.parallelism.pipeline_parallel_schedule = "1F1B"
    config.parallelism.pipeline_parallel_microbatch_size = 1
    config.parallelism.pipeline_parallel_layers_per_stage = None
    config.parallelism.module_fqns_per_model_part = [
        ["tok_embeddings", "layers.0", "layers.1"],
        ["layers.2", "norm", "lm_head"]
    ]
    config.training.local_batch_size = 8
    config.training.global_batch_size = 16
    config.activation_checkpoint = FullAC.Config()
    return config
"#
        );
    }

    #[test]
    fn a_device_has_several_stages_if_they_are_interleaved() {
        let written = text(&interleaved(&["E", "0 1", "2", "3 H"], 2), "torchtitan");
        for line in [
            "pipeline_parallel_degree = 2\n",
            "pipeline_parallel_schedule = \"Interleaved1F1B\"\n",
            "        [\"tok_embeddings\"],\n        [\"layers.0\", \"layers.1\"],\n        [\"layers.2\"],\n        \
             [\"layers.3\", \"norm\", \"lm_head\"]\n",
        ] {
            assert!(written.contains(line), "{written}");
        }
        let notes = |chunks: u32, zero| {
            let stages = ["E 0", "1", "2", "3", "4", "5", "6", "7 H"];
            let several = with(interleaved(&stages[8 - 2 * chunks as usize..], chunks), 1, 2, zero);
            export_joint_noted(&several, "torchtitan").map(|export| export.notes.len())
        };
        assert_eq!((notes(4, 0), notes(4, 1)), (Ok(3), Ok(4)));
    }

    #[test]
    fn dualpipe_v_has_no_recomputation_and_notes_what_runs_beside() {
        let folded = dualpipe_v(&["E 0", "1", "2", "3 H"]);
        let written = text(&folded, "torchtitan");
        for line in ["pipeline_parallel_degree = 2\n", "pipeline_parallel_schedule = \"DualPipeV\"\n"] {
            assert!(written.contains(line), "{written}");
        }
        let mut experts = with(folded, 1, 2, 1);
        let notes =
            |plan: &JointPlanDocument| export_joint_noted(plan, "torchtitan").expect("it is written").notes;
        let is_about_experts = |note: &String| note.contains("OVERLAP_F_B");
        assert!(!notes(&experts).iter().any(is_about_experts));
        execution(&mut experts).expert = 2;
        assert!(notes(&experts).iter().any(is_about_experts));
        assert_eq!(refused(&dualpipe_v(&["E 0f", "1f", "2f", "3f H"]), "torchtitan").0, "E025");
    }

    #[test]
    fn zero_bubble_has_one_stage_on_a_device_and_no_recomputation() {
        let mut bubble = plan(&["E 0", "1", "2 H"]);
        execution(&mut bubble).schedule = Schedule::ZeroBubble;
        execution(&mut bubble).microbatches = 2;
        bubble.objective.global_batch = 4;
        let written = text(&bubble, "torchtitan");
        assert!(written.contains("pipeline_parallel_degree = 3\n"), "{written}");
        assert!(written.contains("pipeline_parallel_schedule = \"InterleavedZeroBubble\"\n"), "{written}");
        execution(&mut bubble).microbatches = 8;
        bubble.objective.global_batch = 16;
        assert!(text(&bubble, "torchtitan").contains("local_batch_size = 8\n"));
        execution(&mut bubble).microbatches = 7;
        bubble.objective.global_batch = 14;
        assert_eq!(refused(&bubble, "torchtitan").0, "E028");
        for layers in [["E 0f", "1f", "2f H"], ["E 0s", "1s", "2s H"], ["E 0", "1", "2f H"]] {
            let mut recomputed = plan(&layers);
            execution(&mut recomputed).schedule = Schedule::ZeroBubble;
            let (code, place, _) = refused(&recomputed, "torchtitan");
            assert_eq!((code, place.is_some()), ("E025", true));
        }
    }

    #[test]
    fn one_stage_accumulates_batches() {
        let whole = text(&plan(&["E 0 1 H"]), "torchtitan");
        for line in [
            "data_parallel_replicate_degree = 2\n",
            "data_parallel_shard_degree = 1\n",
            "local_batch_size = 1\n",
            "global_batch_size = 16\n",
            "activation_checkpoint = None\n",
        ] {
            assert!(whole.contains(line), "{whole}");
        }
        assert!(!whole.contains("import") && !whole.contains("schedule"), "{whole}");
        let mut experts = with(plan(&["E 0s 1s H"]), 1, 4, 3);
        execution(&mut experts).expert = 2;
        let experts = text(&experts, "torchtitan");
        assert!(
            experts.contains("expert_parallel_degree = 2\n") && experts.contains("\"always\""),
            "{experts}"
        );
        assert!(experts.contains("SelectiveAC.Config()"), "{experts}");
    }

    #[test]
    fn states_are_divided_over_the_devices_of_a_sample() {
        let mut divided = with(plan(&["E 0 1 H"]), 1, 4, 3);
        divide(&mut divided, 2, ContextExchange::Ring);
        let degrees = |plan: &JointPlanDocument| {
            let written = text(plan, "torchtitan");
            let line = |name: &str| {
                let line = written
                    .lines()
                    .find_map(|line| line.trim().strip_prefix(&format!("config.parallelism.{name} = ")));
                line.map(str::to_owned)
            };
            [
                "data_parallel_replicate_degree",
                "data_parallel_shard_degree",
                "context_parallel_degree",
                "context_parallel_rotate_method",
            ]
            .map(|name| line(name).unwrap_or_default())
        };
        assert_eq!(degrees(&divided), ["1", "4", "2", "\"alltoall\""]);
        for (shards, shard) in [(2, 1), (4, 2)] {
            execution(&mut divided).shards = Some(shards);
            assert_eq!(
                degrees(&divided),
                [(4 / shard).to_string(), shard.to_string(), "2".into(), "\"alltoall\"".into()]
            );
        }
        let notes = export_joint_noted(&divided, "torchtitan").unwrap().notes;
        assert_eq!(
            notes.iter().filter(|note| note.contains("between groups") || note.contains("ring")).count(),
            2
        );
        divide(&mut divided, 4, ContextExchange::Ring);
        execution(&mut divided).shards = Some(2);
        let (code, place, _) = refused(&divided, "torchtitan");
        assert_eq!((code, place.as_deref()), ("E024", Some("execution.shards")));
        execution(&mut divided).shards = None;
        execution(&mut divided).zero = 0;
        let (code, place, _) = refused(&divided, "torchtitan");
        assert_eq!((code, place.as_deref()), ("E024", Some("execution.zero")));
        execution(&mut divided).zero = 3;
        divide(&mut divided, 4, ContextExchange::AllToAll);
        assert_eq!(refused(&divided, "torchtitan").0, "E033");
        let mut offloaded = with(plan(&["E 0 1 H"]), 1, 2, 3);
        execution(&mut offloaded).offload = true;
        let (code, place, _) = refused(&offloaded, "torchtitan");
        assert_eq!((code, place.as_deref()), ("E034", Some("execution.offload")));
    }

    #[test]
    fn what_torchtitan_does_otherwise_is_refused() {
        for (stages, zero) in [(&["E 0 H"][..], 1), (&["E 0", "1 H"], 2), (&["E 0", "1 H"], 3)] {
            let (code, place, _) = refused(&with(plan(stages), 1, 2, zero), "torchtitan");
            assert_eq!((code, place.as_deref()), ("E024", Some("execution.zero")));
        }
        for (tensor, zero) in [(2, 3), (1, 0)] {
            let mut experts = with(plan(&["E 0 H"]), tensor, 2, zero);
            execution(&mut experts).expert = 2;
            assert_eq!(refused(&experts, "torchtitan").0, "E027");
        }
        let mut few = plan(&["E 0", "1", "2", "3 H"]);
        execution(&mut few).microbatches = 2;
        execution(&mut few).microbatch = 4;
        assert_eq!(refused(&few, "torchtitan").0, "E028");
        few.stages[1].tensor = 1;
        assert_eq!(refused(&few, "torchtitan").0, "E023");
    }
}
