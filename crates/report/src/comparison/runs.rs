//! Runs of one contender with several seeds.
//!
//! The value of a contender is the mean over its runs with a plan. Its interval is that of Student ("The probable error of a
//! mean", Biometrika 1908): for n values of mean m and standard deviation s, taken as independent and normal, the true mean is
//! within m ± t·s/√n with 95% confidence, where t is the quantile of the t distribution with n − 1 degrees of freedom.

use serde::Serialize;
use stagewright_core::document::PlanStatus;

use super::Status;

/// Confidence of an interval.
const CONFIDENCE: f64 = 0.95;

/// One run of a contender.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Run {
    /// Seed of the run; `None` for a given plan.
    pub seed: Option<u64>,
    /// Outcome of the run.
    pub status: Status,
    /// Value in seconds; `None` without a plan.
    pub value_s: Option<f64>,
    /// Duration of the solve in seconds; `None` for a given plan.
    pub seconds: Option<f64>,
    /// Reason why there is no plan.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// Mean of some values; exactly their value if all are equal, and `None` without values.
pub(super) fn mean(values: impl Iterator<Item = f64> + Clone) -> Option<f64> {
    let first = values.clone().next()?;
    let (sum, count) = values.fold((0.0, 0.0), |(sum, count), value| (sum + (value - first), count + 1.0));
    Some(first + sum / count)
}

/// Half of the 95% interval of the mean of some values; `None` for fewer than two.
pub(super) fn half_interval(values: &[f64]) -> Option<f64> {
    let count = values.len();
    let mean = mean(values.iter().copied()).filter(|_| count >= 2)?;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    let freedom = count - 1;
    Some(quantile(freedom) * (squares / freedom as f64 / count as f64).sqrt())
}

/// Outcome of several runs: optimal if all are, feasible if at least one has a plan, infeasible if one without proves it; a
/// contender without a run is unsupported.
pub(super) fn outcome(runs: &[Run]) -> Status {
    let Some(first) = runs.first() else { return Status::Unsupported };
    let is_same = runs.iter().all(|run| run.status == first.status);
    let has_plan = runs.iter().any(|run| run.value_s.is_some());
    let infeasible = Status::Solved(PlanStatus::Infeasible);
    match has_plan {
        _ if is_same => first.status,
        true => Status::Solved(PlanStatus::Feasible),
        false if runs.iter().any(|run| run.status == infeasible) => infeasible,
        false => first.status,
    }
}

/// The t that a Student variable with `freedom` ≥ 1 degrees exceeds in absolute value with probability 5%. O(freedom).
fn quantile(freedom: usize) -> f64 {
    let (mut low, mut high) = (0.0, std::f64::consts::FRAC_PI_2);
    // The interval of angles is halved until its ends are neighbouring numbers.
    loop {
        let angle = 0.5 * (low + high);
        if angle <= low || angle >= high {
            return (freedom as f64).sqrt() * low.tan();
        }
        match within(angle, freedom) < CONFIDENCE {
            true => low = angle,
            false => high = angle,
        }
    }
}

/// The probability that a Student variable is within ±√freedom · tan(angle), by its closed form for a whole number of degrees
/// (Abramowitz and Stegun, Handbook of Mathematical Functions, 26.7.3 and 26.7.4).
fn within(angle: f64, freedom: usize) -> f64 {
    let (sine, cosine) = angle.sin_cos();
    let is_odd = freedom % 2 == 1;
    let mut term = if is_odd { cosine } else { 1.0 };
    let mut sum = 0.0;
    let mut power = usize::from(is_odd);
    while power + 2 <= freedom {
        sum += term;
        let next = power as f64 + 1.0;
        term *= cosine * cosine * next / (next + 1.0);
        power += 2;
    }
    if is_odd { std::f64::consts::FRAC_2_PI * (angle + sine * sum) } else { sine * sum }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_the_tables() {
        for (freedom, expected) in [
            (1, 12.706),
            (2, 4.303),
            (3, 3.182),
            (4, 2.776),
            (9, 2.262),
            (10, 2.228),
            (30, 2.042),
            (120, 1.980),
        ] {
            let found = quantile(freedom);
            assert!((found - expected).abs() < 6e-4, "{freedom}: {found}");
        }
    }

    #[test]
    fn an_interval_agrees_with_a_worked_example() {
        // Mean 3, standard deviation 1: 4.303 / √3.
        let half = half_interval(&[2.0, 3.0, 4.0]).expect("three values");
        assert!((half - 4.302_653 / 3f64.sqrt()).abs() < 1e-5, "{half}");
        assert_eq!(half_interval(&[0.1, 0.1, 0.1]), Some(0.0));
        assert_eq!(half_interval(&[1.0]), None);
        assert_eq!(mean([0.1; 3].into_iter()), Some(0.1));
    }

    #[test]
    fn several_outcomes_are_one() {
        let run = |status, value_s| Run { seed: Some(0), status, value_s, seconds: None, reason: None };
        let optimal = || run(Status::Solved(PlanStatus::Optimal), Some(1.0));
        let unknown = || run(Status::Solved(PlanStatus::Unknown), None);
        assert_eq!(outcome(&[optimal(), optimal()]), Status::Solved(PlanStatus::Optimal));
        assert_eq!(outcome(&[optimal(), unknown()]), Status::Solved(PlanStatus::Feasible));
        assert_eq!(outcome(&[unknown()]), Status::Solved(PlanStatus::Unknown));
        assert_eq!(outcome(&[]), Status::Unsupported);
    }
}
