//! `explain --calibrate`: the runtime of a plan, with factors that a log of training gives.

use stagewright_core::document::{JointPlanDocument, RuntimeDocument};
use stagewright_costs::training::{Log, Part};
use stagewright_report::units::seconds;

use super::Joint;
use super::measured::Measured;
use super::priced::Priced;
use crate::code::U015;
use crate::failure::{Failure, Result};

/// Largest factor of a runtime.
const LARGEST: f64 = 1e6;

/// Most that the seconds under the fitted constants may differ from the measured ones, as a share.
const TOLERANCE: f64 = 0.01;

/// Halvings of an interval: enough for every digit of a number.
const HALVINGS: u32 = 100;

/// Fits the constants of a plan's runtime to a log. Parts that the log says give the factors of the runtime; the
/// seconds that are left over belong to `iteration_s`. Without parts, or if the seconds still differ, `compute` makes the
/// predicted seconds those of the log.
///
/// # Errors
/// A plan under the ideal runtime, or seconds that no factor gives (U015); otherwise as for an explanation.
pub(super) fn calibrate(
    task: &Joint,
    plan: JointPlanDocument,
    label: &str,
    log: &Log,
) -> Result<RuntimeDocument> {
    let Some(runtime) = plan.objective.runtime.clone() else {
        let option = task.place();
        return Err(Failure::new(U015, "the plan is for the ideal runtime, which has no constants to fit")
            .at(label)
            .help(format!("plan with `{} megatron`, or another that trained the model", option("runtime"))));
    };
    let priced = Priced::new(task, plan, label)?;
    let predicted = priced.predicted(label)?;
    let measured = Measured::new(&priced.plan, &predicted, log, label)?;
    let wanted = measured.iteration.measured.unwrap_or(priced.value);
    let mut fitted = RuntimeDocument {
        name: format!("{}-calibrated", runtime.name),
        source: Some(measured.source()),
        ..runtime
    };
    let price = |runtime: &RuntimeDocument| -> Result<f64> {
        let problem = priced.problem.with_runtime(runtime, &[]);
        let price = problem.and_then(|problem| problem.price(&priced.plan));
        price.map(|price| price.seconds).ok_or_else(|| {
            Failure::new(U015, "the plan has no price under the fitted constants")
                .at(label)
                .help("`check` lists every violation")
        })
    };
    if measured.has_parts() {
        scale(&mut fitted, &measured);
        let left = wanted - price(&fitted)?;
        fitted.iteration_s = (fitted.iteration_s + left).clamp(0.0, LARGEST);
    }
    if !is_near(price(&fitted)?, wanted) {
        fitted.compute = compute(&fitted, wanted, label, &price)?;
    }
    if let Some(bytes) = measured.memory.measured {
        fitted.reserve_bytes = (fitted.reserve_bytes + bytes - predicted.bytes).max(0.0);
    }
    Ok(fitted)
}

fn is_near(price: f64, wanted: f64) -> bool {
    (price / wanted - 1.0).abs() <= TOLERANCE / 100.0
}

/// Multiplies the constants of parts by what the log says of them.
fn scale(runtime: &mut RuntimeDocument, measured: &Measured) {
    let ratio = |part: Part| {
        let row = measured.parts.iter().find(|row| row.parts.contains(&part))?;
        // How long a device waits for others says nothing of what it does itself.
        let is_told = row.parts.contains(&Part::Compute) || !row.parts.contains(&Part::Bubble);
        measured.ratio(part).filter(|_| is_told)
    };
    let scaled = |constant: &mut f64, ratio: Option<f64>| {
        *constant = (*constant * ratio.unwrap_or(1.0)).min(LARGEST);
    };
    scaled(&mut runtime.compute, ratio(Part::Compute));
    scaled(&mut runtime.tensor, ratio(Part::Tensor));
    scaled(&mut runtime.exchanges, ratio(Part::Exchanges));
    scaled(&mut runtime.transfers, ratio(Part::Transfers));
    scaled(&mut runtime.copies, ratio(Part::Copies).or_else(|| ratio(Part::CopiesInPasses)));
    let is_with_compute =
        |row: &&super::measured::Row| row.parts.contains(&Part::Host) && row.parts.contains(&Part::Compute);
    if measured.parts.iter().any(|row| is_with_compute(&row)) {
        scaled(&mut runtime.host_s, ratio(Part::Host));
        scaled(&mut runtime.pipeline_host_s, ratio(Part::Host));
    }
}

/// The factor of compute under which a plan takes the wanted seconds. Seconds grow with the factor.
fn compute(
    runtime: &RuntimeDocument,
    wanted: f64,
    label: &str,
    price: &dyn Fn(&RuntimeDocument) -> Result<f64>,
) -> Result<f64> {
    let with = |compute: f64| price(&RuntimeDocument { compute, ..runtime.clone() });
    let shortest = with(0.0)?;
    if shortest > wanted {
        let bare = RuntimeDocument { compute: 0.0, host_s: 0.0, pipeline_host_s: 0.0, ..runtime.clone() };
        let bound = match price(&bare)? <= wanted {
            true => "the host (host_s and pipeline_host_s) alone takes longer",
            false => "collectives, transfers, updates and iteration_s alone take longer",
        };
        let cause = format!(
            "no factor of compute gives the {} of the log: without compute an iteration takes {}, as {bound}",
            seconds(wanted),
            seconds(shortest)
        );
        let help = "check that the log is of this plan; otherwise lower these constants in a file for `--runtime`, and \
                    plan and calibrate with it";
        return Err(Failure::new(U015, cause).at(label).help(help));
    }
    let (mut low, mut high) = (0.0, 1.0);
    while high < LARGEST && with(high)? < wanted {
        (low, high) = (high, (2.0 * high).min(LARGEST));
    }
    for _ in 0..HALVINGS {
        let middle = 0.5 * (low + high);
        if with(middle)? < wanted { low = middle } else { high = middle }
    }
    let found = with(high)?;
    if (found / wanted - 1.0).abs() > TOLERANCE {
        let cause = format!(
            "no factor of compute gives the {} of the log: with {high}, an iteration takes {}",
            seconds(wanted),
            seconds(found)
        );
        return Err(Failure::new(U015, cause).at(label).help("check that the log is of this plan"));
    }
    Ok(high)
}
