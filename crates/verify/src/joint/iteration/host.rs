//! The host's memory: states of the optimizer, with updates there (Ren et al., "ZeRO-Offload", 2021), and activations.

use stagewright_core::document::{JointExecutionDocument, KindDocument, RamDocument};

use super::devices::Devices;
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

/// Where every stage has the states of the optimizer, by kind. Reports stages on kinds that state no host and need one,
/// for these states or for the activations of a layer.
pub(super) fn of_stages(
    devices: &[Vec<Devices>],
    execution: &JointExecutionDocument,
    has_activations_there: &[bool],
    violations: &mut Vec<JointViolation>,
) -> Vec<Vec<Home>> {
    let mut homes = Vec::with_capacity(devices.len());
    for (stage, (sides, &needs_host)) in devices.iter().zip(has_activations_there).enumerate() {
        let mut of_stage = Vec::with_capacity(sides.len());
        for kind in sides.iter().map(|devices| devices.kind.document) {
            match Home::new(kind, execution) {
                Some(home) if kind.ram.is_some() || !needs_host => of_stage.push(home),
                _ => violations.push(JointViolation::Ram { stage, kind: kind.name.clone() }),
            }
        }
        homes.push(of_stage);
    }
    homes
}
