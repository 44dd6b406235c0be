//! The learned policy and the learned systems of the literature on the command line: `train`, `finetune`, and plans
//! with a given checkpoint.

mod error;
mod finetune;
mod labels;
mod memory;
mod threads;
mod train;

use std::path::Path;
use std::sync::Arc;

use stagewright::code::U001;
use stagewright::core::solver::Solver;
use stagewright::tasks::SolverChoice;
use stagewright::{learned, registry};
use stagewright_systems::{Learned, Mode};

use crate::error::{CliError, Result};
use crate::files;
pub(crate) use finetune::run as finetune;
pub(crate) use memory::keep as keep_memory;
pub(crate) use threads::share as share_threads;
pub(crate) use train::run as train;

/// Whether a solver may evaluate a neural network.
pub(crate) fn has_network(solver: &str) -> bool {
    solver == learned::NAME
        || solver.starts_with(registry::ABLATION)
        || learned::SYSTEMS.iter().any(|system| system.name() == solver)
}

/// Gives the chosen policy or learned system the parameters of a checkpoint file. An unknown name is left unchanged.
pub(crate) fn of_checkpoint(path: &Path, is_zero_shot: bool, choice: SolverChoice) -> Result<SolverChoice> {
    let (name, summary) = match &choice {
        SolverChoice::Named(name) => match registry::named(name) {
            Some(solver) => (solver.name(), solver.summary()),
            None if name.starts_with(registry::ABLATION) => ("ablation", ""),
            None => return Ok(choice),
        },
        SolverChoice::Own(solver, _) => (solver.name(), solver.summary()),
        SolverChoice::None | SolverChoice::Auto => ("auto", ""),
    };
    let system = learned::SYSTEMS.iter().find(|system| system.name() == name);
    let solver: Arc<dyn Solver> = match system {
        Some(system) => {
            let mode = if is_zero_shot { Mode::Greedy } else { Mode::Learn };
            let input = files::read(path)?;
            let found = Learned::of_file(name, summary, system.kind(), mode, input.bytes);
            Arc::new(found.map_err(|error| finetune::refused(&input.label, &error))?)
        }
        None if name == learned::NAME && is_zero_shot => {
            return Err(CliError::new(U001, format!("`{name}` does not learn while planning"))
                .at("--zero-shot")
                .help("leave it out"));
        }
        None if name == learned::NAME => {
            Arc::new(learned::POLICY.with_network(finetune::network(Some(path))?.0))
        }
        None => {
            let systems = learned::SYSTEMS.iter().map(|system| system.name());
            let names: Vec<&str> = [learned::NAME].into_iter().chain(systems).collect();
            return Err(CliError::new(U001, format!("`{name}` does not take a checkpoint"))
                .at("--checkpoint")
                .help(format!("use it with one of {}", names.join(", "))));
        }
    };
    Ok(SolverChoice::Own(solver, name.into()))
}
