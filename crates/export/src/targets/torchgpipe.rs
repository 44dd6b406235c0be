//! torchgpipe: the arguments `balance` and `devices` of `GPipe`.
//!
//! `balance` is the number of layers in each partition of an `nn.Sequential`, `devices` the device of each.
//! The counted layers are listed too, since the model must be a sequence of exactly these.
//!
//! Source: the user guide, `docs/guide.rst`, of torchgpipe at 0aa8484.

use crate::pipeline::Pipeline;
use crate::sequence::Sequence;
use crate::{Export, Placed, Result, Target, literal};

pub(super) static TARGET: Target = Target {
    name: "torchgpipe",
    summary: "torchgpipe: balance and devices of GPipe",
    limits: "whole layers of an nn.Sequential, each reading only the previous one, at least one per stage; one \
             device per stage; needs --model",
    write,
};

fn write(placed: &Placed) -> Result<Export> {
    let sequence = Sequence::new(placed, TARGET.name, Pipeline::new(placed, "torchgpipe")?)?;
    sequence.chain(placed, "torchgpipe")?;
    sequence.no_stage_empty("torchgpipe needs at least one in every partition")?;
    let numbers = placed.numbers();
    let device = |&device: &usize| numbers[device].map_or_else(|| literal::string("cpu"), |n| n.to_string());
    let text = format!(
        "balance = {}\ndevices = {}\nlayers = {}\n",
        literal::list(sequence.counts().iter().map(ToString::to_string)),
        literal::list(sequence.pipeline.devices.iter().map(device)),
        literal::lines('[', sequence.layers().into_iter().map(literal::string), ']'),
    );
    Ok(Export::new(text)
        .note("`layers` are the modules of the nn.Sequential that is divided, in order")
        .note(sequence.pipeline.ranks(placed))
        .also(sequence.source))
}
