//! A learned system as a solver: it learns on the problem it is asked about, as its paper has it, or plays what it has
//! learned elsewhere.

use stagewright_core::bound::{LowerBound, strongest};
use stagewright_core::document::ObjectiveKind;
use stagewright_core::objective::Objective;
use stagewright_core::problem::Problem;
use stagewright_core::seed;
use stagewright_core::solver::{Capabilities, Context, Event, Solution, SolveError, Solver, Status};
use stagewright_core::tolerance;
use stagewright_search::makespan::scene::Scene;
use stagewright_search::makespan::schedule::{Judge, solution};

use super::{Agent, Kind, Reading, Trials};
use crate::checkpoint::CheckpointError;
use crate::learn::{Descent, TrainError};

/// Placements of a solve that nothing else limits: as many as HSDAG's paper plays.
const PLACEMENTS: u64 = 500;
/// Sets the streams of episodes apart.
const EPISODES: u64 = 1 << 32;
/// Gap above which every plan is close enough.
const LARGEST_GAP: f64 = 0.999;

/// What a solve does with its system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Learns on the problem until a limit.
    Learn,
    /// Plays one episode that takes the likeliest choice everywhere, and learns nothing.
    Greedy,
}

/// A learned system under a name.
#[derive(Debug, Clone)]
pub struct Learned {
    name: &'static str,
    summary: &'static str,
    kind: Kind,
    mode: Mode,
    file: Option<Vec<u8>>,
}

impl Learned {
    /// A system that begins with new parameters, drawn from the seed of the solve.
    pub const fn new(name: &'static str, summary: &'static str, kind: Kind) -> Learned {
        Learned { name, summary, kind, mode: Mode::Learn, file: None }
    }

    /// One that begins with those of a file, which is read once here to see that it can be.
    ///
    /// # Errors
    /// Bytes that are no such file, or of another system.
    pub fn of_file(
        name: &'static str,
        summary: &'static str,
        kind: Kind,
        mode: Mode,
        file: Vec<u8>,
    ) -> Result<Learned, CheckpointError> {
        let (agent, ..) = Agent::from_bytes(&file, None)?;
        if agent.kind() != kind {
            return Err(CheckpointError::OtherSystem { found: agent.kind().name(), wanted: kind.name() });
        }
        Ok(Learned { name, summary, kind, mode, file: Some(file) })
    }

    /// Which system it is.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// The system before its first step on a problem.
    fn build(&self, devices: usize, seed: u64) -> Result<(Agent, Descent), SolveError> {
        let failed =
            |error: &dyn std::fmt::Display| SolveError::Invariant(format!("`{}`: {error}", self.name));
        let agent = match &self.file {
            Some(bytes) => {
                let (mut agent, ..) = Agent::from_bytes(bytes, None).map_err(|error| failed(&error))?;
                // They are of other graphs.
                agent.forget();
                agent
            }
            None => {
                Agent::new(self.kind, self.kind.settings(devices), seed).map_err(|error| failed(&error))?
            }
        };
        let descent = Descent::new(agent.weights(), self.kind.adam()).map_err(|error| failed(&error))?;
        Ok((agent, descent))
    }
}

impl Solver for Learned {
    fn name(&self) -> &'static str {
        self.name
    }

    fn summary(&self) -> &'static str {
        self.summary
    }

    fn capabilities(&self) -> Capabilities {
        let missing = |objective: &Objective| match objective.kind {
            ObjectiveKind::Makespan => None,
            _ => Some("objectives other than the makespan"),
        };
        Capabilities { missing, exact: false, deterministic_across_threads: true, counts_simulations: true }
    }

    /// Without a time limit it plays 500 placements. The answer is the best placement played, from the first on.
    fn solve(&self, problem: &Problem, context: &mut Context<'_>) -> Result<Solution, SolveError> {
        SolveError::check(self, problem)?;
        let bound = strongest(problem);
        let scene = Scene::new(problem);
        if let Some(reason) = scene.impossible() {
            return Ok(Solution::without_plan(self.name, Status::Infeasible, bound, None, reason));
        }
        if problem.graph().operator_count() == 0 {
            let judge = &mut Judge::new(&scene);
            let nothing = stagewright_search::makespan::schedule::Schedule::without_priority(Vec::new());
            let best = stagewright_search::makespan::schedule::Best::of(None, judge, nothing);
            return solution(self.name, &scene, best, bound, context);
        }
        let unanswered =
            |reason| Ok(Solution::without_plan(self.name, Status::Unknown, bound.clone(), None, reason));
        if self.file.is_none()
            && let Some(mistake) = self.kind.settings(scene.device_count()).mistake(self.kind)
        {
            return unanswered(format!("for {} devices {mistake}", scene.device_count()));
        }
        let (mut agent, mut descent) = self.build(scene.device_count(), context.seed)?;
        if agent.settings().devices < scene.device_count() {
            return unanswered(format!(
                "the checkpoint is of at most {} devices, and the cluster has {}",
                agent.settings().devices,
                scene.device_count()
            ));
        }
        let pool = context.pool()?;
        let invariant = |error: &dyn std::fmt::Display| SolveError::Invariant(error.to_string());
        let reading = Reading::new(&scene, self.kind.most_units()).map_err(|error| invariant(&error))?;
        if reading.units() > self.kind.too_many_units() {
            return unanswered(format!(
                "the graph cannot be coarsened to fewer than {} units, of which `{}` reads at most {}",
                reading.units(),
                self.name,
                self.kind.too_many_units()
            ));
        }
        let bytes = self.kind.bytes(&agent.settings(), reading.units());
        if context.limits.memory.is_some_and(|memory| bytes > memory as f64) {
            return unanswered(format!("`{}` takes about {bytes:.1e} bytes of memory", self.name));
        }
        let mut trials = trials(&reading, &scene, &bound, context);
        let mut reason = None;
        let mut episodes = 0u64;
        while !trials.is_over() {
            // Streams of their own: parameters have those of the seed itself.
            let mut rng = seed::stream(context.seed ^ EPISODES, episodes);
            let rate = descent.config.rate * (1.0 - (1.0 - descent.config.last) * done_of(&trials, context));
            let done = pool.install(|| match self.mode {
                Mode::Learn => agent.learn(0, &reading, &mut trials, (&mut descent, rate), &mut rng),
                Mode::Greedy => agent.greedy(&reading, &mut trials, &mut rng),
            });
            for news in trials.news() {
                context.emit(Event::Simulations { done: news.played, at: news.at });
                context.emit(Event::Incumbent { value: news.makespan });
            }
            match done {
                Ok(()) => {}
                // What was played by then is no worse for it.
                Err(error @ TrainError::Diverged { .. }) if trials.best().is_some() => {
                    reason = Some(error.to_string());
                    break;
                }
                Err(error) => return Err(invariant(&error)),
            }
            episodes += 1;
            if self.mode == Mode::Greedy {
                break;
            }
        }
        let statistics =
            vec![("simulations", trials.played()), ("episodes", episodes), ("steps", descent.steps())];
        let solution = solution(self.name, &scene, trials.into_best(), bound, context)?;
        let reason = solution.reason.clone().or(reason);
        Ok(Solution { statistics, reason, ..solution })
    }
}

/// How much of a solve's limit is used, from 0 to 1: of simulations where they are limited, else of time.
fn done_of(trials: &Trials<'_, '_, '_>, context: &Context<'_>) -> f64 {
    let share = match (context.limits.simulations, context.limits.time) {
        (Some(most), _) => trials.played() as f64 / most.max(1) as f64,
        (None, Some(time)) => context.elapsed().as_secs_f64() / time.as_secs_f64(),
        (None, None) => trials.played() as f64 / PLACEMENTS as f64,
    };
    if share.is_finite() { share.clamp(0.0, 1.0) } else { 1.0 }
}

/// The trials of a solve.
fn trials<'a, 's, 'p>(
    reading: &'a Reading<'s, 'p>,
    scene: &'s Scene<'p>,
    bound: &LowerBound,
    context: &Context<'_>,
) -> Trials<'a, 's, 'p> {
    let gap = context.limits.gap.clamp(2.0 * tolerance::OPTIMAL_RELATIVE, LARGEST_GAP);
    let most = match (context.limits.simulations, context.limits.time) {
        (Some(most), _) => most,
        (None, Some(_)) => u64::MAX,
        (None, None) => PLACEMENTS,
    };
    Trials::new(reading, Judge::new(scene), most, bound.value / (1.0 - gap), context.stop().clone())
}
