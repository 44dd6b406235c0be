//! Sizes of a system; `kind` says which sizes a system accepts.

use serde::{Deserialize, Serialize};

/// Sizes of a system's networks. Unlike the policy of [`network`](stagewright_policy::network), all four systems choose
/// among a fixed number of devices.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// Maximum number of devices of a problem.
    pub devices: usize,
    /// Width of embeddings. Absent for Placeto, whose width is that of its features.
    #[serde(default)]
    pub width: usize,
    /// Number of layers; for Placeto, rounds of message passing.
    #[serde(default)]
    pub layers: usize,
}
