//! The links of the pages, looked up in the finished site.
//!
//! A link of a page of the repository leads to a file in the repository and in the site, so it works in both. A link to
//! an anchor leads to an element with this `id`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::Path;

use crate::error::Result;
use crate::page::Page;
use crate::{files, markdown};

/// A link that leads nowhere.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Broken {
    /// The page.
    pub(crate) page: String,
    /// Line of the link, from 1.
    pub(crate) line: usize,
    /// The target.
    pub(crate) target: String,
    /// Fault of the link.
    pub(crate) reason: String,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Broken { page, line, target, reason } = self;
        write!(f, "{page}:{line}: `{target}` {reason}")
    }
}

/// Looks up all links of pages in a site. Returns their number, and those that are broken.
pub(crate) fn check<'a>(
    root: &Path,
    pages: impl Iterator<Item = &'a Page>,
    out: &Path,
) -> Result<(usize, Vec<Broken>)> {
    let pages: Vec<&Page> = pages.collect();
    let listed = pages.iter().map(|page| (&*page.path, *page)).collect();
    let mut site = Site { root, listed, out, anchors: BTreeMap::new() };
    let mut count = 0;
    let mut broken = Vec::new();
    for page in pages {
        for link in markdown::links(&page.text) {
            count += 1;
            let fault = match link.place {
                Some(_) => site.fault(page, &link.target)?,
                None if link.target.starts_with('<') => Some("is HTML: write Markdown, or code".into()),
                None => Some("is not of the form `[text](target)`".into()),
            };
            let (page, line, target) = (page.path.clone(), link.line, link.target);
            broken.extend(fault.map(|reason| Broken { page, line, target, reason }));
        }
    }
    Ok((count, broken))
}

/// A finished site.
struct Site<'a> {
    /// The repository.
    root: &'a Path,
    /// The pages by path.
    listed: BTreeMap<&'a str, &'a Page>,
    /// The folder of the site.
    out: &'a Path,
    /// The anchors of the pages that were read, by path in the site.
    anchors: BTreeMap<String, BTreeSet<String>>,
}

impl Site<'_> {
    /// Fault of a link on a page.
    fn fault(&mut self, page: &Page, target: &str) -> Result<Option<String>> {
        let (path, anchor) =
            target.split_once('#').map_or((target, None), |(path, anchor)| (path, Some(anchor)));
        let found = if path.is_empty() { Some(page.path.clone()) } else { files::resolve(&page.path, path) };
        let Some(found) = found else { return Ok(Some("leaves the repository".into())) };
        if !page.is_generated && !self.root.join(&found).exists() {
            return Ok(Some("is not in the repository".into()));
        }
        let is_folder = self.root.join(&found).is_dir();
        let listed = match self.listed.get(&*found) {
            None if is_folder => self.listed.get(&*format!("{found}/README.md")),
            listed => listed,
        };
        let file = match listed {
            Some(listed) => listed.in_book().replace(".md", ".html"),
            None if is_folder => return Ok(Some("is a folder without a page".into())),
            None if found.ends_with(".md") => return Ok(Some("is not a page of the site".into())),
            None => found,
        };
        if !self.out.join(&file).is_file() {
            return Ok(Some("is not in the site".into()));
        }
        let Some(anchor) = anchor else { return Ok(None) };
        if !file.ends_with(".html") {
            return Ok(Some("has no anchors".into()));
        }
        if !self.anchors.contains_key(&file) {
            let anchors = anchors(&files::read(&self.out.join(&file))?);
            self.anchors.insert(file.clone(), anchors);
        }
        let is_found = self.anchors.get(&file).is_some_and(|anchors| anchors.contains(anchor));
        Ok((!is_found).then(|| "names an anchor that its page lacks".into()))
    }
}

/// The anchors of a page in HTML.
fn anchors(html: &str) -> BTreeSet<String> {
    let starts = html.match_indices(" id=\"").map(|(start, attribute)| &html[start + attribute.len()..]);
    starts.filter_map(|rest| rest.split('"').next()).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::book;
    use crate::page::Part;

    /// Faults of the links of `docs/a.md`, in a site with this page, a page `data/README.md`, a generated page, and
    /// files of the repository.
    fn faults(text: &str) -> Vec<String> {
        let root = tempfile::tempdir().expect("a folder");
        let page = |path: &str, text: &str, is_generated: bool| {
            if !is_generated {
                files::write(&root.path().join(path), text).expect("room");
            }
            Page { path: path.into(), text: text.into(), is_generated, is_nested: false }
        };
        files::write(&root.path().join("src/main.rs"), "").expect("room");
        files::write(&root.path().join("docs/unlisted.md"), "# Unlisted\n").expect("room");
        let pages = vec![
            page("docs/a.md", &format!("# A\n\n{text}\n"), false),
            page("data/README.md", "# Data\n\n## A part, of it\n", false),
            page("reference/plan.md", "# plan\n\n[back](../docs/a.md#a)\n", true),
        ];
        let parts = [Part { title: "Part", pages }];
        let out = root.path().join("out");
        book::write(root.path(), &parts, &out).expect("a site");
        let (count, broken) = check(root.path(), parts[0].pages.iter(), &out).expect("readable");
        assert!(count > 1);
        broken.iter().map(|broken| broken.to_string()).collect()
    }

    #[test]
    fn good_links_have_no_fault() {
        let good = "[a](#a) [b](a.md) [c](../data/README.md#a-part-of-it) [d](../data)\n[e](../src/main.rs) \
                    [f](https://example.invalid/x)";
        assert_eq!(faults(good), [""; 0]);
    }

    #[test]
    fn broken_links_have_a_page_a_line_and_a_reason() {
        for (link, reason) in [
            ("[a](b.md)", "docs/a.md:3: `b.md` is not in the repository"),
            ("text\n\n![a](b.png)", "docs/a.md:5: `b.png` is not in the repository"),
            ("[a](#b)", "docs/a.md:3: `#b` names an anchor that its page lacks"),
            (
                "[a](../data/README.md#part)",
                "docs/a.md:3: `../data/README.md#part` names an anchor that its page lacks",
            ),
            ("[a](../../b.md)", "docs/a.md:3: `../../b.md` leaves the repository"),
            ("[a](unlisted.md)", "docs/a.md:3: `unlisted.md` is not a page of the site"),
            ("[a](../src)", "docs/a.md:3: `../src` is a folder without a page"),
            ("[a](../src/main.rs#L1)", "docs/a.md:3: `../src/main.rs#L1` has no anchors"),
            ("[a](../reference/plan.md)", "docs/a.md:3: `../reference/plan.md` is not in the repository"),
            ("the <FILE>", "docs/a.md:3: `<FILE>` is HTML: write Markdown, or code"),
            ("[a][b]\n\n[b]: a.md", "docs/a.md:3: `a.md` is not of the form `[text](target)`"),
        ] {
            assert_eq!(faults(link), [reason]);
        }
    }
}
