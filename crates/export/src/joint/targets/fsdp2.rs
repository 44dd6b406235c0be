//! FSDP2: a Python file that applies a plan to a model, layer by layer.
//!
//! `fully_shard` divides parameters, gradients and states of the optimizer. With ZeRO 1 and 2, parameters stay whole
//! until the last microbatch; with ZeRO 1, so do gradients. The file defines `set_last_microbatch`, which the training
//! loop calls before each microbatch to say whether it is the last.
//! Where groups of copies divide states, gradients are reduced between groups after the last microbatch alone.
//! Selective recomputation keeps the outputs of products. How a layer is split over the tensor-parallel devices depends
//! on its modules, which the plan does not know, so it is an argument. What a layer keeps on the host is saved there by
//! `offload_wrapper`, in pinned memory.
//!
//! Source: the page "torch.distributed.fsdp.fully_shard" of PyTorch 2.9 and later; `parallelize_module` of
//! `torch.distributed.tensor.parallel`, `create_selective_checkpoint_contexts` of `torch.utils.checkpoint`;
//! `checkpoint_wrapper`, which torchtitan uses as well, and `offload_wrapper` are not public.

use crate::error::JointError;
use crate::joint::plan::Recompute;
use crate::joint::{Joint, JointTarget, notes};
use crate::layers::addressable;
use crate::runtime::figures;
use crate::{Export, Result, literal};

pub(super) static TARGET: JointTarget = JointTarget {
    name: "fsdp2",
    summary: "FSDP2 of PyTorch: a Python file that applies fully_shard and recomputation to every layer",
    limits: "one stage; no expert or context parallelism; no ZeRO 0 with several copies; no states \
             on the host alone",
    write,
};

/// Products, whose outputs selective recomputation keeps.
const KEPT: [&str; 6] = [
    "mm",
    "addmm",
    "bmm",
    "_scaled_dot_product_flash_attention",
    "_scaled_dot_product_efficient_attention",
    "_scaled_dot_product_cudnn_attention",
];

fn write(plan: &Joint) -> Result<Export> {
    let execution = plan.execution;
    if plan.stages.len() > 1 {
        return Err(JointError::Stages {
            stages: plan.stages.len(),
            rule: "fully_shard divides no model into stages",
            help: "plan with one stage, or export to torchtitan, which runs stages of FSDP2",
        }
        .into());
    }
    if execution.expert > 1 {
        return Err(JointError::Experts {
            expert: execution.expert,
            rule: "fully_shard moves no experts to other devices",
            help: "plan with expert parallelism 1, or export to torchtitan or megatron-lm",
        }
        .into());
    }
    plan.no_context(
        "the file applies a plan to modules, and cannot divide the tokens that the training loop gives them",
        "plan without `cp`, or export to torchtitan or megatron-lm",
    )?;
    plan.no_offload(
        "CPUOffloadPolicy of fully_shard moves parameters and gradients to the host as well",
        "plan with offload=0, or export to megatron-lm or deepspeed",
    )?;
    if plan.zero() == 0 && execution.data > 1 {
        return Err(JointError::Sharding {
            zero: 0,
            copies: plan.copies(),
            rule: "fully_shard divides them",
            help: "plan with ZeRO 1, 2 or 3, or export to torchtitan",
        }
        .into());
    }
    for (_, layer) in plan.layers() {
        addressable("FSDP2", layer.name)?;
    }
    let source = Source { plan, tensor: plan.tensor("FSDP2")? };
    let usage = source
        .says_last()
        .then(|| "call set_last_microbatch before the forward pass of every microbatch".to_owned());
    Ok(Export::new(source.text())
        .note(notes::devices(plan))
        .note(
            "call apply_plan before the optimizer is made; `rename` gives the module of a layer of the plan",
        )
        .note(
            "for layers that share a weight, `rename` gives None: FSDP2 divides it only with the whole model",
        )
        .also(figures(plan.options, None))
        .also(usage)
        .also(source.uses(Recompute::Offload).then(|| {
            "offload_wrapper waits for its copies to the host, which the plan runs beside the forward pass".to_owned()
        })))
}

/// The parts of the file.
struct Source<'a> {
    plan: &'a Joint<'a>,
    tensor: u32,
}

impl Source<'_> {
    fn text(&self) -> String {
        let execution = self.plan.execution;
        let copies = match execution.shards {
            Some(shards) => format!("REPLICATE, SHARD, TENSOR = {}, {shards}", execution.data / shards),
            None => format!("DATA, TENSOR = {}", execution.data),
        };
        let constants = format!(
            "{copies}, {}\nMICROBATCH, MICROBATCHES = {}, {}\n\n# Layers, with their configuration.\nLAYERS = {}\n",
            self.tensor,
            self.plan.execution.microbatch,
            self.plan.execution.microbatches,
            self.layers(),
        );
        [self.imports(), constants, self.recompute(), self.apply(), self.last_microbatch()].concat()
    }

    fn uses(&self, recompute: Recompute) -> bool {
        self.plan.layers().any(|(_, layer)| layer.recompute == recompute)
    }

    fn recomputes(&self) -> bool {
        self.uses(Recompute::Selective) || self.uses(Recompute::Full)
    }

    /// The wrappers of layers, from one module of PyTorch.
    fn wrappers(&self) -> Vec<&'static str> {
        let used =
            [("checkpoint_wrapper", self.recomputes()), ("offload_wrapper", self.uses(Recompute::Offload))];
        used.into_iter().filter(|(_, is_used)| *is_used).map(|(name, _)| name).collect()
    }

    /// Whether the training loop says which microbatch is the last.
    fn says_last(&self) -> bool {
        matches!(self.plan.zero(), 1 | 2) || self.is_in_groups()
    }

    /// Whether groups of copies divide states.
    fn is_in_groups(&self) -> bool {
        self.plan.execution.shards.is_some()
    }

    fn shards(&self) -> bool {
        self.plan.zero() > 0
    }

    fn layers(&self) -> String {
        let entries = self
            .plan
            .layers()
            .map(|(_, layer)| literal::entry(layer.name, &literal::string(layer.recompute.name())));
        literal::lines('{', entries, '}')
    }

    fn imports(&self) -> String {
        let mut imports = String::new();
        if self.uses(Recompute::Selective) {
            imports.push_str("from functools import partial\n\nimport torch\n");
        }
        if !self.wrappers().is_empty() {
            let wrappers = self.wrappers().join(", ");
            imports.push_str(&format!(
                "from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import {wrappers}\n"
            ));
        }
        imports.push_str("from torch.distributed.device_mesh import init_device_mesh\n");
        if self.shards() {
            imports.push_str("from torch.distributed.fsdp import fully_shard\n");
        }
        if self.tensor > 1 {
            imports.push_str("from torch.distributed.tensor.parallel import parallelize_module\n");
        }
        if self.uses(Recompute::Selective) {
            imports.push_str("from torch.utils.checkpoint import create_selective_checkpoint_contexts\n");
        }
        imports + "\n"
    }

    fn recompute(&self) -> String {
        if !self.uses(Recompute::Selective) {
            return String::new();
        }
        let kept = literal::lines('[', KEPT.iter().map(|op| format!("torch.ops.aten.{op}.default")), ']');
        format!(
            "\n# Selective recomputation keeps the outputs of these operators.\nKEPT = {kept}\nKEEP_PRODUCTS = \
             partial(create_selective_checkpoint_contexts, KEPT)\n"
        )
    }

    fn apply(&self) -> String {
        let mut text = String::from("\n\n");
        let (argument, said) = if self.tensor > 1 {
            ("tensor_plan, ", "    tensor_plan is that of parallelize_module, with sequence parallelism.\n")
        } else {
            ("", "")
        };
        // Copies of a group are adjacent; states are divided along the second axis and kept along the first.
        let (sizes, names, of_copies) = match self.is_in_groups() {
            true => (
                "(REPLICATE, SHARD, TENSOR)",
                "(\"replicate\", \"shard\", \"tensor\")",
                "mesh[\"replicate\", \"shard\"]",
            ),
            false => ("(DATA, TENSOR)", "(\"data\", \"tensor\")", "mesh[\"data\"]"),
        };
        text.push_str(&format!(
            "def apply_plan(model, {argument}rename=lambda layer: layer):\n    \"\"\"Applies the plan.\n\n{said}    \
             rename gives the name of the module of a layer, or None to leave it to the whole model.\n    \"\"\"\n    \
             mesh = init_device_mesh(\"cuda\", {sizes}, mesh_dim_names={names})\n"
        ));
        if self.tensor > 1 {
            text.push_str("    parallelize_module(model, mesh[\"tensor\"], tensor_plan)\n");
        }
        if !self.wrappers().is_empty() || self.shards() {
            text.push_str(
                "    for layer, recompute in LAYERS.items():\n        name = rename(layer)\n        if name is \
                 None:\n            continue\n",
            );
        }
        for (recompute, wrapper, argument) in [
            (Recompute::Full, "checkpoint_wrapper", ""),
            (Recompute::Selective, "checkpoint_wrapper", ", context_fn=KEEP_PRODUCTS"),
            (Recompute::Offload, "offload_wrapper", ""),
        ] {
            if self.uses(recompute) {
                text.push_str(&format!(
                    "        if recompute == {}:\n            module = \
                     {wrapper}(model.get_submodule(name){argument})\n            model.set_submodule(name, \
                     module)\n",
                    literal::string(recompute.name())
                ));
            }
        }
        if self.shards() {
            let reshard = if self.plan.zero() == 3 { "True" } else { "False" };
            let shard = |module: &str| {
                format!("fully_shard({module}, mesh={of_copies}, reshard_after_forward={reshard})\n")
            };
            text.push_str(&format!("        {}    {}", shard("model.get_submodule(name)"), shard("model")));
        }
        text + "    return mesh\n"
    }

    fn last_microbatch(&self) -> String {
        if !self.says_last() {
            return String::new();
        }
        let zero = self.plan.zero();
        let lines = [
            ("set_is_last_backward", zero < 3),
            ("set_reshard_after_backward", zero < 3),
            ("set_requires_gradient_sync", zero == 1),
            ("set_requires_all_reduce", zero > 1 && self.is_in_groups()),
        ];
        let lines: String = lines
            .into_iter()
            .filter(|(_, is_said)| *is_said)
            .map(|(name, _)| format!("    model.{name}(is_last)\n"))
            .collect();
        format!(
            "\n\ndef set_last_microbatch(model, is_last):\n    \"\"\"Says whether the next microbatch is the last of an \
             iteration.\"\"\"\n{lines}"
        )
    }
}

#[cfg(test)]
mod tests {
    use stagewright_core::document::ContextExchange;

    use crate::joint::testing::{divide, execution, interleaved, plan, refused, text, with};

    #[test]
    fn layers_are_recomputed_and_sharded_by_name() {
        assert_eq!(
            text(&with(plan(&["E 0f 1 H"]), 1, 2, 3), "fsdp2"),
            r#"from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

DATA, TENSOR = 2, 1
MICROBATCH, MICROBATCHES = 1, 8

# Layers, with their configuration.
LAYERS = {
    "embeddings": "none",
    "decoder.layer.0": "full",
    "decoder.layer.1": "none",
    "head": "none"
}


def apply_plan(model, rename=lambda layer: layer):
    """Applies the plan.

    rename gives the name of the module of a layer, or None to leave it to the whole model.
    """
    mesh = init_device_mesh("cuda", (DATA, TENSOR), mesh_dim_names=("data", "tensor"))
    for layer, recompute in LAYERS.items():
        name = rename(layer)
        if name is None:
            continue
        if recompute == "full":
            module = checkpoint_wrapper(model.get_submodule(name))
            model.set_submodule(name, module)
        fully_shard(model.get_submodule(name), mesh=mesh["data"], reshard_after_forward=True)
    fully_shard(model, mesh=mesh["data"], reshard_after_forward=True)
    return mesh
"#
        );
    }

    #[test]
    fn whole_gradients_wait_for_the_last_microbatch() {
        let first = text(&with(plan(&["E 0 1 H"]), 1, 2, 1), "fsdp2");
        assert!(first.contains("reshard_after_forward=False"), "{first}");
        assert!(first.ends_with(
            "set_reshard_after_backward(is_last)\n    model.set_requires_gradient_sync(is_last)\n"
        ));
        let second = text(&with(plan(&["E 0 1 H"]), 1, 2, 2), "fsdp2");
        assert!(second.ends_with("set_reshard_after_backward(is_last)\n"), "{second}");
    }

    #[test]
    fn one_copy_is_not_sharded() {
        let single = text(&with(plan(&["E 0s 1s H"]), 2, 1, 0), "fsdp2");
        assert!(!single.contains("fully_shard"), "{single}");
        for line in [
            "    parallelize_module(model, mesh[\"tensor\"], tensor_plan)\n",
            "            module = checkpoint_wrapper(model.get_submodule(name), \
             context_fn=KEEP_PRODUCTS)\n",
            "    torch.ops.aten.addmm.default,\n",
        ] {
            assert!(single.contains(line), "{single}");
        }
    }

    #[test]
    fn layers_are_saved_on_the_host_by_name() {
        let written = text(&with(plan(&["E 0o 1f H"]), 1, 2, 3), "fsdp2");
        for lines in [
            "checkpoint_wrapper import checkpoint_wrapper, offload_wrapper\n",
            "    \"decoder.layer.0\": \"offload\",\n",
            "        if recompute == \"offload\":\n            module = offload_wrapper(model.get_submodule(name))\n            \
             model.set_submodule(name, module)\n",
        ] {
            assert!(written.contains(lines), "{written}");
        }
        let alone = text(&with(plan(&["E 0o 1o H"]), 2, 1, 0), "fsdp2");
        assert!(alone.contains("checkpoint_wrapper import offload_wrapper\n"), "{alone}");
    }

    #[test]
    fn groups_of_copies_are_the_second_axis_of_a_mesh() {
        let mut groups = with(plan(&["E 0 1 H"]), 2, 8, 3);
        execution(&mut groups).shards = Some(4);
        let third = text(&groups, "fsdp2");
        for line in [
            "REPLICATE, SHARD, TENSOR = 2, 4, 2\n",
            "init_device_mesh(\"cuda\", (REPLICATE, SHARD, TENSOR), mesh_dim_names=(\"replicate\", \"shard\", \"tensor\"))\n",
            "    fully_shard(model, mesh=mesh[\"replicate\", \"shard\"], reshard_after_forward=True)\n",
        ] {
            assert!(third.contains(line), "{third}");
        }
        assert!(third.ends_with("iteration.\"\"\"\n    model.set_requires_all_reduce(is_last)\n"), "{third}");
        execution(&mut groups).zero = 2;
        let second = text(&groups, "fsdp2");
        assert!(
            second.ends_with(
                "set_reshard_after_backward(is_last)\n    model.set_requires_all_reduce(is_last)\n"
            )
        );
        execution(&mut groups).zero = 1;
        assert!(text(&groups, "fsdp2").ends_with("model.set_requires_gradient_sync(is_last)\n"));
    }

    #[test]
    fn pipelines_experts_and_whole_states_are_refused() {
        assert_eq!(refused(&plan(&["E 0", "1 H"]), "fsdp2").0, "E026");
        assert_eq!(refused(&interleaved(&["E 0", "1", "2", "3 H"], 2), "fsdp2").0, "E026");
        assert_eq!(refused(&plan(&["E 0 H"]), "fsdp2").0, "E024");
        let mut experts = with(plan(&["E 0 H"]), 1, 2, 3);
        execution(&mut experts).expert = 2;
        assert_eq!(refused(&experts, "fsdp2").0, "E027");
        let mut divided = with(plan(&["E 0 H"]), 1, 2, 3);
        divide(&mut divided, 2, ContextExchange::Ring);
        assert_eq!(refused(&divided, "fsdp2").0, "E033");
        let mut offloaded = with(plan(&["E 0 1 H"]), 1, 2, 3);
        execution(&mut offloaded).offload = true;
        let (code, place, _) = refused(&offloaded, "fsdp2");
        assert_eq!((code, place.as_deref()), ("E034", Some("execution.offload")));
        let mut unnamed = with(plan(&["E 0 H"]), 1, 2, 3);
        unnamed.stages[0].layers[0].layer = "a..b".into();
        assert_eq!(refused(&unnamed, "fsdp2").0, "E018");
    }
}
