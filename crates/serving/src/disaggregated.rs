//! Disaggregated serving: a pool of replicas for prompts and a pool for decoding.

use stagewright_core::document::LinkDocument;
use stagewright_formats::Result;

use crate::replica::Replica;
use crate::request::{Load, Prediction, RequestClass};

/// Steps of the bisection of the batch, on which all times depend.
const BISECTIONS: usize = 60;

/// Pools of replicas.
#[derive(Debug, Clone)]
pub struct Pools<'a> {
    /// A replica for prompts.
    pub prefill: Replica<'a>,
    /// Number of replicas for prompts.
    pub prefills: u64,
    /// A replica for decoding.
    pub decode: Replica<'a>,
    /// Number of replicas for decoding.
    pub decodes: u64,
    /// Link over which the cache of a request goes from one to the other.
    pub transfer: LinkDocument,
}

impl Pools<'_> {
    /// Prompts a second that the pool for prompts reads if none of its steps is idle: each reads as many prompts as a chunk
    /// holds.
    pub fn prefill_rate(&self, class: &RequestClass) -> f64 {
        let chunk = self.prefill.stages()[0].engine().chunk as f64;
        let prompts = (chunk / class.computed()).floor().max(1.0);
        let at_once = self.prefills as f64 * self.prefill.data() * prompts;
        at_once / self.prefill.prompt_interval(class, prompts)
    }

    /// Requests a second that the pool for decoding ends with a batch on every rank.
    pub fn decode_rate(&self, class: &RequestClass, batch: f64) -> f64 {
        let sequences = batch * self.decode.data() * self.decodes as f64;
        let steps = (class.output as f64 - 1.0).max(1.0);
        sequences / (steps * self.token_seconds(class, batch))
    }

    /// Seconds between tokens of the pool for decoding with a batch on every rank.
    pub fn token_seconds(&self, class: &RequestClass, batch: f64) -> f64 {
        let share = self.decode.stages()[0].engine().decode_share;
        share * self.decode.token_seconds(batch, class.mean_context())
    }

    /// Seconds to send the cache of a prompt: bytes of all devices of a rank, each device over its own link.
    pub fn transfer_seconds(&self, class: &RequestClass) -> f64 {
        let bytes = |stage: &crate::Worker| stage.cache_bytes(class.input);
        let largest = self.prefill.stages().iter().map(bytes).fold(0.0, f64::max);
        self.transfer.latency_s + largest / self.transfer.bandwidth
    }
}

/// Times and rates of pools under a load; `None` if weights or one sequence do not fit.
///
/// By Little's law the C requests of the load are in three places: with a decode time S = (output − 1) · TPOT,
/// `C · S / (TTFT + S)` of them are decoded, which gives the batch and with it TPOT. The time to the first token is
///
/// ```text
/// P + transfer + handoff_s + wait_steps · TPOT + wait_s + burst · C / rate of prompts
/// ```
///
/// or that of the queue before a pool that cannot keep up: `C / rate − S` before prompts, and what the largest batch leaves
/// waiting before decoding.
///
/// # Errors
/// If the class or the load has no tokens or requests (L024). `label` names the input that has them.
pub fn disaggregated(
    label: &str,
    pools: &Pools,
    class: &RequestClass,
    load: &Load,
) -> Result<Option<Prediction>> {
    class.check(label)?;
    load.check(label)?;
    let ranks = pools.decode.data() * pools.decodes as f64;
    let fitting = pools.decode.largest_batch(class.longest()) as f64;
    if fitting < 1.0 || pools.prefill.largest_batch(class.input) == 0 || pools.prefills == 0 || ranks < 1.0 {
        return Ok(None);
    }
    let engine = pools.prefill.stages()[0].engine();
    let rate = pools.prefill_rate(class);
    let alone = pools.prefill.prompt_seconds(class)
        + pools.transfer_seconds(class)
        + engine.wait_s
        + engine.handoff_s;
    let burst = if load.is_burst { engine.burst * load.concurrency / rate } else { 0.0 };
    let steps = (class.output as f64 - 1.0).max(1.0);
    let times = |batch: f64| {
        let tpot = pools.token_seconds(class, batch);
        let decoding = steps * tpot;
        let queue = load.concurrency / rate - decoding;
        let room = (load.concurrency / (fitting * ranks) - 1.0) * decoding;
        let ttft = (alone + engine.wait_steps * tpot + burst).max(queue).max(room);
        (ttft, tpot, load.concurrency * decoding / (ttft + decoding) / ranks)
    };
    // Batches below that of the load fill up, those above it empty.
    let (mut low, mut high) = (1.0, fitting);
    for _ in 0..BISECTIONS {
        let middle = f64::midpoint(low, high);
        if times(middle).2 > middle { low = middle } else { high = middle }
    }
    let batch = f64::midpoint(low, high);
    let (ttft, tpot, _) = times(batch);
    let times = Prediction::from_times(class, load, ttft, tpot);
    let waiting = (load.concurrency - fitting * ranks).max(0.0);
    Ok(Some(Prediction { batch, waiting, ..times }))
}
