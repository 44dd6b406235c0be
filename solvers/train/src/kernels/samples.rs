//! Measured kernels, from tables of costs and from files of measured kernels.

use std::io::Read;

use rand::seq::SliceRandom;
use serde::Deserialize;
use stagewright_core::document::{CostsDocument, KernelCostsDocument, KernelDocument, KernelKind, Precision};
use stagewright_core::seed;
use stagewright_formats::clusters::{Device, device};
use stagewright_learned::{Group, Rowwise, Shape};

/// A measured kernel.
#[derive(Debug, Clone)]
pub struct Sample {
    /// Device, by its name in the catalogue.
    pub device: &'static Device,
    /// The kernel.
    pub shape: Shape,
    /// Precision of its operands.
    pub precision: Precision,
    /// Measured seconds.
    pub seconds: f64,
    /// Whether the source of the measurement counts it among those to be predicted, not to be learned from.
    pub is_test: bool,
}

impl Sample {
    /// Device and variant, which networks distinguish.
    pub fn class(&self) -> String {
        format!("{}/{}", self.device.name, self.shape.variant(self.precision))
    }

    /// The group whose networks predict the kernel.
    pub fn group(&self) -> Option<Group> {
        self.shape.group(self.precision)
    }
}

/// Measurements of tables of costs at bf16 and fp8 whose classes are devices of the catalogue with the figures of a
/// processor; others are left out. Kernels of equal sizes are measured once, by the median. O(n log n).
pub fn from_tables(document: &CostsDocument) -> Vec<Sample> {
    let mut samples = Vec::new();
    for table in &document.kernels {
        let Some(device) = device(&table.class).filter(|device| device.chip.is_some()) else { continue };
        let mut rows: Vec<&Vec<f64>> = table.rows.iter().collect();
        rows.sort_by(|left, right| left.partial_cmp(right).unwrap_or(std::cmp::Ordering::Equal));
        for same in rows.chunk_by(|left, right| left[..left.len() - 1] == right[..right.len() - 1]) {
            let row = same[same.len() / 2];
            let Some((&seconds, sizes)) = row.split_last() else { continue };
            let Some(shape) = shape(table, sizes) else { continue };
            let sample = Sample { device, shape, precision: table.precision, seconds, is_test: false };
            if sample.group().is_some() && seconds > 0.0 {
                samples.push(sample);
            }
        }
    }
    samples
}

/// The kernel of a row.
fn shape(table: &KernelCostsDocument, sizes: &[f64]) -> Option<Shape> {
    let document = match *sizes {
        [m, n, k] => KernelDocument::Product { batch: 1.0, m, n, k },
        [batch, tokens, heads, kv_heads, head_dim] => KernelDocument::Attention {
            batch,
            queries: if table.kernel == KernelKind::DecodeAttention { 1.0 } else { tokens },
            keys: tokens,
            heads,
            kv_heads,
            head_dim,
            causal: table.kernel == KernelKind::CausalAttention,
        },
        _ => return None,
    };
    Some(Shape::Library(document)).filter(Shape::is_valid)
}

/// A row of a file of measured kernels.
#[derive(Debug, Deserialize)]
struct Row {
    split: String,
    op: String,
    device: String,
    latency_ms: f64,
    #[serde(rename = "B")]
    batch: Option<f64>,
    #[serde(rename = "M")]
    m: Option<f64>,
    /// The inner dimension.
    #[serde(rename = "N")]
    inner: Option<f64>,
    /// Columns of the result.
    #[serde(rename = "K")]
    columns: Option<f64>,
    #[serde(rename = "H")]
    row: Option<f64>,
    in_channels: Option<f64>,
    out_channels: Option<f64>,
    kernel: Option<f64>,
    image: Option<f64>,
    stride: Option<f64>,
    padding: Option<f64>,
}

/// Measurements of a CSV file in the columns of NeuSight's (Lee et al., ASPLOS 2025): operator, device, milliseconds in
/// single precision, sizes, and a split into `train` and `test`. Returns the measurements, and the names of devices and
/// operators that were left out because the catalogue or the networks have no such.
///
/// # Errors
/// If the text is no such file.
pub fn from_csv(text: impl Read) -> Result<(Vec<Sample>, Vec<String>), csv::Error> {
    let (mut samples, mut unknown) = (Vec::new(), Vec::new());
    for row in csv::Reader::from_reader(text).deserialize() {
        let row: Row = row?;
        let Some(device) = device(catalogued(&row.device)).filter(|device| device.chip.is_some()) else {
            unknown.push(format!("device {}", row.device));
            continue;
        };
        let Some(shape) = row.shape().filter(Shape::is_valid) else {
            unknown.push(format!("operator {}", row.op));
            continue;
        };
        if row.latency_ms > 0.0 && row.latency_ms.is_finite() {
            let (seconds, is_test) = (row.latency_ms / 1e3, row.split == "test");
            samples.push(Sample { device, shape, precision: Precision::Fp32, seconds, is_test });
        }
    }
    unknown.sort();
    unknown.dedup();
    Ok((samples, unknown))
}

impl Row {
    fn shape(&self) -> Option<Shape> {
        let operation = match self.op.as_str() {
            "bmm" | "linear" => {
                let (batch, m, n, k) = (self.batch?, self.m?, self.columns?, self.inner?);
                return Some(Shape::Library(KernelDocument::Product { batch, m, n, k }));
            }
            "conv" => {
                return Some(Shape::Convolution {
                    images: self.batch?,
                    inputs: self.in_channels?,
                    outputs: self.out_channels?,
                    kernel: self.kernel?,
                    size: self.image?,
                    stride: self.stride?,
                    padding: self.padding?,
                });
            }
            "add" => Rowwise::Add,
            "mul" => Rowwise::Multiply,
            "div" => Rowwise::Divide,
            "pow" => Rowwise::Power,
            "addu" => Rowwise::AddNumber,
            "mulu" => Rowwise::MultiplyNumber,
            "divu" => Rowwise::DivideNumber,
            "powu" => Rowwise::PowerNumber,
            "tanh" => Rowwise::Tanh,
            "relu" => Rowwise::Relu,
            "gelu" => Rowwise::Gelu,
            "ln" => Rowwise::LayerNormalisation,
            "softmax" => Rowwise::Softmax,
            _ => return None,
        };
        Some(Shape::Rows { operation, rows: self.batch?, columns: self.row? })
    }
}

/// Name in the catalogue of a device as its driver names it.
pub fn catalogued(name: &str) -> &str {
    match name {
        "Tesla P4" => "p4",
        "Tesla P100-PCIE-16GB" => "p100-pcie",
        "Tesla V100-PCIE-32GB" => "v100-pcie-32gb",
        "Tesla T4" => "t4",
        "NVIDIA A100-PCIE-40GB" => "a100-pcie-40gb",
        "NVIDIA A100-SXM4-40GB" => "a100-40gb",
        "NVIDIA A100 80GB PCIe" => "a100-pcie-80gb",
        "NVIDIA H100 80GB HBM3" => "h100",
        "NVIDIA L4" => "l4",
        "AMD Instinct MI100" => "mi100",
        "AMD Instinct MI210" => "mi210",
        "AMD Instinct MI250" => "mi250-die",
        other => other,
    }
}

/// Whether a measurement contradicts others of its device: the products of the P4's `train` rows reach a fifth of its peak, its
/// batched products, and the same products in its `test` rows, three quarters, so the card was throttled.
pub fn is_throttled(sample: &Sample) -> bool {
    let is_product =
        matches!(sample.shape, Shape::Library(KernelDocument::Product { batch, .. }) if batch == 1.0);
    sample.device.name == "p4" && is_product && !sample.is_test
}

/// At most `limit` samples of each class, drawn from `seed`, in their order. O(n).
pub fn limited(samples: &[Sample], limit: usize, seed: u64) -> Vec<Sample> {
    let mut classes: std::collections::BTreeMap<String, Vec<usize>> = std::collections::BTreeMap::new();
    for (index, sample) in samples.iter().enumerate() {
        classes.entry(sample.class()).or_default().push(index);
    }
    let mut kept = Vec::new();
    for (task, (_, mut indices)) in classes.into_iter().enumerate() {
        kept.extend_from_slice(indices.partial_shuffle(&mut seed::stream(seed, task as u64), limit).0);
    }
    kept.sort_unstable();
    kept.into_iter().map(|index| samples[index].clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_become_kernels_and_unknown_devices_are_named() {
        let text = "split,op,device,torch,latency_ms,B,M,N,K,H,in_channels,out_channels,kernel,image,stride,padding\n\
                    train,bmm,Tesla T4,2.1,0.5,8,16,32,64,,,,,,,\n\
                    test,softmax,NVIDIA L4,2.1,0.25,10,,,,20,,,,,,\n\
                    train,conv,Tesla T4,2.1,1,4,,,,,3,64,7,224,2,3\n\
                    train,add,Abacus,2.1,1,4,,,,8,,,,,,\n";
        let (samples, unknown) = from_csv(text.as_bytes()).unwrap();
        assert_eq!(unknown, ["device Abacus"]);
        let classes: Vec<String> = samples.iter().map(Sample::class).collect();
        assert_eq!(classes, ["t4/fp32", "l4/fp32", "t4/fp32"]);
        let product = KernelDocument::Product { batch: 8.0, m: 16.0, n: 64.0, k: 32.0 };
        assert_eq!(samples[0].shape, Shape::Library(product));
        assert_eq!((samples[0].seconds, samples[1].is_test), (5e-4, true));
        assert_eq!(samples[2].group(), Some(Group::Convolutions));
        assert!(from_csv("a,b\n1,2\n".as_bytes()).is_err());
    }

    #[test]
    fn a_limit_keeps_as_many_of_each_class() {
        let text: String = (1..=20)
            .map(|rows| {
                let device = if rows % 4 == 0 { "NVIDIA L4" } else { "Tesla T4" };
                format!("train,add,{device},2,1,{rows},,,,8,,,,,,\n")
            })
            .collect();
        let head = "split,op,device,torch,latency_ms,B,M,N,K,H,in_channels,out_channels,kernel,image,stride,padding\n";
        let (samples, _) = from_csv(format!("{head}{text}").as_bytes()).unwrap();
        let kept = limited(&samples, 7, 3);
        let count = |class: &str| kept.iter().filter(|sample| sample.class() == class).count();
        assert_eq!((count("t4/fp32"), count("l4/fp32")), (7, 5));
    }
}
