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

use stagewright_core::document::{CLUSTER_SCHEMA, ClusterDocument};

use super::error::Result;
use super::notation::Notation;
use super::pretty_json;
use super::text::text;

/// Reads a cluster, in either notation.
pub fn import_cluster(label: &str, bytes: &[u8]) -> Result<ClusterDocument> {
    let text = text(label, bytes)?;
    Notation::of(text).read_as(label, text, &[CLUSTER_SCHEMA])
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
