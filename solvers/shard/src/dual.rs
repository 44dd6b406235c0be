//! The Lagrangian bound: prices of usage, and messages that reparametrize the costs at these prices.
//!
//! For prices λ ≥ 0 on usage at points in time, every plan costs at least
//!
//! ```text
//! L(λ) = min over choices Σ (cost + λ·usage) − Σ λ·limit
//! ```
//!
//! The minimum is over a pairwise model. Nodes with at most two neighbours are eliminated; for the others, messages move
//! costs between nodes and edges, and the minima of the parts sum up to a bound. The messages are those of sequential
//! tree-reweighted message passing (Kolmogorov, "Convergent tree-reweighted message passing for energy minimization",
//! PAMI 2006), under which the bound never falls at fixed prices. The prices follow the usage of the choice that the
//! messages suggest.

use stagewright_core::solver::Stop;

use crate::eliminate::{Elimination, least, lower};
use crate::reduce::Reduced;

/// Iterations between two additions of priced points.
const ADD_EVERY: u64 = 10;
/// Maximum number of points that are added at once.
const ADD_MOST: usize = 2;
/// Points that exceed the limit by at most this share of it get no price.
const LEAST_EXCESS: f64 = 1e-4;
/// Maximum number of rounding errors of a cost before the messages are added, not counting one for every node that may
/// be eliminated into it.
const ROUNDINGS: f64 = 64.0;
/// First step of a price, and the range of its steps, in units of the bound divided by the limit.
const FIRST_STEP: f64 = 1e-3;
const STEPS: [f64; 2] = [1e-7, 0.05];

/// The price of one unit of usage at a point.
#[derive(Debug, Clone, Copy)]
struct Price {
    point: u32,
    price: f64,
    step: f64,
    excess: f64,
}

/// Prices and messages.
#[derive(Debug, Clone, Default)]
pub(crate) struct Multipliers {
    prices: Vec<Price>,
    messages: Vec<f64>,
}

impl Multipliers {
    /// Bytes of the prices and messages.
    pub(crate) fn bytes(&self) -> usize {
        size_of_val(&self.prices[..]) + size_of_val(&self.messages[..])
    }

    /// The points with a positive price, each with its price.
    pub(crate) fn prices(&self) -> impl Iterator<Item = (u32, f64)> {
        self.prices.iter().filter(|price| price.price > 0.0).map(|price| (price.point, price.price))
    }
}

/// A remaining neighbour of a remaining node.
#[derive(Debug, Clone, Copy)]
struct Link {
    other: u32,
    edge: u32,
    /// Offsets of the messages of the edge to the node and to its neighbour.
    to_node: u32,
    to_other: u32,
}

/// Computes bounds for a reduced problem.
#[derive(Debug, Clone)]
pub(crate) struct Dual<'r> {
    reduced: &'r Reduced,
    elimination: Elimination,
    /// The earlier and the later neighbours of every remaining node, in the order of these nodes.
    links: Vec<[Vec<Link>; 2]>,
    message_count: usize,
    /// Costs of all strategies at the prices, after the elimination.
    costs: Vec<f64>,
    /// The choice that the last messages suggest, and by how much it exceeds the limit at every point, relative to the
    /// limit.
    pub(crate) choice: Vec<u32>,
    excess: Vec<f64>,
    /// Moving average of the excess at every point.
    average: Vec<f64>,
    spare: [Vec<f64>; 2],
}

impl<'r> Dual<'r> {
    pub(crate) fn new(reduced: &'r Reduced) -> Dual<'r> {
        let elimination = Elimination::new(&reduced.network);
        // The messages of every edge, first to its earlier end, then to its later end.
        let mut at_edge = vec![0; elimination.edges.len()];
        let mut message_count = 0;
        for &node in &elimination.core {
            for &(other, edge) in &elimination.adjacent[node as usize] {
                if other > node {
                    at_edge[edge as usize] = message_count;
                    message_count += (elimination.count(node) + elimination.count(other)) as u32;
                }
            }
        }
        let links = |&node: &u32| {
            let mut links = [Vec::new(), Vec::new()];
            for &(other, edge) in &elimination.adjacent[node as usize] {
                let first = at_edge[edge as usize];
                let is_later = other > node;
                let second = first + elimination.count(node.min(other)) as u32;
                let [to_node, to_other] = if is_later { [first, second] } else { [second, first] };
                links[usize::from(is_later)].push(Link { other, edge, to_node, to_other });
            }
            links
        };
        let links = elimination.core.iter().map(links).collect();
        let points = reduced.network.base.len();
        Dual {
            reduced,
            links,
            message_count: message_count as usize,
            costs: Vec::new(),
            choice: vec![0; reduced.network.nodes.len()],
            excess: vec![0.0; points],
            average: vec![0.0; points],
            spare: [Vec::new(), Vec::new()],
            elimination,
        }
    }

    /// Multipliers without prices, and with all messages zero.
    pub(crate) fn start(&self) -> Multipliers {
        Multipliers { prices: Vec::new(), messages: vec![0.0; self.message_count] }
    }

    /// Multipliers made of prices at points, and of messages in the order of [`messages`](Dual::messages). `None` if
    /// they do not fit this problem.
    pub(crate) fn multipliers(
        &self,
        prices: impl IntoIterator<Item = (u32, f64)>,
        messages: impl IntoIterator<Item = f64>,
    ) -> Option<Multipliers> {
        let prices = prices.into_iter().map(|(point, price)| Price {
            point,
            price,
            step: FIRST_STEP * price,
            excess: 0.0,
        });
        let made = Multipliers { prices: prices.collect(), messages: messages.into_iter().collect() };
        // Multipliers larger than the costs do not improve the bound, and lose precision.
        let limit = self.reduced.forbidden;
        let is_sound = made.messages.len() == self.message_count
            && made.messages.iter().all(|message| message.abs() <= limit)
            && made.prices.iter().all(|price| {
                (price.point as usize) < self.excess.len() && (0.0..=limit).contains(&price.price)
            });
        is_sound.then_some(made)
    }

    /// The messages of every edge between remaining nodes: one to its earlier end and one to its later end. Edges are
    /// ordered by their earlier ends, then by their later ends.
    pub(crate) fn messages<'m>(&self, multipliers: &'m Multipliers) -> Vec<[&'m [f64]; 2]> {
        let nodes = self.elimination.core.iter().zip(&self.links);
        nodes
            .flat_map(|(&node, [_, later])| {
                later.iter().map(move |link| {
                    let message = |first: u32, node| {
                        &multipliers.messages[first as usize..][..self.elimination.count(node)]
                    };
                    [message(link.to_node, node), message(link.to_other, link.other)]
                })
            })
            .collect()
    }

    pub(crate) fn reduced(&self) -> &'r Reduced {
        self.reduced
    }

    pub(crate) fn elimination(&self) -> &Elimination {
        &self.elimination
    }

    /// Computes the costs of all strategies at the prices, infinite for those that are not allowed, and returns the
    /// constant part of the Lagrangian.
    fn price(&mut self, multipliers: &Multipliers, allowed: &[bool]) -> f64 {
        let network = &self.reduced.network;
        let points = network.base.len();
        // The sum of prices before every point.
        let [before, _] = &mut self.spare;
        before.clear();
        before.resize(points + 1, 0.0);
        let mut constant = network.constant;
        for price in &multipliers.prices {
            before[price.point as usize + 1] += price.price;
            constant -= price.price * (network.limit - network.base[price.point as usize]);
        }
        for point in 1..=points {
            before[point] += before[point - 1];
        }
        self.costs.clear();
        for node in &network.nodes {
            let first = self.costs.len();
            self.costs.extend_from_slice(&node.cost);
            for part in &node.parts {
                let price = before[part.span[1] as usize] - before[part.span[0] as usize];
                if price > 0.0 {
                    for (cost, usage) in self.costs[first..].iter_mut().zip(&part.usage) {
                        *cost += price * usage;
                    }
                }
            }
        }
        for (cost, _) in self.costs.iter_mut().zip(allowed).filter(|(_, allowed)| !**allowed) {
            *cost = f64::INFINITY;
        }
        constant
    }

    /// Sends messages forward and backward once at the prices, and updates the choice that they suggest. Returns the
    /// bound. O(entries of the matrices).
    fn pass(&mut self, multipliers: &mut Multipliers, allowed: &[bool]) -> f64 {
        let mut bound = self.price(multipliers, allowed);
        bound += self.elimination.run(&mut self.costs, self.reduced.forbidden);
        let messages = &mut multipliers.messages;
        for position in 0..self.links.len() {
            self.send(position, true, messages);
        }
        for position in (0..self.links.len()).rev() {
            bound += self.send(position, false, messages);
        }
        self.suggest(messages);
        bound
    }

    /// Sends messages from a node to its later or its earlier neighbours, and returns their contribution to the bound.
    fn send(&mut self, position: usize, is_forward: bool, messages: &mut [f64]) -> f64 {
        let Dual { elimination, links, spare: [sums, sent], costs, .. } = self;
        let node = elimination.core[position];
        let [earlier, later] = &links[position];
        belief(sums, &costs[elimination.range(node)], earlier.iter().chain(later), messages);
        let mut bound = least(sums).1;
        sums.iter_mut().for_each(|sum| *sum -= bound);
        let share = 1.0 / earlier.len().max(later.len()) as f64;
        for link in if is_forward { later } else { earlier } {
            let columns = elimination.count(link.other);
            sent.clear();
            sent.resize(columns, f64::INFINITY);
            let rows = elimination.rows(link.edge, node).chunks_exact(columns);
            let back = &messages[link.to_node as usize..];
            for ((row, sum), back) in rows.zip(sums.iter()).zip(back) {
                lower(sent, row, share * sum - back);
            }
            let (_, low) = least(sent);
            bound += low;
            for (message, sent) in messages[link.to_other as usize..].iter_mut().zip(sent.iter()) {
                *message = sent - low;
            }
        }
        bound
    }

    /// Upper limit of the rounding error of the bound, doubled to cover a reduced cost: every sum of a node's costs and
    /// messages errs by at most the number of its terms times their magnitude.
    fn error(&self, multipliers: &Multipliers, bound: f64) -> f64 {
        let largest = |entries: &[f64]| {
            entries.iter().map(|entry| entry.abs()).filter(|entry| entry.is_finite()).fold(0.0, f64::max)
        };
        let network = &self.reduced.network;
        let priced: f64 = multipliers.prices.iter().map(|price| price.price * network.limit).sum();
        let roundings = ROUNDINGS + network.nodes.len() as f64;
        let mut sum = roundings * (network.constant + priced + bound.abs());
        let mut left = self.elimination.core.iter().zip(&self.links).peekable();
        for node in 0..network.nodes.len() as u32 {
            let mut magnitude = largest(&self.costs[self.elimination.range(node)]);
            let mut terms = roundings;
            if let Some((_, links)) = left.next_if(|(other, _)| **other == node) {
                let count = self.elimination.count(node);
                for link in links.iter().flatten() {
                    magnitude += largest(&multipliers.messages[link.to_node as usize..][..count]);
                    terms += 1.0;
                }
            }
            sum += terms * magnitude;
        }
        2.0 * f64::EPSILON * sum
    }

    /// Chooses strategies node by node: the best given the choices of earlier nodes and the messages from later ones.
    fn suggest(&mut self, messages: &[f64]) {
        let Dual { elimination, links, spare: [sums, _], costs, choice, .. } = self;
        for (&node, [earlier, later]) in elimination.core.iter().zip(links.iter()) {
            belief(sums, &costs[elimination.range(node)], later, messages);
            for link in earlier {
                let row = &elimination.rows(link.edge, link.other)
                    [choice[link.other as usize] as usize * sums.len()..];
                sums.iter_mut().zip(row).for_each(|(sum, cost)| *sum += cost);
            }
            choice[node as usize] = least(sums).0 as u32;
        }
        elimination.complete(costs, choice);
    }

    /// Writes to `rises`, for every strategy of the remaining nodes, a lower bound on how much the bound of the
    /// messages rises if the node takes that strategy; infinite if the strategy is not allowed. Returns the bound.
    pub(crate) fn reduced_costs(
        &mut self,
        multipliers: &Multipliers,
        allowed: &[bool],
        rises: &mut Vec<f64>,
    ) -> f64 {
        let mut bound = self.price(multipliers, allowed);
        bound += self.elimination.run(&mut self.costs, self.reduced.forbidden);
        let Dual { elimination, links, spare: [sums, sent], costs, .. } = self;
        rises.clear();
        rises.resize(costs.len(), 0.0);
        for (&node, [earlier, later]) in elimination.core.iter().zip(links.iter()) {
            let range = elimination.range(node);
            belief(sums, &costs[range.clone()], earlier.iter().chain(later), &multipliers.messages);
            // Each node keeps its costs, except for an equal share for each edge to an earlier node.
            let share = 1.0 / earlier.len().max(later.len()) as f64;
            let kept = 1.0 - share * earlier.len() as f64;
            let (_, low) = least(sums);
            bound += kept * low;
            for (rise, sum) in rises[range.clone()].iter_mut().zip(sums.iter()) {
                *rise += if sum.is_finite() { kept * (sum - low) } else { f64::INFINITY };
            }
            for link in earlier {
                let others = elimination.range(link.other);
                sent.clear();
                sent.resize(others.len(), f64::INFINITY);
                let back = &multipliers.messages[link.to_node as usize..];
                let on = &multipliers.messages[link.to_other as usize..][..others.len()];
                let rows = elimination.rows(link.edge, node).chunks_exact(others.len());
                let mut least_of_edge = f64::INFINITY;
                let first = rises.len();
                for ((row, sum), back) in rows.zip(sums.iter()).zip(back) {
                    let own = share * sum - back;
                    let mut least_of_row = f64::INFINITY;
                    for ((cost, on), sent) in row.iter().zip(on).zip(sent.iter_mut()) {
                        let entry = own + cost - on;
                        least_of_row = least_of_row.min(entry);
                        *sent = sent.min(entry);
                    }
                    least_of_edge = least_of_edge.min(least_of_row);
                    rises.push(least_of_row);
                }
                bound += least_of_edge;
                for index in 0..range.len() {
                    rises[range.start + index] += rises[first + index] - least_of_edge;
                }
                rises.truncate(first);
                for (index, sent) in others.zip(sent.iter()) {
                    rises[index] += sent - least_of_edge;
                }
            }
        }
        bound - self.error(multipliers, bound)
    }

    /// Adjusts the prices: up where the suggested choice exceeds the limit, down where it does not, in steps that grow
    /// while the direction stays the same (Riedmiller and Braun, "A direct adaptive method for faster backpropagation
    /// learning", 1993).
    fn rprop_step(&mut self, multipliers: &mut Multipliers, unit: f64) {
        let limit = self.reduced.forbidden;
        for price in &mut multipliers.prices {
            let excess = self.excess[price.point as usize];
            if excess * price.excess > 0.0 {
                price.step = (price.step * 1.2).min(STEPS[1] * unit);
            } else if excess * price.excess < 0.0 {
                price.step = (price.step * 0.5).max(STEPS[0] * unit);
            }
            price.excess = excess;
            price.price = (price.price + price.step * excess.signum()).clamp(0.0, limit);
        }
    }

    /// Takes a subgradient step of Polyak's length: the gap to the target divided by the squared norm of the
    /// subgradient, which is the excess.
    fn polyak_step(&mut self, multipliers: &mut Multipliers, target_gap: f64) {
        let limit = self.reduced.network.limit;
        let moves = |price: &Price, excess: f64| excess > 0.0 || price.price > 0.0;
        let square: f64 = multipliers
            .prices
            .iter()
            .map(|price| (price, self.excess[price.point as usize]))
            .filter(|&(price, excess)| moves(price, excess))
            .map(|(_, excess)| (excess * limit).powi(2))
            .sum();
        let largest = self.reduced.forbidden;
        if square > 0.0 {
            for price in &mut multipliers.prices {
                let excess = self.excess[price.point as usize] * limit;
                price.price = (price.price + target_gap / square * excess).clamp(0.0, largest);
            }
        }
    }

    /// Computes by how much the suggested choice exceeds the limit at every point, relative to the limit.
    fn measure(&mut self) {
        let network = &self.reduced.network;
        network.usage(&self.choice, &mut self.excess);
        let limit = network.limit.max(1.0);
        for (excess, average) in self.excess.iter_mut().zip(&mut self.average) {
            *excess = (*excess - network.limit) / limit;
            *average = 0.8 * *average + 0.2 * *excess;
        }
    }

    /// Gives a price to the points at which recent choices exceed the limit most. Removes the prices that are zero at
    /// points where the last choice keeps the limit.
    fn add_points(&self, multipliers: &mut Multipliers, unit: f64) {
        let prices = &mut multipliers.prices;
        prices.retain(|price| price.price > 0.0 || price.excess > 0.0);
        let points = self.average.len();
        let near = points / 200;
        for _ in 0..ADD_MOST {
            // A point near a priced point of almost the same excess has nearly the same live nodes.
            let is_new = |&point: &usize| {
                self.average[point] > LEAST_EXCESS
                    && !prices.iter().any(|known| {
                        let known = known.point as usize;
                        known == point
                            || (known.abs_diff(point) < near
                                && self.average[known] >= 0.98 * self.average[point])
                    })
            };
            let best =
                (0..points).filter(is_new).max_by(|&a, &b| self.average[a].total_cmp(&self.average[b]));
            let Some(point) = best else { return };
            prices.push(Price { point: point as u32, price: 0.0, step: FIRST_STEP * unit, excess: 0.0 });
        }
    }

    /// Raises the bound for the allowed strategies, starting from the given multipliers, until it exceeds a target,
    /// stops improving, or the effort is spent. `visit` is called with every suggested choice and returns the target.
    pub(crate) fn ascend(
        &mut self,
        mut multipliers: Multipliers,
        allowed: &[bool],
        effort: Effort<'_>,
        mut visit: impl FnMut(&[u32]) -> f64,
    ) -> Ascent {
        let mut best = Ascent { bound: f64::NEG_INFINITY, multipliers: multipliers.clone() };
        let mut plateau = Plateau::default();
        let mut factor = 1.0;
        self.average.fill(0.0);
        for iteration in 0..effort.iterations {
            let before = multipliers.prices.clone();
            let mut bound = self.pass(&mut multipliers, allowed);
            if bound > best.bound {
                bound -= self.error(&multipliers, bound);
            }
            if bound > best.bound {
                let messages = std::mem::take(&mut best.multipliers.messages);
                best.multipliers = Multipliers { prices: before, messages };
                best.multipliers.messages.clone_from(&multipliers.messages);
                best.bound = bound;
            }
            let target = visit(&self.choice);
            if best.bound > target || effort.stop.reason().is_some() {
                break;
            }
            self.measure();
            let unit = best.bound.abs().max(1.0) / self.reduced.network.limit.max(1.0);
            match plateau.phase {
                Phase::Rprop => self.rprop_step(&mut multipliers, unit),
                Phase::Polyak => {
                    let target_gap = if target.is_finite() { target - bound } else { 0.01 * bound.abs() };
                    self.polyak_step(&mut multipliers, factor * target_gap);
                }
            }
            if iteration % ADD_EVERY == ADD_EVERY - 1 && self.reduced.network.limit.is_finite() {
                self.add_points(&mut multipliers, unit);
            }
            match plateau.after(best.bound, effort.patience, target) {
                Next::Continue => {}
                Next::Shrink => {
                    factor *= 0.5;
                    multipliers.clone_from(&best.multipliers);
                }
                Next::End => break,
            }
        }
        best
    }
}

/// Limits of an ascent.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Effort<'s> {
    pub(crate) iterations: u64,
    /// Iterations without progress before the steps shrink.
    pub(crate) patience: u64,
    pub(crate) stop: &'s Stop,
}

/// The result of an ascent.
#[derive(Debug, Clone)]
pub(crate) struct Ascent {
    pub(crate) bound: f64,
    pub(crate) multipliers: Multipliers,
}

#[derive(Debug, Clone, Copy, Default, PartialEq)]
enum Phase {
    /// Adapts the step of every price separately.
    #[default]
    Rprop,
    /// Moves all prices together, along the subgradient.
    Polyak,
}

/// Detects when a bound no longer rises.
#[derive(Debug, Default)]
struct Plateau {
    phase: Phase,
    /// The bound at the start of the current plateau, and the iterations since.
    from: Option<f64>,
    since: u64,
    shrinks: u32,
}

enum Next {
    Continue,
    Shrink,
    End,
}

/// Number of times that the steps shrink before an ascent ends.
const MAX_SHRINKS: u32 = 8;

impl Plateau {
    fn after(&mut self, best: f64, patience: u64, target: f64) -> Next {
        let from = *self.from.get_or_insert(best);
        let missing = if target.is_finite() { (target - best).abs() } else { best.abs() };
        if best > from + 0.02 * missing {
            (self.from, self.since) = (Some(best), 0);
            return Next::Continue;
        }
        self.since += 1;
        if self.since < patience {
            return Next::Continue;
        }
        (self.from, self.since) = (Some(best), 0);
        if self.phase == Phase::Rprop {
            self.phase = Phase::Polyak;
            return Next::Continue;
        }
        self.shrinks += 1;
        if self.shrinks > MAX_SHRINKS { Next::End } else { Next::Shrink }
    }
}

/// Sets `sums` to the costs of a node's strategies plus the messages to the node.
#[inline]
fn belief<'l>(
    sums: &mut Vec<f64>,
    costs: &[f64],
    links: impl IntoIterator<Item = &'l Link>,
    messages: &[f64],
) {
    sums.clear();
    sums.extend_from_slice(costs);
    for link in links {
        sums.iter_mut().zip(&messages[link.to_node as usize..]).for_each(|(sum, message)| *sum += message);
    }
}
