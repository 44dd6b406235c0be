//! Refinement of the boundaries of a plan by minimum cuts between neighbouring stages.
//!
//! The units of two neighbouring stages are divided anew so that the nets between them cost least, while the weight of
//! the first stays within a band around its old weight. This is a minimum cut with a price on weight, and a search over
//! the price finds it if it exists (the idea of flow-based refinement in graph partitioning, Sanders and Schulz 2011).
//! The bottleneck need not fall immediately; the dynamic program over an order that keeps the new stages together
//! balances them.

use stagewright_core::contraction::UnitId;
use stagewright_core::ids::Keyed;
use stagewright_core::solver::Stop;

use super::Boundaries;
use super::region::{Division, Region, Side};

/// Fraction of its weight by which a stage may shrink or grow.
const BAND: f64 = 0.3;
/// Maximum number of minimum cuts per pair of stages.
const PRICES: usize = 14;
/// The first non-zero price of weight.
const FIRST_PRICE: f64 = 0.01;
/// Factor by which the stages before a boundary may exceed the value of the plan, to leave room to move.
const SLACK: f64 = 1.02;

impl Boundaries<'_> {
    /// Refines a plan, given as the stage of each unit and the value of the plan. Returns the new stages if any
    /// boundary costs less; they are again a chain of ideals.
    pub fn refined(
        &self,
        stage_of: &Keyed<UnitId, u32>,
        value: f64,
        stop: &Stop,
    ) -> Option<Keyed<UnitId, u32>> {
        let stages = stage_of.iter().max().map_or(0, |&last| last + 1);
        let mut stage_of = stage_of.clone();
        let mut improved = false;
        for first in 0..stages.saturating_sub(1) {
            let room = |stages: u32| f64::from(stages) * value * SLACK;
            let (before, after) = (room(first + 1), room(stages - 1 - first));
            let pair = Pair::new(self, &stage_of, first);
            let side = |unit: UnitId| {
                if pair.is_here(unit) {
                    if self.reach.ancestors[unit] > before {
                        Side::Outside
                    } else if self.reach.descendants[unit] > after {
                        Side::Inside
                    } else {
                        Side::Free
                    }
                } else {
                    Side::Absent
                }
            };
            if let Some(division) = pair.divide(side, stop) {
                for unit in self.units.ids().filter(|&unit| pair.is_here(unit)) {
                    stage_of[unit] = first + u32::from(!division.is_inside(unit));
                }
                improved = true;
            }
        }
        improved.then_some(stage_of)
    }
}

/// Two neighbouring stages.
struct Pair<'a> {
    boundaries: &'a Boundaries<'a>,
    /// Whether a unit is in either stage.
    here: Keyed<UnitId, bool>,
    /// Nets with at least two pins in the two stages: these pins, and the cost of dividing them.
    nets: Vec<(Vec<UnitId>, f64)>,
    /// Weight of the first stage, and of both stages.
    first_weight: f64,
    weight: f64,
    /// Current cost of the nets between the stages.
    cost: f64,
}

impl<'a> Pair<'a> {
    fn new(boundaries: &'a Boundaries<'a>, stage_of: &Keyed<UnitId, u32>, first: u32) -> Pair<'a> {
        let here: Keyed<UnitId, bool> = stage_of.iter().map(|&stage| stage.wrapping_sub(first) < 2).collect();
        let is_first = |unit: UnitId| stage_of[unit] == first;
        let merged = &boundaries.nets;
        let mut nets = Vec::new();
        let mut cost = 0.0;
        for (&net, &seconds) in merged.representative.iter().zip(&merged.seconds) {
            let pins = boundaries.units.pins(net);
            let of_pair: Vec<UnitId> = pins.iter().copied().filter(|&pin| here[pin]).collect();
            if of_pair.len() < 2 {
                continue;
            }
            // If the net has a pin elsewhere, one of the two stages pays for it in any case.
            let divided = if of_pair.len() == pins.len() { 2.0 * seconds } else { seconds };
            if of_pair.iter().any(|&pin| is_first(pin) != is_first(of_pair[0])) {
                cost += divided;
            }
            nets.push((of_pair, divided));
        }
        let weight_of = |stages: std::ops::Range<u32>| -> f64 {
            let within =
                stage_of.iter().zip(boundaries.weight.iter()).filter(|(stage, _)| stages.contains(stage));
            within.map(|(_, weight)| weight).sum()
        };
        let (first_weight, weight) = (weight_of(first..first + 1), weight_of(first..first + 2));
        Pair { boundaries, here, nets, first_weight, weight, cost }
    }

    fn is_here(&self, unit: UnitId) -> bool {
        self.here[unit]
    }

    /// The cheapest division into two stages within the band, if it costs less than the current one.
    fn divide(&self, side: impl Fn(UnitId) -> Side, stop: &Stop) -> Option<Division> {
        let Boundaries { units, weight, .. } = self.boundaries;
        let scale = self.weight + self.nets.iter().map(|(_, cost)| cost).sum::<f64>();
        let band = (self.first_weight * (1.0 - BAND), self.first_weight * (1.0 + BAND));
        let mut price: f64 = 0.0;
        // Prices at which the first stage is too light and too heavy.
        let (mut light, mut heavy) = (f64::NEG_INFINITY, f64::INFINITY);
        for _ in 0..PRICES {
            let mut region = Region::new(units, &side, scale);
            region.charge(weight, price);
            for (pins, cost) in &self.nets {
                region.add_net(pins, *cost);
            }
            let division = region.divide(stop)?;
            let is_inside = |unit: &UnitId| division.is_inside(*unit);
            let inside: f64 = units.ids().filter(is_inside).map(|unit| weight[unit]).sum();
            if inside < band.0 {
                light = price;
            } else if inside > band.1 {
                heavy = price;
            } else {
                return (self.cost_of(&division) < self.cost).then_some(division);
            }
            price = match (light.is_finite(), heavy.is_finite()) {
                (true, true) => 0.5 * (light + heavy),
                (true, false) => (2.0 * price).max(FIRST_PRICE),
                _ => (2.0 * price).min(-FIRST_PRICE),
            };
        }
        None
    }

    fn cost_of(&self, division: &Division) -> f64 {
        let divided =
            |pins: &[UnitId]| pins.iter().any(|&pin| division.is_inside(pin) != division.is_inside(pins[0]));
        self.nets.iter().filter(|(pins, _)| divided(pins)).map(|(_, cost)| cost).sum()
    }
}
