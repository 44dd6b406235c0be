//! GPUs of published runs: figures of the built-in devices, with the links of their clusters.

use std::collections::BTreeMap;

use stagewright_core::document::{
    ClassDocument, ClusterDocument, KindDocument, LinkDocument, Precision, ServerDocument,
};
use stagewright_formats::clusters;

use super::rows::Run;

/// Seconds before the first byte of a step of a collective, in a server and between servers.
const LATENCY: f64 = 10e-6;

/// The same between servers of the cluster of `ultrascale.csv`, whose network is slow to start.
const SLOW_LATENCY: f64 = 69e-6;

/// GPUs that reach the same share of their peak in training.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Generation {
    /// A100 and older.
    Old,
    /// H100 and newer, which power limits.
    New,
    /// Cards of some 70 W.
    LowPower,
}

/// A kind of GPU by its name in the files.
struct Gpu {
    name: &'static str,
    /// Name of the built-in device.
    device: &'static str,
    generation: Generation,
    /// Bytes per second to another GPU of the server.
    link: f64,
    /// Bytes per second to other servers, if not published.
    port: f64,
    /// Memory in bytes and its bandwidth, if they are not those of the built-in device.
    memory: Option<(f64, f64)>,
}

const fn gpu(name: &'static str, device: &'static str, generation: Generation, link: f64, port: f64) -> Gpu {
    Gpu { name, device, generation, link, port, memory: None }
}

static GPUS: [Gpu; 11] = [
    gpu("GH-96", "gh200-96gb", Generation::New, 150e9, 25e9),
    gpu("a100-40gb", "a100-40gb", Generation::Old, 300e9, 25e9),
    gpu("a100-80gb", "a100-80gb", Generation::Old, 300e9, 25e9),
    gpu("b200", "b200", Generation::New, 900e9, 50e9),
    gpu("gb200", "gb200", Generation::New, 900e9, 50e9),
    gpu("h100", "h100", Generation::New, 450e9, 50e9),
    Gpu {
        memory: Some((94.0 * (1_u64 << 30) as f64, 2400e9)),
        ..gpu("h100-96gb", "h100", Generation::New, 450e9, 50e9)
    },
    gpu("h800", "h100", Generation::New, 200e9, 50e9),
    gpu("l4", "l4", Generation::LowPower, 24e9, 12.5e9),
    gpu("t4", "t4", Generation::LowPower, 12e9, 1.5625e9),
    gpu("v100", "v100-16gb", Generation::Old, 50e9, 1.25e9),
];

/// Kinds of the GPUs of a run, each with its number. `12xv100+4xt4` states the numbers of several kinds.
fn counted(run: &Run) -> Result<Vec<(&'static Gpu, u32)>, String> {
    let names: Vec<&str> = run.gpu.split('+').collect();
    let count = |name: &str| {
        name.split_once('x').and_then(|(count, name)| Some((count.parse().ok()?, name.to_owned())))
    };
    let mut counted = Vec::with_capacity(names.len());
    for name in &names {
        let (number, name) = match count(name) {
            Some(found) => found,
            None if names.len() == 1 => (run.gpus, (*name).to_owned()),
            None => return Err("the number of GPUs of each kind is not published".into()),
        };
        let gpu = GPUS.iter().find(|gpu| gpu.name == name);
        counted.push((gpu.ok_or_else(|| format!("the GPU `{name}` is not known"))?, number));
    }
    Ok(counted)
}

/// The cluster of a run.
#[derive(Debug, Clone)]
pub(crate) struct Machines {
    pub(crate) cluster: ClusterDocument,
    /// Generation of every kind.
    pub(crate) generations: Vec<Generation>,
    /// Bytes of memory of the smallest GPU.
    pub(crate) memory: f64,
}

impl Machines {
    /// The cluster of a run.
    ///
    /// # Errors
    /// A reason, if its GPUs are not known.
    pub(crate) fn new(run: &Run) -> Result<Machines, String> {
        let counted = counted(run)?;
        if counted.iter().map(|&(_, count)| u64::from(count)).sum::<u64>() != u64::from(run.gpus) {
            return Err("the kinds of GPUs do not add up".into());
        }
        let port = counted.iter().map(|(gpu, _)| gpu.port).fold(f64::INFINITY, f64::min);
        let port = run.port.filter(|&port| port > 0.0).unwrap_or(port);
        let latency_s = if run.runtime == Some("nanotron") { SLOW_LATENCY } else { LATENCY };
        let server =
            ServerDocument { devices: run.per_server, link: LinkDocument { latency_s, bandwidth: port } };
        let mut cluster = ClusterDocument::new(&run.gpu);
        let mut memory = f64::INFINITY;
        for (gpu, count) in &counted {
            let (class, bytes) = class(gpu)?;
            memory = memory.min(bytes);
            cluster.classes.insert(gpu.name.into(), class);
            let kind = KindDocument::named(gpu.name, *count).memory(bytes).link(gpu.link, LATENCY);
            cluster.kinds.push(KindDocument { server: Some(server), ..kind });
        }
        let generations = counted.iter().map(|(gpu, _)| gpu.generation).collect();
        Ok(Machines { cluster, generations, memory })
    }

    /// The copies of every device of a pipeline by their kind, the fastest kinds first.
    ///
    /// # Errors
    /// A reason, if a copy has devices of two kinds.
    pub(crate) fn pipeline(&self, run: &Run) -> Result<Vec<BTreeMap<String, u32>>, String> {
        let of_copy = run.tensor * run.context;
        let mut pipeline = vec![BTreeMap::new(); run.pipeline as usize];
        let mut first = 0;
        for kind in &self.cluster.kinds {
            let copies = kind.count.checked_div(of_copy).unwrap_or(0);
            if copies * of_copy != kind.count {
                return Err("a copy has two kinds of GPUs".into());
            }
            for copy in first..first + copies {
                let stage =
                    pipeline.get_mut((copy / run.data) as usize).ok_or("the plan has too few devices")?;
                *stage.entry(kind.name.clone()).or_default() += 1;
            }
            first += copies;
        }
        Ok(pipeline)
    }
}

/// Class of a GPU, without closed forms of kernels, and its memory.
fn class(gpu: &Gpu) -> Result<(ClassDocument, f64), String> {
    let unknown = || format!("the device `{}` is not built in", gpu.device);
    let device = clusters::device(gpu.device).ok_or_else(unknown)?;
    let mut class = device.class(device.default_precision()).ok_or_else(unknown)?;
    class.fits = Vec::new();
    let fp8 = device.peak_flops.get(&Precision::Fp8);
    class.peaks = fp8.map(|&peak| BTreeMap::from([(Precision::Fp8, peak)])).unwrap_or_default();
    let mut memory = device.memory_bytes.ok_or_else(unknown)?;
    if let Some((bytes, bandwidth)) = gpu.memory {
        (memory, class.memory_bandwidth) = (bytes, Some(bandwidth));
    }
    Ok((class, memory))
}
