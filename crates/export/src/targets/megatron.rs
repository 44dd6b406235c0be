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

use crate::stack::Stack;
use crate::{Export, Placed, Result, Target};

pub(super) static TARGET: Target = Target {
    name: "megatron",
    summary: "Megatron-LM: --pipeline-model-parallel-layout",
    limits: "whole layers of one stack in order; embedding first, head and loss last; one device per stage, no \
             hosts, no virtual stages, no multi-token prediction",
    write,
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
    Ok(Export::new(text).note(stack.pipeline.ranks(placed)))
}
