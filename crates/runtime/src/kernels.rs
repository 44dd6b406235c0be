//! From the kernels of ONNX Runtime to the operators of a graph.
//!
//! ONNX Runtime replaces nodes by others before it runs a model: it folds constants, drops what does nothing and fuses.
//! The optimised model says which tensors a kernel makes. Its members are the original nodes between these and the
//! tensors that the kernel reads; they share its seconds by their amounts of work.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use prost::Message;
use serde::Deserialize;
use stagewright_formats::onnx::Whole;
use stagewright_formats::onnx::proto::{GraphProto, ModelProto};

use crate::error::{Result, RunError};
use crate::profile::median;

/// Runs of a node before those that count.
const WARM_UP: usize = 2;

/// Seconds of every run of every node, by name.
pub(crate) type NodeTimes = BTreeMap<String, Vec<f64>>;

/// An event of the profile.
#[derive(Deserialize)]
struct Event {
    #[serde(default)]
    cat: String,
    #[serde(default)]
    name: String,
    /// Microseconds.
    #[serde(default)]
    dur: f64,
}

/// Adds the times of a profile.
pub(crate) fn node_times(path: &Path, times: &mut NodeTimes) -> Result<()> {
    let text = fs::read(path).map_err(RunError::io(format!("{} cannot be read", path.display())))?;
    let events: Vec<Event> = serde_json::from_slice(&text).map_err(|error| RunError::Failed {
        device: "the whole model".into(),
        message: format!("its profile is not readable: {error}"),
    })?;
    let mut own = NodeTimes::new();
    for event in events.iter().filter(|event| event.cat == "Node") {
        if let Some(name) = event.name.strip_suffix("_kernel_time") {
            own.entry(name.to_owned()).or_default().push(event.dur * 1e-6);
        }
    }
    for (name, seconds) in own {
        times.entry(name).or_default().extend(seconds.into_iter().skip(WARM_UP));
    }
    Ok(())
}

/// Seconds and spread by operator.
type ByOperator = (BTreeMap<String, f64>, BTreeMap<String, f64>);

/// Median seconds by operator, and their spreads.
pub(crate) fn by_operator(
    whole: &Whole,
    optimized: &Path,
    times: NodeTimes,
    share: &dyn Fn(&str) -> f64,
) -> Result<ByOperator> {
    let bytes =
        fs::read(optimized).map_err(RunError::io(format!("{} cannot be read", optimized.display())))?;
    let optimized = ModelProto::decode(bytes.as_slice()).map_err(|error| RunError::Failed {
        device: "the whole model".into(),
        message: format!("its optimised form is not readable: {error}"),
    })?;
    let empty = GraphProto::default();
    let (graph, kernels) =
        (whole.model.graph.as_ref().unwrap_or(&empty), optimized.graph.as_ref().unwrap_or(&empty));
    let mut producer = BTreeMap::new();
    for (at, node) in graph.node.iter().enumerate() {
        node.output.iter().filter(|name| !name.is_empty()).for_each(|name| {
            producer.insert(name.as_str(), at);
        });
    }
    let mut seconds: BTreeMap<String, f64> =
        whole.operators.iter().flatten().map(|name| (name.clone(), 0.0)).collect();
    let mut spreads = BTreeMap::new();
    let by_name: BTreeMap<&str, usize> =
        whole.operators.iter().enumerate().filter_map(|(at, name)| Some((name.as_deref()?, at))).collect();
    let by_kernel: BTreeMap<&str, usize> = kernels.node.iter().map(|node| node.name()).zip(0..).collect();
    let mut rest = 0.0;
    for (name, mut runs) in times {
        let (time, spread) = median(&mut runs);
        let mut members: Vec<usize> = match by_kernel.get(name.as_str()) {
            Some(&kernel) => {
                let node = &kernels.node[kernel];
                let stops: BTreeSet<&str> = node.input.iter().map(String::as_str).collect();
                members(graph, &producer, &node.output, &stops)
            }
            None => Vec::new(),
        };
        if members.is_empty() {
            members.extend(by_name.get(name.as_str()));
        }
        members.retain(|&member| whole.operators[member].is_some());
        if members.is_empty() {
            rest += time;
            continue;
        }
        let weight = |member: usize| whole.operators[member].as_deref().map_or(0.0, share).max(1e-12);
        let total: f64 = members.iter().map(|&member| weight(member)).sum();
        for &member in &members {
            let Some(operator) = &whole.operators[member] else { continue };
            *seconds.entry(operator.clone()).or_default() += time * weight(member) / total;
            spreads.insert(operator.clone(), spread);
        }
    }
    // Kernels that no operator explains, such as changes of layout, are spread over all.
    let sum: f64 = seconds.values().sum();
    if sum > 0.0 {
        seconds.values_mut().for_each(|seconds| *seconds *= 1.0 + rest / sum);
    }
    Ok((seconds, spreads))
}

/// Original nodes that make the outputs of a kernel from its inputs.
fn members(
    graph: &GraphProto,
    producer: &BTreeMap<&str, usize>,
    outputs: &[String],
    stops: &BTreeSet<&str>,
) -> Vec<usize> {
    let mut found = BTreeSet::new();
    let mut open: Vec<&str> = outputs.iter().map(String::as_str).collect();
    while let Some(name) = open.pop() {
        if let Some(&node) = producer.get(name).filter(|_| !stops.contains(name))
            && found.insert(node)
        {
            open.extend(graph.node[node].input.iter().map(String::as_str));
        }
    }
    found.into_iter().collect()
}
