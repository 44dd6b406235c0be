//! Megatron-LM and Megatron Core: `--pipeline-model-parallel-layout`.
//!
//! `|` separates stages; within a stage, `E` is the embedding, `t` a decoder layer, `L` the loss with the
//! head, and `t*3` stands for `ttt`. `E` must be first and `L` last, and a stage may have no decoder layer.
//!
//! Megatron ties the embedding and the head unless it is given `--untie-embeddings-and-output-weights`, which is
//! written if the two have weights of their own in the model.
//!
//! Source: `megatron/core/transformer/pipeline_parallel_layer_layout.py` of Megatron-LM at 00caa53, with its
//! page "Custom Pipeline Model Parallel Layout", which calls the option experimental (Megatron Core 0.14 and
//! later). A layout may have several chunks per rank and `m`, layers for multi-token prediction; a plan has
//! neither.

use stagewright_core::document::Schedule;

use crate::error::listed;
use crate::runtime::{COPIED, MEGATRON_TIES, Passes, Runtime, Schedules, Sharing, Trained, any};
use crate::shared::shared;
use crate::stack::{Side, Stack};
use crate::{Export, Placed, Result, Target};

/// Behaviour of Megatron beyond dividing layers.
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
    let options = format!(
        "--num-layers {} --pipeline-model-parallel-size {} --pipeline-model-parallel-layout '{}'",
        stack.layers(),
        stack.pipeline.stages(),
        layout.join("|")
    );
    options_with_ties(placed, &stack, options)
}

/// Megatron's options for a stack, and whether they tie the embedding and the head; Megatron ties nothing else.
///
/// # Errors
/// If a layer of the stack shares a trained weight with another stage (E031).
pub(super) fn options_with_ties(placed: &Placed, stack: &Stack, options: String) -> Result<Export> {
    let tied = tied(placed, stack)?;
    let untie = tied.is_empty() && has_own_head(placed, stack);
    let options =
        if untie { format!("{options} --untie-embeddings-and-output-weights\n") } else { options + "\n" };
    let note = if untie {
        None
    } else if tied.is_empty() {
        Some(MEGATRON_TIES.to_owned())
    } else {
        Some(format!(
            "{}: do not give --untie-embeddings-and-output-weights, so that Megatron ties the embedding and the head, and sums \
             their gradients",
            listed(&tied)
        ))
    };
    Ok(Export::new(options).note(stack.pipeline.ranks(placed)).also(note))
}

/// The trained weights that operators before the stack share with operators after it.
fn tied(placed: &Placed, stack: &Stack) -> Result<Vec<String>> {
    for parameter in shared(placed).iter().filter(|parameter| parameter.document.trained) {
        if parameter.readers.iter().any(|&reader| stack.sides[reader] == Side::Inside) {
            let rule = "Megatron ties only the embedding and the head";
            let help = "export to deepspeed, which ties any layers, or untie the weight in the model";
            return Err(parameter.refused(placed, (rule, help)));
        }
    }
    let Some(graph) = placed.graph else { return Ok(Vec::new()) };
    let is_tied = |index: usize| {
        let has = |side: Side| graph.readers(index).iter().any(|op| stack.sides[op.index()] == side);
        has(Side::Before) && has(Side::After)
    };
    let weights = graph.parameters().iter().enumerate().filter(|(_, parameter)| parameter.trained);
    Ok(weights.filter(|&(index, _)| is_tied(index)).map(|(_, weight)| weight.name.clone()).collect())
}

/// Whether the operators after the stack have weights about as large as those before it: a head has a row for every
/// token, as the embedding has. Norms and poolers are far smaller.
fn has_own_head(placed: &Placed, stack: &Stack) -> bool {
    let Some(graph) = placed.graph else { return false };
    let bytes_of = |side: Side| -> f64 {
        let operators = placed.operators.iter().zip(&stack.sides);
        let own: f64 = operators
            .filter(|&(operator, &known)| known == side && operator.is_forward())
            .filter_map(|(operator, _)| Some(operator.document?.parameter_bytes))
            .sum();
        let read = |index: usize| graph.readers(index).iter().any(|op| stack.sides[op.index()] == side);
        let trained = graph.parameters().iter().enumerate().filter(|(_, parameter)| parameter.trained);
        own + trained.filter(|&(index, _)| read(index)).map(|(_, parameter)| parameter.bytes).sum::<f64>()
    };
    let embedding = bytes_of(Side::Before);
    embedding > 0.0 && 2.0 * bytes_of(Side::After) >= embedding
}
