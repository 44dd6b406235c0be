//! Linear orders of the units in which few nets are open at once.
//!
//! A net is open at a cut of the order that lies between its first and its last pin. A program that walks the order
//! keeps a status for every open net, so its states grow exponentially with the number of open nets: the orders are
//! judged by Σ over positions of `STATUSES`^open. This is the cutwidth of a hypergraph, up to the exponent;
//! the best order is NP-hard to find already for graphs (Gavril, "Some NP-complete problems on graphs", 1977), and
//! neural networks, being long and thin, have good ones that are easy to find.
//!
//! Candidates are the order of the model file, greedy orders that always take the unit which leaves the fewest nets
//! open, from several starts, and the best of these after a local search that moves single units and blocks.

use stagewright_core::solver::Stop;

use super::cuts::Cuts;

/// Statuses of an open net, about.
const STATUSES: f64 = 2.2;
/// Most units of a greedy order: its cost grows with their square where many nets are open.
pub const MOST_UNITS: usize = 20_000;
/// Pins of a net up to which each of its pins moves the others to the front of the queue.
const HUB: usize = 64;
/// Starts of the greedy order.
const STARTS: usize = 8;
/// Evaluations of a unit at another position that the local search may spend, about a tenth of a second.
const WORK: usize = 20_000_000;
/// How far a unit is moved.
const REACH: usize = 24;

/// An order of `units` units in which few nets are open; the best so far where the clock runs out. Above
/// [`MOST_UNITS`] units it is that of the file.
pub fn narrow(units: usize, cuts: &Cuts, stop: &Stop) -> Vec<u32> {
    let incidence = incidence(units, cuts);
    let mut best: Vec<u32> = (0..units as u32).collect();
    let mut least = width(&best, cuts);
    if units > MOST_UNITS {
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
pub fn width(order: &[u32], cuts: &Cuts) -> f64 {
    let mut place = vec![0usize; order.len()];
    for (at, &unit) in order.iter().enumerate() {
        place[unit as usize] = at;
    }
    let mut change = vec![0i32; order.len() + 1];
    for net in 0..cuts.len() {
        let places = cuts.pins(net).iter().map(|&unit| place[unit as usize]);
        let (first, last) = places.fold((usize::MAX, 0), |(low, high), at| (low.min(at), high.max(at)));
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

fn incidence(units: usize, cuts: &Cuts) -> Vec<Vec<u32>> {
    let mut nets = vec![Vec::new(); units];
    for net in 0..cuts.len() {
        for &unit in cuts.pins(net) {
            nets[unit as usize].push(net as u32);
        }
    }
    nets
}

/// Units spread over the file, the first and the last among them.
fn starts(units: usize) -> Vec<u32> {
    let mut starts: Vec<u32> =
        (0..STARTS).map(|at| (at * units.saturating_sub(1) / (STARTS - 1).max(1)) as u32).collect();
    starts.dedup();
    if units == 0 { Vec::new() } else { starts }
}

/// Always the unit that changes the number of open nets least, ties to the one whose nets were touched last, then by
/// index; where no unit touches an open net, the next one of the file. None where the clock runs out.
fn greedy(units: usize, cuts: &Cuts, incidence: &[Vec<u32>], start: u32, stop: &Stop) -> Option<Vec<u32>> {
    let mut left: Vec<usize> = (0..cuts.len()).map(|net| cuts.pins(net).len()).collect();
    let mut taken = vec![false; units];
    let mut touched: Vec<u32> = Vec::new();
    let mut age = vec![0usize; units];
    let mut order = Vec::with_capacity(units);
    let mut next = Some(start);
    let mut fresh = 0;
    while let Some(unit) = next {
        if stop.reason().is_some() {
            return None;
        }
        taken[unit as usize] = true;
        order.push(unit);
        for &net in &incidence[unit as usize] {
            let pins = cuts.pins(net as usize).len();
            let opens = left[net as usize] == pins;
            left[net as usize] -= 1;
            if pins > HUB && !opens {
                continue;
            }
            for &other in cuts.pins(net as usize) {
                if !taken[other as usize] {
                    if age[other as usize] == 0 {
                        touched.push(other);
                    }
                    age[other as usize] = order.len();
                }
            }
        }
        touched.retain(|&unit| !taken[unit as usize]);
        let change = |unit: u32| -> i32 {
            let nets = incidence[unit as usize].iter().map(|&net| net as usize);
            nets.map(|net| i32::from(left[net] == cuts.pins(net).len()) - i32::from(left[net] == 1)).sum()
        };
        next = touched
            .iter()
            .copied()
            .min_by_key(|&unit| (change(unit), std::cmp::Reverse(age[unit as usize]), unit))
            .or_else(|| {
                while fresh < units && taken[fresh] {
                    fresh += 1;
                }
                (fresh < units).then_some(fresh as u32)
            });
    }
    Some(order)
}

/// Moves blocks of one, two and four units to where they leave fewer nets open, until nothing helps or the work
/// is spent.
fn improve(mut order: Vec<u32>, mut least: f64, cuts: &Cuts, stop: &Stop) -> Vec<u32> {
    let pins: usize = (0..cuts.len()).map(|net| cuts.pins(net).len()).sum();
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
fn moved(order: &[u32], from: usize, block: usize, to: usize) -> Vec<u32> {
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
        let order = [0, 1, 2, 3, 4, 5];
        assert_eq!(moved(&order, 1, 2, 3), [0, 3, 4, 1, 2, 5]);
        assert_eq!(moved(&order, 3, 2, 0), [3, 4, 0, 1, 2, 5]);
    }
}
