//! The commands of the README print what the README shows.
//!
//! A block marked `console` holds commands after `$ ` and below each what it prints on standard output. They run in
//! order in one folder that has `data` in it. How long a solve took is left out of the comparison: the line `solver`
//! and the column `time`. `STAGEWRIGHT_WRITE_README=1 cargo test --test readme` writes what they print now.

#![cfg(all(feature = "metis", feature = "milp"))]

use std::path::Path;
use std::process::Command;

struct Shown {
    command: String,
    output: Vec<String>,
}

/// The commands of all blocks.
fn shown(text: &str) -> Vec<Shown> {
    let mut found: Vec<Shown> = Vec::new();
    let mut inside = false;
    for line in text.lines() {
        match line {
            "```console" => inside = true,
            "```" => inside = false,
            line if inside => match line.strip_prefix("$ ") {
                Some(command) => found.push(Shown { command: command.into(), output: Vec::new() }),
                None => found.last_mut().expect("a command first").output.push(line.into()),
            },
            _ => {}
        }
    }
    for shown in &mut found {
        // Lines between one command and the next are for the reader.
        while shown.output.last().is_some_and(String::is_empty) {
            shown.output.pop();
        }
    }
    found
}

/// Lines without what differs from run to run, and without the widths that it gives the columns.
fn lasting(lines: &[String]) -> Vec<String> {
    // From where its name stands to where that of the next column does.
    let column = lines.iter().find_map(|line| Some(line.find("  time  ")?..line.find("  memory  ")?));
    let mut lasting = Vec::new();
    for line in lines.iter().filter(|line| !line.starts_with("solver")) {
        let is_kept = |at: usize| column.as_ref().is_none_or(|column| !column.contains(&at));
        let line: String = line.chars().enumerate().filter(|&(at, _)| is_kept(at)).map(|(_, c)| c).collect();
        lasting.push(line.split_whitespace().collect::<Vec<_>>().join(" "));
    }
    lasting
}

#[test]
fn commands_print_what_is_shown() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let readme = std::fs::read_to_string(root.join("README.md")).expect("a README");
    let shown = shown(&readme);
    assert!(shown.len() >= 5, "the README shows its commands");
    let folder = tempfile::tempdir().expect("a folder");
    let demo = folder.path().join("data/demo");
    std::fs::create_dir_all(&demo).expect("room");
    for file in std::fs::read_dir(root.join("data/demo")).expect("the demo") {
        let file = file.expect("a readable folder").path();
        std::fs::copy(&file, demo.join(file.file_name().expect("a name"))).expect("room");
    }
    let is_written = std::env::var_os("STAGEWRIGHT_WRITE_README").is_some();
    let mut written = readme.clone();
    for Shown { command, output } in shown {
        let mut words = command.split_whitespace();
        assert_eq!(words.next(), Some("stagewright"), "{command}");
        let run = Command::new(env!("CARGO_BIN_EXE_stagewright"))
            .args(words)
            .current_dir(folder.path())
            .output()
            .expect("the program starts");
        assert!(run.status.success(), "{command}: {}", String::from_utf8_lossy(&run.stderr));
        let printed: Vec<String> =
            String::from_utf8(run.stdout).expect("text").lines().map(str::to_owned).collect();
        if is_written {
            let block = |lines: &[String]| format!("$ {command}\n{}\n", lines.join("\n"));
            written = written.replace(&block(&output), &block(&printed));
        } else {
            assert_eq!(lasting(&printed), lasting(&output), "{command}:\n{}", printed.join("\n"));
        }
    }
    if is_written {
        std::fs::write(root.join("README.md"), written).expect("room");
    }
}
