//! Devices of a machine, and places of tensors.

use crate::class::Class;
use crate::constants::{HOST_EFFICIENCY, HOST_LAYER, Rates, rates};

stagewright_core::id! {
    /// Index of a device in the order of a setting.
    pub DeviceId;
}

/// Bytes of a context of CUDA: about half a GiB.
pub const CUDA_CONTEXT: u64 = 1 << 29;

/// Where llama.cpp puts a tensor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Location {
    /// Memory of the processor.
    Host,
    /// Memory of a device.
    Device(DeviceId),
}

/// A device that llama.cpp can use beside the processor.
#[derive(Debug, Clone, PartialEq)]
pub struct Device {
    /// Name, as `--list-devices` prints it: `CUDA0`.
    pub name: String,
    /// Name of its buffer type, the target of `--override-tensor`: as the device, but `RPC0[127.0.0.1:50052]` for servers.
    pub buffer: String,
    /// Kind of the device.
    pub class: Class,
    /// Bytes that are free before llama.cpp starts.
    pub memory: u64,
    /// Whether its memory is a part of RAM, as on chips of Apple.
    pub shares_ram: bool,
    /// Nominal bandwidth of its memory in bytes a second.
    pub bandwidth: f64,
    /// Peak of products of 16-bit numbers with 32-bit sums in FLOP a second, without sparsity.
    pub peak: f64,
    /// Peak of arithmetic in single precision outside of matrix units, in FLOP a second.
    pub vector_peak: f64,
    /// Speed relative to bandwidth and peaks.
    pub rates: Rates,
}

impl Device {
    /// A device with memory of its own and the speed of its class, whose buffer type has its name.
    ///
    /// The peak outside of matrix units is estimated from the other: half of it on cards for games, a sixteenth on those with
    /// HBM, all of it where there are no such units.
    pub fn new(name: &str, class: Class, memory: u64, bandwidth: f64, peak: f64) -> Device {
        let vector_peak = match class {
            Class::Cuda | Class::Cuda2024 | Class::Rocm => peak / 2.0,
            Class::Hbm | Class::Hbm2024 => peak / 16.0,
            Class::Pascal | Class::Metal | Class::Metal2024 => peak,
        };
        let rates = rates(class, bandwidth, vector_peak);
        let (name, buffer) = (name.into(), name.into());
        Device { name, buffer, class, memory, shares_ram: false, bandwidth, peak, vector_peak, rates }
    }

    /// The same device with a known peak outside of matrix units.
    #[must_use]
    pub fn with_vector_peak(self, vector_peak: f64) -> Device {
        Device { vector_peak, rates: rates(self.class, self.bandwidth, vector_peak), ..self }
    }

    /// Bytes that the program takes on the device whatever it loads.
    pub fn context_bytes(&self) -> u64 {
        if self.class.is_cuda() { CUDA_CONTEXT } else { 0 }
    }
}

/// The processor and its memory.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Host {
    /// Bytes of RAM that are free.
    pub memory: u64,
    /// Nominal bandwidth of RAM in bytes a second.
    pub bandwidth: f64,
    /// Share of the bandwidth that products with weights reach.
    pub efficiency: f64,
    /// Seconds for a layer beyond its bytes.
    pub layer: f64,
}

impl Host {
    /// A processor with the speed of those that were measured.
    pub const fn new(memory: u64, bandwidth: f64) -> Host {
        Host { memory, bandwidth, efficiency: HOST_EFFICIENCY, layer: HOST_LAYER }
    }
}
