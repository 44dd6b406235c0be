//! The devices of the stages: their kinds, their number, and the links between them.

use stagewright_core::document::{JointPlanDocument, LinkDocument};

use crate::error::CheckError;
use crate::joint::{JointViolation, rules};
use crate::read::{Cluster, Kind, amount, rate};

/// The devices of a stage.
#[derive(Debug, Clone, Copy)]
pub(super) struct Devices<'a> {
    pub(super) kind: &'a Kind<'a>,
    /// Link from the devices' group to other groups.
    uplink: Option<&'a LinkDocument>,
    pub(super) tensor: u64,
    pub(super) data: u64,
}

impl<'a> Devices<'a> {
    /// Devices of the kind with index `kind`.
    pub(super) fn new(cluster: &'a Cluster<'a>, kind: usize, tensor: u64, data: u64) -> Self {
        let kind = &cluster.kinds[kind];
        let uplink = kind.group.map(|group| &cluster.groups[group].uplink);
        Devices { kind, uplink, tensor, data }
    }

    /// The link used by a communication group that spans `span` consecutive devices.
    pub(super) fn link(&self, span: u64, needed_for: &str) -> Result<&'a LinkDocument, CheckError> {
        let document = self.kind.document;
        match (&document.server, self.uplink, &document.link) {
            (Some(server), _, _) if span > u64::from(server.devices) => Ok(&server.link),
            // A kind in a group forms one server.
            (None, Some(uplink), _) if span > u64::from(document.count) => Ok(uplink),
            (_, _, Some(link)) => Ok(link),
            (_, _, None) => {
                let needed_for = needed_for.to_owned();
                Err(CheckError::NoLink { kind: document.name.clone(), needed_for })
            }
        }
    }
}

/// The link between two stages: the lower bandwidth and the higher latency of their links.
pub(super) fn slower(first: &LinkDocument, second: &LinkDocument) -> LinkDocument {
    LinkDocument {
        latency_s: first.latency_s.max(second.latency_s),
        bandwidth: first.bandwidth.min(second.bandwidth),
    }
}

/// Checks the servers of the kinds.
///
/// # Errors
/// If a figure of a server is out of range.
pub(super) fn read_servers(cluster: &Cluster) -> Result<(), CheckError> {
    for kind in cluster.kinds.iter().map(|kind| kind.document) {
        let Some(server) = &kind.server else { continue };
        let name = &kind.name;
        rate(f64::from(server.devices), || format!("devices of a server of kind {name:?}"))?;
        amount(server.link.latency_s, || format!("latency_s between servers of kind {name:?}"))?;
        rate(server.link.bandwidth, || format!("bandwidth between servers of kind {name:?}"))?;
    }
    Ok(())
}

/// The devices of every stage. Reports kinds that do not exist or have too few devices, and degrees of tensor
/// parallelism that differ within a kind or do not divide the devices of its servers.
pub(super) fn of_stages<'a>(
    cluster: &'a Cluster<'a>,
    plan: &JointPlanDocument,
    violations: &mut Vec<JointViolation>,
) -> Vec<Devices<'a>> {
    let mut stages = Vec::with_capacity(plan.stages.len());
    let mut first_of: Vec<Option<u32>> = vec![None; cluster.kinds.len()];
    let mut used: Vec<Vec<(u32, u32)>> = vec![Vec::new(); cluster.kinds.len()];
    let pipeline = rules::pipeline(plan);
    for (index, stage) in plan.stages.iter().enumerate() {
        let Some(kind) = stage.kind.as_ref().and_then(|name| cluster.find_kind(name)) else {
            violations.push(JointViolation::Kind { stage: index, kind: stage.kind.clone() });
            continue;
        };
        let (tensor, first) = (stage.tensor, *first_of[kind].get_or_insert(stage.tensor));
        // Later stages reuse the same devices.
        if index < pipeline {
            used[kind].push((tensor, stage.data));
        }
        let devices = Devices::new(cluster, kind, u64::from(tensor), u64::from(stage.data));
        let document = devices.kind.document;
        let count = document.count;
        let of_server = document.server.map_or(count, |server| server.devices.min(count));
        let mut wrong = |needs| {
            let found = u64::from(tensor);
            violations.push(JointViolation::Degree { stage: Some(index), name: "tensor", found, needs });
        };
        if of_server.checked_rem(tensor).is_none_or(|rest| rest != 0) {
            wrong(format!("a divisor of the {of_server} devices of a server"));
        }
        if first != tensor {
            wrong(format!("{first}, as in other stages on its kind"));
        }
        stages.push(devices);
    }
    for (kind, used) in cluster.kinds.iter().zip(used) {
        let (used, count) = (rules::devices(used.into_iter()), u64::from(kind.document.count));
        if used > count {
            let kind = Some(kind.document.name.clone());
            violations.push(JointViolation::Devices { kind, used, count });
        }
    }
    stages
}
