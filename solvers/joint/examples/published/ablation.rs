//! Terms of the model left out one by one, with the other constants fitted again.

use super::case::{Case, Outcome, Price};
use super::constants::Constants;
use super::{fit, loss, price_all, slots, summary};

/// A term: its name, what leaves it out, and the constants that are then not fitted, by the first word of their names.
type Term = (&'static str, fn(&mut Constants), &'static [&'static str]);

const TERMS: [Term; 19] = [
    ("nothing", |_| {}, &[]),
    ("share of a link (1)", |constants| constants.all(|runtime| runtime.link = 1.0), &["link"]),
    (
        "tensor parallelism hidden or slower (1)",
        |constants| constants.all(|runtime| runtime.tensor = 1.0),
        &["tensor"],
    ),
    ("tensor-parallel collectives", |constants| constants.all(|runtime| runtime.tensor = 0.0), &["tensor"]),
    ("overlap of ZeRO", |constants| constants.all(|runtime| runtime.contention = 1.0), &["contention"]),
    ("contention", |constants| constants.all(|runtime| runtime.contention = 0.0), &["contention"]),
    (
        "host",
        |constants| constants.all(|runtime| (runtime.host_s, runtime.pipeline_host_s) = (0.0, 0.0)),
        &["host_s", "pipeline_host_s"],
    ),
    (
        "host of pipelines over servers",
        |constants| constants.all(|runtime| runtime.pipeline_host_s = 0.0),
        &["pipeline_host_s"],
    ),
    (
        "transfers over many servers",
        |constants| constants.all(|runtime| runtime.wide_transfer_s = 0.0),
        &["wide_transfer_s"],
    ),
    ("passes of frameworks (1)", |constants| constants.all(|runtime| runtime.passes = 1.0), &["passes"]),
    (
        "traffic and results of norms (1)",
        |constants| constants.all(|runtime| runtime.norms = 1.0),
        &["norms"],
    ),
    (
        "traffic and results of scores (1)",
        |constants| constants.all(|runtime| runtime.scores = 1.0),
        &["plain"],
    ),
    ("share of the memory bandwidth (1)", |constants| constants.all(|runtime| runtime.memory = 1.0), &[]),
    (
        "version of attention kernels",
        |constants| (constants.flash1, constants.older) = (1.0, 1.0),
        &["FlashAttention"],
    ),
    (
        "seconds outside the passes",
        |constants| constants.all(|runtime| runtime.iteration_s = 0.0),
        &["iteration_s"],
    ),
    ("reduction of gradients", |constants| constants.all(|runtime| runtime.reduction = 1e-9), &[]),
    ("gradients kept in 32 bits", |constants| constants.all(|runtime| runtime.gradients = 1.0), &[]),
    (
        "bytes of activations (1)",
        |constants| constants.all(|runtime| runtime.activations = 1.0),
        &["activations"],
    ),
    (
        "logits",
        |constants| constants.all(|runtime| (runtime.loss, runtime.whole_loss) = (0.0, false)),
        &["loss"],
    ),
];

/// Prints a line for every term.
pub(crate) fn print(outcomes: &[Outcome], cases: &[&Case], shipped: &Constants) {
    println!(
        "| left out | loss | loss of bytes | seconds: median | p90 | Hagemann ρ | regret | ultrascale ρ | regret | bytes: median |"
    );
    println!("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |");
    for (name, leave_out, gone) in TERMS {
        let mut start = shipped.clone();
        leave_out(&mut start);
        let first = |slot: &slots::Slot| slot.name.split(' ').next().unwrap_or_default();
        let left: Vec<slots::Slot> =
            slots::all().into_iter().filter(|slot| !gone.contains(&first(slot))).collect();
        let fitted = fit::fit(cases, &left, &start);
        let prices = price_all(cases, &fitted);
        let losses = [loss::seconds(cases, &prices), loss::memory(cases, &prices)];
        let mut prices = prices.into_iter();
        let priced = outcomes.iter().map(|outcome| match &outcome.case {
            Ok(_) => prices.next().unwrap_or_else(|| Err("no price".into())),
            Err(reason) => Err(reason.clone()),
        });
        let priced: Vec<(&Outcome, Result<Price, String>)> = outcomes.iter().zip(priced).collect();
        println!("| {name} | {:.4} | {:.4} | {} |", losses[0], losses[1], summary::short(&priced));
    }
}
