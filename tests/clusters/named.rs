//! Every named cluster is sound, listed, described, and made of the devices.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use stagewright::clusters::{device, devices, find, named, names};
use stagewright::core::cluster::Cluster;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("data/clusters")
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

/// What a device says once, a cluster repeats: class, memory, and one of its links.
#[test]
fn figures_are_those_of_the_devices() {
    for name in names() {
        let document = named(name).expect("it is listed");
        for (class, figures) in &document.classes {
            let device = device(class).unwrap_or_else(|| panic!("{name}: {class} is no device"));
            assert_eq!(Some(figures), device.class(device.default_precision()).as_ref(), "{name}: {class}");
            assert!(document.kinds.iter().any(|kind| kind.class == *class), "{name}: {class} is not used");
        }
        for kind in document.kinds.iter().filter(|kind| !kind.host) {
            let device = device(&kind.class).unwrap_or_else(|| panic!("{name}: {} is no device", kind.class));
            assert_eq!(kind.memory_bytes, device.memory_bytes, "{name}: {}", kind.name);
            let link = kind.link.unwrap_or_else(|| panic!("{name}: {} has no link", kind.name));
            assert!(device.links.values().any(|known| known.document() == link), "{name}: {}", kind.name);
        }
    }
}

/// A group without a kind, or the only group, would be an uplink to nowhere.
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

#[test]
fn the_description_lists_every_cluster_and_device() {
    let readme = fs::read_to_string(folder().join("README.md")).expect("the folder has a description");
    let all = names().chain(devices().iter().map(|device| device.name.as_str()));
    let missing: Vec<&str> = all.filter(|name| !readme.contains(&format!("| `{name}` |"))).collect();
    assert_eq!(missing, Vec::<&str>::new());
}
