//! Machines from clusters.
//!
//! Kinds of a cluster become devices in their order, named as `--list-devices` prints them: `CUDA0`, `ROCm0`, `MTL0`. The kind
//! with `host: true` is the processor, whose memory is RAM. The name of a compute class in the table of built-in devices says
//! of which [`Class`] a device is.
//!
//! Chips whose GPU and processor share one memory need no host: RAM is then the memory of the device.
//!
//! Kinds whose names begin with `rpc://` are devices of a server of llama.cpp (`ggml-rpc-server`) at the address that follows:
//! `rpc://127.0.0.1:50052`. Their devices are `RPC0`, `RPC1`, …, as `--rpc` with the servers in their order makes them, and
//! count as fast as in the machine itself. Room for pipelined micro-batches and for copies of weights, which llama.cpp makes on
//! its own devices alone, is kept as well.

use stagewright_core::document::{ClassDocument, ClusterDocument, KindDocument, Precision};
use stagewright_formats::clusters::{self, Role};
use stagewright_formats::code::L;
use stagewright_formats::{InputError, Result};

use crate::class::Class;
use crate::device::{Device, Host};

/// Bytes of RAM that the system and other programs take, unless a cluster says otherwise: 2 GiB, an estimate.
pub const SYSTEM_BYTES: u64 = 2 << 30;

/// Name of the backend of servers in names of its devices.
const SERVER_BACKEND: &str = "RPC";

/// Devices and processor of one machine.
#[derive(Debug, Clone, PartialEq)]
pub struct Machine {
    /// Devices in the order of the cluster.
    pub devices: Vec<Device>,
    /// The processor and RAM.
    pub host: Host,
}

impl Machine {
    /// The machine that a cluster is, with notes for its user. `label` is the name of the cluster in errors.
    ///
    /// Memory of a device is that of its kind without `reserve_bytes`; RAM is that of the host's kinds, without
    /// `reserve_bytes` or else [`SYSTEM_BYTES`]. Sockets add up in memory and bandwidth.
    ///
    /// # Errors
    /// If a figure is missing, the cluster is several machines, or llama.cpp does not run on a device (L010).
    ///
    /// ```
    /// use stagewright_llamacpp::Machine;
    /// let cluster = stagewright_formats::clusters::find("1xrtx-3090+1xrtx-3060:12GiB+1xryzen-7950x:64GiB")?;
    /// let (machine, notes) = Machine::of("--cluster", &cluster)?;
    /// let names: Vec<_> = machine.devices.iter().map(|device| device.name.as_str()).collect();
    /// assert_eq!((names, machine.host.memory >> 30), (vec!["CUDA0", "CUDA1"], 62));
    /// assert!(notes[0].contains("the fastest first"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn of(label: &str, cluster: &ClusterDocument) -> Result<(Machine, Vec<String>)> {
        let reader = Reader { label, cluster };
        reader.check_single()?;
        let mut notes = Vec::new();
        let mut devices: Vec<Device> = Vec::new();
        for (index, kind) in cluster.kinds.iter().enumerate().filter(|(_, kind)| !kind.host) {
            let device = reader.device(index, kind, &mut notes)?;
            let server = reader.server(index, kind)?;
            for _ in 0..kind.count {
                let backend = if server.is_some() { SERVER_BACKEND } else { backend(device.class) };
                let number = devices.iter().filter(|other| other.name.starts_with(backend)).count();
                let name = format!("{backend}{number}");
                let buffer =
                    server.map_or_else(|| name.clone(), |address| buffer_of_server(&devices, address));
                devices.push(Device { buffer, name, ..device.clone() });
            }
        }
        let host = reader.host(&devices)?;
        notes.extend(order_notes(&devices));
        Ok((Machine { devices, host }, notes))
    }
}

/// Name of a backend in names of its devices (`GGML_CUDA_NAME`, `GGML_METAL_NAME`).
fn backend(class: Class) -> &'static str {
    match class {
        Class::Rocm => "ROCm",
        class if class.is_metal() => "MTL",
        _ => "CUDA",
    }
}

/// Address of the server that a kind of a cluster stands for, by the name of the kind: `rpc://127.0.0.1:50052`.
pub fn server_address(kind: &str) -> Option<&str> {
    kind.strip_prefix("rpc://")
}

/// Buffer type of the next device of a server, which counts its own devices.
fn buffer_of_server(devices: &[Device], address: &str) -> String {
    let address = format!("[{address}]");
    let number = devices.iter().filter(|other| other.buffer.ends_with(&address)).count();
    format!("{SERVER_BACKEND}{number}{address}")
}

/// Notes on names and backends of several devices.
fn order_notes(devices: &[Device]) -> Vec<String> {
    let mut notes = Vec::new();
    let (servers, devices): (Vec<&Device>, Vec<&Device>) =
        devices.iter().partition(|device| device.name.starts_with(SERVER_BACKEND));
    if !servers.is_empty() {
        notes.push(
            "devices of servers count as fast as in the machine: the network is not part of times".into(),
        );
    }
    let cuda: Vec<&Device> = devices.iter().copied().filter(|device| device.class.is_cuda()).collect();
    if cuda.iter().any(|device| device.bandwidth != cuda[0].bandwidth) {
        notes.push(
            "devices are numbered in the order of the cluster; CUDA numbers the fastest first, so compare with \
             `llama-server --list-devices`, or set CUDA_DEVICE_ORDER=PCI_BUS_ID"
                .into(),
        );
    }
    if !cuda.is_empty() && cuda.len() < devices.len() {
        notes.push("devices of NVIDIA with others need a build of llama.cpp with both backends".into());
    }
    notes
}

/// A cluster with its name in errors.
struct Reader<'a> {
    label: &'a str,
    cluster: &'a ClusterDocument,
}

impl Reader<'_> {
    fn wrong(&self, path: impl Into<String>, message: impl Into<String>, help: &str) -> InputError {
        InputError::at_path(L::L010, self.label, path, message, help)
    }

    /// Checks that the devices are in one server.
    fn check_single(&self) -> Result<()> {
        let help = "give the devices of one machine";
        let kinds = &self.cluster.kinds;
        for (index, kind) in kinds.iter().enumerate() {
            if kind.group != kinds[0].group {
                let message =
                    format!("kinds `{}` and `{}` are in different groups", kinds[0].name, kind.name);
                return Err(self.wrong(format!("kinds[{index}].group"), message, help));
            }
            if let Some(server) = kind.server.filter(|server| kind.count > server.devices) {
                let message = format!("{} devices are in servers of {}", kind.count, server.devices);
                return Err(self.wrong(format!("kinds[{index}].count"), message, help));
            }
        }
        Ok(())
    }

    /// Address of the server of a kind, if it is one.
    fn server<'k>(&self, index: usize, kind: &'k KindDocument) -> Result<Option<&'k str>> {
        let Some(address) = server_address(&kind.name) else { return Ok(None) };
        let is_plain = |character: char| character.is_ascii_alphanumeric() || "._-".contains(character);
        let is_address = |(host, port): (&str, &str)| {
            !host.is_empty() && host.chars().all(is_plain) && port.parse::<u16>().is_ok()
        };
        if address.rsplit_once(':').is_some_and(is_address) {
            return Ok(Some(address));
        }
        let message = format!("`{address}` is no address of a server");
        let help = "give HOST:PORT after `rpc://`, as in `rpc://192.168.1.2:50052`";
        Err(self.wrong(format!("kinds[{index}].name"), message, help))
    }

    /// A device of a kind, without its number.
    fn device(&self, index: usize, kind: &KindDocument, notes: &mut Vec<String>) -> Result<Device> {
        let path = format!("kinds[{index}]");
        let figures = self.cluster.classes.get(&kind.class);
        let class = match known(&kind.class) {
            Some(Known::Runs { class, shares_ram }) => {
                notes.extend(unmeasured(kind.class.as_str()));
                (class, shares_ram)
            }
            Some(Known::Processor) => {
                let message = format!("kind `{}` is a processor that is not the host", kind.name);
                return Err(self.wrong(path, message, "add `host = true` to the kind"));
            }
            Some(Known::Other) => {
                let message = format!("the speed of llama.cpp on `{}` is not known", kind.class);
                return Err(self.wrong(path, message, "give devices of NVIDIA, AMD or Apple"));
            }
            None => {
                notes.push(format!(
                    "`{}` is no built-in device: it counts as an NVIDIA GPU with GDDR memory",
                    kind.class
                ));
                (Class::Cuda, false)
            }
        };
        let bandwidth = self.bandwidth(kind, figures)?;
        let memory = self.memory(index, kind)?.saturating_sub(reserve(kind).unwrap_or(0));
        let peak = figures.and_then(|figures| peak(class.0, figures));
        if peak.is_none() {
            notes.push(format!("class `{}` has no peak, so that times of prompts are not known", kind.class));
        }
        let mut device = Device::new("", class.0, memory, bandwidth, peak.unwrap_or(0.0));
        if let Some(vector_peak) = figures.and_then(|figures| vector_peak(&kind.class, figures)) {
            device = device.with_vector_peak(vector_peak);
        }
        device.shares_ram = class.1;
        if peak.is_none() {
            (device.rates.products, device.rates.expert_products) = (None, None);
        }
        Ok(device)
    }

    /// The processor: all kinds that are hosts together, or the chip that the only device is a part of.
    fn host(&self, devices: &[Device]) -> Result<Host> {
        let (mut memory, mut bandwidth) = (0_u64, 0.0);
        for (index, kind) in self.cluster.kinds.iter().enumerate().filter(|(_, kind)| kind.host) {
            let count = u64::from(kind.count);
            memory = memory.saturating_add(self.memory(index, kind)?.saturating_mul(count));
            bandwidth += self.bandwidth(kind, self.cluster.classes.get(&kind.class))? * f64::from(kind.count);
        }
        if devices.len() > 1
            && let Some(device) = devices.iter().find(|device| device.shares_ram)
            && bandwidth > 0.0
        {
            let message = format!(
                "`{}` shares memory with its processor, and has other devices beside it",
                device.name
            );
            return Err(self.wrong("kinds", message, "give the devices of one machine"));
        }
        if bandwidth > 0.0 {
            let reserves = self
                .cluster
                .kinds
                .iter()
                .filter(|kind| kind.host)
                .filter_map(|kind| Some(reserve(kind)?.saturating_mul(u64::from(kind.count))));
            let reserved = reserves.reduce(u64::saturating_add).unwrap_or(SYSTEM_BYTES);
            return Ok(Host::new(memory.saturating_sub(reserved), bandwidth));
        }
        match devices {
            [device] if device.shares_ram => Ok(Host::new(device.memory, device.bandwidth)),
            [_, second, ..] if second.shares_ram && devices.iter().all(|device| device.shares_ram) => {
                let message =
                    "every device shares memory with a processor of its own, so they are several machines";
                Err(self.wrong("kinds", message, "give one of them"))
            }
            _ => {
                let help = "add the processor with its RAM, as in `+1xryzen-7950x:64GiB`, or a kind with `host = true`";
                Err(self.wrong("kinds", "the cluster has no processor", help))
            }
        }
    }

    fn memory(&self, index: usize, kind: &KindDocument) -> Result<u64> {
        let memory = kind.memory_bytes.filter(|memory| memory.is_finite() && *memory >= 0.0);
        memory.map(|memory| memory as u64).ok_or_else(|| {
            let message = format!("the memory of kind `{}` is not given", kind.name);
            let help = "add it to the shorthand, as in `ryzen-7950x:64GiB`, or `memory_bytes` to the kind";
            self.wrong(format!("kinds[{index}].memory_bytes"), message, help)
        })
    }

    fn bandwidth(&self, kind: &KindDocument, figures: Option<&ClassDocument>) -> Result<f64> {
        let bandwidth = figures.and_then(|class| class.memory_bandwidth);
        bandwidth.filter(|bandwidth| bandwidth.is_finite() && *bandwidth > 0.0).ok_or_else(|| {
            let message = format!("the bandwidth of the memory of class `{}` is not given", kind.class);
            let help = "add `memory_bandwidth`, in bytes a second, to the class";
            self.wrong(format!("classes.{}.memory_bandwidth", kind.class), message, help)
        })
    }
}

/// Bytes of a device of a kind that no plan may use, if the cluster says so.
fn reserve(kind: &KindDocument) -> Option<u64> {
    kind.reserve_bytes.map(|bytes| bytes as u64)
}

/// Peak of products of 16-bit numbers; of single precision where a device has no such units.
///
/// CUDA multiplies quantised weights as 8-bit integers. Cards for games sum 16-bit products at a quarter of this rate, cards for
/// work at half of it, and both read a prompt in proportion to the integers; so a quarter counts.
fn peak(class: Class, figures: &ClassDocument) -> Option<f64> {
    let peak = |precision: Precision| figures.peaks.get(&precision).copied();
    let integers =
        peak(Precision::Int8).filter(|_| class == Class::Cuda).map_or(f64::INFINITY, |peak| peak / 4.0);
    peak(Precision::Fp16)
        .or_else(|| peak(Precision::Bf16))
        .or(figures.peak_flops)
        .or_else(|| peak(Precision::Fp32))
        .map(|peak| peak.min(integers))
        .filter(|peak| peak.is_finite() && *peak > 0.0)
}

/// Peak in single precision, of the built-in device if the class has another precision alone.
fn vector_peak(name: &str, class: &ClassDocument) -> Option<f64> {
    let own = class.peaks.get(&Precision::Fp32).copied();
    let built_in = || built_in(name)?.peak_flops.get(&Precision::Fp32).copied();
    own.or_else(built_in).filter(|peak| peak.is_finite() && *peak > 0.0)
}

/// Kinds of built-in devices for llama.cpp.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Known {
    /// A device of a class.
    Runs {
        /// Class of its speed.
        class: Class,
        /// Whether its memory is a part of RAM.
        shares_ram: bool,
    },
    /// A processor.
    Processor,
    /// A device that llama.cpp does not run on, or whose speed no measurement is of.
    Other,
}

/// Names of NVIDIA devices with HBM, by their beginning.
const HBM: [&str; 9] = ["v100", "a100", "h100", "h200", "h20", "b200", "b300", "gh200", "gb200"];

/// Names of NVIDIA devices before Volta, by their beginning.
const PASCAL: [&str; 4] = ["k80", "p100", "p40", "gtx-10"];

/// Names of AMD devices, by their beginning.
const AMD: [&str; 4] = ["mi", "rx-", "radeon-", "ryzen-ai-"];

/// Names of other devices, by their beginning.
const OTHER: [&str; 4] = ["arc-", "gaudi-", "tpu-", "edge-tpu"];

/// Names of chips whose GPU and processor share memory, by their beginning.
const SHARED: [&str; 4] = ["apple-", "jetson-", "gb10", "ryzen-ai-"];

/// The built-in device that a compute class is named after, perhaps with a precision.
fn built_in(class: &str) -> Option<&'static clusters::Device> {
    let without_precision = || {
        let (name, precision) = class.rsplit_once('-')?;
        Precision::named(precision).and_then(|_| clusters::device(name))
    };
    clusters::device(class).or_else(without_precision)
}

/// The kind of a compute class by its name; `None` if it is no built-in device.
fn known(class: &str) -> Option<Known> {
    let device = built_in(class)?;
    let begins = |names: &[&str]| names.iter().any(|name| device.name.starts_with(name));
    let shares_ram = begins(&SHARED);
    let class = match () {
        () if begins(&AMD) => Class::Rocm,
        () if begins(&["apple-"]) => Class::Metal,
        () if begins(&PASCAL) => Class::Pascal,
        () if begins(&HBM) => Class::Hbm,
        () if device.role == Role::Cpu => return Some(Known::Processor),
        () if begins(&OTHER) => return Some(Known::Other),
        () => Class::Cuda,
    };
    Some(Known::Runs { class, shares_ram })
}

/// A note if no measurement is of the generation of a device.
fn unmeasured(class: &str) -> Option<String> {
    let (generation, like) = match class {
        _ if class.starts_with("k80") => ("Kepler", "Pascal"),
        _ if class.starts_with("mi") => ("Instinct", "Radeon"),
        _ => return None,
    };
    Some(format!("`{class}` counts as fast for its bandwidth as {like}: no measurement is of {generation}"))
}
