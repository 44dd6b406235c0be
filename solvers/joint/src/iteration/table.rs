//! Costs of layers and stages under given degrees.

use stagewright_core::document::{JointPartsDocument, LinkDocument};

use super::collective::{exchange, gather, reduce, send};
use super::model::{Divided, Layer, Model, Work};
use super::pool::Pool;
use super::sharding::{Conversion, Layout, Need};
use crate::choice::{Candidate, Outcome, least};

/// Names of the configurations of a layer, in the order of their indices.
pub const CONFIGURATIONS: [&str; 3] = ["none", "selective", "full"];

/// Degrees that all stages on a kind have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Degrees {
    /// Samples of a microbatch.
    pub(crate) microbatch: u32,
    pub(crate) data: u32,
    pub(crate) expert: u32,
    pub(crate) zero: u32,
    pub(crate) tensor: u32,
}

/// A configuration of a layer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Configuration {
    /// Index among [`CONFIGURATIONS`].
    pub(crate) index: u32,
    pub(crate) backward: f64,
    /// Seconds of weight gradients that run apart from the backward pass.
    pub(crate) weight: f64,
    /// Whether weight gradients of the layer run apart, so that activations are kept for them.
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
    /// Microbatches in flight until the weight gradients that run apart have ended.
    pub(crate) apart: f64,
}

impl InFlight {
    /// Microbatches in flight on stage `stage` of `depth`, with one stage a device and `microbatches` in a batch.
    pub(crate) fn new(stage: u32, depth: u32, microbatches: u32) -> InFlight {
        let in_flight = |stages: u32| f64::from(stages.min(microbatches));
        InFlight { whole: in_flight(depth - stage), apart: in_flight(depth) }
    }
}

/// Costs of a layer.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct LayerCosts {
    /// Seconds by part, but for what is computed again, and bytes of states.
    pub(crate) parts: JointPartsDocument,
    /// Class of the layer; layers of one class have the same costs.
    class: usize,
    pub(crate) forward: f64,
    /// Configurations; the first is the fastest.
    pub(crate) configurations: Vec<Configuration>,
    /// Bytes of parameters, gradients and states of the optimizer.
    pub(crate) state: f64,
    /// Seconds after the last microbatch.
    pub(crate) update: f64,
}

/// What divides the bytes of a layer.
struct Shares {
    tensor: f64,
    expert: f64,
    /// Copies that hold the same, by whether they are of experts.
    copies: [f64; 2],
}

impl Shares {
    /// Bytes of a device.
    fn bytes(&self, divided: &Divided, over_copies: bool) -> f64 {
        self.parts(divided)
            .zip(self.copies)
            .map(|(bytes, copies)| if over_copies { bytes / copies } else { bytes })
            .sum()
    }

    /// Bytes of a device of what is no expert, and of experts.
    fn parts(&self, divided: &Divided) -> impl Iterator<Item = f64> {
        let sums = [0, 1].map(|expert| {
            let bytes = divided[expert][0] + divided[expert][1] / self.tensor;
            if expert == 1 { bytes / self.expert } else { bytes }
        });
        sums.into_iter()
    }
}

impl LayerCosts {
    /// `allowed` has the configurations of numbered layers, the fastest first; `is_split` says whether weight gradients run
    /// apart from the backward pass. O(operators of the layer).
    pub(crate) fn new(
        model: &Model,
        layer: &Layer,
        class: usize,
        pool: &Pool,
        degrees: Degrees,
        allowed: &[usize],
        is_split: bool,
    ) -> LayerCosts {
        let Degrees { microbatch, data, expert, zero, tensor } = degrees;
        let share = f64::from(microbatch) / (model.samples * f64::from(tensor));
        let whole = share * f64::from(tensor);
        let link = pool.link_of(tensor.into());
        let seconds =
            |works: &mut dyn Iterator<Item = &Work>| works.map(|work| work.seconds(share)).sum::<f64>();
        let convert = |conversion: &Conversion| convert(conversion, link, tensor, whole);
        let conversions: f64 = layer.conversions.iter().map(convert).sum();
        let gathered = layer.conversions.iter().filter(|conversion| conversion.to == Need::Whole);
        let again: f64 = gathered.map(|conversion| gather(link, tensor, conversion.bytes * whole)).sum();
        let across = pool.link_of(u64::from(tensor) * u64::from(expert));
        let exchanged = |bytes: &f64| exchange(across, expert, bytes * share * f64::from(expert));
        let exchanges: f64 = match expert {
            1 => 0.0,
            _ => layer.exchanges.iter().filter(|&&bytes| bytes > 0.0).map(exchanged).sum(),
        };
        let shares = Shares {
            tensor: f64::from(tensor),
            expert: f64::from(expert),
            copies: [f64::from(data), f64::from(data / expert)],
        };
        let copies_link = pool.link_of(u64::from(tensor) * u64::from(data));
        let over_copies = |divided: &Divided, collective: fn(LinkDocument, u32, f64) -> f64| -> f64 {
            let parts = shares.parts(divided).zip([data, data / expert]);
            let moved = parts.filter(|&(bytes, copies)| bytes > 0.0 && copies > 1);
            moved.map(|(bytes, copies)| collective(copies_link, copies, bytes)).sum()
        };
        let scatter = over_copies(&layer.gradients, gather);
        let collect = over_copies(&layer.parameters, gather);
        // Of parameters in both passes, of gradients with the weight gradients, and once in an iteration.
        let (gathered, scattered, after) = match zero {
            0 => (0.0, 0.0, over_copies(&layer.gradients, reduce)),
            1 => (0.0, 0.0, scatter + collect),
            2 => (0.0, scatter, collect),
            _ => (collect, scatter, 0.0),
        };
        let update = |update: &super::model::Update| {
            let mut part = 1.0;
            if update.is_split {
                part /= shares.tensor;
            }
            if update.is_expert {
                part /= shares.expert;
            }
            if zero > 0 {
                part /= shares.copies[usize::from(update.is_expert)];
            }
            update.work.seconds(1.0) * part
        };
        let work = seconds(&mut layer.forward[class].iter().map(|(work, _)| work));
        let others =
            seconds(&mut layer.forward[class].iter().filter(|(_, product)| !product).map(|(work, _)| work));
        let forward = work + conversions + exchanges + gathered;
        let of_inputs = seconds(&mut layer.backward[class].iter());
        let of_weights = seconds(&mut layer.weights[class].iter());
        let backward = of_inputs + conversions + exchanges + gathered;
        let weight = of_weights + again + scattered;
        let kept = [layer.saved, layer.inputs + layer.products, layer.inputs];
        let own =
            layer.workspace * share + if zero == 3 { shares.bytes(&layer.parameters, false) } else { 0.0 };
        let configuration = |index: usize| Configuration {
            index: index as u32,
            backward: match is_split && index == 0 {
                true => backward,
                false => backward + weight + [0.0, others, work + conversions + exchanges][index],
            },
            weight: if is_split && index == 0 { weight } else { 0.0 },
            is_apart: is_split && index == 0,
            activations: kept[index] * share,
            workspace: own + (kept[0] - kept[index]).max(0.0) * share,
        };
        let configurations = match (layer.is_numbered, allowed) {
            (false, _) => vec![configuration(0)],
            (true, &[given]) => vec![configuration(given)],
            // One that keeps as much as the first, for as long, is no use.
            (true, allowed) => {
                let is_useful = |&&index: &&usize| index == 0 || kept[index] < kept[0] || is_split;
                allowed.iter().filter(is_useful).map(|&index| configuration(index)).collect()
            }
        };
        let states = [(&layer.parameters, 3), (&layer.gradients, 2), (&layer.states, 1)]
            .map(|(bytes, divided_from)| shares.bytes(bytes, zero >= divided_from));
        let parts = JointPartsDocument {
            compute_s: work + of_inputs + of_weights,
            tensor_s: 2.0 * conversions + again,
            expert_s: 2.0 * exchanges,
            zero_s: 2.0 * gathered + scattered,
            parameter_bytes: states[0],
            gradient_bytes: states[1],
            optimizer_bytes: states[2],
            ..JointPartsDocument::default()
        };
        LayerCosts {
            parts,
            class: layer.class,
            forward,
            configurations,
            state: states.iter().sum(),
            update: layer.updates[class].iter().map(update).sum::<f64>() + after,
        }
    }
}

/// Time of a conversion of a tensor, of which a microbatch has `whole` times the bytes of the graph's.
fn convert(conversion: &Conversion, link: LinkDocument, devices: u32, whole: f64) -> f64 {
    if devices == 1 {
        return 0.0;
    }
    let bytes = conversion.bytes * whole;
    match (conversion.from, conversion.to) {
        (Layout::Sequence, Need::Columns) | (Layout::Columns, Need::Sequence) => {
            exchange(link, devices, bytes)
        }
        (Layout::Partial, Need::Whole) => reduce(link, devices, bytes),
        _ => gather(link, devices, bytes),
    }
}

/// A stage with configurations.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct StageCosts {
    pub(crate) forward: f64,
    pub(crate) backward: f64,
    pub(crate) weight: f64,
    /// Backward pass and weight gradients of no choice are faster.
    pub(crate) least_behind: f64,
    pub(crate) update: f64,
    pub(crate) state: f64,
    pub(crate) activations: f64,
    pub(crate) memory: f64,
    /// Index of the configuration of every layer among [`CONFIGURATIONS`].
    pub(crate) configurations: Vec<u32>,
}

/// Time to receive what crosses the boundary before a layer, in the forward (0) or backward (1) pass.
pub(crate) fn receive(model: &Model, layer: usize, pass: usize, link: LinkDocument, degrees: Degrees) -> f64 {
    let share = f64::from(degrees.microbatch) / (model.samples * f64::from(degrees.tensor));
    match model.crossing[pass].get(layer) {
        Some(&bytes) if bytes > 0.0 => send(link, bytes * share),
        _ => 0.0,
    }
}

/// The fastest choice of configurations for consecutive layers that fits; without transfers between stages. `None` if
/// there is none.
pub(crate) fn stage(layers: &[&LayerCosts], capacity: f64, in_flight: InFlight) -> Option<StageCosts> {
    let state: f64 = layers.iter().map(|layer| layer.state).sum();
    let (chosen, is_fastest) = choose(layers, capacity - state, in_flight)?;
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
        activations,
        memory: state
            + activations
            + picked().map(|configuration| configuration.workspace).fold(0.0, f64::max),
        configurations: picked().map(|configuration| configuration.index).collect(),
    })
}

/// Positions of the configurations, and whether none are faster.
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

/// The choice where all layers with several configurations are alike: how many have each. The first layers have the
/// configuration that takes least memory. O(layers).
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
    // Each number of layers with the last configuration is tried; between it and the first there is at most one.
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
    let mut seen = 0;
    let position = |layer: &&LayerCosts| {
        if layer.configurations.len() == 1 {
            return 0;
        }
        seen += 1;
        match seen {
            seen if seen <= of_last => last,
            seen if seen <= of_last + of_middle => 1,
            _ => 0,
        }
    };
    Some(layers.iter().map(position).collect())
}
