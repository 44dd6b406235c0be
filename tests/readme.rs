//! The README shows the current output of its commands.
//!
//! A block marked `console` contains commands after `$ `, each followed by its standard output. The commands run in
//! order in one folder with a copy of `data`. The first `text` block is the output of `make demo`. Solve times are not
//! compared: the line `solver` and the column `time`. `STAGEWRIGHT_WRITE_README=1 cargo test --test integration readme` writes the
//! current output.

#![cfg(all(feature = "metis", feature = "milp"))]

use std::path::Path;
use std::process::Command;

struct Shown {
    command: String,
    output: Vec<String>,
}

/// Commands of all blocks.
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
        // Blank lines between commands are for the reader.
        while shown.output.last().is_some_and(String::is_empty) {
            shown.output.pop();
        }
    }
    found
}

/// Lines without the parts that differ between runs, and without their effect on column widths.
fn lasting(lines: &[String]) -> Vec<String> {
    // The column ends where the name of the next one starts.
    let column = lines.iter().find_map(|line| Some(line.find("  time  ")?..line.find("  memory  ")?));
    let mut lasting = Vec::new();
    for line in lines.iter().filter(|line| !line.starts_with("solver")) {
        let is_kept = |at: usize| column.as_ref().is_none_or(|column| !column.contains(&at));
        let line: String = line.chars().enumerate().filter(|&(at, _)| is_kept(at)).map(|(_, c)| c).collect();
        lasting.push(line.split_whitespace().collect::<Vec<_>>().join(" "));
    }
    lasting
}

/// Standard output of a command in a folder; empty if it is redirected to a file.
fn printed(folder: &Path, arguments: &str) -> Vec<String> {
    let (arguments, file) =
        arguments.split_once(" > ").map_or((arguments, None), |(before, file)| (before, Some(file)));
    let mut command = Command::new(env!("CARGO_BIN_EXE_stagewright"));
    let run =
        command.args(arguments.split_whitespace()).current_dir(folder).output().expect("the program starts");
    assert!(run.status.success(), "{arguments}: {}", String::from_utf8_lossy(&run.stderr));
    if let Some(file) = file {
        std::fs::write(folder.join(file), run.stdout).expect("room");
        return Vec::new();
    }
    String::from_utf8(run.stdout).expect("text").lines().map(str::to_owned).collect()
}

#[test]
fn commands_print_what_is_shown() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let readme = std::fs::read_to_string(root.join("README.md")).expect("a README");
    let shown = shown(&readme);
    assert!(shown.len() >= 3, "the README shows its commands");
    let folder = tempfile::tempdir().expect("a folder");
    for part in ["data/demo", "data/models"] {
        let copy = folder.path().join(part);
        std::fs::create_dir_all(&copy).expect("room");
        for file in std::fs::read_dir(root.join(part)).expect("a folder") {
            let file = file.expect("a readable folder").path();
            std::fs::copy(&file, copy.join(file.file_name().expect("a name"))).expect("room");
        }
    }
    let is_written = std::env::var_os("STAGEWRIGHT_WRITE_README").is_some();
    let mut written = readme.clone();
    let makefile = std::fs::read_to_string(root.join("Makefile")).expect("a Makefile");
    let demo = makefile.split("--bin stagewright -- ").nth(1).and_then(|rest| rest.lines().next());
    let first = readme.split("```text\n").nth(1).and_then(|rest| rest.split("```").next()).expect("a block");
    let demo_prints = printed(folder.path(), demo.expect("what `make demo` runs"));
    if is_written {
        written = written.replacen(first, &(demo_prints.join("\n") + "\n"), 1);
    } else {
        let first: Vec<String> = first.lines().map(str::to_owned).collect();
        assert_eq!(lasting(&demo_prints), lasting(&first), "make demo:\n{}", demo_prints.join("\n"));
    }
    for Shown { command, output } in shown {
        let mut words = command.split_whitespace();
        assert_eq!(words.next(), Some("stagewright"), "{command}");
        let printed = self::printed(folder.path(), &words.collect::<Vec<_>>().join(" "));
        if is_written {
            let block = |lines: &[String]| {
                [&format!("$ {command}")]
                    .into_iter()
                    .chain(lines)
                    .fold(String::new(), |text, line| text + line + "\n")
            };
            written = written.replace(&block(&output), &block(&printed));
        } else {
            assert_eq!(lasting(&printed), lasting(&output), "{command}:\n{}", printed.join("\n"));
        }
    }
    if is_written {
        std::fs::write(root.join("README.md"), written).expect("room");
    }
}
