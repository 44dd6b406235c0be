//! The contents of the site: its parts and their pages.
//!
//! The parts follow Diátaxis: a tutorial to learn from, guides for tasks, a reference, and explanations. The names of pages
//! are their titles, and every page under `docs` must be in a part.

use std::path::Path;

use crate::error::{Result, SiteError};
use crate::{files, reference};

/// A part of the site.
#[derive(Debug)]
pub(crate) struct Part {
    /// Title of the part; empty for the first page.
    pub(crate) title: &'static str,
    /// Pages of the part, in order.
    pub(crate) pages: Vec<Page>,
}

/// A page of the site.
#[derive(Debug)]
pub(crate) struct Page {
    /// Path of the page in the repository, or a virtual one.
    pub(crate) path: String,
    /// Text of the page.
    pub(crate) text: String,
    /// Whether the page is generated, and is not in the repository.
    pub(crate) is_generated: bool,
    /// Whether the page belongs to the nearest page above it that does not belong to another.
    pub(crate) is_nested: bool,
}

impl Page {
    /// A page that is not in the repository.
    pub(crate) fn generated(path: impl Into<String>, text: String) -> Page {
        Page { path: path.into(), text, is_generated: true, is_nested: false }
    }

    /// The page as one that belongs to the page above it.
    pub(crate) fn nested(self) -> Page {
        Page { is_nested: true, ..self }
    }

    /// The title.
    ///
    /// # Errors
    /// If the page does not begin with one.
    pub(crate) fn title(&self) -> Result<&str> {
        let title = self.text.lines().next().and_then(|line| line.strip_prefix("# "));
        title.ok_or_else(|| SiteError::Untitled(self.path.clone()))
    }

    /// Path of the page's Markdown in the book: a folder opens with `index.md`.
    pub(crate) fn in_book(&self) -> String {
        match self.path.strip_suffix("README.md") {
            Some(folder) => format!("{folder}index.md"),
            None => self.path.clone(),
        }
    }
}

/// The title of the part that the generated pages belong to.
const REFERENCE: &str = "Reference";

/// The pages of the repository, by part.
const PARTS: &[(&str, &[&str])] = &[
    ("", &["README.md"]),
    ("Tutorial", &["docs/tutorial.md"]),
    (
        "How-to guides",
        &[
            "docs/how-to/memory.md",
            "docs/how-to/measured-costs.md",
            "docs/how-to/compare.md",
            "docs/how-to/check.md",
            "docs/how-to/slow-plan.md",
            "docs/how-to/families.md",
            "docs/how-to/export.md",
            "docs/how-to/joint.md",
            "docs/how-to/policy.md",
            "docs/how-to/bench.md",
            "docs/clusters.md",
            "docs/instances.md",
            "docs/python.md",
            "docs/cuda.md",
            "docs/setup.md",
        ],
    ),
    (REFERENCE, &["data/errors.md", "data/clusters/README.md"]),
    (
        "Explanation",
        &[
            "docs/methods.md",
            "docs/cost-rules.md",
            "docs/costs.md",
            "docs/joint.md",
            "docs/learned-systems.md",
            "data/policy/README.md",
            "docs/glossary.md",
            "ARCHITECTURE.md",
        ],
    ),
    ("Tables", &["docs/solvers.md", "docs/measurements.md", "docs/models.md", "docs/runtimes.md"]),
    (
        "Project",
        &[
            "CONTRIBUTING.md",
            "CHANGELOG.md",
            "data/demo/README.md",
            "data/models/README.md",
            "data/instances/README.md",
        ],
    ),
];

/// The parts with the text of all pages.
///
/// # Errors
/// If a page cannot be read or generated, or if one under `docs` is in no part.
pub(crate) fn parts(root: &Path) -> Result<Vec<Part>> {
    every_page_is_listed(root, "docs")?;
    let mut parts = Vec::new();
    for &(title, paths) in PARTS {
        let mut pages = if title == REFERENCE { reference::pages(root)? } else { Vec::new() };
        for &path in paths {
            let text = files::read(&root.join(path))?;
            pages.push(Page { path: path.into(), text, is_generated: false, is_nested: false });
        }
        parts.push(Part { title, pages });
    }
    Ok(parts)
}

/// Rejects a page of a folder that no part lists.
fn every_page_is_listed(root: &Path, folder: &str) -> Result<()> {
    for entry in files::list(&root.join(folder))? {
        let Some(name) = entry.file_name().and_then(|name| name.to_str()) else { continue };
        let path = format!("{folder}/{name}");
        if entry.is_dir() {
            every_page_is_listed(root, &path)?;
        } else if path.ends_with(".md") && !PARTS.iter().any(|(_, pages)| pages.contains(&&*path)) {
            return Err(SiteError::Unlisted(path));
        }
    }
    Ok(())
}
