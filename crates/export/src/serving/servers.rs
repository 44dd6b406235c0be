//! Servers of a cluster, and the groups of devices of a replica that each stay in one.
//!
//! A replica of one kind that fits in a server is a group, and otherwise each of its stages is. Groups have a power of two of devices
//! or whole servers, or all devices of their kind are in one server.

use stagewright_core::document::{ClusterDocument, KindDocument, Precision, ReplicaDocument};
use stagewright_formats::clusters;

use crate::error::inconsistent;
use crate::{ExportError, Result};

/// Devices of one kind in one server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Node {
    /// Index of the kind in the cluster.
    pub kind: usize,
    /// Number of devices.
    pub devices: u64,
}

/// Devices of a server of a kind: those of the kind or of the built-in device, or all.
pub(super) fn server(kind: &KindDocument) -> u64 {
    let class = kind.class.as_str();
    let without_precision = || {
        let (name, precision) = class.rsplit_once('-')?;
        Precision::named(precision).and_then(|_| clusters::device(name))
    };
    let built_in = || clusters::device(class).or_else(without_precision)?.server.as_ref();
    let devices =
        kind.server.map(|server| server.devices).or_else(|| built_in().map(|server| server.devices));
    u64::from(devices.unwrap_or(kind.count)).max(1)
}

/// The groups of a replica by servers, in the order of ranks, where a stage has `width` devices.
///
/// # Errors
/// If the cluster lacks a kind, or a group neither stays in a server nor takes whole ones (E029).
pub(super) fn nodes(
    cluster: &ClusterDocument,
    replica: &ReplicaDocument,
    width: u64,
    place: &str,
) -> Result<Vec<Node>> {
    let mut kinds = Vec::with_capacity(replica.stages.len());
    for (number, stage) in replica.stages.iter().enumerate() {
        let found = cluster.kinds.iter().position(|kind| kind.name == stage.kind && !kind.host);
        let Some(kind) = found else {
            let why = format!("the cluster has no devices `{}`", stage.kind.escape_debug());
            return Err(inconsistent(why, format!("{place}.stages[{number}].kind")));
        };
        kinds.push(kind);
    }
    let is_inside = |kind: usize, devices: u64| {
        let (count, server) = (u64::from(cluster.kinds[kind].count), server(&cluster.kinds[kind]));
        count <= server || (devices.is_power_of_two() && devices <= server)
    };
    let all = width.saturating_mul(kinds.len() as u64);
    if kinds.iter().all(|kind| *kind == kinds[0]) && is_inside(kinds[0], all) {
        return Ok(vec![Node { kind: kinds[0], devices: all }]);
    }
    let mut nodes = Vec::new();
    for (number, &kind) in kinds.iter().enumerate() {
        let server = server(&cluster.kinds[kind]);
        if is_inside(kind, width) {
            nodes.push(Node { kind, devices: width });
        } else if width.is_multiple_of(server) {
            nodes.extend((0..width / server).map(|_| Node { kind, devices: server }));
        } else {
            let why = format!("{width} devices neither stay in a server of {server} nor take whole ones");
            return Err(inconsistent(why, format!("{place}.stages[{number}].tensor")));
        }
    }
    Ok(nodes)
}

/// Refuses groups of different sizes: launchers give each server as many ranks.
///
/// # Errors
/// If the sizes differ (E016).
pub(super) fn check_even(nodes: &[Node]) -> Result<()> {
    match nodes.iter().find(|node| node.devices != nodes[0].devices) {
        Some(node) => {
            let what =
                format!("{} and {} devices of one replica in its servers", nodes[0].devices, node.devices);
            Err(ExportError::Devices { what, rule: "launchers start as many ranks in each" })
        }
        None => Ok(()),
    }
}
