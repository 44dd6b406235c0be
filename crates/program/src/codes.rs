//! `--explain`: the explanation of an error code, from its section in `data/errors.md`.
//!
//! The program reads the page, because a build without some features lacks their enums. A test compares the page with
//! the enums, and `STAGEWRIGHT_WRITE_ERRORS=1 cargo test -p stagewright-program --bin stagewright codes` writes the
//! page.

use stagewright::code::U009;
use stagewright::nearest::nearest;
use stagewright::report::wrap::page;

use super::error::{CliError, Result};
use super::exit::Exit;
use super::output;

const PAGE: &str = include_str!("../../../data/errors.md");

/// Suffix of the code of a family: `V:…` stands for every code that starts with `V:`.
const FAMILY: &str = ":…";

/// The section of the page about a code.
struct Section {
    code: &'static str,
    title: &'static str,
    text: &'static str,
}

impl Section {
    fn is_about(&self, code: &str) -> bool {
        match (self.code.strip_suffix(FAMILY), code.split_once(':')) {
            (Some(family), Some((letter, _))) => family.eq_ignore_ascii_case(letter),
            (family, _) => family.unwrap_or(self.code).eq_ignore_ascii_case(code),
        }
    }
}

fn sections() -> impl Iterator<Item = Section> {
    PAGE.split("\n## ").skip(1).filter_map(|section| {
        let (heading, text) = section.split_once('\n')?;
        let (code, title) = heading.split_once(": ")?;
        Some(Section { code, title, text: text.trim_matches('\n') })
    })
}

/// All codes, in the order of the page.
pub(super) fn codes() -> impl Iterator<Item = &'static str> {
    sections().map(|section| section.code)
}

pub(super) fn run(code: &str) -> Result<Exit> {
    let code = code.trim();
    let Some(section) = sections().find(|section| section.is_about(code)) else {
        let meant = nearest(&code.to_ascii_uppercase(), codes());
        let meant = meant.map(|code| format!("; did you mean `{code}`?")).unwrap_or_default();
        return Err(CliError::new(U009, format!("unknown error code `{}`{meant}", code.escape_debug()))
            .at("--explain")
            .help("give a code as printed in the brackets of an error, such as G004"));
    };
    let text = format!("error[{}]: {}\n\n{}\n", section.code, section.title, section.text);
    output::result(&page(&text, output::width()))?;
    Ok(Exit::Done)
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};
    use std::{env, fs};

    use stagewright::core::code::{C, G, Letter, P, T};
    use stagewright::formats::code::{F, L, M, N, R, S};

    use super::*;
    use crate::code::{A, B, O};

    const TABLE: &str = "| --- | --- | --- |\n";

    fn letters() -> Vec<&'static Letter> {
        use stagewright::code::{I, U, X, Z};
        vec![
            A::LETTER,
            B::LETTER,
            C::LETTER,
            stagewright::train::code::D::LETTER,
            stagewright::export::code::E::LETTER,
            F::LETTER,
            G::LETTER,
            #[cfg(feature = "onnxruntime")]
            stagewright::runtime::code::H::LETTER,
            I::LETTER,
            stagewright::joint::code::J::LETTER,
            #[cfg(feature = "policy")]
            stagewright_policy::code::K::LETTER,
            L::LETTER,
            M::LETTER,
            N::LETTER,
            O::LETTER,
            P::LETTER,
            stagewright::costs::code::Q::LETTER,
            R::LETTER,
            S::LETTER,
            T::LETTER,
            U::LETTER,
            stagewright_verify::code::V::LETTER,
            stagewright::workloads::code::W::LETTER,
            X::LETTER,
            stagewright::shard::code::Y::LETTER,
            Z::LETTER,
        ]
    }

    fn section(code: &str, title: &str, text: &str) -> String {
        format!("\n## {code}: {title}\n\n{text}")
    }

    fn sections_of(letter: &Letter) -> String {
        if letter.text().is_empty() {
            return letter
                .entries
                .iter()
                .map(|code| section(code.name, code.title(), &code.text()))
                .collect();
        }
        let codes = letter.entries.iter().map(|code| format!("- `{}`: {}\n", code.name, code.title()));
        let text = format!("{}\n{}", letter.text(), codes.collect::<String>());
        section(&format!("{}{FAMILY}", letter.name), letter.subject(), &text)
    }

    /// The page that the enums imply: its head, and their rows and sections. Sections of a letter that this build lacks
    /// are kept.
    fn written() -> String {
        let (head, _) = PAGE.split_once(TABLE).expect("a table");
        let mut parts = BTreeMap::new();
        for (letter, is_built) in [("H", cfg!(feature = "onnxruntime")), ("K", cfg!(feature = "policy"))] {
            if !is_built {
                let row =
                    PAGE.lines().find(|line| line.starts_with(&format!("| {letter} |"))).expect("a row");
                let kept = sections().filter(|kept| kept.code.starts_with(letter));
                let kept = kept.map(|kept| section(kept.code, kept.title, &format!("{}\n", kept.text)));
                parts.insert(letter, (format!("{row}\n"), kept.collect()));
            }
        }
        for letter in letters() {
            let row = format!("| {} | {} | {} |\n", letter.name, letter.subject(), letter.file);
            parts.insert(letter.name, (row, sections_of(letter)));
        }
        let (rows, sections): (String, String) = parts.into_values().unzip();
        format!("{head}{TABLE}{rows}{sections}")
    }

    #[test]
    fn the_page_of_errors_is_that_of_the_enums() {
        let written = written();
        if env::var_os("STAGEWRIGHT_WRITE_ERRORS").is_some() {
            let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../data/errors.md");
            return fs::write(path, written).expect("the page is writable");
        }
        let stale = written.lines().zip(PAGE.lines()).find(|(written, kept)| written != kept);
        assert!(
            written == PAGE,
            "data/errors.md is out of date: run STAGEWRIGHT_WRITE_ERRORS=1 cargo test -p stagewright-program \
             --bin stagewright codes; {stale:?}"
        );
    }

    #[test]
    fn no_code_of_the_errors_is_defined_twice() {
        let mut names = BTreeSet::new();
        for letter in letters() {
            for code in letter.entries {
                assert!(code.name.starts_with(letter.name), "{} is not of {}", code.name, letter.name);
                assert!(names.insert(code.name), "{} is defined twice", code.name);
            }
        }
    }
}
