//! Costs of stages under given degrees, from the costs of their layers.

use stagewright_core::document::{
    CONFIGURATIONS, ContextExchange, JointPartsDocument, LinkDocument, Schedule,
};

use super::collective::send;
use super::model::Model;
use super::runtime::Runtime;
use crate::choice::{Candidate, Outcome, least};

/// Index of the configuration whose activations are in the host's memory.
pub(crate) const ON_HOST: usize = 3;

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
    /// Bytes of activations of a microbatch, in the memory of the device and in that of the host.
    pub(crate) activations: f64,
    pub(crate) host: f64,
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

    /// Bytes of the microbatches in flight in the host's memory.
    pub(crate) fn held_on_host(&self, in_flight: InFlight) -> f64 {
        self.host * in_flight.whole
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

impl LayerCosts {
    /// Costs on devices of two kinds, on which bytes are the same: the forward pass, the backward pass, and the
    /// backward pass with weight gradients each take as long as on the slower kind.
    pub(crate) fn beside(self, other: LayerCosts) -> LayerCosts {
        let passes = |costs: &LayerCosts| costs.forward + costs.configurations[0].behind();
        let [slow, fast] = if passes(&other) > passes(&self) { [other, self] } else { [self, other] };
        let of_slow = passes(&slow);
        let configuration = |(slow, fast): (&Configuration, &Configuration)| {
            let backward = slow.backward.max(fast.backward);
            Configuration { backward, weight: slow.behind().max(fast.behind()) - backward, ..*slow }
        };
        let configurations = slow.configurations.iter().zip(&fast.configurations).map(configuration);
        let mut costs = LayerCosts {
            forward: slow.forward.max(fast.forward),
            configurations: configurations.collect(),
            update: slow.update.max(fast.update),
            ..slow
        };
        costs.parts.compute_s += passes(&costs) - of_slow;
        costs
    }
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
    /// Bytes of the host's memory, for one device; they may exceed it if no configurations were found that do not.
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
/// if no configurations fit. Bounds on seconds ignore the memory that activations take of the host.
pub(crate) fn stage(layers: &[&LayerCosts], room: Room, in_flight: InFlight) -> Option<StageCosts> {
    let state: f64 = layers.iter().map(|layer| layer.state).sum();
    let states_on_host: f64 = layers.iter().map(|layer| layer.host).sum();
    if states_on_host > room.host {
        return None;
    }
    let left = Room { device: room.device - state, host: f64::INFINITY };
    let (chosen, is_fastest) = choose(layers, left, in_flight, 0.0)?;
    let pick = |chosen: &[usize], figure: &dyn Fn(&Configuration) -> f64| -> f64 {
        layers.iter().zip(chosen).map(|(layer, &choice)| figure(&layer.configurations[choice])).sum()
    };
    let on_host = |chosen: &[usize]| {
        states_on_host + pick(chosen, &|configuration| configuration.held_on_host(in_flight))
    };
    let seconds = pick(&chosen, &Configuration::behind);
    let least_behind = match is_fastest {
        true => seconds,
        false => layers.iter().map(|layer| layer.configurations[0].behind()).sum(),
    };
    let mut chosen = chosen;
    let mut host = on_host(&chosen);
    if host > room.host {
        let left = Room { host: room.host - states_on_host, ..left };
        let prices = HOST_PRICES.into_iter().map(|share| share * seconds / left.host).chain([f64::INFINITY]);
        let mut within = prices.filter_map(|price| Some(choose(layers, left, in_flight, price)?.0));
        if let Some(found) = within.find(|chosen| on_host(chosen) <= room.host) {
            (host, chosen) = (on_host(&found), found);
        }
    }
    let picked = || layers.iter().zip(&chosen).map(|(layer, &choice)| &layer.configurations[choice]);
    let activations = pick(&chosen, &|configuration| configuration.held(in_flight));
    let workspace = picked().map(|configuration| configuration.workspace).fold(0.0, f64::max);
    Some(StageCosts {
        forward: layers.iter().map(|layer| layer.forward).sum(),
        backward: picked().map(|configuration| configuration.backward).sum(),
        weight: picked().map(|configuration| configuration.weight).sum(),
        least_behind,
        update: layers.iter().fold(0.0, |sum, layer| sum + layer.update),
        state,
        host,
        activations,
        memory: state + activations + workspace,
        configurations: picked().map(|configuration| configuration.index).collect(),
    })
}

/// Prices of all of the host's memory that are tried if activations exceed it, relative to the seconds of a stage.
const HOST_PRICES: [f64; 8] = [1e-6, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0];

/// Positions of the chosen configurations, and whether no choice is faster. Where layers are not all alike, the host's memory
/// has no limit but a price in seconds per byte.
fn choose(layers: &[&LayerCosts], room: Room, in_flight: InFlight, price: f64) -> Option<(Vec<usize>, bool)> {
    let capacity = room.device;
    let fastest = || layers.iter().map(|layer| layer.configurations[0]);
    let held: f64 = fastest().map(|configuration| configuration.held(in_flight)).sum();
    let on_host: f64 = fastest().map(|configuration| configuration.held_on_host(in_flight)).sum();
    let workspace = fastest().map(|configuration| configuration.workspace).fold(0.0, f64::max);
    if held + workspace <= capacity && on_host <= room.host {
        return Some((vec![0; layers.len()], true));
    }
    let mut open = layers.iter().filter(|layer| layer.configurations.len() > 1);
    let first = open.next()?;
    if open.all(|layer| layer.class == first.class) {
        return alike(layers, first, room, in_flight).map(|chosen| (chosen, true));
    }
    let paid = |configuration: &Configuration| match configuration.held_on_host(in_flight) {
        0.0 => 0.0,
        bytes => price * bytes,
    };
    let candidates: Vec<Vec<Candidate>> = layers
        .iter()
        .map(|layer| {
            let candidate = |(index, configuration): (usize, &Configuration)| Candidate {
                seconds: configuration.behind() + paid(configuration),
                bytes: configuration.held(in_flight),
                workspace: configuration.workspace,
                index: index as u32,
            };
            let candidates = layer.configurations.iter().enumerate().map(candidate);
            candidates.filter(|candidate| candidate.seconds.is_finite()).collect()
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
/// layers have the configurations that are listed last. O(layers), or O(layers²) with four configurations.
fn alike(layers: &[&LayerCosts], first: &LayerCosts, room: Room, in_flight: InFlight) -> Option<Vec<usize>> {
    let is_open = |layer: &&&LayerCosts| layer.configurations.len() > 1;
    let count = layers.iter().filter(is_open).count();
    let others = || layers.iter().filter(|layer| !is_open(layer)).map(|layer| &layer.configurations[0]);
    let fixed: f64 = others().map(|configuration| configuration.held(in_flight)).sum();
    let fixed_on_host: f64 = others().map(|configuration| configuration.held_on_host(in_flight)).sum();
    let other_workspace = others().map(|configuration| configuration.workspace).fold(0.0, f64::max);
    let configurations = &first.configurations;
    // Of every configuration, the bytes on the device and on the host, and the seconds.
    let mut figures = [[0.0; 3]; CONFIGURATIONS.len()];
    for (figures, configuration) in figures.iter_mut().zip(configurations) {
        *figures =
            [configuration.held(in_flight), configuration.held_on_host(in_flight), configuration.behind()];
    }
    let kinds = configurations.len();
    let sum = |counts: &Counts, figure: usize| -> f64 {
        (0..kinds).map(|position| counts[position] as f64 * figures[position][figure]).sum()
    };
    let saved = figures[0][0] - figures[1][0];
    let mut best: Option<(f64, Counts)> = None;
    // Every number of layers with each configuration after the second is tried, without any with the second, and with the
    // fewest that fit. The first is the fastest, and has the others.
    let mut later: Counts = [0; CONFIGURATIONS.len()];
    loop {
        let of_later: usize = later.iter().sum();
        let with_first = sum(&later, 2) + (count - of_later) as f64 * figures[0][2];
        let may_be_better = best.is_none_or(|best| with_first < best.0);
        if !may_be_better && kinds > 2 {
            // More layers with the third configuration take no less.
            later[2] += count - of_later;
        }
        for has_second in [false, true] {
            if !may_be_better || has_second && saved <= 0.0 {
                continue;
            }
            let mut counts = later;
            counts[0] = count - of_later;
            let is_used =
                |position: usize| position == 0 || counts[position] > 0 || has_second && position == 1;
            let workspace = (0..kinds)
                .filter(|&position| is_used(position))
                .map(|position| configurations[position].workspace)
                .fold(other_workspace, f64::max);
            let excess = fixed + sum(&counts, 0) + workspace - room.device;
            if has_second {
                counts[1] = (excess / saved).ceil().max(1.0) as usize;
                if counts[1] > counts[0] {
                    continue;
                }
                counts[0] -= counts[1];
            } else if excess > 0.0 {
                continue;
            }
            if fixed_on_host + sum(&counts, 1) > room.host {
                continue;
            }
            let seconds = sum(&counts, 2);
            if best.is_none_or(|best| seconds < best.0) {
                best = Some((seconds, counts));
            }
        }
        if !advance(&mut later[2..kinds], count) {
            break;
        }
    }
    let (_, counts) = best?;
    let positions = counts.iter().enumerate().rev();
    let mut ranked = positions.flat_map(|(position, &count)| std::iter::repeat_n(position, count));
    let position = |layer: &&LayerCosts| match layer.configurations.len() {
        1 => 0,
        _ => ranked.next().unwrap_or(0),
    };
    Some(layers.iter().map(position).collect())
}

/// Numbers of layers by the position of their configuration.
type Counts = [usize; CONFIGURATIONS.len()];

/// The next numbers with a sum of at most `most`; false after the last.
fn advance(numbers: &mut [usize], most: usize) -> bool {
    for place in 0..numbers.len() {
        if numbers.iter().sum::<usize>() < most {
            numbers[place] += 1;
            return true;
        }
        numbers[place] = 0;
    }
    false
}
