//! Arrivals of the requests of a class.

use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use stagewright_formats::code::L;
use stagewright_formats::error::{At, Place};
use stagewright_formats::{InputError, Result};

use super::single::exponential;
use crate::request::RequestClass;

/// Maximum number of requests in the system at once, which bounds memory. Requests beyond it are refused.
pub const MOST_REQUESTS: u64 = 1 << 20;

/// How the requests of a class arrive.
#[derive(Debug, Clone, PartialEq)]
pub enum Arrivals {
    /// A Poisson process.
    Poisson {
        /// Requests a second.
        rate: f64,
    },
    /// A closed loop: a number of requests, each of which is followed by another when it ends. The first ones have between one
    /// and all of their tokens still to generate, uniformly, so that they end one by one as under a load that has lasted long.
    Closed {
        /// Requests in the system.
        concurrency: u64,
    },
    /// A benchmark: a number of requests that all begin at time 0, each of which is followed by another when it ends, until as many as
    /// there are to send were sent.
    Benchmark {
        /// Requests in the system.
        concurrency: u64,
        /// Requests to send.
        requests: u64,
    },
    /// Bursts of requests, the first at time 0.
    Bursts {
        /// Requests of a burst.
        size: u64,
        /// Seconds from a burst to the next.
        every_s: f64,
    },
    /// Requests at given times, each with its own tokens.
    Trace(Vec<TracedRequest>),
}

/// A request of a trace.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TracedRequest {
    /// Time of its arrival, in seconds.
    pub arrival_s: f64,
    /// Tokens of its prompt.
    pub input: u64,
    /// Tokens that are generated.
    pub output: u64,
}

impl Arrivals {
    /// Checks rates, numbers and traces. Requests of a trace have the shared prefix of the class, or less if they are shorter.
    ///
    /// # Errors
    /// If a rate or a number of requests is not positive or too large, or a trace is empty, out of order, or has a request that
    /// [`RequestClass::check`] refuses (L024). `label` names the input, and `path` the arrivals in it.
    pub fn check(&self, label: &str, path: &str, class: &RequestClass) -> Result<()> {
        let wrong = |field: &str, value: String, help: &str| {
            let message = format!("`{field}` is {value}");
            Err(InputError::at_path(L::L024, label, format!("{path}.{field}"), message, help))
        };
        let positive = |value: f64| value.is_finite() && value > 0.0;
        let number = |value: u64| (1..=MOST_REQUESTS).contains(&value);
        let help = "give at least one request, and at most 2^20";
        match self {
            Arrivals::Poisson { rate } if !positive(*rate) => {
                wrong("rate", rate.to_string(), "give a positive number of requests a second")
            }
            Arrivals::Benchmark { requests, .. } if *requests == 0 => {
                wrong("requests", requests.to_string(), help)
            }
            Arrivals::Closed { concurrency } | Arrivals::Benchmark { concurrency, .. }
                if !number(*concurrency) =>
            {
                wrong("concurrency", concurrency.to_string(), help)
            }
            Arrivals::Bursts { size, .. } if !number(*size) => wrong("size", size.to_string(), help),
            Arrivals::Bursts { every_s, .. } if !positive(*every_s) => {
                wrong("every_s", every_s.to_string(), "give a positive number of seconds")
            }
            Arrivals::Trace(requests) if requests.is_empty() => {
                wrong("trace", "empty".into(), "give at least one request")
            }
            Arrivals::Trace(requests) => {
                let mut last = 0.0;
                for (index, request) in requests.iter().enumerate() {
                    if !request.arrival_s.is_finite() || request.arrival_s < last {
                        let field = format!("trace[{index}].arrival_s");
                        return wrong(&field, request.arrival_s.to_string(), "sort the requests by time");
                    }
                    last = request.arrival_s;
                    request.class(class).check(label).map_err(|error| InputError {
                        place: Place {
                            at: At::Path(format!("{path}.trace[{index}].{}", error.place.at)),
                            ..error.place
                        },
                        ..error
                    })?;
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

impl TracedRequest {
    fn class(&self, class: &RequestClass) -> RequestClass {
        let shared_prefix = class.shared_prefix.min(self.input.saturating_sub(1));
        RequestClass { input: self.input, output: self.output, shared_prefix }
    }
}

/// Arrivals in their order: times in seconds, and tokens.
#[derive(Debug)]
pub(super) struct Source<'a> {
    arrivals: &'a Arrivals,
    class: RequestClass,
    rng: ChaCha8Rng,
    time: f64,
    count: u64,
}

impl<'a> Source<'a> {
    /// The arrivals of a class, with a stream of random numbers.
    pub(super) fn new(arrivals: &'a Arrivals, class: RequestClass, rng: ChaCha8Rng) -> Source<'a> {
        Source { arrivals, class, rng, time: 0.0, count: 0 }
    }
}

impl Iterator for Source<'_> {
    type Item = (f64, RequestClass);

    fn next(&mut self) -> Option<(f64, RequestClass)> {
        let number = self.count;
        self.count += 1;
        match self.arrivals {
            Arrivals::Poisson { rate } => {
                self.time += exponential(&mut self.rng, 1.0 / rate);
                Some((self.time, self.class))
            }
            Arrivals::Closed { concurrency } => {
                let output = self.rng.random_range(1..=self.class.output.max(1));
                (number < *concurrency).then_some((0.0, RequestClass { output, ..self.class }))
            }
            Arrivals::Benchmark { concurrency, requests } => {
                (number < *concurrency.min(requests)).then_some((0.0, self.class))
            }
            Arrivals::Bursts { size, every_s } => Some(((number / size) as f64 * every_s, self.class)),
            Arrivals::Trace(requests) => {
                let request = requests.get(usize::try_from(number).ok()?)?;
                Some((request.arrival_s, request.class(&self.class)))
            }
        }
    }
}
