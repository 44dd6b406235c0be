//! The certificate of windows: a bound on the makespan from the work that can run only in some parts of the step.
//!
//! Let v₁, …, v_C be operators on a path. Window 2i − 1 is the time of vᵢ on its device, window 2i the time from its
//! end to the start of vᵢ₊₁; windows 0 and 2C precede v₁ and follow v_C. Together the windows partition the step. An
//! operator that follows vᵢ and precedes vₖ runs in windows 2i to 2k − 2, except those in which its device is busy with
//! an operator of the path that has the same colocation class. The windows of a set Z together last at least the priced
//! seconds of the operators that can run nowhere else, divided by the price of all devices: see
//! [`certificate`](super::certificate). Outside Z, a window in which an operator of the path runs lasts as long as that
//! operator, on the kind that runs its class; any other window lasts at least as long as the longest path between its
//! ends. [`limits`](super::limits) adds prices of memory, and excludes kinds where a path is too long.
//!
//! If no windows are listed, the sum is the length of a path with every class on one kind, so it bounds the latency as
//! well: the part of the path inside a call is contiguous, and the call computes for at least the seconds of that part.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use super::certificate::{Proof, kind_prices, runs_on};
use super::limits::Limits;
use crate::read::{Problem, Tensor};
use crate::topological;

/// Fields of a certificate of windows.
pub(super) struct Evidence<'a> {
    pub(super) prices: &'a BTreeMap<String, f64>,
    pub(super) path: &'a [String],
    pub(super) windows: &'a [u32],
}

/// The windows that a path cuts.
struct Cut {
    /// Minimum seconds of every window.
    lengths: Vec<f64>,
    /// First and last window by operator.
    range: Vec<[usize; 2]>,
}

/// The windows outside the set that a certificate lists.
struct Outside {
    /// Number of windows outside the set before each window.
    before: Vec<usize>,
    /// By class, the windows outside the set in which an operator of the path runs.
    own: Vec<Vec<usize>>,
}

/// Replays the certificate. O(pins + operators · (kinds + log windows) + windows).
pub(super) fn replay(problem: &Problem, evidence: &Evidence<'_>, limits: &Limits) -> Proof {
    proof(problem, evidence, limits).unwrap_or_else(Proof::Malformed)
}

/// The bound that the certificate proves, or the reason why it is malformed.
fn proof(problem: &Problem, evidence: &Evidence<'_>, limits: &Limits) -> Result<Proof, String> {
    let (price, capacity) = kind_prices(problem, evidence.prices)?;
    let path = path_of(problem, evidence.path)?;
    let is_inside = listed(evidence.windows, 2 * path.len() + 1)?;
    let kinds_of = kinds_of(problem, limits);
    if kinds_of.iter().any(Vec::is_empty) {
        return Ok(Proof::NoPlan);
    }
    let least = least_seconds(problem, &kinds_of);
    let cut = cut(problem, &path, &least)?;
    let outside = Outside::new(problem, &path, &is_inside);
    let through = through(problem, &least);
    let longest = |members: &[usize], kind: usize| {
        let paths = members
            .iter()
            .map(|&operator| through[operator] - least[operator] + seconds(problem, operator, kind));
        paths.fold(0.0, f64::max)
    };
    // Windows in which an operator of the path runs are counted with the operator's class.
    let free = cut.lengths.iter().zip(&is_inside).step_by(2).filter(|(_, inside)| !**inside);
    let mut is_impossible = false;
    let mut bound = limits.balance(problem);
    free.for_each(|(&length, _)| bound.add(length, 0.0));
    for (class, members) in problem.graph.classes.iter().enumerate() {
        let is_confined = |&operator: &usize| outside.confines(class, cut.range[operator]);
        let confined: Vec<usize> = members.iter().copied().filter(is_confined).collect();
        let own = outside.own[class].iter().map(|&window| path[window / 2]);
        let cost = |&kind: &usize| {
            let seconds = |operator: usize| seconds(problem, operator, kind);
            let work = match price[kind] {
                0.0 => 0.0,
                price => price * confined.iter().map(|&operator| seconds(operator)).sum::<f64>(),
            };
            let passing: f64 = own.clone().map(seconds).sum();
            let rent = limits.rent(class, kind);
            (work / capacity + passing + rent, rent)
        };
        let below = kinds_of[class].iter().filter(|&&kind| !limits.reached(longest(members, kind)));
        match below.map(cost).min_by(|a, b| a.0.total_cmp(&b.0)) {
            Some((least, rent)) => bound.add(least, rent),
            None => is_impossible = true,
        }
    }
    let bound = limits.capped(bound.least(), is_impossible);
    // A sum that overflowed cannot be compared with a claim.
    Ok(if bound.is_finite() { Proof::Bound(bound) } else { Proof::Open })
}

impl Outside {
    fn new(problem: &Problem, path: &[usize], is_inside: &[bool]) -> Outside {
        let mut before = vec![0usize];
        for inside in is_inside {
            before.push(before[before.len() - 1] + usize::from(!inside));
        }
        let mut own: Vec<Vec<usize>> = vec![Vec::new(); problem.graph.classes.len()];
        for (position, &operator) in path.iter().enumerate() {
            if !is_inside[2 * position + 1] {
                own[problem.graph.class_of[operator]].push(2 * position + 1);
            }
        }
        Outside { before, own }
    }

    /// Whether an operator of a class that runs in the windows from `first` to `last` can run in no window outside the
    /// set.
    fn confines(&self, class: usize, [first, last]: [usize; 2]) -> bool {
        let excluded = match first == last && first % 2 == 1 {
            true => 0,
            false => {
                let own = &self.own[class];
                own.partition_point(|&window| window <= last) - own.partition_point(|&window| window < first)
            }
        };
        self.before[last + 1] - self.before[first] == excluded
    }
}

/// Whether each of `count` windows is listed.
fn listed(windows: &[u32], count: usize) -> Result<Vec<bool>, String> {
    let mut is_listed = vec![false; count];
    for &window in windows {
        match is_listed.get_mut(window as usize) {
            Some(is_listed) => *is_listed = true,
            None => return Err(format!("it lists window {window}, which its path does not cut")),
        }
    }
    Ok(is_listed)
}

/// The kinds that may run each class.
fn kinds_of(problem: &Problem, limits: &Limits) -> Vec<Vec<usize>> {
    let kinds = |class: usize| {
        runs_on(problem, class).map(|(kind, _)| kind).filter(|&kind| limits.fits(class, kind)).collect()
    };
    (0..problem.graph.classes.len()).map(kinds).collect()
}

/// Seconds of an operator on a kind; infinite if it cannot run there.
fn seconds(problem: &Problem, operator: usize, kind: usize) -> f64 {
    problem.seconds(operator, &problem.cluster.kinds[kind]).unwrap_or(f64::INFINITY)
}

/// Minimum seconds of every operator on the kinds that may run its class.
fn least_seconds(problem: &Problem, kinds_of: &[Vec<usize>]) -> Vec<f64> {
    let least = |operator: usize| {
        let kinds = kinds_of[problem.graph.class_of[operator]].iter();
        kinds.map(|&kind| seconds(problem, operator, kind)).fold(f64::INFINITY, f64::min)
    };
    (0..problem.graph.operators.len()).map(least).collect()
}

/// Length in seconds of the longest path through each operator.
fn through(problem: &Problem, least: &[f64]) -> Vec<f64> {
    let arcs: Vec<(usize, usize)> = problem.graph.tensors.iter().flat_map(Tensor::arcs).collect();
    let until = topological::longest(&problem.graph.order, &arcs, least);
    let backwards: Vec<(usize, usize)> = arcs.into_iter().map(|(from, to)| (to, from)).collect();
    let order: Vec<usize> = problem.graph.order.iter().rev().copied().collect();
    let from = topological::longest(&order, &backwards, least);
    until.iter().zip(&from).zip(least).map(|((until, from), own)| until + from - own).collect()
}

/// The operators of the path, each at most once.
fn path_of(problem: &Problem, names: &[String]) -> Result<Vec<usize>, String> {
    let mut path = Vec::with_capacity(names.len());
    for name in names {
        match problem.graph.find(name) {
            Some(operator) => path.push(operator),
            None => return Err(format!("it names operator {name:?}, which the graph lacks")),
        }
    }
    Ok(path)
}

/// The windows, or the reason why the operators are not on a path.
fn cut(problem: &Problem, path: &[usize], least: &[f64]) -> Result<Cut, String> {
    let place: FxHashMap<usize, usize> =
        path.iter().enumerate().map(|(position, &operator)| (operator, position)).collect();
    let operators = least.len();
    let mut readers: Vec<Vec<usize>> = vec![Vec::new(); operators];
    for (from, to) in problem.graph.tensors.iter().flat_map(Tensor::arcs) {
        readers[from].push(to);
    }
    let mut lengths = vec![0.0f64; 2 * path.len() + 1];
    // By operator, the last window before its own, and the longest path of operators since that window began.
    let mut since: Vec<(usize, f64)> = vec![(0, 0.0); operators];
    for &operator in &problem.graph.order {
        let (window, ready) = since[operator];
        let after = match place.get(&operator) {
            Some(&position) => {
                if window != 2 * position {
                    return Err(format!("operator {position} of its path does not follow the one before it"));
                }
                lengths[window] = lengths[window].max(ready);
                lengths[window + 1] = least[operator];
                (window + 2, 0.0)
            }
            None => (window, ready + least[operator]),
        };
        if after.0 == 2 * path.len() {
            lengths[after.0] = lengths[after.0].max(after.1);
        }
        for &reader in &readers[operator] {
            if after.0 > since[reader].0 {
                since[reader] = after;
            } else if after.0 == since[reader].0 {
                since[reader].1 = since[reader].1.max(after.1);
            }
        }
    }
    let mut range: Vec<[usize; 2]> = since.iter().map(|&(window, _)| [window, 2 * path.len()]).collect();
    for &operator in problem.graph.order.iter().rev() {
        for &reader in &readers[operator] {
            let last = place.get(&reader).map_or(range[reader][1], |&position| 2 * position);
            range[operator][1] = range[operator][1].min(last);
        }
    }
    for (position, &operator) in path.iter().enumerate() {
        range[operator] = [2 * position + 1; 2];
    }
    Ok(Cut { lengths, range })
}
