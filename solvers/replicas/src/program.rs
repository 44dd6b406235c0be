//! The integer program (`docs/serving.md`, section "The program"): rows, columns, and the bound that prices give.

use stagewright_core::document::{ServingGoal, ServingRole};
use stagewright_serving::Problem;

use crate::column::Column;
use crate::rows::Rows;
use crate::space::{Size, Space};

/// Share of a limit or of a sum, whichever is larger, by which sums may exceed the limit through rounding.
const KEPT: f64 = 1e-9;

/// Bytes of a gigabyte.
const GIGABYTE: f64 = 1e9;

/// A column of the program: its part of the goal, and its entries by row.
#[derive(Debug, Clone, Default)]
pub(crate) struct Entries {
    pub(crate) goal: f64,
    pub(crate) rows: Vec<(usize, f64)>,
}

/// Rows `Σ entries · variables ≤ limit`, and the goal, which is maximised.
#[derive(Debug, Clone)]
pub(crate) struct Program {
    /// Limits of the rows.
    pub(crate) limits: Vec<f64>,
    /// Columns of replicas, in the order of the space.
    pub(crate) replicas: Vec<Entries>,
    /// Columns of R, and of z of every class.
    pub(crate) flows: Vec<Entries>,
    /// Upper bound of R and of every z.
    pub(crate) most_flow: f64,
    /// Columns of every size.
    pub(crate) sizes: Vec<std::ops::Range<usize>>,
    /// Shares of classes.
    shares: Vec<f64>,
    /// The first row of classes.
    first_class: usize,
    /// Requests a second that limit R.
    rate: f64,
}

/// Numbers of replicas of every size that a part of the space allows.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Ranges {
    pub(crate) low: Vec<u64>,
    pub(crate) high: Vec<u64>,
}

impl Program {
    pub(crate) fn new(problem: &Problem, space: &Space) -> Program {
        let rows = Rows::new(problem);
        let mut limits = rows.limits.clone();
        let question = &problem.question;
        let classes = problem.classes.len();
        let is_limit = question.goal == ServingGoal::Throughput;
        let in_flight = question.concurrency.filter(|_| is_limit).map(|concurrency| {
            limits.push(concurrency);
            limits.len() - 1
        });
        let first_class = limits.len();
        limits.resize(first_class + 3 * classes, 0.0);
        let mut flows = vec![Entries::default(); 1 + classes];
        for (class, document) in question.classes.iter().enumerate() {
            let row = first_class + 3 * class;
            flows[0].rows.push((row, document.share));
            flows[1 + class].rows = vec![(row, -1.0), (row + 1, 1.0), (row + 2, 1.0)];
        }
        if is_limit {
            flows[0].goal = 1.0;
        }
        if let Some(rate) = question.rate {
            let sign = if is_limit { 1.0 } else { -1.0 };
            flows[0].rows.push((limits.len(), sign));
            limits.push(sign * rate);
        }
        let served = question.concurrency.filter(|_| !is_limit).map(|concurrency| {
            let decode = limits.len();
            for class in 0..classes {
                flows[1 + class].rows.push((limits.len(), -1.0));
                limits.push(0.0);
            }
            limits.push(-concurrency);
            (decode, limits.len() - 1)
        });
        let byte = question.start.as_ref().map_or(0.0, |start| start.price_per_gb / GIGABYTE);
        let column = |column: &Column| {
            let size = &space.sizes[column.size];
            let (role, class) = (size.key.role, size.key.class as usize);
            let mut entries = rows.of_size(problem, size);
            let offer = &column.offer;
            if let Some(row) = in_flight {
                entries.push((row, offer.in_flight));
            }
            let offset = match role {
                ServingRole::Aggregated => 0,
                ServingRole::Prefill => 1,
                ServingRole::Decode => 2,
            };
            entries.push((first_class + 3 * class + offset, -offer.rate));
            if let Some((decode, flight)) = served {
                if role == ServingRole::Decode {
                    entries.push((decode + class, offer.rate));
                }
                if role != ServingRole::Prefill {
                    entries.push((flight, -offer.in_flight));
                }
            }
            let used = || size.devices.iter().zip(&problem.fleet.kinds);
            let goal = match question.goal {
                ServingGoal::Throughput => 0.0,
                ServingGoal::Devices => -used().map(|(&devices, _)| devices as f64).sum::<f64>(),
                ServingGoal::Price => -used()
                    .map(|(&devices, kind)| {
                        devices as f64 * question.prices.get(&kind.name).copied().unwrap_or(0.0)
                    })
                    .sum::<f64>(),
                ServingGoal::Cache if role == ServingRole::Prefill => 0.0,
                ServingGoal::Cache => column.cache_tokens as f64,
            };
            Entries { goal: goal - byte * column.moved_bytes, rows: entries }
        };
        let replicas = space.columns.iter().map(column).collect();
        let mut sizes = vec![0..0; space.sizes.len()];
        for (index, column) in space.columns.iter().enumerate() {
            let range = &mut sizes[column.size];
            *range = if range.end == 0 { index..index + 1 } else { range.start..index + 1 };
        }
        let largest = |(size, range): (&Size, &std::ops::Range<usize>)| {
            let rates = space.columns[range.clone()].iter().map(|column| column.offer.rate);
            size.most as f64 * rates.fold(0.0, f64::max)
        };
        let most_flow = space.sizes.iter().zip(&sizes).map(largest).sum();
        let shares = question.classes.iter().map(|class| class.share).collect();
        let rate = question.rate.filter(|_| is_limit).unwrap_or(f64::INFINITY);
        Program { limits, replicas, flows, most_flow, sizes, shares, first_class, rate }
    }

    /// Requests a second of all classes together with numbers of replicas by column.
    pub(crate) fn rate(&self, counts: &[u64]) -> f64 {
        let sums = self.sums(counts);
        self.rate_of(&sums)
    }

    /// The goal with numbers of replicas by column; `None` if they exceed a row.
    pub(crate) fn goal(&self, counts: &[u64]) -> Option<f64> {
        let sums = self.sums(counts);
        let rate = self.rate_of(&sums);
        let classes = self.first_class..self.first_class + 3 * self.shares.len();
        let pools = self.pools(&sums);
        let mut rest = sums;
        rest[classes.clone()].fill(0.0);
        for (row, entry) in &self.flows[0].rows {
            if !classes.contains(row) {
                rest[*row] += entry * rate;
            }
        }
        for (entries, pool) in self.flows[1..].iter().zip(&pools) {
            for (row, entry) in &entries.rows {
                if !classes.contains(row) {
                    rest[*row] += entry * pool;
                }
            }
        }
        let is_kept = |(sum, limit): (&f64, &f64)| *sum <= limit + KEPT * limit.abs().max(sum.abs());
        let used: f64 = self
            .replicas
            .iter()
            .zip(counts)
            .filter(|(_, count)| **count > 0)
            .map(|(entries, &count)| entries.goal * count as f64)
            .sum();
        rest.iter().zip(&self.limits).all(is_kept).then_some(used + self.flows[0].goal * rate)
    }

    /// Sums of the rows over replicas.
    fn sums(&self, counts: &[u64]) -> Vec<f64> {
        let mut sums = vec![0.0; self.limits.len()];
        for (entries, &count) in self.replicas.iter().zip(counts).filter(|(_, count)| **count > 0) {
            for &(row, entry) in &entries.rows {
                sums[row] += entry * count as f64;
            }
        }
        sums
    }

    /// Requests a second that prefill and decode replicas of every class serve together.
    fn pools(&self, sums: &[f64]) -> Vec<f64> {
        let pool = |class: usize| {
            let row = self.first_class + 3 * class;
            (-sums[row + 1]).min(-sums[row + 2])
        };
        (0..self.shares.len()).map(pool).collect()
    }

    fn rate_of(&self, sums: &[f64]) -> f64 {
        let pools = self.pools(sums);
        let of_class =
            |(class, share): (usize, &f64)| (pools[class] - sums[self.first_class + 3 * class]) / share;
        self.shares.iter().enumerate().map(of_class).fold(self.rate, f64::min)
    }

    /// An upper bound on the goal within ranges, by prices of the rows: at least 0 each. It is weakened by the rounding of its terms, so
    /// that other orders of its sums prove it too.
    pub(crate) fn bound(&self, prices: &[f64], ranges: &Ranges) -> f64 {
        let mut sum = Rounded::default();
        for (price, limit) in prices.iter().zip(&self.limits) {
            sum.add(price * limit, (price * limit).abs());
        }
        for entries in &self.flows {
            let (worth, size) = entries.worth(prices);
            sum.add(worth.max(0.0) * self.most_flow, size * self.most_flow);
        }
        for (size, columns) in self.sizes.iter().enumerate() {
            let worths = self.replicas[columns.clone()].iter().map(|entries| entries.worth(prices));
            let best = worths.max_by(|left, right| left.0.total_cmp(&right.0));
            let Some((worth, magnitude)) = best else { continue };
            let number = if worth > 0.0 { ranges.high[size] } else { ranges.low[size] } as f64;
            sum.add(worth * number, magnitude * number);
        }
        sum.rounded_up()
    }
}

impl Entries {
    /// Goal less prices, and the sum of the sizes of both.
    fn worth(&self, prices: &[f64]) -> (f64, f64) {
        let mut worth = (self.goal, self.goal.abs());
        for &(row, entry) in &self.rows {
            let cost = prices[row] * entry;
            worth = (worth.0 - cost, worth.1 + cost.abs());
        }
        worth
    }
}

/// A sum with the size of its terms.
#[derive(Default)]
struct Rounded {
    sum: f64,
    size: f64,
    terms: f64,
}

impl Rounded {
    fn add(&mut self, term: f64, size: f64) {
        self.sum += term;
        self.size += size;
        self.terms += 1.0;
    }

    /// The sum and twice the rounding of as many terms, each of up to some twenty operations.
    fn rounded_up(&self) -> f64 {
        self.sum + 2.0 * f64::EPSILON * (self.terms + 20.0) * self.size
    }
}
