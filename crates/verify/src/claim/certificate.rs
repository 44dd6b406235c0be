//! Certificates: evidence that a bound holds for every plan, replayed from the documents.
//!
//! The certificates of column generation and of windows are in [`columns`](super::columns) and
//! [`windows`](super::windows). The others use colocation classes u and device kinds c, where seconds(u, c) is the sum
//! over the members of u. Only kinds that can run the whole class count: the kind has devices, supports every member,
//! and has a device that the pins of all members allow.
//!
//! *Fluid.* In any plan with value B, a device has a load of at most B and at least its compute, and r replicas of a
//! stage share its compute. Price the devices of kind c at π_c ≥ 0: Σ_u min_c π_c · seconds(u, c) ≤ Σ_c π_c · (compute
//! on kind c) ≤ B · Σ_c count_c · π_c, in every communication and training mode. This is weak duality for the linear
//! program that may split classes fractionally.
//!
//! *Heaviest unit.* Some device runs the class, on at most r = min(max_replicas, count_c) replicas, so B is at least
//! the minimum over c of seconds(u, c) / r.
//!
//! *Memory.* If memory has prices as well, every class also pays for the quanta that it needs on its kind. All devices
//! together have the number of quanta given in [`limits`](super::limits), all of which are paid for, whether a class
//! uses them or not.
//!
//! These certificates bound the largest load. An iteration of m microbatches under a schedule takes at least m times
//! the largest load.

use std::collections::BTreeMap;

use super::limits::Limits;
use crate::read::{Allowed, Problem};

/// Result of replaying a certificate.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Proof {
    /// A proved bound.
    Bound(f64),
    /// No bound: some class can run on no kind, so there is no plan to bound.
    NoPlan,
    /// Inconclusive: the relaxation or the limits of the replay prevent a proof.
    Open,
    /// No bound: the certificate is malformed, with the reason.
    Malformed(String),
}

/// The prices by kind, and the price of a second on all devices together; or the reason why the prices are malformed.
pub(super) fn kind_prices(
    problem: &Problem,
    prices: &BTreeMap<String, f64>,
) -> Result<(Vec<f64>, f64), String> {
    let mut price = vec![0.0; problem.cluster.kinds.len()];
    for (name, &given) in prices {
        let Some(kind) = problem.cluster.find_kind(name) else {
            return Err(format!("it prices kind {name:?}, which the cluster lacks"));
        };
        if !(given.is_finite() && given >= 0.0) {
            return Err(format!("the price of kind {name:?} is {given:?}"));
        }
        price[kind] = given;
    }
    let kinds = problem.cluster.kinds.iter();
    let capacity: f64 = kinds.zip(&price).map(|(kind, price)| f64::from(kind.document.count) * price).sum();
    match capacity {
        0.0 => Err("no kind with devices has a positive price".to_owned()),
        capacity if capacity.is_finite() => Ok((price, capacity)),
        _ => Err("its prices overflow".to_owned()),
    }
}

/// Bound of a fluid certificate. O(operators · kinds).
pub(super) fn fluid(problem: &Problem, prices: &BTreeMap<String, f64>, limits: &Limits) -> Proof {
    let (price, capacity) = match kind_prices(problem, prices) {
        Ok(prices) => prices,
        Err(why) => return Proof::Malformed(why),
    };
    let (mut total, mut is_impossible) = (limits.balance(problem), false);
    for class in 0..problem.graph.classes.len() {
        let able: Vec<(usize, f64)> =
            runs_on(problem, class).filter(|&(kind, _)| limits.fits(class, kind)).collect();
        if able.is_empty() {
            return Proof::NoPlan;
        }
        let below = able
            .into_iter()
            .filter(|&(kind, seconds)| !limits.reached(repetitions(problem) * share(problem, kind, seconds)));
        let cost = below.map(|(kind, seconds)| {
            let work = if price[kind] == 0.0 { 0.0 } else { price[kind] * seconds };
            let rent = limits.rent(class, kind);
            (work + rent, rent)
        });
        match cost.min_by(|a, b| a.0.total_cmp(&b.0)) {
            Some((least, rent)) => total.add(least, rent),
            None => is_impossible = true,
        }
    }
    proved(limits.capped(repetitions(problem) * (total.least() / capacity), is_impossible))
}

/// Seconds of a class on a kind, divided by the maximum number of replicas there.
fn share(problem: &Problem, kind: usize, seconds: f64) -> f64 {
    seconds / f64::from(problem.rules.max_replicas.min(problem.cluster.kinds[kind].document.count))
}

/// Bound of a heaviest unit. O(members · kinds).
pub(super) fn heaviest_unit(problem: &Problem, operator: &str) -> Proof {
    let Some(operator) = problem.graph.find(operator) else {
        return Proof::Malformed(format!("it names operator {operator:?}, which the graph lacks"));
    };
    let shares = runs_on(problem, problem.graph.class_of[operator])
        .map(|(kind, seconds)| share(problem, kind, seconds));
    shares.reduce(f64::min).map_or(Proof::NoPlan, |least| proved(repetitions(problem) * least))
}

/// Factor from a bound on the load to a bound on the value: in an iteration of m microbatches, every device is busy for
/// m times its load.
fn repetitions(problem: &Problem) -> f64 {
    f64::from(problem.rules.microbatches)
}

/// The bound, or a malformed certificate if a sum overflowed.
fn proved(bound: f64) -> Proof {
    if bound.is_finite() { Proof::Bound(bound) } else { Proof::Malformed("its figures overflow".to_owned()) }
}

/// Kinds that can run a whole class, each with the seconds of the class on that kind.
pub(super) fn runs_on<'a>(problem: &'a Problem, class: usize) -> impl Iterator<Item = (usize, f64)> + 'a {
    let members = &problem.graph.classes[class];
    let pinned = members.iter().filter_map(|&operator| problem.pins.of(operator));
    let allowed: Option<Allowed> = pinned.fold(None, |sofar, pins| match sofar {
        None => Some(pins.clone()),
        Some(sofar) => Some(sofar.and(pins)),
    });
    problem.cluster.kinds.iter().enumerate().filter_map(move |(position, kind)| {
        if kind.document.count == 0 || allowed.as_ref().is_some_and(|allowed| !allowed.meets_kind(position)) {
            return None;
        }
        let seconds: Option<f64> = members.iter().map(|&operator| problem.seconds(operator, kind)).sum();
        Some((position, seconds?))
    })
}
