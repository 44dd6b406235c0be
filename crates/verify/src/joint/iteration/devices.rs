//! The devices of the stages: their kinds, their number, and the links between them.

use std::collections::BTreeMap;

use stagewright_core::document::{
    JointPlanDocument, JointStageDocument, LinkDocument, Parallelism, RuntimeDocument,
};

use crate::error::CheckError;
use crate::joint::{JointViolation, rules};
use crate::read::{self, Cluster, Kind, amount, rate};

/// The devices of a stage of one kind.
#[derive(Debug, Clone, Copy)]
pub(super) struct Devices<'a> {
    pub(super) kind: &'a Kind<'a>,
    /// Link from the devices' group to other groups.
    uplink: Option<&'a LinkDocument>,
    /// The other kind of the stage, and its link to other groups.
    beside: Option<(&'a Kind<'a>, Option<&'a LinkDocument>)>,
    pub(super) tensor: u64,
    /// Degree of context parallelism.
    context: u64,
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
    /// Devices of a stage on the kinds with these indices, one or two: those of each. `degrees` has those of tensor,
    /// data and context parallelism.
    pub(super) fn on(
        cluster: &'a Cluster<'a>,
        runtime: Option<&'a RuntimeDocument>,
        kinds: &[usize],
        degrees: [u64; 3],
    ) -> Vec<Self> {
        let [tensor, data, context] = degrees;
        let linked = |kind: usize| {
            let kind = &cluster.kinds[kind];
            (kind, kind.group.map(|group| &cluster.groups[group].uplink))
        };
        let devices = |&index: &usize| {
            let (kind, uplink) = linked(index);
            let beside = kinds.iter().find(|&&other| other != index).map(|&other| linked(other));
            Devices { kind, uplink, beside, tensor, context, copies: data.saturating_mul(context), runtime }
        };
        kinds.iter().map(devices).collect()
    }

    /// Number of devices of a copy, which are of one kind.
    pub(super) fn of_copy(&self) -> u64 {
        self.tensor.saturating_mul(self.context)
    }

    /// Number of devices of a stage.
    pub(super) fn of_stage(&self) -> u64 {
        self.tensor.saturating_mul(self.copies)
    }

    /// Number of devices of a server; a kind without servers is a single server.
    pub(super) fn of_server(&self) -> u64 {
        let document = self.kind.document;
        u64::from(document.server.map_or(document.count, |server| server.devices.min(document.count)))
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

    /// The link used by a group. One that is not within a copy may have devices of both kinds of a stage, which are in
    /// different servers: it uses the slower of their links.
    pub(super) fn link(&self, group: Group, needed_for: &str) -> Result<LinkDocument, CheckError> {
        match self.beside {
            Some((kind, uplink)) if !self.of_copy().is_multiple_of(group.span) => {
                let group = Group { span: u64::MAX, ..group };
                let other = Devices { kind, uplink, beside: None, ..*self };
                Ok(slower(&self.link_on_kind(group, needed_for)?, &other.link_on_kind(group, needed_for)?))
            }
            _ => self.link_on_kind(group, needed_for),
        }
    }

    /// The link used by a group of one kind. A runtime uses the ports of all devices that the group has in a server.
    fn link_on_kind(&self, group: Group, needed_for: &str) -> Result<LinkDocument, CheckError> {
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

/// The link used by transfers of a stage in a pipeline of `span` devices: the slowest of its kinds.
pub(super) fn transfer_link(sides: &[Devices], span: u64) -> Result<LinkDocument, CheckError> {
    let links = sides.iter().map(|devices| devices.transfer_link(span, "transfers between stages"));
    let links: Vec<LinkDocument> = links.collect::<Result<_, _>>()?;
    let slowest = links.into_iter().reduce(|first, second| slower(&first, &second));
    slowest.ok_or(CheckError::Rule { rule: "a stage", needs: "a kind of devices" })
}

/// The kinds that stages of two kinds are on: those that have devices and are not hosts.
///
/// # Errors
/// If a plan may have such stages, and there are not two of these kinds.
pub(super) fn mixed_kinds(
    cluster: &Cluster,
    plan: &JointPlanDocument,
) -> Result<Option<[usize; 2]>, CheckError> {
    let is_there = |&kind: &usize| {
        let document = cluster.kinds[kind].document;
        !document.host && document.count > 0
    };
    let kinds: Vec<usize> = (0..cluster.kinds.len()).filter(is_there).collect();
    match (plan.objective.parallel.contains_key(&Parallelism::Mixed), kinds.try_into()) {
        (false, _) => Ok(None),
        (true, Ok(kinds)) => Ok(Some(kinds)),
        (true, Err(_)) => {
            Err(CheckError::Rule { rule: "mixed", needs: "two kinds of devices that are not hosts" })
        }
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

/// The copies of a stage on each of its kinds, by the index of the kind. Reports kinds that do not exist, and copies on
/// two kinds where the plan may not have them, or that are not the copies of the stage.
fn copies(
    cluster: &Cluster,
    mixed: Option<[usize; 2]>,
    stage: &JointStageDocument,
    index: usize,
    violations: &mut Vec<JointViolation>,
) -> Option<Vec<(usize, u64)>> {
    let wrong = |kind: Option<&String>| JointViolation::Kind { stage: index, kind: kind.cloned() };
    let find = |name: &String| cluster.find_kind(name).ok_or_else(|| wrong(Some(name)));
    let data = u64::from(stage.data);
    let found = if stage.mixed.is_empty() {
        let kind = stage.kind.as_ref().ok_or_else(|| wrong(None));
        kind.and_then(find).map(|kind| vec![(kind, data)])
    } else {
        let on = |(name, &copies): (&String, &u32)| Ok((find(name)?, u64::from(copies)));
        stage.mixed.iter().map(on).collect()
    };
    let found = found.map_err(|violation| violations.push(violation)).ok()?;
    if stage.mixed.is_empty() {
        return Some(found);
    }
    let all = found.iter().fold(0, |sum: u64, &(_, copies)| sum.saturating_add(copies));
    let is_mixed = mixed.is_some_and(|kinds| {
        found.len() == 2 && kinds.iter().all(|kind| found.iter().any(|(on, _)| on == kind))
    });
    if stage.kind.is_some() || !is_mixed {
        let why =
            format!("stage {index} is not on one kind, nor, with mixed, on the two kinds that are not hosts");
        violations.push(JointViolation::Stages { why });
        return None;
    }
    if all != data || found.iter().any(|&(_, copies)| copies == 0) {
        let needs = format!("{data}, all its copies, with one or more on each kind");
        violations.push(JointViolation::Degree { stage: Some(index), name: "mixed", found: all, needs });
        return None;
    }
    Some(found)
}

/// The devices of every stage, by kind. Reports kinds that do not exist or have too few devices, and degrees of tensor
/// parallelism that differ within a kind, or in stages of two, or do not divide the devices of its servers.
pub(super) fn of_stages<'a>(
    cluster: &'a Cluster<'a>,
    plan: &'a JointPlanDocument,
    mixed: Option<[usize; 2]>,
    violations: &mut Vec<JointViolation>,
) -> Vec<Vec<Devices<'a>>> {
    let mut stages = Vec::with_capacity(plan.stages.len());
    let mut first_of: BTreeMap<Vec<usize>, u32> = BTreeMap::new();
    let mut used = vec![0u64; cluster.kinds.len()];
    let pipeline = rules::pipeline(plan);
    let runtime = plan.objective.runtime.as_ref();
    for (index, stage) in plan.stages.iter().enumerate() {
        let Some(copies) = copies(cluster, mixed, stage, index, violations) else { continue };
        let kinds: Vec<usize> = copies.iter().map(|&(kind, _)| kind).collect();
        let tensor = stage.tensor;
        let degrees = [u64::from(tensor), u64::from(stage.data), rules::context(plan)];
        let sides = Devices::on(cluster, runtime, &kinds, degrees);
        let mut wrong = |needs| {
            let found = u64::from(tensor);
            violations.push(JointViolation::Degree { stage: Some(index), name: "tensor", found, needs });
        };
        for (devices, (kind, copies)) in sides.iter().zip(copies) {
            // Later stages reuse the same devices.
            if index < pipeline {
                used[kind] = used[kind].saturating_add(devices.of_copy().saturating_mul(copies));
            }
            if let Err(needs) = allow_tensor(devices.kind, runtime.is_some(), u64::from(tensor)) {
                wrong(needs);
            }
        }
        let first = *first_of.entry(kinds).or_insert(tensor);
        if first != tensor {
            wrong(format!("{first}, as in other stages on its kind"));
        }
        stages.push(sides);
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
