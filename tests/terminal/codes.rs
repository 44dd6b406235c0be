//! `data/errors.md` contains every code once, and `--explain` prints its section.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use stagewright_verify::CheckError;

use super::{root, run, stdout};

const PAGE: &str = "data/errors.md";

fn page() -> String {
    fs::read_to_string(root().join(PAGE)).expect("the page is there")
}

/// Codes with a section, in the order of the page.
fn sections() -> Vec<String> {
    let code = |heading: &str| heading.split_once(": ").map(|(code, _)| code.to_owned());
    page().lines().filter_map(|line| code(line.strip_prefix("## ")?)).collect()
}

/// The path from the root and the text of every production source, without comments, tests and the enums of codes.
fn sources() -> Vec<(String, String)> {
    let mut folders =
        vec![root().join("src"), root().join("bindings/python/src"), root().join("bindings/python/python")];
    for crates in ["crates", "solvers"] {
        let crates = fs::read_dir(root().join(crates)).expect("there are crates");
        folders.extend(crates.map(|entry| entry.expect("the folder can be read").path().join("src")));
    }
    let mut sources = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("the folder can be read") {
            let path = entry.expect("the folder can be read").path();
            let name = path.file_name().and_then(|name| name.to_str()).expect("names are text");
            if ["code", "code.rs", "testing.rs", "tests", "tests.rs"].contains(&name) {
                continue;
            }
            if path.is_dir() {
                folders.push(path);
            } else if name.ends_with(".rs") || name.ends_with(".py") {
                let text = fs::read_to_string(&path).expect("sources are text");
                let tests = text.find("\n#[cfg(test)]\nmod tests {").unwrap_or(text.len());
                let lines = text[..tests].lines().filter(|line| !line.trim_start().starts_with("//"));
                let name = path.strip_prefix(root()).expect("it is below the root").display().to_string();
                sources.push((name, lines.map(|line| format!("{line}\n")).collect()));
            }
        }
    }
    sources.sort();
    sources
}

fn is_code(text: &str) -> bool {
    let is_right = |(index, byte): (usize, u8)| {
        if index == 0 { byte.is_ascii_uppercase() } else { byte.is_ascii_digit() }
    };
    text.len() == 4 && text.bytes().enumerate().all(is_right)
}

/// Words that have the form of a code.
fn codes(source: &str) -> impl Iterator<Item = &str> {
    let is_apart = |symbol: char| !symbol.is_alphanumeric() && symbol != '_';
    source.split(is_apart).filter(|word| is_code(word))
}

#[test]
fn every_code_is_given_and_every_section_says_something() {
    let sources = sources();
    let given: BTreeSet<&str> = sources.iter().flat_map(|(_, text)| codes(text)).collect();
    for section in sections().iter().filter(|section| is_code(section)) {
        assert!(
            given.contains(section.as_str()),
            "no production code gives {section}: take it out of its enum"
        );
    }
    for section in page().split("\n## ").skip(1) {
        let (heading, text) = section.split_once('\n').expect("a section has a text");
        assert!(heading.contains(": ") && text.trim().len() > 40, "the section of {heading} says too little");
    }
}

#[test]
fn only_python_has_codes_as_text_and_all_are_on_the_page() {
    let sections = sections();
    for (path, text) in sources() {
        for code in codes(&text).filter(|code| text.contains(&format!("\"{code}\""))) {
            assert!(path.ends_with(".py"), "{path} gives \"{code}\": take the variant of its enum");
            assert!(
                sections.iter().any(|section| section == code),
                "{path} gives {code}, which {PAGE} lacks"
            );
        }
    }
}

#[test]
fn sections_are_sorted_and_unique() {
    let sections = sections();
    assert!(sections.len() > 100, "{}", sections.len());
    for pair in sections.windows(2) {
        assert!(pair[0] < pair[1], "in {PAGE}, {} stands before {}", pair[0], pair[1]);
    }
}

/// Every error states its code in an arm of `fn code`, and no two errors share one. For the same mistakes, the Python
/// package uses the codes of the program.
#[test]
fn no_code_has_two_meanings() {
    let mut arms: BTreeMap<String, String> = BTreeMap::new();
    for (path, text) in sources().into_iter().filter(|(path, _)| !path.starts_with("bindings")) {
        for (_, code) in text.lines().filter_map(|line| line.trim_end_matches(',').rsplit_once("=> ")) {
            if is_code(code)
                && let Some(other) = arms.insert(code.to_owned(), path.clone())
            {
                panic!("{code} is given to two errors, in {other} and in {path}");
            }
        }
    }
    assert!(arms.len() > 50, "{}", arms.len());
}

#[test]
fn every_code_is_explained() {
    for code in sections() {
        assert!(stdout(&run(&["--explain", &code])).starts_with(&format!("error[{code}]: ")), "{code}");
    }
}

#[test]
fn the_codes_of_check_are_explained_as_a_family() {
    let name = || "x".to_owned();
    let errors = [
        CheckError::Schema { document: "plan", found: name(), expected: "y" },
        CheckError::Duplicate { what: "operator", name: name() },
        CheckError::Unknown { place: name(), what: "device", name: name() },
        CheckError::Figure { what: name(), value: -1.0, range: "at least 0" },
        CheckError::Cycle { operators: vec![name()] },
        CheckError::NoLink { kind: name(), needed_for: name() },
        CheckError::AmbiguousDevice { name: name(), first: name(), second: name() },
        CheckError::Matrix { field: "delay_s", devices: 2 },
        CheckError::Rule { rule: "x", needs: "y" },
        CheckError::NotChecked { what: "x" },
    ];
    let family = stdout(&run(&["--explain", "v"]));
    for error in errors {
        let code = error.code().name;
        assert!(family.contains(&format!("- `{code}`: ")), "{PAGE} lacks {code}");
        assert_eq!(stdout(&run(&["--explain", code])), family);
    }
}
