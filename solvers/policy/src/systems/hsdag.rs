//! HSDAG: how units are grouped learned together with where the groups go.
//!
//! A graph convolution of two layers codes the units; an edge's score is read off the codes of its ends, every unit
//! keeps the edge of its highest score, and what hangs together are the groups, whose number nobody says (graph
//! parsing: Song, Huang, Wang, Zhang and Lin, "Graph parsing networks", ICLR 2024). A perceptron places the groups. An
//! episode has 20 steps; what a unit's group was coded as is added to what the next step reads of it. Learned by policy
//! gradient: the reward is one over the seconds, with no baseline.
//!
//! Duan et al., "A structure-aware framework for learning device placements on computation graphs", NeurIPS 2024, with
//! what its authors released: width 128, Adam 1e-3, dropout 0.2. The released program gives placements with everything
//! on one device a run time of 1e10 s, so that none of them is ever the answer; here they count what they take. Chosen
//! here: rewards are relative to the first placement of a graph, since one over the seconds differs by orders of
//! magnitude between models, and nothing for what does not fit; every step counts by its own reward, where the paper
//! multiplies all of them by the sum over the episode (discounted by 0.95 in the program), which a placement has a
//! twentieth part in; the graph is parsed once, where the program goes on parsing what it has grouped as long as
//! anything merges, which leaves a group for every connected piece; a group's code is the mean over its members, since
//! sums that are added to what the next step reads grow without end, and no gradient goes from a step to those before
//! it; the convolution is a plain mean over neighbours and the unit itself, and there are no residuals, no
//! normalisation and no second convolution for what is pooled; gradients are clipped at a norm of 1, which a sum over
//! 20 steps without a baseline mostly exceeds; units are colocated operators, and coarsened like those of all systems
//! where there are too many, in place of contracted chains; a unit that cannot run where its group goes runs on the
//! first device that can.

use candle_core::{Device, Result, Tensor};
use candle_nn::ops::sigmoid;
use petgraph::unionfind::UnionFind;
use rand::{Rng, RngExt};

use super::kind::Settings;
use super::reading::{FIGURES, Reading};
use super::system::{Play, System};
use crate::choices::{chosen, likelihoods, log_likelihoods, pick};
use crate::learn::TrainError;
use crate::network::layers::Linear;
use crate::rows::Rows;
use crate::weights::{Nursery, Weights, WeightsError};

/// Steps of an episode.
const STEPS: usize = 20;
const DROPOUT: f64 = 0.2;
/// Hops in which the fractal dimension is measured.
const HOPS: usize = 8;

/// Numbers that a gradient keeps of a unit in a step, in widths: in a layer, and in all that comes after; and of an edge.
const PER_LAYER: usize = 10;
const PER_UNIT: usize = 18;
const PER_EDGE: usize = 8;

pub(super) fn parameters(settings: &Settings) -> f64 {
    // The layers, and one each of scores and places.
    (settings.width.pow(2) * (settings.layers + 2)) as f64
}

/// Numbers that are kept for the gradient.
pub(super) fn kept(settings: &Settings, units: usize, edges: usize) -> f64 {
    let widths = units * (PER_LAYER * settings.layers + PER_UNIT) + edges * PER_EDGE;
    (STEPS * settings.width) as f64 * widths as f64
}

/// The system.
pub(super) struct Hsdag {
    settings: Settings,
    figures: Linear,
    layers: Vec<Linear>,
    score: [Linear; 2],
    place: [Linear; 2],
}

/// A problem as tensors.
struct Seen {
    /// Units × figures, the fractal dimension last.
    figures: Tensor,
    /// Neighbours on both sides and the unit itself, and one part in how many they are.
    around: Rows,
    by_around: Tensor,
    from: Rows,
    to: Rows,
}

impl Seen {
    fn new(reading: &Reading<'_, '_>) -> Result<Seen> {
        let units = reading.units();
        let mut around: Vec<Vec<u32>> = (0..units as u32).map(|unit| vec![unit]).collect();
        for &(from, to) in &reading.ends {
            around[from as usize].push(to);
            around[to as usize].push(from);
        }
        let dimensions = fractal_dimensions(&around);
        let dimensions = Tensor::from_vec(dimensions, (units, 1), &Device::Cpu)?;
        let by: Vec<f32> = around.iter().map(|row| 1.0 / row.len() as f32).collect();
        let mut offsets = vec![0u32];
        for row in &around {
            offsets.push(offsets[offsets.len() - 1] + row.len() as u32);
        }
        let rows = |offsets, entries| Rows::new(units, offsets, entries).map_err(candle_core::Error::wrap);
        let gather = |ends: Vec<u32>| Rows::gather(units, ends).map_err(candle_core::Error::wrap);
        Ok(Seen {
            figures: Tensor::cat(&[reading.figures()?, dimensions], 1)?,
            around: rows(offsets, around.concat())?,
            by_around: Tensor::from_vec(by, (units, 1), &Device::Cpu)?,
            from: gather(reading.ends.iter().map(|ends| ends.0).collect())?,
            to: gather(reading.ends.iter().map(|ends| ends.1).collect())?,
        })
    }
}

/// How the number of units within a distance grows with it: the slope of its logarithm over that of the distance (Song,
/// Havlin and Makse, "Self-similarity of complex networks", Nature 2005). O(units · what is near).
fn fractal_dimensions(around: &[Vec<u32>]) -> Vec<f32> {
    let mut seen = vec![usize::MAX; around.len()];
    let slope = |unit: usize| {
        let mut front = vec![unit as u32];
        seen[unit] = unit;
        let (mut mass, mut points) = (1.0f64, Vec::new());
        for hop in 1..=HOPS {
            let mut next = Vec::new();
            for &at in &front {
                for &other in &around[at as usize] {
                    if seen[other as usize] != unit {
                        seen[other as usize] = unit;
                        next.push(other);
                    }
                }
            }
            if next.is_empty() {
                break;
            }
            mass += next.len() as f64;
            points.push(((hop as f64).ln(), mass.ln()));
            front = next;
        }
        let count = points.len() as f64;
        let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / count;
        let (x, y) = (mean(|point| point.0), mean(|point| point.1));
        let both: f64 = points.iter().map(|point| (point.0 - x) * (point.1 - y)).sum();
        let own: f64 = points.iter().map(|point| (point.0 - x).powi(2)).sum();
        // Fewer than two points have no slope.
        if own > 0.0 { (both / own) as f32 } else { 0.0 }
    };
    (0..around.len()).map(slope).collect()
}

/// Codes with some of their numbers left out and the others larger for it (candle's own takes no seed).
fn dropped(x: &Tensor, rng: &mut impl Rng) -> Result<Tensor> {
    let kept = (1.0 / (1.0 - DROPOUT)) as f32;
    let mask: Vec<f32> =
        (0..x.elem_count()).map(|_| if rng.random_bool(DROPOUT) { 0.0 } else { kept }).collect();
    x * Tensor::from_vec(mask, x.shape(), x.device())?
}

/// What one step drew.
struct Drawn {
    homes: Vec<u32>,
    /// The logarithm of how likely it was.
    likely: Tensor,
    /// What is added to what the next step reads: units × width.
    added: Tensor,
}

impl Hsdag {
    pub(super) fn new(nursery: &mut Nursery, settings: Settings) -> std::result::Result<Hsdag, WeightsError> {
        let width = settings.width;
        let layer = |nursery: &mut Nursery, at| Linear::new(nursery, &format!("layer.{at}"), width, width);
        Ok(Hsdag {
            figures: Linear::new(nursery, "figures", FIGURES + 1, width)?,
            layers: (0..settings.layers)
                .map(|at| layer(nursery, at))
                .collect::<std::result::Result<_, _>>()?,
            score: [
                Linear::new(nursery, "score.0", width, width)?,
                Linear::new(nursery, "score.1", width, 1)?,
            ],
            place: [
                Linear::new(nursery, "place.0", width, width)?,
                Linear::new(nursery, "place.1", width, settings.devices)?,
            ],
            settings,
        })
    }

    /// One step from what is read of the units, units × width.
    fn step(&self, x: &Tensor, seen: &Seen, play: &mut Play<'_, '_, '_, '_, '_>) -> Result<Drawn> {
        let mut code = x.clone();
        for layer in &self.layers {
            let heard = seen.around.sum(&code)?.broadcast_mul(&seen.by_around)?;
            code = layer.forward(&heard)?.relu()?;
            if !play.is_greedy() {
                code = dropped(&code, play.rng)?;
            }
        }
        let (group_of, kept) = self.groups(&code, seen, &play.reading.ends)?;
        let count = group_of.iter().map(|&group| group + 1).max().unwrap_or(0) as usize;
        let members = Rows::segments(count, &group_of).map_err(candle_core::Error::wrap)?;
        // A unit counts as much as the edge that it keeps: so the scores have a gradient.
        let mut sizes = vec![0.0f32; count];
        group_of.iter().for_each(|&group| sizes[group as usize] += 1.0);
        let sizes = Tensor::from_vec(sizes, (count, 1), &Device::Cpu)?;
        let groups = members.sum(&code.broadcast_mul(&kept)?)?.broadcast_div(&sizes)?;
        let hidden = self.place[0].forward(&groups)?.relu()?;
        let devices = self.settings.devices;
        let log = log_likelihoods(
            &self.place[1].forward(&hidden)?.broadcast_add(&play.reading.not_there(devices)?)?,
        )?;
        let shares = likelihoods(&log)?;
        let drawn: Vec<u32> = shares.iter().map(|row| pick(row, play.is_greedy(), play.rng)).collect();
        Ok(Drawn {
            homes: group_of.iter().map(|&group| drawn[group as usize]).collect(),
            likely: chosen(&log, &drawn)?.sum_all()?,
            added: members.transposed().sum(&groups)?.detach(),
        })
    }

    /// The group of every unit, and the score of the edge that it keeps, units × 1.
    fn groups(&self, code: &Tensor, seen: &Seen, ends: &[(u32, u32)]) -> Result<(Vec<u32>, Tensor)> {
        let (units, edges) = (code.dim(0)?, ends.len());
        if edges == 0 {
            let alone = Tensor::ones((units, 1), code.dtype(), code.device())?;
            return Ok(((0..units as u32).collect(), alone));
        }
        let both = (seen.from.sum(code)? * seen.to.sum(code)?)?;
        let scores = sigmoid(&self.score[1].forward(&self.score[0].forward(&both)?.relu()?)?)?;
        let figures: Vec<f32> = scores.detach().flatten_all()?.to_vec1()?;
        let mut best: Vec<Option<u32>> = vec![None; units];
        for (edge, &(from, to)) in ends.iter().enumerate() {
            for unit in [from, to] {
                let kept = &mut best[unit as usize];
                if kept.is_none_or(|kept| figures[edge] > figures[kept as usize]) {
                    *kept = Some(edge as u32);
                }
            }
        }
        let mut sets = UnionFind::<u32>::new(units);
        for &edge in best.iter().flatten() {
            let (from, to) = ends[edge as usize];
            sets.union(from, to);
        }
        // Numbered in the order of their first units.
        let mut name = vec![None; units];
        let mut count = 0;
        let group_of = (0..units as u32)
            .map(|unit| {
                *name[sets.find_mut(unit) as usize].get_or_insert_with(|| {
                    count += 1;
                    count - 1
                })
            })
            .collect();
        // What has no edge keeps itself: a row after the last of the scores.
        let one = Tensor::ones((1, 1), scores.dtype(), scores.device())?;
        let rows: Vec<u32> = best.iter().map(|edge| edge.unwrap_or(edges as u32)).collect();
        let kept = Tensor::cat(&[scores, one], 0)?.index_select(&Tensor::new(rows, &Device::Cpu)?, 0)?;
        Ok((group_of, kept))
    }
}

impl System for Hsdag {
    fn episode(
        &self,
        weights: &Weights,
        mut play: Play<'_, '_, '_, '_, '_>,
    ) -> std::result::Result<(), TrainError> {
        let seen = Seen::new(play.reading)?;
        let read = self.figures.forward(&seen.figures)?.relu()?;
        let mut added = read.zeros_like()?.detach();
        let mut terms = Vec::new();
        for _ in 0..STEPS {
            let drawn = self.step(&(&read + &added)?, &seen, &mut play)?;
            let Some(score) = play.trials.play(&drawn.homes) else { break };
            added = (added + drawn.added)?;
            if !play.is_to_learn() {
                continue;
            }
            // The graph's first placement is the measure.
            let reward = *play.baseline(score.makespan) / score.makespan;
            // A step that takes no time is as good as the first of them.
            let reward = match score.fits() {
                true if reward.is_finite() => reward,
                true => 1.0,
                false => 0.0,
            };
            terms.push((drawn.likely * (-reward))?);
        }
        if !play.is_learning() || terms.is_empty() {
            return Ok(());
        }
        let loss = Tensor::stack(&terms, 0)?.sum_all()?;
        play.learn(weights, &loss)
    }
}
