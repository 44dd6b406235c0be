//! The learned policy and the field's learned systems on the command line: `train`, `finetune`, and plans by a checkpoint of
//! one's own.

mod finetune;
mod train;

use std::path::Path;

use stagewright::core::solver::Solver;
use stagewright::learned;
use stagewright_policy::systems::{Learned, Use};

use super::error::CliError;
use super::files;
use super::resolve::Chosen;
pub(crate) use finetune::run as finetune;
pub(crate) use train::run as train;

/// The policy, or a learned system, with the parameters of a file, where it was chosen.
pub(crate) fn of_checkpoint(path: &Path, is_zero_shot: bool, chosen: &Chosen) -> Result<Chosen, CliError> {
    let (name, summary) = (chosen.solver.name(), chosen.solver.summary());
    let system = learned::SYSTEMS.iter().find(|system| system.name() == name);
    let solver: Box<dyn Solver> = match system {
        Some(system) => {
            let what = if is_zero_shot { Use::Play } else { Use::Learn };
            let input = files::read(path)?;
            let found = Learned::of_file(name, summary, system.kind(), what, input.bytes);
            Box::new(found.map_err(|error| finetune::refused(&input.label, &error))?)
        }
        None if name != learned::NAME => {
            return Err(CliError::new("U001", format!("`{name}` has no checkpoint"))
                .at("--checkpoint")
                .help(format!("give it with --solver {}, or a learned system", learned::NAME)));
        }
        None if is_zero_shot => {
            return Err(CliError::new("U001", format!("`{name}` never learns while it plans"))
                .at("--zero-shot")
                .help("leave it out"));
        }
        None => Box::new(learned::with(name, summary, finetune::network(Some(path))?.0)),
    };
    // Once in the life of the process: solvers live as long as it.
    Ok(Chosen { solver: Box::leak(solver), label: chosen.label.clone() })
}
