//! The page of a serving plan, of a solve or of an explanation.

use std::io::{self, Write};

use stagewright_core::document::{ReplicaDocument, ServingPlanDocument};
use stagewright_report::convergence::Convergence;
use stagewright_report::html;
use stagewright_report::html::serving::{Explained, ServingPage, StageMemory};
use stagewright_serving::Problem;

use super::text;
use crate::failure::Result;
use crate::tasks::Document;
use crate::tasks::answer::Sheet;

/// How a plan is shown, with the memory of its stages.
pub(super) struct ServingSheet(pub(super) Vec<Vec<StageMemory>>);

impl Sheet for ServingSheet {
    fn text(&self, document: &Document, width: Option<u16>) -> String {
        match document {
            Document::Serving(plan) => text::text(plan, width),
            _ => String::new(),
        }
    }

    fn html(
        &self,
        document: &Document,
        _cluster: Option<&str>,
        _convergence: &Convergence,
        out: &mut dyn Write,
    ) -> Result<io::Result<()>> {
        let Document::Serving(plan) = document else { return Ok(Ok(())) };
        Ok(write(plan, &self.0, None, out))
    }
}

/// Writes the page of a plan.
pub(super) fn write(
    plan: &ServingPlanDocument,
    memory: &[Vec<StageMemory>],
    explained: Option<&Explained>,
    out: &mut dyn Write,
) -> io::Result<()> {
    html::serving::write(&ServingPage { document: plan, memory, explained }, out)
}

/// Memory of a device of every stage, by replica; none for replicas that do not fit the problem.
pub(super) fn memory(problem: &Problem, plan: &ServingPlanDocument) -> Vec<Vec<StageMemory>> {
    let of_replica = |replica: &ReplicaDocument| {
        let (Some(stages), Some(class)) =
            (problem.given(&replica.stages), problem.classes.get(replica.class as usize))
        else {
            return Vec::new();
        };
        let workers = stages.stages().iter().map(|worker| StageMemory {
            weights: worker.weight_bytes(),
            caches: replica.batch as f64 * worker.cache_bytes(class.longest()),
            room: worker.cache_budget(),
            memory: worker.device().memory,
        });
        workers.collect()
    };
    plan.replicas.iter().map(of_replica).collect()
}
