//! Labels made on a cluster: a training run requests them, and this program answers on the nodes.

use std::cell::RefCell;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde::{Deserialize, Serialize};
use stagewright::train::run::Request;
use stagewright::train::store::{Labeller, StoreError, StoredLabel, Take, Wanted};

use super::error::at;
use crate::cluster::{self, Cluster, Task, own_digest, refuse_other_build};
use crate::error::{CliError, Result};
use crate::exit::Exit;

/// A request that only the same build of the program answers, because another build could make different labels.
#[derive(Serialize, Deserialize)]
struct Asked {
    program: String,
    request: Request,
}

/// The nodes of a cluster, which make labels.
pub(super) struct Nodes {
    /// Address of the cluster.
    address: String,
    /// Path of the configuration, for display in messages.
    configuration: String,
    /// Reason why the cluster cannot be used.
    failure: RefCell<Option<CliError>>,
}

impl Nodes {
    pub(super) fn new(address: &str, configuration: &Path) -> Nodes {
        let configuration = configuration.display().to_string();
        Nodes { address: address.into(), configuration, failure: RefCell::new(None) }
    }

    /// Reason why the cluster could not be used, if this ended the run.
    pub(super) fn failure(&self) -> Option<CliError> {
        self.failure.take()
    }

    /// Requests all missing labels and passes each to `take` as it arrives.
    fn ask(&self, wanted: &Wanted<'_>, take: &Take<'_>) -> Result<Result<(), StoreError>> {
        let arguments = ["train", &self.configuration, "--worker"].map(String::from);
        let program = own_digest()?;
        let mut cluster = Cluster::start(&self.address, &arguments)?;
        for (id, &index) in wanted.indices.iter().enumerate() {
            let request = Request { recipe: wanted.recipe.document().clone(), effort: *wanted.effort, index };
            let label = format!("label {index} of {}", self.configuration);
            let request = Asked { program: program.clone(), request };
            cluster.submit(&Task { id, label, cpus: 1, memory: None, request })?;
        }
        while let Some((id, reply)) = cluster.next(|| wanted.interrupt.load(Ordering::Relaxed))? {
            let Some(&index) = wanted.indices.get(id) else { continue };
            let taken = of_instance(index, reply).and_then(take);
            if taken.is_err() {
                return Ok(taken);
            }
        }
        Ok(Ok(()))
    }
}

/// Extracts the label of an instance from a reply, which must be about that instance.
fn of_instance(index: u64, reply: Result<StoredLabel, String>) -> Result<StoredLabel, StoreError> {
    let cause = match reply {
        Ok(label) if label.index == index => return Ok(label),
        Ok(label) => format!("the answer is the label of instance {}", label.index),
        // Further lines state the place and the help on the node.
        Err(error) => error.lines().next().unwrap_or_default().into(),
    };
    Err(StoreError::Elsewhere { index, cause })
}

impl Labeller for Nodes {
    fn label(&self, wanted: &Wanted<'_>, take: &Take<'_>) -> Result<(), StoreError> {
        self.ask(wanted, take).unwrap_or_else(|error| {
            let (index, cause) = (wanted.indices.first().copied().unwrap_or(0), error.cause().into());
            self.failure.replace(Some(error));
            Err(StoreError::Elsewhere { index, cause })
        })
    }
}

/// Answers requests for labels of a configuration, which arrive on standard input.
pub(super) fn answer(configuration: &str) -> Result<Exit> {
    let interrupt = Arc::new(AtomicBool::new(false));
    let stopped = interrupt.clone();
    let ended = move || stopped.store(true, Ordering::Relaxed);
    let program = own_digest()?;
    cluster::serve(ended, |asked: Asked| {
        refuse_other_build(&asked.program, &program)?;
        asked.request.answer(&interrupt).map_err(|error| at(configuration, error))
    })?;
    Ok(Exit::Done)
}
