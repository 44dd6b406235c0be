//! Evidence for lower bounds, which an independent checker replays.

use crate::cluster::DeviceId;
use crate::document::{CertificateDocument, MemoryPriceDocument};
use crate::graph::OpId;
use crate::problem::Problem;

/// Evidence for a bound. The claim of each variant is stated at the bound that creates the variant, in
/// [`crate::bound`], and at the variant of [`CertificateDocument`].
#[derive(Debug, Clone, PartialEq)]
pub enum Certificate {
    /// A price per second of each kind of device.
    Fluid {
        /// Price by kind.
        prices: Vec<f64>,
        /// Evidence that comes from memory limits.
        limits: Limits,
    },
    /// A colocation class, named by one of its operators.
    HeaviestUnit {
        /// The operator.
        operator: OpId,
    },
    /// Windows that a path cuts into the step, and the prices of the work that is confined to some of them.
    Windows {
        /// Price of a second on a device, by kind.
        prices: Vec<f64>,
        /// The operators of the path that cut windows, in the order of the path.
        path: Vec<OpId>,
        /// The windows whose work is counted.
        windows: Vec<u32>,
        /// Evidence that comes from memory limits.
        limits: Limits,
    },
    /// Prices at which the devices cannot hold all classes below a threshold.
    ColumnGeneration {
        /// The threshold, in the objective's unit.
        threshold: f64,
        /// Prices of colocation classes, each named by one of its operators.
        prices: Vec<(OpId, f64)>,
        /// Prices of the devices of each pool, named by one of its devices.
        devices: Vec<(DeviceId, f64)>,
        /// Every colocation class, named by one of its operators, in an order in which few tensors cross any cut.
        order: Vec<OpId>,
    },
}

/// Prices of memory, and the value below which they apply; see [`bound::MemoryPrices`](crate::bound::MemoryPrices).
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Limits {
    /// Price of memory by kind; `None` if the memory of a kind has no price. Empty if no kind has one.
    pub memory: Vec<Option<MemoryPrice>>,
    /// Value of the objective that excludes classes from kinds: no class is on a kind where it would imply at least
    /// this value. `None` to exclude nothing.
    pub below: Option<f64>,
}

/// The price of memory on a device, which is counted in whole quanta.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MemoryPrice {
    /// Bytes of a quantum.
    pub quantum: f64,
    /// Seconds per quantum of one device.
    pub price: f64,
}

impl Certificate {
    /// Converts the certificate to a document.
    pub fn to_document(&self, problem: &Problem) -> CertificateDocument {
        let operator_name = |op: OpId| problem.graph().operator(op).name.clone();
        let kind_name = |kind: usize| problem.cluster().kind(kind).name.clone();
        let by_kind =
            |prices: &[f64]| prices.iter().enumerate().map(|(kind, &it)| (kind_name(kind), it)).collect();
        let memory = |limits: &Limits| {
            let priced = limits.memory.iter().enumerate().filter_map(|(kind, it)| Some((kind, (*it)?)));
            let document = |memory: MemoryPrice| MemoryPriceDocument {
                quantum_bytes: memory.quantum,
                price: memory.price,
            };
            priced.map(|(kind, it)| (kind_name(kind), document(it))).collect()
        };
        match self {
            Certificate::Fluid { prices, limits } => CertificateDocument::Fluid {
                prices: by_kind(prices),
                memory: memory(limits),
                below_s: limits.below,
            },
            Certificate::Windows { prices, path, windows, limits } => CertificateDocument::Windows {
                prices: by_kind(prices),
                path: path.iter().map(|&op| operator_name(op)).collect(),
                windows: windows.clone(),
                memory: memory(limits),
                below_s: limits.below,
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
