//! What a plan claims of its regret when costs are off.
//!
//! The regret is the largest over a set of scenarios that the problem determines: costs as predicted and, each slower and
//! faster, every class of devices, the links, and the three kinds of operators with the most seconds (each operator on the
//! kind of devices where it is fastest). If there is only one class and one kind of operators that takes time, the kind is
//! the class. A plan that leaves out a scenario could hide a regret, so its claim is refuted.
//!
//! The value of the plan is computed again in every scenario, and the regret from it. The best values and bounds of the
//! scenarios have no evidence: they are only compared with the value of this plan, if it is feasible, and with each other.

use std::collections::{BTreeMap, BTreeSet};

use stagewright_core::document::{OffDocument, PlanDocument, RegretCaseDocument, RegretDocument};
use stagewright_core::tolerance;

use super::costs_off::{Claims, at_most};
use crate::constraint::Placed;
use crate::error::CheckError;
use crate::read::Problem;
use crate::report::RobustClaim::{NominalRegret, Regret, RegretBound, ScenarioValues};
use crate::report::{RobustVerdict, Verdict};
use crate::violation::Findings;

/// Absolute tolerance of a regret, a small difference of large numbers.
const REGRET_ABSOLUTE: f64 = 1e-6;
/// Number of kinds of operators with scenarios of their own.
const KINDS: usize = 3;

/// Reports wrong claims, and returns the verdict on each. `placed` is the placement, if it could be scored. O(operators ·
/// kinds + pins + scenarios · (devices + sources)).
pub(crate) fn check(
    problem: &Problem,
    plan: &PlanDocument,
    placed: Option<&Placed>,
    findings: &mut Findings,
) -> Result<Vec<RobustVerdict>, CheckError> {
    let Some(claimed) = &plan.regret else { return Ok(Vec::new()) };
    let mut claims = Claims::new(
        findings,
        &[
            (ScenarioValues, Verdict::Verified),
            (Regret, Verdict::NotVerified),
            (RegretBound, Verdict::NotVerified),
            (NominalRegret, Verdict::NotVerified),
        ],
    );
    let Some(worst) = claims.loads(problem, plan, placed, "a regret")? else { return Ok(claims.finish()) };
    if !(0.0..1.0).contains(&claimed.deviation) {
        let message = format!("costs are off by {:?}, expected from 0 to below 1", claimed.deviation);
        claims.refute_all(message);
        return Ok(claims.finish());
    }
    let seconds = seconds_by_kind(problem);
    if claimed.cases.first().is_none_or(|case| case.off != OffDocument::Nothing) {
        let message = "the plan claims a regret, but its first scenario is not that of costs as they are";
        claims.refute(Regret, message.into());
    }
    for (at, case) in claimed.cases.iter().enumerate() {
        let factors = [1.0 - claimed.deviation, 1.0 + claimed.deviation];
        let is_nothing = case.off == OffDocument::Nothing;
        let expected = if is_nothing { [1.0, 1.0] } else { factors };
        if !expected.iter().any(|&factor| tolerance::same(factor, case.factor)) {
            claims.refute(ScenarioValues, format!("scenario {at} has the factor {:?}", case.factor));
            continue;
        }
        let exists = match &case.off {
            OffDocument::Nothing | OffDocument::Links => true,
            OffDocument::Class { class } => problem.cluster.has_class(class),
            OffDocument::Kind { kind } => seconds.contains_key(kind.as_str()),
        };
        if !exists {
            let message = format!("scenario {at} names what the model and the cluster do not have");
            claims.refute(ScenarioValues, message);
            continue;
        }
        let RegretCaseDocument { value_s, best_s, bound_s, .. } = *case;
        let actual = worst.value_if(&case.off, case.factor);
        if !tolerance::same(value_s, actual) {
            let message =
                format!("the plan claims a value of {value_s:?} s in scenario {at}, but it is {actual:?} s");
            claims.refute(ScenarioValues, message);
        }
        let is_reached = !claims.is_feasible() || at_most(best_s, actual);
        if !(bound_s >= 0.0 && at_most(bound_s, best_s) && is_reached) {
            let message = format!(
                "scenario {at} has the bound {bound_s:?} s, the best value {best_s:?} s and the value {actual:?} s"
            );
            claims.refute(Regret, message);
        }
    }
    for missing in missing(problem, claimed, &seconds) {
        claims.refute(Regret, format!("the regret leaves out the scenarios in which {missing} are off"));
    }
    figures(claimed, &mut claims);
    Ok(claims.finish())
}

/// The seconds of each kind of operators, each on the kind of devices where it is fastest; `""` stands for operators without
/// a kind. O(operators · kinds).
fn seconds_by_kind<'a>(problem: &Problem<'a>) -> BTreeMap<&'a str, f64> {
    let mut seconds = BTreeMap::new();
    let operators: &'a [_] = problem.graph.operators;
    for (at, operator) in operators.iter().enumerate() {
        let allowed = problem.pins.of(at);
        let kinds = problem.cluster.kinds.iter().enumerate().filter(|(kind, of)| {
            of.document.count > 0 && allowed.is_none_or(|allowed| allowed.meets_kind(*kind))
        });
        let fastest = kinds.filter_map(|(_, kind)| problem.seconds(at, kind)).reduce(f64::min);
        *seconds.entry(operator.kind.as_deref().unwrap_or("")).or_default() += fastest.unwrap_or(0.0);
    }
    seconds
}

/// What is off in the scenarios that the claim leaves out, for display. O((scenarios + classes + sources) log).
fn missing(problem: &Problem, claimed: &RegretDocument, seconds: &BTreeMap<&str, f64>) -> Vec<String> {
    // Without a deviation all scenarios are the first.
    if 1.0 + claimed.deviation == 1.0 {
        return Vec::new();
    }
    let listed = |is_slower: bool| -> BTreeSet<(u8, &str)> {
        let cases = claimed.cases.iter().filter(|case| (case.factor > 1.0) == is_slower);
        cases.map(|case| key(&case.off)).collect()
    };
    let (slower, faster) = (listed(true), listed(false));
    let is_listed = |key: (u8, &str)| slower.contains(&key) && faster.contains(&key);
    let mut missing = Vec::new();
    let with_devices = problem.cluster.kinds.iter().filter(|kind| kind.document.count > 0);
    let classes: BTreeSet<&str> = with_devices.map(|kind| kind.document.class.as_str()).collect();
    for &class in classes.iter().filter(|&&class| !is_listed((CLASS, class))) {
        missing.push(format!("operators on {class:?}"));
    }
    if !is_listed((LINKS, "")) {
        missing.push("the links".into());
    }
    let mut longest: Vec<(&str, f64)> = seconds.iter().map(|(&kind, &seconds)| (kind, seconds)).collect();
    longest.retain(|&(_, seconds)| seconds > 0.0);
    longest.sort_by(|one, other| other.1.total_cmp(&one.1));
    if classes.len() == 1 && longest.len() == 1 {
        return missing;
    }
    // Of kinds that tie for the last place, any may be left out.
    let count = longest.len().min(KINDS);
    let Some(&(_, least)) = longest[..count].last() else { return missing };
    let as_long = longest.iter().filter(|&&(_, seconds)| at_most(least, seconds)).count();
    let mut may_miss = as_long - count;
    for &(kind, seconds) in longest[..as_long].iter().filter(|&&(kind, _)| !is_listed((KIND, kind))) {
        if may_miss > 0 && at_most(seconds, least) {
            may_miss -= 1;
        } else {
            missing.push(format!("operators of kind {kind:?}"));
        }
    }
    missing
}

const CLASS: u8 = 0;
const KIND: u8 = 1;
const LINKS: u8 = 2;
const NOTHING: u8 = 3;

/// What is off, in an order.
fn key(off: &OffDocument) -> (u8, &str) {
    match off {
        OffDocument::Class { class } => (CLASS, class),
        OffDocument::Kind { kind } => (KIND, kind),
        OffDocument::Links => (LINKS, ""),
        OffDocument::Nothing => (NOTHING, ""),
    }
}

/// Compares the regret with the values of the scenarios.
fn figures(claimed: &RegretDocument, claims: &mut Claims) {
    let over = |value: f64, best: f64| if value > best { value / best - 1.0 } else { 0.0 };
    let regret = claimed.cases.iter().map(|case| over(case.value_s, case.best_s)).fold(0.0, f64::max);
    let most = claimed.cases.iter().map(|case| over(case.value_s, case.bound_s)).fold(0.0, f64::max);
    let agree = |one: f64, other: f64| (one - other).abs() <= REGRET_ABSOLUTE;
    if !agree(claimed.regret, regret) {
        let message =
            format!("the plan claims a regret of {:?}, but its scenarios give {regret:?}", claimed.regret);
        claims.refute(Regret, message);
    }
    let is_right = match claimed.at_most {
        Some(claimed) => agree(claimed, most),
        None => most.is_infinite(),
    };
    if !is_right {
        let claimed = claimed.at_most;
        let message =
            format!("the plan claims a regret of at most {claimed:?}, but its scenarios give {most:?}");
        claims.refute(Regret, message);
    }
    let is_below = !claims.is_feasible() || claimed.bound <= claimed.regret + REGRET_ABSOLUTE;
    let is_bound = claimed.bound >= 0.0 && is_below;
    if !is_bound {
        let RegretDocument { bound, regret, .. } = claimed;
        let message =
            format!("the bound on the regret is {bound:?}, but the plan has a regret of {regret:?}");
        claims.refute(RegretBound, message);
    }
    let nominal = claimed.cases.first().map(|case| case.best_s);
    if let Some(best) = nominal.filter(|&best| !tolerance::same(claimed.nominal_best_s, best)) {
        let of = claimed.nominal_best_s;
        let message =
            format!("the nominally best plan has a value of {of:?} s, and the best one known {best:?} s");
        claims.refute(NominalRegret, message);
    }
    let is_least = claimed.regret <= claimed.nominal_best_regret + REGRET_ABSOLUTE;
    if !is_least {
        let (own, other) = (claimed.regret, claimed.nominal_best_regret);
        let message = format!("the regret of {own:?} exceeds that of the nominally best plan, {other:?}");
        claims.refute(NominalRegret, message);
    }
}
