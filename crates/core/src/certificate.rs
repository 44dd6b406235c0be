//! Evidence for lower bounds, replayed by a checker that trusts nothing else.

use crate::cluster::DeviceId;
use crate::document::CertificateDocument;
use crate::graph::OpId;
use crate::problem::Problem;

/// Evidence for a bound. The claim of each variant is stated at the bound that creates it, in [`crate::bound`], and
/// at its document, [`CertificateDocument`].
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
    /// Prices at which the devices cannot hold everything below a threshold.
    ColumnGeneration {
        /// The threshold, in the objective's unit.
        threshold: f64,
        /// Prices of colocation classes, each by one of its operators.
        prices: Vec<(OpId, f64)>,
        /// Prices of the devices of each pool, by one of them.
        devices: Vec<(DeviceId, f64)>,
        /// Every colocation class by one of its operators, in an order whose cuts few tensors cross.
        order: Vec<OpId>,
    },
}

impl Certificate {
    /// Converts it to a document.
    pub fn to_document(&self, problem: &Problem) -> CertificateDocument {
        let operator_name = |op: OpId| problem.graph().operator(op).name.clone();
        match self {
            Certificate::Fluid { prices } => CertificateDocument::Fluid {
                prices: prices
                    .iter()
                    .enumerate()
                    .map(|(kind, &price)| (problem.cluster().kind(kind).name.clone(), price))
                    .collect(),
            },
            Certificate::HeaviestUnit { operator } => {
                CertificateDocument::HeaviestUnit { operator: operator_name(*operator) }
            }
            Certificate::ColumnGeneration { threshold, prices, devices, order } => {
                CertificateDocument::ColumnGeneration {
                    threshold_s: *threshold,
                    prices: prices.iter().map(|&(op, price)| (operator_name(op), price)).collect(),
                    devices: devices
                        .iter()
                        .map(|&(device, price)| (problem.cluster().device_name(device), price))
                        .collect(),
                    order: order.iter().map(|&op| operator_name(op)).collect(),
                }
            }
        }
    }
}
