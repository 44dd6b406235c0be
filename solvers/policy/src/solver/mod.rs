//! The learned policy as a solver.
//!
//! The network never decides alone. First come the plans that need no network, the *floor*. The network reads the best
//! of them and proposes changes; the resulting candidates are scored by the simulator or split by the exact program,
//! and the best plan so far is the next one to improve on. The remaining time goes to a search whose moves the network
//! proposes. So the result is never worse than the floor's, and it has the same lower bound as any other solver's.

mod makespan;
mod throughput;

use std::sync::OnceLock;

use candle_core::{DType, Device};
use stagewright_core::bound::strongest_before;
use stagewright_core::document::ObjectiveKind;
use stagewright_core::objective::Objective;
use stagewright_core::problem::Problem;
use stagewright_core::solver::{Capabilities, Context, Event, Solution, SolveError, Solver};
use stagewright_core::units::bytes;
use stagewright_makespan::schedule::solve_instance;
use stagewright_search::dpl::unsupported_for_contiguous_dp;

use crate::features::Input;
use crate::network::{Config, Network};
use crate::predict::Prediction;
use crate::subject::Subject;

/// Maximum number of units that the network reads; larger graphs are coarsened to about this many.
pub const MAX_UNITS: usize = 4096;

/// Operations per second of a network on one thread, a pessimistic estimate; a GPU is faster.
const OPERATIONS_PER_SECOND: f64 = 4e9;
/// Largest share of the remaining time that a prediction may take.
const MAX_OF_TIME: f64 = 0.5;

/// Source of a policy's network.
#[derive(Debug, Clone)]
pub enum Origin {
    /// A checkpoint, loaded on first use.
    Checkpoint(&'static [u8]),
    /// A network in memory.
    Network(Box<Network>),
    /// A new network from a seed, as a baseline.
    Untrained(u64),
    /// No network: only the floor and the search, as a baseline.
    Nothing,
}

/// Components of a policy besides its network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parts {
    /// Whether the plans of the floor are candidates for the result.
    pub floor: bool,
    /// Number of plans or orders drawn from a prediction; 1 is the network's own choice.
    pub draws: usize,
    /// Whether the remaining time goes to a search.
    pub search: bool,
}

impl Parts {
    /// All components.
    pub const ALL: Parts = Parts { floor: true, draws: 16, search: true };
}

/// The learned policy, or an ablation of it.
#[derive(Debug)]
pub struct Policy {
    name: &'static str,
    summary: &'static str,
    origin: Origin,
    parts: Parts,
    network: OnceLock<Result<Network, String>>,
}

impl Policy {
    /// A policy with a name.
    pub const fn new(name: &'static str, summary: &'static str, origin: Origin, parts: Parts) -> Policy {
        Policy { name, summary, origin, parts, network: OnceLock::new() }
    }

    /// A policy with the name and the parts of this one, but another network.
    pub fn with_network(&self, network: Network) -> Policy {
        Policy::new(self.name, self.summary, Origin::Network(Box::new(network)), self.parts)
    }

    /// The network, or `None` if the policy has none.
    fn network(&self) -> Result<Option<&Network>, SolveError> {
        let made = self.network.get_or_init(|| match &self.origin {
            Origin::Checkpoint(bytes) => {
                let network = device().and_then(|device| {
                    Network::from_bytes(bytes, &device).map_err(|error| error.to_string())
                });
                network.and_then(|(network, _)| network.frozen().map_err(|error| error.to_string()))
            }
            Origin::Network(network) => network.frozen().map_err(|error| error.to_string()),
            Origin::Untrained(seed) => device().and_then(|device| {
                let network = Network::new(Config::default(), *seed, DType::F32, &device);
                network.and_then(|network| network.frozen()).map_err(|error| error.to_string())
            }),
            Origin::Nothing => Err(String::new()),
        });
        match (made, &self.origin) {
            (_, Origin::Nothing) => Ok(None),
            (Ok(network), _) => Ok(Some(network)),
            (Err(why), _) => Err(SolveError::Invariant(format!("the network of `{}`: {why}", self.name))),
        }
    }

    /// Reason why the network is not run on a subject, if there is too little time or memory for a prediction.
    fn too_large(network: &Network, subject: &Subject<'_, '_>, context: &Context<'_>) -> Option<String> {
        let devices = subject.instance().device_count();
        let [needed, operations] = network.cost(subject.unit_count(), subject.edges().len(), devices);
        if context.limits.memory.is_some_and(|memory| needed > memory as f64) {
            return Some(format!("the network was not run: inference takes {} of memory", bytes(needed)));
        }
        let seconds = operations / (OPERATIONS_PER_SECOND * context.threads() as f64);
        let left = context.stop().remaining()?.as_secs_f64();
        (seconds > MAX_OF_TIME * left).then(|| {
            format!("the network was not run: inference takes about {seconds:.1} s of {left:.1} s left")
        })
    }

    /// Runs the network on an input, with the context's threads.
    fn ask(network: &Network, input: &Input, context: &mut Context<'_>) -> Result<Prediction, SolveError> {
        let found = context.in_pool(|| Prediction::new(network, input))?;
        found.map_err(|error| SolveError::Invariant(format!("the network failed: {error}")))
    }
}

/// The device that networks run on: a GPU in a build with CUDA, otherwise the CPU.
///
/// # Errors
/// If a build with CUDA finds no usable GPU.
pub fn device() -> Result<Device, String> {
    if cfg!(feature = "cuda") {
        return Device::new_cuda(0).map_err(|error| format!("no usable CUDA device: {error}"));
    }
    Ok(Device::Cpu)
}

fn unsupported(objective: &Objective) -> Option<&'static str> {
    match objective.kind() {
        ObjectiveKind::Makespan => None,
        ObjectiveKind::Throughput if objective.times_iteration() => Some("pipeline schedules"),
        ObjectiveKind::Throughput => unsupported_for_contiguous_dp(objective),
        ObjectiveKind::Latency => Some("latency"),
    }
}

impl Solver for Policy {
    fn name(&self) -> &'static str {
        self.name
    }

    fn summary(&self) -> &'static str {
        self.summary
    }

    fn unsupported(&self, objective: &Objective) -> Option<&'static str> {
        unsupported(objective)
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { starts_from_plan: self.parts.floor, depends_on_seed: true, ..Capabilities::default() }
    }

    /// Without a time limit, stops after about twice as many simulations as the other searches, or the same number of
    /// orders.
    fn run(&self, problem: &Problem, context: &mut Context<'_>) -> Result<Solution, SolveError> {
        let network = self.network()?;
        if let Some(network) = network {
            let place = if network.weights().device().is_cuda() { "the GPU" } else { "the CPU" };
            context.emit(Event::Phase { name: format!("the floor; the network is on {place}") });
        }
        match problem.objective().kind() {
            ObjectiveKind::Makespan => solve_instance(self.name(), problem, |instance| {
                let bound = strongest_before(problem, context.stop());
                makespan::solve(self.name, instance, bound, network, self.parts, context)
            }),
            _ => throughput::solve(self.name, problem, network, self.parts, context),
        }
    }
}
