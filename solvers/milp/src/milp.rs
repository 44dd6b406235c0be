//! The integer programs as a solver: cut nets for throughput, calls for latency.

use stagewright_core::cluster::DeviceId;
use stagewright_core::contraction::{UnitId, Units};
use stagewright_core::document::{ObjectiveKind, Split};
use stagewright_core::objective::Objective;
use stagewright_core::placement::Placement;
use stagewright_core::problem::Problem;
use stagewright_core::solver::{Capabilities, Context, Plan, Result, Solution, Solver, Stop};
use stagewright_search::local::placement;

use crate::calls;
use crate::cutnet::cover::{Cover, covers};
use crate::cutnet::infeasible::explained;
use crate::cutnet::model::{CutNetModel, Domains, Minimise, Range, devices_of_units, domains};
use crate::cutnet::symmetry::{canonical, leaders, restrict};
use crate::first::{First, first_bound, first_plan};
use crate::run::{Outcome, RunEffort, RunError, solve};
use crate::search::{Known, MAX_ENTRIES, Programs, Search};

/// Share of the time for the search for a first plan.
const SEARCH_SHARE: f64 = 0.2;

/// The mixed-integer program on HiGHS.
#[derive(Debug, Clone, Copy, Default)]
pub struct Milp;

/// Feature of an objective that the cut-net model does not support, if any.
pub(crate) fn unsupported_for_cut_nets(objective: &Objective) -> Option<&'static str> {
    if objective.kind() != ObjectiveKind::Throughput {
        Some("objectives other than throughput")
    } else if objective.rules().split == Split::Contiguous {
        Some("contiguous splits")
    } else if objective.rules().max_replicas > 1 {
        Some("replicated stages")
    } else {
        None
    }
}

/// Feature of an objective that the models of cut nets and calls do not support, if any.
pub(crate) fn unsupported(objective: &Objective) -> Option<&'static str> {
    match objective.kind() {
        ObjectiveKind::Latency => None,
        _ => unsupported_for_cut_nets(objective),
    }
}

impl Solver for Milp {
    fn name(&self) -> &'static str {
        "milp"
    }

    fn summary(&self) -> &'static str {
        "mixed-integer program on HiGHS (free and convex throughput over cut nets, latency over calls)"
    }

    fn unsupported(&self, objective: &Objective) -> Option<&'static str> {
        unsupported(objective)
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { exact: true, starts_from_plan: true, depends_on_seed: true, ..Capabilities::default() }
    }

    fn run(&self, problem: &Problem, context: &mut Context<'_>) -> Result<Solution> {
        if problem.objective().kind() == ObjectiveKind::Latency {
            return calls::exact::solve(self.name(), problem, context);
        }
        let units = Units::of(problem);
        let (plan, infeasible) = match first_plan(problem, &mut context.time_slice(SEARCH_SHARE))? {
            First::Plan(plan) => (plan, None),
            First::Impossible(why) => (None, Some(why)),
        };
        let mut search = Search::new(problem, plan, first_bound(problem, context));
        search.infeasible = infeasible;
        if search.infeasible.is_none() {
            run(problem, &units, &mut search, context);
        }
        search.solution(self.name(), context)
    }
}

fn run(problem: &Problem, units: &Units, search: &mut Search<'_>, context: &mut Context<'_>) {
    let devices: usize = problem.pools().iter().map(|pool| pool.devices.len()).sum();
    if units.len().saturating_mul(devices) > MAX_ENTRIES {
        search.reason = Some("the integer program would be too large to start".into());
        return;
    }
    let Some(mut domains) = domains(problem, units) else {
        search.infeasible = Some("a unit cannot run on any device".into());
        return;
    };
    let leaders = leaders(problem, units);
    restrict(problem, &leaders, &mut domains);
    if search.is_too_large(CutNetModel::size(problem, units, &domains), context) {
        return;
    }
    search.run(&mut CutNets { problem, units, leaders, domains, covers: Vec::new() }, context);
}

struct CutNets<'a> {
    problem: &'a Problem,
    units: &'a Units,
    leaders: Vec<UnitId>,
    domains: Domains,
    /// Covers separated from the choices of earlier runs.
    covers: Vec<Cover>,
}

impl Programs for CutNets<'_> {
    type Choice = DeviceId;

    fn run(
        &mut self,
        known: Known<'_>,
        effort: RunEffort,
        stop: &Stop,
    ) -> Result<Outcome<DeviceId>, RunError> {
        let range = Range { low: known.bound, high: known.plan.map_or(f64::INFINITY, Plan::value) };
        let (domains, covers) = (&self.domains, &self.covers);
        let model = CutNetModel::new(self.problem, self.units, domains, covers, range, Minimise::All, stop);
        let Some(model) = model else { return Ok(Outcome::NOTHING) };
        let start = known.plan.map(|plan| {
            let device_of = devices_of_units(self.units, &plan.placement);
            model.start(&canonical(self.problem, &self.leaders, &device_of))
        });
        solve(model, start, effort, stop)
    }

    fn placement(&self, chosen: &[DeviceId]) -> Placement {
        placement(self.problem, self.units, &chosen.to_vec().into())
    }

    fn complete(&mut self, chosen: &[DeviceId]) -> bool {
        let covers = covers(self.problem, self.units, &chosen.to_vec().into());
        let any = !covers.is_empty();
        self.covers.extend(covers);
        any
    }

    fn why_infeasible(&self, stop: &Stop) -> String {
        let explained = explained(self.problem, self.units, stop);
        explained.unwrap_or_else(|| {
            "no placement meets memory, colocation, pins and the split rule together".into()
        })
    }
}
