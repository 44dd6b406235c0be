//! The modules of operators, by the names that runtimes use.
//!
//! The module of an operator is given by its path, or for a built-in workload by the [published](super::published)
//! implementation. In a model whose other operators have layers, an operator without a path is computed outside of
//! the model's modules: the exporter names it after the operation, `alias` or `add_3`. No runtime has a module of
//! that name, so the operator goes with its producers or, failing that, with its readers. Where layers are counted,
//! the same holds for operators that a module above all layers computes itself. An operator that runs in the kernel
//! of another layer goes with that layer.

use std::collections::{BTreeMap, VecDeque};

use stagewright_core::graph::{Graph, OpId};

use super::error::ExportError;
use super::layers::path;
use super::placed::Placed;
use super::published::Published;
use crate::layers::{Found, layers_of};

/// The modules of all operators.
#[derive(Debug)]
pub struct Paths {
    modules: Vec<Vec<String>>,
    /// For operators that a module above all layers computes itself, an operator of the layer they go with.
    beside: BTreeMap<usize, usize>,
    bare: Vec<bool>,
    /// The implementation that defines the names; `None` if they are the model's own.
    pub published: Option<&'static Published>,
}

impl Paths {
    /// Derives the modules of a plan's operators, in O(operators · length of a path + pins).
    ///
    /// # Errors
    /// If an operator outside of all modules has no module on its device to go with (E021).
    pub fn of(placed: &Placed) -> Result<Paths, ExportError> {
        let own: Vec<_> = placed.operators.iter().map(path).collect();
        let forward: Vec<&str> = own
            .iter()
            .zip(&placed.operators)
            .filter(|(_, operator)| operator.is_forward())
            .map(|(path, _)| path.as_ref())
            .collect();
        let published = placed.graph.and_then(|graph| Published::of(graph, &forward));
        let found = layers_of(&own);
        let bare = bare(placed);
        let above: Vec<bool> = found
            .iter()
            .zip(&placed.operators)
            .map(|(found, operator)| {
                let holds_weights = operator.document.is_none_or(|document| document.parameter_bytes > 0.0);
                found.is_above && operator.is_forward() && !holds_weights
            })
            .collect();
        let between: Vec<bool> = bare.iter().zip(&above).map(|(&bare, &above)| bare || above).collect();
        let ridden = ridden(placed, &found, &between);
        let mut modules: Vec<Vec<String>> = own
            .into_iter()
            .map(|path| match published {
                Some(published) => published.modules(&path),
                None => vec![path.into_owned()],
            })
            .collect();
        for (at, kernel) in ridden {
            modules[at] = modules[kernel].clone();
        }
        let home = adopted(placed, &bare);
        for at in (0..bare.len()).filter(|&at| bare[at]) {
            let Some(beside) = home[at] else {
                return Err(ExportError::NoModule(placed.sited(&placed.operators[at])));
            };
            modules[at] = modules[beside].clone();
        }
        let wider = adopted(placed, &between);
        let beside =
            (0..above.len()).filter(|&at| above[at]).filter_map(|at| Some((at, wider[at]?))).collect();
        Ok(Paths { modules, beside, bare, published })
    }

    /// The modules that an operator runs, in execution order; never empty.
    pub fn all(&self, at: usize) -> &[String] {
        &self.modules[at]
    }

    /// The modules of the layer that an operator goes with where layers are counted; never empty.
    pub fn of_layer(&self, at: usize) -> &[String] {
        self.all(self.beside.get(&at).copied().unwrap_or(at))
    }

    /// The first module that an operator runs.
    pub fn first(&self, at: usize) -> &str {
        &self.modules[at][0]
    }

    /// Whether an operator has no module of its own.
    pub fn is_bare(&self, at: usize) -> bool {
        self.bare[at]
    }

    /// The source of the names, for display.
    pub fn source(&self) -> Option<String> {
        self.published.map(|published| format!("modules are called as in {}", published.class))
    }
}

/// Marks forward operators without a path, in models whose other operators have layers.
fn bare(placed: &Placed) -> Vec<bool> {
    let layer = |at: usize| placed.operators[at].document.and_then(|document| document.layer.as_deref());
    let count = placed.operators.len();
    let has_layers = (0..count).any(|at| layer(at).is_some_and(|layer| !layer.is_empty()));
    let is_bare = |at: usize| {
        let operator = &placed.operators[at];
        has_layers
            && operator.is_forward()
            && layer(at).is_none_or(str::is_empty)
            && !operator.name.contains(['.', '/'])
            && operator.document.is_some_and(|document| document.parameter_bytes == 0.0)
            && !placed.is_input(at)
    };
    (0..count).map(is_bare).collect()
}

/// Forward operators without a kernel of their own, each with a colocated operator of another layer: the last that
/// precedes it in the model or, failing that, the first.
fn ridden(placed: &Placed, found: &[Found], between: &[bool]) -> Vec<(usize, usize)> {
    let mut kernels: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    let mut riders = Vec::new();
    for (at, operator) in placed.operators.iter().enumerate().filter(|(_, operator)| operator.is_forward()) {
        let Some(document) = operator.document else { continue };
        let Some(class) = document.colocation.as_deref() else { continue };
        if document.launches == Some(0.0) {
            riders.push((at, class));
        } else if !between[at] {
            kernels.entry(class).or_default().push(at);
        }
    }
    let of_another = |(at, class): (usize, &str)| {
        let kernels = kernels.get(class)?;
        let before = kernels.partition_point(|&kernel| kernel < at);
        let kernel = kernels[before.saturating_sub(1)];
        let is_here = placed.operators[at].device == placed.operators[kernel].device;
        (is_here && found[at].path != found[kernel].path).then_some((at, kernel))
    };
    riders.into_iter().filter_map(of_another).collect()
}

/// Maps every bare operator to an operator of a module on the same device: one that reaches it by tensors over bare
/// operators of that device alone, else one that it reaches in this way, else one that it is colocated with.
fn adopted(placed: &Placed, bare: &[bool]) -> Vec<Option<usize>> {
    let mut beside: Vec<Option<usize>> = vec![None; bare.len()];
    let Some(graph) = placed.graph else { return beside };
    let in_module = |at: usize| !bare[at] && placed.operators[at].is_forward() && !placed.is_input(at);
    for beyond in [Graph::successors as fn(&Graph, OpId) -> &[OpId], Graph::predecessors] {
        let is_known = |&at: &usize| beside[at].is_some() || in_module(at);
        let mut open: VecDeque<usize> = (0..bare.len()).filter(is_known).collect();
        while let Some(at) = open.pop_front() {
            let module = beside[at].unwrap_or(at);
            for next in beyond(graph, OpId(at as u32)).iter().map(|op| op.index()) {
                let here = placed.operators[next].device == placed.operators[at].device;
                if here && bare[next] && beside[next].is_none() {
                    beside[next] = Some(module);
                    open.push_back(next);
                }
            }
        }
    }
    let class = |at: usize| placed.operators[at].document.and_then(|document| document.colocation.as_deref());
    let mut mates: BTreeMap<&str, usize> = BTreeMap::new();
    for (at, &beside) in beside.iter().enumerate() {
        let module = if in_module(at) { Some(at) } else { beside };
        if let (Some(class), Some(module)) = (class(at), module) {
            mates.entry(class).or_insert(module);
        }
    }
    for at in (0..bare.len()).filter(|&at| bare[at]) {
        let mate = class(at).and_then(|class| mates.get(class)).copied();
        let is_here = |&mate: &usize| placed.operators[mate].device == placed.operators[at].device;
        beside[at] = beside[at].or(mate.filter(is_here));
    }
    beside
}
