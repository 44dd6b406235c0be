//! Simple plans, which refute claims that there is none.

use stagewright_core::document::{ServingGoal, ServingRole};

use super::report::Findings;
use super::space::{Column, Size, Space};
use super::totals::{Part, totals};
use crate::fleet::Problem;

/// Whether a simple plan exists: for every class, equal aggregated replicas, or equal prefill and equal decode replicas, by the fewest
/// devices, or by the fewest requests in flight. There may be a plan that this does not find.
///
/// Takes time proportional to the product of columns and sizes that prefill.
pub(super) fn exists(problem: &Problem, space: &Space) -> bool {
    let devices = |parts: &[Part]| -> f64 {
        let own =
            |part: &Part| -> f64 { part.groups.iter().map(|group| group.1 as f64 * group.2 as f64).sum() };
        parts.iter().map(|part| part.count as f64 * own(part)).sum()
    };
    let flying = |parts: &[Part]| parts.iter().map(|part| part.count as f64 * part.in_flight).sum();
    let by = |measure: &dyn Fn(&[Part]) -> f64| {
        let mut parts = Vec::new();
        for class in 0..problem.classes.len() {
            let least = options(problem, space, class)
                .into_iter()
                .min_by(|left, right| measure(left).total_cmp(&measure(right)));
            let Some(least) = least else { return false };
            parts.extend(least);
        }
        let mut findings = Findings::default();
        totals(problem, &parts, &mut findings);
        !findings.is_broken
    };
    by(&devices) || by(&flying)
}

/// Equal replicas that serve a class.
fn options(problem: &Problem, space: &Space, class: usize) -> Vec<Vec<Part>> {
    let question = &problem.question;
    let is_throughput = question.goal == ServingGoal::Throughput;
    let own = |role: ServingRole| {
        let sizes = space.sizes.iter().filter(move |size| size.role == role && size.class == class);
        sizes.flat_map(|size| size.columns.iter().map(move |column| (size, column)))
    };
    let rate = question.rate.filter(|_| !is_throughput).map(|rate| rate * question.classes[class].share);
    let load = question.concurrency.filter(|_| !is_throughput);
    let count = |size: &Size, column: &Column| {
        let rates = rate.map_or(0.0, |rate| rate / column.rate);
        let count = load.map_or(rates, |load| load / column.in_flight);
        // Rounding must not leave a load without its last replica.
        Some(count.max(1.0).ceil() as u64).filter(|count| *count <= size.most)
    };
    let part = |size: &Size, column: &Column, count: u64| Part {
        role: size.role,
        class,
        count,
        groups: size.groups.clone(),
        rate: column.rate,
        in_flight: column.in_flight,
        tokens: column.tokens,
    };
    let mut options: Vec<Vec<Part>> = own(ServingRole::Aggregated)
        .filter_map(|(size, column)| Some(vec![part(size, column, count(size, column)?)]))
        .collect();
    for (size, column) in own(ServingRole::Decode) {
        let Some(number) = count(size, column) else { continue };
        let fed = match (rate, load) {
            (Some(rate), _) => rate,
            (_, Some(_)) => number as f64 * column.rate,
            _ => 0.0,
        };
        for (other, feeder) in own(ServingRole::Prefill) {
            let feeders = (fed / feeder.rate).max(1.0).ceil() as u64;
            if feeders <= other.most {
                options.push(vec![part(size, column, number), part(other, feeder, feeders)]);
            }
        }
    }
    options
}
