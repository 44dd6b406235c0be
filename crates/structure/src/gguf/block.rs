//! Tensors of a layer by their names below it.

use std::collections::BTreeMap;

use stagewright_formats::code::M;
use stagewright_formats::{InputError, Result};

use super::read::Info;
use super::roles::Name;

/// Tensors of a layer.
#[derive(Debug, Clone)]
pub(super) struct Block<'a> {
    label: &'a str,
    pub(super) layer: u64,
    tensors: BTreeMap<&'a str, &'a Info>,
}

impl<'a> Block<'a> {
    pub(super) fn new(label: &'a str, layer: u64) -> Block<'a> {
        Block { label, layer, tensors: BTreeMap::new() }
    }

    pub(super) fn insert(&mut self, info: &'a Info) {
        self.tensors.insert(Name::of(&info.name).rest, info);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.tensors.is_empty()
    }

    /// Names below the layer, with their tensors.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&'a str, &'a Info)> {
        self.tensors.iter().map(|(&name, &info)| (name, info))
    }

    /// The weight of a module.
    pub(super) fn weight(&self, module: &str) -> Option<&'a Info> {
        let weight = self.tensors.get(format!("{module}.weight").as_str());
        weight.or_else(|| self.tensors.get(module)).copied()
    }

    pub(super) fn has(&self, module: &str) -> bool {
        self.weight(module).is_some()
    }

    pub(super) fn has_any(&self, modules: &[&str]) -> bool {
        modules.iter().any(|module| self.has(module))
    }

    pub(super) fn has_bias(&self, module: &str) -> bool {
        self.tensors.contains_key(format!("{module}.bias").as_str())
    }

    /// Whether a name begins with a prefix.
    pub(super) fn has_prefix(&self, prefix: &str) -> bool {
        self.tensors.range(prefix..).next().is_some_and(|(name, _)| name.starts_with(prefix))
    }

    /// Inputs of a product.
    pub(super) fn inputs(&self, module: &str) -> Option<u64> {
        self.weight(module)?.shape.last().copied()
    }

    /// Outputs of a product: of one expert if the tensor has many.
    pub(super) fn outputs(&self, module: &str) -> Option<u64> {
        self.weight(module)?.shape.iter().rev().nth(1).copied()
    }

    /// Checks the outputs of a product, if the layer has it, against a number that follows from `keys`.
    ///
    /// # Errors
    /// If they differ (M017).
    pub(super) fn expect_outputs(&self, module: &str, expected: u64, keys: &str) -> Result<()> {
        self.expect(module, "outputs", self.outputs(module), expected, keys)
    }

    /// Checks the inputs of a product as [`Block::expect_outputs`] does the outputs.
    ///
    /// # Errors
    /// If they differ (M017).
    pub(super) fn expect_inputs(&self, module: &str, expected: u64, keys: &str) -> Result<()> {
        self.expect(module, "inputs", self.inputs(module), expected, keys)
    }

    fn expect(&self, module: &str, side: &str, found: Option<u64>, expected: u64, keys: &str) -> Result<()> {
        match found {
            Some(found) if found != expected => {
                let message = format!("the tensor has {found} {side}, and {keys} give {expected}");
                Err(self.fault(module, message))
            }
            _ => Ok(()),
        }
    }

    /// An error about a tensor that contradicts the keys.
    pub(super) fn fault(&self, module: &str, message: impl Into<String>) -> InputError {
        let name = match self.weight(module) {
            Some(info) => info.name.clone(),
            None => format!("blk.{}.{module}", self.layer),
        };
        contradiction(self.label, &name, message)
    }
}

/// An error about a tensor that contradicts the keys of its file.
pub(super) fn contradiction(label: &str, name: &str, message: impl Into<String>) -> InputError {
    let help =
        "check that keys and tensors are of the same model, or convert it again with a current llama.cpp";
    InputError::at_path(M::M017, label, name, message, help)
}
