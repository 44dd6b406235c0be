//! Pricing: the most valuable column of a kind at given prices.
//!
//! For prices π on the units, find the set S that maximises π(S) among the sets whose first resource r(S) is at most T
//! and whose second resource q(S), if the kind has one, is at most Q. The state graph turns this into a longest path
//! problem with resource limits, solved in two phases.
//! with resource limits, solved in two phases.
//!
//! 1. **Table.** The first limit is divided into G cells and every decision's share of the resource rounded down to
//!    whole cells. F(s, k) is the most that decisions after state s can add with k cells left; one pass backwards
//!    over the state graph fills the table, each row the larger of two shifted rows. A completion that takes at most
//!    ρ of the resource takes at most ⌊ρ / cell⌋ cells, because a sum of rounded shares is at most the rounded sum.
//!    So a label at s with profit p and resource r cannot end above
//!
//!    ```text
//!    p + F(s, ⌊(T − r) / cell⌋)
//!    ```
//!
//!    and F(start, G) is an upper bound on every column. The second resource plays no part in the table. Paths
//!    through the table from slightly fewer cells are sets that fit.
//! 2. **Labels.** A pass forwards keeps, per state, the labels (r, q, p) that no other label of the state dominates,
//!    and drops those whose bound does not exceed the goal. The bound is nearly tight, so few labels are left, and
//!    the answer is exact. If there are still too many, the table's bound is the answer.
//!
//! The table is the knapsack recurrence on a graph; bounding labels by a relaxed completion is common in resource
//! constrained shortest paths (Irnich and Desaulniers, "Shortest path problems with resource constraints", 2005).

use stagewright_core::contraction::UnitId;
use stagewright_core::ids::{Id, Keyed};
use stagewright_core::solver::Stop;

use super::kind::{Kind, Resource};
use super::states::{FORBIDDEN, StateId, States};

/// Relative slack for sums that are computed in another order.
const ROUNDING: f64 = 1e-11;
/// Maximum relative error of one operation in the table's precision. Every entry is a sum of at most n rounded prices
/// with n roundings, so for prices of any sign its error is at most 2n times this number, times the sum of the absolute
/// values of the prices.
const TABLE_ROUNDING: f64 = 0.5 * f32::EPSILON as f64;
/// Maximum number of sets obtained from the labels of one pricing.
const MAX_SETS: usize = 8;
/// Divisor of the label limit with two resources.
const TWO_RESOURCES: usize = 16;
/// Number of labels between two checks of the clock.
const LABELS_PER_LOOK: usize = 1 << 14;
/// Fractions of the cells that paths through the table leave unused.
const SPARED: [f64; 10] = [0.0, 0.0005, 0.001, 0.002, 0.004, 0.008, 0.015, 0.03, 0.06, 0.12];

/// A set with its profit and its resources.
#[derive(Debug, Clone, PartialEq)]
pub struct Priced {
    /// The units, in the order of decisions.
    pub units: Vec<UnitId>,
    /// Profit π(S) of the set.
    pub profit: f64,
    /// The first resource.
    pub first: f64,
    /// The second resource.
    pub second: f64,
}

/// Result of pricing.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// Upper bound on the profit of every column, up to the requested precision.
    pub most: f64,
    /// Columns whose profit exceeds the goal, best first.
    pub columns: Vec<Priced>,
}

/// Effort of pricing.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PricingEffort {
    /// Approximate number of entries of the table.
    pub entries: usize,
    /// Maximum number of cells that the first limit is divided into.
    pub cells: usize,
    /// Maximum number of labels; 0 means the table alone.
    pub labels: usize,
    /// Fraction of the table's bound by which the best column may be missed.
    pub precision: f64,
    /// Whether labels respect the second resource; otherwise the bound ignores it, and sets that violate it are
    /// dropped.
    pub second: bool,
}

/// A pricing problem.
#[derive(Debug, Clone, Copy)]
pub struct Question<'a> {
    /// Price of each unit.
    pub prices: &'a Keyed<UnitId, f64>,
    /// The threshold T.
    pub threshold: f64,
    /// Profit that a column has to exceed.
    pub goal: f64,
    /// Effort of pricing.
    pub effort: PricingEffort,
}

/// Minimum number of cells of the table, whatever the number of entries.
pub const FEWEST_CELLS: usize = 256;

/// Prices one kind over a state graph.
pub struct Pricing<'a> {
    states: &'a States,
    kind: &'a Kind,
    cut: Option<&'a Keyed<StateId, [f64; 2]>>,
    cells: usize,
}

#[derive(Debug, Clone, Copy)]
struct Label {
    first: f64,
    second: f64,
    profit: f64,
}

impl Label {
    /// The label after the decision `step`.
    fn after(&self, step: &Label) -> Label {
        Label {
            first: self.first + step.first,
            second: self.second + step.second,
            profit: self.profit + step.profit,
        }
    }
}

/// Parameters of a labelling pass.
struct Search<'a> {
    prices: &'a Keyed<UnitId, f64>,
    limits: [f64; 2],
    /// Profit that a label must be able to exceed.
    goal: f64,
    cell: f64,
    labels: usize,
    stop: &'a Stop,
}

enum Labels {
    Done { best: f64, sets: Vec<Priced> },
    TooMany,
    Stopped,
}

impl<'a> Pricing<'a> {
    /// Pricing of a kind over a state graph.
    pub fn new(states: &'a States, kind: &'a Kind) -> Self {
        Pricing { states, kind, cut: states.cut(kind.pool), cells: 0 }
    }

    /// Returns the best columns whose profit exceeds the goal, and a bound on all columns; `None` if time runs out.
    ///
    /// `table` is a buffer for F; its contents are overwritten. O(states · cells), plus the labels examined.
    pub fn best(&mut self, question: Question<'_>, table: &mut Vec<f32>, stop: &Stop) -> Option<Answer> {
        let Question { prices, threshold, goal, effort } = question;
        let second = self.kind.second.as_ref().map_or(f64::INFINITY, |second| second.limit.at(threshold));
        let limits = [self.kind.first.limit.at(threshold) * (1.0 + ROUNDING), second * (1.0 + ROUNDING)];
        self.cells = (effort.entries / (self.states.len() + 1)).min(effort.cells).max(FEWEST_CELLS);
        let cell = limits[0] / self.cells as f64;
        self.fill(prices, cell, table);
        if stop.reason().is_some() {
            return None;
        }
        let scale: f64 = prices.iter().map(|price| price.abs()).sum();
        let slack = scale * (ROUNDING + 2.0 * TABLE_ROUNDING * prices.len() as f64);
        let mut bound = f64::from(table[self.cells]) + slack;
        let fits = |set: &Priced| set.profit > goal && set.first <= limits[0] && set.second <= limits[1];
        let mut found: Vec<Priced> = Vec::new();
        for spared in SPARED {
            let set = self.path(prices, cell, table, self.cells - (spared * self.cells as f64) as usize);
            if fits(&set) {
                found.push(set);
            }
        }
        let incumbent = found.iter().map(|set| set.profit).fold(goal, f64::max);
        // A column that beats the incumbent by less than the precision is not searched for.
        let accepted = incumbent + effort.precision * bound.abs();
        if effort.labels > 0 && bound > accepted {
            // With two resources there are many more labels, and each takes longer.
            let two = self.kind.second.is_some() && effort.second;
            let labels = if two { effort.labels / TWO_RESOURCES } else { effort.labels };
            let limits = [limits[0], if effort.second { limits[1] } else { f64::INFINITY }];
            let search = Search { prices, limits, goal: accepted - slack, cell, labels, stop };
            match self.labels(&search, table) {
                Labels::Done { best, sets } => {
                    bound = bound.min(best.max(accepted) + ROUNDING * scale);
                    found.extend(sets.into_iter().filter(fits));
                }
                Labels::TooMany => {}
                Labels::Stopped => return None,
            }
        }
        found.sort_by(|a, b| b.profit.total_cmp(&a.profit).then_with(|| a.units.cmp(&b.units)));
        found.dedup_by(|a, b| a.units == b.units);
        Some(Answer { most: bound, columns: found })
    }

    /// Number of table cells that a decision takes, given its cost `first`; one more than the table has if the decision
    /// cannot fit.
    fn cells_of(&self, first: f64, cell: f64) -> usize {
        ((first / cell).floor().max(0.0) as usize).min(self.cells + 1)
    }

    /// Computes F(s, k) for every state s and number of cells k.
    fn fill(&self, prices: &Keyed<UnitId, f64>, cell: f64, table: &mut Vec<f32>) {
        let row = self.cells + 1;
        let end = self.states.len();
        table.clear();
        table.resize((end + 1) * row, 0.0);
        let kind = self.kind;
        for place in (0..self.states.order().len()).rev() {
            let unit = self.states.order()[place];
            let layer = self.states.layer(place);
            let base = layer.end;
            let (before, later) = table.split_at_mut(layer.end * row);
            for state in layer {
                let here = &mut before[state * row..(state + 1) * row];
                here.fill(f32::NEG_INFINITY);
                let state = StateId::new(state);
                for choice in [0, 1] {
                    let next = self.states.next(state)[choice];
                    if next == FORBIDDEN || (choice == 1 && !self.kind.allowed[unit]) {
                        continue;
                    }
                    let cut = self.cut.map_or(0.0, |cut| cut[state][choice]);
                    let step = step(kind, unit, choice == 1, cut, prices);
                    let shift = ((step.first / cell).floor().max(0.0) as usize).min(row);
                    let gain = step.profit as f32;
                    let from = (next.index() - base) * row;
                    let source = &later[from..from + row - shift];
                    for (here, &source) in here[shift..].iter_mut().zip(source) {
                        *here = here.max(source + gain);
                    }
                }
            }
        }
    }

    /// The set of the best path through the table that starts with `left` cells, with its true resources.
    fn path(&self, prices: &Keyed<UnitId, f64>, cell: f64, table: &[f32], mut left: usize) -> Priced {
        let row = self.cells + 1;
        let mut set = Priced { units: Vec::new(), profit: 0.0, first: 0.0, second: 0.0 };
        let mut state = StateId(0);
        for &unit in self.states.order() {
            let next = self.states.next(state);
            let cut = self.cut.map_or([0.0; 2], |cut| cut[state]);
            let value = |choice: usize| {
                if next[choice] == FORBIDDEN || (choice == 1 && !self.kind.allowed[unit]) {
                    return f32::NEG_INFINITY;
                }
                let step = step(self.kind, unit, choice == 1, cut[choice], prices);
                match left.checked_sub(self.cells_of(step.first, cell)) {
                    Some(left) => table[next[choice].index() * row + left] + step.profit as f32,
                    None => f32::NEG_INFINITY,
                }
            };
            let choice = usize::from(value(1) > value(0));
            let taken = step(self.kind, unit, choice == 1, cut[choice], prices);
            left = left.saturating_sub(self.cells_of(taken.first, cell));
            add_step(&mut set, self.kind, unit, choice == 1, cut[choice], prices);
            state = next[choice];
        }
        set
    }

    /// Whether a label at a state may end above the goal.
    #[inline]
    fn promising(&self, search: &Search<'_>, table: &[f32], label: Label, state: StateId) -> bool {
        let left = search.limits[0] - label.first;
        if left < 0.0 || label.second > search.limits[1] {
            return false;
        }
        let cells = ((left / search.cell) as usize).min(self.cells);
        label.profit + f64::from(table[state.index() * (self.cells + 1) + cells]) > search.goal
    }

    /// Collects the decisions on a unit at the active states of a layer, sorted by the state that each leads to: that
    /// state, the index of the active state, and whether the unit is inside.
    fn collect_moves(
        &self,
        unit: UnitId,
        active: &Keyed<u32, (StateId, std::ops::Range<usize>)>,
        moves: &mut Vec<(StateId, u32, bool)>,
    ) {
        moves.clear();
        for (index, &(state, _)) in active.enumerate() {
            let [outside, inside] = self.states.next(state);
            if outside != FORBIDDEN {
                moves.push((outside, index, false));
            }
            if inside != FORBIDDEN && self.kind.allowed[unit] {
                moves.push((inside, index, true));
            }
        }
        moves.sort_unstable();
    }

    /// The forward pass over the labels.
    fn labels(&self, search: &Search<'_>, table: &[f32]) -> Labels {
        let kind = self.kind;
        let two = kind.second.is_some() && search.limits[1].is_finite();
        // Per label: twice the index of its parent, plus the decision.
        let mut trail: Vec<u32> = vec![0];
        let mut labels = vec![Label { first: 0.0, second: 0.0, profit: 0.0 }];
        // Active states of the layer, with their labels.
        let mut active: Keyed<u32, (StateId, std::ops::Range<usize>)> = vec![(StateId(0), 0..1)].into();
        let mut base = 0usize;
        let mut moves: Vec<(StateId, u32, bool)> = Vec::new();
        let mut gathered: Vec<(Label, u32)> = Vec::new();
        let (mut looked, mut look) = (0, 0);
        for &unit in self.states.order() {
            self.collect_moves(unit, &active, &mut moves);
            let next_base = trail.len();
            let mut next_labels: Vec<Label> = Vec::new();
            let mut next_active = Keyed::new();
            for group in moves.chunk_by(|a, b| a.0 == b.0) {
                let state = group[0].0;
                gathered.clear();
                for &(_, index, inside) in group {
                    let (source, range) = &active[index];
                    let cut = self.cut.map_or(0.0, |cut| cut[*source][usize::from(inside)]);
                    let step = step(kind, unit, inside, cut, search.prices);
                    for number in range.clone() {
                        let label = labels[number].after(&step);
                        if self.promising(search, table, label, state) {
                            gathered.push((label, u32::new(base + number) << 1 | u32::from(inside)));
                        }
                    }
                }
                looked += gathered.len();
                if looked > search.labels {
                    return Labels::TooMany;
                }
                let begin = next_labels.len();
                undominated(&mut gathered, two, &mut next_labels, &mut trail);
                if next_labels.len() > begin {
                    next_active.push((state, begin..next_labels.len()));
                }
                if looked - look > LABELS_PER_LOOK {
                    look = looked;
                    if search.stop.reason().is_some() {
                        return Labels::Stopped;
                    }
                }
            }
            (base, labels, active) = (next_base, next_labels, next_active);
        }
        let mut ends: Vec<usize> = (0..labels.len()).collect();
        ends.sort_by(|&a, &b| labels[b].profit.total_cmp(&labels[a].profit));
        let best = ends.first().map_or(f64::NEG_INFINITY, |&label| labels[label].profit);
        ends.truncate(MAX_SETS);
        let sets = ends.into_iter().map(|label| self.follow(&trail, base + label, search.prices)).collect();
        Labels::Done { best, sets }
    }

    /// The set of a label, with its resources.
    fn follow(&self, trail: &[u32], mut number: usize, prices: &Keyed<UnitId, f64>) -> Priced {
        let order = self.states.order();
        let mut choices = vec![false; order.len()];
        for choice in choices.iter_mut().rev() {
            let parent = trail[number];
            *choice = parent & 1 == 1;
            number = (parent >> 1) as usize;
        }
        let mut set = Priced { units: Vec::new(), profit: 0.0, first: 0.0, second: 0.0 };
        let mut state = StateId(0);
        for (&unit, &inside) in order.iter().zip(&choices) {
            let choice = usize::from(inside);
            let cut = self.cut.map_or(0.0, |cut| cut[state][choice]);
            add_step(&mut set, self.kind, unit, inside, cut, prices);
            state = self.states.next(state)[choice];
        }
        set
    }
}

/// Contribution of one decision.
#[inline]
fn step(kind: &Kind, unit: UnitId, inside: bool, cut: f64, prices: &Keyed<UnitId, f64>) -> Label {
    let resource = |resource: &Resource| resource.cut * cut + if inside { resource.units[unit] } else { 0.0 };
    Label {
        first: resource(&kind.first),
        second: kind.second.as_ref().map_or(0.0, resource),
        profit: if inside { prices[unit] } else { 0.0 },
    }
}

fn add_step(
    set: &mut Priced,
    kind: &Kind,
    unit: UnitId,
    inside: bool,
    cut: f64,
    prices: &Keyed<UnitId, f64>,
) {
    let step = step(kind, unit, inside, cut, prices);
    set.first += step.first;
    set.second += step.second;
    set.profit += step.profit;
    if inside {
        set.units.push(unit);
    }
}

/// Appends the labels that no other label dominates. O(n log n); with two resources, every kept label also takes time
/// linear in the skyline of profit and second resource.
fn undominated(gathered: &mut [(Label, u32)], two: bool, labels: &mut Vec<Label>, trail: &mut Vec<u32>) {
    gathered.sort_by(|(a, _), (b, _)| {
        a.first.total_cmp(&b.first).then(b.profit.total_cmp(&a.profit)).then(a.second.total_cmp(&b.second))
    });
    let mut largest = f64::NEG_INFINITY;
    // Kept labels that are not dominated in profit and second resource, ascending in both.
    let mut skyline: Vec<(f64, f64)> = Vec::new();
    for &(label, parent) in gathered.iter() {
        if two {
            let position = skyline.partition_point(|&(profit, _)| profit < label.profit);
            if skyline.get(position).is_some_and(|&(_, second)| second <= label.second) {
                continue;
            }
            let from = skyline[..position].partition_point(|&(_, second)| second < label.second);
            let to = position
                + usize::from(skyline.get(position).is_some_and(|&(profit, _)| profit == label.profit));
            skyline.splice(from..to, [(label.profit, label.second)]);
        } else if label.profit <= largest {
            continue;
        }
        largest = largest.max(label.profit);
        labels.push(label);
        trail.push(parent);
    }
}
