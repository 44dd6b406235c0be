//! Replicas of a plan: whether they are in the space, and whether their figures are right.

use stagewright_core::document::{ReplicaDocument, ServingRole, ServingStageDocument};
use stagewright_core::tolerance;

use super::moves::weights;
use super::report::Findings;
use super::shapes::{Groups, allows, expert_degrees, groups, is_placeable, is_together, speculation};
use super::space::{Space, largest_batch, offer};
use super::totals::Part;
use crate::fleet::{BUSIEST, Offer, Problem};
use crate::parallel::Parallel;
use crate::replica::Replica;

/// A replica without figures.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stated<'d> {
    pub(super) role: ServingRole,
    pub(super) class: u32,
    pub(super) stages: &'d [ServingStageDocument],
    pub(super) batch: u64,
}

/// Figures of a replica of the space.
pub(super) struct Found {
    pub(super) offer: Offer,
    pub(super) tokens: u64,
    pub(super) groups: Groups,
    /// Bytes of its weights.
    pub(super) bytes: f64,
}

/// Checks a replica of a plan; `None` if it is not in the space.
pub(super) fn part(
    problem: &Problem,
    space: &Space,
    (place, document): (&str, &ReplicaDocument),
    findings: &mut Findings,
) -> Option<Part> {
    let ReplicaDocument { role, class, batch, .. } = *document;
    if document.count == 0 {
        findings.broken("replica", place, "there are 0 of these replicas");
    }
    let stated = Stated { role, class, stages: &document.stages, batch };
    // A replica may read prompts in a smaller share of its time than the queue allows.
    let busiest = document.utilisation.unwrap_or(BUSIEST);
    let found = found(problem, space, (place, stated), busiest, findings)?;
    figures(place, document, &found.offer, found.tokens, findings);
    Some(Part {
        role,
        class: class as usize,
        count: document.count,
        groups: found.groups,
        rate: found.offer.rate,
        in_flight: found.offer.in_flight,
        tokens: found.tokens,
        moved: found.bytes * document.count.saturating_sub(document.kept) as f64,
    })
}

/// Figures of a replica that reads prompts in at most the share `busiest` of its time; `None` if it is not in the space.
pub(super) fn found(
    problem: &Problem,
    space: &Space,
    (place, document): (&str, Stated<'_>),
    busiest: f64,
    findings: &mut Findings,
) -> Option<Found> {
    let question = &problem.question;
    let class = document.class as usize;
    let before = findings.violations.len();
    if !allows(question, document.role) {
        let message = format!("the question does not allow the role `{}`", document.role.name());
        findings.broken("replica", place, message);
    }
    if class >= problem.classes.len() {
        let message = format!("there is no class {class} among {}", problem.classes.len());
        findings.broken("replica", place, message);
    }
    let (is_prefill, batch) = (document.role == ServingRole::Prefill, document.batch);
    let data = document.stages.first().map_or(1, |stage| stage.data);
    let is_batch = (batch == 0) == is_prefill && batch <= largest_batch(question, data);
    if !is_batch {
        let message = format!("the batch of a replica for `{}` is {batch}", document.role.name());
        findings.broken("replica", place, message);
    }
    if document.stages.is_empty() || document.stages.len() as u64 > u64::from(question.max_stages) {
        let message =
            format!("the replica has {} stages of 1 to {}", document.stages.len(), question.max_stages);
        findings.broken("replica", place, message);
    }
    let kinds = stages(problem, place, document.stages, findings);
    if findings.violations.len() > before {
        return None;
    }
    let (kinds, step) = (kinds?, space.steps.get(class).copied().flatten());
    let replica = replica(problem, (place, document.stages), &kinds, findings)?;
    let terms = problem.terms(class, kinds.iter().copied());
    let longest = if is_prefill { terms.class.input } else { terms.class.longest() };
    let largest = replica.largest_batch(longest);
    if largest < batch.max(1) {
        findings.broken(
            "memory",
            place,
            format!("a batch of {} needs more memory than {largest}", batch.max(1)),
        );
        return None;
    }
    if is_prefill && step.is_none() {
        findings.broken("pools", place, "no replica decodes its class within the limits");
        return None;
    }
    let step = step.unwrap_or(f64::INFINITY);
    let Some(offer) = offer(&terms, document.role, &replica, batch, (step, busiest)) else {
        findings.broken("limit", place, "its times are above the limits of the question");
        return None;
    };
    // Prefill counts the steps before the first token at the slowest decoding, so no decode replica may be slower.
    if document.role == ServingRole::Decode
        && offer.tpot.is_some_and(|tpot| tpot > step * (1.0 + tolerance::VALUE_RELATIVE))
    {
        let message =
            format!("it takes {:?} seconds between tokens, and prefill counts on {step}", offer.tpot);
        findings.broken("pools", place, message);
    }
    let devices = document.stages.first()?.tensor.saturating_mul(document.stages.first()?.data);
    Some(Found {
        offer,
        tokens: terms.cache_tokens(&replica),
        groups: groups(&problem.fleet, &kinds, devices),
        bytes: weights(&replica),
    })
}

/// Kinds of stages, whose degrees it checks; `None` if a kind is unknown.
fn stages(
    problem: &Problem,
    place: &str,
    stages: &[ServingStageDocument],
    findings: &mut Findings,
) -> Option<Vec<usize>> {
    let mut kinds: Vec<usize> = Vec::new();
    let first = stages.first()?;
    for (index, stage) in stages.iter().enumerate() {
        let place = format!("{place}.stages[{index}]");
        let Some(number) = problem.fleet.kinds.iter().position(|kind| kind.name == stage.kind) else {
            findings.broken("replica", place, format!("the fleet has no kind `{}`", stage.kind));
            return None;
        };
        if kinds.last().is_some_and(|last| *last > number) {
            let message = format!("kind `{}` comes before the one of the stage before", stage.kind);
            findings.broken("replica", &place, message);
        }
        kinds.push(number);
        let kind = &problem.fleet.kinds[number];
        let ServingStageDocument { tensor, data, experts, .. } = *stage;
        if (tensor, data, experts) != (first.tensor, first.data, first.experts) {
            findings.broken("replica", &place, "its degrees are not those of the first stage");
        }
        if !tensor.is_power_of_two() || tensor > kind.device.server {
            let message = format!("tensor degree {tensor} is no power of two up to {}", kind.device.server);
            findings.broken("replica", &place, message);
        }
        if !data.is_power_of_two() || (data > 1 && (stages.len() > 1 || !problem.has_experts())) {
            findings.broken("replica", &place, format!("data degree {data} is not in the space"));
        }
        if !expert_degrees(problem, tensor, data, stages.len()).contains(&experts) {
            findings.broken("replica", &place, format!("expert degree {experts} is not in the space"));
        }
        let devices = tensor.saturating_mul(data);
        if !is_placeable(kind, devices) {
            let message = format!("{devices} devices of kind `{}` are not one group", stage.kind);
            findings.broken("replica", &place, message);
        }
    }
    Some(kinds)
}

/// The replica of stages whose degrees are in the space; `None` if it holds not all layers in order, or degrees do not fit the model.
fn replica<'p>(
    problem: &'p Problem,
    (place, stages): (&str, &[ServingStageDocument]),
    kinds: &[usize],
    findings: &mut Findings,
) -> Option<Replica<'p>> {
    let layers = problem.model.layers.len() as u64;
    let (mut next, mut workers) = (0, Vec::with_capacity(stages.len()));
    for (index, (stage, &kind)) in stages.iter().zip(kinds).enumerate() {
        let place = format!("{place}.stages[{index}]");
        let (first, count) = (u64::from(stage.first), u64::from(stage.layers));
        if first != next || count == 0 || first + count > layers {
            let message =
                format!("it has {count} layers from {first} on, and layer {next} of {layers} comes next");
            findings.broken("layers", place, message);
            return None;
        }
        next = first + count;
        let ServingStageDocument { tensor, data, experts, .. } = *stage;
        let expert_tensor = tensor.saturating_mul(data) / experts.max(1);
        let Some(worker) = problem.worker(kind, Parallel { tensor, data, expert_tensor, experts }) else {
            findings.broken("replica", place, "its degrees do not divide heads or experts of the model");
            return None;
        };
        workers.push(worker.with_layers(first as usize..next as usize));
    }
    if next != layers {
        findings.broken("layers", place, format!("its stages hold {next} of {layers} layers"));
        return None;
    }
    let devices = stages.first().map_or(0, |stage| stage.tensor.saturating_mul(stage.data));
    let is_inside = is_together(&problem.fleet, kinds, devices);
    let pairs = kinds.iter().zip(kinds.iter().skip(1));
    let links = pairs.map(|(&left, &right)| problem.fleet.link(left, right, is_inside)).collect();
    match Replica::new(place, workers, links) {
        Ok(replica) => Some(match speculation(problem) {
            Some(speculation) => replica.with_speculation(speculation),
            None => replica,
        }),
        Err(error) => {
            findings.broken("layers", place, error.to_string());
            None
        }
    }
}

/// Compares the figures of a replica with those of the cost model.
fn figures(place: &str, document: &ReplicaDocument, offer: &Offer, tokens: u64, findings: &mut Findings) {
    let figures = [
        ("requests_per_s", Some(document.requests_per_s), Some(offer.rate)),
        ("ttft_s", document.ttft_s, offer.ttft),
        ("tpot_s", document.tpot_s, offer.tpot),
        ("utilisation", document.utilisation, offer.utilisation),
    ];
    for (name, stated, found) in figures {
        figure(&format!("{place}.{name}"), stated, found, findings);
    }
    if document.cache_tokens != tokens {
        let message = format!("{} is stated, and {tokens} is right", document.cache_tokens);
        findings.wrong("figure", format!("{place}.cache_tokens"), message);
    }
}

/// Compares a stated figure with the right one.
pub(super) fn figure(place: &str, stated: Option<f64>, found: Option<f64>, findings: &mut Findings) {
    let is_right = match (stated, found) {
        (None, None) => true,
        (Some(stated), Some(found)) => tolerance::same(stated, found),
        _ => false,
    };
    if !is_right {
        let shown = |figure: Option<f64>| figure.map_or("null".into(), |figure| figure.to_string());
        findings.wrong(
            "figure",
            place,
            format!("{} is stated, and {} is right", shown(stated), shown(found)),
        );
    }
}
