//! What a run measures, as CSV and as lines of JSON, which TensorBoard's importers and pandas read.

use std::path::Path;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::{Folder, RunError};

/// What was measured after a step.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// Steps made.
    pub step: u64,
    /// Seconds of the steps so far, those before a kill included.
    pub seconds: f64,
    /// Graphs learned from per second since the last measurement.
    pub graphs_per_second: f64,
    /// The learning rate.
    pub rate: f64,
    /// Mean norm of the gradients since the last measurement.
    pub gradient_norm: f64,
    /// Mean loss of what was learned since the last measurement; of reinforcement the mean of −log(reference / value).
    pub loss: f64,
    /// What is lost on what is held out.
    pub held_out: f64,
    /// Its parts: cross entropy of devices and of edges, loss of pairs, squared error of the value.
    pub affinity: f64,
    /// See `affinity`.
    pub together: f64,
    /// See `affinity`.
    pub priority: f64,
    /// See `affinity`.
    pub value: f64,
    /// The share of the held-out units, weighted, whose likeliest device is the right one.
    pub hits: f64,
}

/// What is measured now and then.
pub(in super::super) trait At {
    /// How far the run was.
    fn at(&self) -> u64;
}

impl At for Measured {
    fn at(&self) -> u64 {
        self.step
    }
}

/// All that was measured so far, in memory and in the folder.
#[derive(Debug, Clone, Default)]
pub(in super::super) struct Metrics<M>(pub(in super::super) Vec<M>);

impl<M: At + Serialize + DeserializeOwned> Metrics<M> {
    /// What was measured up to a step: a kill may have come after a measurement and before the state.
    pub(in super::super) fn read(folder: &Folder, step: u64) -> Result<Metrics<M>, RunError> {
        let bytes = Folder::read(&folder.json_lines())?.unwrap_or_default();
        let lines = bytes.split(|&byte| byte == b'\n');
        let mut all: Vec<M> = lines.filter_map(|line| serde_json::from_slice(line).ok()).collect();
        all.retain(|measured| measured.at() <= step);
        Ok(Metrics(all))
    }

    /// Writes all of them.
    pub(in super::super) fn write(&self, folder: &Folder) -> Result<(), RunError> {
        let mut lines = String::new();
        let mut table = csv::Writer::from_writer(Vec::new());
        let failed = |path: &Path, cause: String| RunError::File {
            doing: "write",
            file: path.display().to_string(),
            cause,
        };
        for measured in &self.0 {
            let line = serde_json::to_string(measured);
            lines += &line.map_err(|error| failed(&folder.json_lines(), error.to_string()))?;
            lines.push('\n');
            table.serialize(measured).map_err(|error| failed(&folder.csv(), error.to_string()))?;
        }
        let table = table.into_inner().map_err(|error| failed(&folder.csv(), error.to_string()))?;
        Folder::write(&folder.json_lines(), lines.as_bytes())?;
        Folder::write(&folder.csv(), &table)
    }
}
