//! `--explain`: the explanation of an error code, from its section in `data/errors.md`.

use stagewright::nearest::nearest;
use stagewright::report::wrap::page;

use super::error::{CliError, Result};
use super::exit::Exit;
use super::output;

const PAGE: &str = include_str!("../../../data/errors.md");

/// Suffix of a family's code: `V:…` stands for every code that starts with `V:`.
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
        return Err(CliError::new("U009", format!("unknown error code `{}`{meant}", code.escape_debug()))
            .at("--explain")
            .help("give a code as printed in the brackets of an error, such as G004"));
    };
    let text = format!("error[{}]: {}\n\n{}\n", section.code, section.title, section.text);
    output::result(&page(&text, output::width()))?;
    Ok(Exit::Done)
}
