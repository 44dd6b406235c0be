//! The modules of operators, by the names that runtimes use.
//!
//! The module of an operator is its path or, for a built-in workload, the name in the [published](super::published)
//! implementation. An operator without a path, in a model whose other operators have layers, is what the model computes
//! outside of its modules: the exporter of a program names it after the operation, `alias` or `add_3`. No runtime has a
//! module of that name, so the operator is placed with those that it reads or, failing that, with those that read it.
//! Where layers are counted, this also holds for the operators of a module that contains all layers. Operators that run
//! in the kernel of another layer are placed with that layer, unless no operator of their own layer has a kernel: the
//! norm before a head, a rectifier that is a layer.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use stagewright_core::graph::{Graph, OpId};

use super::error::{ExportError, Result};
use super::placed::{Operator, Placed};
use super::published::Published;
use stagewright_formats::layers::{Found, layers_of};

/// The modules of all operators.
#[derive(Debug)]
pub struct Paths {
    modules: Vec<Vec<String>>,
    /// Maps each operator that a module above all layers computes itself to an operator of the layer that it is placed
    /// with.
    beside: BTreeMap<usize, usize>,
    bare: Vec<bool>,
    /// The own modules of every operator that belongs to the kernel of another layer.
    own: BTreeMap<usize, Vec<String>>,
    /// Operators of layers that run in the kernels of others.
    riding: BTreeSet<usize>,
    /// The implementation that defines the names; `None` if they are the model's own.
    pub published: Option<&'static Published>,
}

/// The modules that the paths of operators name, and the implementation that defines the names.
fn modules(placed: &Placed) -> (Vec<Vec<String>>, Option<&'static Published>) {
    let own: Vec<_> = placed.operators.iter().map(path).collect();
    let forward: Vec<&str> = own
        .iter()
        .zip(&placed.operators)
        .filter(|(_, operator)| operator.is_forward())
        .map(|(path, _)| path.as_ref())
        .collect();
    let published = placed.graph.and_then(|graph| Published::of(graph, &forward));
    let modules = own.into_iter().map(|path| match published {
        Some(published) => published.modules(&path),
        None => vec![path.into_owned()],
    });
    (modules.collect(), published)
}

impl Paths {
    /// Derives the modules of a plan's operators, in O(operators · length of a path + pins).
    ///
    /// # Errors
    /// If an operator outside of all modules has no module on its device to be placed with (E021).
    pub fn new(placed: &Placed) -> Result<Paths> {
        let (mut modules, published) = modules(placed);
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
        let is_layer = |&(index, _): &(usize, usize)| {
            let layer = placed.operators[index].document.and_then(|document| document.layer.as_deref());
            let has_layer = layer.is_some_and(|layer| !layer.is_empty()) && !above[index];
            has_layer && !launched.contains(found[index].path)
        };
        let (layers, guests): (Vec<_>, Vec<_>) =
            ridden(placed, &found, &between).into_iter().partition(is_layer);
        let riding = layers.into_iter().map(|(index, _)| index).collect();
        let mut own = BTreeMap::new();
        for (index, kernel) in guests {
            let kernel = modules[kernel].clone();
            own.insert(index, std::mem::replace(&mut modules[index], kernel));
        }
        let home = adopted(placed, &bare);
        for index in (0..bare.len()).filter(|&index| bare[index]) {
            let Some(beside) = home[index] else {
                return Err(ExportError::NoModule(placed.sited(&placed.operators[index])));
            };
            modules[index] = modules[beside].clone();
        }
        let wider = adopted(placed, &between);
        let beside = (0..above.len())
            .filter(|&index| above[index])
            .filter_map(|index| Some((index, wider[index]?)))
            .collect();
        Ok(Paths { modules, beside, bare, own, riding, published })
    }

    /// The modules that an operator runs, in execution order; never empty.
    pub fn all(&self, operator: usize) -> &[String] {
        &self.modules[operator]
    }

    /// The modules of the layer that an operator is placed with where layers are counted; never empty.
    pub fn of_layer(&self, operator: usize) -> &[String] {
        self.all(self.beside.get(&operator).copied().unwrap_or(operator))
    }

    /// The first module that an operator runs.
    pub fn first(&self, operator: usize) -> &str {
        &self.modules[operator][0]
    }

    /// Whether an operator has no module of its own.
    pub fn is_bare(&self, operator: usize) -> bool {
        self.bare[operator]
    }

    /// Whether an operator runs in the kernel of another layer, together with all of its own layer.
    pub fn is_riding(&self, operator: usize) -> bool {
        self.riding.contains(&operator)
    }

    /// The own modules of operators that belong to the kernel of another layer, each with its operator.
    pub fn passed_over(&self) -> impl Iterator<Item = (usize, &str)> {
        self.own.iter().flat_map(|(&operator, own)| own.iter().map(move |module| (operator, module.as_str())))
    }

    /// The source of the names, for display.
    pub fn source(&self) -> Option<String> {
        self.published.map(|published| format!("modules are named as in {}", published.class))
    }
}

/// Marks forward operators without a path, in models whose other operators have layers.
fn bare(placed: &Placed) -> Vec<bool> {
    let layer =
        |index: usize| placed.operators[index].document.and_then(|document| document.layer.as_deref());
    let count = placed.operators.len();
    let has_layers = (0..count).any(|index| layer(index).is_some_and(|layer| !layer.is_empty()));
    let is_bare = |index: usize| {
        let operator = &placed.operators[index];
        has_layers
            && operator.is_forward()
            && layer(index).is_none_or(str::is_empty)
            && !operator.name.contains(['.', '/'])
            && operator.document.is_some_and(|document| document.parameter_bytes == 0.0)
            && !placed.is_input(index)
    };
    (0..count).map(is_bare).collect()
}

/// Forward operators without a kernel of their own, each with a colocated operator of another layer: the last that
/// precedes it in the model or, failing that, the first.
fn ridden(placed: &Placed, found: &[Found], between: &[bool]) -> Vec<(usize, usize)> {
    let mut kernels: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    let mut riders = Vec::new();
    for (index, operator) in placed.operators.iter().enumerate().filter(|(_, operator)| operator.is_forward())
    {
        let Some(document) = operator.document else { continue };
        let Some(class) = document.colocation.as_deref() else { continue };
        if operator.is_free() {
            riders.push((index, class));
        } else if !between[index] {
            kernels.entry(class).or_default().push(index);
        }
    }
    let of_another = |(index, class): (usize, &str)| {
        let kernels = kernels.get(class)?;
        let before = kernels.partition_point(|&kernel| kernel < index);
        let kernel = kernels[before.saturating_sub(1)];
        let is_here = placed.operators[index].device == placed.operators[kernel].device;
        (is_here && found[index].path != found[kernel].path).then_some((index, kernel))
    };
    riders.into_iter().filter_map(of_another).collect()
}

/// Maps every bare operator to an operator of a module on the same device: one that reaches it by tensors through bare
/// operators of that device alone, otherwise one that it reaches in this way, otherwise one that it is colocated with.
fn adopted(placed: &Placed, bare: &[bool]) -> Vec<Option<usize>> {
    let mut beside: Vec<Option<usize>> = vec![None; bare.len()];
    let Some(graph) = placed.graph else { return beside };
    let in_module =
        |index: usize| !bare[index] && placed.operators[index].is_forward() && !placed.is_input(index);
    for beyond in [Graph::successors as fn(&Graph, OpId) -> &[OpId], Graph::predecessors] {
        let is_known = |&index: &usize| beside[index].is_some() || in_module(index);
        let mut open: VecDeque<usize> = (0..bare.len()).filter(is_known).collect();
        while let Some(index) = open.pop_front() {
            let module = beside[index].unwrap_or(index);
            for next in beyond(graph, OpId::new(index)).iter().map(|op| op.index()) {
                let here = placed.operators[next].device == placed.operators[index].device;
                if here && bare[next] && beside[next].is_none() {
                    beside[next] = Some(module);
                    open.push_back(next);
                }
            }
        }
    }
    let class =
        |index: usize| placed.operators[index].document.and_then(|document| document.colocation.as_deref());
    let mut mates: BTreeMap<&str, usize> = BTreeMap::new();
    for (index, &beside) in beside.iter().enumerate() {
        let module = if in_module(index) { Some(index) } else { beside };
        if let (Some(class), Some(module)) = (class(index), module) {
            mates.entry(class).or_insert(module);
        }
    }
    for index in (0..bare.len()).filter(|&index| bare[index]) {
        let mate = class(index).and_then(|class| mates.get(class)).copied();
        let is_here = |&mate: &usize| placed.operators[mate].device == placed.operators[index].device;
        beside[index] = beside[index].or(mate.filter(is_here));
    }
    beside
}

/// The path of an operator in the model.
pub fn path<'a>(operator: &Operator<'a>) -> Cow<'a, str> {
    stagewright_formats::layers::path(
        operator.name,
        operator.document.and_then(|document| document.layer.as_deref()),
    )
}
