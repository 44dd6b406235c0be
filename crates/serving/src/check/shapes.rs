//! Shapes of replicas: the kinds of their stages, and the degrees of each (`docs/serving.md`, section "Replicas").

use stagewright_core::document::{ServingMode, ServingQuestionDocument, ServingRole};

use crate::balance::Division;
use crate::fleet::{Fleet, FleetKind, Problem};
use crate::parallel::Parallel;
use crate::replica::Replica;
use crate::request::RequestClass;
use crate::worker::{Speculation, Worker};

/// Groups of devices: kind, devices of a group, and number of groups.
pub(super) type Groups = Vec<(u32, u64, u64)>;

/// Stages in a row, all of equal degrees.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Shape {
    /// Kinds of the stages, in the order of the fleet.
    pub(super) kinds: Vec<usize>,
    /// Degrees of every stage.
    pub(super) parallel: Parallel,
}

/// Whether the question allows a role.
pub(super) fn allows(question: &ServingQuestionDocument, role: ServingRole) -> bool {
    let mode = match role {
        ServingRole::Aggregated => ServingMode::Aggregated,
        ServingRole::Prefill | ServingRole::Decode => ServingMode::Disaggregated,
    };
    question.modes.contains(&mode)
}

/// Speculative decoding of the question.
pub(super) fn speculation(problem: &Problem) -> Option<Speculation> {
    problem.question.speculation.map(Speculation::from)
}

/// Degrees of whole experts that the engine allows, in increasing order.
pub(super) fn expert_degrees(problem: &Problem, tensor: u64, data: u64, depth: usize) -> Vec<u64> {
    let devices = tensor.saturating_mul(data);
    if !problem.has_experts() || devices == 1 {
        vec![1]
    } else if depth > 1 || problem.engine.name == "vllm" {
        vec![1, devices]
    } else {
        powers(devices).filter(|degree| devices.is_multiple_of(*degree)).collect()
    }
}

/// Whether a worker of a kind finds its devices: within a server, or on whole servers.
pub(super) fn is_placeable(kind: &FleetKind, devices: u64) -> bool {
    let server = kind.device.server;
    let is_whole = devices > server && devices.is_multiple_of(server);
    let is_inside = devices.is_power_of_two() && devices <= server;
    devices > 0 && devices <= kind.count && (kind.is_one_server() || is_inside || is_whole)
}

/// Whether stages of some kinds with equal numbers of devices are one group: all of one kind, and in one server.
pub(super) fn is_together(fleet: &Fleet, kinds: &[usize], devices: u64) -> bool {
    let Some(&first) = kinds.first() else { return false };
    let Some(kind) = fleet.kinds.get(first) else { return false };
    let all = devices.saturating_mul(kinds.len() as u64);
    let fits = all.is_power_of_two() && all <= kind.device.server;
    kinds.iter().all(|&kind| kind == first) && (kind.is_one_server() || fits)
}

/// Groups of a replica whose stages have equal numbers of devices, in increasing order.
pub(super) fn groups(fleet: &Fleet, kinds: &[usize], devices: u64) -> Groups {
    if is_together(fleet, kinds, devices) {
        let all = devices.saturating_mul(kinds.len() as u64);
        return kinds.first().map(|&kind| (kind as u32, all, 1)).into_iter().collect();
    }
    let mut groups = Groups::new();
    for &kind in kinds {
        match groups.iter_mut().find(|group| group.0 as usize == kind) {
            Some(group) => group.2 += 1,
            None => groups.push((kind as u32, devices, 1)),
        }
    }
    groups.sort_unstable();
    groups
}

/// All shapes of the space. Takes time proportional to their number, which grows with the number of stages to the power of kinds.
pub(super) fn shapes(problem: &Problem) -> Vec<Shape> {
    let kinds = &problem.fleet.kinds;
    let mut shapes = Vec::new();
    for (index, kind) in kinds.iter().enumerate() {
        for tensor in powers(kind.device.server.min(kind.count)) {
            let widest = if problem.has_experts() { kind.count / tensor } else { 1 };
            for data in powers(widest).filter(|data| is_placeable(kind, tensor.saturating_mul(*data))) {
                add(problem, vec![index], (tensor, data), &mut shapes);
            }
        }
    }
    let layers = problem.model.layers.len();
    let deepest = layers.min(usize::try_from(problem.question.max_stages).unwrap_or(layers));
    let widest = kinds.iter().map(|kind| kind.device.server.min(kind.count)).max().unwrap_or(0);
    for tensor in powers(widest) {
        rows(problem, tensor, deepest, &mut Vec::new(), &mut shapes);
    }
    shapes
}

/// Pipelines that begin with some stages.
fn rows(problem: &Problem, tensor: u64, deepest: usize, begun: &mut Vec<usize>, shapes: &mut Vec<Shape>) {
    if begun.len() > 1 {
        add(problem, begun.clone(), (tensor, 1), shapes);
    }
    if begun.len() == deepest {
        return;
    }
    let first = begun.last().copied().unwrap_or(0);
    for (index, kind) in problem.fleet.kinds.iter().enumerate().skip(first) {
        let taken = begun.iter().filter(|&&other| other == index).count() as u64;
        if tensor <= kind.device.server && (taken + 1).saturating_mul(tensor) <= kind.count {
            begun.push(index);
            rows(problem, tensor, deepest, begun, shapes);
            begun.pop();
        }
    }
}

fn add(problem: &Problem, kinds: Vec<usize>, (tensor, data): (u64, u64), shapes: &mut Vec<Shape>) {
    for experts in expert_degrees(problem, tensor, data, kinds.len()) {
        let expert_tensor = tensor.saturating_mul(data) / experts;
        let parallel = Parallel { tensor, data, expert_tensor, experts };
        shapes.push(Shape { kinds: kinds.clone(), parallel });
    }
}

/// Powers of two from 1 to a number.
fn powers(largest: u64) -> impl Iterator<Item = u64> {
    (0..u64::BITS).map(|exponent| 1 << exponent).take_while(move |&power| power <= largest)
}

impl Shape {
    /// Stages with all layers each; `None` if the degrees do not fit the model.
    pub(super) fn workers<'p>(&self, problem: &'p Problem) -> Option<Vec<(usize, Worker<'p>)>> {
        self.kinds.iter().map(|&kind| Some((kind, problem.worker(kind, self.parallel)?))).collect()
    }
}

/// Divisions of layers of a pipeline in a role (`docs/serving.md`, section "Replicas").
pub(super) fn divisions(problem: &Problem, role: ServingRole, stages: usize) -> Vec<Division> {
    let mut divisions = vec![Division::Balanced];
    if problem.has_equal_layers && stages > 1 {
        return vec![Division::Equal];
    }
    if stages > 1 && role == ServingRole::Aggregated {
        divisions.push(Division::ForPrompts);
    }
    if stages > 1 && role != ServingRole::Decode {
        divisions.push(Division::Equal);
    }
    divisions
}

/// The replica of workers at a batch of a rank, which is 0 for prompts; `None` if its layers cannot be divided so that the sequences fit.
pub(super) fn replica<'p>(
    problem: &'p Problem,
    workers: &[(usize, Worker<'p>)],
    class: &RequestClass,
    batch: u64,
    division: Division,
) -> Option<Replica<'p>> {
    let [(_, worker)] = workers else { return problem.replica(workers, class, batch, division) };
    let replica = Replica::single(worker.clone());
    Some(match speculation(problem) {
        Some(speculation) => replica.with_speculation(speculation),
        None => replica,
    })
}
