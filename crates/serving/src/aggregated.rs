//! Aggregated serving: replicas that read prompts and decode in the same steps.

use stagewright_formats::Result;

use crate::replica::Replica;
use crate::request::{Load, Prediction, RequestClass};
use crate::tail;

/// The largest share of time in which prompts are read, for their queue.
const BUSIEST: f64 = 0.99;

/// Times and rates of a replica whose steps mix prompts and decoding, under a load.
///
/// With D a decode step at batch B of a rank and the mean context, M a mixed step, P a prompt alone and S the tokens that are
/// generated:
///
/// ```text
/// TPOT = D + prompt_share · (B − 1) · (M − D) / S
/// TTFT = P + wait_steps · TPOT + wait_s + burst · (B − 1) · P + waiting requests / rate
/// ```
///
/// The first is the fluid limit: while a request is decoded for S steps, each of the others begins once. `burst` counts if the
/// requests of the load begin all at once; ranks read prompts side by side. Requests beyond the largest batch wait until one ends.
///
/// # Errors
/// If the class or the load has no tokens or requests (L024). `label` names the input that has them.
pub fn aggregated(
    label: &str,
    replica: &Replica,
    class: &RequestClass,
    load: &Load,
) -> Result<Option<Prediction>> {
    class.check(label)?;
    load.check(label)?;
    let fitting = replica.largest_batch(class.longest());
    if fitting == 0 {
        return Ok(None);
    }
    let engine = replica.stages()[0].engine();
    let wanted = (load.concurrency / replica.data()).max(1.0);
    let batch = wanted.min(fitting as f64);
    let decode = replica.token_seconds(batch, class.mean_context());
    // The others are decoded beside the prompt of one.
    let delay = replica.prompt_delay(class, batch - 1.0);
    let tpot = decode + engine.prompt_share * (batch - 1.0) * delay / class.output as f64;
    let prompt = replica.prompt_seconds(class);
    let burst = if load.is_burst { engine.burst * (batch - 1.0) * prompt } else { 0.0 };
    let start = prompt + engine.wait_steps * tpot + engine.wait_s + burst;
    let waiting = (load.concurrency - batch * replica.data()).max(0.0);
    let period = start + (class.output as f64 - 1.0) * tpot;
    let ttft = start + waiting * period / (batch * replica.data());
    let times = Prediction::from_times(class, load, ttft, tpot);
    Ok(Some(Prediction { batch, waiting, ..times }))
}

/// The 95th percentiles of the time to the first token and between tokens of a predicted replica under a steady load, if requests begin
/// at random.
///
/// A prompt waits for others as in a queue with random arrivals and equal times of service (M/D/1). Beside a request begin, not B − 1
/// others, but the 95th percentile of a Poisson number of that mean.
pub(crate) fn slow_times(replica: &Replica, class: &RequestClass, mean: &Prediction) -> (f64, f64) {
    let engine = replica.stages()[0].engine();
    let others = mean.batch - 1.0;
    let delay = replica.prompt_delay(class, others);
    let more = tail::events(others) - others;
    let tpot = mean.tpot + engine.prompt_share * more * delay / class.output as f64;
    let prompt = replica.prompt_seconds(class);
    let of_rank = mean.requests_per_s / replica.data();
    let wait = tail::wait((of_rank * prompt).min(BUSIEST)) * prompt;
    (mean.ttft + wait + engine.wait_steps * (tpot - mean.tpot), tpot)
}
