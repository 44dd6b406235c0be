//! Shapes of replicas: the kinds of their stages, and their degrees (`docs/serving.md`, section "Replicas").

use stagewright_serving::{Parallel, Problem};

/// Stages with one choice of degrees.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shape {
    /// Kinds of the stages, in the order of the cluster.
    pub kinds: Vec<usize>,
    /// Degrees of every stage.
    pub parallel: Parallel,
}

/// Every shape that the model allows and for which there are devices.
pub(crate) fn shapes(problem: &Problem) -> Vec<Shape> {
    let fleet = &problem.fleet;
    let deepest = problem.question.max_stages.min(problem.model.layers.len() as u32) as usize;
    let mut shapes = Vec::new();
    let largest = fleet.kinds.iter().map(|kind| kind.count.min(kind.device.server)).max().unwrap_or(0);
    for tensor in powers(largest) {
        for data in powers(if problem.has_experts() { fleet.devices() } else { 1 }) {
            for experts in expert_groups(problem, tensor * data) {
                let parallel = Parallel { tensor, data, expert_tensor: tensor * data / experts, experts };
                let can_chain = data == 1 && (experts == 1 || experts == tensor);
                let depth = if can_chain { deepest } else { 1 };
                let mut kinds = Vec::new();
                chains(problem, parallel, depth, &mut kinds, &mut shapes);
            }
        }
    }
    shapes
}

/// Powers of two up to a number.
fn powers(largest: u64) -> impl Iterator<Item = u64> {
    (0..u64::BITS).map(|exponent| 1_u64 << exponent).take_while(move |&power| power <= largest)
}

/// Numbers of groups of experts among devices.
fn expert_groups(problem: &Problem, devices: u64) -> Vec<u64> {
    if !problem.has_experts() {
        return vec![1];
    }
    if problem.engine.name == "vllm" {
        return if devices == 1 { vec![1] } else { vec![1, devices] };
    }
    powers(devices).filter(|&groups| devices.is_multiple_of(groups)).collect()
}

/// Adds the shapes that begin with stages of some kinds, with up to `depth` stages in all.
fn chains(
    problem: &Problem,
    parallel: Parallel,
    depth: usize,
    kinds: &mut Vec<usize>,
    shapes: &mut Vec<Shape>,
) {
    if kinds.len() == depth {
        return;
    }
    for kind in kinds.last().copied().unwrap_or(0)..problem.fleet.kinds.len() {
        let entry = &problem.fleet.kinds[kind];
        let used = kinds.iter().filter(|&&other| other == kind).count() as u64 + 1;
        let is_possible = parallel.tensor <= entry.device.server
            && parallel.devices().saturating_mul(used) <= entry.count
            && problem.worker(kind, parallel).is_some();
        if !is_possible {
            continue;
        }
        kinds.push(kind);
        let shape = Shape { kinds: kinds.clone(), parallel };
        if groups(problem, &shape).is_some() {
            shapes.push(shape);
        }
        chains(problem, parallel, depth, kinds, shapes);
        kinds.pop();
    }
}

/// Groups of devices of a shape, each of which stays in a server or takes whole servers; `None` if one can do neither.
pub(crate) fn groups(problem: &Problem, shape: &Shape) -> Option<Vec<(u32, u64, u64)>> {
    let first = shape.kinds[0];
    let is_one_kind = shape.kinds.iter().all(|&kind| kind == first);
    let total = shape.parallel.devices() * shape.kinds.len() as u64;
    if is_one_kind && problem.fleet.is_inside(first, total) {
        return Some(vec![(first as u32, total, 1)]);
    }
    let mut groups: Vec<(u32, u64, u64)> = Vec::new();
    let devices = shape.parallel.devices();
    for &kind in &shape.kinds {
        let entry = &problem.fleet.kinds[kind];
        let server = entry.device.server;
        let has_place = entry.is_one_server()
            || (devices <= server && devices.is_power_of_two())
            || devices.is_multiple_of(server);
        if !has_place {
            return None;
        }
        match groups.last_mut() {
            Some((known, _, count)) if *known == kind as u32 => *count += 1,
            _ => groups.push((kind as u32, devices, 1)),
        }
    }
    Some(groups)
}
