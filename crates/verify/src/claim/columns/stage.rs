//! The capacity of a stage, relaxed to sums over its classes and the tensors it cuts.
//!
//! Let a stage run the set S on r devices; c are the seconds of its compute, x those of the tensors that it sends and
//! receives, and y those of synchronising parameters over the r devices. Its loads are at least the sums below in
//! either training mode, because the largest forward load and the largest backward load add up to at least the load of
//! any one device. Each sum must be at most T. Gradients of shared parameters count as part of x, although a stage
//! bears them in full, on top of the rest.
//!
//! | communication | first sum | second sum |
//! | --- | --- | --- |
//! | serial | (c + x) / r + y | |
//! | overlap | c / r + y | x / r + y |
//! | duplex | c / r + y | x / 2r + y, less than the larger of sent and received |
//!
//! If time needs no second sum, the second sum is the bytes, which must fit into the memory. Uplinks and further
//! microbatches in flight are left out. Beyond [`EXACT_REPLICAS`], one shape covers all r from a to 2a − 1: it divides
//! by the largest of these, synchronises like the smallest, and takes up a devices.
//!
//! Sums are integers with limit [`LIMIT`]; every addend is rounded down.

use stagewright_core::document::Communication;
use stagewright_core::tolerance;

use super::Budget;
use super::dual::Dual;
use super::frontier::Frontier;
use crate::read::{Pool, Problem, cost};

/// Limit of a sum, as an integer.
pub(super) const LIMIT: u64 = 1 << 52;
/// Fraction by which addends are lowered. It exceeds the rounding error of sums of doubles, and claimed bounds are less
/// precise than that.
const ROUNDING: f64 = 5e-12;
/// Maximum number of replicas with a shape of its own.
const EXACT_REPLICAS: u32 = 8;

/// Work steps per state.
const STEPS: usize = 16;

/// Addends of a decision to both sums.
pub(super) type Addends = [u64; 2];

/// Range of the number of devices of a stage.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Shape {
    /// Minimum number of devices.
    pub(super) devices: u32,
    /// Maximum number of devices.
    most: u32,
}

impl Shape {
    /// Shapes of stages on up to `limit` devices.
    pub(super) fn all(limit: u32) -> impl Iterator<Item = Shape> {
        let shape = move |devices: u32| {
            let last = if devices < EXACT_REPLICAS { devices } else { devices.saturating_add(devices - 1) };
            (devices <= limit).then_some(Shape { devices, most: last.min(limit) })
        };
        std::iter::successors(shape(1), move |before| shape(before.most.checked_add(1)?))
    }
}

/// Costs of the classes on a device of one pool, by position.
pub(super) struct Load<'a> {
    problem: &'a Problem<'a>,
    kind: usize,
    threshold: f64,
    /// Seconds of each class; `None` if the class can't run on the device.
    seconds: Vec<Option<f64>>,
    parameter_bytes: Vec<f64>,
    second: Second,
}

/// The second sum.
enum Second {
    Nothing,
    /// The tensors' seconds, of which this fraction counts.
    Tensors(f64),
    Memory {
        /// Bytes of the classes, by position, with one microbatch in flight.
        bytes: Vec<f64>,
        capacity: f64,
    },
}

impl<'a> Load<'a> {
    /// Sums the costs of the classes. O(operators).
    pub(super) fn new(problem: &'a Problem<'a>, pool: &Pool, dual: &Dual) -> Load<'a> {
        let kind = &problem.cluster.kinds[pool.kind];
        let members = |class: usize| problem.graph.classes[class].iter().copied();
        let seconds = |operator: usize| {
            let pins = problem.pins.of(operator);
            let allowed = pins.is_none_or(|allowed| allowed.holds(pool.kind, pool.first));
            if allowed { problem.seconds(operator, kind) } else { None }
        };
        let classes = || dual.order.iter().copied();
        let tensors = if kind.document.host { None } else { tensors(problem.rules.communication) };
        Load {
            problem,
            kind: pool.kind,
            threshold: dual.threshold,
            seconds: classes().map(|class| members(class).map(seconds).sum()).collect(),
            parameter_bytes: classes()
                .map(|class| problem.graph.least_synchronised(&problem.graph.classes[class]))
                .collect(),
            second: tensors.map(Second::Tensors).unwrap_or_else(|| memory(problem, pool.kind, dual)),
        }
    }

    /// Whether there is a second sum.
    pub(super) fn has_second(&self) -> bool {
        !matches!(self.second, Second::Nothing)
    }

    /// Addends of both decisions, outside and inside, at each state for a stage of the given shape: to the first sum
    /// and, if `heed_second`, to the second. `None` if the budget is exhausted. O(states).
    pub(super) fn steps(
        &self,
        shape: Shape,
        frontier: &Frontier,
        heed_second: bool,
        budget: &mut Budget,
    ) -> Option<Vec<[Addends; 2]>> {
        budget.spend(frontier.len() * STEPS)?;
        let kind = &self.problem.cluster.kinds[self.kind];
        let serial = self.problem.rules.communication == Communication::Serial;
        let share = 1.0 / f64::from(shape.most);
        let mut steps = Vec::with_capacity(frontier.len());
        for (place, &seconds) in self.seconds.iter().enumerate() {
            // Zero without a link: a smaller load admits more sets.
            let synchronised = cost::synchronisation(self.parameter_bytes[place], shape.devices, kind);
            let synchronised = self.problem.once() * synchronised.unwrap_or(0.0);
            let step = |inside: bool, cut: f64| {
                let (seconds, synchronised) = match (inside, seconds) {
                    (false, _) => (0.0, 0.0),
                    (true, Some(seconds)) => (seconds, synchronised),
                    (true, None) => return [LIMIT + 1; 2],
                };
                let timed = |seconds: f64| whole((seconds * share + synchronised) / self.threshold);
                let first = timed(if serial { seconds + cut } else { seconds });
                let second = match &self.second {
                    Second::Tensors(part) if heed_second => timed(part * cut),
                    Second::Memory { bytes, capacity } if heed_second && inside => {
                        whole(bytes[place] / capacity)
                    }
                    _ => 0,
                };
                [first, second]
            };
            for state in frontier.layer(place) {
                let [outside, inside] = frontier.cut(state);
                steps.push([step(false, outside), step(true, inside)]);
            }
        }
        Some(steps)
    }
}

/// Fraction of the tensors' seconds that the second sum counts, if any.
fn tensors(communication: Communication) -> Option<f64> {
    match communication {
        Communication::Serial => None,
        Communication::Overlap => Some(1.0),
        Communication::Duplex => Some(0.5),
    }
}

/// The memory of a device as the second sum, unless all classes fit into it.
fn memory(problem: &Problem, kind: usize, dual: &Dual) -> Second {
    let of_class = |&class: &usize| problem.graph.least_bytes(&problem.graph.classes[class]);
    let bytes: Vec<f64> = dual.order.iter().map(of_class).collect();
    match problem.usable_memory(kind) {
        Some(memory) if !tolerance::fits(bytes.iter().sum(), memory) => {
            Second::Memory { bytes, capacity: memory * (1.0 + tolerance::MEMORY_RELATIVE) }
        }
        _ => Second::Nothing,
    }
}

/// A fraction of the limit as an integer, rounded down; more than the limit becomes the limit plus one.
fn whole(share: f64) -> u64 {
    ((share * (1.0 - ROUNDING) * LIMIT as f64) as u64).min(LIMIT + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_of_replicas_has_one_shape() {
        for limit in [1, 2, 7, 8, 9, 15, 16, 1000, u32::MAX] {
            let shapes: Vec<Shape> = Shape::all(limit).collect();
            assert_eq!(shapes[0].devices, 1);
            assert_eq!(shapes[shapes.len() - 1].most, limit);
            assert!(shapes.windows(2).all(|pair| pair[1].devices == pair[0].most + 1), "{limit}");
            assert!(shapes.iter().all(|shape| shape.devices <= shape.most), "{limit}");
            assert!(shapes.len() < 50, "{limit}");
        }
    }
}
