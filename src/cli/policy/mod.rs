//! The learned policy on the command line: `train`, `finetune`, and plans by a checkpoint of one's own.

mod finetune;
mod train;

use std::path::Path;

use stagewright::learned;
use stagewright_policy::Policy;

use super::error::CliError;
use super::resolve::Chosen;
pub(crate) use finetune::run as finetune;
pub(crate) use train::run as train;

/// The policy with the network of a file, where the policy was chosen.
pub(crate) fn of_checkpoint(path: &Path, chosen: &Chosen) -> Result<Chosen, CliError> {
    let (name, summary) = (chosen.solver.name(), chosen.solver.summary());
    if name != learned::NAME {
        return Err(CliError::new("U001", format!("`{name}` has no checkpoint"))
            .at("--checkpoint")
            .help(format!("give it with --solver {}", learned::NAME)));
    }
    let (network, _) = finetune::network(Some(path))?;
    // Once in the life of the process: solvers live as long as it.
    let policy: &'static Policy = Box::leak(Box::new(learned::with(name, summary, network)));
    Ok(Chosen { solver: policy, label: chosen.label.clone() })
}
