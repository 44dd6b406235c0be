//! Look-up of seconds in measurements.

use std::collections::BTreeMap;

use serde::Serialize;
use stagewright_core::document::{
    CostsDocument, KernelDocument, KernelFitDocument, KernelKind, LinkDocument, Precision, TransferKind,
};
use stagewright_core::kernel;
use stagewright_formats::InputError;

use crate::check::check;
use crate::links::LinkTable;
use crate::table::{Row, Table, document};

/// Rows from which a table is interpolated rather than used to calibrate learned costs: some hundreds cover the sizes of a
/// model, 8 to 32 do not. Chosen, not fitted.
const DENSE: usize = 200;

/// Source of a number of seconds, the best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Source {
    /// A measurement of exactly the same operator, kernel or transfer.
    Measured,
    /// Interpolated between measurements of other sizes.
    Interpolated,
    /// Predicted by networks that were trained on measurements of other kernels and devices.
    Learned,
    /// A closed form that was fitted to measurements, beyond the measured sizes.
    Fitted,
    /// The roofline of the device class.
    Guessed,
}

impl Source {
    /// All sources.
    pub const ALL: [Source; 5] =
        [Source::Measured, Source::Interpolated, Source::Learned, Source::Fitted, Source::Guessed];

    /// Name, for display.
    pub fn name(self) -> &'static str {
        match self {
            Source::Measured => "measured",
            Source::Interpolated => "interpolated",
            Source::Learned => "learned",
            Source::Fitted => "fitted",
            Source::Guessed => "guessed",
        }
    }
}

/// Seconds with their source.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    /// Seconds, finite and positive.
    pub seconds: f64,
    /// Source of the seconds.
    pub source: Source,
}

/// A table, for display.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TableSummary {
    /// Device class.
    pub class: String,
    /// The kernel.
    pub kernel: KernelKind,
    /// Precision of the kernel's operands.
    pub precision: Precision,
    /// Number of rows; no two have equal dimensions.
    pub rows: usize,
}

pub(crate) type KernelKey = (String, KernelKind, Precision);
pub(crate) type LinkKey = (String, TransferKind, bool);

/// Measurements, ready for look-up.
///
/// # Classes
///
/// One rule applies to operators, kernels and transfers: a class uses its own measurements, and a class such as
/// `a100-fp16`, which is the device `a100` at one precision, uses those of `a100` where it has none. An operator
/// without a precision has the precision of such a class. Measurements of an operator by its name have no precision:
/// they hold for the precision at which the model was measured.
#[derive(Debug, Default)]
pub struct Costs {
    operators: BTreeMap<String, BTreeMap<String, f64>>,
    pub(crate) kernels: BTreeMap<KernelKey, Table>,
    pub(crate) links: BTreeMap<LinkKey, LinkTable>,
}

impl Costs {
    /// Checks documents, each with a label for errors, and merges them. The value for a set of dimensions is the
    /// median of its measurements in a document; later documents override earlier ones. O(n log n) in the number of
    /// rows.
    ///
    /// # Errors
    /// Q010 for another schema, Q011 for a row of the wrong length, Q012 for a number out of range, Q013 for a class
    /// without a name, Q014 for a transfer among fewer than two devices, Q109 for a spread without seconds.
    pub fn new(documents: impl IntoIterator<Item = (String, CostsDocument)>) -> Result<Costs, InputError> {
        let mut costs = Costs::default();
        let mut kernels: BTreeMap<KernelKey, Vec<Row>> = BTreeMap::new();
        let mut links: BTreeMap<LinkKey, BTreeMap<u32, Vec<[f64; 2]>>> = BTreeMap::new();
        for (label, document) in documents {
            check(&label, &document)?;
            for measured in document.operators.into_iter().filter(|measured| !measured.seconds.is_empty()) {
                costs.operators.entry(measured.class).or_default().extend(measured.seconds);
            }
            let mut new: BTreeMap<KernelKey, Vec<Row>> = BTreeMap::new();
            for table in document.kernels {
                let rows = table.rows.into_iter().filter_map(|mut dimensions| {
                    let seconds = dimensions.pop()?;
                    Some(Row { dimensions, seconds })
                });
                new.entry((table.class, table.kernel, table.precision)).or_default().extend(rows);
            }
            for (key, rows) in new {
                let new = Table::new(key.1, key.2, rows);
                let known = kernels.entry(key).or_default();
                known.retain(|row| !new.has(&row.dimensions));
                known.extend_from_slice(new.rows());
            }
            let mut new: BTreeMap<(LinkKey, u32), Vec<[f64; 2]>> = BTreeMap::new();
            for table in document.links {
                let key = (table.class, table.transfer, table.between_servers);
                new.entry((key, table.devices)).or_default().extend(table.rows);
            }
            for ((key, devices), rows) in new {
                let rows = crate::links::medians(rows);
                let known = links.entry(key).or_default().entry(devices).or_default();
                known.retain(|row| rows.binary_search_by(|new| new[0].total_cmp(&row[0])).is_err());
                known.extend(rows);
            }
        }
        costs.kernels = kernels
            .into_iter()
            .filter(|(_, rows)| !rows.is_empty())
            .map(|(key, rows)| {
                let table = Table::new(key.1, key.2, rows);
                (key, table)
            })
            .collect();
        costs.links = links
            .into_iter()
            .map(|(key, rows)| {
                let table = LinkTable::new(key.1, rows);
                (key, table)
            })
            .filter(|(_, table)| !table.sizes().is_empty())
            .collect();
        Ok(costs)
    }

    /// Whether there are no measurements.
    pub fn is_empty(&self) -> bool {
        self.operators.is_empty() && self.kernels.is_empty() && self.links.is_empty()
    }

    /// Tables of kernels, by class, kernel and precision.
    pub fn tables(&self) -> impl Iterator<Item = TableSummary> {
        self.kernels.iter().map(|((class, kernel, precision), table)| TableSummary {
            class: class.clone(),
            kernel: *kernel,
            precision: *precision,
            rows: table.rows().len(),
        })
    }

    /// Seconds of an operator by its name; `None` if it was not measured on the class. O(log operators).
    pub fn operator(&self, class: &str, name: &str) -> Option<f64> {
        names(class).find_map(|class| self.operators.get(class)?.get(name).copied())
    }

    /// Seconds of a library kernel on a class at a precision: measured, otherwise interpolated, otherwise fitted.
    /// `None` without measurements that apply, and for dimensions that are not positive.
    ///
    /// Measurements of fp16 and bf16 stand in for each other, as do those of attention with and without a mask, and the
    /// result then counts as fitted. Batched products and attention to earlier tokens are not in tables: the fitted
    /// form prices them, times the factor by which measurements of one product, or of attention without earlier tokens,
    /// deviate from the form. This result counts as fitted as well.
    ///
    /// O(log rows) for measured dimensions; otherwise O(1) on a grid of sizes, and O(rows) for scattered sizes. The
    /// first call for a table fits it, in a fraction of a second.
    pub fn kernel(&self, class: &str, kernel: &KernelDocument, precision: Precision) -> Option<Estimate> {
        if !is_valid(kernel) {
            return None;
        }
        let kind = kernel::kind(kernel);
        if let Some(table) = self.table(class, kind, precision) {
            let (seconds, source) = table.seconds(kernel)?;
            return Some(Estimate { seconds, source });
        }
        let mut others: Vec<(KernelKind, Precision)> = Vec::new();
        let precisions = [Some(precision), other_precision(precision)];
        for precision in precisions.into_iter().flatten() {
            others.push((kind, precision));
            others.extend(other_kind(kind).map(|kind| (kind, precision)));
        }
        let table = others.into_iter().find_map(|(kind, precision)| self.table(class, kind, precision))?;
        let (seconds, _) = table.model().seconds(kernel, None)?;
        Some(Estimate { seconds, source: Source::Fitted })
    }

    /// Seconds of a transfer of a tensor among devices of a class: measured, otherwise interpolated, in the logarithms
    /// of bytes and of devices, otherwise fitted by a latency and a bandwidth. `None` without measurements, for bytes
    /// that are negative or not finite, and for fewer than two devices. O(log rows).
    pub fn transfer(
        &self,
        class: &str,
        transfer: TransferKind,
        devices: u32,
        between_servers: bool,
        bytes: f64,
    ) -> Option<Estimate> {
        let table = self.link_table(class, transfer, between_servers)?;
        let (seconds, source) = table.seconds(devices, bytes)?;
        Some(Estimate { seconds, source })
    }

    /// Latency and bandwidth of transfers from one device of a class to another; `None` if none was measured.
    pub fn link(&self, class: &str, between_servers: bool) -> Option<LinkDocument> {
        self.link_table(class, TransferKind::Send, between_servers)?.link()
    }

    /// The closed forms fitted to the tables of a class, by kernel and precision, without a source. Fits every table of
    /// the class on the first call.
    pub fn fits(&self, class: &str) -> Vec<KernelFitDocument> {
        self.kernels
            .iter()
            .filter(|((of_class, ..), _)| of_class == class)
            .map(|(_, table)| table.model().fit.clone())
            .collect()
    }

    /// Whether a table of the class for a kernel at a precision has at least 200 rows.
    pub(crate) fn is_dense(&self, class: &str, kernel: &KernelDocument, precision: Precision) -> bool {
        self.table(class, kernel::kind(kernel), precision).is_some_and(|table| table.rows().len() >= DENSE)
    }

    /// Kernels in tables of the class with fewer than 200 rows, with their precision and seconds.
    pub(crate) fn samples(&self, class: &str) -> impl Iterator<Item = (KernelDocument, Precision, f64)> {
        let tables = self.kernels.iter().filter(move |((name, ..), table)| {
            names(class).any(|class| class == name) && table.rows().len() < DENSE
        });
        tables.flat_map(|((_, kind, precision), table)| {
            table.rows().iter().map(|row| (document(*kind, &row.dimensions), *precision, row.seconds))
        })
    }

    fn table(&self, class: &str, kernel: KernelKind, precision: Precision) -> Option<&Table> {
        names(class).find_map(|class| self.kernels.get(&(class.to_owned(), kernel, precision)))
    }

    fn link_table(&self, class: &str, transfer: TransferKind, between_servers: bool) -> Option<&LinkTable> {
        names(class).find_map(|class| self.links.get(&(class.to_owned(), transfer, between_servers)))
    }
}

/// The classes whose measurements apply to a class, in order: the rule of [`Costs`].
fn names(class: &str) -> impl Iterator<Item = &str> {
    std::iter::once(class).chain(at_one_precision(class).map(|(device, _)| device))
}

/// Device and precision of a class such as `a100-fp16`.
pub(crate) fn at_one_precision(class: &str) -> Option<(&str, Precision)> {
    let (device, suffix) = class.rsplit_once('-')?;
    Some((device, Precision::named(suffix)?))
}

fn other_precision(precision: Precision) -> Option<Precision> {
    match precision {
        Precision::Bf16 => Some(Precision::Fp16),
        Precision::Fp16 => Some(Precision::Bf16),
        _ => None,
    }
}

fn other_kind(kind: KernelKind) -> Option<KernelKind> {
    match kind {
        KernelKind::Attention => Some(KernelKind::CausalAttention),
        KernelKind::CausalAttention => Some(KernelKind::Attention),
        KernelKind::Product | KernelKind::DecodeAttention => None,
    }
}

fn is_valid(kernel: &KernelDocument) -> bool {
    let is_positive = |value: &f64| *value > 0.0 && value.is_finite();
    match kernel {
        KernelDocument::Product { batch, m, n, k } => [batch, m, n, k].into_iter().all(is_positive),
        KernelDocument::Attention { batch, queries, keys, heads, kv_heads, head_dim, .. } => {
            [batch, queries, keys, heads, kv_heads, head_dim].into_iter().all(is_positive)
        }
    }
}
