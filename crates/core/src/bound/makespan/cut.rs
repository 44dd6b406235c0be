//! Windows that a path cuts into the step, and the work that is confined to them: see [`Windows`](super::Windows).

use super::capacity::least;
use crate::bound::class_seconds;
use crate::bound::fluid::priced;
use crate::graph::{ClassId, OpId};
use crate::ids::Keyed;
use crate::problem::Problem;
use crate::stop::Stop;

/// Maximum number of operators of the path that cut windows, not counting narrow ones. Half of them are the longest
/// operators, the others are spread over the path. With a sixth of this number, the bounds of training graphs are 0.3%
/// smaller.
const MAX_CUTS: usize = 128;

/// Maximum number of busy windows that are tried as holes; the longest are tried first.
const MAX_HOLES: usize = 12;

/// A path, its windows, and the windows in which every operator may run.
pub(in crate::bound) struct CutPath<'p> {
    problem: &'p Problem,
    /// Ends the rounds that improve prices.
    stop: Stop,
    pub(super) kinds: usize,
    /// Seconds by operator and kind; infinite if the operator's class cannot be there.
    seconds: Vec<f64>,
    /// The operators that cut windows.
    pub(in crate::bound) path: Vec<OpId>,
    /// Minimum length of each window: F₀, B₁, F₁, …, B_C, F_C.
    pub(in crate::bound) lengths: Vec<f64>,
    /// First and last window in which each operator may run.
    pub(super) range: Keyed<OpId, [u32; 2]>,
    /// The busy windows of every colocation class, ascending.
    busy: Keyed<ClassId, Vec<u32>>,
    /// Positions in the path of the operators beside which little other work can run, ascending.
    pub(super) narrow_at: Vec<usize>,
}

/// A run of windows whose length has a lower bound of its own.
#[derive(Debug, Clone, Copy)]
pub(in crate::bound) struct Segment {
    pub(super) first: usize,
    pub(super) last: usize,
    pub(super) seconds: f64,
}

impl<'p> CutPath<'p> {
    /// Cuts the longest path, also at operators beside which little other work can run, but at no more than
    /// `most_narrow` of these. `None` if some operator cannot run anywhere. O(pins + pools · operators).
    pub(in crate::bound) fn new(
        problem: &'p Problem,
        most_narrow: usize,
        stop: &Stop,
    ) -> Option<CutPath<'p>> {
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
        let narrow = match most_narrow {
            0 => vec![false; longest.len()],
            limit => narrow(problem, &longest, &least, limit),
        };
        let cuts =
            spread(&longest, &least).into_iter().zip(&narrow).map(|(spread, &narrow)| spread || narrow);
        let cuts: Vec<(OpId, bool)> = longest
            .iter()
            .zip(&narrow)
            .zip(cuts)
            .filter(|cut| cut.1)
            .map(|((&op, &narrow), _)| (op, narrow))
            .collect();
        let path: Vec<OpId> = cuts.iter().map(|cut| cut.0).collect();
        let narrow_at = (0..cuts.len()).filter(|&cut| cuts[cut].1).collect();
        let (lengths, range) = windows(problem, &path, &least);
        let mut busy = Keyed::filled(Vec::new(), graph.class_count());
        for (index, &op) in path.iter().enumerate() {
            busy[graph.class_of(op)].push(2 * index as u32 + 1);
        }
        let stop = stop.clone();
        Some(CutPath { problem, stop, kinds, seconds, path, lengths, range, busy, narrow_at })
    }

    /// Whether an operator can run only inside a set of windows, given the windows outside the set that lie in the
    /// operator's range.
    fn is_confined(&self, op: OpId, mut outside: impl Iterator<Item = u32>) -> bool {
        let [first, last] = self.range[op];
        // An operator of the path is confined to its own busy window, which no other operator of its class can use.
        let busy: &[u32] =
            if first == last && first % 2 == 1 { &[] } else { &self.busy[self.problem.graph().class_of(op)] };
        outside.all(|window| window < first || window > last || busy.binary_search(&window).is_ok())
    }

    /// For every class, seconds by kind of the part that is confined to a set of windows; empty parts are omitted.
    pub(in crate::bound) fn parts(&self, inside: &[bool]) -> Vec<(ClassId, Vec<f64>)> {
        let graph = self.problem.graph();
        let outside: Vec<u32> =
            (0..inside.len()).filter(|&window| !inside[window]).map(|window| window as u32).collect();
        let confined = |op: OpId| {
            let [first, last] = self.range[op];
            let from = outside.partition_point(|&window| window < first);
            self.is_confined(op, outside[from..].iter().copied().take_while(|&window| window <= last))
        };
        let part = |class| {
            let mut members = graph.class(class).iter().filter(|&&op| confined(op)).peekable();
            members.peek()?;
            let mut part = vec![0.0; self.kinds];
            for op in members {
                for (sum, seconds) in part.iter_mut().zip(&self.seconds[op.index() * self.kinds..]) {
                    *sum += seconds;
                }
            }
            Some((class, part))
        };
        graph.class_ids().filter_map(part).collect()
    }

    /// The best prices for a set of windows, by kind.
    pub(super) fn prices(&self, inside: &[bool]) -> Option<Vec<f64>> {
        let finite = |(_, part): (_, Vec<f64>)| {
            part.into_iter().map(|sum| Some(sum).filter(|sum| sum.is_finite())).collect()
        };
        let parts: Vec<Vec<Option<f64>>> = self.parts(inside).into_iter().map(finite).collect();
        priced(self.problem, &parts, &self.stop).map(|(_, prices)| prices)
    }

    /// Minimum priced seconds of every operator.
    pub(super) fn least(&self, prices: &[f64]) -> Keyed<OpId, f64> {
        self.seconds.chunks_exact(self.kinds).map(|row| least(row, prices)).collect()
    }

    /// The bound for a set of windows and prices, before rounding.
    pub(super) fn value(&self, inside: &[bool], prices: &[f64]) -> f64 {
        let outside = self.lengths.iter().zip(inside).filter(|(_, inside)| !**inside);
        let work: f64 = self.parts(inside).iter().map(|(_, part)| least(part, prices)).sum();
        outside.map(|(length, _)| length).sum::<f64>() + work
    }

    /// Chooses a good set of windows for the work of the operators. Returns lower bounds that it and the segments prove
    /// on the time from the beginning of every window, and from the end of the last, to the end of the step, and
    /// whether each window is in the set.
    pub(in crate::bound) fn choose(
        &self,
        work: &Keyed<OpId, f64>,
        segments: &[Segment],
    ) -> (Vec<f64>, Vec<bool>) {
        let mut candidates: Vec<u32> = (0..self.path.len() as u32).map(|index| 2 * index + 1).collect();
        let length = |window: u32| self.lengths[window as usize];
        candidates.sort_by(|&a, &b| length(b).total_cmp(&length(a)));
        candidates.truncate(MAX_HOLES);
        let mut holes: Vec<u32> = Vec::new();
        let mut best = self.runs(work, &holes, segments);
        for hole in candidates {
            let place = holes.partition_point(|&other| other < hole);
            holes.insert(place, hole);
            let found = self.runs(work, &holes, segments);
            if found.0[0] > best.0[0] {
                best = found;
            } else {
                holes.remove(place);
            }
        }
        best
    }

    /// Finds the best union of segments and of runs of windows without some holes. Returns its values from every window
    /// on, and the windows in its runs. O(operators · holes + windows² + segments).
    fn runs(&self, work: &Keyed<OpId, f64>, holes: &[u32], segments: &[Segment]) -> (Vec<f64>, Vec<bool>) {
        let windows = self.lengths.len();
        let mut confined = vec![0.0; windows * windows];
        for (op, &work) in work.enumerate() {
            if self.is_confined(op, holes.iter().copied()) {
                let [first, last] = self.range[op];
                confined[first as usize * windows + last as usize] += work;
            }
        }
        let is_hole: Vec<bool> =
            (0..windows as u32).map(|window| holes.binary_search(&window).is_ok()).collect();
        let mut beginning: Vec<Vec<Segment>> = vec![Vec::new(); windows];
        for segment in segments {
            beginning[segment.first].push(*segment);
        }
        // The best value from each window on; the end of the run or segment that begins there, and whether it is a run.
        let mut value = vec![0.0; windows + 1];
        let mut until = vec![(0, false); windows];
        // Work confined to the run from the current window to each window.
        let mut run = vec![0.0; windows];
        for first in (0..windows).rev() {
            (value[first], until[first]) = (value[first + 1] + self.lengths[first], (first + 1, false));
            for segment in &beginning[first] {
                let seconds = segment.seconds + value[segment.last + 1];
                if seconds > value[first] {
                    (value[first], until[first]) = (seconds, (segment.last + 1, false));
                }
            }
            let mut sum = if is_hole[first] { self.lengths[first] } else { 0.0 };
            for last in first..windows {
                sum += confined[first * windows + last];
                run[last] += sum;
                if run[last] + value[last + 1] > value[first] {
                    (value[first], until[first]) = (run[last] + value[last + 1], (last + 1, true));
                }
            }
        }
        let mut inside = vec![false; windows];
        let mut first = 0;
        while first < windows {
            let (end, is_run) = until[first];
            for window in first..end {
                inside[window] = is_run && !is_hole[window];
            }
            first = end;
        }
        (value, inside)
    }
}

/// The operators of a longest path, without those of zero seconds. O(pins).
pub(in crate::bound) fn longest_path(problem: &Problem, seconds: &Keyed<OpId, f64>) -> Vec<OpId> {
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

/// Chooses at most [`MAX_CUTS`] operators of a path: the longest ones, and others at equal distances in time.
fn spread(path: &[OpId], seconds: &Keyed<OpId, f64>) -> Vec<bool> {
    if path.len() <= MAX_CUTS {
        return vec![true; path.len()];
    }
    let mut longest: Vec<usize> = (0..path.len()).collect();
    longest.sort_by(|&a, &b| seconds[path[b]].total_cmp(&seconds[path[a]]));
    let mut cuts = vec![false; path.len()];
    for &cut in &longest[..MAX_CUTS / 2] {
        cuts[cut] = true;
    }
    let total: f64 = path.iter().map(|&op| seconds[op]).sum();
    let (mut end, mut next) = (0.0, 0.0);
    for (cut, &op) in cuts.iter_mut().zip(path) {
        end += seconds[op];
        if end >= next {
            *cut = true;
            next = end + total / (MAX_CUTS / 2 - 1) as f64;
        }
    }
    cuts
}

/// Chooses at most `limit` operators of a path beside which less work can run than beside their neighbours on the path.
fn narrow(problem: &Problem, path: &[OpId], seconds: &Keyed<OpId, f64>, limit: usize) -> Vec<bool> {
    let (_, range) = windows(problem, path, seconds);
    // The work that may run at the same time as each operator of the path, summed from differences.
    let mut beside = vec![0.0; path.len() + 1];
    for (op, &[first, last]) in range.enumerate() {
        if first < last {
            beside[first as usize / 2] += seconds[op];
            beside[last as usize / 2] -= seconds[op];
        }
    }
    let mut sum = 0.0;
    for entry in &mut beside {
        sum += *entry;
        *entry = sum;
    }
    let beside = &beside[..path.len()];
    let mut least: Vec<usize> = (0..path.len())
        .filter(|&index| {
            let before = index.checked_sub(1).map_or(f64::INFINITY, |before| beside[before]);
            let after = beside.get(index + 1).copied().unwrap_or(f64::INFINITY);
            beside[index] <= before
                && beside[index] <= after
                && (beside[index] < before || beside[index] < after)
        })
        .collect();
    least.sort_by(|&a, &b| beside[a].total_cmp(&beside[b]));
    let mut narrow = vec![false; path.len()];
    for &index in least.iter().take(limit) {
        narrow[index] = true;
    }
    narrow
}

/// Minimum lengths of the windows of a path, and the first and last window of every operator. O(pins).
fn windows(
    problem: &Problem,
    path: &[OpId],
    seconds: &Keyed<OpId, f64>,
) -> (Vec<f64>, Keyed<OpId, [u32; 2]>) {
    let graph = problem.graph();
    let mut position: Keyed<OpId, Option<u32>> = Keyed::filled(None, seconds.len());
    for (index, &op) in path.iter().enumerate() {
        position[op] = Some(index as u32);
    }
    let mut lengths = vec![0.0f64; 2 * path.len() + 1];
    let mut range = Keyed::filled([0, 2 * path.len() as u32], seconds.len());
    // The longest path that ends with each operator and lies in a single free window.
    let mut ends: Keyed<OpId, f64> = Keyed::filled(0.0, seconds.len());
    for &op in graph.topological() {
        for &input in graph.predecessors(op) {
            let first = position[input].map_or(range[input][0], |index| 2 * index + 2);
            let end = if position[input].is_some() { 0.0 } else { ends[input] };
            if first > range[op][0] {
                (range[op][0], ends[op]) = (first, end);
            } else if first == range[op][0] {
                ends[op] = ends[op].max(end);
            }
        }
        let free = range[op][0] as usize;
        match position[op] {
            Some(index) => {
                lengths[2 * index as usize + 1] = seconds[op];
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
            let last = position[reader].map_or(range[reader][1], |index| 2 * index);
            range[op][1] = range[op][1].min(last);
        }
    }
    for (index, &op) in path.iter().enumerate() {
        range[op] = [2 * index as u32 + 1; 2];
    }
    (lengths, range)
}
