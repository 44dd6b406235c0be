//! A pipeline of processes: from a cut model to measured times.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use stagewright_core::document::Communication;
use stagewright_formats::onnx::Whole;

use crate::children::Children;
use crate::cut::{Cut, Transfer, cut, write_whole};
use crate::error::{Result, RunError};
use crate::link;
use crate::protocol::{
    Optimization, Order, ProfileTask, Report, SpanKind, StageReport, StageTask, Task, Throttle, Work,
};

/// Samples in the pipeline beyond one per device, so that no device waits for the next sample to start.
const SURPLUS: u32 = 1;

/// How processes are started and watched.
#[derive(Clone)]
pub struct Host {
    /// The executable, which runs [`worker::run`](crate::worker::run) with the arguments of the host.
    pub program: PathBuf,
    /// Arguments of the executable.
    pub arguments: Vec<String>,
    /// The shared library of ONNX Runtime.
    pub library: PathBuf,
    /// Graph optimisations.
    pub optimization: Optimization,
    /// The cores to run on, one process each; without cores the system decides.
    pub cores: Vec<usize>,
    /// Longest time without any progress.
    pub patience: Duration,
    /// Returns whether the run should stop.
    pub stop: Arc<dyn Fn() -> bool + Send + Sync>,
}

impl Host {
    fn task(&self, index: usize, work: Work) -> Task {
        Task {
            library: self.library.clone(),
            core: (!self.cores.is_empty()).then(|| self.cores[index % self.cores.len()]),
            optimization: self.optimization,
            work,
        }
    }

    pub(crate) fn start(&self, work: Vec<(String, Work)>) -> Result<Children> {
        let arguments: Vec<&str> = self.arguments.iter().map(String::as_str).collect();
        let tasks: Vec<(String, Task)> = work
            .into_iter()
            .enumerate()
            .map(|(index, (name, work))| (name, self.task(index, work)))
            .collect();
        Children::start(&self.program, &arguments, &tasks, self.patience, Arc::clone(&self.stop))
    }
}

/// The work to run.
#[derive(Debug, Clone)]
pub struct Run {
    /// Names of the devices, in the order of their numbers.
    pub devices: Vec<String>,
    /// Number of the device of every operator.
    pub placement: BTreeMap<String, usize>,
    /// Number of samples whose time counts.
    pub samples: u32,
    /// Seed of the inputs.
    pub seed: u64,
    /// How communication and computation of a device share its time.
    pub communication: Communication,
    /// Limits on the links of the devices, if any.
    pub throttle: Vec<Option<Throttle>>,
    /// Whether a sample starts only when the previous one is finished, instead of filling the pipeline.
    pub one_by_one: bool,
    /// Whether to compare the outputs with those of the whole model.
    pub compare: bool,
}

/// Measurements of a run.
#[derive(Debug, Clone)]
pub struct Measured {
    /// Seconds from one sample to the next, once the pipeline is full.
    pub seconds_per_sample: f64,
    /// Mean seconds of a sample from its first segment to its last.
    pub latency_s: f64,
    /// The devices in use.
    pub stages: Vec<MeasuredStage>,
    /// Tensors that crossed devices.
    pub transfers: Vec<Transfer>,
    /// Largest difference from the outputs of the whole model, relative to the largest number of each output; `None` if
    /// the outputs were not compared.
    pub difference: Option<f64>,
    /// Number of warm-up samples.
    pub warm_up: u32,
}

/// Activity of a device.
#[derive(Debug, Clone)]
pub struct MeasuredStage {
    /// Number of the device.
    pub device: usize,
    /// Number of the device's segments.
    pub segments: usize,
    /// Mean seconds of computation per sample.
    pub compute_s: f64,
    /// Mean seconds per sample that the device spent sending or receiving, including waits for a throttled link.
    pub communication_s: f64,
    /// Share of the time that the device spent computing.
    pub busy: f64,
    /// All activity of the device.
    pub report: StageReport,
}

/// Runs a plan as a pipeline of processes. The weights of the model have been [gathered](crate::weights::gather) in the
/// folder.
///
/// # Errors
/// If the model cannot be cut, a process fails, dies or hangs, or the outputs are not those of the whole model.
pub fn run(host: &Host, whole: &Whole, run: &Run, folder: &Path) -> Result<Measured> {
    let cut = cut(whole, &run.placement, run.devices.len(), folder)?;
    let used: Vec<usize> = (0..cut.devices.len()).filter(|&device| !cut.devices[device].is_empty()).collect();
    let window = if run.one_by_one { 1 } else { used.len() as u32 + SURPLUS };
    let warm_up = used.len() as u32 + 1;
    let samples = run.samples.max(2) + warm_up;
    let token = token();
    let work = used.iter().map(|&device| {
        let task = stage_task(&cut, &used, device, run, samples, &token, folder);
        (run.devices[device].clone(), Work::Stage(task))
    });
    for file in used.iter().map(|&device| outputs_of(folder, device)).chain([folder.join(EXPECTED)]) {
        // A file of an earlier run, which usually does not exist.
        let _ = std::fs::remove_file(file);
    }
    let mut children = host.start(work.collect())?;
    let reports = drive(&mut children, samples, window)?;
    children.finish();
    let difference = match run.compare {
        true => Some(compare(host, whole, run, &cut, folder)?),
        false => None,
    };
    Ok(summary(&cut, &used, reports, warm_up, samples, difference))
}

fn stage_task(
    cut: &Cut,
    used: &[usize],
    device: usize,
    run: &Run,
    samples: u32,
    token: &str,
    folder: &Path,
) -> StageTask {
    let place = |device: usize| used.iter().position(|&other| other == device).unwrap_or(0);
    let mut segments = cut.devices[device].clone();
    for output in segments.iter_mut().flat_map(|segment| &mut segment.outputs) {
        output.to = output.to.iter().map(|&to| place(to)).collect();
    }
    let mut targets: Vec<usize> =
        segments.iter().flat_map(|segment| &segment.outputs).flat_map(|output| output.to.clone()).collect();
    targets.sort_unstable();
    targets.dedup();
    let mut sources: Vec<usize> = cut
        .transfers
        .iter()
        .filter(|transfer| transfer.to.contains(&device))
        .map(|transfer| transfer.from)
        .collect();
    sources.sort_unstable();
    sources.dedup();
    StageTask {
        index: place(device),
        token: token.to_owned(),
        segments,
        sources: sources.len(),
        targets,
        samples,
        seed: run.seed,
        communication: run.communication,
        throttle: run.throttle.get(device).copied().flatten(),
        outputs: run.compare.then(|| outputs_of(folder, device)),
    }
}

/// The file of the outputs of the whole model.
const EXPECTED: &str = "expected.bin";

/// The file of the outputs that a device makes.
fn outputs_of(folder: &Path, device: usize) -> PathBuf {
    folder.join(format!("outputs-{device}.bin"))
}

/// A secret of this run, so that no other program can impersonate one of its processes.
pub(crate) fn token() -> String {
    // The keys of this hasher are random numbers from the system.
    let random = || RandomState::new().build_hasher().finish();
    format!("{:016x}{:016x}", random(), random())
}

/// Connects processes that have reported their ports.
pub(crate) fn connect(children: &mut Children) -> Result<()> {
    let mut ports = vec![None; children.len()];
    while let Some(missing) = ports.iter().position(Option::is_none) {
        match children.next(&|index| index >= missing)? {
            (index, Report::Ready { port }) => ports[index] = Some(port.unwrap_or(0)),
            (index, _) => return Err(out_of_turn(children, index)),
        }
    }
    let ports: Vec<u16> = ports.into_iter().flatten().collect();
    (0..children.len()).try_for_each(|index| children.order(index, &Order::Ports(ports.clone())))
}

pub(crate) fn out_of_turn(children: &Children, index: usize) -> RunError {
    RunError::Failed { device: children.name(index).to_owned(), message: "it reported out of turn".into() }
}

/// Runs the samples, and returns the final reports of the processes.
fn drive(children: &mut Children, samples: u32, window: u32) -> Result<Vec<StageReport>> {
    connect(children)?;
    let mut reports: Vec<Option<StageReport>> = vec![None; children.len()];
    let mut connected = 0;
    let mut finished = vec![0_u32; children.len()];
    let mut credit = 0;
    while reports.iter().any(Option::is_none) {
        let pending: Vec<bool> = reports.iter().map(Option::is_none).collect();
        match children.next(&|index| pending[index])? {
            (_, Report::Connected) => connected += 1,
            (index, Report::Done { sample }) => finished[index] = sample + 1,
            (index, Report::Stage(report)) => reports[index] = Some(report),
            (index, _) => return Err(out_of_turn(children, index)),
        }
        let done = finished.iter().copied().min().unwrap_or(0);
        let next = (done + window).min(samples);
        if connected == children.len() && next > credit {
            credit = next;
            for (index, &finished) in finished.iter().enumerate() {
                // A process that has finished all samples needs no credit.
                if finished < samples {
                    children.order(index, &Order::Credit(credit))?;
                }
            }
        }
    }
    Ok(reports.into_iter().flatten().collect())
}

/// Means over the samples after the warm-up. O(samples + spans).
fn summary(
    cut: &Cut,
    used: &[usize],
    reports: Vec<StageReport>,
    warm_up: u32,
    samples: u32,
    difference: Option<f64>,
) -> Measured {
    // Nanoseconds at which each sample starts and at which its last segment ends.
    let mut times = vec![(u64::MAX, 0); samples as usize];
    for span in reports.iter().flat_map(|report| &report.spans) {
        let Some((start, end)) = times.get_mut(span.sample as usize) else { continue };
        *start = span.start_ns.min(*start);
        if span.kind == SpanKind::Run {
            *end = span.end_ns.max(*end);
        }
    }
    let (before, timed) = times.split_at(warm_up as usize);
    let end = |times: &[(u64, u64)]| times.last().map_or(0, |&(_, end)| end);
    let counted = f64::from(samples - warm_up);
    let seconds = end(timed).saturating_sub(end(before)) as f64 * 1e-9;
    let latency: f64 = timed.iter().map(|&(start, end)| end.saturating_sub(start) as f64 * 1e-9).sum();
    let stages = used.iter().zip(reports).map(|(&device, report)| {
        let total = |is: &dyn Fn(SpanKind) -> bool| {
            let counted = report.spans.iter().filter(|span| span.sample >= warm_up && is(span.kind));
            counted.map(|span| span.end_ns.saturating_sub(span.start_ns) as f64 * 1e-9).sum::<f64>()
        };
        let compute = total(&|kind| kind == SpanKind::Run);
        MeasuredStage {
            device,
            segments: cut.devices[device].len(),
            compute_s: compute / counted,
            communication_s: total(&|kind| kind != SpanKind::Run) / counted,
            busy: if seconds > 0.0 { compute / seconds } else { 0.0 },
            report,
        }
    });
    Measured {
        seconds_per_sample: seconds / counted,
        latency_s: latency / counted,
        stages: stages.collect(),
        transfers: cut.transfers.clone(),
        difference,
        warm_up,
    }
}

/// Runs the whole model once and compares its outputs with those of the pipeline.
fn compare(host: &Host, whole: &Whole, run: &Run, cut: &Cut, folder: &Path) -> Result<f64> {
    let (model, expected) = (folder.join("whole.onnx"), folder.join(EXPECTED));
    let inputs = write_whole(whole, &model)?;
    let task = ProfileTask {
        model,
        inputs,
        seed: run.seed,
        runs: 1,
        profile: None,
        optimized: None,
        outputs: Some(expected.clone()),
    };
    let mut children = host.start(vec![("the whole model".into(), Work::Profile(task))])?;
    loop {
        match children.next(&|_| true)? {
            (index, Report::Ready { .. }) => children.order(index, &Order::Go)?,
            (_, Report::Profile(_)) => break,
            (index, _) => return Err(out_of_turn(&children, index)),
        }
    }
    children.finish();
    let expected = read_outputs(&expected)?;
    let mut found = Outputs::new();
    for device in 0..cut.devices.len() {
        found.extend(read_outputs(&outputs_of(folder, device))?);
    }
    let segments = cut.devices.iter().flatten();
    let made: BTreeSet<u32> =
        segments.flat_map(|segment| &segment.outputs).filter_map(|output| output.output).collect();
    let graph = whole.model.graph.as_ref();
    let mut worst = 0.0_f64;
    for (index, (elem, right)) in &expected {
        let output =
            graph.and_then(|graph| graph.output.get(*index as usize)).map_or("", |output| output.name());
        let wrong = |difference: String| RunError::WrongOutput { output: output.to_owned(), difference };
        // No segment produces constants or inputs that are passed through.
        if !made.contains(index) {
            continue;
        }
        let (_, left) = found.get(index).ok_or_else(|| wrong("it was not made".into()))?;
        let difference = difference(*elem, left, right).ok_or_else(|| wrong("another size".into()))?;
        if difference > TOLERANCE || difference.is_nan() {
            return Err(wrong(format!("{difference:.2e} of its largest number")));
        }
        worst = worst.max(difference);
    }
    Ok(worst)
}

/// Largest difference that other fusions and orders of summation can explain, relative to the largest number of an
/// output.
const TOLERANCE: f64 = 1e-2;

type Outputs = BTreeMap<u32, (i32, Vec<u8>)>;

fn read_outputs(path: &Path) -> Result<Outputs> {
    let failed = || RunError::io(format!("{} cannot be read", path.display()));
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Outputs::new()),
        Err(error) => return Err(failed()(error)),
    };
    let mut reader = BufReader::new(file);
    let mut outputs = Outputs::new();
    while let Some(head) = link::head(&mut reader).map_err(failed())? {
        let count: u64 = head.dims.iter().product();
        let bytes = crate::tensor::element(head.elem)
            .and_then(|element| element.byte_size(count as usize))
            .unwrap_or(0);
        let mut data = vec![0; bytes];
        reader.read_exact(&mut data).map_err(failed())?;
        outputs.insert(head.value, (head.elem, data));
    }
    Ok(outputs)
}

/// Largest difference between two tensors, relative to the largest number of the second; `None` if their sizes differ.
/// Two numbers that are not finite count as equal.
fn difference(elem: i32, left: &[u8], right: &[u8]) -> Option<f64> {
    if left.len() != right.len() {
        return None;
    }
    let (left, right) = (numbers(elem, left), numbers(elem, right));
    let largest = right.iter().copied().filter(|number| number.is_finite()).map(f64::abs).fold(0.0, f64::max);
    let scale = if largest > 0.0 { largest } else { 1.0 };
    let each = left.iter().zip(&right).map(|(left, right)| match (left.is_finite(), right.is_finite()) {
        (true, true) => (left - right).abs() / scale,
        (false, false) => 0.0,
        _ => f64::INFINITY,
    });
    Some(each.fold(0.0, f64::max))
}

/// The numbers of a floating-point tensor; for other types, the bytes.
fn numbers(elem: i32, bytes: &[u8]) -> Vec<f64> {
    match elem {
        1 => bytes.chunks_exact(4).map(|b| f64::from(f32::from_le_bytes([b[0], b[1], b[2], b[3]]))).collect(),
        11 => bytes
            .chunks_exact(8)
            .map(|b| f64::from_le_bytes([b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7]]))
            .collect(),
        10 => bytes.chunks_exact(2).map(|b| from_half(u16::from_le_bytes([b[0], b[1]]))).collect(),
        16 => bytes
            .chunks_exact(2)
            .map(|b| f64::from(f32::from_bits(u32::from(u16::from_le_bytes([b[0], b[1]])) << 16)))
            .collect(),
        _ => bytes.iter().copied().map(f64::from).collect(),
    }
}

fn from_half(bits: u16) -> f64 {
    let sign = if bits & 0x8000 == 0 { 1.0 } else { -1.0 };
    let (exponent, fraction) = (i32::from(bits >> 10 & 0x1f), f64::from(bits & 0x3ff));
    sign * match exponent {
        0 => fraction * 2.0_f64.powi(-24),
        31 if fraction == 0.0 => f64::INFINITY,
        31 => f64::NAN,
        _ => (1.0 + fraction / 1024.0) * 2.0_f64.powi(exponent - 15),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::Span;

    #[test]
    fn differences_are_relative_to_the_largest_number() {
        let bytes =
            |numbers: [f32; 3]| numbers.iter().flat_map(|number| number.to_le_bytes()).collect::<Vec<u8>>();
        let right = bytes([1.0, -4.0, 0.0]);
        assert_eq!(difference(1, &right, &right), Some(0.0));
        assert_eq!(difference(1, &bytes([2.0, -4.0, 0.0]), &right), Some(0.25));
        assert_eq!(difference(1, &bytes([f32::NAN, -4.0, 0.0]), &right), Some(f64::INFINITY));
        assert_eq!(difference(1, &[0; 4], &right), None);
        assert_eq!([0x3c00, 0xc000, 0x0001].map(from_half), [1.0, -2.0, 2.0_f64.powi(-24)]);
    }

    #[test]
    fn only_samples_after_the_warm_up_count() {
        let span = |kind, sample, start: u64, end: u64| Span {
            kind,
            sample,
            of: 0,
            start_ns: start * 1_000_000_000,
            end_ns: end * 1_000_000_000,
        };
        // Two devices; a sample takes the first 2 s, the link 1 s, and the second device 1 s.
        let first = (0..4_u32)
            .map(|sample| span(SpanKind::Run, sample, 2 * u64::from(sample), 2 * u64::from(sample) + 2));
        let second = (0..4_u32).flat_map(|sample| {
            let ready = 2 * u64::from(sample) + 2;
            [
                span(SpanKind::Receive, sample, ready, ready + 1),
                span(SpanKind::Run, sample, ready + 1, ready + 2),
            ]
        });
        let report = |spans: Vec<Span>| StageReport { spans, peak_memory: None };
        let reports = vec![report(first.collect()), report(second.collect())];
        let cut = Cut { devices: vec![Vec::new(); 2], transfers: Vec::new() };
        let measured = summary(&cut, &[0, 1], reports, 1, 4, None);
        let times_of = |index: usize| {
            let stage = &measured.stages[index];
            [stage.compute_s, stage.communication_s, stage.busy]
        };
        let found =
            [&[measured.seconds_per_sample, measured.latency_s][..], &times_of(0), &times_of(1)].concat();
        let right = [2.0, 4.0, 2.0, 0.0, 1.0, 1.0, 1.0, 0.5];
        assert!(found.iter().zip(right).all(|(found, right)| (found - right).abs() < 1e-12), "{found:?}");
    }
}
