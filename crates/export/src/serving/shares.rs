//! Shares of the requests of a class that its copies get.
//!
//! Aggregated replicas of a class have rates a, prefill and decode replicas p and d, so that z = min(Σ p, Σ d) requests a second take the
//! way through both. An aggregated copy gets a / (Σ a + z) of the requests of its class; a prefill copy reads z / (Σ a + z) · p / Σ p
//! of them, and a decode copy likewise. All copies of a role are then used alike.

use stagewright_core::document::ServingRole;

use super::plan::{Replica, Serving};

/// Rates of the replicas of a class.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rates {
    aggregated: f64,
    prefill: f64,
    decode: f64,
}

impl Rates {
    /// Rates of a class.
    pub(super) fn of(plan: &Serving, class: u32) -> Rates {
        let rate = |role| -> f64 {
            let rates = plan.of(class, role).map(|replica| replica.document);
            rates.map(|document| document.count as f64 * document.requests_per_s).sum()
        };
        Rates {
            aggregated: rate(ServingRole::Aggregated),
            prefill: rate(ServingRole::Prefill),
            decode: rate(ServingRole::Decode),
        }
    }

    /// Requests a second that all replicas serve.
    pub(super) fn total(self) -> f64 {
        self.aggregated + self.prefill.min(self.decode)
    }

    /// Share of the requests that a copy gets.
    pub(super) fn share(self, replica: &Replica) -> f64 {
        let rate = replica.document.requests_per_s;
        let apart = self.prefill.min(self.decode) / self.total();
        match replica.document.role {
            ServingRole::Aggregated => rate / self.total(),
            ServingRole::Prefill => apart * rate / self.prefill,
            ServingRole::Decode => apart * rate / self.decode,
        }
    }
}
