//! Cutting a model at the boundaries of a placement.
//!
//! A *segment* is a part of a model that a device runs without interruption. If tensors between devices form no cycle,
//! every device has one segment. Otherwise a device has a segment for each *level* of its operators: the largest number
//! of device changes on any path to an operator. A tensor from one segment to another never goes to a lower level, and
//! on the same device always to a higher one, so the segments have an order in which all inputs are available.
//!
//! Nodes that depend on constants and shapes alone are not placed: every segment that reads their outputs has its own
//! copies of them. Inputs of the model are on every device that reads them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use prost::Message;
use stagewright_formats::onnx::proto::tensor_shape_proto::{Dimension, dimension};
use stagewright_formats::onnx::proto::type_proto::{self, Tensor as TensorKind};
use stagewright_formats::onnx::proto::{
    GraphProto, ModelProto, NodeProto, TensorShapeProto, TypeProto, ValueInfoProto,
};
use stagewright_formats::onnx::{TensorType, Whole, own_opset, reads_type_alone};

use crate::error::{Result, RunError};
use crate::protocol::{Segment, SegmentInput, SegmentOutput};
use crate::tensor::element;

/// A cut model: files in a folder, and the tensors that their processes exchange.
#[derive(Debug, Clone)]
pub struct Cut {
    /// The segments of each device, in an order in which they can run.
    pub devices: Vec<Vec<Segment>>,
    /// Tensors that cross devices.
    pub transfers: Vec<Transfer>,
}

/// A tensor that is sent from one device to another.
#[derive(Debug, Clone, PartialEq)]
pub struct Transfer {
    /// Number of the value.
    pub value: u32,
    /// Name of the tensor in the model.
    pub name: String,
    /// The device that makes the tensor.
    pub from: usize,
    /// The devices that read the tensor.
    pub to: Vec<usize>,
    /// Size of the tensor.
    pub bytes: f64,
}

/// Segments by device and level.
type Key = (usize, usize);

/// Inputs and outputs of the nodes of a model.
struct Flow<'a> {
    whole: &'a Whole,
    graph: &'a GraphProto,
    /// Names that each node reads, including those read inside its bodies.
    reads: Vec<Vec<&'a str>>,
    /// Names that each node reads, except those of which it reads only the type.
    needs: Vec<Vec<&'a str>>,
    /// The node that makes a value.
    producer: BTreeMap<&'a str, usize>,
    constants: BTreeSet<&'a str>,
}

impl<'a> Flow<'a> {
    fn new(whole: &'a Whole) -> Result<Flow<'a>> {
        let graph =
            whole.model.graph.as_ref().ok_or_else(|| RunError::NotCuttable("it has no graph".into()))?;
        let named = whole.operators.iter().flatten().count();
        if named < whole.count {
            let inside = whole.count - named;
            return Err(RunError::NotCuttable(format!("{inside} of its operators are in branches of `If`")));
        }
        if let Some((node, version)) = of_another_set(&graph.node) {
            let node = node.name.as_ref().filter(|name| !name.is_empty()).or(node.output.first());
            return Err(RunError::OtherOperatorSet { node: node.cloned().unwrap_or_default(), version });
        }
        let mut producer = BTreeMap::new();
        for (index, node) in graph.node.iter().enumerate() {
            node.output.iter().filter(|name| !name.is_empty()).for_each(|name| {
                producer.insert(name.as_str(), index);
            });
        }
        let sparse = graph.sparse_initializer.iter().filter_map(|tensor| tensor.values.as_ref());
        let constants = graph.initializer.iter().chain(sparse).map(|tensor| tensor.name()).collect();
        let reads = graph.node.iter().map(|node| read_names(node, true)).collect();
        let needs = graph.node.iter().map(|node| read_names(node, false)).collect();
        Ok(Flow { whole, graph, reads, needs, producer, constants })
    }

    /// Type of a value.
    fn kind(&self, name: &str) -> Result<&'a TensorType> {
        let known = self.whole.types.get(name).filter(|kind| element(kind.elem).is_some());
        known.ok_or_else(|| {
            RunError::NotCuttable(format!("the type of `{name}` is unknown, or has no fixed size"))
        })
    }

    /// The operators that a node reads from.
    fn operators_before(&self, node: usize) -> impl Iterator<Item = usize> {
        let makers = self.needs[node].iter().filter_map(|name| self.producer.get(name).copied());
        makers.filter(|&maker| self.whole.operators[maker].is_some())
    }

    /// An input of a segment or of the whole model.
    fn input(&self, name: &str, value: Option<u32>) -> Result<SegmentInput> {
        let kind = self.kind(name)?;
        Ok(SegmentInput { name: name.to_owned(), value, elem: kind.elem, dims: kind.dims.clone() })
    }
}

/// The first node, including those inside bodies, that needs a version of an operator set other than the model's, and
/// that version.
fn of_another_set(nodes: &[NodeProto]) -> Option<(&NodeProto, i64)> {
    nodes.iter().find_map(|node| {
        let own = own_opset(node).map(|version| (node, version));
        own.or_else(|| bodies(node).find_map(|body| of_another_set(&body.node)))
    })
}

/// Bodies of a node.
fn bodies(node: &NodeProto) -> impl Iterator<Item = &GraphProto> {
    node.attribute.iter().flat_map(|attribute| attribute.g.iter().chain(&attribute.graphs))
}

/// Names that a node reads, each once, in order. Names of which it reads only the type are included if `types` is true.
fn read_names(node: &NodeProto, types: bool) -> Vec<&str> {
    let inputs = node.input.iter().enumerate().filter(|&(place, _)| types || !reads_type_alone(node, place));
    let mut names: Vec<&str> = inputs.map(|(_, name)| name.as_str()).collect();
    bodies(node).for_each(|body| outer_names(body, types, &mut names));
    let mut seen = BTreeSet::new();
    names.retain(|name| !name.is_empty() && seen.insert(*name));
    names
}

/// Names that a body reads from outside.
fn outer_names<'a>(body: &'a GraphProto, types: bool, names: &mut Vec<&'a str>) {
    let made = body.node.iter().flat_map(|node| &node.output);
    let given = body
        .input
        .iter()
        .map(|input| input.name())
        .chain(body.initializer.iter().map(|tensor| tensor.name()));
    let own: BTreeSet<&str> = made.map(String::as_str).chain(given).collect();
    let outputs = body.output.iter().map(|output| output.name());
    names.extend(
        body.node
            .iter()
            .flat_map(|node| read_names(node, types))
            .chain(outputs)
            .filter(|name| !own.contains(name)),
    );
}

/// Cuts a model whose weights have been gathered, and writes its segments to a folder. `placement` maps every operator
/// to the number of its device. Takes O(nodes · segments) time at most.
///
/// # Errors
/// If operators of the placement are not nodes of the model, types of values between segments are unknown, or a file
/// cannot be written.
pub fn cut(whole: &Whole, placement: &BTreeMap<String, usize>, devices: usize, folder: &Path) -> Result<Cut> {
    let flow = Flow::new(whole)?;
    let mut device = Vec::with_capacity(flow.graph.node.len());
    for name in &whole.operators {
        device.push(match name {
            None => None,
            Some(name) => Some(*placement.get(name).ok_or_else(|| {
                RunError::NotCuttable(format!("the plan has no device for its operator `{name}`"))
            })?),
        });
    }
    let keys = keys(&flow, &device, devices);
    let mut segments = Segments::new();
    for (node, key) in keys.iter().enumerate() {
        if let Some((device, level)) = *key {
            segments.entry((level, device)).or_default().push(node);
        }
    }
    let (readers, run) = readers(&flow, &keys, &segments);
    let mut cutting = Cutting {
        outputs: flow.graph.output.iter().map(|output| output.name()).zip(0..).collect(),
        flow: &flow,
        readers,
        numbers: BTreeMap::new(),
        transfers: Vec::new(),
    };
    let mut segments_of = vec![Vec::new(); devices];
    for (&(level, device), nodes) in &segments {
        let path = folder.join(format!("segment-{device}-{level}.onnx"));
        let needed = with_constants(&flow, &run[&(level, device)]);
        segments_of[device].push(cutting.segment((device, level), nodes, &needed, path)?);
    }
    Ok(Cut { devices: segments_of, transfers: cutting.transfers })
}

/// Nodes of segments, by level and device.
type Segments = BTreeMap<(usize, usize), Vec<usize>>;

/// The segments that read each value, except the one that produces it.
type Readers<'a> = BTreeMap<&'a str, BTreeSet<Key>>;

/// Readers of each value, and all nodes that each segment runs, including the views that it reads.
fn readers<'a>(flow: &Flow<'a>, keys: &[Option<Key>], segments: &Segments) -> (Readers<'a>, Segments) {
    let mut readers = Readers::new();
    let mut run = Segments::new();
    for (&(level, device), nodes) in segments {
        let nodes = with_views(flow, keys, device, nodes);
        for name in nodes.iter().flat_map(|&node| &flow.needs[node]) {
            let maker = flow.producer.get(name).filter(|&maker| nodes.binary_search(maker).is_err());
            if maker.is_some_and(|&maker| keys[maker].is_some()) {
                readers.entry(name).or_default().insert((device, level));
            }
        }
        run.insert((level, device), nodes);
    }
    (readers, run)
}

/// A model that is being cut, segment by segment.
struct Cutting<'f, 'a> {
    flow: &'f Flow<'a>,
    readers: Readers<'a>,
    /// Outputs of the model.
    outputs: BTreeMap<&'a str, u32>,
    /// Numbers of the values between segments.
    numbers: BTreeMap<&'a str, u32>,
    transfers: Vec<Transfer>,
}

impl<'a> Cutting<'_, 'a> {
    /// Writes a segment of some nodes; `needed` contains them and the views that they read.
    fn segment(&mut self, key: Key, nodes: &[usize], needed: &[usize], path: PathBuf) -> Result<Segment> {
        let leaving = self.leaving(nodes);
        let mut inputs = Vec::new();
        for name in outside(self.flow, needed) {
            // Any content will do for a value of which only the shape or the type is read.
            let is_read = self.readers.get(name).is_some_and(|by| by.contains(&key));
            let value = self.numbers.get(name).copied().filter(|_| is_read);
            inputs.push(self.flow.input(name, value)?);
        }
        let mut outputs = Vec::new();
        for name in leaving {
            outputs.push(self.output(name, key.0)?);
        }
        let names: Vec<&str> = outputs.iter().map(|output| output.name.as_str()).collect();
        write(self.flow, needed, &inputs, &names, &path)?;
        Ok(Segment { model: path, inputs, outputs })
    }

    /// Values of some nodes that other segments read or that are outputs of the model.
    fn leaving(&self, nodes: &[usize]) -> Vec<&'a str> {
        let outputs = |&node: &usize| self.flow.graph.node[node].output.iter().map(String::as_str);
        let made: Vec<&str> = nodes.iter().flat_map(outputs).filter(|name| !name.is_empty()).collect();
        let leaves = |name: &&str| self.readers.contains_key(name) || self.outputs.contains_key(name);
        let mut leaving: Vec<&str> = made.iter().copied().filter(leaves).collect();
        if leaving.is_empty() {
            // Operators without readers run as well, so one of their values becomes an output.
            leaving.extend(made.last());
        }
        leaving
    }

    /// Numbers a value that a device makes, and finds the devices and segments that read it.
    fn output(&mut self, name: &'a str, device: usize) -> Result<SegmentOutput> {
        let value = self.numbers.len() as u32;
        self.numbers.insert(name, value);
        let by = self.readers.get(name).cloned().unwrap_or_default();
        let to: BTreeSet<usize> = by.iter().map(|key| key.0).filter(|&to| to != device).collect();
        let kind = self.flow.kind(name)?;
        if !to.is_empty() {
            let count: f64 = kind.dims.iter().map(|&dim| dim as f64).product();
            let bytes =
                element(kind.elem).and_then(|element| element.byte_size(1)).unwrap_or(1) as f64 * count;
            let to = to.iter().copied().collect();
            self.transfers.push(Transfer { value, name: name.to_owned(), from: device, to, bytes });
        }
        Ok(SegmentOutput {
            name: name.to_owned(),
            value,
            readers: by.iter().filter(|reader| reader.0 == device).count(),
            to: to.into_iter().collect(),
            output: self.outputs.get(name).copied(),
        })
    }
}

/// Writes the whole model to a file, its nodes named after their operators, and returns its inputs.
///
/// # Errors
/// If the type of an input is unknown, or the file cannot be written.
pub fn write_whole(whole: &Whole, path: &Path) -> Result<Vec<SegmentInput>> {
    let flow = Flow::new(whole)?;
    let nodes: Vec<usize> = (0..flow.graph.node.len()).collect();
    let outputs: Vec<&str> = flow.graph.output.iter().map(|output| output.name()).collect();
    let mut names = outside(&flow, &nodes);
    for &name in &outputs {
        // An output of the model may be one of its inputs, which perhaps no node reads.
        let is_made = flow.producer.contains_key(name) || flow.constants.contains(name);
        if !is_made && !names.contains(&name) {
            names.push(name);
        }
    }
    let inputs: Vec<SegmentInput> =
        names.into_iter().map(|name| flow.input(name, None)).collect::<Result<_>>()?;
    write(&flow, &nodes, &inputs, &outputs, path)?;
    Ok(inputs)
}

/// Device and level of every operator.
fn keys(flow: &Flow<'_>, device: &[Option<usize>], devices: usize) -> Vec<Option<Key>> {
    let mut levels = vec![0_usize; device.len()];
    for node in 0..device.len() {
        if device[node].is_some() {
            let before = flow
                .operators_before(node)
                .map(|maker| levels[maker] + usize::from(device[maker] != device[node]));
            levels[node] = before.max().unwrap_or(0);
        }
    }
    if let Some(order) = order_of_devices(flow, device, devices) {
        return device.iter().map(|device| device.map(|device| (device, order[device]))).collect();
    }
    device.iter().zip(levels).map(|(device, level)| device.map(|device| (device, level))).collect()
}

/// Position of every device in an order in which all tensors go forward; `None` if there is no such order.
fn order_of_devices(flow: &Flow<'_>, device: &[Option<usize>], devices: usize) -> Option<Vec<usize>> {
    let mut after = vec![BTreeSet::new(); devices];
    for (node, to) in device.iter().enumerate() {
        let Some(to) = *to else { continue };
        after[to]
            .extend(flow.operators_before(node).filter_map(|maker| device[maker]).filter(|&from| from != to));
    }
    let mut position = vec![None; devices];
    for place in 0..devices {
        let next = (0..devices).find(|&device| {
            position[device].is_none() && after[device].iter().all(|&before| position[before].is_some())
        })?;
        position[next] = Some(place);
    }
    position.into_iter().collect()
}

/// The nodes of a segment, and the views on other devices that they read, in file order. A view costs nothing, so the
/// plan sends its source: for `DequantizeLinear`, the integers and not the numbers made of them.
fn with_views(flow: &Flow<'_>, keys: &[Option<Key>], device: usize, nodes: &[usize]) -> Vec<usize> {
    let mut all: BTreeSet<usize> = nodes.iter().copied().collect();
    let mut open: Vec<usize> = nodes.to_vec();
    while let Some(node) = open.pop() {
        for name in &flow.needs[node] {
            if let Some(&maker) = flow.producer.get(name)
                && flow.whole.views[maker]
                && keys[maker].is_some_and(|key| key.0 != device)
                && all.insert(maker)
            {
                open.push(maker);
            }
        }
    }
    all.into_iter().collect()
}

/// Nodes and the constant nodes that they read from, in file order.
fn with_constants(flow: &Flow<'_>, nodes: &[usize]) -> Vec<usize> {
    let mut all: BTreeSet<usize> = nodes.iter().copied().collect();
    let mut open: Vec<usize> = nodes.to_vec();
    while let Some(node) = open.pop() {
        for name in &flow.reads[node] {
            if let Some(&maker) = flow.producer.get(name)
                && flow.whole.operators[maker].is_none()
                && all.insert(maker)
            {
                open.push(maker);
            }
        }
    }
    all.into_iter().collect()
}

/// Values that some nodes read but neither make nor hold as constants, in order.
fn outside<'a>(flow: &Flow<'a>, nodes: &[usize]) -> Vec<&'a str> {
    let inside: BTreeSet<usize> = nodes.iter().copied().collect();
    let mut seen = BTreeSet::new();
    let mut names = Vec::new();
    for name in nodes.iter().flat_map(|&node| &flow.reads[node]) {
        let is_inside = flow.producer.get(name).is_some_and(|maker| inside.contains(maker));
        if !is_inside && !flow.constants.contains(name) && seen.insert(*name) {
            names.push(*name);
        }
    }
    names
}

/// Writes a sub-model.
fn write(
    flow: &Flow<'_>,
    nodes: &[usize],
    inputs: &[SegmentInput],
    outputs: &[&str],
    path: &Path,
) -> Result<()> {
    let mut read: BTreeSet<&str> = nodes.iter().flat_map(|&node| flow.reads[node].iter().copied()).collect();
    read.extend(outputs);
    let named = |&node: &usize| {
        let name = flow.whole.operators[node].clone().unwrap_or_else(|| format!("constant {node}"));
        NodeProto { name: Some(name), ..flow.graph.node[node].clone() }
    };
    let output = |name: &&str| {
        let kind = flow.whole.types.get(*name).map(|kind| value_type(kind.elem, None));
        ValueInfoProto { name: Some((*name).to_owned()), r#type: kind, ..ValueInfoProto::default() }
    };
    let graph = GraphProto {
        name: Some("stagewright".into()),
        node: nodes.iter().map(named).collect(),
        initializer: flow
            .graph
            .initializer
            .iter()
            .filter(|tensor| read.contains(tensor.name()))
            .cloned()
            .collect(),
        sparse_initializer: flow
            .graph
            .sparse_initializer
            .iter()
            .filter(|tensor| tensor.values.as_ref().is_some_and(|values| read.contains(values.name())))
            .cloned()
            .collect(),
        input: inputs
            .iter()
            .map(|input| ValueInfoProto {
                name: Some(input.name.clone()),
                r#type: Some(value_type(input.elem, Some(&input.dims))),
                ..ValueInfoProto::default()
            })
            .collect(),
        output: outputs.iter().map(output).collect(),
        ..GraphProto::default()
    };
    let model = ModelProto {
        ir_version: flow.whole.model.ir_version,
        opset_import: flow.whole.model.opset_import.clone(),
        graph: Some(graph),
        ..ModelProto::default()
    };
    std::fs::write(path, model.encode_to_vec())
        .map_err(RunError::io(format!("{} cannot be written", path.display())))
}

fn value_type(elem: i32, dims: Option<&[u64]>) -> TypeProto {
    let dim = |&dim: &u64| Dimension {
        value: Some(dimension::Value::DimValue(dim as i64)),
        ..Dimension::default()
    };
    let shape = dims.map(|dims| TensorShapeProto { dim: dims.iter().map(dim).collect() });
    TypeProto {
        value: Some(type_proto::Value::TensorType(TensorKind { elem_type: Some(elem), shape })),
        ..TypeProto::default()
    }
}

/// Paths of the files that a cut wrote.
pub fn files(cut: &Cut) -> impl Iterator<Item = &PathBuf> {
    cut.devices.iter().flatten().map(|segment| &segment.model)
}
