//! Constants of the formula, with their sources and errors. The errors are those of the whole formula on the rows of a class.
//!
//! Sources are public measurements by llama.cpp and its forks: for builds of 2024 XiongjieDai/GPU-Benchmarks-on-LLM-Inference
//! and the pull requests 4766 and 4812 of ggml-org/llama.cpp; for builds of 2026 the benches of ggml-org/llama.cpp for DGX
//! Spark and Mac Studio, geerlingguy/ai-benchmarks, AlexsJones/llmfit, nerdpudding/llama_cpp, pull request 26622 of
//! ggml-org/llama.cpp, and reports of single users.

use stagewright_structure::Encoding;

use crate::device::Class;

/// Speed of a kind of device.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rates {
    /// Share of the nominal bandwidth that products with 16-bit weights reach.
    pub efficiency: f64,
    /// Seconds for a layer beyond its bytes.
    pub layer: f64,
    /// Further seconds for a layer with routed experts on the device.
    pub expert_layer: f64,
    /// Share of the peak that products of a long prompt reach, in dense models; `None` if not measured.
    pub products: Option<f64>,
    /// Share of the peak that products of a long prompt reach, in models with experts; `None` if not measured.
    pub expert_products: Option<f64>,
}

/// Speed of a kind of device.
///
/// | class | rows | median error | source of efficiency and layer |
/// | --- | --- | --- | --- |
/// | [`Cuda`](Class::Cuda) | 16 | 4% | fitted to half of 176 rows, checked on the others |
/// | [`Cuda2024`](Class::Cuda2024) | 25 | 4% | fitted to the rows; 4% if each is left out in turn |
/// | [`Hbm`](Class::Hbm) | 8 | 4% | fitted to the rows; 6% if each is left out in turn |
/// | [`Pascal`](Class::Pascal) | 3 | 6% | fitted to the rows, of one card; 15% if each is left out in turn |
/// | [`Metal`](Class::Metal) | 3 | 4% | fitted to half of 176 rows |
/// | [`Metal2024`](Class::Metal2024) | 6 | 14% | fitted to the rows; 30% if each is left out in turn |
/// | [`Rocm`](Class::Rocm) | 2 | 3% | fitted to half of 176 rows, of one card |
///
/// Products of dense models with GDDR are the median of six cards at prompts of 512 to 1024 tokens, from 0.59 to 0.84 of the
/// peak; with HBM that of three, from 0.14 to 0.26; those with experts are fitted to four runs of one card, a GeForce RTX
/// 3090, together with [`COPY_BANDWIDTH`].
pub fn rates(class: Class) -> Rates {
    let (efficiency, layer, expert_layer, products, expert_products) = match class {
        Class::Cuda => (0.80, 30e-6, CUDA_EXPERTS, Some(0.65), Some(0.38)),
        Class::Cuda2024 => (0.93, 85e-6, CUDA_EXPERTS, Some(0.65), None),
        Class::Hbm => (0.65, 100e-6, CUDA_EXPERTS, Some(0.26), None),
        Class::Pascal => (0.69, 30e-6, CUDA_EXPERTS, None, None),
        Class::Metal => (0.77, 30e-6, METAL_EXPERTS, None, None),
        Class::Metal2024 => (0.80, 160e-6, METAL_EXPERTS, None, None),
        Class::Rocm => (0.82, 30e-6, CUDA_EXPERTS, None, None),
    };
    Rates { efficiency, layer, expert_layer, products, expert_products }
}

/// Seconds for a layer with experts on a device of CUDA or ROCm, fitted to half of 176 rows.
const CUDA_EXPERTS: f64 = 53e-6;

/// Seconds for a layer with experts on an Apple GPU, fitted to half of 176 rows.
const METAL_EXPERTS: f64 = 170e-6;

/// Share of the nominal bandwidth of RAM that the processor reaches, fitted to half of 176 rows.
pub const HOST_EFFICIENCY: f64 = 0.52;

/// Seconds for a layer on the host beyond its bytes, fitted to half of 176 rows.
pub const HOST_LAYER: f64 = 33e-6;

/// Seconds to go on with the next layers on another device, fitted to half of 176 rows.
pub const HOP: f64 = 187e-6;

/// Seconds of a layer on a device for going to weights on the host and back, fitted to half of 176 rows.
pub const CROSSING: f64 = 31e-6;

/// Bytes a second at which weights of the host are copied to a device for a large batch, fitted to four runs of one GeForce
/// RTX 3090 on PCIe 4.0.
pub const COPY_BANDWIDTH: f64 = 40e9;

/// Speed of weights of an encoding on a device, relative to 16 bits: fitted to half of 176 rows by the size of a number, so
/// that one factor covers all block formats below 8 bits. The processor has no such factor.
pub fn encoding_factor(encoding: Encoding) -> f64 {
    if encoding.name() == "mxfp4" {
        return 1.18;
    }
    match encoding.bytes_per_number() {
        bytes if bytes >= 2.0 => 1.0,
        bytes if bytes >= 1.0 => 1.03,
        _ => 0.91,
    }
}
