//! Column generation at a threshold: the loop of master and pricing.
//!
//! The master proposes prices; pricing returns columns that beat these prices, and β. Then either the prices exclude
//! the threshold, or the columns cover everything, or the loop continues. The master's prices oscillate, so pricing
//! uses their mean with the best prices so far, which are those with the largest Σ π − Σ n β (smoothing). If the mean
//! yields no new column, the master's own prices are next, and if those yield no new column either, the pricing effort
//! increases.
//!
//! The prices of a partition may be negative. The proof still holds: each unit is held exactly once, so the prices of
//! the sets of a split add up to Σ π, and a device that holds nothing contributes 0 ≤ β.

use std::sync::Arc;

use rustc_hash::FxHashSet;
use stagewright_core::contraction::{UnitId, Units};
use stagewright_core::ids::Keyed;
use stagewright_core::problem::Problem;
use stagewright_core::solver::Stop;

use super::kind::{Kind, Limit};
use super::master::{Coverage, Dual, LpError, Master};
use super::preparation::Preparation;
use super::pricing::{Priced, Pricing, PricingEffort, Question};
use super::rules::{Column, Rules};

/// Weight of the best prices so far in the next prices.
const SMOOTHING: f64 = 0.5;
/// Margin by which Σ π must exceed Σ n β to exclude a threshold, relative to Σ |π|: well above the rounding
/// error of either sum.
const MARGIN: f64 = 1e-7;
/// Share of a column in the master's solution up to which it counts as zero.
const NO_SHARE: f64 = 1e-7;
/// Uncovered weight, relative to the total weight, up to which it counts as zero.
const COVERED: f64 = 1e-7;
/// Margin by which a column must beat the price of its devices, relative to the mean weight of a unit.
const IMPROVEMENT: f64 = 1e-9;
/// Relative slack of a column's load over the threshold, as in pricing.
const LOAD_ROUNDING: f64 = 1e-11;
/// Weight of every unit in addition to its share of the work, so that no unit can be left uncovered for free.
const LEAST_WEIGHT: f64 = 0.01;

/// Bytes per unit of a column: in the list, in the set of known columns, and in the LP solver's matrix.
const BYTES_PER_COLUMN_UNIT: u64 = 40;

/// Pricing effort, which increases while pricing finds nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pace {
    /// Pricing up to the finest table, which pays if a single bound is needed.
    Thorough,
    /// Exact pricing, if the labels suffice. With many nodes, tables as fine as the thorough ones would take most of
    /// the time.
    Brisk,
    /// A coarse table alone, which proves nothing; the sets that it yields still fit by their true resources.
    Quick,
}

impl Pace {
    /// Efforts in ascending order; the next one applies if the last finds nothing.
    fn efforts(self) -> &'static [PricingEffort] {
        const FIRST: PricingEffort = PricingEffort {
            entries: 1 << 25,
            cells: 1 << 13,
            labels: 1_000_000,
            precision: 1e-4,
            second: false,
        };
        const EXACT: PricingEffort =
            PricingEffort { labels: 4_000_000, precision: 1e-6, second: true, ..FIRST };
        const FINEST: PricingEffort = PricingEffort { entries: 1 << 27, cells: 1 << 16, ..EXACT };
        const COARSE: PricingEffort = PricingEffort { entries: 1 << 22, cells: 1 << 10, labels: 0, ..FIRST };
        match self {
            Pace::Thorough => &[FIRST, FINEST],
            Pace::Brisk => &[FIRST, EXACT],
            Pace::Quick => &[COARSE],
        }
    }
}

/// Status of a threshold.
#[derive(Debug, Clone, PartialEq)]
pub enum Verdict {
    /// Prices prove that no partition into admitted columns has this value or a lower one.
    Excluded(Prices),
    /// Fractions of columns cover everything, so no prices exclude the threshold.
    Covered,
    /// A limit on time, memory or rounds was reached.
    Spent,
    /// No column improves and nothing is proved: the tolerances allow no more.
    Stalled,
}

/// Column generation for a problem; columns are kept across thresholds.
pub struct Generation<'a> {
    kinds: &'a [Kind],
    pricings: Vec<Pricing<'a>>,
    devices: Vec<u32>,
    weights: Keyed<UnitId, f64>,
    columns: Vec<Column>,
    known: FxHashSet<(usize, Arc<[UnitId]>)>,
    coverage: Coverage,
    /// Index and share of the columns in the master's last solution.
    shares: Vec<(usize, f64)>,
    /// Total number of units over all columns, and its maximum under the memory limit.
    column_units: u64,
    most_column_units: u64,
    table: Vec<f32>,
    efforts: &'static [PricingEffort],
    /// Maximum number of table entries that fit into the memory.
    most_entries: usize,
    /// Best prices at the previous threshold, from which the next one starts.
    centre: Option<Prices>,
    rounds: u64,
}

/// Prices of units, and of a device of each pool.
#[derive(Debug, Clone, PartialEq)]
pub struct Prices {
    /// Price of each unit.
    pub units: Keyed<UnitId, f64>,
    /// Price of a device of each pool.
    pub devices: Vec<f64>,
}

impl Prices {
    fn from_dual(dual: &Dual) -> Prices {
        Prices { units: dual.units.clone(), devices: dual.devices.clone() }
    }

    /// Mean of these prices and `others`, in which `others` have the weight `share`.
    fn mixed(&self, others: &Prices, share: f64) -> Prices {
        let mix = |ours: &[f64], others: &[f64]| -> Vec<f64> {
            ours.iter().zip(others).map(|(ours, others)| (1.0 - share) * ours + share * others).collect()
        };
        let units = mix(&self.units, &others.units).into();
        Prices { units, devices: mix(&self.devices, &others.devices) }
    }
}

/// Result of pricing all kinds.
struct Reply {
    /// Per pool: upper bound on the total price of the units that one device can hold.
    most: Vec<f64>,
    /// Number of new columns that beat the master's prices; they are the last columns of the list.
    columns: usize,
}

impl<'a> Generation<'a> {
    /// Column generation for covers, without columns yet. Pricing's table takes at most half of `memory`
    /// bytes, or its minimum size.
    pub fn new(
        problem: &Problem,
        units: &Units,
        preparation: &'a Preparation,
        memory: Option<u64>,
    ) -> Generation<'a> {
        Generation::under(problem, units, preparation, &Rules::default(), memory)
    }

    /// Column generation over the columns that `rules` admit; the preparation must be made for these rules.
    pub fn under(
        problem: &Problem,
        units: &Units,
        preparation: &'a Preparation,
        rules: &Rules,
        memory: Option<u64>,
    ) -> Generation<'a> {
        let entries = memory.map_or(usize::MAX, |memory| (memory / 2 / size_of::<f32>() as u64) as usize);
        let kinds = &preparation.kinds;
        let devices: Vec<u32> = problem.pools().iter().map(|pool| pool.count()).collect();
        Generation {
            kinds,
            pricings: kinds.iter().map(|kind| Pricing::new(preparation.states(kind), kind)).collect(),
            devices: rules.devices_left(&devices, kinds),
            weights: weights(units, kinds, &rules.is_placed(units.len())),
            columns: Vec::new(),
            known: FxHashSet::default(),
            coverage: Coverage::Cover,
            shares: Vec::new(),
            column_units: 0,
            most_column_units: memory.map_or(u64::MAX, |memory| memory / 4 / BYTES_PER_COLUMN_UNIT),
            table: Vec::new(),
            efforts: Pace::Thorough.efforts(),
            most_entries: entries,
            centre: None,
            rounds: 0,
        }
    }

    /// Sets whether thresholds are decided for covers or for partitions.
    pub fn require(&mut self, coverage: Coverage) {
        (self.coverage, self.centre) = (coverage, None);
    }

    /// Sets the pricing effort.
    pub fn set_pace(&mut self, pace: Pace) {
        self.efforts = pace.efforts();
    }

    /// Adds columns that the rules admit.
    pub fn inherit(&mut self, columns: impl IntoIterator<Item = Column>) {
        for column in columns {
            self.keep(&column);
        }
    }

    /// Adds a column; returns whether it is new.
    fn keep(&mut self, column: &Column) -> bool {
        let new = self.known.insert((column.kind, column.units.clone()));
        if new {
            self.column_units += column.units.len() as u64;
            self.columns.push(column.clone());
        }
        new
    }

    /// The columns.
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// Columns with a share in the master's last solution, each with its share.
    pub fn shares(&self) -> Vec<(&Column, f64)> {
        self.shares.iter().map(|&(index, share)| (&self.columns[index], share)).collect()
    }

    /// Number of rounds of master and pricing so far.
    pub fn rounds(&self) -> u64 {
        self.rounds
    }

    /// Decides a threshold in at most `rounds` rounds: excludes it, or covers everything at it.
    ///
    /// # Errors
    /// If the LP solver fails.
    pub fn decide(&mut self, threshold: f64, rounds: u64, stop: &Stop) -> Result<Verdict, LpError> {
        let mut centre: Option<(f64, Prices)> = None;
        let verdict = self.dialogue(threshold, rounds, &mut centre, stop);
        self.centre = centre.map(|(_, prices)| prices).or(self.centre.take());
        verdict
    }

    fn dialogue(
        &mut self,
        threshold: f64,
        rounds: u64,
        centre: &mut Option<(f64, Prices)>,
        stop: &Stop,
    ) -> Result<Verdict, LpError> {
        let mut master = Master::new(&self.weights, &self.devices, self.coverage)?;
        self.shares.clear();
        let mut joined = self.within(threshold);
        for &index in &joined {
            join(&mut master, self.kinds, &self.columns[index])?;
        }
        let all: f64 = self.weights.iter().sum();
        let (mut smoothing, mut level) = (0.0, 0);
        for _ in 0..rounds {
            if stop.reason().is_some() || self.column_units > self.most_column_units {
                return Ok(Verdict::Spent);
            }
            self.rounds += 1;
            let Some(dual) = master.solve(stop)? else { return Ok(Verdict::Spent) };
            let shares = joined.iter().copied().zip(dual.shares.iter().copied());
            self.shares = shares.filter(|&(_, share)| share > NO_SHARE).collect();
            if dual.uncovered <= COVERED * all {
                return Ok(Verdict::Covered);
            }
            let own = Prices::from_dual(&dual);
            let (prices, is_own) = match (&*centre, self.centre.take()) {
                (Some((_, best)), _) => (own.mixed(best, smoothing), smoothing == 0.0),
                (None, Some(before)) => (before, false),
                (None, None) => (own, true),
            };
            let Some(answer) = self.price(&prices, &dual, threshold, self.effort(level), stop) else {
                return Ok(Verdict::Spent);
            };
            let excess = self.excess(&prices, &answer);
            if centre.as_ref().is_none_or(|(best, _)| excess > *best) {
                *centre = Some((excess, prices.clone()));
            }
            let scale: f64 = prices.units.iter().map(|price| price.abs()).sum();
            if excess > MARGIN * scale {
                return Ok(Verdict::Excluded(Prices { units: prices.units, devices: answer.most }));
            }
            if answer.columns > 0 {
                for index in self.columns.len() - answer.columns..self.columns.len() {
                    join(&mut master, self.kinds, &self.columns[index])?;
                    joined.push(index);
                }
                smoothing = SMOOTHING;
            } else if !is_own {
                // Smoothed prices may hide columns that the master's own prices reveal.
                smoothing = 0.0;
            } else if level + 1 < self.efforts.len() {
                level += 1;
            } else {
                return Ok(Verdict::Stalled);
            }
        }
        Ok(Verdict::Spent)
    }

    /// Indices of the columns that are columns at a threshold.
    fn within(&self, threshold: f64) -> Vec<usize> {
        let reach = threshold * (1.0 + LOAD_ROUNDING);
        (0..self.columns.len()).filter(|&index| self.columns[index].needs <= reach).collect()
    }

    /// Excess of the sum of the prices of units over that of devices.
    fn excess(&self, prices: &Prices, reply: &Reply) -> f64 {
        let sum: f64 = prices.units.iter().sum();
        let counts = self.devices.iter().map(|&count| f64::from(count));
        let held: f64 = reply.most.iter().zip(counts).map(|(limit, count)| limit * count).sum();
        sum - held
    }

    fn effort(&self, level: usize) -> PricingEffort {
        let effort = self.efforts[level];
        PricingEffort { entries: effort.entries.min(self.most_entries), ..effort }
    }

    /// Prices the columns of every kind; `None` if time runs out.
    fn price(
        &mut self,
        prices: &Prices,
        dual: &Dual,
        threshold: f64,
        effort: PricingEffort,
        stop: &Stop,
    ) -> Option<Reply> {
        // Per pool: the maximum price per device; a stage with replicas takes several devices.
        let mut limits = vec![0.0; self.devices.len()];
        let before = self.columns.len();
        for (index, kind) in self.kinds.iter().enumerate() {
            let replicas = f64::from(kind.replicas);
            let goal = prices.devices[kind.pool] * replicas;
            let question = Question { prices: &prices.units, threshold, goal, effort };
            let answer = self.pricings[index].best(question, &mut self.table, stop)?;
            limits[kind.pool] = f64::max(limits[kind.pool], answer.most.max(0.0) / replicas);
            for set in answer.columns {
                let worth: f64 = set.units.iter().map(|&unit| dual.units[unit]).sum();
                if worth <= dual.devices[kind.pool] * replicas + IMPROVEMENT {
                    continue;
                }
                let needs = needs(kind, &set);
                let mut units = set.units;
                units.sort_unstable();
                self.keep(&Column { kind: index, units: units.into(), needs });
            }
        }
        Some(Reply { most: limits, columns: self.columns.len() - before })
    }
}

fn join(master: &mut Master, kinds: &[Kind], column: &Column) -> Result<(), LpError> {
    let kind = &kinds[column.kind];
    master.add(&column.units, kind.pool, kind.replicas)
}

/// Minimum threshold at which a set is a column.
fn needs(kind: &Kind, set: &Priced) -> f64 {
    match &kind.second {
        Some(second) if second.limit == Limit::Threshold => set.first.max(set.second),
        _ => set.first,
    }
}

/// Cost of leaving each unit uncovered: its least compute on any kind, scaled to a mean of one because the LP solver's
/// tolerances are absolute; zero for placed units.
fn weights(units: &Units, kinds: &[Kind], placed: &Keyed<UnitId, bool>) -> Keyed<UnitId, f64> {
    let least = |unit| {
        let costs = kinds.iter().filter(|kind| kind.allowed[unit]).map(|kind| kind.first.units[unit]);
        Some(costs.fold(f64::INFINITY, f64::min)).filter(|least| least.is_finite()).unwrap_or(0.0)
    };
    let mut weights: Keyed<UnitId, f64> = units.ids().map(least).collect();
    let left = placed.iter().filter(|&&placed| !placed).count();
    let mean = weights.iter().sum::<f64>() / left.max(1) as f64;
    let scale = if mean > 0.0 { 1.0 / mean } else { 0.0 };
    for (weight, &placed) in weights.iter_mut().zip(placed.iter()) {
        *weight = if placed { 0.0 } else { *weight * scale + LEAST_WEIGHT };
    }
    weights
}
