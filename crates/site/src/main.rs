//! The documentation site.
//!
//! `cargo run -p stagewright-site -- OUT` writes it to `OUT`, `target/site` by default. Its pages are those of the
//! repository and a reference that is generated from the program, the schemas, the examples and the stubs of the Python
//! package. mdBook makes a book of them. Afterwards every link is looked up, except addresses on the network.
//!
//! A page keeps its path in the repository, so a link between two pages works in both places.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a program for developers")]

mod book;
mod contents;
mod error;
mod files;
mod links;
mod markdown;
mod page;
mod reference;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use error::{Result, SiteError};

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    let out = arguments.next();
    if arguments.next().is_some() {
        eprintln!("usage: stagewright-site [OUT]");
        return ExitCode::from(2);
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let out = out.map_or_else(|| root.join("target/site"), PathBuf::from);
    match build(&root, &out) {
        Ok((pages, links)) => {
            println!("{pages} pages with {links} links: {}", out.join("index.html").display());
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Writes the site and checks its links. Returns its number of pages and of links.
fn build(root: &Path, out: &Path) -> Result<(usize, usize)> {
    let parts = contents::parts(root)?;
    book::write(root, &parts, out)?;
    let pages = || parts.iter().flat_map(|part| &part.pages);
    let (checked, broken) = links::check(root, pages(), out)?;
    match broken.is_empty() {
        true => Ok((pages().count(), checked)),
        false => Err(SiteError::Links(broken.iter().map(ToString::to_string).collect())),
    }
}
