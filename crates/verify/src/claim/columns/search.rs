//! Decides whether any set of classes within the limits has a value above a goal.
//!
//! A set is a path through the states of the frontier, along which both sums and the value accumulate. Two passes
//! decide.
//!
//! 1. *Table*, backwards. The first limit is divided into cells, and each decision's addend is rounded down to whole
//!    cells. An entry is the maximum value of the decisions after a state with a given number of cells left: the
//!    longest path of the knapsack recurrence. A sum rounded down is at least the sum of its addends rounded down, so
//!    the entry at the cells left bounds every completion.
//! 2. *Labels*, forwards. A label is a partial path: its state, sums and value. A label is dropped if its worth and
//!    table entry do not exceed the goal, or if another label of its state dominates it, with no larger sums and no
//!    smaller worth. If no label is left, no set exceeds the goal; a label that reaches the end is a set that does.
//!
//! A table of few cells rules out sets whose value is well below the goal. The closer the values are to the goal, the
//! more cells or labels are needed, so there are several attempts, each with more of both.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::Budget;
use super::dual::WORTH;
use super::frontier::Frontier;
use super::stage::{Addends, LIMIT};

/// Maximum number of table entries, of four bytes each.
const ENTRIES: usize = 1 << 26;
/// Work steps per label, most of them for sorting it.
const LABEL: usize = 128;
/// Unit of the table entries: a table holds sums of values rounded up to multiples of it.
const COARSE: u64 = WORTH >> 30;
/// Table entry that is less than every sum, with room to add to it.
const NEVER: i32 = i32::MIN / 2;

/// Effort of one attempt.
#[derive(Debug, Clone, Copy)]
pub(super) struct Attempt {
    /// Binary logarithm of the maximum number of cells.
    cells: u32,
    /// Maximum number of labels.
    labels: usize,
}

/// Attempts, from quick to thorough.
pub(super) const ATTEMPTS: [Attempt; 3] = [
    Attempt { cells: 10, labels: 1 << 18 },
    Attempt { cells: 13, labels: 1 << 20 },
    Attempt { cells: 16, labels: 1 << 22 },
];

/// Result of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answer {
    /// No set within the limits has a value above the goal.
    NoSet,
    /// Some set within the limits has a value above the goal.
    SomeSet,
    /// The label limit was exceeded.
    TooManySets,
}

/// The question whether some set of classes within the limits has a value above the goal.
pub(super) struct Question<'a> {
    pub(super) frontier: &'a Frontier,
    /// Addends of both decisions, outside and inside, to the sums at each state.
    pub(super) steps: &'a [[Addends; 2]],
    /// Price of the class at each position.
    pub(super) worth: &'a [u64],
    pub(super) goal: u64,
}

/// A partial path. The order of the fields sorts possibly dominating labels before those that they may dominate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Label {
    state: u32,
    first: u64,
    worth: Reverse<u64>,
    second: u64,
}

/// Maximum value of the remaining decisions, by state and number of cells left.
struct Table {
    entries: Vec<i32>,
    row: usize,
    /// Binary logarithm of the width of a cell.
    shift: u32,
}

impl Question<'_> {
    /// Answers the question; `None` if the budget is exhausted. O(states · cells + labels).
    pub(super) fn ask(&self, attempt: Attempt, budget: &mut Budget) -> Option<Answer> {
        let table = self.table(attempt.cells, budget)?;
        let start = Label { state: 0, first: 0, worth: Reverse(0), second: 0 };
        let mut labels = vec![start];
        labels.retain(|start| self.promising(start, &table));
        let mut left = attempt.labels;
        for &worth in self.worth {
            let decided = labels.iter().flat_map(|label| self.decide(label, worth));
            let mut following: Vec<Label> =
                decided.filter(|label| self.promising(label, &table)).take(left + 1).collect();
            if following.len() > left {
                return Some(Answer::TooManySets);
            }
            left -= following.len();
            budget.spend((labels.len() + following.len()) * LABEL)?;
            drop_dominated(&mut following);
            labels = following;
        }
        Some(if labels.is_empty() { Answer::NoSet } else { Answer::SomeSet })
    }

    /// The two labels that follow a label, after deciding outside and inside.
    fn decide(&self, label: &Label, worth: u64) -> [Label; 2] {
        let state = label.state as usize;
        let decision = |inside: usize| {
            let [first, second] = self.steps[state][inside];
            Label {
                state: self.frontier.next(state)[inside],
                first: label.first + first,
                worth: Reverse(label.worth.0 + if inside == 1 { worth } else { 0 }),
                second: label.second + second,
            }
        };
        [decision(0), decision(1)]
    }

    /// Whether a label is within the limits and may exceed the goal.
    fn promising(&self, label: &Label, table: &Table) -> bool {
        if label.first > LIMIT || label.second > LIMIT {
            return false;
        }
        let ahead =
            table.entries[label.state as usize * table.row + ((LIMIT - label.first) >> table.shift) as usize];
        u64::try_from(ahead).is_ok_and(|ahead| label.worth.0 + ahead * COARSE > self.goal)
    }

    /// Builds the table, with 2^`cells` cells or as many as fit.
    fn table(&self, cells: u32, budget: &mut Budget) -> Option<Table> {
        let end = self.frontier.len();
        let cells = cells.min((ENTRIES / (end + 1)).ilog2());
        let (row, shift) = ((1 << cells) + 1, LIMIT.ilog2() - cells);
        budget.spend(end * row)?;
        let mut entries = vec![NEVER; (end + 1) * row];
        entries[end * row..].fill(0);
        for (place, &worth) in self.worth.iter().enumerate().rev() {
            let gains = [0, worth.div_ceil(COARSE) as i32];
            for state in self.frontier.layer(place) {
                let (before, after) = entries.split_at_mut((state + 1) * row);
                let here = &mut before[state * row..];
                for (inside, &gain) in gains.iter().enumerate() {
                    let [first, _] = self.steps[state][inside];
                    if first > LIMIT {
                        continue;
                    }
                    let taken = (first >> shift) as usize;
                    let next = (self.frontier.next(state)[inside] as usize - state - 1) * row;
                    let further = &after[next..next + row - taken];
                    for (here, &further) in here[taken..].iter_mut().zip(further) {
                        *here = (*here).max(further + gain);
                    }
                }
            }
        }
        Some(Table { entries, row, shift })
    }
}

/// Keeps the labels of each state that no other label dominates. O(n log n).
fn drop_dominated(labels: &mut Vec<Label>) {
    labels.sort_unstable();
    let mut state = None;
    // Pareto front of value and second sum over the kept labels of this state; both ascend.
    let mut skyline: BTreeMap<u64, u64> = BTreeMap::new();
    labels.retain(|label| {
        let (worth, second) = (label.worth.0, label.second);
        if state != Some(label.state) {
            state = Some(label.state);
            skyline.clear();
        }
        if skyline.range(worth..).next().is_some_and(|(_, &least)| least <= second) {
            return false;
        }
        while let Some((&beaten, _)) =
            skyline.range(..=worth).next_back().filter(|&(_, &other)| other >= second)
        {
            skyline.remove(&beaten);
        }
        skyline.insert(worth, second);
        true
    });
}
