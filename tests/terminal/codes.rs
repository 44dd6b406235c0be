//! `data/errors.md` contains every code once, and `--explain` prints its section.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use stagewright_verify::CheckError;

use super::{root, run, stderr, stdout};

const PAGE: &str = "data/errors.md";

fn page() -> String {
    fs::read_to_string(root().join(PAGE)).expect("the page is there")
}

/// Codes with a section, in the order of the page.
fn sections() -> Vec<String> {
    let code = |heading: &str| heading.split_once(": ").map(|(code, _)| code.to_owned());
    page().lines().filter_map(|line| code(line.strip_prefix("## ")?)).collect()
}

/// Source files of the program: path from the root, and text.
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
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs" || extension == "py") {
                let name = path.strip_prefix(root()).expect("it is below the root").display().to_string();
                sources.push((name, fs::read_to_string(&path).expect("sources are text")));
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

/// Quoted codes, each with the text before it.
fn literals(source: &str) -> impl Iterator<Item = (&str, &str)> {
    source.match_indices('"').filter_map(|(offset, _)| {
        let code = source.get(offset + 1..offset + 5).filter(|code| is_code(code))?;
        source[offset + 5..].starts_with('"').then(|| (code, &source[..offset]))
    })
}

#[test]
fn every_code_of_the_sources_has_a_section() {
    let sections = sections();
    let mut missing = Vec::new();
    for (path, text) in &sources() {
        for (code, _) in literals(text).filter(|(code, _)| !sections.iter().any(|section| section == code)) {
            let before = sections.iter().rfind(|section| section.as_str() < code);
            let place = before.map_or("as the first".to_owned(), |before| format!("after that of {before}"));
            missing.push(format!(
                "{path} gives {code}, which {PAGE} lacks: add a section `## {code}: WHAT IS WRONG` {place}, with \
                 its cause, an example of the wrong input where that helps, and what to do"
            ));
        }
    }
    assert!(missing.is_empty(), "{}", missing.join("\n"));
}

#[test]
fn every_section_is_of_a_code_that_is_given_and_says_something() {
    let sources = sources();
    let given: BTreeSet<&str> =
        sources.iter().flat_map(|(_, text)| literals(text)).map(|(code, _)| code).collect();
    for section in sections().iter().filter(|section| is_code(section)) {
        assert!(
            given.contains(section.as_str()),
            "no source gives {section}: take its section out of {PAGE}"
        );
    }
    for section in page().split("\n## ").skip(1) {
        let (heading, text) = section.split_once('\n').expect("a section has a text");
        assert!(heading.contains(": ") && text.trim().len() > 40, "the section of {heading} says too little");
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

/// Letters in the table at the head of the page, each with the source path of its codes.
fn letters() -> BTreeMap<char, String> {
    let rows = page();
    let rows = rows.lines().filter_map(|line| {
        let cells: Vec<&str> = line.strip_prefix("| ")?.strip_suffix(" |")?.split(" | ").collect();
        let mut letter = cells.first()?.chars();
        match (letter.next(), letter.next(), cells.get(2)) {
            (Some(letter), None, Some(place)) if letter.is_ascii_uppercase() => {
                Some((letter, (*place).to_owned()))
            }
            _ => None,
        }
    });
    rows.collect()
}

#[test]
fn no_code_has_two_meanings() {
    let letters = letters();
    let mut arms: BTreeMap<String, String> = BTreeMap::new();
    for (path, text) in &sources() {
        for (code, before) in literals(text) {
            let letter = code.chars().next().expect("a code has a letter");
            // The package has the codes of the program for the same mistakes, and one letter of its own.
            if path.starts_with("bindings") && letter != 'Z' {
                continue;
            }
            let place = letters.get(&letter).unwrap_or_else(|| {
                panic!("{path} gives {code}: add a row for the letter {letter} to the table at the head of {PAGE}")
            });
            assert!(
                place.split(", ").any(|place| Path::new(path).starts_with(place)),
                "{path} gives {code}, but the letter {letter} belongs to {place} (see the head of {PAGE}): take \
                 another letter"
            );
            // An error has its code in an arm of `fn code`, and no two errors share one.
            if before.trim_end().ends_with("=>")
                && let Some(other) = arms.insert(code.to_owned(), path.clone())
            {
                panic!("{code} is given to two errors, in {other} and in {path}");
            }
        }
    }
    for place in letters.values().flat_map(|places| places.split(", ")) {
        assert!(
            root().join(place).exists(),
            "the table at the head of {PAGE} names {place}, which is not there"
        );
    }
}

#[test]
fn a_code_is_explained_without_a_command_and_in_any_case() {
    let text = stdout(&run(&["--explain", "g004"]));
    assert!(text.starts_with("error[G004]: invalid number in a graph\n\nA time, a size"), "{text}");
    assert!(text.contains("\n    { \"name\": \"conv1\", \"seconds\": { \"gpu\": -1.0 } }\n"), "{text}");
    assert!(text.ends_with('\n') && !text.ends_with("\n\n"), "{text:?}");
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
        let code = format!("V:{}", error.code());
        assert!(family.contains(&format!("- `{code}`: ")), "{PAGE} lacks {code}");
        assert_eq!(stdout(&run(&["--explain", &code])), family);
    }
}

#[test]
fn an_unknown_code_is_an_error_with_the_nearest_one() {
    for (typed, meant) in [("G04", Some("`G004`")), ("U0O3", Some("`U003`")), ("nonsense", None), ("", None)]
    {
        let output = run(&["--explain", typed]);
        assert_eq!(output.status.code(), Some(2), "{typed}");
        let story = stderr(&output);
        assert!(story.starts_with(&format!("error[U009]: unknown error code `{typed}`")), "{story}");
        assert_eq!(story.contains("did you mean"), meant.is_some(), "{story}");
        assert!(story.contains(meant.unwrap_or("help: ")), "{story}");
    }
}

#[test]
fn an_explanation_stands_alone() {
    for arguments in [&["--explain", "G004", "plan", "m"][..], &["-v", "--explain", "G004"], &["-v"], &[]] {
        let output = run(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(output.stdout.is_empty() && !output.stderr.is_empty(), "{arguments:?}");
    }
}
