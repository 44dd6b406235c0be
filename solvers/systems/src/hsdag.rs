//! HSDAG: learns the grouping of units jointly with the placement of the groups.
//!
//! Chains of units are contracted: a unit joins the chain of its predecessor if it is that unit's only successor and
//! has no other predecessor. A two-layer graph convolution embeds the chains. The score of an edge between two chains
//! is computed from their embeddings, every chain keeps its edge with the highest score, and the connected components
//! are the groups, so their number is not fixed (graph parsing: Song, Huang, Wang, Zhang and Lin, "Graph parsing
//! networks", ICLR 2024). A perceptron places the groups. An episode has 20 steps; the embedding of a chain's group is
//! added to the chain's input in the next step. Training is by policy gradient with the reward 1 / seconds and no
//! baseline.
//!
//! Duan et al., "A structure-aware framework for learning device placements on computation graphs", NeurIPS 2024, with
//! the settings that its authors released: width 128, Adam 1e-3, dropout 0.2. The released program assigns a run time
//! of 1e10 s to placements on a single device, so none of them is ever the answer; here their real time counts.
//!
//! Choices made here:
//!
//! - Rewards are relative to the first placement of a graph, because 1 / seconds differs by orders of magnitude between
//!   models. The reward of an infeasible placement is 0.
//! - Every step is weighted by its own reward. The paper multiplies all steps by the sum over the episode (discounted
//!   by 0.95 in the program), to which a placement contributes one twentieth. The paper's way, a baseline, and
//!   advantages within the episode were tried and came within 1% of this.
//! - The graph is parsed once. The program parses the grouped graph again as long as anything merges, which leaves one
//!   group per connected component.
//! - A group's embedding is the mean over its members, because sums that are added to the next step's input grow
//!   without bound. No gradient flows from a step to earlier ones.
//! - The convolution is a plain mean over neighbours and the chain itself. There are no residuals, no normalisation and
//!   no second convolution after pooling.
//! - Gradients are clipped at a norm of 1, which a sum over 20 steps without a baseline mostly exceeds.
//! - Units are colocated operators, coarsened like those of all systems if there are too many, and the features of a
//!   chain are the mean of its units.
//! - A unit that cannot run on its group's device runs on the first device that can.

use candle_core::{Device, Result, Tensor};
use candle_nn::ops::sigmoid;
use petgraph::unionfind::UnionFind;
use rand::{Rng, RngExt};
use stagewright_core::cluster::DeviceId;
use stagewright_core::ids::{Id, Keyed};
use stagewright_makespan::ClusterId;
use stagewright_makespan::schedule::Score;
use stagewright_policy::network::layers::Linear;
use stagewright_policy::rows::Rows;
use stagewright_policy::weights::{Built, ParameterBuilder, Weights};

use crate::chains::Chains;
use crate::choices::{chosen, log_probabilities, pick, probabilities};
use crate::reading::{FIGURES, Reading};
use crate::settings::Settings;
use crate::stack::Stack;
use crate::system::{Play, Played, System};

/// Steps of an episode.
const STEPS: usize = 20;
const DROPOUT: f64 = 0.2;
/// Hops over which the fractal dimension is measured.
const HOPS: usize = 8;

/// Numbers kept for the gradient in a step, in units of width: per chain and layer, per chain after the layers, and per
/// edge.
const PER_LAYER: usize = 10;
const PER_CHAIN: usize = 18;
const PER_EDGE: usize = 8;

pub(crate) fn parameters(settings: &Settings) -> f64 {
    // The layers, and one matrix each for the scores and the placement.
    (settings.width.pow(2) * (settings.layers + 2)) as f64
}

/// Numbers kept for the gradient of all steps; without learning, of one step.
pub(crate) fn kept(settings: &Settings, reading: &Reading<'_, '_>, learns: bool) -> f64 {
    let chains = Chains::from_reading(reading);
    let widths = chains.count * (PER_LAYER * settings.layers + PER_CHAIN) + chains.ends.len() * PER_EDGE;
    let steps = if learns { STEPS } else { 1 };
    (steps * settings.width) as f64 * widths as f64
}

/// The HSDAG network.
pub(crate) struct Hsdag {
    settings: Settings,
    figures: Linear,
    layers: Vec<Linear>,
    score: Stack,
    place: Stack,
}

/// Input tensors of a problem with contracted chains.
struct Seen {
    /// The chain of each unit of the reading.
    chain_of: Keyed<ClusterId, u32>,
    /// Edges between chains.
    ends: Keyed<u32, (u32, u32)>,
    /// Chains × features: means over units, with the fractal dimension last.
    figures: Tensor,
    /// Neighbours on both sides and the chain itself, and 1 / their number.
    around: Rows,
    by_around: Tensor,
    from: Rows,
    to: Rows,
}

impl Seen {
    fn new(reading: &Reading<'_, '_>) -> Result<Seen> {
        let Chains { chain_of, count, ends } = Chains::from_reading(reading);
        let members = Rows::segments(count, &chain_of).map_err(candle_core::Error::wrap)?;
        let figures = mean(&members, &chain_of, &reading.figures()?)?;
        let mut around: Keyed<u32, Vec<u32>> = u32::first(count).map(|chain| vec![chain]).collect();
        for &(from, to) in &ends {
            around[from].push(to);
            around[to].push(from);
        }
        let dimensions = fractal_dimensions(&around);
        let dimensions = Tensor::from_vec(dimensions, (count, 1), &Device::Cpu)?;
        let by: Vec<f32> = around.iter().map(|row| 1.0 / row.len() as f32).collect();
        let mut offsets = vec![0u32];
        for row in around.iter() {
            offsets.push(offsets[offsets.len() - 1] + u32::new(row.len()));
        }
        let rows = |offsets, entries| Rows::new(count, offsets, entries).map_err(candle_core::Error::wrap);
        let gather = |ends: Vec<u32>| Rows::gather(count, ends).map_err(candle_core::Error::wrap);
        Ok(Seen {
            figures: Tensor::cat(&[figures, dimensions], 1)?,
            around: rows(offsets, around.concat())?,
            by_around: Tensor::from_vec(by, (count, 1), &Device::Cpu)?,
            from: gather(ends.iter().map(|ends| ends.0).collect())?,
            to: gather(ends.iter().map(|ends| ends.1).collect())?,
            chain_of,
            ends: ends.into(),
        })
    }
}

/// The mean over the members of each set: one row per member to one row per set.
fn mean(members: &Rows, set_of: &[u32], x: &Tensor) -> Result<Tensor> {
    let mut sizes: Keyed<u32, f32> = Keyed::filled(0.0, members.row_count());
    set_of.iter().for_each(|&set| sizes[set] += 1.0);
    members.sum(x)?.broadcast_div(&Tensor::from_vec(
        sizes.into_vec(),
        (members.row_count(), 1),
        &Device::Cpu,
    )?)
}

/// Fractal dimension around each chain: the slope of the log number of chains within a distance over the log distance
/// (Song, Havlin and Makse, "Self-similarity of complex networks", Nature 2005). O(chains · size of the neighbourhood).
fn fractal_dimensions(around: &Keyed<u32, Vec<u32>>) -> Vec<f32> {
    let mut seen = Keyed::filled(u32::MAX, around.len());
    let slope = |chain: u32| {
        let mut front = vec![chain];
        seen[chain] = chain;
        let (mut mass, mut points) = (1.0f64, Vec::new());
        for hop in 1..=HOPS {
            let mut next = Vec::new();
            for &unit in &front {
                for &other in &around[unit] {
                    if seen[other] != chain {
                        seen[other] = chain;
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
        let mean = |coordinate: fn(&(f64, f64)) -> f64| points.iter().map(coordinate).sum::<f64>() / count;
        let (x, y) = (mean(|point| point.0), mean(|point| point.1));
        let both: f64 = points.iter().map(|point| (point.0 - x) * (point.1 - y)).sum();
        let own: f64 = points.iter().map(|point| (point.0 - x).powi(2)).sum();
        // The slope needs at least two points.
        if own > 0.0 { (both / own) as f32 } else { 0.0 }
    };
    around.ids().map(slope).collect()
}

/// Dropout, with a seeded generator (candle's own takes no seed).
fn dropped(x: &Tensor, rng: &mut impl Rng) -> Result<Tensor> {
    let kept = (1.0 / (1.0 - DROPOUT)) as f32;
    let mask: Vec<f32> =
        (0..x.elem_count()).map(|_| if rng.random_bool(DROPOUT) { 0.0 } else { kept }).collect();
    x * Tensor::from_vec(mask, x.shape(), x.device())?
}

/// Samples of one step.
struct Drawn {
    /// The device of every unit.
    homes: Vec<DeviceId>,
    /// Log-probability of the sample.
    likely: Tensor,
    /// Added to the input of the next step: chains × width.
    added: Tensor,
}

impl Hsdag {
    pub(crate) fn new(parameters: &mut ParameterBuilder, settings: Settings) -> Built<Hsdag> {
        let width = settings.width;
        Ok(Hsdag {
            figures: Linear::new(parameters, "figures", FIGURES + 1, width)?,
            layers: (0..settings.layers)
                .map(|index| Linear::new(parameters, &format!("layer.{index}"), width, width))
                .collect::<Built<_>>()?,
            score: Stack::new(parameters, "score", &[width, width, 1])?,
            place: Stack::new(parameters, "place", &[width, width, settings.devices])?,
            settings,
        })
    }

    /// Runs one step from the input of the chains, chains × width.
    fn step(&self, x: &Tensor, seen: &Seen, play: &mut Play<'_, '_, '_, '_, '_>) -> Result<Drawn> {
        let mut code = x.clone();
        for layer in &self.layers {
            let heard = seen.around.sum(&code)?.broadcast_mul(&seen.by_around)?;
            code = layer.forward(&heard)?.relu()?;
            if !play.is_greedy() {
                code = dropped(&code, play.rng)?;
            }
        }
        let (group_of, kept) = self.groups(&code, seen)?;
        let count = group_of.iter().map(|&group| group + 1).max().unwrap_or(0) as usize;
        let members = Rows::segments(count, &group_of).map_err(candle_core::Error::wrap)?;
        // Chains are weighted by the score of the edge that they keep, so that scores have a gradient.
        let groups = mean(&members, &group_of, &code.broadcast_mul(&kept)?)?;
        let not_there = play.reading.not_there(self.settings.devices)?;
        let log = log_probabilities(&self.place.forward(&groups)?.broadcast_add(&not_there)?)?;
        let shares = probabilities(&log)?;
        let drawn: Keyed<u32, DeviceId> =
            shares.iter().map(|row| pick(row, play.is_greedy(), play.rng)).collect();
        Ok(Drawn {
            homes: seen.chain_of.iter().map(|&chain| drawn[group_of[chain]]).collect(),
            likely: chosen(&log, &drawn)?.sum_all()?,
            added: members.transposed().sum(&groups)?.detach(),
        })
    }

    /// The group of every chain, and the score of the edge that it keeps, chains × 1.
    fn groups(&self, code: &Tensor, seen: &Seen) -> Result<(Keyed<u32, u32>, Tensor)> {
        let (chains, ends) = (code.dim(0)?, &seen.ends);
        let edges = ends.len();
        if edges == 0 {
            let alone = Tensor::ones((chains, 1), code.dtype(), code.device())?;
            return Ok((u32::first(chains).collect(), alone));
        }
        let both = (seen.from.sum(code)? * seen.to.sum(code)?)?;
        let scores = sigmoid(&self.score.forward(&both)?)?;
        let figures: Keyed<u32, f32> = scores.detach().flatten_all()?.to_vec1()?.into();
        let mut best: Keyed<u32, Option<u32>> = Keyed::filled(None, chains);
        for (edge, &(from, to)) in ends.enumerate() {
            for chain in [from, to] {
                let kept = &mut best[chain];
                if kept.is_none_or(|kept| figures[edge] > figures[kept]) {
                    *kept = Some(edge);
                }
            }
        }
        let mut sets = UnionFind::<u32>::new(chains);
        for &edge in best.iter().flatten() {
            let (from, to) = ends[edge];
            sets.union(from, to);
        }
        // Groups are numbered by their first chains.
        let mut name = Keyed::filled(None, chains);
        let mut count = 0;
        let group_of = best
            .ids()
            .map(|chain| {
                *name[sets.find_mut(chain)].get_or_insert_with(|| {
                    count += 1;
                    count - 1
                })
            })
            .collect();
        // Chains without edges have score 1: an extra row after the scores.
        let unscaled = Tensor::ones((1, 1), scores.dtype(), scores.device())?;
        let none = u32::new(edges);
        let rows: Vec<u32> = best.iter().map(|edge| edge.unwrap_or(none)).collect();
        let kept = Tensor::cat(&[scores, unscaled], 0)?.index_select(&Tensor::new(rows, &Device::Cpu)?, 0)?;
        Ok((group_of, kept))
    }
}

/// Reward of a placement: seconds of the first placement over its own seconds; 0 if it is infeasible.
fn reward(score: Score, first: f64) -> f64 {
    let reward = first / score.makespan;
    match score.fits() {
        true if reward.is_finite() => reward,
        // A step that takes no time counts like the first placement.
        true => 1.0,
        false => 0.0,
    }
}

impl System for Hsdag {
    fn episode(&self, weights: &Weights, mut play: Play<'_, '_, '_, '_, '_>) -> Played {
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
            // Rewards are relative to the graph's first placement.
            let reward = reward(score, *play.baseline(score.makespan));
            terms.push((drawn.likely * (-reward))?);
        }
        if !play.is_learning() || terms.is_empty() {
            return Ok(());
        }
        let loss = Tensor::stack(&terms, 0)?.sum_all()?;
        play.learn(weights, &loss)
    }
}

#[cfg(test)]
mod tests {
    use candle_core::DType;
    use stagewright_core::solver::Stop;
    use stagewright_makespan::instance::Instance;
    use stagewright_makespan::schedule::Evaluator;

    use super::*;
    use crate::system::Purpose;
    use crate::testing::{DIAMOND, graph};
    use crate::trials::Trials;
    use stagewright_policy::weights::Source;

    fn small() -> Result<(Hsdag, Weights)> {
        let settings = Settings { devices: 2, width: 8, layers: 2 };
        let mut parameters = ParameterBuilder::new(Source::Seed(4), false, DType::F32, &Device::Cpu);
        let hsdag = Hsdag::new(&mut parameters, settings).map_err(candle_core::Error::wrap)?;
        Ok((hsdag, parameters.finish().map_err(candle_core::Error::wrap)?))
    }

    #[test]
    fn what_fits_counts_by_how_short_it_is_and_what_does_not_counts_nothing() {
        let reward_of = |lack, makespan, first| reward(Score { lack, makespan }, first);
        assert_eq!((reward_of(0.0, 2.0, 3.0), reward_of(0.0, 6.0, 3.0)), (1.5, 0.5));
        assert_eq!((reward_of(0.1, 2.0, 3.0), reward_of(0.1, 0.0, 0.0)), (0.0, 0.0));
        assert_eq!((reward_of(0.0, 0.0, 0.0), reward_of(0.0, 0.0, 3.0)), (1.0, 1.0));
    }

    /// Worked by hand, with scores that increase with the first component of the embeddings: every chain keeps its best
    /// edge, and the connected components are the groups.
    #[test]
    fn groups_hang_together_by_the_edges_that_chains_keep() -> Result<()> {
        let (hsdag, weights) = small()?;
        let set = |name: &str, value: &dyn Fn(usize) -> f32| {
            let var = &weights.vars()[name];
            let numbers: Vec<f32> = (0..var.elem_count()).map(value).collect();
            var.set(&Tensor::from_vec(numbers, var.dims(), &Device::Cpu)?)
        };
        // One hidden unit is the first component of the product of both ends, and the score is its sigmoid.
        for name in ["score.0.weight", "score.1.weight"] {
            set(name, &|index| if index == 0 { 1.0 } else { 0.0 })?;
        }
        set("score.0.bias", &|_| 0.0)?;
        set("score.1.bias", &|_| 0.0)?;
        // 0 – 1 – 2 – 3 – 4, and 5 isolated, with alternating directions so that nothing is contracted.
        let problem = graph(6, &[(1, 0), (1, 2), (3, 2), (3, 4)], 2);
        let instance = Instance::new(&problem);
        let reading = Reading::new(&instance, usize::MAX)?;
        let seen = Seen::new(&reading)?;
        assert_eq!(seen.ends.len(), 4);
        // Products along the edges: 0 – 1: 6, 1 – 2: 3, 2 – 3: 1, 3 – 4: 5.
        let by_unit = [2.0, 3.0, 1.0, 1.0, 5.0, 9.0f32];
        let mut code = vec![0.0f32; 6 * 8];
        for (unit, &chain) in seen.chain_of.iter().enumerate() {
            code[chain as usize * 8] = by_unit[unit];
        }
        let (group_of, kept) = hsdag.groups(&Tensor::from_vec(code, (6, 8), &Device::Cpu)?, &seen)?;
        let group = |unit: u32| group_of[seen.chain_of[ClusterId(unit)]];
        assert!(group(0) == group(1) && group(1) == group(2) && group(3) == group(4));
        assert!(group(2) != group(3) && group(5) != group(0) && group(5) != group(3));
        assert_eq!(group_of.iter().max(), Some(&2));
        let kept: Keyed<u32, f32> = kept.flatten_all()?.to_vec1()?.into();
        let sigmoid = |x: f32| 1.0 / (1.0 + (-x).exp());
        for (unit, expected) in (0..).zip([6.0, 6.0, 3.0, 5.0, 5.0]) {
            assert!(
                (kept[seen.chain_of[ClusterId(unit)]] - sigmoid(expected)).abs() < 1e-6,
                "{unit}: {kept:?}"
            );
        }
        assert_eq!(kept[seen.chain_of[ClusterId(5)]], 1.0);
        Ok(())
    }

    /// The grouping is learned too: the log-probability of a sample has a gradient with respect to the scores.
    #[test]
    fn scores_have_a_gradient() -> Result<()> {
        let (hsdag, weights) = small()?;
        let problem = graph(6, &DIAMOND, 2);
        let instance = Instance::new(&problem);
        let reading = Reading::new(&instance, usize::MAX)?;
        let seen = Seen::new(&reading)?;
        let stop = Stop::new(None, Default::default());
        let mut trials = Trials::new(&reading, Evaluator::new(&instance), u64::MAX, 0.0, stop);
        let mut rng = stagewright_core::seed::stream(1, 0);
        let (baselines, purpose) = (&mut Vec::new(), Purpose::Draw);
        let mut play = Play { baselines, reading: &reading, trials: &mut trials, purpose, rng: &mut rng };
        let x = hsdag.figures.forward(&seen.figures)?.relu()?;
        let drawn = hsdag.step(&x, &seen, &mut play)?;
        assert_eq!(drawn.homes.len(), 6);
        // Units 3 and 4 form a chain.
        let chain_of = |unit: u32| seen.chain_of[ClusterId(unit)];
        assert_eq!((chain_of(3), drawn.homes[3]), (chain_of(4), drawn.homes[4]));
        let gradients = drawn.likely.backward()?;
        for name in ["score.0.weight", "score.1.weight", "place.1.weight", "layer.0.weight"] {
            let gradient = gradients.get(&weights.vars()[name]).expect("the loss depends on it");
            let square = gradient.sqr()?.sum_all()?.to_scalar::<f32>()?;
            assert!(square > 0.0 && square.is_finite(), "{name}: {square}");
        }
        Ok(())
    }

    /// On a long line, 2 d + 1 chains are within distance d; on a grid, about d².
    #[test]
    fn a_grid_has_twice_the_dimension_of_a_line() {
        let with_self = |mut around: Vec<u32>, own: u32| {
            around.push(own);
            around
        };
        let line: Keyed<u32, Vec<u32>> = (0..41u32)
            .map(|unit| {
                let near = (0..41).filter(|&other| unit.abs_diff(other) == 1).collect();
                with_self(near, unit)
            })
            .collect();
        let grid: Keyed<u32, Vec<u32>> = (0..41 * 41u32)
            .map(|unit| {
                let (x, y) = (unit % 41, unit / 41);
                let near = [(1, 0), (-1, 0), (0, 1), (0, -1)].iter().filter_map(|&(right, down)| {
                    let (x, y) = (x.checked_add_signed(right)?, y.checked_add_signed(down)?);
                    (x < 41 && y < 41).then_some(y * 41 + x)
                });
                with_self(near.collect(), unit)
            })
            .collect();
        let middle = fractal_dimensions(&line)[20];
        assert!((middle - 0.84).abs() < 0.05, "{middle}");
        let center = fractal_dimensions(&grid)[20 * 41 + 20];
        assert!((center - 2.0 * middle).abs() < 0.15, "{center} {middle}");
        // If everything is within one hop there is no slope; an isolated chain has no points.
        assert_eq!(fractal_dimensions(&vec![vec![0, 1], vec![1, 0], vec![2]].into()), [0.0; 3]);
    }
}
