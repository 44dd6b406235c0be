//! Requests and answers of a solve.

use stagewright_core::document::LayerCertificateDocument;
use stagewright_core::solver::{Status, StopReason};

use crate::routing::{Ranges, Routing};

/// Name of the solver.
pub const NAME: &str = "layer-flow";

/// Options of a solve.
#[derive(Debug, Clone, Default)]
pub struct Request {
    /// Maximum number of nodes that a token may pass; `None` for any number.
    pub max_hops: Option<u32>,
}

/// Ranges of layers, and the tokens that flow through them.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// Tokens per second.
    pub flow: f64,
    /// Layers of every node; none for nodes through which nothing flows.
    pub ranges: Ranges,
    /// The flow through every node and link.
    pub routing: Routing,
}

/// An upper bound, with the evidence for it.
#[derive(Debug, Clone, PartialEq)]
pub struct Bound {
    /// Tokens per second that no plan exceeds.
    pub flow: f64,
    /// The evidence.
    pub certificate: LayerCertificateDocument,
}

impl Bound {
    /// Name of the kind of evidence.
    pub fn source(&self) -> &'static str {
        match self.certificate {
            LayerCertificateDocument::Prices { .. } => "prices",
            LayerCertificateDocument::Chain { .. } => "chain",
            LayerCertificateDocument::Hops { .. } => "hops",
        }
    }
}

/// The outcome of a solve.
#[derive(Debug, Clone)]
pub struct Solution {
    /// Proof status.
    pub status: Status,
    /// The best plan found.
    pub plan: Option<Plan>,
    /// Upper bound on the flow of every plan.
    pub bound: Bound,
    /// Reason why the solve ended before a proof.
    pub stop: Option<StopReason>,
}
