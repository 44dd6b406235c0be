//! Evidence for a lower bound, to be replayed by a checker that trusts nothing else.

use crate::document::CertificateDocument;
use crate::graph::OpId;
use crate::problem::Problem;

/// Evidence for a bound. What each variant proves is said at the bound that makes it, in [`crate::bound`].
#[derive(Debug, Clone, PartialEq)]
pub enum Certificate {
    /// A price per second of each kind of device.
    Fluid {
        /// Price by kind.
        prices: Vec<f64>,
    },
    /// A colocation class, by one of its operators.
    HeaviestUnit {
        /// The operator.
        operator: OpId,
    },
}

impl Certificate {
    /// As a document.
    pub fn to_document(&self, problem: &Problem) -> CertificateDocument {
        match self {
            Certificate::Fluid { prices } => CertificateDocument::Fluid {
                prices: prices
                    .iter()
                    .enumerate()
                    .map(|(kind, &price)| (problem.cluster().kind(kind).name.clone(), price))
                    .collect(),
            },
            Certificate::HeaviestUnit { operator } => CertificateDocument::HeaviestUnit {
                operator: problem.graph().operator(*operator).name.clone(),
            },
        }
    }
}
