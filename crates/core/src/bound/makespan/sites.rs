//! The bounds' model of the devices: the pools that an operator may run on, its duration there, and the
//! transfer times between pools.

use crate::cluster::DeviceId;
use crate::document::Execution;
use crate::graph::{OpId, TensorId};
use crate::problem::{Pool, Problem};
use crate::tolerance::{fits, round_down};

/// Maximum number of table entries over the pairs of operators and of pools; beyond that, all pools are one site.
const MAX_ENTRIES: usize = 1 << 27;

/// Whether every operator can run somewhere together with its colocation class. O(pools · operators).
pub fn can_run(problem: &Problem) -> bool {
    Sites::new(problem, 0).is_some()
}

/// The sites: pools, or all pools as one site if there are too many to distinguish, or single devices.
///
/// One site for all pools, where an operator takes its minimum seconds on any pool and transfers take none, is a
/// relaxation: no placement has a larger value there.
#[derive(Debug)]
pub(super) struct Sites<'p> {
    problem: &'p Problem,
    site_of: Vec<usize>,
    /// The pool of every site; empty if all pools are one site.
    pool_of: Vec<usize>,
    count: usize,
    devices: Vec<u64>,
    /// Seconds by operator and site; infinite if the operator's class cannot be there.
    seconds: Vec<f64>,
    /// Minimum delay and minimum seconds per byte for each pair of sites, if the cluster has a matrix.
    matrix: Option<Vec<[f64; 2]>>,
}

impl<'p> Sites<'p> {
    /// Builds the sites of a problem whose graph has `arcs` arcs. `None` if some operator cannot run
    /// anywhere.
    pub(super) fn new(problem: &'p Problem, arcs: usize) -> Option<Sites<'p>> {
        let (graph, pools) = (problem.graph(), problem.pools());
        let entries = (arcs + graph.operator_count()).checked_mul(pools.len().pow(2));
        let count = if entries.is_some_and(|entries| entries <= MAX_ENTRIES) { pools.len() } else { 1 };
        let site_of: Vec<usize> = (0..pools.len()).map(|pool| pool.min(count - 1)).collect();
        let mut devices = vec![0; count];
        for (pool, spec) in pools.iter().enumerate() {
            devices[site_of[pool]] += u64::from(spec.count());
        }
        let pool_of = if count == pools.len() { (0..count).collect() } else { Vec::new() };
        let device_site = |device| site_of[problem.pool_of(device)];
        let matrix = least_matrix(problem, count, device_site);
        Sites { problem, count, devices, seconds: Vec::new(), matrix, pool_of, site_of }.filled()
    }

    /// Makes every device a site of its own. `None` if some operator cannot run anywhere, or if there are too many
    /// devices.
    pub(super) fn by_device(problem: &'p Problem, arcs: usize) -> Option<Sites<'p>> {
        let count = problem.cluster().device_count();
        let entries = (arcs + problem.graph().operator_count()).checked_mul(count.checked_pow(2)?)?;
        if entries > MAX_ENTRIES {
            return None;
        }
        let pool_of: Vec<usize> = problem.cluster().devices().map(|device| problem.pool_of(device)).collect();
        // A pool of several devices has the site of its first device.
        let site_of = problem.pools().iter().map(|pool| pool.devices[0].index()).collect();
        let matrix = least_matrix(problem, count, |device| device.index());
        Sites { problem, count, devices: vec![1; count], seconds: Vec::new(), matrix, pool_of, site_of }
            .filled()
    }

    /// Fills in the seconds of the operators; `None` if some operator cannot run anywhere.
    fn filled(mut self) -> Option<Sites<'p>> {
        self.seconds = vec![f64::INFINITY; self.problem.graph().operator_count() * self.count];
        self.fill_seconds();
        let everyone_runs =
            self.seconds.chunks_exact(self.count).all(|row| row.iter().any(|it| it.is_finite()));
        everyone_runs.then_some(self)
    }

    /// Bytes of the shared parameters that any of these operators read.
    fn shared_bytes(&self, members: &[OpId]) -> f64 {
        let graph = self.problem.graph();
        let mut shared: Vec<u32> = members.iter().flat_map(|&op| graph.parameters_of(op)).copied().collect();
        shared.sort_unstable();
        shared.dedup();
        let bytes = |&parameter: &u32| {
            let document = &graph.parameters()[parameter as usize];
            document.bytes + document.optimizer_bytes
        };
        shared.iter().map(bytes).sum()
    }

    /// Fills in the seconds of every class on the pools that may run it: those that run all its members and whose
    /// devices hold the resident bytes of the class plus the largest working set of a single member, which is
    /// workspace, inputs and outputs.
    fn fill_seconds(&mut self) {
        let graph = self.problem.graph();
        for class in graph.class_ids() {
            let members = graph.class(class);
            let documents = || members.iter().map(|&op| graph.operator(op));
            let own: f64 = documents().map(|it| it.parameter_bytes + it.optimizer_bytes).sum();
            let fixed = own + self.shared_bytes(members);
            let running = members.iter().map(|&op| {
                let tensors = graph.inputs(op).iter().chain(graph.outputs(op));
                graph.operator(op).workspace_bytes + tensors.map(|&tensor| graph.bytes(tensor)).sum::<f64>()
            });
            let bytes = fixed + running.fold(0.0, f64::max);
            let sites: Vec<(usize, usize)> = match self.pool_of.is_empty() {
                true => self.site_of.iter().copied().enumerate().collect(),
                false => self.pool_of.iter().copied().zip(0..).collect(),
            };
            for (pool, site) in sites {
                let spec = &self.problem.pools()[pool];
                let runs = members.iter().all(|&op| self.problem.seconds(op, pool).is_some());
                if !runs || !fits(round_down(bytes), spec.memory) {
                    continue;
                }
                for &op in members {
                    let entry = &mut self.seconds[op.index() * self.count + site];
                    *entry = self.problem.seconds(op, pool).unwrap_or(f64::INFINITY).min(*entry);
                }
            }
        }
    }

    /// Number of sites.
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// The site of a pool.
    pub(super) fn site(&self, pool: usize) -> usize {
        self.site_of[pool]
    }

    /// Number of devices of a site.
    pub(super) fn devices(&self, site: usize) -> u64 {
        self.devices[site]
    }

    /// Seconds of an operator by site; infinite if it cannot be there.
    pub(super) fn seconds(&self, op: OpId) -> &[f64] {
        &self.seconds[op.index() * self.count..][..self.count]
    }

    /// Seconds of an operator by site, mutable to exclude sites.
    pub(super) fn seconds_mut(&mut self, op: OpId) -> &mut [f64] {
        &mut self.seconds[op.index() * self.count..][..self.count]
    }

    /// Lower bound on the seconds from the request to send some tensors of one operator, on a device of one site, until
    /// the last of them is on a different device of the other site; infinite if there are no two such devices.
    ///
    /// Transfers between the same two devices share a port, so their times add up. They share none only between hosts
    /// with a matrix and without contention; then the longest counts.
    pub(super) fn transfer(&self, tensors: &[TensorId], from: usize, to: usize) -> f64 {
        if from == to && self.devices[from] < 2 {
            return f64::INFINITY;
        }
        if self.pool_of.is_empty() {
            return 0.0;
        }
        let (graph, pools) = (self.problem.graph(), self.problem.pools());
        let [from_pool, to_pool] = [from, to].map(|site| &pools[self.pool_of[site]]);
        let seconds = |&tensor: &TensorId| match &self.matrix {
            Some(matrix) => {
                let [delay, per_byte] = matrix[from * self.count + to];
                delay + graph.bytes(tensor) * per_byte
            }
            None => self.over_links(tensor, from_pool, to_pool),
        };
        let has_ports = self.problem.objective().execution() == Execution::Ports
            && !(self.matrix.is_some() && from_pool.host && to_pool.host);
        let each = tensors.iter().map(seconds);
        if has_ports { each.sum() } else { each.fold(0.0, f64::max) }
    }

    /// Seconds of one tensor on the slowest link between different devices of two pools.
    fn over_links(&self, tensor: TensorId, from: &Pool, to: &Pool) -> f64 {
        let costs = self.problem.costs();
        let seconds = costs.transfer(tensor, from.kind).max(costs.transfer(tensor, to.kind));
        let groups = [from.group, to.group].into_iter().filter(|_| from.group != to.group).flatten();
        groups.map(|group| costs.uplink(tensor, group)).fold(seconds, f64::max)
    }
}

/// Minimum delay and minimum seconds per byte for each pair of sites, if the cluster has a matrix.
///
/// The two minima need not belong to the same pair of devices: together they are a lower bound for every pair.
fn least_matrix(
    problem: &Problem,
    sites: usize,
    site_of: impl Fn(DeviceId) -> usize,
) -> Option<Vec<[f64; 2]>> {
    let matrix = problem.cluster().document().matrix.as_ref()?;
    let mut least = vec![[f64::INFINITY; 2]; sites * sites];
    for from in problem.cluster().devices() {
        for to in problem.cluster().devices().filter(|&to| to != from) {
            let entry = &mut least[site_of(from) * sites + site_of(to)];
            entry[0] = entry[0].min(matrix.delay_s[from.index()][to.index()]);
            entry[1] = entry[1].min(matrix.seconds_per_byte[from.index()][to.index()]);
        }
    }
    Some(least)
}
