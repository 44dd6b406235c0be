//! Arguments that several commands share: the model with its options, and the meaning of groups of options.

use std::path::{Path, PathBuf};

use clap::Args;
use stagewright::code::U001;
use stagewright::tasks::joint::contenders;
use stagewright::tasks::options::read;
use stagewright::tasks::{
    LocalOptions, ObjectiveOptions, ParallelOptions, SelectionOptions, ServingOptions, serving_contenders,
};

use super::{
    ImportArguments, LocalArguments, ObjectiveArguments, ParallelArguments, SelectionArguments,
    ServingArguments, SolveArguments, Surroundings,
};
use crate::error::{CliError, Result, place};
use crate::quantity;

/// The model, and where its operators may run.
#[derive(Debug, Args)]
pub(crate) struct ModelArguments {
    /// Model: a file, or the folder of a language model; - is standard input
    #[arg(value_name = "MODEL")]
    pub(crate) model: PathBuf,
    #[command(flatten)]
    pub(crate) around: AroundArguments,
}

/// The inputs of a problem besides the model and the objective.
#[derive(Debug, Clone, Args)]
pub(crate) struct AroundArguments {
    #[command(flatten)]
    pub(crate) surroundings: Surroundings,
    #[command(flatten)]
    pub(crate) import: ImportArguments,
}

impl AroundArguments {
    /// The cluster: a file, a name or a shorthand.
    pub(crate) fn cluster(&self) -> Option<&Path> {
        self.surroundings.0.file("cluster")
    }

    /// The file of pins.
    pub(crate) fn pins(&self) -> Option<&Path> {
        self.surroundings.0.file("pins")
    }
}

impl ObjectiveArguments {
    /// The options for the library.
    pub(crate) fn options(&self) -> Result<ObjectiveOptions> {
        read(self.0.values().clone(), &place())
    }
}

impl SelectionArguments {
    /// The options for the library.
    pub(crate) fn options(&self) -> Result<SelectionOptions> {
        let mut values = self.0.values().clone();
        if let Some(text) = self.0.text("within") {
            let share = quantity::share(text).map_err(|cause| CliError::new(U001, cause).at("--within"))?;
            values.insert("within".into(), share.into());
        }
        read(values, &place())
    }
}

impl ParallelArguments {
    /// Whether a joint plan is requested.
    pub(crate) fn is_given(&self) -> bool {
        self.0.text("parallel").is_some()
    }

    /// The options for the library; `None` without parallelism.
    pub(crate) fn options(&self) -> Result<Option<ParallelOptions>> {
        self.is_given().then(|| read(self.0.values().clone(), &place())).transpose()
    }
}

impl LocalArguments {
    /// Whether a local plan is requested.
    pub(crate) fn is_given(&self) -> bool {
        self.0.values().contains_key("local")
    }

    /// The options for the library.
    pub(crate) fn options(&self) -> Result<LocalOptions> {
        read(self.0.values().clone(), &place())
    }
}

impl ServingArguments {
    /// Whether a serving plan is requested.
    pub(crate) fn is_given(&self) -> bool {
        self.0.values().contains_key("serve")
    }

    /// The options for the library. Local plans have the same goal and output.
    pub(crate) fn options(&self, local: Option<&LocalArguments>) -> Result<ServingOptions> {
        let mut values = self.0.values().clone();
        for name in ["goal", "output"] {
            let value = local.and_then(|local| local.0.values().get(name));
            values.extend(value.map(|value| (name.to_owned(), value.clone())));
        }
        read(values, &place())
    }
}

impl SolveArguments {
    /// Number of worker threads, if it is given.
    pub(crate) fn threads(&self) -> Option<usize> {
        self.0.number("threads").map(|threads| threads.try_into().unwrap_or(usize::MAX))
    }
}

/// Help of the solvers of a comparison, with the rules and recipes of joint plans.
pub(crate) fn taking_part() -> String {
    let (rules, recipes) = contenders();
    format!(
        "Solvers to compare: names, auto, or the groups exact, search, baselines, learned (learned systems of the \
         literature) and all (the first three), each optionally with its own split rule, such as bnp@free; \
         \"exec:COMMAND\" runs a solver in another program; none compares plans alone [default: auto, auto@free and \
         baselines]. With --parallel: {}, which are the default, and the published recipes {}. With --serve: {}",
        rules.join(", "),
        recipes.join(", "),
        serving_contenders().collect::<Vec<_>>().join(", ")
    )
}
