//! The dialogue of master and pricing at a threshold.

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
/// By how much the prices of all units must exceed what the devices can hold, relative, to exclude a threshold.
const MARGIN: f64 = 1e-7;
/// Relative slack of a column's load over the threshold, as pricing has it.
const LOAD_ROUNDING: f64 = 1e-11;
/// Uncovered weight, relative to all weight, that counts as none.
const COVERED: f64 = 1e-7;

/// How hard pricing looks, from quick to thorough; the next where one finds nothing.
const EFFORTS: [Effort; 2] = [
    Effort { entries: 1 << 25, cells: 1 << 13, labels: 1_000_000, precision: 1e-4, second: false },
    Effort { entries: 1 << 27, cells: 1 << 16, labels: 4_000_000, precision: 1e-6, second: true },
];

/// A column.
#[derive(Debug, Clone, PartialEq)]
pub struct Column {
    /// Its kind.
    pub kind: usize,
    /// Its units, ascending.
    pub units: Vec<u32>,
    /// The least threshold at which it is a column.
    pub needs: f64,
}

/// What is known of a threshold.
#[derive(Debug, Clone, PartialEq)]
pub enum Verdict {
    /// No free split has this value or a lower one: prices of the units show it.
    Excluded {
        /// The prices.
        prices: Vec<f64>,
    },
    /// Fractions of columns cover everything: their indices, the largest fraction first.
    Covered(Vec<(usize, f64)>),
    /// A limit came first, on time or rounds.
    Open,
}

/// What is still to be placed, and where.
#[derive(Debug, Clone, PartialEq)]
pub struct Left {
    /// Per unit whether it is still to be placed.
    pub open: Vec<bool>,
    /// Devices left of each pool.
    pub devices: Vec<u32>,
}

impl Left {
    /// Everything.
    pub fn all(problem: &Problem, units: &Units) -> Left {
        let devices = problem.pools().iter().map(|pool| pool.count()).collect();
        Left { open: vec![true; units.len()], devices }
    }
}

/// Columns of a problem, kept from threshold to threshold.
pub struct Generation<'a> {
    kinds: Vec<Kind>,
    weights: Vec<f64>,
    pricings: Vec<Pricing<'a>>,
    table: Vec<f32>,
    efforts: [Effort; 2],
    columns: Vec<Column>,
    known: FxHashSet<(usize, Vec<u32>)>,
    /// Rounds of master and pricing so far.
    pub rounds: u64,
}

impl<'a> Generation<'a> {
    /// Without columns. The table of pricing takes at most half of `memory` bytes, or its least size.
    pub fn new(units: &Units, preparation: &'a Preparation, memory: Option<u64>) -> Self {
        // Half of the memory for the table, the rest for labels and columns.
        let entries = memory.map_or(usize::MAX, |memory| (memory / 2 / size_of::<f32>() as u64) as usize);
        let kinds = &preparation.kinds;
        let states = |kind: &Kind| match preparation.states.cut(kind.pool) {
            Some(_) => &preparation.states,
            None => &preparation.plain,
        };
        let pricings = kinds.iter().map(|kind| Pricing::new(states(kind), kind)).collect();
        Generation {
            kinds: kinds.to_vec(),
            weights: weights(units, kinds),
            pricings,
            table: Vec::new(),
            efforts: EFFORTS.map(|effort| Effort { entries: effort.entries.min(entries), ..effort }),
            columns: Vec::new(),
            known: FxHashSet::default(),
            rounds: 0,
        }
    }

    /// The columns.
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// Adds a set as a column of a kind, unless it is there.
    pub fn add(&mut self, kind: usize, mut units: Vec<u32>, needs: f64) -> bool {
        units.sort_unstable();
        if units.is_empty() || !self.known.insert((kind, units.clone())) {
            return false;
        }
        self.columns.push(Column { kind, units, needs });
        true
    }

    /// Excludes a threshold, or covers what is left below it.
    ///
    /// # Errors
    /// Where the LP solver fails.
    pub fn decide(
        &mut self,
        threshold: f64,
        left: &Left,
        rounds: u64,
        stop: &Stop,
    ) -> Result<Verdict, LpError> {
        let mut master = Master::new(&self.weights, &left.open, &left.devices)?;
        let mut inside = Vec::new();
        let reach = threshold * (1.0 + LOAD_ROUNDING);
        for (at, column) in self.columns.iter().enumerate() {
            if column.needs <= reach && column.units.iter().all(|&unit| left.open[unit as usize]) {
                let kind = &self.kinds[column.kind];
                master.add(&column.units, kind.pool, kind.replicas)?;
                inside.push(at);
            }
        }
        for pricing in &mut self.pricings {
            pricing.restrict(&left.open);
        }
        let weights = self.weights.iter().zip(&left.open);
        let all: f64 = weights.filter(|(_, open)| **open).map(|(weight, _)| weight).sum();
        let mut centre: Option<(f64, Vec<f64>, Vec<f64>)> = None;
        let mut smoothing = 0.0;
        let mut effort = 0;
        let last = self.rounds.saturating_add(rounds);
        loop {
            if stop.reason().is_some() || self.rounds == last {
                return Ok(Verdict::Open);
            }
            self.rounds += 1;
            let mut dual = master.solve()?;
            for (price, &open) in dual.units.iter_mut().zip(&left.open) {
                *price = if open { *price } else { 0.0 };
            }
            if dual.uncovered <= COVERED * all {
                return Ok(Verdict::Covered(cover(&inside, &dual.columns)));
            }
            let mix = |ours: &[f64], best: &[f64]| -> Vec<f64> {
                ours.iter()
                    .zip(best)
                    .map(|(ours, best)| (1.0 - smoothing) * ours + smoothing * best)
                    .collect()
            };
            let (prices, devices) = match &centre {
                Some((_, units, devices)) => (mix(&dual.units, units), mix(&dual.devices, devices)),
                None => (dual.units.clone(), dual.devices.clone()),
            };
            let mut added = false;
            for level in effort..self.efforts.len() {
                let Some(most) = self.price(
                    &prices,
                    &devices,
                    &dual,
                    threshold,
                    self.efforts[level],
                    stop,
                    &mut master,
                    &mut inside,
                    &mut added,
                )?
                else {
                    return Ok(Verdict::Open);
                };
                let sum: f64 = prices.iter().sum();
                let held: f64 =
                    most.iter().zip(&left.devices).map(|(most, &count)| most * f64::from(count)).sum();
                if sum - held > MARGIN * sum {
                    return Ok(Verdict::Excluded { prices });
                }
                if centre.as_ref().is_none_or(|(best, ..)| sum - held > *best) {
                    centre = Some((sum - held, prices.clone(), devices.clone()));
                }
                if added {
                    break;
                }
                // Smoothed prices may hide what those of the master show.
                if smoothing > 0.0 {
                    break;
                }
                effort = (level + 1).min(self.efforts.len() - 1);
            }
            if !added {
                if smoothing == 0.0 {
                    // Nothing improves and nothing is proved: the tolerances have met.
                    return Ok(Verdict::Open);
                }
                smoothing = 0.0;
            } else {
                smoothing = SMOOTHING;
            }
        }
    }

    /// Prices every kind; what one device of each pool can hold at most. None where the clock ran out.
    #[expect(clippy::too_many_arguments, reason = "one step of one loop")]
    fn price(
        &mut self,
        prices: &[f64],
        devices: &[f64],
        dual: &Dual,
        threshold: f64,
        effort: Effort,
        stop: &Stop,
        master: &mut Master,
        inside: &mut Vec<usize>,
        added: &mut bool,
    ) -> Result<Option<Vec<f64>>, LpError> {
        let mut most = vec![0.0; devices.len()];
        for at in 0..self.kinds.len() {
            let (pool, replicas) = (self.kinds[at].pool, self.kinds[at].replicas);
            let per_device = f64::from(replicas);
            let goal = devices[pool] * per_device;
            let question = Question { prices, threshold, goal, effort };
            let Some(answer) = self.pricings[at].best(question, &mut self.table, stop) else {
                return Ok(None);
            };
            most[pool] = f64::max(most[pool], answer.most.max(0.0) / per_device);
            let worth = |set: &Priced| set.units.iter().map(|&unit| dual.units[unit as usize]).sum::<f64>();
            for set in answer.columns {
                let improves = worth(&set) > dual.devices[pool] * per_device * (1.0 + 1e-9) + 1e-12;
                let needs = self.needs(at, &set);
                let units = set.units.clone();
                if improves && self.add(at, set.units, needs) {
                    master.add(&units, pool, replicas)?;
                    inside.push(self.columns.len() - 1);
                    *added = true;
                }
            }
        }
        Ok(Some(most))
    }

    /// The least threshold at which a set is a column.
    fn needs(&self, kind: usize, set: &Priced) -> f64 {
        match &self.kinds[kind].second {
            Some(second) if second.limit == Limit::Threshold => set.first.max(set.second),
            _ => set.first,
        }
    }
}

/// The columns of a cover with their fractions, the largest first.
fn cover(inside: &[usize], fractions: &[f64]) -> Vec<(usize, f64)> {
    let mut cover: Vec<(usize, f64)> = inside
        .iter()
        .zip(fractions)
        .filter(|(_, fraction)| **fraction > COVERED)
        .map(|(&column, &fraction)| (column, fraction))
        .collect();
    cover.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    cover
}

/// What it costs to leave a unit uncovered: its least compute, and a share of the nets so that none is free.
fn weights(units: &Units, kinds: &[Kind]) -> Vec<f64> {
    let least = |unit: usize| {
        let costs = kinds.iter().filter(|kind| kind.allowed[unit]).map(|kind| kind.first.units[unit]);
        let least = costs.fold(f64::INFINITY, f64::min);
        if least.is_finite() { least } else { 0.0 }
    };
    let mut weights: Vec<f64> = (0..units.len()).map(least).collect();
    let mean = weights.iter().sum::<f64>() / weights.len().max(1) as f64;
    let floor = if mean > 0.0 { 0.01 * mean } else { 1.0 };
    weights.iter_mut().for_each(|weight| *weight += floor);
    weights
}

/// Everything column generation needs of a problem.
pub struct Preparation {
    /// The kinds of columns.
    pub kinds: Vec<Kind>,
    /// The state graph.
    pub states: States,
    /// The state graph without nets, for pools that pay nothing for them.
    pub plain: States,
    /// Whether nets were left out of it.
    pub relaxed: bool,
}

impl Preparation {
    /// An order, the nets and the state graph of at most `most` states; none where even that is too few, or the
    /// clock ran out.
    pub fn new(problem: &Problem, units: &Units, most: usize, stop: &Stop) -> Option<Preparation> {
        let cuts = Cuts::new(units);
        let order = order::narrow(units.len(), &cuts);
        let (states, relaxed) = States::relaxed(&order, &cuts, units.pools(), most, stop)?;
        let plain = States::new(&order, &Cuts::default(), units.pools(), most)?;
        Some(Preparation { kinds: kinds(problem, units), states, plain, relaxed })
    }
}
