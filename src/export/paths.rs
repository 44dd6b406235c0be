//! The modules that operators belong to, as runtimes call them.
//!
//! That is the path of an operator, or for a built-in workload what the [published](super::published) implementation
//! calls it. An operator without a path, in a model whose other operators have layers, is what the model computes
//! outside of its modules: the exporter of a program calls it after the operation, `alias` or `add_3`. No runtime
//! has a module of that name, so it goes with what it reads or, failing that, with what reads it.

use std::collections::VecDeque;

use stagewright_core::graph::{Graph, OpId};

use super::error::ExportError;
use super::layers::path;
use super::placed::Placed;
use super::published::Published;

/// The modules of all operators.
#[derive(Debug)]
pub struct Paths {
    modules: Vec<Vec<String>>,
    bare: Vec<bool>,
    /// The implementation that the names are from; none where they are the model's own.
    pub published: Option<&'static Published>,
}

impl Paths {
    /// Reads the modules of a plan's operators, in O(operators · length of a path + pins).
    ///
    /// # Errors
    /// E021: an operator outside of all modules that nothing on its device is beside.
    pub fn of(placed: &Placed) -> Result<Paths, ExportError> {
        let own: Vec<_> = placed.operators.iter().map(path).collect();
        let forward: Vec<&str> = own
            .iter()
            .zip(&placed.operators)
            .filter(|(_, operator)| operator.is_forward())
            .map(|(path, _)| path.as_ref())
            .collect();
        let published = placed.graph.and_then(|graph| Published::of(graph, &forward));
        let bare = bare(placed);
        let mut modules: Vec<Vec<String>> = own
            .into_iter()
            .map(|path| match published {
                Some(published) => published.modules(&path),
                None => vec![path.into_owned()],
            })
            .collect();
        for (at, beside) in adopted(placed, &bare)? {
            modules[at] = modules[beside].clone();
        }
        Ok(Paths { modules, bare, published })
    }

    /// The modules that an operator runs, in the order in which they run; never empty.
    pub fn all(&self, at: usize) -> &[String] {
        &self.modules[at]
    }

    /// The first of them.
    pub fn first(&self, at: usize) -> &str {
        &self.modules[at][0]
    }

    /// Whether an operator is in no module of its own.
    pub fn is_bare(&self, at: usize) -> bool {
        self.bare[at]
    }

    /// Where the names are from, for people.
    pub fn source(&self) -> Option<String> {
        self.published.map(|published| format!("modules are called as in {}", published.class))
    }
}

/// Which forward operators have no path, where other operators have a layer.
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

/// For every bare operator one in a module on the same device, from which tensors lead to it, or else to which they
/// lead from it, over bare operators of that device alone.
fn adopted(placed: &Placed, bare: &[bool]) -> Result<Vec<(usize, usize)>, ExportError> {
    let Some(graph) = placed.graph else { return Ok(Vec::new()) };
    let mut beside: Vec<Option<usize>> = vec![None; bare.len()];
    for beyond in [Graph::successors as fn(&Graph, OpId) -> &[OpId], Graph::predecessors] {
        let is_module = |&at: &usize| {
            beside[at].is_some() || (!bare[at] && placed.operators[at].is_forward() && !placed.is_input(at))
        };
        let mut open: VecDeque<usize> = (0..bare.len()).filter(is_module).collect();
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
    let found = (0..bare.len()).filter(|&at| bare[at]).map(|at| match beside[at] {
        Some(module) => Ok((at, module)),
        None => Err(ExportError::NoModule(placed.sited(&placed.operators[at]))),
    });
    found.collect()
}
