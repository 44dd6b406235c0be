//! Requests, loads and predictions.

use stagewright_formats::code::L;
use stagewright_formats::{InputError, Result};

/// Maximum number of tokens of a request; more are taken for a typing error.
pub const MOST_TOKENS: u64 = 1 << 27;

/// A class of requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RequestClass {
    /// Tokens of the prompt.
    pub input: u64,
    /// Tokens that are generated.
    pub output: u64,
    /// Tokens at the beginning of the prompt that are cached already, as for a prompt that all requests share.
    pub shared_prefix: u64,
}

impl RequestClass {
    /// Requests without a shared prefix.
    pub fn new(input: u64, output: u64) -> RequestClass {
        RequestClass { input, output, shared_prefix: 0 }
    }

    /// Checks the lengths.
    ///
    /// # Errors
    /// If the input or output has no token, both have more than [`MOST_TOKENS`] together, or the shared prefix is not shorter
    /// than the input (L024). `label` names the input that has the class.
    pub fn check(&self, label: &str) -> Result<()> {
        let wrong = |path: &str, message: String, help: &str| {
            Err(InputError::at_path(L::L024, label, path, message, help))
        };
        if self.input == 0 || self.output == 0 {
            let path = if self.input == 0 { "input" } else { "output" };
            return wrong(path, format!("`{path}` is 0"), "give at least one token");
        }
        if self.longest() > MOST_TOKENS {
            let path = if self.input > self.output { "input" } else { "output" };
            let message = format!("{} tokens of a request, more than {MOST_TOKENS}", self.longest());
            return wrong(path, message, "correct the number");
        }
        if self.shared_prefix >= self.input {
            let message = format!("the shared prefix has {} of {} tokens", self.shared_prefix, self.input);
            return wrong("shared_prefix", message, "leave at least one token of the input to each request");
        }
        Ok(())
    }

    /// Tokens of the prompt that have to be computed.
    pub fn computed(&self) -> f64 {
        self.input.saturating_sub(self.shared_prefix) as f64
    }

    /// Tokens of a sequence at its end.
    pub fn longest(&self) -> u64 {
        self.input.saturating_add(self.output)
    }

    /// Mean tokens of a sequence while it is decoded.
    pub fn mean_context(&self) -> f64 {
        self.input as f64 + self.output as f64 / 2.0
    }
}

/// Requests that are in a system at once.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Load {
    /// Requests in the system; whenever one ends, the next begins.
    pub concurrency: f64,
    /// Whether the requests begin all at once, as in benchmarks, so that early prompts wait for each other.
    pub is_burst: bool,
}

impl Load {
    /// The load of a benchmark: `concurrency` requests from the first moment on.
    pub fn benchmark(concurrency: f64) -> Load {
        Load { concurrency, is_burst: true }
    }

    /// A load that has lasted long, so that requests begin one by one.
    pub fn steady(concurrency: f64) -> Load {
        Load { concurrency, is_burst: false }
    }

    /// Checks the concurrency.
    ///
    /// # Errors
    /// If it is no positive number (L024). `label` names the input that has the load.
    pub fn check(&self, label: &str) -> Result<()> {
        if self.concurrency.is_finite() && self.concurrency > 0.0 {
            return Ok(());
        }
        let message = format!("the concurrency is {}", self.concurrency);
        Err(InputError::at_path(L::L024, label, "concurrency", message, "give a positive number"))
    }
}

/// Times and rates of a replica, or of pools of them, under a load. Times are means in seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Prediction {
    /// Time to the first token.
    pub ttft: f64,
    /// Time between tokens.
    pub tpot: f64,
    /// Finished requests a second.
    pub requests_per_s: f64,
    /// Generated tokens a second.
    pub tokens_per_s: f64,
    /// Sequences of a rank that are decoded at once.
    pub batch: f64,
    /// Requests that wait because no memory is left for their caches.
    pub waiting: f64,
}

impl Prediction {
    /// The prediction that follows from times by Little's law: `concurrency / (TTFT + (output − 1) · TPOT)` requests a second.
    pub(crate) fn from_times(class: &RequestClass, load: &Load, ttft: f64, tpot: f64) -> Prediction {
        let requests_per_s = load.concurrency / (ttft + (class.output as f64 - 1.0) * tpot);
        let tokens_per_s = requests_per_s * class.output as f64;
        Prediction { ttft, tpot, requests_per_s, tokens_per_s, batch: 0.0, waiting: 0.0 }
    }

    /// The prediction with measured factors on its times; rates follow by Little's law.
    #[must_use]
    pub fn scaled(self, class: &RequestClass, load: &Load, ttft: f64, tpot: f64) -> Prediction {
        let scaled = Prediction::from_times(class, load, self.ttft * ttft, self.tpot * tpot);
        Prediction { batch: self.batch, waiting: self.waiting, ..scaled }
    }
}
