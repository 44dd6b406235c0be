//! Measurements of a run, as CSV and as JSON lines, which TensorBoard's importers and pandas read.

use std::path::Path;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::{Folder, Result, RunError};

/// Measurement after a step.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// Optimiser steps taken.
    pub step: u64,
    /// Total seconds of the steps so far, including those before an interruption.
    pub seconds: f64,
    /// Graphs learned from per second since the last measurement.
    pub graphs_per_second: f64,
    /// The learning rate.
    pub rate: f64,
    /// Mean norm of the gradients since the last measurement.
    pub gradient_norm: f64,
    /// Mean training loss since the last measurement; for reinforcement the mean of −log(reference / value).
    pub loss: f64,
    /// Loss on the held-out set.
    pub held_out: f64,
    /// Its terms: cross entropy of devices and of edges, logistic loss of pairs, squared error of the value.
    pub affinity: f64,
    /// See `affinity`.
    pub together: f64,
    /// See `affinity`.
    pub priority: f64,
    /// See `affinity`.
    pub value: f64,
    /// Weighted share of the held-out units whose most likely device is correct.
    pub hits: f64,
}

/// A measurement with its position in the run.
pub(in super::super) trait At {
    /// Steps or episodes of the run so far.
    fn at(&self) -> u64;
}

impl At for Measured {
    fn at(&self) -> u64 {
        self.step
    }
}

/// All measurements so far, in memory and in the folder.
#[derive(Debug, Clone, Default)]
pub(in super::super) struct Metrics<M>(pub(in super::super) Vec<M>);

impl<M: At + Serialize + DeserializeOwned> Metrics<M> {
    /// Reads the measurements up to a step: later ones are left over from a run killed before it saved its state.
    pub(in super::super) fn read(folder: &Folder, step: u64) -> Result<Metrics<M>> {
        let bytes = Folder::read(&folder.json_lines())?.unwrap_or_default();
        let lines = bytes.split(|&byte| byte == b'\n');
        let mut all: Vec<M> = lines.filter_map(|line| serde_json::from_slice(line).ok()).collect();
        all.retain(|measured| measured.at() <= step);
        Ok(Metrics(all))
    }

    /// Writes all measurements.
    pub(in super::super) fn write(&self, folder: &Folder) -> Result<()> {
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
