//! Completion scripts contain the commands and the names of solvers, clusters and workloads; the parser accepts other
//! names and leaves them to the commands.

use std::fs;

use stagewright::workloads::FAMILIES;
use stagewright::{clusters, registry};

use super::{commands, root, run, stderr, stdout, tool};

#[test]
fn every_script_mentions_every_command_and_solver() {
    let commands = commands();
    for shell in ["bash", "zsh", "fish"] {
        let script = stdout(&run(&["completions", shell]));
        let solvers = registry::SOLVERS.iter().map(|entry| entry.solver.name());
        for word in commands.iter().map(String::as_str).chain(solvers).chain(["G004"]) {
            assert!(script.contains(word), "{shell}: {word}");
        }
        // The script for fish completes only options.
        for family in FAMILIES.iter().filter(|_| shell != "fish") {
            assert!(script.contains(family.name()), "{shell}: {}", family.name());
        }
        // The other scripts complete either names or files, and a cluster may be either.
        if shell == "bash" {
            for name in clusters::names() {
                assert!(script.contains(name), "{name}");
            }
        }
    }
}

#[test]
fn the_script_of_bash_completes_names() {
    let folder = tempfile::tempdir().expect("there is room for a folder");
    let script = folder.path().join("stagewright.bash").display().to_string();
    fs::write(&script, stdout(&run(&["completions", "bash"]))).expect("there is room for a file");
    let Some(output) = tool("bash", &["-n", &script]) else { return };
    assert!(output.status.success() && output.stderr.is_empty(), "{}", stderr(&output));
    let complete = |words: &str| {
        let program = format!(
            "source {script}; COMP_WORDS=({words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); \
             _stagewright stagewright \"${{COMP_WORDS[-1]}}\" \"${{COMP_WORDS[-2]}}\"; echo \"${{COMPREPLY[*]}}\""
        );
        let output = tool("bash", &["-c", &program]).expect("bash was there before");
        assert!(output.stderr.is_empty(), "{}", stderr(&output));
        stdout(&output).trim().to_owned()
    };
    assert_eq!(complete("stagewright plan --solver dp"), "dp dpl");
    assert_eq!(complete("stagewright plan --cluster dgx-a100"), "dgx-a100");
    assert_eq!(complete("stagewright plan --cluster ./no"), "", "left to files");
    assert_eq!(complete("stagewright compare --solvers base"), "baselines");
    assert_eq!(complete("stagewright workload gn"), "gnmt");
    assert_eq!(complete("stagewright devices jetson"), "jetson-agx-orin");
    assert_eq!(complete("stagewright clusters jetson"), "jetson-pair");
    assert_eq!(complete("stagewright solvers pipe"), "pipedream");
    assert_eq!(complete("stagewright export --to megatron"), "megatron megatron-layers");
    assert_eq!(complete("stagewright convert --to megatron"), "", "which has formats there");
    assert_eq!(complete("stagewright --explain B00"), "B001 B002 B003 B004 B005 B006 B007 B008 B009");
}

#[test]
fn names_that_are_not_known_keep_their_errors() {
    let model = root().join("data/demo/model.json").display().to_string();
    for (arguments, code) in [
        (&["plan", &model, "--cluster", "4xt4", "--solver", "oracle"][..], "U003"),
        (&["plan", &model, "--cluster", "laptop"], "N001"),
        (&["plan", &model, "--cluster", "4xt4", "--format", "gguf"], "U005"),
        (&["workload", "alexnet"], "W001"),
        (&["devices", "b100"], "N001"),
        (&["clusters", "laptop"], "N001"),
        (&["solvers", "oracle"], "U003"),
    ] {
        let output = run(arguments);
        assert!(stderr(&output).starts_with(&format!("error[{code}]: ")), "{}", stderr(&output));
    }
}
