//! How the stages run the batch.

use stagewright_core::document::{JointExecutionDocument, JointPlanDocument, Parallelism};

use super::experts::Experts;
use crate::joint::JointViolation;
use crate::joint::rules::Allowed;

/// Highest degree of ZeRO.
const MOST_ZERO: u64 = 3;

/// Checks the degrees and the microbatches that all stages have in common.
pub(super) fn check(
    plan: &JointPlanDocument,
    execution: &JointExecutionDocument,
    experts: &Experts,
    violations: &mut Vec<JointViolation>,
) {
    let allowed = Allowed::new(plan);
    let data = u64::from(execution.data);
    let mut require = |stage, name, found: u64, holds: Result<(), String>| {
        if let Err(needs) = holds {
            violations.push(JointViolation::Degree { stage, name, found, needs });
        }
    };
    let at_least_one = |found: u64| if found == 0 { Err("at least 1".to_owned()) } else { Ok(()) };

    let microbatch = u64::from(execution.microbatch);
    let given = match plan.objective.microbatch {
        Some(given) if given != execution.microbatch => Err(format!("{given}, as given")),
        _ => Ok(()),
    };
    require(None, "microbatch", microbatch, at_least_one(microbatch).and(given));
    let microbatches = u64::from(execution.microbatches);
    require(None, "microbatches", microbatches, at_least_one(microbatches));

    let samples = u128::from(data) * u128::from(microbatch) * u128::from(microbatches);
    let batch = plan.objective.global_batch;
    if samples != u128::from(batch) {
        let found = u64::try_from(samples).unwrap_or(u64::MAX);
        let needs = format!("{batch}: samples of microbatches of all copies");
        require(None, "global_batch", found, Err(needs));
    }

    require(None, "data", data, at_least_one(data).and(allowed.degree(Parallelism::Dp, 1, data)));
    for (at, stage) in plan.stages.iter().enumerate() {
        if stage.data != execution.data {
            let needs = format!("{data}, as in the execution");
            require(Some(at), "data", u64::from(stage.data), Err(needs));
        }
    }

    let zero = u64::from(execution.zero);
    let in_range = if zero > MOST_ZERO { Err("0 to 3".to_owned()) } else { Ok(()) };
    require(None, "zero", zero, in_range.and(allowed.degree(Parallelism::Zero, 0, zero)));

    let expert = u64::from(execution.expert);
    require(None, "expert", expert, at_least_one(expert).and(allowed.degree(Parallelism::Ep, 1, expert)));
    let divides = |whole: u64| expert == 0 || whole.is_multiple_of(expert);
    if !divides(data) {
        require(None, "expert", expert, Err(format!("a divisor of the {data} copies")));
    }
    if let Some((_, outputs)) = experts.dispatches.iter().find(|(_, outputs)| !divides(*outputs)) {
        require(None, "expert", expert, Err(format!("a divisor of the {outputs} outputs of a dispatch")));
    }
}
