//! A replica with what it offers.

use stagewright_core::document::{RunningReplicaDocument, ServingRole, ServingStageDocument};
use stagewright_serving::{Division, Offer, Problem, Worker};

use crate::shape::Shape;

/// A replica with its offer.
#[derive(Debug, Clone)]
pub struct Column {
    /// Index of its size.
    pub size: usize,
    /// Role.
    pub role: ServingRole,
    /// Index of its class of requests.
    pub class: usize,
    /// Degrees and kinds of its stages.
    pub shape: Shape,
    /// How its layers are divided.
    pub division: Division,
    /// Stages whose layers are given; `None` if they are divided, or those of the start.
    pub given: Option<Vec<ServingStageDocument>>,
    /// Sequences of a rank; 0 for prefill.
    pub batch: u64,
    /// Requests that it serves, and their times.
    pub offer: Offer,
    /// Tokens in its caches.
    pub cache_tokens: u64,
    /// Index of the replica of the start that it is; `None` if it does not run yet.
    pub kept: Option<u32>,
    /// Bytes of weights that it loads on all its devices: 0 if it runs already.
    pub moved_bytes: f64,
}

impl Column {
    /// The stages of the replica.
    pub fn stages(&self, problem: &Problem) -> Vec<ServingStageDocument> {
        if let Some(stages) = &self.given {
            return stages.clone();
        }
        if let Some(running) = self.running(problem) {
            return running.stages.clone();
        }
        let kinds = &self.shape.kinds;
        let workers = kinds.iter().map(|&kind| Some((kind, problem.worker(kind, self.shape.parallel)?)));
        let workers: Option<Vec<(usize, Worker)>> = workers.collect();
        let class = &problem.classes[self.class];
        let replica =
            workers.as_ref().and_then(|workers| problem.replica(workers, class, self.batch, self.division));
        replica.map_or_else(Vec::new, |replica| problem.stages(&replica, kinds))
    }

    /// The replica of the start that it is; `None` if it does not run yet.
    pub fn running<'p>(&self, problem: &'p Problem) -> Option<&'p RunningReplicaDocument> {
        problem.question.start.as_ref()?.replicas.get(self.kept? as usize)
    }
}
