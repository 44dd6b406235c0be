//! `finetune`: adapts a checkpoint of the policy to one model and cluster.

use std::path::Path;

use stagewright::code::{I002, U001};
use stagewright::learned;
use stagewright::report::units::seconds;
use stagewright::tasks::SolverChoice;
use stagewright::tasks::placement::Chosen;
use stagewright::text::visible;
use stagewright::train::finetune::{Finetuning, finetune};
use stagewright::train::run::RunError;
use stagewright_policy::checkpoint::{Card, CheckpointError};
use stagewright_policy::learn::AdamConfig;
use stagewright_policy::network::Network;
use stagewright_policy::solver::device;

use super::error::at;
use crate::args::FinetuneArguments;
use crate::error::{CliError, Result, place};
use crate::exit::Exit;
use crate::{files, interrupt, output, resolve};

/// Learning rate; low, since there is only one graph to learn from.
const RATE: f64 = 2e-4;
const WARMUP: u64 = 10;

pub(crate) fn run(arguments: &FinetuneArguments) -> Result<Exit> {
    files::outputs(&[("--out", Some(&arguments.out))])?;
    let (objective, effectless) = arguments.objective.options()?.objective(&place())?;
    effectless.iter().for_each(|note| output::note(note));
    let solving = resolve::solving(&arguments.solve)?;
    Chosen::new(&SolverChoice::Named(learned::NAME.into()), &objective, &place())?;
    let problem = resolve::documents_of(&arguments.model.model, &arguments.model.around, None, false)?
        .problem(objective)?;
    // Checked before, rather than after, the time is spent.
    let folder = arguments.out.parent().filter(|folder| !folder.as_os_str().is_empty());
    if let Some(folder) = folder.filter(|folder| !folder.is_dir()) {
        return Err(CliError::new(I002, "the folder of the checkpoint does not exist")
            .at(folder.display().to_string())
            .help("create it, or give another"));
    }
    let (network, card) = network(arguments.checkpoint.as_deref())?;
    let label = arguments.model.model.display().to_string();
    let Some(time) = solving.limits.time else {
        return Err(CliError::new(U001, "fine-tuning needs a time limit")
            .at("--time-limit")
            .help("give one, such as 30s"));
    };
    let how = Finetuning {
        time,
        limits: solving.limits,
        seed: solving.seed,
        threads: solving.threads,
        adam: AdamConfig { learning_rate: RATE, warmup: WARMUP, ..AdamConfig::default() },
        interrupt: interrupt::watch(),
    };
    let Some(tuned) = finetune(&problem, network, &card, &how).map_err(|error| at(&label, error))? else {
        output::result("no plan found to learn from: nothing was learned\n")?;
        return Ok(Exit::NoPlan);
    };
    let bytes = tuned
        .network
        .to_bytes(&tuned.card)
        .map_err(|error| at(&label, RunError::Train(stagewright_policy::learn::TrainError::from(error))))?;
    files::write_with(&arguments.out, |file| file.write_all(&bytes))?;
    let mut lines = format!("{} steps; {}\n", tuned.steps, visible(&arguments.out.display().to_string()));
    if let Some([first, last]) = tuned.losses {
        lines += &format!("loss {first:.4} to {last:.4}\n");
    }
    if let Some(best) = &tuned.best {
        lines += &format!("best plan found: {}\n", seconds(best.value()));
    }
    output::result(&lines)?;
    Ok(Exit::Done)
}

/// Loads the network from a file, or the shipped one.
pub(super) fn network(path: Option<&Path>) -> Result<(Network, Card)> {
    let (label, bytes) = match path {
        Some(path) => {
            let input = files::read(path)?;
            (input.label, input.bytes)
        }
        None => ("the shipped checkpoint".into(), learned::SHIPPED.to_vec()),
    };
    let device = device().map_err(|error| at(&label, RunError::Device(error)))?;
    Network::from_bytes(&bytes, &device).map_err(|error| refused(&label, &error))
}

pub(super) fn refused(label: &str, error: &CheckpointError) -> CliError {
    CliError::new(error.code(), error.to_string()).at(label).help(error.help())
}
