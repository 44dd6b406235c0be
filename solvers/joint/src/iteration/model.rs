//! Layers of a training graph: work, conversions, and bytes, each linear in the size of a microbatch.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;

use rustc_hash::FxHashMap;
use stagewright_core::document::{ClassDocument, GraphDocument, OperatorDocument, Pass};

use super::error::ModelError;
use super::network::{Network, Operator, Tokens, is_product};
use super::runtime::Runtime;
use super::sharding::{Conversion, Sharding};

/// Maximum number of layers.
const MAX_LAYERS: usize = 2048;

/// Work of an operator on a class of devices.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Work {
    /// Measured seconds.
    Measured(f64),
    Estimated {
        sort: Sort,
        flop: f64,
        /// FLOP per second, at most.
        peak: f64,
        /// Seconds of memory traffic.
        traffic: f64,
        /// Seconds of launches.
        overhead: f64,
    },
}

/// Sorts of operators that runtimes run differently.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Sort {
    Product,
    /// A product in the kernel of an attention, and whether the attention is causal.
    Attention(bool),
    /// An update, and whether it is a product.
    Update(bool),
    /// Any other: whether it is a norm, and whether it is the softmax of an attention that does not run in one kernel.
    Other {
        is_norm: bool,
        is_apart: bool,
    },
}

/// No work, in the kernel of another operator.
const NO_WORK: Work = Work::Measured(0.0);

/// Rates of a device in a runtime.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rates<'r> {
    pub(crate) runtime: &'r Runtime,
    /// Share of the peak that products reach, and that other operators reach.
    pub(crate) efficiency: [f64; 2],
}

impl Work {
    /// Seconds of `share` of the work.
    pub(crate) fn seconds(&self, share: f64, rates: Rates<'_>) -> f64 {
        let Rates { runtime, efficiency } = rates;
        let (sort, flop, peak, traffic, overhead) = match *self {
            Work::Measured(seconds) => return seconds * share,
            Work::Estimated { sort, flop, peak, traffic, overhead } => (sort, flop, peak, traffic, overhead),
        };
        let (computed, passes) = match sort {
            Sort::Product | Sort::Update(_) => (1.0, 1.0),
            Sort::Attention(is_causal) => (if is_causal && !runtime.is_ideal { 0.5 } else { 1.0 }, 1.0),
            Sort::Other { is_norm, is_apart } => {
                let passes = if is_apart { runtime.scores } else { runtime.passes };
                (1.0, passes * if is_norm { runtime.norms } else { 1.0 })
            }
        };
        let slowness = if matches!(sort, Sort::Attention(_)) { runtime.attention } else { 1.0 };
        let is_product = matches!(sort, Sort::Product | Sort::Attention(_) | Sort::Update(true));
        let efficiency = efficiency[usize::from(!is_product)];
        let compute = flop * computed / (peak * efficiency * slowness);
        let traffic = traffic * passes / runtime.memory;
        let launches = if runtime.is_ideal { overhead } else { 0.0 };
        launches + (compute * share).max(traffic * share)
    }
}

/// An operator of a pass.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Pieces {
    pub(crate) work: Work,
    /// Whether it works on parts of the sequence in a tensor-parallel group.
    pub(crate) in_sequence: bool,
    /// Whether it is a product in the kernel of an attention.
    pub(crate) in_attention: bool,
}

/// An update, and how it is divided.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Update {
    pub(crate) work: Work,
    /// Bytes that it moves.
    pub(crate) moved: f64,
    pub(crate) is_split: bool,
    pub(crate) is_expert: bool,
}

/// Bytes by how they are divided: `[expert][split]`.
pub(crate) type Divided = [[f64; 2]; 2];

/// Bytes of activations: of tensors divided by columns, heads or vocabulary, and of all others.
pub(crate) type Activations = [f64; 2];

/// A layer.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Layer {
    pub(crate) name: String,
    /// Whether the layer is one of a stack.
    pub(crate) is_numbered: bool,
    /// Index of the first layer with the same figures.
    pub(crate) class: usize,
    /// Forward operators by device class, and whether each is a product.
    pub(crate) forward: Vec<Vec<(Pieces, bool)>>,
    /// Backward operators other than weight gradients, and weight gradients, by device class.
    pub(crate) backward: Vec<Vec<Pieces>>,
    pub(crate) weights: Vec<Vec<Pieces>>,
    pub(crate) updates: Vec<Vec<Update>>,
    pub(crate) conversions: Vec<Conversion>,
    /// Bytes that experts read from each dispatch, and that each combine reads from experts.
    pub(crate) exchanges: Vec<f64>,
    /// Number of experts of every dispatch.
    pub(crate) experts: Vec<u32>,
    /// Tensors of every attention.
    pub(crate) attentions: Vec<Tokens>,
    pub(crate) parameters: Divided,
    pub(crate) gradients: Divided,
    pub(crate) states: Divided,
    /// Bytes of activations: for the backward pass, of outputs of products, and of inputs from other layers.
    pub(crate) saved: Activations,
    pub(crate) products: Activations,
    pub(crate) inputs: Activations,
    /// Bytes of the results of norms.
    pub(crate) normed: Activations,
    /// Bytes of the results of softmaxes of attentions that do not run in one kernel.
    pub(crate) scored: Activations,
    /// Bytes that losses read.
    pub(crate) loss: f64,
    /// Maximum bytes that a backward operator works on.
    pub(crate) workspace: f64,
}

impl Layer {
    /// A layer without operators.
    fn new(name: String, is_numbered: bool, classes: usize) -> Layer {
        Layer {
            name,
            is_numbered,
            class: 0,
            forward: vec![Vec::new(); classes],
            backward: vec![Vec::new(); classes],
            weights: vec![Vec::new(); classes],
            updates: vec![Vec::new(); classes],
            conversions: Vec::new(),
            exchanges: Vec::new(),
            experts: Vec::new(),
            attentions: Vec::new(),
            parameters: Divided::default(),
            gradients: Divided::default(),
            states: Divided::default(),
            saved: Activations::default(),
            products: Activations::default(),
            inputs: Activations::default(),
            normed: Activations::default(),
            scored: Activations::default(),
            loss: 0.0,
            workspace: 0.0,
        }
    }
}

/// A model divided into layers.
#[derive(Debug, Clone)]
pub(crate) struct Model {
    pub(crate) layers: Vec<Layer>,
    /// Layer of every operator of the graph.
    pub(crate) layer_of: Vec<usize>,
    /// Bytes that cross the boundary before each layer, in the forward and in the backward pass; zero for the first.
    pub(crate) crossing: [Vec<f64>; 2],
    pub(crate) samples: f64,
    /// Numbers of heads, which tensor parallelism divides.
    pub(crate) heads: Vec<u32>,
    /// Tokens of a sample, which context parallelism divides, or what it needs and does not have.
    pub(crate) tokens: Result<u64, &'static str>,
}

/// Device classes by name.
pub(crate) type Classes<'c> = [(&'c str, &'c ClassDocument)];

impl Model {
    /// Layers of a graph; `names` has the layer of every operator, if it has one, and whether the layer is numbered;
    /// `is_fused` states whether an attention runs in one kernel.
    ///
    /// # Errors
    /// If the graph is not a training graph, its layers have no order, or an operator has no time on a class.
    pub(crate) fn new(
        graph: &GraphDocument,
        names: &[Option<(String, bool)>],
        classes: &Classes<'_>,
        is_fused: bool,
    ) -> Result<Model, ModelError> {
        let network = Network::new(graph, is_fused)?;
        let (listed, layer_of) = assign(&network, names)?;
        let sharding = Sharding::new(&network, &layer_of);
        let is_expert = experts(&network);
        // Operators colocated with a split product are split as well.
        let division = Division {
            is_split: network.colocated(&sharding.is_split),
            is_expert: network.colocated(&is_expert),
            in_sequence: network.colocated(&sharding.in_sequence),
        };
        let blank = |(name, is_numbered)| Layer::new(name, is_numbered, classes.len());
        let mut layers: Vec<Layer> = listed.into_iter().map(blank).collect();
        operators(&network, classes, &division, &layer_of, &mut layers)?;
        gradients(&network, &division, &layer_of, &mut layers);
        shared_parameters(&network, &division, &layer_of, &mut layers);
        for (operator, conversions) in sharding.conversions.iter().enumerate() {
            layers[layer_of[operator]].conversions.extend(conversions);
        }
        exchanges(&network, &is_expert, &layer_of, &mut layers);
        for attention in &network.attentions {
            layers[layer_of[attention.softmax]].attentions.push(network.tokens_of(attention));
        }
        activations(&network, &sharding.is_whole, &layer_of, &mut layers);
        let crossing = crossing(&network, &layer_of, layers.len());
        classify(&mut layers);
        let (samples, heads) = (network.samples(), network.heads());
        let tokens = network.divisible_tokens(is_fused);
        Ok(Model { layers, layer_of, crossing, samples, heads, tokens })
    }

    /// Number of experts of every dispatch of the model.
    pub(crate) fn experts(&self) -> impl Iterator<Item = u32> + '_ {
        self.layers.iter().flat_map(|layer| layer.experts.iter().copied())
    }
}

/// How the bytes and the work of every operator are divided.
struct Division {
    is_split: Vec<bool>,
    is_expert: Vec<bool>,
    in_sequence: Vec<bool>,
}

/// Adds the work and bytes of the operators to their layers.
fn operators(
    network: &Network<'_>,
    classes: &Classes<'_>,
    division: &Division,
    layer_of: &[usize],
    layers: &mut [Layer],
) -> Result<(), ModelError> {
    let is_weight_gradient = network.weight_gradients();
    for operator in 0..network.operators() {
        let document = network.document(operator);
        let layer = &mut layers[layer_of[operator]];
        let (is_split, is_expert) = (division.is_split[operator], division.is_expert[operator]);
        layer.parameters[usize::from(is_expert)][usize::from(is_split)] += document.parameter_bytes;
        layer.states[usize::from(is_expert)][usize::from(is_split)] += document.optimizer_bytes;
        for (block, &(name, class)) in classes.iter().enumerate() {
            let work = work(network, operator, name, class)?;
            let in_sequence = division.in_sequence[operator] && !network.is_product(operator);
            let in_attention = network.causal[operator].is_some();
            let pieces = Pieces { work, in_sequence, in_attention };
            match network.pass(operator) {
                Pass::Forward => layer.forward[block].push((pieces, is_product(document))),
                Pass::Backward if is_weight_gradient[operator] => layer.weights[block].push(pieces),
                Pass::Backward => layer.backward[block].push(pieces),
                Pass::Update => {
                    let moved = network.moved(operator);
                    layer.updates[block].push(Update { work, moved, is_split, is_expert });
                }
            }
            if network.is_repeated[operator] {
                layer.backward[block].push(pieces);
            }
        }
    }
    Ok(())
}

/// Adds the bytes of the gradients that the updates of every layer read, each of them once.
fn gradients(network: &Network<'_>, division: &Division, layer_of: &[usize], layers: &mut [Layer]) {
    let mut seen: Vec<BTreeSet<usize>> = vec![BTreeSet::new(); layers.len()];
    for operator in (0..network.operators()).filter(|&operator| network.pass(operator) == Pass::Update) {
        let layer = layer_of[operator];
        let gradients = network.inputs(operator).iter().filter(|&&tensor| {
            network.pass(network.producer(tensor)) == Pass::Backward && seen[layer].insert(tensor)
        });
        let expert = usize::from(division.is_expert[operator]);
        let split = usize::from(division.is_split[operator]);
        layers[layer].gradients[expert][split] += gradients.map(|&tensor| network.bytes(tensor)).sum::<f64>();
    }
}

/// Adds the bytes of shared parameters, once to every layer that reads them.
fn shared_parameters(network: &Network<'_>, division: &Division, layer_of: &[usize], layers: &mut [Layer]) {
    for (parameter, readers) in network.shared() {
        let among: BTreeSet<usize> = readers.iter().map(|&reader| layer_of[reader]).collect();
        for layer in among {
            let here = || readers.iter().filter(|&&reader| layer_of[reader] == layer);
            let split = usize::from(here().any(|&reader| division.is_split[reader]));
            let expert = usize::from(here().all(|&reader| division.is_expert[reader]));
            layers[layer].parameters[expert][split] += parameter.bytes;
            layers[layer].states[expert][split] += parameter.optimizer_bytes;
        }
    }
}

/// The layers in their order, and the layer of every operator.
#[expect(clippy::type_complexity, reason = "two lists that are made in one walk")]
fn assign(
    network: &Network<'_>,
    names: &[Option<(String, bool)>],
) -> Result<(Vec<(String, bool)>, Vec<usize>), ModelError> {
    let mut layers: Vec<(String, bool)> = Vec::new();
    let mut by_name: BTreeMap<&str, usize> = BTreeMap::new();
    let mut layer_of: Vec<Option<usize>> = vec![None; network.operators()];
    for &operator in network.forward_order() {
        if network.first[operator] != operator {
            // The operator is in the layer of the first forward operator that it is colocated with.
            continue;
        }
        let Some((name, is_numbered)) = names[operator].as_ref().filter(|_| !network.is_input(operator))
        else {
            continue;
        };
        let next = layers.len();
        let layer = *by_name.entry(name).or_insert(next);
        if layer == next {
            layers.push((name.clone(), *is_numbered));
        }
        layer_of[operator] = Some(layer);
    }
    if layers.is_empty() {
        // A model without layers is a single layer.
        layers.push(("model".into(), false));
    }
    if layers.len() > MAX_LAYERS {
        return Err(ModelError::Layers { found: layers.len(), most: MAX_LAYERS });
    }
    // A backward or update operator that is colocated with no forward operator is in the layer that it names.
    for operator in 0..network.operators() {
        if network.first[operator] == operator && network.pass(operator) != Pass::Forward {
            layer_of[operator] =
                names[operator].as_ref().and_then(|(name, _)| by_name.get(name.as_str()).copied());
        }
    }
    by_first_reader(network, &mut layer_of);
    // A backward or update operator that still has no layer is in the last layer that it reads from.
    for operator in (0..network.operators()).filter(|&operator| network.pass(operator) != Pass::Forward) {
        if layer_of[network.first[operator]].is_none() {
            let read = network.inputs(operator).iter().map(|&tensor| network.producer(tensor));
            layer_of[operator] = read.filter_map(|from| layer_of[network.first[from]]).max();
        }
    }
    let layer_of: Vec<Option<usize>> = network.first.iter().map(|&first| layer_of[first]).collect();
    let layer_of: Vec<usize> = layer_of.into_iter().map(|layer| layer.unwrap_or(0)).collect();
    for &operator in network.forward_order() {
        for &tensor in network.inputs(operator) {
            let producer = network.producer(tensor);
            if layer_of[producer] > layer_of[operator] {
                let name = |operator: Operator| layers[layer_of[operator]].0.clone();
                return Err(ModelError::Order { from: name(operator), to: name(producer) });
            }
        }
    }
    Ok((layers, layer_of))
}

/// Assigns every operator without a layer to the layer of its first reader, which may in turn get it from its own first
/// reader. Operators colocated with a forward operator form one unit, identified by the first of them.
fn by_first_reader(network: &Network<'_>, layer_of: &mut [Option<usize>]) {
    let places = network.places();
    let mut next: Vec<Option<Operator>> = vec![None; network.operators()];
    for tensor in 0..network.tensors() {
        let home = network.first[network.producer(tensor)];
        let outside = network.consumers(tensor).iter().filter(|&&reader| network.first[reader] != home);
        next[home] = outside.copied().chain(next[home]).min_by_key(|&reader| places[reader]);
    }
    let mut is_visited = vec![false; network.operators()];
    for start in 0..network.operators() {
        let (mut path, mut current) = (Vec::new(), Some(network.first[start]));
        while let Some(operator) = current.filter(|&operator| layer_of[operator].is_none()) {
            if std::mem::replace(&mut is_visited[operator], true) {
                break;
            }
            path.push(operator);
            current = next[operator].map(|reader| network.first[reader]);
        }
        let found = current.and_then(|operator| layer_of[operator]);
        path.into_iter().for_each(|operator| layer_of[operator] = found);
    }
}

/// Whether each operator is after a dispatch and before a combine.
fn experts(network: &Network<'_>) -> Vec<bool> {
    let is_end =
        |operator: Operator| network.is_kind(operator, "combine") || network.is_kind(operator, "dispatch");
    let mut is_expert = vec![false; network.operators()];
    for &operator in network.forward_order() {
        let mut from = network.inputs(operator).iter().map(|&tensor| network.producer(tensor));
        is_expert[operator] =
            !is_end(operator) && from.any(|from| network.is_kind(from, "dispatch") || is_expert[from]);
    }
    let mut is_before = vec![false; network.operators()];
    for &operator in network.forward_order().iter().rev() {
        let mut readers = network.outputs(operator).iter().flat_map(|&tensor| network.consumers(tensor));
        is_before[operator] = readers
            .any(|&reader| network.is_kind(reader, "combine") || (!is_end(reader) && is_before[reader]));
        is_expert[operator] &= is_before[operator];
    }
    is_expert
}

/// Time of an operator on a class.
fn work(
    network: &Network<'_>,
    operator: Operator,
    name: &str,
    class: &ClassDocument,
) -> Result<Work, ModelError> {
    let document: &OperatorDocument = network.document(operator);
    if network.is_inner[operator] && network.pass(operator) != Pass::Update {
        return Ok(NO_WORK);
    }
    if let Some(&seconds) = document.seconds.get(name) {
        return Ok(Work::Measured(seconds));
    }
    let unpriced = || ModelError::Unpriced { name: document.name.clone(), class: name.into() };
    if document.unsupported.iter().any(|class| class == name)
        || (document.flop.is_none() && document.bytes_moved.is_none())
    {
        return Err(unpriced());
    }
    let peak = document.precision.and_then(|precision| class.peaks.get(&precision).copied());
    let (flop, peak) = match document.flop.filter(|&flop| flop > 0.0) {
        Some(flop) => (flop, peak.or(class.peak_flops).ok_or_else(unpriced)?),
        None => (0.0, 1.0),
    };
    let traffic = match network.moved(operator) {
        moved if moved > 0.0 => moved / class.memory_bandwidth.ok_or_else(unpriced)?,
        _ => 0.0,
    };
    let sort = match network.causal[operator] {
        _ if network.pass(operator) == Pass::Update => Sort::Update(network.is_product(operator)),
        Some(is_causal) => Sort::Attention(is_causal),
        None if network.is_product(operator) => Sort::Product,
        None => Sort::Other { is_norm: network.is_norm(operator), is_apart: network.is_apart[operator] },
    };
    let overhead = document.launches.unwrap_or(1.0) * class.launch_overhead_s;
    Ok(Work::Estimated { sort, flop, peak, traffic, overhead })
}

/// Adds the bytes that are exchanged between dispatches, experts and combines.
fn exchanges(network: &Network<'_>, is_expert: &[bool], layer_of: &[usize], layers: &mut [Layer]) {
    for &operator in network.forward_order() {
        if network.is_kind(operator, "dispatch") {
            let (mut outputs, mut bytes) = (0, 0.0);
            for &tensor in network.outputs(operator) {
                let readers = network.consumers(tensor);
                outputs += u32::from(readers.iter().any(|&reader| network.pass(reader) == Pass::Forward));
                if readers.iter().any(|&reader| is_expert[reader]) {
                    bytes += network.size(tensor);
                }
            }
            let stated = network.document(operator).experts.map(NonZeroU32::get);
            layers[layer_of[operator]].exchanges.push(bytes);
            layers[layer_of[operator]].experts.push(stated.unwrap_or(outputs));
        }
        if network.is_kind(operator, "combine") {
            let inputs = network.inputs(operator).iter();
            let from_experts = inputs.filter(|&&tensor| is_expert[network.producer(tensor)]);
            let bytes = from_experts.map(|&tensor| network.size(tensor)).sum();
            layers[layer_of[operator]].exchanges.push(bytes);
        }
    }
}

/// Adds the bytes of activations and of workspace.
fn activations(network: &Network<'_>, is_whole: &[bool], layer_of: &[usize], layers: &mut [Layer]) {
    let is_forward = |operator: Operator| network.pass(operator) == Pass::Forward;
    for (tensor, &is_whole) in is_whole.iter().enumerate() {
        let producer = network.producer(tensor);
        if network.is_kept[tensor] || !is_forward(producer) {
            continue;
        }
        let (bytes, whole) = (network.bytes(tensor), usize::from(is_whole));
        let mut saving = BTreeSet::new();
        let mut reading = BTreeSet::new();
        for &reader in network.consumers(tensor) {
            match is_forward(reader) {
                false if network.pass(reader) == Pass::Backward => {
                    saving.insert(layer_of[reader]);
                }
                true if layer_of[reader] != layer_of[producer] => {
                    reading.insert(layer_of[reader]);
                }
                _ => {}
            }
        }
        saving.into_iter().for_each(|layer| layers[layer].saved[whole] += bytes);
        reading.into_iter().for_each(|layer| layers[layer].inputs[whole] += bytes);
        if is_product(network.document(producer)) {
            layers[layer_of[producer]].products[whole] += network.size(tensor);
        }
    }
    let mut losses = vec![BTreeSet::new(); layers.len()];
    for operator in 0..network.operators() {
        let layer = &mut layers[layer_of[operator]];
        if is_forward(operator) {
            layer.saved[0] += network.document(operator).activation_bytes;
            let largest = network
                .outputs(operator)
                .iter()
                .max_by(|&&a, &&b| network.bytes(a).total_cmp(&network.bytes(b)));
            if let Some(&tensor) = largest {
                let bytes = network.bytes(tensor);
                let whole = usize::from(is_whole[tensor]);
                if network.is_apart[operator] {
                    layer.scored[whole] += bytes;
                } else if network.is_norm(operator) {
                    layer.normed[whole] += bytes;
                }
            }
            if network.is_kind(operator, "loss") {
                losses[layer_of[operator]].extend(network.inputs(operator));
            }
        }
        if network.pass(operator) != Pass::Backward {
            continue;
        }
        let is_gradient = |&&tensor: &&usize| {
            let is_of_parameters =
                network.consumers(tensor).iter().any(|&reader| network.pass(reader) == Pass::Update);
            !network.is_kept[tensor] && !is_forward(network.producer(tensor)) && !is_of_parameters
        };
        let tensors = network.inputs(operator).iter().chain(network.outputs(operator)).filter(is_gradient);
        let bytes: f64 = tensors.map(|&tensor| network.bytes(tensor)).sum();
        layer.workspace = layer.workspace.max(bytes + network.document(operator).workspace_bytes);
    }
    for (layer, read) in layers.iter_mut().zip(losses) {
        let is_forward = |&tensor: &usize| is_forward(network.producer(tensor)) && !network.is_kept[tensor];
        layer.loss = read.into_iter().filter(is_forward).map(|tensor| network.size(tensor)).sum();
    }
}

/// Bytes that cross the boundary before each layer, in the forward and in the backward pass: a tensor crosses all
/// boundaries from its producer to the farthest layers that read it on either side.
fn crossing(network: &Network<'_>, layer_of: &[usize], layers: usize) -> [Vec<f64>; 2] {
    let mut crossing = [vec![0.0; layers], vec![0.0; layers]];
    for tensor in 0..network.tensors() {
        let producer = network.producer(tensor);
        if network.is_input(producer) || network.pass(producer) == Pass::Update {
            continue;
        }
        let home = layer_of[producer];
        let (mut first, mut last) = (home, home);
        for &reader in network.consumers(tensor) {
            if network.pass(reader) != Pass::Update {
                (first, last) = (first.min(layer_of[reader]), last.max(layer_of[reader]));
            }
        }
        let bytes = network.size(tensor);
        crossing[0][home + 1..=last].iter_mut().for_each(|sum| *sum += bytes);
        crossing[1][first + 1..=home].iter_mut().for_each(|sum| *sum += bytes);
    }
    crossing
}

/// Sets the class of every layer; layers with the same figures share a class.
fn classify(layers: &mut [Layer]) {
    let mut classes: FxHashMap<String, usize> = FxHashMap::default();
    for (index, layer) in layers.iter_mut().enumerate() {
        let key = Layer { name: String::new(), ..layer.clone() };
        layer.class = *classes.entry(format!("{key:?}")).or_insert(index);
    }
}
