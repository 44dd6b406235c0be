//! Answers of a solve.

use stagewright_core::document::ServingCertificateDocument;
use stagewright_core::solver::{Status, StopReason};

use crate::column::Column;
use crate::space::Space;

/// Name of the solver.
pub const NAME: &str = "replicas";

/// A replica of a plan with its number.
#[derive(Debug, Clone)]
pub struct Chosen {
    /// The replica.
    pub column: Column,
    /// Number of these replicas.
    pub count: u64,
}

/// Replicas with their numbers.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Replicas, in the order of the space.
    pub replicas: Vec<Chosen>,
    /// Requests a second of all classes together.
    pub rate: f64,
    /// Value of the goal: requests a second, devices, price of an hour, or tokens of caches, with the price of moved weights.
    pub value: f64,
}

impl Solution {
    /// Name of the kind of evidence.
    pub fn source(&self) -> &'static str {
        match self.certificate {
            Some(ServingCertificateDocument::Tree { .. }) => "prices",
            Some(ServingCertificateDocument::Table {}) => "table",
            None => "none",
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
    /// Bound on the value of every plan, in the direction of the goal; infinite if there is none.
    pub bound: f64,
    /// The evidence of the bound; `None` if there is no bound.
    pub certificate: Option<ServingCertificateDocument>,
    /// Reason why the solve ended before a proof.
    pub stop: Option<StopReason>,
    /// All replicas that meet the limits.
    pub space: Space,
}
