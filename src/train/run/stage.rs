//! The run of a stage.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use candle_core::{DType, Device};
use rand::RngExt;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use stagewright_core::cluster::DeviceId;
use stagewright_core::seed;
use stagewright_core::solver::{Context, Limits, Silent, Solver};
use stagewright_policy::checkpoint::Card;
use stagewright_policy::features::input;
use stagewright_policy::learn::{Episode, Example, Losses, TrainError, Trainer};
use stagewright_policy::network::Network;
use stagewright_policy::predict::Prediction;
use stagewright_policy::solver::{MOST_UNITS, device};
use stagewright_policy::subject::{Base, Subject, step_of};
use stagewright_search::Heft;
use stagewright_search::makespan::assigned;
use stagewright_search::makespan::scene::Scene;
use stagewright_search::makespan::schedule::{Judge, Schedule};

use super::super::instance::instance;
use super::super::label::{Effort, label};
use super::super::recipe::Recipe;
use super::super::store::{Filling, Labels, Progress, StoredLabel, fill};
use super::config::{Data, RunDocument, Stage};
use super::examples::example_of;
use super::expert::expert_label;
use super::metrics::{Measured, Metrics};
use super::{Folder, RunError};

/// Streams of draws: for the problems of a step, the examples of a step, and what is held out.
const BATCHES: u64 = 1;
const EXAMPLES: u64 = 2;
const HELD_OUT: u64 = 3;
/// Held-out graphs that are measured at a time.
const AT_ONCE: usize = 16;

/// Who follows a run.
pub struct Watch<'a> {
    /// Worker threads.
    pub threads: usize,
    /// Ends the run; what is there by then is kept.
    pub interrupt: Arc<AtomicBool>,
    /// Called after every label: how many are there, of how many, of which kind.
    pub labelled: &'a (dyn Fn(u64, u64, &'static str) + Sync),
    /// Called after every step: how many were made, of how many.
    pub stepped: &'a dyn Fn(u64, u64),
    /// Called after every measurement.
    pub measured: &'a dyn Fn(&Measured),
}

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Outcome {
    /// Steps made.
    pub steps: u64,
    /// The least held-out loss, if something was measured.
    pub best: Option<f64>,
    /// Whether it was interrupted.
    pub is_interrupted: bool,
    /// Whether it ended since nothing got better.
    pub is_early: bool,
}

/// What a state has to know besides parameters and moments.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Kept {
    document: RunDocument,
    best: Option<f64>,
    idle: u64,
    seconds: f64,
}

/// Labels, learns and measures until the steps are made, nothing gets better, or it is interrupted. What an earlier run in the
/// folder has done is not done again.
///
/// # Errors
/// A configuration, a folder or a checkpoint that cannot be used; gradients that are no numbers.
pub fn run(
    document: &RunDocument,
    beside: &Path,
    folder: &Folder,
    watch: &Watch<'_>,
) -> Result<Outcome, RunError> {
    let [recipe, held_out] = document.recipes()?;
    let device = device().map_err(RunError::Device)?;
    let (mut trainer, card, mut kept) = begin(document, beside, folder, &device)?;
    let teacher = trainer_of(document, beside, &device)?;
    let stopped = Outcome { steps: trainer.step(), best: kept.best, is_interrupted: true, is_early: false };
    let needs_labels = document.stage != Stage::Reinforcement;
    let labels = match needs_labels {
        true => labels(&document.data, &recipe, &folder.labels(), "to learn from", teacher.as_ref(), watch)?,
        false => Some(Vec::new()),
    };
    let Some(labels) = labels else { return Ok(stopped) };
    let Some(tests) =
        self::labels(&document.held_out, &held_out, &folder.held_out(), "held out", None, watch)?
    else {
        return Ok(stopped);
    };
    let pool = rayon::ThreadPoolBuilder::new().num_threads(watch.threads.max(1)).build();
    let pool = pool.map_err(|error| RunError::Device(format!("cannot start worker threads: {error}")))?;
    let examples = |(number, label): (usize, &StoredLabel)| {
        example_of(&held_out, label, &mut seed::stream(document.seed ^ (HELD_OUT << 32), number as u64))
    };
    let tests: Vec<Example> =
        pool.install(|| tests.par_iter().enumerate().map(examples).collect::<Result<_, _>>())?;
    let mut metrics = Metrics::read(folder, trainer.step())?;
    let mut since = Since::default();
    let is_interrupted = || watch.interrupt.load(Ordering::Relaxed);
    while trainer.step() < steps(document) && kept.idle < document.patience && !is_interrupted() {
        let began = Instant::now();
        let rate = document.adam.rate_at(trainer.step(), steps(document));
        let step = trainer.step();
        pool.install(|| match document.stage {
            Stage::Imitation | Stage::Expert => {
                let batch = batch(document, &recipe, &labels, step)?;
                let (losses, norm) = trainer.imitate(&batch.iter().collect::<Vec<_>>(), rate)?;
                since.add(number(&losses)?, norm, batch.len());
                Ok::<(), RunError>(())
            }
            Stage::Reinforcement => {
                let reward = reinforce(document, &recipe, &mut trainer, step, rate)?;
                since.add(-reward, 0.0, 1);
                Ok(())
            }
        })?;
        kept.seconds += began.elapsed().as_secs_f64();
        since.seconds += began.elapsed().as_secs_f64();
        (watch.stepped)(trainer.step(), steps(document));
        let is_last = trainer.step() >= steps(document);
        let crossed = trainer.step() / document.measure_every > step / document.measure_every;
        if crossed || is_last {
            let measured = pool.install(|| measure(&trainer, &tests, &since, &kept, rate))?;
            since = Since::default();
            kept.idle += 1;
            if kept.best.is_none_or(|best| measured.held_out < best) {
                (kept.best, kept.idle) = (Some(measured.held_out), 0);
                let card = with_stage(&card, document, trainer.step(), measured.held_out);
                let bytes = trainer.network.to_bytes(&card).map_err(TrainError::from)?;
                Folder::write(&folder.best(), &bytes)?;
            }
            metrics.0.push(measured);
            metrics.write(folder)?;
            // Last, so that a state is never ahead of what it goes with.
            let progress = serde_json::to_value(&kept).unwrap_or_default();
            Folder::write(&folder.state(), &trainer.to_bytes(&card, progress)?)?;
            (watch.measured)(&measured);
        }
    }
    let is_interrupted = is_interrupted() && trainer.step() < steps(document);
    let is_early = !is_interrupted && trainer.step() < steps(document);
    Ok(Outcome { steps: trainer.step(), best: kept.best, is_interrupted, is_early })
}

/// Steps of a run; an episode makes several.
fn steps(document: &RunDocument) -> u64 {
    match document.stage {
        Stage::Reinforcement => document.steps * document.reinforce.epochs as u64,
        Stage::Imitation | Stage::Expert => document.steps,
    }
}

/// The card with one more stage behind it.
fn with_stage(card: &Card, document: &RunDocument, step: u64, held_out: f64) -> Card {
    let stage = serde_json::json!({ "configuration": document, "step": step, "held_out_loss": held_out });
    let mut stages = card.training.as_array().cloned().unwrap_or_default();
    stages.push(stage);
    Card { training: stages.into(), ..card.clone() }
}

/// A training that goes on from its state, or begins.
fn begin(
    document: &RunDocument,
    beside: &Path,
    folder: &Folder,
    device: &Device,
) -> Result<(Trainer, Card, Kept), RunError> {
    if let Some(bytes) = Folder::read(&folder.state())? {
        let (trainer, state) = Trainer::from_bytes(&bytes, document.adam, device)?;
        let kept: Kept = serde_json::from_value(state.progress).map_err(|_| RunError::OtherRun)?;
        return match kept.document == *document {
            true => Ok((trainer, state.card, kept)),
            false => Err(RunError::OtherRun),
        };
    }
    let (network, card) = match trainer_of(document, beside, device)? {
        Some(found) => found,
        None => {
            let network = Network::new(document.network.clone(), document.seed, DType::F32, device);
            let network = network.map_err(|error| RunError::Checkpoint {
                file: "a new network".into(),
                error: error.into(),
            })?;
            (network, Card::new(document.network.clone(), document.seed))
        }
    };
    let trainer = Trainer::new(network, document.adam)?;
    Ok((trainer, card, Kept { document: document.clone(), best: None, idle: 0, seconds: 0.0 }))
}

/// The network that a run begins with, if it does not begin with a new one.
fn trainer_of(
    document: &RunDocument,
    beside: &Path,
    device: &Device,
) -> Result<Option<(Network, Card)>, RunError> {
    let Some(from) = &document.from else { return Ok(None) };
    let path = beside.join(from);
    let bytes = std::fs::read(&path).map_err(|error| RunError::file("read", &path, &error))?;
    let found = Network::from_bytes(&bytes, device);
    let checkpoint = |error| RunError::Checkpoint { file: path.display().to_string(), error };
    found.map(Some).map_err(checkpoint)
}

/// The labels of some problems, those that are missing made first; none where it was interrupted.
fn labels(
    data: &Data,
    recipe: &Recipe,
    path: &Path,
    kind: &'static str,
    teacher: Option<&(Network, Card)>,
    watch: &Watch<'_>,
) -> Result<Option<Vec<StoredLabel>>, RunError> {
    let effort = Effort { seconds: data.seconds };
    let filling = Filling {
        labeller: &|problem, effort, work| match teacher {
            Some((network, _)) => expert_label(network, problem, effort, work),
            None => label(problem, effort, work),
        },
        threads: watch.threads,
        interrupt: watch.interrupt.clone(),
        progress: &|Progress { done, total, .. }| (watch.labelled)(done, total, kind),
    };
    if !fill(recipe, &effort, data.count, path, &filling)? {
        return Ok(None);
    }
    let labels: BTreeMap<u64, StoredLabel> = Labels::read(path)?.labels;
    Ok(Some(labels.into_values().take_while(|label| label.index < data.count).collect()))
}

/// The examples of a step.
fn batch(
    document: &RunDocument,
    recipe: &Recipe,
    labels: &[StoredLabel],
    step: u64,
) -> Result<Vec<Example>, RunError> {
    let mut rng = seed::stream(document.seed ^ (BATCHES << 32), step);
    let chosen: Vec<usize> = (0..document.batch).map(|_| rng.random_range(0..labels.len())).collect();
    let first = step * document.batch as u64;
    let example = |(at, &number): (usize, &usize)| {
        let mut rng = seed::stream(document.seed ^ (EXAMPLES << 32), first + at as u64);
        example_of(recipe, &labels[number], &mut rng)
    };
    chosen.par_iter().enumerate().map(example).collect()
}

/// One episode: draws from what the network says of a list schedule, their rewards, and the steps that follow. Answers the
/// mean reward.
fn reinforce(
    document: &RunDocument,
    recipe: &Recipe,
    trainer: &mut Trainer,
    step: u64,
    rate: f64,
) -> Result<f64, RunError> {
    let mut rng = seed::stream(document.seed ^ (BATCHES << 32), step);
    let problem = step_of(&instance(recipe, rng.random_range(0..document.data.count)).problem)?;
    let scene = Scene::new(&problem);
    let subject = Subject::new(&scene, MOST_UNITS, false);
    let mut silent = Silent;
    let limits = Limits { time: None, ..Limits::default() };
    let mut context = Context::new(limits, Default::default(), &mut silent);
    let Some(plan) = Heft.solve(&problem, &mut context)?.plan else {
        return Ok(0.0);
    };
    let mut judge = Judge::new(&scene);
    let base = Base::new(&subject, &mut judge, &Schedule::of_placement(&scene, &plan.placement));
    let figures = input(&subject, &base, base.seconds, base.seconds);
    let prediction = Prediction::new(&trainer.network, &figures).map_err(TrainError::from)?;
    let sizes = [figures.units, figures.devices];
    let mut episode = Episode::draw(&prediction, sizes, document.reinforce.draws, &mut rng);
    let reward = |choice: &Vec<u32>, judge: &mut Judge<'_, '_>| {
        let homes: Vec<DeviceId> = choice.iter().map(|&device| DeviceId(device)).collect();
        let device_of = subject.level().project(&scene, &homes);
        let order = assigned::order(&scene, &device_of);
        let score = judge.score(&Schedule::by_order(device_of, &order));
        // Of what cannot run anywhere nothing is worse than this.
        (base.seconds / score.energy()).ln().clamp(-5.0, 5.0)
    };
    let rewards: Vec<f64> = episode
        .choices
        .par_iter()
        .map_init(|| judge.clone(), |judge, choice| reward(choice, judge))
        .collect();
    episode.reward(&rewards);
    trainer.reinforce(&figures, &episode, &document.reinforce, rate)?;
    Ok(rewards.iter().sum::<f64>() / rewards.len() as f64)
}

/// What came together since the last measurement.
#[derive(Debug, Clone, Copy, Default)]
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

fn number(losses: &Losses) -> Result<f64, RunError> {
    let total = losses.total.to_dtype(DType::F64).and_then(|total| total.to_scalar::<f64>());
    Ok(total.map_err(TrainError::from)?)
}

/// What is lost on what is held out.
fn measure(
    trainer: &Trainer,
    tests: &[Example],
    since: &Since,
    kept: &Kept,
    rate: f64,
) -> Result<Measured, RunError> {
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
