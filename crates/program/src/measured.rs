//! `--costs`: files of measurements.

use std::path::Path;

use stagewright::core::document::CostsDocument;
use stagewright::costs::{Unmeasured, import};

use super::error::Result;
use super::files::{Input, read};

/// Reads files of measurements, with their labels. Words for the prices of what was not measured are no files.
pub(crate) fn documents(paths: &[impl AsRef<Path>]) -> Result<Vec<(String, CostsDocument)>> {
    let mut documents = Vec::new();
    for path in paths.iter().filter(|path| !Unmeasured::is_word(path.as_ref())) {
        let Input { label, bytes } = read(path.as_ref())?;
        let document = import::import(&label, &bytes, &import::Options::default())?;
        documents.push((label, document));
    }
    Ok(documents)
}

/// Reads files of measurements as they are.
pub(crate) fn files(paths: &[impl AsRef<Path>]) -> Result<Vec<Input>> {
    paths.iter().map(|path| read(path.as_ref())).collect()
}
