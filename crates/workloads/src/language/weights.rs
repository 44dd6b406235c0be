//! Weights of a layer, by module, until an operator takes them.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use stagewright_core::document::Precision;
use stagewright_structure::{Encoding, Role, Tensor};

/// Ends of the names of tensors that belong to the module before them.
const ENDS: [&str; 5] = [".weight", ".bias", ".scale", ".input_scale", "_bias"];

/// Weights that an operator reads: the tensors of a module, or those of several modules with the same purpose.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Module {
    /// Path of the module; `*` stands for the number of an expert.
    pub(super) name: String,
    pub(super) role: Role,
    /// Weights.
    pub(super) elements: f64,
    /// Weights in tensors of several dimensions, which products multiply by.
    pub(super) matrices: f64,
    pub(super) bytes: f64,
    /// Last dimension of the first tensor of several dimensions: the inputs of a product.
    pub(super) inputs: u64,
    /// First dimension of the first tensor: the rows of a table.
    pub(super) rows: u64,
    /// Precision of the product, if it is not that of the activations.
    pub(super) precision: Option<Precision>,
    /// Whether rows are looked up.
    pub(super) is_table: bool,
}

impl Module {
    fn of(tensor: &Tensor, vocabulary: u64) -> Module {
        let elements: f64 = tensor.shape.iter().map(|&dim| dim as f64).product();
        let is_matrix = tensor.shape.len() > 1;
        let rows = tensor.shape.first().copied().unwrap_or(1);
        let of_tokens = rows == vocabulary && matches!(tensor.role, Role::Router | Role::Other);
        let is_embedding = matches!(tensor.role, Role::Embedding | Role::Positions)
            || (tensor.role == Role::Other
                && ["embed", "embd"].iter().any(|part| tensor.name.contains(part)));
        Module {
            name: module_of(&tensor.name).to_owned(),
            role: tensor.role,
            elements,
            matrices: if is_matrix { elements } else { 0.0 },
            bytes: tensor.bytes as f64,
            inputs: tensor.shape.last().copied().filter(|_| is_matrix).unwrap_or(0),
            rows,
            precision: tensor.compute.and_then(precision_of),
            is_table: is_matrix && (of_tokens || is_embedding),
        }
    }

    /// Adds the weights of another module.
    pub(super) fn join(&mut self, other: &Module) {
        self.elements += other.elements;
        self.matrices += other.matrices;
        self.bytes += other.bytes;
        self.precision = self.precision.or(other.precision);
        if self.inputs == 0 {
            self.inputs = other.inputs;
        }
    }

    /// Some modules as one, with the name of the first that has a matrix.
    pub(super) fn joining(mut modules: Vec<Module>) -> Option<Module> {
        let place = modules.iter().position(|module| module.matrices > 0.0).unwrap_or(0);
        if modules.is_empty() {
            return None;
        }
        let mut joined = modules.remove(place);
        modules.iter().for_each(|module| joined.join(module));
        Some(joined)
    }

    /// Two modules as one, with the name of the first.
    pub(super) fn joined(mut self, other: Module) -> Module {
        self.join(&other);
        self
    }

    /// The parts `from` to `to` of `count` equal parts; all parts of a division add up to the whole.
    pub(super) fn part(&self, name: String, [from, to]: [u64; 2], count: u64) -> Module {
        let share = |whole: f64| {
            let until =
                |end: u64| if end == count { whole } else { (whole * end as f64 / count as f64).floor() };
            until(to) - until(from)
        };
        let (elements, matrices, bytes) = (share(self.elements), share(self.matrices), share(self.bytes));
        Module { name, elements, matrices, bytes, ..self.clone() }
    }

    /// Path of the module that contains this one; empty at the top.
    pub(super) fn parent(&self) -> &str {
        let name = self.name.split_once(".*").map_or(self.name.as_str(), |(before, _)| before);
        if name.len() < self.name.len() {
            name
        } else {
            name.rsplit_once('.').map_or("", |(parent, _)| parent)
        }
    }
}

/// Precision of a product in an encoding. Documents have none of 4-bit floating point; hardware that has it multiplies in
/// 8 bits at half its peak.
fn precision_of(encoding: Encoding) -> Option<Precision> {
    let name = encoding.name();
    let starts = |prefixes: &[&str]| prefixes.iter().any(|prefix| name.starts_with(prefix));
    match &*name {
        "bf16" => Some(Precision::Bf16),
        "f16" => Some(Precision::Fp16),
        "f32" => Some(Precision::Fp32),
        _ if starts(&["fp", "mxfp", "nvfp"]) => Some(Precision::Fp8),
        _ if starts(&["int4"]) => Some(Precision::Int4),
        _ if starts(&["int", "i8", "q8"]) => Some(Precision::Int8),
        _ => None,
    }
}

/// Path of the module that has a tensor as its weight, bias or scale.
fn module_of(name: &str) -> &str {
    ENDS.iter().find_map(|end| name.strip_suffix(end)).unwrap_or(name)
}

/// Modules that no operator has taken yet, in the order of their tensors.
#[derive(Debug, Clone, Default)]
pub(super) struct Weights {
    left: Vec<Module>,
}

impl Weights {
    /// The modules of some tensors; `vocabulary` tells tables of tokens.
    pub(super) fn new<'a>(tensors: impl IntoIterator<Item = &'a Tensor>, vocabulary: u64) -> Weights {
        let mut left: Vec<Module> = Vec::new();
        let mut places: BTreeMap<&str, usize> = BTreeMap::new();
        for tensor in tensors {
            let module = Module::of(tensor, vocabulary);
            match places.entry(module_of(&tensor.name)) {
                Entry::Occupied(place) => left[*place.get()].join(&module),
                Entry::Vacant(place) => {
                    place.insert(left.len());
                    left.push(module);
                }
            }
        }
        Weights { left }
    }

    /// Some modules.
    pub(super) fn of(left: Vec<Module>) -> Weights {
        Weights { left }
    }

    /// Takes the first module of a purpose.
    pub(super) fn take(&mut self, role: Role) -> Option<Module> {
        self.take_if(|module| module.role == role)
    }

    /// Takes the first module for which a condition holds.
    pub(super) fn take_if(&mut self, is_it: impl Fn(&Module) -> bool) -> Option<Module> {
        let place = self.left.iter().position(is_it)?;
        Some(self.left.remove(place))
    }

    /// Takes all modules of a purpose, tables excepted.
    pub(super) fn take_all(&mut self, role: Role) -> Vec<Module> {
        self.take_those(|module| module.role == role && !module.is_table)
    }

    /// Takes all tables of a purpose.
    pub(super) fn take_tables(&mut self, role: Role) -> Vec<Module> {
        self.take_those(|module| module.role == role && module.is_table)
    }

    /// Takes all modules for which a condition holds.
    pub(super) fn take_those(&mut self, are_taken: impl Fn(&Module) -> bool) -> Vec<Module> {
        let (taken, left) = std::mem::take(&mut self.left).into_iter().partition(are_taken);
        self.left = left;
        taken
    }

    /// Takes all modules of a purpose as one, with the name of the first that has a matrix.
    pub(super) fn take_joined(&mut self, role: Role) -> Option<Module> {
        Module::joining(self.take_all(role))
    }

    /// Takes every module that is left.
    pub(super) fn take_rest(&mut self) -> Vec<Module> {
        std::mem::take(&mut self.left)
    }

    /// The first module with one of several purposes, in the order of these.
    pub(super) fn first(&self, roles: &[Role]) -> Option<&Module> {
        roles.iter().find_map(|role| self.left.iter().find(|module| module.role == *role))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tensor(name: &str, role: Role, shape: &[u64]) -> Tensor {
        let encoding = Encoding::BF16;
        let (bytes, shape) = (encoding.bytes(shape).unwrap(), shape.to_vec());
        Tensor { name: name.into(), role, layer: None, shape, encoding, bytes, compute: None }
    }

    #[test]
    fn tensors_of_a_module_are_one_and_parts_add_up() {
        let tensors = [
            tensor("a.up.weight", Role::Up, &[3, 5]),
            tensor("a.up.bias", Role::Up, &[3]),
            tensor("a.experts.*.up.weight", Role::ExpertUp, &[7, 3, 5]),
        ];
        let mut weights = Weights::new(&tensors, 100);
        let up = weights.take(Role::Up).unwrap();
        assert_eq!((up.name.as_str(), up.elements, up.matrices, up.bytes), ("a.up", 18.0, 15.0, 36.0));
        let experts = weights.take_joined(Role::ExpertUp).unwrap();
        assert_eq!((experts.parent(), up.parent()), ("a.experts", "a"));
        let parts: Vec<Module> =
            [[0, 2], [2, 4], [4, 7]].map(|range| experts.part(String::new(), range, 7)).into();
        assert_eq!(parts.iter().map(|part| part.bytes).sum::<f64>(), experts.bytes);
        assert_eq!(parts[2].elements, 45.0);
        assert!(weights.take_rest().is_empty());
    }

    #[test]
    fn tables_are_not_multiplied_by() {
        let tensors = [
            tensor("ffn.gate.weight", Role::Router, &[8, 16]),
            tensor("ffn.gate.tid2eid", Role::Router, &[100, 2]),
            tensor("per_layer_token_embd.weight", Role::Other, &[90, 4]),
        ];
        let mut weights = Weights::new(&tensors, 100);
        assert_eq!(weights.take_joined(Role::Router).map(|router| router.matrices), Some(128.0));
        assert!(weights.take_rest().iter().all(|module| module.is_table));
    }
}
