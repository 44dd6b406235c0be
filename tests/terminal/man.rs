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
fn a_folder_that_cannot_be_made_is_an_error() {
    let file = tempfile::NamedTempFile::new().expect("there is room for a file");
    let output = run(&["man", &file.path().join("man1").display().to_string()]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).starts_with("error[I002]: cannot create the folder"), "{}", stderr(&output));
}
