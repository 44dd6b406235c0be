//! A training graph by index, and the parts of it inside attention kernels.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use stagewright_core::document::{GraphDocument, OperatorDocument, ParameterDocument, Pass, Role, role};

use super::error::ModelError;

/// Index of an operator of the document.
pub(crate) type Operator = usize;

/// Operators and tensors of a training graph.
pub(crate) struct Network<'g> {
    graph: &'g GraphDocument,
    /// Forward operators, each after its inputs.
    forward: Vec<Operator>,
    producer: Vec<Operator>,
    consumers: Vec<Vec<Operator>>,
    inputs: Vec<Vec<usize>>,
    outputs: Vec<Vec<usize>>,
    /// Readers of every shared parameter.
    readers: Vec<Vec<Operator>>,
    /// Whether each operator reads a shared parameter.
    reads_shared: Vec<bool>,
    /// Kinds in lower case, without separators.
    kinds: Vec<String>,
    /// For every operator, the first forward operator, in forward order, that it is colocated with; the operator itself
    /// if it is that one, or if there is none.
    pub(crate) first: Vec<Operator>,
    /// Whether an operator runs inside an attention kernel.
    pub(crate) is_inner: Vec<bool>,
    /// Whether a tensor never leaves an attention kernel.
    pub(crate) is_kept: Vec<bool>,
    /// Whether an operator is the first product of an attention.
    is_scores: Vec<bool>,
    /// Whether an operator is the first product of an attention in one kernel, which runs again in the backward pass.
    pub(crate) is_repeated: Vec<bool>,
    /// Whether an operator is the softmax of an attention that does not run in one kernel, or a backward operator of it.
    pub(crate) is_apart: Vec<bool>,
    /// For every product in an attention kernel, also of the backward pass, whether the attention is causal.
    pub(crate) causal: Vec<Option<bool>>,
    /// Attentions, whether or not they run in one kernel.
    pub(crate) attentions: Vec<Attention>,
}

/// Operators of an attention.
pub(crate) struct Attention {
    pub(crate) softmax: Operator,
    /// Products before the softmax.
    scores: Vec<Operator>,
    /// The softmax, and the elementwise operators on both sides of it.
    inner: Vec<Operator>,
    /// Products after the softmax.
    contexts: Vec<Operator>,
    /// Whether the softmax hides later tokens.
    is_causal: bool,
}

/// Bytes of the tensors of an attention whose tokens are on several devices under context parallelism.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Tokens {
    pub(crate) queries: f64,
    pub(crate) keys: f64,
    pub(crate) values: f64,
    pub(crate) results: f64,
}

/// Side of an operator.
#[derive(Debug, Clone, Copy)]
enum Side {
    Before,
    Behind,
}

/// Operators by name.
fn by_name(graph: &GraphDocument) -> Result<BTreeMap<&str, Operator>, ModelError> {
    let mut by_name: BTreeMap<&str, Operator> = BTreeMap::new();
    for (index, operator) in graph.operators.iter().enumerate() {
        if by_name.insert(&operator.name, index).is_some() {
            return Err(ModelError::Name { name: operator.name.clone() });
        }
    }
    Ok(by_name)
}

impl<'g> Network<'g> {
    /// Reads the operators and tensors of a training graph; `is_fused` states whether an attention runs in one kernel.
    /// O(operators + pins, times their logarithms).
    ///
    /// # Errors
    /// If names repeat or do not exist, the forward pass has a cycle, or there is no backward pass.
    pub(crate) fn new(graph: &'g GraphDocument, is_fused: bool) -> Result<Network<'g>, ModelError> {
        let count = graph.operators.len();
        let by_name = by_name(graph)?;
        let find =
            |name: &str| by_name.get(name).copied().ok_or_else(|| ModelError::Name { name: name.into() });
        let (mut inputs, mut outputs) = (vec![Vec::new(); count], vec![Vec::new(); count]);
        let (mut producer, mut consumers) = (Vec::new(), Vec::new());
        for (index, tensor) in graph.tensors.iter().enumerate() {
            let from = find(&tensor.producer)?;
            outputs[from].push(index);
            producer.push(from);
            let readers: Vec<Operator> =
                tensor.consumers.iter().map(|name| find(name)).collect::<Result<_, _>>()?;
            readers.iter().for_each(|&reader| inputs[reader].push(index));
            consumers.push(readers);
        }
        let mut reads_shared = vec![false; count];
        let mut readers = Vec::with_capacity(graph.parameters.len());
        for parameter in &graph.parameters {
            let own_readers: Vec<Operator> =
                parameter.readers.iter().map(|name| find(name)).collect::<Result<_, _>>()?;
            own_readers.iter().for_each(|&reader| reads_shared[reader] = true);
            readers.push(own_readers);
        }
        let plain = |operator: &OperatorDocument| {
            let kind = operator.kind.as_deref().unwrap_or_default();
            kind.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect()
        };
        let mut network = Network {
            graph,
            forward: Vec::new(),
            producer,
            consumers,
            inputs,
            outputs,
            readers,
            reads_shared,
            kinds: graph.operators.iter().map(plain).collect(),
            first: (0..count).collect(),
            is_inner: vec![false; count],
            is_kept: vec![false; graph.tensors.len()],
            is_scores: vec![false; count],
            is_repeated: vec![false; count],
            is_apart: vec![false; count],
            causal: vec![None; count],
            attentions: Vec::new(),
        };
        network.sort()?;
        network.first = network.first_colocated();
        if !graph.operators.iter().any(|operator| operator.pass == Pass::Backward) {
            return Err(ModelError::NoBackward);
        }
        network.find_attention(is_fused);
        Ok(network)
    }

    /// For every operator, the first forward operator that it is colocated with, or the operator itself if there is
    /// none.
    fn first_colocated(&self) -> Vec<Operator> {
        let class = |operator: Operator| self.document(operator).colocation.as_deref();
        let mut first: BTreeMap<&str, Operator> = BTreeMap::new();
        for &operator in &self.forward {
            if let Some(class) = class(operator) {
                first.entry(class).or_insert(operator);
            }
        }
        let of_class = |operator: Operator| class(operator).and_then(|class| first.get(class)).copied();
        (0..self.operators()).map(|operator| of_class(operator).unwrap_or(operator)).collect()
    }

    /// Orders the forward operators: each after its inputs, otherwise as in the document.
    fn sort(&mut self) -> Result<(), ModelError> {
        let is_forward = |operator: Operator| self.pass(operator) == Pass::Forward;
        let forward: Vec<Operator> = (0..self.operators()).filter(|&operator| is_forward(operator)).collect();
        let mut missing = vec![0usize; self.operators()];
        for &operator in &forward {
            missing[operator] = self.inputs[operator].len();
        }
        let ready =
            |missing: &[usize]| forward.iter().copied().filter(|&operator| missing[operator] == 0).collect();
        let mut ready: BTreeSet<Operator> = ready(&missing);
        let mut order = Vec::with_capacity(forward.len());
        while let Some(operator) = ready.pop_first() {
            order.push(operator);
            for &tensor in &self.outputs[operator] {
                for &reader in &self.consumers[tensor] {
                    if is_forward(reader) {
                        missing[reader] -= 1;
                        if missing[reader] == 0 {
                            ready.insert(reader);
                        }
                    }
                }
            }
        }
        match forward.iter().find(|&&operator| missing[operator] > 0) {
            Some(&operator) => Err(ModelError::Cycle { name: self.document(operator).name.clone() }),
            None => {
                self.forward = order;
                Ok(())
            }
        }
    }

    /// Finds the operators that run inside attention kernels: the elementwise operators and the softmax between two
    /// products without parameters, and their backward operators.
    fn find_attention(&mut self, is_fused: bool) {
        let softmaxes = self.forward.iter().filter(|&&operator| self.is_kind(operator, "softmax"));
        let mut is_apart = vec![false; self.operators()];
        let mut attentions = Vec::new();
        for &softmax in softmaxes {
            if let Some(attention) = self.attention_around(softmax) {
                is_apart[softmax] = true;
                attentions.push(attention);
            }
        }
        for &product in attentions.iter().flat_map(|attention| &attention.scores) {
            self.is_scores[product] = true;
        }
        self.attentions = attentions;
        if !is_fused {
            self.is_apart = self.colocated(&is_apart);
            return;
        }
        // Products on either side of a softmax.
        let mut is_side = vec![false; self.operators()];
        let mut is_causal = vec![false; self.operators()];
        for Attention { scores, inner, contexts, is_causal: hides, .. } in &self.attentions {
            for &product in scores.iter().chain(contexts) {
                is_side[product] = true;
                is_causal[product] |= hides;
            }
            inner.iter().for_each(|&operator| self.is_inner[operator] = true);
            scores.iter().for_each(|&product| self.is_repeated[product] = true);
        }
        self.is_inner = self.colocated(&self.is_inner);
        let is_side = self.colocated(&is_side);
        let is_causal = self.colocated(&is_causal);
        for operator in 0..self.operators() {
            self.causal[operator] =
                Some(is_causal[operator]).filter(|_| is_side[operator] && self.is_product(operator));
        }
        for tensor in 0..self.tensors() {
            let producer = self.producer[tensor];
            let is_read_inside = self.consumers[tensor].iter().any(|&reader| self.is_inner[reader]);
            let is_gradient = self.consumers[tensor].iter().any(|&reader| self.pass(reader) == Pass::Update);
            self.is_kept[tensor] =
                !is_gradient && (self.is_inner[producer] || (is_read_inside && is_side[producer]));
        }
    }

    /// The attention of a softmax, if there are products without parameters on both sides of it.
    fn attention_around(&self, softmax: Operator) -> Option<Attention> {
        let (before, scores) = self.up_to_products(softmax, Side::Before);
        let (behind, contexts) = self.up_to_products(softmax, Side::Behind);
        if scores.is_empty() || contexts.is_empty() {
            return None;
        }
        // Only operators on a path from one product to the other.
        let from_scores = before.into_iter().filter(|&operator| self.leads(operator, Side::Before, &scores));
        let to_contexts =
            behind.into_iter().filter(|&operator| self.leads(operator, Side::Behind, &contexts));
        let inner = from_scores.chain(to_contexts).chain([softmax]).collect();
        let is_causal = self.document(softmax).causal;
        Some(Attention { softmax, scores, inner, contexts, is_causal })
    }

    /// Elementwise operators on a side of a softmax, and the products without parameters at which they end.
    fn up_to_products(&self, softmax: Operator, side: Side) -> (Vec<Operator>, Vec<Operator>) {
        let (mut inner, mut ends) = (Vec::new(), Vec::new());
        let mut queue = VecDeque::from([softmax]);
        while let Some(operator) = queue.pop_front() {
            for next in self.neighbours(operator, side) {
                if self.is_bare(next) {
                    // Several paths may lead to a product, which counts once.
                    if !ends.contains(&next) {
                        ends.push(next);
                    }
                } else if is_element(self.document(next)) && !inner.contains(&next) {
                    inner.push(next);
                    queue.push_back(next);
                }
            }
        }
        (inner, ends)
    }

    /// Whether a path on a side of an operator leads to one of `products` without passing another product.
    fn leads(&self, operator: Operator, side: Side, products: &[Operator]) -> bool {
        let mut queue = vec![operator];
        let mut seen = Vec::new();
        while let Some(operator) = queue.pop() {
            if products.contains(&operator) {
                return true;
            }
            if seen.contains(&operator) || is_product(self.document(operator)) {
                continue;
            }
            seen.push(operator);
            queue.extend(self.neighbours(operator, side));
        }
        false
    }

    /// Operators that write what an operator reads, or forward operators that read what it writes.
    fn neighbours(&self, operator: Operator, side: Side) -> Vec<Operator> {
        match side {
            Side::Before => self.inputs[operator].iter().map(|&tensor| self.producer[tensor]).collect(),
            Side::Behind => self.readers_of(operator).collect(),
        }
    }

    /// Rank of every operator: each after what it reads, forward operators before others, otherwise as in the document.
    pub(crate) fn places(&self) -> Vec<usize> {
        let mut missing: Vec<usize> = self.inputs.iter().map(Vec::len).collect();
        let key = |operator: Operator| (self.pass(operator) != Pass::Forward, operator);
        let mut ready: BTreeSet<(bool, Operator)> =
            (0..self.operators()).filter(|&operator| missing[operator] == 0).map(key).collect();
        let mut places = vec![usize::MAX; self.operators()];
        let mut next = 0..;
        while let Some((_, operator)) = ready.pop_first() {
            places[operator] = next.next().unwrap_or(usize::MAX);
            for &reader in self.outputs[operator].iter().flat_map(|&tensor| &self.consumers[tensor]) {
                missing[reader] -= 1;
                if missing[reader] == 0 {
                    ready.insert(key(reader));
                }
            }
        }
        places
    }

    /// Bytes of the tensors of an attention that tokens need of each other.
    pub(crate) fn tokens_of(&self, attention: &Attention) -> Tokens {
        let mut tokens = Tokens::default();
        for &product in &attention.scores {
            let sizes = || self.inputs[product].iter().map(|&tensor| self.size(tensor));
            // Keys may have fewer heads than queries.
            let keys = sizes().reduce(f64::min).unwrap_or(0.0);
            tokens.keys += keys;
            tokens.queries += sizes().sum::<f64>() - keys;
        }
        let is_own = |operator: &Operator| {
            let Attention { scores, inner, contexts, .. } = attention;
            [scores, inner, contexts].iter().any(|operators| operators.contains(operator))
        };
        for &product in &attention.contexts {
            let values = self.inputs[product].iter().filter(|&&tensor| !is_own(&self.producer[tensor]));
            tokens.values += values.map(|&tensor| self.size(tensor)).sum::<f64>();
            let results = self.outputs[product].iter().map(|&tensor| self.size(tensor));
            tokens.results += results.fold(0.0, f64::max);
        }
        tokens
    }

    /// Tokens of a sample, which context parallelism divides.
    ///
    /// # Errors
    /// What context parallelism needs and the graph or the runtime does not have.
    pub(crate) fn divisible_tokens(&self, is_fused: bool) -> Result<u64, &'static str> {
        let outside = |&operator: &Operator| self.is_bare(operator) && self.causal[operator].is_none();
        match self.graph.batch.and_then(|batch| batch.tokens) {
            None => Err("a graph that states the tokens of a sample"),
            Some(_) if self.attentions.is_empty() => Err("an attention"),
            Some(_) if !is_fused => Err("a runtime whose attentions run in one kernel"),
            Some(_) if self.forward.iter().any(outside) => {
                Err("all products without parameters in attentions, and some are outside")
            }
            Some(tokens) => Ok(tokens.get()),
        }
    }

    /// Whether an operator is a product without parameters.
    fn is_bare(&self, operator: Operator) -> bool {
        is_product(self.document(operator)) && !self.has_parameters(operator)
    }

    /// Extends a property of forward operators to every operator colocated with one that has it.
    pub(crate) fn colocated(&self, holds: &[bool]) -> Vec<bool> {
        let is_forward = |operator: Operator| self.pass(operator) == Pass::Forward;
        let class = |operator: Operator| self.document(operator).colocation.as_deref();
        let classes: BTreeSet<&str> = (0..self.operators())
            .filter(|&operator| is_forward(operator) && holds[operator])
            .filter_map(class)
            .collect();
        let is_near = |operator: Operator| class(operator).is_some_and(|class| classes.contains(class));
        (0..self.operators())
            .map(|operator| if is_forward(operator) { holds[operator] } else { is_near(operator) })
            .collect()
    }

    /// Forward operators that read what an operator writes.
    fn readers_of(&self, operator: Operator) -> impl Iterator<Item = Operator> + '_ {
        let tensors = self.outputs[operator].iter();
        tensors
            .flat_map(|&tensor| &self.consumers[tensor])
            .copied()
            .filter(|&reader| self.pass(reader) == Pass::Forward)
    }

    /// Whether each operator is a weight gradient: only updates read its results, and a gradient that it reads is read by
    /// another backward operator that is not the last of its chain.
    pub(crate) fn weight_gradients(&self) -> Vec<bool> {
        let is_backward = |operator: Operator| self.pass(operator) == Pass::Backward;
        let readers =
            |operator: Operator| self.outputs[operator].iter().flat_map(|&tensor| &self.consumers[tensor]);
        let goes_on = |operator: Operator| {
            is_backward(operator) && readers(operator).any(|&reader| is_backward(reader))
        };
        let ends = |operator: Operator| {
            is_backward(operator) && readers(operator).all(|&reader| self.pass(reader) == Pass::Update)
        };
        let mut found = vec![false; self.operators()];
        for tensor in 0..self.tensors() {
            let read_by = &self.consumers[tensor];
            if is_backward(self.producer[tensor]) && read_by.iter().any(|&reader| goes_on(reader)) {
                read_by.iter().filter(|&&reader| ends(reader)).for_each(|&reader| found[reader] = true);
            }
        }
        found
    }

    /// Number of operators.
    pub(crate) fn operators(&self) -> usize {
        self.graph.operators.len()
    }

    /// Number of tensors.
    pub(crate) fn tensors(&self) -> usize {
        self.graph.tensors.len()
    }

    /// Forward operators, each after its inputs.
    pub(crate) fn forward_order(&self) -> &[Operator] {
        &self.forward
    }

    pub(crate) fn document(&self, operator: Operator) -> &'g OperatorDocument {
        &self.graph.operators[operator]
    }

    pub(crate) fn pass(&self, operator: Operator) -> Pass {
        self.graph.operators[operator].pass
    }

    /// Whether an operator is an input of the model.
    pub(crate) fn is_input(&self, operator: Operator) -> bool {
        self.is_kind(operator, "input")
    }

    /// Whether an operator is of a kind, in lower case and without separators.
    pub(crate) fn is_kind(&self, operator: Operator, kind: &str) -> bool {
        self.kinds[operator] == kind
    }

    /// Whether an operator is a product, or a backward operator of one.
    pub(crate) fn is_product(&self, operator: Operator) -> bool {
        self.forward_kind(operator).is_some_and(|kind| role(kind) == Role::Product)
    }

    /// Whether an operator is a norm, or a backward operator of one.
    pub(crate) fn is_norm(&self, operator: Operator) -> bool {
        self.forward_kind(operator).is_some_and(|kind| kind.contains("norm"))
    }

    /// The kind of an operator; of a backward operator up to `grad`, which names what it computes.
    fn forward_kind(&self, operator: Operator) -> Option<&str> {
        match self.pass(operator) {
            Pass::Backward => self.kinds[operator].split("grad").next(),
            Pass::Forward | Pass::Update => Some(&self.kinds[operator]),
        }
    }

    /// Whether an operator reads parameters, its own or shared ones.
    pub(crate) fn has_parameters(&self, operator: Operator) -> bool {
        self.document(operator).parameter_bytes > 0.0 || self.reads_shared[operator]
    }

    /// Shared parameters, and the operators that read each.
    pub(crate) fn shared(&self) -> impl Iterator<Item = (&'g ParameterDocument, &[Operator])> {
        self.graph.parameters.iter().zip(self.readers.iter().map(Vec::as_slice))
    }

    pub(crate) fn inputs(&self, operator: Operator) -> &[usize] {
        &self.inputs[operator]
    }

    pub(crate) fn outputs(&self, operator: Operator) -> &[usize] {
        &self.outputs[operator]
    }

    pub(crate) fn producer(&self, tensor: usize) -> Operator {
        self.producer[tensor]
    }

    pub(crate) fn consumers(&self, tensor: usize) -> &[Operator] {
        &self.consumers[tensor]
    }

    /// Bytes of a tensor in memory.
    pub(crate) fn bytes(&self, tensor: usize) -> f64 {
        self.graph.tensors[tensor].bytes
    }

    /// Bytes of a tensor that crosses between devices. A tensor of zero bytes stays in a kernel, so it counts as the
    /// largest tensor that its forward readers write.
    pub(crate) fn size(&self, tensor: usize) -> f64 {
        let own = self.bytes(tensor);
        if own > 0.0 {
            return own;
        }
        let readers = self.consumers[tensor].iter().filter(|&&reader| self.pass(reader) == Pass::Forward);
        let written = readers.flat_map(|&reader| &self.outputs[reader]).map(|&tensor| self.bytes(tensor));
        written.fold(0.0, f64::max)
    }

    /// Bytes moved by an operator, without tensors that stay in an attention kernel.
    pub(crate) fn moved(&self, operator: Operator) -> f64 {
        let kept = self.inputs[operator].iter().chain(&self.outputs[operator]);
        let kept: f64 = kept.filter(|&&tensor| self.is_kept[tensor]).map(|&tensor| self.bytes(tensor)).sum();
        (self.document(operator).bytes_moved.unwrap_or(0.0) - kept).max(0.0)
    }

    /// Numbers of query heads and of key heads of all attentions, if the sizes of tensors determine them.
    pub(crate) fn heads(&self) -> Vec<u32> {
        let Some(tokens) = self.graph.batch.and_then(|batch| batch.tokens) else { return Vec::new() };
        let tokens = tokens.get() as f64;
        let mut heads = BTreeSet::new();
        for operator in (0..self.operators()).filter(|&operator| self.is_scores[operator]) {
            let Some(precision) = self.document(operator).precision else { continue };
            let of_head = precision.bytes() * self.samples() * tokens * tokens;
            let largest =
                |tensors: &[usize]| tensors.iter().map(|&tensor| self.bytes(tensor)).fold(0.0, f64::max);
            let queries = largest(&self.outputs[operator]) / of_head;
            let inputs = &self.inputs[operator];
            let least = inputs.iter().map(|&tensor| self.bytes(tensor)).fold(f64::INFINITY, f64::min);
            for count in [queries, queries * least / largest(inputs)] {
                if count >= 1.0 && count.fract() == 0.0 && count <= f64::from(u32::MAX) {
                    heads.insert(count as u32);
                }
            }
        }
        heads.into_iter().collect()
    }

    /// Number of samples in the batch of the graph.
    pub(crate) fn samples(&self) -> f64 {
        self.graph.batch.map_or(1.0, |batch| batch.samples.get() as f64)
    }
}

/// Whether an operator is a product: a matrix product or a convolution.
pub(crate) fn is_product(operator: &OperatorDocument) -> bool {
    kind(operator).is_some_and(|kind| role(kind) == Role::Product)
}

/// Whether an operator is elementwise.
pub(crate) fn is_element(operator: &OperatorDocument) -> bool {
    kind(operator).is_some_and(|kind| role(kind) == Role::Element)
}

fn kind(operator: &OperatorDocument) -> Option<&str> {
    operator.kind.as_deref()
}
