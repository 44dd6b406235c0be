//! Linear orders of the units: topological orders of the precedence, each with another idea of what comes next.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use stagewright_core::contract::Units;
use stagewright_core::problem::Problem;

/// The plain orders, in the order in which they are worth trying.
pub const PLAIN: [Rule; 4] = [Rule::DepthFirst, Rule::NarrowFrontier, Rule::BreadthFirst, Rule::CriticalPath];

/// A rule for what comes next among the units that are ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    /// The one that became ready last: branches one after the other.
    DepthFirst,
    /// The one that became ready first: branches side by side.
    BreadthFirst,
    /// The one with the longest way to the end.
    CriticalPath,
    /// The one that leaves the least transfer time open.
    NarrowFrontier,
}

impl Rule {
    /// Its name, for people.
    pub fn name(self) -> &'static str {
        match self {
            Rule::DepthFirst => "depth-first",
            Rule::BreadthFirst => "breadth-first",
            Rule::CriticalPath => "critical-path",
            Rule::NarrowFrontier => "narrow-frontier",
        }
    }

    /// The order that the rule gives. O((edges + pins) log units), the narrow frontier times the nets of a unit.
    pub fn order(self, problem: &Problem, units: &Units) -> Vec<u32> {
        match self {
            Rule::DepthFirst => depth_first(units),
            Rule::BreadthFirst => breadth_first(units),
            Rule::CriticalPath => {
                let level = bottom_levels(problem, units);
                by_priority(units, |unit| -level[unit])
            }
            Rule::NarrowFrontier => narrow_frontier(problem, units),
        }
    }
}

/// A number in its total order.
#[derive(PartialEq, Clone, Copy)]
struct Key(f64);

impl Eq for Key {}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Key {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0)
    }
}

/// The topological order that always takes the ready unit of least priority, ties by index.
pub fn by_priority(units: &Units, priority: impl Fn(usize) -> f64) -> Vec<u32> {
    let mut ready: BinaryHeap<Reverse<(Key, u32)>> = BinaryHeap::new();
    walk(units, |event| match event {
        Step::Ready(unit) => {
            ready.push(Reverse((Key(priority(unit as usize)), unit)));
            None
        }
        Step::Next => ready.pop().map(|Reverse((_, unit))| unit),
    })
}

/// Depth first: a stack of ready units.
pub fn depth_first(units: &Units) -> Vec<u32> {
    let mut ready = Vec::new();
    walk(units, |event| match event {
        Step::Ready(unit) => {
            ready.push(unit);
            None
        }
        Step::Next => ready.pop(),
    })
}

fn breadth_first(units: &Units) -> Vec<u32> {
    let mut ready = std::collections::VecDeque::new();
    walk(units, |event| match event {
        Step::Ready(unit) => {
            ready.push_back(unit);
            None
        }
        Step::Next => ready.pop_front(),
    })
}

enum Step {
    Ready(u32),
    Next,
}

/// Kahn's algorithm; `queue` takes ready units and gives the next.
fn walk(units: &Units, mut queue: impl FnMut(Step) -> Option<u32>) -> Vec<u32> {
    let mut waiting: Vec<u32> = (0..units.len()).map(|unit| units.predecessors(unit).len() as u32).collect();
    let mut order = Vec::with_capacity(units.len());
    for unit in (0..units.len()).rev().filter(|&unit| waiting[unit] == 0) {
        queue(Step::Ready(unit as u32));
    }
    while let Some(unit) = queue(Step::Next) {
        order.push(unit);
        for &next in units.successors(unit as usize).iter().rev() {
            waiting[next as usize] -= 1;
            if waiting[next as usize] == 0 {
                queue(Step::Ready(next));
            }
        }
    }
    order
}

/// The longest way from each unit to the end, in seconds on the fastest pool.
fn bottom_levels(problem: &Problem, units: &Units) -> Vec<f64> {
    let pools = problem.pools().len();
    let mut level = vec![0.0f64; units.len()];
    // Units are numbered topologically.
    for unit in (0..units.len()).rev() {
        let own = (0..pools).filter_map(|pool| units.seconds(unit, pool)).fold(f64::INFINITY, f64::min);
        let behind = units.successors(unit).iter().map(|&next| level[next as usize]).fold(0.0, f64::max);
        level[unit] = behind + if own.is_finite() { own } else { 0.0 };
    }
    level
}

/// Least open transfer time after each step, ties to what became ready last.
///
/// What a unit adds changes only when one of its nets gets its first pin, or all but the last. The queue then gets
/// the unit once more, and what it held before is skipped when it comes up.
fn narrow_frontier(problem: &Problem, units: &Units) -> Vec<u32> {
    let pool = (0..problem.pools().len()).find(|&pool| !problem.pools()[pool].host).unwrap_or(0);
    let mut frontier = Frontier {
        units,
        seconds: (0..units.nets().len()).map(|net| units.transfer(net, pool)).collect(),
        placed: vec![0; units.nets().len()],
        ready: vec![None; units.len()],
        queue: BinaryHeap::new(),
    };
    let mut count = 0;
    walk(units, |event| match event {
        Step::Ready(unit) => {
            frontier.ready[unit as usize] = Some((count, f64::NAN));
            frontier.update(unit);
            count += 1;
            None
        }
        Step::Next => frontier.next(),
    })
}

struct Frontier<'a> {
    units: &'a Units,
    /// Transfer time of each net.
    seconds: Vec<f64>,
    /// Pins of each net that are in the order.
    placed: Vec<u32>,
    /// For each unit that is ready: when it became so, and what it adds.
    ready: Vec<Option<(u32, f64)>>,
    queue: BinaryHeap<Reverse<(Key, Reverse<u32>, u32)>>,
}

impl Frontier<'_> {
    /// Open transfer time that a unit adds.
    fn growth(&self, unit: u32) -> f64 {
        let nets = self.units.nets_of(unit as usize).iter().map(|&net| net as usize);
        nets.map(|net| {
            let opens = if self.placed[net] == 0 { self.seconds[net] } else { 0.0 };
            let last = self.placed[net] as usize + 1 == self.units.pins(net).len();
            opens - if last { self.seconds[net] } else { 0.0 }
        })
        .sum()
    }

    /// Queues a unit, if it is ready and adds something else than before.
    fn update(&mut self, unit: u32) {
        let growth = self.growth(unit);
        if let Some((since, known)) = &mut self.ready[unit as usize]
            && *known != growth
        {
            *known = growth;
            self.queue.push(Reverse((Key(growth), Reverse(*since), unit)));
        }
    }

    /// Takes the next unit and updates those that it changes.
    fn next(&mut self) -> Option<u32> {
        let unit = loop {
            let Reverse((Key(growth), _, unit)) = self.queue.pop()?;
            if self.ready[unit as usize].is_some_and(|(_, known)| known == growth) {
                break unit;
            }
        };
        self.ready[unit as usize] = None;
        let units = self.units;
        for net in units.nets_of(unit as usize).iter().map(|&net| net as usize) {
            self.placed[net] += 1;
            if self.placed[net] == 1 || self.placed[net] as usize + 1 == units.pins(net).len() {
                units.pins(net).iter().for_each(|&pin| self.update(pin));
            }
        }
        Some(unit)
    }
}

#[cfg(test)]
mod tests {
    use rand::RngExt;
    use stagewright_core::document::{OperatorDocument, TensorDocument};
    use stagewright_core::graph::GraphBuilder;
    use stagewright_core::objective::Objective;
    use stagewright_core::seed;

    use super::*;
    use crate::testing::devices;

    /// A random graph with tensors of several consumers; times are multiples of a power of two, so sums are exact.
    fn problem(number: u64) -> Problem {
        let mut rng = seed::stream(number, 11);
        let count = rng.random_range(1..25);
        let mut builder = GraphBuilder::new("random");
        for at in 0..count {
            builder.operator(OperatorDocument {
                seconds: [("acc".to_string(), 1.0)].into(),
                ..OperatorDocument::named(format!("o{at}"))
            });
        }
        for from in 0..count {
            let consumers: Vec<String> =
                (from + 1..count).filter(|_| rng.random_bool(0.15)).map(|to| format!("o{to}")).collect();
            if !consumers.is_empty() {
                let seconds = [("acc".to_string(), 0.25 * f64::from(rng.random_range(0..8)))].into();
                let producer = format!("o{from}");
                builder.timed_tensor(TensorDocument { name: None, producer, consumers, bytes: 0.0, seconds });
            }
        }
        let graph = builder.build().expect("a valid graph");
        Problem::new(graph, devices(2, None), Objective::default(), Default::default())
            .expect("a valid problem")
    }

    /// What a unit adds to the open transfer time, counted from nothing.
    fn growth(units: &Units, placed: &[bool], unit: u32) -> f64 {
        let nets = units.nets_of(unit as usize).iter().map(|&net| net as usize);
        nets.map(|net| {
            let pins = units.pins(net);
            let inside = pins.iter().filter(|&&pin| placed[pin as usize]).count();
            let crosses = |inside: usize| f64::from(u8::from(inside > 0 && inside < pins.len()));
            units.transfer(net, 0) * (crosses(inside + 1) - crosses(inside))
        })
        .sum()
    }

    #[test]
    fn every_rule_gives_a_topological_order() {
        for number in 0..200 {
            let problem = problem(number);
            let units = Units::new(&problem);
            for rule in PLAIN {
                let order = rule.order(&problem, &units);
                let mut place = vec![usize::MAX; units.len()];
                order.iter().enumerate().for_each(|(at, &unit)| place[unit as usize] = at);
                assert_eq!(order.len(), units.len(), "{number} {}", rule.name());
                let before = |unit: usize, from: &u32| place[*from as usize] < place[unit];
                let ordered = (0..units.len())
                    .all(|unit| units.predecessors(unit).iter().all(|from| before(unit, from)));
                assert!(ordered, "{number} {}", rule.name());
            }
        }
    }

    #[test]
    fn the_narrow_frontier_always_takes_what_opens_least() {
        for number in 0..300 {
            let problem = problem(number);
            let units = Units::new(&problem);
            let mut placed = vec![false; units.len()];
            for unit in narrow_frontier(&problem, &units) {
                let ready = (0..units.len() as u32).filter(|&other| {
                    let before = units.predecessors(other as usize);
                    !placed[other as usize] && before.iter().all(|&from| placed[from as usize])
                });
                let least = ready.map(|other| growth(&units, &placed, other)).fold(f64::INFINITY, f64::min);
                assert_eq!(growth(&units, &placed, unit), least, "{number}");
                placed[unit as usize] = true;
            }
        }
    }
}
