//! Pins as sets of devices that a user, or the plan itself, allows for an operator.

use std::collections::{BTreeMap, BTreeSet};

use rustc_hash::FxHashMap;
use stagewright_core::document::{PinTargets, PinsDocument};

use super::{Cluster, Graph};
use crate::error::CheckError;

/// A set of devices, as whole kinds and single devices, because a kind may have billions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Allowed {
    kinds: BTreeSet<usize>,
    devices: BTreeSet<(usize, u32)>,
}

impl Allowed {
    /// Whether the set contains a device of a kind; the kind must have devices.
    pub(crate) fn meets_kind(&self, kind: usize) -> bool {
        self.kinds.contains(&kind) || self.devices.range((kind, 0)..=(kind, u32::MAX)).next().is_some()
    }

    /// Whether the set contains a device.
    pub(crate) fn holds(&self, kind: usize, number: u32) -> bool {
        self.kinds.contains(&kind) || self.devices.contains(&(kind, number))
    }

    /// Intersection with another set.
    pub(crate) fn and(&self, other: &Allowed) -> Allowed {
        let devices = self.devices.iter().chain(&other.devices).copied();
        Allowed {
            kinds: self.kinds.intersection(&other.kinds).copied().collect(),
            devices: devices
                .filter(|&(kind, number)| self.holds(kind, number) && other.holds(kind, number))
                .collect(),
        }
    }

    /// Devices whose kind is not in the set as a whole, and which the set therefore distinguishes from others
    /// of their kind.
    fn singled_out(&self) -> impl Iterator<Item = (usize, u32)> + '_ {
        self.devices.iter().copied().filter(|(kind, _)| !self.kinds.contains(kind))
    }

    fn from_targets(targets: &PinTargets, operator: &str, cluster: &Cluster) -> Result<Self, CheckError> {
        let mut allowed = Allowed { kinds: BTreeSet::new(), devices: BTreeSet::new() };
        for name in targets.names() {
            if let Some(device) = cluster.find_device(name) {
                allowed.devices.insert(device);
            } else if let Some(kind) = cluster.find_kind(name) {
                allowed.kinds.insert(kind);
            } else if cluster.has_class(name) {
                let kinds = cluster.kinds.iter().enumerate();
                allowed.kinds.extend(
                    kinds.filter(|(_, kind)| kind.document.class == *name).map(|(position, _)| position),
                );
            } else {
                return Err(CheckError::Unknown {
                    place: format!("the pin of operator {operator:?}"),
                    what: "device, kind or class",
                    name: name.clone(),
                });
            }
        }
        Ok(allowed)
    }
}

/// Pinned operators; the others may use any device.
#[derive(Debug, Default)]
pub(crate) struct Pins(FxHashMap<usize, Allowed>);

impl Pins {
    /// Reads several pins documents, all of which apply.
    pub(super) fn read<'p>(
        graph: &Graph,
        cluster: &Cluster,
        documents: impl Iterator<Item = &'p PinsDocument>,
    ) -> Result<Self, CheckError> {
        let mut pins = FxHashMap::default();
        for (name, targets) in documents.flat_map(|document| &document.0) {
            let operator = graph.find(name).ok_or_else(|| CheckError::Unknown {
                place: "a pin".to_owned(),
                what: "operator",
                name: name.clone(),
            })?;
            let allowed = Allowed::from_targets(targets, name, cluster)?;
            pins.entry(operator)
                .and_modify(|before: &mut Allowed| *before = before.and(&allowed))
                .or_insert(allowed);
        }
        Ok(Pins(pins))
    }

    /// By device, the operators in ascending order whose pins allow the device but not its whole kind. Two devices of
    /// one kind are distinguishable iff their operators differ; a device that is not listed has no operators. O(n log
    /// n) for n devices listed in all pins.
    pub(super) fn singling_out(&self) -> BTreeMap<(usize, u32), Vec<usize>> {
        let mut pinned: Vec<_> = self.0.iter().collect();
        pinned.sort_unstable_by_key(|&(&operator, _)| operator);
        let mut operators: BTreeMap<(usize, u32), Vec<usize>> = BTreeMap::new();
        for (&operator, allowed) in pinned {
            for device in allowed.singled_out() {
                operators.entry(device).or_default().push(operator);
            }
        }
        operators
    }

    /// Devices that an operator is pinned to; `None` if it is not pinned.
    pub(crate) fn of(&self, operator: usize) -> Option<&Allowed> {
        self.0.get(&operator)
    }
}
