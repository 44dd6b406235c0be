//! Choice among the kinds of moves by their past gains.
//!
//! A kind says whether a move starts from the critical path, and whether it exchanges queue positions, or moves a group
//! of some level or a stretch of that path. Which kinds help depends on the graph and on the progress of the search:
//! far from the best schedule of a large graph, moves of large groups on the critical path help most. A kind is
//! therefore drawn in proportion to a fixed weight times its recent mean gain per simulation, relative to the mean gain
//! of all kinds.
//!
//! Ropke and Pisinger, "An adaptive large neighborhood search heuristic", Transportation Science 2006.

use rand::{Rng, RngExt};

/// Weight of moves that change devices rather than queues.
const DEVICE_MOVES: f64 = 0.7;
/// Weight of moves of a stretch of the critical path.
const STRETCHES: f64 = 0.1;
/// Weight of each level relative to the level below.
const HIGHER: f64 = 0.4;
/// Number of simulations, at the mean gain of all kinds, that count for a kind in addition to its own simulations.
const PRIOR: f64 = 4.0;
/// Factor by which past gains and trials decay with every simulation.
const MEMORY: f64 = 0.998;
/// Minimum and maximum mean gain of a kind, relative to the mean gain of all kinds.
const RELATIVE: [f64; 2] = [0.1, 10.0];

/// A kind of moves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Kind {
    /// Whether the move starts from the critical path.
    pub(super) is_critical: bool,
    pub(super) change: Change,
}

/// Changes made by a move.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    /// The queue positions of two operators.
    Queue,
    /// The device of a group of a level.
    Group(usize),
    /// The device of a stretch of the critical path.
    Stretch,
}

/// The gains of every kind of moves.
#[derive(Debug, Clone)]
pub(super) struct Choice {
    kinds: Vec<Kind>,
    weights: Vec<f64>,
    gained: Vec<f64>,
    tried: Vec<f64>,
}

impl Choice {
    /// All kinds of moves for groups with `levels` levels.
    pub(super) fn new(levels: usize) -> Choice {
        let mut changes = vec![(Change::Queue, 1.0 - DEVICE_MOVES)];
        let mut weight = DEVICE_MOVES * (1.0 - HIGHER);
        for level in 0..levels {
            changes.push((Change::Group(level), weight));
            weight *= HIGHER;
        }
        let mut all: Vec<(Kind, f64)> = Vec::new();
        for is_critical in [false, true] {
            all.extend(changes.iter().map(|&(change, weight)| (Kind { is_critical, change }, weight)));
        }
        all.push((Kind { is_critical: true, change: Change::Stretch }, STRETCHES));
        let (kinds, weights): (Vec<Kind>, Vec<f64>) = all.into_iter().unzip();
        let none = vec![0.0; kinds.len()];
        Choice { kinds, weights, gained: none.clone(), tried: none }
    }

    /// Draws a kind and returns its index.
    pub(super) fn draw(&self, rng: &mut impl Rng) -> usize {
        let [gained, tried] = [&self.gained, &self.tried].map(|all| all.iter().sum::<f64>());
        let mean = gained / tried;
        let weight = |kind: usize| {
            let relative = match mean > 0.0 {
                true => (self.gained[kind] / mean + PRIOR) / (self.tried[kind] + PRIOR),
                false => 1.0,
            };
            self.weights[kind] * relative.clamp(RELATIVE[0], RELATIVE[1])
        };
        let weights: Vec<f64> = (0..self.kinds.len()).map(weight).collect();
        let mut left = rng.random_range(0.0..1.0) * weights.iter().sum::<f64>();
        let passes = |weight: &f64| {
            left -= weight;
            left < 0.0
        };
        weights.iter().position(passes).unwrap_or(self.kinds.len() - 1)
    }

    /// The kind with an index.
    pub(super) fn kind(&self, index: usize) -> Kind {
        self.kinds[index]
    }

    /// Records the gain of a simulated move of a kind; zero if the move gained nothing.
    pub(super) fn learn(&mut self, kind: usize, gain: f64) {
        self.gained.iter_mut().chain(&mut self.tried).for_each(|sum| *sum *= MEMORY);
        self.gained[kind] += gain;
        self.tried[kind] += 1.0;
    }
}
