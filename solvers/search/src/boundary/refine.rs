//! Refinement of the boundaries of a plan by minimum cuts between neighbouring stages.
//!
//! The units of two neighbours are divided anew so that the nets between them cost least, the weight of the first
//! staying within a band around what it was: a minimum cut with a price on weight, which a search over the price finds
//! as far as there is one (the idea of flow-based refinement in graph partitioning, Sanders and Schulz 2011). The
//! bottleneck need not fall at once; the dynamic program over an order that keeps the new stages together balances
//! them.

use stagewright_core::contract::Units;
use stagewright_core::solver::Stop;

use super::reach::Reach;
use crate::flow::{MergedNets, Network, SINK, SOURCE, UNCUTTABLE, add_ordered_net};

/// By how much of its weight a stage may shrink or grow.
const BAND: f64 = 0.3;
/// Minimum cuts per pair of stages.
const PRICES: usize = 14;
/// The first price of weight that is not zero.
const FIRST_PRICE: f64 = 0.01;
/// By how much the stages before a boundary may pass the value of the plan, so that there is room to move.
const SLACK: f64 = 1.02;

/// Refines the stages of a plan, given as the number of the stage of each unit, and its value. The new stages, if
/// any boundary costs less now. They are a chain of ideals, as before.
pub fn refined(units: &Units, stage_of: &[u32], value: f64, stop: &Stop) -> Option<Vec<u32>> {
    let stages = stage_of.iter().max().map_or(0, |&last| last as usize + 1);
    let least = |unit| (0..units.pools()).filter_map(|pool| units.seconds(unit, pool)).min_by(f64::total_cmp);
    let weight: Vec<f64> = (0..units.len()).map(least).collect::<Option<_>>()?;
    let nets = MergedNets::new(units);
    if stages < 2 || nets.len() == 0 {
        return None;
    }
    let reach = Reach::new(units, &weight);
    let mut stage_of = stage_of.to_vec();
    let mut improved = false;
    for first in 0..stages as u32 - 1 {
        if stop.reason().is_some() {
            break;
        }
        let room = |stages: u32| f64::from(stages) * value * SLACK;
        let pair = Pair::new(units, &weight, &nets, &stage_of, first);
        let fixed = |unit: usize| {
            if reach.ancestors[unit] > room(first + 1) {
                Some(SINK)
            } else if reach.descendants[unit] > room(stages as u32 - 1 - first) {
                Some(SOURCE)
            } else {
                None
            }
        };
        if let Some(inside) = pair.divide(fixed) {
            for (&unit, inside) in pair.members.iter().zip(inside) {
                stage_of[unit as usize] = if inside { first } else { first + 1 };
            }
            improved = true;
        }
    }
    improved.then_some(stage_of)
}

/// Two neighbouring stages.
struct Pair<'a> {
    units: &'a Units,
    weight: &'a [f64],
    /// The units of both.
    members: Vec<u32>,
    /// Place of a unit among the members.
    place: Vec<u32>,
    /// The nets with at least two pins here: these pins, and what dividing them costs.
    nets: Vec<(Vec<u32>, f64)>,
    /// Weight of the first stage.
    before: f64,
    /// What the nets between the stages cost now.
    cost: f64,
}

impl<'a> Pair<'a> {
    fn new(
        units: &'a Units,
        weight: &'a [f64],
        merged: &MergedNets,
        stage_of: &[u32],
        first: u32,
    ) -> Pair<'a> {
        let is_here = |unit: u32| stage_of[unit as usize].wrapping_sub(first) < 2;
        let members: Vec<u32> = (0..units.len() as u32).filter(|&unit| is_here(unit)).collect();
        let mut place = vec![u32::MAX; units.len()];
        for (at, &unit) in members.iter().enumerate() {
            place[unit as usize] = at as u32;
        }
        let is_first = |unit: u32| stage_of[unit as usize] == first;
        let mut nets = Vec::new();
        let mut cost = 0.0;
        for (&net, &seconds) in merged.representative.iter().zip(&merged.seconds) {
            let pins = units.pins(net);
            let here: Vec<u32> = pins.iter().copied().filter(|&pin| is_here(pin)).collect();
            if here.len() < 2 {
                continue;
            }
            // With a pin elsewhere, one of the two stages pays for it in any case.
            let divided = if here.len() == pins.len() { 2.0 * seconds } else { seconds };
            if here.iter().any(|&pin| is_first(pin) != is_first(here[0])) {
                cost += divided;
            }
            nets.push((here, divided));
        }
        let before = members.iter().filter(|&&unit| is_first(unit)).map(|&unit| weight[unit as usize]).sum();
        Pair { units, weight, members, place, nets, before, cost }
    }

    /// Which members belong to the first stage, where that costs less than now.
    fn divide(&self, fixed: impl Fn(usize) -> Option<u32>) -> Option<Vec<bool>> {
        let band = (self.before * (1.0 - BAND), self.before * (1.0 + BAND));
        let mut price = 0.0;
        // Prices that leave the first stage too light and too heavy.
        let (mut light, mut heavy) = (f64::NEG_INFINITY, f64::INFINITY);
        for _ in 0..PRICES {
            let inside = self.minimum_cut(&fixed, price);
            let of_members = self.members.iter().zip(&inside);
            let weight: f64 =
                of_members.filter(|&(_, &inside)| inside).map(|(&unit, _)| self.weight[unit as usize]).sum();
            if weight < band.0 {
                light = price;
            } else if weight > band.1 {
                heavy = price;
            } else {
                return (self.cost_of(&inside) < self.cost).then_some(inside);
            }
            price = match (light.is_finite(), heavy.is_finite()) {
                (true, true) => 0.5 * (light + heavy),
                (true, false) => (2.0 * price).max(FIRST_PRICE),
                _ => (2.0 * price).min(-FIRST_PRICE),
            };
        }
        None
    }

    fn cost_of(&self, inside: &[bool]) -> f64 {
        let is_in = |unit: u32| inside[self.place[unit as usize] as usize];
        let divided = |pins: &[u32]| pins.iter().any(|&pin| is_in(pin) != is_in(pins[0]));
        self.nets.iter().filter(|(pins, _)| divided(pins)).map(|(_, cost)| cost).sum()
    }

    fn minimum_cut(&self, fixed: &impl Fn(usize) -> Option<u32>, price: f64) -> Vec<bool> {
        let scale = self.nets.iter().map(|(_, cost)| cost).sum::<f64>()
            + self.members.iter().map(|&unit| self.weight[unit as usize]).sum::<f64>();
        let quantum = scale / (1u64 << 40) as f64;
        let mut network = Network::new();
        let node_of: Vec<u32> =
            self.members.iter().map(|&unit| fixed(unit as usize).unwrap_or_else(|| network.node())).collect();
        for (at, &unit) in self.members.iter().enumerate() {
            if node_of[at] > SINK {
                for &before in self.units.predecessors(unit as usize) {
                    let place = self.place[before as usize];
                    if place != u32::MAX && node_of[place as usize] > SINK {
                        network.arc(node_of[at], node_of[place as usize], UNCUTTABLE, 0);
                    }
                }
                let charge = (price.abs() * self.weight[unit as usize] / quantum) as i64;
                if price > 0.0 {
                    network.arc(SOURCE, node_of[at], charge, 0);
                } else if price < 0.0 {
                    network.arc(node_of[at], SINK, charge, 0);
                }
            }
        }
        for (pins, cost) in &self.nets {
            let node = |pin: u32| node_of[self.place[pin as usize] as usize];
            add_ordered_net(&mut network, self.units, pins, node, (cost / quantum) as i64);
        }
        let cut = network.minimum_cut();
        node_of.iter().map(|&node| cut.source_side[node as usize]).collect()
    }
}
