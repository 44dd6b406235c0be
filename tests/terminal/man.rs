//! The manual has a page for every command, which groff and man accept.

use std::collections::BTreeSet;
use std::fs;

use super::{commands, run, stderr, stdout, tool};

#[test]
fn every_command_has_a_page() {
    let folder = tempfile::tempdir().expect("there is room for a folder");
    let pages = folder.path().join("new").join("man1");
    assert_eq!(stdout(&run(&["man", &pages.display().to_string()])), "");
    let entries = fs::read_dir(&pages).expect("the folder was made");
    let found: BTreeSet<String> = entries
        .map(|entry| entry.expect("it can be read").file_name().to_string_lossy().into_owned())
        .collect();
    let mut expected: BTreeSet<String> =
        commands().iter().map(|command| format!("stagewright-{command}.1")).collect();
    expected.insert("stagewright.1".into());
    assert_eq!(found, expected);
    let first = fs::read_to_string(pages.join("stagewright.1")).expect("the page was written");
    assert_eq!(stdout(&run(&["man"])), first);
    let plan = fs::read_to_string(pages.join("stagewright-plan.1")).expect("the page was written");
    assert!(plan.contains(&format!("\"stagewright {}\"", env!("CARGO_PKG_VERSION"))), "{plan}");
    for name in &expected {
        let page = pages.join(name).display().to_string();
        for (program, arguments) in
            [("groff", &["-man", "-ww", "-z", "-Kutf8", "-Tutf8"][..]), ("man", &["--warnings", "-l"])]
        {
            if let Some(output) = tool(program, &[arguments, &[&page]].concat()) {
                assert!(output.status.success() && output.stderr.is_empty(), "{name}: {}", stderr(&output));
            }
        }
    }
}

#[test]
fn markdown_pages_have_every_option() {
    let folder = tempfile::tempdir().expect("there is room for a folder");
    assert_eq!(stdout(&run(&["man", "--markdown", &folder.path().display().to_string()])), "");
    let read = |name: &str| fs::read_to_string(folder.path().join(name)).expect("the page was written");
    let first = read("stagewright.md");
    assert_eq!(stdout(&run(&["man", "--markdown"])), first);
    let mut parts: Vec<Vec<String>> = commands().into_iter().map(|command| vec![command]).collect();
    parts.extend(["import", "show", "apply"].map(|below| vec!["costs".into(), below.into()]));
    for part in parts {
        let command = &part[0];
        assert!(first.contains(&format!("- [`{command}`](stagewright-{command}.md): ")), "{first}");
        let page = read(&format!("stagewright-{command}.md"));
        let heading = format!("{} stagewright {}\n", "#".repeat(part.len()), part.join(" "));
        let (_, section) = page.split_once(&heading).expect("a heading for the command");
        let words: Vec<&str> = part.iter().map(String::as_str).chain(["--help"]).collect();
        let help = stdout(&run(&words));
        let lines =
            help.lines().map(|line| line.trim_start().trim_start_matches("-v, ").trim_start_matches("-h, "));
        let options =
            lines.filter(|line| line.starts_with("--")).filter_map(|line| line.split_whitespace().next());
        let mut count = 0;
        for option in options.filter(|option| *option != "--help") {
            let is_listed =
                section.contains(&format!("`{option}`")) || section.contains(&format!("`{option} "));
            assert!(is_listed, "{words:?}: {option}\n{section}");
            count += 1;
        }
        assert!(count > 0, "{help}");
    }
}

#[test]
fn a_folder_that_cannot_be_made_is_an_error() {
    let file = tempfile::NamedTempFile::new().expect("there is room for a file");
    let output = run(&["man", &file.path().join("man1").display().to_string()]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).starts_with("error[I002]: cannot create the folder"), "{}", stderr(&output));
}
