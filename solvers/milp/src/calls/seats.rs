//! Seats: the calls and hosts to which an operator can be assigned.
//!
//! Devices of a pool differ only in the calls that they make, not in their names. Devices beyond the number of
//! colocation classes stay idle, and hosts, which run any number of operators simultaneously, count as a single host if
//! memory does not distinguish them.

use stagewright_core::call_timing::{Call, Site};
use stagewright_core::cluster::DeviceId;
use stagewright_core::graph::OpId;
use stagewright_core::id;
use stagewright_core::ids::{Id, Keyed};
use stagewright_core::placement::Placement;
use stagewright_core::problem::Problem;

use super::nodes::Nodes;

id! {
    /// Index of a seat.
    pub SeatId;
}

/// Maximum number of seats that are listed.
const MAX_SEATS: usize = 1 << 20;

/// A call of an accelerator, or a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seat {
    /// Pool of the device.
    pub pool: u32,
    /// The device.
    pub device: DeviceId,
    /// Index of the call; `None` for a host.
    pub call: Option<u32>,
}

/// All seats of a problem. The seats of a device are consecutive, calls in order.
#[derive(Debug, Clone)]
pub struct Seats {
    seats: Keyed<SeatId, Seat>,
    /// First seat of each pool, and the end of the last pool.
    pools: Vec<SeatId>,
    /// Number of calls per accelerator.
    numbers: u32,
    /// Bytes of all operators.
    bytes: f64,
}

impl Seats {
    /// Lists the seats; `None` if there are too many. O(operators + seats).
    pub fn new(problem: &Problem) -> Option<Seats> {
        let graph = problem.graph();
        let max_devices = graph.class_count().max(1);
        let operators = u32::try_from(graph.operator_count().max(1)).unwrap_or(u32::MAX);
        let numbers = problem.objective().calls().min(operators);
        let all = problem.memory().of_all().total(1);
        let devices = problem.pools().iter().map(|pool| pool.devices.len().min(max_devices)).sum::<usize>();
        if devices.saturating_mul(numbers as usize) > MAX_SEATS {
            return None;
        }
        let (mut seats, mut pools) = (Keyed::new(), vec![SeatId(0)]);
        for (pool, spec) in (0..).zip(problem.pools()) {
            let apart = if spec.host && all <= spec.memory { 1 } else { max_devices };
            for &device in spec.devices.iter().take(apart) {
                match spec.host {
                    true => seats.extend([Seat { pool, device, call: None }]),
                    false => seats.extend((0..numbers).map(|call| Seat { pool, device, call: Some(call) })),
                }
            }
            pools.push(SeatId::new(seats.len()));
        }
        Some(Seats { seats, pools, numbers, bytes: all })
    }

    /// Number of seats.
    pub fn len(&self) -> usize {
        self.seats.len()
    }

    /// Whether there are no seats.
    pub fn is_empty(&self) -> bool {
        self.seats.is_empty()
    }

    /// Whether all operators together fit into a memory.
    pub fn all_fit(&self, memory: f64) -> bool {
        self.bytes <= memory
    }

    /// Seat with an index.
    pub fn seat(&self, id: SeatId) -> Seat {
        self.seats[id]
    }

    /// Pool of a seat.
    pub fn pool(&self, id: SeatId) -> usize {
        self.seat(id).pool as usize
    }

    /// Seats with their indices.
    pub fn all(&self) -> impl Iterator<Item = (SeatId, Seat)> + '_ {
        self.seats.ids().zip(self.seats.iter().copied())
    }

    /// Seats on the device of a seat.
    pub fn beside(&self, id: SeatId) -> std::ops::Range<SeatId> {
        match self.seat(id).call {
            Some(call) => SeatId(id.0 - call)..SeatId(id.0 - call + self.numbers),
            None => id..SeatId(id.0 + 1),
        }
    }

    /// Position of a seat's device within its pool.
    pub fn position(&self, id: SeatId) -> u32 {
        let place = id.0 - self.pools[self.pool(id)].0;
        if self.seat(id).call.is_some() { place / self.numbers } else { place }
    }

    /// Seat of each operator of a plan, with devices renumbered: accelerators of a pool in an order in which
    /// their first calls can be made, hosts by their first colocation class.
    ///
    /// `None` if the plan has a cycle. O(operators log operators + pins).
    pub fn of_placement(&self, problem: &Problem, placement: &Placement) -> Option<Vec<SeatId>> {
        let graph = problem.graph();
        let pool_of = |device| u32::new(problem.pool_of(device));
        let is_host = |device| problem.pools()[problem.pool_of(device)].host;
        let mut numbers: Keyed<u32, (DeviceId, u32)> = graph
            .operators()
            .map(|op| (placement.device_of(op), placement.call_of(op)))
            .filter(|&(device, _)| !is_host(device))
            .collect();
        numbers.sort_unstable();
        numbers.dedup();
        let mut calls: Keyed<u32, Call> = Keyed::new();
        for (index, &(device, _)) in numbers.enumerate() {
            let after = index.checked_sub(1).filter(|&before| numbers[before].0 == device);
            calls.push(Call { pool: pool_of(device), after });
        }
        let number =
            |op| numbers.binary_search(&(placement.device_of(op), placement.call_of(op))).ok().map(u32::new);
        let site = |op| match number(op) {
            Some(call) => Site::Call(call),
            None => Site::Host(pool_of(placement.device_of(op))),
        };
        let sites: Vec<Site> = graph.operators().map(site).collect();
        let nodes = Nodes::new(graph, &sites, &calls)?;

        // Devices by pool, in the order of their new numbers.
        let mut used: Vec<(usize, usize, DeviceId)> = Vec::new();
        for node in nodes.order() {
            if let Some(call) = nodes.call(*node)
                && calls[call].after.is_none()
            {
                let device = numbers[call].0;
                used.push((problem.pool_of(device), used.len(), device));
            }
        }
        for class in graph.class_ids() {
            let device = placement.device_of(graph.class(class)[0]);
            if is_host(device) && !used.iter().any(|&(_, _, seen)| seen == device) {
                used.push((problem.pool_of(device), used.len(), device));
            }
        }
        used.sort_unstable();
        let place = |op: OpId| {
            let device = placement.device_of(op);
            let pool = problem.pool_of(device);
            let first = used.partition_point(|slot| slot.0 < pool);
            let rank = u32::new(used[first..].iter().position(|slot| slot.2 == device)?);
            let seats = self.pools[pool]..self.pools[pool + 1];
            let seat = SeatId(match number(op) {
                None => (seats.start.0 + rank).min(seats.end.0 - 1),
                Some(call) => {
                    let first = u32::new(numbers.partition_point(|number| number.0 < device));
                    seats.start.0 + rank * self.numbers + (call - first)
                }
            });
            seats.contains(&seat).then_some(seat)
        };
        graph.operators().map(place).collect()
    }

    /// A placement from a seat for every operator.
    pub fn placement(&self, seats: &[SeatId]) -> Placement {
        let device_of = seats.iter().map(|&id| self.seat(id).device).collect();
        let call_of = seats.iter().map(|&id| self.seat(id).call.unwrap_or(0)).collect();
        Placement::with_calls(device_of, call_of)
    }
}
