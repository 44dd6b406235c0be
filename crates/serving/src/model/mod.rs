//! A model as serving sees it: the work of every layer, by kinds of equal layers.
//!
//! Products come from the tensors of a [`Structure`], with their bytes and the precision that they compute in. How a tensor is
//! divided among devices follows from its role, as vLLM, SGLang and TensorRT-LLM divide it: projections into latents, routers
//! and indexers are whole on every device, and everything else is divided.

mod launches;
mod layer;
mod matrix;
mod product;

use stagewright_core::document::Precision;
use stagewright_formats::code::L;
use stagewright_formats::{InputError, Result};
use stagewright_structure::{Encoding, Role, Structure, Tensor};

pub use layer::{Experts, LayerKind};
pub use matrix::Matrix;
pub use product::{Product, Share};

/// The work of a model's layers, and its tables at both ends.
#[derive(Debug, Clone, PartialEq)]
pub struct Model {
    /// Name for display.
    pub name: String,
    /// Width of the hidden state.
    pub hidden: f64,
    /// Kind of every layer that predicts the next token, as a number into `kinds`.
    pub layers: Vec<usize>,
    /// Kinds of layers, each once.
    pub kinds: Vec<LayerKind>,
    /// Bytes of the table of tokens, which the first stage holds.
    pub table_bytes: f64,
    /// Bytes of towers, projectors and other weights outside the layers, which the first stage holds whole.
    pub tower_bytes: f64,
    /// Projection to the vocabulary, which the last stage holds.
    pub head: Option<Product>,
    /// Whether the projection to the vocabulary is the table of tokens, stored once where both ends are on one worker.
    pub is_tied: bool,
    /// Encoding of caches that the model asks for.
    pub cache: Encoding,
}

impl Model {
    /// The work of a structure. Layers of multi-token prediction are left out. `label` names the structure in errors.
    ///
    /// Takes time proportional to tensors, and to layers times kinds.
    ///
    /// # Errors
    /// If no layer predicts the next token, or layers attend to an encoder or to later tokens (L023).
    pub fn new(label: &str, structure: &Structure) -> Result<Model> {
        let wrong = |path: String, message: &str| {
            Err(InputError::at_path(
                L::L023,
                label,
                path,
                message,
                "give a model that predicts the next token",
            ))
        };
        let count = structure.layers.iter().take_while(|layer| !layer.is_prediction).count();
        if count == 0 {
            return wrong("layers".into(), "the model has no layers");
        }
        if structure.vocabulary == 0 || structure.head.is_none() {
            return wrong("head".into(), "the model has no projection to a vocabulary");
        }
        if let Some(index) = structure.layers.iter().position(layer::needs_whole_input) {
            return wrong(format!("layers[{index}]"), "the layer reads an encoder's output or later tokens");
        }
        let mut tensors: Vec<Vec<&Tensor>> = vec![Vec::new(); count];
        let mut outside = Vec::new();
        for tensor in &structure.tensors {
            match tensor.layer.and_then(|layer| usize::try_from(layer).ok()) {
                Some(layer) if layer < count => tensors[layer].push(tensor),
                Some(_) => {}
                None => outside.push(tensor),
            }
        }
        let mut kinds: Vec<LayerKind> = Vec::new();
        let layers = structure.layers[..count].iter().zip(&tensors).map(|(layer, tensors)| {
            let kind = LayerKind::new(layer, tensors);
            let known = kinds.iter().position(|known| *known == kind);
            known.unwrap_or_else(|| {
                kinds.push(kind);
                kinds.len() - 1
            })
        });
        let layers = layers.collect();
        let bytes = |roles: &[Role]| -> f64 {
            outside
                .iter()
                .filter(|tensor| roles.contains(&tensor.role))
                .map(|tensor| tensor.bytes as f64)
                .sum()
        };
        let table = outside.iter().find(|tensor| tensor.role == Role::Embedding);
        let is_tied = structure.head.is_some_and(|head| head.tied);
        let head = outside.iter().find(|tensor| tensor.role == Role::Head).or(table.filter(|_| is_tied));
        Ok(Model {
            name: structure.name.clone(),
            hidden: structure.hidden as f64,
            layers,
            kinds,
            table_bytes: bytes(&[Role::Embedding]),
            tower_bytes: bytes(&[Role::Tower, Role::Projector, Role::Positions, Role::Norm, Role::Other]),
            head: head.map(|tensor| Product::new(tensor, Share::Divided)),
            is_tied,
            cache: structure.cache.unwrap_or(Encoding::BF16),
        })
    }
}

/// Precision of a product's operands: that of its compute encoding, or 16 bits where weights are decoded. Engines multiply weights
/// in MXFP4 on units for 4 bits where a device has them, whatever the checkpoint says of activations.
fn precision(tensor: &Tensor) -> Precision {
    let own = || (tensor.encoding.name() == "mxfp4").then(|| tensor.encoding.name());
    let name = tensor.compute.map(Encoding::name).or_else(own);
    match name.as_deref() {
        Some(name) if name.starts_with("nvfp4") || name.starts_with("mxfp4") => Precision::Fp4,
        Some(name) if name.starts_with("fp8") || name.starts_with("mxfp8") => Precision::Fp8,
        Some(name) if name.starts_with("i8") || name.starts_with("int8") => Precision::Int8,
        Some(name) if name.starts_with("int4") => Precision::Int4,
        _ => Precision::Bf16,
    }
}
