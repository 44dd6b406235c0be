//! Human-expert rules: manual placements and framework defaults.
//!
//! The rules are baselines for comparison, so a rule does exactly what its source does: it ignores transfers if its
//! source ignores them, and it does not repair a split that does not fit. If users would see an error (out of memory,
//! an operator that a device cannot run, a model without layers) the status is [`Status::Unknown`] with the reason.
//!
//! | rule | method | source |
//! | --- | --- | --- |
//! | [`EQUAL_LAYERS`] | the same number of layers per stage | Megatron-LM, torchtitan |
//! | [`EQUAL_PARAMETERS`] | minimises the largest stage in parameters | DeepSpeed |
//! | [`ACCELERATE_BALANCED`] | fills devices in turn up to an equal share of the parameters | accelerate |
//! | [`EQUAL_TIME`] | minimises the largest stage in measured time | torchgpipe |
//! | [`LAYER_PER_DEVICE`] | each layer on its own device, in turn | Sutskever et al. 2014, Wu et al. 2016 |
//! | [`EMBEDDINGS_ON_HOST`] | like [`LAYER_PER_DEVICE`], with embeddings on the host | TensorFlow's language model |
//! | [`GRAPH_PARTITION`] | a general-purpose graph partitioner | METIS, in place of Scotch |
//!
//! The first four split a chain of layers, and their plans are valid under every split rule. The others place layers or
//! operators freely; for a contiguous problem their plan is valid only if the devices happen to have an order.

mod accelerate_balanced;
mod assignment;
mod block_partition;
mod chain;
mod embeddings_on_host;
mod equal_layers;
mod equal_parameters;
mod equal_time;
mod graph_partition;
mod layer_per_device;
mod layers;
mod multilevel;
#[cfg(test)]
mod support;

use stagewright_core::bound::strongest_before;
use stagewright_core::calls::assign_if_missing;
use stagewright_core::cluster::DeviceId;
use stagewright_core::document::Schedule;
use stagewright_core::evaluate::evaluate;
use stagewright_core::objective::Objective;
use stagewright_core::placement::Placement;
use stagewright_core::problem::Problem;
use stagewright_core::solver::{Capabilities, Context, Plan, Result, Solution, Solver, Status};

pub use accelerate_balanced::ACCELERATE_BALANCED;
pub use embeddings_on_host::EMBEDDINGS_ON_HOST;
pub use equal_layers::EQUAL_LAYERS;
pub use equal_parameters::EQUAL_PARAMETERS;
pub use equal_time::EQUAL_TIME;
pub use graph_partition::GRAPH_PARTITION;
pub use layer_per_device::LAYER_PER_DEVICE;

/// A rule as a solver.
#[derive(Debug)]
pub struct ExpertRule {
    name: &'static str,
    summary: &'static str,
    /// Cargo feature that the rule needs and this build lacks, if any.
    missing_feature: Option<&'static str>,
    /// Whether the placement depends on the seed.
    depends_on_seed: bool,
    /// The placement of a problem, with the seed of random choices, or the reason why there is none.
    place: fn(&Problem, u64) -> Result<Placed, String>,
}

impl Solver for ExpertRule {
    fn name(&self) -> &'static str {
        self.name
    }

    fn summary(&self) -> &'static str {
        self.summary
    }

    fn missing_feature(&self) -> Option<&'static str> {
        self.missing_feature
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { depends_on_seed: self.depends_on_seed, ..Capabilities::default() }
    }

    /// Every rule supports the makespan; latency, with calls assigned to the rule's split; and the throughput of any
    /// split under schedules in which a device runs one stage and iterations do not overlap.
    fn unsupported(&self, objective: &Objective) -> Option<&'static str> {
        match objective.rules().schedule {
            Schedule::Interleaved | Schedule::DualPipeV => Some("several stages on a device"),
            Schedule::ZeroBubbleTwice => Some("iterations that overlap"),
            _ => None,
        }
    }

    fn run(&self, problem: &Problem, context: &mut Context<'_>) -> Result<Solution> {
        let placed = (self.place)(problem, context.seed()).and_then(|Placed { placement, note }| {
            let placement = assign_if_missing(problem, placement);
            let evaluation = evaluate(problem, &placement);
            match evaluation.violations.as_slice() {
                [] => Ok((Plan { placement, evaluation }, note)),
                [only] => Err(format!("the split does not fit: {only}")),
                [first, others @ ..] => {
                    Err(format!("the split does not fit: {first} (and {} more)", others.len()))
                }
            }
        });
        let bound = strongest_before(problem, context.stop());
        let stop = context.stop().reason();
        Ok(match placed {
            Ok((plan, note)) => {
                let solution = Solution::with_plan(self.name, plan, bound, stop);
                Solution { reason: note, ..solution }
            }
            Err(reason) => Solution::without_plan(self.name, Status::Unknown, bound, stop, reason),
        })
    }
}

/// Result of a rule.
struct Placed {
    placement: Placement,
    /// Deviation of the rule from its source, if any.
    note: Option<String>,
}

impl From<Placement> for Placed {
    fn from(placement: Placement) -> Placed {
        Placed { placement, note: None }
    }
}

/// The accelerators, in the order of the cluster.
fn accelerators(problem: &Problem) -> Result<Vec<DeviceId>, String> {
    let devices = on(problem, false);
    if devices.is_empty() { Err("the cluster has no accelerator, only hosts".into()) } else { Ok(devices) }
}

/// The hosts if `host` is set, otherwise the other devices, in the order of the cluster.
fn on(problem: &Problem, host: bool) -> Vec<DeviceId> {
    let cluster = problem.cluster();
    cluster.devices().filter(|&device| problem.pools()[problem.pool_of(device)].host == host).collect()
}
