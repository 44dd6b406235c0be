//! Servers of a cluster, and the devices that each copy of a replica gets.
//!
//! A replica of one kind that fits in a server is a group, and otherwise each of its stages is. Groups have a power of two of devices
//! or whole servers, or all devices of their kind are in one server. Then taking larger groups first, each on the first server with
//! room, finds a place for all of them if there is one.

use std::ops::Range;

use stagewright_core::document::{ClusterDocument, KindDocument, Precision, ReplicaDocument};
use stagewright_formats::clusters;

use super::plan::{Serving, inconsistent};
use crate::{ExportError, Result};

/// Devices of one kind in one server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Node {
    /// Index of the kind in the cluster.
    pub kind: usize,
    /// Number of devices.
    pub devices: u64,
}

/// A server with devices that the plan uses.
#[derive(Debug)]
pub(super) struct Server {
    /// Index of the kind in the cluster.
    pub kind: usize,
    /// Number of devices.
    pub devices: u64,
    /// Number of its processes.
    pub processes: u64,
    used: u64,
}

/// A part of a copy in one server.
#[derive(Debug, Clone)]
pub(super) struct Part {
    /// The server, counted from 0.
    pub server: usize,
    /// Devices of the server.
    pub devices: Range<u64>,
}

/// A copy of a replica on servers.
#[derive(Debug)]
pub(super) struct Placed {
    /// Index of the replica in the plan.
    pub replica: usize,
    /// Number of the copy, counted from 0.
    pub copy: u64,
    /// Parts in the order of ranks.
    pub parts: Vec<Part>,
    /// Number of the first part among the processes of its server.
    pub slot: u64,
}

/// All copies of a plan on servers.
#[derive(Debug)]
pub(super) struct Placement {
    pub servers: Vec<Server>,
    pub copies: Vec<Placed>,
}

/// Devices of a server of a kind: those of the kind, else of the built-in device, else all.
fn server(kind: &KindDocument) -> u64 {
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

/// Places all copies on servers.
///
/// # Errors
/// If they do not fit (E029), or a launcher cannot divide a copy evenly over its servers (E016).
pub(super) fn place(plan: &Serving) -> Result<Placement> {
    let mut groups = Vec::new();
    let mut copies = Vec::new();
    for (replica, found) in plan.replicas.iter().enumerate() {
        check_even(&found.nodes)?;
        for copy in 0..found.document.count {
            groups.extend((0..found.nodes.len()).map(|node| (copies.len(), node)));
            let parts = vec![Part { server: 0, devices: 0..0 }; found.nodes.len()];
            copies.push(Placed { replica, copy, parts, slot: 0 });
        }
    }
    let node = |copy: &Placed, node: usize| plan.replicas[copy.replica].nodes[node];
    groups.sort_by_key(|&(copy, number)| std::cmp::Reverse(node(&copies[copy], number).devices));
    let mut servers: Vec<Server> = Vec::new();
    for (copy, number) in groups {
        let Node { kind, devices } = node(&copies[copy], number);
        let has_room = |server: &Server| server.kind == kind && server.devices - server.used >= devices;
        let index = match servers.iter().position(has_room) {
            Some(index) => index,
            None => {
                let opened = servers.iter().filter(|server| server.kind == kind).count() as u64;
                let fresh = open(&plan.cluster().kinds[kind], kind, opened);
                let Some(fresh) = fresh.filter(|server| server.devices >= devices) else {
                    let why = "the replicas do not fit on the servers of the cluster".to_owned();
                    return Err(inconsistent(why, "replicas"));
                };
                servers.push(fresh);
                servers.len() - 1
            }
        };
        let used = servers[index].used;
        servers[index].used += devices;
        copies[copy].parts[number] = Part { server: index, devices: used..used + devices };
    }
    for copy in &mut copies {
        let first = copy.parts[0].server;
        copy.slot = servers[first].processes;
        servers[first].processes += 1;
    }
    Ok(Placement { servers, copies })
}

/// The server of a kind with a number, counted from 0; `None` if there are fewer.
fn open(document: &KindDocument, kind: usize, number: u64) -> Option<Server> {
    let (size, count) = (server(document), u64::from(document.count));
    let before = number.checked_mul(size).filter(|before| *before < count)?;
    Some(Server { kind, devices: size.min(count - before), processes: 0, used: 0 })
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
