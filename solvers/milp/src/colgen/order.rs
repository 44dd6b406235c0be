//! Linear orders of the units with few nets open at any position.
//!
//! A net is open at a cut of the order if the cut lies between its first and its last pin. A dynamic program along the
//! order keeps a status for every open net, so its number of states grows exponentially with the number of open nets.
//! Orders are therefore compared by Σ over positions of `STATUSES`^open. This is the cutwidth of a hypergraph, up to
//! the exponent; finding the best order is NP-hard even for graphs (Gavril, "Some NP-complete problems on graphs",
//! 1977), but neural networks are long and thin, and good orders for them are easy to find.
//!
//! Candidates are the order of the model file, greedy orders from several starts that always take the unit that leaves
//! the fewest nets open, and the best of these orders after a local search that moves single units and blocks.

use stagewright_core::contraction::UnitId;
use stagewright_core::ids::{Id, Keyed, places};
use stagewright_core::solver::Stop;

use super::cuts::{CutId, Cuts};

/// Approximate number of statuses of an open net.
const STATUSES: f64 = 2.2;
/// Maximum number of units of a greedy order, which takes quadratic time if many nets are open.
pub const MAX_UNITS: usize = 20_000;
/// Maximum number of pins of a net in which every pin, not only the first, moves the others to the front of the queue.
const HUB: usize = 64;
/// Number of starts of the greedy order.
const STARTS: usize = 8;
/// Work limit of the local search, in evaluations of a unit at another position: about a tenth of a second.
const WORK: usize = 20_000_000;
/// Maximum distance of a move.
const REACH: usize = 24;

/// An order of `units` units in which few nets are open, or the best one so far if time runs out. With more than
/// [`MAX_UNITS`] units, the order of the file is kept.
pub fn narrow(units: usize, cuts: &Cuts, stop: &Stop) -> Vec<UnitId> {
    let incidence = incidence(units, cuts);
    let mut best: Vec<UnitId> = UnitId::first(units).collect();
    let mut least = width(&best, cuts);
    if units > MAX_UNITS {
        return best;
    }
    for start in starts(units) {
        let Some(order) = greedy(units, cuts, &incidence, start, stop) else { return best };
        let found = width(&order, cuts);
        if found < least {
            (best, least) = (order, found);
        }
    }
    improve(best, least, cuts, stop)
}

/// Σ over positions of `STATUSES`^open nets.
pub fn width(order: &[UnitId], cuts: &Cuts) -> f64 {
    let place: Keyed<_, usize> = places(order);
    let mut change = vec![0i32; order.len() + 1];
    for net in cuts.ids() {
        let places = cuts.pins(net).iter().map(|&unit| place[unit]);
        let (first, last) =
            places.fold((usize::MAX, 0), |(low, high), place| (low.min(place), high.max(place)));
        change[first] += 1;
        change[last] -= 1;
    }
    let mut open = 0;
    let mut total = 0.0;
    for change in change {
        open += change;
        total += STATUSES.powi(open);
    }
    total
}

fn incidence(units: usize, cuts: &Cuts) -> Keyed<UnitId, Vec<CutId>> {
    let mut nets = Keyed::filled(Vec::new(), units);
    for net in cuts.ids() {
        for &unit in cuts.pins(net) {
            nets[unit].push(net);
        }
    }
    nets
}

/// Units spread evenly over the file, including the first and the last.
fn starts(units: usize) -> Vec<UnitId> {
    let mut starts: Vec<UnitId> =
        (0..STARTS).map(|start| UnitId::new(start * units.saturating_sub(1) / (STARTS - 1).max(1))).collect();
    starts.dedup();
    if units == 0 { Vec::new() } else { starts }
}

/// Greedy order: always takes the unit that increases the number of open nets least; ties go to the unit whose nets
/// were touched last, then to the lowest index. If no unit touches an open net, the next one of the file follows.
/// `None` if time runs out.
fn greedy(
    units: usize,
    cuts: &Cuts,
    incidence: &Keyed<UnitId, Vec<CutId>>,
    start: UnitId,
    stop: &Stop,
) -> Option<Vec<UnitId>> {
    let mut left: Keyed<CutId, usize> = cuts.ids().map(|net| cuts.pins(net).len()).collect();
    let mut taken = Keyed::filled(false, units);
    let mut touched: Vec<UnitId> = Vec::new();
    let mut age = Keyed::filled(0, units);
    let mut order = Vec::with_capacity(units);
    let mut next = Some(start);
    let mut fresh = UnitId::first(units);
    while let Some(unit) = next {
        if stop.reason().is_some() {
            return None;
        }
        taken[unit] = true;
        order.push(unit);
        for &net in &incidence[unit] {
            let pins = cuts.pins(net).len();
            let opens = left[net] == pins;
            left[net] -= 1;
            if pins > HUB && !opens {
                continue;
            }
            for &other in cuts.pins(net) {
                if !taken[other] {
                    if age[other] == 0 {
                        touched.push(other);
                    }
                    age[other] = order.len();
                }
            }
        }
        touched.retain(|&unit| !taken[unit]);
        let change = |unit| -> i32 {
            let nets = incidence[unit].iter();
            nets.map(|&net| i32::from(left[net] == cuts.pins(net).len()) - i32::from(left[net] == 1)).sum()
        };
        next = touched
            .iter()
            .copied()
            .min_by_key(|&unit| (change(unit), std::cmp::Reverse(age[unit]), unit))
            .or_else(|| fresh.find(|&unit| !taken[unit]));
    }
    Some(order)
}

/// Local search: moves blocks of one, two and four units to positions that leave fewer nets open, until no move
/// helps or the work limit is reached.
fn improve(mut order: Vec<UnitId>, mut least: f64, cuts: &Cuts, stop: &Stop) -> Vec<UnitId> {
    let pins: usize = cuts.ids().map(|net| cuts.pins(net).len()).sum();
    let mut rounds = WORK / (order.len() + pins).max(1);
    let mut better = true;
    while better {
        better = false;
        for block in [1, 2, 4] {
            for from in 0..(order.len() + 1).saturating_sub(block) {
                if stop.reason().is_some() {
                    return order;
                }
                let low = from.saturating_sub(REACH);
                let high = (from + REACH).min(order.len() - block);
                let mut best: Option<(f64, usize)> = None;
                for to in (low..=high).filter(|&to| to != from) {
                    if rounds == 0 {
                        return order;
                    }
                    rounds -= 1;
                    let found = width(&moved(&order, from, block, to), cuts);
                    if found < best.map_or(least, |(found, _)| found) {
                        best = Some((found, to));
                    }
                }
                if let Some((found, to)) = best {
                    order = moved(&order, from, block, to);
                    least = found;
                    better = true;
                }
            }
        }
    }
    order
}

/// The order with `block` units from `from` moved so that they begin at `to`.
fn moved(order: &[UnitId], from: usize, block: usize, to: usize) -> Vec<UnitId> {
    let mut moved = order.to_vec();
    if to > from {
        moved[from..to + block].rotate_left(block);
    } else {
        moved[to..from + block].rotate_right(block);
    }
    moved
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_moves_both_ways() {
        let order = [0, 1, 2, 3, 4, 5].map(UnitId);
        assert_eq!(moved(&order, 1, 2, 3), [0, 3, 4, 1, 2, 5].map(UnitId));
        assert_eq!(moved(&order, 3, 2, 0), [3, 4, 0, 1, 2, 5].map(UnitId));
    }
}
