//! Traces of PyTorch's profiler, with steps: `torch.profiler.profile(schedule=…)` and a call of `step()` after every
//! iteration.
//!
//! An iteration is an event `ProfilerStep#N` of the host. Kernels of the device on which most of them ran count in the
//! step in which they ran; the device lags behind the host by as much at the start of a step as at its end. Every
//! moment of a step belongs to compute if any kernel besides those of NCCL runs, on any stream, otherwise to a collective
//! that runs, otherwise to neither. NCCL runs an all-to-all as sends and receives, so the name of the
//! collective comes before that of the kernel.
//!
//! Memory is in a trace with `profile_memory=True`.
//!
//! Source: `libkineto/src/output_json.cpp` of Kineto; names of kernels of NCCL 2.

use std::collections::{BTreeMap, BTreeSet};

use stagewright_core::document::TransferKind;
use stagewright_formats::{Result, read_json, text_of};

use super::lines::raise;
use super::{Exposed, Kind, Log, Pace, Part, Timed, settled, warm_up};
use crate::import::kineto::transfer;
use crate::import::trace::{Event, Trace, list};

const STEP: &str = "ProfilerStep#";

/// Longest event, in microseconds.
const LONGEST: f64 = 1e15;

pub(super) fn detect(text: &str) -> bool {
    match text.trim_start().as_bytes().first() {
        Some(b'{') => text.contains("\"traceEvents\""),
        Some(b'[') => text.contains("\"ph\""),
        _ => false,
    }
}

/// Reads a trace; `None` if it has no step.
pub(super) fn read(label: &str, bytes: &[u8]) -> Result<Option<Log>> {
    let events = match text_of(label, bytes)?.trim_start().starts_with('[') {
        true => list(label, bytes, true)?,
        false => read_json::<Trace>(label, bytes, &[])?.events,
    };
    Ok(log(&events))
}

/// A start and an end, in microseconds.
type Span = (f64, f64);

fn log(events: &[Event]) -> Option<Log> {
    let mut steps: BTreeMap<&str, Span> = BTreeMap::new();
    let mut kernels: BTreeMap<Option<String>, Vec<(Option<Collective>, Span)>> = BTreeMap::new();
    let mut memory_bytes = None;
    for event in events {
        if event.name() == "[memory]" && event.args.device_type.number() == Some(1.0) {
            raise(&mut memory_bytes, event.args.total_allocated.number());
        }
        let Some(span) = span(event) else { continue };
        if event.name().starts_with(STEP) && event.category() != "gpu_user_annotation" {
            steps.entry(event.name()).or_insert(span);
        } else if is_on_device(event) {
            kernels.entry(event.pid.key()).or_default().push((Collective::of(event), span));
        }
    }
    let mut steps: Vec<Span> = steps.into_values().collect();
    steps.sort_by(|a, b| a.0.total_cmp(&b.0));
    for number in 1..steps.len() {
        steps[number - 1].1 = steps[number - 1].1.min(steps[number].0);
    }
    steps.retain(|(start, end)| end > start);
    let lengths: Vec<f64> = steps.iter().map(|(start, end)| (end - start) / 1e6).collect();
    let iteration = settled(&lengths)?;
    let warm_up = warm_up(steps.len());
    let whole: f64 = lengths[warm_up..].iter().sum();
    let length = |kernels: &Vec<(Option<Collective>, Span)>| -> f64 {
        kernels.iter().map(|(_, (start, end))| end - start).sum()
    };
    let busiest = kernels.into_values().max_by(|a, b| length(a).total_cmp(&length(b)));
    let (mut timed, mut exposed, mut rest) = (Vec::new(), Vec::new(), Vec::new());
    for (collective, micros) in busiest.map(|kernels| shares(&steps[warm_up..], kernels)).unwrap_or_default()
    {
        let seconds = micros / 1e6 / whole * iteration;
        match collective {
            None => timed.push(Timed { parts: vec![Part::Compute, Part::Update], seconds }),
            Some(Collective { transfer, group, devices }) => {
                exposed.push(Exposed { transfer, group, devices, seconds });
            }
        }
        rest = vec![Part::Host, Part::Outside];
    }
    let readings = steps.len() - warm_up;
    let pace = Pace::Iteration(iteration);
    Some(Log { kind: Kind::Profiler, readings, warm_up, pace, timed, exposed, rest, memory_bytes })
}

/// The time of an event, if it has one.
fn span(event: &Event) -> Option<Span> {
    let (start, length) = (event.ts?, event.dur?);
    let is_sound = event.is_complete() && start.is_finite() && (0.0..=LONGEST).contains(&length);
    is_sound.then_some((start, start + length))
}

/// Whether an event is work of the device; copies to and from the host are not.
fn is_on_device(event: &Event) -> bool {
    match event.category() {
        "kernel" | "Kernel" | "gpu_memset" | "Memset" => true,
        "gpu_memcpy" | "Memcpy" => event.name().contains("DtoD"),
        _ => false,
    }
}

/// A kind of collectives.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Collective {
    transfer: Option<TransferKind>,
    group: Option<String>,
    devices: Option<u32>,
}

impl Collective {
    /// `None` if the event is a kernel that computes.
    fn of(event: &Event) -> Option<Collective> {
        let args = &event.args;
        let kernel = event.name();
        let named = args.collective.text();
        if named.is_none() && !kernel.starts_with("nccl") && !kernel.starts_with("rccl") {
            return None;
        }
        let by_kernel = || {
            let kinds = [
                ("AllReduce", TransferKind::AllReduce),
                ("AllGather", TransferKind::AllGather),
                ("ReduceScatter", TransferKind::ReduceScatter),
                ("AllToAll", TransferKind::AllToAll),
                ("Broadcast", TransferKind::Broadcast),
                ("SendRecv", TransferKind::Send),
            ];
            kinds.into_iter().find(|(name, _)| kernel.contains(name)).map(|(_, kind)| kind)
        };
        Some(Collective {
            transfer: named.and_then(transfer).or_else(by_kernel),
            group: args.group.text().map(str::to_lowercase),
            devices: args
                .group_size
                .number()
                .filter(|&size| (1.0..=1e9).contains(&size))
                .map(|size| size as u32),
        })
    }
}

/// Microseconds of compute (`None`) and of each collective that no compute hides, within steps that do not overlap.
/// O(n log n) for n kernels and steps.
fn shares(steps: &[Span], kernels: Vec<(Option<Collective>, Span)>) -> BTreeMap<Option<Collective>, f64> {
    let names: BTreeSet<Option<Collective>> =
        kernels.iter().map(|(collective, _)| collective.clone()).collect();
    let names: Vec<Option<Collective>> = names.into_iter().collect();
    // A change of the number of running kernels of a name, or of being in a step.
    let mut changes: Vec<(f64, Option<usize>, bool)> = Vec::new();
    let mut add = |(start, end): Span, name: Option<usize>| {
        changes.extend([(start, name, true), (end, name, false)]);
    };
    steps.iter().for_each(|&step| add(step, None));
    for (collective, kernel) in kernels {
        // Compute, `None`, sorts before collectives.
        add(kernel, names.binary_search(&collective).ok());
    }
    changes.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut running = vec![0_usize; names.len()];
    let (mut active, mut open_steps, mut last) = (BTreeSet::new(), 0_usize, 0.0);
    let mut micros = vec![0.0; names.len()];
    for (time, name, is_start) in changes {
        if let Some(&first) = active.first()
            && open_steps > 0
        {
            micros[first] += time - last;
        }
        last = time;
        let count = name.map_or(&mut open_steps, |name| &mut running[name]);
        *count = if is_start { *count + 1 } else { count.saturating_sub(1) };
        if let Some(name) = name {
            if *count > 0 {
                active.insert(name)
            } else {
                active.remove(&name)
            };
        }
    }
    names.into_iter().zip(micros).collect()
}
