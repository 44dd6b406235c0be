//! The window bound: work confined to windows that a path cuts into the step.

use crate::bound::fluid::priced;
use crate::bound::{Bound, LowerBound, class_seconds};
use crate::certificate::Certificate;
use crate::document::ObjectiveKind;
use crate::graph::{ClassId, OpId};
use crate::ids::Keyed;
use crate::problem::Problem;
use crate::tolerance::round_down;

/// Maximum number of operators of the path that cut windows. Half of them are the longest ones, the others are spread
/// over the path; with a sixth of them the bounds of training graphs are 0.3% smaller.
const MAX_CUTS: usize = 128;

/// Maximum number of busy windows that are tried as holes, the longest first.
const MAX_HOLES: usize = 12;

/// Alternations between the best windows for the prices and the best prices for the windows.
const ROUNDS: usize = 2;

/// Maximum number of entries of the table of seconds by operator and kind.
const MAX_ENTRIES: usize = 1 << 26;

/// A path v₁ ≺ … ≺ v_C cuts the step into windows, in the order of time: busy ones Bᵢ from the start to the end of vᵢ,
/// and free ones Fᵢ between vᵢ and vᵢ₊₁, where F₀ precedes v₁ and F_C follows v_C. Let ℓ be the least length of a
/// window: the least seconds of vᵢ for Bᵢ, the longest path between its ends for Fᵢ. Let Aⱼ be the windows in which
/// operator j may run: after the last vᵢ ≺ j, before the first vᵢ ≻ j, and in no Bᵢ whose vᵢ has j's colocation class.
/// For prices λ_k ≥ 0 of a second on a device of kind k, Σ m_k λ_k = 1 over the m_k devices of the kinds, and any set Z
/// of windows,
///
/// ```text
/// T  ≥  Σ_{i ∉ Z} ℓᵢ  +  Σ_u min_k λ_k Σ_{j ∈ u, Aⱼ ⊆ Z} p_jk
/// ```
///
/// with u over colocation classes.
///
/// *Proof.* The windows partition the step. Those outside Z last ℓ each, or longer. An operator with Aⱼ ⊆ Z runs
/// wholly inside Z: precedence excludes the earlier and the later windows, and the device of its class is busy with vᵢ
/// in the others. The priced seconds that all devices compute inside Z are at most Σ m_k λ_k times its duration, which
/// is its duration. Every class takes λ_k times its seconds for the kind k that runs it. With Z empty this is the
/// longest path, with all windows in Z the fluid bound.
///
/// The sum over Z is the value of a closure in a graph, so the best Z is a minimum cut; this computes the best union of
/// runs of windows in O(cuts²), and removes long busy windows from it while that helps. The path is the longest one.
/// Valid for the makespan, any priority; uses no communication. O(pins + kinds · operators + holes · (cuts² +
/// operators)).
#[derive(Debug, Clone, Copy)]
pub struct Windows;

impl Bound for Windows {
    fn name(&self) -> &'static str {
        "windows"
    }

    fn applies(&self, problem: &Problem) -> bool {
        problem.objective().kind() == ObjectiveKind::Makespan
            && problem.graph().operator_count().saturating_mul(problem.cluster().kind_count()) <= MAX_ENTRIES
    }

    fn compute(&self, problem: &Problem) -> Option<LowerBound> {
        let cut = CutPath::new(problem)?;
        let windows = cut.lengths.len();
        let mut inside = vec![true; windows];
        let mut best = (0.0, Vec::new(), inside.clone());
        for _ in 0..ROUNDS {
            let prices = cut.prices(&inside)?;
            let work = cut.least(&prices);
            let found = cut.choose(&work);
            for inside in [&inside, &found] {
                let value = cut.value(inside, &prices);
                if value > best.0 {
                    best = (value, prices.clone(), inside.clone());
                }
            }
            if cut.kinds == 1 {
                break;
            }
            inside = found;
        }
        let (value, prices, inside) = best;
        let certificate = (!prices.is_empty()).then(|| Certificate::Windows {
            prices,
            path: cut.path,
            windows: (0..windows).filter(|&at| inside[at]).map(|at| at as u32).collect(),
        });
        Some(LowerBound { value: round_down(value), source: self.name(), certificate })
    }
}

/// A path, its windows, and the windows in which every operator may run.
struct CutPath<'p> {
    problem: &'p Problem,
    kinds: usize,
    /// By operator and kind; infinite if the operator's class cannot be there.
    seconds: Vec<f64>,
    /// The operators that cut windows.
    path: Vec<OpId>,
    /// Least length by window: F₀, B₁, F₁, …, B_C, F_C.
    lengths: Vec<f64>,
    /// First and last window by operator.
    range: Keyed<OpId, [u32; 2]>,
    /// The busy windows of every colocation class, ascending.
    busy: Keyed<ClassId, Vec<u32>>,
}

impl<'p> CutPath<'p> {
    /// `None` if some operator cannot run anywhere.
    fn new(problem: &'p Problem) -> Option<CutPath<'p>> {
        let graph = problem.graph();
        let kinds = problem.cluster().kind_count();
        let mut seconds = vec![f64::INFINITY; graph.operator_count() * kinds];
        let table = class_seconds(problem);
        for op in graph.operators() {
            for (kind, entry) in seconds[op.index() * kinds..][..kinds].iter_mut().enumerate() {
                if table[graph.class_of(op)][kind].is_some() {
                    *entry = problem.costs().seconds(op, kind).unwrap_or(f64::INFINITY);
                }
            }
        }
        let least: Keyed<OpId, f64> = seconds
            .chunks_exact(kinds.max(1))
            .map(|row| row.iter().copied().fold(f64::INFINITY, f64::min))
            .collect();
        if least.iter().any(|seconds| seconds.is_infinite()) {
            return None;
        }
        let longest = longest_path(problem, &least);
        let path = choose(problem, &longest, &least);
        let (lengths, range) = windows(problem, &path, &least);
        let mut busy = Keyed::filled(Vec::new(), graph.class_count());
        for (at, &op) in path.iter().enumerate() {
            busy[graph.class_of(op)].push(2 * at as u32 + 1);
        }
        Some(CutPath { problem, kinds, seconds, path, lengths, range, busy })
    }

    /// Whether an operator can run only inside a set of windows, given by the windows in its range that are outside.
    fn is_confined(&self, op: OpId, mut outside: impl Iterator<Item = u32>) -> bool {
        let [first, last] = self.range[op];
        // An operator of the path is confined to its own busy window, which no other operator of its class can use.
        let busy: &[u32] =
            if first == last && first % 2 == 1 { &[] } else { &self.busy[self.problem.graph().class_of(op)] };
        outside.all(|at| at < first || at > last || busy.binary_search(&at).is_ok())
    }

    /// Seconds by kind of every class's part that is confined to a set of windows; empty parts are omitted.
    fn parts(&self, inside: &[bool]) -> Vec<Vec<Option<f64>>> {
        let graph = self.problem.graph();
        // The windows outside, and for every window the position of the first one at or after it.
        let outside: Vec<u32> = (0..inside.len()).filter(|&at| !inside[at]).map(|at| at as u32).collect();
        let confined = |op: OpId| {
            let [first, last] = self.range[op];
            let from = outside.partition_point(|&at| at < first);
            self.is_confined(op, outside[from..].iter().copied().take_while(|&at| at <= last))
        };
        let part = |class| {
            let mut members = graph.class(class).iter().filter(|&&op| confined(op)).peekable();
            members.peek()?;
            let mut part = vec![Some(0.0); self.kinds];
            for op in members {
                for (sum, &seconds) in part.iter_mut().zip(&self.seconds[op.index() * self.kinds..]) {
                    *sum = sum.map(|sum| sum + seconds).filter(|sum| sum.is_finite());
                }
            }
            Some(part)
        };
        graph.class_ids().filter_map(part).collect()
    }

    /// The best prices for a set of windows, by kind.
    fn prices(&self, inside: &[bool]) -> Option<Vec<f64>> {
        priced(self.problem, &self.parts(inside)).map(|(_, prices)| prices)
    }

    /// The least priced seconds of every operator.
    fn least(&self, prices: &[f64]) -> Keyed<OpId, f64> {
        let row =
            |row: &[f64]| least_priced(row.iter().map(|&it| Some(it).filter(|it| it.is_finite())), prices);
        self.seconds.chunks_exact(self.kinds).map(row).collect()
    }

    /// The bound for a set of windows and prices, before rounding.
    fn value(&self, inside: &[bool], prices: &[f64]) -> f64 {
        let outside = self.lengths.iter().zip(inside).filter(|(_, inside)| !**inside);
        let work =
            self.parts(inside).iter().map(|part| least_priced(part.iter().copied(), prices)).sum::<f64>();
        outside.map(|(length, _)| length).sum::<f64>() + work
    }

    /// A good set of windows for the work of the operators.
    fn choose(&self, work: &Keyed<OpId, f64>) -> Vec<bool> {
        let mut candidates: Vec<u32> = (0..self.path.len() as u32).map(|at| 2 * at + 1).collect();
        let length = |at: u32| self.lengths[at as usize];
        candidates.sort_by(|&a, &b| length(b).total_cmp(&length(a)));
        candidates.truncate(MAX_HOLES);
        let mut holes: Vec<u32> = Vec::new();
        let mut best = self.runs(work, &holes);
        for hole in candidates {
            let at = holes.partition_point(|&other| other < hole);
            holes.insert(at, hole);
            let found = self.runs(work, &holes);
            if found.0 > best.0 {
                best = found;
            } else {
                holes.remove(at);
            }
        }
        best.1
    }

    /// The best union of runs of windows without some holes, and its value. O(operators · holes + windows²).
    fn runs(&self, work: &Keyed<OpId, f64>, holes: &[u32]) -> (f64, Vec<bool>) {
        let windows = self.lengths.len();
        let mut confined = vec![0.0; windows * windows];
        for (op, &work) in work.enumerate() {
            if self.is_confined(op, holes.iter().copied()) {
                let [first, last] = self.range[op];
                confined[last as usize * windows + first as usize] += work;
            }
        }
        let is_hole: Vec<bool> = (0..windows as u32).map(|at| holes.binary_search(&at).is_ok()).collect();
        // The best value of the windows before each, and where the run that ends there begins, if one does.
        let mut value = vec![0.0; windows + 1];
        let mut run = vec![None; windows + 1];
        let mut from = vec![0.0; windows];
        for last in 0..windows {
            (value[last + 1], run[last + 1]) = (value[last] + self.lengths[last], None);
            // What a run from each window to this one contains.
            let mut sum = 0.0;
            for first in (0..=last).rev() {
                sum += confined[last * windows + first];
                from[first] += sum + if is_hole[last] { self.lengths[last] } else { 0.0 };
                if value[first] + from[first] > value[last + 1] {
                    (value[last + 1], run[last + 1]) = (value[first] + from[first], Some(first));
                }
            }
        }
        let mut inside = vec![false; windows];
        let mut end = windows;
        while end > 0 {
            let first = run[end].unwrap_or(end);
            for at in first..end {
                inside[at] = !is_hole[at];
            }
            end = first.min(end - 1);
        }
        (value[windows], inside)
    }
}

/// The least priced seconds over the kinds.
fn least_priced(seconds: impl Iterator<Item = Option<f64>>, prices: &[f64]) -> f64 {
    let priced = seconds.zip(prices).filter_map(|(seconds, price)| Some(seconds? * price));
    priced.fold(f64::INFINITY, f64::min)
}

/// A longest path, without its operators of zero seconds. O(pins).
fn longest_path(problem: &Problem, seconds: &Keyed<OpId, f64>) -> Vec<OpId> {
    let graph = problem.graph();
    let mut ends: Keyed<OpId, f64> = seconds.clone();
    let mut before: Keyed<OpId, Option<OpId>> = Keyed::filled(None, seconds.len());
    let mut last: Option<OpId> = None;
    for &op in graph.topological() {
        for &input in graph.predecessors(op) {
            if before[op].is_none_or(|longest| ends[input] > ends[longest]) {
                before[op] = Some(input);
            }
        }
        ends[op] += before[op].map_or(0.0, |input| ends[input]);
        if last.is_none_or(|last| ends[op] > ends[last]) {
            last = Some(op);
        }
    }
    let mut path: Vec<OpId> =
        std::iter::successors(last, |&op| before[op]).filter(|&op| seconds[op] > 0.0).collect();
    path.reverse();
    path
}

/// At most [`MAX_CUTS`] operators of a path: the longest ones, and some at equal distances in time.
fn spread(path: &[OpId], seconds: &Keyed<OpId, f64>) -> Vec<OpId> {
    if path.len() <= MAX_CUTS {
        return path.to_vec();
    }
    let mut longest: Vec<usize> = (0..path.len()).collect();
    longest.sort_by(|&a, &b| seconds[path[b]].total_cmp(&seconds[path[a]]));
    let mut cuts = vec![false; path.len()];
    for &at in &longest[..MAX_CUTS / 2] {
        cuts[at] = true;
    }
    let total: f64 = path.iter().map(|&op| seconds[op]).sum();
    let (mut end, mut next) = (0.0, 0.0);
    for (at, &op) in path.iter().enumerate() {
        end += seconds[op];
        if end >= next {
            cuts[at] = true;
            next = end + total / (MAX_CUTS / 2) as f64;
        }
    }
    path.iter().zip(cuts).filter(|&(_, cut)| cut).map(|(&op, _)| op).collect()
}

/// The least lengths of the windows of a path, and the first and last window of every operator. O(pins).
fn windows(
    problem: &Problem,
    path: &[OpId],
    seconds: &Keyed<OpId, f64>,
) -> (Vec<f64>, Keyed<OpId, [u32; 2]>) {
    let graph = problem.graph();
    let mut position: Keyed<OpId, Option<u32>> = Keyed::filled(None, seconds.len());
    for (at, &op) in path.iter().enumerate() {
        position[op] = Some(at as u32);
    }
    let mut lengths = vec![0.0f64; 2 * path.len() + 1];
    let mut range = Keyed::filled([0, 2 * path.len() as u32], seconds.len());
    // The longest path of operators in one free window that ends with each operator.
    let mut ends: Keyed<OpId, f64> = Keyed::filled(0.0, seconds.len());
    for &op in graph.topological() {
        for &input in graph.predecessors(op) {
            let first = position[input].map_or(range[input][0], |at| 2 * at + 2);
            let end = if position[input].is_some() { 0.0 } else { ends[input] };
            if first > range[op][0] {
                (range[op][0], ends[op]) = (first, end);
            } else if first == range[op][0] {
                ends[op] = ends[op].max(end);
            }
        }
        let free = range[op][0] as usize;
        match position[op] {
            Some(at) => {
                lengths[2 * at as usize + 1] = seconds[op];
                lengths[free] = lengths[free].max(ends[op]);
            }
            None => {
                ends[op] += seconds[op];
                if free == 2 * path.len() {
                    lengths[free] = lengths[free].max(ends[op]);
                }
            }
        }
    }
    for &op in graph.topological().iter().rev() {
        for &reader in graph.successors(op) {
            let last = position[reader].map_or(range[reader][1], |at| 2 * at);
            range[op][1] = range[op][1].min(last);
        }
    }
    for (at, &op) in path.iter().enumerate() {
        range[op] = [2 * at as u32 + 1; 2];
    }
    (lengths, range)
}
