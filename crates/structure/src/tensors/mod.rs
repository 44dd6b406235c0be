//! Tensors derived from the layers of a structure.

mod blocks;
pub mod names;

use crate::encoding::{Encoding, elements};
use crate::structure::{Layer, Mixer, Norm, Structure, Tower, Weight};
use crate::tensor::{Role, Tensor};
use names::Names;

/// Derives every tensor of a structure, in the encoding that `encode` gives for its name, role and shape.
///
/// Names are those of `names`. A tied projection to the vocabulary has no tensor of its own. A tensor whose encoding does
/// not fit its shape, or whose bytes overflow, has [`Encoding::BF16`] and saturates; readers refuse such structures before.
pub fn derive(
    structure: &Structure,
    names: &Names,
    mut encode: impl FnMut(&str, Role, &[u64]) -> Encoding,
) -> Vec<Tensor> {
    let mut draft = Draft {
        names,
        hidden: structure.hidden,
        norm: structure.norm,
        tensors: Vec::new(),
        encode: &mut encode,
    };
    draft.input(structure);
    let count = structure.layers.iter().filter(|layer| !layer.is_prediction).count();
    for (index, layer) in structure.layers.iter().enumerate() {
        let path = match names.prediction.filter(|_| layer.is_prediction) {
            Some(prediction) => {
                draft.names = prediction;
                format!("{}.{}", prediction.layers, index.saturating_sub(count))
            }
            None => format!("{}.{index}", names.layers),
        };
        draft.layer(Scope { path, layer: Some(index as u64), in_tower: false }, layer);
        draft.names = names;
    }
    draft.output(structure);
    for tower in &structure.towers {
        draft.tower(tower);
    }
    draft.tensors
}

/// Place of a tensor that is drafted.
#[derive(Debug, Clone)]
struct Scope {
    /// Path before the name of a module; empty at the top.
    path: String,
    layer: Option<u64>,
    in_tower: bool,
}

impl Scope {
    fn top() -> Scope {
        Scope { path: String::new(), layer: None, in_tower: false }
    }

    /// The scope of a module below this one.
    fn below(&self, name: &str) -> Scope {
        let path = match (self.path.as_str(), name) {
            ("", _) => name.to_owned(),
            (path, "") => path.to_owned(),
            (path, _) => format!("{path}.{name}"),
        };
        Scope { path, ..*self }
    }
}

/// Tensors so far, and how names and encodings are chosen.
struct Draft<'a> {
    names: &'a Names,
    hidden: u64,
    norm: Norm,
    tensors: Vec<Tensor>,
    encode: &'a mut dyn FnMut(&str, Role, &[u64]) -> Encoding,
}

impl Draft<'_> {
    /// Adds a tensor named in full below a scope.
    fn tensor(&mut self, scope: &Scope, name: &str, role: Role, shape: &[u64]) {
        let name = scope.below(name).path;
        let role = if scope.in_tower { Role::Tower } else { role };
        let chosen = (self.encode)(&name, role, shape);
        let (encoding, bytes) = match chosen.bytes(shape) {
            Some(bytes) => (chosen, bytes),
            None => (Encoding::BF16, elements(shape).map_or(u64::MAX, |count| count.saturating_mul(2))),
        };
        let (layer, shape) = (scope.layer, shape.to_vec());
        self.tensors.push(Tensor { name, role, layer, shape, encoding, bytes, compute: None });
    }

    /// Adds the weight, and the bias if there is one, of a product: `weight` below its name, or at its end if that is an
    /// underscore, as in `in_proj_weight` of PyTorch.
    fn linear(&mut self, scope: &Scope, name: &str, role: Role, [inputs, outputs]: [u64; 2], bias: bool) {
        let transposed = self.names.transposed && scope.layer.is_some();
        let shape = if transposed { [inputs, outputs] } else { [outputs, inputs] };
        let name = if name.ends_with('_') { name.to_owned() } else { format!("{name}.") };
        self.tensor(scope, &format!("{name}weight"), role, &shape);
        if bias {
            self.tensor(scope, &format!("{name}bias"), role, &[outputs]);
        }
    }

    /// Adds the weights of a normalisation over a width.
    fn norm(&mut self, scope: &Scope, name: &str, width: u64) {
        if self.norm != Norm::Plain {
            self.tensor(scope, &format!("{name}.weight"), Role::Norm, &[width]);
        }
        if self.norm == Norm::Layer {
            self.tensor(scope, &format!("{name}.bias"), Role::Norm, &[width]);
        }
    }

    fn other(&mut self, scope: &Scope, weights: &[Weight]) {
        for weight in weights {
            self.tensor(scope, &weight.name, weight.role, &weight.shape);
        }
    }

    fn input(&mut self, structure: &Structure) {
        let (top, names, embedding) = (Scope::top(), self.names, &structure.embedding);
        let width = embedding.width.unwrap_or(structure.hidden);
        let table = |draft: &mut Self, name: &str, role: Role, rows: u64, width: u64| {
            if rows > 0 {
                draft.tensor(&top, &format!("{name}.weight"), role, &[rows, width]);
            }
        };
        table(self, names.embedding, Role::Embedding, structure.vocabulary, width);
        table(self, names.positions, Role::Positions, embedding.positions, structure.hidden);
        table(self, names.token_types, Role::Positions, embedding.token_types, structure.hidden);
        if embedding.norm {
            self.norm(&top, names.embedding_norm, structure.hidden);
        }
    }

    fn output(&mut self, structure: &Structure) {
        let (top, names) = (Scope::top(), self.names);
        if structure.final_norm {
            self.norm(&top, names.final_norm, structure.hidden);
        }
        self.other(&top, &structure.other);
        let Some(head) = structure.head else { return };
        let width = structure.embedding.width.unwrap_or(structure.hidden);
        if !head.tied {
            self.linear(&top, names.head, Role::Head, [width, structure.vocabulary], head.bias);
        } else if head.bias {
            self.tensor(&top, &format!("{}.bias", names.head), Role::Head, &[structure.vocabulary]);
        }
    }

    fn layer(&mut self, scope: Scope, layer: &Layer) {
        let names = self.names;
        // The first of several normalisations is that of the mixer.
        let skipped = usize::from(layer.mixer == Mixer::None && names.norms.len() > 1);
        let count = usize::try_from(layer.norms).unwrap_or(usize::MAX);
        for norm in names.norms.iter().skip(skipped).take(count) {
            self.norm(&scope, norm, self.hidden);
        }
        self.mixer(&scope, &layer.mixer);
        if let Some(cross) = &layer.cross {
            self.attention(&scope.below(names.cross), cross);
        }
        if let Some(dense) = &layer.dense {
            self.dense(&scope, dense);
        }
        if let Some(mixture) = &layer.mixture {
            self.mixture(&scope, mixture);
        }
        self.other(&scope, &layer.other);
    }

    fn tower(&mut self, tower: &Tower) {
        let model = (self.hidden, self.norm, self.names);
        (self.hidden, self.norm) = (tower.hidden, tower.norm);
        self.names = model.2.tower.unwrap_or(model.2);
        let layers = model.2.tower.map_or("layers", |names| names.layers);
        for (index, layer) in tower.layers.iter().enumerate() {
            let path = format!("{}.{layers}.{index}", tower.name);
            self.layer(Scope { path, layer: None, in_tower: true }, layer);
        }
        self.other(&Scope { path: tower.name.clone(), layer: None, in_tower: true }, &tower.other);
        (self.hidden, self.norm, self.names) = model;
    }
}
