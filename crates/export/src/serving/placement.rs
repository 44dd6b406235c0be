//! The servers and devices of every copy of a replica.
//!
//! Larger groups come first, each on the first server with room. For powers of two of devices, whole servers, and kinds in a single
//! server, that finds a place for all groups if there is one.

use std::ops::Range;

use stagewright_core::document::KindDocument;

use super::plan::Serving;
use super::servers::{Node, check_even, server};
use crate::Result;
use crate::error::inconsistent;

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
