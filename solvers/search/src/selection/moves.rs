//! Moves of units between devices, of all units of one device to another, and changes of the number of replicas.
//!
//! Stages keep their replicas under the contiguous split. Under the other splits a plan with replicas loses them: only an order
//! of stages has replicas, and a split without one is not a pipeline.

use std::collections::BTreeMap;

use stagewright_core::calls::assign_if_missing;
use stagewright_core::cluster::DeviceId;
use stagewright_core::contraction::{UnitId, Units};
use stagewright_core::document::ObjectiveKind;
use stagewright_core::evaluate::{Evaluation, evaluate};
use stagewright_core::ids::Keyed;
use stagewright_core::placement::Placement;
use stagewright_core::problem::Problem;
use stagewright_core::solver::{Plan, Stop};

use super::aim::Aim;

/// Maximum number of operators and tensors evaluated in all moves, which takes a few seconds.
const MOST_WORK: usize = 40_000_000;

/// The placement of units on devices: in pipeline order, with calls, or with the priorities of another placement, as the
/// objective needs, and without replicas.
pub(super) fn placed(
    problem: &Problem,
    units: &Units,
    device_of: &Keyed<UnitId, DeviceId>,
    like: Option<&Placement>,
) -> Placement {
    let by_operator: Vec<DeviceId> =
        problem.graph().operators().map(|op| device_of[units.unit_of(op)]).collect();
    match (problem.objective().kind(), like) {
        (ObjectiveKind::Makespan, Some(like)) => {
            Placement::with_priority(by_operator, like.priority().to_vec())
        }
        (ObjectiveKind::Latency, _) => assign_if_missing(problem, Placement::new(by_operator)),
        _ => Placement::in_pipeline_order(problem, by_operator),
    }
}

/// Rank of a plan: broken constraints, distance from the requirements, value above the limit, second goal above its limit,
/// measure, value. Smaller ranks are better, in this order.
type Rank = (usize, u64, f64, f64, f64, f64);

fn rank(problem: &Problem, aim: Aim<'_>, evaluation: &Evaluation) -> Rank {
    let over = if aim.is_within(evaluation) { 0.0 } else { evaluation.value / aim.limit };
    let (excess, measure) = (aim.excess(problem, evaluation), aim.measure.of(problem, evaluation));
    let shortfall = aim.shortfall(problem, evaluation);
    (evaluation.violations.len(), shortfall, over, excess, measure, evaluation.value)
}

/// Improves a plan until no move helps, the work limit is reached, or the solve has to stop. The plan need not meet the
/// aim; `None` if no plan on the way meets it.
pub(super) fn improve(
    problem: &Problem,
    units: &Units,
    aim: Aim<'_>,
    start: &Plan,
    stop: &Stop,
) -> Option<Plan> {
    let graph = problem.graph();
    let device_of: Keyed<UnitId, DeviceId> =
        units.ids().map(|unit| start.placement.device_of(units.members(unit)[0])).collect();
    let replicas = problem.cluster().devices().map(|device| start.placement.replicas(device)).collect();
    let first = rank(problem, aim, &start.evaluation);
    let moves = MOST_WORK / (graph.operator_count() + graph.tensor_count()).max(1);
    let mut walk = Walk {
        problem,
        units,
        aim,
        stop,
        like: &start.placement,
        device_of,
        replicas,
        rank: first,
        best: start.clone(),
        moves,
    };
    while walk.round() {}
    let is_met = walk.best.evaluation.is_feasible() && aim.is_met(problem, &walk.best.evaluation);
    is_met.then_some(walk.best)
}

struct Walk<'a> {
    problem: &'a Problem,
    units: &'a Units,
    aim: Aim<'a>,
    stop: &'a Stop,
    /// A placement whose priorities the plans keep.
    like: &'a Placement,
    device_of: Keyed<UnitId, DeviceId>,
    /// Number of devices that run the stage of each device, if it has operators.
    replicas: Keyed<DeviceId, u32>,
    rank: Rank,
    best: Plan,
    /// Evaluations that remain.
    moves: usize,
}

impl Walk<'_> {
    /// Tries every move once. Returns whether one helped and the search may go on.
    fn round(&mut self) -> bool {
        let before = self.rank;
        let mut targets = self.targets();
        for unit in self.units.ids() {
            if self.stop.reason().is_some() {
                return false;
            }
            for device in targets.clone() {
                let from = self.device_of[unit];
                if from == device || !self.units.supported(unit, self.problem.pool_of(device)) {
                    continue;
                }
                self.device_of[unit] = device;
                match self.is_better() {
                    None => return false,
                    Some(true) => targets = self.targets(),
                    Some(false) => self.device_of[unit] = from,
                }
            }
        }
        for source in targets {
            let members: Vec<UnitId> =
                self.units.ids().filter(|&unit| self.device_of[unit] == source).collect();
            for target in self.targets() {
                let pool = self.problem.pool_of(target);
                let is_supported = members.iter().all(|&unit| self.units.supported(unit, pool));
                if source == target || members.is_empty() || !is_supported {
                    continue;
                }
                let device_of = self.device_of.clone();
                members.iter().for_each(|&unit| self.device_of[unit] = target);
                match self.is_better() {
                    None => return false,
                    Some(true) => break,
                    Some(false) => self.device_of = device_of,
                }
            }
        }
        self.replicate().is_some() && self.rank < before
    }

    /// Tries every stage with one replica less and one more, and all stages without replicas; `None` at the end of the search.
    fn replicate(&mut self) -> Option<()> {
        let rules = self.problem.objective().rules();
        if rules.max_replicas == 1 || self.placement().stages().is_empty() {
            return Some(());
        }
        let single = Keyed::filled(1, self.replicas.len());
        let before = std::mem::replace(&mut self.replicas, single);
        if !self.is_better()? {
            self.replicas = before;
        }
        for device in self.placement().used() {
            let replicas = self.replicas[device];
            for changed in [replicas - 1, replicas + 1] {
                if (1..=rules.max_replicas).contains(&changed) {
                    self.replicas[device] = changed;
                    match self.is_better()? {
                        true => break,
                        false => self.replicas[device] = replicas,
                    }
                }
            }
        }
        Some(())
    }

    /// The placement of the current devices and replicas.
    fn placement(&self) -> Placement {
        let placement = placed(self.problem, self.units, &self.device_of, Some(self.like));
        let stages = placement.stages().iter().map(|&device| (device, self.replicas[device]));
        let replicas: BTreeMap<DeviceId, u32> = stages.filter(|&(_, replicas)| replicas > 1).collect();
        if replicas.is_empty() {
            return placement;
        }
        let device_of = self.problem.graph().operators().map(|op| placement.device_of(op)).collect();
        Placement::with_stages(device_of, placement.stages().to_vec(), replicas)
    }

    /// The devices in use, and the first unused one of each pool.
    fn targets(&self) -> Vec<DeviceId> {
        let mut is_used = Keyed::filled(false, self.problem.cluster().device_count());
        self.device_of.iter().for_each(|&device| is_used[device] = true);
        let mut targets = Vec::new();
        for pool in self.problem.pools() {
            targets.extend(pool.devices.iter().copied().filter(|&device| is_used[device]));
            targets.extend(pool.devices.iter().copied().find(|&device| !is_used[device]));
        }
        targets
    }

    /// Whether the current devices make a better plan, which is then kept; `None` at the end of the search.
    fn is_better(&mut self) -> Option<bool> {
        if self.moves == 0 || self.stop.reason().is_some() {
            return None;
        }
        self.moves -= 1;
        let placement = self.placement();
        let evaluation = evaluate(self.problem, &placement);
        let rank = rank(self.problem, self.aim, &evaluation);
        let is_better = rank < self.rank;
        if is_better {
            self.rank = rank;
            self.best = Plan { placement, evaluation };
        }
        Some(is_better)
    }
}
