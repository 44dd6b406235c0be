//! Named clusters, each a document in `data/clusters`.

use stagewright_core::document::ClusterDocument;

use super::devices::{Device, device};
use crate::import_cluster;

/// Name and text of every cluster, sorted by name. A test compares the list with the folder.
macro_rules! clusters {
    ($($name:literal),* $(,)?) => {
        &[$(($name, include_str!(concat!("../../../../data/clusters/", $name, ".toml")))),*]
    };
}

static CLUSTERS: &[(&str, &str)] = clusters![
    "a100-and-v100",
    "coral-chain",
    "dgx-1-p100",
    "dgx-1-v100",
    "dgx-2",
    "dgx-a100",
    "dgx-b200",
    "dgx-h100",
    "eight-l40s",
    "four-k80",
    "four-p100",
    "jetson-pair",
    "mi300x-platform",
    "tpu-v4-cube",
    "tpu-v5e-host",
    "two-a10-servers-100gbe",
    "two-dgx-a100-hdr",
    "two-dgx-h100-ndr",
    "two-rtx-3090",
    "two-v100-servers-10gbe",
    "two-v100-servers-25gbe",
    "v100-and-p100",
    "workstation-rtx-4090",
];

/// Names of all clusters, sorted.
pub fn names() -> impl ExactSizeIterator<Item = &'static str> {
    CLUSTERS.iter().map(|&(name, _)| name)
}

/// Name and text of the file of a cluster; case is ignored.
pub(super) fn file(name: &str) -> Option<(&'static str, &'static str)> {
    CLUSTERS.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).copied()
}

/// Finds a cluster by name; case is ignored. Its classes have the fits of the devices that they are named after.
pub fn named(name: &str) -> Option<ClusterDocument> {
    let (name, text) = file(name)?;
    let mut cluster = import_cluster(name, text.as_bytes()).unwrap_or_else(|error| panic!("{error}"));
    for (name, class) in &mut cluster.classes {
        if let Some(fitted) = device(name).and_then(Device::all_peaks) {
            class.fits = fitted.fits;
        }
    }
    Some(cluster)
}
