//! GDP: places the whole graph in one shot.
//!
//! Units are embedded by GraphSAGE with max pooling over their neighbours (Hamilton, Ying and Leskovec, NeurIPS 2017).
//! They are placed by layers of attention within segments of the topological order, which also attend to the input of
//! the same layer for the previous segment; no gradient flows there (Dai et al., "Transformer-XL", ACL 2019). Positions
//! are not encoded. Superposition conditions every layer on its input: x ← g(c(x₀) ⊙ x), where x₀ is the mean of the
//! units' embeddings, so that graphs share parameters without disturbing each other. The device of every unit is
//! sampled independently. Training is proximal policy optimisation with the reward −√seconds, and −10 for placements
//! that exceed memory.
//!
//! Zhou et al., "GDP: generalized device placement for dataflow graphs", arXiv 1910.01578, 2019. The paper leaves sizes
//! open; those of a published version of its successor are used: 2 layers of GraphSAGE, 3 of attention with 8 heads,
//! width 128, segments of 256.
//!
//! Choices made here:
//!
//! - 8 samples per update, with advantages relative to each other. The paper's mean over all earlier samples is
//!   dominated by infeasible samples long after the last of them.
//! - Probability ratios are clipped at 0.2 per unit, gradients at a norm of 1.
//! - A placement that exceeds memory gets the reward −10, or −√seconds with the memory penalty of this project's
//!   searches, up to a bound, if that is lower.
//! - Only attention reads the conditioned x; the residual stream is unconditioned.
//! - At most the first 32 neighbours of a unit are read.
//! - Operator kinds are as coarse as the policy's, with seconds and bytes in place of shapes, as for all systems here.
//!   The position of a unit in the order is one of its features, though attention encodes no positions.
//! - The learning rate is 1e-3, with 2 epochs and an entropy bonus of 0.01, chosen after one run each of 40 s on a step
//!   of Inception-v3, Transformer-XL, BERT or WaveNet with rates of 1e-4 to 3e-3, bonuses of 0.01 to 1 and 1 to 4
//!   epochs. With the successor's 1e-4, the result on Inception-v3 was still worse than a single device at that point;
//!   1 epoch did as well as 2.

use candle_core::{D, Device, Result, Tensor};
use candle_nn::ops::softmax;
use stagewright_core::cluster::DeviceId;
use stagewright_core::ids::{Id, Keyed};
use stagewright_makespan::ClusterId;
use stagewright_makespan::schedule::Score;
use stagewright_policy::network::layers::{Linear, Norm};
use stagewright_policy::weights::{Built, ParameterBuilder, Weights, WeightsError};

use crate::choices::{log_probabilities, pick, probabilities};
use crate::proximal::{LEAST_DEVIATION, clipped_gain, relative};
use crate::reading::{FIGURES, Reading};
use crate::settings::Settings;
use crate::system::{Play, Played, System};
use crate::trials::penalised;

/// Attention heads.
pub(crate) const HEADS: usize = 8;
/// GraphSAGE layers.
const EMBEDDING: usize = 2;
/// Units per segment.
const SEGMENT: usize = 256;
/// Maximum number of neighbours read per unit. Only the first ones are read, because pooling is dense.
const NEIGHBOURS: usize = 32;
const DRAWS: usize = 8;
const EPOCHS: usize = 2;
const CLIP: f64 = 0.2;
const ENTROPY: f64 = 0.01;
/// Reward of a placement that exceeds memory.
const INVALID: f64 = -10.0;

/// Parameters of a layer in units of width²: five square matrices, and two of four times the size.
const LAYER: usize = 13;
/// Parameters of an embedding layer in units of width².
const EMBEDDING_LAYER: usize = 3;
/// Numbers kept for the gradient per unit and layer: per attention score, and in units of width.
const PER_SCORE: usize = 7;
const CODES: usize = 50;
/// Numbers kept for the gradient per neighbour and embedding layer, in units of width.
const PER_NEIGHBOUR: usize = 2;

pub(crate) fn parameters(settings: &Settings) -> f64 {
    (settings.width.pow(2) * (LAYER * settings.layers + EMBEDDING_LAYER * EMBEDDING)) as f64
}

/// Numbers kept for the gradient.
pub(crate) fn kept(settings: &Settings, units: usize) -> f64 {
    let scores = HEADS * 2 * SEGMENT.min(units) * PER_SCORE;
    let layers = settings.layers * (scores + CODES * settings.width);
    let embedding = EMBEDDING * NEIGHBOURS * PER_NEIGHBOUR * settings.width;
    units as f64 * (layers + embedding) as f64
}

/// The GDP network.
pub(crate) struct Gdp {
    settings: Settings,
    figures: Linear,
    embedding: Vec<[Linear; 2]>,
    layers: Vec<Layer>,
    norm: Norm,
    head: Linear,
}

struct Layer {
    condition: Linear,
    norms: [Norm; 2],
    query: Linear,
    key: Linear,
    value: Linear,
    out: Linear,
    widen: Linear,
    narrow: Linear,
}

impl Layer {
    fn new(parameters: &mut ParameterBuilder, name: &str, width: usize) -> Built<Layer> {
        let mut linear = |part: &str, from, to| Linear::new(parameters, &format!("{name}.{part}"), from, to);
        let [query, key, value] = ["query", "key", "value"].map(|part| linear(part, width, width));
        let (out, widen) = (linear("out", width, width)?, linear("widen", width, 4 * width)?);
        let (narrow, condition) = (linear("narrow", 4 * width, width)?, linear("condition", width, width)?);
        let mut norm = |part: &str| Norm::new(parameters, &format!("{name}.{part}"), width);
        let norms = [norm("norm.0")?, norm("norm.1")?];
        Ok(Layer { condition, norms, query: query?, key: key?, value: value?, out, widen, narrow })
    }

    /// Maps a segment, s × width, that also attends to the segment `before` it. The input is scaled by `condition`,
    /// 1 × width.
    fn forward(&self, x: &Tensor, before: Option<&Tensor>, condition: &Tensor) -> Result<Tensor> {
        let width = x.dim(1)?;
        let own = self.norms[0].forward(&x.broadcast_mul(condition)?)?;
        let seen = match before {
            Some(before) => {
                Tensor::cat(&[&self.norms[0].forward(&before.broadcast_mul(condition)?)?, &own], 0)?
            }
            None => own.clone(),
        };
        let of_head =
            |x: &Tensor| x.reshape((x.dim(0)?, HEADS, width / HEADS))?.transpose(0, 1)?.contiguous();
        let query = of_head(&self.query.forward(&own)?)?;
        let (key, value) = (of_head(&self.key.forward(&seen)?)?, of_head(&self.value.forward(&seen)?)?);
        let scores =
            (query.matmul(&key.transpose(1, 2)?.contiguous()?)? * (HEADS as f64 / width as f64).sqrt())?;
        let heard = softmax(&scores, D::Minus1)?.matmul(&value)?;
        let heard = heard.transpose(0, 1)?.contiguous()?.reshape((x.dim(0)?, width))?;
        let x = (x + self.out.forward(&heard)?)?;
        let wide = self.widen.forward(&self.norms[1].forward(&x)?)?.relu()?;
        &x + self.narrow.forward(&wide)?
    }
}

impl Gdp {
    pub(crate) fn new(parameters: &mut ParameterBuilder, settings: Settings) -> Built<Gdp> {
        let width = settings.width;
        let pair = |parameters: &mut ParameterBuilder, index: usize| {
            Ok::<_, WeightsError>([
                Linear::new(parameters, &format!("embedding.{index}.pool"), width, width)?,
                Linear::new(parameters, &format!("embedding.{index}.mix"), 2 * width, width)?,
            ])
        };
        Ok(Gdp {
            figures: Linear::new(parameters, "figures", FIGURES, width)?,
            embedding: (0..EMBEDDING).map(|index| pair(parameters, index)).collect::<Built<_>>()?,
            layers: (0..settings.layers)
                .map(|index| Layer::new(parameters, &format!("layer.{index}"), width))
                .collect::<Built<_>>()?,
            norm: Norm::new(parameters, "norm", width)?,
            // Zero, so that all devices are equally likely at first.
            head: Linear::zero(parameters, "head", width, settings.devices)?,
            settings,
        })
    }

    /// Log-probabilities of every unit's devices, units × devices.
    fn forward(&self, seen: &Seen) -> Result<Tensor> {
        let units = seen.figures.dim(0)?;
        let width = self.settings.width;
        let mut x = self.figures.forward(&seen.figures)?.relu()?;
        for [pool, mix] in &self.embedding {
            // Pooled values are positive, so absent neighbours can be zeros.
            let items = candle_nn::ops::sigmoid(&pool.forward(&x)?)?;
            let items =
                Tensor::cat(&[&items, &Tensor::zeros((1, width), items.dtype(), items.device())?], 0)?;
            let around = items.index_select(&seen.neighbours, 0)?.reshape((units, seen.most, width))?;
            // Gathering by argmax sends the gradient to one of several equal items; candle's maximum would send it to
            // each in full.
            let largest = around.gather(&around.argmax_keepdim(1)?, 1)?.squeeze(1)?;
            x = mix.forward(&Tensor::cat(&[&x, &largest], 1)?)?.relu()?;
        }
        // To topological order; undone below.
        let x = x.index_select(&seen.order, 0)?;
        let whole = x.mean_keepdim(0)?;
        let conditions: Vec<Tensor> = self
            .layers
            .iter()
            .map(|layer| candle_nn::ops::sigmoid(&layer.condition.forward(&whole)?)? * 2.0)
            .collect::<Result<_>>()?;
        let mut before: Vec<Option<Tensor>> = vec![None; self.layers.len()];
        let mut segments = Vec::new();
        for first in (0..units).step_by(SEGMENT) {
            let mut segment = x.narrow(0, first, SEGMENT.min(units - first))?;
            for (index, layer) in self.layers.iter().enumerate() {
                let next = layer.forward(&segment, before[index].as_ref(), &conditions[index])?;
                before[index] = Some(segment.detach());
                segment = next;
            }
            segments.push(segment);
        }
        let x = Tensor::cat(&segments, 0)?.index_select(&seen.places, 0)?;
        log_probabilities(&(self.head.forward(&self.norm.forward(&x)?)? + &seen.incapable)?)
    }
}

/// Input tensors of a problem.
struct Seen {
    figures: Tensor,
    /// Units × most: neighbours, padded with the number of units.
    neighbours: Tensor,
    most: usize,
    order: Tensor,
    places: Tensor,
    incapable: Tensor,
}

impl Seen {
    fn new(reading: &Reading<'_, '_>, devices: usize) -> Result<Seen> {
        let units = reading.units();
        let mut around: Keyed<ClusterId, Vec<u32>> = Keyed::filled(Vec::new(), units);
        for &(from, to) in &reading.ends {
            around[from].push(to.0);
            around[to].push(from.0);
        }
        let most_neighbours = around.iter().map(Vec::len).max().unwrap_or(0).clamp(1, NEIGHBOURS);
        let mut neighbours = Vec::with_capacity(units * most_neighbours);
        let none = u32::new(units);
        for row in around.iter() {
            neighbours.extend((0..most_neighbours).map(|index| row.get(index).copied().unwrap_or(none)));
        }
        let ids = |ids: Vec<u32>| Tensor::new(ids, &Device::Cpu);
        Ok(Seen {
            figures: reading.figures()?,
            neighbours: ids(neighbours)?,
            most: most_neighbours,
            order: ids(reading.subject.order().iter().map(|unit| unit.0).collect())?,
            places: ids(reading.places().into_vec())?,
            incapable: reading.incapable(devices)?,
        })
    }
}

/// Reward of a placement: −√seconds if it is feasible. An infeasible placement gets [`INVALID`], or −√(penalised
/// seconds) if that is lower, so its reward is never higher than if it were feasible.
fn reward(score: Score) -> f64 {
    if score.fits() { -score.makespan.sqrt() } else { INVALID.min(-penalised(score).sqrt()) }
}

impl System for Gdp {
    fn episode(&self, weights: &Weights, mut play: Play<'_, '_, '_, '_, '_>) -> Played {
        let devices = self.settings.devices;
        let seen = Seen::new(play.reading, devices)?;
        let log = self.forward(&seen)?;
        let shares = probabilities(&log)?;
        let (mut chosen, mut old, mut rewards) = (Vec::new(), Vec::new(), Vec::new());
        let draws = if play.is_greedy() { 1 } else { DRAWS };
        for _ in 0..draws {
            let homes: Vec<DeviceId> =
                shares.iter().map(|row| pick(row, play.is_greedy(), play.rng)).collect();
            let Some(score) = play.trials.play(&homes) else { break };
            rewards.push(reward(score));
            for (unit, &home) in homes.iter().enumerate() {
                chosen.push(u32::new(unit * devices + home.index()));
                old.push(shares[unit][home.index()].max(f64::MIN_POSITIVE).ln() as f32);
            }
        }
        if !play.is_learning() || rewards.is_empty() {
            return Ok(());
        }
        let units = seen.figures.dim(0)?;
        // Step times differ by orders of magnitude between models, and with them rounding errors.
        let largest = rewards.iter().map(|reward| reward.abs()).fold(f64::MIN_POSITIVE, f64::max);
        let advantages: Vec<f32> = relative(&rewards, LEAST_DEVIATION * largest)
            .into_iter()
            .flat_map(|advantage| vec![advantage as f32; units])
            .collect();
        // The first epoch uses the parameters that the samples were drawn with.
        let mut first = Some(log);
        for _ in 0..EPOCHS {
            if !play.is_learning() {
                break;
            }
            let log = match first.take() {
                Some(log) => log,
                None => self.forward(&seen)?,
            };
            let pairs = log.reshape((units * devices, 1))?;
            let gain = clipped_gain(&pairs, &chosen, &old, &advantages, CLIP)?;
            // Impossible choices have probability 0 and contribute nothing.
            let entropy = (log.exp()? * log.clamp(-30.0, 0.0)?)?.sum(1)?.mean_all()?.neg()?;
            play.learn(weights, &(gain.neg()? - (entropy * ENTROPY)?)?)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use candle_core::DType;

    use super::*;
    use stagewright_policy::weights::Source;

    /// Two pairs of equal units and a fifth unlike any other; all are neighbours of each other.
    fn twins() -> Result<Seen> {
        let row =
            |unit: usize| (0..FIGURES).map(|figure| ((unit * 7 + figure * 3) % 5) as f32 / 5.0).collect();
        let figures: Vec<Vec<f32>> = [0, 0, 1, 1, 2].into_iter().map(row).collect();
        let others: Vec<u32> =
            (0..5u32).flat_map(|unit| (0..5).filter(move |&other| other != unit)).collect();
        let ids: Vec<u32> = (0..5).collect();
        Ok(Seen {
            figures: Tensor::new(figures, &Device::Cpu)?,
            neighbours: Tensor::new(others, &Device::Cpu)?,
            most: 4,
            order: Tensor::new(ids.clone(), &Device::Cpu)?,
            places: Tensor::new(ids, &Device::Cpu)?,
            incapable: Tensor::zeros((5, 3), DType::F32, &Device::Cpu)?,
        })
    }

    /// A system with one layer and three devices whose head is not zero.
    fn small() -> Result<(Gdp, Weights)> {
        let settings = Settings { devices: 3, width: 8, layers: 1 };
        let mut parameters = ParameterBuilder::new(Source::Seed(4), false, DType::F32, &Device::Cpu);
        let gdp = Gdp::new(&mut parameters, settings).map_err(candle_core::Error::wrap)?;
        let weights = parameters.finish().map_err(candle_core::Error::wrap)?;
        let head = &weights.vars()["head.weight"];
        let numbers: Vec<f32> =
            (0..head.elem_count()).map(|index| (index * 7 % 11) as f32 / 5.0 - 1.0).collect();
        head.set(&Tensor::from_vec(numbers, head.dims(), &Device::Cpu)?)?;
        Ok((gdp, weights))
    }

    /// Units without neighbours.
    fn apart(units: usize, figures: Vec<f32>) -> Result<Seen> {
        let ids: Vec<u32> = u32::first(units).collect();
        Ok(Seen {
            figures: Tensor::from_vec(figures, (units, FIGURES), &Device::Cpu)?,
            neighbours: Tensor::new(vec![u32::new(units); units], &Device::Cpu)?,
            most: 1,
            order: Tensor::new(ids.clone(), &Device::Cpu)?,
            places: Tensor::new(ids, &Device::Cpu)?,
            incapable: Tensor::zeros((units, 3), DType::F32, &Device::Cpu)?,
        })
    }

    /// Without conditioning on the whole graph, a unit affects only its own segment and the next.
    #[test]
    fn a_segment_sees_the_one_before_it_and_none_after() -> Result<()> {
        let (gdp, weights) = small()?;
        for part in ["weight", "bias"] {
            let condition = &weights.vars()[&format!("layer.0.condition.{part}")];
            condition.set(&condition.as_tensor().zeros_like()?)?;
        }
        let units = 2 * SEGMENT + 40;
        let plain: Vec<f32> = (0..units * FIGURES).map(|index| (index * 5 % 7) as f32 / 7.0).collect();
        let changed = |unit: usize| {
            let mut figures = plain.clone();
            figures[unit * FIGURES..][..FIGURES].iter_mut().for_each(|figure| *figure = 1.0 - *figure);
            figures
        };
        let forward = |figures: Vec<f32>| gdp.forward(&apart(units, figures)?)?.to_vec2::<f32>();
        let before = forward(plain.clone())?;
        let (first, last) = (forward(changed(0))?, forward(changed(units - 1))?);
        let third = 2 * SEGMENT;
        assert!(first[1] != before[1] && first[third - 1] != before[third - 1]);
        assert!(first[third..] == before[third..]);
        assert!(last[units - 2] != before[units - 2] && last[..third] == before[..third]);
        Ok(())
    }

    /// A segment that attends to the one before it gives the same output as the end of a single segment that contains
    /// both.
    #[test]
    fn what_is_remembered_counts_as_if_it_were_there() -> Result<()> {
        let (gdp, _) = small()?;
        let x =
            Tensor::from_vec((0..72).map(|index| (index * 11 % 17) as f32).collect(), (9, 8), &Device::Cpu)?;
        let condition =
            Tensor::from_vec((1..9).map(|index| index as f32 / 4.0).collect(), (1, 8), &Device::Cpu)?;
        let (before, own) = (x.narrow(0, 0, 5)?, x.narrow(0, 5, 4)?);
        let apart = gdp.layers[0].forward(&own, Some(&before), &condition)?.to_vec2::<f32>()?;
        let whole = gdp.layers[0].forward(&x, None, &condition)?.to_vec2::<f32>()?;
        for (apart, whole) in apart.iter().flatten().zip(whole[5..].iter().flatten()) {
            assert!((apart - whole).abs() < 1e-4 * whole.abs().max(1.0), "{apart} {whole}");
        }
        Ok(())
    }

    #[test]
    fn what_does_not_fit_is_no_better_than_ten_below_nothing() {
        assert_eq!(reward(Score { lack: 0.0, makespan: 4.0 }), -2.0);
        assert_eq!(reward(Score { lack: 0.1, makespan: 4.0 }), -10.0);
        // Nor is the reward higher than for a feasible placement.
        assert!(reward(Score { lack: 0.1, makespan: 400.0 }) < -20.0);
        // The same holds for a far larger memory overflow.
        assert!(reward(Score { lack: 1e12, makespan: 400.0 }) > -400.0);
    }

    /// Along the gradient with respect to the pooling weights, the loss changes as the gradient predicts, even with
    /// equal neighbours.
    #[test]
    fn equal_neighbours_count_once() -> Result<()> {
        let (gdp, weights) = small()?;
        let seen = twins()?;
        let loss = || gdp.forward(&seen)?.narrow(1, 0, 1)?.sum_all();
        let gradients = loss()?.backward()?;
        for (name, var) in weights.vars().iter().filter(|(name, _)| name.contains("pool.weight")) {
            let gradient = gradients.get(var).expect("the loss depends on it").detach();
            let slope = gradient.sqr()?.sum_all()?.to_scalar::<f32>()?;
            let step = (&gradient * (2e-3 / f64::from(slope.sqrt())))?;
            let before = var.as_tensor().copy()?.detach();
            let loss_at = |by: Tensor| {
                var.set(&by)?;
                loss()?.to_scalar::<f32>()
            };
            let change = loss_at((&before + &step)?)? - loss_at((&before - &step)?)?;
            var.set(&before)?;
            let expected = 4e-3 * slope.sqrt();
            assert!((change - expected).abs() < 0.05 * expected, "{name}: {change} for {expected}");
        }
        Ok(())
    }
}
