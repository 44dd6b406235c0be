//! HDP: operators put into groups, and groups placed by a recurrent network with attention.
//!
//! A feed-forward network with 64 hidden numbers draws a group for every unit, of at most min(256, 20 · devices) groups. A
//! group is what its members are on average, how many they are, and which groups it sends to. A bidirectional recurrent
//! network reads the groups and another one places them one after the other, looking back at all of them. Both learn by
//! policy gradient with the reward −√seconds and a moving average as baseline; what does not fit counts as 100 s.
//!
//! Mirhoseini et al., "A hierarchical model for device placement", ICLR 2018; sizes and constants as its authors released
//! them. Chosen here: 4 placements an update; a unit that cannot run where its group goes runs on the first device that can.

use candle_core::{D, Device, Result, Tensor};
use candle_nn::ops::softmax;

use super::lstm::{Lstm, Memory};
use super::reading::{FIGURES, Reading};
use super::system::{Play, Settings, System};
use crate::choices::{chosen, likelihoods, log_likelihoods, pick};
use crate::learn::TrainError;
use crate::network::layers::Linear;
use crate::weights::{Nursery, Weights, WeightsError};

/// Hidden numbers of the grouper.
const GROUPER: usize = 64;
/// Most groups, and groups for every device.
const MOST_GROUPS: usize = 256;
const GROUPS_PER_DEVICE: usize = 20;
/// Placements of an update.
const DRAWS: usize = 4;
/// How much of the baseline stays.
const KEPT: f64 = 0.9;
/// The seconds that a placement counts that does not fit.
const FAILING: f64 = 100.0;
/// Numbers that tell the placer where the group before went.
const LAST: usize = 16;

/// The system.
pub(super) struct Hdp {
    settings: Settings,
    groups: usize,
    grouper: [Linear; 2],
    forward: Lstm,
    backward: Lstm,
    decoder: Lstm,
    last: Linear,
    look_at: Linear,
    look_from: Linear,
    look: Linear,
    head: Linear,
}

/// Figures of a group but for whom it sends to.
const OF_GROUP: usize = FIGURES + 1;

impl Hdp {
    pub(super) fn new(nursery: &mut Nursery, settings: Settings) -> std::result::Result<Hdp, WeightsError> {
        let (width, devices) = (settings.width, settings.devices);
        let groups = MOST_GROUPS.min(GROUPS_PER_DEVICE * devices);
        Ok(Hdp {
            grouper: [
                Linear::new(nursery, "grouper.0", FIGURES, GROUPER)?,
                Linear::new(nursery, "grouper.1", GROUPER, groups)?,
            ],
            forward: Lstm::new(nursery, "encoder.forward", OF_GROUP + groups, width)?,
            backward: Lstm::new(nursery, "encoder.backward", OF_GROUP + groups, width)?,
            decoder: Lstm::new(nursery, "decoder", LAST + 2 * width, width)?,
            last: Linear::new(nursery, "last", devices + 1, LAST)?,
            look_at: Linear::new(nursery, "look.at", 2 * width, width)?,
            look_from: Linear::new(nursery, "look.from", width, width)?,
            look: Linear::new(nursery, "look", width, 1)?,
            head: Linear::new(nursery, "head", 3 * width, devices)?,
            settings,
            groups,
        })
    }

    /// The groups' figures under several groupings: b × groups × figures.
    fn of_groups(
        &self,
        figures: &[Vec<f32>],
        reading: &Reading<'_, '_>,
        groupings: &[Vec<u32>],
    ) -> Result<Tensor> {
        let (groups, width) = (self.groups, OF_GROUP + self.groups);
        let mut all = vec![0.0f32; groupings.len() * groups * width];
        for (table, group_of) in all.chunks_mut(groups * width).zip(groupings) {
            let mut count = vec![0.0f32; groups];
            for (unit, &group) in group_of.iter().enumerate() {
                let row = &mut table[group as usize * width..][..FIGURES];
                row.iter_mut().zip(&figures[unit]).for_each(|(sum, figure)| *sum += figure);
                count[group as usize] += 1.0;
            }
            for (row, count) in table.chunks_mut(width).zip(&count) {
                row[..FIGURES].iter_mut().for_each(|sum| *sum /= count.max(1.0));
                row[FIGURES] = (1.0 + count).ln();
            }
            for &(from, to) in &reading.ends {
                let [from, to] = [from, to].map(|unit| group_of[unit as usize] as usize);
                if from != to {
                    table[from * width + OF_GROUP + to] = 1.0;
                }
            }
        }
        Tensor::from_vec(all, (groupings.len(), groups, width), &Device::Cpu)
    }

    /// What the encoder makes of the groups: b × groups × 2 width.
    fn encode(&self, x: &Tensor) -> Result<Tensor> {
        let (batch, groups, _) = x.dims3()?;
        let run = |cell: &Lstm, order: &mut dyn Iterator<Item = usize>| -> Result<Vec<(usize, Tensor)>> {
            let read = cell.read(x)?;
            let mut memory = cell.start(batch, x)?;
            let mut codes = Vec::with_capacity(groups);
            for at in order {
                memory = cell.step(&read.narrow(1, at, 1)?.squeeze(1)?, &memory)?;
                codes.push((at, memory.hidden.unsqueeze(1)?));
            }
            codes.sort_by_key(|&(at, _)| at);
            Ok(codes)
        };
        let one_way = |codes: Vec<(usize, Tensor)>| {
            Tensor::cat(&codes.into_iter().map(|(_, code)| code).collect::<Vec<_>>(), 1)
        };
        let there = one_way(run(&self.forward, &mut (0..groups))?)?;
        let back = one_way(run(&self.backward, &mut (0..groups).rev())?)?;
        Tensor::cat(&[there, back], 2)
    }

    /// Devices of the groups, drawn one after the other, and the logarithm of how likely all are: b × 1. None where the
    /// trials are over before all are drawn.
    fn place(
        &self,
        codes: &Tensor,
        play: &mut Play<'_, '_, '_, '_, '_>,
    ) -> Result<Option<(Vec<Vec<u32>>, Tensor)>> {
        let (batch, groups, _) = codes.dims3()?;
        let devices = self.settings.devices;
        let keys = self.look_at.forward(codes)?;
        let mut memory: Memory = self.decoder.start(batch, codes)?;
        let mut homes = vec![Vec::with_capacity(groups); batch];
        let mut sum = Tensor::zeros((batch, 1), codes.dtype(), codes.device())?;
        let not_there = play.reading.not_there(devices)?;
        for group in 0..groups {
            if play.trials.is_over() {
                return Ok(None);
            }
            let mut last = vec![0.0f32; batch * (devices + 1)];
            for (at, homes) in homes.iter().enumerate() {
                let before = homes.last().map_or(devices, |&home: &u32| home as usize);
                last[at * (devices + 1) + before] = 1.0;
            }
            let last = self.last.forward(&Tensor::from_vec(last, (batch, devices + 1), &Device::Cpu)?)?;
            let code = codes.narrow(1, group, 1)?.squeeze(1)?;
            let read = self.decoder.read(&Tensor::cat(&[&last, &code], 1)?)?;
            memory = self.decoder.step(&read, &memory)?;
            let from = self.look_from.forward(&memory.hidden)?.unsqueeze(1)?;
            let scores = self.look.forward(&keys.broadcast_add(&from)?.tanh()?)?.squeeze(2)?;
            let seen = softmax(&scores, D::Minus1)?.unsqueeze(1)?.matmul(codes)?.squeeze(1)?;
            let logits = self.head.forward(&Tensor::cat(&[&memory.hidden, &seen], 1)?)?;
            let log = log_likelihoods(&logits.broadcast_add(&not_there)?)?;
            let drawn: Vec<u32> =
                likelihoods(&log)?.iter().map(|row| pick(row, play.is_greedy(), play.rng)).collect();
            sum = (sum + chosen(&log, &drawn)?)?;
            homes.iter_mut().zip(&drawn).for_each(|(homes, &home)| homes.push(home));
        }
        Ok(Some((homes, sum)))
    }
}

impl System for Hdp {
    fn episode(
        &self,
        weights: &Weights,
        mut play: Play<'_, '_, '_, '_, '_>,
    ) -> std::result::Result<(), TrainError> {
        let reading = play.reading;
        let figures = reading.figures()?;
        let logits = self.grouper[1].forward(&self.grouper[0].forward(&figures)?.relu()?)?;
        let log = log_likelihoods(&logits)?;
        let shares = likelihoods(&log)?;
        let draws = if play.is_greedy() { 1 } else { DRAWS };
        let mut group = || shares.iter().map(|row| pick(row, play.is_greedy(), play.rng)).collect();
        let groupings: Vec<Vec<u32>> = (0..draws).map(|_| group()).collect();
        let codes = self.encode(&self.of_groups(&figures.to_vec2()?, reading, &groupings)?)?;
        let Some((homes, placed)) = self.place(&codes, &mut play)? else { return Ok(()) };
        let mut terms = Vec::new();
        for (draw, (group_of, homes)) in groupings.iter().zip(&homes).enumerate() {
            let homes: Vec<u32> = group_of.iter().map(|&group| homes[group as usize]).collect();
            let Some(score) = play.trials.play(&homes) else { break };
            // Never better than what fits would be.
            let reward = -(if score.fits() { score.makespan } else { FAILING.max(score.energy()) }).sqrt();
            if play.is_greedy() {
                return Ok(());
            }
            // The moving average.
            let average = play.baseline(reward);
            let baseline = *average;
            *average = KEPT * baseline + (1.0 - KEPT) * reward;
            let grouped = chosen(&log, group_of)?.sum_all()?;
            let likely = (grouped + placed.narrow(0, draw, 1)?.sum_all()?)?;
            terms.push((likely * (baseline - reward))?);
        }
        if !play.is_learning() || terms.is_empty() {
            return Ok(());
        }
        let loss = (Tensor::stack(&terms, 0)?.sum_all()? / terms.len() as f64)?;
        play.learn(weights, &loss)
    }
}
