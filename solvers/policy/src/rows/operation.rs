//! Sum, maximum and softmax over rows as tensor operations, with their derivatives.

use candle_core::{CpuStorage, CudaStorage, CustomOp1, Error, Layout, Result, Shape, Tensor};

use super::reduction::Reduction;
use super::{Rows, RowsError, cpu, cuda};

impl Rows {
    /// The sum over each row: `[columns, width]` to `[rows, width]`, `f32` or `f64`, on the CPU or on a GPU.
    ///
    /// Its gradient is the sum over the transposed rows, which is itself differentiable. The result does not depend on
    /// the number of threads. Reads each entry's row of `x` once and writes the result once.
    ///
    /// # Errors
    /// If the shape or the element type does not fit, or the device fails.
    pub fn sum(&self, x: &Tensor) -> Result<Tensor> {
        self.input(x, Reduction::Sum)?.apply_op1(Reduce { rows: self.clone(), reduction: Reduction::Sum })
    }

    /// The maximum over each row, column by column: `[columns, width]` to `[rows, width]`; −∞ for a row without
    /// entries.
    ///
    /// The result is detached: no gradient flows through it.
    ///
    /// # Errors
    /// If the shape or the element type does not fit, or the device fails.
    pub fn max(&self, x: &Tensor) -> Result<Tensor> {
        let reduce = Reduce { rows: self.clone(), reduction: Reduction::Max };
        self.input(x, Reduction::Max)?.apply_op1_no_bwd(&reduce)
    }

    /// The softmax within each row, column by column: `[columns, width]` to `[columns, width]`, where every column is
    /// in exactly one row, as with [`Rows::segments`].
    ///
    /// ```text
    /// y[i] = exp(x[i] − m[s]) / Σ exp(x[j] − m[s]) over the j of i's row s,   m[s] = max x[j] over the same j
    /// ```
    ///
    /// The result does not depend on m, so m has no gradient. A row whose items are all −∞ gives NaN.
    ///
    /// # Errors
    /// If a column is not in exactly one row ([`RowsError::NotSegments`]), the shape or the element type does not fit,
    /// or the device fails.
    pub fn softmax(&self, x: &Tensor) -> Result<Tensor> {
        if let Some((column, rows)) = self.backward.not_single {
            return Err(Error::wrap(RowsError::NotSegments { column, rows }));
        }
        let x = self.input(x, Reduction::Max)?;
        // Some devices cannot run an operation on an empty tensor.
        if x.elem_count() == 0 {
            return Ok(x);
        }
        let of_items = self.transposed();
        let weights = (&x - of_items.sum(&self.max(&x)?)?)?.exp()?;
        let totals = of_items.sum(&self.sum(&weights)?)?;
        weights / totals
    }

    /// The input of the kernels: a contiguous tensor of the right shape.
    fn input(&self, x: &Tensor, reduction: Reduction) -> Result<Tensor> {
        match *x.dims() {
            [columns, _] if columns == self.column_count() => x.contiguous(),
            _ => Err(Error::ShapeMismatchBinaryOp {
                lhs: Shape::from((self.row_count(), self.column_count())),
                rhs: x.shape().clone(),
                op: reduction.name(),
            }
            .bt()),
        }
    }
}

struct Reduce {
    rows: Rows,
    reduction: Reduction,
}

impl CustomOp1 for Reduce {
    fn name(&self) -> &'static str {
        self.reduction.name()
    }

    fn cpu_fwd(&self, storage: &CpuStorage, layout: &Layout) -> Result<(CpuStorage, Shape)> {
        let (start, end) =
            layout.contiguous_offsets().ok_or(Error::RequiresContiguous { op: self.name() })?;
        let (_, width) = layout.shape().dims2()?;
        let matrix = &self.rows.forward.matrix;
        let sums = match storage {
            CpuStorage::F32(x) => CpuStorage::F32(cpu::reduce(matrix, self.reduction, &x[start..end], width)),
            CpuStorage::F64(x) => CpuStorage::F64(cpu::reduce(matrix, self.reduction, &x[start..end], width)),
            other => return Err(cpu::unsupported(other, self.name())),
        };
        Ok((sums, Shape::from((self.rows.row_count(), width))))
    }

    fn cuda_fwd(&self, storage: &CudaStorage, layout: &Layout) -> Result<(CudaStorage, Shape)> {
        let (_, width) = layout.shape().dims2()?;
        let sums = cuda::reduce(&self.rows.forward.matrix, self.reduction, storage, layout, width)?;
        Ok((sums, Shape::from((self.rows.row_count(), width))))
    }

    fn bwd(&self, _: &Tensor, _: &Tensor, gradient: &Tensor) -> Result<Option<Tensor>> {
        match self.reduction {
            Reduction::Sum => Ok(Some(self.rows.transposed().sum(gradient)?)),
            Reduction::Max => Err(Error::BackwardNotSupported { op: self.name() }),
        }
    }
}
