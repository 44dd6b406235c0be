//! Kinds of layers: products, experts, and the mixer of tokens.

use stagewright_core::document::Precision;
use stagewright_structure::{Layer, Mixer, Role, Tensor};

use super::launches::launches;
use super::matrix::{Matrix, matrices};
use super::precision;
use super::product::{Product, share};

/// Routed experts of a layer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Experts {
    /// Number of experts.
    pub count: u64,
    /// Experts of a token.
    pub active: u64,
    /// Weights of one expert.
    pub weights: f64,
    /// Bytes of one expert.
    pub bytes: f64,
    /// Precision of the operands.
    pub precision: Precision,
}

impl Experts {
    /// Expected number of experts that at least one of `tokens` tokens is sent to, if every token takes `active` of them
    /// evenly and independently of the others: `count · (1 − (1 − active / count)^tokens)`.
    pub fn expected_distinct(&self, tokens: f64) -> f64 {
        let (count, active) = (self.count as f64, self.active as f64);
        count * (1.0 - (1.0 - active / count).max(0.0).powf(tokens))
    }
}

/// Work of a layer.
#[derive(Debug, Clone, PartialEq)]
pub struct LayerKind {
    /// Products that take every token, joined by precision and division.
    pub products: Vec<Product>,
    /// Products by the matrices that engines multiply with.
    pub matrices: Vec<Matrix>,
    /// Routed experts, if the layer has any.
    pub experts: Option<Experts>,
    /// Mixer of tokens, with its cache.
    pub mixer: Mixer,
    /// The layer as the structure has it, for its cache.
    pub(crate) layer: Layer,
    /// Bytes of weights that are no product: norms, biases, states.
    pub other_bytes: f64,
    /// Kernels of a step, estimated by the parts that the layer has.
    pub launches: f64,
}

impl LayerKind {
    /// Work of a layer with its tensors. Products of equal precision and share are joined.
    pub(super) fn new(layer: &Layer, tensors: &[&Tensor]) -> LayerKind {
        let mut products: Vec<Product> = Vec::new();
        let mut other_bytes = 0.0;
        let mut experts: Option<Experts> = None;
        for tensor in tensors {
            if let Some(mixture) = layer.mixture.as_ref().filter(|_| tensor.role.is_expert()) {
                let count = mixture.experts.max(1);
                let expert = experts.get_or_insert(Experts {
                    count,
                    active: mixture.active.min(count),
                    weights: 0.0,
                    bytes: 0.0,
                    precision: precision(tensor),
                });
                expert.weights += tensor.elements() as f64 / count as f64;
                expert.bytes += tensor.bytes as f64 / count as f64;
                continue;
            }
            if tensor.shape.len() < 2 || is_no_product(tensor.role) {
                other_bytes += tensor.bytes as f64;
                continue;
            }
            let product = Product::new(tensor, share(layer, tensor.role));
            let is_alike =
                |known: &&mut Product| known.share == product.share && known.precision == product.precision;
            match products.iter_mut().find(is_alike) {
                Some(known) => {
                    known.weights += product.weights;
                    known.bytes += product.bytes;
                }
                None => products.push(product),
            }
        }
        let is_matrix = |tensor: &&Tensor| {
            tensor.shape.len() > 1 && !tensor.role.is_expert() && !is_no_product(tensor.role)
        };
        let matrices = matrices(layer, tensors.iter().copied().filter(is_matrix));
        let launches = launches(layer);
        LayerKind {
            products,
            matrices,
            experts,
            mixer: layer.mixer.clone(),
            layer: layer.clone(),
            other_bytes,
            launches,
        }
    }
}

/// Whether weights of a role are read but not multiplied with.
fn is_no_product(role: Role) -> bool {
    matches!(role, Role::Norm | Role::Sinks | Role::State | Role::Convolution | Role::Positions)
}

/// Whether a layer reads the output of an encoder, or tokens that follow.
pub(super) fn needs_whole_input(layer: &Layer) -> bool {
    let sees_later = matches!(&layer.mixer, Mixer::Attention(attention) if attention.bidirectional);
    layer.cross.is_some() || sees_later
}
