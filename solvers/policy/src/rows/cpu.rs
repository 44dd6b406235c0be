//! The reduction on the CPU: rows are divided among threads, and each is reduced in the order of its entries.

use candle_core::backend::BackendStorage;
use candle_core::{CpuStorage, Error};
use rayon::prelude::*;

use super::matrix::{Compressed, Matrix};
use super::reduction::Reduction;

/// Size of a task, as the count of numbers that it reads. Waking another thread costs about as much as adding a few
/// thousand numbers.
const TASK: usize = 1 << 15;

/// Element type of a reduction.
pub(super) trait Number: Copy + Send + Sync + std::ops::Add<Output = Self> {
    const ZERO: Self;
    const LEAST: Self;

    fn larger(self, other: Self) -> Self;
}

macro_rules! number {
    ($type:ty) => {
        impl Number for $type {
            const ZERO: Self = 0.0;
            const LEAST: Self = <$type>::NEG_INFINITY;

            fn larger(self, other: Self) -> Self {
                self.max(other)
            }
        }
    };
}
number!(f32);
number!(f64);

/// Reduces the rows of `x`, each of `width` numbers: `[columns, width]` to `[rows, width]`.
pub(super) fn reduce<T: Number>(matrix: &Matrix, reduction: Reduction, x: &[T], width: usize) -> Vec<T> {
    match matrix {
        Matrix::Whole(rows) => reduce_rows(rows, reduction, x, width),
        Matrix::InPieces { pieces, joined } => {
            reduce(joined, reduction, &reduce_rows(pieces, reduction, x, width), width)
        }
    }
}

fn reduce_rows<T: Number>(rows: &Compressed, reduction: Reduction, x: &[T], width: usize) -> Vec<T> {
    match reduction {
        Reduction::Sum => share(rows, x, width, T::ZERO, |sum, item| sum + item),
        Reduction::Max => share(rows, x, width, T::LEAST, T::larger),
    }
}

/// Divides the rows into tasks that depend on the numbers of rows and entries only.
fn share<T: Number>(
    rows: &Compressed,
    x: &[T],
    width: usize,
    of_none: T,
    join: impl Fn(T, T) -> T + Sync,
) -> Vec<T> {
    let mut out = vec![T::ZERO; rows.row_count() * width];
    if out.is_empty() {
        return out;
    }
    let work = (rows.indices.len() + rows.row_count()) * width;
    if work <= TASK {
        fold(rows, 0, x, width, &mut out, of_none, &join);
        return out;
    }
    let rows_per_task = rows.row_count().div_ceil(work.div_ceil(TASK));
    out.par_chunks_mut(rows_per_task * width)
        .enumerate()
        .for_each(|(task, out)| fold(rows, task * rows_per_task, x, width, out, of_none, &join));
    out
}

/// Reduces the rows from `first` on, as many as `out` holds.
fn fold<T: Number>(
    rows: &Compressed,
    first: usize,
    x: &[T],
    width: usize,
    out: &mut [T],
    of_none: T,
    join: &impl Fn(T, T) -> T,
) {
    let item = |column: u32| &x[column as usize * width..][..width];
    for (row, out) in (first..).zip(out.chunks_exact_mut(width)) {
        let Some((&column, others)) = rows.row(row).split_first() else {
            out.fill(of_none);
            continue;
        };
        out.copy_from_slice(item(column));
        for &column in others {
            for (out, &number) in out.iter_mut().zip(item(column)) {
                *out = join(*out, number);
            }
        }
    }
}

/// The error for element types other than `f32` and `f64`.
pub(super) fn unsupported(storage: &CpuStorage, operation: &'static str) -> Error {
    Error::UnsupportedDTypeForOp(storage.dtype(), operation).bt()
}
