//! Files of Piper (Tarnawski, Narayanan and Phanishayee, "Piper: Multidimensional Planner for DNN Parallelization",
//! NeurIPS 2021): layers with configurations by degree of tensor parallelism.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// A profiled model, with the devices it was profiled for. Unknown fields are ignored, as in Piper's package.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PiperDocument {
    /// Number of devices.
    pub max_devices: u32,
    /// Bytes of memory of a device.
    pub max_memory_per_device: f64,
    /// Bytes per second from a device.
    pub bandwidth: f64,
    /// Number of microbatches of a batch; Piper calls a microbatch a sample.
    #[serde(default, rename = "mbsInBatch")]
    pub microbatches: Option<u32>,
    /// The layers.
    pub nodes: Vec<PiperNodeDocument>,
    /// The tensors between the layers.
    pub edges: Vec<PiperEdgeDocument>,
}

/// A layer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PiperNodeDocument {
    /// Unique number.
    pub id: i64,
    /// Name, for display.
    #[serde(default)]
    pub name: String,
    /// Configurations by degree of tensor parallelism: time, memory, parallelism, communication (TMPC).
    #[serde(rename = "TMPCs")]
    pub configurations: BTreeMap<String, Vec<PiperConfigurationDocument>>,
}

/// A way to run a layer on the number of devices that it is listed under.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PiperConfigurationDocument {
    /// Name: `vanilla`, or `activation recomp`.
    #[serde(default)]
    pub id: String,
    /// Time of the forward and backward pass of a microbatch.
    pub time_per_sample: f64,
    /// Bytes of parameters on a device, which its replicas synchronise.
    pub parameter_size: f64,
    /// Bytes on a device per microbatch in flight.
    pub memory_usage_a: f64,
    /// Bytes on a device that do not depend on the microbatches in flight.
    pub memory_usage_b: f64,
    /// Bytes that the devices of the layer exchange in the forward pass, by predecessor in another stage.
    #[serde(default)]
    pub sync_time_fw: BTreeMap<i64, f64>,
    /// Bytes that the devices of the layer exchange in the backward pass, by successor in another stage.
    #[serde(default)]
    pub sync_time_bw: BTreeMap<i64, f64>,
}

/// A tensor from one layer to another.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PiperEdgeDocument {
    /// The layer that produces the tensor.
    pub source_id: i64,
    /// The layer that reads the tensor.
    pub dest_id: i64,
    /// Bytes of the tensor; its gradient has as many.
    pub communication_cost: f64,
}
