//! `man`: the manual, with a page for each command.

mod markdown;

use clap::{Command, CommandFactory};
use clap_mangen::Man;
use stagewright::code::X001;

use super::args::{Arguments, ManArguments};
use super::error::{CliError, Result};
use super::exit::Exit;
use super::{files, output};

pub(crate) fn run(arguments: &ManArguments) -> Result<Exit> {
    let mut command = Arguments::command().disable_help_subcommand(true);
    // Gives every command its full name, such as `stagewright-plan`.
    command.build();
    let page = if arguments.markdown { markdown_page } else { page };
    let Some(folder) = &arguments.folder else {
        output::data(&page(command)?.1)?;
        return Ok(Exit::Done);
    };
    files::make_folder(folder)?;
    let shown = command.get_subcommands().filter(|command| !command.is_hide_set());
    let commands = shown.cloned().collect::<Vec<_>>();
    for command in [command].into_iter().chain(commands) {
        let (name, text) = page(command)?;
        files::write(&folder.join(name), &text)?;
    }
    Ok(Exit::Done)
}

/// The file name and text of a command's page.
fn page(command: Command) -> Result<(String, String)> {
    let page = Man::new(command).source(concat!("stagewright ", env!("CARGO_PKG_VERSION")));
    let mut text = Vec::new();
    page.render(&mut text)
        .map_err(|error| CliError::new(X001, format!("cannot write the manual: {error}")))?;
    Ok((page.get_filename(), String::from_utf8_lossy(&text).into_owned()))
}

/// The file name and text of a command's page in Markdown.
fn markdown_page(command: Command) -> Result<(String, String)> {
    let name = command.get_display_name().unwrap_or_else(|| command.get_name());
    Ok((format!("{name}.md"), markdown::page(&command)))
}
