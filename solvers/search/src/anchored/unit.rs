//! The bound from the unit that is most expensive to hold.

use stagewright_core::bound::{Bound, LowerBound};
use stagewright_core::contraction::{UnitId, Units};
use stagewright_core::ids::Keyed;
use stagewright_core::problem::Problem;
use stagewright_core::solver::Stop;
use stagewright_core::tolerance::{OPTIMAL_RELATIVE, round_down};

use super::around::Around;
use super::{AnchoredEffort, serial_throughput};

/// The anchored bound. For a unit u and a pool c let A_c(u) be the minimum of
///
/// ```text
/// Σ_{v∈S} p_vc + Σ {x_tc : t has pins inside S and outside}
/// ```
///
/// over the sets S of units supported on c that contain u. With R_c the maximum number of replicas of a stage on c,
///
/// ```text
/// T ≥ max_u min_c A_c(u) / R_c
/// ```
///
/// *Proof.* Some stage, on a pool c, contains u, and its set S of units is one of these sets. With serial communication
/// its load on one device is the sum above; on r ≤ R_c replicas it is at least that sum divided by r: synchronisation
/// of replicas is added, and gradients of shared parameters are not divided. With `separate` training the sum is the
/// forward load plus the backward load of the stage. The value is at least the load, and memory and uplinks only add to
/// it. The units of the split rule never separate operators that must share a device, so each stage is a set of units.
/// ∎
///
/// A host pays nothing to send, so A_c(u) = p_uc there. Elsewhere A_c(u) is a minimum cut with u tied to the source: a
/// unit on the source side pays its time, and a net with pins on both sides its transfer.
///
/// *Neighbourhoods.* Let a be the load of {u} alone. A set of load at most a may be assumed connected, because dropping
/// its other components saves their time and the nets they cut. So it contains only units that are joined to u by a
/// path whose units take at most a in total. The network consists of these units; all others are outside. If there are
/// too many, only the nearest are included and the pins of the others are dropped. That cuts no more nets, so the cut
/// is still a bound.
///
/// *Order.* Units are visited in descending order of the load of each unit alone, until that load no longer exceeds the
/// bound. A set with load at most the bound settles all of its units.
///
/// Valid for throughput with serial communication and every split rule. Integer capacities are rounded down. At most
/// units · pools minimum cuts, in practice a few per cent of that. Ends after a fixed amount of work, the same on every
/// machine, with the bound found so far.
///
/// # Example
///
/// ```
/// use stagewright_core::bound::Bound;
/// # use stagewright_core::{cluster::Cluster, graph::GraphBuilder, objective::Objective, problem::Problem};
/// # use stagewright_core::document::*;
/// use stagewright_search::Anchored;
///
/// // Two operators of 1 s each; separating them costs 5 s.
/// let mut builder = GraphBuilder::new("pair");
/// for name in ["a", "b"] {
///     let seconds = [("acc".to_string(), 1.0)].into();
///     builder.operator(OperatorDocument { seconds, ..OperatorDocument::named(name) });
/// }
/// builder.timed_tensor(TensorDocument {
///     name: None,
///     producer: "a".into(),
///     consumers: vec!["b".into()],
///     bytes: 0.0,
///     seconds: [("acc".to_string(), 5.0)].into(),
/// });
/// # let kind = KindDocument {
/// #     name: "acc".into(), class: "acc".into(), count: 2, host: false, memory_bytes: None, reserve_bytes: None, link: None, group: None, server: None, ram: None,
/// # };
/// # let cluster = Cluster::from_document(ClusterDocument {
/// #     schema: CLUSTER_SCHEMA.into(), name: String::new(), classes: Default::default(), kinds: vec![kind],
/// #     groups: Vec::new(), matrix: None,
/// # }).unwrap();
/// let problem = Problem::new(builder.build().unwrap(), cluster, Objective::default()).unwrap();
/// let bound = Anchored::default().compute(&problem).unwrap();
/// assert!((bound.value - 2.0).abs() < 1e-6);
/// ```
#[derive(Debug, Clone, Copy, Default)]
pub struct Anchored {
    /// Work limits.
    pub effort: AnchoredEffort,
}

impl Bound for Anchored {
    fn name(&self) -> &'static str {
        "anchored"
    }

    fn applies(&self, problem: &Problem) -> bool {
        serial_throughput(problem)
    }

    fn compute(&self, problem: &Problem) -> Option<LowerBound> {
        self.before(problem, &Stop::new(None, Default::default()))
    }

    fn before(&self, problem: &Problem, stop: &Stop) -> Option<LowerBound> {
        let units = Units::of(problem);
        let value = largest(&mut Around::new(problem, &units, self.effort, stop))?;
        let value = problem.objective().repetitions() * value;
        Some(LowerBound { value: round_down(value), source: self.name(), certificate: None })
    }
}

/// The bound before rounding; `None` if some unit can run nowhere, or there was no time for any unit.
pub(super) fn largest(around: &mut Around<'_>) -> Option<f64> {
    let mut order: Vec<(f64, UnitId)> = Vec::with_capacity(around.units.len());
    for unit in around.units.ids() {
        if around.is_late() {
            return None;
        }
        let alone = |column| around.alone(unit, column);
        let least = (0..around.columns.len()).filter_map(alone).min_by(f64::total_cmp)?;
        order.push((least, unit));
    }
    order.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    let mut settled = Keyed::filled(false, around.units.len());
    let mut bound = 0.0f64;
    for (alone, unit) in order {
        if alone <= bound || around.is_spent() {
            break;
        }
        if !settled[unit] {
            bound = raised(around, unit, bound, &mut settled);
        }
    }
    Some(bound)
}

/// Raises the bound to the anchored bound of one unit, if that is larger. Marks the units that can no longer raise it.
fn raised(around: &mut Around<'_>, unit: UnitId, bound: f64, settled: &mut Keyed<UnitId, bool>) -> f64 {
    let alone = |column: usize| Some((around.alone(unit, column)?, column));
    let mut columns: Vec<(f64, usize)> = (0..around.columns.len()).filter_map(alone).collect();
    columns.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut least = f64::INFINITY;
    let mut sets = Vec::new();
    for (alone, column) in columns {
        // A column skipped for lack of time is assumed to cost nothing.
        if around.is_late() {
            least = 0.0;
            break;
        }
        let (load, set) = match around.columns[column].host {
            true => (alone, Vec::new()),
            false => anchored(around, unit, column),
        };
        least = least.min(load);
        sets.push((load, set));
        if least <= bound {
            break;
        }
    }
    let bound = bound.max(least);
    settled[unit] = true;
    // Marking a unit can only weaken the bound, so a tolerance for rounding is safe.
    for (_, set) in sets.iter().filter(|(load, _)| *load <= bound * (1.0 + OPTIMAL_RELATIVE)) {
        set.iter().for_each(|&member| settled[member] = true);
    }
    bound
}

/// A lower bound on A_c(u) / R_c, with the minimising set if the bound equals A_c(u) / R_c up to rounding.
fn anchored(around: &mut Around<'_>, anchor: UnitId, column: usize) -> (f64, Vec<UnitId>) {
    let replicas = around.columns[column].replicas;
    let everything = around.columns[column].everything;
    let ceiling = around.alone(anchor, column).map_or(everything, |alone| everything.min(alone * replicas));
    let near = around.neighbourhood(anchor, column, ceiling);
    let cut = around.cut(&near, column, 1.0, ceiling);
    (cut.value / replicas, if near.truncated { Vec::new() } else { cut.set })
}
