//! From the kernels of ONNX Runtime to the operators of a graph.
//!
//! ONNX Runtime rewrites a model before it runs it: it folds constants, drops nodes without effect and fuses others.
//! The optimised model says which tensors a kernel makes. Kernels that exchange tensors which the original model does
//! not have form a group. The members of a group are the original nodes between the tensors that other kernels make and
//! the outputs of the group; they share its seconds in proportion to their work.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use prost::Message;
use serde::Deserialize;
use stagewright_formats::onnx::Whole;
use stagewright_formats::onnx::proto::{GraphProto, ModelProto};

use crate::error::{Result, RunError};

/// Number of warm-up runs of a node.
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
    let optimized = optimized_model(optimized)?;
    let empty = GraphProto::default();
    let (graph, kernels) =
        (whole.model.graph.as_ref().unwrap_or(&empty), optimized.graph.as_ref().unwrap_or(&empty));
    let producer = producers(graph);
    let groups = groups(graph, kernels, &producer);
    let (time, spread) = kernel_times(kernels, &groups, times);
    let mut seconds: BTreeMap<String, f64> =
        whole.operators.iter().flatten().map(|name| (name.clone(), 0.0)).collect();
    let mut spreads = BTreeMap::new();
    let mut rest = 0.0;
    let maker: BTreeMap<&str, usize> = kernels
        .node
        .iter()
        .zip(0..)
        .flat_map(|(node, index)| node.output.iter().map(move |name| (name.as_str(), index)))
        .collect();
    for (group, &(_, of_group)) in &spread {
        let inside: Vec<usize> = (0..groups.len()).filter(|&kernel| groups[kernel] == *group).collect();
        let sum: f64 = inside.iter().map(|&kernel| time[kernel]).sum();
        let outputs = inside.iter().flat_map(|&kernel| &kernels.node[kernel].output);
        let stops = |name: &str| maker.get(name).is_some_and(|&kernel| groups[kernel] != *group);
        let members = members(graph, &producer, outputs, &stops);
        let operators: Vec<&String> =
            members.iter().filter_map(|&member| whole.operators[member].as_ref()).collect();
        if operators.is_empty() {
            rest += sum;
            continue;
        }
        let weight = |name: &str| share(name).max(1e-12);
        let total: f64 = operators.iter().map(|name| weight(name)).sum();
        for name in operators {
            *seconds.entry(name.clone()).or_default() += sum * weight(name) / total;
            spreads.insert(name.clone(), of_group);
        }
    }
    // The time of kernels that belong to no operator is spread over all operators.
    let sum: f64 = seconds.values().sum();
    if sum > 0.0 {
        seconds.values_mut().for_each(|seconds| *seconds *= 1.0 + rest / sum);
    }
    Ok((seconds, spreads))
}

/// Median, and interquartile range as a share of the median.
pub(crate) fn median(numbers: &mut [f64]) -> (f64, f64) {
    numbers.sort_by(f64::total_cmp);
    let quantile = |share: f64| match numbers.len() {
        0 => 0.0,
        count => {
            let place = share * (count - 1) as f64;
            let (low, rest) = (place.floor() as usize, place.fract());
            numbers[low] + rest * (numbers[(low + 1).min(count - 1)] - numbers[low])
        }
    };
    let middle = quantile(0.5);
    (middle, if middle > 0.0 { (quantile(0.75) - quantile(0.25)) / middle } else { 0.0 })
}

fn optimized_model(path: &Path) -> Result<ModelProto> {
    let bytes = fs::read(path).map_err(RunError::io(format!("{} cannot be read", path.display())))?;
    ModelProto::decode(bytes.as_slice()).map_err(|error| RunError::Failed {
        device: "the whole model".into(),
        message: format!("its optimised form is not readable: {error}"),
    })
}

/// Median seconds of every kernel; and for every group, the median seconds and the spread of its largest kernel.
fn kernel_times(
    kernels: &GraphProto,
    groups: &[usize],
    times: NodeTimes,
) -> (Vec<f64>, BTreeMap<usize, (f64, f64)>) {
    let names: BTreeMap<&str, usize> = kernels.node.iter().map(|node| node.name()).zip(0..).collect();
    // Nodes inside bodies have events of their own, which are skipped because the event of their loop includes them.
    let mut time = vec![0.0; kernels.node.len()];
    let mut spread: BTreeMap<usize, (f64, f64)> = BTreeMap::new();
    for (name, mut runs) in times {
        let Some(&kernel) = names.get(name.as_str()) else { continue };
        let (seconds, of_kernel) = median(&mut runs);
        time[kernel] = seconds;
        // The largest kernel of a group represents it.
        let known = spread.entry(groups[kernel]).or_default();
        if seconds >= known.0 {
            *known = (seconds, of_kernel);
        }
    }
    (time, spread)
}

/// The node that makes a tensor.
fn producers(graph: &GraphProto) -> BTreeMap<&str, usize> {
    let made = graph
        .node
        .iter()
        .zip(0..)
        .flat_map(|(node, index)| node.output.iter().map(move |name| (name, index)));
    made.filter(|(name, _)| !name.is_empty()).map(|(name, index)| (name.as_str(), index)).collect()
}

/// Per kernel, the representative of its group. Kernels belong to one group if they exchange a tensor that the original
/// model does not have, such as those that change the shape around a product.
fn groups(graph: &GraphProto, kernels: &GraphProto, producer: &BTreeMap<&str, usize>) -> Vec<usize> {
    let given: BTreeSet<&str> = graph
        .input
        .iter()
        .map(|input| input.name())
        .chain(graph.initializer.iter().map(|tensor| tensor.name()))
        .collect();
    let mut group: Vec<usize> = (0..kernels.node.len()).collect();
    let mut maker: BTreeMap<&str, usize> = BTreeMap::new();
    // Kernels are in topological order, as every model is.
    for (index, node) in kernels.node.iter().enumerate() {
        // Omitted inputs and outputs have no name.
        for name in node.input.iter().map(String::as_str).filter(|name| !name.is_empty()) {
            let is_known = producer.contains_key(name) || given.contains(name);
            if let (false, Some(&other)) = (is_known, maker.get(name)) {
                let (from, to) = (group[index], group[other]);
                group.iter_mut().filter(|group| **group == from).for_each(|group| *group = to);
            }
        }
        node.output.iter().for_each(|name| {
            maker.insert(name, index);
        });
    }
    group
}

/// Original nodes that compute the outputs of a group of kernels from the outputs of other groups.
fn members<'a>(
    graph: &'a GraphProto,
    producer: &BTreeMap<&str, usize>,
    outputs: impl Iterator<Item = &'a String>,
    stops: &dyn Fn(&str) -> bool,
) -> Vec<usize> {
    let mut found = BTreeSet::new();
    let mut open: Vec<&str> = outputs.map(String::as_str).collect();
    while let Some(name) = open.pop() {
        if let Some(&node) = producer.get(name).filter(|_| !stops(name))
            && found.insert(node)
        {
            open.extend(graph.node[node].input.iter().map(String::as_str));
        }
    }
    found.into_iter().collect()
}
