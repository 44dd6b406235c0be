//! The fluid bound: operators divided arbitrarily among all devices, with free communication.

use super::{Bound, LowerBound, class_seconds, ellipsoid};
use crate::certificate::{Certificate, Limits};
use crate::document::ObjectiveKind;
use crate::problem::Problem;
use crate::stop::Stop;
use crate::tolerance::round_down;

/// The fluid bound. For prices λ_c ≥ 0 of the kinds with Σ_c n_c λ_c = 1: T ≥ Σ_u min_c λ_c p_uc, over colocation
/// classes u.
///
/// *Proof.* Let a placement have value T. Each device of kind c computes for at most T seconds in total. A stage on r
/// devices computes for at most r T, and with `separate` training forward plus backward compute is at most T. So Σ_c
/// λ_c · (seconds computed on kind c) ≤ T Σ_c n_c λ_c = T. Every class u contributes λ_c p_uc for the kind that runs
/// it, which is at least min_c λ_c p_uc. Valid for throughput, every split rule and communication mode. In an iteration
/// under a schedule every device computes for at most T / m per microbatch, so the bound is m times as large. Valid for
/// the makespan, since no device computes for longer than the step takes.
///
/// The best prices are the optimal dual solution of the fractional assignment (an LP); for one kind the bound is the
/// total work divided by the number of devices. The function of λ is concave and piecewise linear, and any λ gives a
/// valid bound, so it is maximised approximately: by bisection on its slope for two kinds and by the ellipsoid method
/// (Shor 1977) for more. The rounds of the ellipsoid method grow with the square of the number of kinds, so mirror
/// ascent replaces it where that is too much work, and at fewer kinds for the makespan, whose solvers may have only
/// milliseconds. Kinds with equal times count as one. O(iterations · classes · kinds).
#[derive(Debug, Clone, Copy)]
pub struct Fluid;

impl Bound for Fluid {
    fn name(&self) -> &'static str {
        "fluid"
    }

    fn applies(&self, problem: &Problem) -> bool {
        matches!(problem.objective().kind(), ObjectiveKind::Throughput | ObjectiveKind::Makespan)
    }

    fn is_linear(&self) -> bool {
        true
    }

    fn compute(&self, problem: &Problem) -> Option<LowerBound> {
        self.before(problem, &Stop::never())
    }

    fn before(&self, problem: &Problem, stop: &Stop) -> Option<LowerBound> {
        let table = class_seconds(problem);
        let (value, prices) = priced(problem, &table, stop)?;
        Some(LowerBound {
            value: round_down(problem.objective().repetitions() * value),
            source: self.name(),
            certificate: Some(Certificate::Fluid { prices, limits: Limits::default() }),
        })
    }
}

/// The fluid bound before rounding, and the price of a second on a device of each kind, for classes with the given
/// seconds by kind. Stops at the best prices found when `stop` applies. `None` if some class cannot run anywhere.
pub(super) fn priced(
    problem: &Problem,
    classes: &[Vec<Option<f64>>],
    stop: &Stop,
) -> Option<(f64, Vec<f64>)> {
    let (column_of_kind, columns) = distinct_columns(problem, classes);
    let (value, shares) = match problem.objective().kind() {
        ObjectiveKind::Makespan => divided_quickly(&columns, stop)?,
        _ => divided_before(&columns, stop)?,
    };
    let price = |column: &Option<usize>| column.map_or(0.0, |index| shares[index] / columns[index].devices);
    Some((value, column_of_kind.iter().map(price).collect()))
}

/// Devices with equal times.
#[derive(Debug, Clone)]
pub struct Column {
    /// Number of devices.
    pub devices: f64,
    /// Seconds of every class or unit; `None` for those that cannot run there.
    pub seconds: Vec<Option<f64>>,
}

/// The bound for given columns, before rounding, and the share of every column: the price of its seconds times its
/// number of devices. `None` without columns, or if some class cannot run anywhere.
pub fn divided(columns: &[Column]) -> Option<(f64, Vec<f64>)> {
    divided_before(columns, &Stop::never())
}

/// The bound and shares of [`divided`], with the best shares that are known when `stop` applies.
fn divided_before(columns: &[Column], stop: &Stop) -> Option<(f64, Vec<f64>)> {
    let game = Game { columns, stop };
    let shares = game.maximise()?;
    let value = game.value(&shares)?.0;
    Some((value, shares))
}

/// The bound that given shares of the columns prove, before rounding. The shares are non-negative and sum to 1. `None`
/// in the cases of [`divided`].
pub fn proved_by(columns: &[Column], shares: &[f64]) -> Option<f64> {
    Game { columns, stop: &Stop::never() }.value(shares).map(|(value, _)| value)
}

/// The bound and shares of [`divided_before`]. With many columns or classes it takes fewer rounds and is less tight.
pub(super) fn divided_quickly(columns: &[Column], stop: &Stop) -> Option<(f64, Vec<f64>)> {
    const MAX_COLUMNS: usize = 3;
    const MAX_CLASSES: usize = 1 << 12;
    let classes = columns.first().map_or(0, |column| column.seconds.len());
    match columns.len() {
        0..=2 => divided_before(columns, stop),
        ..=MAX_COLUMNS if classes <= MAX_CLASSES => divided_before(columns, stop),
        _ => Game { columns, stop }.ascend(1 << 22, 24..=100),
    }
}

fn distinct_columns(problem: &Problem, table: &[Vec<Option<f64>>]) -> (Vec<Option<usize>>, Vec<Column>) {
    let mut columns: Vec<Column> = Vec::new();
    let mut column_of_kind = Vec::new();
    for kind in 0..problem.cluster().kind_count() {
        let count = problem.cluster().kind(kind).count;
        if count == 0 {
            column_of_kind.push(None);
            continue;
        }
        let seconds: Vec<Option<f64>> = table.iter().map(|row| row[kind]).collect();
        let known = columns.iter().position(|column| column.seconds == seconds);
        let index = known.unwrap_or_else(|| {
            columns.push(Column { devices: 0.0, seconds });
            columns.len() - 1
        });
        columns[index].devices += f64::from(count);
        column_of_kind.push(Some(index));
    }
    (column_of_kind, columns)
}

/// Maximises g(s) = Σ_u min_c s_c p_uc / n_c over shares s ≥ 0 with Σ s = 1.
struct Game<'a> {
    columns: &'a [Column],
    /// Ends the rounds.
    stop: &'a Stop,
}

impl Game<'_> {
    /// g and a supergradient at the shares; `None` if a class cannot run anywhere.
    fn value(&self, shares: &[f64]) -> Option<(f64, Vec<f64>)> {
        let classes = self.columns.first().map_or(0, |column| column.seconds.len());
        // The minimum priced seconds of every class, with the column where they occur and the seconds per share there.
        // Computed column by column, in memory order.
        let mut least: Vec<Option<(f64, usize, f64)>> = vec![None; classes];
        for (index, column) in self.columns.iter().enumerate() {
            for (least, seconds) in least.iter_mut().zip(&column.seconds) {
                let Some(seconds) = seconds else { continue };
                let rate = seconds / column.devices;
                let priced = shares[index] * rate;
                if least.is_none_or(|least| priced.total_cmp(&least.0).is_lt()) {
                    *least = Some((priced, index, rate));
                }
            }
        }
        let mut total = 0.0;
        let mut gradient = vec![0.0; shares.len()];
        for least in least {
            let (priced, index, rate) = least?;
            total += priced;
            gradient[index] += rate;
        }
        Some((total, gradient))
    }

    fn maximise(&self) -> Option<Vec<f64>> {
        /// Maximum number of entries and prices that the ellipsoid method may visit, about a tenth of a second.
        const MAX_WORK: usize = 1 << 26;
        let columns = self.columns.len();
        let of_a_round = self.entries() + columns * columns;
        match columns {
            0 => None,
            1 => Some(vec![1.0]),
            2 => self.bisect(),
            _ if self.rounds().saturating_mul(of_a_round) <= MAX_WORK => self.ellipsoid(),
            _ => self.ascend(1 << 25, 24..=1000).map(|(_, shares)| shares),
        }
    }

    /// Number of times in all columns.
    fn entries(&self) -> usize {
        self.columns.iter().map(|column| column.seconds.len()).sum()
    }

    /// Number of rounds of the ellipsoid method.
    fn rounds(&self) -> usize {
        40 * self.columns.len() * self.columns.len()
    }

    /// Mirror ascent over the simplex of shares (Beck and Teboulle 2003), starting from shares in proportion to speed.
    /// Returns the best point visited. The rounds visit about `max_entries` entries in total, but their number stays
    /// within `limits`.
    fn ascend(&self, max_entries: usize, limits: std::ops::RangeInclusive<usize>) -> Option<(f64, Vec<f64>)> {
        let rounds = (max_entries / self.entries().max(1)).clamp(*limits.start(), *limits.end());
        let speeds = self.speeds();
        let mut shares: Vec<f64> =
            self.columns.iter().zip(speeds).map(|(column, speed)| column.devices * speed).collect();
        let mut best = (f64::NEG_INFINITY, Vec::new());
        for round in 1..=rounds {
            let sum: f64 = shares.iter().sum();
            shares.iter_mut().for_each(|share| *share /= sum);
            let (value, gradient) = self.value(&shares)?;
            if value > best.0 {
                best = (value, shares.clone());
            }
            let steepest = gradient.iter().copied().fold(0.0, f64::max);
            if steepest <= 0.0 {
                break;
            }
            if self.stop.reason().is_some() {
                break;
            }
            let step = 1.0 / (steepest * (round as f64).sqrt());
            for (share, slope) in shares.iter_mut().zip(gradient) {
                *share *= (step * (slope - steepest)).exp();
            }
        }
        Some(best)
    }

    /// Relative speed of each column, averaged over the classes that it runs, where the fastest column has speed 1; 1
    /// if undefined.
    fn speeds(&self) -> Vec<f64> {
        let classes = self.columns.first().map_or(0, |column| column.seconds.len());
        let least: Vec<f64> = (0..classes)
            .map(|class| {
                let seconds = self.columns.iter().filter_map(|column| column.seconds[class]);
                seconds.fold(f64::INFINITY, f64::min)
            })
            .collect();
        let speed = |column: &Column| {
            let (mut sum, mut count) = (0.0, 0usize);
            for (own, least) in column.seconds.iter().zip(&least) {
                if let Some(own) = own.filter(|&own| own > 0.0) {
                    sum += least / own;
                    count += 1;
                }
            }
            if sum > 0.0 { sum / count as f64 } else { 1.0 }
        };
        self.columns.iter().map(speed).collect()
    }

    /// For two columns: the slope of g along (s, 1 − s) changes sign at the maximum.
    fn bisect(&self) -> Option<Vec<f64>> {
        const HALVINGS: usize = 60;
        let (mut low, mut high) = (0.0, 1.0);
        let mut best = (f64::NEG_INFINITY, vec![0.5, 0.5]);
        for _ in 0..HALVINGS {
            let middle = 0.5 * (low + high);
            let shares = vec![middle, 1.0 - middle];
            let (value, gradient) = self.value(&shares)?;
            if value > best.0 {
                best = (value, shares);
            }
            if self.stop.reason().is_some() {
                break;
            }
            if gradient[0] > gradient[1] { low = middle } else { high = middle }
        }
        Some(best.1)
    }

    /// Runs the ellipsoid method over the first d = columns − 1 shares; the last share is what remains of 1.
    fn ellipsoid(&self) -> Option<Vec<f64>> {
        let d = self.columns.len() - 1;
        let even = 1.0 / (d as f64 + 1.0);
        let mut best = (f64::NEG_INFINITY, vec![even; d + 1]);
        ellipsoid::shrink(vec![even; d], &vec![1.0; d], self.rounds(), self.stop, |centre| {
            if let Some(cut) = ellipsoid::into_simplex(centre) {
                return Some(cut);
            }
            let mut shares = centre.to_vec();
            shares.push(1.0 - centre.iter().sum::<f64>());
            let (value, gradient) = self.value(&shares)?;
            if value > best.0 {
                best = (value, shares);
            }
            Some((0..d).map(|axis| gradient[axis] - gradient[d]).collect())
        })?;
        Some(best.1)
    }
}
