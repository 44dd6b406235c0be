//! Every device is complete: figures, sources, names.

use std::collections::BTreeSet;

use stagewright::clusters::{Precision, Role, device, devices, named, shorthand};
use stagewright::core::cluster::Cluster;

fn positive(value: f64) -> bool {
    value.is_finite() && value > 0.0
}

#[test]
fn the_devices_that_people_ask_for_are_there() {
    let wanted = [
        "p100",
        "v100",
        "v100-16gb",
        "v100-32gb",
        "t4",
        "a10",
        "a100",
        "a100-40gb",
        "a100-80gb",
        "l4",
        "l40s",
        "h100",
        "h100-pcie",
        "h200",
        "b200",
        "rtx-2080-ti",
        "rtx-3060",
        "rtx-3080",
        "rtx-3090",
        "rtx-4070-super",
        "rtx-4090",
        "rtx-5090",
        "rtx-a6000",
        "rtx-6000-ada",
        "rtx-pro-6000",
        "mi50-32gb",
        "mi250x",
        "mi300x",
        "mi355x",
        "rx-7900-xtx",
        "arc-b580",
        "gaudi-3",
        "apple-m2-max",
        "m4-max",
        "gh200",
        "gb200",
        "gb300",
        "b300",
        "tpu-v3",
        "tpu-v4",
        "tpu-v5e",
        "tpu-v5p",
        "epyc-7742",
        "epyc-9654",
        "ryzen-7950x",
        "core-i9-14900k",
        "xeon-8480",
        "jetson-agx-orin",
        "edge-tpu",
    ];
    let missing: Vec<_> = wanted.into_iter().filter(|name| device(name).is_none()).collect();
    assert_eq!(missing, Vec::<&str>::new());
    assert_eq!(device("a100").map(|device| device.name.as_str()), Some("a100-80gb"));
}

#[test]
fn every_figure_is_positive_and_has_a_source() {
    for device in devices() {
        let name = &device.name;
        assert!(!device.peak_flops.is_empty(), "{name}");
        assert!(device.peak_flops.values().copied().all(positive), "{name}");
        assert!(device.memory_bytes.is_none_or(positive), "{name}");
        assert!(device.memory_bandwidth.is_none_or(positive), "{name}");
        assert!(device.estimates.launch_overhead_s.is_finite() && device.estimates.launch_overhead_s >= 0.0);
        assert!(device.estimates.efficiency > 0.0 && device.estimates.efficiency <= 1.0, "{name}");
        for text in [&device.title, &device.source, &device.estimates.basis] {
            assert!(text.len() > 5 && !text.ends_with('.'), "{name}: {text:?}");
        }
        for (called, link) in &device.links {
            assert!(positive(link.bandwidth) && positive(link.latency_s), "{name}@{called}");
            assert!(link.source.len() > 10 && link.basis.len() > 10, "{name}@{called}");
        }
    }
}

/// The 24 GB of a datasheet are 24 GiB, minus memory for firmware and error correction: no device has exactly the
/// decimal figure, and none has more than the binary one.
#[test]
fn memory_is_binary_and_says_where_it_was_seen() {
    let datasheets = [
        ("k80", 12.0),
        ("p100", 16.0),
        ("p100-pcie", 16.0),
        ("v100-16gb", 16.0),
        ("v100-32gb", 32.0),
        ("v100-pcie-16gb", 16.0),
        ("v100-pcie-32gb", 32.0),
        ("a100-pcie-40gb", 40.0),
        ("p4", 8.0),
        ("rtx-pro-6000-server", 96.0),
        ("mi250-die", 64.0),
        ("arc-pro-b60", 24.0),
        ("t4", 16.0),
        ("a10", 24.0),
        ("a100-40gb", 40.0),
        ("a100-80gb", 80.0),
        ("a100-pcie-80gb", 80.0),
        ("l4", 24.0),
        ("l40s", 48.0),
        ("h100", 80.0),
        ("h100-pcie", 80.0),
        ("h200", 141.0),
        ("b200", 180.0),
        ("rtx-3090", 24.0),
        ("rtx-4090", 24.0),
        ("jetson-agx-orin", 64.0),
        ("mi250x", 128.0),
        ("mi250x-die", 64.0),
        ("mi300x", 192.0),
        ("tpu-v3", 32.0),
        ("tpu-v4", 32.0),
        ("tpu-v5e", 16.0),
        ("tpu-v5p", 95.0),
        ("a40", 48.0),
        ("gb10", 128.0),
        ("gtx-1080-ti", 11.0),
        ("radeon-ai-pro-r9700", 32.0),
        ("ryzen-ai-max-395", 128.0),
        ("rtx-2060-12gb", 12.0),
        ("rtx-2070", 8.0),
        ("rtx-2080", 8.0),
        ("rtx-2080-ti", 11.0),
        ("rtx-3060", 12.0),
        ("rtx-3060-ti", 8.0),
        ("rtx-3070", 8.0),
        ("rtx-3070-ti", 8.0),
        ("rtx-3080-10gb", 10.0),
        ("rtx-3080-12gb", 12.0),
        ("rtx-3080-ti", 12.0),
        ("rtx-3090-ti", 24.0),
        ("rtx-4060", 8.0),
        ("rtx-4060-ti-8gb", 8.0),
        ("rtx-4060-ti-16gb", 16.0),
        ("rtx-4070", 12.0),
        ("rtx-4070-super", 12.0),
        ("rtx-4070-ti", 12.0),
        ("rtx-4070-ti-super", 16.0),
        ("rtx-4080", 16.0),
        ("rtx-4080-super", 16.0),
        ("rtx-5060-ti-16gb", 16.0),
        ("rtx-5070", 12.0),
        ("rtx-5070-ti", 16.0),
        ("rtx-5080", 16.0),
        ("rtx-5090", 32.0),
        ("rtx-a4000", 16.0),
        ("rtx-a4500", 20.0),
        ("rtx-a5000", 24.0),
        ("rtx-a5500", 24.0),
        ("rtx-a6000", 48.0),
        ("rtx-2000-ada", 16.0),
        ("rtx-4000-ada", 20.0),
        ("rtx-4500-ada", 24.0),
        ("rtx-5000-ada", 32.0),
        ("rtx-6000-ada", 48.0),
        ("rtx-pro-6000", 96.0),
        ("p40", 24.0),
        ("l20", 48.0),
        ("h20", 96.0),
        ("gh200-96gb", 96.0),
        ("gh200-144gb", 144.0),
        ("gb200", 186.0),
        ("gb300", 279.0),
        ("b300", 270.0),
        ("mi50-16gb", 16.0),
        ("mi50-32gb", 32.0),
        ("mi100", 32.0),
        ("mi210", 64.0),
        ("mi325x", 256.0),
        ("mi350x", 288.0),
        ("mi355x", 288.0),
        ("rx-6800-xt", 16.0),
        ("rx-7900-xt", 20.0),
        ("rx-7900-xtx", 24.0),
        ("rx-9070-xt", 16.0),
        ("arc-a770-16gb", 16.0),
        ("arc-b580", 12.0),
        ("gaudi-2", 96.0),
        ("gaudi-3", 128.0),
        ("apple-m1", 8.0),
        ("apple-m1-pro", 16.0),
        ("apple-m1-max", 32.0),
        ("apple-m1-ultra", 64.0),
        ("apple-m2", 8.0),
        ("apple-m2-pro", 16.0),
        ("apple-m2-max", 32.0),
        ("apple-m2-ultra", 64.0),
        ("apple-m3", 8.0),
        ("apple-m3-pro", 18.0),
        ("apple-m3-max", 48.0),
        ("apple-m3-ultra", 96.0),
        ("apple-m4", 16.0),
        ("apple-m4-pro", 24.0),
        ("apple-m4-max", 48.0),
    ];
    for device in devices() {
        let Some(bytes) = device.memory_bytes else { continue };
        let name = &device.name;
        assert!(device.memory_source.as_ref().is_some_and(|source| source.len() > 5), "{name}");
        let datasheet = datasheets.iter().find(|(listed, _)| listed == name);
        // Where the processor shares the memory, a quarter or a third of it is left to it.
        let is_shared = name.starts_with("apple-") || name.starts_with("ryzen-ai-");
        let known = if is_shared { 0.66..=0.75 } else { 0.93..=1.0 };
        match datasheet {
            Some((_, gib)) => {
                assert!(bytes % 1048576.0 == 0.0, "{name}");
                assert!(known.contains(&(bytes / (gib * 1073741824.0))), "{name}: {bytes}");
            }
            None => assert_eq!(name, "edge-tpu"),
        }
    }
    let mib = |name: &str| device(name).and_then(|device| device.memory_bytes).map(|bytes| bytes / 1048576.0);
    assert_eq!((mib("3090"), mib("h100"), mib("t4")), (Some(24576.0), Some(81559.0), Some(15360.0)));
}

/// Peaks do not fall as the width shrinks, and both 16-bit formats have the same peak on a tensor unit, except on the
/// first one of AMD.
#[test]
fn peaks_are_in_the_order_of_their_widths() {
    for device in devices() {
        let peak = |precision| device.peak_flops.get(&precision).copied();
        let order = [Precision::Fp32, Precision::Tf32, Precision::Bf16, Precision::Fp8, Precision::Fp4];
        let present: Vec<f64> = order.into_iter().filter_map(peak).collect();
        assert!(present.is_sorted(), "{}: {present:?}", device.name);
        if let (Some(half), Some(brain)) = (peak(Precision::Fp16), peak(Precision::Bf16)) {
            let halves = if device.name == "mi100" { 2.0 } else { 1.0 };
            assert_eq!(half, halves * brain, "{}", device.name);
        }
    }
}

#[test]
fn hosts_have_no_links_and_all_others_have_a_default_that_joins_any_number() {
    for device in devices() {
        let default = device.default_link.as_ref();
        if device.role == Role::Cpu {
            assert!(default.is_none() && device.links.is_empty(), "{}", device.name);
        } else {
            let link = default.and_then(|name| device.links.get(name));
            assert!(link.is_some_and(|link| !link.pair), "{}", device.name);
            assert!(device.memory_bytes.is_some(), "{}", device.name);
        }
    }
}

/// Names of devices and clusters are unique, and every one can be typed in a shorthand.
#[test]
fn names_are_unique_and_plain() {
    let mut seen = BTreeSet::new();
    for device in devices() {
        for name in std::iter::once(&device.name).chain(&device.aliases) {
            assert!(seen.insert(name.as_str()), "{name} appears twice");
            assert!(named(name).is_none(), "{name} is a cluster as well");
            let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
            assert!(name.chars().all(plain), "{name}");
            let digits = name.trim_start_matches(|c: char| c.is_ascii_digit());
            assert!(!digits.starts_with('x') || digits.len() == name.len(), "{name} reads as a count");
        }
    }
}

/// Every device builds a cluster at every precision and over every link, with a class that states its source.
#[test]
fn every_combination_builds() {
    for device in devices() {
        let links = device.links.keys().map(|link| format!("@{link}")).chain([String::new()]);
        for (link, precision) in
            links.flat_map(|link| device.peak_flops.keys().map(move |p| (link.clone(), p)))
        {
            let text = format!("2x{}:{precision}{link}", device.name);
            let document = shorthand(&text).unwrap_or_else(|error| panic!("{text}: {error}"));
            let class = &document.classes[&device.class_name(*precision)];
            assert_eq!(class.peak_flops, device.peak_flops.get(precision).copied(), "{text}");
            assert!(class.source.as_ref().is_some_and(|source| source.contains(&device.source)), "{text}");
            assert!(class.source.as_ref().is_some_and(|source| source.contains("are estimates: ")), "{text}");
            let cluster = Cluster::from_document(document).unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(cluster.device_count(), 2, "{text}");
        }
    }
}

/// The shipped demo defines its own T4 and EPYC, with the same figures as the built-in devices.
#[test]
fn the_demo_agrees_with_the_devices() {
    let text = include_str!("../../data/demo/cluster.toml");
    let demo =
        stagewright::formats::import_cluster("cluster.toml", text.as_bytes()).expect("it is a cluster");
    let built = shorthand("4xt4+1xepyc-7742").expect("both are there");
    for name in ["t4", "epyc-7742"] {
        let figures = |cluster: &stagewright::core::document::ClusterDocument| {
            let class = &cluster.classes[name];
            (class.peak_flops, class.memory_bandwidth, class.launch_overhead_s, class.efficiency)
        };
        assert_eq!(figures(&demo), figures(&built), "{name}");
    }
    assert_eq!(demo.kinds[0].link, built.kinds[0].link);
}
