//! Seconds of products from tables of measured kernels, where they have them.

use stagewright_core::document::KernelDocument;
use stagewright_costs::{Costs, Estimate, Source};

use super::Worker;
use crate::model::Matrix;

/// Minimum share of the bytes that a precision needs, by which weights are stored in it.
const SAME_BYTES: f64 = 0.9;

impl<'a> Worker<'a> {
    /// The worker with measurements of its device class. Products of layers that they have, or that lie between measured sizes,
    /// take their seconds, without [`launch_s`](crate::Engine::launch_s), which counts apart; everything else keeps its closed
    /// form. Measured collectives are not used: they are NCCL's, and engines have faster ones for the few bytes of decode steps.
    #[must_use]
    pub fn with_costs(mut self, costs: &'a Costs) -> Worker<'a> {
        self.costs = Some(costs);
        self
    }

    /// Products of layers whose seconds at some tokens are measured, and all of them.
    pub fn measured(&self, tokens: f64) -> (usize, usize) {
        let kinds = &self.model.kinds;
        let matrices = kinds.iter().flat_map(|kind| kind.matrices.iter());
        let is_known =
            |matrix: &&Matrix| self.costs.is_some_and(|costs| self.table(costs, matrix, tokens).is_some());
        (matrices.clone().filter(is_known).count(), matrices.count())
    }

    /// Seconds of products with matrices, each by the tables or else by its closed form.
    pub(super) fn measured_products(&self, costs: &Costs, matrices: &[Matrix], tokens: f64) -> f64 {
        matrices.iter().map(|matrix| self.matrix_seconds(costs, matrix, tokens)).sum()
    }

    fn matrix_seconds(&self, costs: &Costs, matrix: &Matrix, tokens: f64) -> f64 {
        let closed =
            || matrix.parts.iter().map(|(_, product)| self.product_seconds(product, tokens)).sum::<f64>();
        self.table(costs, matrix, tokens)
            .map_or_else(closed, |estimate| (estimate.seconds - self.engine.launch_s).max(0.0))
    }

    /// The measured seconds of a product with a matrix, with its launch.
    fn table(&self, costs: &Costs, matrix: &Matrix, tokens: f64) -> Option<Estimate> {
        let (_, product) = matrix.parts.first()?;
        // Tables have operands of one precision, so none of weights that are decoded.
        if product.bytes < SAME_BYTES * product.precision.bytes() * product.weights {
            return None;
        }
        let (n, k) = matrix.divided(self.parallel.tensor);
        let kernel = KernelDocument::Product { batch: 1.0, m: tokens, n, k };
        costs.kernel(&self.device.name, &kernel, product.precision).filter(is_measured)
    }
}

fn is_measured(estimate: &Estimate) -> bool {
    matches!(estimate.source, Source::Measured | Source::Interpolated)
}
