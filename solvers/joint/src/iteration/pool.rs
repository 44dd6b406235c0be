//! Kinds of devices, with their servers, and the pool of stages with devices of two kinds.

use std::sync::Arc;

use stagewright_core::document::{ClassDocument, ClusterDocument, GraphDocument, LinkDocument};
use stagewright_core::memory::reserve;
use stagewright_core::tolerance::MEMORY_RELATIVE;

use super::error::ModelError;
use super::runtime::Runtime;
use super::table::Room;

/// Maximum number of kinds, since the dynamic program counts the stages on each.
pub(crate) const MAX_KINDS: usize = 4;

/// Devices of a kind, or of two.
#[derive(Debug, Clone)]
pub(crate) struct Pool {
    /// Name of the kind, for display if there are two.
    pub(crate) name: String,
    pub(crate) devices: u32,
    /// Bytes that a plan may use on a device.
    pub(crate) capacity: f64,
    /// Share of the peak that products reach, and that other operators reach.
    pub(crate) efficiency: [f64; 2],
    /// Link between devices of a server.
    pub(crate) link: LinkDocument,
    /// Number of devices of a server.
    pub(crate) server: u32,
    /// Link between devices of different servers.
    pub(crate) network: LinkDocument,
    /// The host's memory, if it may have states and activations.
    pub(crate) ram: Option<Ram>,
    /// The two kinds of stages with devices of both; `None` if there is one kind.
    pub(crate) parts: Option<Arc<[Pool; 2]>>,
}

/// Memory of a host, the share of one device.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Ram {
    /// Bytes that a plan may use; infinite if memory is unlimited.
    pub(crate) capacity: f64,
    /// Bytes per second of updates.
    pub(crate) bandwidth: f64,
    /// Bytes per second from and to a device.
    pub(crate) link: f64,
}

/// Devices that communicate.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Group {
    pub(crate) devices: u64,
    /// Distance from a device of the group to the next.
    pub(crate) stride: u64,
    /// Consecutive devices that decide whether the group is inside a server.
    pub(crate) span: u64,
}

impl Pool {
    /// The pool of stages with devices of two kinds: its memory is the smaller of both, it has a host only if both kinds
    /// have one, and no server has devices of both.
    pub(crate) fn mixed(first: &Pool, second: &Pool) -> Pool {
        let ram = first.ram.zip(second.ram).map(|(first, second)| Ram {
            capacity: first.capacity.min(second.capacity),
            bandwidth: first.bandwidth.min(second.bandwidth),
            link: first.link.min(second.link),
        });
        let part = |pool: &Pool| Pool { ram: pool.ram.filter(|_| ram.is_some()), ..pool.clone() };
        let network = slower(first.network, second.network);
        Pool {
            name: format!("{} and {}", first.name, second.name),
            devices: first.devices.saturating_add(second.devices),
            capacity: first.capacity.min(second.capacity),
            efficiency: first.efficiency,
            link: network,
            server: 0,
            network,
            ram,
            parts: Some(Arc::new([part(first), part(second)])),
        }
    }

    /// The kinds of the devices.
    pub(crate) fn kinds(&self) -> &[Pool] {
        self.parts.as_ref().map_or(std::slice::from_ref(self), |parts| parts.as_slice())
    }

    /// Bytes that stages on a device may use.
    pub(crate) fn room(&self) -> Room {
        Room { device: self.capacity, host: self.ram.map_or(0.0, |ram| ram.capacity) }
    }

    /// The rate at which the devices of a group communicate.
    pub(crate) fn link_of(&self, runtime: &Runtime, group: Group) -> LinkDocument {
        let [inside, between] = self.links(runtime);
        let server = u64::from(self.server);
        if group.span <= server {
            return inside;
        }
        if runtime.is_ideal {
            return between;
        }
        // Rings use all ports of a server's devices.
        let ports = (server / group.stride).max(1).min(group.devices) as f64;
        LinkDocument { bandwidth: inside.bandwidth.min(ports * between.bandwidth), ..between }
    }

    /// The links of two devices in a server, and in different servers.
    pub(crate) fn links(&self, runtime: &Runtime) -> [LinkDocument; 2] {
        let reached =
            |link: LinkDocument, share: f64| LinkDocument { bandwidth: link.bandwidth * share, ..link };
        [reached(self.link, runtime.link), reached(self.network, runtime.network)]
    }

    /// The links of two stages in a server, and in different servers.
    pub(crate) fn stage_links(&self, runtime: &Runtime) -> [LinkDocument; 2] {
        if let Some(parts) = &self.parts {
            let [[_, first], [_, second]] = [0, 1].map(|kind| parts[kind].stage_links(runtime));
            return [slower(first, second); 2];
        }
        let [inside, mut between] = self.links(runtime);
        if self.devices.div_ceil(self.server) >= runtime.wide_servers {
            between.latency_s += runtime.wide_transfer_s;
        }
        [inside, between]
    }
}

/// The slower of two links, by bandwidth and by latency.
pub(crate) fn slower(first: LinkDocument, second: LinkDocument) -> LinkDocument {
    LinkDocument {
        latency_s: first.latency_s.max(second.latency_s),
        bandwidth: first.bandwidth.min(second.bandwidth),
    }
}

/// The kinds of a cluster that are not hosts, with the memory that a plan for the graph may use, and the class of each.
///
/// # Errors
/// If a kind has no class figures, memory or link, or if there are too many.
#[expect(clippy::type_complexity, reason = "kinds beside their classes")]
pub(crate) fn pools<'c>(
    graph: &GraphDocument,
    cluster: &'c ClusterDocument,
    runtime: &Runtime,
) -> Result<(Vec<Pool>, Vec<(&'c str, &'c ClassDocument)>), ModelError> {
    let kinds: Vec<_> = cluster.kinds.iter().filter(|kind| !kind.host && kind.count > 0).collect();
    if kinds.is_empty() || kinds.len() > MAX_KINDS {
        return Err(ModelError::Kinds { found: kinds.len(), most: MAX_KINDS });
    }
    let (mut pools, mut classes) = (Vec::new(), Vec::new());
    for kind in kinds {
        let missing = |what| ModelError::Kind { kind: kind.name.clone(), what };
        let class = cluster.classes.get_key_value(&kind.class).ok_or_else(|| missing("class"))?;
        let memory = kind.memory_bytes.ok_or_else(|| missing("memory_bytes"))?;
        let link = kind
            .link
            .filter(is_valid)
            .ok_or_else(|| missing("link with a bandwidth above 0 and a latency of 0 or more"))?;
        let server = kind.server.map_or(kind.count, |server| server.devices.min(kind.count));
        // A kind in a group forms one server, whose uplink leads to the other servers.
        let group = cluster.groups.iter().find(|group| Some(&group.name) == kind.group.as_ref());
        let uplink = group.map_or(link, |group| group.uplink);
        let network = kind.server.map_or(uplink, |server| server.link);
        if server == 0 || !is_valid(&network) {
            return Err(missing(
                "server with at least one device, a bandwidth above 0 and a latency of 0 or more",
            ));
        }
        let ram = kind.ram.map(|ram| Ram {
            capacity: ram.memory_bytes.map_or(f64::INFINITY, |bytes| bytes * (1.0 + MEMORY_RELATIVE)),
            bandwidth: ram.bandwidth,
            link: ram.link_bandwidth,
        });
        let is_rate = |rate: f64| rate > 0.0 && rate.is_finite();
        if ram.is_some_and(|ram| !is_rate(ram.bandwidth) || !is_rate(ram.link) || ram.capacity.is_nan()) {
            return Err(missing("ram with bandwidths above 0"));
        }
        classes.push((class.0.as_str(), class.1));
        let ideal = class.1.efficiency.unwrap_or(1.0);
        let reserve = match runtime.is_ideal {
            true => reserve(graph, kind),
            false => kind.reserve_bytes.unwrap_or(runtime.reserve(memory)),
        };
        pools.push(Pool {
            name: kind.name.clone(),
            devices: kind.count,
            capacity: (memory - reserve).max(0.0) * (1.0 + MEMORY_RELATIVE),
            efficiency: match runtime.is_ideal {
                true => [ideal; 2],
                false => [class.1.training_efficiency.unwrap_or(ideal), ideal],
            },
            link,
            server,
            network,
            ram,
            parts: None,
        });
    }
    Ok((pools, classes))
}

fn is_valid(link: &LinkDocument) -> bool {
    link.bandwidth > 0.0 && link.bandwidth.is_finite() && link.latency_s >= 0.0 && link.latency_s.is_finite()
}
