//! State graph of the cut tensors along an order of the classes.
//!
//! A set of classes is decided class by class along the order: outside or inside. After a prefix of decisions, later
//! cuts depend only on the *open* nets, those with pins on both sides of the position: whether some decided pin is
//! inside, and whether some is outside. A net is cut by the first decision after which both hold. The open nets that
//! are already cut, and those whose decided pins all agree, make a *state*; if two sets reach the same state, the same
//! further decisions cut the same further nets.
//!
//! There are at most [`MAX_STATES`] states, and at most as many open nets as the largest of [`WIDTHS`]. Beyond that
//! the cheapest nets are left out, which raises no load.

use std::collections::BTreeMap;
use std::ops::Range;

use super::{Budget, LOOK_UP};
use crate::read::{Problem, cost};

/// Maximum number of states.
const MAX_STATES: usize = 1 << 20;
/// Limits on the open nets, tried in order.
const WIDTHS: [usize; 12] = [64, 24, 16, 12, 9, 7, 5, 4, 3, 2, 1, 0];
/// Slots for the nets that a decision touches: those open before it and those open after it.
const SLOTS: usize = 2 * WIDTHS[0];
/// Work steps per state.
const STATE: usize = 256;

/// Tensors with the same pins: positions in the order, ascending, at least two.
struct Net {
    pins: Vec<usize>,
    seconds: f64,
}

/// Bit sets of the nets with a pin inside, and of those with a pin outside, by slot.
type Key = [u128; 2];

/// The nets at a position.
#[derive(Default)]
struct Place {
    /// Slot and seconds of each net with a pin here.
    nets: Vec<(usize, f64)>,
    /// Slots of the nets with no later pin.
    closed: u128,
}

/// The states between decisions, and the transitions between them.
pub(super) struct Frontier {
    /// First state of each layer, then the end state, which has no decision.
    first: Vec<usize>,
    /// Per state, the next state for each decision.
    next: Vec<[u32; 2]>,
    /// Per state, the seconds of the nets that each decision cuts.
    cut: Vec<[f64; 2]>,
}

impl Frontier {
    /// State graph of the tensors over the link of a kind. `None` if the budget is exhausted or there are more classes
    /// than states. O(states · log states), and the pins of all tensors.
    pub(super) fn new(
        problem: &Problem,
        kind: usize,
        place: &[usize],
        budget: &mut Budget,
    ) -> Option<Frontier> {
        let nets = nets(problem, kind, place, budget)?;
        for width in WIDTHS {
            let places = places(&nets, place.len(), width, budget)?;
            if let Some(frontier) = Frontier::over(&places, budget)? {
                return Some(frontier);
            }
        }
        None
    }

    /// State graph of the given nets. The inner option is `None` if there are too many states.
    fn over(places: &[Place], budget: &mut Budget) -> Option<Option<Frontier>> {
        let mut frontier = Frontier { first: vec![0], next: Vec::new(), cut: Vec::new() };
        let mut layer: Vec<Key> = vec![[0; 2]];
        for place in places {
            budget.spend(layer.len() * (STATE + place.nets.len()))?;
            let begin = frontier.next.len() + layer.len();
            if begin > MAX_STATES {
                return Some(None);
            }
            let decided: Vec<[(Key, f64); 2]> =
                layer.iter().map(|&key| [place.decide(key, 1), place.decide(key, 0)]).collect();
            let mut following: Vec<Key> = decided.iter().flatten().map(|&(key, _)| key).collect();
            following.sort_unstable();
            following.dedup();
            let number = |key: &Key| (begin + following.partition_point(|other| other < key)) as u32;
            frontier.next.extend(decided.iter().map(|both| both.map(|(key, _)| number(&key))));
            frontier.cut.extend(decided.iter().map(|both| both.map(|(_, seconds)| seconds)));
            frontier.first.push(begin);
            layer = following;
        }
        Some(Some(frontier))
    }

    /// Number of states with a decision; the end state has this index.
    pub(super) fn len(&self) -> usize {
        self.next.len()
    }

    /// The states before the decision at a position.
    pub(super) fn layer(&self, place: usize) -> Range<usize> {
        self.first[place]..self.first[place + 1]
    }

    /// Next states after deciding outside and inside.
    pub(super) fn next(&self, state: usize) -> [u32; 2] {
        self.next[state]
    }

    /// Seconds of the nets that the decisions outside and inside cut.
    pub(super) fn cut(&self, state: usize) -> [f64; 2] {
        self.cut[state]
    }
}

impl Place {
    /// The state after deciding outside (1) or inside (0), and the seconds of the nets that the decision cuts.
    fn decide(&self, before: Key, side: usize) -> (Key, f64) {
        let mut key = before;
        let mut seconds = 0.0;
        for &(slot, costs) in &self.nets {
            let bit = 1u128 << slot;
            let was_cut = before[0] & before[1] & bit != 0;
            key[side] |= bit;
            if key[0] & key[1] & bit != 0 && !was_cut {
                seconds += costs;
            }
        }
        (key.map(|slots| slots & !self.closed), seconds)
    }
}

/// Nets of the tensors with nonzero cost between classes; tensors with the same pins are merged.
fn nets(problem: &Problem, kind: usize, place: &[usize], budget: &mut Budget) -> Option<Vec<Net>> {
    let spec = &problem.cluster.kinds[kind];
    let mut nets: BTreeMap<Vec<usize>, f64> = BTreeMap::new();
    for tensor in &problem.graph.tensors {
        budget.spend(LOOK_UP + tensor.consumers.len())?;
        let mut pins: Vec<usize> =
            tensor.pins().map(|operator| place[problem.graph.class_of[operator]]).collect();
        pins.sort_unstable();
        pins.dedup();
        // If a tensor has readers, every kind with devices has a link.
        let seconds = if pins.len() < 2 { 0.0 } else { cost::transfer(tensor, spec).unwrap_or(0.0) };
        let seconds = problem.transfers(tensor) * seconds;
        if seconds > 0.0 {
            *nets.entry(pins).or_default() += seconds;
        }
    }
    for gradient in problem.gradients() {
        budget.spend(LOOK_UP + gradient.parameter.readers.len())?;
        let class = |&reader: &usize| place[problem.graph.class_of[reader]];
        let mut pins: Vec<usize> = gradient.parameter.readers.iter().map(class).collect();
        pins.sort_unstable();
        pins.dedup();
        let seconds = problem.once() * cost::gradient(&gradient, spec).unwrap_or(0.0);
        if pins.len() > 1 && seconds > 0.0 {
            *nets.entry(pins).or_default() += seconds;
        }
    }
    Some(nets.into_iter().map(|(pins, seconds)| Net { pins, seconds }).collect())
}

/// Selects the most expensive nets of which at most `width` are open at any position, by the positions of their pins.
fn places(nets: &[Net], count: usize, width: usize, budget: &mut Budget) -> Option<Vec<Place>> {
    let mut dearest: Vec<&Net> = nets.iter().collect();
    dearest.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
    let mut open: Vec<usize> = vec![0; count];
    let mut kept: Vec<&Net> = Vec::new();
    for net in dearest {
        let span = net.pins[0]..net.pins[net.pins.len() - 1];
        budget.spend(span.len() + net.pins.len())?;
        if open[span.clone()].iter().all(|&open| open < width) {
            open[span].iter_mut().for_each(|open| *open += 1);
            kept.push(net);
        }
    }
    // Along the order, a slot is free again after the last pin of its net.
    kept.sort_by_key(|net| net.pins[0]);
    let mut places: Vec<Place> = (0..count).map(|_| Place::default()).collect();
    let mut free_from = [0; SLOTS];
    for net in kept {
        let (begin, end) = (net.pins[0], net.pins[net.pins.len() - 1]);
        let slot = free_from.iter().position(|&from| from <= begin)?;
        free_from[slot] = end + 1;
        for &pin in &net.pins {
            places[pin].nets.push((slot, net.seconds));
        }
        places[end].closed |= 1 << slot;
    }
    Some(places)
}
