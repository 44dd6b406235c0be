//! Megatron-LM and Megatron Core: `--pipeline-model-parallel-layout`.
//!
//! `|` separates stages; within a stage, `E` is the embedding, `t` a decoder layer, `L` the loss with the
//! head, and `t*3` stands for `ttt`. `E` must come first and `L` last of all, and a stage may have no
//! decoder layer.
//!
//! Source: `megatron/core/transformer/pipeline_parallel_layer_layout.py` of Megatron-LM at 00caa53, with its
//! page "Custom Pipeline Model Parallel Layout", which calls the option experimental (Megatron Core 0.14 and
//! later). A layout may have several chunks per rank and `m`, layers for multi-token prediction; a plan has
//! neither.

use stagewright_core::document::Schedule;

use crate::error::listed;
use crate::runtime::{COPIED, Passes, Runtime, Schedules, Sharing, Trained, any};
use crate::shared::shared;
use crate::stack::Stack;
use crate::{Export, Placed, Result, Target};

/// What Megatron does beside dividing layers.
pub(super) const RUNTIME: Runtime = Runtime {
    name: "Megatron",
    passes: Passes::Training,
    overlaps: true,
    sharing: Sharing { trained: Trained::Written, weight: COPIED, constant: COPIED },
    schedules: Schedules::Of {
        names: &[(Schedule::OneFOneB, "1F1B")],
        usage: |_, microbatches| {
            format!("give a --global-batch-size of {microbatches} times --micro-batch-size for every copy")
        },
        rule: "Megatron has only 1F1B and interleaved 1F1B",
        refusal: any,
    },
};

pub(super) static TARGET: Target = Target {
    name: "megatron",
    summary: "Megatron-LM: --pipeline-model-parallel-layout",
    limits: "whole layers of one stack in order; embedding first, head and loss last; one device per stage, no \
             hosts, no virtual stages, no multi-token prediction; no schedule but 1F1B",
    write,
    runtime: RUNTIME,
};

fn write(placed: &Placed) -> Result<Export> {
    let stack = Stack::new(placed, "Megatron")?;
    stack.pipeline.on_accelerators(placed, "Megatron runs pipeline stages only on accelerators")?;
    let last = stack.pipeline.stages() - 1;
    let stage = |(stage, &count): (usize, &usize)| {
        let layers = match count {
            0 => String::new(),
            1 => "t".to_owned(),
            count => format!("t*{count}"),
        };
        let (first, last) = (if stage == 0 { "E" } else { "" }, if stage == last { "L" } else { "" });
        format!("{first}{layers}{last}")
    };
    let layout: Vec<String> = stack.counts.iter().enumerate().map(stage).collect();
    let text = format!(
        "--num-layers {} --pipeline-model-parallel-size {} --pipeline-model-parallel-layout '{}'\n",
        stack.layers(),
        stack.pipeline.stages(),
        layout.join("|")
    );
    Ok(Export::new(text).note(stack.pipeline.ranks(placed)).also(tied(placed, &stack)?))
}

/// How Megatron trains the weights of several stages: it ties the embedding and the head, and nothing else.
///
/// # Errors
/// If a layer of the stack has such a weight (E031).
pub(super) fn tied(placed: &Placed, stack: &Stack) -> Result<Option<String>> {
    let mut names: Vec<String> = Vec::new();
    for parameter in shared(placed).iter().filter(|parameter| parameter.document.trained) {
        if parameter.readers.iter().any(|&reader| stack.inside[reader]) {
            return Err(parameter.refused(placed, "Megatron ties only the embedding and the head"));
        }
        names.push(parameter.document.name.clone());
    }
    Ok((!names.is_empty()).then(|| {
        format!(
            "{}: do not give --untie-embeddings-and-output-weights, so that Megatron sums the gradients of the embedding and the \
             head",
            listed(&names)
        )
    }))
}
