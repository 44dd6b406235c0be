//! The host of each operator: the fastest one that may run it, since hosts are unlimited and pay for no transfer.

use stagewright_core::cluster::DeviceId;
use stagewright_core::graph::OpId;
use stagewright_core::problem::Problem;

/// The fastest host pool of every operator.
#[derive(Debug, Clone)]
pub struct Hosts {
    /// Pool, its first device and the seconds, by operator.
    best: Vec<Option<(u32, DeviceId, f64)>>,
}

impl Hosts {
    /// O(host pools · operators).
    pub fn new(problem: &Problem) -> Hosts {
        let pools = || problem.pools().iter().enumerate().filter(|(_, pool)| pool.host);
        let best = problem.graph().operators().map(|op| {
            let able = pools().filter_map(|(at, pool)| {
                problem.seconds(op, at).map(|seconds| (at as u32, pool.devices[0], seconds))
            });
            able.min_by(|a, b| a.2.total_cmp(&b.2))
        });
        Hosts { best: best.collect() }
    }

    /// The pool that runs an operator.
    pub fn pool(&self, op: OpId) -> Option<u32> {
        self.best[op.index()].map(|best| best.0)
    }

    /// The device that runs an operator.
    pub fn device(&self, op: OpId) -> Option<DeviceId> {
        self.best[op.index()].map(|best| best.1)
    }

    /// Seconds of an operator.
    pub fn seconds(&self, op: OpId) -> Option<f64> {
        self.best[op.index()].map(|best| best.2)
    }
}
