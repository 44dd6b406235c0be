//! Annealing of ranges: layers move between nodes, and nodes between layers.

use rand::RngExt;
use stagewright_core::solver::Stop;

use crate::problem::Problem;
use crate::routing::{Network, Ranges, hops_over_any_links, route};

/// How a search walks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Walk {
    /// First temperature, as a share of the target.
    pub(crate) heat: f64,
    /// Share of the mean room of layers and of boundaries in what the search maximises. The flow alone tells nothing of a
    /// plan until its last bottleneck is gone.
    pub(crate) room: f64,
    /// Number of changes that are tried.
    pub(crate) steps: u64,
}

/// Last temperature, as a share of the target.
const COLD: f64 = 1e-5;

/// Steps between two looks at the clock.
const PATIENCE: u64 = 256;

/// A search from given ranges.
pub(crate) struct Search<'p> {
    problem: &'p Problem,
    max_hops: usize,
    walk: Walk,
    network: Network,
    /// Flow above which room is worth nothing.
    target: f64,
    /// Scratch space for the room of layers and boundaries.
    room: Room,
}

/// Ranges and what they are worth.
#[derive(Debug, Clone)]
struct State {
    ranges: Ranges,
    flow: f64,
    worth: f64,
}

#[derive(Default)]
struct Room {
    layers: Vec<f64>,
    across: Vec<f64>,
    ends: Vec<Vec<usize>>,
    begins: Vec<Vec<usize>>,
}

impl<'p> Search<'p> {
    pub(crate) fn new(problem: &'p Problem, max_hops: usize, target: f64, walk: Walk) -> Search<'p> {
        Search { problem, max_hops, walk, network: Network::default(), target, room: Room::default() }
    }

    /// The best ranges of the walk. Stops early at the target.
    pub(crate) fn anneal(&mut self, start: Ranges, random: &mut impl RngExt, stop: &Stop) -> Ranges {
        let mut state = self.state(start);
        let mut best = (state.ranges.clone(), state.flow);
        let Walk { heat, steps, .. } = self.walk;
        let (hot, cold) = (heat * self.target, COLD * self.target);
        for step in 0..steps {
            if step % PATIENCE == 0 && stop.reason().is_some() || best.1 >= self.target * (1.0 - 1e-10) {
                break;
            }
            let temperature = hot * (cold / hot).powf(step as f64 / steps as f64);
            let mut ranges = state.ranges.clone();
            if !self.moved(&mut ranges, random) {
                continue;
            }
            if !self.is_short(&ranges) {
                continue;
            }
            let next = self.state(ranges);
            let is_accepted = next.worth >= state.worth
                || random.random::<f64>() < ((next.worth - state.worth) / temperature).exp();
            if is_accepted {
                state = next;
                if state.flow > best.1 {
                    best = (state.ranges.clone(), state.flow);
                }
            }
        }
        best.0
    }

    /// Whether tokens pass no more nodes than they may.
    fn is_short(&self, ranges: &Ranges) -> bool {
        self.max_hops >= self.problem.nodes()
            || hops_over_any_links(self.problem, ranges) <= self.max_hops
            || (!self.problem.is_ample && route(self.problem, ranges).hops(ranges) <= self.max_hops)
    }

    fn state(&mut self, ranges: Ranges) -> State {
        let flow = self.network.flow(self.problem, &ranges);
        let worth = flow + self.walk.room * self.mean_room(&ranges);
        State { ranges, flow, worth }
    }

    /// Changes ranges at random; false if the change is not possible.
    fn moved(&self, ranges: &mut Ranges, random: &mut impl RngExt) -> bool {
        let (count, layers) = (self.problem.nodes(), self.problem.layers);
        let limit = |node: usize| self.problem.rates[node].len();
        let node = random.random_range(0..count);
        let (first, length) = ranges[node];
        match random.random_range(0..10) {
            // A boundary moves by one layer, with all ranges that touch it.
            0..=3 => {
                if length == 0 {
                    return false;
                }
                let boundary = if random.random() { first } else { first + length };
                let is_up: bool = random.random();
                if boundary == 0
                    || boundary >= layers
                    || (!is_up && boundary == 1)
                    || (is_up && boundary + 1 >= layers)
                {
                    return false;
                }
                for (other, range) in ranges.iter_mut().enumerate().filter(|(_, range)| range.1 > 0) {
                    if range.0 == boundary {
                        *range = if is_up { (range.0 + 1, range.1 - 1) } else { (range.0 - 1, range.1 + 1) };
                    } else if range.0 + range.1 == boundary {
                        range.1 = if is_up { range.1 + 1 } else { range.1 - 1 };
                    }
                    if range.1 > limit(other) {
                        return false;
                    }
                }
                true
            }
            // An end of one range moves.
            4 => {
                if length == 0 {
                    return false;
                }
                let range = match random.random_range(0..4) {
                    0 => (first + 1, length - 1),
                    1 if first > 0 => (first - 1, length + 1),
                    2 => (first, length - 1),
                    _ => (first, length + 1),
                };
                ranges[node] = range;
                range.1 <= limit(node) && range.0 + range.1 <= layers
            }
            // A node takes the range of another one.
            5 => {
                let range = ranges[random.random_range(0..count)];
                ranges[node] = range;
                range.1 > 0 && range.1 <= limit(node)
            }
            // Two nodes exchange ranges.
            6 | 7 => {
                let other = random.random_range(0..count);
                ranges.swap(node, other);
                ranges[node] != ranges[other]
                    && ranges[node].1 <= limit(node)
                    && ranges[other].1 <= limit(other)
            }
            // A node goes between two boundaries.
            8 => {
                let boundary =
                    |range: (usize, usize), is_end| if is_end { range.0 + range.1 } else { range.0 };
                let mut drawn = || boundary(ranges[random.random_range(0..count)], random.random());
                let (begin, end) = (drawn(), drawn());
                let range = (begin.min(end), begin.abs_diff(end));
                ranges[node] = range;
                range.1 > 0 && range.1 <= limit(node)
            }
            // A range is divided between its node and another one.
            _ => {
                let other = random.random_range(0..count);
                if length < 2 || other == node {
                    return false;
                }
                let kept = random.random_range(1..length);
                ranges[node].1 = kept;
                ranges[other] = (first + kept, length - kept);
                length - kept <= limit(other)
            }
        }
    }

    /// Mean over layers of the rates of their nodes, and over boundaries of what can cross them, each up to the target.
    fn mean_room(&mut self, ranges: &Ranges) -> f64 {
        let problem = self.problem;
        let Room { layers, across, ends, begins } = &mut self.room;
        layers.clear();
        layers.resize(problem.layers + 1, 0.0);
        across.clear();
        across.resize(problem.layers + 1, 0.0);
        for (rates, &(first, length)) in problem.rates.iter().zip(ranges) {
            if length > 0 {
                let rate = rates[length - 1];
                layers[first] += rate;
                layers[first + length] -= rate;
                across[first + 1] += rate;
                across[first + length] -= rate;
            }
        }
        let target = self.target;
        let sum = |changes: &[f64], last: usize| {
            let mut room = 0.0;
            changes[..last]
                .iter()
                .map(|change| {
                    room += change;
                    f64::min(room, target)
                })
                .sum::<f64>()
        };
        let over = sum(layers, problem.layers) / problem.layers as f64;
        if problem.is_ample {
            return over;
        }
        ends.resize(problem.layers + 1, Vec::new());
        begins.resize(problem.layers + 1, Vec::new());
        for list in ends.iter_mut().chain(begins.iter_mut()) {
            list.clear();
        }
        for (node, &(first, length)) in ranges.iter().enumerate().filter(|(_, range)| range.1 > 0) {
            begins[first].push(node);
            ends[first + length].push(node);
        }
        let rate = |node: usize| problem.rates[node][ranges[node].1 - 1];
        let (mut through, mut total) = (0.0, 0.0);
        for boundary in 1..problem.layers {
            through += across[boundary];
            let sent = |&from: &usize| {
                let links: f64 = begins[boundary].iter().map(|&to| problem.link(from, to)).sum();
                links.min(rate(from))
            };
            let received = |&to: &usize| {
                let links: f64 = ends[boundary].iter().map(|&from| problem.link(from, to)).sum();
                links.min(rate(to))
            };
            let sent: f64 = ends[boundary].iter().map(sent).sum();
            let received: f64 = begins[boundary].iter().map(received).sum();
            total += f64::min(through + sent.min(received), target);
        }
        over + total / (problem.layers as f64 - 1.0).max(1.0)
    }
}
