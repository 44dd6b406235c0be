//! The fastest setting of llama.cpp that fits: devices in order, layers, projections on the host, and the micro-batch.
//!
//! A plan puts the first slots of a model on the host and the others on devices, in ranges along their order. A layer on a
//! device may have projections of its feed-forward block or of its routed experts on the host instead
//! (`--override-tensor`, `--n-cpu-moe`). [`solve`] finds the plan with the fewest seconds, by the rules of memory and the
//! formula of speed of [`stagewright_llamacpp`], among all orders of all sets of devices, all cuts and all such projections, so
//! that every device and RAM hold what they are given.
//!
//! Three facts make the search of plans with projections at home or on the host exact and short. A device's choices depend on
//! nothing but its range of slots, so that they are a knapsack (`chain`) and plans are paths over slots and sets of used devices
//! (`search`). What a plan shares is fixed from outside: the first device and the largest weight on the host, for which it keeps
//! room, and the micro-batch (`prices`). And the linear relaxation of every knapsack is a closed form, which orders and prunes
//! the searches (`relaxation`).
//!
//! A projection may also be on a device that does not have its layer, at two changes of device a layer. Such plans are bounded by
//! prices of room (`guests`, `anywhere`); where the bound is below the plan, they are looked for (`elsewhere`, `moves`, `cuts`).
//! They pay where a device has room left for a projection and not for a layer, and where a long context is mostly empty: then
//! caches and attention of some layers are best on the host, and their projections on devices.
//!
//! # Bound
//! No plan is below the bound, wherever its projections are. It equals the best plan where no device has room left that some
//! other layer would take. A search that is stopped leaves the least relaxation of what it did not finish. Where projections have
//! sizes without a large common divisor, they are rounded up to units of a 65,536th of the largest memory, and the bound is that of
//! the relaxation.
//!
//! # Not searched
//! Weights of layers on the processor of a chip whose devices share its memory, which would free nothing. Overrides of anything
//! but projections of feed-forward blocks and routed experts. The output is on the last device, and caches are with their layers.

mod anywhere;
mod chain;
mod cuts;
mod devices;
mod elsewhere;
mod fit;
mod guests;
mod model;
mod moves;
mod plan;
mod prices;
mod question;
mod relaxation;
pub mod rules;
mod search;
mod tensors;
mod unit;

use stagewright_core::solver::Context;
use stagewright_core::solver::StopReason;
use stagewright_core::tolerance;
use stagewright_formats::{InputError, Result};
use stagewright_llamacpp::memory::Memory;
use stagewright_llamacpp::{Placement, Setting, place};

use devices::Used;
use elsewhere::Elsewhere;
use model::Model;
use prices::{Prices, Sizes, scenarios_of};
pub use question::Question;
use question::{DeviceKind, kinds};
use relaxation::Relaxation;
use search::{Path, Search};
use unit::Unit;

/// Limit of the number of sets of used devices.
const MOST_SETS: usize = 4096;

/// Rules whose plans count as well: `fit`, which moves projections to other devices, and the others if the search found none.
const RULES_OF_OTHERS: [&str; 3] = ["fit", "n-cpu-moe", "memory"];

/// A plan: a setting, with what follows from it.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Options of the command line.
    pub setting: Setting,
    /// Location of every tensor.
    pub placement: Placement,
    /// Bytes in every memory.
    pub memory: Memory,
    /// Seconds of the goal.
    pub seconds: f64,
}

/// The answer to a question.
#[derive(Debug, Clone)]
pub struct Solution {
    /// The fastest plan that was found.
    pub plan: Option<Plan>,
    /// Seconds that no plan is below: 0 if nothing is known, infinite if there is no plan.
    pub bound: f64,
    /// What ended the search, if not its own end.
    pub stop: Option<StopReason>,
}

impl Solution {
    /// Keeps the faster plan.
    fn keep(&mut self, plan: Option<Plan>) {
        let best = self.plan.as_ref().map_or(f64::INFINITY, |best| best.seconds);
        self.plan = plan.filter(|plan| plan.seconds < best).or(self.plan.take());
    }
}

impl Plan {
    /// A setting with what follows from it; `None` if it does not fit, or if a device has no measured speed.
    ///
    /// # Errors
    /// If the memory of the model is not followed (L007, L009).
    pub fn of(label: &str, question: &Question<'_>, setting: Setting) -> Result<Option<Plan>> {
        let placement = place(question.structure, &setting);
        let memory = Memory::of(label, question.structure, &setting, &placement)?;
        let seconds = question.goal.seconds(question.structure, &setting, &placement, question.host);
        let is_fitting = memory.shortfalls(&setting, question.host).is_empty();
        Ok(seconds.filter(|_| is_fitting).map(|seconds| Plan { setting, placement, memory, seconds }))
    }
}

/// Finds the fastest plan. `label` names the model in errors.
///
/// # Errors
/// If a device has no measured speed of prompts (L012), there are too many unlike devices (L013), or the memory of the model is
/// not followed (L007, L009).
pub fn solve(label: &str, question: &Question<'_>, context: &mut Context<'_>) -> Result<Solution> {
    if let Some(device) = question.unmeasured() {
        return Err(not_measured(label, &device.name));
    }
    let kinds = kinds(question.devices);
    let Some(used) = Used::new(&kinds, MOST_SETS) else {
        return Err(too_many(label, question.devices.len()));
    };
    let mut solution = Solution { plan: None, bound: f64::INFINITY, stop: None };
    for &micro_batch in question.micro_batches {
        host_plans(label, question, &kinds, micro_batch, &mut solution)?;
        if !kinds.is_empty() {
            device_plans(label, question, &kinds, &used, micro_batch, &mut solution, context)?;
        }
    }
    for name in RULES_OF_OTHERS {
        if (solution.plan.is_none() || name == "fit")
            && let Some(setting) = rules::rule(label, question, name)?
        {
            solution.keep(Plan::of(label, question, setting)?);
        }
    }
    if !kinds.is_empty() && !question.has_one_memory() {
        // A bound on all plans takes the place of one on plans with projections at home or on the host.
        solution.bound = f64::INFINITY;
        for &micro_batch in question.micro_batches {
            let elsewhere = Elsewhere { label, question, kinds: &kinds, used: &used, micro_batch };
            elsewhere.run(&mut solution, context)?;
        }
    }
    if let Some(plan) = &solution.plan {
        // Sums in another order differ in the last digits.
        let is_met = tolerance::gap(plan.seconds, solution.bound) == 0.0;
        solution.bound = if is_met { plan.seconds } else { solution.bound.min(plan.seconds) };
    }
    // A bound that is met is a proof, whatever ended the search.
    if solution.bound >= solution.plan.as_ref().map_or(f64::INFINITY, |plan| plan.seconds) {
        solution.stop = None;
    }
    Ok(solution)
}

/// Plans with all slots on the host: without devices, and with each kind of device for large batches.
fn host_plans(
    label: &str,
    question: &Question<'_>,
    kinds: &[DeviceKind],
    micro_batch: u64,
    solution: &mut Solution,
) -> Result<()> {
    if question.has_one_memory() {
        return Ok(());
    }
    let alone = question.setting(Vec::new(), micro_batch);
    let with = |kind: &DeviceKind| {
        let setting = question.setting(vec![kind.device.clone()], micro_batch);
        Setting { layers: Some(0), ..setting }
    };
    for setting in [alone].into_iter().chain(kinds.iter().map(with)) {
        solution.keep(Plan::of(label, question, setting)?);
    }
    Ok(())
}

/// Plans with slots on devices, one scenario after the other in the order of their relaxations.
fn device_plans(
    label: &str,
    question: &Question<'_>,
    kinds: &[DeviceKind],
    used: &Used,
    micro_batch: u64,
    solution: &mut Solution,
    context: &mut Context<'_>,
) -> Result<()> {
    let probe = question.setting(vec![kinds[0].device.clone()], micro_batch);
    let model = Model::new(question.structure, &probe);
    let sizes = Sizes::new(label, &model, &probe)?;
    let memory = question.devices.iter().map(|device| device.memory).max().unwrap_or(0);
    let unit = Unit::new(&model, memory);
    let mut scenarios: Vec<(f64, Prices<'_>, Relaxation)> = Vec::new();
    for scenario in scenarios_of(question, &model, kinds, &sizes) {
        if let Some(reason) = context.stop().reason() {
            // Nothing is known of scenarios without a relaxation.
            (solution.stop, solution.bound) = (Some(reason), 0.0);
            return Ok(());
        }
        let prices = Prices::new(question, &probe, &model, &sizes, kinds, scenario, None);
        let relaxation = Relaxation::new(&prices, used);
        scenarios.push((relaxation.bound, prices, relaxation));
    }
    scenarios.sort_by(|a, b| a.0.total_cmp(&b.0));
    for (bound, prices, relaxation) in &scenarios {
        let best = solution.plan.as_ref().map_or(f64::INFINITY, |plan| plan.seconds);
        // At equal speed the first plan stays.
        if *bound >= best {
            break;
        }
        // A target gap is not looked at: this bound leaves out plans with projections elsewhere.
        let ended = context.stop().reason();
        if ended.is_some() {
            solution.stop = ended;
            solution.bound = solution.bound.min(*bound);
            break;
        }
        let stop = context.stop();
        let mut search = Search::new(prices, used, relaxation, unit, question.host.memory, stop);
        let rounded = search.run(best, Some(&relaxation.path(prices, used)));
        let limit = rounded.as_ref().map_or(best, |path| path.seconds);
        let path = search.run(limit, None).or(rounded);
        if let Some(reason) = stop.reason() {
            solution.stop = Some(reason);
            solution.bound = solution.bound.min(*bound);
        } else if !unit.is_exact {
            solution.bound = solution.bound.min(*bound);
        }
        if let Some(path) = path
            && !checked(label, question, prices, &path, unit, micro_batch, solution)?
        {
            solution.bound = solution.bound.min(*bound);
        }
    }
    Ok(())
}

/// Keeps the plan of a path. Returns whether it fits, as it does unless devices share the memory of the processor.
fn checked(
    label: &str,
    question: &Question<'_>,
    prices: &Prices<'_>,
    path: &Path,
    unit: Unit,
    micro_batch: u64,
    solution: &mut Solution,
) -> Result<bool> {
    let mut setting = plan::setting(question, prices, unit, path, micro_batch);
    let mut found = Plan::of(label, question, setting.clone())?;
    if found.is_none() && setting.overrides.is_empty() {
        setting.overrides.extend(plan::without_effect(&place(question.structure, &setting)));
        found = Plan::of(label, question, setting)?;
    }
    // The one memory of a chip holds both sides, which no scenario changes.
    let is_expected = question.has_one_memory() && found.is_none();
    debug_assert!(
        is_expected || found.as_ref().is_some_and(|plan| (plan.seconds / path.seconds - 1.0).abs() < 1e-9),
        "the search and the rules agree: {} and {path:?}",
        found.as_ref().map_or(f64::NAN, |plan| plan.seconds)
    );
    let fits = found.is_some() || is_expected;
    if let Some(plan) = &found
        && let Some(setting) = plan::without_idle_first(&plan.setting)
        && let Some(plan) = Plan::of(label, question, setting)?
    {
        // At equal speed without it.
        solution.keep(Some(plan));
    }
    solution.keep(found);
    Ok(fits)
}

fn not_measured(label: &str, device: &str) -> InputError {
    let message = format!("how fast `{device}` reads prompts was not measured");
    let help = "plan for decode, or give a `llama-bench` output of this machine with --costs";
    InputError::at_path(stagewright_formats::code::L::L012, label, "the machine", message, help)
}

fn too_many(label: &str, count: usize) -> InputError {
    let message = format!("{count} devices of many kinds form more than {MOST_SETS} sets");
    let help = "leave devices out: those that are alike count once";
    InputError::at_path(stagewright_formats::code::L::L013, label, "the machine", message, help)
}
