//! Published runs as a planner would know them.

use std::path::Path;

use serde::de::DeserializeOwned;
use stagewright_core::document::Schedule;

use super::models::{Drawn, Model};
use super::runs;

/// Kernel of attention.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kernel {
    /// Scores are in memory, and their scaling, mask and softmax are operators of their own.
    Plain,
    /// Scores are in memory.
    Unfused,
    /// FlashAttention 1, also in Triton.
    Flash1,
    /// FlashAttention 2.
    Flash2,
    /// FlashAttention 3 or cuDNN.
    Flash3,
}

/// Layers that are recomputed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Recompute {
    None,
    Selective,
    /// Every second layer in full.
    Half,
    Full,
}

/// Result of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Status {
    Ran,
    OutOfMemory,
    /// The cause is not published.
    Failed,
}

/// A published run: what was run, how, and what was measured.
#[derive(Debug, Clone)]
pub(crate) struct Run {
    pub(crate) id: String,
    /// Name of the file.
    pub(crate) file: &'static str,
    /// The people and the cluster that it was measured by and on.
    pub(crate) source: String,
    /// Model and set of runs, for groups.
    pub(crate) name: String,
    /// Name of the runtime's profile; `None` if the runtime of the source is not known.
    pub(crate) runtime: Option<&'static str>,
    pub(crate) model: Model,
    pub(crate) sequence: u64,
    /// Samples of a batch.
    pub(crate) batch: u64,
    pub(crate) microbatch: u32,
    /// Kinds of GPUs, as in `12xv100+4xt4`.
    pub(crate) gpu: String,
    pub(crate) gpus: u32,
    /// GPUs of a server.
    pub(crate) per_server: u32,
    /// Published bytes per second of a GPU to other servers.
    pub(crate) port: Option<f64>,
    pub(crate) tensor: u32,
    /// Devices of a pipeline.
    pub(crate) pipeline: u32,
    pub(crate) data: u32,
    pub(crate) context: u32,
    pub(crate) expert: u32,
    pub(crate) zero: u32,
    pub(crate) schedule: Result<Schedule, String>,
    pub(crate) chunks: u32,
    pub(crate) recompute: Recompute,
    pub(crate) kernel: Kernel,
    pub(crate) sequence_parallel: bool,
    /// Whether norms run in one kernel.
    pub(crate) fused_norms: bool,
    pub(crate) is_fp8: bool,
    /// Whether gradients are reduced in 16 bits.
    pub(crate) is_pure: bool,
    /// Whether parameters are sharded in a server and copied over servers.
    pub(crate) is_hybrid: bool,
    /// Whether a column that matters is a guess.
    pub(crate) is_guess: bool,
    pub(crate) status: Status,
    /// Measured seconds of an iteration.
    pub(crate) seconds: Option<f64>,
    /// Measured peak memory in bytes.
    pub(crate) memory: Option<f64>,
}

impl Run {
    /// The graph that the run needs.
    pub(crate) fn drawn(&self) -> Drawn {
        let Run { model, sequence, is_fp8, .. } = self;
        Drawn { model: model.clone(), sequence: *sequence, is_fp8: *is_fp8 }
    }

    /// Measured seconds of a run that was timed.
    pub(crate) fn timed(&self) -> Option<f64> {
        self.seconds.filter(|&seconds| self.status == Status::Ran && seconds > 0.0 && seconds.is_finite())
    }
}

/// Runs of the files of a folder.
///
/// # Errors
/// The file and the line of a missing column or of a value that cannot be read; a folder without any of the files.
pub(crate) fn read(folder: &Path) -> Result<Vec<Run>, String> {
    let files = [
        read_file(folder, "runs.csv", runs::published),
        read_file(folder, "hagemann.csv", runs::hagemann),
        read_file(folder, "ultrascale.csv", runs::ultrascale),
        read_file(folder, "foundry.csv", runs::foundry),
    ];
    let runs: Vec<Run> = files.into_iter().collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect();
    if runs.is_empty() {
        return Err(format!(
            "{}: no runs in runs.csv, hagemann.csv, ultrascale.csv or foundry.csv",
            folder.display()
        ));
    }
    Ok(runs)
}

/// Runs of a file, from a function of a row and its index; no runs without the file.
fn read_file<Row: DeserializeOwned>(
    folder: &Path,
    name: &str,
    run: impl Fn(Row, usize) -> Result<Run, String>,
) -> Result<Vec<Run>, String> {
    let path = folder.join(name);
    if !path.exists() {
        return Ok(Vec::new());
    }
    let of_file = |error: csv::Error| format!("{}: {error}", path.display());
    let mut reader = csv::Reader::from_path(&path).map_err(of_file)?;
    let columns = reader.headers().map_err(of_file)?.clone();
    let row = |(index, record): (usize, Result<csv::StringRecord, csv::Error>)| {
        let record = record.map_err(of_file)?;
        // The first line has the names of the columns, and no cell has a line break.
        let line = index + 2;
        let read = record.deserialize(Some(&columns)).map_err(|error| cause(&error, &columns));
        read.and_then(|row| run(row, index)).map_err(|cause| format!("{}:{line}: {cause}", path.display()))
    };
    reader.records().enumerate().map(row).collect()
}

/// The cause of an error, with the name of the column.
fn cause(error: &csv::Error, columns: &csv::StringRecord) -> String {
    let csv::ErrorKind::Deserialize { err, .. } = error.kind() else { return error.to_string() };
    match err.field().and_then(|field| columns.get(field as usize)) {
        Some(column) => format!("{column}: {}", err.kind()),
        None => err.kind().to_string(),
    }
}
