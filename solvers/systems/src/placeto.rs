//! Placeto: re-places one group after the other.
//!
//! An episode starts with a random placement and has a step for every group in topological order: the group is placed
//! anew, and the reward is the reduction of the model's step time, where memory overflow counts as time. The input is
//! the graph with the current placement. Messages pass down the graph and, with other parameters, up, one hop per
//! round. The group being placed reads its own embedding and sums over all groups before it, after it, and parallel to
//! it.
//!
//! Addanki, Venkatakrishnan, Gupta, Mao and Alizadeh, "Placeto: learning generalizable device placement algorithms for
//! distributed machine learning", NeurIPS 2019, with the settings that its authors released: 8 rounds of messages at
//! the width of the features, a classifier with layers of 8, 16 and 8 times that width, no discount, a baseline for
//! every step that is the mean of the last 10 episodes including the current one, Adam with a learning rate that falls
//! from 1e-3 to 1e-4, and gradients clipped at 1.25.
//!
//! Choices made here:
//!
//! - Rewards are relative to the time at the start of the episode, because models differ by orders of magnitude.
//! - Memory overflow is penalised as in every other search here, up to 10 times a device's memory, rather than 2
//!   seconds per GB with a bound of 10.
//! - There is one worker instead of 4 to 8.
//! - Every episode starts from another placement, where the authors' program uses the same one for all by default, and
//!   there is no entropy bonus, where the authors' starts with weight 1. This was chosen after up to two runs each of
//!   30 s on Inception-v3, ResNet-50 and Transformer-XL: with the authors' bonus nothing was learned in that time,
//!   0.001 did as well as none, and 0.01 was worse on two of the three.

use candle_core::{Device, Result, Tensor};
use rand::RngExt;
use stagewright_core::bits;
use stagewright_core::cluster::DeviceId;
use stagewright_core::ids::{Id, Keyed};
use stagewright_makespan::ClusterId;
use stagewright_policy::rows::Rows;
use stagewright_policy::weights::{Built, ParameterBuilder, Weights};

use crate::choices::{chosen, log_probabilities, pick, probabilities};
use crate::reading::Reading;
use crate::settings::Settings;
use crate::stack::Stack;
use crate::system::{Play, Played, System};
use crate::trials::penalised;

/// Features of a group, without its device.
const PLAIN: usize = 6;
/// Maximum number of features in the steps whose gradients are computed at a time.
const FIGURES_AT_ONCE: usize = 1 << 19;
/// Episodes that a baseline averages over.
const REMEMBERED: usize = 10;

/// Number of features of a group.
fn width(devices: usize) -> usize {
    PLAIN + devices
}

/// Parameters in units of width²: the input network, messages down and up, pools of twice the width, and the
/// classifier.
const SQUARES: usize = 3 + 2 * 4 + 3 * 16 + 2 * 128;
/// Numbers kept for the gradient per feature and round of messages.
const PER_FIGURE: usize = 42;

pub(crate) fn parameters(settings: &Settings) -> f64 {
    (SQUARES * width(settings.devices).pow(2)) as f64
}

/// Numbers kept: the features of every step of an episode, and the activations of the steps whose gradients are
/// computed at a time; without learning, those of one step.
pub(crate) fn kept(settings: &Settings, units: usize, learns: bool) -> f64 {
    let figures = units as f64 * width(settings.devices) as f64;
    let all = if learns { figures * units as f64 } else { figures };
    let at_once = all.min(figures.max(FIGURES_AT_ONCE as f64));
    all + at_once * (PER_FIGURE * settings.layers) as f64
}

/// A learned sum: one network is applied to each summand, and another to the sum.
struct Sum {
    say: Stack,
    hear: Stack,
}

impl Sum {
    fn new(parameters: &mut ParameterBuilder, name: &str, width: usize) -> Built<Sum> {
        Ok(Sum {
            say: Stack::new(parameters, &format!("{name}.say"), &[width; 3])?,
            hear: Stack::new(parameters, &format!("{name}.hear"), &[width; 3])?,
        })
    }

    /// Maps groups × steps × width to the same shape for every row of `rows`.
    fn forward(&self, x: &Tensor, rows: &Rows) -> Result<Tensor> {
        let (_, steps, width) = x.dims3()?;
        let said = self.say.forward(x)?.relu()?.reshape((rows.column_count(), steps * width))?;
        self.hear.forward(&rows.sum(&said)?.reshape((rows.row_count(), steps, width))?)?.relu()
    }
}

/// The Placeto network.
pub(crate) struct Placeto {
    settings: Settings,
    /// Embeds the features of a group before any messages.
    own: Stack,
    down: Sum,
    up: Sum,
    /// Sums over the groups before, after, and parallel to the current one.
    pools: [Sum; 3],
    classifier: Stack,
}

/// The groups before, after, and parallel to each group.
struct Around {
    /// By group in topological order: the three sets.
    sets: Vec<[Vec<ClusterId>; 3]>,
}

impl Around {
    /// Builds the sets in O(groups²).
    fn new(reading: &Reading<'_, '_>) -> Around {
        let units = reading.units();
        // Bit sets of the ancestors of every group.
        let words = units.div_ceil(64);
        let mut before: Keyed<ClusterId, Vec<u64>> = Keyed::filled(vec![0; words], units);
        let mut edges: Keyed<ClusterId, Vec<ClusterId>> = Keyed::filled(Vec::new(), units);
        for &(from, to) in &reading.ends {
            edges[to].push(from);
        }
        for &unit in reading.subject.order() {
            for &from in &edges[unit] {
                let mut row = std::mem::take(&mut before[unit]);
                row.iter_mut().zip(&before[from]).for_each(|(own, other)| *own |= other);
                bits::insert(&mut row, from.index());
                before[unit] = row;
            }
        }
        let depends = |unit: ClusterId, on: ClusterId| bits::contains(&before[unit], on.index());
        let sets = |unit: ClusterId| {
            let mut sets = [Vec::new(), Vec::new(), Vec::new()];
            for other in before.ids().filter(|&other| other != unit) {
                let set = if depends(unit, other) {
                    0
                } else if depends(other, unit) {
                    1
                } else {
                    2
                };
                sets[set].push(other);
            }
            sets
        };
        Around { sets: reading.subject.order().iter().map(|&unit| sets(unit)).collect() }
    }
}

impl Placeto {
    pub(crate) fn new(parameters: &mut ParameterBuilder, settings: Settings) -> Built<Placeto> {
        let width = width(settings.devices);
        Ok(Placeto {
            own: Stack::new(parameters, "own", &[width; 4])?,
            down: Sum::new(parameters, "down", width)?,
            up: Sum::new(parameters, "up", width)?,
            pools: [
                Sum::new(parameters, "before", 2 * width)?,
                Sum::new(parameters, "after", 2 * width)?,
                Sum::new(parameters, "beside", 2 * width)?,
            ],
            classifier: Stack::new(
                parameters,
                "classifier",
                &[8 * width, 16 * width, 8 * width, settings.devices],
            )?,
            settings,
        })
    }

    /// Log-probabilities of the devices of every step's group, steps × devices, from the features of all groups at
    /// every step, groups × steps × width. The steps start at `first`.
    fn forward(&self, figures: &Tensor, first: usize, seen: &Seen<'_, '_, '_>) -> Result<Tensor> {
        let (_, steps, _) = figures.dims3()?;
        let own = self.own.forward(figures)?;
        let pass = |sum: &Sum, rows: &Rows, hears: &Tensor| -> Result<Tensor> {
            let mut x = own.clone();
            for _ in 0..self.settings.layers {
                x = (sum.forward(&x, rows)?.broadcast_mul(hears)? + &own)?;
            }
            Ok(x)
        };
        let [hears_down, hears_up] = &seen.hears;
        let both = Tensor::cat(
            &[
                pass(&self.down, &seen.reading.inputs, hears_down)?,
                pass(&self.up, &seen.reading.outputs, hears_up)?,
            ],
            2,
        )?;
        // The embedding of every step's group at that step: its row among groups × steps.
        let (units, width) = (seen.reading.units(), both.dim(2)?);
        let flat = both.reshape((units * steps, width))?;
        let count = u32::new(steps);
        let row = |unit: ClusterId, step: u32| unit.0 * count + step;
        let order = &seen.reading.subject.order()[first..first + steps];
        let placed: Vec<u32> = (0..).zip(order).map(|(step, &unit)| row(unit, step)).collect();
        let mut parts = vec![flat.index_select(&Tensor::new(placed, &Device::Cpu)?, 0)?];
        for (set, pool) in self.pools.iter().enumerate() {
            let (mut offsets, mut entries) = (vec![0u32], Vec::new());
            for (step, sets) in (0..).zip(&seen.around.sets[first..first + steps]) {
                entries.extend(sets[set].iter().map(|&unit| row(unit, step)));
                offsets.push(u32::new(entries.len()));
            }
            let rows = Rows::new(units * steps, offsets, entries).map_err(candle_core::Error::wrap)?;
            parts.push(pool.forward(&flat.unsqueeze(1)?, &rows)?.squeeze(1)?);
        }
        let logits = self.classifier.forward(&Tensor::cat(&parts, 1)?)?;
        let order = Tensor::new(order.iter().map(|unit| unit.0).collect::<Vec<u32>>(), &Device::Cpu)?;
        log_probabilities(&(logits + seen.incapable.index_select(&order, 0)?)?)
    }
}

/// A problem with everything that is constant during an episode.
struct Seen<'a, 's, 'p> {
    reading: &'a Reading<'s, 'p>,
    around: Around,
    /// Whether a group has groups before and after it, groups × 1 × 1; a group that has none receives no messages from
    /// there.
    hears: [Tensor; 2],
    incapable: Tensor,
    /// By group: seconds, bytes sent and memory, each as a share of the largest.
    shares: Keyed<ClusterId, [f32; 3]>,
}

impl<'a, 's, 'p> Seen<'a, 's, 'p> {
    fn new(reading: &'a Reading<'s, 'p>, devices: usize) -> Result<Seen<'a, 's, 'p>> {
        let level = reading.subject.level();
        let units = reading.units();
        let scaled = |figure: &dyn Fn(ClusterId) -> f64| -> Vec<f32> {
            let largest = level.ids().map(figure).fold(f64::MIN_POSITIVE, f64::max);
            level.ids().map(|unit| (figure(unit) / largest) as f32).collect()
        };
        let columns = [
            scaled(&|unit| level.mean(unit)),
            scaled(&|unit| reading.sent[unit.index()]),
            scaled(&|unit| level.bytes(unit)),
        ];
        let shares = (0..units).map(|unit| columns.each_ref().map(|column| column[unit])).collect();
        let mut hears: [Keyed<ClusterId, f32>; 2] = [0, 1].map(|_| Keyed::filled(0.0, units));
        for &(from, to) in &reading.ends {
            hears[0][to] = 1.0;
            hears[1][from] = 1.0;
        }
        let [down, up] = hears.map(|hears| Tensor::from_vec(hears.into_vec(), (units, 1, 1), &Device::Cpu));
        let (around, incapable) = (Around::new(reading), reading.incapable(devices)?);
        Ok(Seen { reading, around, hears: [down?, up?], incapable, shares })
    }

    /// Features before a step: groups × width.
    fn figures(
        &self,
        step: usize,
        homes: &Keyed<ClusterId, DeviceId>,
        starts: &Keyed<ClusterId, f64>,
        devices: usize,
    ) -> Vec<f32> {
        let order = self.reading.subject.order();
        let now = starts[order[step]];
        let last = starts.iter().map(|start| (start - now).abs()).fold(f64::MIN_POSITIVE, f64::max);
        let width = width(devices);
        let mut figures = vec![0.0f32; homes.len() * width];
        for (unit, row) in homes.ids().zip(figures.chunks_mut(width)) {
            row[..3].copy_from_slice(&self.shares[unit]);
            row[5] = ((starts[unit] - now) / last) as f32;
            row[PLAIN + homes[unit].index()] = 1.0;
        }
        for (position, &unit) in order.iter().enumerate().take(step + 1) {
            let is_now = position == step;
            figures[unit.index() * width + if is_now { 4 } else { 3 }] = 1.0;
        }
        figures
    }
}

/// The return of every step: the sum of its reward and all later ones.
fn returns(mut rewards: Vec<f64>) -> Vec<f64> {
    for step in (1..rewards.len()).rev() {
        rewards[step - 1] += rewards[step];
    }
    rewards
}

/// Advantages: every step's return minus its mean over the last episodes, including this one, which is added to
/// `known`.
fn advantages(known: &mut Vec<Vec<f64>>, returns: Vec<f64>) -> Vec<f32> {
    known.push(returns);
    if known.len() > REMEMBERED {
        known.remove(0);
    }
    let mean = |step: usize| {
        let rewards: Vec<f64> = known.iter().filter_map(|episode| episode.get(step).copied()).collect();
        rewards.iter().sum::<f64>() / rewards.len() as f64
    };
    let last = &known[known.len() - 1];
    last.iter().enumerate().map(|(step, found)| (found - mean(step)) as f32).collect()
}

impl System for Placeto {
    fn episode(&self, weights: &Weights, mut play: Play<'_, '_, '_, '_, '_>) -> Played {
        let devices = self.settings.devices;
        let reading = play.reading;
        let (units, width) = (reading.units(), width(devices));
        let seen = Seen::new(reading, devices)?;
        let there = u32::new(reading.devices());
        let mut home = |unit| reading.instead(unit, DeviceId(play.rng.random_range(0..there)));
        let mut homes: Keyed<ClusterId, DeviceId> = ClusterId::first(units).map(&mut home).collect();
        let Some(score) = play.trials.play(&homes) else { return Ok(()) };
        let beginning = penalised(score);
        let mut before = beginning;
        let (mut all, mut drawn, mut rewards) = (Vec::new(), Vec::new(), Vec::new());
        for step in 0..units {
            let figures = seen.figures(step, &homes, &play.trials.starts(), devices);
            let tensor = Tensor::from_slice(&figures, (units, 1, width), &Device::Cpu)?;
            let shares = probabilities(&self.forward(&tensor, step, &seen)?.detach())?;
            let home = pick(&shares[0], play.is_greedy(), play.rng);
            homes[reading.subject.order()[step]] = home;
            let Some(score) = play.trials.play(&homes) else { break };
            let after = penalised(score);
            // A step that takes no time cannot get shorter.
            rewards.push(if beginning > 0.0 { (before - after) / beginning } else { 0.0 });
            before = after;
            if play.is_to_learn() {
                all.push(tensor);
                drawn.push(home);
            }
        }
        if !play.is_learning() || all.is_empty() {
            return Ok(());
        }
        let (steps, advantages) = (drawn.len(), advantages(play.baselines, returns(rewards)));
        // As many steps at a time as keep the number of features bounded.
        let at_once = (FIGURES_AT_ONCE / (units * width)).clamp(1, steps);
        let part = |first: usize| -> Result<Tensor> {
            let end = (first + at_once).min(steps);
            let log = self.forward(&Tensor::cat(&all[first..end], 1)?, first, &seen)?;
            let advantages = Tensor::from_slice(&advantages[first..end], (end - first, 1), &Device::Cpu)?;
            (chosen(&log, &drawn[first..end])? * advantages)?.sum_all()?.neg()
        };
        play.learn_in_parts(weights, (0..steps).step_by(at_once).map(part))
    }
}

#[cfg(test)]
mod tests {
    use candle_core::DType;
    use stagewright_makespan::instance::Instance;

    use super::*;
    use crate::testing::{DIAMOND, graph};
    use stagewright_policy::weights::Source;

    /// Every other group is before, after or parallel to a group.
    #[test]
    fn others_come_before_after_or_beside() {
        let problem = graph(6, &DIAMOND, 2);
        let instance = Instance::new(&problem);
        let reading = Reading::new(&instance, usize::MAX).expect("few edges");
        let around = Around::new(&reading);
        let sets_of = |unit: u32| {
            let order = reading.subject.order();
            let position =
                order.iter().position(|&other| other == ClusterId(unit)).expect("it is in the order");
            around.sets[position].each_ref().map(|set| set.iter().map(|unit| unit.0).collect::<Vec<u32>>())
        };
        assert_eq!(sets_of(0), [vec![], vec![1, 2, 3, 4], vec![5]]);
        assert_eq!(sets_of(1), [vec![0], vec![3, 4], vec![2, 5]]);
        assert_eq!(sets_of(3), [vec![0, 1, 2], vec![4], vec![5]]);
        assert_eq!(sets_of(5), [vec![], vec![], vec![0, 1, 2, 3, 4]]);
    }

    /// Batched steps give the same probabilities as the single steps that were sampled from.
    #[test]
    fn steps_together_are_as_likely_as_one_by_one() -> Result<()> {
        let problem = graph(6, &DIAMOND, 3);
        let instance = Instance::new(&problem);
        let reading = Reading::new(&instance, usize::MAX)?;
        let settings = Settings { devices: 3, width: 0, layers: 2 };
        let mut parameters = ParameterBuilder::new(Source::Seed(8), false, DType::F32, &Device::Cpu);
        let placeto = Placeto::new(&mut parameters, settings).map_err(candle_core::Error::wrap)?;
        let seen = Seen::new(&reading, 3)?;
        let starts = vec![0.0, 1.0, 1.5, 4.0, 5.0, 0.5].into();
        let steps: Vec<Tensor> = (0..6)
            .map(|step| {
                let homes = (0..6).map(|unit| DeviceId::new((unit * 2 + step) % 3)).collect();
                let figures = seen.figures(step, &homes, &starts, 3);
                Tensor::from_slice(&figures, (6, 1, width(3)), &Device::Cpu)
            })
            .collect::<Result<_>>()?;
        for (first, end) in [(0, 6), (2, 5)] {
            let all =
                placeto.forward(&Tensor::cat(&steps[first..end], 1)?, first, &seen)?.to_vec2::<f32>()?;
            for (step, row) in (first..end).zip(&all) {
                let alone = placeto.forward(&steps[step], step, &seen)?.to_vec2::<f32>()?;
                let is_same = |(a, b): (&f32, &f32)| (a - b).abs() < 1e-4;
                assert!(row.iter().zip(&alone[0]).all(is_same), "step {step}: {row:?} {:?}", alone[0]);
                assert!(row.iter().any(|log| (log - row[0]).abs() > 1e-4), "devices are alike: {row:?}");
            }
        }
        Ok(())
    }

    #[test]
    fn a_step_is_worth_what_comes_from_it_on_beside_the_last_ten_episodes() {
        assert_eq!(returns(vec![1.0, 2.0, 3.0]), [6.0, 5.0, 3.0]);
        assert_eq!(returns(Vec::new()), [0.0; 0]);
        let mut known = Vec::new();
        assert_eq!(advantages(&mut known, vec![1000.0, 1.0]), [0.0, 0.0], "alone it is as good as itself");
        for _ in 1..REMEMBERED {
            advantages(&mut known, vec![0.0, 0.0]);
        }
        // The first episode is forgotten; the last one ended after one step.
        assert_eq!(advantages(&mut known, vec![10.0]), [9.0]);
        assert_eq!(known.len(), REMEMBERED);
        assert_eq!(advantages(&mut known, vec![9.0, 9.0]), [9.0 - 1.9, 8.0]);
    }
}
