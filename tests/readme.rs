//! The README, the tutorial and the guides show the current output of their commands.
//!
//! A block marked `console` contains commands after `$ `, each followed by its standard output, in which a line `...`
//! stands for lines that the page leaves out. The commands of a page run in order in one folder with copies of the files
//! that they name. They must succeed, unless `$ echo $?` after them shows their exit code. The first `text` block of the
//! README is the output of `make demo`.
//!
//! Times and peaks of memory are not compared. Of blocks marked `console measured`, which contain measurements of one
//! machine, only the words are compared. Where they come from `profile` and `run`, they need ONNX Runtime and two cores,
//! and are skipped otherwise. Commands that need more than this repository, or minutes, are in blocks marked `sh`.
//!
//! `STAGEWRIGHT_WRITE_README=1 cargo test --test integration readme` writes the outputs that differ.

#![cfg(all(
    feature = "metis",
    feature = "milp",
    feature = "onnxruntime",
    feature = "plots",
    feature = "policy"
))]

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

/// The printed lines, with `...` in place of those that the page leaves out. After a `...`, the page continues with the
/// first line that begins with the same word.
fn elided(printed: &[String], shown: &[String]) -> Vec<String> {
    let label = |line: &String| line.split_whitespace().next().map(str::to_owned);
    let parts: Vec<&[String]> = shown.split(|line| line == "...").collect();
    let mut kept = Vec::new();
    let mut rest = printed;
    for (index, part) in parts.iter().enumerate() {
        if index > 0 {
            let start = part
                .first()
                .map_or(Some(rest.len()), |first| rest.iter().position(|line| label(line) == label(first)));
            let start = start.filter(|&start| start > 0);
            let start =
                start.unwrap_or_else(|| panic!("no lines before {part:?} in:\n{}", printed.join("\n")));
            kept.push("...".to_owned());
            rest = &rest[start..];
        }
        let is_last = index + 1 == parts.len();
        let (taken, after) = rest.split_at(if is_last { rest.len() } else { part.len().min(rest.len()) });
        kept.extend_from_slice(taken);
        rest = after;
    }
    kept
}

/// Columns that differ between runs.
const VARYING: [&str; 4] = ["time", "spread", "solving", "peak memory"];

/// The lines without the parts that differ between runs, and without the effect of these parts on column widths.
fn lasting(lines: &[String]) -> Vec<String> {
    // The column extends to the start of the next column's name.
    let next = |line: &str| line.find("  memory  ").or_else(|| line.find("  result"));
    let column = lines.iter().find_map(|line| Some(line.find("  time  ")?..next(line)?));
    // Lines below a table have no columns.
    let end = lines.iter().position(String::is_empty).unwrap_or(lines.len());
    let is_kept = |row: usize, index: usize| {
        row >= end || column.as_ref().is_none_or(|column| !column.contains(&index))
    };
    // For each column of the present table in Markdown.
    let mut is_varying = Vec::new();
    let mut lasting = Vec::new();
    for (row, line) in lines.iter().enumerate() {
        if !line.starts_with('|') {
            is_varying.clear();
        }
        let kept: String = if line.starts_with('|') {
            let cells = line.split('|').map(str::trim);
            if is_varying.is_empty() {
                is_varying = cells.clone().map(|name| VARYING.contains(&name)).collect();
            }
            let cells = cells.enumerate().filter(|&(index, _)| is_varying.get(index) != Some(&true));
            cells.map(|(_, cell)| format!("{cell} | ")).collect()
        } else if let Some((solver, _)) = line.rsplit_once(", ").filter(|_| line.starts_with("solver")) {
            solver.into()
        } else {
            line.chars()
                .enumerate()
                .filter(|&(index, _)| is_kept(row, index))
                .map(|(_, character)| character)
                .collect()
        };
        lasting.push(kept.split_whitespace().collect::<Vec<_>>().join(" "));
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

/// Standard output of a command run in a folder, empty if the command redirects it to a file, and the exit code.
fn printed(folder: &Path, arguments: &str, runtime: Option<&Path>) -> (Vec<String>, i32) {
    let (arguments, file) =
        arguments.split_once(" > ").map_or((arguments, None), |(before, file)| (before, Some(file)));
    let mut command = Command::new(env!("CARGO_BIN_EXE_stagewright"));
    command.args(arguments.split_whitespace()).current_dir(folder).env("SOURCE_DATE_EPOCH", "1795824000");
    if let Some(runtime) = runtime {
        command.env("ORT_DYLIB_PATH", runtime);
    }
    let run = command.output().expect("the program starts");
    let code = run.status.code().expect("no signal");
    assert_ne!(code, 2, "{arguments}: {}", String::from_utf8_lossy(&run.stderr));
    if let Some(file) = file {
        std::fs::write(folder.join(file), run.stdout).expect("room");
        return (Vec::new(), code);
    }
    (String::from_utf8(run.stdout).expect("text").lines().map(str::to_owned).collect(), code)
}

fn root() -> &'static Path {
    Path::new(crate::ROOT)
}

/// A folder with copies of the files that the pages use.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let configurations = ["data/configurations/llama-3.1-8b", "data/configurations/deepseek-v3"];
    let parts = ["data/demo", "data/models", "data/structures", "data/suites", "crates/costs/tests/data"];
    for part in parts.into_iter().chain(configurations) {
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
    let is_of_this_machine = |shown: &Shown| shown.command.starts_with("stagewright profile ");
    let needs_runtime = shown.iter().any(is_of_this_machine);
    let runtime = needs_runtime.then(measuring).flatten();
    let mut written = text.clone();
    let mut exit = 0;
    for Shown { command, output, is_measured } in shown {
        if is_measured && needs_runtime && runtime.is_none() {
            continue;
        }
        let printed = if command == "echo $?" {
            vec![std::mem::take(&mut exit).to_string()]
        } else {
            assert_eq!(exit, 0, "{}: no `echo $?` before `{command}`", page.display());
            let arguments = command.strip_prefix("stagewright ").expect("a command of the program");
            let (printed, code) = printed(folder.path(), arguments, runtime.as_deref());
            exit = code;
            elided(&printed, &output)
        };
        let compared = if is_measured { words } else { lasting };
        if compared(&printed) == compared(&output) {
            continue;
        }
        assert!(is_written(), "{}: {command} prints\n{}", page.display(), printed.join("\n"));
        let block = |lines: &[String]| {
            [&format!("$ {command}")]
                .into_iter()
                .chain(lines)
                .fold(String::new(), |text, line| text + line + "\n")
        };
        written = written.replace(&block(&output), &block(&printed));
    }
    assert_eq!(exit, 0, "{}: no `echo $?` at the end", page.display());
    if is_written() {
        std::fs::write(page, &written).expect("room");
    }
    (written, count)
}

/// Blocks with commands are run or marked `sh`.
fn no_command_is_left_out(page: &Path) {
    let text = std::fs::read_to_string(page).expect("a page");
    let mut kind = "";
    for line in text.lines() {
        if let Some(mark) = line.strip_prefix("```") {
            kind = mark;
        }
        let is_command = line.trim_start().starts_with("stagewright ");
        assert!(!is_command || kind == "sh", "{}: not run: {line}", page.display());
    }
}

#[test]
fn the_readme() {
    let page = root().join("README.md");
    let (readme, count) = commands_print_what_is_shown(&page);
    assert!(count >= 3, "the README shows its commands");
    let makefile = std::fs::read_to_string(root().join("Makefile")).expect("a Makefile");
    let demo = makefile.split("--bin stagewright -- ").nth(1).and_then(|rest| rest.lines().next());
    let first = readme.split("```text\n").nth(1).and_then(|rest| rest.split("```").next()).expect("a block");
    let (demo_prints, exit) = printed(folder().path(), demo.expect("what `make demo` runs"), None);
    assert_eq!(exit, 0, "make demo");
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
    let page = root().join("docs/tutorial.md");
    no_command_is_left_out(&page);
    let (_, count) = commands_print_what_is_shown(&page);
    assert!(count >= 6, "the tutorial shows its commands");
}

#[test]
fn the_guides() {
    let mut count = 0;
    for page in std::fs::read_dir(root().join("docs/how-to")).expect("guides") {
        let page = page.expect("a page").path();
        no_command_is_left_out(&page);
        count += commands_print_what_is_shown(&page).1;
    }
    assert!(count >= 24, "the guides show commands");
}

#[test]
fn a_page_leaves_lines_out_and_continues_with_the_same_word() {
    let lines = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
    let printed = lines("value 2 s\nbound 1 s\n\ndevice load\ngpu0 2 s\ngpu1 1 s");
    let kept = |shown: &str| elided(&printed, &lines(shown)).join("\n");
    assert_eq!(kept("value 9 s\n...\ngpu0 9 s\n..."), "value 2 s\n...\ngpu0 2 s\n...");
    assert_eq!(kept("value 9 s"), printed.join("\n"));
    assert_eq!(kept("...\ndevice"), "...\ndevice load\ngpu0 2 s\ngpu1 1 s");
}

#[test]
fn times_are_not_compared_but_the_rest_of_a_table_is() {
    let lines = |text: &str| lasting(&text.lines().map(str::to_owned).collect::<Vec<_>>());
    assert_eq!(
        lines("| a | time |\n| - | -: |\n| 1 | 2 s |"),
        lines("| a | time |\n| - | -: |\n| 1 | 20 s |")
    );
    assert_ne!(
        lines("| a | time |\n| - | -: |\n| 1 | 2 s |"),
        lines("| a | time |\n| - | -: |\n| 2 | 2 s |")
    );
    assert_ne!(lines("| a | b |\n| 1 | 2 |"), lines("| a | b |\n| 1 | 3 |"));
    assert_eq!(lines("solver     dp (auto), 3 ms"), lines("solver     dp (auto), 40 ms"));
    assert_ne!(lines("solver     dp (auto), 3 ms"), lines("solver     dpl (auto), 3 ms"));
}

#[test]
fn words_are_neither_numbers_nor_units_nor_bars() {
    let line = "cpu0  185.14 ms  the value ██▒  10 samples per second".to_owned();
    assert_eq!(words(&[line]), ["the value samples per second"]);
}
