//! Where an order may be cut.
//!
//! The program over an order of n units takes time in proportion to the positions at which it may cut, times the units
//! of the longest stage. Up to [`MOST`] units every position counts. Above, the order is cut into as many blocks of
//! equal weight, each block offers the position that the least transfer crosses, and once a split is known, all
//! positions near its cuts are tried: what is lost by the first step is a fraction of a block.

use stagewright_core::contract::Units;
use stagewright_core::placement::StageAssignment;
use stagewright_core::problem::Problem;

/// Most positions at which every one is tried.
pub(super) const MOST: usize = 4096;
/// Positions of a longer order.
const BLOCKS: usize = 512;
/// Positions near the cuts of a split.
const NEAR: usize = 1024;

/// Positions in an order of n units, ascending, 0 and n among them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Positions(Vec<u32>);

impl Positions {
    /// Every position where they are few, else the best of each block. O(units · pools + pins).
    pub fn new(problem: &Problem, units: &Units, order: &[u32]) -> Positions {
        if order.len() <= MOST {
            return Positions((0..=order.len() as u32).collect());
        }
        let pools = 0..problem.pools().len();
        let seconds = |unit: u32| {
            let times = pools.clone().filter_map(|pool| units.seconds(unit as usize, pool));
            times.fold(f64::INFINITY, f64::min)
        };
        let seconds = |unit: u32| Some(seconds(unit)).filter(|time| time.is_finite()).unwrap_or(0.0);
        let total: f64 = order.iter().map(|&unit| seconds(unit)).sum();
        let crossing = crossing(problem, units, order);
        let mut positions = vec![0];
        let mut weight = 0.0;
        let mut best = 0;
        for (at, &unit) in order.iter().enumerate() {
            // Half by time, half by number, so that what takes no time is cut as well.
            let share = if total > 0.0 { seconds(unit) / total } else { 0.0 };
            weight += BLOCKS as f64 * 0.5 * (share + 1.0 / order.len() as f64);
            let position = at + 1;
            if best <= *positions.last().unwrap_or(&0) as usize || crossing[position] < crossing[best] {
                best = position;
            }
            if weight >= 1.0 {
                positions.push(best as u32);
                weight -= weight.floor();
            }
        }
        positions.push(order.len() as u32);
        positions.dedup();
        Positions(positions)
    }

    /// Whether every position is among them.
    pub fn are_all(&self, len: usize) -> bool {
        self.0.len() == len + 1
    }

    /// Positions near the cuts of a split of an order of `len` units.
    pub fn near(stages: &[StageAssignment], len: usize) -> Positions {
        let radius = NEAR / (2 * stages.len().max(1));
        let mut positions = vec![0];
        let mut cut = 0;
        for stage in stages {
            cut += stage.units.len();
            let around = cut.saturating_sub(radius)..=(cut + radius).min(len);
            let last = *positions.last().unwrap_or(&0) as usize;
            positions.extend(around.filter(|&position| position > last).map(|position| position as u32));
        }
        if positions.last() != Some(&(len as u32)) {
            positions.push(len as u32);
        }
        Positions(positions)
    }

    /// The same positions seen from the end of the order.
    pub(super) fn reversed(&self, len: usize) -> Positions {
        Positions(self.0.iter().rev().map(|&position| len as u32 - position).collect())
    }

    pub(super) fn as_slice(&self) -> &[u32] {
        &self.0
    }
}

/// Transfer time of the nets that cross each position, over all pools.
fn crossing(problem: &Problem, units: &Units, order: &[u32]) -> Vec<f64> {
    let mut place = vec![0; units.len()];
    for (at, &unit) in order.iter().enumerate() {
        place[unit as usize] = at;
    }
    let mut change = vec![0.0; order.len() + 1];
    for net in 0..units.nets().len() {
        let places = units.pins(net).iter().map(|&unit| place[unit as usize]);
        let (first, last) = places.fold((usize::MAX, 0), |(first, last), at| (first.min(at), last.max(at)));
        let seconds: f64 = (0..problem.pools().len()).map(|pool| units.transfer(net, pool)).sum();
        if first < last {
            change[first + 1] += seconds;
            change[last + 1] -= seconds;
        }
    }
    let mut sum = 0.0;
    change
        .iter()
        .map(|change| {
            sum += change;
            sum
        })
        .collect()
}
