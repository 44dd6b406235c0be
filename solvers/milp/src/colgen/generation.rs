//! The dialogue of master and pricing at a threshold.
//!
//! The master proposes prices, pricing answers with columns that beat them and with β, and either the prices exclude
//! the threshold, or the columns cover everything, or both go on. Prices of the master jump about, so what is priced
//! is their mean with the best prices so far, those with the largest Σ π − Σ n β (smoothing); where that yields no
//! new column, the master's own prices are next, and where those yield none, pricing looks harder.

use rustc_hash::FxHashSet;
use stagewright_core::contract::Units;
use stagewright_core::problem::Problem;
use stagewright_core::solver::Stop;

use super::cuts::Cuts;
use super::kind::{Kind, Limit, kinds};
use super::master::{Dual, LpError, Master};
use super::order;
use super::pricing::{Effort, Priced, Pricing, Question};
use super::states::States;

/// Share of the best prices so far in the prices to try next.
const SMOOTHING: f64 = 0.5;
/// By how much the prices of all units must exceed what the devices can hold, relative, to exclude a threshold:
/// well above what rounding does to either sum.
const MARGIN: f64 = 1e-7;
/// Uncovered weight, relative to all weight, that counts as none.
const COVERED: f64 = 1e-7;
/// By how much a column must beat the price of its devices, relative to the mean weight of a unit.
const IMPROVEMENT: f64 = 1e-9;
/// Relative slack of a column's load over the threshold, as pricing has it.
const LOAD_ROUNDING: f64 = 1e-11;
/// Weight of every unit beyond its share of the work, so that none is free to leave uncovered.
const LEAST_WEIGHT: f64 = 0.01;

/// Bytes of a unit of a column: in the list, in the table of known ones, and in the LP solver's matrix.
const BYTES_PER_COLUMN_UNIT: u64 = 40;

/// How hard pricing looks, from quick to thorough; the next where one finds nothing.
const EFFORTS: [Effort; 2] = [
    Effort { entries: 1 << 25, cells: 1 << 13, labels: 1_000_000, precision: 1e-4, second: false },
    Effort { entries: 1 << 27, cells: 1 << 16, labels: 4_000_000, precision: 1e-6, second: true },
];

/// Everything that column generation needs of a problem.
pub struct Preparation {
    /// The kinds of columns.
    pub kinds: Vec<Kind>,
    /// The state graph.
    pub states: States,
    /// The state graph without nets, for pools that pay nothing for them.
    pub plain: States,
    /// Whether nets were left out of the state graph.
    pub relaxed: bool,
}

impl Preparation {
    /// An order, the nets and a state graph of at most `most` states; none where even the cheapest relaxation has
    /// more, or the clock ran out.
    pub fn new(problem: &Problem, units: &Units, most: usize, stop: &Stop) -> Option<Preparation> {
        let cuts = Cuts::new(units);
        let order = order::narrow(units.len(), &cuts, stop);
        let (states, relaxed) = States::relaxed(&order, &cuts, units.pools(), most, stop)?;
        let plain = States::new(&order, &Cuts::default(), units.pools(), most)?;
        Some(Preparation { kinds: kinds(problem, units), states, plain, relaxed })
    }

    /// The state graph that a kind is priced on.
    pub fn states(&self, kind: &Kind) -> &States {
        if self.states.cut(kind.pool).is_some() { &self.states } else { &self.plain }
    }
}

/// A set that one stage can hold.
#[derive(Debug, Clone, PartialEq)]
struct Column {
    kind: usize,
    /// Ascending.
    units: Vec<u32>,
    /// The least threshold at which it is a column.
    needs: f64,
}

/// What is known of a threshold.
#[derive(Debug, Clone, PartialEq)]
pub enum Verdict {
    /// No free split has this value or a lower one: prices show it.
    Excluded(Prices),
    /// Fractions of columns cover everything: no prices exclude it.
    Covered,
    /// A limit on time, memory or rounds came first.
    Spent,
    /// Nothing improves and nothing is proved: the tolerances have met.
    Stalled,
}

/// Columns of a problem, kept from threshold to threshold.
pub struct Generation<'a> {
    kinds: &'a [Kind],
    pricings: Vec<Pricing<'a>>,
    devices: Vec<u32>,
    weights: Vec<f64>,
    columns: Vec<Column>,
    known: FxHashSet<(usize, Vec<u32>)>,
    /// Units over all columns, and most of them that the memory has room for.
    column_units: u64,
    most_column_units: u64,
    table: Vec<f32>,
    efforts: [Effort; 2],
    /// The best prices at the threshold before, where the next one begins.
    centre: Option<Prices>,
    rounds: u64,
}

/// Prices of units and of a device of each pool.
#[derive(Debug, Clone, PartialEq)]
pub struct Prices {
    /// By unit.
    pub units: Vec<f64>,
    /// By pool.
    pub devices: Vec<f64>,
}

impl Prices {
    fn of(dual: &Dual) -> Prices {
        Prices { units: dual.units.clone(), devices: dual.devices.clone() }
    }

    /// These with a share of others mixed in.
    fn mixed(&self, others: &Prices, share: f64) -> Prices {
        let mix = |ours: &[f64], others: &[f64]| {
            ours.iter().zip(others).map(|(ours, others)| (1.0 - share) * ours + share * others).collect()
        };
        Prices { units: mix(&self.units, &others.units), devices: mix(&self.devices, &others.devices) }
    }
}

/// What pricing said of all kinds.
struct Reply {
    /// Per pool the most that one device can hold, an upper bound.
    most: Vec<f64>,
    /// Columns that beat the master's prices, new to it.
    columns: Vec<Column>,
}

impl<'a> Generation<'a> {
    /// Without columns. The table of pricing takes at most half of `memory` bytes, or its least size.
    pub fn new(
        problem: &Problem,
        units: &Units,
        preparation: &'a Preparation,
        memory: Option<u64>,
    ) -> Generation<'a> {
        let entries = memory.map_or(usize::MAX, |memory| (memory / 2 / size_of::<f32>() as u64) as usize);
        let kinds = &preparation.kinds;
        Generation {
            kinds,
            pricings: kinds.iter().map(|kind| Pricing::new(preparation.states(kind), kind)).collect(),
            devices: problem.pools().iter().map(|pool| pool.count()).collect(),
            weights: weights(units, kinds),
            columns: Vec::new(),
            known: FxHashSet::default(),
            column_units: 0,
            most_column_units: memory.map_or(u64::MAX, |memory| memory / 4 / BYTES_PER_COLUMN_UNIT),
            table: Vec::new(),
            efforts: EFFORTS.map(|effort| Effort { entries: effort.entries.min(entries), ..effort }),
            centre: None,
            rounds: 0,
        }
    }

    /// Number of columns.
    pub fn columns(&self) -> usize {
        self.columns.len()
    }

    /// Rounds of master and pricing so far.
    pub fn rounds(&self) -> u64 {
        self.rounds
    }

    /// Excludes a threshold, or covers everything below it, in at most so many rounds.
    ///
    /// # Errors
    /// Where the LP solver fails.
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
        let mut master = Master::new(&self.weights, &self.devices)?;
        let reach = threshold * (1.0 + LOAD_ROUNDING);
        for column in self.columns.iter().filter(|column| column.needs <= reach) {
            join(&mut master, self.kinds, column)?;
        }
        let all: f64 = self.weights.iter().sum();
        let (mut smoothing, mut level) = (0.0, 0);
        for _ in 0..rounds {
            if stop.reason().is_some() || self.column_units > self.most_column_units {
                return Ok(Verdict::Spent);
            }
            self.rounds += 1;
            let Some(dual) = master.solve(stop)? else { return Ok(Verdict::Spent) };
            if dual.uncovered <= COVERED * all {
                return Ok(Verdict::Covered);
            }
            let own = Prices::of(&dual);
            let (prices, is_own) = match (&*centre, self.centre.take()) {
                (Some((_, best)), _) => (own.mixed(best, smoothing), smoothing == 0.0),
                (None, Some(before)) => (before, false),
                (None, None) => (own, true),
            };
            let Some(answer) = self.price(&prices, &dual, threshold, self.efforts[level], stop) else {
                return Ok(Verdict::Spent);
            };
            let sum: f64 = prices.units.iter().sum();
            let counts = self.devices.iter().map(|&count| f64::from(count));
            let held: f64 = answer.most.iter().zip(counts).map(|(most, count)| most * count).sum();
            let excess = sum - held;
            if centre.as_ref().is_none_or(|(best, _)| excess > *best) {
                *centre = Some((excess, prices.clone()));
            }
            if excess > MARGIN * sum {
                return Ok(Verdict::Excluded(Prices { units: prices.units, devices: answer.most }));
            }
            for column in &answer.columns {
                join(&mut master, self.kinds, column)?;
            }
            if !answer.columns.is_empty() {
                self.columns.extend(answer.columns);
                smoothing = SMOOTHING;
            } else if !is_own {
                // Other prices may hide what those of the master show.
                smoothing = 0.0;
            } else if level + 1 < self.efforts.len() {
                level += 1;
            } else {
                return Ok(Verdict::Stalled);
            }
        }
        Ok(Verdict::Spent)
    }

    /// Prices every kind. None where the clock ran out.
    fn price(
        &mut self,
        prices: &Prices,
        dual: &Dual,
        threshold: f64,
        effort: Effort,
        stop: &Stop,
    ) -> Option<Reply> {
        // Per pool the most that one device can hold; a stage with replicas takes several devices.
        let mut most = vec![0.0; self.devices.len()];
        let mut columns = Vec::new();
        for (at, kind) in self.kinds.iter().enumerate() {
            let replicas = f64::from(kind.replicas);
            let goal = prices.devices[kind.pool] * replicas;
            let question = Question { prices: &prices.units, threshold, goal, effort };
            let answer = self.pricings[at].best(question, &mut self.table, stop)?;
            most[kind.pool] = f64::max(most[kind.pool], answer.most.max(0.0) / replicas);
            for set in answer.columns {
                let worth: f64 = set.units.iter().map(|&unit| dual.units[unit as usize]).sum();
                if worth <= dual.devices[kind.pool] * replicas + IMPROVEMENT {
                    continue;
                }
                let needs = needs(kind, &set);
                let mut units = set.units;
                units.sort_unstable();
                if self.known.insert((at, units.clone())) {
                    self.column_units += units.len() as u64;
                    columns.push(Column { kind: at, units, needs });
                }
            }
        }
        Some(Reply { most, columns })
    }
}

fn join(master: &mut Master, kinds: &[Kind], column: &Column) -> Result<(), LpError> {
    let kind = &kinds[column.kind];
    master.add(&column.units, kind.pool, kind.replicas)
}

/// The least threshold at which a set is a column.
fn needs(kind: &Kind, set: &Priced) -> f64 {
    match &kind.second {
        Some(second) if second.limit == Limit::Threshold => set.first.max(set.second),
        _ => set.first,
    }
}

/// What it costs to leave a unit uncovered: its least compute on any kind, scaled to a mean of one because the LP
/// solver's tolerances are absolute.
fn weights(units: &Units, kinds: &[Kind]) -> Vec<f64> {
    let least = |unit: usize| {
        let costs = kinds.iter().filter(|kind| kind.allowed[unit]).map(|kind| kind.first.units[unit]);
        Some(costs.fold(f64::INFINITY, f64::min)).filter(|least| least.is_finite()).unwrap_or(0.0)
    };
    let mut weights: Vec<f64> = (0..units.len()).map(least).collect();
    let mean = weights.iter().sum::<f64>() / weights.len().max(1) as f64;
    let scale = if mean > 0.0 { 1.0 / mean } else { 0.0 };
    weights.iter_mut().for_each(|weight| *weight = *weight * scale + LEAST_WEIGHT);
    weights
}
