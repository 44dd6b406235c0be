//! The devices of a cluster as a fleet for replicas: kinds, servers, and the links between.

mod given;
mod offer;
mod problem;
mod running;

use stagewright_core::document::{ClusterDocument, LinkDocument};
use stagewright_formats::code::L;
use stagewright_formats::{InputError, Result};

use crate::device::Device;

pub use offer::{BUSIEST, Offer, Terms, UTILISATIONS};
pub use problem::Problem;

/// Kinds of devices that replicas are made of.
#[derive(Debug, Clone, PartialEq)]
pub struct Fleet {
    /// Kinds, in the order of the cluster.
    pub kinds: Vec<FleetKind>,
}

/// Devices of a kind.
#[derive(Debug, Clone, PartialEq)]
pub struct FleetKind {
    /// Name of the kind.
    pub name: String,
    /// A device.
    pub device: Device,
    /// Number of devices.
    pub count: u64,
}

impl FleetKind {
    /// Whether all devices are in one server.
    pub fn is_one_server(&self) -> bool {
        self.count <= self.device.server
    }
}

impl Fleet {
    /// The devices of a cluster other than hosts; kinds without devices are left out.
    ///
    /// # Errors
    /// If a kind lacks a figure, or no device is left (L021). `label` names the cluster.
    pub fn new(label: &str, cluster: &ClusterDocument) -> Result<Fleet> {
        let mut kinds = Vec::new();
        for (index, kind) in cluster.kinds.iter().enumerate() {
            if !kind.host && kind.count > 0 {
                let device = Device::of(label, cluster, index)?;
                kinds.push(FleetKind { name: kind.name.clone(), device, count: u64::from(kind.count) });
            }
        }
        if kinds.is_empty() {
            let message = "the cluster has no devices";
            return Err(InputError::at_path(
                L::L021,
                label,
                "kinds",
                message,
                "give devices that run models",
            ));
        }
        Ok(Fleet { kinds })
    }

    /// Number of devices.
    pub fn devices(&self) -> u64 {
        self.kinds.iter().map(|kind| kind.count).sum()
    }

    /// Whether a replica of `devices` devices of a kind is within a server.
    pub fn is_inside(&self, kind: usize, devices: u64) -> bool {
        let FleetKind { device, count, .. } = &self.kinds[kind];
        *count <= device.server || (devices.is_power_of_two() && devices <= device.server)
    }

    /// Link from a stage to the next, for stages on devices of the kinds: that inside a server, or else the slower of those between
    /// servers.
    pub fn link(&self, left: usize, right: usize, is_inside: bool) -> LinkDocument {
        let (left, right) = (&self.kinds[left].device, &self.kinds[right].device);
        if is_inside { left.inside } else { slower(left.between, right.between) }
    }

    /// Link over which caches go from one replica to another.
    pub fn transfer(&self) -> LinkDocument {
        match &self.kinds[..] {
            [kind] if kind.is_one_server() => kind.device.inside,
            kinds => kinds
                .iter()
                .map(|kind| kind.device.between)
                .reduce(slower)
                .unwrap_or(crate::device::DEFAULT_LINK),
        }
    }
}

/// The larger latency and the smaller bandwidth of two links.
fn slower(left: LinkDocument, right: LinkDocument) -> LinkDocument {
    LinkDocument {
        latency_s: left.latency_s.max(right.latency_s),
        bandwidth: left.bandwidth.min(right.bandwidth),
    }
}
