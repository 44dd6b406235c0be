//! Messages between the program and the processes that it starts, one line of JSON each.

use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::mpsc::Receiver;

use serde::{Deserialize, Serialize};
use stagewright_core::document::Communication;

/// The work of a process; the first line that it reads.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Task {
    /// The shared library of ONNX Runtime.
    pub library: PathBuf,
    /// The core to run on; `None` if the system has no affinities.
    pub core: Option<usize>,
    /// Optimisation level of ONNX Runtime for a model.
    pub optimization: Optimization,
    /// Work of the process.
    pub work: Work,
}

/// Work of a process.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Work {
    /// Run the segments of a device.
    Stage(StageTask),
    /// Measure a whole model, and its nodes.
    Profile(ProfileTask),
    /// Send tensors of several sizes to another process, or receive them.
    Ping(PingTask),
}

/// Graph optimisations of ONNX Runtime.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Optimization {
    /// No optimisation: every node is a kernel.
    None,
    /// Constants are folded and redundant nodes removed.
    #[default]
    Basic,
    /// Constants are folded, redundant nodes removed, and nodes fused.
    Extended,
}

/// The segments of a device, and its links.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct StageTask {
    /// Number of this process among those of the pipeline.
    pub index: usize,
    /// Secret that every connection starts with.
    pub token: String,
    /// The segments, in an order in which they can run.
    pub segments: Vec<Segment>,
    /// Number of processes that this process receives from.
    pub sources: usize,
    /// Processes that this process sends to.
    pub targets: Vec<usize>,
    /// Number of samples.
    pub samples: u32,
    /// Seed of the inputs of the model.
    pub seed: u64,
    /// How communication and computation of a device share its time.
    pub communication: Communication,
    /// Limit on the link, if it is throttled.
    pub throttle: Option<Throttle>,
    /// File for the outputs of the first sample.
    pub outputs: Option<PathBuf>,
}

/// A limit on a link.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Throttle {
    /// Bytes per second.
    pub bandwidth: f64,
    /// Seconds per tensor.
    pub latency_s: f64,
}

/// A part of a model that runs without interruption.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Segment {
    /// The sub-model.
    pub model: PathBuf,
    /// Inputs of the segment.
    pub inputs: Vec<SegmentInput>,
    /// Outputs of the segment.
    pub outputs: Vec<SegmentOutput>,
}

/// An input of a segment.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SegmentInput {
    /// Name in the model.
    pub name: String,
    /// Number of the value; `None` for an input of the model.
    pub value: Option<u32>,
    /// Element type, as in ONNX.
    pub elem: i32,
    /// Shape.
    pub dims: Vec<u64>,
}

/// An output of a segment.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SegmentOutput {
    /// Name in the model.
    pub name: String,
    /// Number of the value.
    pub value: u32,
    /// Processes that read the output.
    pub to: Vec<usize>,
    /// Number of segments of this process that read the output.
    pub readers: usize,
    /// Position of the value among the outputs of the model, if it is one.
    pub output: Option<u32>,
}

/// Measurement of a whole model.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ProfileTask {
    /// The model.
    pub model: PathBuf,
    /// Inputs of the model.
    pub inputs: Vec<SegmentInput>,
    /// Seed of the contents of the inputs.
    pub seed: u64,
    /// Number of timed runs of the whole model, and again of runs with a profile of its nodes.
    pub runs: u32,
    /// Prefix of the profile; without one only the whole model is timed.
    pub profile: Option<PathBuf>,
    /// File for the optimised model, from which kernels are traced to nodes.
    pub optimized: Option<PathBuf>,
    /// File for the outputs.
    pub outputs: Option<PathBuf>,
}

/// Measurement of a link.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct PingTask {
    /// Number of this process: 0 sends, 1 receives.
    pub index: usize,
    /// Secret that the connection starts with.
    pub token: String,
    /// Sizes in bytes, with the number of tensors to send.
    pub sizes: Vec<(u64, u32)>,
}

/// A line to a process, after its task.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Order {
    /// The ports on which the processes listen, by number.
    Ports(Vec<u16>),
    /// Samples below this number may start.
    Credit(u32),
    /// Start measuring.
    Go,
}

/// A line from a process.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Report {
    /// The process has loaded its models, and listens on a port if it has links.
    Ready {
        /// The port.
        port: Option<u16>,
    },
    /// All connections of the process are established.
    Connected,
    /// The process has finished a sample, and no other process reads its outputs.
    Done {
        /// The sample.
        sample: u32,
    },
    /// The process is still measuring.
    Measuring,
    /// The result of a stage.
    Stage(StageReport),
    /// The result of a profile.
    Profile(ProfileReport),
    /// The result of a ping: seconds per tensor, by size.
    Ping(Vec<(u64, f64)>),
    /// The process cannot continue.
    Failed {
        /// The cause.
        message: String,
    },
}

/// Activity of a stage.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct StageReport {
    /// Activities of the stage, in order of time.
    pub spans: Vec<Span>,
    /// Largest resident memory of the process in bytes, if known.
    pub peak_memory: Option<u64>,
}

/// An interval of activity. Times are nanoseconds of the monotonic clock, which all processes of a machine share.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Span {
    /// Kind of the span.
    pub kind: SpanKind,
    /// The sample.
    pub sample: u32,
    /// Number of the segment that ran, or of the value that was transferred.
    pub of: u32,
    /// Start.
    pub start_ns: u64,
    /// End.
    pub end_ns: u64,
}

/// Kind of a span.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SpanKind {
    /// A run of a segment.
    Run,
    /// Sending a tensor.
    Send,
    /// Receiving a tensor, from its first byte on. With serial communication, the wait for a throttled link is a span
    /// of its own: the device may compute between the arrival of the last byte and the wait.
    Receive,
}

/// Measured times of a model.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ProfileReport {
    /// Seconds of every timed run.
    pub seconds: Vec<f64>,
    /// The profile that ONNX Runtime wrote.
    pub profile: Option<PathBuf>,
}

/// Nanoseconds of the monotonic clock, which the processes of a machine share and which cannot be set.
#[cfg(unix)]
pub(crate) fn now() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Nanoseconds since the Unix epoch, on systems whose processes share no other clock.
#[cfg(not(unix))]
pub(crate) fn now() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| since.as_nanos() as u64)
}

/// Writes a report.
pub(crate) fn report(report: &Report) -> Result<(), String> {
    let mut line = serde_json::to_vec(report).map_err(|error| error.to_string())?;
    line.push(b'\n');
    let mut output = io::stdout().lock();
    output.write_all(&line).and_then(|()| output.flush()).map_err(|error| error.to_string())
}

/// The ports of all processes.
pub(crate) fn ports(orders: &Receiver<Order>) -> Result<Vec<u16>, String> {
    match orders.recv() {
        Ok(Order::Ports(ports)) => Ok(ports),
        _ => Err("no ports".into()),
    }
}
