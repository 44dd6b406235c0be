//! Measured tables of NVIDIA's AIConfigurator.
//!
//! The package `aiconfigurator-core` of PyPI (Apache-2.0) has measured seconds of library kernels on several GPUs, by
//! serving framework, in Parquet files
//!
//! ```text
//! systems/data/SYSTEM/{gemm,attention,encoder_attention}/FRAMEWORK/VERSION/…_perf.parquet
//! systems/data/SYSTEM/comm/nccl/VERSION/nccl_perf.parquet
//! ```
//!
//! The importer reads the installation of the user; no number of the tables is part of this program. Kernels are timed
//! one by one, repeatedly and with a warm cache, without the time to launch them from Python. Products at fp8 include
//! the quantisation of the first operand, as the frameworks do it. `message_size` of a collective counts elements, so
//! bytes are `message_size` times the width of the type; it is the size of the whole tensor on one device.
//!
//! The importer reads products, attention without a window and with operands and cache of one precision, and
//! collectives. Everything else is skipped and counted in the notes: products with weights of fewer bits or scales per
//! block, sliding windows, and caches of another precision.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use stagewright_core::document::{
    CostsDocument, KernelCostsDocument, KernelKind, LinkCostsDocument, Precision, TransferKind,
};
use stagewright_formats::{At, InputError};

use super::columns::{Column, Columns, read};
use crate::code::{Q001, Q002, Q003, Q007};

/// Frameworks in the order of preference: products of the first are plain calls of `torch.nn.functional.linear`.
const FRAMEWORKS: [&str; 3] = ["vllm", "sglang", "trtllm"];

/// A framework is preferred only if it has at least this fraction of the maximum number of products of any framework.
const COMPLETE: f64 = 0.9;

/// The input to read.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Options {
    /// Systems, such as `h100_sxm`; empty for all that have tables.
    pub systems: Vec<String>,
    /// Framework, such as `vllm`. By default the first of `vllm`, `sglang`, `trtllm` and others, by name, with at least
    /// 90% of the products of the framework that has the most for the system.
    pub framework: Option<String>,
    /// Device class by system, instead of the one that [`class_of`] gives.
    pub classes: BTreeMap<String, String>,
}

/// Imported measurements.
#[derive(Debug, Clone, PartialEq)]
pub struct Imported {
    /// The measurements.
    pub document: CostsDocument,
    /// Choices and omissions, one sentence each, for display.
    pub notes: Vec<String>,
}

/// Device class of a system: the built-in device if there is one, otherwise the name of the system with hyphens.
pub fn class_of(system: &str) -> String {
    match system {
        "a100_sxm" => "a100-80gb".into(),
        "a100_pcie" => "a100-pcie-80gb".into(),
        "h100_sxm" => "h100".into(),
        "h100_pcie" => "h100-pcie".into(),
        "h200_sxm" => "h200".into(),
        "b200_sxm" => "b200".into(),
        "b300_sxm" => "b300".into(),
        other => other.replace('_', "-"),
    }
}

/// Reads the tables of an installation: the folder of the package, or its folder `systems`. O(bytes).
///
/// # Errors
/// Q001 if the folder has no tables, Q002 for an unknown system, Q003 for an unknown framework, Q004 to Q006 for a file
/// that cannot be read, Q007 if no measurement remains.
pub fn import(folder: &Path, options: &Options) -> Result<Imported, InputError> {
    let label = folder.display().to_string();
    let data = data_in(folder).ok_or_else(|| {
        InputError::new(
            Q001,
            &label,
            At::Whole,
            "the folder has no tables of aiconfigurator-core",
            "give the folder `aiconfigurator_core` of the installed package, which `python -c 'import \
             aiconfigurator_core; print(aiconfigurator_core.__path__[0])'` prints",
        )
    })?;
    let known = systems_in(&data);
    for system in &options.systems {
        if !known.contains(system) {
            return Err(InputError::at_path(
                Q002,
                &label,
                system.clone(),
                format!("the package has no tables of the system `{system}`"),
                format!("it has {}", known.join(", ")),
            ));
        }
    }
    let systems = if options.systems.is_empty() { &known } else { &options.systems };
    let mut imported = Imported { document: CostsDocument::new(package(folder)), notes: Vec::new() };
    for system in systems {
        let import = System {
            folder: data.join(system),
            class: options.classes.get(system).cloned().unwrap_or_else(|| class_of(system)),
            package: package(folder),
            name: system,
        };
        import.run(options.framework.as_deref(), &label, &mut imported)?;
    }
    if imported.document.kernels.is_empty() && imported.document.links.is_empty() {
        return Err(InputError::new(
            Q007,
            &label,
            At::Whole,
            "the tables have no measurement that can be used",
            format!("give a framework that has tables for {}", systems.join(", ")),
        ));
    }
    Ok(imported)
}

/// All files where [`import`] looks for tables: below a system, in a folder of a kind, a framework and a version.
pub fn tables(folder: &Path) -> Vec<PathBuf> {
    let mut folders: Vec<PathBuf> = data_in(folder).into_iter().collect();
    for _ in ["system", "kind", "framework", "version", "file"] {
        folders = folders
            .iter()
            .flat_map(|folder| entries(folder).into_iter().map(move |name| folder.join(name)))
            .collect();
    }
    folders
}

/// The folder of the systems.
fn data_in(folder: &Path) -> Option<PathBuf> {
    let mut all = ["systems/data", "data", "."].iter().map(|below| folder.join(below));
    all.find(|data| !systems_in(data).is_empty())
}

/// Systems with products or attention, by name.
fn systems_in(data: &Path) -> Vec<String> {
    let has_tables =
        |name: &String| ["gemm", "attention", "comm"].iter().any(|kind| data.join(name).join(kind).is_dir());
    entries(data).into_iter().filter(has_tables).collect()
}

/// Names in a folder, sorted; empty if the folder cannot be read.
fn entries(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(folder)
        .map(|all| all.flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect())
        .unwrap_or_default();
    names.sort();
    names
}

/// Name and version of the package, from the folder that pip writes beside it.
fn package(folder: &Path) -> String {
    let version = folder.ancestors().take(3).find_map(|parent| {
        entries(parent).into_iter().find_map(|name| {
            let version = name.strip_prefix("aiconfigurator_core-")?.strip_suffix(".dist-info")?;
            Some(version.to_owned())
        })
    });
    version.map_or("aiconfigurator-core".into(), |version| format!("aiconfigurator-core {version}"))
}

/// The tables of one system.
struct System<'a> {
    folder: PathBuf,
    class: String,
    package: String,
    name: &'a str,
}

impl System<'_> {
    fn run(&self, framework: Option<&str>, label: &str, into: &mut Imported) -> Result<(), InputError> {
        let frameworks = self.frameworks();
        let chosen = match framework {
            Some(name) if frameworks.iter().any(|known| known == name) => Some(name.to_owned()),
            Some(name) => {
                return Err(InputError::at_path(
                    Q003,
                    label,
                    self.name,
                    format!("the system `{}` has no tables of the framework `{name}`", self.name),
                    format!("it has {}", frameworks.join(", ")),
                ));
            }
            None => self.preferred(&frameworks)?,
        };
        if let Some(framework) = chosen {
            for table in TABLES {
                self.kernels(table, &framework, into)?;
            }
        }
        self.collectives(into)
    }

    /// Frameworks with products or attention, preferred ones first.
    fn frameworks(&self) -> Vec<String> {
        let mut names = entries(&self.folder.join("gemm"));
        names.extend(entries(&self.folder.join("attention")));
        let rank =
            |name: &String| FRAMEWORKS.iter().position(|known| known == name).unwrap_or(FRAMEWORKS.len());
        names.sort_by(|left, right| rank(left).cmp(&rank(right)).then_with(|| left.cmp(right)));
        names.dedup();
        names
    }

    fn preferred(&self, frameworks: &[String]) -> Result<Option<String>, InputError> {
        let mut counts = Vec::new();
        for name in frameworks {
            let count = match newest(&self.folder.join("gemm").join(name), "gemm_perf.parquet") {
                Some((path, _)) => {
                    let columns = read(&path, &[Column::Text("gemm_dtype")])?;
                    let usable = |&row: &usize| precision(columns.text("gemm_dtype", row)).is_some();
                    (0..columns.rows()).filter(usable).count()
                }
                None => 0,
            };
            counts.push(count as f64);
        }
        let largest = counts.iter().copied().fold(0.0, f64::max);
        Ok(counts
            .iter()
            .position(|&count| count >= COMPLETE * largest)
            .map(|index| frameworks[index].clone()))
    }

    fn kernels(&self, table: &Table, framework: &str, into: &mut Imported) -> Result<(), InputError> {
        let folder = self.folder.join(table.folder).join(framework);
        let Some((path, version)) = newest(&folder, table.file) else {
            into.notes.push(format!("{}: {framework} has no {}.", self.name, table.title));
            return Ok(());
        };
        let columns = read(&path, table.columns)?;
        let mut rows: BTreeMap<Precision, Vec<Vec<f64>>> = BTreeMap::new();
        let mut skipped: BTreeMap<String, usize> = BTreeMap::new();
        for row in 0..columns.rows() {
            match (table.row)(&columns, row) {
                Ok((precision, values)) => rows.entry(precision).or_default().push(values),
                Err(reason) => *skipped.entry(reason).or_default() += 1,
            }
        }
        let source = format!("{}, {} {framework} {version}", self.package, self.name);
        let used: usize = rows.values().map(Vec::len).sum();
        let mut note = format!("{}: {used} {} of {framework} {version}", self.name, table.title);
        for (reason, count) in skipped {
            note.push_str(&format!("; skipped {count} {reason}"));
        }
        note.push('.');
        into.notes.push(note);
        into.document.kernels.extend(rows.into_iter().map(|(precision, rows)| KernelCostsDocument {
            class: self.class.clone(),
            kernel: table.kernel,
            precision,
            source: source.clone(),
            rows: medians(rows),
        }));
        Ok(())
    }

    fn collectives(&self, into: &mut Imported) -> Result<(), InputError> {
        let Some((path, version)) = newest(&self.folder.join("comm/nccl"), "nccl_perf.parquet") else {
            into.notes.push(format!("{}: no collectives of NCCL.", self.name));
            return Ok(());
        };
        let columns = read(
            &path,
            &[
                Column::Text("op_name"),
                Column::Text("nccl_dtype"),
                Column::Number("num_gpus"),
                Column::Number("message_size"),
                Column::Number("latency"),
            ],
        )?;
        let mut rows: BTreeMap<(TransferKind, u32), Vec<Vec<f64>>> = BTreeMap::new();
        let mut skipped = 0;
        for row in 0..columns.rows() {
            let devices = columns.number("num_gpus", row);
            let width = match columns.text("nccl_dtype", row) {
                "half" | "bfloat16" => 2.0,
                "int8" | "fp8" => 1.0,
                "float" => 4.0,
                _ => f64::NAN,
            };
            let values =
                vec![columns.number("message_size", row) * width, columns.number("latency", row) * 1e-3];
            let transfer = transfer(columns.text("op_name", row));
            match transfer.filter(|_| usable(&values) && (2.0..=1e6).contains(&devices)) {
                Some(transfer) => rows.entry((transfer, devices as u32)).or_default().push(values),
                None => skipped += 1,
            }
        }
        let used: usize = rows.values().map(Vec::len).sum();
        let mut note = format!("{}: {used} collectives of NCCL {version}", self.name);
        if skipped > 0 {
            note.push_str(&format!("; skipped {skipped} others"));
        }
        note.push('.');
        into.notes.push(note);
        into.document.links.extend(rows.into_iter().map(|((transfer, devices), rows)| LinkCostsDocument {
            class: self.class.clone(),
            transfer,
            devices,
            between_servers: false,
            source: format!("{}, {} NCCL {version}", self.package, self.name),
            rows: medians(rows).into_iter().map(|row| [row[0], row[1]]).collect(),
        }));
        Ok(())
    }
}

/// Precision and numbers of a row, or why it is skipped.
type ReadRow = Result<(Precision, Vec<f64>), String>;

/// A kind of table.
struct Table {
    folder: &'static str,
    file: &'static str,
    title: &'static str,
    kernel: KernelKind,
    columns: &'static [Column],
    row: fn(&Columns, usize) -> ReadRow,
}

const TABLES: &[Table] = &[
    Table {
        folder: "gemm",
        file: "gemm_perf.parquet",
        title: "products",
        kernel: KernelKind::Product,
        columns: &[
            Column::Text("gemm_dtype"),
            Column::Number("m"),
            Column::Number("n"),
            Column::Number("k"),
            Column::Number("latency"),
        ],
        row: product,
    },
    Table {
        folder: "attention",
        file: "context_attention_perf.parquet",
        title: "causal attention kernels",
        kernel: KernelKind::CausalAttention,
        columns: ATTENTION,
        row: context,
    },
    Table {
        folder: "attention",
        file: "generation_attention_perf.parquet",
        title: "decode attention kernels",
        kernel: KernelKind::DecodeAttention,
        columns: ATTENTION,
        row: generation,
    },
    Table {
        folder: "encoder_attention",
        file: "encoder_attention_perf.parquet",
        title: "attention kernels without a mask",
        kernel: KernelKind::Attention,
        columns: &[
            Column::Text("attn_dtype"),
            Column::Number("batch_size"),
            Column::Number("isl"),
            Column::Number("num_heads"),
            Column::Number("head_dim"),
            Column::Number("latency"),
        ],
        row: encoder,
    },
];

const ATTENTION: &[Column] = &[
    Column::Text("attn_dtype"),
    Column::OptionalText("kv_cache_dtype"),
    Column::Number("batch_size"),
    Column::Number("isl"),
    Column::Number("step"),
    Column::Number("num_heads"),
    Column::Number("num_key_value_heads"),
    Column::Number("head_dim"),
    Column::OptionalNumber("window_size"),
    Column::Number("latency"),
];

fn product(columns: &Columns, row: usize) -> ReadRow {
    let name = columns.text("gemm_dtype", row);
    let precision = precision(name).ok_or_else(|| format!("of {name}"))?;
    finish(precision, columns, row, &["m", "n", "k"])
}

fn encoder(columns: &Columns, row: usize) -> ReadRow {
    let name = columns.text("attn_dtype", row);
    let precision = precision(name).ok_or_else(|| format!("of {name}"))?;
    finish(precision, columns, row, &["batch_size", "isl", "num_heads", "num_heads", "head_dim"])
}

fn context(columns: &Columns, row: usize) -> ReadRow {
    if columns.number("step", row) != 0.0 {
        return Err("after earlier tokens".into());
    }
    attention(columns, row)
}

fn generation(columns: &Columns, row: usize) -> ReadRow {
    let (precision, mut values) = attention(columns, row)?;
    values[1] += columns.number("step", row);
    match usable(&values) {
        true => Ok((precision, values)),
        false => Err("with values out of range".into()),
    }
}

fn attention(columns: &Columns, row: usize) -> ReadRow {
    if columns.has("window_size") && columns.number("window_size", row) != 0.0 {
        return Err("with a sliding window".into());
    }
    let (name, cache) = (columns.text("attn_dtype", row), columns.text("kv_cache_dtype", row));
    let of_operands = precision(name).ok_or_else(|| format!("of {name}"))?;
    if !cache.is_empty() && precision(cache) != Some(of_operands) {
        return Err(format!("of {name} with a cache of {cache}"));
    }
    let dimensions = ["batch_size", "isl", "num_heads", "num_key_value_heads", "head_dim"];
    finish(of_operands, columns, row, &dimensions)
}

fn finish(precision: Precision, columns: &Columns, row: usize, dimensions: &[&str]) -> ReadRow {
    let mut values: Vec<f64> = dimensions.iter().map(|name| columns.number(name, row)).collect();
    values.push(columns.number("latency", row) * 1e-3);
    match usable(&values) {
        true => Ok((precision, values)),
        false => Err("with values out of range".into()),
    }
}

/// Whether dimensions are at least 1, and the seconds after them positive.
fn usable(values: &[f64]) -> bool {
    let is_good = |(column, &value): (usize, &f64)| {
        value.is_finite() && if column + 1 < values.len() { value >= 1.0 } else { value > 0.0 }
    };
    values.iter().enumerate().all(is_good)
}

fn precision(name: &str) -> Option<Precision> {
    match name {
        "bfloat16" => Some(Precision::Bf16),
        "float16" | "half" => Some(Precision::Fp16),
        "fp8" => Some(Precision::Fp8),
        _ => None,
    }
}

fn transfer(name: &str) -> Option<TransferKind> {
    match name {
        "all_reduce" => Some(TransferKind::AllReduce),
        "all_gather" => Some(TransferKind::AllGather),
        "reduce_scatter" => Some(TransferKind::ReduceScatter),
        "alltoall" => Some(TransferKind::AllToAll),
        "broadcast" => Some(TransferKind::Broadcast),
        "sendrecv" => Some(TransferKind::Send),
        _ => None,
    }
}

/// Rows in the order of their dimensions, with the median of the seconds of equal dimensions.
fn medians(mut rows: Vec<Vec<f64>>) -> Vec<Vec<f64>> {
    rows.sort_by(|left, right| {
        let unequal = left.iter().zip(right).map(|(left, right)| left.total_cmp(right));
        unequal.fold(Ordering::Equal, Ordering::then)
    });
    let equal = |left: &Vec<f64>, right: &Vec<f64>| left[..left.len() - 1] == right[..right.len() - 1];
    rows.chunk_by(equal)
        .map(|same| {
            let mut row = same[same.len() / 2].clone();
            if same.len() % 2 == 0 {
                let last = row.len() - 1;
                row[last] = (row[last] + same[same.len() / 2 - 1][last]) / 2.0;
            }
            row
        })
        .collect()
}

/// The file of the newest version in a folder of versions, with the version.
fn newest(folder: &Path, file: &str) -> Option<(PathBuf, String)> {
    let versions = entries(folder).into_iter().filter(|version| folder.join(version).join(file).is_file());
    let version = versions.max_by(|left, right| compare_versions(left, right))?;
    Some((folder.join(&version).join(file), version))
}

/// Order of versions such as `1.3.0rc20`, `1.3.0` and `1.3.0.post2`: numbers by value, and a release after its
/// candidates.
fn compare_versions(left: &str, right: &str) -> Ordering {
    let (left, right) = (version_key(left), version_key(right));
    left.cmp(&right)
}

/// Numbers and words of a version; a word before the end of a version ranks below it, except `post`.
fn version_key(version: &str) -> Vec<(i8, u64)> {
    let mut key = Vec::new();
    let mut rest = version;
    while let Some(first) = rest.chars().next() {
        let is_same = |c: char| c.is_ascii_digit() == first.is_ascii_digit() && c.is_alphanumeric();
        let length = match first.is_alphanumeric() {
            true => rest.find(|c| !is_same(c)).unwrap_or(rest.len()),
            false => first.len_utf8(),
        };
        let (part, after) = rest.split_at(length);
        rest = after;
        match part {
            number if first.is_ascii_digit() => key.push((2, number.parse().unwrap_or(u64::MAX))),
            "post" => key.push((1, 0)),
            word if first.is_alphabetic() => key.push((-1, u64::from(word.bytes().next().unwrap_or(0)))),
            _ => (),
        }
    }
    key.push((0, 0));
    key
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_in_the_order_of_their_numbers() {
        let mut versions =
            ["1.3.0", "0.5.9", "1.3.0rc20", "0.5.10", "1.3.0rc5", "0.5.6.post2", "2.29.2", "2.27", "0.5.6"];
        versions.sort_by(|left, right| compare_versions(left, right));
        let sorted =
            ["0.5.6", "0.5.6.post2", "0.5.9", "0.5.10", "1.3.0rc5", "1.3.0rc20", "1.3.0", "2.27", "2.29.2"];
        assert_eq!(versions, sorted);
    }

    #[test]
    fn repeated_rows_become_their_median() {
        let rows = vec![
            vec![2.0, 5.0],
            vec![1.0, 3.0],
            vec![1.0, 1.0],
            vec![1.0, 7.0],
            vec![3.0, 1.0],
            vec![3.0, 2.0],
        ];
        assert_eq!(medians(rows), [vec![1.0, 3.0], vec![2.0, 5.0], vec![3.0, 1.5]]);
    }
}
