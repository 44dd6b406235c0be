//! ONNX Runtime's profile: the Chrome trace of `SessionOptions.enable_profiling`.
//!
//! The file is a list of events. An event of category `Node` named `NODE_kernel_time` is a call of a node of the model
//! after ONNX Runtime has optimised it; `model_run` is a call of the whole model. Durations are whole microseconds, so
//! a node of a few microseconds needs many calls or a larger batch.
//!
//! Operators are named after nodes; a node without a name has the one that ONNX Runtime gives it, such as `Softmax_3`.
//! Fused nodes have names of their own too. To measure the nodes of the model as it is, set `graph_optimization_level`
//! to `ORT_DISABLE_ALL`, and name them.
//!
//! The first calls of a node are warm-up. The whole model is the operator [`WHOLE_RUN`].
//!
//! Providers for GPUs queue their kernels, and the duration of such a node is that of the call. Its seconds are the sum
//! of its events of category `Kernel`, which a build with GPU profiling writes after the node that launched them.
//! Without these events there are no times to read (Q110).
//!
//! The file is written when profiling ends, in the order in which events start. If the process dies meanwhile, the list
//! is not terminated; it is valid up to the last event, and is read up to there. A process that dies earlier leaves an
//! empty file. At most a million events are kept.
//!
//! Source: `onnxruntime/core/common/profiler.cc`, the page "Profiling tools" of ONNX Runtime, and profiles of version
//! 1.32 on a CPU.

use std::collections::{BTreeMap, BTreeSet};

use stagewright_core::document::CostsDocument;
use stagewright_formats::{At, InputError, Result};

use super::Options;
use super::class::{CPU, class};
use super::samples::{Samples, seconds};
use super::trace::{Event, list};
use crate::code::{Q102, Q110};

/// Name of the operator that has the seconds of a run of the whole model.
pub const WHOLE_RUN: &str = "model_run";

/// Providers that queue kernels and return.
const QUEUEING: [&str; 5] = [
    "CUDAExecutionProvider",
    "DmlExecutionProvider",
    "MIGraphXExecutionProvider",
    "ROCMExecutionProvider",
    "WebGpuExecutionProvider",
];

/// Reads a profile. Its document has the nodes of the model, and [`WHOLE_RUN`] in an entry of its own.
///
/// # Errors
/// If the file is not a list of events (F001, F002, F005), a duration is invalid (Q103), no node has run (Q102), or
/// only launches were measured (Q110).
pub fn import(label: &str, bytes: &[u8], options: &Options) -> Result<CostsDocument> {
    let events = list(label, bytes, true)?;
    let (mut nodes, mut runs) = (Samples::default(), Samples::default());
    let kernels = kernels(label, &events)?;
    let mut providers = BTreeSet::new();
    for (number, event) in events.iter().enumerate() {
        let Some(micros) = event.dur.filter(|_| event.is_complete()) else { continue };
        let path = || format!("[{number}].dur");
        match (event.category(), event.name()) {
            ("Node", name) => {
                let Some(node) = name.strip_suffix("_kernel_time").filter(|node| !node.is_empty()) else {
                    continue;
                };
                let provider = event.args.provider.text().unwrap_or_default();
                providers.insert(provider);
                let measured = seconds(label, path, micros)?;
                if !QUEUEING.contains(&provider) {
                    nodes.add(node, measured);
                } else if kernels.is_empty() {
                    return Err(only_launches(label, number, provider));
                }
            }
            ("Session", WHOLE_RUN) => runs.add(WHOLE_RUN, seconds(label, path, micros)?),
            _ => {}
        }
    }
    for ((node, _), seconds) in kernels {
        nodes.add(&node, seconds);
    }
    if nodes.is_empty() {
        let message = "no node has run";
        let help = "call run() of the session a few times, then end_profiling()";
        return Err(InputError::new(Q102, label, At::Whole, message, help));
    }
    let on_cpu = providers.iter().all(|provider| provider.starts_with("CPU") || provider.is_empty());
    let class = class(label, options, on_cpu.then_some(CPU))?;
    let named: Vec<&str> = providers.into_iter().filter(|provider| !provider.is_empty()).collect();
    let source = format!("profile of ONNX Runtime, {}", named.join(" and "));
    let source = source.trim_end_matches(", ").to_owned();
    let mut costs = CostsDocument::new("");
    costs.operators.push(nodes.summarise(class.clone(), source.clone(), options.warm_up));
    if !runs.is_empty() {
        let source = format!("{source}: whole runs");
        costs.operators.push(runs.summarise(class, source, options.warm_up));
    }
    Ok(costs)
}

/// Seconds of kernels by the node that launched them and the number of its call.
fn kernels(label: &str, events: &[Event]) -> Result<BTreeMap<(String, usize), f64>> {
    let mut found = BTreeMap::new();
    let mut calls: BTreeMap<&str, usize> = BTreeMap::new();
    let mut before = None;
    for (number, event) in events.iter().enumerate() {
        match event.category() {
            "Node" => {
                if let Some(node) = event.name().strip_suffix("_kernel_time") {
                    *calls.entry(node).or_default() += 1;
                    before = Some(node);
                }
            }
            "Kernel" => {
                let named = event.args.parent_name.text().filter(|parent| !parent.is_empty());
                let node =
                    named.map(|parent| parent.strip_suffix("_kernel_time").unwrap_or(parent)).or(before);
                if let (Some(node), Some(micros)) = (node, event.dur) {
                    let measured = seconds(label, || format!("[{number}].dur"), micros)?;
                    let call = calls.get(node).copied().unwrap_or(0);
                    *found.entry((node.to_owned(), call)).or_default() += measured;
                }
            }
            _ => {}
        }
    }
    Ok(found)
}

fn only_launches(label: &str, number: usize, provider: &str) -> InputError {
    let message = format!("{provider} queues kernels, and the profile has only the times to queue them");
    let help = "use a build of ONNX Runtime with GPU profiling, or measure the model with PyTorch: `stagewright exporter \
                torch` prints a script with --measure";
    InputError::at_path(Q110, label, format!("[{number}]"), message, help)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Five runs of four nodes, of ONNX Runtime 1.32, with fewer arguments.
    const REAL: &[u8] = include_bytes!("../../tests/data/onnxruntime.json");

    fn read(text: &str) -> Result<CostsDocument> {
        import("profile.json", text.as_bytes(), &Options::default())
    }

    fn node(name: &str, micros: &str) -> String {
        let head =
            r#"{"cat":"Node","pid":1,"tid":1,"ts":0,"ph":"X","args":{"provider":"CPUExecutionProvider"}"#;
        format!(r#"{head},"name":"{name}_kernel_time","dur":{micros}}}"#)
    }

    #[test]
    fn a_profile_of_onnx_runtime_is_read() {
        let costs = import("profile.json", REAL, &Options::default()).unwrap();
        assert_eq!(costs.operators.len(), 2);
        let nodes = &costs.operators[0];
        assert_eq!(nodes.class, "cpu");
        assert_eq!(nodes.source, "profile of ONNX Runtime, CPUExecutionProvider");
        let names: Vec<&str> = nodes.seconds.keys().map(String::as_str).collect();
        assert_eq!(names, ["Softmax_3", "layers/0/MatMul", "layers/0/Softmax", "layers/1/MatMul"]);
        assert!(nodes.seconds.values().all(|&seconds| seconds > 0.0 && seconds < 1e-3));
        assert!(costs.operators[1].seconds[WHOLE_RUN] > 0.0);
    }

    #[test]
    fn the_first_call_is_warm_up_and_the_median_counts() {
        let calls: Vec<String> = ["900", "4", "2", "6"].map(|micros| node("a", micros)).into();
        let nodes = &read(&format!("[{}]", calls.join(","))).unwrap().operators[0];
        assert_eq!(nodes.seconds["a"], 4e-6);
        assert!((nodes.spread["a"] - 0.5).abs() < 1e-12);
    }

    #[test]
    fn a_profile_without_its_end_gives_the_events_before() {
        let whole = format!("[\n{},\n{}", node("a", "3"), node("b", "5"));
        for cut in [whole.as_str(), &format!("{whole},"), &format!("{whole},\n{{\"cat\" : \"No")] {
            let costs = read(cut).unwrap();
            assert_eq!(costs.operators[0].seconds.len(), 2, "{cut}");
        }
        assert_eq!(read("[").unwrap_err().code, "Q102");
    }

    #[test]
    fn kernels_on_a_gpu_count_and_not_their_launches() {
        // Kernels start at the same time as the node that launched them, or after it.
        kernels_count(r#""parent_name":"a_kernel_time""#);
        kernels_count("");
    }

    fn kernels_count(parent: &str) {
        let launch = r#"{"cat":"Node","ph":"X","name":"a_kernel_time","dur":9,"args":{"provider":"CUDAExecutionProvider"}}"#;
        let error = read(&format!("[{launch}]")).unwrap_err();
        assert_eq!((error.code.name, error.place.to_string().as_str()), ("Q110", "profile.json: [0]"));
        let kernel = |micros| {
            format!(r#"{{"cat":"Kernel","ph":"X","name":"gemm","dur":{micros},"args":{{{parent}}}}}"#)
        };
        let text = format!("[{launch},{},{},{launch},{}]", kernel(20), kernel(12), kernel(48));
        assert_eq!(read(&text).unwrap_err().code, "Q108");
        let options = Options { class: Some("a100".into()), ..Options::default() };
        let costs = import("profile.json", text.as_bytes(), &options).unwrap();
        assert_eq!((costs.operators[0].seconds["a"] * 1e9).round(), 40_000.0);
        assert_eq!(costs.operators[0].class, "a100");
    }

    #[test]
    fn faults_are_located() {
        for (text, code, place) in [
            ("[]", "Q102", ""),
            (r#"[{"cat":"Session","ph":"X","name":"model_run","dur":3}]"#, "Q102", ""),
            (&format!("[{}]", node("a", "-3")), "Q103", "[0].dur"),
            (&format!("[{},{}]", node("a", "3"), node("a", "true")), "F005", "[1].dur"),
            ("{}", "F005", ""),
            ("[{]", "F002", "1:3"),
        ] {
            let error = read(text).unwrap_err();
            assert_eq!((error.code.name, error.place.at.to_string().as_str()), (code, place), "{text}");
        }
    }
}
