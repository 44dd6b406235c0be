//! Branching: a question whose two answers split a node's partitions in two.
//!
//! Let x be the shares of columns in the relaxation. Two units are together to the extent
//!
//! ```text
//! t(u, v) = Σ_{columns S ∋ u, v} x_S,
//! ```
//!
//! which is 0 or 1 in every partition. If x is a fractional solution of the partition with columns of one kind, some
//! pair has 0 < t < 1: two fractional columns share a unit u, as each unit is covered once, and they differ in some v
//! (Ryan and Foster, 1981). With several kinds, two columns may be equal sets; then u is in columns of kind c to a
//! fractional extent k(u, c) = Σ_{columns S ∋ u of kind c} x_S, and the question is whether u is in a column of kind c.
//! A question whose extent is closest to a half is chosen. Pairs with a common net come first: they are close in the
//! order of decisions, so that remembering the first of them costs few states, and whether a tensor is cut matters
//! most.
//!
//! If nothing is fractional and the partition is still not a plan, because of constraints that columns ignore, the
//! question is one that the rules have not answered yet. Once every question is answered, a single partition is left.

use petgraph::unionfind::UnionFind;
use rustc_hash::{FxHashMap, FxHashSet};
use stagewright_core::contraction::{UnitId, Units};
use stagewright_core::ids::{Id, Keyed};

use super::kind::{EXACT_REPLICAS, Kind};
use super::node::WHOLE;
use super::rules::{Bar, Column, Pair, Rules};

/// Number of pins up to which all pairs of a net's pins are considered; in a larger net, only pairs with the producer.
const SMALL_NET: usize = 8;
/// Difference below which extents count as equal.
const SAME: f64 = 1e-3;

/// How the search continues below a node.
#[derive(Debug, Clone, PartialEq)]
pub enum Branching {
    /// Two sets of rules, the likelier first; every partition of the node satisfies one of them.
    Two([Rules; 2]),
    /// A single partition is left.
    Single,
    /// Several partitions are left that no question distinguishes.
    Indistinct,
}

/// Splits a node by the shares of columns, on a question with a fractional extent that the rules leave open. `None` if
/// there is no such question.
pub fn fractional(
    rules: &Rules,
    kinds: &[Kind],
    units: &Units,
    shares: &[(Column, f64)],
) -> Option<[Rules; 2]> {
    let extents = Extents::new(units.len(), shares);
    let (known, allowed) = (Known::new(rules, units.len()), rules.narrow(kinds));
    let is_open = |question: &Question| match *question {
        Question::Pair(pair) => !known.answers(pair),
        Question::Kind(bar) => known.kinds(&allowed, bar.unit).nth(1).is_some(),
    };
    let best = |candidates: &mut dyn Iterator<Item = (f64, Question)>| {
        let mut best: Option<(f64, Question)> = None;
        for (extent, question) in candidates {
            let half = extent.min(1.0 - extent);
            let least = best.as_ref().map_or(WHOLE, |&(best, _)| best.min(1.0 - best) + SAME);
            if half > least && is_open(&question) {
                best = Some((extent, question));
            }
        }
        best
    };
    let of_kinds = extents.kinds(kinds.len());
    let mut near = of_kinds
        .into_iter()
        .chain(net_pairs(units).into_iter().map(|pair| (extents.together(pair), Question::Pair(pair))));
    let (extent, question) = best(&mut near).or_else(|| best(&mut extents.differing().into_iter()))?;
    Some(question.split(rules, kinds.len(), extent >= 0.5))
}

/// Splits a node on a question that the rules leave open, regardless of the shares. O(units²) in the worst case.
pub fn unanswered(rules: &Rules, kinds: &[Kind], units: &Units) -> Branching {
    let known = Known::new(rules, units.len());
    let all = units.ids().flat_map(|v| UnitId::first(v.index()).map(move |u| [u, v]));
    if let Some(pair) = net_pairs(units).into_iter().chain(all).find(|&pair| !known.answers(pair)) {
        return Branching::Two(Question::Pair(pair).split(rules, kinds.len(), true));
    }
    let allowed = rules.narrow(kinds);
    for unit in units.ids() {
        let may: Vec<usize> = known.kinds(&allowed, unit).collect();
        if let [kind, _, ..] = may[..] {
            return Branching::Two(Question::Kind(Bar { kind, unit }).split(rules, kinds.len(), true));
        }
        if may.iter().any(|&kind| kinds[kind].replicas >= EXACT_REPLICAS) {
            return Branching::Indistinct;
        }
    }
    Branching::Single
}

/// A question with two answers.
#[derive(Debug, Clone, Copy)]
enum Question {
    /// Whether two units are together.
    Pair([UnitId; 2]),
    /// Whether a unit is in a column of a kind.
    Kind(Bar),
}

impl Question {
    /// The rules with either answer to the question, the likelier first.
    fn split(self, rules: &Rules, kinds: usize, yes_first: bool) -> [Rules; 2] {
        let (mut yes, mut no) = (rules.clone(), rules.clone());
        match self {
            Question::Pair(units) => {
                yes.pairs.push(Pair { units, together: true });
                no.pairs.push(Pair { units, together: false });
            }
            Question::Kind(bar) => {
                let others = (0..kinds).filter(|&kind| kind != bar.kind);
                yes.bars.extend(others.map(|kind| Bar { kind, ..bar }));
                no.bars.push(bar);
            }
        }
        if yes_first { [yes, no] } else { [no, yes] }
    }
}

/// Extents of a fractional solution.
struct Extents<'a> {
    shares: &'a [(Column, f64)],
    /// The columns that hold each unit.
    of: Keyed<UnitId, Vec<usize>>,
}

impl<'a> Extents<'a> {
    fn new(units: usize, shares: &'a [(Column, f64)]) -> Extents<'a> {
        let mut columns_of = Keyed::filled(Vec::new(), units);
        for (index, (column, _)) in shares.iter().enumerate() {
            column.units.iter().for_each(|&unit| columns_of[unit].push(index));
        }
        Extents { shares, of: columns_of }
    }

    fn together(&self, [u, v]: [UnitId; 2]) -> f64 {
        let held = self.of[u].iter().filter(|index| self.of[v].binary_search(index).is_ok());
        held.map(|&index| self.shares[index].1).sum()
    }

    /// Extent to which each unit is in columns of each kind; empty with a single kind.
    fn kinds(&self, kinds: usize) -> Vec<(f64, Question)> {
        let mut found = Vec::new();
        for unit in self.of.ids().filter(|_| kinds > 1) {
            let mut extent = vec![0.0; kinds];
            self.of[unit].iter().for_each(|&index| extent[self.shares[index].0.kind] += self.shares[index].1);
            let question = |kind| Question::Kind(Bar { kind, unit });
            found.extend(extent.into_iter().enumerate().map(|(kind, extent)| (extent, question(kind))));
        }
        found
    }

    /// Extents of pairs of units. For any two columns that share a unit, the pair consists of that unit and a unit in
    /// which the columns differ.
    fn differing(&self) -> Vec<(f64, Question)> {
        let mut seen: FxHashSet<(usize, usize)> = FxHashSet::default();
        let mut found = Vec::new();
        for (unit, columns) in self.of.enumerate() {
            for (place, &first) in columns.iter().enumerate() {
                for &other in &columns[..place] {
                    if !seen.insert((other, first)) {
                        continue;
                    }
                    let [first, second] = [first, other].map(|index| &self.shares[index].0);
                    let only = |a: &Column, b: &Column| a.units.iter().copied().find(|&v| !b.holds(v));
                    if let Some(v) = only(first, second).or_else(|| only(second, first)) {
                        let pair = [unit, v];
                        found.push((self.together(pair), Question::Pair(pair)));
                    }
                }
            }
        }
        found
    }
}

/// Pairs of units with a common net, net by net.
fn net_pairs(units: &Units) -> Vec<[UnitId; 2]> {
    let mut seen: FxHashSet<[UnitId; 2]> = FxHashSet::default();
    let mut pairs = Vec::new();
    for (net, spec) in units.nets().enumerate() {
        let pins = units.pins(net);
        for (place, &u) in pins.iter().enumerate() {
            for &v in &pins[..place] {
                let near = pins.len() <= SMALL_NET || u == spec.producer || v == spec.producer;
                if near && seen.insert([v, u]) {
                    pairs.push([v, u]);
                }
            }
        }
    }
    pairs
}

/// Consequences of the rules for all pairs: units that are together form a class, and units that are apart are in a
/// pair of classes.
struct Known {
    class: Keyed<UnitId, u32>,
    apart: FxHashSet<[u32; 2]>,
    members: FxHashMap<u32, Vec<UnitId>>,
}

impl Known {
    fn new(rules: &Rules, units: usize) -> Known {
        let mut classes: UnionFind<u32> = UnionFind::new(units);
        for pair in rules.pairs.iter().filter(|pair| pair.together) {
            classes.union(pair.units[0].0, pair.units[1].0);
        }
        let class = Keyed::from(classes.into_labeling());
        let apart = rules.pairs.iter().filter(|pair| !pair.together);
        let apart = apart.map(|pair| sorted(pair.units.map(|unit| class[unit]))).collect();
        let mut members: FxHashMap<u32, Vec<UnitId>> = FxHashMap::default();
        for (unit, &class) in class.enumerate() {
            members.entry(class).or_default().push(unit);
        }
        Known { class, apart, members }
    }

    fn answers(&self, pair: [UnitId; 2]) -> bool {
        let classes = sorted(pair.map(|unit| self.class[unit]));
        classes[0] == classes[1] || self.apart.contains(&classes)
    }

    /// The kinds whose columns may hold the class of a unit.
    fn kinds(&self, kinds: &[Kind], unit: UnitId) -> impl Iterator<Item = usize> {
        let members = &self.members[&self.class[unit]];
        (0..kinds.len()).filter(move |&kind| members.iter().all(|&unit| kinds[kind].allowed[unit]))
    }
}

fn sorted([a, b]: [u32; 2]) -> [u32; 2] {
    if a <= b { [a, b] } else { [b, a] }
}
