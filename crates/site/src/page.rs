//! Pages and parts of the site.

use crate::error::{Result, SiteError};

/// A part of the site.
#[derive(Debug)]
pub(crate) struct Part {
    /// Title of the part; empty for the first pages.
    pub(crate) title: &'static str,
    /// Pages of the part, in order.
    pub(crate) pages: Vec<Page>,
}

/// A page of the site.
#[derive(Debug)]
pub(crate) struct Page {
    /// Path of the page in the repository, or the one that it would have there.
    pub(crate) path: String,
    /// Text of the page.
    pub(crate) text: String,
    /// Whether the page is generated, and is not in the repository.
    pub(crate) is_generated: bool,
    /// Whether the page is nested under the nearest page above it that is not nested.
    pub(crate) is_nested: bool,
}

impl Page {
    /// A page that is not in the repository.
    pub(crate) fn generated(path: impl Into<String>, text: String) -> Page {
        Page { path: path.into(), text, is_generated: true, is_nested: false }
    }

    /// The page, nested under a page above it.
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
