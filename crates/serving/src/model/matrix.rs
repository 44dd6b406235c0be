//! Matrices as engines multiply them, for look-up in tables of measured products.

use stagewright_structure::{Layer, Role, Tensor};

use super::product::{Product, share};

/// A matrix that engines multiply with at once: projections of the same input are joined.
#[derive(Debug, Clone, PartialEq)]
pub struct Matrix {
    /// Rows of the input.
    pub inputs: f64,
    /// Whether inputs are divided among devices, instead of outputs.
    pub divides_inputs: bool,
    /// Projections side by side: outputs, and the product with its division.
    pub parts: Vec<(f64, Product)>,
}

impl Matrix {
    /// The matrix of one tensor, which takes the last dimension as input; `None` without two dimensions.
    pub(super) fn new(tensor: &Tensor, product: Product) -> Option<Matrix> {
        let [.., outputs, inputs] = tensor.shape[..] else { return None };
        let divides_inputs = matches!(
            tensor.role,
            Role::Output | Role::Down | Role::SharedDown | Role::StateOut | Role::LatentUp
        );
        Some(Matrix { inputs: inputs as f64, divides_inputs, parts: vec![(outputs as f64, product)] })
    }

    /// Outputs and inputs on a device of a tensor-parallel group.
    pub fn divided(&self, devices: u64) -> (f64, f64) {
        if self.divides_inputs {
            let outputs = self.parts.iter().map(|(outputs, _)| outputs).sum();
            return (outputs, self.inputs / devices as f64);
        }
        let outputs = self.parts.iter().map(|(outputs, product)| outputs / product.share.degree(devices));
        (outputs.sum(), self.inputs)
    }
}

/// Projections that are joined: those of a family read the same input.
fn family(role: Role) -> Option<u8> {
    match role {
        Role::Query | Role::Key | Role::Value => Some(0),
        Role::QueryDown | Role::KeyValueDown => Some(1),
        Role::Gate | Role::Up => Some(2),
        Role::SharedGate | Role::SharedUp => Some(3),
        _ => None,
    }
}

/// The matrices of a layer from the tensors of its products.
pub(super) fn matrices<'t>(layer: &Layer, tensors: impl Iterator<Item = &'t Tensor>) -> Vec<Matrix> {
    let mut matrices: Vec<(Option<u8>, Matrix)> = Vec::new();
    for tensor in tensors {
        let product = Product::new(tensor, share(layer, tensor.role));
        let Some(matrix) = Matrix::new(tensor, product) else { continue };
        let family = family(tensor.role);
        let joins = |known: &&mut (Option<u8>, Matrix)| {
            family.is_some()
                && known.0 == family
                && known.1.inputs == matrix.inputs
                && known.1.parts[0].1.precision == product.precision
        };
        match matrices.iter_mut().find(joins) {
            Some((_, known)) => known.parts.extend(matrix.parts),
            None => matrices.push((family, matrix)),
        }
    }
    matrices.into_iter().map(|(_, matrix)| matrix).collect()
}
