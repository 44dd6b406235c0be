//! Costs that are off: their sources of error, and the worst case of a placement over all scenarios.
//!
//! A cost model is wrong in a systematic way: it predicts all matrix products too fast, or all links. Every kind of
//! operator is therefore a *source* of error, and all links together are another. If a source is off by the deviation
//! p, all its costs are (1 + p) times as high as predicted, and at most Γ sources are off at once (Bertsimas and Sim,
//! "The price of robustness", Operations Research 2004). Costs that are lower than predicted need no scenario, since a
//! load grows with every cost. Under serial communication the load of a device is a sum over the sources, ℓ = Σ_s ℓ_s,
//! so its worst case is
//!
//! ```text
//! w = ℓ + p · (the sum of the Γ largest ℓ_s)
//! ```
//!
//! Communication that overlaps makes the load a maximum of such sums. The worst case of the load is then the maximum of
//! their worst cases. The value is the maximum over devices and uplinks, and so is its worst case. This holds neither
//! for a sum of two maxima (`separate` training) nor for the iteration of a schedule, which are therefore not
//! supported.

use rustc_hash::FxHashMap;

use crate::cost::Cost;
use crate::document::{Communication, ObjectiveKind, Schedule, Training};
use crate::evaluate::Evaluation;
use crate::graph::{Graph, OpId};
use crate::id;
use crate::ids::Keyed;
use crate::objective::{Objective, PassSums, Throughput};
use crate::placement::Placement;
use crate::problem::Problem;

id! {
    /// Index of a source of error.
    pub SourceId;
}

/// How far costs may be off.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Uncertainty {
    /// Relative deviation of the costs of a source, such as 0.1 for ten percent.
    pub deviation: f64,
    /// Maximum number of sources that are off at once.
    pub budget: u32,
}

impl Uncertainty {
    /// For display, the feature of an objective for which no worst case is defined here, if any.
    pub fn unsupported(objective: &Objective) -> Option<&'static str> {
        let rules = objective.rules();
        match objective.kind() {
            ObjectiveKind::Throughput if rules.schedule != Schedule::None => Some("pipeline schedules"),
            ObjectiveKind::Throughput if rules.training == Training::Separate => {
                Some("training with separate passes")
            }
            ObjectiveKind::Throughput => None,
            _ => Some("objectives other than throughput"),
        }
    }
}

/// The sources of error of a graph: its kinds of operators, in the order of their first operators, then the links.
#[derive(Debug, Clone)]
pub struct Sources {
    /// `None` stands for operators without a kind.
    kinds: Keyed<SourceId, Option<String>>,
    of: Keyed<OpId, SourceId>,
}

impl Sources {
    /// Finds the sources in O(operators).
    pub fn new(graph: &Graph) -> Sources {
        let mut kinds = Keyed::new();
        let mut known: FxHashMap<Option<&str>, SourceId> = FxHashMap::default();
        let of = graph.operators().map(|op| {
            let kind = graph.operator(op).kind.as_deref().filter(|kind| !kind.is_empty());
            *known.entry(kind).or_insert_with(|| kinds.push(kind.map(str::to_owned)))
        });
        let of = of.collect();
        Sources { kinds, of }
    }

    /// Number of sources, the links included.
    pub fn count(&self) -> usize {
        self.kinds.len() + 1
    }

    /// The source of error to which an operator belongs.
    #[inline]
    pub fn of(&self, op: OpId) -> SourceId {
        self.of[op]
    }

    /// The source that stands for all links.
    pub fn links(&self) -> SourceId {
        SourceId::new(self.kinds.len())
    }

    /// The kind of operators that a source other than the links stands for; `None` for operators without a kind.
    pub fn kind(&self, source: SourceId) -> Option<&str> {
        self.kinds[source].as_deref()
    }

    /// Number of sources with a cost in a problem: the links, and the kinds with an operator that takes time.
    /// O(operators · pools).
    pub fn active(&self, problem: &Problem) -> usize {
        let mut active = Keyed::filled(false, self.kinds.len());
        for op in problem.graph().operators() {
            let takes_time = |pool| problem.seconds(op, pool).is_some_and(|seconds| seconds > 0.0);
            active[self.of(op)] |= (0..problem.pools().len()).any(takes_time);
        }
        active.iter().filter(|&&active| active).count() + 1
    }

    /// The problem with the costs of each source multiplied by a factor. O((kinds + groups) · (operators + tensors)).
    pub fn scaled(&self, problem: &Problem, factor: impl Fn(SourceId) -> f64) -> Problem {
        problem.scaled(|cost| match cost {
            Cost::Operator(op, _) => factor(self.of(op)),
            _ => factor(self.links()),
        })
    }
}

/// The seconds of a stage that determine its worst load.
#[derive(Debug, Clone, Copy)]
pub struct Exposed<'a> {
    /// Sums of the stage.
    pub sums: &'a PassSums,
    /// Compute seconds of the stage by source, without the links.
    pub kinds: &'a [f64],
    /// Devices that share the stage.
    pub replicas: u32,
    /// Seconds in which the replicas synchronise.
    pub synchronisation: f64,
}

/// One of the sums whose maximum is a load.
#[derive(Clone, Copy)]
struct Branch {
    nominal: f64,
    computes: bool,
    links: f64,
}

impl Exposed<'_> {
    /// The sums whose maximum is the load.
    fn branches(&self, rules: &Throughput) -> impl Iterator<Item = Branch> + use<> {
        let PassSums { compute, sent, received, synchronised } = *self.sums;
        let replicas = f64::from(self.replicas);
        let synchronisation = self.synchronisation;
        let branch = |shared: f64, computes: bool, links: f64| Branch {
            nominal: shared / replicas + synchronised + synchronisation,
            computes,
            links: links / replicas + synchronised + synchronisation,
        };
        let transfers = sent + received;
        let branches = match rules.communication {
            Communication::Serial => [Some(branch(compute + transfers, true, transfers)), None, None],
            Communication::Overlap => {
                [Some(branch(compute, true, 0.0)), Some(branch(transfers, false, transfers)), None]
            }
            Communication::Duplex => [
                Some(branch(compute, true, 0.0)),
                Some(branch(sent, false, sent)),
                Some(branch(received, false, received)),
            ],
        };
        branches.into_iter().flatten()
    }

    /// The worst load over all scenarios, in O(sources). `scratch` is overwritten.
    pub fn worst(&self, rules: &Throughput, uncertainty: Uncertainty, scratch: &mut Vec<f64>) -> f64 {
        let Uncertainty { deviation, budget } = uncertainty;
        let replicas = f64::from(self.replicas);
        let mut worst = 0.0f64;
        for branch in self.branches(rules) {
            let off = match (branch.computes, budget) {
                (_, 0) => 0.0,
                (false, _) => branch.links,
                (true, 1) => {
                    let most = self.kinds.iter().copied().fold(0.0, f64::max);
                    f64::max(most / replicas, branch.links)
                }
                (true, _) => {
                    scratch.clear();
                    scratch.extend(self.kinds.iter().map(|seconds| seconds / replicas));
                    scratch.push(branch.links);
                    scratch.sort_unstable_by(|a, b| b.total_cmp(a));
                    scratch.iter().take(budget as usize).sum()
                }
            };
            worst = worst.max(branch.nominal + deviation * off);
        }
        worst
    }

    /// The sources that are off when the load is worst, ascending. O(sources log sources).
    pub fn worst_sources(&self, rules: &Throughput, uncertainty: Uncertainty) -> Vec<SourceId> {
        let links = SourceId::new(self.kinds.len());
        let replicas = f64::from(self.replicas);
        let mut worst: Option<(f64, Vec<SourceId>)> = None;
        for branch in self.branches(rules) {
            let mut off: Vec<(SourceId, f64)> = vec![(links, branch.links)];
            if branch.computes {
                off.extend((0..).map(SourceId).zip(self.kinds.iter().map(|seconds| seconds / replicas)));
            }
            off.retain(|&(_, seconds)| seconds > 0.0);
            off.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
            off.truncate(uncertainty.budget as usize);
            let seconds: f64 = off.iter().map(|&(_, seconds)| seconds).sum();
            let value = branch.nominal + uncertainty.deviation * seconds;
            if worst.as_ref().is_none_or(|(largest, _)| value > *largest) {
                let mut sources: Vec<SourceId> = off.into_iter().map(|(source, _)| source).collect();
                sources.sort_unstable();
                worst = Some((value, sources));
            }
        }
        worst.map(|(_, sources)| sources).unwrap_or_default()
    }
}

/// The worst case of a placement over all scenarios.
#[derive(Debug, Clone, PartialEq)]
pub struct WorstCase {
    /// The value in seconds.
    pub value: f64,
    /// The sources that are off in the worst case, ascending, at most as many as the budget.
    pub sources: Vec<SourceId>,
}

/// The worst case of a placement, given its evaluation, over all scenarios, for an objective that [`Uncertainty`]
/// supports. O(operators + devices · sources).
pub fn worst_case(
    problem: &Problem,
    sources: &Sources,
    placement: &Placement,
    evaluation: &Evaluation,
    uncertainty: Uncertainty,
) -> WorstCase {
    if uncertainty.deviation == 0.0 || uncertainty.budget == 0 {
        return WorstCase { value: evaluation.value, sources: Vec::new() };
    }
    let rules = problem.objective().rules();
    let slots: FxHashMap<_, usize> = evaluation.devices.iter().map(|device| device.device).zip(0..).collect();
    let width = sources.kinds.len();
    let mut kinds = vec![0.0; width * evaluation.devices.len()];
    for op in problem.graph().operators() {
        let device = placement.device_of(op);
        let seconds = problem.seconds(op, problem.pool_of(device)).unwrap_or(0.0);
        kinds[slots[&device] * width + sources.of(op).index()] += seconds;
    }
    let mut scratch = Vec::new();
    let mut worst = WorstCase { value: 0.0, sources: vec![sources.links()] };
    for (device, kinds) in evaluation.devices.iter().zip(kinds.chunks(width.max(1))) {
        let sums = &device.sums[0];
        let exposed = Exposed {
            sums,
            kinds,
            replicas: device.replicas,
            synchronisation: device.synchronised - sums.synchronised,
        };
        let value = exposed.worst(&rules, uncertainty, &mut scratch);
        if value > worst.value {
            worst = WorstCase { value, sources: exposed.worst_sources(&rules, uncertainty) };
        }
    }
    for uplink in &evaluation.uplinks {
        let value = (1.0 + uncertainty.deviation) * (uplink[0] + uplink[1]);
        if value > worst.value {
            worst = WorstCase { value, sources: vec![sources.links()] };
        }
    }
    worst
}
