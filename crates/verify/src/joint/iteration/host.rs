//! States of the optimizer in the host's memory, and updates there (Ren et al., "ZeRO-Offload", 2021).

use stagewright_core::document::{JointExecutionDocument, KindDocument, RamDocument};
use stagewright_core::tolerance;

use super::devices::Devices;
use super::order::Pipeline;
use crate::error::CheckError;
use crate::joint::JointViolation;
use crate::read::{Cluster, amount, rate};

/// Where a stage has the states of the optimizer.
#[derive(Debug, Clone, Copy)]
pub(super) enum Home {
    Device,
    Host(RamDocument),
}

impl Home {
    /// Where stages on a kind have their states; `None` if that is a host that the kind does not state.
    pub(super) fn new(kind: &KindDocument, execution: &JointExecutionDocument) -> Option<Self> {
        match execution.offload {
            false => Some(Home::Device),
            true => kind.ram.map(Home::Host),
        }
    }

    /// Bytes of the host's memory for a device; `None` if they are unlimited or hold no states.
    pub(super) fn memory(&self) -> Option<f64> {
        match self {
            Home::Device => None,
            Home::Host(ram) => ram.memory_bytes,
        }
    }
}

/// Checks the hosts of the kinds.
///
/// # Errors
/// If a figure of a host is out of range.
pub(super) fn read_hosts(cluster: &Cluster) -> Result<(), CheckError> {
    for kind in cluster.kinds.iter().map(|kind| kind.document) {
        let Some(ram) = &kind.ram else { continue };
        let name = &kind.name;
        amount(ram.memory_bytes.unwrap_or(0.0), || format!("memory_bytes of ram of kind {name:?}"))?;
        rate(ram.bandwidth, || format!("bandwidth of ram of kind {name:?}"))?;
        rate(ram.link_bandwidth, || format!("link_bandwidth of ram of kind {name:?}"))?;
    }
    Ok(())
}

/// Where every stage has the states of the optimizer. Reports stages on kinds that state no host and need one.
pub(super) fn of_stages(
    devices: &[Devices],
    execution: &JointExecutionDocument,
    violations: &mut Vec<JointViolation>,
) -> Vec<Home> {
    let mut homes = Vec::with_capacity(devices.len());
    for (stage, devices) in devices.iter().enumerate() {
        let kind = devices.kind.document;
        match Home::new(kind, execution) {
            Some(home) => homes.push(home),
            None => violations.push(JointViolation::Ram { stage, kind: kind.name.clone() }),
        }
    }
    homes
}

/// Reports devices whose share of the host's memory is less than the states of all their stages.
pub(super) fn check_memory(
    homes: &[Home],
    bytes_of_stages: &[f64],
    pipeline: &Pipeline,
    violations: &mut Vec<JointViolation>,
) {
    // Each device of the pipeline runs exactly one of the first stages.
    for (stage, home) in homes.iter().enumerate().take(pipeline.devices) {
        let bytes: f64 = bytes_of_stages.iter().skip(stage).step_by(pipeline.devices).sum();
        if let Some(limit) = home.memory()
            && !tolerance::fits(bytes, limit)
        {
            violations.push(JointViolation::HostMemory { stage, bytes, limit });
        }
    }
}
