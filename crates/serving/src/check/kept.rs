//! Replicas that run already and keep their weights (`docs/serving.md`, section "From a running plan").

use stagewright_core::document::{
    ReplicaDocument, RunningReplicaDocument, ServingPlanDocument, ServingRole, ServingSizeDocument,
};

use super::replicas::{Stated, found};
use super::report::Findings;
use super::space::{Column, Size, Space};
use crate::fleet::{BUSIEST, Problem, UTILISATIONS};

/// Adds a size for every running replica that is still in the space, of at most as many replicas as run. Those that decode slower than
/// prefill counts on are not.
pub(super) fn extend(problem: &Problem, space: &mut Space) {
    let Some(start) = &problem.question.start else { return };
    let running = (0..).zip(&start.replicas);
    let sizes: Vec<Size> =
        running.filter_map(|(index, replica)| size(problem, space, index, replica)).collect();
    space.sizes.extend(sizes);
    space.sizes.sort_by_cached_key(|size| (size.role, size.class, size.groups.clone(), size.kept));
}

/// The size of a running replica; `None` if it is not in the space.
fn size(problem: &Problem, space: &Space, index: u32, running: &RunningReplicaDocument) -> Option<Size> {
    let RunningReplicaDocument { role, batch, .. } = *running;
    let class = running.class?;
    if role != ServingRole::Aggregated {
        // Without any replica that decodes there are no pools.
        space.steps.get(class as usize).copied().flatten()?;
    }
    let stated = Stated { role, class, stages: &running.stages, batch };
    let shares = match problem.question.concurrency {
        Some(_) if role == ServingRole::Prefill => &UTILISATIONS[..],
        _ => &[BUSIEST],
    };
    // Faults of running replicas are no faults of a plan.
    let offered = shares.iter().filter_map(|&busiest| {
        let mut findings = Findings::default();
        let found = found(problem, space, ("", stated), busiest, &mut findings)?;
        (!findings.is_broken).then_some(found)
    });
    let offered: Vec<_> = offered.collect();
    let groups = offered.first()?.groups.clone();
    let columns = offered.into_iter().map(|found| Column {
        rate: found.offer.rate,
        in_flight: found.offer.in_flight,
        tokens: if role == ServingRole::Prefill { 0 } else { found.tokens },
        moved: 0.0,
    });
    let document = ServingSizeDocument { role, class, groups, kept: Some(index) };
    let mut size = Size::new(&problem.fleet, document, columns.collect());
    size.most = size.most.min(running.count);
    Some(size)
}

/// Checks that a plan keeps no replica that does not run.
pub(super) fn judge(problem: &Problem, plan: &ServingPlanDocument, findings: &mut Findings) {
    let running = problem.question.start.as_ref().map_or(&[][..], |start| &start.replicas);
    let mut kept = vec![0_u64; running.len()];
    for (index, replica) in plan.replicas.iter().enumerate().filter(|(_, replica)| replica.kept > 0) {
        let place = format!("replicas[{index}].kept");
        if replica.kept > replica.count {
            let message = format!("{} of {} replicas are kept", replica.kept, replica.count);
            findings.broken("kept", &place, message);
        }
        let Some(number) = running.iter().position(|running| is_same(running, replica)) else {
            findings.broken("kept", &place, "no such replica runs");
            continue;
        };
        kept[number] = kept[number].saturating_add(replica.kept);
        if kept[number] > running[number].count {
            let message = format!("{} are kept, and {} run", kept[number], running[number].count);
            findings.broken("kept", &place, message);
        }
    }
}

fn is_same(running: &RunningReplicaDocument, replica: &ReplicaDocument) -> bool {
    (running.role, running.class, running.batch) == (replica.role, Some(replica.class), replica.batch)
        && running.stages == replica.stages
}
