//! The best prices of seconds and memory for given classes.

use rustc_hash::FxHashMap;

use super::quantum::{Quantum, Store, slots};
use crate::bound::ellipsoid;
use crate::bound::fluid::{self, divided_quickly};
use crate::certificate::MemoryPrice;
use crate::graph::ClassId;
use crate::ids::Keyed;
use crate::stop::Stop;

/// Number of times that the interval of one rent is halved.
const HALVINGS: usize = 60;

/// Number of golden-section steps on a line between shares.
const SECTIONS: usize = 60;

/// Rents are tried up to this multiple of the target. Classes that fit nowhere prove any value, but the rents that do
/// so grow with it.
const ENOUGH: f64 = 1024.0;

/// Rounds of the ellipsoid method, divided by the square of the number of variables.
const ROUNDS: usize = 80;

/// Maximum number of quanta of a column for which all prices are optimised; those with the best rent come first.
const MAX_TRIED: usize = 3;

/// Passes over all columns that choose a quantum for each.
const PASSES: usize = 2;

/// Seconds of a class on a kind: those that count as work of a device, and those that elapse in any case. The work is
/// infinite where the class is not allowed.
pub(super) type Cost = [f64; 2];

/// Prices by kind.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Prices {
    pub(super) seconds: Vec<f64>,
    pub(super) memory: Vec<Option<MemoryPrice>>,
}

/// Kinds with equal seconds and memory.
struct Column {
    kinds: Vec<usize>,
    store: Store,
    /// The quanta that may have a price.
    scarce: Vec<Quantum>,
    /// The quantum that has a price.
    quantum: Option<Quantum>,
    /// Bytes of each row's class in whole quanta.
    needs: Vec<f64>,
}

/// Identical classes.
struct Row {
    count: f64,
    bytes: f64,
}

/// The game whose value is Σ_u min_c (s_c / n_c · work + passing + r_c / (n_c C_c) · quanta) − Σ_c r_c. It is maximised
/// over shares s ≥ 0 of the columns, with Σ s = 1, and rents r ≥ 0 of their memory.
pub(super) struct Game {
    kinds: usize,
    columns: Vec<Column>,
    rows: Vec<Row>,
    /// Costs by row and column.
    costs: Vec<Cost>,
    has_work: bool,
    /// A rent beyond which the bound does not improve, unless the classes fit nowhere.
    most: f64,
    /// Ends the search for prices.
    stop: Stop,
}

/// Shares and rents by column, and the value that they prove.
#[derive(Debug, Clone)]
struct Point {
    value: f64,
    shares: Vec<f64>,
    rents: Vec<f64>,
}

impl Point {
    /// The point with the larger value; `self` on a tie.
    fn or(self, other: Point) -> Point {
        if other.value > self.value { other } else { self }
    }
}

impl Prices {
    /// The price that a class pays for the given bytes of memory.
    pub(super) fn rent(&self, kind: usize, bytes: f64) -> f64 {
        self.memory[kind].map_or(0.0, |memory| memory.price * slots(bytes, memory.quantum))
    }
}

/// Groups kinds with equal seconds and memory into columns.
fn columns(stores: &[Store], costs: &Keyed<ClassId, Vec<Cost>>) -> Vec<Column> {
    let mut columns: Vec<Column> = Vec::new();
    for (kind, store) in stores.iter().enumerate().filter(|(_, store)| store.devices > 0.0) {
        let same = |column: &&mut Column| {
            let first = column.kinds[0];
            column.store.memory == store.memory && costs.iter().all(|row| row[first] == row[kind])
        };
        if let Some(column) = columns.iter_mut().find(same) {
            column.kinds.push(kind);
            column.store.devices += store.devices;
        } else {
            let (kinds, store) = (vec![kind], *store);
            let (scarce, needs) = (Vec::new(), Vec::new());
            columns.push(Column { kinds, store, scarce, quantum: None, needs });
        }
    }
    columns
}

impl Game {
    /// A game that should reach `target` if the classes fit nowhere; zero means no target.
    pub(super) fn new(
        stores: &[Store],
        bytes: &Keyed<ClassId, f64>,
        costs: &Keyed<ClassId, Vec<Cost>>,
        target: f64,
        stop: &Stop,
    ) -> Game {
        let columns = columns(stores, costs);
        let mut rows: Vec<Row> = Vec::new();
        let mut of_rows: Vec<Cost> = Vec::new();
        let mut known: FxHashMap<Vec<u64>, usize> = FxHashMap::default();
        for (&bytes, costs) in bytes.iter().zip(costs.iter()) {
            let costs: Vec<Cost> = columns.iter().map(|column| costs[column.kinds[0]]).collect();
            let key = std::iter::once(bytes).chain(costs.iter().flatten().copied()).map(f64::to_bits);
            let row = *known.entry(key.collect()).or_insert_with(|| {
                rows.push(Row { count: 0.0, bytes });
                of_rows.extend(&costs);
                rows.len() - 1
            });
            rows[row].count += 1.0;
        }
        let has_work = of_rows.iter().any(|&[work, _]| work > 0.0 && work.is_finite());
        let mut game = Game {
            kinds: stores.len(),
            columns,
            rows,
            costs: of_rows,
            has_work,
            most: 0.0,
            stop: stop.clone(),
        };
        let width = game.columns.len();
        for index in 0..width {
            let able = game.rows.iter().zip(game.costs.chunks_exact(width));
            let able = able.filter(|(_, costs)| costs[index][0].is_finite());
            let scarce = game.columns[index].store.scarce(able.map(|(row, _)| (row.bytes, row.count)));
            game.columns[index].scarce = scarce;
            // The finest quantum gives the linear program.
            let finest = game.columns[index].scarce.first().copied();
            game.measure(index, finest);
        }
        let largest = |(row, costs): (&Row, &[Cost])| {
            let able = costs.iter().zip(&game.columns).filter(|(cost, _)| cost[0].is_finite());
            let seconds = able.map(|(cost, column)| cost[0] / column.store.devices + cost[1]);
            row.count * seconds.fold(0.0, f64::max)
        };
        let sum = game.rows.iter().zip(game.costs.chunks_exact(width.max(1))).map(largest).sum::<f64>();
        game.most = sum.max(ENOUGH * target);
        game
    }

    /// The best prices found, and the value that they prove; `None` if some class cannot run anywhere. Deducts its work
    /// from `left`, in entries.
    pub(super) fn solve(mut self, left: &mut usize) -> Option<(f64, Prices)> {
        let mut best = self.maximise(self.first()?, left)?;
        for _ in 0..PASSES {
            let before = best.value;
            for index in 0..self.columns.len() {
                let current = self.columns[index].quantum;
                let mut tried: Vec<(f64, Quantum)> = Vec::new();
                for quantum in self.columns[index].scarce.clone() {
                    if current != Some(quantum) && self.spend(HALVINGS, left) {
                        self.measure(index, Some(quantum));
                        tried.push((self.along(best.clone(), index)?.value, quantum));
                    }
                }
                tried.sort_by(|a, b| b.0.total_cmp(&a.0));
                let mut chosen = current;
                for (_, quantum) in tried.into_iter().take(MAX_TRIED) {
                    self.measure(index, Some(quantum));
                    let found = self.maximise(best.clone(), left)?;
                    if found.value > best.value {
                        (best, chosen) = (found, Some(quantum));
                    }
                }
                self.measure(index, chosen);
            }
            if best.value <= before || self.columns.len() <= 2 || self.stop.reason().is_some() {
                break;
            }
        }
        let best = self.towards_corners(best, left)?;
        Some((self.certain(&best), self.prices(&best)))
    }

    /// The value of a point minus the possible rounding error of the sums in it, whose terms may be far larger than the
    /// value.
    fn certain(&self, point: &Point) -> f64 {
        let rents: f64 = point.rents.iter().sum();
        let terms: f64 = self.rows.iter().map(|row| row.count).sum();
        point.value - 2.0 * terms * f64::EPSILON * rents
    }

    /// Deducts the work of `evaluations` from the budget. Returns `false` if the budget or the time was already
    /// exhausted.
    fn spend(&self, evaluations: usize, left: &mut usize) -> bool {
        let had = *left > 0 && self.stop.reason().is_none();
        *left = left.saturating_sub(evaluations.saturating_mul(self.costs.len().max(1)));
        had
    }

    /// Sets the quantum of a column's memory that has a price, and the needs of all rows in it.
    fn measure(&mut self, index: usize, quantum: Option<Quantum>) {
        let need = |row: &Row| quantum.map_or(0.0, |quantum| slots(row.bytes, quantum.bytes));
        self.columns[index].needs = self.rows.iter().map(need).collect();
        self.columns[index].quantum = quantum;
    }

    /// The starting point: prices of seconds alone, with rents of zero.
    fn first(&self) -> Option<Point> {
        let width = self.columns.len();
        let column = |(index, column): (usize, &Column)| {
            let rows = self.rows.iter().zip(self.costs.chunks_exact(width));
            let seconds = rows
                .map(|(row, costs)| Some(row.count * costs[index][0]).filter(|seconds| seconds.is_finite()));
            fluid::Column { devices: column.store.devices, seconds: seconds.collect() }
        };
        let columns: Vec<fluid::Column> = self.columns.iter().enumerate().map(column).collect();
        let (_, shares) = divided_quickly(&columns, &self.stop)?;
        self.point(shares, vec![0.0; width])
    }

    /// The point with these shares, normalised since rounding may have moved their sum from 1, and these rents.
    fn point(&self, mut shares: Vec<f64>, rents: Vec<f64>) -> Option<Point> {
        let sum: f64 = shares.iter().sum();
        shares.iter_mut().for_each(|share| *share /= sum);
        let value = self.value(&shares, &rents)?.0;
        Some(Point { value, shares, rents })
    }

    /// The value and its supergradients by share and by rent; `None` if some class cannot run anywhere.
    fn value(&self, shares: &[f64], rents: &[f64]) -> Option<(f64, [Vec<f64>; 2])> {
        let width = self.columns.len();
        let price = |(column, &share): (&Column, &f64)| share / column.store.devices;
        let prices: Vec<f64> = self.columns.iter().zip(shares).map(price).collect();
        let space =
            |column: &Column| column.quantum.map_or(1.0, |quantum| column.store.devices * quantum.capacity);
        let spaces: Vec<f64> = self.columns.iter().map(space).collect();
        let mut value = -rents.iter().sum::<f64>();
        let mut slopes = [vec![0.0; width], vec![-1.0; width]];
        for (index, (row, costs)) in self.rows.iter().zip(self.costs.chunks_exact(width)).enumerate() {
            let able = costs.iter().enumerate().filter(|(_, cost)| cost[0].is_finite());
            let priced = able.map(|(column, cost)| {
                let rent = rents[column] / spaces[column] * self.columns[column].needs[index];
                (prices[column] * cost[0] + cost[1] + rent, column)
            });
            let (seconds, column) = priced.min_by(|a, b| a.0.total_cmp(&b.0))?;
            value += row.count * seconds;
            slopes[0][column] += row.count * costs[column][0] / self.columns[column].store.devices;
            slopes[1][column] += row.count * self.columns[column].needs[index] / spaces[column];
        }
        // A value that is not a number proves nothing.
        Some((if value.is_nan() { f64::NEG_INFINITY } else { value }, slopes))
    }

    /// The best point found for the current quanta, starting from a point whose value may belong to other quanta.
    fn maximise(&self, from: Point, left: &mut usize) -> Option<Point> {
        let entries = self.costs.len().max(1);
        let mut best = self.point(from.shares, from.rents)?;
        let priced: Vec<usize> =
            (0..self.columns.len()).filter(|&index| self.columns[index].quantum.is_some()).collect();
        for &column in &priced {
            self.spend(HALVINGS, left);
            best = self.along(best, column)?;
        }
        let free = if self.has_work { self.columns.len() - 1 } else { 0 };
        let d = free + priced.len();
        let rounds = ROUNDS * (d + 1) * (d + 1);
        if priced.is_empty() || d < 2 || rounds.saturating_mul(entries) > *left {
            return Some(best);
        }
        self.spend(rounds, left);
        // An ellipsoid that contains a ball around the simplex of shares and a ball around the box of rents.
        let box_radius = (priced.len() as f64 / 2.0).sqrt();
        let mut radii = vec![f64::sqrt(2.0); free];
        radii.resize(d, box_radius);
        let mut centre = vec![1.0 / (free as f64 + 1.0); free];
        centre.resize(d, 0.5);
        ellipsoid::shrink(centre, &radii, rounds, &self.stop, |centre| {
            let (some, scaled) = centre.split_at(free);
            let outside = scaled.iter().position(|&rent| rent < 0.0);
            let cut = match (ellipsoid::into_simplex(some), outside) {
                (Some(cut), _) => [cut, vec![0.0; priced.len()]].concat(),
                (None, Some(outside)) => (0..d).map(|axis| f64::from(axis == free + outside)).collect(),
                (None, None) => {
                    let mut shares = best.shares.clone();
                    if self.has_work {
                        shares = some.to_vec();
                        shares.push(1.0 - some.iter().sum::<f64>());
                    }
                    let mut rents = vec![0.0; self.columns.len()];
                    for (&column, rent) in priced.iter().zip(scaled) {
                        rents[column] = rent * self.most;
                    }
                    let (value, [by_share, by_rent]) = self.value(&shares, &rents)?;
                    if value > best.value {
                        best = Point { value, shares, rents };
                    }
                    let work = (0..free).map(|column| by_share[column] - by_share[free]);
                    work.chain(priced.iter().map(|&column| by_rent[column] * self.most)).collect()
                }
            };
            Some(cut)
        })?;
        for &column in &priced {
            self.spend(HALVINGS, left);
            best = self.along(best, column)?;
        }
        Some(best)
    }

    /// The best point found by golden sections on the lines from a point to the corners of the simplex of shares, and
    /// beyond, with the best rents at each step. The ellipsoid degenerates before it reaches a corner.
    fn towards_corners(&self, from: Point, left: &mut usize) -> Option<Point> {
        let mut best = from;
        let ratio = (5f64.sqrt() - 1.0) / 2.0;
        // With two columns there is only one line.
        let corners = if self.has_work { self.columns.len().saturating_sub(1) } else { 0 };
        for corner in 0..corners {
            let evaluations = (SECTIONS + 4) * (1 + HALVINGS * self.columns.len());
            if !self.spend(evaluations, left) {
                break;
            }
            let start = best.clone();
            let own = start.shares[corner];
            let moved = |step: f64| {
                let share = |(column, &share): (usize, &f64)| {
                    f64::max(share + step * (f64::from(column == corner) - share), 0.0)
                };
                let shares = start.shares.iter().enumerate().map(share).collect();
                let mut point = self.point(shares, start.rents.clone())?;
                for column in (0..self.columns.len()).filter(|&index| self.columns[index].quantum.is_some()) {
                    point = self.along(point, column)?;
                }
                Some(point)
            };
            // The line goes from a share of zero to a share of 1.
            let (mut low, mut high) = (if own < 1.0 { -own / (1.0 - own) } else { 0.0 }, 1.0);
            best = best.or(moved(low)?).or(moved(high)?);
            let inner = |low: f64, high: f64| [high - ratio * (high - low), low + ratio * (high - low)];
            let [mut lower, mut upper] = [moved(inner(low, high)[0])?, moved(inner(low, high)[1])?];
            for _ in 0..SECTIONS {
                if lower.value < upper.value {
                    low = inner(low, high)[0];
                    best = best.or(lower);
                    lower = std::mem::replace(&mut upper, moved(inner(low, high)[1])?);
                } else {
                    high = inner(low, high)[1];
                    best = best.or(upper);
                    upper = std::mem::replace(&mut lower, moved(inner(low, high)[0])?);
                }
            }
            best = best.or(lower).or(upper);
        }
        Some(best)
    }

    /// The best rent of one column, by bisection on the slope, with everything else fixed.
    fn along(&self, from: Point, column: usize) -> Option<Point> {
        let mut best = from.clone();
        let Point { shares, mut rents, .. } = from;
        let (mut low, mut high) = (0.0, self.most);
        for _ in 0..HALVINGS {
            rents[column] = 0.5 * (low + high);
            let (value, [_, by_rent]) = self.value(&shares, &rents)?;
            if value > best.value {
                best = Point { value, shares: shares.clone(), rents: rents.clone() };
            }
            if self.stop.reason().is_some() {
                break;
            }
            if by_rent[column] > 0.0 { low = rents[column] } else { high = rents[column] }
        }
        Some(best)
    }

    /// The prices of a point by kind.
    fn prices(&self, point: &Point) -> Prices {
        let mut prices = Prices { seconds: vec![0.0; self.kinds], memory: vec![None; self.kinds] };
        for (index, column) in self.columns.iter().enumerate() {
            let price = |quantum: Quantum| MemoryPrice {
                quantum: quantum.bytes,
                price: point.rents[index] / (column.store.devices * quantum.capacity),
            };
            let memory = column.quantum.map(price).filter(|memory| memory.price > 0.0);
            for &kind in &column.kinds {
                prices.seconds[kind] = point.shares[index] / column.store.devices;
                prices.memory[kind] = memory;
            }
        }
        prices
    }
}
