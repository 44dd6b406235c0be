//! The least load of any device that holds a given unit, a bound that counts communication for every split rule.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use stagewright_core::bound::{Bound, LowerBound};
use stagewright_core::contract::Units;
use stagewright_core::document::{Communication, ObjectiveKind};
use stagewright_core::problem::Problem;
use stagewright_core::tolerance::{OPTIMAL_RELATIVE, round_down};

use crate::flow::{Network, SINK, SOURCE, add_net};

/// The anchored bound. For a unit u and a pool c let A_c(u) be the least of
///
/// ```text
/// Σ_{v∈S} p_vc + Σ {x_tc : t has pins inside S and outside}
/// ```
///
/// over the sets S of units supported on c that hold u. With R_c the most replicas of a stage on c,
///
/// ```text
/// T ≥ max_u min_c A_c(u) / R_c
/// ```
///
/// *Proof.* Some stage holds u, on a pool c, and S, the units of the stage, is one of the sets. With serial
/// communication its load on one device is the sum above, on r ≤ R_c replicas that divided by r, synchronisation added;
/// with `separate` training its forward plus its backward load is. The value is at least that, and memory and uplinks
/// only add to it. The units of the split rule never part what must share a device, so each stage is a set of them. ∎
///
/// A host sends for nothing, so A_c(u) = p_uc there. Elsewhere it is a minimum cut with u tied to the source: a unit on
/// the side of the source pays its time, a net with pins on both sides its transfer.
///
/// *Neighbourhoods.* Let a be the load of {u} alone. A set of load at most a may be taken connected, for dropping
/// the rest of it saves its time and the nets that it cuts; so it holds none but units that a path of weight at most a,
/// by their times, joins to u. The network is made of these alone, the others being outside. Where they
/// are too many, the nearest are taken and the pins of the others left out, which divides no more nets than before: the
/// cut is a bound still.
///
/// *Order.* Units are visited by the load of each alone, the largest first, until that is no more than the bound. A set
/// with load at most the bound settles all of its units.
///
/// Valid for throughput with serial communication, every split rule. Integer capacities are rounded down. At most
/// units · pools minimum cuts, in practice a few per cent of that; ended after a fixed amount of work, the same on every
/// machine, with what was found until then.
///
/// # Example
///
/// ```
/// use stagewright_core::bound::Bound;
/// # use stagewright_core::{cluster::Cluster, graph::GraphBuilder, objective::Objective, problem::Problem};
/// # use stagewright_core::document::*;
/// use stagewright_search::Anchored;
///
/// // Two operators of 1 s each; to part them costs 5 s.
/// let mut builder = GraphBuilder::new("pair");
/// for name in ["a", "b"] {
///     let seconds = [("acc".to_string(), 1.0)].into();
///     builder.operator(OperatorDocument { seconds, ..OperatorDocument::named(name.into()) });
/// }
/// builder.timed_tensor(TensorDocument {
///     name: None,
///     producer: "a".into(),
///     consumers: vec!["b".into()],
///     bytes: 0.0,
///     seconds: [("acc".to_string(), 5.0)].into(),
/// });
/// # let kind = KindDocument {
/// #     name: "acc".into(), class: "acc".into(), count: 2, host: false, memory_bytes: None, link: None, group: None,
/// # };
/// # let cluster = Cluster::from_document(ClusterDocument {
/// #     schema: CLUSTER_SCHEMA.into(), name: String::new(), classes: Default::default(), kinds: vec![kind],
/// #     groups: Vec::new(), matrix: None,
/// # }).unwrap();
/// let problem = Problem::new(builder.build().unwrap(), cluster, Objective::default(), Default::default()).unwrap();
/// let bound = Anchored::DEFAULT.compute(&problem).unwrap();
/// assert!((bound.value - 2.0).abs() < 1e-6);
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Anchored {
    /// Units of a neighbourhood beyond which the rest of the graph is left out, as costing nothing.
    pub neighbourhood: usize,
    /// Units and pins of all networks together after which the bound so far stands.
    pub work: usize,
}

impl Anchored {
    /// Neighbourhoods of 2¹² units, and a work of 2²⁴, which is a matter of seconds.
    pub const DEFAULT: Anchored = Anchored { neighbourhood: 1 << 12, work: 1 << 24 };
}

impl Default for Anchored {
    fn default() -> Anchored {
        Anchored::DEFAULT
    }
}

impl Bound for Anchored {
    fn name(&self) -> &'static str {
        "anchored"
    }

    fn applies(&self, problem: &Problem) -> bool {
        let objective = problem.objective();
        objective.kind == ObjectiveKind::Throughput && objective.communication == Communication::Serial
    }

    fn compute(&self, problem: &Problem) -> Option<LowerBound> {
        let units = Units::new(problem);
        let value = Search::new(problem, &units, *self).largest()?;
        Some(LowerBound { value: round_down(value), source: self.name(), certificate: None })
    }
}

/// What the bound needs of a pool.
struct Column {
    pool: usize,
    host: bool,
    /// Most replicas of a stage.
    replicas: f64,
    /// Load of everything that is supported, on one device.
    everything: f64,
}

/// The units around an anchor.
struct Neighbourhood {
    /// The anchor first, then the others by distance.
    members: Vec<u32>,
    /// The nets that these pin.
    nets: Vec<u32>,
    /// Whether there were more units to come.
    truncated: bool,
}

struct Search<'a> {
    units: &'a Units,
    limits: Anchored,
    columns: Vec<Column>,
    /// Place of a unit in the neighbourhood; `ELSEWHERE` between calls.
    place: Vec<u32>,
    seen: Vec<bool>,
    work: usize,
}

const ELSEWHERE: u32 = u32::MAX;

impl<'a> Search<'a> {
    fn new(problem: &Problem, units: &'a Units, limits: Anchored) -> Search<'a> {
        let most = problem.objective().max_replicas;
        let mut columns: Vec<Column> = Vec::new();
        for (pool, spec) in problem.pools().iter().enumerate() {
            let (replicas, host) = (f64::from(most.min(spec.count())), spec.host);
            let alike = |column: &Column| {
                let other = column.pool;
                let times = |unit| units.seconds(unit, pool) == units.seconds(unit, other);
                let transfers = |net| units.transfer(net, pool) == units.transfer(net, other);
                (column.replicas, column.host) == (replicas, host)
                    && (0..units.len()).all(times)
                    && (0..units.nets().len()).all(transfers)
            };
            if !columns.iter().any(alike) {
                columns.push(Column { pool, host, replicas, everything: everything(units, pool) });
            }
        }
        let (place, seen) = (vec![ELSEWHERE; units.len()], vec![false; units.nets().len()]);
        Search { units, limits, columns, place, seen, work: 0 }
    }

    /// The bound before rounding; none where some unit can run nowhere.
    fn largest(&mut self) -> Option<f64> {
        let mut order: Vec<(f64, u32)> = Vec::with_capacity(self.units.len());
        for unit in 0..self.units.len() {
            let alone = |column| Some(self.alone(unit, column)? / column.replicas);
            order.push((self.columns.iter().filter_map(alone).min_by(f64::total_cmp)?, unit as u32));
        }
        order.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        let mut settled = vec![false; self.units.len()];
        let mut bound = 0.0f64;
        for (alone, unit) in order {
            if alone <= bound || self.work > self.limits.work {
                break;
            }
            if !settled[unit as usize] {
                bound = self.raised(unit as usize, bound, &mut settled);
            }
        }
        Some(bound)
    }

    /// The larger of the bound and of what a unit gives, which is marked with all that no longer can raise it.
    fn raised(&mut self, unit: usize, bound: f64, settled: &mut [bool]) -> f64 {
        let mut columns: Vec<(f64, usize)> = (0..self.columns.len())
            .filter_map(|at| Some((self.alone(unit, &self.columns[at])? / self.columns[at].replicas, at)))
            .collect();
        columns.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut least = f64::INFINITY;
        let mut sets = Vec::new();
        for (alone, at) in columns {
            let (load, set) = match self.columns[at].host {
                true => (alone, Vec::new()),
                false => self.anchored(unit, at),
            };
            least = least.min(load);
            sets.push((load, set));
            if least <= bound {
                break;
            }
        }
        let bound = bound.max(least);
        settled[unit] = true;
        // What is marked costs the bound nothing but strength, so rounding may be forgiven.
        for (_, set) in sets.iter().filter(|(load, _)| *load <= bound * (1.0 + OPTIMAL_RELATIVE)) {
            set.iter().for_each(|&member| settled[member as usize] = true);
        }
        bound
    }

    /// Load of a unit by itself on one device; none where it is not supported.
    fn alone(&self, unit: usize, column: &Column) -> Option<f64> {
        let units = self.units;
        let sent: f64 =
            units.nets_of(unit).iter().map(|&net| units.transfer(net as usize, column.pool)).sum();
        Some(units.seconds(unit, column.pool)? + sent)
    }

    /// A lower bound on A_c(u) / R_c, and where it is A_c(u) / R_c itself, rounding aside, the set.
    fn anchored(&mut self, anchor: usize, at: usize) -> (f64, Vec<u32>) {
        let units = self.units;
        let Column { pool, everything, replicas, .. } = self.columns[at];
        let own = time_of(units, anchor, pool);
        let ceiling = self.alone(anchor, &self.columns[at]).map_or(everything, |alone| alone.min(everything));
        let near = self.neighbourhood(anchor, pool, ceiling * (1.0 + OPTIMAL_RELATIVE));
        // No minimum passes the ceiling, so no single time has to.
        let time = |unit: u32| time_of(units, unit as usize, pool).min(ceiling);
        let transfer = |net: u32| units.transfer(net as usize, pool).min(ceiling);
        let scale = near.members.iter().map(|&unit| time(unit)).sum::<f64>()
            + near.nets.iter().map(|&net| transfer(net)).sum::<f64>();
        let quantum = scale / (1u64 << 50) as f64;
        let mut network = Network::new();
        for &unit in &near.members[1..] {
            let node = network.node();
            network.arc(node, SINK, (time(unit) / quantum) as i64, 0);
        }
        // Nodes are numbered as the members are, from the sink on.
        let node_of = |unit: u32| match self.place[unit as usize] {
            0 => Some(SOURCE),
            ELSEWHERE if near.truncated && units.supported(unit as usize, pool) => None,
            ELSEWHERE => Some(SINK),
            place => Some(SINK + place),
        };
        for &net in &near.nets {
            let pins = units.pins(net as usize);
            self.work += pins.len();
            add_net(
                &mut network,
                pins.iter().filter_map(|&pin| node_of(pin)),
                (transfer(net) / quantum) as i64,
            );
        }
        self.work += near.members.len();
        let cut = network.minimum_cut();
        let inside = |unit: u32| node_of(unit).is_some_and(|node| cut.source_side[node as usize]);
        let set = match near.truncated {
            true => Vec::new(),
            false => near.members.iter().copied().filter(|&unit| inside(unit)).collect(),
        };
        near.members.iter().for_each(|&unit| self.place[unit as usize] = ELSEWHERE);
        ((own + cut.value as f64 * quantum) / replicas, set)
    }

    /// The units that a path of weight at most `radius` joins to the anchor: Dijkstra's algorithm over nets, times as
    /// the lengths. Leaves the places of the members behind.
    fn neighbourhood(&mut self, anchor: usize, pool: usize, radius: f64) -> Neighbourhood {
        let units = self.units;
        let mut near = Neighbourhood { members: Vec::new(), nets: Vec::new(), truncated: false };
        // The order of floats that are not negative is that of their bits.
        let mut heap = BinaryHeap::from([Reverse((time_of(units, anchor, pool).to_bits(), anchor as u32))]);
        while let Some(Reverse((bits, unit))) = heap.pop() {
            if self.place[unit as usize] != ELSEWHERE {
                continue;
            }
            if near.members.len() == self.limits.neighbourhood.max(1) {
                near.truncated = true;
                break;
            }
            self.place[unit as usize] = near.members.len() as u32;
            near.members.push(unit);
            for &net in units.nets_of(unit as usize) {
                if units.transfer(net as usize, pool) == 0.0 || self.seen[net as usize] {
                    continue;
                }
                // The first pin to come is the nearest, so the others are reached no sooner through the rest.
                self.seen[net as usize] = true;
                near.nets.push(net);
                for &pin in units.pins(net as usize) {
                    let distance = f64::from_bits(bits) + time_of(units, pin as usize, pool);
                    if self.place[pin as usize] == ELSEWHERE
                        && units.supported(pin as usize, pool)
                        && distance <= radius
                    {
                        heap.push(Reverse((distance.to_bits(), pin)));
                    }
                }
            }
        }
        near.nets.iter().for_each(|&net| self.seen[net as usize] = false);
        near
    }
}

/// Load on one device of all that a pool supports.
fn everything(units: &Units, pool: usize) -> f64 {
    let computed: f64 = (0..units.len()).filter_map(|unit| units.seconds(unit, pool)).sum();
    let supported = |&unit: &u32| units.supported(unit as usize, pool);
    let is_cut = |&net: &usize| {
        let pins = units.pins(net);
        pins.iter().any(supported) && !pins.iter().all(supported)
    };
    let sent = (0..units.nets().len()).filter(is_cut).map(|net| units.transfer(net, pool));
    computed + sent.sum::<f64>()
}

/// Seconds of a unit that the pool supports.
fn time_of(units: &Units, unit: usize, pool: usize) -> f64 {
    units.seconds(unit, pool).unwrap_or(0.0)
}
