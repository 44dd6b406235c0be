//! The devices of the stages: their kinds, their number, and the links between them.

use stagewright_core::document::{JointPlanDocument, LinkDocument, RuntimeDocument};

use crate::error::CheckError;
use crate::joint::{JointViolation, rules};
use crate::read::{self, Cluster, Kind, amount, rate};

/// The devices of a stage.
#[derive(Debug, Clone, Copy)]
pub(super) struct Devices<'a> {
    pub(super) kind: &'a Kind<'a>,
    /// Link from the devices' group to other groups.
    uplink: Option<&'a LinkDocument>,
    pub(super) tensor: u64,
    /// Tensor-parallel groups with the same parameters: the product of the degrees of data and context parallelism.
    pub(super) copies: u64,
    pub(super) runtime: Option<&'a RuntimeDocument>,
}

/// Devices that communicate.
#[derive(Debug, Clone, Copy)]
pub(super) struct Group {
    pub(super) count: u64,
    /// Distance from one of them to the next.
    pub(super) apart: u64,
    /// Number of consecutive devices that decides whether the group is inside a server.
    pub(super) span: u64,
}

/// A link as the cluster states it.
#[derive(Debug, Clone, Copy)]
struct Stated<'a> {
    link: &'a LinkDocument,
    is_between_servers: bool,
}

impl<'a> Devices<'a> {
    /// Devices of the kind with index `kind`.
    pub(super) fn new(
        cluster: &'a Cluster<'a>,
        runtime: Option<&'a RuntimeDocument>,
        kind: usize,
        tensor: u64,
        copies: u64,
    ) -> Self {
        let kind = &cluster.kinds[kind];
        let uplink = kind.group.map(|group| &cluster.groups[group].uplink);
        Devices { kind, uplink, tensor, copies, runtime }
    }

    /// Number of devices of a stage.
    pub(super) fn of_stage(&self) -> u64 {
        self.tensor.saturating_mul(self.copies)
    }

    /// Number of devices of a server; a kind without servers is a single server.
    pub(super) fn of_server(&self) -> u64 {
        let document = self.kind.document;
        u64::from(document.server.map_or(document.count, |server| server.devices))
    }

    /// Factor of the seconds of transfers between stages.
    pub(super) fn transfers(&self) -> f64 {
        self.runtime.map_or(1.0, |runtime| runtime.transfers)
    }

    /// Bytes of a device that a plan may use; `None` if they are unlimited.
    pub(super) fn usable_memory(&self, is_version_2: bool) -> Option<f64> {
        let document = self.kind.document;
        let Some(runtime) = self.runtime else { return read::usable_memory(document, is_version_2) };
        let left =
            |memory: f64| document.reserve_bytes.unwrap_or(runtime.reserve_bytes + runtime.margin * memory);
        document.memory_bytes.map(|memory| (memory - left(memory)).max(0.0))
    }

    /// The link used by a group. A runtime uses the ports of all devices that the group has in a server.
    pub(super) fn link(&self, group: Group, needed_for: &str) -> Result<LinkDocument, CheckError> {
        let Group { count, apart, span } = group;
        let one_port = self.port(span, needed_for)?;
        let Some(runtime) = self.runtime else { return Ok(one_port) };
        if !self.stated(span, needed_for)?.is_between_servers {
            return Ok(one_port);
        }
        let ports = (self.of_server() / apart.max(1)).max(1).min(count);
        let inside = self.kind.document.link.map_or(f64::INFINITY, |link| link.bandwidth * runtime.link);
        Ok(LinkDocument { bandwidth: inside.min(ports as f64 * one_port.bandwidth), ..one_port })
    }

    /// The link used by a transfer in a pipeline of `span` devices. Transfers between many servers may start later.
    pub(super) fn transfer_link(&self, span: u64, needed_for: &str) -> Result<LinkDocument, CheckError> {
        let mut link = self.port(span, needed_for)?;
        if let Some(runtime) = self.runtime
            && self.stated(span, needed_for)?.is_between_servers
            && u64::from(self.kind.document.count).div_ceil(self.of_server().max(1))
                >= u64::from(runtime.wide_servers)
        {
            link.latency_s += runtime.wide_transfer_s;
        }
        Ok(link)
    }

    /// The link used by a device of a group of `span` devices.
    fn port(&self, span: u64, needed_for: &str) -> Result<LinkDocument, CheckError> {
        let Stated { link, is_between_servers } = self.stated(span, needed_for)?;
        let reached = match (self.runtime, is_between_servers) {
            (None, _) => return Ok(*link),
            (Some(runtime), true) => runtime.network,
            (Some(runtime), false) => runtime.link,
        };
        Ok(LinkDocument { bandwidth: link.bandwidth * reached, ..*link })
    }

    /// The link between devices that span `span` consecutive devices.
    fn stated(&self, span: u64, needed_for: &str) -> Result<Stated<'a>, CheckError> {
        let document = self.kind.document;
        let is_between_servers = span > self.of_server();
        let link = match (&document.server, self.uplink) {
            (Some(server), _) if is_between_servers => Some(&server.link),
            // A kind in a group forms one server.
            (None, Some(uplink)) if is_between_servers => Some(uplink),
            _ => document.link.as_ref(),
        };
        let no_link =
            || CheckError::NoLink { kind: document.name.clone(), needed_for: needed_for.to_owned() };
        Ok(Stated { link: link.ok_or_else(no_link)?, is_between_servers })
    }
}

/// Checks a degree of tensor parallelism: it divides the devices of a server or, with a runtime, is a multiple of them of up
/// to all devices of the kind. The error states the requirement.
pub(super) fn allow_tensor(kind: &Kind, has_runtime: bool, tensor: u64) -> Result<(), String> {
    let count = u64::from(kind.document.count);
    let of_server = kind.document.server.map_or(count, |server| u64::from(server.devices).min(count));
    let divides = of_server.checked_rem(tensor) == Some(0);
    let is_multiple =
        has_runtime && (1..=count).contains(&tensor) && tensor.checked_rem(of_server) == Some(0);
    match has_runtime {
        _ if divides || is_multiple => Ok(()),
        true => {
            Err(format!("a divisor of the {of_server} devices of a server, or a multiple of up to {count}"))
        }
        false => Err(format!("a divisor of the {of_server} devices of a server")),
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
    plan: &'a JointPlanDocument,
    violations: &mut Vec<JointViolation>,
) -> Vec<Devices<'a>> {
    let mut stages = Vec::with_capacity(plan.stages.len());
    let mut first_of: Vec<Option<u32>> = vec![None; cluster.kinds.len()];
    let mut used = vec![0u64; cluster.kinds.len()];
    let pipeline = rules::pipeline(plan);
    let runtime = plan.objective.runtime.as_ref();
    for (index, stage) in plan.stages.iter().enumerate() {
        let Some(kind) = stage.kind.as_ref().and_then(|name| cluster.find_kind(name)) else {
            violations.push(JointViolation::Kind { stage: index, kind: stage.kind.clone() });
            continue;
        };
        let (tensor, first) = (stage.tensor, *first_of[kind].get_or_insert(stage.tensor));
        let copies = u64::from(stage.data).saturating_mul(rules::context(plan));
        let devices = Devices::new(cluster, runtime, kind, u64::from(tensor), copies);
        // Later stages reuse the same devices.
        if index < pipeline {
            used[kind] = used[kind].saturating_add(devices.of_stage());
        }
        let mut wrong = |needs| {
            let found = u64::from(tensor);
            violations.push(JointViolation::Degree { stage: Some(index), name: "tensor", found, needs });
        };
        if let Err(needs) = allow_tensor(devices.kind, runtime.is_some(), u64::from(tensor)) {
            wrong(needs);
        }
        if first != tensor {
            wrong(format!("{first}, as in other stages on its kind"));
        }
        stages.push(devices);
    }
    for (kind, used) in cluster.kinds.iter().zip(used) {
        let count = u64::from(kind.document.count);
        if used > count {
            let kind = Some(kind.document.name.clone());
            violations.push(JointViolation::Devices { kind, used, count });
        }
    }
    stages
}
