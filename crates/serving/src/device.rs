//! Devices of a cluster, as serving needs them.

use std::collections::BTreeMap;

use stagewright_core::document::{ClusterDocument, LinkDocument, Precision};
use stagewright_formats::clusters;
use stagewright_formats::code::L;
use stagewright_formats::{InputError, Result};

/// A link that is taken where a cluster gives none: PCI Express 4.0 with 16 lanes, 31.5e9 bytes a second each way.
pub const DEFAULT_LINK: LinkDocument = LinkDocument { latency_s: 10e-6, bandwidth: 31.5e9 };

/// A device: peaks, memory and links.
#[derive(Debug, Clone, PartialEq)]
pub struct Device {
    /// Name of its kind or class.
    pub name: String,
    /// Dense peaks in FLOP a second.
    pub peaks: BTreeMap<Precision, f64>,
    /// Bandwidth of the memory in bytes a second.
    pub bandwidth: f64,
    /// Bytes of memory, without what the cluster reserves.
    pub memory: f64,
    /// Link to devices of the same server.
    pub inside: LinkDocument,
    /// Link to devices of other servers.
    pub between: LinkDocument,
    /// Devices of a server.
    pub server: u64,
}

impl Device {
    /// The device of a kind of a cluster, by the number of the kind.
    ///
    /// Peaks of the class count; if it has one peak alone and is a built-in device, the built-in device's others count too. The
    /// server is that of the kind, of the built-in device, or else holds all devices of the kind. Where no link is given,
    /// [`DEFAULT_LINK`] is taken.
    ///
    /// # Errors
    /// If the cluster has no such kind, or the kind no memory, no peak or no bandwidth (L021). `label` names the cluster.
    pub fn of(label: &str, cluster: &ClusterDocument, kind: usize) -> Result<Device> {
        let wrong = |path: String, message: String, help: &str| {
            InputError::at_path(L::L021, label, path, message, help)
        };
        let path = format!("kinds[{kind}]");
        let Some(document) = cluster.kinds.get(kind) else {
            return Err(wrong(path, format!("the cluster has no kind {kind}"), "give a kind of the cluster"));
        };
        let class = cluster.classes.get(&document.class);
        let built_in = built_in(&document.class);
        let mut peaks = class.map(|class| class.peaks.clone()).unwrap_or_default();
        if peaks.is_empty() {
            peaks = built_in.map(|device| device.peak_flops.clone()).unwrap_or_default();
        }
        if peaks.is_empty() {
            peaks.extend(class.and_then(|class| Some((Precision::Bf16, class.peak_flops?))));
        }
        peaks.retain(|_, peak| peak.is_finite() && *peak > 0.0);
        let positive = |value: &f64| value.is_finite() && *value > 0.0;
        let class_path = |field: &str| format!("classes.{}.{field}", document.class);
        if peaks.is_empty() {
            let message = format!("class `{}` has no peak", document.class);
            return Err(wrong(class_path("peaks"), message, "add `peaks`, in FLOP a second, to the class"));
        }
        let bandwidth = class.and_then(|class| class.memory_bandwidth).filter(positive).ok_or_else(|| {
            let message = format!("class `{}` has no bandwidth of its memory", document.class);
            wrong(class_path("memory_bandwidth"), message, "add `memory_bandwidth`, in bytes a second")
        })?;
        let memory = document.memory_bytes.filter(positive).ok_or_else(|| {
            let message = format!("kind `{}` has no memory", document.name);
            wrong(format!("{path}.memory_bytes"), message, "add `memory_bytes` to the kind")
        })?;
        let server = document.server.map(|server| (server.devices, server.link));
        let vendor = || built_in?.server.as_ref().map(|server| (server.devices, server.link.document()));
        let (server, between) =
            server.or_else(vendor).unwrap_or((document.count, document.link.unwrap_or(DEFAULT_LINK)));
        Ok(Device {
            name: document.class.clone(),
            peaks,
            bandwidth,
            memory: (memory - document.reserve_bytes.unwrap_or(0.0)).max(0.0),
            inside: document.link.unwrap_or(DEFAULT_LINK),
            between,
            server: u64::from(server).max(1),
        })
    }

    /// A built-in device by its name in the table of devices.
    ///
    /// # Errors
    /// If there is no such device, or it lacks a figure (L021).
    pub fn named(label: &str, name: &str) -> Result<Device> {
        let cluster = clusters::shorthand(&format!("1x{name}")).map_err(|error| {
            InputError::at_path(L::L021, label, "device", error.to_string(), "give a built-in device")
        })?;
        Device::of(label, &cluster, 0)
    }

    /// Peak at which products in a precision run, in FLOP a second. Where a device has no units for it, operands are decoded to
    /// 16 bits.
    pub fn peak(&self, precision: Precision) -> f64 {
        let own = self.peaks.get(&precision);
        let half = || [Precision::Bf16, Precision::Fp16].into_iter().find_map(|half| self.peaks.get(&half));
        let any = || self.peaks.values().next();
        own.or_else(half).or_else(any).copied().unwrap_or(f64::MIN_POSITIVE)
    }

    /// Whether products of weights in fewer than 16 bits run in a precision of fewer bits too.
    pub fn has_units(&self, precision: Precision) -> bool {
        precision.bytes() < 2.0 && self.peaks.contains_key(&precision)
    }

    /// Link of collectives among a number of devices: within a server if they fit in it.
    pub fn link(&self, devices: u64) -> LinkDocument {
        if devices <= self.server { self.inside } else { self.between }
    }
}

/// The built-in device that a compute class is named after, perhaps with a precision.
fn built_in(class: &str) -> Option<&'static clusters::Device> {
    let without_precision = || {
        let (name, precision) = class.rsplit_once('-')?;
        Precision::named(precision).and_then(|_| clusters::device(name))
    };
    clusters::device(class).or_else(without_precision)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn built_in_devices_have_all_peaks_and_their_server() {
        let b200 = Device::named("", "b200").unwrap();
        assert_eq!(b200.peak(Precision::Fp4), 9e15);
        assert_eq!((b200.server, b200.link(8).bandwidth, b200.link(16).bandwidth), (8, 900e9, 50e9));
        let h100 = Device::named("", "h100").unwrap();
        assert_eq!(h100.peak(Precision::Fp4), h100.peak(Precision::Bf16), "4 bits are decoded");
        assert_eq!(Device::named("", "h1000").unwrap_err().code.name, "L021");
    }

    #[test]
    fn missing_figures_are_located() {
        let mut cluster = clusters::find("8xh100").unwrap();
        cluster.kinds[0].memory_bytes = None;
        let error = Device::of("cluster", &cluster, 0).unwrap_err();
        assert_eq!((error.code.name, error.place.at.to_string()), ("L021", "kinds[0].memory_bytes".into()));
        assert_eq!(Device::of("cluster", &cluster, 3).unwrap_err().code.name, "L021");
    }
}
