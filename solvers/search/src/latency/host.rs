//! The host of each operator: the fastest for its colocation class, since hosts are unlimited and pay for no transfer.

use stagewright_core::cluster::DeviceId;
use stagewright_core::graph::OpId;
use stagewright_core::ids::Keyed;
use stagewright_core::problem::Problem;

/// The fastest host of every colocation class.
#[derive(Debug, Clone)]
pub struct Hosts {
    /// Pool, first device of the pool and seconds, by operator.
    best: Keyed<OpId, Option<(u32, DeviceId, f64)>>,
}

impl Hosts {
    /// Finds the hosts. O(host pools · operators).
    pub fn new(problem: &Problem) -> Hosts {
        let graph = problem.graph();
        let mut best = Keyed::filled(None, graph.operator_count());
        for class in graph.class_ids() {
            let members = graph.class(class);
            let hosts = problem.pools().iter().enumerate().filter(|(_, pool)| pool.host);
            let capable = hosts.filter_map(|(id, pool)| {
                let seconds: Option<f64> = members.iter().map(|&op| problem.seconds(op, id)).sum();
                Some((id, pool.devices[0], seconds?))
            });
            let Some((id, device, _)) = capable.min_by(|a, b| a.2.total_cmp(&b.2)) else { continue };
            for &op in members {
                best[op] = problem.seconds(op, id).map(|seconds| (id as u32, device, seconds));
            }
        }
        Hosts { best }
    }

    /// The host pool that runs an operator.
    pub fn pool(&self, op: OpId) -> Option<u32> {
        self.best[op].map(|best| best.0)
    }

    /// The host that runs an operator.
    pub fn device(&self, op: OpId) -> Option<DeviceId> {
        self.best[op].map(|best| best.1)
    }

    /// Seconds of an operator on its host.
    pub fn seconds(&self, op: OpId) -> Option<f64> {
        self.best[op].map(|best| best.2)
    }
}
