//! Seats: the calls and hosts to which an operator can be assigned.
//!
//! Devices of a pool differ only in the calls that they make, not in their names: devices beyond the number
//! of colocation classes stay idle, and hosts, which run any number of operators simultaneously, count as one
//! if memory does not distinguish them.

use stagewright_core::cluster::DeviceId;
use stagewright_core::graph::OpId;
use stagewright_core::offload::{Call, Site};
use stagewright_core::placement::Placement;
use stagewright_core::problem::Problem;

use super::nodes::Nodes;

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
    seats: Vec<Seat>,
    /// First seat of each pool, and the end of the last one.
    pools: Vec<u32>,
    /// Number of calls per accelerator.
    numbers: u32,
    /// Bytes of all operators.
    bytes: f64,
}

impl Seats {
    /// Lists the seats; `None` if there are too many. O(operators + seats).
    pub fn new(problem: &Problem) -> Option<Seats> {
        let graph = problem.graph();
        let most = graph.class_count().max(1);
        let operators = u32::try_from(graph.operator_count().max(1)).unwrap_or(u32::MAX);
        let numbers = problem.objective().calls().min(operators);
        let all = problem.memory().of_all().total(1);
        let devices = problem.pools().iter().map(|pool| pool.devices.len().min(most)).sum::<usize>();
        if devices.saturating_mul(numbers as usize) > MAX_SEATS {
            return None;
        }
        let (mut seats, mut pools) = (Vec::new(), vec![0]);
        for (pool, spec) in problem.pools().iter().enumerate() {
            let apart = if spec.host && all <= spec.memory { 1 } else { most };
            for &device in spec.devices.iter().take(apart) {
                let pool = pool as u32;
                match spec.host {
                    true => seats.push(Seat { pool, device, call: None }),
                    false => seats.extend((0..numbers).map(|call| Seat { pool, device, call: Some(call) })),
                }
            }
            pools.push(seats.len() as u32);
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
    pub fn seat(&self, at: u32) -> Seat {
        self.seats[at as usize]
    }

    /// Seats with their indices.
    pub fn all(&self) -> impl Iterator<Item = (u32, Seat)> + '_ {
        (0..).zip(self.seats.iter().copied())
    }

    /// Seats on the device of a seat.
    pub fn beside(&self, at: u32) -> std::ops::Range<u32> {
        match self.seat(at).call {
            Some(call) => at - call..at - call + self.numbers,
            None => at..at + 1,
        }
    }

    /// Position of the device of a seat in its pool.
    pub fn position(&self, at: u32) -> u32 {
        let seat = self.seat(at);
        let first = self.pools[seat.pool as usize];
        if seat.call.is_some() { (at - first) / self.numbers } else { at - first }
    }

    /// Seat of each operator of a plan, with devices renumbered: accelerators of a pool in an order in which
    /// their first calls can be made, hosts by their first colocation class.
    ///
    /// `None` if the plan has a cycle. O(operators log operators + pins).
    pub fn of_placement(&self, problem: &Problem, placement: &Placement) -> Option<Vec<u32>> {
        let graph = problem.graph();
        let is_host = |device| problem.pools()[problem.pool_of(device)].host;
        let mut numbers: Vec<(DeviceId, u32)> = graph
            .operators()
            .map(|op| (placement.device_of(op), placement.call_of(op)))
            .filter(|&(device, _)| !is_host(device))
            .collect();
        numbers.sort_unstable();
        numbers.dedup();
        let mut calls: Vec<Call> = Vec::with_capacity(numbers.len());
        for (at, &(device, _)) in (0u32..).zip(&numbers) {
            let after = at.checked_sub(1).filter(|&before| numbers[before as usize].0 == device);
            calls.push(Call { pool: problem.pool_of(device) as u32, after });
        }
        let number = |op| numbers.binary_search(&(placement.device_of(op), placement.call_of(op))).ok();
        let site = |op| match number(op) {
            Some(call) => Site::Call(call as u32),
            None => Site::Host(problem.pool_of(placement.device_of(op)) as u32),
        };
        let sites: Vec<Site> = graph.operators().map(site).collect();
        let nodes = Nodes::new(graph, &sites, &calls)?;

        // Devices by pool, in the order of their new numbers.
        let mut used: Vec<(u32, u32, DeviceId)> = Vec::new();
        for node in nodes.order() {
            if let Some(call) = nodes.call(*node)
                && calls[call as usize].after.is_none()
            {
                let device = numbers[call as usize].0;
                used.push((problem.pool_of(device) as u32, used.len() as u32, device));
            }
        }
        for class in 0..graph.class_count() {
            let device = placement.device_of(graph.class(class)[0]);
            if is_host(device) && !used.iter().any(|&(_, _, seen)| seen == device) {
                used.push((problem.pool_of(device) as u32, used.len() as u32, device));
            }
        }
        used.sort_unstable();
        let place = |op: OpId| {
            let device = placement.device_of(op);
            let pool = problem.pool_of(device) as u32;
            let first = used.partition_point(|at| at.0 < pool);
            let rank = used[first..].iter().position(|at| at.2 == device)? as u32;
            let seats = self.pools[pool as usize]..self.pools[pool as usize + 1];
            let seat = match number(op) {
                None => (seats.start + rank).min(seats.end - 1),
                Some(call) => {
                    let first = numbers.partition_point(|number| number.0 < device);
                    seats.start + rank * self.numbers + (call - first) as u32
                }
            };
            seats.contains(&seat).then_some(seat)
        };
        graph.operators().map(place).collect()
    }

    /// A placement from a seat for every operator.
    pub fn placement(&self, seats: &[u32]) -> Placement {
        let device_of = seats.iter().map(|&at| self.seat(at).device).collect();
        let call_of = seats.iter().map(|&at| self.seat(at).call.unwrap_or(0)).collect();
        Placement::with_calls(device_of, call_of)
    }
}
