//! Seconds of transfers by kind, number of devices and bytes.

use std::collections::BTreeMap;

use stagewright_core::document::{LinkCostsDocument, TransferKind};

/// Measured transfers of one device class.
#[derive(Debug, Default)]
pub(super) struct Transfers(BTreeMap<(TransferKind, u32, bool), BTreeMap<u64, Vec<f64>>>);

impl Transfers {
    /// Adds a transfer of a number of bytes, between servers or not. Transfers of 0 bytes or among fewer than two
    /// devices send nothing, and 0 seconds are not a measurement: all of these are left out.
    pub(super) fn add(
        &mut self,
        transfer: TransferKind,
        devices: u32,
        between_servers: bool,
        bytes: u64,
        seconds: f64,
    ) {
        if bytes > 0 && devices > 1 && seconds > 0.0 {
            let table = self.0.entry((transfer, devices, between_servers)).or_default();
            table.entry(bytes).or_default().push(seconds);
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Tables in the order of their keys, with rows in the order of bytes; `choose` reduces the seconds of equal
    /// sizes to one number.
    pub(super) fn tables(
        self,
        class: &str,
        source: &str,
        choose: impl Fn(Vec<f64>) -> f64,
    ) -> Vec<LinkCostsDocument> {
        let table = |((transfer, devices, between_servers), rows): (_, BTreeMap<u64, Vec<f64>>)| {
            let rows = rows.into_iter().map(|(bytes, seconds)| [bytes as f64, choose(seconds)]).collect();
            LinkCostsDocument {
                class: class.to_owned(),
                transfer,
                devices,
                between_servers,
                source: source.to_owned(),
                rows,
            }
        };
        self.0.into_iter().map(table).collect()
    }
}

/// The shortest of several: a kernel of a collective waits for all devices, so on one device only its shortest call
/// is near the time of the transfer.
pub(super) fn shortest(seconds: Vec<f64>) -> f64 {
    seconds.into_iter().min_by(f64::total_cmp).unwrap_or(0.0)
}
