//! Minimum cuts around a unit: its neighbourhood, and the cheapest set within it that contains the unit.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::hash::Hasher;

use rustc_hash::{FxHashMap, FxHasher};
use stagewright_core::contraction::{NetId, UnitId, Units};
use stagewright_core::ids::Keyed;
use stagewright_core::problem::Problem;
use stagewright_core::solver::Stop;
use stagewright_core::tolerance::OPTIMAL_RELATIVE;

use super::AnchoredEffort;
use crate::flow::{Network, NodeId, SINK, SOURCE, add_net};

/// Pools with identical costs.
pub(super) struct Column {
    /// Representative pool.
    pub(super) pool: usize,
    pub(super) host: bool,
    /// Number of devices over all pools of the column.
    pub(super) devices: f64,
    /// Maximum number of replicas of a stage.
    pub(super) replicas: f64,
    /// Load of all supported units on one device.
    pub(super) everything: f64,
}

/// The units around an anchor.
pub(super) struct Neighbourhood {
    /// The anchor first, then the others by distance.
    pub(super) members: Vec<UnitId>,
    /// The nets pinned by the members.
    nets: Vec<NetId>,
    /// Whether the size limit left units out.
    pub(super) truncated: bool,
}

/// The cheapest set of a neighbourhood that contains the anchor.
pub(super) struct Cut {
    /// Cost of the set, rounded down.
    pub(super) value: f64,
    /// The units of the set.
    pub(super) set: Vec<UnitId>,
}

/// State shared by the cuts of one problem.
pub(super) struct Around<'a> {
    pub(super) units: &'a Units,
    pub(super) columns: Vec<Column>,
    effort: AnchoredEffort,
    /// Node of each unit in the current neighbourhood, the source while the neighbourhood is gathered; `ELSEWHERE`
    /// between calls.
    node_of: Keyed<UnitId, NodeId>,
    /// Whether each net is in the current neighbourhood.
    seen: Keyed<NetId, bool>,
    work: usize,
    stop: Stop,
}

const ELSEWHERE: NodeId = NodeId(u32::MAX);

impl<'a> Around<'a> {
    pub(super) fn new(
        problem: &Problem,
        units: &'a Units,
        effort: AnchoredEffort,
        stop: &Stop,
    ) -> Around<'a> {
        let max_replicas = problem.objective().rules().max_replicas;
        let mut columns: Vec<Column> = Vec::new();
        // Columns by a hash of their costs, since comparing all pairs among hundreds of kinds would take too long.
        let mut by_costs: FxHashMap<u64, Vec<usize>> = FxHashMap::default();
        for (pool, spec) in problem.pools().iter().enumerate() {
            if stop.reason().is_some() {
                // An incomplete list of columns proves nothing.
                columns.clear();
                break;
            }
            let (replicas, host) = (f64::from(max_replicas.min(spec.count())), spec.host);
            let alike = |column: &Column| {
                let other = column.pool;
                let times = |unit| units.seconds(unit, pool) == units.seconds(unit, other);
                let transfers = |net| units.transfer(net, pool) == units.transfer(net, other);
                (column.replicas, column.host) == (replicas, host)
                    && units.ids().all(times)
                    && units.nets().ids().all(transfers)
            };
            let devices = f64::from(spec.count());
            let candidates = by_costs.entry(costs_hash(units, pool)).or_default();
            match candidates.iter().copied().find(|&index| alike(&columns[index])) {
                Some(index) => columns[index].devices += devices,
                None => {
                    candidates.push(columns.len());
                    let everything = everything(units, pool);
                    columns.push(Column { pool, host, devices, replicas, everything });
                }
            }
        }
        let (node_of, seen) =
            (Keyed::filled(ELSEWHERE, units.len()), Keyed::filled(false, units.nets().len()));
        Around { units, columns, effort, node_of, seen, work: 0, stop: stop.clone() }
    }

    /// Whether the work limit is reached or the solve has to stop.
    pub(super) fn is_spent(&self) -> bool {
        self.work > self.effort.work || self.is_late()
    }

    /// Whether the solve has to stop.
    pub(super) fn is_late(&self) -> bool {
        self.stop.reason().is_some()
    }

    /// Load of a unit alone, divided among the maximum number of replicas; `None` if the column does not support it.
    pub(super) fn alone(&self, unit: UnitId, column: usize) -> Option<f64> {
        let (units, Column { pool, replicas, .. }) = (self.units, &self.columns[column]);
        let sent: f64 = units.nets_of(unit).iter().map(|&net| units.transfer(net, *pool)).sum();
        Some((units.seconds(unit, *pool)? + sent) / replicas)
    }

    /// Seconds of a unit on a column that supports it.
    pub(super) fn time(&self, unit: UnitId, column: usize) -> f64 {
        self.units.seconds(unit, self.columns[column].pool).unwrap_or(0.0)
    }

    /// The units that are connected to the anchor by a path of weight at most `radius`: Dijkstra's algorithm over nets,
    /// with unit times as lengths.
    pub(super) fn neighbourhood(&mut self, anchor: UnitId, column: usize, radius: f64) -> Neighbourhood {
        let (units, pool) = (self.units, self.columns[column].pool);
        let radius = radius * (1.0 + OPTIMAL_RELATIVE);
        let mut near = Neighbourhood { members: Vec::new(), nets: Vec::new(), truncated: false };
        // Non-negative floats have the order of their bits.
        let mut heap = BinaryHeap::from([Reverse((self.time(anchor, column).to_bits(), anchor))]);
        while let Some(Reverse((bits, unit))) = heap.pop() {
            if self.node_of[unit] != ELSEWHERE {
                continue;
            }
            if near.members.len() == self.effort.neighbourhood.max(1) {
                near.truncated = true;
                break;
            }
            self.node_of[unit] = SOURCE;
            near.members.push(unit);
            for &net in units.nets_of(unit) {
                if units.transfer(net, pool) == 0.0 || self.seen[net] {
                    continue;
                }
                // The first pin reached is the nearest, so the net offers the other pins no shorter path later.
                self.seen[net] = true;
                near.nets.push(net);
                for &pin in units.pins(net) {
                    let distance = f64::from_bits(bits) + self.time(pin, column);
                    let is_new = self.node_of[pin] == ELSEWHERE;
                    if is_new && units.supported(pin, pool) && distance <= radius {
                        heap.push(Reverse((distance.to_bits(), pin)));
                    }
                }
            }
        }
        near.members.iter().for_each(|&unit| self.node_of[unit] = ELSEWHERE);
        near.nets.iter().for_each(|&net| self.seen[net] = false);
        near
    }

    /// The set of a neighbourhood that contains the anchor and minimises `price` times its seconds plus the transfers
    /// of the nets that it cuts. Each time and transfer is capped at `ceiling`.
    pub(super) fn cut(&mut self, near: &Neighbourhood, column: usize, price: f64, ceiling: f64) -> Cut {
        let (units, pool) = (self.units, self.columns[column].pool);
        let time = |unit: UnitId| (price * units.seconds(unit, pool).unwrap_or(0.0)).min(ceiling);
        let transfer = |net: NetId| units.transfer(net, pool).min(ceiling);
        let scale = near.members.iter().map(|&unit| time(unit)).sum::<f64>()
            + near.nets.iter().map(|&net| transfer(net)).sum::<f64>();
        let quantum = scale / (1u64 << 50) as f64;
        let mut network = Network::new();
        self.node_of[near.members[0]] = SOURCE;
        for &unit in &near.members[1..] {
            let node = network.node();
            self.node_of[unit] = node;
            network.arc(node, SINK, (time(unit) / quantum) as i64, 0);
        }
        let node_of = |unit: UnitId| match self.node_of[unit] {
            ELSEWHERE if near.truncated && units.supported(unit, pool) => None,
            ELSEWHERE => Some(SINK),
            node => Some(node),
        };
        let mut work = near.members.len();
        for &net in &near.nets {
            let pins = units.pins(net);
            work += pins.len();
            let nodes = pins.iter().filter_map(|&pin| node_of(pin));
            add_net(&mut network, nodes, (transfer(net) / quantum) as i64);
        }
        // The effort limit counts work; the clock ends a cut only if a solver has to stop, so the bound is the same on
        // every machine.
        let (value, set) = match network.minimum_cut(&self.stop) {
            None => (0.0, Vec::new()),
            Some(cut) => {
                let inside = |unit: &UnitId| node_of(*unit).is_some_and(|node| cut.source_side[node]);
                let set = near.members.iter().copied().filter(inside).collect();
                (time(near.members[0]) + cut.value as f64 * quantum, set)
            }
        };
        near.members.iter().for_each(|&unit| self.node_of[unit] = ELSEWHERE);
        self.work += work;
        Cut { value, set }
    }
}

/// Hash of all times and transfers on a pool.
fn costs_hash(units: &Units, pool: usize) -> u64 {
    let mut hasher = FxHasher::default();
    let number = |seconds: f64| (seconds + 0.0).to_bits();
    for unit in units.ids() {
        hasher.write_u64(units.seconds(unit, pool).map_or(u64::MAX, number));
    }
    for net in units.nets().ids() {
        hasher.write_u64(number(units.transfer(net, pool)));
    }
    hasher.finish()
}

/// Load on one device of all units that a pool supports.
fn everything(units: &Units, pool: usize) -> f64 {
    let computed: f64 = units.ids().filter_map(|unit| units.seconds(unit, pool)).sum();
    let supported = |&unit: &UnitId| units.supported(unit, pool);
    let is_cut = |&net: &NetId| {
        let pins = units.pins(net);
        pins.iter().any(supported) && !pins.iter().all(supported)
    };
    let sent = units.nets().ids().filter(is_cut).map(|net| units.transfer(net, pool));
    computed + sent.sum::<f64>()
}
