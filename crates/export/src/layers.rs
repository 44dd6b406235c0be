//! Layers of a plan with their operators. A backward operator belongs to the layer of its forward
//! operator.

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::error::{ExportError, Result};
use super::paths::Paths;
use super::placed::Placed;
use stagewright_formats::layers::layers_of;
pub use stagewright_formats::layers::{Numbered, parts};

/// A layer and its operators.
#[derive(Debug)]
pub struct Layer {
    /// Path of the layer.
    pub path: String,
    /// Paths of the layers that run after this one, if an operator represents several layers.
    pub further: Vec<String>,
    /// Position of the layer in a stack, if it has one.
    pub number: Option<Numbered>,
    /// Whether the layer runs in the kernel of another layer.
    pub rides: bool,
    /// Operators of the layer, of all passes, in the order of [`Placed::operators`]; never empty.
    pub operators: Vec<usize>,
}

impl Layer {
    /// Paths of the layer and of further layers, in execution order.
    pub fn paths(&self) -> impl Iterator<Item = &str> {
        std::iter::once(&self.path).chain(&self.further).map(String::as_str)
    }

    /// Device of the layer.
    ///
    /// # Errors
    /// If the layer is on several devices (E010).
    pub fn device(&self, placed: &Placed) -> Result<usize> {
        let first = &placed.operators[self.operators[0]];
        let elsewhere =
            self.operators.iter().map(|&index| &placed.operators[index]).find(|op| op.device != first.device);
        match elsewhere {
            None => Ok(first.device),
            Some(other) => Err(ExportError::Cut {
                layer: self.path.clone(),
                left: Box::new(placed.sited(first)),
                right: Box::new(placed.sited(other)),
            }),
        }
    }
}

/// The layers in order of first appearance.
///
/// Takes time O(operators · length of a path · log operators).
///
/// # Errors
/// If the operators cannot be assigned to layers (E011, E012 and E021).
pub fn layers(placed: &Placed, paths: &Paths) -> Result<Vec<Layer>> {
    let homes = placed.homes()?;
    let count = placed.operators.len();
    let modules: Vec<Cow<str>> = (0..count)
        .flat_map(|index| paths.of_layer(index))
        .map(|module| Cow::Borrowed(module.as_str()))
        .collect();
    let found = layers_of(&modules);
    let mut starts: Vec<usize> = Vec::with_capacity(count);
    let mut start = 0;
    for index in 0..count {
        starts.push(start);
        start += paths.of_layer(index).len();
    }
    let mut layers: Vec<Layer> = Vec::new();
    let mut index: BTreeMap<&str, usize> = BTreeMap::new();
    for (operator, &home) in homes.iter().enumerate() {
        let own = &found[starts[home]..starts[home] + paths.of_layer(home).len()];
        let layer = &own[0];
        let place = *index.entry(layer.path).or_insert_with(|| {
            let (path, number) = (layer.path.to_owned(), layer.number.clone());
            layers.push(Layer { path, further: Vec::new(), number, rides: false, operators: Vec::new() });
            layers.len() - 1
        });
        let layer = &mut layers[place];
        for other in own {
            if other.path != layer.path && !layer.further.iter().any(|known| known == other.path) {
                layer.further.push(other.path.to_owned());
            }
        }
        layer.rides |= paths.is_riding(operator);
        layer.operators.push(operator);
    }
    Ok(layers)
}

/// Checks that a runtime can look up a module by its path: no component of it may be empty.
///
/// # Errors
/// If a component is empty (E018).
pub fn addressable(runtime: &'static str, module: &str) -> Result<()> {
    if module.split('.').any(str::is_empty) {
        let why = "a part of its path is empty";
        return Err(ExportError::Name { runtime, module: module.to_owned(), why });
    }
    Ok(())
}
