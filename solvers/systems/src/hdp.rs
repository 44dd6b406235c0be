//! HDP: groups operators, and places groups by a recurrent network with attention.
//!
//! A feed-forward network with 64 hidden units samples a group for every unit, among at most min(256, 20 · devices)
//! groups. The features of a group are the mean of its members, their number, and the groups that it sends to. A
//! bidirectional recurrent network encodes the groups, and another one places them one by one with attention over all
//! of them; its logits are bounded. Both are trained by policy gradient with the reward −√seconds and a moving average
//! as baseline.
//!
//! Mirhoseini et al., "A hierarchical model for device placement", ICLR 2018; sizes and constants as its authors
//! released them (TensorFlow, `python/grappler/hierarchical_controller.py`).
//!
//! Choices made here:
//!
//! - 4 placements per update, each of its own grouping.
//! - An infeasible placement counts as 100 times the sequential seconds of all operators, or as its seconds with the
//!   memory penalty of this project's searches, up to a bound, if these are more. The authors' program counts 100 s,
//!   for models that take about 1 s. It leaves infeasible placements out after 1000 updates; here they are learned from
//!   throughout.
//! - The decoder reads the embedding of the group that it places, instead of starting from the encoder's final state,
//!   and the device of the previous group in 16 numbers instead of 512.
//! - The grouper has a ReLU. It reads degrees and the position in the order instead of up to 20 of a unit's neighbours.
//! - A group's communication is encoded only as whether it sends to another group, not how often or what it receives.
//! - The learning rate is 1e-3 instead of 0.1, chosen after one run each of 15 s on the five small models, in which
//!   1e-2 did as well. It does not fall, and devices are sampled throughout, where theirs change after 400 and 500
//!   updates.
//! - The baseline starts with the first reward, not with the reward of a failure, and moves with every placement.
//! - Logits get no noise.
//! - A unit that cannot run on its group's device runs on the first device that can.

use candle_core::{D, Device, Result, Tensor};
use candle_nn::ops::softmax;
use stagewright_core::cluster::DeviceId;
use stagewright_core::ids::Keyed;
use stagewright_makespan::ClusterId;
use stagewright_makespan::schedule::Score;
use stagewright_policy::network::layers::Linear;
use stagewright_policy::weights::{Built, ParameterBuilder, Weights};

use crate::choices::{chosen, log_probabilities, pick, probabilities};
use crate::lstm::{Lstm, Memory};
use crate::reading::{FIGURES, Reading};
use crate::settings::Settings;
use crate::stack::Stack;
use crate::system::{Play, Played, System};
use crate::trials::penalised;

/// Hidden width of the grouper.
const GROUPER: usize = 64;
/// Maximum number of groups, and of groups per device.
const MAX_GROUPS: usize = 256;
const GROUPS_PER_DEVICE: usize = 20;
/// Placements per update.
const DRAWS: usize = 4;
/// Decay factor of the baseline.
const KEPT: f64 = 0.9;
/// Cost of an infeasible placement, in multiples of the sequential seconds of all operators.
const FAILING: f64 = 100.0;
/// Bound on the absolute value of the placer's logits, which keeps exploration alive: of two devices, neither ever gets
/// a probability above 88%.
const MAX_LOGIT: f64 = 1.0;
/// Width of the embedding of the previous group's device.
const LAST: usize = 16;
/// Maximum number of attention activations computed at a time. This bounds temporary memory, not the memory kept for
/// the gradient.
const FIGURES_AT_ONCE: usize = 1 << 22;

/// Numbers kept for the gradient per pair of groups and per group, in units of width.
const PER_PAIR: usize = 4;
const PER_GROUP: usize = 60;
const COPIES: f64 = 8.0;

/// Number of groups of a network for `devices` devices.
fn groups(devices: usize) -> usize {
    MAX_GROUPS.min(GROUPS_PER_DEVICE * devices)
}

pub(crate) fn parameters(settings: &Settings) -> f64 {
    let (width, groups) = (settings.width, groups(settings.devices));
    // Two encoders of half the width, the decoder, and the attention.
    (4 * width * (OF_GROUP + groups + width / 2) + 4 * width * (LAST + 2 * width) + 2 * width.pow(2)) as f64
}

/// Numbers kept for the gradient, and copies of the recurrent parameters in the backward pass through time. Without
/// learning, attention is computed for one group at a time.
pub(crate) fn kept(settings: &Settings, learns: bool) -> f64 {
    let groups = groups(settings.devices);
    let (at_once, copies) = if learns { (groups, COPIES) } else { (1, 0.0) };
    let codes = groups * (at_once * PER_PAIR + PER_GROUP);
    (DRAWS * settings.width) as f64 * codes as f64 + copies * parameters(settings)
}

/// The HDP network.
pub(crate) struct Hdp {
    settings: Settings,
    groups: usize,
    grouper: Stack,
    forward: Lstm,
    backward: Lstm,
    decoder: Lstm,
    last: Linear,
    look_at: Linear,
    look_from: Linear,
    look: Linear,
    head: Linear,
}

/// Features of a group, without the groups that it sends to.
const OF_GROUP: usize = FIGURES + 1;

impl Hdp {
    pub(crate) fn new(parameters: &mut ParameterBuilder, settings: Settings) -> Built<Hdp> {
        let (width, devices) = (settings.width, settings.devices);
        let groups = groups(devices);
        Ok(Hdp {
            grouper: Stack::new(parameters, "grouper", &[FIGURES, GROUPER, groups])?,
            forward: Lstm::new(parameters, "encoder.forward", OF_GROUP + groups, width / 2)?,
            backward: Lstm::new(parameters, "encoder.backward", OF_GROUP + groups, width / 2)?,
            decoder: Lstm::new(parameters, "decoder", LAST + width, width)?,
            last: Linear::new(parameters, "last", devices + 1, LAST)?,
            look_at: Linear::new(parameters, "look.at", width, width)?,
            look_from: Linear::new(parameters, "look.from", width, width)?,
            look: Linear::new(parameters, "look", width, 1)?,
            head: Linear::new(parameters, "head", 2 * width, devices)?,
            settings,
            groups,
        })
    }

    /// Features of the groups under several groupings: b × groups × features.
    fn of_groups(
        &self,
        figures: &[Vec<f32>],
        reading: &Reading<'_, '_>,
        groupings: &[Keyed<ClusterId, u32>],
    ) -> Result<Tensor> {
        let (groups, width) = (self.groups, OF_GROUP + self.groups);
        let mut all = vec![0.0f32; groupings.len() * groups * width];
        for (table, group_of) in all.chunks_mut(groups * width).zip(groupings) {
            let mut count: Keyed<u32, f32> = Keyed::filled(0.0, groups);
            for (unit, &group) in group_of.iter().enumerate() {
                let row = &mut table[group as usize * width..][..FIGURES];
                row.iter_mut().zip(&figures[unit]).for_each(|(sum, figure)| *sum += figure);
                count[group] += 1.0;
            }
            for (row, count) in table.chunks_mut(width).zip(count.iter()) {
                row[..FIGURES].iter_mut().for_each(|sum| *sum /= count.max(1.0));
                row[FIGURES] = (1.0 + count).ln();
            }
            for &(from, to) in &reading.ends {
                let [from, to] = [from, to].map(|unit| group_of[unit] as usize);
                if from != to {
                    table[from * width + OF_GROUP + to] = 1.0;
                }
            }
        }
        Tensor::from_vec(all, (groupings.len(), groups, width), &Device::Cpu)
    }

    /// Encodes the groups: b × groups × width.
    fn encode(&self, x: &Tensor) -> Result<Tensor> {
        let run = |cell: &Lstm, is_reversed| cell.run(&cell.read(x)?, is_reversed);
        Tensor::cat(&[run(&self.forward, false)?, run(&self.backward, true)?], 2)
    }

    /// Gate inputs of the decoder, b × groups × 4 width, from the embeddings of the groups, b × groups × width, and the
    /// device of the group before each.
    fn read(&self, codes: &Tensor, before: &[Vec<Option<DeviceId>>]) -> Result<Tensor> {
        let (batch, groups, _) = codes.dims3()?;
        let choices = self.settings.devices + 1;
        let mut last = vec![0.0f32; batch * groups * choices];
        for (row, home) in last.chunks_mut(choices).zip(before.iter().flatten()) {
            row[home.map_or(choices - 1, DeviceId::index)] = 1.0;
        }
        let last = self.last.forward(&Tensor::from_vec(last, (batch, groups, choices), &Device::Cpu)?)?;
        self.decoder.read(&Tensor::cat(&[&last, codes], 2)?)
    }

    /// Log-probabilities of devices, b × some groups × devices, from the decoder's outputs for these groups, b × some
    /// groups × width, and the keys of all groups, which are also the values. Absent devices stay impossible, because
    /// their penalty is added after the logits are bounded.
    fn choose(&self, shown: &Tensor, keys: &Tensor, not_there: &Tensor) -> Result<Tensor> {
        let from = self.look_from.forward(shown)?.unsqueeze(2)?;
        let scores = self.look.forward(&keys.unsqueeze(1)?.broadcast_add(&from)?.tanh()?)?.squeeze(3)?;
        let seen = softmax(&scores, D::Minus1)?.matmul(keys)?;
        let logits = (self.head.forward(&Tensor::cat(&[shown, &seen], 2)?)?.tanh()? * MAX_LOGIT)?;
        log_probabilities(&logits.broadcast_add(not_there)?)
    }

    /// Samples the devices of the groups one by one from their detached embeddings. `None` if the trials are over
    /// before all are sampled.
    fn place(
        &self,
        codes: &Tensor,
        play: &mut Play<'_, '_, '_, '_, '_>,
    ) -> Result<Option<Vec<Keyed<u32, DeviceId>>>> {
        let (batch, groups, _) = codes.dims3()?;
        let keys = self.look_at.forward(codes)?.detach();
        let not_there = play.reading.not_there(self.settings.devices)?;
        let mut memory: Memory = self.decoder.start(batch, codes)?;
        let mut homes: Vec<Keyed<u32, DeviceId>> = vec![Keyed::new(); batch];
        for group in 0..groups {
            if play.trials.is_over() {
                return Ok(None);
            }
            let before: Vec<_> = homes.iter().map(|homes| vec![homes.last().copied()]).collect();
            // Contiguous, as below: a linear layer expects row-major input.
            let read = self.read(&codes.narrow(1, group, 1)?.contiguous()?, &before)?.squeeze(1)?;
            memory = self.decoder.step(&read, &memory)?;
            let log = self.choose(&memory.h.unsqueeze(1)?, &keys, &not_there)?.squeeze(1)?;
            for (homes, row) in homes.iter_mut().zip(probabilities(&log)?) {
                homes.push(pick(&row, play.is_greedy(), play.rng));
            }
        }
        Ok(Some(homes))
    }

    /// Joint log-probability of the devices of all groups, b × 1, computed for `at_once` groups at a time.
    fn likely(
        &self,
        codes: &Tensor,
        homes: &[Keyed<u32, DeviceId>],
        not_there: &Tensor,
        at_once: usize,
    ) -> Result<Tensor> {
        let (batch, groups, _) = codes.dims3()?;
        let after_first =
            |homes: &Keyed<_, _>| homes.iter().take(groups - 1).copied().map(Some).collect::<Vec<_>>();
        let before: Vec<Vec<Option<DeviceId>>> =
            homes.iter().map(|homes| [vec![None], after_first(homes)].concat()).collect();
        let shown = self.decoder.run(&self.read(codes, &before)?, false)?;
        let keys = self.look_at.forward(codes)?;
        let mut sum = Tensor::zeros((batch, 1), codes.dtype(), codes.device())?;
        for first in (0..groups).step_by(at_once) {
            let count = at_once.min(groups - first);
            let log = self.choose(&shown.narrow(1, first, count)?.contiguous()?, &keys, not_there)?;
            let drawn: Vec<DeviceId> =
                homes.iter().flat_map(|homes| homes.iter().skip(first).take(count).copied()).collect();
            let drawn = chosen(&log.flatten(0, 1)?, &drawn)?.reshape((batch, count))?;
            sum = (sum + drawn.sum_keepdim(1)?)?;
        }
        Ok(sum)
    }
}

/// Reward of a placement: −√seconds. An infeasible placement counts as `failing` seconds, or as its penalised seconds
/// if these are more, so it is never better than if it were feasible.
fn reward(score: Score, failing: f64) -> f64 {
    -(if score.fits() { score.makespan } else { failing.max(penalised(score)) }).sqrt()
}

impl System for Hdp {
    fn episode(&self, weights: &Weights, mut play: Play<'_, '_, '_, '_, '_>) -> Played {
        let reading = play.reading;
        let figures = reading.figures()?;
        let log = log_probabilities(&self.grouper.forward(&figures)?)?;
        let shares = probabilities(&log)?;
        let draws = if play.is_greedy() { 1 } else { DRAWS };
        let mut group = || shares.iter().map(|row| pick(row, play.is_greedy(), play.rng)).collect();
        let groupings: Vec<Keyed<ClusterId, u32>> = (0..draws).map(|_| group()).collect();
        let codes = self.encode(&self.of_groups(&figures.to_vec2()?, reading, &groupings)?)?;
        let Some(places) = self.place(&codes.detach(), &mut play)? else { return Ok(()) };
        let failing = FAILING * reading.seconds();
        let mut gains = Vec::new();
        for (group_of, homes) in groupings.iter().zip(&places) {
            let homes: Vec<DeviceId> = group_of.iter().map(|&group| homes[group]).collect();
            let Some(score) = play.trials.play(&homes) else { break };
            let reward = reward(score, failing);
            if !play.is_to_learn() {
                continue;
            }
            // The moving average.
            let average = play.baseline(reward);
            let baseline = *average;
            *average = KEPT * baseline + (1.0 - KEPT) * reward;
            gains.push(reward - baseline);
        }
        if !play.is_learning() {
            return Ok(());
        }
        let at_once = (FIGURES_AT_ONCE / (draws * self.groups * self.settings.width)).clamp(1, self.groups);
        let not_there = reading.not_there(self.settings.devices)?;
        let placed = self.likely(&codes, &places, &not_there, at_once)?;
        if !play.is_learning() {
            return Ok(());
        }
        let mut loss = Tensor::zeros((), placed.dtype(), placed.device())?;
        for (draw, (group_of, gain)) in groupings.iter().zip(&gains).enumerate() {
            let likely = (chosen(&log, group_of)?.sum_all()? + placed.narrow(0, draw, 1)?.sum_all()?)?;
            loss = (loss - (likely * (gain / gains.len() as f64))?)?;
        }
        play.learn(weights, &loss)
    }
}

#[cfg(test)]
mod tests {
    use candle_core::DType;

    use super::*;
    use stagewright_policy::weights::Source;

    /// Joint log-probability of the given devices, computed group by group, as in sampling.
    fn by_steps(
        hdp: &Hdp,
        codes: &Tensor,
        homes: &[Keyed<u32, DeviceId>],
        not_there: &Tensor,
    ) -> Result<Tensor> {
        let keys = hdp.look_at.forward(codes)?;
        let mut memory = hdp.decoder.start(homes.len(), codes)?;
        let mut sum = Tensor::zeros((homes.len(), 1), DType::F32, &Device::Cpu)?;
        for group in 0..hdp.groups {
            let before =
                |homes: &Keyed<_, _>| vec![group.checked_sub(1).map(|before| homes.as_slice()[before])];
            let before: Vec<_> = homes.iter().map(before).collect();
            let read = hdp.read(&codes.narrow(1, group, 1)?.contiguous()?, &before)?.squeeze(1)?;
            memory = hdp.decoder.step(&read, &memory)?;
            let log = hdp.choose(&memory.h.unsqueeze(1)?, &keys, not_there)?.squeeze(1)?;
            let drawn: Vec<DeviceId> = homes.iter().map(|homes| homes.as_slice()[group]).collect();
            sum = (sum + chosen(&log, &drawn)?)?;
        }
        Ok(sum)
    }

    #[test]
    fn what_does_not_fit_counts_as_failing_or_worse() {
        assert_eq!(reward(Score { lack: 0.0, makespan: 9.0 }, 100.0), -3.0);
        assert_eq!(reward(Score { lack: 0.1, makespan: 9.0 }, 100.0), -10.0);
        assert!(reward(Score { lack: 0.1, makespan: 900.0 }, 100.0) < -30.0);
        // The same holds for a far larger memory overflow.
        assert!(reward(Score { lack: 1e12, makespan: 900.0 }, 100.0) > -400.0);
    }

    #[test]
    fn what_is_learned_of_is_what_was_drawn() -> Result<()> {
        let settings = Settings { devices: 3, width: 16, layers: 1 };
        let mut parameters = ParameterBuilder::new(Source::Seed(1), false, DType::F32, &Device::Cpu);
        let hdp = Hdp::new(&mut parameters, settings).map_err(candle_core::Error::wrap)?;
        let codes = Tensor::randn(0.0f32, 1.0, (2, hdp.groups, 16), &Device::Cpu)?;
        let homes: Vec<Keyed<u32, DeviceId>> = [5, 7]
            .iter()
            .map(|by| (0..).take(hdp.groups).map(|group| DeviceId(group * group / by % 2)).collect())
            .collect();
        let not_there = Tensor::new(&[[0.0f32, 0.0, -1e9]], &Device::Cpu)?;
        // Every possible device keeps some probability, however confident the network is, and impossible ones get none.
        let shown = (Tensor::ones((1, 1, 16), DType::F32, &Device::Cpu)? * 1e6)?;
        let sure = probabilities(&hdp.choose(&shown, &codes.narrow(0, 0, 1)?, &not_there)?.flatten(0, 1)?)?;
        assert!(
            sure[0][..2].iter().all(|&share| share > 0.119 && share < 0.881) && sure[0][2] == 0.0,
            "{sure:?}"
        );
        let drawn = by_steps(&hdp, &codes, &homes, &not_there)?.to_vec2::<f32>()?;
        for at_once in [7, hdp.groups] {
            let likely = hdp.likely(&codes, &homes, &not_there, at_once)?.to_vec2::<f32>()?;
            for (likely, drawn) in likely.iter().zip(&drawn) {
                assert!((likely[0] - drawn[0]).abs() < 1e-3, "{likely:?} of {drawn:?} at {at_once}");
            }
        }
        Ok(())
    }
}
