//! Fine-tuning: adapts a network to one problem within a time limit.
//!
//! Fine-tuning consists of rounds of search and imitation. The policy plans with the current network, its plan joins
//! the best few plans known, and the network learns to imitate these, given newly drawn plans to improve on. Plans are
//! scored by the simulator or the evaluation, so a round can teach nothing worse than what is known.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use stagewright_core::problem::Problem;
use stagewright_core::seed;
use stagewright_core::solver::{
    Context, Limits, Plan, Settings, Silent, Solution, Solver, Status, Stop, thread_pool,
};
use stagewright_makespan::instance::Instance;
use stagewright_policy::checkpoint::Card;
use stagewright_policy::learn::{AdamConfig, Trainer};
use stagewright_policy::network::Network;
use stagewright_policy::subject::step_of;
use stagewright_policy::{Origin, Parts, Policy};

use super::label::{Label, Labelled, MAX_PLANS, WORSE};
use super::run::{Lesson, Result};

/// Number of rounds.
const ROUNDS: u32 = 4;
/// Share of a round that is spent on search.
const LOOKING: f64 = 0.4;
/// Separates the random streams of examples.
const EXAMPLES: u64 = 1 << 20;

/// Options of fine-tuning.
pub struct Finetuning {
    /// Total time.
    pub time: Duration,
    /// Limits of the searches besides the time.
    pub limits: Limits,
    /// Seed of all random draws.
    pub seed: u64,
    /// Worker threads.
    pub threads: usize,
    /// Hyperparameters of the optimiser.
    pub adam: AdamConfig,
    /// Stops fine-tuning; the parameters learned so far are kept.
    pub interrupt: Arc<AtomicBool>,
}

/// Result of fine-tuning.
pub struct Finetuned {
    /// The network.
    pub network: Network,
    /// Card of the network.
    pub card: Card,
    /// Optimiser steps taken.
    pub steps: u64,
    /// Losses of the first and of the last step.
    pub losses: Option<[f64; 2]>,
    /// The best plan found.
    pub best: Option<Plan>,
}

/// Adapts a network to a problem; `None` if there is no plan to learn from.
///
/// # Errors
/// If the policy does not support the problem, or gradients are not finite.
pub fn finetune(
    problem: &Problem,
    network: Network,
    card: &Card,
    how: &Finetuning,
) -> Result<Option<Finetuned>> {
    if problem.graph().operator_count() == 0 {
        return Ok(None);
    }
    let whole = Stop::new(Some(how.time), how.interrupt.clone());
    let step = step_of(problem)?;
    let instance = Instance::new(&step);
    if instance.unplaceable().is_some() {
        return Ok(None);
    }
    let mut lesson = Lesson::new(problem, &instance);
    let pool = thread_pool(how.threads)?;
    let mut trainer = Trainer::new(network, how.adam)?;
    let mut known: Option<Label> = None;
    let mut best: Option<Plan> = None;
    let mut losses: Option<[f64; 2]> = None;
    for round in 0..ROUNDS {
        let left = whole.remaining().unwrap_or_default() / (ROUNDS - round);
        let found = look(problem, &trainer.network, how, round, left.mul_f64(LOOKING), best.as_ref())?;
        let (bound, is_optimal) = (found.bound.value, found.status == Status::Optimal);
        if let Some(plan) = found.plan {
            known = Some(with_plan(known, &plan, bound));
            if best.as_ref().is_none_or(|best| plan.value() < best.value()) {
                best = Some(plan);
            }
        }
        let Some(label) = &known else { return Ok(None) };
        if is_optimal && round > 0 {
            break;
        }
        let left = whole.remaining().unwrap_or_default() / (ROUNDS - round);
        let end = Stop::new(Some(left), how.interrupt.clone());
        while end.reason().is_none() {
            let mut rng = seed::stream(how.seed ^ EXAMPLES, trainer.step());
            let rate = how.adam.rate_at(trainer.step(), u64::MAX);
            let loss = pool.install(|| -> Result<f64> {
                let example = lesson.example(label, &end, &mut rng)?;
                let (losses, _) = trainer.imitate(&[&example], rate)?;
                Ok(losses.affinity + losses.together)
            })?;
            losses = Some([losses.map_or(loss, |losses| losses[0]), loss]);
        }
        if whole.reason().is_some() {
            break;
        }
    }
    let steps = trainer.step();
    let mut stages = card.training.as_array().cloned().unwrap_or_default();
    stages.push(serde_json::json!({
        "stage": "finetune", "graph": problem.graph().name(), "steps": steps, "seed": how.seed,
    }));
    let card = Card { training: stages.into(), ..card.clone() };
    Ok(Some(Finetuned { network: trainer.network, card, steps, losses, best }))
}

/// Searches for a plan with the network, starting from the best plan known.
fn look(
    problem: &Problem,
    network: &Network,
    how: &Finetuning,
    round: u32,
    time: Duration,
    best: Option<&Plan>,
) -> Result<Solution> {
    let mut silent = Silent;
    let limits = Limits { time: Some(time), ..how.limits };
    let (seed, threads) = (how.seed.wrapping_add(u64::from(round)), how.threads);
    let settings = Settings { limits, seed, threads, interrupt: how.interrupt.clone() };
    let mut context = Context::new(settings, &mut silent);
    context.warm_start = best.map(|plan| plan.placement.clone());
    let origin = Origin::Network(Box::new(network.clone()));
    let policy = Policy::new("policy", "the policy in training", origin, Parts::ALL);
    Ok(policy.solve(problem, &mut context)?)
}

/// Adds a plan to the best few plans known.
fn with_plan(known: Option<Label>, plan: &Plan, bound: f64) -> Label {
    let labelled = Labelled { value: plan.value(), placement: plan.placement.clone() };
    let mut plans = known.map_or_else(Vec::new, |label| label.plans);
    if !plans.contains(&labelled) {
        plans.push(labelled);
    }
    plans.sort_by(|a, b| a.value.total_cmp(&b.value));
    plans.truncate(MAX_PLANS);
    let value = plans[0].value;
    plans.retain(|plan| plan.value <= value * (1.0 + WORSE));
    Label { value, bound: bound.min(value), proved: bound >= value, plans }
}
