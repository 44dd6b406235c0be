//! `show`: parameters, bytes of weights, cache and work of a language model, from a configuration or the headers of its
//! weights.

use stagewright::core::document::ModelOptionsDocument;
use stagewright::{figures, structures};

use super::args::ShowModelArguments;
use super::error::{Result, option};
use super::exit::Exit;
use super::model_options::set;
use super::{output, resolve};

pub(crate) fn run(arguments: &ShowModelArguments) -> Result<Exit> {
    let options = ModelOptionsDocument {
        context: arguments.context,
        cache: arguments.cache.clone(),
        architecture: arguments.architecture.clone(),
        set: set(&arguments.set)?,
        ..ModelOptionsDocument::default()
    };
    let mut notes = Vec::new();
    let reading = structures::reading(&options);
    let structure = structures::of_opened(resolve::opened(&arguments.model)?, &reading, &mut notes)?;
    output::notes(&notes);
    let found = figures::figures(&structure, &options, option)?;
    match arguments.json {
        true => output::data(&output::json(&found)?)?,
        false => output::result(&figures::text(&found, output::width()))?,
    }
    Ok(Exit::Done)
}
