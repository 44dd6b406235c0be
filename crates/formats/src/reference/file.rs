//! The JSON of the reference package, field by field.

use std::fmt;

use serde::de::{Deserializer, Error, Unexpected, Visitor};
use serde::{Deserialize, Serialize, Serializer};

/// A model with the cluster it was profiled for. Unknown fields are ignored: the package itself does so, and
/// other tools add their own.
#[derive(Debug, Deserialize, Serialize)]
pub(super) struct ModelFile {
    /// Memory of an accelerator in bytes.
    #[serde(rename = "maxSizePerFPGA")]
    pub(super) max_size_per_fpga: f64,
    /// Number of accelerators: a whole number, but some programs write `6.0` and others `1e12`, so it is checked later.
    #[serde(rename = "maxFPGAs", serialize_with = "whole")]
    pub(super) max_fpgas: f64,
    #[serde(rename = "maxCPUs", serialize_with = "whole")]
    pub(super) max_cpus: f64,
    pub(super) nodes: Vec<Node>,
    pub(super) edges: Vec<Edge>,
}

/// A node. Times are in ms.
#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Node {
    pub(super) id: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) name: Option<String>,
    #[serde(deserialize_with = "flag")]
    pub(super) supported_on_fpga: bool,
    pub(super) cpu_latency: f64,
    pub(super) fpga_latency: f64,
    #[serde(deserialize_with = "flag")]
    pub(super) is_backward_node: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) color_class: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) layer_id: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) size: Option<f64>,
}

/// An edge. Its cost is the time in ms to send the tensor once, over the link of an accelerator.
#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Edge {
    pub(super) source_id: i64,
    pub(super) dest_id: i64,
    pub(super) cost: f64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) size: Option<f64>,
}

fn whole<S: Serializer>(count: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(*count as u64)
}

/// `true`, `false`, 1 or 0: the files of the package use both, sometimes in one file.
fn flag<'de, D: Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
    struct Flag;

    impl Visitor<'_> for Flag {
        type Value = bool;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("true, false, 1 or 0")
        }

        fn visit_bool<E: Error>(self, value: bool) -> Result<bool, E> {
            Ok(value)
        }

        fn visit_u64<E: Error>(self, value: u64) -> Result<bool, E> {
            match value {
                0 => Ok(false),
                1 => Ok(true),
                other => Err(E::invalid_value(Unexpected::Unsigned(other), &self)),
            }
        }

        fn visit_i64<E: Error>(self, value: i64) -> Result<bool, E> {
            Err(E::invalid_value(Unexpected::Signed(value), &self))
        }
    }

    deserializer.deserialize_any(Flag)
}
