//! The pages of `tests/pages` show commands with their exit codes and everything that they print.
//!
//! A line `? 2` is the exit code of the command above it. `[..]` stands for any text of a line and `...` for any lines. The
//! commands of a page run in order in one folder with copies of `tests/pages/inputs` and of the demo, so they may write files.
//! `TRYCMD=overwrite cargo test --test integration pages` writes the current outputs.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use super::{demo, root};

const PROGRAM: &str = env!("CARGO_BIN_EXE_stagewright");

fn pages() -> Vec<PathBuf> {
    let entries = fs::read_dir(root().join("tests/pages")).expect("a folder");
    let files = entries.map(|entry| entry.expect("an entry").path());
    let pages: Vec<PathBuf> = files.filter(|path| path.extension().is_some_and(|it| it == "md")).collect();
    assert!(!pages.is_empty());
    pages
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("room");
    for entry in fs::read_dir(from).expect("a folder") {
        let path = entry.expect("an entry").path();
        let copy = to.join(path.file_name().expect("a name"));
        if path.is_dir() {
            self::copy(&path, &copy);
        } else {
            fs::copy(&path, copy).expect("room");
        }
    }
}

/// Creates the folder in which the commands of a page run.
fn create_inputs(folder: &Path) {
    copy(&root().join("tests/pages/inputs"), folder);
    fs::create_dir(folder.join("demo")).expect("room");
    for file in ["model.json", "cluster.toml"] {
        fs::copy(demo(file), folder.join("demo").join(file)).expect("room");
    }
}

#[test]
fn pages_show_what_commands_print() {
    let stage = tempfile::tempdir().expect("room");
    for page in pages() {
        let copy = stage.path().join(page.file_name().expect("a name"));
        fs::copy(&page, &copy).expect("room");
        create_inputs(&copy.with_extension("in"));
        // Makes trycmd run the commands in a copy of the inputs.
        fs::create_dir(copy.with_extension("out")).expect("room");
    }
    let cases = trycmd::TestCases::new();
    // The width of help without a terminal, whatever the shell of the developer exports; the date of every result.
    cases
        .register_bin("stagewright", Path::new(PROGRAM))
        .env("COLUMNS", "100")
        .env("SOURCE_DATE_EPOCH", "1795824000");
    cases.case(stage.path().join("*.md")).run();
    if std::env::var_os("TRYCMD").is_some_and(|mode| mode == "overwrite") {
        for page in pages() {
            fs::copy(stage.path().join(page.file_name().expect("a name")), page).expect("room");
        }
    }
}

/// A page shows both streams as one.
#[test]
fn standard_output_has_results_and_nothing_else() {
    for page in pages() {
        let folder = TempDir::new().expect("room");
        create_inputs(&folder.path().join("inputs"));
        let text = fs::read_to_string(&page).expect("a page");
        let mut lines = text.lines().peekable();
        while let Some(line) = lines.next() {
            let Some(shown) = line.strip_prefix("$ ") else { continue };
            let mut words = shown.split(' ');
            assert_eq!(words.next(), Some("stagewright"), "{}: {shown}", page.display());
            let mut command = Command::new(PROGRAM);
            let output = command.args(words).current_dir(folder.path().join("inputs")).output();
            let output = output.expect("the program starts");
            let result = String::from_utf8(output.stdout).expect("text");
            let is_error = |line: &str| line.starts_with("error") && !output.status.success();
            let is_story = |line: &str| line.starts_with("note: ") || is_error(line);
            assert!(!result.lines().any(is_story), "{}: {shown}: {result}", page.display());
            assert!(result.is_empty() || lines.peek() != Some(&"? 2"), "{}: {shown}", page.display());
        }
    }
}
