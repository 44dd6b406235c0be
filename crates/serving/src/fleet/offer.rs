//! Offers: the requests a second that a replica serves within limits (`docs/serving.md`, section "Replicas").

use stagewright_core::document::{LinkDocument, ServingFactorDocument, ServingStatistic};
use stagewright_formats::Result;

use crate::aggregated::{aggregated, slow_times};
use crate::replica::Replica;
use crate::request::{Load, RequestClass};
use crate::tail;
use crate::worker::Worker;

/// The largest share of time in which a prefill replica reads prompts: beyond, queues of random arrivals grow without need.
pub const BUSIEST: f64 = 0.95;

/// Shares of time that prefill replicas may have where requests in flight are limited: an idler replica has a shorter queue.
pub const UTILISATIONS: [f64; 5] = [BUSIEST, 0.8, 0.6, 0.4, 0.2];

/// Seconds of a step that are more than any.
const LONGEST: f64 = 1e6;

/// Tokens of caches that count; only replicas whose sequences keep nothing have more.
const MOST_CACHE_TOKENS: u64 = 1 << 50;

/// Conditions under which a class of requests is served.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Terms {
    /// The class.
    pub class: RequestClass,
    /// Limit on the time to the first token, in seconds; infinite without one.
    pub ttft: f64,
    /// Limit on the time between tokens, in seconds; infinite without one.
    pub tpot: f64,
    /// Figure of the times that limits are on.
    pub statistic: ServingStatistic,
    /// Link over which caches go from one replica to another.
    pub transfer: LinkDocument,
    /// Measured factors on times.
    pub factor: ServingFactorDocument,
}

/// The service of a replica within limits.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Offer {
    /// Requests a second.
    pub rate: f64,
    /// Requests in flight at that rate, rounded up for prefill replicas.
    pub in_flight: f64,
    /// Time to the first token, in seconds, the mean or what the limits are on; `None` for decode replicas.
    pub ttft: Option<f64>,
    /// Time between tokens, in seconds, the mean or what the limits are on; `None` for prefill replicas.
    pub tpot: Option<f64>,
    /// Share of time in which prompts are read; `None` for other replicas.
    pub utilisation: Option<f64>,
}

impl Terms {
    /// The offer of a replica that reads prompts and decodes, with `batch` sequences of a rank; `None` if they do not fit or a limit
    /// is not met.
    ///
    /// # Errors
    /// If the class has no tokens (L024).
    pub fn aggregated(&self, replica: &Replica, batch: u64) -> Result<Option<Offer>> {
        if batch == 0 || replica.largest_batch(self.class.longest()) < batch {
            return Ok(None);
        }
        let load = Load::steady(batch as f64 * replica.data());
        let Some(prediction) = aggregated("replica", replica, &self.class, &load)? else { return Ok(None) };
        let times = prediction.scaled(&self.class, &load, self.factor.ttft, self.factor.tpot);
        let (ttft, tpot) = match self.statistic {
            ServingStatistic::Mean => (times.ttft, times.tpot),
            ServingStatistic::P95 => {
                let (ttft, tpot) = slow_times(replica, &self.class, &prediction);
                (self.factor.ttft * ttft, self.factor.tpot * tpot)
            }
        };
        let is_met = ttft <= self.ttft && tpot <= self.tpot;
        Ok(is_met.then_some(Offer {
            rate: times.requests_per_s,
            in_flight: load.concurrency,
            ttft: Some(ttft),
            tpot: Some(tpot),
            utilisation: None,
        }))
    }

    /// The offer of a replica that decodes, with `batch` sequences of a rank; `None` if they do not fit or the limit on the time
    /// between tokens is not met.
    pub fn decode(&self, replica: &Replica, batch: u64) -> Option<Offer> {
        if batch == 0 || replica.largest_batch(self.class.longest()) < batch {
            return None;
        }
        let share = replica.stages()[0].engine().decode_share;
        let tpot = self.factor.tpot * share * replica.token_seconds(batch as f64, self.class.mean_context());
        let in_flight = batch as f64 * replica.data();
        let steps = (self.class.output as f64 - 1.0).max(1.0);
        let rate = (in_flight / (steps * tpot)).min(self.transfers_per_s(replica));
        (tpot <= self.tpot).then_some(Offer {
            rate,
            in_flight,
            ttft: None,
            tpot: Some(tpot),
            utilisation: None,
        })
    }

    /// The offer of a replica that reads prompts in at most the share `busiest` of its time, beside decode replicas of at most
    /// `slowest` seconds between tokens; `None` if a prompt does not fit, or its time to the first token exceeds the limit even
    /// without a queue.
    ///
    /// Prompts wait as in a queue with random arrivals and equal times of service (M/D/1): ρ · T / (2 · (1 − ρ)) in the mean, and
    /// `tail::wait` · T for the 95th percentile.
    pub fn prefill(&self, replica: &Replica, slowest: f64, busiest: f64) -> Option<Offer> {
        if replica.largest_batch(self.class.input) == 0 {
            return None;
        }
        let engine = replica.stages()[0].engine();
        let alone = replica.prompt_seconds(&self.class)
            + self.transfer_seconds(replica)
            + engine.wait_s
            + engine.handoff_s;
        // Without a limit on either time there is no decode replica to count on.
        let decoded = engine.wait_steps * slowest.min(self.tpot).min(LONGEST);
        let prompts = (engine.chunk as f64 / self.class.computed()).floor().max(1.0);
        let service = replica.prompt_interval(&self.class, prompts) / (prompts * replica.data());
        let slack = self.ttft / self.factor.ttft - alone - decoded;
        if slack < 0.0 || slack.is_nan() {
            return None;
        }
        let allowed = match self.statistic {
            _ if slack.is_infinite() => 1.0,
            ServingStatistic::Mean => 2.0 * slack / (service + 2.0 * slack),
            ServingStatistic::P95 => tail::busiest(slack / service),
        };
        let seconds = service * self.factor.ttft;
        let utilisation = allowed.min(busiest.min(BUSIEST)).min(seconds * self.transfers_per_s(replica));
        let mean_wait = utilisation * service / (2.0 * (1.0 - utilisation));
        let own = self.factor.ttft * (alone + mean_wait);
        let slow = match self.statistic {
            ServingStatistic::Mean => own,
            ServingStatistic::P95 => self.factor.ttft * (alone + service * tail::wait(utilisation)),
        };
        let rate = utilisation / seconds;
        (rate > 0.0).then_some(Offer {
            rate,
            // In the steps before the first token, a request has its place in the batch that decodes.
            in_flight: (rate * own).ceil(),
            ttft: Some(slow + self.factor.ttft * decoded),
            tpot: None,
            utilisation: Some(utilisation),
        })
    }

    /// Tokens in the caches of a replica, for all the sequences that fit.
    pub fn cache_tokens(&self, replica: &Replica) -> u64 {
        let longest = self.class.longest();
        let sequences = replica.largest_batch(longest).saturating_mul(replica.data() as u64);
        sequences.saturating_mul(longest).min(MOST_CACHE_TOKENS)
    }

    /// Seconds to send or receive the cache of a prompt, each device over its own link.
    fn transfer_seconds(&self, replica: &Replica) -> f64 {
        let bytes = |stage: &Worker| stage.cache_bytes(self.class.input);
        let largest = replica.stages().iter().map(bytes).fold(0.0, f64::max);
        self.transfer.latency_s + largest / self.transfer.bandwidth
    }

    /// Caches a second that the links of a replica send or receive.
    fn transfers_per_s(&self, replica: &Replica) -> f64 {
        replica.data() / self.transfer_seconds(replica)
    }
}
