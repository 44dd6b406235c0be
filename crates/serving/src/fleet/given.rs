//! Replicas of plan documents.

use stagewright_core::document::{LinkDocument, ServingStageDocument};

use super::Problem;
use crate::parallel::Parallel;
use crate::replica::Replica;
use crate::worker::Worker;

impl Problem {
    /// The replica of stages as a plan has them; `None` if a kind is unknown, degrees do not fit the model, or layers are not all
    /// held in order.
    pub fn given(&self, stages: &[ServingStageDocument]) -> Option<Replica<'_>> {
        let kind =
            |stage: &ServingStageDocument| self.fleet.kinds.iter().position(|kind| kind.name == stage.kind);
        let kinds: Vec<usize> = stages.iter().map(kind).collect::<Option<_>>()?;
        let worker = |(stage, &kind): (&ServingStageDocument, &usize)| {
            let devices = stage.tensor.checked_mul(stage.data)?;
            let parallel = Parallel {
                tensor: stage.tensor,
                data: stage.data,
                expert_tensor: devices.checked_div(stage.experts)?,
                experts: stage.experts,
            };
            let end = stage.first.checked_add(stage.layers)?;
            Some(self.worker(kind, parallel)?.with_layers(stage.first as usize..end as usize))
        };
        let workers: Vec<Worker> = stages.iter().zip(&kinds).map(worker).collect::<Option<_>>()?;
        let links = self.links(&kinds, &workers);
        let replica = Replica::new("stages", workers, links).ok()?;
        Some(self.with_speculation(replica))
    }

    /// Links between workers in a row: those inside a server if all are in one.
    pub(super) fn links(&self, kinds: &[usize], workers: &[Worker]) -> Vec<LinkDocument> {
        let devices = workers.iter().map(|worker| worker.parallel().devices()).sum();
        let is_one_kind = kinds.windows(2).all(|pair| pair[0] == pair[1]);
        let is_inside =
            is_one_kind && kinds.first().is_some_and(|&first| self.fleet.is_inside(first, devices));
        kinds.windows(2).map(|pair| self.fleet.link(pair[0], pair[1], is_inside)).collect()
    }
}
