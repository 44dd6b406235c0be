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
    /// Windows that a path cuts into the step, and the prices of the work that is confined to some of them.
    Windows {
        /// Price of a second on a device, by kind.
        prices: Vec<f64>,
        /// The operators of the path that cut windows, in its order.
        path: Vec<OpId>,
        /// The windows whose work is counted.
        windows: Vec<u32>,
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
        let kind_name = |kind: usize| problem.cluster().kind(kind).name.clone();
        let by_kind =
            |prices: &[f64]| prices.iter().enumerate().map(|(kind, &it)| (kind_name(kind), it)).collect();
        match self {
            Certificate::Fluid { prices } => CertificateDocument::Fluid { prices: by_kind(prices) },
            Certificate::Windows { prices, path, windows } => CertificateDocument::Windows {
                prices: by_kind(prices),
                path: path.iter().map(|&op| operator_name(op)).collect(),
                windows: windows.clone(),
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
