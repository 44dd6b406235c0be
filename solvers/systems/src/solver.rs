//! A learned system as a solver: it learns on the given problem, as in its paper, or runs with parameters that it
//! learned elsewhere.

use stagewright_core::bound::{LowerBound, strongest_before};
use stagewright_core::objective::Objective;
use stagewright_core::problem::Problem;
use stagewright_core::seed;
use stagewright_core::solver::{
    Capabilities, Context, Event, Solution, SolveError, Solver, Status, StopReason,
};
use stagewright_core::tolerance;
use stagewright_core::units::bytes_apart;
use stagewright_makespan::instance::Instance;
use stagewright_makespan::schedule::{Evaluator, solution, solve_instance};
use stagewright_policy::checkpoint::CheckpointError;
use stagewright_policy::learn::{Descent, TrainError};

use crate::{Agent, Kind, Reading, Settings, Trials};

/// Placements of a solve without other limits: the number in HSDAG's paper.
const PLACEMENTS: u64 = 500;
/// Separates the random streams of episodes from those of parameters.
const EPISODES: u64 = 1 << 32;
/// Largest accepted gap; above it, every plan would be close enough.
const LARGEST_GAP: f64 = 0.999;

/// Mode of operation of a system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Learns on the problem until a limit.
    Learn,
    /// Samples from the initial parameters until a limit, without learning, as a random baseline.
    Draw,
    /// Runs one episode that always takes the most likely choice, without learning.
    Greedy,
}

/// A learned system with a name.
#[derive(Debug, Clone)]
pub struct Learned {
    name: &'static str,
    summary: &'static str,
    kind: Kind,
    mode: Mode,
    file: Option<Vec<u8>>,
}

impl Learned {
    /// A system with new parameters, drawn from the seed of the solve.
    pub const fn new(name: &'static str, summary: &'static str, kind: Kind) -> Learned {
        Learned { name, summary, kind, mode: Mode::Learn, file: None }
    }

    /// A system that never learns.
    pub const fn untrained(name: &'static str, summary: &'static str, kind: Kind) -> Learned {
        Learned { name, summary, kind, mode: Mode::Draw, file: None }
    }

    /// A system with the parameters of a file, which is parsed once here to check it.
    ///
    /// # Errors
    /// If the bytes are not a system file, or hold another system.
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

    /// Kind of the system.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Builds the system and its optimiser.
    fn build(&self, devices: usize, seed: u64) -> Result<(Agent, Descent), SolveError> {
        let failed =
            |error: &dyn std::fmt::Display| SolveError::Invariant(format!("`{}`: {error}", self.name));
        let agent = match &self.file {
            Some(bytes) => {
                let (mut agent, ..) = Agent::from_bytes(bytes, None).map_err(|error| failed(&error))?;
                // The baselines belong to other graphs.
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

    /// The reason not to run a system of the given sizes, if any, with a stop reason if it would need too much memory.
    fn refusal(
        &self,
        settings: &Settings,
        reading: &Reading<'_, '_>,
        memory: Option<u64>,
    ) -> Option<(Option<StopReason>, String)> {
        let (name, devices, units) = (self.name, reading.devices(), reading.units());
        if settings.devices < devices {
            let max_devices = settings.devices;
            let why = format!(
                "the checkpoint supports at most {max_devices} devices, but the cluster has {devices}"
            );
            return Some((None, why));
        }
        if let Some(mistake) = settings.mistake(self.kind) {
            return Some((None, format!("`{name}` cannot place on {devices} devices: {mistake}")));
        }
        if let Some(why) = self.kind.too_large(units) {
            return Some((None, why));
        }
        let learns = self.mode == Mode::Learn;
        let needed = self.kind.bytes(settings, reading, learns);
        let limit = memory.map(|limit| limit as f64).filter(|&limit| needed > limit)?;
        let what = if learns { "learn" } else { "play" };
        let [needed, limit] = bytes_apart(needed, limit);
        let why = format!(
            "`{name}` would take about {needed} of memory to {what}, more than the limit of {limit}; \
             raise it, or use another solver"
        );
        Some((Some(StopReason::Memory), why))
    }
}

impl Solver for Learned {
    fn name(&self) -> &'static str {
        self.name
    }

    fn summary(&self) -> &'static str {
        self.summary
    }

    fn unsupported(&self, objective: &Objective) -> Option<&'static str> {
        stagewright_makespan::unsupported(objective)
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { counts_simulations: true, depends_on_seed: true, ..Capabilities::default() }
    }

    /// Without a time limit, simulates 500 placements. Returns the best placement simulated, including the first.
    fn run(&self, problem: &Problem, context: &mut Context<'_>) -> Result<Solution, SolveError> {
        solve_instance(self.name(), problem, |instance| {
            let bound = strongest_before(problem, context.stop());
            if instance.graph().operator_count() == 0 {
                let evaluator = &mut Evaluator::new(instance);
                let nothing = stagewright_makespan::schedule::Schedule::without_priority(Vec::new());
                let best = stagewright_makespan::schedule::Best::better_of(None, evaluator, nothing);
                return solution(self.name, instance, best, bound, context);
            }
            let invariant = |error: &dyn std::fmt::Display| SolveError::Invariant(error.to_string());
            let reading =
                Reading::new(instance, self.kind.most_units()).map_err(|error| invariant(&error))?;
            // New parameters are not created before their size has been checked.
            let given =
                self.file.as_ref().map(|_| self.build(reading.devices(), context.seed())).transpose()?;
            let settings = match &given {
                Some((agent, _)) => agent.settings(),
                None => self.kind.settings(reading.devices()),
            };
            if let Some((stop, reason)) = self.refusal(&settings, &reading, context.limits.memory) {
                return Ok(Solution::without_plan(self.name, Status::Unknown, bound, stop, reason));
            }
            let (mut agent, mut descent) = match given {
                Some(given) => given,
                None => self.build(reading.devices(), context.seed())?,
            };
            let pool = context.pool()?;
            let mut trials = trials(&reading, instance, &bound, context);
            let mut reason = None;
            let mut episodes = 0u64;
            while !trials.is_over() {
                // Separate streams: parameters use those of the seed itself.
                let mut rng = seed::stream(context.seed() ^ EPISODES, episodes);
                let rate = descent.config.learning_rate
                    * (1.0 - (1.0 - descent.config.final_lr_fraction) * done_of(&trials, context));
                let done = pool.install(|| match self.mode {
                    Mode::Learn => agent.learn(0, &reading, &mut trials, (&mut descent, rate), &mut rng),
                    Mode::Draw => agent.draw(&reading, &mut trials, &mut rng),
                    Mode::Greedy => agent.greedy(&reading, &mut trials, &mut rng),
                });
                for news in trials.news() {
                    context.emit(Event::Simulations { done: news.played, at: news.at });
                    context.emit(Event::Incumbent { value: news.makespan });
                }
                match done {
                    Ok(()) => {}
                    // Placements simulated before the divergence remain valid.
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
            let solution = solution(self.name, instance, trials.into_best(), bound, context)?;
            let reason = solution.reason.clone().or(reason);
            Ok(Solution { statistics, reason, ..solution })
        })
    }
}

/// Share of a solve's limit that is used, from 0 to 1: of simulations if these are limited, otherwise of time.
fn done_of(trials: &Trials<'_, '_, '_>, context: &Context<'_>) -> f64 {
    let share = match (context.limits.simulations, context.limits.time) {
        (Some(limit), _) => trials.played() as f64 / limit.max(1) as f64,
        (None, Some(time)) => context.elapsed().as_secs_f64() / time.as_secs_f64(),
        (None, None) => trials.played() as f64 / PLACEMENTS as f64,
    };
    if share.is_finite() { share.clamp(0.0, 1.0) } else { 1.0 }
}

/// The trials of a solve.
fn trials<'a, 's, 'p>(
    reading: &'a Reading<'s, 'p>,
    instance: &'s Instance<'p>,
    bound: &LowerBound,
    context: &Context<'_>,
) -> Trials<'a, 's, 'p> {
    let gap = context.limits.gap.clamp(2.0 * tolerance::OPTIMAL_RELATIVE, LARGEST_GAP);
    let limit = match (context.limits.simulations, context.limits.time) {
        (Some(limit), _) => limit,
        (None, Some(_)) => u64::MAX,
        (None, None) => PLACEMENTS,
    };
    Trials::new(reading, Evaluator::new(instance), limit, bound.value / (1.0 - gap), context.stop().clone())
}
