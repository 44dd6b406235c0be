//! Costs of stages under given degrees, from the costs of their layers.

use stagewright_core::document::{ContextExchange, JointPartsDocument, LinkDocument, Schedule};

use super::collective::send;
use super::model::Model;
use super::runtime::Runtime;
use crate::choice::{Candidate, Outcome, least};

/// Names of the configurations of a layer, in the order of their indices.
pub const CONFIGURATIONS: [&str; 3] = ["none", "selective", "full"];

/// Degrees that all stages on a kind have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Degrees {
    /// Samples of a microbatch.
    pub(crate) microbatch: u32,
    pub(crate) data: u32,
    pub(crate) context: u32,
    /// How attentions exchange tokens; `None` without context parallelism.
    pub(crate) exchange: Option<ContextExchange>,
    pub(crate) expert: u32,
    pub(crate) zero: u32,
    /// Number of copies that divide states among themselves; `None` if all do.
    pub(crate) shards: Option<u32>,
    /// Whether states of the optimizer are in the host's memory, where updates run.
    pub(crate) offload: bool,
    pub(crate) tensor: u32,
}

impl Degrees {
    /// Number of copies of states outside experts.
    pub(crate) fn copies(&self) -> u32 {
        self.data.saturating_mul(self.context)
    }

    /// Devices of a stage.
    pub(crate) fn devices(&self) -> u64 {
        u64::from(self.tensor) * u64::from(self.copies())
    }

    /// Work of a device on a microbatch, as a share of the work on a batch of `samples`.
    pub(crate) fn share(&self, samples: f64) -> f64 {
        f64::from(self.microbatch) / (samples * f64::from(self.tensor) * f64::from(self.context))
    }
}

/// A configuration of a layer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Configuration {
    /// Index among [`CONFIGURATIONS`].
    pub(crate) index: u32,
    pub(crate) backward: f64,
    /// Seconds of weight gradients that run separately from the backward pass.
    pub(crate) weight: f64,
    /// Whether weight gradients of the layer run separately, so that activations are kept for them.
    pub(crate) is_apart: bool,
    /// Bytes of activations of a microbatch.
    pub(crate) activations: f64,
    pub(crate) workspace: f64,
}

impl Configuration {
    /// Seconds of the backward pass and of weight gradients.
    pub(crate) fn behind(&self) -> f64 {
        self.backward + self.weight
    }

    /// Bytes of activations of the microbatches in flight.
    pub(crate) fn held(&self, in_flight: InFlight) -> f64 {
        self.activations * if self.is_apart { in_flight.apart } else { in_flight.whole }
    }
}

/// Microbatches in flight on a stage.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct InFlight {
    /// Microbatches in flight until the backward pass has ended.
    pub(crate) whole: f64,
    /// Microbatches in flight until the separate weight gradients have ended.
    pub(crate) apart: f64,
}

impl InFlight {
    /// Microbatches in flight on stage `stage` of `depth`, with one stage per device and `microbatches` in a batch.
    pub(crate) fn new(schedule: Schedule, stage: u32, depth: u32, microbatches: u32) -> InFlight {
        let in_flight = |stages: u32| f64::from(kept(schedule, stages).min(microbatches));
        InFlight { whole: in_flight(depth - stage), apart: in_flight(depth) }
    }
}

/// Forward passes of a stage up to its first backward pass, with one stage per device and `stages` stages from this one
/// to the last, if there are as many microbatches. With the number of all stages, forward passes up to its first
/// separate weight gradient.
pub(super) fn kept(schedule: Schedule, stages: u32) -> u32 {
    if schedule == Schedule::ZeroBubbleTwice { 2 * stages - 1 } else { stages }
}

/// Costs of a layer.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct LayerCosts {
    /// Seconds by part, without recomputation, and bytes of states.
    pub(crate) parts: JointPartsDocument,
    /// Class of the layer; layers of one class have the same costs.
    pub(crate) class: usize,
    pub(crate) forward: f64,
    /// Configurations; the first is the fastest.
    pub(crate) configurations: Vec<Configuration>,
    /// Bytes of parameters, gradients and states of the optimizer in the memory of a device.
    pub(crate) state: f64,
    /// Bytes of states of the optimizer in the host's memory, for one device.
    pub(crate) host: f64,
    /// Seconds after the last microbatch.
    pub(crate) update: f64,
}

/// A stage with configurations.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct StageCosts {
    pub(crate) forward: f64,
    pub(crate) backward: f64,
    pub(crate) weight: f64,
    /// Minimum seconds of the backward pass and weight gradients over all choices.
    pub(crate) least_behind: f64,
    pub(crate) update: f64,
    pub(crate) state: f64,
    /// Bytes of the host's memory, for one device.
    pub(crate) host: f64,
    pub(crate) activations: f64,
    pub(crate) memory: f64,
    /// Index of the configuration of every layer among [`CONFIGURATIONS`].
    pub(crate) configurations: Vec<u32>,
}

/// Time to receive the tensors that cross the boundary before a layer, in the forward (0) or backward (1) pass.
pub(crate) fn receive(
    model: &Model,
    runtime: &Runtime,
    layer: usize,
    pass: usize,
    link: LinkDocument,
    degrees: Degrees,
) -> f64 {
    match model.crossing[pass].get(layer) {
        Some(&bytes) if bytes > 0.0 => runtime.transfers * send(link, bytes * degrees.share(model.samples)),
        _ => 0.0,
    }
}

/// Bytes that stages may use.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Room {
    /// Bytes of the memory of a device.
    pub(crate) device: f64,
    /// Bytes of the host's memory for one device.
    pub(crate) host: f64,
}

/// The costs of consecutive layers with the fastest configurations that fit, without transfers between stages. `None`
/// if no configurations fit.
pub(crate) fn stage(layers: &[&LayerCosts], room: Room, in_flight: InFlight) -> Option<StageCosts> {
    let state: f64 = layers.iter().map(|layer| layer.state).sum();
    let host: f64 = layers.iter().map(|layer| layer.host).sum();
    if host > room.host {
        return None;
    }
    let (chosen, is_fastest) = choose(layers, room.device - state, in_flight)?;
    let picked = || layers.iter().zip(&chosen).map(|(layer, &choice)| layer.configurations[choice]);
    let activations: f64 = picked().map(|configuration| configuration.held(in_flight)).sum();
    Some(StageCosts {
        forward: layers.iter().map(|layer| layer.forward).sum(),
        backward: picked().map(|configuration| configuration.backward).sum(),
        weight: picked().map(|configuration| configuration.weight).sum(),
        least_behind: match is_fastest {
            true => picked().map(|configuration| configuration.behind()).sum(),
            false => layers.iter().map(|layer| layer.configurations[0].behind()).sum(),
        },
        update: layers.iter().fold(0.0, |sum, layer| sum + layer.update),
        state,
        host,
        activations,
        memory: state
            + activations
            + picked().map(|configuration| configuration.workspace).fold(0.0, f64::max),
        configurations: picked().map(|configuration| configuration.index).collect(),
    })
}

/// Positions of the chosen configurations, and whether no choice is faster.
fn choose(layers: &[&LayerCosts], capacity: f64, in_flight: InFlight) -> Option<(Vec<usize>, bool)> {
    let fastest: f64 = layers.iter().map(|layer| layer.configurations[0].held(in_flight)).sum();
    let workspace = layers.iter().map(|layer| layer.configurations[0].workspace).fold(0.0, f64::max);
    if fastest + workspace <= capacity {
        return Some((vec![0; layers.len()], true));
    }
    let mut open = layers.iter().filter(|layer| layer.configurations.len() > 1);
    let first = open.next()?;
    if open.all(|layer| layer.class == first.class) {
        return alike(layers, first, capacity, in_flight).map(|chosen| (chosen, true));
    }
    let candidates: Vec<Vec<Candidate>> = layers
        .iter()
        .map(|layer| {
            let candidate = |(index, configuration): (usize, &Configuration)| Candidate {
                seconds: configuration.behind(),
                bytes: configuration.held(in_flight),
                workspace: configuration.workspace,
                index: index as u32,
            };
            layer.configurations.iter().enumerate().map(candidate).collect()
        })
        .collect();
    match least(&candidates, capacity, f64::NEG_INFINITY, f64::INFINITY) {
        Outcome::Found(choice) => {
            let chosen = choice.configurations.iter().map(|&index| index as usize).collect();
            Some((chosen, choice.is_best))
        }
        Outcome::Above(_) | Outcome::Undecided => None,
    }
}

/// The choice if all layers with several configurations are identical: the number of layers with each. The first
/// layers have the configuration that takes the least memory. O(layers).
fn alike(
    layers: &[&LayerCosts],
    first: &LayerCosts,
    capacity: f64,
    in_flight: InFlight,
) -> Option<Vec<usize>> {
    let is_open = |layer: &&&LayerCosts| layer.configurations.len() > 1;
    let count = layers.iter().filter(is_open).count();
    let others = || layers.iter().filter(|layer| !is_open(layer)).map(|layer| &layer.configurations[0]);
    let fixed: f64 = others().map(|configuration| configuration.held(in_flight)).sum();
    let other_workspace = others().map(|configuration| configuration.workspace).fold(0.0, f64::max);
    let configurations = &first.configurations;
    let bytes = |index: usize| configurations[index].held(in_flight);
    // Each number of layers with the last configuration is tried; at most one configuration is between the first and
    // the last.
    let (last, between) = (configurations.len() - 1, (configurations.len() > 2).then_some(1));
    let mut best: Option<(f64, usize, usize)> = None;
    for of_last in 0..=count {
        for some in [false, true] {
            let Some(middle) = between.filter(|_| some).or((!some).then_some(0)) else { continue };
            let used = [(0, true), (middle, some), (last, of_last > 0)];
            let used = used
                .iter()
                .filter(|(_, is_used)| *is_used)
                .map(|&(index, _)| configurations[index].workspace);
            let workspace = used.fold(other_workspace, f64::max);
            let needed =
                fixed + of_last as f64 * bytes(last) + (count - of_last) as f64 * bytes(0) + workspace
                    - capacity;
            let of_middle = match some {
                false if needed > 0.0 => continue,
                false => 0,
                true if bytes(0) <= bytes(middle) => continue,
                true => (needed / (bytes(0) - bytes(middle))).ceil().max(1.0) as usize,
            };
            if of_middle > count - of_last {
                continue;
            }
            let of_first = count - of_last - of_middle;
            let seconds = of_last as f64 * configurations[last].behind()
                + of_middle as f64 * configurations[middle].behind()
                + of_first as f64 * configurations[0].behind();
            if best.is_none_or(|best| seconds < best.0) {
                best = Some((seconds, of_last, of_middle));
            }
        }
    }
    let (_, of_last, of_middle) = best?;
    // The layers with several configurations take them in this order.
    let mut ranked = (0..count).map(|rank| match rank {
        rank if rank < of_last => last,
        rank if rank < of_last + of_middle => 1,
        _ => 0,
    });
    let position = |layer: &&LayerCosts| match layer.configurations.len() {
        1 => 0,
        _ => ranked.next().unwrap_or(0),
    };
    Some(layers.iter().map(position).collect())
}
