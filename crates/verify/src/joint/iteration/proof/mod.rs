//! The proof of a bound: no plan that the objective allows takes less. Degrees of tensor parallelism and microbatches that are
//! not given are at most 64, as `docs/joint.md` says.
//!
//! [`space`] lists the combinations of microbatch, degrees of data, context and expert parallelism, stage of ZeRO, groups of
//! shards, states on the device or the host, and schedule, and the degrees of tensor parallelism of every kind of devices.
//! For each of them, pipelines on one kind and pipelines on several are excluded, in these ways:
//!
//! - [`screen`] bounds them by the work of all layers, with the minimum time of every layer;
//! - [`program`] lays out the stages of pipelines under 1F1B and both zero-bubble schedules from the last to the first, with
//!   the fastest configurations that fit into memory ([`configurations`]) and the time around one stage ([`schedule`]), and
//!   drops states that can only end at or above the bound;
//! - for pipelines with several stages per device, the work and memory of all layers are treated as a fluid over the devices
//!   ([`fluid`]).
//!
//! If the cut is given, its schedule on one kind is run with the minimum times of its stages ([`simulation`]).
//!
//! # Soundness
//!
//! A plan has one combination and is a pipeline on one kind or on several. Its figures are those of [`super::Plan`], from the
//! same costs of layers ([`place`]). A relaxation replaces some of them by lower ones:
//!
//! - Layers are grouped into classes whose costs depend on the same figures, bit by bit ([`layers`]). They are the
//!   layers of the plan, which are checked to be exactly those of the graph ([`rule`]), since smaller layers could be
//!   recomputed in part and larger ones could not be cut, and to be in the order of the plan's stages. The plan's own
//!   combination is checked to be in the list.
//! - Transfers on one kind use the link that spans the number of devices; numbers that fit into a server and larger
//!   numbers are excluded separately. On several kinds, a transfer uses the slower of the two stages' links to other
//!   servers, so the link of the stage that pays for the transfer is never slower.
//! - With a runtime, the costs of layers depend on whether a pipeline has one device, several in a server, or several in
//!   several servers. Each of these depths is excluded with its own costs, and several kinds are several servers. What an
//!   iteration takes besides the schedule and the updates is subtracted from the bound.
//! - With states on the host, updates take their time there, and kinds without a host have no stage. The host's memory limits
//!   the states of every stage, all layers together and, if the cut is given, every device; [`fluid`] ignores it. Activations
//!   take nothing of it.
//! - A stage with devices of two kinds is at a place of its own, as if these were another kind: costs of a layer are
//!   the larger ones of both, and memory is the smaller. Its transfers use the slower of the links of both to other
//!   servers, and none of its pipelines is in one server. [`program`] gives no more stages to the three places than
//!   there are devices; other modules take the room of each place for itself, which is more.
//! - If all ZeRO stages are allowed, a single copy is tried only with stage 0, and without experts only expert
//!   parallelism of degree 1 is tried. Both take as long as the alternatives and need no more memory.
//! - The documentation of each module states the inequalities that it uses.
//!
//! Figures are compared with the bound lowered by the tolerance of [`tolerance::round_down`], which is far above the rounding
//! of sums, and memory with twice the tolerance of [`tolerance::fits`]. The work is counted, so the verdict is the same
//! on every machine; a proof that takes too long does not count.

mod configurations;
mod fluid;
mod layers;
mod place;
mod program;
mod rule;
mod schedule;
mod screen;
mod simulation;
mod space;

use std::ops::RangeInclusive;

use stagewright_core::document::{JointExecutionDocument, JointPlanDocument, Parallelism, Schedule};
use stagewright_core::tolerance;

use super::configuration::Configuration;
use super::context::{self, Limits};
use super::devices::Devices;
use super::host::Home;
use super::model::Model;
use super::order::Pipeline;
use super::runtime::Depth;
use super::stage::Stage;
use crate::joint::placed::Placed;
use crate::joint::rules::Allowed;
use crate::read::Cluster;
use fluid::Fluid;
use layers::Layers;
use place::{Place, Sums, Transfers};
use program::{Program, Side};
use screen::Screen;
use space::Space;

/// Maximum number of steps of a proof: about half a minute.
const MOST_STEPS: u64 = 1 << 31;

/// Steps charged for the costs of a class of layers.
const STEPS_OF_COSTS: u64 = 64;

/// The remaining steps of a proof.
#[derive(Debug)]
struct Effort {
    left: u64,
}

/// The steps of a proof are exhausted.
#[derive(Debug)]
struct Exhausted;

impl Effort {
    fn spend(&mut self, steps: u64) -> Result<(), Exhausted> {
        self.left = self.left.checked_sub(steps).ok_or(Exhausted)?;
        Ok(())
    }
}

/// The problem whose plans are bounded.
#[derive(Debug, Clone, Copy)]
pub(super) struct Problem<'a> {
    pub(super) model: &'a Model<'a>,
    pub(super) cluster: &'a Cluster<'a>,
    pub(super) plan: &'a JointPlanDocument,
    /// Samples of the graph.
    pub(super) samples: f64,
    /// Numbers of heads, which degrees of tensor parallelism must divide.
    pub(super) heads: &'a [u64],
    /// Degrees of context parallelism that the graph allows.
    pub(super) limits: &'a Limits,
    /// The kinds of stages with devices of two kinds, if plans may have these.
    pub(super) mixed: Option<[usize; 2]>,
}

/// Whether no plan of `layers` takes less than a bound, up to rounding. `false` means undecided.
pub(super) fn proves(problem: &Problem, layers: &[(&str, Placed)], bound: f64) -> bool {
    // Every iteration has the seconds that its runtime takes besides.
    let besides = problem.model.runtime.map_or(0.0, |runtime| runtime.iteration_s);
    let cutoff = tolerance::round_down(bound) - besides;
    // No duration is negative.
    cutoff <= 0.0
        || Proof::new(problem, layers, cutoff)
            .is_some_and(|proof| proof.holds(&mut Effort { left: MOST_STEPS }).unwrap_or(false))
}

/// A pipeline with `chunks` stages on each of its devices.
fn pipeline([devices, chunks]: [usize; 2], execution: &JointExecutionDocument) -> Pipeline {
    let (schedule, microbatches) = (execution.schedule, execution.microbatches as usize);
    Pipeline { schedule, devices, chunks, microbatches }
}

/// Whether a device has several stages.
fn has_chunks(schedule: Schedule) -> bool {
    matches!(schedule, Schedule::Interleaved | Schedule::DualPipeV)
}

/// The proof that no plan takes less than the cutoff.
#[derive(Debug)]
struct Proof<'a> {
    problem: &'a Problem<'a>,
    layers: Layers<'a>,
    space: Space,
    /// Configurations that numbered layers may have.
    configurations: Vec<Configuration>,
    cutoff: f64,
}

impl<'a> Proof<'a> {
    fn new(problem: &'a Problem<'a>, layers: &[(&str, Placed)], cutoff: f64) -> Option<Self> {
        let allowed = Allowed::new(problem.plan);
        let is_allowed = |&configuration: &Configuration| match allowed.has(Parallelism::Recompute) {
            true => configuration.is_allowed(allowed),
            false => configuration == Configuration::None,
        };
        let configurations: Vec<Configuration> = Configuration::ALL.into_iter().filter(is_allowed).collect();
        if configurations.is_empty() {
            return None;
        }
        let Problem { plan, cluster, model, .. } = *problem;
        let space = Space::new(problem)?;
        if !space.has(plan, cluster) {
            return None;
        }
        let layers = Layers::new(model, cluster, layers, plan.objective.cut.as_deref())?;
        Some(Proof { problem, layers, space, configurations, cutoff })
    }

    /// Whether all combinations are excluded.
    fn holds(&self, effort: &mut Effort) -> Result<bool, Exhausted> {
        for execution in &self.space.executions {
            for depths in self.depths() {
                if !self.excludes_depths(depths, execution, effort)? {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    /// The depths of pipelines, those with the same costs of layers together. Costs depend on the depth with a runtime.
    fn depths(&self) -> Vec<&'static [Depth]> {
        match self.problem.model.runtime {
            None => vec![&Depth::ALL],
            Some(_) => Depth::ALL.chunks(1).collect(),
        }
    }

    /// Whether no pipeline of some depths takes less than the cutoff.
    fn excludes_depths(
        &self,
        depths: &[Depth],
        execution: &JointExecutionDocument,
        effort: &mut Effort,
    ) -> Result<bool, Exhausted> {
        // The places of every kind, and those on two, by degree of tensor parallelism.
        let mut kinds = Vec::with_capacity(self.space.tensor.len());
        for (on, degrees) in self.space.kinds.iter().zip(&self.space.tensor) {
            if on.len() > 1 && has_chunks(execution.schedule) {
                continue;
            }
            effort.spend((degrees.len() * self.layers.classes.len()) as u64 * STEPS_OF_COSTS)?;
            let degrees = degrees.iter().filter(|&&tensor| self.may_split(tensor, execution));
            let places = degrees.filter_map(|&tensor| self.place(on, tensor, depths[0], execution));
            kinds.push(places.collect::<Vec<Place>>());
        }
        kinds.retain(|places| !places.is_empty());
        if !kinds.iter().flatten().all(Place::is_moderate) {
            return Err(Exhausted);
        }
        for place in kinds.iter().flatten() {
            if !self.excludes_one_kind(place, depths, execution, effort)? {
                return Ok(false);
            }
        }
        // Devices of several kinds are in several servers.
        if kinds.len() < 2 || !depths.contains(&Depth::Across) || has_chunks(execution.schedule) {
            return Ok(true);
        }
        // All combinations of the degrees of the kinds.
        let combinations = kinds.iter().try_fold(1usize, |count, places| count.checked_mul(places.len()));
        for number in 0..combinations.ok_or(Exhausted)? {
            let mut rest = number;
            let places = kinds.iter().map(|places| {
                let place = &places[rest % places.len()];
                rest /= places.len();
                place
            });
            if !self.excludes_several_kinds(&places.collect::<Vec<_>>(), execution, effort)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Whether a degree of tensor parallelism divides heads as the exchange of tokens needs it.
    fn may_split(&self, tensor: u64, execution: &JointExecutionDocument) -> bool {
        let over = context::over_heads(tensor, execution.context, execution.exchange);
        self.problem.heads.iter().all(|heads| heads.is_multiple_of(over))
    }

    /// A kind of devices, or two, with a degree of tensor parallelism; `None` if there are too few devices for a stage,
    /// or no host for states that are there.
    fn place(
        &self,
        kinds: &[usize],
        tensor: u64,
        depth: Depth,
        execution: &JointExecutionDocument,
    ) -> Option<Place<'a>> {
        let Problem { cluster, samples, model, .. } = *self.problem;
        let degrees = [tensor, u64::from(execution.data), u64::from(execution.context)];
        let devices = Devices::on(cluster, model.runtime, kinds, degrees);
        let side = |(&kind, &devices): (&usize, &Devices<'a>)| {
            let home = Home::new(devices.kind.document, execution)?;
            Some((kind, Stage::new(devices, home, execution, samples, depth)))
        };
        let sides: Vec<(usize, Stage)> = kinds.iter().zip(&devices).map(side).collect::<Option<_>>()?;
        Place::new(&self.layers, devices, &sides, &self.configurations, model.graph.is_version_2)
    }

    /// Whether no pipeline on one kind, of some depths, takes less than the cutoff.
    fn excludes_one_kind(
        &self,
        place: &Place,
        depths: &[Depth],
        execution: &JointExecutionDocument,
        effort: &mut Effort,
    ) -> Result<bool, Exhausted> {
        let in_server = place.in_server().min(place.room);
        let is_of = |devices: &usize| {
            depths.contains(match devices {
                1 => &Depth::Alone,
                _ if *devices <= in_server => &Depth::Inside,
                _ => &Depth::Across,
            })
        };
        for (devices, with) in [(1..=in_server, in_server), (in_server + 1..=place.room, place.room)] {
            // The devices of given depths are an interval.
            let first = devices.clone().find(is_of).unwrap_or(usize::MAX);
            let last = devices.rev().find(is_of).unwrap_or(0);
            let devices = first..=last;
            if devices.is_empty() {
                continue;
            }
            let transfers = place.transfers(&self.layers, Some(with));
            let Some(screen) = Screen::new(&self.layers, &[place], Some(&transfers)) else { return Ok(true) };
            if has_chunks(execution.schedule) {
                if self.may_have_chunks(place, &screen, &transfers, devices, execution, effort)? {
                    return Ok(false);
                }
                continue;
            }
            let left = self.left(&screen, devices, execution, effort)?;
            let Some(&stages) = left.first() else { continue };
            let pipeline = pipeline([stages, 1], execution);
            if simulation::excludes(&self.layers, place, &transfers, &pipeline, self.cutoff, effort)? {
                continue;
            }
            let sums = Sums::new(&self.layers, place);
            let side = || Side { place, sums: &sums, transfers: &transfers };
            if !self.excludes(vec![side()], &left, execution, effort)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Whether no pipeline on at least two of several kinds takes less than the cutoff.
    fn excludes_several_kinds(
        &self,
        places: &[&Place],
        execution: &JointExecutionDocument,
        effort: &mut Effort,
    ) -> Result<bool, Exhausted> {
        effort.spend((places.len() * self.layers.classes.len()) as u64 * STEPS_OF_COSTS)?;
        let Some(screen) = Screen::new(&self.layers, places, None) else { return Ok(true) };
        let limit = screen.room().min(self.layers.len());
        let left = self.left(&screen, 2..=limit, execution, effort)?;
        if left.is_empty() {
            return Ok(true);
        }
        let costs: Vec<(Sums, Transfers)> = places
            .iter()
            .map(|place| (Sums::new(&self.layers, place), place.transfers(&self.layers, None)))
            .collect();
        let sides = places.iter().zip(&costs);
        let sides = sides.map(|(&place, (sums, transfers))| Side { place, sums, transfers });
        self.excludes(sides.collect(), &left, execution, effort)
    }

    /// Numbers of stages with which a pipeline may take less than the cutoff, as far as the work of all layers shows.
    fn left(
        &self,
        screen: &Screen,
        stages: RangeInclusive<usize>,
        execution: &JointExecutionDocument,
        effort: &mut Effort,
    ) -> Result<Vec<usize>, Exhausted> {
        let mut left = Vec::new();
        let may_have = |&stages: &usize| self.space.may_have(stages) && self.layers.may_be_cut(stages);
        for stages in stages.filter(may_have) {
            if screen.may_take_less(
                stages,
                execution.microbatches,
                execution.schedule,
                self.cutoff,
                effort,
            )? {
                left.push(stages);
            }
        }
        Ok(left)
    }

    /// Whether a pipeline of some number of devices, with several stages on each, may take less than the cutoff.
    fn may_have_chunks(
        &self,
        place: &Place,
        screen: &Screen,
        transfers: &Transfers,
        devices: RangeInclusive<usize>,
        execution: &JointExecutionDocument,
        effort: &mut Effort,
    ) -> Result<bool, Exhausted> {
        let microbatches = execution.microbatches;
        let is_folded = execution.schedule == Schedule::DualPipeV;
        let given = self.problem.plan.objective.chunks.map(|chunks| chunks as usize);
        let fluid = Fluid::new(&self.layers, place);
        for devices in devices.filter(|&devices| devices > 1 && self.space.may_have(devices)) {
            let may_run = match is_folded {
                true => microbatches as usize >= 2 * devices,
                false => (microbatches as usize).is_multiple_of(devices),
            };
            if !may_run {
                continue;
            }
            let most = if is_folded { 2 } else { usize::MAX };
            let chunks = (2..=most.min(self.layers.len() / devices))
                .filter(|&chunks| given.is_none_or(|given| given == chunks))
                .filter(|&chunks| self.layers.may_be_cut(devices * chunks));
            for chunks in chunks {
                effort.spend(1)?;
                let pipeline = pipeline([devices, chunks], execution);
                if !screen.may_have_chunks(&pipeline, self.cutoff) {
                    continue;
                }
                if simulation::excludes(&self.layers, place, transfers, &pipeline, self.cutoff, effort)? {
                    continue;
                }
                let Some(fluid) = &fluid else { return Ok(true) };
                if fluid.may_take_less(&pipeline, screen.crossed(&pipeline), self.cutoff, effort)? {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// Whether no pipeline with any of these numbers of stages takes less than the cutoff.
    fn excludes(
        &self,
        sides: Vec<Side>,
        stages: &[usize],
        execution: &JointExecutionDocument,
        effort: &mut Effort,
    ) -> Result<bool, Exhausted> {
        let (Some(&first), Some(&last)) = (stages.first(), stages.last()) else { return Ok(true) };
        let mut program = Program {
            layers: &self.layers,
            sides,
            microbatches: execution.microbatches,
            schedule: execution.schedule,
            stages: [first, last],
            cutoff: self.cutoff,
        };
        if execution.schedule == Schedule::OneFOneB {
            return program.excludes_all(effort);
        }
        // The memory of a stage depends on the total number of stages.
        for &stages in stages {
            program.stages = [stages; 2];
            if !program.excludes_all(effort)? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}
