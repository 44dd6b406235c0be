//! Bounds on the value that are sums over classes, where each class counts its seconds on its own kind.

use super::Seconds;
use super::bytes::ClassBytes;
use super::game::{Cost, Prices};
use crate::bound::makespan::cut::{CutPath, longest_path};
use crate::bound::{Bound, Windows};
use crate::certificate::{Certificate, Limits};
use crate::document::ObjectiveKind;
use crate::graph::{ClassId, OpId};
use crate::ids::Keyed;
use crate::problem::Problem;
use crate::stop::Stop;
use crate::tolerance::round_down;

/// Alternations between choosing prices for a path or for windows, and choosing a path or windows for the prices.
const ROUNDS: usize = 3;

/// A bound of the form `constant` + Σ_u cost of u on its kind.
pub(super) struct Form {
    pub(super) constant: f64,
    evidence: Evidence,
    /// Costs by class and kind; the work is finite where the class is allowed, and infinite elsewhere.
    costs: Keyed<ClassId, Vec<Cost>>,
}

enum Evidence {
    /// The work of all classes.
    Loads,
    /// Windows that a path cuts, and the work inside some of them.
    Windows { path: Vec<OpId>, windows: Vec<u32> },
}

impl Form {
    /// All forms of an objective, each with the value and the prices that `solve` finds for it; the prices lead to the
    /// next form.
    pub(super) fn all(
        problem: &Problem,
        seconds: &Seconds,
        stop: &Stop,
        mut solve: impl FnMut(&Form) -> Option<(f64, Prices)>,
    ) -> Vec<(Form, f64, Prices)> {
        let mut found = Vec::new();
        let mut keep = |form: Form| {
            if !found.is_empty() && stop.reason().is_some() {
                return None;
            }
            let (value, prices) = solve(&form)?;
            found.push((form, value, prices.clone()));
            Some(prices)
        };
        match problem.objective().kind() {
            ObjectiveKind::Throughput => {
                keep(Form::loads(seconds));
            }
            kind => {
                paths(problem, seconds, &mut keep);
                if kind == ObjectiveKind::Makespan && Windows.applies(problem) {
                    windows(problem, seconds, stop, &mut keep);
                }
            }
        }
        found
    }

    fn loads(seconds: &Seconds) -> Form {
        let cost = |seconds: &Option<f64>| [seconds.unwrap_or(f64::INFINITY), 0.0];
        let costs = seconds.by_class.iter().map(|row| row.iter().map(cost).collect()).collect();
        Form { constant: 0.0, evidence: Evidence::Loads, costs }
    }

    /// The form of a path, whose operators run one after another.
    fn path(problem: &Problem, seconds: &Seconds, path: Vec<OpId>) -> Form {
        let mut costs = seconds.without_work();
        for &op in &path {
            seconds.pass(op, problem, &mut costs);
        }
        Form { constant: 0.0, evidence: Evidence::Windows { path, windows: Vec::new() }, costs }
    }

    /// The form of the windows of a path: those that are `inside` count by the work in them, the others by their
    /// length.
    fn windows(problem: &Problem, seconds: &Seconds, cut: &CutPath<'_>, inside: &[bool]) -> Form {
        let mut costs = seconds.without_work();
        for (class, part) in cut.parts(inside) {
            for (cost, part) in costs[class].iter_mut().zip(part) {
                cost[0] = cost[0].max(part);
            }
        }
        let mut constant = 0.0;
        for (window, &length) in cut.lengths.iter().enumerate().filter(|&(window, _)| !inside[window]) {
            match window % 2 {
                0 => constant += length,
                _ => seconds.pass(cut.path[window / 2], problem, &mut costs),
            }
        }
        let windows =
            (0..inside.len()).filter(|&window| inside[window]).map(|window| window as u32).collect();
        Form { constant, evidence: Evidence::Windows { path: cut.path.clone(), windows }, costs }
    }

    /// The costs, with infinite work on the kinds that are excluded.
    pub(super) fn costs(&self, excluded: impl Fn(ClassId, usize) -> bool) -> Keyed<ClassId, Vec<Cost>> {
        let mut costs = self.costs.clone();
        for (class, row) in self.costs.enumerate() {
            for kind in (0..row.len()).filter(|&kind| excluded(class, kind)) {
                costs[class][kind][0] = f64::INFINITY;
            }
        }
        costs
    }

    pub(super) fn certificate(self, prices: Vec<f64>, limits: Limits) -> Certificate {
        match self.evidence {
            Evidence::Loads => Certificate::Fluid { prices, limits },
            Evidence::Windows { path, windows } => Certificate::Windows { prices, path, windows, limits },
        }
    }
}

/// Tries paths of the graph: the longest by minimum seconds, and the longest by maximum seconds where bytes matter;
/// then the longest for the prices found.
fn paths(problem: &Problem, seconds: &Seconds, keep: &mut impl FnMut(Form) -> Option<Prices>) {
    let least: Keyed<OpId, f64> = seconds.rows().map(|row| extreme(row, f64::min)).collect();
    let largest: Keyed<OpId, f64> = seconds.rows().map(|row| extreme(row, f64::max)).collect();
    let mut known: Vec<Vec<OpId>> = Vec::new();
    for mut weights in [least, largest] {
        for _ in 0..ROUNDS {
            let path = longest_path(problem, &weights);
            if known.contains(&path) {
                break;
            }
            known.push(path.clone());
            let Some(prices) = keep(Form::path(problem, seconds, path)) else { return };
            weights = seconds.margins(problem, &prices, |_| 1.0);
        }
    }
}

/// Tries sets of windows of the longest path: first all windows, then those that are best for the prices found.
fn windows(problem: &Problem, seconds: &Seconds, stop: &Stop, keep: &mut impl FnMut(Form) -> Option<Prices>) {
    let Some(mut cut) = CutPath::new(problem, 0, stop) else { return };
    let mut inside = vec![true; cut.lengths.len()];
    for _ in 0..ROUNDS {
        let Some(prices) = keep(Form::windows(problem, seconds, &cut, &inside)) else { return };
        let lengths = cut.lengths.clone();
        let passing = seconds.margins(problem, &prices, |_| 1.0);
        for (place, &op) in cut.path.iter().enumerate() {
            cut.lengths[2 * place + 1] = passing[op];
        }
        let (_, found) = cut.choose(&seconds.margins(problem, &prices, |kind| prices.seconds[kind]), &[]);
        cut.lengths = lengths;
        if found == inside {
            return;
        }
        inside = found;
    }
}

impl Seconds {
    /// Seconds of every operator by kind, in order of the operators.
    fn rows(&self) -> impl Iterator<Item = &[f64]> {
        self.by_op.chunks_exact(self.kinds.max(1))
    }

    /// Costs of zero where a class is allowed, and infinite work elsewhere.
    fn without_work(&self) -> Keyed<ClassId, Vec<Cost>> {
        let cost = |seconds: &Option<f64>| [seconds.map_or(f64::INFINITY, |_| 0.0), 0.0];
        self.by_class.iter().map(|row| row.iter().map(cost).collect()).collect()
    }

    /// Adds the seconds of an operator to the seconds of its class that pass in any case.
    fn pass(&self, op: OpId, problem: &Problem, costs: &mut Keyed<ClassId, Vec<Cost>>) {
        let row = &mut costs[problem.graph().class_of(op)];
        for (cost, &seconds) in row.iter_mut().zip(&self.by_op[op.index() * self.kinds..]) {
            if seconds.is_finite() {
                cost[1] += seconds;
            }
        }
    }

    /// The amount that every operator adds at given prices, where a second on a kind costs `rate`: the least sum of
    /// seconds and memory over the kinds, minus the least cost of memory alone. The operators of a class share the cost
    /// of its memory equally.
    fn margins(&self, problem: &Problem, prices: &Prices, rate: impl Fn(usize) -> f64) -> Keyed<OpId, f64> {
        let graph = problem.graph();
        let ClassBytes(bytes) = &*ClassBytes::of(problem);
        let margin = |(op, row): (OpId, &[f64])| {
            let class = graph.class_of(op);
            let share = graph.class(class).len() as f64;
            let rent = |kind: usize| prices.rent(kind, bytes[class]) / share;
            let kinds = || (0..self.kinds).filter(|&kind| row[kind].is_finite());
            let with = kinds().map(|kind| rate(kind) * row[kind] + rent(kind)).fold(f64::INFINITY, f64::min);
            let without = kinds().map(rent).fold(f64::INFINITY, f64::min);
            f64::max(with - without, 0.0)
        };
        graph.operators().zip(self.rows()).map(margin).collect()
    }
}

/// Minimum or maximum of the finite entries.
fn extreme(row: &[f64], choose: impl Fn(f64, f64) -> f64) -> f64 {
    row.iter().copied().filter(|seconds| seconds.is_finite()).reduce(choose).unwrap_or(0.0)
}

/// The value that follows if a class is on a kind, by class and kind.
pub(super) struct Through(Keyed<ClassId, Vec<f64>>);

impl Through {
    /// For throughput, the load of the class alone, divided by the maximum number of replicas; otherwise the longest
    /// path through any of its operators. O(operators · kinds + pins).
    pub(super) fn new(problem: &Problem, seconds: &Seconds) -> Through {
        let graph = problem.graph();
        if problem.objective().kind() == ObjectiveKind::Throughput {
            let max_replicas = problem.objective().rules().max_replicas;
            let replicas = |kind| f64::from(max_replicas.min(problem.cluster().kind(kind).count));
            let value = |(kind, &seconds): (usize, &Option<f64>)| {
                seconds.map_or(f64::INFINITY, |seconds| {
                    problem.objective().repetitions() * (seconds / replicas(kind))
                })
            };
            let row = |row: &Vec<Option<f64>>| row.iter().enumerate().map(value).collect();
            return Through(seconds.by_class.iter().map(row).collect());
        }
        let least: Keyed<OpId, f64> = seconds.rows().map(|row| extreme(row, f64::min)).collect();
        let mut before: Keyed<OpId, f64> = Keyed::filled(0.0, least.len());
        let mut after = before.clone();
        for &op in graph.topological() {
            let inputs = graph.predecessors(op).iter();
            before[op] = inputs.map(|&input| before[input] + least[input]).fold(0.0, f64::max);
        }
        for &op in graph.topological().iter().rev() {
            let readers = graph.successors(op).iter();
            after[op] = readers.map(|&reader| after[reader] + least[reader]).fold(0.0, f64::max);
        }
        let mut through = Keyed::filled(vec![0.0; seconds.kinds], graph.class_count());
        for (op, row) in graph.operators().zip(seconds.rows()) {
            for (value, own) in through[graph.class_of(op)].iter_mut().zip(row) {
                *value = f64::max(*value, before[op] + own + after[op]);
            }
        }
        Through(through)
    }

    /// The values above a bound, rounded down, ascending.
    pub(super) fn above(&self, bound: f64) -> Vec<f64> {
        let all = self.0.iter().flatten().copied().filter(|value| value.is_finite());
        let mut values: Vec<f64> = all.map(round_down).filter(|&value| value > bound).collect();
        values.sort_unstable_by(f64::total_cmp);
        values.dedup();
        values
    }

    /// Whether placing the class on the kind implies a value of at least `below`.
    pub(super) fn reaches(&self, class: ClassId, kind: usize, below: f64) -> bool {
        round_down(self.0[class][kind]) >= below
    }
}
