//! `stagewright.cluster/1`, as TOML (written by hand) or JSON (written by programs).
//!
//! ```toml
//! schema = "stagewright.cluster/1"
//!
//! [classes.gpu]
//! peak_flops = 312e12
//! memory_bandwidth = 2.0e12
//!
//! [[kinds]]
//! name = "gpu"
//! class = "gpu"
//! count = 8
//! memory_bytes = "80GiB"
//! link = { latency_s = 2e-6, bandwidth = 300e9 }
//! ```

use stagewright_core::cluster::Cluster;
use stagewright_core::document::{CLUSTER_SCHEMA, ClusterDocument};

use super::error::{At, InputError, Result};
use super::notation::Notation;
use super::pretty_json;
use super::text::text;

/// Reads a cluster, in either notation.
pub fn import_cluster(label: &str, bytes: &[u8]) -> Result<ClusterDocument> {
    let text = text(label, bytes)?;
    Notation::of(text).read_as(label, text, &[CLUSTER_SCHEMA])
}

/// Checks the cluster that a plan document keeps, in O(devices + entries of matrices).
///
/// # Errors
/// The first defect of the cluster, with the code that it has in a cluster of its own file.
pub(super) fn check_kept(label: &str, cluster: Option<&ClusterDocument>) -> Result<()> {
    let Some(cluster) = cluster else { return Ok(()) };
    let checked = Cluster::from_document(cluster.clone());
    checked.map(|_| ()).map_err(|error| {
        let place = At::Path(format!("cluster.{}", error.place()));
        InputError::new(error.code(), label, place, error.to_string(), error.help())
    })
}

/// Writes a cluster in a notation.
pub fn write_cluster(cluster: &ClusterDocument, notation: Notation) -> String {
    match notation {
        Notation::Json => pretty_json(cluster),
        Notation::Toml => {
            toml::to_string_pretty(cluster).expect("clusters have nothing that TOML cannot hold")
        }
    }
}
