//! What a stage may hold, relaxed to sums over its classes and the tensors it cuts.
//!
//! A stage that runs the set S on r devices has, with compute c, tensors sent and received x, and synchronisation y
//! of parameters on r devices, at least the loads below in either training mode, for the largest forward and the
//! largest backward load are together at least those of any one device. Each must be at most T.
//!
//! | communication | first sum | second sum |
//! | --- | --- | --- |
//! | serial | (c + x) / r + y | |
//! | overlap | c / r + y | x / r + y |
//! | duplex | c / r + y | x / 2r + y, less than the larger of sent and received |
//!
//! Where the second place is free, it holds the bytes, which must fit the memory. Uplinks and further microbatches
//! in flight are left out. Beyond [`EXACT_REPLICAS`], one shape stands for all r from a to 2a − 1: it divides by the
//! largest, synchronises as the smallest and takes a devices.
//!
//! Sums are of whole numbers of which the limit is [`LIMIT`]; every addend is rounded down.

use stagewright_core::document::Communication;
use stagewright_core::tolerance;

use super::Budget;
use super::dual::Dual;
use super::frontier::Frontier;
use crate::read::{Pool, Problem};
use crate::score::cost;

/// What the limit of a sum is in whole numbers.
pub(super) const LIMIT: u64 = 1 << 52;
/// Share by which addends are lowered: sums of doubles err by less, and bounds are claimed with less care.
const ROUNDING: f64 = 5e-12;
/// Replicas up to which every number has its own shape.
const EXACT_REPLICAS: u32 = 8;

/// Steps of work for those of a state.
const STEPS: usize = 16;

/// Both sums of what a decision adds.
pub(super) type Step = [u64; 2];

/// On how many devices a stage runs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Shape {
    /// The fewest devices.
    pub(super) devices: u32,
    /// The most.
    most: u32,
}

impl Shape {
    /// Shapes of stages on up to `most` devices.
    pub(super) fn all(most: u32) -> impl Iterator<Item = Shape> {
        let shape = move |devices: u32| {
            let last = if devices < EXACT_REPLICAS { devices } else { devices.saturating_add(devices - 1) };
            (devices <= most).then_some(Shape { devices, most: last.min(most) })
        };
        std::iter::successors(shape(1), move |before| shape(before.most.checked_add(1)?))
    }
}

/// What the classes take on a device of one pool, by place.
pub(super) struct Load<'a> {
    problem: &'a Problem<'a>,
    kind: usize,
    threshold: f64,
    /// None where the class may not run there.
    seconds: Vec<Option<f64>>,
    parameter_bytes: Vec<f64>,
    second: Second,
}

/// The second sum.
enum Second {
    Nothing,
    /// This share of the tensors.
    Tensors(f64),
    Memory {
        /// Of the classes, by place, with one microbatch in flight.
        bytes: Vec<f64>,
        capacity: f64,
    },
}

impl<'a> Load<'a> {
    /// Adds up the classes. O(operators).
    pub(super) fn new(problem: &'a Problem<'a>, pool: &Pool, dual: &Dual) -> Load<'a> {
        let kind = &problem.cluster.kinds[pool.kind];
        let document = |operator: usize| &problem.graph.operators[operator];
        let members = |class: usize| problem.graph.classes[class].iter().copied();
        let seconds = |operator: usize| {
            let pins = problem.pins.of(operator);
            let allowed = pins.is_none_or(|allowed| allowed.holds(pool.kind, pool.first));
            if allowed { cost::seconds(document(operator), kind) } else { None }
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

    /// What the decisions at each state, outside and inside, add for a stage of a shape to the first sum and, if it
    /// is to be heeded, to the second. None where the work ran out. O(states).
    pub(super) fn steps(
        &self,
        shape: Shape,
        frontier: &Frontier,
        heed_second: bool,
        budget: &mut Budget,
    ) -> Option<Vec<[Step; 2]>> {
        budget.spend(frontier.len() * STEPS)?;
        let kind = &self.problem.cluster.kinds[self.kind];
        let serial = self.problem.rules.communication == Communication::Serial;
        let share = 1.0 / f64::from(shape.most);
        let mut steps = Vec::with_capacity(frontier.len());
        for (place, &seconds) in self.seconds.iter().enumerate() {
            // Left out where no link is known: less to wait for admits more sets.
            let synchronised = cost::synchronisation(self.parameter_bytes[place], shape.devices, kind);
            let synchronised = synchronised.unwrap_or(0.0);
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

/// The share of the tensors that the second sum counts, where it counts them.
fn tensors(communication: Communication) -> Option<f64> {
    match communication {
        Communication::Serial => None,
        Communication::Overlap => Some(1.0),
        Communication::Duplex => Some(0.5),
    }
}

/// The memory of a device, where not everything fits it.
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

/// A share of the limit as a whole number, rounded down; what exceeds the limit is one more than it.
fn whole(share: f64) -> u64 {
    ((share * (1.0 - ROUNDING) * LIMIT as f64) as u64).min(LIMIT + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_of_replicas_has_one_shape() {
        for most in [1, 2, 7, 8, 9, 15, 16, 1000, u32::MAX] {
            let shapes: Vec<Shape> = Shape::all(most).collect();
            assert_eq!(shapes[0].devices, 1);
            assert_eq!(shapes[shapes.len() - 1].most, most);
            assert!(shapes.windows(2).all(|pair| pair[1].devices == pair[0].most + 1), "{most}");
            assert!(shapes.iter().all(|shape| shape.devices <= shape.most), "{most}");
            assert!(shapes.len() < 50, "{most}");
        }
    }
}
