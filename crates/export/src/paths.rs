//! The modules of operators, by the names that runtimes use.
//!
//! That is the path of an operator, or for a built-in workload what the [published](super::published) implementation
//! calls it. An operator without a path, in a model whose other operators have layers, is what the model computes
//! outside of its modules: the exporter of a program calls it after the operation, `alias` or `add_3`. No runtime
//! has a module of that name, so it goes with what it reads or, failing that, with what reads it. Where layers are
//! counted, so does what a module that holds them all computes itself. What runs in the kernel of another layer
//! goes with that, unless no operator of its own layer has a kernel: the norm before a head, a rectifier that is a layer.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use stagewright_core::graph::{Graph, OpId};

use super::error::{ExportError, Result};
use super::layers::path;
use super::placed::Placed;
use super::published::Published;
use stagewright_formats::layers::{Found, layers_of};

/// The modules of all operators.
#[derive(Debug)]
pub struct Paths {
    modules: Vec<Vec<String>>,
    /// Maps each operator that a module above all layers computes itself to an operator of the layer that it goes with.
    beside: BTreeMap<usize, usize>,
    bare: Vec<bool>,
    /// The modules of what goes with the kernel of another layer.
    own: BTreeMap<usize, Vec<String>>,
    /// Operators of layers that run in the kernels of others.
    riding: BTreeSet<usize>,
    /// The implementation that defines the names; `None` if they are the model's own.
    pub published: Option<&'static Published>,
}

impl Paths {
    /// Derives the modules of a plan's operators, in O(operators · length of a path + pins).
    ///
    /// # Errors
    /// If an operator outside of all modules has no module on its device to go with (E021).
    pub fn new(placed: &Placed) -> Result<Paths> {
        let own: Vec<_> = placed.operators.iter().map(path).collect();
        let forward: Vec<&str> = own
            .iter()
            .zip(&placed.operators)
            .filter(|(_, operator)| operator.is_forward())
            .map(|(path, _)| path.as_ref())
            .collect();
        let published = placed.graph.and_then(|graph| Published::of(graph, &forward));
        let mut modules: Vec<Vec<String>> = own
            .into_iter()
            .map(|path| match published {
                Some(published) => published.modules(&path),
                None => vec![path.into_owned()],
            })
            .collect();
        let firsts: Vec<Cow<str>> = modules.iter().map(|all| Cow::Borrowed(all[0].as_str())).collect();
        let found = layers_of(&firsts);
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
        let launched: BTreeSet<&str> = found
            .iter()
            .zip(&placed.operators)
            .filter(|(_, operator)| operator.is_forward() && !operator.is_free())
            .map(|(found, _)| found.path)
            .collect();
        let is_layer = |&(at, _): &(usize, usize)| {
            let layer = placed.operators[at].document.and_then(|document| document.layer.as_deref());
            let has_layer = layer.is_some_and(|layer| !layer.is_empty()) && !above[at];
            has_layer && !launched.contains(found[at].path)
        };
        let (layers, guests): (Vec<_>, Vec<_>) =
            ridden(placed, &found, &between).into_iter().partition(is_layer);
        let riding = layers.into_iter().map(|(at, _)| at).collect();
        let mut own = BTreeMap::new();
        for (at, kernel) in guests {
            let kernel = modules[kernel].clone();
            own.insert(at, std::mem::replace(&mut modules[at], kernel));
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
        Ok(Paths { modules, beside, bare, own, riding, published })
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

    /// Whether an operator runs in the kernel of another layer, as all of its own layer does.
    pub fn is_riding(&self, at: usize) -> bool {
        self.riding.contains(&at)
    }

    /// The modules of operators that go with the kernel of another layer.
    pub fn passed_over(&self) -> impl Iterator<Item = (usize, &str)> {
        self.own.iter().flat_map(|(&at, own)| own.iter().map(move |module| (at, module.as_str())))
    }

    /// The source of the names, for display.
    pub fn source(&self) -> Option<String> {
        self.published.map(|published| format!("modules are named as in {}", published.class))
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
        if operator.is_free() {
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
            for next in beyond(graph, OpId::new(at)).iter().map(|op| op.index()) {
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
