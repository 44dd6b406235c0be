//! Every named cluster is valid, listed and described, and consists of built-in devices.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use stagewright::clusters::{Device, device, devices, find, named, names};
use stagewright::core::cluster::Cluster;

fn folder() -> PathBuf {
    Path::new(crate::ROOT).join("data/clusters")
}

#[test]
fn the_list_is_the_folder() {
    let files: BTreeSet<String> = fs::read_dir(folder())
        .expect("the folder is there")
        .map(|entry| entry.expect("it can be listed").file_name().to_string_lossy().into_owned())
        .filter_map(|file| file.strip_suffix(".toml").map(str::to_owned))
        .filter(|name| name != "devices")
        .collect();
    assert_eq!(files, names().map(str::to_owned).collect());
    assert!(names().is_sorted());
}

#[test]
fn every_cluster_builds_under_its_own_name() {
    for name in names() {
        let document = named(name).expect("it is listed");
        assert_eq!(document.name, name);
        assert_eq!(Some(&document), named(&name.to_uppercase()).as_ref());
        assert_eq!(Ok(&document), find(name).as_ref());
        Cluster::from_document(document).unwrap_or_else(|error| panic!("{name}: {error}"));
    }
}

/// The class, the memory and the link of a kind repeat those of its device.
#[test]
fn figures_are_those_of_the_devices() {
    for name in names() {
        let document = named(name).expect("it is listed");
        for (class, figures) in &document.classes {
            let device = device(class).unwrap_or_else(|| panic!("{name}: {class} is no device"));
            assert_eq!(Some(figures), device.all_peaks().as_ref(), "{name}: {class}");
            assert!(document.kinds.iter().any(|kind| kind.class == *class), "{name}: {class} is not used");
        }
        for kind in document.kinds.iter().filter(|kind| !kind.host) {
            let device = device(&kind.class).unwrap_or_else(|| panic!("{name}: {} is no device", kind.class));
            assert_eq!(kind.memory_bytes, device.memory_bytes, "{name}: {}", kind.name);
            let link = kind.link.unwrap_or_else(|| panic!("{name}: {} has no link", kind.name));
            let known = device.links.values().find(|known| known.document() == link);
            let known = known.unwrap_or_else(|| panic!("{name}: {} has another link", kind.name));
            assert!(comments(name).contains(&known.source), "{name}: {} tells another source", kind.name);
        }
    }
}

/// The comments of a cluster's file, joined into one line.
fn comments(name: &str) -> String {
    let text = fs::read_to_string(folder().join(format!("{name}.toml"))).expect("it is listed");
    text.lines().filter_map(|line| line.strip_prefix("# ")).collect::<Vec<_>>().join(" ")
}

/// A group without kinds, or a single group, would have an uplink to nowhere.
#[test]
fn groups_come_in_company() {
    for name in names() {
        let document = named(name).expect("it is listed");
        assert_ne!(document.groups.len(), 1, "{name}");
        for group in &document.groups {
            let inside = document.kinds.iter().any(|kind| kind.group.as_ref() == Some(&group.name));
            assert!(inside, "{name}: {}", group.name);
        }
    }
}

const MIB: f64 = 1048576.0;

/// The row of a device in the README, with defaults in bold.
fn row(device: &Device) -> String {
    let mark = |text: String, default: bool| if default { format!("**{text}**") } else { text };
    let aliases: Vec<String> = device.aliases.iter().map(|alias| format!("`{alias}`")).collect();
    let peaks: Vec<String> = device
        .peak_flops
        .iter()
        .map(|(&precision, peak)| {
            mark(format!("{precision} {}", peak / 1e12), precision == device.default_precision())
        })
        .collect();
    // Rounds to two decimals, as the README does.
    let scaled = |bytes: f64, unit: f64| (bytes / unit * 100.0).round() / 100.0;
    let memory = device.memory_bytes.map_or_else(String::new, |bytes| match bytes % MIB {
        0.0 => format!("{} MiB", bytes / MIB),
        _ => format!("{} MB", bytes / 1e6),
    });
    let bandwidth =
        device.memory_bandwidth.map_or_else(String::new, |bytes| format!("{} GB/s", scaled(bytes, 1e9)));
    let is_default = |name: &String| device.default_link.as_ref() == Some(name);
    let (first, others): (Vec<_>, Vec<_>) = device.links.iter().partition(|(name, _)| is_default(name));
    let links: Vec<String> = first
        .into_iter()
        .chain(others)
        .map(|(name, link)| {
            let text = mark(format!("{name} {}", scaled(link.bandwidth, 1e9)), is_default(name));
            if link.pair { format!("{text} (two)") } else { text }
        })
        .collect();
    let links = if links.is_empty() { "host".into() } else { links.join(", ") };
    let (aliases, peaks) = (aliases.join(", "), peaks.join(", "));
    format!("| `{}` | {aliases} | {peaks} | {memory} | {bandwidth} | {links} |", device.name)
}

#[test]
fn the_description_lists_every_cluster_and_device() {
    let readme = fs::read_to_string(folder().join("README.md")).expect("the folder has a description");
    let missing: Vec<&str> = names().filter(|name| !readme.contains(&format!("| `{name}` |"))).collect();
    assert_eq!(missing, Vec::<&str>::new());
    for device in devices() {
        let row = row(device);
        assert!(readme.lines().any(|line| line == row), "no line says {row}");
    }
}
