//! Whether any set of classes within the limits is worth more than a goal.
//!
//! A set is a path through the states of the frontier, along which both sums and the worth add up. Two passes decide.
//!
//! 1. *Table*, backwards. The first limit is divided into cells, and what each decision adds to the sum is rounded
//!    down to whole cells. An entry is the most that the decisions after a state can be worth with so many cells left:
//!    the longest path of the knapsack recurrence. What a sum of addends takes, rounded down, is at least the sum of
//!    the addends rounded down, so the entry at the cells left bounds every completion.
//! 2. *Labels*, forwards. A label is a path so far: its state, sums and worth. One whose worth and table entry do not
//!    exceed the goal is dropped, and so is one that another of its state dominates, with no larger sums and no
//!    smaller worth. If none is left there is no such set. One that reaches the end is such a set.
//!
//! Sets worth less than the goal by a margin are ruled out by a table of few cells; the nearer they are, the more
//! cells or labels it takes. Hence several attempts, each with more of both.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::Budget;
use super::dual::WORTH;
use super::frontier::Frontier;
use super::stage::{LIMIT, Step};

/// Most entries of a table, of four bytes.
const ENTRIES: usize = 1 << 26;
/// Steps of work for a label: sorting it is most of that.
const LABEL: usize = 128;
/// What one in the table stands for: a table holds sums of worth rounded up to whole multiples.
const COARSE: u64 = WORTH >> 30;
/// Below every sum of the table, with room to add to it.
const NEVER: i32 = i32::MIN / 2;

/// How hard to look.
#[derive(Debug, Clone, Copy)]
pub(super) struct Attempt {
    /// Binary logarithm of the most cells.
    cells: u32,
    /// Most labels.
    labels: usize,
}

/// From quick to thorough.
pub(super) const ATTEMPTS: [Attempt; 3] = [
    Attempt { cells: 10, labels: 1 << 18 },
    Attempt { cells: 13, labels: 1 << 20 },
    Attempt { cells: 16, labels: 1 << 22 },
];

/// What an attempt found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answer {
    /// No set within the limits is worth more than the goal.
    NoSet,
    /// Some set is.
    SomeSet,
    /// There are more labels than were allowed.
    TooManySets,
}

/// The question.
pub(super) struct Question<'a> {
    pub(super) frontier: &'a Frontier,
    /// What the decisions at each state add to both sums, outside and inside.
    pub(super) steps: &'a [[Step; 2]],
    /// What the class at each place is worth.
    pub(super) worth: &'a [u64],
    pub(super) goal: u64,
}

/// A path so far. The order of the fields puts what may dominate before what it may dominate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Label {
    state: u32,
    first: u64,
    worth: Reverse<u64>,
    second: u64,
}

/// Entries by state and cells left.
struct Table {
    entries: Vec<i32>,
    row: usize,
    /// Bits of a sum within a cell.
    shift: u32,
}

impl Question<'_> {
    /// Answers it; none where the work ran out. O(states · cells) and the labels.
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

    /// Both decisions after a label.
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

    /// Whether a label is within the limits and may end above the goal.
    fn promising(&self, label: &Label, table: &Table) -> bool {
        if label.first > LIMIT || label.second > LIMIT {
            return false;
        }
        let ahead =
            table.entries[label.state as usize * table.row + ((LIMIT - label.first) >> table.shift) as usize];
        u64::try_from(ahead).is_ok_and(|ahead| label.worth.0 + ahead * COARSE > self.goal)
    }

    /// The table, with as many cells as asked for or as there is room for.
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

/// Keeps of each state the labels that no other dominates. O(n log n).
fn drop_dominated(labels: &mut Vec<Label>) {
    labels.sort_unstable();
    let mut state = None;
    // Of the labels kept of this state, worth and second sum of those that no other beats in both: both ascend.
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
