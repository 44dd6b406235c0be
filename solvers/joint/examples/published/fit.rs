//! Constants by coordinate search, and prices by constants that are fitted without a source.

use std::collections::BTreeSet;

use super::case::{Case, Price};
use super::constants::Constants;
use super::slots::{self, Slot, Target};
use super::{loss, price_all};

/// Rounds of the search, each over all constants.
const ROUNDS: usize = 14;

/// Steps of the search: of the first round, the largest, and the smallest that is tried.
const STEPS: (f64, f64, f64) = (0.3, 0.7, 0.01);

/// Loss of a constant a unit from its start, a weak pull where no row says anything.
const PULL: f64 = 0.004;

/// Improvement of the loss that counts.
const LEAST: f64 = 1e-7;

/// The constants that fit cases best: first those of memory, then those of seconds.
pub(crate) fn fit(cases: &[&Case], slots: &[Slot], start: &Constants) -> Constants {
    let is_there = |slot: &&Slot| cases.iter().any(|case| slot.is_of(case.runtime));
    let of_target =
        |target| slots.iter().filter(is_there).filter(move |slot| slot.target == target).collect::<Vec<_>>();
    let of_memory = search(&of_target(Target::Memory), start, |constants| {
        loss::memory(cases, &price_all(cases, constants))
    });
    let timed: Vec<&Case> = cases.iter().copied().filter(|case| case.run.timed().is_some()).collect();
    search(&of_target(Target::Seconds), &of_memory, |constants| {
        loss::seconds(&timed, &price_all(&timed, constants))
    })
}

/// Changes one constant at a time, by steps that grow with success and shrink without.
fn search(slots: &[&Slot], start: &Constants, loss: impl Fn(&Constants) -> f64) -> Constants {
    let (first, largest, smallest) = STEPS;
    let mut steps = vec![first; slots.len()];
    let pull = |constants: &Constants| -> f64 {
        let of_slot = |slot: &&Slot| {
            let (value, origin) = (slot.get(constants), slot.get(start));
            if slot.is_share { (value - origin).abs() } else { 0.3 * (value / origin).ln().abs() }
        };
        PULL * slots.iter().map(of_slot).sum::<f64>()
    };
    let cost = |constants: &Constants| loss(constants) + pull(constants);
    let (mut best, mut least) = (start.clone(), cost(start));
    for _ in 0..ROUNDS {
        for (slot, step) in slots.iter().zip(&mut steps) {
            let value = slot.get(&best);
            let tries = [1.0, -1.0]
                .map(|sign| if slot.is_share { value + sign * *step } else { value * (sign * *step).exp() });
            let found = tries.into_iter().find_map(|value| {
                let tried = slot.with(&best, value);
                let cost = cost(&tried);
                (cost < least - LEAST).then_some((tried, cost))
            });
            match found {
                Some(found) => {
                    (best, least) = found;
                    *step = (*step * 1.3).min(largest);
                }
                None => *step /= 2.0,
            }
        }
        if steps.iter().all(|&step| step < smallest) {
            break;
        }
    }
    best
}

/// Prices of every case by constants that are fitted without its source.
///
/// Constants of a runtime that no other source has are fitted to one half of the source for the other half, and back.
pub(crate) fn left_out_prices(cases: &[&Case], shipped: &Constants) -> Vec<Result<Price, String>> {
    slots::print(shipped, &fit(cases, &slots::all(), shipped));
    let sources: BTreeSet<&str> = cases.iter().map(|case| case.run.source.as_str()).collect();
    let mut prices = vec![Err("not judged".to_owned()); cases.len()];
    let mut judge = |judged: &[usize], constants: &Constants| {
        let judged_cases: Vec<&Case> = judged.iter().map(|&index| cases[index]).collect();
        for (&index, price) in judged.iter().zip(price_all(&judged_cases, constants)) {
            prices[index] = price;
        }
    };
    for source in sources {
        let (left_out, others): (Vec<usize>, Vec<usize>) =
            (0..cases.len()).partition(|&index| cases[index].run.source == source);
        let others: Vec<&Case> = others.into_iter().map(|index| cases[index]).collect();
        let is_known = |runtime: &str| others.iter().any(|case| case.runtime == runtime);
        let unknown: BTreeSet<&str> =
            left_out.iter().map(|&index| cases[index].runtime).filter(|runtime| !is_known(runtime)).collect();
        let is_own = |slot: &Slot| unknown.iter().any(|runtime| slot.is_only_of(runtime));
        let (own, common): (Vec<Slot>, Vec<Slot>) = slots::all().into_iter().partition(is_own);
        let fitted = fit(&others, &common, shipped);
        if own.is_empty() {
            judge(&left_out, &fitted);
            continue;
        }
        // Neighbours in a file are alike, so halves are drawn by a hash of the index.
        let (first, second): (Vec<usize>, Vec<usize>) =
            left_out.into_iter().partition(|index| (index * 7919 % 1009).is_multiple_of(2));
        for (known, judged) in [(&first, &second), (&second, &first)] {
            let known: Vec<&Case> = known.iter().map(|&index| cases[index]).collect();
            judge(judged, &fit(&known, &own, &fitted));
        }
    }
    prices
}
