//! Linear orders of the units: topological orders of the precedence, each with another idea of what comes next.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use stagewright_core::contract::Units;
use stagewright_core::problem::Problem;

/// The plain orders, in the order in which they are worth trying.
pub const PLAIN: [Rule; 4] = [Rule::DepthFirst, Rule::NarrowFrontier, Rule::BreadthFirst, Rule::CriticalPath];

/// Units above which the narrow frontier, which looks at every ready unit in every step, is left out.
const NARROW_FRONTIER_LIMIT: usize = 20_000;

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

    /// The order that the rule gives. O(edges log units), the narrow frontier O(units · ready · nets).
    pub fn order(self, problem: &Problem, units: &Units) -> Vec<u32> {
        match self {
            Rule::DepthFirst => depth_first(units),
            Rule::BreadthFirst => breadth_first(units),
            Rule::CriticalPath => {
                let level = bottom_levels(problem, units);
                by_priority(units, |unit| -level[unit])
            }
            Rule::NarrowFrontier if units.len() <= NARROW_FRONTIER_LIMIT => narrow_frontier(problem, units),
            Rule::NarrowFrontier => depth_first(units),
        }
    }
}

/// The topological order that always takes the ready unit of least priority, ties by index.
pub fn by_priority(units: &Units, priority: impl Fn(usize) -> f64) -> Vec<u32> {
    #[derive(PartialEq)]
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
fn narrow_frontier(problem: &Problem, units: &Units) -> Vec<u32> {
    let pool = (0..problem.pools().len()).find(|&pool| !problem.pools()[pool].host).unwrap_or(0);
    let mut placed = vec![0u32; units.nets().len()];
    let mut waiting: Vec<u32> = (0..units.len()).map(|unit| units.predecessors(unit).len() as u32).collect();
    let mut ready: Vec<u32> =
        (0..units.len() as u32).rev().filter(|&unit| waiting[unit as usize] == 0).collect();
    let mut order = Vec::with_capacity(units.len());
    while !ready.is_empty() {
        let growth = |unit: u32| -> f64 {
            let nets = units.nets_of(unit as usize).iter().map(|&net| net as usize);
            nets.map(|net| {
                let seconds = units.transfer(net, pool);
                let pins = units.pins(net).len() as u32;
                let opens = if placed[net] == 0 { seconds } else { 0.0 };
                let closes = if placed[net] + 1 == pins { seconds } else { 0.0 };
                opens - closes
            })
            .sum()
        };
        let (at, _) = ready
            .iter()
            .enumerate()
            .rev()
            .map(|(at, &unit)| (at, growth(unit)))
            .min_by(|a, b| a.1.total_cmp(&b.1))
            .expect("something is ready");
        let unit = ready.remove(at);
        order.push(unit);
        for &net in units.nets_of(unit as usize) {
            placed[net as usize] += 1;
        }
        for &next in units.successors(unit as usize).iter().rev() {
            waiting[next as usize] -= 1;
            if waiting[next as usize] == 0 {
                ready.push(next);
            }
        }
    }
    order
}
