//! The graph divided into layers: the work, memory and synchronisation of each, independent of the devices.

use std::collections::BTreeSet;

use stagewright_core::document::Pass;

use super::attention::Attention;
use super::experts::Experts;
use super::kinds::{Kinds, colocated, size};
use super::sharding::{self, Conversion};
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

/// A layer.
#[derive(Debug, Default)]
pub(super) struct Layer {
    pub(super) forward: Vec<usize>,
    pub(super) backward: Vec<usize>,
    pub(super) updates: Vec<usize>,
    pub(super) conversions: Vec<Conversion>,
    /// Bytes that the layer's dispatches and combines exchange with experts, each in a collective of its own.
    pub(super) exchanges: Vec<f64>,
    pub(super) parameters: Divided,
    pub(super) gradients: Divided,
    pub(super) optimizer: Divided,
    /// Bytes of forward tensors that the layer's backward operators read, and of declared activations.
    pub(super) stashed: f64,
    /// Bytes of forward tensors that the layer reads from other layers.
    pub(super) inputs: f64,
    /// Bytes that the layer's products write.
    pub(super) products: f64,
    /// Maximum bytes that a backward operator reads and writes besides forward tensors and gradients of parameters,
    /// with its declared workspace.
    pub(super) workspace: f64,
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
            parameters,
            gradients,
            optimizer,
            stashed,
            inputs,
            products,
            workspace,
        } = self;
        let mut figures = vec![conversions.len() as u64, exchanges.len() as u64];
        figures.extend(conversions.iter().flat_map(Conversion::figures));
        let divided =
            [parameters, gradients, optimizer].into_iter().flat_map(|amount| amount.parts.as_flattened());
        let amounts = exchanges.iter().chain(divided).chain([stashed, inputs, products, workspace]);
        figures.extend(amounts.map(|amount| amount.to_bits()));
        figures
    }
}

/// The layers of a graph, and the role of its operators in the cost model.
#[derive(Debug)]
pub(super) struct Model<'a> {
    pub(super) graph: &'a Graph<'a>,
    pub(super) kinds: Kinds,
    pub(super) attention: Attention,
    pub(super) experts: Experts,
    /// Whether the parameters that an operator reads or updates are split over a tensor-parallel group.
    pub(super) is_split: Vec<bool>,
    /// Whether an operator computes a weight gradient.
    pub(super) is_weight: Vec<bool>,
    pub(super) layer_of: Vec<usize>,
    pub(super) layers: Vec<Layer>,
}

impl<'a> Model<'a> {
    /// Sorts operators, tensors and parameters into `count` layers. O((operators + pins) · log).
    pub(super) fn new(graph: &'a Graph<'a>, layer_of: Vec<usize>, count: usize) -> Self {
        let kinds = Kinds::new(graph);
        let attention = Attention::new(graph, &kinds);
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
        let layers = (0..count).map(|_| Layer::default()).collect();
        let is_weight = weights::operators(graph);
        let mut model = Model { graph, kinds, attention, experts, is_split, is_weight, layer_of, layers };
        model.sort_operators();
        model.sort_parameters();
        model.sort_tensors();
        for conversion in sharding::conversions(graph, &model.kinds, &model.layer_of) {
            model.layers[conversion.layer].conversions.push(conversion);
        }
        for &(operator, bytes) in &model.experts.exchanges {
            model.layers[model.layer_of[operator]].exchanges.push(bytes);
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
                Pass::Update => layer.updates.push(operator),
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
            match graph.pass(tensor.producer) {
                Pass::Forward => {
                    backward.into_iter().for_each(|layer| self.layers[layer].stashed += bytes);
                    for layer in forward.into_iter().filter(|&layer| layer != home) {
                        self.layers[layer].inputs += bytes;
                    }
                    if self.kinds.is_product[tensor.producer] {
                        self.layers[home].products += size(graph, index);
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
            layer.stashed += declared.sum::<f64>();
            let bytes = layer.backward.iter().map(|&operator| working_set(graph, &self.attention, operator));
            layer.workspace = bytes.fold(0.0, f64::max);
        }
    }

    /// Whether the tensors of an operator are inputs of the model, which every stage has.
    pub(super) fn is_input(&self, operator: usize) -> bool {
        self.kinds.is(operator, "input")
    }
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
