//! Constants of the formula of [`speed`](crate::speed), with their sources and errors.
//!
//! Ten numbers are fitted together to 65 published measurements by damped least squares of log errors, each with a weak prior;
//! `make judge-local` prints the errors of each row and of each class, and `OPTIONS=--leave-one-out` fits them again without
//! each source in turn. Classes differ in what data sheets say and in the age of the build alone.
//!
//! | constant | value | of |
//! | --- | --- | --- |
//! | [`EFFICIENCY`] | 0.97 | share of the bandwidth, all devices |
//! | [`ARITHMETIC`] | 4.9 FLOP a weight | CUDA and ROCm |
//! | [`METAL_ARITHMETIC`] | 16.4 FLOP a weight | Metal |
//! | [`LAYER`] | 47 µs | a layer, builds of 2026 |
//! | [`LAYER_2024`] | 93 µs | a layer, builds of 2024, and cards before Volta |
//! | [`EXPERT_LAYER`] | 45 µs | further for a layer with experts |
//! | [`HOP`] | 153 µs | going on with another device |
//! | [`CROSSING`] | 27 µs | going to weights on the host and back |
//! | [`HOST_EFFICIENCY`] | 0.53 | share of the bandwidth of RAM |
//! | [`HOST_LAYER`] | 31 µs | a layer on the host |
//!
//! | rows | number | median error | 90th percentile |
//! | --- | --- | --- | --- |
//! | all | 65 | 4.9% | 13.5% |
//! | all, each source left out of the fit in turn | 65 | 5.8% | 20.0% |
//! | [`Cuda`](Class::Cuda), with rows partly on the host | 16 | 4.2% | 12.8% |
//! | [`Cuda2024`](Class::Cuda2024) | 25 | 2.7% | 8.9% |
//! | [`Hbm2024`](Class::Hbm2024) | 8 | 11.5% | 34.2% |
//! | [`Pascal`](Class::Pascal), one card | 3 | 6.2% | 99.2%, at 3 bits |
//! | [`Metal`](Class::Metal) | 3 | 13.0% | 17.6% |
//! | [`Metal2024`](Class::Metal2024) | 6 | 7.0% | 9.8% |
//! | [`Rocm`](Class::Rocm), one card | 2 | 8.2% | 9.7% |
//! | processors | 2 | 11.2% | 15.6% |
//! | experts on the host | 3 | 2.9% | 10.0% |
//! | experts on the host, their source left out | 3 | 11.4% | 16.7% |
//!
//! [`Hbm`](Class::Hbm) has the overheads of present builds, which no measurement of such a card has checked.
//!
//! Sources are public measurements by llama.cpp and its forks: for builds of 2024 XiongjieDai/GPU-Benchmarks-on-LLM-Inference
//! and the pull requests 4766 and 4812 of ggml-org/llama.cpp; for builds of 2026 the benches of ggml-org/llama.cpp for DGX
//! Spark and Mac Studio, geerlingguy/ai-benchmarks, AlexsJones/llmfit, nerdpudding/llama_cpp, pull request 26622 of
//! ggml-org/llama.cpp, and reports of single users.

use crate::class::Class;

/// Share of the nominal bandwidth at which any device reads weights, where arithmetic is free.
pub const EFFICIENCY: f64 = 0.97;

/// FLOP, outside of matrix units, for a weight of a product with one vector on CUDA and ROCm: unpacking and multiplying it. It
/// is why a card with much bandwidth for its arithmetic, such as an A100 or a GeForce RTX 3060, reaches a small share of it.
pub const ARITHMETIC: f64 = 4.9;

/// FLOP for a weight of a product with one vector on Metal.
pub const METAL_ARITHMETIC: f64 = 16.4;

/// Seconds for a layer beyond its bytes, on devices and in builds that launch a whole graph at once.
pub const LAYER: f64 = 47e-6;

/// Seconds for a layer beyond its bytes where kernels are launched one by one.
pub const LAYER_2024: f64 = 93e-6;

/// Further seconds for a layer with routed experts on the device.
pub const EXPERT_LAYER: f64 = 45e-6;

/// Seconds to go on with the next layers on another device.
pub const HOP: f64 = 153e-6;

/// Seconds of a layer on a device for going to weights on the host and back.
pub const CROSSING: f64 = 27e-6;

/// Share of the nominal bandwidth of RAM that the processor reaches.
pub const HOST_EFFICIENCY: f64 = 0.53;

/// Seconds for a layer on the host beyond its bytes.
pub const HOST_LAYER: f64 = 31e-6;

/// Bytes a second at which weights of the host are copied to a device for a large batch, fitted to four runs of one GeForce
/// RTX 3090 on PCIe 4.0.
pub const COPY_BANDWIDTH: f64 = 40e9;

/// Arithmetic of a weight in bytes, where no peak is known: about that of a GeForce RTX 3090.
const TYPICAL_ARITHMETIC: f64 = 0.13;

/// Speed of products with experts in a long prompt relative to dense ones, where they are not measured: as with CUDA.
const EXPERT_PRODUCTS: f64 = 0.54;

/// Speed of a device.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rates {
    /// Share of the nominal bandwidth at which weights are read, where arithmetic is free.
    pub efficiency: f64,
    /// Bytes that are read while one weight is unpacked and multiplied; the time of both adds up.
    pub arithmetic: f64,
    /// Seconds for a layer beyond its bytes.
    pub layer: f64,
    /// Further seconds for a layer with routed experts on the device.
    pub expert_layer: f64,
    /// Share of the peak that products of a long prompt reach, in dense models; `None` if not known.
    pub products: Option<f64>,
    /// Share of the peak that products of a long prompt reach, in models with experts; `None` if not known.
    pub expert_products: Option<f64>,
}

impl Rates {
    /// Speed of reading and multiplying weights of a size in bytes, relative to reading alone.
    pub fn factor(self, bytes_per_number: f64) -> f64 {
        1.0 / (1.0 + self.arithmetic / bytes_per_number)
    }
}

/// Speed of a device of a class, by its bandwidth in bytes a second and its peak outside of matrix units in FLOP a second.
///
/// Shares of the peak are those of dense models at prompts of 512 to 2048 tokens, measured at 4 to 8 bits:
///
/// | class | share | rows |
/// | --- | --- | --- |
/// | CUDA | 0.70 | 0.58 to 0.96 on nine cards, with a median error of 14% |
/// | HBM | 0.26 | 0.14 to 0.26 on three cards |
/// | Pascal | 0.95 | 0.64 to 1.0 of the peak in single precision, since products are in 8 bits, on one card |
/// | Metal | 0.75 | one row |
/// | Metal, builds of 2024 | 0.50 | 0.48 and 0.53 |
/// | ROCm | 0.30 | 0.36 on a Radeon RX 7900 XTX, 0.25 on a Radeon AI PRO R9700 (pull requests 26284 and 18816 of ggml-org/llama.cpp) |
///
/// Those of models with experts are 0.38 with CUDA, fitted to four runs of one GeForce RTX 3090 together with
/// [`COPY_BANDWIDTH`] (a GB10 reached 0.25), and 0.60 with Metal, by one row; others are estimates in proportion.
pub fn rates(class: Class, bandwidth: f64, vector_peak: f64) -> Rates {
    let (products, expert_products) = match class {
        Class::Cuda | Class::Cuda2024 => (0.70, 0.38),
        Class::Hbm | Class::Hbm2024 => (0.26, 0.26 * EXPERT_PRODUCTS),
        Class::Pascal => (0.95, 0.95 * EXPERT_PRODUCTS),
        Class::Metal => (0.75, 0.60),
        Class::Metal2024 => (0.50, 0.50 * EXPERT_PRODUCTS),
        Class::Rocm => (0.30, 0.30 * EXPERT_PRODUCTS),
    };
    let operations = if class.is_metal() { METAL_ARITHMETIC } else { ARITHMETIC };
    let arithmetic =
        if vector_peak > 0.0 { operations * bandwidth / vector_peak } else { TYPICAL_ARITHMETIC };
    let layer = match class {
        Class::Cuda2024 | Class::Hbm2024 | Class::Metal2024 | Class::Pascal => LAYER_2024,
        Class::Cuda | Class::Hbm | Class::Metal | Class::Rocm => LAYER,
    };
    Rates {
        efficiency: EFFICIENCY,
        arithmetic,
        layer,
        expert_layer: EXPERT_LAYER,
        products: Some(products),
        expert_products: Some(expert_products),
    }
}
