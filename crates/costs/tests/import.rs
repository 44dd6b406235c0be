//! Import of an installation of `aiconfigurator-core` that the test writes.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use parquet::basic::{Compression, ZstdLevel};
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use stagewright_core::document::{KernelKind, Precision, TransferKind};
use stagewright_costs::import::aiconfigurator::{Imported, Options, class_of, import};

/// Values of a column.
enum Values<'a> {
    Text(&'a [&'a str]),
    Whole(&'a [i64]),
    Number(&'a [f64]),
}

/// Writes a table of required columns.
fn write(path: &Path, columns: &[(&str, Values<'_>)]) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let fields: String = columns
        .iter()
        .map(|(name, values)| match values {
            Values::Text(_) => format!("required binary {name} (UTF8); "),
            Values::Whole(_) => format!("required int64 {name}; "),
            Values::Number(_) => format!("required double {name}; "),
        })
        .collect();
    let schema = Arc::new(parse_message_type(&format!("message table {{ {fields} }}")).unwrap());
    let properties =
        WriterProperties::builder().set_compression(Compression::ZSTD(ZstdLevel::default())).build();
    let file = fs::File::create(path).unwrap();
    let mut writer = SerializedFileWriter::new(file, schema, Arc::new(properties)).unwrap();
    let mut group = writer.next_row_group().unwrap();
    for (_, values) in columns {
        let mut column = group.next_column().unwrap().unwrap();
        match values {
            Values::Text(values) => {
                let values: Vec<ByteArray> = values.iter().map(|value| ByteArray::from(*value)).collect();
                column.typed::<ByteArrayType>().write_batch(&values, None, None).unwrap();
            }
            Values::Whole(values) => {
                column.typed::<Int64Type>().write_batch(values, None, None).unwrap();
            }
            Values::Number(values) => {
                column.typed::<DoubleType>().write_batch(values, None, None).unwrap();
            }
        }
        column.close().unwrap();
    }
    group.close().unwrap();
    writer.close().unwrap();
}

fn write_products(folder: &Path, framework: &str, version: &str, latency: f64) {
    write(
        &folder.join(format!("systems/data/h100_sxm/gemm/{framework}/{version}/gemm_perf.parquet")),
        &[
            ("kernel_source", Values::Text(&["a"; 6])),
            (
                "gemm_dtype",
                Values::Text(&["bfloat16", "bfloat16", "bfloat16", "fp8", "fp8_block", "bfloat16"]),
            ),
            ("m", Values::Whole(&[1, 1, 2, 1, 1, 1])),
            ("n", Values::Whole(&[64, 64, 64, 64, 64, 0])),
            ("k", Values::Whole(&[32, 32, 32, 32, 32, 32])),
            ("latency", Values::Number(&[latency, 3.0 * latency, 5.0, 7.0, 9.0, 1.0])),
        ],
    );
}

fn read(folder: &Path) -> Imported {
    import(folder, &Options::default()).unwrap()
}

fn refused(folder: &Path, options: &Options, code: &str) {
    let error = import(folder, options).unwrap_err();
    assert_eq!(error.code, code, "{error}");
}

#[test]
fn products_are_read_in_seconds_by_precision_and_the_newest_version_counts() {
    let folder = tempfile::tempdir().unwrap();
    write_products(folder.path(), "vllm", "0.9.0", 50.0);
    write_products(folder.path(), "vllm", "0.10.0", 2.0);
    write_products(folder.path(), "sglang", "0.11.0", 70.0);
    fs::create_dir(folder.path().join("aiconfigurator_core-0.12.0.dist-info")).unwrap();
    let imported = read(folder.path());
    let tables = &imported.document.kernels;
    assert_eq!(tables.len(), 2);
    assert_eq!(tables[0].class, "h100");
    assert_eq!((tables[0].kernel, tables[0].precision), (KernelKind::Product, Precision::Bf16));
    assert_eq!(tables[0].rows, [[1.0, 64.0, 32.0, 4e-3], [2.0, 64.0, 32.0, 5e-3]]);
    assert_eq!(tables[0].source, "aiconfigurator-core 0.12.0, h100_sxm vllm 0.10.0");
    assert_eq!((tables[1].precision, tables[1].rows.len()), (Precision::Fp8, 1));
    let note = &imported.notes[0];
    assert!(note.contains("4 products of vllm 0.10.0"), "{note}");
    assert!(note.contains("1 of fp8_block") && note.contains("1 with values out of range"), "{note}");
    let below = import(&folder.path().join("systems"), &Options::default()).unwrap();
    assert_eq!(below.document.kernels[0].rows, tables[0].rows);
}

#[test]
fn system_framework_and_class_can_be_chosen() {
    let folder = tempfile::tempdir().unwrap();
    write_products(folder.path(), "vllm", "1.0", 2.0);
    write_products(folder.path(), "sglang", "1.0", 4.0);
    let mut options =
        Options { systems: vec!["h100_sxm".into()], framework: Some("sglang".into()), ..Options::default() };
    options.classes.insert("h100_sxm".into(), "mine".into());
    let tables = import(folder.path(), &options).unwrap().document.kernels;
    assert_eq!((tables[0].class.as_str(), tables[0].rows[0][3]), ("mine", 8e-3));
    refused(folder.path(), &Options { systems: vec!["a100".into()], ..Options::default() }, "Q002");
    refused(folder.path(), &Options { framework: Some("mlx".into()), ..Options::default() }, "Q003");
}

#[test]
fn attention_without_windows_and_with_one_precision_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("systems/data/b300_sxm");
    let columns = |dtypes: &'static [&'static str]| {
        [
            ("attn_dtype", Values::Text(dtypes)),
            ("kv_cache_dtype", Values::Text(&["bfloat16", "fp8", "bfloat16"])),
            ("batch_size", Values::Whole(&[2, 2, 2])),
            ("isl", Values::Whole(&[1, 1, 1])),
            ("step", Values::Whole(&[127, 127, 127])),
            ("num_heads", Values::Whole(&[8, 8, 8])),
            ("num_key_value_heads", Values::Whole(&[4, 4, 4])),
            ("head_dim", Values::Whole(&[64, 64, 64])),
            ("window_size", Values::Whole(&[0, 0, 128])),
            ("latency", Values::Number(&[1.0, 2.0, 3.0])),
        ]
    };
    let path = data.join("attention/vllm/1.0/generation_attention_perf.parquet");
    write(&path, &columns(&["bfloat16", "bfloat16", "bfloat16"]));
    write(
        &data.join("encoder_attention/vllm/1.0/encoder_attention_perf.parquet"),
        &[
            ("attn_dtype", Values::Text(&["bfloat16"])),
            ("batch_size", Values::Whole(&[1])),
            ("isl", Values::Whole(&[1500])),
            ("num_heads", Values::Whole(&[8])),
            ("head_dim", Values::Whole(&[80])),
            ("latency", Values::Number(&[4.0])),
        ],
    );
    let imported = read(folder.path());
    let tables = &imported.document.kernels;
    assert_eq!(tables[0].class, "b300");
    assert_eq!(tables[0].kernel, KernelKind::DecodeAttention);
    assert_eq!(tables[0].rows, [[2.0, 128.0, 8.0, 4.0, 64.0, 1e-3]], "128 tokens with the new one");
    assert_eq!(tables[1].kernel, KernelKind::Attention);
    assert_eq!(tables[1].rows, [[1.0, 1500.0, 8.0, 8.0, 80.0, 4e-3]]);
    assert!(
        imported.notes.iter().any(|note| note.contains("1 with a sliding window")),
        "{:?}",
        imported.notes
    );
}

#[test]
fn sizes_of_collectives_are_elements() {
    let folder = tempfile::tempdir().unwrap();
    write(
        &folder.path().join("systems/data/l40s/comm/nccl/2.29.2/nccl_perf.parquet"),
        &[
            ("op_name", Values::Text(&["all_reduce", "all_reduce", "alltoall", "unknown"])),
            ("nccl_dtype", Values::Text(&["half", "int8", "half", "half"])),
            ("num_gpus", Values::Whole(&[2, 2, 8, 2])),
            ("message_size", Values::Whole(&[512, 512, 512, 512])),
            ("latency", Values::Number(&[1.0, 2.0, 3.0, 4.0])),
        ],
    );
    let links = read(folder.path()).document.links;
    assert_eq!(links.len(), 2);
    assert_eq!((links[0].transfer, links[0].devices), (TransferKind::AllReduce, 2));
    assert_eq!(links[0].rows, [[512.0, 2e-3], [1024.0, 1e-3]]);
    assert_eq!((links[1].transfer, links[1].devices), (TransferKind::AllToAll, 8));
}

#[test]
fn a_folder_without_tables_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    refused(folder.path(), &Options::default(), "Q001");
    refused(&folder.path().join("missing"), &Options::default(), "Q001");
}

#[test]
fn pointers_and_damaged_files_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    write_products(folder.path(), "vllm", "1.0", 2.0);
    let path = folder.path().join("systems/data/h100_sxm/gemm/vllm/1.0/gemm_perf.parquet");
    let whole = fs::read(&path).unwrap();
    fs::write(&path, "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n").unwrap();
    refused(folder.path(), &Options::default(), "Q004");
    for length in (0..whole.len()).step_by(7) {
        fs::write(&path, &whole[..length]).unwrap();
        refused(folder.path(), &Options::default(), "Q005");
    }
    for offset in 0..whole.len() {
        let mut flipped = whole.clone();
        flipped[offset] ^= 0xff;
        fs::write(&path, &flipped).unwrap();
        // A flipped byte may be in a value or a name: then the table is read, or has other columns.
        if let Err(error) = import(folder.path(), &Options::default()) {
            assert!(["Q005", "Q006", "Q007"].contains(&error.code.name), "{offset}: {error}");
        }
    }
}

#[test]
fn a_table_without_a_column_and_tables_without_measurements_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("systems/data/h100_sxm/gemm/vllm/1.0/gemm_perf.parquet");
    write(&path, &[("gemm_dtype", Values::Text(&["bfloat16"])), ("m", Values::Whole(&[1]))]);
    refused(folder.path(), &Options::default(), "Q006");
    write(
        &path,
        &[
            ("gemm_dtype", Values::Text(&["nvfp4"])),
            ("m", Values::Whole(&[1])),
            ("n", Values::Whole(&[1])),
            ("k", Values::Whole(&[1])),
            ("latency", Values::Number(&[1.0])),
        ],
    );
    refused(folder.path(), &Options::default(), "Q007");
}

#[test]
fn systems_have_the_class_of_their_built_in_device() {
    let known = ["a100_sxm", "a100_pcie", "h100_sxm", "h100_pcie", "h200_sxm", "b200_sxm", "l40s", "l4"];
    for system in known {
        let class = class_of(system);
        let device = stagewright_formats::clusters::device(&class).unwrap_or_else(|| panic!("{class}"));
        assert_eq!(device.class_name(Precision::Bf16), class);
    }
    assert_eq!(class_of("rtx_pro_6000_server"), "rtx-pro-6000-server");
}
