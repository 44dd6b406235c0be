//! Replicas that run already and may keep their weights (`docs/serving.md`, section "From a running plan").

use stagewright_core::document::{RunningReplicaDocument, ServingMode, ServingRole, ServingSizeDocument};
use stagewright_core::tolerance::VALUE_RELATIVE;
use stagewright_serving::fleet::BUSIEST;
use stagewright_serving::{Division, Parallel, Problem};

use crate::column::Column;
use crate::pricing::{largest_batch, offer, utilisations};
use crate::shape::{Shape, groups};

/// Running replicas that are still in the space, each with its size. `shapes` are those of the space, and `found` its other replicas.
pub(crate) fn columns(
    problem: &Problem,
    shapes: &[Shape],
    found: &[(ServingSizeDocument, Column)],
) -> Vec<(ServingSizeDocument, Column)> {
    let Some(start) = &problem.question.start else { return Vec::new() };
    let slowest = |class: usize| {
        let decodes = found.iter().filter(|(_, column)| column.class == class);
        let slowest = decodes
            .filter_map(|(_, column)| column.offer.tpot.filter(|_| column.role == ServingRole::Decode));
        slowest.reduce(f64::max).map(|slowest| problem.question.tpot_s.unwrap_or(slowest))
    };
    let slowest: Vec<Option<f64>> = (0..problem.classes.len()).map(slowest).collect();
    let running = (0..).zip(&start.replicas);
    running
        .flat_map(|(index, running)| kept(problem, shapes, &slowest, (index, running)).unwrap_or_default())
        .collect()
}

/// A running replica at all its shares of time; `None` if it is not in the space. `slowest` are the seconds between tokens by class
/// that prefill counts on.
fn kept(
    problem: &Problem,
    shapes: &[Shape],
    slowest: &[Option<f64>],
    (index, running): (u32, &RunningReplicaDocument),
) -> Option<Vec<(ServingSizeDocument, Column)>> {
    let RunningReplicaDocument { role, batch, .. } = *running;
    let class = running.class.map(|class| class as usize).filter(|&class| class < problem.classes.len())?;
    let (mode, slowest) = match role {
        ServingRole::Aggregated => (ServingMode::Aggregated, f64::INFINITY),
        // Without any replica that decodes there are no pools.
        ServingRole::Prefill | ServingRole::Decode => (ServingMode::Disaggregated, slowest[class]?),
    };
    let shape = shape(problem, running).filter(|shape| shapes.contains(shape))?;
    let is_batch = (batch == 0) == (role == ServingRole::Prefill) && batch <= largest_batch(problem, &shape);
    if !is_batch || !problem.question.modes.contains(&mode) {
        return None;
    }
    // A range that goes beyond the last layer ends there in the replica.
    let replica = problem.given(&running.stages)?;
    if problem.stages(&replica, &shape.kinds) != running.stages {
        return None;
    }
    let terms = problem.terms(class, shape.kinds.iter().copied());
    let cache_tokens = terms.cache_tokens(&replica);
    let groups = groups(problem, &shape)?;
    let key = ServingSizeDocument { role, class: class as u32, groups, kept: Some(index) };
    let shares = if role == ServingRole::Prefill { utilisations(problem) } else { &[BUSIEST] };
    let column = |&busiest: &f64| {
        let offer = offer(&terms, &replica, (role, batch), (slowest, busiest))?;
        // Prefill counts the steps before the first token at the slowest decoding.
        let is_counted = role != ServingRole::Decode || offer.tpot? <= slowest * (1.0 + VALUE_RELATIVE);
        let (shape, kept) = (shape.clone(), Some(index));
        let column = Column {
            size: 0,
            role,
            class,
            shape,
            division: Division::Balanced,
            given: None,
            batch,
            offer,
            cache_tokens,
            kept,
            moved_bytes: 0.0,
        };
        is_counted.then(|| (key.clone(), column))
    };
    Some(shares.iter().filter_map(column).collect())
}

/// The shape of a running replica; `None` if the cluster lacks a kind, or its stages have unequal degrees.
fn shape(problem: &Problem, running: &RunningReplicaDocument) -> Option<Shape> {
    let first = running.stages.first()?;
    let degrees = (first.tensor, first.data, first.experts);
    let kinds = running.stages.iter().map(|stage| {
        let position = problem.fleet.kinds.iter().position(|kind| kind.name == stage.kind);
        position.filter(|_| (stage.tensor, stage.data, stage.experts) == degrees)
    });
    let (tensor, data, experts) = degrees;
    let expert_tensor = tensor.checked_mul(data)?.checked_div(experts)?;
    Some(Shape {
        kinds: kinds.collect::<Option<_>>()?,
        parallel: Parallel { tensor, data, expert_tensor, experts },
    })
}
