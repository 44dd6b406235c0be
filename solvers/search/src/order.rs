//! Linear orders of the units: topological orders that differ in their choice among ready units.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use rand::{Rng, RngExt};
use stagewright_core::contraction::{NetId, UnitId, Units};
use stagewright_core::ids::Keyed;
use stagewright_core::problem::Problem;

/// The plain orders, most promising first.
pub const PLAIN: [Rule; 4] = [Rule::DepthFirst, Rule::NarrowFrontier, Rule::BreadthFirst, Rule::CriticalPath];

/// A rule that picks the next among the ready units.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    /// The unit that became ready last: branches one after the other.
    DepthFirst,
    /// The unit that became ready first: branches side by side.
    BreadthFirst,
    /// The unit with the longest path to a sink.
    CriticalPath,
    /// The unit that leaves the smallest transfer time open.
    NarrowFrontier,
}

impl Rule {
    /// Name for display.
    pub fn name(self) -> &'static str {
        match self {
            Rule::DepthFirst => "depth-first",
            Rule::BreadthFirst => "breadth-first",
            Rule::CriticalPath => "critical-path",
            Rule::NarrowFrontier => "narrow-frontier",
        }
    }

    /// The order by this rule. O((edges + pins) log units); for the narrow frontier, times the nets of a unit.
    pub fn order(self, problem: &Problem, units: &Units) -> Vec<UnitId> {
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

/// A float in its total order.
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

/// The topological order that always takes the ready unit of lowest priority value, ties by index.
pub fn by_priority(units: &Units, priority: impl Fn(UnitId) -> f64) -> Vec<UnitId> {
    let mut ready: BinaryHeap<Reverse<(Key, UnitId)>> = BinaryHeap::new();
    walk(units, |event| match event {
        QueueEvent::Ready(unit) => {
            ready.push(Reverse((Key(priority(unit)), unit)));
            None
        }
        QueueEvent::Next => ready.pop().map(|Reverse((_, unit))| unit),
    })
}

/// Depth first: a stack of ready units.
pub fn depth_first(units: &Units) -> Vec<UnitId> {
    let mut ready = Vec::new();
    walk(units, |event| match event {
        QueueEvent::Ready(unit) => {
            ready.push(unit);
            None
        }
        QueueEvent::Next => ready.pop(),
    })
}

/// Depth first, with the units that become ready together in random order.
pub fn random_depth_first(units: &Units, rng: &mut impl Rng) -> Vec<UnitId> {
    let mut ready: Vec<UnitId> = Vec::new();
    // Number of units of the stack before those that the last unit made ready.
    let mut older = 0;
    walk(units, |event| match event {
        QueueEvent::Ready(unit) => {
            ready.push(unit);
            let place = rng.random_range(older..ready.len());
            let last = ready.len() - 1;
            ready.swap(place, last);
            None
        }
        QueueEvent::Next => {
            let next = ready.pop();
            older = ready.len();
            next
        }
    })
}

fn breadth_first(units: &Units) -> Vec<UnitId> {
    let mut ready = std::collections::VecDeque::new();
    walk(units, |event| match event {
        QueueEvent::Ready(unit) => {
            ready.push_back(unit);
            None
        }
        QueueEvent::Next => ready.pop_front(),
    })
}

enum QueueEvent {
    Ready(UnitId),
    Next,
}

/// Kahn's algorithm; `queue` accepts ready units and returns the next one.
fn walk(units: &Units, mut queue: impl FnMut(QueueEvent) -> Option<UnitId>) -> Vec<UnitId> {
    let mut waiting: Keyed<UnitId, usize> = units.ids().map(|unit| units.predecessors(unit).len()).collect();
    let mut order = Vec::with_capacity(units.len());
    for unit in units.ids().rev().filter(|&unit| waiting[unit] == 0) {
        queue(QueueEvent::Ready(unit));
    }
    while let Some(unit) = queue(QueueEvent::Next) {
        order.push(unit);
        for &next in units.successors(unit).iter().rev() {
            waiting[next] -= 1;
            if waiting[next] == 0 {
                queue(QueueEvent::Ready(next));
            }
        }
    }
    order
}

/// Bottom level of each unit: the longest path to a sink, in seconds on the fastest pool.
fn bottom_levels(problem: &Problem, units: &Units) -> Keyed<UnitId, f64> {
    let pools = problem.pools().len();
    let mut level = Keyed::filled(0.0f64, units.len());
    // Units are numbered topologically.
    for unit in units.ids().rev() {
        let own = (0..pools).filter_map(|pool| units.seconds(unit, pool)).fold(f64::INFINITY, f64::min);
        let behind = units.successors(unit).iter().map(|&next| level[next]).fold(0.0, f64::max);
        level[unit] = behind + if own.is_finite() { own } else { 0.0 };
    }
    level
}

/// The order with the minimum open transfer time after each step; ties go to the unit that became ready last.
///
/// The increase that a unit causes changes only when the first pin of one of its nets joins the order, or when a single
/// pin is left. The unit is then queued again, and its outdated entries are skipped when popped.
fn narrow_frontier(problem: &Problem, units: &Units) -> Vec<UnitId> {
    Frontier::new(problem, units).order()
}

struct Frontier<'a> {
    units: &'a Units,
    /// Transfer time of each net.
    seconds: Keyed<NetId, f64>,
    /// Number of pins of each net already in the order.
    placed: Keyed<NetId, usize>,
    /// The time at which each ready unit became ready, and the increase of the open transfer time that it causes;
    /// `None` for all other units.
    ready: Keyed<UnitId, Option<(u32, f64)>>,
    queue: BinaryHeap<Reverse<(Key, Reverse<u32>, UnitId)>>,
    /// Number of nets visited while computing increases.
    added_up: usize,
}

impl<'a> Frontier<'a> {
    fn new(problem: &Problem, units: &'a Units) -> Frontier<'a> {
        let pool = (0..problem.pools().len()).find(|&pool| !problem.pools()[pool].host).unwrap_or(0);
        Frontier {
            units,
            seconds: units.nets().ids().map(|net| units.transfer(net, pool)).collect(),
            placed: Keyed::filled(0, units.nets().len()),
            ready: Keyed::filled(None, units.len()),
            queue: BinaryHeap::new(),
            added_up: 0,
        }
    }

    fn order(&mut self) -> Vec<UnitId> {
        let mut count = 0;
        walk(self.units, |event| match event {
            QueueEvent::Ready(unit) => {
                self.ready[unit] = Some((count, f64::NAN));
                self.update(unit);
                count += 1;
                None
            }
            QueueEvent::Next => self.next(),
        })
    }

    /// Increase of the open transfer time if a unit comes next.
    fn growth(&mut self, unit: UnitId) -> f64 {
        self.added_up += self.units.nets_of(unit).len();
        let nets = self.units.nets_of(unit).iter();
        nets.map(|&net| {
            let opens = if self.placed[net] == 0 { self.seconds[net] } else { 0.0 };
            let last = self.placed[net] + 1 == self.units.pins(net).len();
            opens - if last { self.seconds[net] } else { 0.0 }
        })
        .sum()
    }

    /// Queues a unit if it is ready and its increase has changed. The increases of other units are not needed yet: a
    /// unit with very many nets would be summed up each time one of these nets changes.
    fn update(&mut self, unit: UnitId) {
        if self.ready[unit].is_none() {
            return;
        }
        let growth = self.growth(unit);
        if let Some((since, known)) = &mut self.ready[unit]
            && *known != growth
        {
            *known = growth;
            self.queue.push(Reverse((Key(growth), Reverse(*since), unit)));
        }
    }

    /// Pops the next unit and updates the units affected by it.
    fn next(&mut self) -> Option<UnitId> {
        let unit = loop {
            let Reverse((Key(growth), _, unit)) = self.queue.pop()?;
            if self.ready[unit].is_some_and(|(_, known)| known == growth) {
                break unit;
            }
        };
        self.ready[unit] = None;
        let units = self.units;
        let mut changed = Vec::new();
        for &net in units.nets_of(unit) {
            self.placed[net] += 1;
            if self.placed[net] == 1 || self.placed[net] + 1 == units.pins(net).len() {
                let pins = units.pins(net).iter().copied();
                changed.extend(pins.filter(|&pin| self.ready[pin].is_some()));
            }
        }
        // Many nets may lead to the same unit, which is updated once.
        changed.sort_unstable();
        changed.dedup();
        changed.into_iter().for_each(|unit| self.update(unit));
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
    use stagewright_testing::devices::devices;

    /// A random graph with multi-consumer tensors; times are multiples of a power of two, so sums are exact.
    fn problem(number: u64) -> Problem {
        let mut rng = seed::stream(number, 11);
        let count = rng.random_range(1..25);
        let mut builder = GraphBuilder::new("random");
        for index in 0..count {
            builder.operator(OperatorDocument {
                seconds: [("acc".to_string(), 1.0)].into(),
                ..OperatorDocument::named(format!("o{index}"))
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
        Problem::new(graph, devices(2, None), Objective::default()).expect("a valid problem")
    }

    /// Increase of the open transfer time if a unit comes next, computed from scratch.
    fn growth(units: &Units, placed: &Keyed<UnitId, bool>, unit: UnitId) -> f64 {
        let nets = units.nets_of(unit).iter();
        nets.map(|&net| {
            let pins = units.pins(net);
            let inside = pins.iter().filter(|&&pin| placed[pin]).count();
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
            let mut rng = seed::stream(number, 12);
            let random = ("random depth-first", random_depth_first(&units, &mut rng));
            let plain = PLAIN.into_iter().map(|rule| (rule.name(), rule.order(&problem, &units)));
            for (name, order) in plain.chain([random]) {
                let mut place = Keyed::filled(usize::MAX, units.len());
                order.iter().enumerate().for_each(|(position, &unit)| place[unit] = position);
                assert_eq!(order.len(), units.len(), "{number} {name}");
                let before = |unit: UnitId, from: &UnitId| place[*from] < place[unit];
                let ordered =
                    units.ids().all(|unit| units.predecessors(unit).iter().all(|from| before(unit, from)));
                assert!(ordered, "{number} {name}");
            }
        }
    }

    /// Recomputing the reader of 20,000 tensors for each of its nets would take 4·10⁸ steps.
    #[test]
    fn a_unit_that_is_not_ready_is_not_added_up() {
        const LEAVES: usize = 20_000;
        let mut builder = GraphBuilder::new("star");
        let seconds: std::collections::BTreeMap<String, f64> = [("acc".to_string(), 1.0)].into();
        for index in 0..LEAVES {
            let name = format!("leaf{index}");
            builder.operator(OperatorDocument { seconds: seconds.clone(), ..OperatorDocument::named(name) });
        }
        builder.operator(OperatorDocument { seconds: seconds.clone(), ..OperatorDocument::named("hub") });
        for index in 0..LEAVES {
            let (producer, consumers) = (format!("leaf{index}"), vec!["hub".to_owned()]);
            let seconds = seconds.clone();
            builder.timed_tensor(TensorDocument { name: None, producer, consumers, bytes: 0.0, seconds });
        }
        let graph = builder.build().expect("a valid graph");
        let problem = Problem::new(graph, devices(2, None), Objective::default()).expect("a valid problem");
        let units = Units::new(&problem);
        let hub = units.ids().max_by_key(|&unit| units.nets_of(unit).len()).expect("units");
        let mut frontier = Frontier::new(&problem, &units);
        let order = frontier.order();
        assert_eq!(order.last(), Some(&hub));
        assert!(frontier.added_up <= 4 * LEAVES, "{} nets were looked at", frontier.added_up);
    }

    #[test]
    fn the_narrow_frontier_always_takes_what_opens_least() {
        for number in 0..300 {
            let problem = problem(number);
            let units = Units::new(&problem);
            let mut placed = Keyed::filled(false, units.len());
            for unit in narrow_frontier(&problem, &units) {
                let ready = units.ids().filter(|&other| {
                    let before = units.predecessors(other);
                    !placed[other] && before.iter().all(|&from| placed[from])
                });
                let least = ready.map(|other| growth(&units, &placed, other)).fold(f64::INFINITY, f64::min);
                assert_eq!(growth(&units, &placed, unit), least, "{number}");
                placed[unit] = true;
            }
        }
    }
}
