//! Results of benchmarks of running engines: `vllm bench serve --save-result`, `python -m sglang.bench_serving --output-file`, and
//! `aiperf profile`.
//!
//! The first two write an object with times in milliseconds, or a line with one for each run; the third an object with a distribution for
//! each figure (`profile_export_aiperf.json`). All state the load that they sent.

use serde::Deserialize;
use stagewright_formats::code::L;
use stagewright_formats::{InputError, Result};

use crate::simulator::MOST_REQUESTS;

/// The longest time, in seconds: ten days.
const LONGEST: f64 = 864_000.0;

/// Runs of a file that are read.
const RUNS: usize = 100;

/// Requests of a benchmark.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Offered {
    /// Requests that are in the system at once, until all are sent.
    Closed(u64),
    /// Requests a second that arrive at random.
    Rate(f64),
}

/// A run of a benchmark. Times are in seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Benchmark {
    /// Requests that were finished.
    pub requests: u64,
    /// Mean tokens of a prompt.
    pub input: u64,
    /// Mean tokens that were generated.
    pub output: u64,
    /// The load.
    pub offered: Offered,
    /// Mean time to the first token.
    pub ttft: f64,
    /// Mean time between tokens.
    pub tpot: f64,
}

/// Reads the runs of a file. `label` names it in errors.
///
/// # Errors
/// If the file is no result of these programs, has no run, or a run without finished requests or with a number out of its range (L026).
pub fn read(label: &str, bytes: &[u8]) -> Result<Vec<Benchmark>> {
    let wrong = |line: usize, message: String| {
        let place = if line == 0 { String::new() } else { format!("line {line}") };
        InputError::at_path(L::L026, label, &place, message, HELP)
    };
    // Python writes an infinite rate as a word that is no JSON.
    let text = String::from_utf8_lossy(bytes).replace(": Infinity", ": \"inf\"").replace(": NaN", ": null");
    let runs: Vec<(usize, Run)> = match Run::parse(&text) {
        Ok(run) => vec![(0, run)],
        Err(whole) => {
            let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
            let runs = lines.map(|(index, line)| {
                let run = Run::parse(line).map_err(|error| wrong(index + 1, error.to_string()))?;
                Ok((index + 1, run))
            });
            let runs: Result<Vec<(usize, Run)>> = runs.collect();
            match runs {
                Ok(runs) if !runs.is_empty() => runs,
                // Of an object on several lines the first line says nothing.
                _ => return Err(wrong(0, whole.to_string())),
            }
        }
    };
    if runs.len() > RUNS {
        return Err(wrong(0, format!("{} runs, more than {RUNS}", runs.len())));
    }
    runs.into_iter().map(|(line, run)| run.read().map_err(|message| wrong(line, message))).collect()
}

const HELP: &str = "give a result of `vllm bench serve --save-result`, `sglang.bench_serving --output-file` or `aiperf profile`";

enum Run {
    Aiperf(Box<Aiperf>),
    Plain(Box<Plain>),
}

impl Run {
    /// The object of a run: that of aiperf has a distribution for each figure.
    fn parse(text: &str) -> serde_json::Result<Run> {
        let object: serde_json::Value = serde_json::from_str(text)?;
        Ok(match object.get("time_to_first_token") {
            Some(_) => Run::Aiperf(serde_json::from_value(object)?),
            None => Run::Plain(serde_json::from_value(object)?),
        })
    }
}

/// Fields of vLLM and SGLang.
#[derive(Deserialize)]
struct Plain {
    completed: f64,
    total_input_tokens: f64,
    total_output_tokens: f64,
    #[serde(default)]
    num_prompts: Option<f64>,
    #[serde(default)]
    request_rate: Option<Rate>,
    #[serde(default)]
    max_concurrency: Option<f64>,
    mean_ttft_ms: f64,
    mean_tpot_ms: f64,
}

/// A number, or `inf`.
#[derive(Deserialize)]
#[serde(untagged)]
enum Rate {
    Number(f64),
    Word(String),
}

/// Fields of aiperf.
#[derive(Deserialize)]
struct Aiperf {
    time_to_first_token: Figure,
    inter_token_latency: Figure,
    input_sequence_length: Figure,
    output_sequence_length: Figure,
    request_count: Figure,
    #[serde(default)]
    input_config: Option<Configuration>,
}

#[derive(Deserialize)]
struct Figure {
    unit: String,
    avg: f64,
}

#[derive(Deserialize)]
struct Configuration {
    #[serde(default)]
    loadgen: Option<LoadGenerator>,
}

#[derive(Deserialize)]
struct LoadGenerator {
    #[serde(default)]
    concurrency: Option<f64>,
    #[serde(default)]
    request_rate: Option<f64>,
}

impl Figure {
    fn seconds(&self) -> std::result::Result<f64, String> {
        let unit = match self.unit.as_str() {
            "ms" => 1e-3,
            "s" | "sec" | "seconds" => 1.0,
            "us" => 1e-6,
            "ns" => 1e-9,
            other => return Err(format!("a time in `{other}`")),
        };
        Ok(unit * self.avg)
    }
}

impl Run {
    fn read(self) -> std::result::Result<Benchmark, String> {
        let benchmark = match self {
            Run::Plain(plain) => {
                let requests = plain.completed.max(1.0);
                let rate = match plain.request_rate {
                    Some(Rate::Number(rate)) if rate.is_finite() => Some(rate),
                    Some(Rate::Word(word)) if word != "inf" => {
                        return Err(format!("requests arrive by `{word}`, not at a rate"));
                    }
                    _ => None,
                };
                Benchmark {
                    requests: plain.completed as u64,
                    input: (plain.total_input_tokens / requests).round() as u64,
                    output: (plain.total_output_tokens / requests).round() as u64,
                    offered: offered(
                        rate,
                        plain.max_concurrency,
                        plain.num_prompts.unwrap_or(plain.completed),
                    )?,
                    ttft: 1e-3 * plain.mean_ttft_ms,
                    tpot: 1e-3 * plain.mean_tpot_ms,
                }
            }
            Run::Aiperf(aiperf) => {
                let requests = aiperf.request_count.avg;
                let load = aiperf.input_config.and_then(|input| input.loadgen);
                let (rate, most) = load.map_or((None, None), |load| (load.request_rate, load.concurrency));
                Benchmark {
                    requests: requests as u64,
                    input: aiperf.input_sequence_length.avg.round() as u64,
                    output: aiperf.output_sequence_length.avg.round() as u64,
                    offered: offered(rate, most, requests)?,
                    ttft: aiperf.time_to_first_token.seconds()?,
                    tpot: aiperf.inter_token_latency.seconds()?,
                }
            }
        };
        benchmark.check()?;
        Ok(benchmark)
    }
}

/// The load of a rate or of requests at once; without both all are sent at first.
fn offered(
    rate: Option<f64>,
    concurrency: Option<f64>,
    requests: f64,
) -> std::result::Result<Offered, String> {
    match (rate, concurrency) {
        (Some(_), Some(most)) if most < requests => {
            Err(format!("requests arrive at a rate, and at most {most} at once: measure one of both"))
        }
        (Some(rate), _) => Ok(Offered::Rate(rate)),
        (None, concurrency) => Ok(Offered::Closed(concurrency.unwrap_or(requests).min(requests) as u64)),
    }
}

impl Benchmark {
    fn check(&self) -> std::result::Result<(), String> {
        if self.requests == 0 {
            return Err("no request was finished".into());
        }
        if self.output < 2 {
            return Err("requests of one token have no time between tokens".into());
        }
        let positive = [("time to the first token", self.ttft), ("time between tokens", self.tpot)];
        for (name, value) in positive {
            if !(value > 0.0 && value <= LONGEST) {
                return Err(format!("the {name} is {value}"));
            }
        }
        match self.offered {
            Offered::Rate(rate) if !(rate.is_finite() && rate > 0.0) => Err(format!("the rate is {rate}")),
            Offered::Closed(0) => Err("the concurrency is 0".into()),
            Offered::Closed(requests) if requests > MOST_REQUESTS => {
                Err(format!("the concurrency is {requests}, more than {MOST_REQUESTS}"))
            }
            _ => Ok(()),
        }
    }
}
