//! Learned costs: training, and errors on measurements that the networks did not see.
//!
//! ```text
//! cargo run --release -p stagewright-train --features policy --example kernels -- train --out FILE --keep FOLDER SOURCES
//! cargo run --release -p stagewright-train --features policy --example kernels -- judge SOURCES
//! cargo run --release -p stagewright-train --features policy --example kernels -- exam --tables FOLDER --checkpoint FILE
//! ```
//!
//! SOURCES are `--tables FOLDER`, an installed `aiconfigurator-core`, and `--kernels FILE`, a CSV file in the columns of
//! NeuSight's measurements. `--without NAME,NAME` leaves devices out of training. `--part class`, `family`, `fifth`,
//! `kernels` or `convolutions` judges one of the tables. `--models FILE`, in the columns of NeuSight's whole models, is
//! judged beside `--kernels`. `exam` reads the tables of TensorRT-LLM, which nothing else reads. Set `RAYON_NUM_THREADS=1`: each network trains on one thread.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "an example prints its result")]

mod closed;
mod kernels;
mod models;
mod sources;
mod tables;

use std::error::Error;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use serde_json::json;
use stagewright_learned::{Ensemble, Estimator, Group, checkpoint};
use stagewright_train::kernels::examples::Examples;
use stagewright_train::kernels::samples::is_throttled;
use stagewright_train::kernels::{KernelSettings, Sample, train};
use stagewright_train::run::Folder;

use sources::Sources;

/// Result of a part of the program.
pub(crate) type Outcome<T> = Result<T, Box<dyn Error>>;

fn main() -> Outcome<()> {
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.is_empty() {
        return Err("give `train`, `judge` or `exam`".into());
    }
    let what = arguments.remove(0);
    let mut take = |name: &str| -> Option<String> {
        let index = arguments.iter().position(|argument| argument == name)?;
        arguments.remove(index);
        (index < arguments.len()).then(|| arguments.remove(index))
    };
    let (out, keep) = (take("--out"), take("--keep"));
    let (tables, kernels, given) = (take("--tables"), take("--kernels"), take("--checkpoint"));
    let (models, part) = (take("--models"), take("--part"));
    let without = take("--without").unwrap_or_default();
    let epochs = take("--epochs").map(|text| text.parse()).transpose()?;
    if let Some(unknown) = arguments.first() {
        return Err(format!("unknown argument {unknown}").into());
    }
    let settings = KernelSettings::default();
    let settings = KernelSettings { epochs: epochs.unwrap_or(settings.epochs), ..settings };
    let sources = Sources::read(tables.as_deref(), kernels.as_deref())?;
    match what.as_str() {
        "train" => {
            let out = out.ok_or("give --out FILE")?;
            let folder = keep.as_deref().map(|path| Folder::new(Path::new(path))).transpose()?;
            let is_out = |sample: &&Sample| without.split(',').any(|name| name == sample.device.name);
            let samples: Vec<&Sample> = sources.all().filter(|sample| !is_out(sample)).collect();
            let ensembles = fitted(&samples, &settings, folder.as_ref())?;
            let card = json!({ "settings": settings, "sources": sources.names });
            let bytes = checkpoint::write(&ensembles, card)?;
            std::fs::write(&out, &bytes)?;
            println!("{out}: {} bytes", bytes.len());
        }
        "exam" => {
            let (tables, file) =
                (tables.ok_or("give --tables FOLDER")?, given.ok_or("give --checkpoint FILE")?);
            let networks = Estimator::new(checkpoint::read(&std::fs::read(file)?)?.0);
            tables::exam(Path::new(&tables), &networks)?;
        }
        "judge" => {
            if !sources.tables.is_empty() {
                tables::judge(&sources, &settings, part.as_deref())?;
            }
            if !sources.kernels.is_empty() {
                kernels::judge(&sources, &settings, given.as_deref(), models.as_deref(), part.as_deref())?;
            }
        }
        other => return Err(format!("unknown command {other}").into()),
    }
    Ok(())
}

/// Ensembles of all groups that samples have, on two threads.
pub(crate) fn fitted(
    samples: &[&Sample],
    settings: &KernelSettings,
    folder: Option<&Folder>,
) -> Outcome<Vec<Ensemble>> {
    let groups: Vec<Examples> = Group::ALL
        .into_iter()
        .map(|group| Examples::new(group, samples.iter().copied().filter(|sample| !is_throttled(sample))))
        .filter(|examples| !examples.is_empty())
        .collect();
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let interrupt = AtomicBool::new(false);
    let progress = |done: usize, all: usize| eprintln!("network {done} of {all}");
    let ensembles = train(&groups, settings, folder, threads, &interrupt, &progress)?;
    ensembles.ok_or_else(|| "interrupted".into())
}
