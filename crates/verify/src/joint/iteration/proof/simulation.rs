//! The time of a pipeline of the given cut on one kind, with minimum times of its stages.
//!
//! The schedule takes no less if a pass takes longer: under zero-bubble-2p, too, since a device begins later by as much as a
//! forward pass before it takes longer, and ends later by at least that. So it takes at least as long as with the fastest configurations that
//! fit into the memory of each stage, each pass by itself: with a single configuration, this is its time. On a device with
//! several stages, a stage has the memory that the states of the others leave.

use std::collections::BTreeMap;

use stagewright_core::document::Schedule;

use super::configurations::{self, Group};
use super::layers::Layers;
use super::place::{Place, Priced, Transfers};
use super::{Effort, Exhausted};
use crate::joint::iteration::order::{self, Pipeline};
use crate::joint::iteration::schedule::{self, Times};
use crate::joint::iteration::stage::Sums;
use crate::joint::iteration::{MOST_PASSES, memory};

/// Steps charged for a pass.
const STEPS_OF_PASS: u64 = 4;

/// Layers of a class in a stage.
type Classes<'p> = Vec<(usize, &'p Priced)>;

/// Whether no pipeline of the given cut takes less than the cutoff. `false` if the cut is not given, or the schedule is too
/// long.
pub(super) fn excludes(
    layers: &Layers,
    place: &Place,
    transfers: &Transfers,
    pipeline: &Pipeline,
    cutoff: f64,
    effort: &mut Effort,
) -> Result<bool, Exhausted> {
    let Some(cut) = &layers.cut else { return Ok(false) };
    let passes = (pipeline.sorts() * (cut.len() - 1)) as u64;
    let passes = passes.saturating_mul(pipeline.microbatches as u64);
    if passes > MOST_PASSES {
        return Ok(false);
    }
    effort.spend(passes * STEPS_OF_PASS + layers.len() as u64)?;

    let mut stages: Vec<Classes> = Vec::with_capacity(cut.len() - 1);
    for ends in cut.windows(2) {
        let mut counts: BTreeMap<usize, usize> = BTreeMap::new();
        layers.class_of[ends[0]..ends[1]].iter().for_each(|&class| *counts.entry(class).or_default() += 1);
        let priced = counts.into_iter().map(|(class, count)| Some((count, place.classes[class].as_ref()?)));
        // A layer that cannot run is in no pipeline.
        let Some(classes) = priced.collect() else { return Ok(true) };
        stages.push(classes);
    }
    let sums: Vec<Sums> = stages.iter().map(least).collect();
    let memory = memory::of_stages(&sums, pipeline);
    if memory.iter().any(|memory| memory.bytes > place.limit) {
        return Ok(true);
    }

    let mut states = vec![0.0; pipeline.devices];
    let mut hosts = vec![0.0; pipeline.devices];
    let mut updates = vec![0.0; pipeline.devices];
    for (stage, sums) in sums.iter().enumerate() {
        let device = pipeline.device(stage);
        states[device] += sums.state;
        hosts[device] += sums.host;
        updates[device] += sums.update;
    }
    if hosts.iter().any(|&bytes| bytes > place.host_limit) {
        return Ok(true);
    }
    let is_apart = order::has_weights_apart(pipeline.schedule);
    let mut times: Vec<Times> = Vec::with_capacity(stages.len());
    for (stage, (classes, ends)) in stages.iter().zip(cut.windows(2)).enumerate() {
        let in_flight = match pipeline.schedule {
            Schedule::Interleaved | Schedule::DualPipeV => [memory[stage].in_flight; 2],
            _ => pipeline.in_flight(stage),
        };
        let room = place.limit - states[pipeline.device(stage)];
        let groups: Vec<Group> =
            classes.iter().map(|&(count, priced)| Group { count, settings: &priced.settings }).collect();
        let points = configurations::fastest(&groups, in_flight.map(|count| count as f64), room, effort)?;
        let Some(backward) = points.iter().map(|point| point.backward).reduce(f64::min) else {
            return Ok(true);
        };
        let weight = if is_apart { least_weight(classes) } else { 0.0 };
        let forward: f64 = classes.iter().map(|&(count, priced)| count as f64 * priced.forward).sum();
        let is_crossed =
            |boundary: Option<usize>| boundary.is_some_and(|boundary| pipeline.is_crossed(boundary));
        let there = if is_crossed(stage.checked_sub(1)) { transfers[ends[0]][0] } else { 0.0 };
        let is_last = stage + 1 == stages.len();
        let back = if !is_last && is_crossed(Some(stage)) { transfers[ends[1]][1] } else { 0.0 };
        times.push([forward + there, backward + back, weight]);
    }
    Ok(schedule::seconds(&times, &updates, pipeline) >= cutoff)
}

/// Figures of a stage, each with the configurations that need least memory.
fn least(classes: &Classes) -> Sums {
    let mut sums = Sums::default();
    for &(count, priced) in classes {
        let workspaces = priced.settings.iter().map(|setting| setting.workspace);
        sums.state += count as f64 * priced.state;
        sums.host += count as f64 * priced.host;
        sums.update += count as f64 * priced.update;
        sums.activations[0] += count as f64 * priced.least_kept();
        sums.workspace = sums.workspace.max(workspaces.fold(f64::INFINITY, f64::min));
    }
    sums
}

/// Minimum seconds of the separate weight gradients of a stage.
fn least_weight(classes: &Classes) -> f64 {
    let of_layer = |priced: &Priced| {
        let weights = priced.settings.iter().map(|setting| (setting.both - setting.backward).max(0.0));
        weights.fold(f64::INFINITY, f64::min)
    };
    classes.iter().map(|&(count, priced)| count as f64 * of_layer(priced)).sum()
}
