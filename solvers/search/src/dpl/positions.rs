//! Cut positions of an order.
//!
//! The program over an order of n units takes time proportional to the number of cut positions times the units of the
//! longest stage. Up to [`MOST`] units every position is a cut position. Longer orders are divided into `BLOCKS`
//! blocks of about equal weight, each of which contributes the position crossed by the least transfer. Once a split is
//! known, all positions near its cuts are tried, so the first step loses at most a fraction of a block.

use stagewright_core::contraction::{UnitId, Units};
use stagewright_core::id;
use stagewright_core::ids::{Keyed, places};
use stagewright_core::placement::StageAssignment;
use stagewright_core::problem::Problem;

id! {
    /// Index of a cut position.
    pub(crate) Cut;
}

/// Maximum length of an order whose positions are all tried.
pub(super) const MOST: usize = 4096;
/// Number of blocks of a longer order.
const BLOCKS: usize = 512;
/// Number of positions tried near the cuts of a split.
const NEAR: usize = 1024;

/// Ascending positions in an order of n units, including 0 and n.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Positions(Keyed<Cut, usize>);

impl Positions {
    /// All positions of a short order, otherwise the best of each block. O(units · pools + pins).
    pub fn new(problem: &Problem, units: &Units, order: &[UnitId]) -> Positions {
        if order.len() <= MOST {
            return Positions((0..=order.len()).collect());
        }
        let pools = 0..problem.pools().len();
        let seconds = |unit: UnitId| {
            let times = pools.clone().filter_map(|pool| units.seconds(unit, pool));
            times.fold(f64::INFINITY, f64::min)
        };
        let seconds = |unit: UnitId| Some(seconds(unit)).filter(|time| time.is_finite()).unwrap_or(0.0);
        let total: f64 = order.iter().map(|&unit| seconds(unit)).sum();
        let crossing = crossing(problem, units, order);
        let mut positions = vec![0];
        let mut weight = 0.0;
        let mut best = 0;
        for (index, &unit) in order.iter().enumerate() {
            // Weigh units half by time and half by number, so that units without time are cut as well.
            let share = if total > 0.0 { seconds(unit) / total } else { 0.0 };
            weight += BLOCKS as f64 * 0.5 * (share + 1.0 / order.len() as f64);
            let position = index + 1;
            if best <= *positions.last().unwrap_or(&0) || crossing[position] < crossing[best] {
                best = position;
            }
            if weight >= 1.0 {
                positions.push(best);
                weight -= weight.floor();
            }
        }
        positions.push(order.len());
        positions.dedup();
        Positions(positions.into())
    }

    /// Whether every position is included.
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
            let last = *positions.last().unwrap_or(&0);
            positions.extend(around.filter(|&position| position > last));
        }
        if positions.last() != Some(&len) {
            positions.push(len);
        }
        Positions(positions.into())
    }

    /// The positions counted from the end of the order, which has `len` units.
    pub(super) fn reversed(&self, len: usize) -> Positions {
        Positions(self.0.iter().rev().map(|&position| len - position).collect())
    }

    /// The positions.
    pub(crate) fn list(&self) -> &Keyed<Cut, usize> {
        &self.0
    }
}

/// Transfer time of the nets that cross each position, summed over the pools.
fn crossing(problem: &Problem, units: &Units, order: &[UnitId]) -> Vec<f64> {
    let place: Keyed<_, usize> = places(order);
    let mut change = vec![0.0; order.len() + 1];
    for net in units.nets().ids() {
        let places = units.pins(net).iter().map(|&unit| place[unit]);
        let (first, last) =
            places.fold((usize::MAX, 0), |(first, last), place| (first.min(place), last.max(place)));
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

#[cfg(test)]
mod tests {
    use rand::RngExt;
    use stagewright_core::document::{OperatorDocument, Schedule, TensorDocument};
    use stagewright_core::graph::GraphBuilder;
    use stagewright_core::objective::{Objective, Throughput};
    use stagewright_core::seed;
    use stagewright_core::solver::{Context, Limits, Silent, Solver, Stop};

    use super::super::{Dpl, Line, Room, best_stages};
    use super::*;
    use stagewright_testing::devices::devices;

    /// A chain of random operators and transfers on four devices.
    fn chain(count: usize, schedule: Schedule) -> Problem {
        let mut rng = seed::stream(count as u64, 3);
        let mut builder = GraphBuilder::new("chain");
        for index in 0..count {
            builder.operator(OperatorDocument {
                seconds: [("acc".to_string(), rng.random_range(0.0..1.0))].into(),
                activation_bytes: 1.0,
                ..OperatorDocument::named(format!("o{index}"))
            });
            if index > 0 {
                builder.timed_tensor(TensorDocument {
                    name: None,
                    producer: format!("o{}", index - 1),
                    consumers: vec![format!("o{index}")],
                    bytes: 0.0,
                    seconds: [("acc".to_string(), rng.random_range(0.0..40.0))].into(),
                });
            }
        }
        let objective =
            Throughput { schedule, microbatches: 4, is_bottleneck: true, ..Throughput::default() };
        let objective = if schedule == Schedule::None { Objective::default() } else { objective.into() };
        let cluster = devices(4, Some(3.0 * count as f64));
        Problem::new(builder.build().expect("a graph"), cluster, objective).expect("a valid problem")
    }

    #[test]
    fn positions_ascend_from_end_to_end() {
        for count in [1, 2, MOST, MOST + 1, 3 * MOST] {
            let problem = chain(count, Schedule::None);
            let units = Units::new(&problem);
            let order: Vec<UnitId> = units.ids().collect();
            let positions = Positions::new(&problem, &units, &order);
            let end = units.len();
            let reversed = positions.reversed(units.len());
            for Positions(list) in [&positions, &reversed] {
                assert!(list.is_sorted_by(|a, b| a < b), "{count}");
                assert_eq!((list.first(), list.last()), (Some(&0), Some(&end)), "{count}");
            }
            assert_eq!(positions.are_all(units.len()), count <= MOST, "{count}");
            assert!(positions.0.len() <= MOST + 1, "{count}");
        }
    }

    #[test]
    fn little_is_lost_on_a_long_order() {
        for schedule in [Schedule::None, Schedule::OneFOneB] {
            let problem = chain(MOST + 1000, schedule);
            let units = Units::new(&problem);
            let mut silent = Silent;
            let mut context = Context::new(Limits::default(), &mut silent);
            let found = Dpl.solve(&problem, &mut context).expect("a contiguous problem");
            let value = found.value().expect("a plan");
            // A chain has only one order; all of its positions are tried here.
            let order: Vec<UnitId> = units.ids().collect();
            let all = Positions((0..=units.len()).collect());
            let room = Room::new(&problem, &units, None);
            let space = room.space.as_ref().expect("room for four devices");
            let line = Line { order: &order, positions: &all, space };
            let stop = Stop::new(None, Default::default());
            let cap = value * (1.0 + 1e-9);
            let (best, _) = best_stages(&problem, &units, line, cap, &stop).expect("at least as good");
            assert!(best <= cap && value <= 1.001 * best, "{schedule:?}: {value} where {best} is best");
        }
    }
}
