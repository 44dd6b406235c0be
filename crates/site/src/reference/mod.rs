//! The generated reference: commands, documents, the Rust API and the Python API.

mod commands;
mod documents;
mod python;
mod rust;

use std::path::Path;

use crate::error::Result;
use crate::page::Page;

/// The generated pages, in order.
///
/// # Errors
/// If the program does not write its manual, or a source cannot be read.
pub(crate) fn pages(root: &Path) -> Result<Vec<Page>> {
    let mut pages = commands::pages(root)?;
    pages.extend(documents::pages(root)?);
    pages.extend(rust::pages(root)?);
    pages.push(python::page(root)?);
    Ok(pages)
}
