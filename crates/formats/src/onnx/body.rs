//! Nodes with a body: `If`, `Loop` and `Scan`.
//!
//! A plan puts a node on one device, so a node with a body is one operator: its FLOP, bytes and launches are
//! sums over the operators inside, times the number of runs. It reads the values that the body reads from
//! outside and the constants inside, once regardless of how often the body runs.
//!
//! | node | runs | outputs |
//! | --- | --- | --- |
//! | `If` with a constant condition | nothing: the nodes of the branch replace it | those of the branch |
//! | any other `If` | the branch with more FLOP, ties by bytes moved | those of that branch; the weights of both are held |
//! | `Loop` | its constant trip count, if its condition is always true | carried values, of constant shape; collected values, with the trips as first axis |
//! | `Scan` | once per slice of its inputs | as for `Loop`, with the trips along the axis that the node names |
//!
//! Inside a loop, a value that changes from trip to trip is not a constant; the condition is known to be true after a
//! trip if that follows from its being true before the trip. A body moves more bytes here than it would as a graph of
//! its own, since its operators share no kernels.

use std::collections::{BTreeMap, BTreeSet};

use stagewright_core::document::Precision;

use super::proto::tensor_proto::DataType;
use super::proto::{GraphProto, NodeProto};
use super::value::{LARGEST_DIM, Value, precision};
use super::walk::{Operator, Origin, Walk, draws, is_named_anew};
use super::work::is_amount;
use crate::code::{M002, M011};
use crate::error::{InputError, Result};

/// Deepest nesting of bodies.
const DEEPEST: usize = 16;

/// Figures of an operator with a body that do not follow from its own shapes.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Body {
    /// Kernels that the operator launches.
    pub(super) launches: f64,
    /// Precision of most of the operator's work.
    pub(super) precision: Option<Precision>,
    /// Largest number of bytes that an operator inside the body reads and makes.
    pub(super) workspace: f64,
}

/// Totals of a body that runs once.
struct Walked {
    flop: f64,
    bytes_moved: f64,
    launches: f64,
    workspace: f64,
    /// FLOP by precision.
    precisions: BTreeMap<Precision, f64>,
    /// Whether an operator of the body is random.
    draws: bool,
    /// Values that the body reads from outside, and constants inside.
    reads: BTreeSet<usize>,
    /// Outputs of the body.
    outputs: Vec<usize>,
}

/// Number of runs of a body, if known.
enum Trips {
    Known(u64),
    /// The trip count is not a constant.
    Uncounted,
    /// The loop condition depends on data.
    Conditional,
}

impl<'a> Walk<'a> {
    /// Handles a node with a body; `inputs` are its inputs.
    pub(super) fn with_body(
        &mut self,
        path: &str,
        node: &'a NodeProto,
        inputs: Vec<Option<usize>>,
    ) -> Result<()> {
        if self.scopes.len() > DEEPEST {
            let help = "check the program that wrote it";
            let message = format!("bodies are nested deeper than {DEEPEST} levels");
            return Err(InputError::at_path(M011, self.label, path, message, help));
        }
        match node.op_type() {
            "If" => self.branches(path, node, inputs),
            "Loop" => self.looped(path, node, inputs),
            "Scan" => self.scanned(path, node, inputs),
            kind => {
                let help = "remove the bodies from the model, or cut it before the node: a plan needs the cost of \
                            every node";
                let message = format!("the node has a body that `{kind}` runs an unknown number of times");
                Err(InputError::at_path(M011, self.label, path, message, help))
            }
        }
    }

    fn graph_of(&self, path: &str, node: &'a NodeProto, name: &str) -> Result<&'a GraphProto> {
        let attribute = node.attribute.iter().find(|attribute| attribute.name() == name);
        match attribute.and_then(|attribute| attribute.g.as_ref()) {
            Some(graph) => Ok(graph),
            None => Err(self.contradiction(path, &format!("the attribute `{name}` is not a graph"))),
        }
    }

    /// The number in a value of one element, if known.
    fn number(&self, value: Option<usize>) -> Option<f64> {
        match self.walked.values[value?].value.content.as_deref()? {
            [number] => Some(*number),
            _ => None,
        }
    }

    fn branches(&mut self, path: &str, node: &'a NodeProto, inputs: Vec<Option<usize>>) -> Result<()> {
        let condition = inputs.first().copied().flatten();
        if let Some(number) = self.number(condition) {
            let name = if number == 0.0 { "else_branch" } else { "then_branch" };
            let graph = self.graph_of(path, node, name)?;
            self.enter(graph);
            self.graph(&format!("{path}.{name}"), graph)?;
            let outputs = self.ends(path, graph)?;
            self.scopes.pop();
            for (name, value) in node.output.iter().zip(outputs).filter(|(name, _)| !name.is_empty()) {
                self.name(path, name, value)?;
            }
            return Ok(());
        }
        let mut chosen: Option<Walked> = None;
        let mut reads = BTreeSet::new();
        let mut has_lots = false;
        for name in ["then_branch", "else_branch"] {
            let graph = self.graph_of(path, node, name)?;
            let branch = self.body(&format!("{path}.{name}"), graph, Vec::new())?;
            reads.extend(&branch.reads);
            has_lots |= branch.draws;
            let work = |walked: &Walked| (walked.flop, walked.bytes_moved);
            if chosen.as_ref().is_none_or(|chosen| work(&branch) > work(chosen)) {
                chosen = Some(branch);
            }
        }
        let Some(branch) = chosen.map(|branch| Walked { reads, draws: has_lots, ..branch }) else {
            return Ok(());
        };
        let outputs = branch.outputs.iter().map(|&value| self.without_content(value)).collect();
        self.operator(path, node, inputs, branch, 1, outputs)
    }

    fn looped(&mut self, path: &str, node: &'a NodeProto, actual: Vec<Option<usize>>) -> Result<()> {
        let graph = self.graph_of(path, node, "body")?;
        let (limit, condition) = (actual.first().copied().flatten(), actual.get(1).copied().flatten());
        let begins = match condition {
            None => Some(1.0),
            condition => self.number(condition),
        };
        let flag = Value::new(DataType::Bool as i32, Vec::new());
        let counter = Value::new(DataType::Int64 as i32, Vec::new());
        let mut inputs = vec![counter, flag.with(begins.map(|begins| vec![begins]))];
        let carried = actual.get(2..).unwrap_or_default();
        if carried.len() + 2 != graph.input.len() || carried.len() + 1 > graph.output.len() {
            let why =
                format!("it carries {} values, but its body has {} inputs", carried.len(), graph.input.len());
            return Err(self.contradiction(path, &why));
        }
        for &value in carried {
            match value {
                Some(value) => inputs.push(self.without_content(value)),
                None => return Err(self.contradiction(path, "a loop-carried value is missing")),
            }
        }
        let body = self.body(&format!("{path}.body"), graph, inputs)?;
        let goes_on = self.number(body.outputs.first().copied());
        let trips = match self.trips(limit, begins, goes_on) {
            Trips::Known(trips) => trips,
            open => return Err(self.open(path, limit, &open)),
        };
        let mut outputs = Vec::with_capacity(body.outputs.len());
        for (place, &made) in body.outputs.iter().enumerate().skip(1) {
            let Some(&before) = carried.get(place - 1) else {
                outputs.push(self.collected(made, trips, 0));
                continue;
            };
            let before = before.map(|before| self.without_content(before));
            let value = self.without_content(made);
            outputs.push(self.carried(path, &graph.output[place], before, value, trips)?);
        }
        self.operator(path, node, actual, body, trips, outputs)
    }

    fn scanned(&mut self, path: &str, node: &'a NodeProto, actual: Vec<Option<usize>>) -> Result<()> {
        let graph = self.graph_of(path, node, "body")?;
        let call = self.call(node, &actual);
        if call.opset < 9 {
            let help = format!(
                "convert the model with: python3 -c \"import onnx, onnx.version_converter as v; \
                 onnx.save(v.convert_version(onnx.load('{}'), 13), 'converted.onnx')\"",
                self.label
            );
            let message = "a Scan of operator set 8 has data-dependent lengths";
            return Err(InputError::at_path(M011, self.label, path, message, help));
        }
        let scans = call.size("num_scan_inputs").and_then(|count| usize::try_from(count).ok());
        let states = scans.and_then(|scans| actual.len().checked_sub(scans).filter(|_| scans > 0));
        let axes = |name: &str| call.ints(name).map_or_else(Vec::new, <[i64]>::to_vec);
        let (input_axes, output_axes) = (axes("scan_input_axes"), axes("scan_output_axes"));
        let Some(states) =
            states.filter(|&states| states <= graph.output.len() && actual.len() == graph.input.len())
        else {
            let why = format!(
                "{} inputs, {scans:?} of them scanned, for a body with {} inputs",
                actual.len(),
                graph.input.len()
            );
            return Err(self.contradiction(path, &why));
        };
        let (inputs, trips) = self.slices(path, &actual, states, &input_axes)?;
        let befores: Vec<Value> = inputs[..states].to_vec();
        let body = self.body(&format!("{path}.body"), graph, inputs)?;
        let mut outputs = Vec::with_capacity(body.outputs.len());
        for (place, &made) in body.outputs.iter().enumerate() {
            let value = self.without_content(made);
            if let Some(before) = befores.get(place) {
                outputs.push(self.carried(path, &graph.output[place], Some(before.clone()), value, trips)?);
                continue;
            }
            let axis = output_axes.get(place - states).copied().unwrap_or(0);
            match axis_of(axis, value.rank() + 1) {
                Some(axis) => outputs.push(self.collected(made, trips, axis)),
                None => return Err(self.contradiction(path, &format!("output {place} has no axis {axis}"))),
            }
        }
        self.operator(path, node, actual, body, trips, outputs)
    }

    /// Inputs of the body of a scan, and the number of its trips. Inputs from `states` on are scanned along their axes.
    fn slices(
        &self,
        path: &str,
        actual: &[Option<usize>],
        states: usize,
        axes: &[i64],
    ) -> Result<(Vec<Value>, u64)> {
        let mut inputs = Vec::with_capacity(actual.len());
        let mut trips = None;
        for (place, value) in actual.iter().enumerate() {
            let Some(value) = value.map(|value| self.without_content(value)) else {
                return Err(self.contradiction(path, "an input is missing"));
            };
            if place < states {
                inputs.push(value);
                continue;
            }
            let axis = axes.get(place - states).copied().unwrap_or(0);
            let axis = axis_of(axis, value.rank()).filter(|&axis| {
                let size = value.dims[axis];
                *trips.get_or_insert(size) == size
            });
            let Some(axis) = axis else {
                let why = format!(
                    "input {place} of shape {:?} has no axis to scan, or one of another length",
                    value.dims
                );
                return Err(self.contradiction(path, &why));
            };
            let mut dims = value.dims;
            dims.remove(axis);
            inputs.push(Value::new(value.elem, dims));
        }
        Ok((inputs, trips.unwrap_or(0)))
    }

    /// Number of trips of a loop, from its trip count and from its condition before the first trip and after each trip,
    /// if known.
    fn trips(&self, limit: Option<usize>, begins: Option<f64>, goes_on: Option<f64>) -> Trips {
        let count = self
            .number(limit)
            .filter(|count| *count <= LARGEST_DIM as f64)
            .map(|count| count.max(0.0) as u64);
        match (begins, goes_on, count) {
            (Some(0.0), _, _) => Trips::Known(0),
            (Some(_), Some(0.0), count) => Trips::Known(count.unwrap_or(1).min(1)),
            (_, _, Some(0)) => Trips::Known(0),
            (Some(_), Some(_), Some(count)) => Trips::Known(count),
            (Some(_), Some(_), None) => Trips::Uncounted,
            _ => Trips::Conditional,
        }
    }

    /// Error of a loop with an unknown trip count, with a hint for making it known.
    fn open(&self, path: &str, limit: Option<usize>, trips: &Trips) -> InputError {
        let input = limit.and_then(|limit| self.input_behind(limit));
        let (why, help) = match (trips, input) {
            (Trips::Conditional, _) => (
                "its loop condition depends on data",
                "export the model with a loop that ends after a fixed number of steps, as a `for` over a range does, \
                 or with the loop unrolled"
                    .to_owned(),
            ),
            (_, Some(name)) => (
                "its trip count is not a constant",
                format!(
                    "it comes from the input `{name}`: make that a constant N with: python3 -c \"import onnx, numpy; \
                     m = onnx.load('{}'); m.graph.initializer.append(onnx.numpy_helper.from_array(numpy.array(N), \
                     '{name}')); onnx.save(m, 'fixed.onnx')\"",
                    self.label
                ),
            ),
            (_, None) => (
                "its trip count is not a constant",
                "export the model with a fixed number of steps, or with the loop unrolled".to_owned(),
            ),
        };
        let message = format!("the trip count of the loop is unknown: {why}");
        InputError::at_path(M011, self.label, path, message, help)
    }

    /// Name of the model input that a value is a view of, if it is safe in a command.
    fn input_behind(&self, mut value: usize) -> Option<&'a str> {
        loop {
            let entry = &self.walked.values[value];
            match entry.origin {
                Origin::Input => {
                    let is_plain = |c: char| c.is_alphanumeric() || "_-./:".contains(c);
                    return Some(entry.name).filter(|name| name.chars().all(is_plain));
                }
                Origin::Operator(operator) => {
                    let operator = self.walked.operators.get(operator)?;
                    if !is_named_anew(operator.node.op_type()) && operator.node.op_type() != "Cast" {
                        return None;
                    }
                    value = operator.inputs.first().copied().flatten()?;
                }
                _ => return None,
            }
        }
    }

    /// A carried value after a loop; its shape must not change if there is a second trip.
    fn carried(
        &self,
        path: &str,
        output: &super::proto::ValueInfoProto,
        before: Option<Value>,
        after: Value,
        trips: u64,
    ) -> Result<Value> {
        match before {
            Some(before) if trips == 0 => Ok(before),
            Some(before) if trips > 1 && before.dims != after.dims => {
                let message = format!(
                    "the loop-carried value `{}` changes shape from {:?} to {:?}: every iteration has a different \
                     cost",
                    output.name(),
                    before.dims,
                    after.dims
                );
                let help = "export the model with the loop unrolled, or with a buffer of the final length that \
                            iterations write into";
                Err(InputError::at_path(M011, self.label, path, message, help))
            }
            _ => Ok(after),
        }
    }

    /// A value that a loop collects, one per trip.
    fn collected(&self, made: usize, trips: u64, axis: usize) -> Value {
        let value = &self.walked.values[made].value;
        let mut dims = value.dims.clone();
        dims.insert(axis, trips);
        Value::new(value.elem, dims)
    }

    /// A value without its content, which changes from trip to trip.
    fn without_content(&self, value: usize) -> Value {
        let value = &self.walked.values[value].value;
        Value::new(value.elem, value.dims.clone())
    }

    /// The outputs of a graph whose scope is open.
    fn ends(&self, path: &str, graph: &'a GraphProto) -> Result<Vec<usize>> {
        let end = |output: &super::proto::ValueInfoProto| {
            self.find(output.name()).ok_or_else(|| {
                let message = format!("no node of its body produces the output `{}`", output.name());
                let help = "check the program that wrote the model";
                InputError::at_path(M002, self.label, path, message, help)
            })
        };
        graph.output.iter().map(end).collect()
    }

    /// Walks a body and sums its operators, which are not added to the model.
    fn body(&mut self, path: &str, graph: &'a GraphProto, inputs: Vec<Value>) -> Result<Walked> {
        let (first_value, first_operator) = (self.walked.values.len(), self.walked.operators.len());
        self.enter(graph);
        for (info, value) in graph.input.iter().zip(inputs) {
            // A known condition is a constant; no other input keeps its content.
            let root = self.walked.values.len();
            let origin = if value.content.is_some() { Origin::Constant { root } } else { Origin::Body };
            self.add(&format!("{path}.input"), info.name(), value, origin)?;
        }
        self.graph(path, graph)?;
        let outputs = self.ends(path, graph)?;
        self.scopes.pop();
        let walked = self.sum(first_value, first_operator, outputs);
        self.walked.operators.truncate(first_operator);
        for entry in &mut self.walked.values[first_value..] {
            if matches!(entry.origin, Origin::Operator(_)) {
                entry.origin = Origin::Body;
            }
        }
        Ok(walked)
    }

    /// Totals of a body, whose values and operators are the last that were recorded.
    fn sum(&self, first_value: usize, first_operator: usize, outputs: Vec<usize>) -> Walked {
        let mut walked = Walked {
            flop: 0.0,
            bytes_moved: 0.0,
            launches: 0.0,
            workspace: 0.0,
            precisions: BTreeMap::new(),
            draws: false,
            reads: BTreeSet::new(),
            outputs,
        };
        let values = &self.walked.values;
        let is_outside =
            |&value: &usize| value < first_value || matches!(values[value].origin, Origin::Constant { .. });
        for operator in &self.walked.operators[first_operator..] {
            walked.flop += operator.flop.unwrap_or(0.0);
            walked.bytes_moved += operator.bytes_moved;
            walked.draws |= draws(operator.node.op_type());
            walked.reads.extend(operator.reads.iter().copied().filter(|value| is_outside(value)));
            let touched = operator.reads.iter().chain(&operator.outputs).copied();
            let bytes: f64 = touched
                .filter(|value| !is_outside(value))
                .filter_map(|value| values[value].value.bytes())
                .sum();
            let inner = operator.body.as_ref();
            walked.workspace = walked.workspace.max(bytes + inner.map_or(0.0, |body| body.workspace));
            walked.launches += match inner {
                Some(body) => body.launches,
                None if is_named_anew(operator.node.op_type()) => 0.0,
                None => 1.0,
            };
            let own = || {
                let named = operator.inputs.iter().flatten().chain(&operator.outputs);
                named.copied().find_map(|value| precision(values[value].value.elem))
            };
            if let Some(precision) = inner.map_or_else(own, |body| body.precision) {
                *walked.precisions.entry(precision).or_default() += operator.flop.unwrap_or(0.0);
            }
        }
        walked.reads.extend(walked.outputs.iter().copied().filter(is_outside));
        walked
    }

    /// Adds the operator of a node with a body, or the constants that it makes.
    fn operator(
        &mut self,
        path: &str,
        node: &'a NodeProto,
        mut inputs: Vec<Option<usize>>,
        body: Walked,
        trips: u64,
        outputs: Vec<Value>,
    ) -> Result<()> {
        let own: BTreeSet<usize> = inputs.iter().copied().flatten().collect();
        inputs.extend(body.reads.difference(&own).copied().map(Some));
        let reads: Vec<usize> = own.union(&body.reads).copied().collect();
        let outputs: Vec<(&'a str, Value)> = node
            .output
            .iter()
            .map(String::as_str)
            .zip(outputs)
            .filter(|(name, _)| !name.is_empty())
            .collect();
        if !body.draws && self.all_constant(reads.iter().copied()) {
            for (name, value) in outputs {
                self.folded(path, name, value, &inputs)?;
            }
            return Ok(());
        }
        let times = trips as f64;
        let (flop, bytes_moved) = (times * body.flop, times * body.bytes_moved);
        if !is_amount(flop) || !is_amount(bytes_moved) {
            return Err(self.unbounded(path));
        }
        let main = body.precisions.iter().max_by(|a, b| a.1.total_cmp(b.1));
        let summary = Body {
            launches: times * body.launches,
            precision: main.map(|(&precision, _)| precision),
            workspace: if trips == 0 { 0.0 } else { body.workspace },
        };
        let operator = self.walked.operators.len();
        let made = (self.walked.values.len()..).take(outputs.len()).collect();
        self.walked.operators.push(Operator {
            node,
            inputs,
            reads,
            outputs: made,
            flop: Some(flop),
            bytes_moved,
            kernels: Vec::new(),
            unread: 0.0,
            body: Some(summary),
        });
        for (name, value) in outputs {
            self.add(path, name, value, Origin::Operator(operator))?;
        }
        Ok(())
    }
}

/// Axis counted from 0; the file may count from the end. `None` if there is no such axis.
fn axis_of(axis: i64, rank: usize) -> Option<usize> {
    let from_start = if axis < 0 { axis.checked_add(i64::try_from(rank).ok()?)? } else { axis };
    usize::try_from(from_start).ok().filter(|&axis| axis < rank)
}
