//! The measurements of a run.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use flate2::read::GzDecoder;
use stagewright_costs::import::aiconfigurator::{self, Options};
use stagewright_train::kernels::Sample;
use stagewright_train::kernels::samples::{from_csv, from_tables, limited};

use super::Outcome;

/// Largest number of samples of a class: a device and a variant.
const PRODUCTS: usize = 6000;
const ATTENTION: usize = 4500;

/// Measurements.
#[derive(Default)]
pub(crate) struct Sources {
    /// From tables: products and attention at 16 and 8 bits.
    pub(crate) tables: Vec<Sample>,
    /// From a file of kernels in single precision.
    pub(crate) kernels: Vec<Sample>,
    /// Names of the measurements.
    pub(crate) names: Vec<String>,
}

impl Sources {
    /// Reads measurements. Tables of TensorRT-LLM are left out, because they are kept for an examination, and those of
    /// Intel's devices, because they teach nothing about NVIDIA's.
    pub(crate) fn read(tables: Option<&str>, kernels: Option<&str>) -> Outcome<Sources> {
        let mut sources = Sources::default();
        if let Some(folder) = tables {
            let mut document = aiconfigurator::import(Path::new(folder), &Options::default())?.document;
            document.kernels.retain(|table| !table.source.contains(" trtllm "));
            sources.names.extend(document.kernels.iter().map(|table| {
                format!("{}, {} {}: {}", table.class, table.kernel.name(), table.precision, table.source)
            }));
            let mut samples = from_tables(&document);
            samples.retain(|sample| sample.device.is_nvidia());
            let is_product = |sample: &&Sample| {
                !matches!(sample.shape.variant(sample.precision), "decode" | "causal" | "full")
            };
            let (products, attention): (Vec<Sample>, Vec<Sample>) =
                samples.into_iter().partition(|sample| is_product(&sample));
            sources.tables = limited(&products, PRODUCTS, 1);
            sources.tables.extend(limited(&attention, ATTENTION, 1));
        }
        if let Some(file) = kernels {
            let mut bytes = Vec::new();
            File::open(file)?.read_to_end(&mut bytes)?;
            let mut text = Vec::new();
            match bytes.starts_with(&[0x1f, 0x8b]) {
                true => GzDecoder::new(&bytes[..]).read_to_end(&mut text)?,
                false => {
                    text = bytes;
                    0
                }
            };
            let (samples, unknown) = from_csv(&text[..])?;
            for name in unknown {
                println!("# left out: {name}");
            }
            sources.kernels = samples;
            sources
                .names
                .push("NeuSight (Lee et al., ASPLOS 2025; sitar-lab/NeuSight at 6945927, MIT)".into());
        }
        Ok(sources)
    }

    /// All measurements.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Sample> {
        self.tables.iter().chain(&self.kernels)
    }
}
