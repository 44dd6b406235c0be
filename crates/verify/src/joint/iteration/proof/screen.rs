//! Bounds on a combination from the work of all layers, regardless of how they are divided into stages.
//!
//! *Stages.* By [`Position::slope`], a stage with passes f + b and w and update u, and with j stages from it to the
//! last, gives T ≥ A + C_j (f + b) + D_j w + u, where A is the time of the two passes of a microbatch through all
//! stages. For any weights λ > 0 of stages that sum up to H, the mean is T ≥ A + Σ λ_s (C_j (f + b) + D_j w + u) / H.
//! Every layer is in some stage, so the sum is at least the sum over layers of the layer's least term over all stages.
//! The weight of a stage is the share α of its kind, which is the reciprocal of the time of all layers on that kind,
//! divided by C_j + ρ D_j, where ρ is a typical w / (f + b): then all stages of a balanced pipeline weigh the same. H
//! is at most the sum of the products of both factors, each sorted in descending order. Under zero-bubble-2p, A is not in
//! the time of every stage, and T ≥ m (f + b + w) + u.
//!
//! *Interleaved stages.* With p devices of v chunks, let τ_r be the seconds of the two passes of a microbatch on stage
//! r, L_i those on all stages of device i, and u_i those of its updates. Before the first forward pass of its chunk c,
//! device i runs only the first p microbatches of earlier chunks; after the last backward pass of chunk c, it runs only
//! the last p microbatches of these chunks. In between it does the rest of its work. Before that time, the first
//! microbatch passes through all stages before c · p + i, and after it, the last microbatch passes back through them.
//! So the schedule takes S ≥ Σ_{r < c p + i} τ_r + m L_i − p Σ_{c' < c} τ_{c' p + i}. The mean over all c and i is S ≥
//! (m W + Σ_i (p − 1 − i) L_i / v) / p, where W is the sum over all layers. Updates add at least U / p, where U is the
//! time of all updates. No device works for longer than the schedule, so L_i ≤ S / m ≤ (T − U / p) / m, and the sum is
//! least if the last devices have as much work as that.
//!
//! *DualPipeV.* Every device does all of its work, weight gradients included, within the schedule. The mean over the p devices
//! is S ≥ m W / p, where W is the sum over all layers of both passes and weight gradients.
//!
//! *Transfers.* A pipeline of s stages has s − 1 boundaries between devices, under DualPipeV s − 2, since its two stages in the
//! middle are on one device. They take at least as long as as many of the cheapest ones.

use stagewright_core::document::Schedule;

use super::layers::Layers;
use super::place::{Place, Priced, Transfers};
use super::schedule::Position;
use super::{Effort, Exhausted};
use crate::joint::iteration::order::Pipeline;

/// Seconds of all layers on some kinds of devices, with each layer on its fastest kind.
#[derive(Debug)]
pub(super) struct Screen {
    /// Seconds of the two passes of a microbatch through all layers.
    passes: f64,
    /// Seconds of the two passes and weight gradients of a microbatch through all layers.
    whole: f64,
    /// Seconds of the updates of all layers.
    update: f64,
    /// Bytes that all layers need, with one microbatch in flight, and in hosts' memories.
    bytes: [f64; 2],
    /// By class, the number of its layers and, on every kind that runs it, the seconds of the two passes, of weight
    /// gradients and of the update, times the share of the kind.
    classes: Vec<(f64, Vec<[f64; 3]>)>,
    /// Shares of as many stages as there is room for, in descending order.
    shares: Vec<f64>,
    /// By number of stages, the maximum sum of their shares, and of their bytes on devices and in hosts' memories.
    reach: Vec<f64>,
    limits: [Vec<f64>; 2],
    /// Seconds of a microbatch times the share of the kind, with each layer on the kind where this product is least.
    shared: f64,
    /// Ratio of the seconds of weight gradients to those of the two passes.
    ratio: f64,
    /// Seconds of the cheapest boundaries, by their number; empty if boundaries may be between kinds.
    boundaries: Vec<f64>,
}

impl Screen {
    /// Adds up the work of all layers; `None` if some layer cannot run on any of the kinds. `transfers` are given if
    /// there is only one kind.
    pub(super) fn new(layers: &Layers, places: &[&Place], transfers: Option<&Transfers>) -> Option<Self> {
        let all = |place: &Place, figure: fn(&Priced) -> f64| -> f64 {
            let of_class = |(class, priced): (usize, &Option<Priced>)| {
                let count = layers.classes[class].count;
                count as f64 * priced.as_ref().map_or(0.0, figure)
            };
            place.classes.iter().enumerate().map(of_class).sum()
        };
        let (mut kinds, mut ratio) = (Vec::new(), f64::INFINITY);
        for &place in places {
            let (passes, weights) = (all(place, Priced::passes), all(place, Priced::weight));
            kinds.push((place, if passes + weights > 0.0 { 1.0 / (passes + weights) } else { 1.0 }));
            ratio = ratio.min(if passes > 0.0 { weights / passes } else { 0.0 });
        }
        let (mut passes, mut whole, mut update, mut bytes, mut shared) = (0.0, 0.0, 0.0, [0.0; 2], 0.0);
        let mut classes = Vec::new();
        for (index, class) in layers.classes.iter().enumerate() {
            let count = class.count as f64;
            let here: Vec<(&Priced, f64)> = kinds
                .iter()
                .filter_map(|&(place, share)| Some((place.classes[index].as_ref()?, share)))
                .collect();
            let least =
                |figure: fn(&Priced) -> f64| here.iter().map(|(priced, _)| figure(priced)).reduce(f64::min);
            passes += count * least(Priced::passes)?;
            whole += count * least(|priced| priced.passes() + priced.weight())?;
            update += count * least(|priced| priced.update)?;
            bytes[0] += count * least(|priced| priced.state + priced.least_kept())?;
            bytes[1] += count * least(|priced| priced.host)?;
            let of_kinds = here.iter().map(|&(priced, share)| {
                [priced.passes(), priced.weight(), priced.update].map(|seconds| seconds * share)
            });
            let of_kinds: Vec<[f64; 3]> = of_kinds.collect();
            shared += count * of_kinds.iter().map(|of_kind| of_kind[0] + of_kind[1]).reduce(f64::min)?;
            classes.push((count, of_kinds));
        }
        let mut shares: Vec<f64> =
            kinds.iter().flat_map(|&(place, share)| std::iter::repeat_n(share, place.room)).collect();
        shares.sort_by(|left, right| right.total_cmp(left));
        let limits = [|place: &Place| place.limit, |place: &Place| place.host_limit].map(|limit| {
            let all = places.iter().flat_map(|place| std::iter::repeat_n(limit(place), place.room));
            let mut limits: Vec<f64> = all.collect();
            limits.sort_by(|left, right| right.total_cmp(left));
            sums(&limits)
        });
        let inner = transfers.map(|transfers| &transfers[1..(transfers.len() - 1).max(1)]);
        let boundaries = inner.map_or_else(Vec::new, |inner| {
            let mut seconds: Vec<f64> = inner.iter().map(|[there, back]| there + back).collect();
            seconds.sort_by(f64::total_cmp);
            sums(&seconds)
        });
        let reach = sums(&shares);
        Some(Screen {
            passes,
            whole,
            update,
            bytes,
            classes,
            shares,
            reach,
            limits,
            shared,
            ratio,
            boundaries,
        })
    }

    /// Maximum number of stages.
    pub(super) fn room(&self) -> usize {
        self.shares.len()
    }

    /// Whether a number of devices and their hosts have enough memory for all layers.
    fn fits(&self, devices: usize) -> bool {
        let mut all = self.limits.iter().zip(self.bytes);
        all.all(|(limits, bytes)| limits.get(devices).is_none_or(|&limit| bytes <= limit))
    }

    /// Seconds of the boundaries between a number of stages; infinite if the model has fewer.
    pub(super) fn boundaries(&self, stages: usize) -> f64 {
        match self.boundaries.is_empty() {
            true => 0.0,
            false => self.boundaries.get(stages - 1).copied().unwrap_or(f64::INFINITY),
        }
    }

    /// Whether a pipeline of `stages` stages can take less than `cutoff`.
    pub(super) fn may_take_less(
        &self,
        stages: usize,
        microbatches: u32,
        schedule: Schedule,
        cutoff: f64,
        effort: &mut Effort,
    ) -> Result<bool, Exhausted> {
        // Every stage takes at least the time of its own work for all microbatches.
        let least = f64::from(microbatches) * self.shared;
        if !self.fits(stages) || self.reach.get(stages).is_some_and(|reach| least >= cutoff * reach) {
            return Ok(false);
        }
        let crossed = self.boundaries(stages);
        if crossed == f64::INFINITY {
            return Ok(false);
        }
        let passes = self.passes + crossed;
        effort.spend((stages * (1 + self.classes.len())) as u64)?;
        let slopes: Vec<[f64; 3]> =
            (1..=stages).map(|from| Position::new(schedule, microbatches, from, stages).slope()).collect();
        let weight_of = |[_, both, apart]: [f64; 3]| {
            let typical = both + self.ratio * apart;
            if typical > 0.0 { 1.0 / typical } else { 1.0 }
        };
        let mut weights: Vec<f64> = slopes.iter().map(|&slope| weight_of(slope)).collect();
        let term = |[passes, weight, update]: [f64; 3]| {
            let of_stage =
                |(&[_, both, apart], &by): (&[f64; 3], &f64)| by * (both * passes + apart * weight + update);
            slopes.iter().zip(&weights).map(of_stage).fold(f64::INFINITY, f64::min)
        };
        let mut sum: f64 = self
            .classes
            .iter()
            .map(|(count, shared)| {
                count * shared.iter().map(|&figures| term(figures)).fold(f64::INFINITY, f64::min)
            })
            .sum();
        sum += term([self.shares.last().copied().unwrap_or(0.0) * crossed, 0.0, 0.0]);
        weights.sort_by(|left, right| right.total_cmp(left));
        let capacity: f64 = self.shares.iter().zip(&weights).map(|(share, weight)| share * weight).sum();
        // The same for all stages.
        let whole = slopes.first().map_or(0.0, |&[whole, ..]| whole);
        Ok(whole * passes + sum / capacity < cutoff)
    }

    /// Seconds of the boundaries between devices of a pipeline with several stages on each.
    pub(super) fn crossed(&self, pipeline: &Pipeline) -> f64 {
        let stages = pipeline.devices * pipeline.chunks;
        self.boundaries(if pipeline.schedule == Schedule::DualPipeV { stages - 1 } else { stages })
    }

    /// Whether a pipeline with several stages on each device can take less than `cutoff`.
    pub(super) fn may_have_chunks(&self, pipeline: &Pipeline, cutoff: f64) -> bool {
        let [p, v, m] = [pipeline.devices, pipeline.chunks, pipeline.microbatches].map(|count| count as f64);
        let is_folded = pipeline.schedule == Schedule::DualPipeV;
        let work = if is_folded { self.whole } else { self.passes } + self.crossed(pipeline);
        let longest = (cutoff - self.update / p) / m;
        if !self.fits(pipeline.devices) || longest <= 0.0 || work > p * longest {
            return false;
        }
        if is_folded {
            return true;
        }
        // The last `full` devices have as much work as they can, and the device before them has the rest.
        let full = (work / longest).floor();
        let before = longest * full * (full - 1.0) / 2.0 + (work - full * longest) * full;
        (m * work + before / v + self.update) / p < cutoff
    }
}

/// Prefix sums of the numbers, beginning with the empty sum.
fn sums(numbers: &[f64]) -> Vec<f64> {
    let mut sum = 0.0;
    let sums = numbers.iter().map(|number| {
        sum += number;
        sum
    });
    std::iter::once(0.0).chain(sums).collect()
}
