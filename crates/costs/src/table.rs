//! Seconds of a kernel of one class at one precision.
//!
//! Measured dimensions have their measured seconds. For other dimensions, the seconds are
//!
//! ```text
//! fit(kernel) · steps(kernel) · exp(residual)
//! ```
//!
//! with the closed form fitted to the table ([`crate::fit`]), for products the steps of tiles and waves
//! ([`crate::tiles`]), and the residual, the logarithm of measured over predicted seconds, interpolated between
//! measurements ([`crate::grid`]). The form carries the trend, so residuals are small and flat, and beyond the measured
//! sizes the residual of the nearest ones applies to it.
//!
//! Attention of `batch` sequences with `kv_heads` heads of keys divides equally among batch · kv_heads blocks, so
//! residuals are on the axes batch · kv_heads and tokens, in groups by heads per head of keys and by size of a head.
//! For a group without measurements, the four nearest groups count, weighted by the inverse square of their distance.

use std::sync::OnceLock;

use stagewright_core::document::{KernelDocument, KernelFitDocument, KernelKind, Precision};
use stagewright_core::kernel;

use crate::Source;
use crate::fit;
use crate::grid::Grid;
use crate::tiles::Steps;

/// Number of nearest groups that count for a group without measurements.
const NEAREST_GROUPS: usize = 4;

/// Largest absolute logarithm of a predicted number of seconds.
const LARGEST_LOG: f64 = 300.0;

/// A measurement: dimensions in the order of [`KernelKind::dimensions`], and seconds.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Row {
    pub(crate) dimensions: Vec<f64>,
    pub(crate) seconds: f64,
}

/// Measurements of a kernel, in the order of their dimensions.
#[derive(Debug)]
pub(crate) struct Table {
    pub(crate) kernel: KernelKind,
    pub(crate) precision: Precision,
    rows: Vec<Row>,
    model: OnceLock<Model>,
}

impl Table {
    /// Rows of different dimensions; rows of equal dimensions are reduced to their median. O(n log n).
    pub(crate) fn new(kernel: KernelKind, precision: Precision, mut rows: Vec<Row>) -> Table {
        rows.sort_by(|left, right| {
            compare(&left.dimensions, &right.dimensions).then(left.seconds.total_cmp(&right.seconds))
        });
        let rows = rows
            .chunk_by(|left, right| left.dimensions == right.dimensions)
            .map(|same| {
                let middle = same.len() / 2;
                let seconds = match same.len() % 2 {
                    0 => same[middle - 1].seconds / 2.0 + same[middle].seconds / 2.0,
                    _ => same[middle].seconds,
                };
                Row { dimensions: same[0].dimensions.clone(), seconds }
            })
            .collect();
        Table { kernel, precision, rows, model: OnceLock::new() }
    }

    pub(crate) fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// Whether there is a row of these dimensions. O(log n).
    pub(crate) fn has(&self, dimensions: &[f64]) -> bool {
        self.rows.binary_search_by(|row| compare(&row.dimensions, dimensions)).is_ok()
    }

    /// The model of all rows, built on the first call.
    pub(crate) fn model(&self) -> &Model {
        self.model.get_or_init(|| Model::new(self.kernel, self.precision, &self.rows))
    }

    /// Seconds of a kernel, which must be of the kind of the table and have dimensions above zero; `None` without rows.
    pub(crate) fn seconds(&self, kernel: &KernelDocument) -> Option<(f64, Source)> {
        if let Some(dimensions) = dimensions(kernel)
            && let Ok(index) = self.rows.binary_search_by(|row| compare(&row.dimensions, &dimensions))
        {
            return Some((self.rows[index].seconds, Source::Measured));
        }
        self.model().seconds(kernel, None)
    }
}

/// Model that predicts seconds between measurements.
#[derive(Debug, Clone)]
pub(crate) struct Model {
    precision: Precision,
    pub(crate) fit: KernelFitDocument,
    steps: Option<Steps>,
    groups: Vec<Group>,
}

#[derive(Debug, Clone)]
struct Group {
    /// Logarithms of the dimensions that distinguish the group.
    key: [f64; 2],
    residuals: Grid,
}

impl Model {
    /// Fits the form and the steps to rows. O(n).
    pub(crate) fn new(kernel: KernelKind, precision: Precision, rows: &[Row]) -> Model {
        let samples: Vec<_> = rows
            .iter()
            .map(|row| (kernel::work(&document(kernel, &row.dimensions), precision), row.seconds))
            .collect();
        let mut model =
            Model { precision, fit: fit::fit(kernel, precision, &samples), steps: None, groups: Vec::new() };
        model.groups = model.grouped(rows.iter());
        if kernel == KernelKind::Product
            && let [group] = &model.groups[..]
        {
            let share = |point: &[f64]| model.share(&document(kernel, point));
            model.steps = Steps::learn(&group.residuals, share);
            model.groups = model.grouped(rows.iter());
        }
        model
    }

    /// The model with the residuals of other rows; fit and steps stay the same. O(n log n).
    pub(crate) fn with_rows<'a>(&self, rows: impl Iterator<Item = &'a Row>) -> Model {
        Model { groups: self.grouped(rows), ..self.clone() }
    }

    /// Seconds, and whether they are interpolated; `without` excludes a row. `None` without residuals.
    pub(crate) fn seconds(&self, kernel: &KernelDocument, without: Option<&Row>) -> Option<(f64, Source)> {
        let (key, point) = coordinates(kernel);
        let left_out = without.map(|row| row.seconds.ln() - self.trend(kernel));
        let own = self.groups.iter().find(|group| group.key == key);
        let own = own.and_then(|group| group.residuals.value(&point, left_out));
        let (residual, is_inside) = match own {
            Some(value) => (value.value, value.is_inside),
            None => self.between_groups(key, &point)?,
        };
        let seconds = (self.trend(kernel) + residual).clamp(-LARGEST_LOG, LARGEST_LOG).exp();
        let is_batched = matches!(*kernel, KernelDocument::Product { batch, .. } if batch != 1.0);
        let is_partial = matches!(*kernel, KernelDocument::Attention { queries, keys, .. }
            if queries > 1.0 && queries != keys);
        let is_interpolated = is_inside && !is_batched && !is_partial;
        Some((seconds, if is_interpolated { Source::Interpolated } else { Source::Fitted }))
    }

    fn between_groups(&self, key: [f64; 2], point: &[f64]) -> Option<(f64, bool)> {
        let mut nearest: Vec<(f64, &Group)> = self
            .groups
            .iter()
            .filter(|group| group.key != key)
            .map(|group| ((0..2).map(|axis| (group.key[axis] - key[axis]).powi(2)).sum(), group))
            .collect();
        nearest.sort_by(|left, right| left.0.total_cmp(&right.0));
        let within = |axis: usize| {
            let keys = || self.groups.iter().map(|group| group.key[axis]);
            keys().any(|known| known <= key[axis]) && keys().any(|known| known >= key[axis])
        };
        let (mut sum, mut total, mut is_inside) = (0.0, 0.0, within(0) && within(1));
        for (distance, group) in nearest.into_iter().take(NEAREST_GROUPS) {
            if let Some(value) = group.residuals.value(point, None) {
                let weight = 1.0 / distance.max(1e-9);
                sum += weight * value.value;
                total += weight;
                is_inside &= value.is_inside;
            }
        }
        (total > 0.0).then(|| (sum / total, is_inside))
    }

    fn grouped<'a>(&self, rows: impl Iterator<Item = &'a Row>) -> Vec<Group> {
        let mut keyed: Vec<([f64; 2], Vec<f64>, f64)> = rows
            .map(|row| {
                let kernel = document(self.fit.kernel, &row.dimensions);
                let (key, point) = coordinates(&kernel);
                (key, point, row.seconds.ln() - self.trend(&kernel))
            })
            .collect();
        keyed.sort_by(|left, right| compare(&left.0, &right.0));
        keyed
            .chunk_by(|left, right| left.0 == right.0)
            .map(|same| {
                let points: Vec<_> = same.iter().map(|(_, point, value)| (point.clone(), *value)).collect();
                Group { key: same[0].0, residuals: Grid::new(&points) }
            })
            .collect()
    }

    /// Logarithm of the seconds by fit and steps.
    fn trend(&self, kernel: &KernelDocument) -> f64 {
        let seconds = kernel::seconds(&self.fit, kernel::work(kernel, self.precision));
        let steps = match (&self.steps, *kernel) {
            (Some(steps), KernelDocument::Product { batch, m, n, .. }) => {
                steps.at(m, n, batch, self.share(kernel))
            }
            _ => 0.0,
        };
        let log = seconds.ln() + steps;
        if log.is_finite() { log } else { 0.0 }
    }

    /// Share of computation in the fitted seconds.
    fn share(&self, kernel: &KernelDocument) -> f64 {
        let [compute, memory] = kernel::parts(&self.fit, kernel::work(kernel, self.precision));
        let share = compute / (self.fit.launch_s + compute + memory);
        if share.is_finite() { share } else { 0.0 }
    }
}

/// The kernel of a row.
pub(crate) fn document(kernel: KernelKind, dimensions: &[f64]) -> KernelDocument {
    match *dimensions {
        [m, n, k] => KernelDocument::Product { batch: 1.0, m, n, k },
        [batch, tokens, heads, kv_heads, head_dim] => KernelDocument::Attention {
            batch,
            queries: if kernel == KernelKind::DecodeAttention { 1.0 } else { tokens },
            keys: tokens,
            heads,
            kv_heads,
            head_dim,
            causal: kernel == KernelKind::CausalAttention,
        },
        _ => unreachable!("rows have the dimensions of their kernel"),
    }
}

/// Dimensions of the row that measures exactly this kernel; `None` if no row can.
fn dimensions(kernel: &KernelDocument) -> Option<Vec<f64>> {
    match *kernel {
        KernelDocument::Product { batch, m, n, k } => (batch == 1.0).then(|| vec![m, n, k]),
        KernelDocument::Attention { batch, queries, keys, heads, kv_heads, head_dim, .. } => {
            (queries == keys || queries == 1.0).then(|| vec![batch, keys, heads, kv_heads, head_dim])
        }
    }
}

/// Group and point of a kernel among residuals.
fn coordinates(kernel: &KernelDocument) -> ([f64; 2], Vec<f64>) {
    match *kernel {
        KernelDocument::Product { m, n, k, .. } => ([0.0; 2], vec![m, n, k]),
        KernelDocument::Attention { batch, keys, heads, kv_heads, head_dim, .. } => {
            ([(heads / kv_heads).ln(), head_dim.ln()], vec![batch * kv_heads, keys])
        }
    }
}

fn compare(left: &[f64], right: &[f64]) -> std::cmp::Ordering {
    left.iter()
        .zip(right)
        .map(|(left, right)| left.total_cmp(right))
        .fold(std::cmp::Ordering::Equal, std::cmp::Ordering::then)
}
