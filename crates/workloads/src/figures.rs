//! Totals of a graph.

use stagewright_core::document::GraphDocument;

use super::Precision;

/// Sums over a graph.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Figures {
    /// Number of operators.
    pub operators: usize,
    /// Number of tensors.
    pub tensors: usize,
    /// Number of parameters.
    pub parameters: f64,
    /// Floating-point operations.
    pub flop: f64,
}

impl Figures {
    /// Computes the figures of a workload generated with `precision`.
    pub fn new(graph: &GraphDocument, precision: Precision) -> Figures {
        let own: f64 = graph.operators.iter().map(|operator| operator.parameter_bytes).sum();
        let shared: f64 = graph.parameters.iter().map(|parameter| parameter.bytes).sum();
        let bytes = own + shared;
        Figures {
            operators: graph.operators.len(),
            tensors: graph.tensors.len(),
            parameters: bytes / f64::from(precision.bytes()),
            flop: graph.operators.iter().filter_map(|operator| operator.flop).sum(),
        }
    }
}
