//! The trace of PyTorch's profiler: Chrome's format, written by
//! `torch.profiler.profile(…).export_chrome_trace(FILE)`.
//!
//! The host's events are calls of operators (`cpu_op`) and ranges of `torch.profiler.record_function`
//! (`user_annotation`), which are nested by their times on a thread. On a GPU, kernels and copies are events of
//! their own, linked to the call that launched them by `correlation`, or else by `External id`.
//!
//! The seconds of a call are those of all kernels and copies that it launched, itself or by a call inside it. A call
//! that launched none takes no GPU time and is not measured. In a trace without kernels, copies and collectives, the
//! seconds are the durations of the calls on the CPU. A range counts in the same way.
//!
//! # Names
//!
//! A call inside a range is named after the range and the operator, `layers.0.up/addmm`, with `_1`, `_2`, … for the
//! second and further calls of the operator in one pass of the range. If ranges are named after modules, these are
//! the names that the script of `stagewright exporter torch` gives to operators:
//!
//! ```python
//! for name, module in model.named_modules():
//!     def enter(module, inputs, name=name):
//!         module.range = torch.profiler.record_function(name)
//!         module.range.__enter__()
//!     module.register_forward_pre_hook(enter)
//!     module.register_forward_hook(lambda module, inputs, outputs: module.range.__exit__(None, None, None))
//! ```
//!
//! Calls at every depth have a name, `layers.0.up/linear` as well as `layers.0.up/addmm` inside it: a model has one of
//! the two, so their seconds must not be added up. A call outside of ranges is named after its operator alone, so that
//! calls of all sizes share a median, and the spread is large.
//!
//! # Collectives
//!
//! Kernels of NCCL name the collective, its elements and the number of devices. They become rows of `links` and count
//! for no operator. The trace is of one device, where the kernel also waits for the others; so only the shortest call
//! of each size counts. Whether devices are in different servers is not in the trace.
//!
//! A trace is written at once when profiling ends, hosts before devices, so a truncated trace lacks kernels and is
//! an error.
//!
//! Source: traces of PyTorch 2.15 on a CPU; `libkineto/src/output_json.cpp` of Kineto for those of GPUs.

use std::borrow::Cow;
use std::collections::BTreeMap;

use stagewright_core::document::{CostsDocument, TransferKind};
use stagewright_formats::{At, InputError, Result, read_json, text_of};

use super::Options;
use super::class::{CPU, class};
use super::samples::{Samples, seconds};
use super::trace::{Event, Trace, list};
use super::transfers::{Transfers, shortest};
use crate::code::Q102;

/// Reads a trace.
///
/// # Errors
/// If the file is not such a trace (F001, F002, F003, F005), a number in it is invalid (Q103), it has no operators
/// (Q102), or it does not name the GPU and neither do the options (Q108).
pub fn import(label: &str, bytes: &[u8], options: &Options) -> Result<CostsDocument> {
    let (trace, path) = if text_of(label, bytes)?.trim_start().starts_with('[') {
        (Trace { events: list(label, bytes, false)?, devices: Vec::new() }, "")
    } else {
        (read_json::<Trace>(label, bytes, &[])?, "traceEvents")
    };
    let mut calls = Calls::default();
    let mut on_gpu = false;
    let mut kernels = Vec::new();
    let mut transfers = Transfers::default();
    for (number, event) in trace.events.iter().enumerate().filter(|(_, event)| event.is_complete()) {
        let place = |field: &str| format!("{path}[{number}].{field}");
        match role(event.category()) {
            Some(Role::Device) => {
                on_gpu = true;
                let measured = seconds(label, || place("dur"), event.dur.unwrap_or(0.0))?;
                match Collective::of(event) {
                    Some(Collective::Row(transfer, devices, bytes)) => {
                        transfers.add(transfer, devices, false, bytes, measured);
                    }
                    Some(Collective::Wait) => {}
                    None => kernels.push((event, measured)),
                }
            }
            Some(Role::Host(kind)) => {
                let Some(start) = event.ts else { continue };
                let length = seconds(label, || place("dur"), event.dur.unwrap_or(0.0))?;
                let call = Call { name: event.name(), kind, start, length, launched: 0.0, parent: None };
                calls.push(event, call);
            }
            None => {}
        }
    }
    calls.nest();
    for (event, measured) in kernels {
        calls.launch(event, measured);
    }
    let samples = calls.samples(on_gpu);
    if samples.is_empty() && transfers.is_empty() {
        let message = "no operator was measured";
        let help = "profile with activities=[ProfilerActivity.CPU], and ProfilerActivity.CUDA on a GPU, so that the trace \
                    has operators and what they launch";
        return Err(InputError::new(Q102, label, At::Whole, message, help));
    }
    let product = trace.devices.first().and_then(|device| device.name.text());
    let class = class(label, options, if on_gpu { product } else { Some(CPU) })?;
    let mut costs = CostsDocument::new("");
    costs.links = transfers.tables(&class, "shortest kernels in a trace of PyTorch's profiler", shortest);
    if !samples.is_empty() {
        let what = if on_gpu { "kernels" } else { "operators" };
        let source = format!("trace of PyTorch's profiler, {what}");
        costs.operators.push(samples.summarise(class, source, options.warm_up));
    }
    Ok(costs)
}

/// The role of an event in a trace.
enum Role {
    Host(Kind),
    Device,
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    /// A call of an operator.
    Operator,
    /// A range of `record_function`.
    Range,
    /// A call of the GPU's runtime.
    Launch,
}

/// Role of an event by its category, as PyTorch 1.11 and later or earlier versions name it.
fn role(category: &str) -> Option<Role> {
    Some(match category {
        "cpu_op" | "Operator" => Role::Host(Kind::Operator),
        "user_annotation" => Role::Host(Kind::Range),
        "cuda_runtime" | "cuda_driver" | "Runtime" => Role::Host(Kind::Launch),
        "kernel" | "gpu_memcpy" | "gpu_memset" | "Kernel" | "Memcpy" | "Memset" => Role::Device,
        _ => return None,
    })
}

/// A call on the host.
struct Call<'a> {
    name: &'a str,
    kind: Kind,
    /// Microseconds.
    start: f64,
    /// Seconds.
    length: f64,
    /// Seconds of the kernels that the call launched on the device.
    launched: f64,
    /// Index of the enclosing call in the list of the thread.
    parent: Option<usize>,
}

impl Call<'_> {
    /// Microseconds.
    fn end(&self) -> f64 {
        self.start + self.length * 1e6
    }
}

/// Calls of one thread, each with its number among all calls.
type Thread<'a> = Vec<(usize, Call<'a>)>;

/// All calls.
#[derive(Default)]
struct Calls<'a> {
    /// Threads in the order of their first event, and their numbers by process and thread.
    threads: Vec<Thread<'a>>,
    numbers: BTreeMap<(Option<String>, Option<String>), usize>,
    pushed: usize,
    /// Numbers of the call with an `External id`, and of the launch with a `correlation`.
    external: BTreeMap<String, usize>,
    correlated: BTreeMap<String, usize>,
    /// Thread of each call, and its place there after sorting.
    places: Vec<(usize, usize)>,
}

impl<'a> Calls<'a> {
    fn push(&mut self, event: &'a Event, call: Call<'a>) {
        let known = if call.kind == Kind::Launch {
            event.args.correlation.key().map(|key| (&mut self.correlated, key))
        } else {
            event.args.external_id.key().map(|key| (&mut self.external, key))
        };
        if let Some((map, key)) = known {
            map.insert(key, self.pushed);
        }
        let next = self.threads.len();
        let thread = *self.numbers.entry((event.pid.key(), event.tid.key())).or_insert(next);
        if thread == next {
            self.threads.push(Thread::new());
        }
        self.threads[thread].push((self.pushed, call));
        self.pushed += 1;
    }

    /// Finds the enclosing call of each call: the last call that started before it and has not ended.
    fn nest(&mut self) {
        self.places = vec![(0, 0); self.pushed];
        for (thread, calls) in self.threads.iter_mut().enumerate() {
            calls.sort_by(|(_, a), (_, b)| a.start.total_cmp(&b.start).then(b.length.total_cmp(&a.length)));
            let mut open: Vec<usize> = Vec::new();
            for number in 0..calls.len() {
                let start = calls[number].1.start;
                while open.last().is_some_and(|&last| calls[last].1.end() <= start) {
                    open.pop();
                }
                calls[number].1.parent = open.last().copied();
                open.push(number);
                self.places[calls[number].0] = (thread, number);
            }
        }
    }

    /// Adds up the kernels that a call launched.
    fn launch(&mut self, event: &Event, seconds: f64) {
        let by = |map: &BTreeMap<String, usize>, key: Option<String>| map.get(&key?).copied();
        let found = by(&self.correlated, event.args.correlation.key())
            .or_else(|| by(&self.external, event.args.external_id.key()));
        if let Some((thread, number)) = found.map(|found| self.places[found]) {
            self.threads[thread][number].1.launched += seconds;
        }
    }

    /// Seconds by name: in a trace of a GPU, those of the kernels that a call launched, otherwise the durations of the
    /// calls.
    fn samples(mut self, on_gpu: bool) -> Samples {
        let mut samples = Samples::default();
        for calls in &mut self.threads {
            // A call is after its enclosing call.
            for number in (0..calls.len()).rev() {
                if let Some(parent) = calls[number].1.parent {
                    calls[parent].1.launched += calls[number].1.launched;
                }
            }
            let mut repeats: BTreeMap<(usize, &str), usize> = BTreeMap::new();
            // The range that encloses a call, if any.
            let mut within: Vec<Option<usize>> = Vec::with_capacity(calls.len());
            for (_, call) in calls.iter() {
                let parent = call.parent.map(|parent| &calls[parent].1);
                let outer = match (call.parent, parent) {
                    (Some(label), Some(parent)) if is_named(parent) => Some(label),
                    (Some(label), _) => within[label],
                    _ => None,
                };
                within.push(outer);
                let seconds = if on_gpu { call.launched } else { call.length };
                let is_measured = !on_gpu || seconds > 0.0;
                match call.kind {
                    Kind::Range if is_named(call) && is_measured => samples.add(call.name, seconds),
                    // An operator that calls itself counts once.
                    Kind::Operator if parent.is_none_or(|parent| parent.name != call.name) => {
                        let kind = kind(call.name);
                        let name = match outer {
                            None => Cow::Borrowed(kind),
                            Some(range) => {
                                // Calls that launched nothing are numbered as well, as in the model.
                                let repeat = repeats.entry((range, kind)).or_default();
                                *repeat += 1;
                                let range = calls[range].1.name;
                                Cow::Owned(match *repeat {
                                    1 => format!("{range}/{kind}"),
                                    repeat => format!("{range}/{kind}_{}", repeat - 1),
                                })
                            }
                        };
                        if is_measured {
                            samples.add(&name, seconds);
                        }
                    }
                    _ => {}
                }
            }
        }
        samples
    }
}

/// Whether a call is a range that names the calls inside; the profiler's own steps are not.
fn is_named(call: &Call<'_>) -> bool {
    call.kind == Kind::Range && !call.name.is_empty() && !call.name.starts_with("ProfilerStep#")
}

/// `addmm` of `aten::addmm`.
pub(super) fn kind(name: &str) -> &str {
    name.rsplit_once("::").map_or(name, |(_, kind)| if kind.is_empty() { name } else { kind })
}

/// The transfer of a collective, by its name in PyTorch.
pub(crate) fn transfer(name: &str) -> Option<TransferKind> {
    Some(match name {
        "allreduce" | "all_reduce" | "allreduce_coalesced" => TransferKind::AllReduce,
        "_allgather_base" | "allgather" | "all_gather" | "allgather_into_tensor_coalesced" => {
            TransferKind::AllGather
        }
        "_reduce_scatter_base" | "reduce_scatter" | "reduce_scatter_tensor_coalesced" => {
            TransferKind::ReduceScatter
        }
        "all_to_all" | "all_to_allv" | "alltoall_base" => TransferKind::AllToAll,
        "broadcast" | "_broadcast_oop" => TransferKind::Broadcast,
        "send" => TransferKind::Send,
        _ => return None,
    })
}

/// A kernel of NCCL.
enum Collective {
    /// Transfer, devices and bytes of the whole tensor.
    Row(TransferKind, u32, u64),
    /// A kernel whose time is not that of a transfer, or whose size is missing.
    Wait,
}

impl Collective {
    /// `None` if the event is another kernel.
    fn of(event: &Event) -> Option<Self> {
        let args = &event.args;
        let Some(name) = args.collective.text() else {
            return event.name().starts_with("nccl").then_some(Collective::Wait);
        };
        let Some(transfer) = transfer(name) else { return Some(Collective::Wait) };
        // The larger side is the whole tensor.
        let elements = [&args.elements_in, &args.elements_out].map(|side| side.number().unwrap_or(0.0));
        let elements = elements[0].max(elements[1]);
        let devices = if transfer == TransferKind::Send { Some(2.0) } else { args.group_size.number() };
        let size = args.dtype.text().and_then(size_of);
        match (devices, size) {
            (Some(devices), Some(size))
                if devices >= 2.0 && devices < f64::from(u32::MAX) && elements >= 1.0 =>
            {
                Some(Collective::Row(transfer, devices as u32, (elements * size) as u64))
            }
            _ => Some(Collective::Wait),
        }
    }
}

/// Bytes of an element, by the name of its type in PyTorch.
fn size_of(dtype: &str) -> Option<f64> {
    Some(match dtype {
        "Double" | "Long" | "ComplexFloat" => 8.0,
        "Float" | "Int" => 4.0,
        "Half" | "BFloat16" | "Short" => 2.0,
        "Byte" | "Char" | "Bool" => 1.0,
        _ if dtype.starts_with("Float8") => 1.0,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Five passes of three modules with a range each, of PyTorch 2.15 on a CPU.
    const REAL: &[u8] = include_bytes!("../../tests/data/kineto_cpu.json");

    /// An event; `more` are its arguments.
    fn event(cat: &str, name: &str, ts: f64, dur: f64, more: &str) -> String {
        format!(
            r#"{{"ph":"X","cat":"{cat}","name":"{name}","pid":1,"tid":1,"ts":{ts},"dur":{dur},"args":{{{more}}}}}"#
        )
    }

    fn gpu(events: &[String]) -> CostsDocument {
        let text = format!(
            r#"{{"deviceProperties":[{{"id":0,"name":"NVIDIA H100 80GB HBM3"}}],"traceEvents":[{}]}}"#,
            events.join(",")
        );
        import("trace.json", text.as_bytes(), &Options::default()).unwrap()
    }

    #[test]
    fn a_trace_of_a_cpu_has_the_names_of_the_exporter() {
        let costs = import("trace.json", REAL, &Options::default()).unwrap();
        let operators = &costs.operators[0];
        assert_eq!(operators.class, "cpu");
        for name in ["net.0/addmm", "net.0/linear", "net.1/relu", "net.2/addmm", "net.0"] {
            let seconds = operators.seconds[name];
            assert!(seconds > 0.0 && seconds < 1.0, "{name}: {seconds}");
        }
        // A nested call takes no longer than the call around it.
        assert!(operators.seconds["net.0/addmm"] <= operators.seconds["net.0"]);
        assert!(operators.seconds.keys().all(|name| name.starts_with("net.")), "{:?}", operators.seconds);
    }

    #[test]
    fn kernels_count_for_the_calls_that_launch_them() {
        let pass = |start: f64, micros: f64| {
            [
                event("user_annotation", "up", start, 90.0, ""),
                event("cpu_op", "aten::linear", start + 1.0, 50.0, r#""External id":1"#),
                event("cpu_op", "aten::addmm", start + 2.0, 40.0, r#""External id":2"#),
                event(
                    "cuda_runtime",
                    "cudaLaunchKernel",
                    start + 3.0,
                    5.0,
                    &format!(r#""correlation":{start}"#),
                ),
                event("cpu_op", "aten::mul", start + 60.0, 5.0, &format!(r#""External id":"m{start}""#)),
                event("cpu_op", "aten::mul", start + 70.0, 5.0, &format!(r#""External id":"n{start}""#)),
                event("cpu_op", "aten::view", start + 80.0, 5.0, ""),
                event("cpu_op", "aten::mul", start + 86.0, 1.0, ""),
                event("cpu_op", "aten::mul", start + 88.0, 1.0, &format!(r#""External id":"o{start}""#)),
                event(
                    "kernel",
                    "gemm",
                    start + 500.0,
                    micros,
                    &format!(r#""correlation":{start},"External id":9"#),
                ),
                event("kernel", "mul", start + 600.0, 3.0, &format!(r#""External id":"m{start}""#)),
                event("kernel", "mul", start + 600.0, 4.0, &format!(r#""External id":"n{start}""#)),
                event("kernel", "mul", start + 600.0, 5.0, &format!(r#""External id":"o{start}""#)),
            ]
        };
        let costs = gpu(&[pass(1000.0, 90.0), pass(2000.0, 20.0), pass(3000.0, 30.0)].concat());
        let operators = &costs.operators[0];
        assert_eq!(operators.class, "h100-80gb-hbm3");
        let found: Vec<(&str, f64)> = operators
            .seconds
            .iter()
            .map(|(name, &seconds)| (name.as_str(), (seconds * 1e6).round()))
            .collect();
        assert_eq!(
            found,
            [
                ("up", 37.0),
                ("up/addmm", 25.0),
                ("up/linear", 25.0),
                ("up/mul", 3.0),
                ("up/mul_1", 4.0),
                ("up/mul_3", 5.0),
            ],
            "neither `view` nor the third `mul` launched anything"
        );
    }

    #[test]
    fn kernels_of_nccl_are_rows_of_links() {
        let reduce = |ts, dur| {
            let more = r#""Collective name":"allreduce","In msg nelems":1024,"Out msg nelems":1024,"Group size":8,"dtype":"BFloat16""#;
            event("kernel", "ncclDevKernel_AllReduce", ts, dur, more)
        };
        let gather = event(
            "kernel",
            "ncclDevKernel_AllGather",
            9.0,
            7.0,
            r#""Collective name":"_allgather_base","In msg nelems":10,"Out msg nelems":40,"Group size":4,"dtype":"Float""#,
        );
        let costs = gpu(&[
            event("cpu_op", "aten::view", 0.0, 5.0, ""),
            reduce(1.0, 50.0),
            reduce(60.0, 20.0),
            gather,
            event("kernel", "ncclKernel", 90.0, 7.0, ""),
        ]);
        assert!(costs.operators.is_empty(), "no kernel of an operator was measured");
        let found: Vec<_> =
            costs.links.iter().map(|table| (table.transfer, table.devices, table.rows.clone())).collect();
        assert_eq!(
            found,
            [
                (TransferKind::AllReduce, 8, vec![[2048.0, 20e-6]]),
                (TransferKind::AllGather, 4, vec![[160.0, 7e-6]]),
            ]
        );
    }

    #[test]
    fn steps_of_the_profiler_are_no_ranges() {
        let costs = import(
            "trace.json",
            format!(
                "[{},{}]",
                event("user_annotation", "ProfilerStep#3", 0.0, 9.0, ""),
                event("cpu_op", "aten::relu", 1.0, 5.0, "")
            )
            .as_bytes(),
            &Options::default(),
        )
        .unwrap();
        assert_eq!(costs.operators[0].seconds.keys().collect::<Vec<_>>(), ["relu"]);
    }

    #[test]
    fn faults_are_located() {
        let cut = &REAL[..REAL.len() / 2];
        let negative = format!(r#"{{"traceEvents":[{}]}}"#, event("cpu_op", "aten::mm", 0.0, -2.0, ""));
        let unnamed =
            format!(r#"{{"traceEvents":[{}]}}"#, event("kernel", "k", 0.0, 2.0, r#""External id":1"#));
        let on_unnamed = format!(
            "[{},{}]",
            event("cpu_op", "aten::mm", 0.0, 2.0, r#""External id":1"#),
            event("kernel", "k", 0.0, 2.0, r#""External id":1"#)
        );
        let waiting = format!(
            "[{},{}]",
            event("cpu_op", "aten::mm", 0.0, 2.0, ""),
            event("kernel", "ncclKernel", 0.0, 2.0, "")
        );
        for (bytes, code, place) in [
            (cut, "F002", None),
            (br#"{"traceEvents":[]}"#, "Q102", Some("")),
            (br#"{"deviceProperties":[]}"#, "F003", None),
            (negative.as_bytes(), "Q103", Some("traceEvents[0].dur")),
            (unnamed.as_bytes(), "Q102", Some("")),
            (on_unnamed.as_bytes(), "Q108", Some("")),
            (waiting.as_bytes(), "Q102", Some("")),
        ] {
            let error = import("trace.json", bytes, &Options::default()).unwrap_err();
            assert_eq!(error.code, code, "{error}");
            assert!(place.is_none_or(|place| error.place.at.to_string() == place), "{error}");
        }
    }
}
