//! The contents of the site: its parts and their pages.
//!
//! The first pages have no part: the README, and the guides by task, for readers who know what they want to do. The parts
//! follow Diátaxis: a tutorial to learn from, guides for tasks, a reference, and explanations. The names of pages are
//! their titles, and every page under `docs` must be in a part.

use std::path::Path;

use crate::error::{Result, SiteError};
use crate::page::{Page, Part};
use crate::{files, reference};

/// The page that lists the guides by task.
const BY_TASK: &str = "docs/how-to/README.md";

/// The title of the part with the guides.
const GUIDES: &str = "How-to guides";

/// The title of the part that the generated pages belong to.
const REFERENCE: &str = "Reference";

/// The pages of the repository, by part.
const PARTS: &[(&str, &[&str])] = &[
    ("", &["README.md", BY_TASK]),
    ("Tutorial", &["docs/tutorial.md"]),
    (
        GUIDES,
        &[
            "docs/how-to/size.md",
            "docs/how-to/language-models.md",
            "docs/how-to/local-models.md",
            "docs/how-to/serving.md",
            "docs/how-to/memory.md",
            "docs/how-to/choose.md",
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
            "docs/serving.md",
            "docs/serving-times.md",
            "docs/learned-systems.md",
            "data/policy/README.md",
            "data/kernels/README.md",
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::markdown;

    #[test]
    fn every_guide_is_listed_by_task() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let links = markdown::links(&files::read(&root.join(BY_TASK)).expect("a page"));
        let targets = links.iter().filter_map(|link| link.target.split('#').next());
        let listed: Vec<String> = targets.filter_map(|target| files::resolve(BY_TASK, target)).collect();
        let (_, guides) = PARTS.iter().find(|(title, _)| *title == GUIDES).expect("guides");
        for guide in *guides {
            assert!(listed.iter().any(|path| path == guide), "{guide} is not listed in {BY_TASK}");
        }
    }
}
