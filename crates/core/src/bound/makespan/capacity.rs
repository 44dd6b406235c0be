//! Joint capacity of all devices between heads and tails.

use super::Reach;
use crate::bound::fluid::{Column, divided_quickly};
use crate::graph::OpId;
use crate::stop::Stop;

/// The operators of a [`Reach`] by colocation class. Sites of equal seconds form one column, with one price.
pub(super) struct Capacity<'a> {
    reach: &'a Reach<'a>,
    columns: &'a Columns,
    /// The operators; those of one colocation class are adjacent.
    by_class: Vec<OpId>,
}

/// The groups of sites with equal seconds.
pub(super) struct Columns {
    /// Column of each site.
    column_of: Vec<usize>,
    /// Number of devices of each column.
    devices: Vec<f64>,
}

impl Columns {
    pub(super) fn new(reach: &Reach<'_>) -> Columns {
        let sites = &reach.sites;
        let (mut column_of, mut firsts, mut devices) = (Vec::new(), Vec::new(), Vec::new());
        for site in 0..sites.count() {
            let same = |&first: &usize| {
                reach.operators.iter().all(|&op| sites.seconds(op)[site] == sites.seconds(op)[first])
            };
            let column = firsts.iter().position(same).unwrap_or_else(|| {
                firsts.push(site);
                devices.push(0.0);
                firsts.len() - 1
            });
            devices[column] += sites.devices(site) as f64;
            column_of.push(column);
        }
        Columns { column_of, devices }
    }
}

impl<'a> Capacity<'a> {
    pub(super) fn new(reach: &'a Reach<'a>, columns: &'a Columns) -> Capacity<'a> {
        let mut by_class = reach.operators.clone();
        by_class.sort_unstable_by_key(|&op| (reach.problem.graph().class_of(op), op));
        Capacity { reach, columns, by_class }
    }

    /// Whether all devices are identical, so that prices are unnecessary.
    pub(super) fn has_one_price(&self) -> bool {
        self.columns.devices.len() == 1
    }

    /// The set of operators whose heads and tails reach the thresholds contains a part of every colocation class.
    /// Returns the seconds of each part by site; empty parts are omitted.
    fn parts(&self, thresholds: [f64; 2]) -> Vec<f64> {
        let (graph, sites) = (self.reach.problem.graph(), &self.reach.sites);
        let mut parts = Vec::new();
        for class in self.by_class.chunk_by(|&a, &b| graph.class_of(a) == graph.class_of(b)) {
            let mut members = class.iter().filter(|&&op| self.holds(op, thresholds)).peekable();
            if members.peek().is_none() {
                continue;
            }
            let first = parts.len();
            parts.resize(first + sites.count(), 0.0);
            for &op in members {
                for (sum, seconds) in parts[first..].iter_mut().zip(sites.seconds(op)) {
                    *sum += seconds;
                }
            }
        }
        parts
    }

    fn holds(&self, op: OpId, thresholds: [f64; 2]) -> bool {
        let sides = [&self.reach.heads, &self.reach.tails];
        (0..2).all(|side| sides[side].far(&self.reach.sites, op).iter().all(|&end| end >= thresholds[side]))
    }

    /// Prices of the fluid bound for the set of operators that reach the thresholds, by site: the price of a second on
    /// one device, where a second on all devices together costs 1. `None` for an empty set.
    pub(super) fn prices(&self, thresholds: [f64; 2], stop: &Stop) -> Option<Vec<f64>> {
        let parts = self.parts(thresholds);
        let sites = self.reach.sites.count();
        let columns: Vec<Column> = (0..self.columns.devices.len())
            .map(|column| {
                let site = self.columns.column_of.iter().position(|&own| own == column).unwrap_or(0);
                let seconds =
                    parts.chunks_exact(sites).map(|row| Some(row[site]).filter(|it| it.is_finite()));
                Column { devices: self.columns.devices[column], seconds: seconds.collect() }
            })
            .collect();
        let (_, shares) = divided_quickly(&columns, stop)?;
        Some(
            self.columns
                .column_of
                .iter()
                .map(|&column| shares[column] / self.columns.devices[column])
                .collect(),
        )
    }

    /// Minimum priced seconds of every operator, in the order of the operators of `reach`.
    pub(super) fn least(&self, prices: &[f64]) -> Vec<f64> {
        let row = |&op: &OpId| least(self.reach.sites.seconds(op), prices);
        self.reach.operators.iter().map(row).collect()
    }

    /// The bound for the set of operators that reach the thresholds, at given prices, before rounding.
    pub(super) fn value(&self, thresholds: [f64; 2], prices: &[f64]) -> f64 {
        let sites = &self.reach.sites;
        let work: f64 =
            self.parts(thresholds).chunks_exact(sites.count()).map(|row| least(row, prices)).sum();
        if work <= 0.0 {
            return 0.0;
        }
        // One slot per device: its head plus its tail, which is the value of T up to which it has no time for the set,
        // and its price.
        let mut slots: Vec<(f64, f64)> = Vec::new();
        for site in (0..sites.count()).filter(|&site| prices[site] > 0.0) {
            let [heads, tails] = [0, 1].map(|side| self.smallest(thresholds, side, site));
            slots.extend(heads.iter().zip(&tails).map(|(head, tail)| (head + tail, prices[site])));
        }
        slots.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
        // The sum over slots is convex and piecewise linear in T: find the piece where it equals the work.
        let (mut price, mut offset) = (0.0, 0.0);
        for (index, slot) in slots.iter().enumerate() {
            price += slot.1;
            offset += slot.1 * slot.0;
            let value = (work + offset) / price;
            if slots.get(index + 1).is_none_or(|next| value <= next.0) {
                return value;
            }
        }
        0.0
    }

    /// The smallest heads (side 0) or tails (side 1) of a set at a site, at most one per device, ascending.
    fn smallest(&self, thresholds: [f64; 2], side: usize, site: usize) -> Vec<f64> {
        let (sites, ends) = (&self.reach.sites, [&self.reach.heads, &self.reach.tails][side]);
        let own = || self.by_class.iter().copied().filter(|&op| self.holds(op, thresholds));
        let far = |op| ends.far(sites, op)[site];
        let mut smallest: Vec<f64> = Vec::new();
        // Without a threshold on heads, the set contains everything that its operators read, since tails only grow
        // towards the inputs; without a threshold on tails, it contains all readers.
        if thresholds[side] <= 0.0 {
            smallest.extend(own().map(|op| ends.alone(sites, op)[site].max(far(op))));
        } else {
            smallest.extend(own().map(far));
        }
        let count = usize::try_from(sites.devices(site)).unwrap_or(usize::MAX).min(smallest.len());
        if count < smallest.len() {
            smallest.select_nth_unstable_by(count, f64::total_cmp);
            smallest.truncate(count);
        }
        smallest.sort_unstable_by(f64::total_cmp);
        // One device may have run the operator that precedes the part.
        if self.reach.is_between(side) && count > 0 {
            smallest.pop();
            smallest.insert(0, own().map(far).fold(f64::INFINITY, f64::min));
        }
        smallest.retain(|end| end.is_finite());
        smallest
    }
}

/// Minimum of the priced seconds over the sites, or kinds, where the seconds are finite.
pub(super) fn least(seconds: &[f64], prices: &[f64]) -> f64 {
    let priced = seconds.iter().zip(prices).filter(|(seconds, _)| seconds.is_finite());
    priced.map(|(seconds, price)| seconds * price).fold(f64::INFINITY, f64::min)
}
