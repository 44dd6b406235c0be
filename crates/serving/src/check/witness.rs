//! Simple plans, which refute claims that there is none.

use stagewright_core::document::{ServingGoal, ServingRole};

use super::report::Findings;
use super::space::{Column, Size, Space};
use super::totals::{Part, totals};
use crate::fleet::Problem;

/// Whether a simple plan exists: for every class, equal aggregated replicas, or equal prefill and equal decode replicas, by the fewest
/// devices, or by the fewest requests in flight. There may be a plan that this does not find.
///
/// Takes time proportional to the square of sizes, and to columns.
pub(super) fn exists(problem: &Problem, space: &Space) -> bool {
    let measures: [fn(&[Part]) -> f64; 2] = [devices, in_flight];
    measures.into_iter().any(|measure| {
        let classes = 0..problem.classes.len();
        let parts: Option<Vec<_>> = classes.map(|class| cheapest(problem, space, class, measure)).collect();
        parts.is_some_and(|parts| {
            let mut findings = Findings::default();
            totals(problem, &parts.concat(), &mut findings);
            !findings.is_broken
        })
    })
}

fn devices(parts: &[Part]) -> f64 {
    let own = |part: &Part| part.groups.iter().map(|group| group.1 as f64 * group.2 as f64).sum::<f64>();
    parts.iter().map(|part| part.count as f64 * own(part)).sum()
}

fn in_flight(parts: &[Part]) -> f64 {
    parts.iter().map(|part| part.count as f64 * part.in_flight).sum()
}

/// The replicas of the least measure that serve a class alone; `None` if none are found.
fn cheapest(
    problem: &Problem,
    space: &Space,
    class: usize,
    measure: fn(&[Part]) -> f64,
) -> Option<Vec<Part>> {
    let question = &problem.question;
    let is_loaded = question.goal != ServingGoal::Throughput;
    let rate = question.rate.filter(|_| is_loaded).map(|rate| rate * question.classes[class].share);
    let load = question.concurrency.filter(|_| is_loaded);
    let enough = |part: &Part| {
        let rates = rate.map_or(0.0, |rate| rate / part.rate);
        load.map_or(rates, |load| load / part.in_flight)
    };
    let own = |role: ServingRole| {
        let sizes = space.sizes.iter().filter(move |size| size.role == role && size.class == class);
        sizes.flat_map(extremes)
    };
    let mut best: Option<(f64, Vec<Part>)> = None;
    let mut consider = |parts: &[Part]| {
        let found = measure(parts);
        if best.as_ref().is_none_or(|(least, _)| found < *least) {
            best = Some((found, parts.to_vec()));
        }
    };
    for (part, most) in own(ServingRole::Aggregated) {
        let count = enough(&part);
        if let Some(part) = copies(part, count, most) {
            consider(&[part]);
        }
    }
    let feeders: Vec<(Part, u64)> = own(ServingRole::Prefill).collect();
    for (part, most) in own(ServingRole::Decode) {
        let count = enough(&part);
        let Some(part) = copies(part, count, most) else { continue };
        // With a concurrency, decode replicas have to be full.
        let fed = rate.or(load.map(|_| part.count as f64 * part.rate)).unwrap_or(0.0);
        for (feeder, most) in &feeders {
            if let Some(feeder) = copies(feeder.clone(), fed / feeder.rate, *most) {
                consider(&[part.clone(), feeder]);
            }
        }
    }
    best.map(|(_, parts)| parts)
}

/// The replica of a size with the largest rate, and that with the fewest requests in flight, with the largest number of them.
fn extremes(size: &Size) -> impl Iterator<Item = (Part, u64)> {
    let fastest = size.columns.iter().max_by(|left, right| left.rate.total_cmp(&right.rate));
    let emptiest = size.columns.iter().min_by(|left, right| left.in_flight.total_cmp(&right.in_flight));
    let part = |column: &Column| Part {
        role: size.role,
        class: size.class,
        count: 1,
        groups: size.groups.clone(),
        rate: column.rate,
        in_flight: column.in_flight,
        tokens: column.tokens,
        moved: column.moved,
    };
    fastest.into_iter().chain(emptiest).map(move |column| (part(column), size.most))
}

/// Copies of a replica for a load, at least one; `None` if it needs more than `most`.
fn copies(part: Part, needed: f64, most: u64) -> Option<Part> {
    // Conversions of numbers beyond all integers saturate.
    let count = needed.ceil().max(1.0) as u64;
    (count <= most).then_some(Part { count, moved: part.moved * count as f64, ..part })
}
