//! Seconds of library kernels by a closed form with seven numbers per kernel and precision.
//!
//! ```text
//! seconds = launch + step · √inner + row · rows + (compute^p + memory^p)^(1/p)
//! compute = flop / flops
//! memory  = (min(bytes, cache) / 4 + max(bytes − cache, 0)) / bandwidth
//! ```
//!
//! With p = ∞, only the launch and no cache, the form is the roofline; p rounds its corner, where compute and memory
//! traffic only partly overlap. A thread block walks along the inner dimension (k of a product, the keys of an
//! attention) in steps that depend on each other. By itself it would take time in proportion to the dimension, but
//! libraries divide long dimensions among more blocks (split-k, flash decoding), and the measured growth is close to
//! the square root of the dimension. Repeated measurements find operands of up to `cache` bytes in the last-level
//! cache, which is about four times as fast as memory. Products of 8 bits include the quantisation of their first operand, in time for
//! each of its rows.
//!
//! Attention works on tiles of 64 queries and 64 keys, and the query heads of a key head share a tile (FlashAttention-2,
//! Dao 2023), so queries and keys count as multiples of 64.
//!
//! The form increases in every dimension of a product, and is finite for finite numbers that are not too large.

use crate::document::{ClassDocument, KernelDocument, KernelFitDocument, KernelKind, Precision};

/// Rows and columns of an attention tile.
const TILE: f64 = 64.0;

/// Bandwidth of the last-level cache, as a multiple of the memory bandwidth.
const CACHE_SPEED: f64 = 4.0;

/// The work of a kernel.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Work {
    /// Floating-point operations, including those on the padding of tiles.
    pub flop: f64,
    /// Bytes of operands and result, including the padding of tiles.
    pub bytes: f64,
    /// Inner dimension.
    pub inner: f64,
    /// Rows of the first operand of a product.
    pub rows: f64,
}

/// The kind under which a kernel is measured: attention with one query per sequence is decoding.
pub fn kind(kernel: &KernelDocument) -> KernelKind {
    match *kernel {
        KernelDocument::Product { .. } => KernelKind::Product,
        KernelDocument::Attention { queries, .. } if queries <= 1.0 => KernelKind::DecodeAttention,
        KernelDocument::Attention { causal: true, .. } => KernelKind::CausalAttention,
        KernelDocument::Attention { .. } => KernelKind::Attention,
    }
}

/// Work of a kernel at a precision.
pub fn work(kernel: &KernelDocument, precision: Precision) -> Work {
    match *kernel {
        KernelDocument::Product { batch, m, n, k } => Work {
            flop: 2.0 * batch * m * n * k,
            bytes: operand_bytes(kernel, precision),
            inner: k,
            rows: batch * m,
        },
        KernelDocument::Attention { batch, queries, keys, heads, kv_heads, head_dim, causal } => {
            let rows = batch * kv_heads * tiles(heads / kv_heads * queries);
            let columns = tiles(keys);
            // A query of a causal kernel attends to the keys up to itself, but also works on the rest of its tile.
            let skipped = if causal { (queries / 2.0 - TILE).max(0.0).min(keys) } else { 0.0 };
            Work {
                flop: 4.0 * rows * columns * head_dim * (1.0 - skipped / keys),
                bytes: 2.0 * precision.bytes() * batch * head_dim * (heads * queries + kv_heads * columns),
                inner: keys,
                rows: 0.0,
            }
        }
    }
}

/// Bytes of operands and result at a precision, without padding. Any excess of an operator's `bytes_moved` belongs to
/// other kernels or to a fused epilogue. Results of products with at most 8 bits have 16 bits.
pub fn operand_bytes(kernel: &KernelDocument, precision: Precision) -> f64 {
    match *kernel {
        KernelDocument::Product { batch, m, n, k } => {
            let result = precision.bytes().max(Precision::Bf16.bytes());
            batch * (precision.bytes() * (m * k + k * n) + result * m * n)
        }
        KernelDocument::Attention { batch, queries, keys, heads, kv_heads, head_dim, .. } => {
            2.0 * precision.bytes() * batch * head_dim * (heads * queries + kv_heads * keys)
        }
    }
}

/// The fit of a class for a kernel. A fit for attention with a mask may stand in for one without, and vice versa,
/// because the form counts the operations of either. O(fits).
pub fn fit<'a>(
    class: &'a ClassDocument,
    kernel: &KernelDocument,
    precision: Precision,
) -> Option<&'a KernelFitDocument> {
    let fit_of =
        |kind: KernelKind| class.fits.iter().find(|fit| fit.kernel == kind && fit.precision == precision);
    match kind(kernel) {
        KernelKind::Attention => {
            fit_of(KernelKind::Attention).or_else(|| fit_of(KernelKind::CausalAttention))
        }
        KernelKind::CausalAttention => {
            fit_of(KernelKind::CausalAttention).or_else(|| fit_of(KernelKind::Attention))
        }
        other => fit_of(other),
    }
}

/// Seconds that a fit predicts for some work.
pub fn seconds(fit: &KernelFitDocument, work: Work) -> f64 {
    let [compute, memory] = parts(fit, work);
    fit.launch_s
        + fit.step_s * work.inner.sqrt()
        + fit.row_s * work.rows
        + corner(compute, memory, fit.sharpness)
}

/// Seconds of computation and seconds of memory traffic that a fit predicts for some work.
pub fn parts(fit: &KernelFitDocument, work: Work) -> [f64; 2] {
    let cached = work.bytes.min(fit.cache_bytes);
    [work.flop / fit.flops, (cached / CACHE_SPEED + (work.bytes - cached)) / fit.bandwidth]
}

/// (a^p + b^p)^(1/p), computed from the larger of the two so that no power overflows.
fn corner(a: f64, b: f64, p: f64) -> f64 {
    let larger = a.max(b);
    match larger > 0.0 {
        true => larger * (1.0 + (a.min(b) / larger).powf(p)).powf(1.0 / p),
        false => 0.0,
    }
}

fn tiles(rows: f64) -> f64 {
    (rows / TILE).ceil() * TILE
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fit() -> KernelFitDocument {
        KernelFitDocument {
            kernel: KernelKind::Product,
            precision: Precision::Bf16,
            launch_s: 1.0,
            step_s: 0.5,
            row_s: 0.25,
            flops: 10.0,
            bandwidth: 2.0,
            sharpness: 2.0,
            cache_bytes: 8.0,
            source: None,
        }
    }

    #[test]
    fn the_form_adds_launch_steps_rows_and_a_rounded_maximum() {
        // Compute takes 3 s; memory takes 8 bytes from the cache at 8 bytes/s and 6 bytes at 2 bytes/s.
        let seconds = seconds(&fit(), Work { flop: 30.0, bytes: 14.0, inner: 4.0, rows: 8.0 });
        assert_eq!(seconds, 1.0 + 0.5 * 2.0 + 0.25 * 8.0 + 5.0);
    }

    #[test]
    fn a_product_has_its_operations_and_operands() {
        let kernel = KernelDocument::Product { batch: 2.0, m: 3.0, n: 5.0, k: 7.0 };
        assert_eq!(
            work(&kernel, Precision::Bf16),
            Work { flop: 420.0, bytes: 2.0 * 2.0 * (21.0 + 35.0 + 15.0), inner: 7.0, rows: 6.0 }
        );
        assert_eq!(work(&kernel, Precision::Fp8).bytes, 2.0 * (21.0 + 35.0 + 2.0 * 15.0), "a wider result");
    }

    #[test]
    fn attention_works_on_whole_tiles_and_causal_attention_skips_those_after_the_query() {
        let attention = |queries, keys, causal| KernelDocument::Attention {
            batch: 1.0,
            queries,
            keys,
            heads: 8.0,
            kv_heads: 2.0,
            head_dim: 128.0,
            causal,
        };
        let flop = |kernel| work(&kernel, Precision::Bf16).flop;
        assert_eq!(flop(attention(1.0, 65.0, false)), 4.0 * (2.0 * 64.0) * 128.0 * 128.0);
        assert_eq!(flop(attention(1024.0, 1024.0, false)), 4.0 * (8.0 * 1024.0) * 1024.0 * 128.0);
        let share = flop(attention(1024.0, 1024.0, true)) / flop(attention(1024.0, 1024.0, false));
        assert_eq!(share, 0.5 + 64.0 / 1024.0);
        assert_eq!(flop(attention(64.0, 64.0, true)), flop(attention(64.0, 64.0, false)), "one tile");
    }

    #[test]
    fn huge_and_tiny_work_stays_finite() {
        for amount in [1e-300, 1e-9, 1.0, 1e30, 1e120] {
            let seconds = seconds(&fit(), Work { flop: amount, bytes: amount, inner: amount, rows: amount });
            assert!(seconds.is_finite() && seconds >= 1.0, "{amount}: {seconds}");
        }
        assert_eq!(seconds(&fit(), Work { flop: 0.0, bytes: 0.0, inner: 0.0, rows: 0.0 }), 1.0);
    }
}
