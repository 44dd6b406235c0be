//! The README, the tutorial and the guides show the current output of their commands.
//!
//! A block marked `console` contains commands after `$ `, each followed by its standard output. The commands of a page
//! run in order in one folder with a copy of `data`. The first `text` block of the README is the output of `make demo`.
//! Solve times, in the line `solver` and the column `time`, are not compared. Blocks marked `console measured` contain
//! measurements of one machine, so only their words are compared; they need ONNX Runtime and two cores, and are skipped
//! otherwise. `STAGEWRIGHT_WRITE_README=1 cargo test --test integration readme` writes the current output.

#![cfg(all(feature = "metis", feature = "milp", feature = "onnxruntime"))]

use std::path::{Path, PathBuf};
use std::process::Command;

use super::machine;

struct Shown {
    command: String,
    output: Vec<String>,
    /// Whether the output depends on the machine.
    is_measured: bool,
}

/// The commands of all blocks, with the output that the page shows.
fn shown(text: &str) -> Vec<Shown> {
    let mut found: Vec<Shown> = Vec::new();
    // `None` outside of blocks; inside, whether the block shows measurements.
    let mut block = None;
    for line in text.lines() {
        match (line, block) {
            ("```console", _) => block = Some(false),
            ("```console measured", _) => block = Some(true),
            ("```", _) => block = None,
            (line, Some(is_measured)) => match line.strip_prefix("$ ") {
                Some(command) => {
                    found.push(Shown { command: command.into(), output: Vec::new(), is_measured })
                }
                None => found.last_mut().expect("a command first").output.push(line.into()),
            },
            _ => {}
        }
    }
    for shown in &mut found {
        // Blank lines between commands only separate them.
        while shown.output.last().is_some_and(String::is_empty) {
            shown.output.pop();
        }
    }
    found
}

/// The lines without the parts that differ between runs, and without the effect of these parts on column widths.
fn lasting(lines: &[String]) -> Vec<String> {
    // The column extends to the start of the next column's name.
    let column = lines.iter().find_map(|line| Some(line.find("  time  ")?..line.find("  memory  ")?));
    let mut lasting = Vec::new();
    // Lines below a table have no columns.
    let end = lines.iter().position(String::is_empty);
    let table: Vec<&String> = lines.iter().take(end.unwrap_or(lines.len())).collect();
    for line in lines.iter().filter(|line| !line.starts_with("solver")) {
        let column = column.as_ref().filter(|_| table.iter().any(|row| std::ptr::eq(*row, line)));
        let is_kept = |column_index: usize| column.is_none_or(|column| !column.contains(&column_index));
        let line: String =
            line.chars().enumerate().filter(|&(index, _)| is_kept(index)).map(|(_, c)| c).collect();
        lasting.push(line.split_whitespace().collect::<Vec<_>>().join(" "));
    }
    lasting
}

/// The words of the lines, without numbers, their units, and bars.
fn words(lines: &[String]) -> Vec<String> {
    let mut words = Vec::new();
    for line in lasting(lines) {
        let mut kept = Vec::new();
        let mut is_unit = false;
        for word in line.split(' ') {
            let is_number = word.contains(|character: char| character.is_ascii_digit());
            let is_bar = word.contains(['█', '▒']);
            if !(is_number || is_bar || is_unit && word.len() < 5) {
                kept.push(word);
            }
            is_unit = is_number;
        }
        words.push(kept.join(" "));
    }
    words
}

/// Standard output of a command run in a folder; empty if the command redirects it to a file. Exit codes 1 (the plan is
/// wrong) and 3 (there is no plan) also count as results.
fn printed(folder: &Path, arguments: &str, runtime: Option<&Path>) -> Vec<String> {
    let (arguments, file) =
        arguments.split_once(" > ").map_or((arguments, None), |(before, file)| (before, Some(file)));
    let mut command = Command::new(env!("CARGO_BIN_EXE_stagewright"));
    command.args(arguments.split_whitespace()).current_dir(folder).env("SOURCE_DATE_EPOCH", "1795824000");
    if let Some(runtime) = runtime {
        command.env("ORT_DYLIB_PATH", runtime);
    }
    let run = command.output().expect("the program starts");
    let is_result = matches!(run.status.code(), Some(0 | 1 | 3));
    assert!(is_result, "{arguments}: {}", String::from_utf8_lossy(&run.stderr));
    if let Some(file) = file {
        std::fs::write(folder.join(file), run.stdout).expect("room");
        return Vec::new();
    }
    String::from_utf8(run.stdout).expect("text").lines().map(str::to_owned).collect()
}

fn root() -> &'static Path {
    Path::new(crate::ROOT)
}

/// A folder with copies of the files that the pages use.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    for part in ["data/demo", "data/models"] {
        let copy = folder.path().join(part);
        std::fs::create_dir_all(&copy).expect("room");
        for file in std::fs::read_dir(root().join(part)).expect("a folder") {
            let file = file.expect("a readable folder").path();
            std::fs::copy(&file, copy.join(file.file_name().expect("a name"))).expect("room");
        }
    }
    folder
}

fn is_written() -> bool {
    std::env::var_os("STAGEWRIGHT_WRITE_README").is_some()
}

/// The library of ONNX Runtime, if measurements can be made.
fn measuring() -> Option<PathBuf> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    machine::runtime().filter(|_| cores > 1)
}

/// Runs the commands of a page, and compares or writes their outputs. Returns the text of the page and the number of
/// commands.
fn commands_print_what_is_shown(page: &Path) -> (String, usize) {
    let text = std::fs::read_to_string(page).expect("a page");
    let shown = shown(&text);
    let count = shown.len();
    let folder = folder();
    let runtime = shown.iter().any(|shown| shown.is_measured).then(measuring).flatten();
    let mut written = text.clone();
    for Shown { command, output, is_measured } in shown {
        if is_measured && runtime.is_none() {
            continue;
        }
        let mut parts = command.split_whitespace();
        assert_eq!(parts.next(), Some("stagewright"), "{command}");
        let printed = self::printed(folder.path(), &parts.collect::<Vec<_>>().join(" "), runtime.as_deref());
        if is_written() {
            let block = |lines: &[String]| {
                [&format!("$ {command}")]
                    .into_iter()
                    .chain(lines)
                    .fold(String::new(), |text, line| text + line + "\n")
            };
            written = written.replace(&block(&output), &block(&printed));
        } else {
            let compared = if is_measured { words } else { lasting };
            assert_eq!(compared(&printed), compared(&output), "{command}:\n{}", printed.join("\n"));
        }
    }
    if is_written() {
        std::fs::write(page, &written).expect("room");
    }
    (written, count)
}

#[test]
fn the_readme() {
    let page = root().join("README.md");
    let (readme, count) = commands_print_what_is_shown(&page);
    assert!(count >= 3, "the README shows its commands");
    let makefile = std::fs::read_to_string(root().join("Makefile")).expect("a Makefile");
    let demo = makefile.split("--bin stagewright -- ").nth(1).and_then(|rest| rest.lines().next());
    let first = readme.split("```text\n").nth(1).and_then(|rest| rest.split("```").next()).expect("a block");
    let demo_prints = printed(folder().path(), demo.expect("what `make demo` runs"), None);
    if is_written() {
        let written = readme.replacen(first, &(demo_prints.join("\n") + "\n"), 1);
        std::fs::write(page, written).expect("room");
    } else {
        let first: Vec<String> = first.lines().map(str::to_owned).collect();
        assert_eq!(lasting(&demo_prints), lasting(&first), "make demo:\n{}", demo_prints.join("\n"));
    }
}

#[test]
fn the_tutorial() {
    let (_, count) = commands_print_what_is_shown(&root().join("docs/tutorial.md"));
    assert!(count >= 6, "the tutorial shows its commands");
}

#[test]
fn the_guides() {
    let pages = std::fs::read_dir(root().join("docs/how-to")).expect("guides");
    let counts = pages.map(|page| commands_print_what_is_shown(&page.expect("a page").path()).1);
    assert!(counts.sum::<usize>() >= 12, "the guides show commands");
}

#[test]
fn words_are_neither_numbers_nor_units_nor_bars() {
    let line = "cpu0  185.14 ms  the value ██▒  10 samples per second".to_owned();
    assert_eq!(words(&[line]), ["the value samples per second"]);
}
