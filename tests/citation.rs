//! `CITATION.cff` states the version of the program, and the BibTeX entry in `docs/instances.md` is made from it.
//!
//! `STAGEWRIGHT_WRITE_CITATION=1 cargo test --test integration citation` writes the entry.

use std::fs;
use std::path::Path;

use super::ROOT;

const PAGE: &str = "docs/instances.md";
const OPENING: &str = "```bibtex\n";

/// The file of the Citation File Format.
fn citation() -> String {
    fs::read_to_string(Path::new(ROOT).join("CITATION.cff")).expect("a file")
}

/// The value of a field with a value on its line.
fn field<'a>(citation: &'a str, name: &str) -> &'a str {
    let lines = citation.lines().map(|line| line.trim_start_matches([' ', '-']));
    let mut values = lines.filter_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
    values.next().unwrap_or_else(|| panic!("no field {name}")).trim_matches('"')
}

/// The citation in the notation of BibTeX. The inner braces keep capitals, and keep a group from being read as a person.
fn bibtex(citation: &str) -> String {
    let (year, _) = field(citation, "date-released").split_once('-').expect("a date");
    let fields = [
        ("author", format!("{{{}}}", field(citation, "name"))),
        ("title", format!("{{{}}}", field(citation, "title"))),
        ("version", field(citation, "version").into()),
        ("year", year.into()),
    ];
    let lines = fields.map(|(name, value)| format!("  {name} = {{{value}}},\n"));
    format!("@software{{stagewright,\n{}}}\n", lines.concat())
}

#[test]
fn the_file_states_the_version_and_a_date() {
    let citation = citation();
    assert_eq!(field(&citation, "version"), env!("CARGO_PKG_VERSION"));
    let date = field(&citation, "date-released");
    let numbers: Vec<&str> = date.split('-').collect();
    assert_eq!(numbers.iter().map(|number| number.len()).collect::<Vec<_>>(), [4, 2, 2], "{date}");
    assert!(numbers.concat().bytes().all(|letter| letter.is_ascii_digit()), "{date}");
}

#[test]
fn the_entry_of_bibtex_is_that_of_the_file() {
    let path = Path::new(ROOT).join(PAGE);
    let page = fs::read_to_string(&path).expect("a page");
    let (before, rest) = page.split_once(OPENING).expect("a block of BibTeX");
    let (entry, after) = rest.split_at(rest.find("```").expect("its end"));
    let expected = bibtex(&citation());
    if std::env::var_os("STAGEWRIGHT_WRITE_CITATION").is_some() {
        fs::write(path, [before, OPENING, &expected, after].concat()).expect("room");
        return;
    }
    assert_eq!(entry, expected);
}
