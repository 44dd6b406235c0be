//! The reduction on a GPU: the kernel of `kernel.cu`, which NVRTC compiles at run time, once per process.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use candle_core::backend::{BackendDevice, BackendStorage};
use candle_core::cuda_backend::cudarc::driver::{
    CudaSlice, CudaView, DeviceRepr, LaunchConfig, PushKernelArg, ValidAsZeroBits,
};
use candle_core::cuda_backend::cudarc::nvrtc::compile_ptx;
use candle_core::cuda_backend::{CudaDevice, CudaStorageSlice, DeviceId, WrapErr};
use candle_core::{CudaStorage, Error, Layout, Result, WithDType};

use super::super::matrix::{Compressed, Matrix};
use super::super::reduction::Reduction;

const SOURCE: &str = include_str!("kernel.cu");
/// Name of the module under which the kernels are loaded.
const MODULE: &str = "stagewright_rows";
/// Bytes that a thread reads in one load.
const PACK: usize = 16;
/// Approximate number of threads of a block.
const BLOCK: usize = 256;
/// Maximum number of threads of a block that share one row.
const PACKS: usize = 128;
/// Maximum number of blocks of a launch.
const GRID: usize = i32::MAX as usize;

/// Element types that the kernels support.
trait CudaNumber: WithDType + DeviceRepr + ValidAsZeroBits {}
impl CudaNumber for f32 {}
impl CudaNumber for f64 {}

/// Copies of offsets and indices on every GPU that has requested them.
#[derive(Debug, Default)]
pub(in super::super) struct Copies(Mutex<Vec<(DeviceId, Arc<Uploaded>)>>);

#[derive(Debug)]
struct Uploaded {
    offsets: CudaSlice<u32>,
    indices: CudaSlice<u32>,
}

impl Copies {
    fn on(&self, device: &CudaDevice, rows: &Compressed) -> Result<Arc<Uploaded>> {
        // A thread that panicked here left the list unchanged or with one more complete entry.
        let mut copies = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, found)) = copies.iter().find(|(id, _)| *id == device.id()) {
            return Ok(Arc::clone(found));
        }
        let upload = |numbers: &[u32]| match numbers {
            // Zero-byte allocations are not possible on devices.
            [] => device.clone_htod(&[0]),
            some => device.clone_htod(some),
        };
        let uploaded =
            Arc::new(Uploaded { offsets: upload(&rows.offsets)?, indices: upload(&rows.indices)? });
        // Each thread has its own stream, and the streams of other threads do not wait for this one.
        device.synchronize()?;
        copies.push((device.id(), Arc::clone(&uploaded)));
        Ok(uploaded)
    }
}

/// Reduces the rows of a contiguous tensor `[columns, width]` to `[rows, width]`.
///
/// # Errors
/// If numbers are neither `f32` nor `f64`, the layout is not contiguous, or the driver or the compiler fails.
pub(in super::super) fn reduce(
    matrix: &Matrix,
    reduction: Reduction,
    storage: &CudaStorage,
    layout: &Layout,
    width: usize,
) -> Result<CudaStorage> {
    let device = storage.device();
    let (start, end) =
        layout.contiguous_offsets().ok_or(Error::RequiresContiguous { op: reduction.name() })?;
    let slice = match &storage.slice {
        CudaStorageSlice::F32(x) => {
            // Allocations are aligned to far more than a pack.
            let aligned = (start * size_of::<f32>()).is_multiple_of(PACK);
            let x = x.slice(start..end);
            CudaStorageSlice::F32(reduce_view(matrix, reduction, &x, aligned, width, device)?)
        }
        CudaStorageSlice::F64(x) => {
            let aligned = (start * size_of::<f64>()).is_multiple_of(PACK);
            let x = x.slice(start..end);
            CudaStorageSlice::F64(reduce_view(matrix, reduction, &x, aligned, width, device)?)
        }
        _ => return Err(Error::UnsupportedDTypeForOp(storage.dtype(), reduction.name()).bt()),
    };
    Ok(CudaStorage { slice, device: device.clone() })
}

fn reduce_view<T: CudaNumber>(
    matrix: &Matrix,
    reduction: Reduction,
    x: &CudaView<'_, T>,
    aligned: bool,
    width: usize,
    device: &CudaDevice,
) -> Result<CudaSlice<T>> {
    match matrix {
        Matrix::Whole(rows) => launch(rows, reduction, x, aligned, width, device),
        Matrix::InPieces { pieces, joined } => {
            let of_pieces = launch(pieces, reduction, x, aligned, width, device)?;
            reduce_view(joined, reduction, &of_pieces.as_view(), true, width, device)
        }
    }
}

/// Runs the kernel over all rows. An empty result is allocated with one unused number, since zero-byte allocations are
/// not possible on devices.
fn launch<T: CudaNumber>(
    rows: &Compressed,
    reduction: Reduction,
    x: &CudaView<'_, T>,
    aligned: bool,
    width: usize,
    device: &CudaDevice,
) -> Result<CudaSlice<T>> {
    assert_eq!(x.len(), rows.columns * width, "an item for every column, of as many numbers");
    let numbers = rows.row_count() * width;
    if numbers == 0 {
        return device.alloc_zeros(1);
    }
    let kernel = Kernel::new::<T>(reduction, aligned, width);
    let function = device.get_or_load_custom_func(&kernel.name, MODULE, ptx()?)?;
    let copies = rows.copies.on(device, rows)?;
    let row_count = counted(rows.row_count())?;
    let width = counted(width)?;

    #[allow(unsafe_code, reason = "the compiler cannot check what a kernel reads and writes")]
    // SAFETY: the arguments match the kernel's parameters, in order. It reads offsets up to `row_count` and the indices
    // between them, both checked when the rows were built: every index is below the number of columns, and x has
    // `width` numbers per column, as asserted. It writes all `numbers` elements of `out`, so none is read
    // uninitialised.
    unsafe {
        let mut out = device.alloc::<T>(numbers)?;
        let mut arguments = function.builder();
        arguments.arg(&copies.offsets).arg(&copies.indices).arg(x).arg(&mut out);
        arguments.arg(&row_count).arg(&width);
        arguments.launch(kernel.shape(rows.row_count())).w()?;
        Ok(out)
    }
}

/// A kernel, and the number of packs into which it divides an item.
struct Kernel {
    name: String,
    packs: usize,
}

impl Kernel {
    fn new<T: CudaNumber>(reduction: Reduction, aligned: bool, width: usize) -> Self {
        let lanes = PACK / T::DTYPE.size_in_bytes();
        let packed = aligned && width.is_multiple_of(lanes);
        let (lanes, reading) = if packed { (lanes, "packed") } else { (1, "single") };
        let reduction = match reduction {
            Reduction::Sum => "sum",
            Reduction::Max => "max",
        };
        Kernel { name: format!("{reduction}_{}_{reading}", T::DTYPE.as_str()), packs: width / lanes }
    }

    /// One thread per pack, up to a limit, and the number of rows that fit into a block.
    fn shape(&self, row_count: usize) -> LaunchConfig {
        let packs = self.packs.min(PACKS);
        let rows = BLOCK / packs;
        let blocks = row_count.div_ceil(rows).min(GRID);
        LaunchConfig {
            grid_dim: (blocks as u32, 1, 1),
            block_dim: (packs as u32, rows as u32, 1),
            shared_mem_bytes: 0,
        }
    }
}

/// The kernels as PTX, for any device that the compiler supports; the driver compiles it further when it is loaded.
fn ptx() -> Result<&'static str> {
    static COMPILED: OnceLock<String> = OnceLock::new();
    if let Some(ptx) = COMPILED.get() {
        return Ok(ptx);
    }
    // Threads that get here concurrently compile the same source.
    let compiled = compile_ptx(SOURCE).map_err(Error::wrap)?.to_src();
    Ok(COMPILED.get_or_init(|| compiled))
}

fn counted(count: usize) -> Result<u32> {
    u32::try_from(count).map_err(Error::wrap)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Needs NVRTC but no GPU.
    #[test]
    fn every_kernel_that_can_be_asked_for_compiles() {
        let ptx = ptx().unwrap();
        for reduction in [Reduction::Sum, Reduction::Max] {
            for (aligned, width) in [(true, 4), (true, 3), (false, 4)] {
                for kernel in [
                    Kernel::new::<f32>(reduction, aligned, width),
                    Kernel::new::<f64>(reduction, aligned, width),
                ] {
                    assert!(ptx.contains(&format!(".entry {}(", kernel.name)), "no {}", kernel.name);
                }
            }
        }
    }

    #[test]
    fn packs_are_read_where_width_and_address_allow() {
        let kernel = |aligned, width| Kernel::new::<f32>(Reduction::Sum, aligned, width);
        assert_eq!((kernel(true, 96).name.as_str(), kernel(true, 96).packs), ("sum_f32_packed", 24));
        assert_eq!((kernel(false, 96).name.as_str(), kernel(false, 96).packs), ("sum_f32_single", 96));
        assert_eq!((kernel(true, 97).name.as_str(), kernel(true, 97).packs), ("sum_f32_single", 97));
    }

    #[test]
    fn blocks_are_full_and_cover_all_rows() {
        for (packs, rows, blocks, block) in [(24, 1000, 100, (24, 10, 1)), (1, 257, 2, (1, 256, 1))] {
            let shape = Kernel { name: String::new(), packs }.shape(rows);
            assert_eq!((shape.grid_dim, shape.block_dim), ((blocks, 1, 1), block));
        }
        let wide = Kernel { name: String::new(), packs: 5000 }.shape(GRID * 3);
        assert_eq!((wide.grid_dim, wide.block_dim), ((GRID as u32, 1, 1), (128, 2, 1)));
    }
}
