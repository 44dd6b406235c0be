//! Errors of predicted seconds, on measurements that the prediction does not see.
//!
//! An error is |predicted / measured − 1|. Rows left out are:
//!
//! - one row at a time, with all other rows of its sizes known;
//! - all rows of one size along one dimension, as for a model whose hidden size is in no table. The smallest and the
//!   largest size stay, because beyond them there is no interpolation;
//! - all rows of a random fifth of the sizes along every dimension at once, with a fit to the others;
//! - all rows of the class, which the fits of other classes predict by peak and memory bandwidth.
//!
//! In the first two, the six numbers of the fit and the weights of the steps come from all rows. They are listed beside
//! the errors of the fit and of the roofline of the class. Tables with more rows than the sample are sampled.

use std::collections::BTreeMap;

use rand::seq::{IndexedRandom, SliceRandom};
use serde::Serialize;
use stagewright_core::document::{
    ClassDocument, KernelDocument, KernelFitDocument, KernelKind, Precision, TransferKind,
};
use stagewright_core::{kernel, seed};
use stagewright_formats::clusters;
use stagewright_learned::Processor;

use crate::table::{Model, Row, Table, document};
use crate::{Costs, fit};

/// Share of the sizes along every dimension that are held out.
const HELD_OUT: f64 = 0.2;

/// How errors are measured.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AccuracyOptions {
    /// Maximum number of rows of a table that are predicted, for each kind of error.
    pub rows: usize,
    /// Maximum number of sizes along a dimension that are left out, one at a time.
    pub sizes: usize,
    /// Seed of the samples.
    pub seed: u64,
}

impl Default for AccuracyOptions {
    fn default() -> Self {
        AccuracyOptions { rows: 4000, sizes: 24, seed: 0 }
    }
}

/// Absolute relative errors.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct Summary {
    /// Number of predictions.
    pub n: usize,
    /// Median.
    pub median: f64,
    /// 90th percentile.
    pub p90: f64,
    /// Mean.
    pub mean: f64,
}

impl Summary {
    /// Summary of pairs of predicted and measured seconds; `None` without any.
    pub fn of(pairs: &[(f64, f64)]) -> Option<Summary> {
        let mut errors: Vec<f64> =
            pairs.iter().map(|(predicted, measured)| (predicted / measured - 1.0).abs()).collect();
        errors.sort_by(f64::total_cmp);
        let n = errors.len();
        let quantile = |share: f64| errors[((n - 1) as f64 * share).round() as usize];
        (n > 0).then(|| Summary {
            n,
            median: quantile(0.5),
            p90: quantile(0.9),
            mean: errors.iter().sum::<f64>() / n as f64,
        })
    }
}

/// Errors of a table.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Accuracy {
    /// Device class.
    pub class: String,
    /// The kernel.
    pub kernel: KernelKind,
    /// Precision of the kernel's operands.
    pub precision: Precision,
    /// Number of rows of the table.
    pub rows: usize,
    /// Errors with one row left out at a time.
    pub left_out_row: Option<Summary>,
    /// Errors with a size left out at a time, by dimension.
    pub left_out_size: BTreeMap<&'static str, Summary>,
    /// Errors with a fifth of the sizes along every dimension left out at once.
    pub held_out: Option<Summary>,
    /// Errors of the fit, on the rows that it was fitted to.
    pub fit: Option<Summary>,
    /// Errors of the fits of the other classes.
    pub left_out_class: Option<Summary>,
    /// Errors of the roofline of the class, if it is known.
    pub roofline: Option<Summary>,
}

/// Errors of the predictions for a transfer.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LinkAccuracy {
    /// Device class.
    pub class: String,
    /// The transfer.
    pub transfer: TransferKind,
    /// Whether the devices are in different servers.
    pub between_servers: bool,
    /// Number of rows.
    pub rows: usize,
    /// Errors with one number of bytes left out at a time, without the smallest and the largest.
    pub left_out_row: Option<Summary>,
    /// Errors with one number of devices left out at a time, between two others.
    pub left_out_devices: Option<Summary>,
    /// Errors of latency and bandwidth alone.
    pub fit: Option<Summary>,
}

impl Costs {
    /// Errors of every table of kernels. `classes` has the rooflines of classes, by name. O(rows · sizes) per table,
    /// about a second for tens of thousands of rows.
    pub fn accuracy(
        &self,
        classes: &BTreeMap<String, ClassDocument>,
        options: AccuracyOptions,
    ) -> Vec<Accuracy> {
        self.kernels
            .iter()
            .map(|((class, kind, precision), table)| {
                let sample = sample(table.rows(), options, 0);
                let own = classes.get(class);
                let processor = |name: &str| Processor::new(clusters::device(name)?, *precision);
                Accuracy {
                    class: class.clone(),
                    kernel: *kind,
                    precision: *precision,
                    rows: table.rows().len(),
                    left_out_row: left_out_row(table, &sample),
                    left_out_size: left_out_sizes(table, options),
                    held_out: held_out(table, options),
                    fit: by_fit(&table.model().fit, *precision, &sample),
                    left_out_class: processor(class).and_then(|own| {
                        let others: Vec<(Processor, &KernelFitDocument)> = self
                            .kernels
                            .iter()
                            .filter(|((other, other_kind, other_precision), _)| {
                                other != class && other_kind == kind && other_precision == precision
                            })
                            .filter_map(|((other, ..), table)| Some((processor(other)?, &table.model().fit)))
                            .collect();
                        let fit = fit::from_others(&others, &own, *precision)?;
                        by_fit(&fit, *precision, &sample)
                    }),
                    roofline: own.and_then(|own| {
                        let pairs = sample.iter().map(|row| {
                            let kernel = document(*kind, &row.dimensions);
                            Some((roofline(&kernel, *precision, own)?, row.seconds))
                        });
                        Summary::of(&pairs.collect::<Option<Vec<_>>>()?)
                    }),
                }
            })
            .collect()
    }

    /// Errors of every transfer. O(rows²) per number of devices.
    pub fn link_accuracy(&self) -> Vec<LinkAccuracy> {
        let accuracy_of =
            |((class, transfer, between_servers), table): (
                &crate::costs::LinkKey,
                &crate::links::LinkTable,
            )| {
                let (mut rows, mut devices, mut fits) = (Vec::new(), Vec::new(), Vec::new());
                for (&count, curve) in table.sizes() {
                    for (index, &[bytes, seconds]) in curve.rows.iter().enumerate() {
                        fits.push((curve.fitted(bytes), seconds));
                        if index > 0
                            && index + 1 < curve.rows.len()
                            && let Some(others) = curve.without(index)
                        {
                            rows.push((others.seconds(bytes).0, seconds));
                        }
                    }
                    let mut counts = table.sizes().keys();
                    if counts.next() < Some(&count) && counts.next_back() > Some(&count) {
                        let others = table.without(count);
                        devices.extend(curve.rows.iter().filter_map(|&[bytes, seconds]| {
                            Some((others.seconds(count, bytes)?.0, seconds))
                        }));
                    }
                }
                LinkAccuracy {
                    class: class.clone(),
                    transfer: *transfer,
                    between_servers: *between_servers,
                    rows: fits.len(),
                    left_out_row: Summary::of(&rows),
                    left_out_devices: Summary::of(&devices),
                    fit: Summary::of(&fits),
                }
            };
        self.links.iter().map(accuracy_of).collect()
    }
}

fn sample(rows: &[Row], options: AccuracyOptions, task: u64) -> Vec<&Row> {
    let mut rng = seed::stream(options.seed, task);
    rows.sample(&mut rng, options.rows).collect()
}

fn left_out_row(table: &Table, sample: &[&Row]) -> Option<Summary> {
    let model = table.model();
    let pairs: Vec<(f64, f64)> = sample
        .iter()
        .filter_map(|row| {
            Some((model.seconds(&document(table.kernel, &row.dimensions), Some(row))?.0, row.seconds))
        })
        .collect();
    Summary::of(&pairs).filter(|_| table.rows().len() > 1)
}

fn left_out_sizes(table: &Table, options: AccuracyOptions) -> BTreeMap<&'static str, Summary> {
    let mut summaries = BTreeMap::new();
    for (axis, name) in table.kernel.dimensions().iter().enumerate() {
        let mut inner = inner_sizes(table.rows(), axis);
        inner.shuffle(&mut seed::stream(options.seed, axis as u64 + 1));
        inner.truncate(options.sizes);
        let each = options.rows.div_ceil(inner.len().max(1));
        let mut pairs = Vec::new();
        for size in inner {
            let model =
                table.model().with_rows(table.rows().iter().filter(|row| row.dimensions[axis] != size));
            let of_size: Vec<Row> =
                table.rows().iter().filter(|row| row.dimensions[axis] == size).cloned().collect();
            let limited = AccuracyOptions { rows: each, ..options };
            pairs.extend(predictions(&model, table.kernel, &sample(&of_size, limited, size as u64)));
        }
        summaries.extend(Summary::of(&pairs).map(|summary| (*name, summary)));
    }
    summaries
}

fn held_out(table: &Table, options: AccuracyOptions) -> Option<Summary> {
    let axes = table.kernel.dimensions().len();
    let held: Vec<Vec<f64>> = (0..axes)
        .map(|axis| {
            let mut inner = inner_sizes(table.rows(), axis);
            inner.shuffle(&mut seed::stream(options.seed, 100 + axis as u64));
            let count = ((inner.len() + 2) as f64 * HELD_OUT).round() as usize;
            inner.truncate(count);
            inner
        })
        .collect();
    let is_held = |row: &Row| row.dimensions.iter().zip(&held).any(|(size, held)| held.contains(size));
    let (test, train): (Vec<Row>, Vec<Row>) = table.rows().iter().cloned().partition(is_held);
    if train.is_empty() {
        return None;
    }
    let model = Model::new(table.kernel, table.precision, &train);
    Summary::of(&predictions(&model, table.kernel, &sample(&test, options, 200)))
}

/// Sizes along a dimension, in order, without the smallest and the largest.
fn inner_sizes(rows: &[Row], axis: usize) -> Vec<f64> {
    let mut sizes: Vec<f64> = rows.iter().map(|row| row.dimensions[axis]).collect();
    sizes.sort_by(f64::total_cmp);
    sizes.dedup();
    sizes.pop();
    if !sizes.is_empty() {
        sizes.remove(0);
    }
    sizes
}

fn predictions(model: &Model, kernel: KernelKind, rows: &[&Row]) -> Vec<(f64, f64)> {
    rows.iter()
        .filter_map(|row| Some((model.seconds(&document(kernel, &row.dimensions), None)?.0, row.seconds)))
        .collect()
}

fn by_fit(fit: &KernelFitDocument, precision: Precision, rows: &[&Row]) -> Option<Summary> {
    let pairs: Vec<(f64, f64)> = rows
        .iter()
        .map(|row| {
            let work = kernel::work(&document(fit.kernel, &row.dimensions), precision);
            (kernel::seconds(fit, work), row.seconds)
        })
        .collect();
    Summary::of(&pairs)
}

/// Seconds of a kernel by the roofline of a class, as for an operator without kernels.
fn roofline(launch: &KernelDocument, precision: Precision, class: &ClassDocument) -> Option<f64> {
    let flop = match *launch {
        KernelDocument::Product { batch, m, n, k } => 2.0 * batch * m * n * k,
        KernelDocument::Attention { batch, queries, keys, heads, head_dim, causal, .. } => {
            let share = if causal { 0.5 } else { 1.0 };
            4.0 * batch * heads * queries * keys * head_dim * share
        }
    };
    let peak = class.peaks.get(&precision).copied().or(class.peak_flops)? * class.efficiency.unwrap_or(1.0);
    let bytes = kernel::operand_bytes(launch, precision);
    Some((flop / peak).max(bytes / class.memory_bandwidth?) + class.launch_overhead_s)
}
