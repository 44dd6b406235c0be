//! How the stages run the batch.

use stagewright_core::document::{
    ContextExchange, JointExecutionDocument, JointPlanDocument, Parallelism, Schedule,
};

use super::context::Limits;
use super::experts::Experts;
use crate::joint::JointViolation;
use crate::joint::rules::{self, Allowed};

/// Highest degree of ZeRO.
pub(super) const MOST_ZERO: u64 = 3;

/// Checks the degrees and microbatches common to all stages.
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
    for (index, stage) in plan.stages.iter().enumerate() {
        if stage.data != execution.data {
            let needs = format!("{data}, as in the execution");
            require(Some(index), "data", u64::from(stage.data), Err(needs));
        }
    }

    let zero = u64::from(execution.zero);
    let in_range = if zero > MOST_ZERO { Err("0 to 3".to_owned()) } else { Ok(()) };
    require(None, "zero", zero, in_range.and(allowed.degree(Parallelism::Zero, 0, zero)));

    let (expert, copies) = (u64::from(execution.expert), copies(execution));
    require(None, "expert", expert, at_least_one(expert).and(allowed.degree(Parallelism::Ep, 1, expert)));
    if expert > 0 && !copies.is_multiple_of(expert) {
        require(None, "expert", expert, Err(format!("a divisor of the {copies} copies")));
    }
    require(None, "expert", expert, experts.allow(expert));

    let shards = execution.shards.map_or(copies, u64::from);
    require(None, "shards", shards, allow_shards(allowed, execution));

    let offload = u64::from(execution.offload);
    require(None, "offload", offload, allowed.degree(Parallelism::Offload, 0, offload));
}

/// Number of copies of the states outside experts.
pub(super) fn copies(execution: &JointExecutionDocument) -> u64 {
    u64::from(execution.data) * u64::from(execution.context)
}

/// Checks the number of copies that divide states among themselves. The error states the requirement.
pub(super) fn allow_shards(allowed: Allowed, execution: &JointExecutionDocument) -> Result<(), String> {
    let copies = copies(execution);
    let may_be_fewer = execution.zero > 0 && execution.expert == 1;
    let found = execution.shards.map(u64::from);
    // As many copies as there are, or more, are all of them, and so is any number that divides no states.
    let given =
        allowed.given(Parallelism::Shard).map(u64::from).filter(|&given| may_be_fewer && given < copies);
    match (found, given) {
        (None, None) => Ok(()),
        (None, Some(given)) => Err(format!("{given}, as given")),
        (Some(_), _) if !allowed.has(Parallelism::Shard) => Err("absent without shard".to_owned()),
        (Some(_), _) if execution.zero == 0 => Err("absent without ZeRO".to_owned()),
        (Some(_), _) if execution.expert != 1 => Err("absent with expert parallelism".to_owned()),
        (Some(found), Some(given)) if found != given => Err(format!("{given}, as given")),
        (Some(found), _) if found <= 1 || found >= copies || !copies.is_multiple_of(found) => {
            Err(format!("a divisor of the {copies} copies, above 1 and below {copies}"))
        }
        (Some(_), None) if allowed.given(Parallelism::Shard).is_some() => {
            Err("absent, since the given number is that of all copies".to_owned())
        }
        (Some(_), _) => Ok(()),
    }
}

/// Checks the degree of context parallelism, and the exchange that it requires.
pub(super) fn check_context(
    plan: &JointPlanDocument,
    execution: &JointExecutionDocument,
    limits: &Limits,
    violations: &mut Vec<JointViolation>,
) {
    let found = u64::from(execution.context);
    let allowed = Allowed::new(plan).degree(Parallelism::Cp, 1, found);
    let holds = if found == 0 { Err("at least 1".to_owned()) } else { allowed.and(limits.allow(found)) };
    if let Err(needs) = holds {
        violations.push(JointViolation::Degree { stage: None, name: "context", found, needs });
    }
    let needs = match (execution.exchange, execution.context > 1) {
        (None, true) => "ring or all-to-all with context parallelism",
        (Some(_), false) => "absent without context parallelism",
        _ => return,
    };
    violations.push(JointViolation::Exchange { found: execution.exchange.map(ContextExchange::name), needs });
}

/// Checks the schedule, and the number of stages per device that it requires.
pub(super) fn check_schedule(
    plan: &JointPlanDocument,
    execution: &JointExecutionDocument,
    violations: &mut Vec<JointViolation>,
) {
    let found = execution.schedule;
    let allowed = schedules(plan);
    if !allowed.contains(&found) {
        let names: Vec<&str> = allowed.iter().map(|&schedule| name(schedule)).collect();
        let needs = if names.is_empty() { "one of joint plans".to_owned() } else { names.join(" or ") };
        violations.push(JointViolation::Schedule { found: name(found), needs });
    }
    let chunks = u64::from(execution.chunks);
    let mut wrong = |name, found, needs| {
        violations.push(JointViolation::Degree { stage: None, name, found, needs });
    };
    let is_folded = found == Schedule::DualPipeV;
    if found != Schedule::Interleaved && !is_folded {
        if chunks != 1 {
            wrong("chunks", chunks, "1 but under the schedules interleaved and dualpipe-v".to_owned());
        }
        return;
    }
    if let Some(given) = plan.objective.chunks.filter(|given| *given != execution.chunks) {
        wrong("chunks", chunks, format!("{given}, as given"));
    }
    if chunks < 2 || (is_folded && chunks > 2) {
        let needs =
            if is_folded { "2 under dualpipe-v" } else { "at least 2 under the interleaved schedule" };
        wrong("chunks", chunks, needs.to_owned());
        return;
    }
    let (stages, devices) = (plan.stages.len() as u64, rules::pipeline(plan) as u64);
    if !stages.is_multiple_of(chunks) || devices < 2 {
        wrong("stages", stages, format!("{chunks} on each of at least two devices"));
        return;
    }
    let microbatches = u64::from(execution.microbatches);
    if is_folded && microbatches < 2 * devices {
        wrong("microbatches", microbatches, format!("at least two for each of {devices} devices"));
    }
    if !is_folded && !microbatches.is_multiple_of(devices) {
        wrong("microbatches", microbatches, format!("a multiple of the {devices} devices of a pipeline"));
    }
    if plan.stages.iter().any(|stage| !stage.mixed.is_empty() || stage.kind != plan.stages[0].kind) {
        let why = format!("the stages of a pipeline under {} are on more than one kind", name(found));
        violations.push(JointViolation::Stages { why });
    }
}

/// The schedules that a plan may have: the schedules of the objective that joint plans support.
pub(super) fn schedules(plan: &JointPlanDocument) -> Vec<Schedule> {
    let asked = &plan.objective.schedules;
    [
        Schedule::OneFOneB,
        Schedule::Interleaved,
        Schedule::ZeroBubble,
        Schedule::ZeroBubbleTwice,
        Schedule::DualPipeV,
    ]
    .into_iter()
    .filter(|schedule| asked.contains(schedule) || asked.is_empty() && *schedule == Schedule::OneFOneB)
    .collect()
}

/// The name of a schedule in documents.
fn name(schedule: Schedule) -> &'static str {
    match schedule {
        Schedule::None => "none",
        Schedule::GPipe => "gpipe",
        Schedule::OneFOneB => "1f1b",
        Schedule::Interleaved => "interleaved",
        Schedule::ZeroBubble => "zero-bubble",
        Schedule::ZeroBubbleTwice => "zero-bubble-2p",
        Schedule::DualPipeV => "dualpipe-v",
    }
}
