//! Shorthands: their meaning and their errors.

use stagewright::clusters::{NameError, devices, find, is_counted, shorthand};
use stagewright::core::cluster::Cluster;
use stagewright::core::document::{ClusterDocument, LinkDocument, Precision};

const MIB: f64 = 1048576.0;

/// Kinds as (name, class, count, host, memory, link).
type Kinds<'a> = &'a [(&'a str, &'a str, u32, bool, Option<f64>, Option<(f64, f64)>)];

/// Classes as (name, peak, memory bandwidth, launch overhead, efficiency).
type Classes<'a> = &'a [(&'a str, f64, f64, f64, f64)];

fn assert_document(text: &str, classes: Classes, kinds: Kinds) {
    let document = shorthand(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    let ClusterDocument { schema, name, groups, matrix, .. } = &document;
    assert_eq!((schema.as_str(), name.as_str()), ("stagewright.cluster/1", text));
    assert!(groups.is_empty() && matrix.is_none());
    let found: Vec<_> = document
        .classes
        .iter()
        .map(|(name, class)| {
            assert!(class.source.is_some(), "{name}");
            let efficiency = class.efficiency.expect("devices have one");
            let peak = class.peak_flops.expect("devices have one");
            let bandwidth = class.memory_bandwidth.expect("these have one");
            (name.as_str(), peak, bandwidth, class.launch_overhead_s, efficiency)
        })
        .collect();
    assert_eq!(found, classes, "{text}");
    let found: Vec<_> = document
        .kinds
        .iter()
        .map(|kind| {
            assert_eq!(kind.group, None);
            let link = kind.link.map(|LinkDocument { latency_s, bandwidth }| (latency_s, bandwidth));
            (kind.name.as_str(), kind.class.as_str(), kind.count, kind.host, kind.memory_bytes, link)
        })
        .collect();
    assert_eq!(found, kinds, "{text}");
}

#[test]
fn a_count_and_a_device() {
    assert_document(
        "8xa100",
        &[("a100-80gb", 312e12, 2039e9, 5e-6, 0.5)],
        &[("gpu", "a100-80gb", 8, false, Some(81920.0 * MIB), Some((5e-6, 300e9)))],
    );
}

#[test]
fn another_precision_and_a_link_by_name() {
    assert_document(
        "8xv100:fp32@nvlink",
        &[("v100-16gb-fp32", 15.7e12, 900e9, 5e-6, 0.5)],
        &[("gpu", "v100-16gb-fp32", 8, false, Some(16384.0 * MIB), Some((5e-6, 50e9)))],
    );
}

#[test]
fn several_terms_with_a_host() {
    assert_document(
        "4xt4+2xa100@pcie+1xepyc-7742",
        &[
            ("a100-80gb", 312e12, 2039e9, 5e-6, 0.5),
            ("epyc-7742", 4.608e12, 204.8e9, 1e-6, 0.5),
            ("t4", 65e12, 320e9, 5e-6, 0.4),
        ],
        &[
            ("gpu-a", "t4", 4, false, Some(15360.0 * MIB), Some((10e-6, 15.75e9))),
            ("gpu-b", "a100-80gb", 2, false, Some(81920.0 * MIB), Some((10e-6, 31.5e9))),
            ("cpu", "epyc-7742", 1, true, None, None),
        ],
    );
}

/// Cards that people put into one machine, and its processor.
#[test]
fn a_desktop_with_two_cards() {
    assert_document(
        "1xrtx-3090+1xrtx-3060+1xryzen-7950x",
        &[
            ("rtx-3060", 25.48e12, 360e9, 5e-6, 0.5),
            ("rtx-3090", 71e12, 936e9, 5e-6, 0.5),
            ("ryzen-7950x", 2.304e12, 83.2e9, 1e-6, 0.5),
        ],
        &[
            ("gpu-a", "rtx-3090", 1, false, Some(24576.0 * MIB), Some((10e-6, 31.5e9))),
            ("gpu-b", "rtx-3060", 1, false, Some(12288.0 * MIB), Some((10e-6, 31.5e9))),
            ("cpu", "ryzen-7950x", 1, true, None, None),
        ],
    );
}

/// The memory that an owner bought, and the slot that a card is in.
#[test]
fn memory_and_slots_are_stated() {
    assert_document(
        "1xrtx-3090+1xrtx-3060:12gib@pcie3x4+1xryzen-7950x:64gib",
        &[
            ("rtx-3060", 25.48e12, 360e9, 5e-6, 0.5),
            ("rtx-3090", 71e12, 936e9, 5e-6, 0.5),
            ("ryzen-7950x", 2.304e12, 83.2e9, 1e-6, 0.5),
        ],
        &[
            ("gpu-a", "rtx-3090", 1, false, Some(24576.0 * MIB), Some((10e-6, 31.5e9))),
            ("gpu-b", "rtx-3060", 1, false, Some(12288.0 * MIB), Some((10e-6, 15.75e9 / 4.0))),
            ("cpu", "ryzen-7950x", 1, true, Some(65536.0 * MIB), None),
        ],
    );
    let memory = |text: &str| find(text).expect(text).kinds[0].memory_bytes;
    assert_eq!(memory("t4:fp16:8GiB"), Some(8192.0 * MIB));
    assert_eq!(memory("t4:8GiB:fp16"), memory("t4:8192mib"));
    assert_eq!(memory("t4:1.5gb"), Some(1.5e9));
    let bandwidth = |text: &str| find(text).expect(text).kinds[0].link.map(|link| link.bandwidth);
    assert_eq!((bandwidth("t4@pcie3x16"), bandwidth("t4@pcie-4x1")), (Some(15.75e9), Some(31.5e9 / 16.0)));
    assert_eq!((bandwidth("t4@pcie1x1"), bandwidth("t4@pcie5x8")), (Some(0.25e9), Some(31.5e9)));
}

#[test]
fn what_may_be_left_out_may_be_written() {
    assert_eq!(
        find("a100"),
        find("1xa100").map(|cluster| ClusterDocument { name: "a100".into(), ..cluster })
    );
    let kinds = |text: &str| shorthand(text).map(|cluster| (cluster.classes, cluster.kinds));
    assert_eq!(kinds("8xA100"), kinds("8xa100"));
    assert_eq!(kinds("8XA100:BF16@NVLink"), kinds("8xa100:bf16"));
    assert_eq!(kinds("8xa100-80gb@nvlink"), kinds("8xa100"));
    assert_eq!(kinds("2x3090"), kinds("2xrtx-3090"));
    assert_eq!(kinds("0002xt4"), kinds("2xt4"));
    assert_eq!(kinds("3090").map(|(_, kinds)| kinds[0].count), Ok(1));
}

/// The default is a 16-bit precision if available, as in training, and otherwise any precision of the device.
#[test]
fn the_default_precision_is_what_training_uses() {
    let class = |text: &str| shorthand(text).expect(text).classes.into_iter().next().expect("one class").1;
    for (device, peak) in [
        ("v100", 125e12),
        ("h100", 989.4e12),
        ("tpu-v4", 275e12),
        ("k80", 4.37e12),
        ("epyc-7742", 4.608e12),
        ("edge-tpu", 4e12),
    ] {
        assert_eq!(class(device).peak_flops, Some(peak), "{device}");
    }
}

/// Every operator uses the peak of its own precision, unless the term names one precision for all.
#[test]
fn peaks_by_precision_are_left_out_where_one_is_named() {
    let class = |text: &str| shorthand(text).expect(text).classes.into_iter().next().expect("one class");
    let (name, all) = class("4xt4");
    let peaks: Vec<(Precision, f64)> = all.peaks.into_iter().collect();
    assert_eq!(name, "t4");
    assert_eq!(peaks, [(Precision::Fp32, 8.1e12), (Precision::Fp16, 65e12), (Precision::Int8, 130e12)]);
    let (name, found) = class("4xt4:fp32");
    assert_eq!((name.as_str(), found.peak_flops, found.peaks.len()), ("t4-fp32", Some(8.1e12), 0));
    let (name, default) = class("4xt4:fp16");
    assert_eq!((name.as_str(), default.peak_flops, default.peaks.len()), ("t4", Some(65e12), 0));
    let both = shorthand("1xt4+1xt4:fp16").expect("both are there");
    assert_eq!(both.classes.keys().map(String::as_str).collect::<Vec<_>>(), ["t4", "t4-fp16"]);
}

#[test]
fn one_device_at_two_precisions_is_two_classes() {
    let cluster = shorthand("1xt4+1xt4:int8").expect("both are there");
    let classes: Vec<&str> = cluster.classes.keys().map(String::as_str).collect();
    assert_eq!(classes, ["t4", "t4-int8"]);
    assert_eq!(cluster.kinds.iter().map(|kind| kind.class.as_str()).collect::<Vec<_>>(), classes);
}

#[test]
fn every_error_has_its_code() {
    let cases = [
        ("", "N002"),
        ("8x", "N002"),
        ("4xt4+", "N002"),
        ("+4xt4", "N002"),
        ("4xt4:", "N002"),
        ("4xt4@", "N002"),
        ("4x:fp16", "N002"),
        ("2xdgx-a100", "N002"),
        ("dgx-a100+1xepyc-7742", "N002"),
        ("8xb100", "N001"),
        ("nonsense", "N001"),
        ("8 x a100", "N001"),
        ("-1xa100", "N001"),
        ("8xa100ü", "N001"),
        ("x", "N001"),
        ("0xt4", "N003"),
        ("00xt4", "N003"),
        ("1000001xt4", "N004"),
        ("4294967296xt4", "N004"),
        ("99999999999999999999999xt4", "N004"),
        ("600000xt4+600000xt4", "N004"),
        ("4xt4:bf16", "N005"),
        ("4xt4:fp64", "N005"),
        ("4xt4@nvlink", "N006"),
        ("4xt4@pcie3x3", "N006"),
        ("4xt4@pcie7x4", "N006"),
        ("t4:12", "N005"),
        ("t4:-1gib", "N005"),
        ("t4:0gib", "N005"),
        ("t4:infgib", "N005"),
        ("t4:1e400gib", "N005"),
        ("t4:0.1mib@pcie---3x4", "N006"),
        ("t4:0.0000001kib", "N005"),
        ("t4:8gib:8gib", "N002"),
        ("t4:fp16:fp16", "N002"),
        ("t4:8gib:", "N002"),
        ("4xt4:fp16@", "N002"),
        ("4xt4@pcie:fp16", "N006"),
        ("1xepyc-7742@pcie", "N006"),
        ("4xrtx-3090@nvlink", "N006"),
        ("2xrtx-3090@nvlink+2xrtx-3090@nvlink", "N006"),
        ("2xrtx-3090@nvlink+1xt4", "N006"),
    ];
    for (text, code) in cases {
        let error = find(text).expect_err(text);
        assert_eq!(error.code(), code, "{text}: {error}");
        assert!(!error.help().is_empty() && !error.to_string().is_empty(), "{text}");
    }
    let terms = vec!["t4"; 27].join("+");
    assert_eq!(find(&terms), Err(NameError::TooManyTerms { most: 26 }));
    assert_eq!(find(&terms[3..]).map(|cluster| cluster.kinds.len()), Ok(26));
    assert_eq!(find("1000000xt4").map(|cluster| cluster.kinds[0].count), Ok(1_000_000));
}

/// All texts of up to four parts of shorthands: each gives a valid cluster or an error.
#[test]
fn no_text_is_too_odd() {
    let parts = ["2x", "0x", "t4", "a100", "epyc-7742", ":fp16", ":", "@nvlink", "@", "+", "ü"];
    let mut texts = vec![String::new()];
    let mut sound = 0;
    for _ in 0..4 {
        texts = texts.iter().flat_map(|text| parts.iter().map(move |part| format!("{text}{part}"))).collect();
        for text in &texts {
            match find(text) {
                Ok(document) => {
                    Cluster::from_document(document).unwrap_or_else(|error| panic!("{text}: {error}"));
                    sound += 1;
                }
                Err(error) => assert!(error.code().name.starts_with('N'), "{text}"),
            }
        }
    }
    assert!(sound > 30, "{sound}");
}

#[test]
fn a_bridge_joins_two() {
    for text in ["2xrtx-3090@nvlink", "1xrtx-3090@nvlink+1xrtx-3090@nvlink", "2xrtx-3090@nvlink+1xepyc-7742"]
    {
        let cluster = shorthand(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(cluster.kinds[0].link.map(|link| link.bandwidth), Some(56.25e9), "{text}");
    }
}

#[test]
fn the_nearest_name_is_suggested() {
    for (text, nearest) in [
        ("8xb100", "`b200`"),
        ("8xa1000", "`a100`"),
        ("dgx-a10", "`dgx-a100`"),
        ("4xrtx-4095", "`rtx-4090`"),
        ("4xmi300", "`mi300x`"),
        ("4xt4:fp6", "`fp16`"),
        ("4xv100@nvlnk", "`nvlink`"),
    ] {
        let error = find(text).expect_err(text).to_string();
        assert!(error.ends_with(&format!("; did you mean {nearest}?")), "{text}: {error}");
    }
    for text in ["nonsense", &"a100".repeat(1000)] {
        let error = find(text).expect_err("there is no such thing").to_string();
        assert!(!error.contains("did you mean"), "{error}");
    }
}

/// The help for an unknown name lists only the nearest names.
#[test]
fn the_help_has_the_nearest_names() {
    let help = find("8xa101").expect_err("there is none").help();
    assert!(help.contains("a100"), "{help}");
    let is_word =
        |word: &&str| devices().iter().any(|device| device.name == word.trim_matches([',', ';', '.', '`']));
    assert!(help.split_whitespace().filter(is_word).count() <= 4, "{help}");
}

#[test]
fn a_count_tells_a_shorthand_from_a_file() {
    for (text, counted) in
        [("8xa100", true), ("8Xnothing", true), ("8x", true), ("x8", false), ("a100", false), ("3090", false)]
    {
        assert_eq!(is_counted(text), counted, "{text}");
    }
}
