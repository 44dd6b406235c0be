//! Destination of results.

use super::{code, command, demo, folder, json as printed, plan_demo, stderr, stdout};

#[test]
fn a_plan_goes_to_standard_output_in_place_of_the_table() {
    let there = folder(&[]);
    let mut piped = command(&["plan", &demo("model.json"), "--cluster", &demo("cluster.toml"), "--out", "-"]);
    let output = piped.current_dir(there.path()).output().expect("the program starts");
    assert_eq!(code(&output), Some(0), "{}", stderr(&output));
    assert_eq!(printed(&output)["schema"], "stagewright.plan/1");
    assert!(!there.path().join("-").exists());
    // Once, although it is requested twice.
    assert_eq!(printed(&plan_demo(&["--out", "-", "--json"]))["schema"], "stagewright.plan/1");
}

#[test]
fn any_output_goes_to_standard_output_in_place_of_the_table() {
    let there = folder(&[]);
    for (option, begins) in [("--html", "<!doctype html>"), ("--dot", "digraph"), ("--trace", "{")] {
        let mut piped =
            command(&["plan", &demo("model.json"), "--cluster", &demo("cluster.toml"), option, "-"]);
        let output = piped.current_dir(there.path()).output().expect("the program starts");
        assert_eq!(code(&output), Some(0), "{}", stderr(&output));
        assert!(stdout(&output).starts_with(begins), "{option}: {:.80}", stdout(&output));
        assert!(!there.path().join("-").exists());
    }
}

#[cfg(target_os = "linux")]
#[test]
fn what_is_no_regular_file_takes_two_outputs() {
    assert_eq!(code(&plan_demo(&["--out", "/dev/null", "--html", "/dev/null"])), Some(0));
}

#[cfg(target_os = "linux")]
#[test]
fn help_that_cannot_be_written_is_an_error() {
    for asked in [&["--help"][..], &["--version"], &["plan", "--help"]] {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").expect("Linux has it");
        let output = command(asked).stdout(full).output().expect("the program starts");
        assert_eq!(code(&output), Some(2), "{asked:?}");
        assert!(stderr(&output).starts_with("error[I003]"), "{asked:?}: {}", stderr(&output));
    }
}
