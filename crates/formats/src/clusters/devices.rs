//! Devices of `data/clusters/devices.toml` and their classes in a cluster document.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};
pub use stagewright_core::document::Precision;
use stagewright_core::document::{ClassDocument, KernelFitDocument, LinkDocument, ServerDocument, bytes};

/// Role of a device in a cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// A GPU.
    Gpu,
    /// A TPU.
    Tpu,
    /// A CPU socket: a host, whose communication is free.
    Cpu,
}

impl Role {
    /// Name of the role's device kinds.
    pub fn name(self) -> &'static str {
        match self {
            Role::Gpu => "gpu",
            Role::Tpu => "tpu",
            Role::Cpu => "cpu",
        }
    }
}

/// Estimates of figures that are not published.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Estimates {
    /// Seconds to launch one operator.
    pub launch_overhead_s: f64,
    /// Fraction of the peak that is reached, in (0, 1].
    pub efficiency: f64,
    /// Fraction of the peak that the products of a training step reach, in (0, 1], if published runs tell.
    #[serde(default)]
    pub training_efficiency: Option<f64>,
    /// Basis of both estimates.
    pub basis: String,
}

/// A link between two devices.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Link {
    /// Bytes per second of one transfer, in one direction.
    pub bandwidth: f64,
    /// Seconds before the first byte: an estimate.
    pub latency_s: f64,
    /// Whether the link is a bridge, which joins exactly two devices.
    #[serde(default)]
    pub pair: bool,
    /// Source of the bandwidth.
    pub source: String,
    /// Basis of the latency.
    pub basis: String,
}

impl Link {
    /// Link of a cluster document.
    pub fn document(&self) -> LinkDocument {
        LinkDocument { latency_s: self.latency_s, bandwidth: self.bandwidth }
    }
}

impl Server {
    /// Server of a cluster document.
    pub fn document(&self) -> ServerDocument {
        ServerDocument { devices: self.devices, link: self.link.document() }
    }
}

/// Figures of a processor that its peaks do not tell: what a kernel's tiles, waves and launches depend on.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Chip {
    /// Number of multiprocessors, compute units or cores, each of which runs blocks of threads.
    pub multiprocessors: u32,
    /// Bytes of the last cache before memory.
    #[serde(deserialize_with = "bytes_of_cache")]
    pub cache_bytes: f64,
    /// Boost clock, in cycles per second.
    pub clock_hz: f64,
    /// Peak of products in single precision, if matrix units have one beyond the peak of vectors.
    #[serde(default)]
    pub fp32_products: Option<f64>,
}

/// A device as the file lists it, with estimates and links by name.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    title: String,
    role: Role,
    #[serde(default)]
    aliases: Vec<String>,
    #[serde(default, deserialize_with = "size")]
    memory_bytes: Option<f64>,
    memory_source: Option<String>,
    memory_bandwidth: Option<f64>,
    peak_flops: BTreeMap<Precision, f64>,
    estimates: String,
    link: Option<String>,
    #[serde(default)]
    links: BTreeMap<String, String>,
    server: Option<ServerEntry>,
    #[serde(default)]
    fits: Vec<KernelFitDocument>,
    chip: Option<Chip>,
    chip_source: Option<String>,
    source: String,
}

/// A size with a unit, such as `24576MiB`.
fn size<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<f64>, D::Error> {
    let text = String::deserialize(deserializer)?;
    bytes(&text).map(Some).ok_or_else(|| D::Error::custom(format!("`{text}` is no size with a unit")))
}

/// Bytes of a cache, with a unit.
fn bytes_of_cache<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    size(deserializer)?.ok_or_else(|| D::Error::custom("a cache has a size"))
}

/// A server as the file lists it, with its link by name.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ServerEntry {
    devices: u32,
    link: String,
}

/// A server of devices.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Server {
    /// Number of devices.
    pub devices: u32,
    /// Link of each device to devices of other servers.
    pub link: Link,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    estimates: BTreeMap<String, Estimates>,
    links: BTreeMap<String, Link>,
    devices: BTreeMap<String, Entry>,
}

/// A device.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Device {
    /// Name in a shorthand.
    pub name: String,
    /// Other names of the device.
    pub aliases: Vec<String>,
    /// Full name, for display.
    pub title: String,
    /// Role in a cluster.
    pub role: Role,
    /// Memory in bytes, as the driver reports it; `None` for a CPU, whose memory its owner chooses.
    pub memory_bytes: Option<f64>,
    /// Source of the memory, if there is one.
    pub memory_source: Option<String>,
    /// Memory bandwidth in bytes per second; `None` if unpublished.
    pub memory_bandwidth: Option<f64>,
    /// Dense peaks in FLOP per second.
    pub peak_flops: BTreeMap<Precision, f64>,
    /// Estimates of unpublished figures.
    pub estimates: Estimates,
    /// Default link; `None` for a host.
    pub default_link: Option<String>,
    /// Links by name.
    pub links: BTreeMap<String, Link>,
    /// The server that vendors build from the device, if it is known; its devices are joined by the default link.
    pub server: Option<Server>,
    /// Fits to measurements of the device's library kernels. Fits at bf16 also apply to fp16.
    pub fits: Vec<KernelFitDocument>,
    /// The processor's figures; `None` if they are unpublished, or the device is no GPU.
    pub chip: Option<Chip>,
    /// Source of the processor's figures.
    pub chip_source: Option<String>,
    /// Source of peaks and memory bandwidth.
    pub source: String,
}

impl Device {
    /// Whether NVIDIA makes the device.
    pub fn is_nvidia(&self) -> bool {
        self.title.starts_with("NVIDIA")
    }

    /// Default precision: 16 bits, as in training; otherwise single precision; otherwise any that the device has.
    pub fn default_precision(&self) -> Precision {
        let order = [Precision::Bf16, Precision::Fp16, Precision::Fp32];
        order
            .into_iter()
            .find(|precision| self.peak_flops.contains_key(precision))
            .or_else(|| self.peak_flops.keys().copied().next())
            .unwrap_or(Precision::Fp32)
    }

    /// Class name at a precision: the device's name, with the precision appended unless it is the default.
    pub fn class_name(&self, precision: Precision) -> String {
        if precision == self.default_precision() {
            self.name.clone()
        } else {
            format!("{}-{precision}", self.name)
        }
    }

    /// Compute class with all peaks; operators without a precision get the peak of the default precision.
    pub fn all_peaks(&self) -> Option<ClassDocument> {
        let peaks = self.peak_flops.iter().map(|(&precision, &peak)| (precision, peak)).collect();
        let fits = self.peak_flops.keys().flat_map(|&precision| self.fits_at(precision)).collect();
        Some(ClassDocument { peaks, fits, ..self.class(self.default_precision())? })
    }

    /// Fits at a precision.
    fn fits_at(&self, precision: Precision) -> impl Iterator<Item = KernelFitDocument> {
        let fits_at = |precision: Precision| self.fits.iter().filter(move |fit| fit.precision == precision);
        let same_rate = match precision {
            Precision::Fp16 if fits_at(precision).next().is_none() => Precision::Bf16,
            own => own,
        };
        fits_at(same_rate).map(move |fit| KernelFitDocument { precision, ..fit.clone() })
    }

    /// Compute class with the peak of `precision` for every operator; `None` if the device has no such peak.
    pub fn class(&self, precision: Precision) -> Option<ClassDocument> {
        let peak = *self.peak_flops.get(&precision)?;
        let Device { title, source, estimates, .. } = self;
        Some(ClassDocument {
            peaks: BTreeMap::new(),
            peak_flops: Some(peak),
            memory_bandwidth: self.memory_bandwidth,
            launch_overhead_s: estimates.launch_overhead_s,
            efficiency: Some(estimates.efficiency),
            training_efficiency: estimates.training_efficiency,
            fits: self.fits_at(precision).collect(),
            source: Some(format!(
                "{title} at {precision}. {source}. Launch overhead and efficiency are estimates: {}",
                estimates.basis
            )),
        })
    }
}

static DEVICES: LazyLock<Vec<Device>> = LazyLock::new(|| {
    let text = include_str!("../../../../data/clusters/devices.toml");
    let File { estimates, links, devices } =
        toml::from_str(text).unwrap_or_else(|error| panic!("data/clusters/devices.toml: {error}"));
    let resolve = |(name, entry): (String, Entry)| {
        let missing = |what: &str, item: &str| -> ! {
            panic!("data/clusters/devices.toml: device `{name}` has no {what} `{item}`")
        };
        let find_link = |(called, link): (&String, &String)| {
            let link = links.get(link).unwrap_or_else(|| missing("link", link));
            (called.clone(), link.clone())
        };
        let estimates =
            estimates.get(&entry.estimates).unwrap_or_else(|| missing("estimates", &entry.estimates));
        Device {
            links: entry.links.iter().map(find_link).collect(),
            server: entry
                .server
                .as_ref()
                .map(|server| Server { devices: server.devices, link: find_link((&name, &server.link)).1 }),
            estimates: estimates.clone(),
            name,
            aliases: entry.aliases,
            title: entry.title,
            role: entry.role,
            memory_bytes: entry.memory_bytes,
            memory_source: entry.memory_source,
            memory_bandwidth: entry.memory_bandwidth,
            peak_flops: entry.peak_flops,
            default_link: entry.link,
            fits: entry.fits,
            chip: entry.chip,
            chip_source: entry.chip_source,
            source: entry.source,
        }
    };
    devices.into_iter().map(resolve).collect()
});

/// The devices, by name.
pub fn devices() -> &'static [Device] {
    &DEVICES
}

/// Finds a device by name or alias, in lower case.
pub fn device(name: &str) -> Option<&'static Device> {
    DEVICES.iter().find(|device| device.name == name || device.aliases.iter().any(|alias| alias == name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fits_are_carried_at_their_precision_and_half_precisions_share_them() {
        let device = device("h100").unwrap();
        let kernels = |precision: Precision| device.class(precision).unwrap().fits.len();
        let precisions = [Precision::Bf16, Precision::Fp16, Precision::Fp8, Precision::Fp32];
        assert_eq!(precisions.map(kernels), [4, 4, 1, 0]);
        let all = device.all_peaks().unwrap().fits;
        assert_eq!(all.len(), 9);
        assert!(all.iter().all(|fit| fit.sharpness >= 1.0 && fit.flops > 0.0 && fit.source.is_some()));
    }

    #[test]
    fn multiprocessors_times_clock_give_the_peak_of_vectors() {
        for device in devices() {
            assert_eq!(device.chip.is_some(), device.chip_source.is_some(), "{}", device.name);
            let Some(chip) = device.chip else { continue };
            let lanes =
                device.peak_flops[&Precision::Fp32] / (2.0 * f64::from(chip.multiprocessors) * chip.clock_hz);
            let is_whole = [64.0, 128.0, 192.0].iter().any(|whole: &f64| (lanes / whole - 1.0).abs() < 0.02);
            assert!(is_whole || device.name == "h20", "{}: {lanes} lanes", device.name);
            assert!(chip.cache_bytes >= 1e6 && chip.clock_hz > 5e8, "{}: {chip:?}", device.name);
        }
    }

    #[test]
    fn fitted_rates_are_below_the_peaks() {
        for device in devices() {
            for fit in &device.fits {
                let peak = device.peak_flops[&fit.precision];
                assert!(fit.flops < 2.0 * peak, "{}: {fit:?}", device.name);
                assert!(fit.launch_s < 1e-4 && fit.bandwidth > 1e10, "{}: {fit:?}", device.name);
            }
        }
    }
}
