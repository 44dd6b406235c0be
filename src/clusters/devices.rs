//! The devices of `data/clusters/devices.toml`, and what they are in a cluster document.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::Deserialize;
pub use stagewright_core::document::Precision;
use stagewright_core::document::{ClassDocument, LinkDocument};

/// What a device is to a cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// A graphics processor.
    Gpu,
    /// A tensor processor.
    Tpu,
    /// A processor socket: a host, which pays nothing for communication.
    Cpu,
}

impl Role {
    /// What its kinds are called.
    pub fn name(self) -> &'static str {
        match self {
            Role::Gpu => "gpu",
            Role::Tpu => "tpu",
            Role::Cpu => "cpu",
        }
    }
}

/// What nobody publishes of a device.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Estimates {
    /// Seconds to launch one operator.
    pub launch_overhead_s: f64,
    /// Share of the peak that is reached, in (0, 1].
    pub efficiency: f64,
    /// What both rest on.
    pub basis: String,
}

/// A link between two devices.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Link {
    /// Bytes per second of one transfer, in one direction.
    pub bandwidth: f64,
    /// Seconds before the first byte: an estimate.
    pub latency_s: f64,
    /// A bridge, which joins two devices and no more.
    #[serde(default)]
    pub pair: bool,
    /// Where the bandwidth comes from.
    pub source: String,
    /// What the latency rests on.
    pub basis: String,
}

impl Link {
    /// As a cluster document has it.
    pub fn document(&self) -> LinkDocument {
        LinkDocument { latency_s: self.latency_s, bandwidth: self.bandwidth }
    }
}

/// A device as the file has it; estimates and links are names.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    title: String,
    role: Role,
    #[serde(default)]
    aliases: Vec<String>,
    memory_bytes: Option<f64>,
    memory_bandwidth: Option<f64>,
    peak_flops: BTreeMap<Precision, f64>,
    estimates: String,
    link: Option<String>,
    #[serde(default)]
    links: BTreeMap<String, String>,
    source: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    estimates: BTreeMap<String, Estimates>,
    links: BTreeMap<String, Link>,
    devices: BTreeMap<String, Entry>,
}

/// A device.
#[derive(Debug, Clone, PartialEq)]
pub struct Device {
    /// What a shorthand calls it.
    pub name: String,
    /// Other names.
    pub aliases: Vec<String>,
    /// Its full name, for people.
    pub title: String,
    /// What it is to a cluster.
    pub role: Role,
    /// Memory in bytes; none for a processor, whose memory is up to its owner.
    pub memory_bytes: Option<f64>,
    /// Memory bandwidth in bytes per second, where it is published.
    pub memory_bandwidth: Option<f64>,
    /// Dense peaks in FLOP per second.
    pub peak_flops: BTreeMap<Precision, f64>,
    /// What nobody publishes.
    pub estimates: Estimates,
    /// The link that is taken where none is named; none for a host.
    pub default_link: Option<String>,
    /// Links by name.
    pub links: BTreeMap<String, Link>,
    /// Where peaks, memory and memory bandwidth come from.
    pub source: String,
}

impl Device {
    /// The precision that is taken where none is named: 16 bits, which training uses; else single precision;
    /// else what there is.
    pub fn default_precision(&self) -> Precision {
        let order = [Precision::Bf16, Precision::Fp16, Precision::Fp32];
        order
            .into_iter()
            .find(|precision| self.peak_flops.contains_key(precision))
            .or_else(|| self.peak_flops.keys().copied().next())
            .unwrap_or(Precision::Fp32)
    }

    /// The name of its class at a precision: its own, and the precision if it is not the default.
    pub fn class_name(&self, precision: Precision) -> String {
        if precision == self.default_precision() {
            self.name.clone()
        } else {
            format!("{}-{precision}", self.name)
        }
    }

    /// Its compute class with all its peaks: that of the default precision for operators that say none.
    pub fn all_peaks(&self) -> Option<ClassDocument> {
        let peaks = self.peak_flops.iter().map(|(&precision, &peak)| (precision, peak)).collect();
        Some(ClassDocument { peaks, ..self.class(self.default_precision())? })
    }

    /// Its compute class at one precision, whatever operators compute with; none where it has no such peak.
    pub fn class(&self, precision: Precision) -> Option<ClassDocument> {
        let peak = *self.peak_flops.get(&precision)?;
        let Device { title, source, estimates, .. } = self;
        Some(ClassDocument {
            peaks: BTreeMap::new(),
            peak_flops: Some(peak),
            memory_bandwidth: self.memory_bandwidth,
            launch_overhead_s: estimates.launch_overhead_s,
            efficiency: Some(estimates.efficiency),
            source: Some(format!(
                "{title} at {precision}. {source}. Launch overhead and efficiency are estimates: {}",
                estimates.basis
            )),
        })
    }
}

static DEVICES: LazyLock<Vec<Device>> = LazyLock::new(|| {
    let text = include_str!("../../data/clusters/devices.toml");
    let File { estimates, links, devices } =
        toml::from_str(text).unwrap_or_else(|error| panic!("data/clusters/devices.toml: {error}"));
    let resolve = |(name, entry): (String, Entry)| {
        let missing = |what: &str, of: &str| -> ! {
            panic!("data/clusters/devices.toml: device `{name}` has no {what} `{of}`")
        };
        let find_link = |(called, link): (&String, &String)| {
            let link = links.get(link).unwrap_or_else(|| missing("link", link));
            (called.clone(), link.clone())
        };
        let estimates =
            estimates.get(&entry.estimates).unwrap_or_else(|| missing("estimates", &entry.estimates));
        Device {
            links: entry.links.iter().map(find_link).collect(),
            estimates: estimates.clone(),
            name,
            aliases: entry.aliases,
            title: entry.title,
            role: entry.role,
            memory_bytes: entry.memory_bytes,
            memory_bandwidth: entry.memory_bandwidth,
            peak_flops: entry.peak_flops,
            default_link: entry.link,
            source: entry.source,
        }
    };
    devices.into_iter().map(resolve).collect()
});

/// The devices, by name.
pub fn devices() -> &'static [Device] {
    &DEVICES
}

/// The device of a name or alias, in lower case.
pub fn device(name: &str) -> Option<&'static Device> {
    DEVICES.iter().find(|device| device.name == name || device.aliases.iter().any(|alias| alias == name))
}
