//! Seconds and memory of training iterations, from the logs and traces of the programs that ran them.
//!
//! A log says seconds of an iteration, or a rate; some say more, but seldom every part by itself: a timer around the
//! forward pass, for example, includes tensor-parallel collectives. So seconds belong to *groups* of parts, and no log
//! divides a group further than its timers do.
//!
//! | kind | module | says |
//! | --- | --- | --- |
//! | Megatron-LM, NeMo, Megatron-DeepSpeed | `megatron` | seconds, timers, memory |
//! | torchtitan | `torchtitan` | tokens per second and device, memory |
//! | DeepSpeed | `deepspeed` | samples per second, timers, memory |
//! | trace of PyTorch's profiler | `profiler` | seconds, kernels and collectives of a device, memory |
//!
//! Lines of other programs and lines that cannot be read are skipped.

mod deepspeed;
mod lines;
mod megatron;
mod profiler;
mod torchtitan;

use serde::Serialize;
use stagewright_core::document::TransferKind;
use stagewright_formats::{At, InputError, Result};

use crate::code::Q112;
use crate::import::median;

/// A program that writes logs of training, by its name in documents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Megatron-LM and its derivatives.
    Megatron,
    /// torchtitan.
    Torchtitan,
    /// DeepSpeed.
    Deepspeed,
    /// PyTorch's profiler.
    Profiler,
}

impl Kind {
    const ALL: [Kind; 4] = [Kind::Profiler, Kind::Megatron, Kind::Torchtitan, Kind::Deepspeed];

    /// Description for display.
    pub fn description(self) -> &'static str {
        match self {
            Kind::Megatron => "log of Megatron-LM",
            Kind::Torchtitan => "log of torchtitan",
            Kind::Deepspeed => "log of DeepSpeed",
            Kind::Profiler => "trace of PyTorch's profiler",
        }
    }

    /// Lines or events of iterations in the log.
    fn wanted(self) -> &'static str {
        match self {
            Kind::Megatron => {
                "`elapsed time per iteration (ms): …` of Megatron-LM, or `train_step_timing in s: …` of NeMo"
            }
            Kind::Torchtitan => "`step: … loss: … tps: …` of torchtitan",
            Kind::Deepspeed => {
                "`time (ms) | fwd: … | bwd: … | step: …`, `CurrSamplesPerSec=…` or `iter time (s): …` of DeepSpeed"
            }
            Kind::Profiler => {
                "events `ProfilerStep#…` in a trace of PyTorch's profiler, which calls of `step()` write"
            }
        }
    }

    fn detects(self, text: &str) -> bool {
        match self {
            Kind::Megatron => megatron::detect(text),
            Kind::Torchtitan => torchtitan::detect(text),
            Kind::Deepspeed => deepspeed::detect(text),
            Kind::Profiler => profiler::detect(text),
        }
    }
}

/// A part of the seconds of an iteration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Part {
    /// Operators of both passes, and what the backward pass repeats.
    Compute,
    /// Collectives of tensor-parallel groups.
    Tensor,
    /// Exchanges with experts and of tokens.
    Exchanges,
    /// Collectives over copies in the passes.
    CopiesInPasses,
    /// Waiting for the host.
    Host,
    /// Transfers between stages.
    Transfers,
    /// Waiting for other stages.
    Bubble,
    /// Collectives over copies after the passes.
    Copies,
    /// Updates of the parameters.
    Update,
    /// Everything outside the passes, collectives and updates.
    Outside,
}

impl Part {
    /// All parts, in the order of tables.
    pub const ALL: [Part; 10] = [
        Part::Compute,
        Part::Tensor,
        Part::Exchanges,
        Part::CopiesInPasses,
        Part::Host,
        Part::Transfers,
        Part::Bubble,
        Part::Copies,
        Part::Update,
        Part::Outside,
    ];

    /// Name for display.
    pub fn name(self) -> &'static str {
        match self {
            Part::Compute => "compute",
            Part::Tensor => "tensor parallelism",
            Part::Exchanges => "exchanges",
            Part::CopiesInPasses => "copies, in the passes",
            Part::Host => "waiting for the host",
            Part::Transfers => "transfers",
            Part::Bubble => "bubble",
            Part::Copies => "copies, after the passes",
            Part::Update => "update",
            Part::Outside => "outside the passes",
        }
    }
}

/// Parts of a pass on one device, which a timer around the pass counts together.
const PASS: [Part; 5] = [Part::Compute, Part::Tensor, Part::Exchanges, Part::CopiesInPasses, Part::Host];

/// How fast iterations are.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Pace {
    /// Seconds of an iteration.
    Iteration(f64),
    /// Seconds of a microbatch.
    Microbatch(f64),
    /// Samples per second on all devices.
    Samples(f64),
    /// Tokens per second and device.
    Tokens(f64),
}

/// Seconds of several parts together.
#[derive(Debug, Clone, PartialEq)]
pub struct Timed {
    /// The parts.
    pub parts: Vec<Part>,
    /// Sum of their seconds in an iteration.
    pub seconds: f64,
}

/// Seconds for which a device runs collectives of a kind and no compute.
#[derive(Debug, Clone, PartialEq)]
pub struct Exposed {
    /// The transfer; `None` for one of another kind.
    pub transfer: Option<TransferKind>,
    /// Name of the group of devices in the program, in lower case, if known.
    pub group: Option<String>,
    /// Number of devices in the group, if known.
    pub devices: Option<u32>,
    /// Seconds in an iteration.
    pub seconds: f64,
}

/// Figures of an iteration in a log: medians over its readings.
#[derive(Debug, Clone, PartialEq)]
pub struct Log {
    /// The program that wrote the log.
    pub kind: Kind,
    /// Readings in the medians: lines of a log, each the mean of the iterations or microbatches since the line before, or
    /// steps of a trace.
    pub readings: usize,
    /// First readings that are left out of them.
    pub warm_up: usize,
    /// How fast iterations are.
    pub pace: Pace,
    /// Seconds by part, as far as the log says them.
    pub timed: Vec<Timed>,
    /// Collectives, of which a plan says which part they are.
    pub exposed: Vec<Exposed>,
    /// Parts to which the rest of the seconds belongs, if there are any in `timed` or `exposed`.
    pub rest: Vec<Part>,
    /// Maximum of the bytes in use on a device.
    pub memory_bytes: Option<f64>,
}

/// Reads a log of any kind, which is recognised by its content.
///
/// ```
/// use stagewright_costs::training::{self, Kind, Pace};
/// let text = b" iteration 10/ 100 | elapsed time per iteration (ms): 812.5 | lm loss: 3.2E+00 |\n";
/// let log = training::read("train.log", text)?;
/// assert_eq!((log.kind, log.readings, log.pace), (Kind::Megatron, 1, Pace::Iteration(0.8125)));
/// # Ok::<(), stagewright_formats::InputError>(())
/// ```
///
/// # Errors
/// If there is no iteration in it (Q112), or a trace is not valid JSON (F002, F003, F005).
pub fn read(label: &str, bytes: &[u8]) -> Result<Log> {
    let text = String::from_utf8_lossy(bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes));
    let Some(kind) = Kind::ALL.into_iter().find(|kind| kind.detects(&text)) else {
        let wanted = Kind::ALL.map(Kind::wanted);
        let help = format!("give a log with lines such as {}", wanted.join("; "));
        return Err(InputError::new(
            Q112,
            label,
            At::Whole,
            "no iteration of a training run is in the file",
            help,
        ));
    };
    let log = match kind {
        Kind::Megatron => megatron::read(&text),
        Kind::Torchtitan => torchtitan::read(&text),
        Kind::Deepspeed => deepspeed::read(&text),
        Kind::Profiler => profiler::read(label, bytes)?,
    };
    log.ok_or_else(|| {
        let message = format!("the {} has no iteration with its time", kind.description());
        InputError::new(Q112, label, At::Whole, message, format!("looked for {}", kind.wanted()))
    })
}

/// Maximum number of first iterations that are left out as warm-up: kernels are compiled and caches filled.
const WARM_UP: usize = 2;

/// Number of first iterations that are left out of `count`: at most half of them.
fn warm_up(count: usize) -> usize {
    WARM_UP.min(count / 2)
}

/// Median of the figures of iterations without the first ones; `None` if there are none.
fn settled(figures: &[f64]) -> Option<f64> {
    (!figures.is_empty()).then(|| median(figures[warm_up(figures.len())..].to_vec()))
}
