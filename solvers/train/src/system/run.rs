//! Runs the training of a learned system.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use rand::RngExt;
use serde::{Deserialize, Serialize};
use stagewright_core::bound::strongest;
use stagewright_core::seed;
use stagewright_core::solver::{Stop, thread_pool};
use stagewright_makespan::instance::Instance;
use stagewright_makespan::schedule::Evaluator;
use stagewright_policy::learn::{Descent, TrainError};
use stagewright_systems::{Agent, Kind, Reading, Trials};

use super::super::instance::instance;
use super::super::recipe::Recipe;
use super::super::run::{At, Folder, Metrics, Result, RunError, digest_of};
use super::super::store;
use super::SystemRunDocument;

/// Version of the training algorithm. It must be increased with every change to the parameters that a system
/// learns from the same configuration; otherwise runs of the two versions would be mixed.
const LEARNING: u32 = 1;
const GENERATIONS: [u32; 2] = [LEARNING, store::GENERATION];

/// Random streams: the problem of an episode, its samples, and the measurements.
const PROBLEMS: u64 = 1;
const DRAWS: u64 = 2;
const HELD_OUT: u64 = 3;

/// Observer of a run, and its threads.
pub struct Watch<'a> {
    /// Worker threads.
    pub threads: usize,
    /// Stops the run; the parameters learned so far are kept.
    pub interrupt: Arc<AtomicBool>,
    /// Called after every measurement.
    pub measured: &'a dyn Fn(&Episodes),
    /// Called after every episode, with the number of episodes run and the total.
    pub played: &'a dyn Fn(u64, u64),
}

/// Measurement after an episode.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Episodes {
    /// Number of episodes run.
    pub episode: u64,
    /// Optimiser steps taken.
    pub steps: u64,
    /// Placements simulated.
    pub placements: u64,
    /// Total seconds of the episodes so far, including those before an interruption.
    pub seconds: f64,
    /// Geometric mean, over the held-out problems with a feasible placement, of the best value of one greedy episode
    /// over the lower bound; `None` if there is no such problem.
    pub over_bound: Option<f64>,
    /// Share of the held-out problems with a feasible placement.
    pub fits: f64,
}

impl At for Episodes {
    const COLUMN: &'static str = "episode";

    fn at(&self) -> u64 {
        self.episode
    }
}

/// Progress saved in a state besides parameters, moments and baselines.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Kept {
    /// Versions of the training algorithm, see [`LEARNING`], and of its problems, see [`store::GENERATION`].
    generations: [u32; 2],
    document: SystemRunDocument,
    /// Digest of the initial file.
    from: Option<String>,
    episode: u64,
    placements: u64,
    seconds: f64,
    /// Measurement of the best state.
    best: Option<Measured>,
}

/// Measurement of a system: the share of the held-out problems for which one greedy episode finds a feasible placement,
/// and the geometric mean of these placements' values over the lower bounds, if there are any.
type Measured = (f64, Option<f64>);

/// Whether a later measurement is better: first by the share of feasible problems, then by the mean. While nothing is
/// feasible, the later one is better.
fn is_better(later: Measured, best: Measured) -> bool {
    let over_bound = |measured: Measured| measured.1.unwrap_or(f64::INFINITY);
    later.0 == 0.0 && best.0 == 0.0
        || later.0 > best.0
        || (later.0 == best.0 && over_bound(later) < over_bound(best))
}

/// Runs episodes until all are done or the run is interrupted. Resumes from the state that an earlier run left in the
/// folder. Returns the total number of episodes run.
///
/// # Errors
/// If the configuration, the folder or a file is unusable, or gradients are not finite.
pub fn run(document: &SystemRunDocument, beside: &Path, folder: &Folder, watch: &Watch<'_>) -> Result<u64> {
    let [learned, held_out] = document.recipes()?;
    // Lists the families: they are part of the run, so families added later do not change it.
    let mut document = document.clone();
    document.data.recipe = learned.document().clone();
    document.held_out.recipe = held_out.document().clone();
    let document = &document;
    let (mut agent, mut descent, mut kept) = begin(document, beside, folder)?;
    let mut metrics: Metrics<Episodes> = Metrics::read(folder, kept.episode)?;
    let pool = thread_pool(watch.threads)?;
    let mut is_kept = true;
    while kept.episode < document.episodes && !watch.interrupt.load(Ordering::Relaxed) {
        let began = Instant::now();
        let number = kept.episode;
        let mut draw = seed::stream(document.seed ^ (PROBLEMS << 32), number);
        let problem = draw.random_range(0..document.data.count);
        let rate = descent.config.rate_at(number, document.episodes);
        kept.placements += pool.install(|| {
            let mut rng = seed::stream(document.seed ^ (DRAWS << 32), number);
            with_trials(&learned, problem, agent.kind(), |reading, trials| {
                agent.learn(problem, reading, trials, (&mut descent, rate), &mut rng)?;
                Ok(trials.played())
            })
        })?;
        kept.episode += 1;
        kept.seconds += began.elapsed().as_secs_f64();
        is_kept = false;
        (watch.played)(kept.episode, document.episodes);
        if kept.episode.is_multiple_of(document.measure_every) || kept.episode == document.episodes {
            let found = pool.install(|| measure(&agent, document, &held_out))?;
            let (fits, over_bound) = found;
            let now = Episodes {
                episode: kept.episode,
                steps: descent.steps(),
                placements: kept.placements,
                seconds: kept.seconds,
                over_bound,
                fits,
            };
            if kept.best.is_none_or(|best| is_better(found, best)) {
                kept.best = Some(found);
                let made = serde_json::json!({ "configuration": document, "episode": kept.episode });
                Folder::write(&folder.best(), &agent.to_bytes(&descent, made)?)?;
            }
            metrics.add(now, folder)?;
            // Written last, so that the state is never ahead of the other files.
            Folder::write(&folder.state(), &state(&agent, &descent, &kept, folder)?)?;
            is_kept = true;
            (watch.measured)(&now);
        }
    }
    if !is_kept {
        Folder::write(&folder.state(), &state(&agent, &descent, &kept, folder)?)?;
    }
    Ok(kept.episode)
}

/// Serialises the state.
fn state(agent: &Agent, descent: &Descent, kept: &Kept, folder: &Folder) -> Result<Vec<u8>> {
    let progress = folder.progress(kept)?;
    Ok(agent.to_bytes(descent, progress)?)
}

/// Resumes a run from its state, or starts it.
fn begin(document: &SystemRunDocument, beside: &Path, folder: &Folder) -> Result<(Agent, Descent, Kept)> {
    let adam = document.adam();
    let refused = |file: &Path, error| RunError::Checkpoint { file: file.display().to_string(), error };
    let from = document.from.as_ref().map(|from| beside.join(from));
    let given = from.as_ref().map(|path| folder.origin(path)).transpose()?;
    let digest = given.as_deref().map(digest_of);
    if let Some(bytes) = Folder::read(&folder.state())? {
        let (agent, descent, card) =
            Agent::from_bytes(&bytes, Some(adam)).map_err(|error| refused(&folder.state(), error))?;
        let kept: Kept = serde_json::from_value(card.progress).map_err(|_| RunError::OtherRun)?;
        let is_same = kept.generations == GENERATIONS && kept.document == *document && kept.from == digest;
        return if is_same { Ok((agent, descent, kept)) } else { Err(RunError::OtherRun) };
    }
    let new =
        |error: stagewright_policy::weights::WeightsError| refused(Path::new("a new system"), error.into());
    let agent = match (&given, &from) {
        (Some(bytes), Some(path)) => {
            let (mut agent, ..) =
                Agent::from_bytes(bytes, Some(adam)).map_err(|error| refused(path, error))?;
            // The baselines belong to the graphs of another run.
            agent.forget();
            if agent.kind() != document.system || agent.settings() != document.settings {
                let cause = "`from` is a checkpoint of another system, or of other sizes".into();
                return Err(RunError::Config { cause });
            }
            agent
        }
        _ => Agent::new(document.system, document.settings, document.seed).map_err(new)?,
    };
    let descent = Descent::new(agent.weights(), adam).map_err(TrainError::from)?;
    let kept = Kept {
        generations: GENERATIONS,
        document: document.clone(),
        from: digest,
        episode: 0,
        placements: 0,
        seconds: 0.0,
        best: None,
    };
    Ok((agent, descent, kept))
}

/// Runs a closure on a problem of a recipe, without limits. Sizes are not checked, because every system accepts what
/// recipes draw: at most 4000 operators, and Placeto, which coarsens most, read at most 1000 units in each of 3000
/// sparse random graphs of this size.
fn with_trials<T>(
    recipe: &Recipe,
    number: u64,
    kind: Kind,
    play: impl for<'a, 's, 'p> FnOnce(&'a Reading<'s, 'p>, &mut Trials<'a, 's, 'p>) -> Result<T, TrainError>,
) -> Result<T> {
    let drawn = instance(recipe, number);
    let instance = Instance::new(&drawn.problem);
    let reading = Reading::new(&instance, kind.most_units()).map_err(TrainError::from)?;
    let stop = Stop::new(None, Arc::new(AtomicBool::new(false)));
    Ok(play(&reading, &mut Trials::new(&reading, Evaluator::new(&instance), u64::MAX, 0.0, stop))?)
}

/// Runs one greedy episode on every held-out problem.
fn measure(agent: &Agent, document: &SystemRunDocument, held_out: &Recipe) -> Result<Measured> {
    let (mut fits, mut logs) = (0.0, Vec::new());
    for number in 0..document.held_out.count {
        let mut rng = seed::stream(document.seed ^ (HELD_OUT << 32), number);
        let ratio = with_trials(held_out, number, agent.kind(), |reading, trials| {
            agent.greedy(reading, trials, &mut rng)?;
            let bound = strongest(reading.problem()).value;
            Ok(trials.best().filter(|best| best.score.fits()).map(|best| best.score.makespan / bound))
        })?;
        if let Some(ratio) = ratio {
            fits += 1.0;
            // The ratio to a bound of 0 is undefined.
            logs.extend(Some(ratio.ln()).filter(|log| log.is_finite()));
        }
    }
    let mean = (!logs.is_empty()).then(|| (logs.iter().sum::<f64>() / logs.len() as f64).exp());
    Ok((fits / document.held_out.count as f64, mean))
}

#[cfg(test)]
mod tests {
    use super::is_better;

    #[test]
    fn what_fits_more_is_better_then_what_is_shorter_then_what_came_later_where_nothing_fits() {
        for (better, worse) in [
            ((0.5, Some(3.0)), (0.25, Some(2.0))),
            ((0.5, Some(2.0)), (0.5, Some(3.0))),
            ((0.5, Some(2.0)), (0.5, None)),
            ((0.5, None), (0.0, None)),
        ] {
            assert!(is_better(better, worse) && !is_better(worse, better), "{better:?} {worse:?}");
        }
        assert!(!is_better((0.5, Some(2.0)), (0.5, Some(2.0))), "the first of equals stays");
        assert!(is_better((0.0, None), (0.0, None)), "what has learned for longer");
    }
}
