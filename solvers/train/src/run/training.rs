//! A training run: labels, steps and measurements, stored so that an interrupted run can be resumed.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use candle_core::{DType, Device};
use rand::RngExt;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use stagewright_core::seed;
use stagewright_core::solver::thread_pool;
use stagewright_policy::checkpoint::Card;
use stagewright_policy::learn::{Example, Losses, TrainError, Trainer};
use stagewright_policy::network::Network;
use stagewright_policy::solver::device;

use super::super::recipe::Recipe;
use super::super::store::{Filling, Labeller, Labels, Local, Progress, StoredLabel, fill};
use super::config::{Data, RunDocument};
use super::examples::example_of;
use super::metrics::{Measured, Metrics};
use super::{Folder, Result, RunError, digest_of};

/// Random streams: for the problems of a step, the examples of a step, and the held-out set.
const BATCHES: u64 = 1;
const EXAMPLES: u64 = 2;
const HELD_OUT: u64 = 3;
/// Held-out graphs measured per batch.
const AT_ONCE: usize = 16;

/// Observer of a run, and its threads.
pub struct Watch<'a> {
    /// Worker threads.
    pub threads: usize,
    /// Makes the labels; `None` means the threads of this process.
    pub labeller: Option<&'a dyn Labeller>,
    /// Stops the run; the parameters learned so far are kept.
    pub interrupt: Arc<AtomicBool>,
    /// Called after every label, with the number of labels, the total, and the kind of set.
    pub labelled: &'a (dyn Fn(u64, u64, &'static str) + Sync),
    /// Called after every step, with the number of steps taken and the total.
    pub stepped: &'a dyn Fn(u64, u64),
    /// Called after every measurement.
    pub measured: &'a dyn Fn(&Measured),
}

/// Result of a run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Outcome {
    /// Optimiser steps taken.
    pub steps: u64,
    /// The smallest held-out loss, if there was a measurement.
    pub best: Option<f64>,
    /// Whether the run was interrupted.
    pub is_interrupted: bool,
    /// Whether the run stopped early for lack of improvement.
    pub is_early: bool,
}

/// Progress saved in a state besides parameters and moments.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Kept {
    document: RunDocument,
    /// Digest of the initial checkpoint.
    from: Option<String>,
    /// Running sums since the last measurement.
    since: Since,
    best: Option<f64>,
    idle: u64,
    seconds: f64,
}

/// Labels, learns and measures until all steps are taken, the held-out loss stops improving, or the run is interrupted.
/// Resumes from the state that an earlier run left in the folder.
///
/// # Errors
/// If the configuration, the folder or a checkpoint is unusable, or gradients are not finite.
pub fn run(document: &RunDocument, beside: &Path, folder: &Folder, watch: &Watch<'_>) -> Result<Outcome> {
    let [recipe, held_out] = document.recipes()?;
    let device = device().map_err(RunError::Device)?;
    let origin = Beginning::from_document(document, beside, folder, &device)?;
    let (trainer, card, kept) = begin(document, origin, folder, &device)?;
    let stopped = Outcome { steps: trainer.step(), best: kept.best, is_interrupted: true, is_early: false };
    let (kind, path) = (("data", "to learn from"), folder.labels());
    let Some(learned) = Set::labelled(kind, &document.data, recipe, &path, watch)? else {
        return Ok(stopped);
    };
    let (kind, path) = (("held_out", "held out"), folder.held_out());
    let Some(held_out) = Set::labelled(kind, &document.held_out, held_out, &path, watch)? else {
        return Ok(stopped);
    };
    let pool = thread_pool(watch.threads)?;
    let tests = pool.install(|| held_out.examples(document.seed ^ (HELD_OUT << 32)))?;
    let metrics = Metrics::read(folder, trainer.step())?;
    let mut training = Training { document, folder, pool, learned, tests, trainer, card, kept, metrics };
    let mut is_kept = true;
    let is_interrupted = || watch.interrupt.load(Ordering::Relaxed);
    while !training.is_done() && training.kept.idle < document.patience && !is_interrupted() {
        let rate = training.advance()?;
        is_kept = false;
        (watch.stepped)(training.trainer.step(), document.steps);
        if training.is_due() {
            let measured = training.measure(rate)?;
            is_kept = true;
            (watch.measured)(&measured);
        }
    }
    if !is_kept {
        training.keep()?;
    }
    let is_interrupted = is_interrupted() && !training.is_done();
    let is_early = !is_interrupted && !training.is_done();
    Ok(Outcome { steps: training.trainer.step(), best: training.kept.best, is_interrupted, is_early })
}

/// Problems of a recipe with their labels.
struct Set {
    recipe: Recipe,
    labels: Vec<StoredLabel>,
}

impl Set {
    /// The set of a recipe, after making the labels that are missing; `None` if interrupted.
    fn labelled(
        (field, kind): (&'static str, &'static str),
        data: &Data,
        recipe: Recipe,
        path: &Path,
        watch: &Watch<'_>,
    ) -> Result<Option<Set>> {
        let effort = data.effort(field)?;
        let local = Local { threads: watch.threads };
        let filling = Filling {
            labeller: watch.labeller.unwrap_or(&local),
            interrupt: watch.interrupt.clone(),
            progress: &|Progress { done, total, .. }| (watch.labelled)(done, total, kind),
        };
        if !fill(&recipe, &effort, data.count, path, &filling)? {
            return Ok(None);
        }
        let labels: BTreeMap<u64, StoredLabel> = Labels::read(path)?.labels;
        let labels = labels.into_values().take_while(|label| label.index < data.count).collect();
        Ok(Some(Set { recipe, labels }))
    }

    /// One example per label.
    fn examples(&self, seed: u64) -> Result<Vec<Example>> {
        let example = |(number, label): (usize, &StoredLabel)| {
            example_of(&self.recipe, label, &mut seed::stream(seed, number as u64))
        };
        self.labels.par_iter().enumerate().map(example).collect()
    }
}

/// State of a run.
struct Training<'r> {
    document: &'r RunDocument,
    folder: &'r Folder,
    pool: rayon::ThreadPool,
    learned: Set,
    /// Examples of the held-out set.
    tests: Vec<Example>,
    trainer: Trainer,
    card: Card,
    kept: Kept,
    metrics: Metrics<Measured>,
}

impl Training<'_> {
    /// Whether all steps have been taken.
    fn is_done(&self) -> bool {
        self.trainer.step() >= self.document.steps
    }

    /// Takes a step on a batch. Returns the learning rate.
    fn advance(&mut self) -> Result<f64> {
        let began = Instant::now();
        let Training { document, pool, learned, trainer, kept, .. } = self;
        let step = trainer.step();
        let rate = document.adam.rate_at(step, document.steps);
        pool.install(|| {
            let batch = batch(document, learned, step)?;
            let (losses, norm) = trainer.imitate(&batch.iter().collect::<Vec<_>>(), rate)?;
            kept.since.add(number(&losses)?, norm, batch.len());
            Ok::<(), RunError>(())
        })?;
        kept.seconds += began.elapsed().as_secs_f64();
        kept.since.seconds += began.elapsed().as_secs_f64();
        Ok(rate)
    }

    /// Whether to measure after this step.
    fn is_due(&self) -> bool {
        self.trainer.step().is_multiple_of(self.document.measure_every) || self.is_done()
    }

    /// Measures on the held-out set. Writes the measurement, the checkpoint if it is the best, and the state.
    fn measure(&mut self, rate: f64) -> Result<Measured> {
        let Training { document, folder, pool, tests, trainer, card, kept, metrics, .. } = self;
        let measured = pool.install(|| measure(trainer, tests, kept, rate))?;
        kept.since = Since::default();
        kept.idle += 1;
        if kept.best.is_none_or(|best| measured.held_out < best) {
            (kept.best, kept.idle) = (Some(measured.held_out), 0);
            let card = with_stage(card, document, trainer.step(), measured.held_out);
            let bytes = trainer.network.to_bytes(&card).map_err(TrainError::from)?;
            Folder::write(&folder.best(), &bytes)?;
        }
        metrics.add(measured, folder)?;
        // Written last, so that the state is never ahead of the other files.
        self.keep()?;
        Ok(measured)
    }

    /// Saves the state to resume from.
    fn keep(&self) -> Result<()> {
        let progress = self.folder.progress(&self.kept)?;
        Folder::write(&self.folder.state(), &self.trainer.to_bytes(&self.card, progress)?)
    }
}

/// The card with one more stage in its history.
fn with_stage(card: &Card, document: &RunDocument, step: u64, held_out: f64) -> Card {
    let stage = serde_json::json!({ "configuration": document, "step": step, "held_out_loss": held_out });
    let mut stages = card.training.as_array().cloned().unwrap_or_default();
    stages.push(stage);
    Card { training: stages.into(), ..card.clone() }
}

/// The initial network of a run.
struct Beginning {
    network: Network,
    card: Card,
    /// SHA-256 of the network's file in hexadecimal.
    digest: String,
}

impl Beginning {
    /// The checkpoint named by the configuration, if any.
    fn from_document(
        document: &RunDocument,
        beside: &Path,
        folder: &Folder,
        device: &Device,
    ) -> Result<Option<Beginning>> {
        let Some(from) = &document.from else { return Ok(None) };
        let path = beside.join(from);
        let bytes = folder.origin(&path)?;
        let found = Network::from_bytes(&bytes, device);
        let checkpoint = |error| RunError::Checkpoint { file: path.display().to_string(), error };
        let (network, card) = found.map_err(checkpoint)?;
        let digest = digest_of(&bytes);
        Ok(Some(Beginning { network, card, digest }))
    }
}

/// Resumes training from its state, or starts it.
fn begin(
    document: &RunDocument,
    origin: Option<Beginning>,
    folder: &Folder,
    device: &Device,
) -> Result<(Trainer, Card, Kept)> {
    let from = origin.as_ref().map(|origin| origin.digest.clone());
    if let Some(bytes) = Folder::read(&folder.state())? {
        let file = folder.state().display().to_string();
        let (trainer, state) =
            Trainer::from_bytes(&bytes, document.adam, device).map_err(|error| match error {
                TrainError::State(error) => RunError::Checkpoint { file, error },
                other => RunError::Train(other),
            })?;
        // A state that does not parse is of another version and counts as another run.
        let kept: Kept = serde_json::from_value(state.progress).map_err(|_| RunError::OtherRun)?;
        return match kept.document == *document && kept.from == from {
            true => Ok((trainer, state.card, kept)),
            false => Err(RunError::OtherRun),
        };
    }
    let (network, card) = match origin {
        Some(origin) => (origin.network, origin.card),
        None => {
            let network = Network::new(document.network.clone(), document.seed, DType::F32, device);
            let network = network.map_err(|error| RunError::Checkpoint {
                file: "a new network".into(),
                error: error.into(),
            })?;
            (network, Card::new(document.network.clone(), document.seed))
        }
    };
    let since = Since::default();
    let kept = Kept { document: document.clone(), from, since, best: None, idle: 0, seconds: 0.0 };
    Ok((Trainer::new(network, document.adam)?, card, kept))
}

/// The examples of a step.
fn batch(document: &RunDocument, Set { recipe, labels }: &Set, step: u64) -> Result<Vec<Example>> {
    let mut rng = seed::stream(document.seed ^ (BATCHES << 32), step);
    let chosen: Vec<usize> = (0..document.batch).map(|_| rng.random_range(0..labels.len())).collect();
    let first = step * document.batch as u64;
    let example = |(index, &number): (usize, &usize)| {
        let mut rng = seed::stream(document.seed ^ (EXAMPLES << 32), first + index as u64);
        example_of(recipe, &labels[number], &mut rng)
    };
    chosen.par_iter().enumerate().map(example).collect()
}

/// Running sums since the last measurement.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
struct Since {
    loss: f64,
    norm: f64,
    steps: f64,
    graphs: usize,
    seconds: f64,
}

impl Since {
    fn add(&mut self, loss: f64, norm: f64, graphs: usize) {
        self.loss += loss;
        self.norm += norm;
        self.steps += 1.0;
        self.graphs += graphs;
    }
}

fn number(losses: &Losses) -> Result<f64> {
    let total = losses.total.to_dtype(DType::F64).and_then(|total| total.to_scalar::<f64>());
    Ok(total.map_err(TrainError::from)?)
}

/// Measures the losses on the held-out set.
fn measure(trainer: &Trainer, tests: &[Example], kept: &Kept, rate: f64) -> Result<Measured> {
    let mut sums = [0.0; 6];
    for part in tests.chunks(AT_ONCE) {
        let losses = trainer.losses(&part.iter().collect::<Vec<_>>())?;
        let all =
            [number(&losses)?, losses.affinity, losses.together, losses.priority, losses.value, losses.hits];
        for (sum, loss) in sums.iter_mut().zip(all) {
            *sum += loss * part.len() as f64 / tests.len() as f64;
        }
    }
    let [held_out, affinity, together, priority, value, hits] = sums;
    let since = &kept.since;
    let steps = since.steps.max(1.0);
    Ok(Measured {
        step: trainer.step(),
        seconds: kept.seconds,
        graphs_per_second: since.graphs as f64 / since.seconds.max(f64::MIN_POSITIVE),
        rate,
        gradient_norm: since.norm / steps,
        loss: since.loss / steps,
        held_out,
        affinity,
        together,
        priority,
        value,
        hits,
    })
}
