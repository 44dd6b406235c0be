//! The book: the pages as mdBook reads them, the files that they link to, and the documentation of the Rust API.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use mdbook_driver::MDBook;
use mdbook_driver::config::{Config, HtmlConfig};

use crate::error::{Result, SiteError};
use crate::page::{Page, Part};
use crate::{files, markdown};

/// Folder of the documentation of the Rust API in the site.
pub(crate) const RUST: &str = "api/rust";

/// Style that is added to mdBook's own.
const STYLE: &str = include_str!("site.css");

/// Writes the site into a folder: a new one, an empty one, or that of an earlier site, which is replaced.
pub(crate) fn write(root: &Path, parts: &[Part], out: &Path) -> Result<()> {
    refuse_foreign(out)?;
    let folder = tempfile::tempdir().map_err(SiteError::file(&std::env::temp_dir()))?;
    let source = folder.path().join("src");
    let pages: BTreeMap<&str, &Page> =
        parts.iter().flat_map(|part| &part.pages).map(|page| (&*page.path, page)).collect();
    for page in pages.values() {
        files::write(&source.join(page.in_book()), &linked(page, &pages)?)?;
        for file in linked_files(root, page) {
            files::copy(&root.join(&file), &source.join(&file))?;
        }
    }
    files::write(&source.join("SUMMARY.md"), &summary(parts)?)?;
    files::write(&folder.path().join("site.css"), STYLE)?;
    let out = std::path::absolute(out).map_err(SiteError::file(out))?;
    let config = config(out.clone()).map_err(|error| SiteError::Book(format!("{error:#}")))?;
    MDBook::load_with_config(folder.path(), config)
        .and_then(|book| book.build())
        .map_err(|error| SiteError::Book(format!("{error:#}")))?;
    match rust_documentation() {
        Some(documentation) => files::copy(&documentation, &out.join(RUST)),
        None => Ok(()),
    }
}

/// mdBook empties its output folder, so it must not contain other files.
fn refuse_foreign(out: &Path) -> Result<()> {
    // mdBook writes this file into every site.
    let is_site = out.join(".nojekyll").is_file();
    if !out.exists() || is_site || files::list(out)?.is_empty() {
        return Ok(());
    }
    Err(SiteError::Foreign(out.to_owned()))
}

/// Output of `cargo doc` beside this program, if it exists.
pub(crate) fn rust_documentation() -> Option<PathBuf> {
    let program = std::env::current_exe().ok()?;
    let folder = program.ancestors().nth(2)?.join("doc");
    folder.join("stagewright/index.html").is_file().then_some(folder)
}

fn config(out: PathBuf) -> mdbook_driver::errors::Result<Config> {
    let mut config = Config::default();
    config.book.title = Some("Stagewright".into());
    config.book.language = Some("en".into());
    config.build.build_dir = out;
    // Pages do not use the syntax of preprocessors, `{{#…}}`, and pages that show it must not change.
    config.build.use_default_preprocessors = false;
    let mut html = HtmlConfig::default();
    // Options are written with two hyphens.
    html.smart_punctuation = false;
    html.no_section_label = true;
    html.additional_css = vec!["site.css".into()];
    html.print.enable = false;
    html.playground.runnable = false;
    html.fold.enable = true;
    config.set("output.html", html)?;
    Ok(config)
}

/// The table of contents in the syntax of mdBook.
fn summary(parts: &[Part]) -> Result<String> {
    let mut text = String::from("# Summary\n\n");
    for Part { title, pages } in parts {
        if !title.is_empty() {
            let _ = writeln!(text, "\n# {title}\n");
        }
        for page in pages {
            let mark = match page {
                _ if title.is_empty() => "",
                Page { is_nested: true, .. } => "  - ",
                _ => "- ",
            };
            let _ = writeln!(text, "{mark}[{}]({})", page.title()?, page.in_book());
        }
    }
    Ok(text)
}

/// The text of a page with links as the book needs them: a link to a folder leads to the folder's page, and a link
/// whose text is a path gets the page's title as its text. No line is added or removed.
fn linked(page: &Page, pages: &BTreeMap<&str, &Page>) -> Result<String> {
    let mut text = String::with_capacity(page.text.len());
    let mut done = 0;
    for link in markdown::links(&page.text) {
        let Some(place) = link.place else { continue };
        let (path, anchor) = link.target.split_at(link.target.find('#').unwrap_or(link.target.len()));
        let Some(found) = files::resolve(&page.path, path).filter(|_| !path.is_empty()) else { continue };
        let target = pages.get(&*found).or_else(|| pages.get(&*format!("{found}/README.md")));
        let Some(target) = target else { continue };
        let name = &page.text[link.text.clone()];
        let is_path = name.starts_with('`') && name.ends_with(".md`");
        let name = if is_path { target.title()? } else { name };
        text += &page.text[done..link.text.start];
        text += name;
        text += &page.text[link.text.end..place.start];
        let depth = page.path.matches('/').count();
        let _ = write!(text, "{}{}{anchor}", "../".repeat(depth), target.in_book());
        done = place.end;
    }
    text += &page.text[done..];
    Ok(text)
}

/// The files of the repository that a page links to and that are not pages.
fn linked_files(root: &Path, page: &Page) -> Vec<String> {
    let targets = markdown::links(&page.text).into_iter();
    let paths = targets.filter_map(|link| files::resolve(&page.path, link.target.split('#').next()?));
    paths.filter(|path| !path.ends_with(".md") && root.join(path).is_file()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(path: &str, text: &str) -> Page {
        Page { path: path.into(), text: text.into(), is_generated: false, is_nested: false }
    }

    #[test]
    fn links_lead_to_pages_of_the_book() {
        let from = page(
            "docs/a.md",
            "# A\n\nSee [`../README.md`](../README.md#x), [b](b.md),\n[the data](../data) and [c](c.rs).",
        );
        let others =
            [page("README.md", "# First\n"), page("docs/b.md", "# B\n"), page("data/README.md", "# Data\n")];
        let pages = others.iter().map(|page| (&*page.path, page)).collect();
        let expected = "# A\n\nSee [First](../index.md#x), [b](../docs/b.md),\n[the data](../data/index.md) and [c](c.rs).";
        assert_eq!(linked(&from, &pages).expect("titles"), expected);
    }

    #[test]
    fn the_summary_has_parts_and_nested_pages() {
        let nested = page("r/c.md", "# C\n").nested();
        let parts = [
            Part { title: "", pages: vec![page("README.md", "# First\n")] },
            Part { title: "Reference", pages: vec![page("r/README.md", "# All\n"), nested] },
        ];
        let expected =
            "# Summary\n\n[First](index.md)\n\n# Reference\n\n- [All](r/index.md)\n  - [C](r/c.md)\n";
        assert_eq!(summary(&parts).expect("titles"), expected);
    }

    #[test]
    fn a_folder_with_other_files_is_kept() {
        let folder = tempfile::tempdir().expect("a folder");
        refuse_foreign(folder.path()).expect("an empty folder");
        std::fs::write(folder.path().join("thesis.tex"), "").expect("a file");
        assert!(matches!(refuse_foreign(folder.path()), Err(SiteError::Foreign(_))));
        std::fs::write(folder.path().join(".nojekyll"), "").expect("a file");
        refuse_foreign(folder.path()).expect("an earlier site");
    }

    #[test]
    fn a_page_without_a_title_is_an_error() {
        let parts = [Part { title: "", pages: vec![page("a.md", "text\n")] }];
        assert!(matches!(summary(&parts), Err(SiteError::Untitled(path)) if path == "a.md"));
    }
}
