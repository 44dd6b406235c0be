//! The graph divided into layers: the work, memory and synchronisation of each, independent of the devices.

use std::collections::BTreeSet;

use stagewright_core::document::{Pass, RuntimeDocument};

use super::attention::Attention;
use super::context::{self, Exchange};
use super::experts::Experts;
use super::kinds::{Kinds, colocated, forward_inputs, outputs, size};
use super::membership;
use super::sharding::{self, Conversion, Layout};
use crate::read::Graph;
use crate::score::weights;

/// An amount, split by how it is divided: whether over a tensor-parallel group, and whether it belongs to experts.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Divided {
    /// Amounts by `[is split][is of experts]`.
    parts: [[f64; 2]; 2],
}

impl Divided {
    fn add(&mut self, amount: f64, is_split: bool, is_expert: bool) {
        self.parts[usize::from(is_split)][usize::from(is_expert)] += amount;
    }

    /// The part outside experts and the part of experts on a device that has 1 / `tensor` of what is split and 1 /
    /// `expert` of the experts.
    pub(super) fn per_device(&self, tensor: f64, expert: f64) -> [f64; 2] {
        let [whole, split] = self.parts;
        [whole[0] + split[0] / tensor, (whole[1] + split[1] / tensor) / expert]
    }
}

/// Bytes of activations, by what a device of a tensor-parallel group keeps of them.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Kept {
    /// Bytes of which every device has a part.
    shared: f64,
    /// Bytes that every device has in full.
    whole: f64,
}

impl Kept {
    fn add(&mut self, bytes: f64, is_whole: bool) {
        *(if is_whole { &mut self.whole } else { &mut self.shared }) += bytes;
    }

    /// Bytes on all `tensor` devices.
    pub(super) fn on_all(&self, tensor: f64) -> f64 {
        self.shared + self.whole * tensor
    }

    fn figures(&self) -> [f64; 2] {
        [self.shared, self.whole]
    }
}

/// A layer.
#[derive(Debug, Default)]
pub(super) struct Layer {
    pub(super) forward: Vec<usize>,
    pub(super) backward: Vec<usize>,
    pub(super) updates: Vec<usize>,
    pub(super) conversions: Vec<Conversion>,
    /// Bytes that the layer's dispatches and combines exchange with experts, each in a collective of its own.
    pub(super) exchanges: Vec<f64>,
    /// Exchanges of the attentions of the layer under context parallelism.
    pub(super) attended: Vec<Exchange>,
    pub(super) parameters: Divided,
    pub(super) gradients: Divided,
    pub(super) optimizer: Divided,
    /// Bytes that updates read and write.
    pub(super) moved: Divided,
    /// Bytes of forward tensors that the layer's backward operators read, and of declared activations; with a runtime
    /// also those that norms and the scores of attentions keep.
    pub(super) stashed: Kept,
    /// Bytes of forward tensors that the layer reads from other layers.
    pub(super) inputs: Kept,
    /// Bytes that the layer's products write.
    pub(super) products: Kept,
    /// Maximum bytes that a backward operator reads and writes besides forward tensors and gradients of parameters,
    /// with its declared workspace.
    pub(super) workspace: f64,
    /// Whether a configuration other than `none` is possible.
    pub(super) is_numbered: bool,
    /// Bytes of the workspace of the losses of a runtime.
    pub(super) loss: Kept,
    /// Bytes of the largest tensor that a runtime gathers for the layer.
    pub(super) gathered: f64,
}

impl Layer {
    /// Everything that determines the costs of the layer, except the seconds of its operators.
    pub(super) fn figures(&self) -> Vec<u64> {
        let Layer {
            forward: _,
            backward: _,
            updates: _,
            conversions,
            exchanges,
            attended,
            parameters,
            gradients,
            optimizer,
            moved,
            stashed,
            inputs,
            products,
            workspace,
            is_numbered,
            loss,
            gathered,
        } = self;
        let mut figures = vec![u64::from(*is_numbered), conversions.len() as u64, exchanges.len() as u64];
        figures.extend(conversions.iter().flat_map(Conversion::figures));
        let divided = [parameters, gradients, optimizer, moved]
            .into_iter()
            .flat_map(|amount| amount.parts.as_flattened());
        let kept = [stashed, inputs, products, loss].into_iter().flat_map(Kept::figures);
        let amounts = exchanges.iter().chain(divided).chain([workspace, gathered]).copied().chain(kept);
        figures.extend(amounts.map(f64::to_bits));
        figures.extend(attended.iter().flat_map(Exchange::figures));
        figures
    }
}

/// The layers of a graph, and the role of its operators in the cost model.
#[derive(Debug)]
pub(super) struct Model<'a> {
    pub(super) graph: &'a Graph<'a>,
    pub(super) runtime: Option<&'a RuntimeDocument>,
    pub(super) kinds: Kinds,
    pub(super) attention: Attention,
    pub(super) experts: Experts,
    /// Whether the parameters that an operator reads or updates are split over a tensor-parallel group.
    pub(super) is_split: Vec<bool>,
    /// Whether an operator computes a weight gradient.
    pub(super) is_weight: Vec<bool>,
    /// Whether every device of a tensor-parallel group runs an operator in full.
    pub(super) is_whole: Vec<bool>,
    /// Whether every device of a tensor-parallel group keeps the outputs of an operator in full.
    keeps_whole: Vec<bool>,
    pub(super) layer_of: Vec<usize>,
    pub(super) layers: Vec<Layer>,
}

impl<'a> Model<'a> {
    /// Sorts operators, tensors and parameters into layers with these names. O((operators + pins) · log).
    pub(super) fn new(
        graph: &'a Graph<'a>,
        runtime: Option<&'a RuntimeDocument>,
        layer_of: Vec<usize>,
        names: impl Iterator<Item = &'a str>,
    ) -> Self {
        let kinds = Kinds::new(graph);
        let attention = Attention::new(graph, &kinds, runtime);
        let experts = Experts::new(graph, &kinds);
        let has_split: Vec<bool> = (0..graph.operators.len())
            .map(|operator| kinds.splits_parameters(operator) && kinds.has_parameters[operator])
            .collect();
        // A backward or update operator inherits the property of its forward operator.
        let near_split = colocated(graph, &has_split);
        let is_split = (0..graph.operators.len()).map(|operator| match graph.pass(operator) {
            Pass::Forward => has_split[operator],
            Pass::Backward | Pass::Update => near_split[operator],
        });
        let is_split = is_split.collect();
        let layer = |name| Layer { is_numbered: membership::is_numbered(name), ..Layer::default() };
        let layers = names.map(layer).collect();
        let is_weight = weights::operators(graph);
        let (layouts, conversions) = sharding::shard(graph, &kinds, &layer_of);
        let repeats = runtime.is_some_and(|runtime| !runtime.sequence_parallel);
        let is_in = |all: &[Layout]| -> Vec<bool> {
            layouts
                .iter()
                .map(|layout| repeats && layout.is_some_and(|layout| all.contains(&layout)))
                .collect()
        };
        let is_whole = whole(graph, &kinds, &is_in(&[Layout::Sequence]));
        let keeps_whole = is_in(&[Layout::Sequence, Layout::Partial]);
        let mut model = Model {
            graph,
            runtime,
            kinds,
            attention,
            experts,
            is_split,
            is_weight,
            is_whole,
            keeps_whole,
            layer_of,
            layers,
        };
        model.sort_operators();
        model.sort_parameters();
        model.sort_tensors();
        for conversion in conversions {
            model.layers[conversion.layer].conversions.push(conversion);
        }
        if let Some(runtime) = runtime {
            model.add_runtime(runtime);
        }
        for &(operator, bytes) in &model.experts.exchanges {
            model.layers[model.layer_of[operator]].exchanges.push(bytes);
        }
        let attended =
            context::exchanges(graph, &model.kinds, &model.attention, &model.layer_of, model.layers.len())
                .into_iter();
        for (layer, attended) in attended.enumerate() {
            model.layers[layer].attended = attended;
        }
        model
    }

    fn sort_operators(&mut self) {
        for (operator, document) in self.graph.operators.iter().enumerate() {
            let (is_split, is_expert) = (self.is_split[operator], self.experts.is_expert[operator]);
            let layer = &mut self.layers[self.layer_of[operator]];
            match document.pass {
                Pass::Forward => layer.forward.push(operator),
                Pass::Backward => layer.backward.push(operator),
                Pass::Update => {
                    layer.updates.push(operator);
                    layer.moved.add(document.bytes_moved.unwrap_or(0.0), is_split, is_expert);
                }
            }
            layer.parameters.add(document.parameter_bytes, is_split, is_expert);
            layer.optimizer.add(document.optimizer_bytes, is_split, is_expert);
        }
    }

    /// Adds shared parameters, once to every layer that reads them.
    fn sort_parameters(&mut self) {
        for parameter in &self.graph.parameters {
            let layers: BTreeSet<usize> =
                parameter.readers.iter().map(|&reader| self.layer_of[reader]).collect();
            for layer in layers {
                let readers = parameter.readers.iter().filter(|&&reader| self.layer_of[reader] == layer);
                let is_split = readers.clone().any(|&reader| self.is_split[reader]);
                let is_expert = readers.clone().all(|&reader| self.experts.is_expert[reader]);
                let layer = &mut self.layers[layer];
                layer.parameters.add(parameter.document.bytes, is_split, is_expert);
                layer.optimizer.add(parameter.document.optimizer_bytes, is_split, is_expert);
            }
        }
    }

    fn sort_tensors(&mut self) {
        let graph = self.graph;
        for (index, tensor) in graph.tensors.iter().enumerate() {
            if self.attention.is_hidden[index] {
                continue;
            }
            let bytes = tensor.document.bytes;
            let home = self.layer_of[tensor.producer];
            let readers_in = |pass: Pass| -> BTreeSet<usize> {
                let readers = tensor.consumers.iter().filter(|&&reader| graph.pass(reader) == pass);
                readers.map(|&reader| self.layer_of[reader]).collect()
            };
            let (forward, backward) = (readers_in(Pass::Forward), readers_in(Pass::Backward));
            let is_whole = self.keeps_whole[tensor.producer];
            match graph.pass(tensor.producer) {
                Pass::Forward => {
                    backward.into_iter().for_each(|layer| self.layers[layer].stashed.add(bytes, is_whole));
                    for layer in forward.into_iter().filter(|&layer| layer != home) {
                        self.layers[layer].inputs.add(bytes, is_whole);
                    }
                    if self.kinds.is_product[tensor.producer] {
                        self.layers[home].products.add(size(graph, index), is_whole);
                    }
                }
                Pass::Backward => {
                    let mut seen = BTreeSet::new();
                    // A tensor read by several updates of a layer is attributed to the first of them in the graph.
                    let readers: BTreeSet<usize> = tensor.consumers.iter().copied().collect();
                    for reader in readers {
                        let layer = self.layer_of[reader];
                        if graph.pass(reader) == Pass::Update && seen.insert(layer) {
                            let (split, expert) = (self.is_split[reader], self.experts.is_expert[reader]);
                            self.layers[layer].gradients.add(bytes, split, expert);
                        }
                    }
                }
                Pass::Update => {}
            }
        }
        for layer in &mut self.layers {
            let declared = layer.forward.iter().map(|&operator| graph.operators[operator].activation_bytes);
            layer.stashed.add(declared.sum(), false);
            let bytes = layer.backward.iter().map(|&operator| working_set(graph, &self.attention, operator));
            layer.workspace = bytes.fold(0.0, f64::max);
        }
    }

    /// Adds what a runtime keeps for norms and scores, and its workspaces for losses and gathered tensors.
    fn add_runtime(&mut self, runtime: &RuntimeDocument) {
        let graph = self.graph;
        for layer in &mut self.layers {
            let is_in_memory = |tensor: &usize| !self.attention.is_hidden[*tensor];
            for &operator in &layer.forward {
                let times = match (self.attention.has_scores[operator], self.kinds.is_norm[operator]) {
                    (true, _) => runtime.scores - 1.0,
                    (false, true) => runtime.norms - 1.0,
                    (false, false) => continue,
                };
                let written = outputs(graph, operator).filter(|(tensor, _)| is_in_memory(tensor));
                let largest = written.map(|(_, tensor)| tensor.document.bytes).fold(0.0, f64::max);
                layer.stashed.add(times * largest, self.keeps_whole[operator]);
            }
            let losses = layer.forward.iter().filter(|&&operator| self.kinds.is(operator, "loss"));
            let read: BTreeSet<usize> =
                losses.flat_map(|&loss| forward_inputs(graph, loss)).map(|(tensor, _)| tensor).collect();
            let bytes: f64 = read.into_iter().filter(is_in_memory).map(|tensor| size(graph, tensor)).sum();
            layer.loss.add(runtime.loss * bytes, runtime.whole_loss);
            let gathered = layer.conversions.iter().filter(|conversion| conversion.is_to_whole());
            layer.gathered = gathered.map(|conversion| conversion.bytes).fold(0.0, f64::max);
        }
    }

    /// The place of the first forward operator of each layer; `usize::MAX` without one. Inputs of the model do not count,
    /// since they are placed with their first reader.
    pub(super) fn first_places(&self) -> Vec<usize> {
        let mut first = vec![usize::MAX; self.layers.len()];
        for (operator, &layer) in self.layer_of.iter().enumerate() {
            if self.graph.pass(operator) == Pass::Forward && !self.is_input(operator) {
                first[layer] = first[layer].min(self.graph.work_place[operator]);
            }
        }
        first
    }

    /// Whether the tensors of an operator are inputs of the model, which every stage has.
    pub(super) fn is_input(&self, operator: usize) -> bool {
        self.kinds.is(operator, "input")
    }
}

/// Whether every device of a tensor-parallel group runs an operator in full: the forward operators `is_whole`, and the
/// backward operators that are colocated with one of them and are no products.
fn whole(graph: &Graph, kinds: &Kinds, is_whole: &[bool]) -> Vec<bool> {
    let near = colocated(graph, is_whole).into_iter().enumerate();
    let is_product = |operator: usize| kinds.is_product[operator];
    near.map(|(operator, near)| match graph.pass(operator) {
        Pass::Forward => near,
        Pass::Backward => near && !is_product(operator),
        Pass::Update => false,
    })
    .collect()
}

/// Bytes that a backward operator reads and writes besides forward tensors and gradients of parameters, with its declared
/// workspace.
fn working_set(graph: &Graph, attention: &Attention, operator: usize) -> f64 {
    let is_gradient = |tensor: &usize| {
        let consumers = &graph.tensors[*tensor].consumers;
        consumers.iter().any(|&reader| graph.pass(reader) == Pass::Update)
    };
    let touched = graph.tensors_of[operator].iter().filter(|&&tensor| {
        !attention.is_hidden[tensor]
            && graph.pass(graph.tensors[tensor].producer) == Pass::Backward
            && !is_gradient(&tensor)
    });
    let touched: f64 = touched.map(|&tensor| graph.tensors[tensor].document.bytes).sum();
    touched + graph.operators[operator].workspace_bytes
}
