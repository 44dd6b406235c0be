//! The segment bound: the step in segments between operators beside which little else can run.

use super::capacity::Columns;
use super::cut::{CutPath, Segment};
use super::energetic::energy;
use super::{Reach, Windows, can_run};
use crate::bound::{Bound, LowerBound};
use crate::csr::Csr;
use crate::graph::OpId;
use crate::problem::Problem;
use crate::stop::Stop;
use crate::tolerance::round_down;

/// Maximum number of operators of the path at which segments may begin or end.
const MAX_ENDS: usize = 160;

/// Maximum of the number of operators that may begin in a segment, summed over all segments, times the number of pools;
/// short segments come first.
const MAX_OPERATORS: usize = 1 << 18;

/// The longest path cuts the step into segments at the operators beside which the least other work can run. Between the
/// end of such an operator, u, and the start of a later one, w, run all operators that follow u and precede w. The
/// heads and tails of that part, and the capacity between them, bound the length of the segment: by the longest path
/// through an operator, and by the bound of [`Energetic`](super::Energetic) on the part. The step is at least the
/// greatest sum over disjoint segments and over windows like those of [`Windows`](super::Windows).
///
/// *Proof.* Segments and windows that are disjoint in the order of the path are disjoint in time. In a part, u is an
/// operator of zero seconds at time zero, and w one at its end. Anything else that operators of the part read, or that
/// reads from them, can only delay them. The first operator of the part on a device reads only from other devices,
/// except on the device of u.
///
/// Every segment pays for a fork and a join of its own, whereas the bound of the whole step accounts for only one of
/// each. Valid for the makespan, any priority. O(operators of all segments · sites · log) after the windows.
#[derive(Debug, Clone, Copy)]
pub struct Segments;

impl Bound for Segments {
    fn name(&self) -> &'static str {
        "segments"
    }

    fn applies(&self, problem: &Problem) -> bool {
        Windows.applies(problem)
    }

    fn compute(&self, problem: &Problem) -> Option<LowerBound> {
        self.before(problem, &Stop::never())
    }

    fn before(&self, problem: &Problem, stop: &Stop) -> Option<LowerBound> {
        let value = sum_of_segments(problem, stop, |_, _, seconds| seconds)?;
        Some(LowerBound { value: round_down(value), source: self.name(), certificate: None })
    }
}

/// The bound before rounding. `improved` may raise the bound on the length of a segment: it is given the operators at
/// the segment's ends, those in the segment, and the bound. Short segments come first.
pub(super) fn sum_of_segments(
    problem: &Problem,
    stop: &Stop,
    improved: impl FnMut([Option<OpId>; 2], &[OpId], f64) -> f64,
) -> Option<f64> {
    let cut = CutPath::new(problem, MAX_ENDS, stop)?;
    let segments = segments(problem, &cut, stop, improved)?;
    let prices = cut.prices(&vec![true; cut.lengths.len()])?;
    Some(cut.choose(&cut.least(&prices), &segments).0[0])
}

/// The segments that can be computed before `stop`, with ends at narrow operators of the path or at the beginning or end
/// of the step. `None` if some operator cannot run anywhere.
fn segments(
    problem: &Problem,
    cut: &CutPath<'_>,
    stop: &Stop,
    mut improved: impl FnMut([Option<OpId>; 2], &[OpId], f64) -> f64,
) -> Option<Vec<Segment>> {
    let Some(mut reach) = Reach::before(problem, stop) else { return can_run(problem).then(Vec::new) };
    let columns = Columns::new(&reach);
    // Every mark with the first window of segments that begin there, and the last window of segments that end there.
    let windows = cut.lengths.len();
    let mut marks: Vec<(Option<OpId>, usize, usize)> = vec![(None, 0, 0)];
    marks.extend(
        cut.narrow_at.iter().map(|&cut_index| (Some(cut.path[cut_index]), 2 * cut_index + 2, 2 * cut_index)),
    );
    marks.push((None, windows, windows - 1));
    // Topological positions of the operators, by the first window in which each may run.
    let graph = problem.graph();
    let by_first = graph.topological().iter().enumerate().map(|(rank, &op)| (cut.range[op][0], rank as u32));
    let by_first: Csr<u32> = Csr::from_pairs(windows, &by_first.collect::<Vec<_>>());
    let mut segments = Vec::new();
    let mut left = MAX_OPERATORS / problem.pools().len().max(1);
    for distance in 1..marks.len() {
        for start in 0..marks.len() - distance {
            let (from, first, _) = marks[start];
            let (to, _, last) = marks[start + distance];
            let candidates = by_first.between(first as u32, last as u32);
            if candidates.len() > left || stop.reason().is_some() {
                return Some(segments);
            }
            left -= candidates.len();
            let op = |&rank: &u32| graph.topological()[rank as usize];
            let mut positions: Vec<u32> =
                candidates.iter().copied().filter(|rank| cut.range[op(rank)][1] as usize <= last).collect();
            positions.sort_unstable();
            let between: Vec<OpId> = positions.iter().map(op).collect();
            if !between.is_empty() {
                reach.restrict([from, to], between);
                let seconds = reach.longest().max(energy(&reach, &columns, stop).unwrap_or(0.0));
                let seconds = improved([from, to], &reach.operators, seconds);
                segments.push(Segment { first, last, seconds });
            }
        }
    }
    Some(segments)
}
