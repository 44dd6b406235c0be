//! What replicas do together, and the rows of the program that they break (`docs/serving.md`, section "The program").

use stagewright_core::document::{ServingGoal, ServingRole};
use stagewright_core::tolerance;

use super::moves;
use super::report::Findings;
use super::servers::crowded;
use super::shapes::Groups;
use crate::fleet::Problem;

/// Equal replicas.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Part {
    pub(super) role: ServingRole,
    pub(super) class: usize,
    pub(super) count: u64,
    pub(super) groups: Groups,
    /// Requests a second, requests in flight, and tokens in caches of one replica.
    pub(super) rate: f64,
    pub(super) in_flight: f64,
    pub(super) tokens: u64,
    /// Bytes of weights that these replicas load together.
    pub(super) moved: f64,
}

/// Sums over all replicas.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Totals {
    /// Requests a second, R.
    pub(super) rate: f64,
    /// Generated tokens a second.
    pub(super) tokens_per_s: f64,
    /// Devices.
    pub(super) devices: u64,
    /// Bytes of weights that are loaded.
    pub(super) moved: f64,
    /// Price of the weights that are loaded, in the unit of the goal.
    pub(super) move_price: f64,
    /// Value of the goal, with the price of moved weights.
    pub(super) value: f64,
}

/// Whether a sum exceeds its limit by more than rounding; true for a sum that is no number.
pub(super) fn exceeds(sum: f64, limit: f64) -> bool {
    let slack = tolerance::VALUE_RELATIVE * sum.abs().max(limit.abs());
    !matches!(sum.partial_cmp(&(limit + slack)), Some(std::cmp::Ordering::Less | std::cmp::Ordering::Equal))
}

/// Sum of a figure over all replicas of a role and class.
fn sum(parts: &[Part], role: ServingRole, class: usize, figure: impl Fn(&Part) -> f64) -> f64 {
    let own = parts.iter().filter(|part| part.role == role && part.class == class);
    own.map(|part| part.count as f64 * figure(part)).sum()
}

/// Sums over replicas. Finds every row of the program that they break.
pub(super) fn totals(problem: &Problem, parts: &[Part], findings: &mut Findings) -> Totals {
    let taken = devices(problem, parts, findings);
    let (question, all) = (&problem.question, "replicas");
    let mut rate = f64::INFINITY;
    for (class, document) in question.classes.iter().enumerate() {
        let own = |role| sum(parts, role, class, |part| part.rate);
        let (prefill, decode) = (own(ServingRole::Prefill), own(ServingRole::Decode));
        let served = own(ServingRole::Aggregated) + prefill.min(decode);
        rate = rate.min(served / document.share);
        let is_loaded = question.goal != ServingGoal::Throughput && question.concurrency.is_some();
        if is_loaded && exceeds(decode, prefill) {
            let message =
                format!("prefill serves {prefill} requests a second, and decoding has room for {decode}");
            findings.broken("load", all, message);
        }
    }
    let flying = |roles: &[ServingRole]| -> f64 {
        let own = parts.iter().filter(|part| roles.contains(&part.role));
        own.map(|part| part.count as f64 * part.in_flight).sum()
    };
    let decoding = [ServingRole::Aggregated, ServingRole::Decode];
    match (question.goal, question.concurrency, question.rate) {
        (ServingGoal::Throughput, Some(limit), _) => {
            let sum = flying(&[ServingRole::Aggregated, ServingRole::Decode, ServingRole::Prefill]);
            if exceeds(sum, limit) {
                let message = format!("{sum} requests are in flight, more than {limit}");
                findings.broken("concurrency", all, message);
            }
        }
        (ServingGoal::Throughput, None, Some(limit)) => rate = rate.min(limit),
        (_, Some(load), _) if exceeds(load, flying(&decoding)) => {
            let message = format!("{} requests are in flight, fewer than {load}", flying(&decoding));
            findings.broken("load", all, message);
        }
        (_, _, Some(load)) if exceeds(load, rate) => {
            let message = format!("{rate} requests a second are served, fewer than {load}");
            findings.broken("load", all, message);
        }
        _ => {}
    }
    if question.goal == ServingGoal::Throughput && !(rate > 0.0 && rate.is_finite()) {
        findings.broken("load", all, format!("{rate} requests a second are served"));
    }
    let generated = question.classes.iter().map(|class| class.share * class.output as f64);
    let tokens = parts.iter().filter(|part| part.role != ServingRole::Prefill);
    let goal = match question.goal {
        ServingGoal::Throughput => rate,
        ServingGoal::Devices => taken.iter().map(|devices| *devices as f64).sum(),
        ServingGoal::Price => {
            taken.iter().enumerate().map(|(kind, devices)| *devices as f64 * price(problem, kind)).sum()
        }
        ServingGoal::Cache => tokens.map(|part| part.count as f64 * part.tokens as f64).sum(),
    };
    let moved: f64 = parts.iter().map(|part| part.moved).sum();
    let move_price = moves::byte_price(problem) * moved;
    let value = if question.goal.is_maximised() { goal - move_price } else { goal + move_price };
    if question.start.is_some() && !moves::is_worth_it(question, value) {
        let message = format!("the plan is worth {value}, which is no more than without replicas");
        findings.broken("load", all, message);
    }
    Totals {
        rate,
        tokens_per_s: rate * generated.sum::<f64>(),
        devices: taken.iter().fold(0, |sum, devices| sum.saturating_add(*devices)),
        moved,
        move_price,
        value,
    }
}

/// Price of a device of a kind for an hour; 0 if the question has none.
pub(super) fn price(problem: &Problem, kind: usize) -> f64 {
    let own = problem.fleet.kinds.get(kind).and_then(|kind| problem.question.prices.get(&kind.name));
    own.copied().unwrap_or(0.0)
}

/// Devices that replicas take, by kinds. Finds kinds with too few, and those whose groups find no servers.
fn devices(problem: &Problem, parts: &[Part], findings: &mut Findings) -> Vec<u64> {
    let kinds = &problem.fleet.kinds;
    let mut taken = vec![0_u64; kinds.len()];
    let mut groups = Vec::new();
    for part in parts {
        for &(kind, devices, number) in &part.groups {
            let number = number.saturating_mul(part.count);
            if let Some(taken) = taken.get_mut(kind as usize) {
                *taken = taken.saturating_add(devices.saturating_mul(number));
            }
            groups.push((kind, devices, number));
        }
    }
    let crowded = crowded(&problem.fleet, &groups);
    for (index, (kind, &taken)) in kinds.iter().zip(&taken).enumerate() {
        if taken > kind.count {
            let message = format!("they take {taken} of {} devices of kind `{}`", kind.count, kind.name);
            findings.broken("devices", "replicas", message);
        } else if crowded.contains(&index) {
            let message = format!(
                "groups of kind `{}` find no place on servers of {} devices",
                kind.name, kind.device.server
            );
            findings.broken("servers", "replicas", message);
        }
    }
    taken
}
