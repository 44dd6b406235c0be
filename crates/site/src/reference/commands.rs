//! The commands and their options: the manual of the program in Markdown.

use std::ffi::OsString;
use std::path::Path;
use std::process::Command;

use crate::error::{Result, SiteError};
use crate::files;
use crate::page::Page;

/// Environment variable that names the program. Without it, cargo builds the program.
const PROGRAM: &str = "STAGEWRIGHT_PROGRAM";

/// A page for the program, and one for each of its commands.
pub(super) fn pages(root: &Path) -> Result<Vec<Page>> {
    let folder = tempfile::tempdir().map_err(SiteError::file(&std::env::temp_dir()))?;
    let mut command = match std::env::var_os(PROGRAM) {
        Some(program) => Command::new(program),
        None => {
            let cargo = std::env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
            let mut command = Command::new(cargo);
            command.current_dir(root).args(["run", "--quiet", "--bin", "stagewright", "--"]);
            command
        }
    };
    command.args(["man", "--markdown"]).arg(folder.path());
    let shown = format!("{command:?}");
    let failed = |reason| SiteError::Program { command: shown, reason };
    match command.output() {
        Ok(output) if output.status.success() => {}
        Ok(output) => return Err(failed(String::from_utf8_lossy(&output.stderr).into_owned())),
        Err(error) => return Err(failed(error.to_string())),
    }
    let mut pages = Vec::new();
    for path in files::list(folder.path())? {
        let text = files::read(&path)?;
        let Some(name) = path.file_name().and_then(|name| name.to_str()) else { continue };
        if name == "stagewright.md" {
            let title = "# stagewright";
            let text = text.replacen(title, "# Commands", 1);
            pages.insert(0, Page::generated("reference/commands/README.md", text));
        } else {
            pages.push(Page::generated(format!("reference/commands/{name}"), text).nested());
        }
    }
    Ok(pages)
}
