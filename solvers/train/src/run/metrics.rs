//! Measurements of a run, as CSV, as JSON lines, and as events that TensorBoard shows.

use std::path::Path;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::events::{Events, Scalars};
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
    /// Mean training loss since the last measurement.
    pub loss: f64,
    /// Loss on the held-out set.
    pub held_out: f64,
    /// Cross entropy of devices, a term of the loss on the held-out set.
    pub affinity: f64,
    /// Cross entropy of edges, a term of the loss on the held-out set.
    pub together: f64,
    /// Logistic loss of pairs, a term of the loss on the held-out set.
    pub priority: f64,
    /// Squared error of the value, a term of the loss on the held-out set.
    pub value: f64,
    /// Weighted share of the held-out units whose most likely device is correct.
    pub hits: f64,
}

/// A measurement with its position in the run.
pub(in super::super) trait At {
    /// The column of the position.
    const COLUMN: &'static str;

    /// Steps or episodes of the run so far.
    fn at(&self) -> u64;
}

impl At for Measured {
    const COLUMN: &'static str = "step";

    fn at(&self) -> u64 {
        self.step
    }
}

/// All measurements so far, in memory and in the folder.
#[derive(Debug)]
pub(in super::super) struct Metrics<M> {
    all: Vec<M>,
    events: Events,
}

impl<M: At + Serialize + DeserializeOwned> Metrics<M> {
    /// Reads the measurements up to a step: later ones are left over from a run killed before it saved its state.
    pub(in super::super) fn read(folder: &Folder, step: u64) -> Result<Metrics<M>> {
        let bytes = Folder::read(&folder.json_lines())?.unwrap_or_default();
        let lines = bytes.split(|&byte| byte == b'\n');
        let mut all: Vec<M> = lines.filter_map(|line| serde_json::from_slice(line).ok()).collect();
        all.retain(|measured| measured.at() <= step);
        let scalars = all.iter().map(|measured| scalars(folder, measured)).collect::<Result<Vec<_>>>()?;
        Ok(Metrics { all, events: Events::open(folder, &scalars)? })
    }

    /// Adds a measurement, writes the tables anew, and appends an event.
    pub(in super::super) fn add(&mut self, measured: M, folder: &Folder) -> Result<()> {
        let scalars = scalars(folder, &measured)?;
        self.all.push(measured);
        self.write(folder)?;
        self.events.append(&scalars)
    }

    /// Writes the tables.
    fn write(&self, folder: &Folder) -> Result<()> {
        let mut lines = String::new();
        let mut table = csv::Writer::from_writer(Vec::new());
        for measured in &self.all {
            let line = serde_json::to_string(measured);
            lines += &line.map_err(|error| unwritten(&folder.json_lines(), error.to_string()))?;
            lines.push('\n');
            table.serialize(measured).map_err(|error| unwritten(&folder.csv(), error.to_string()))?;
        }
        let table = table.into_inner().map_err(|error| unwritten(&folder.csv(), error.to_string()))?;
        Folder::write(&folder.json_lines(), lines.as_bytes())?;
        Folder::write(&folder.csv(), &table)
    }
}

/// The numbers of a measurement, by column.
fn scalars<M: At + Serialize>(folder: &Folder, measured: &M) -> Result<Scalars> {
    let row =
        serde_json::to_value(measured).map_err(|error| unwritten(&folder.json_lines(), error.to_string()))?;
    let columns = row.as_object().into_iter().flatten().filter(|(column, _)| *column != M::COLUMN);
    let values = columns.filter_map(|(column, number)| Some((column.clone(), number.as_f64()?))).collect();
    Ok(Scalars { step: measured.at(), values })
}

fn unwritten(path: &Path, cause: String) -> RunError {
    RunError::File { doing: "write", file: path.display().to_string(), cause }
}
