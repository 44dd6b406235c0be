//! Classes of devices by speed.

/// Kinds of devices with speeds of their own; for some also the age of the build of llama.cpp, which became faster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// NVIDIA GPUs from the generation Turing on with GDDR or LPDDR memory, builds of 2026.
    Cuda,
    /// NVIDIA GPUs with GDDR memory, builds of 2024.
    Cuda2024,
    /// NVIDIA GPUs with HBM, builds of 2026.
    Hbm,
    /// NVIDIA GPUs with HBM, builds of 2024.
    Hbm2024,
    /// NVIDIA GPUs before Volta, whose layers are launched kernel by kernel in builds of any age.
    Pascal,
    /// Apple GPUs, builds of 2026.
    Metal,
    /// Apple GPUs, builds of 2024.
    Metal2024,
    /// AMD GPUs.
    Rocm,
}

impl Class {
    /// Whether the backend is CUDA, with its contexts, pipelining and copies of weights for large batches.
    pub fn is_cuda(self) -> bool {
        !self.is_metal() && self != Class::Rocm
    }

    /// Whether the backend is Metal.
    pub fn is_metal(self) -> bool {
        matches!(self, Class::Metal | Class::Metal2024)
    }
}
