//! Tables fit the width of a terminal; in a file or a pipe their width is unlimited.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use super::{run, stdout, tool};

/// Python program that runs a command on a pseudo-terminal with a given number of columns and prints the command's
/// output.
const TERMINAL: &str = r#"
import fcntl, os, pty, struct, subprocess, sys, termios
ours, theirs = pty.openpty()
fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, int(sys.argv[1]), 0, 0))
plain = {**os.environ, "NO_COLOR": "1"}
child = subprocess.Popen(sys.argv[2:], stdin=subprocess.DEVNULL, stdout=theirs, env=plain)
os.close(theirs)
shown = b""
while True:
    try:
        piece = os.read(ours, 65536)
    except OSError:
        break
    if not piece:
        break
    shown += piece
sys.stdout.buffer.write(shown.replace(b"\r\n", b"\n"))
sys.exit(child.wait())
"#;

/// Output of a command on a terminal; `None` without Python or pseudo-terminals.
fn shown(columns: usize, arguments: &[&str]) -> Option<String> {
    let columns = columns.to_string();
    let before = ["-c", TERMINAL, &columns, env!("CARGO_BIN_EXE_stagewright")];
    let can_open = tool("python3", &["-c", "import fcntl, pty, termios; pty.openpty()"])?;
    if !can_open.status.success() {
        eprintln!("skipped: there are no pseudo-terminals");
        return None;
    }
    tool("python3", &[&before, arguments].concat()).map(|output| stdout(&output))
}

/// Asserts that a command fits terminals, whose lines break between words. `is_same` is whether it prints the same each
/// time.
fn assert_fits(arguments: &[&str], is_same: bool) {
    let piped = stdout(&run(arguments));
    let words: BTreeSet<&str> = piped.split_whitespace().collect();
    for columns in [40, 80, 120, 200] {
        let Some(text) = shown(columns, arguments) else { return };
        assert!(!text.trim().is_empty(), "{arguments:?}");
        for line in text.lines() {
            assert!(line.chars().count() <= columns, "{columns}: {arguments:?}\n{line}\n{text}");
        }
        // A long name loses its middle, which the ellipsis shows, and bars are scaled. On a narrow terminal, words may be
        // longer than a line.
        let is_whole = |word: &str| word.contains(['…', '█', '▒']) || words.contains(word);
        if is_same && columns >= 80 {
            let cut = text.split_whitespace().find(|word| !is_whole(word));
            assert_eq!(cut, None, "{columns}: {arguments:?}\n{text}");
        }
    }
    if is_same {
        assert_eq!(shown(1000, arguments).as_deref(), Some(piped.as_str()), "{arguments:?}");
    }
}

/// A chain of operators with long names, and a cluster of two kinds with an uplink.
fn problem(folder: &Path) -> [String; 2] {
    let name = |index: usize| format!("decoder.layer.{index}.attention.self.query_key_value.projection");
    let operators: Vec<serde_json::Value> = (0..6)
        .map(
            |index| serde_json::json!({"name": name(index), "seconds": {"gpu": 0.001 + index as f64 * 1e-4}}),
        )
        .collect();
    let tensors: Vec<serde_json::Value> = (1..6)
        .map(|index| serde_json::json!({"producer": name(index - 1), "consumers": [name(index)], "bytes": 1e6}))
        .collect();
    let graph =
        serde_json::json!({"schema": "stagewright.graph/1", "operators": operators, "tensors": tensors});
    let cluster = "schema = \"stagewright.cluster/1\"\n\
         [[groups]]\nname = \"the-first-rack-of-the-machine-room\"\n\
         uplink = { latency_s = 1e-6, bandwidth = 1e9 }\n\
         [[kinds]]\nname = \"accelerator-of-the-first-rack-\"\nclass = \"gpu\"\ncount = 2\n\
         memory_bytes = 1e9\nlink = { latency_s = 1e-6, bandwidth = 1e10 }\n\
         group = \"the-first-rack-of-the-machine-room\"\n\
         [[kinds]]\nname = \"other\"\nclass = \"gpu\"\ncount = 1\nlink = { bandwidth = 1e9 }\n";
    let file = |name: &str, text: &str| {
        let path = folder.join(name);
        fs::write(&path, text).expect("there is room for a file");
        path.display().to_string()
    };
    [file("model.json", &graph.to_string()), file("cluster.toml", cluster)]
}

/// Paths of a small model of Llama and of a joint plan of it.
fn joint(folder: &Path) -> [String; 2] {
    let path = |name: &str| folder.join(name).display().to_string();
    let (model, plan) = (path("llama.json"), path("joint.json"));
    let sizes = ["--layers", "4", "--sequence", "512", "--training", "--batch", "1", "--precision", "bf16"];
    stdout(&run(&[&["workload", "llama", "--out", &model][..], &sizes].concat()));
    stdout(&run(&[
        "plan",
        &model,
        "--cluster",
        "16xh100",
        "--parallel",
        "tp,dp,pp=2,recompute",
        "--global-batch",
        "16",
        "--out",
        &plan,
    ]));
    [model, plan]
}

#[test]
fn tables_of_listings_fit_the_terminal_and_break_between_words() {
    for arguments in [
        &["instances", "list"][..],
        &["export", "--list"],
        &["workload", "--list"],
        &["devices"],
        &["devices", "h100", "edge-tpu"],
        &["clusters"],
        &["clusters", "a100-and-v100", "8xv100:fp32@nvlink"],
        &["solvers"],
        &["solvers", "dp", "heft"],
        &["instances", "show", "bert-large-4xt4"],
        &["workload", "gpt", "--list"],
        &["--explain", "G004"],
    ] {
        assert_fits(arguments, true);
    }
    let Some(text) = shown(80, &["instances", "list"]) else { return };
    assert!(text.starts_with("name "), "a table and no blocks: {text}");
    for name in stdout(&run(&["instances", "list"])).lines().filter_map(|line| line.split(' ').next()) {
        assert!(text.contains(name), "{name} is not whole: {text}");
    }
}

#[test]
fn tables_of_plans_fit_the_terminal_and_break_between_words() {
    let folder = tempfile::tempdir().expect("there is room for a folder");
    let [model, cluster] = problem(folder.path());
    let plan = folder.path().join("plan.json").display().to_string();
    let makespan = folder.path().join("makespan.json").display().to_string();
    let on = ["--cluster", &cluster];
    run(&[&["plan", &model, "--out", &plan][..], &on].concat());
    run(&[&["plan", &model, "--out", &makespan, "--objective", "makespan", "--time-limit", "1s"][..], &on]
        .concat());
    let [llama, joint] = joint(folder.path());
    for arguments in [
        [&["check", &model, &plan][..], &on].concat(),
        [&["check", &model, &makespan][..], &on].concat(),
        [&["bound", &model][..], &on].concat(),
        [&["simulate", &model, &plan][..], &on].concat(),
        [&["simulate", &model, &plan, "--schedule", "1f1b", "--microbatches", "4"][..], &on].concat(),
        [&["explain", &model, &plan, "--no-what-if"][..], &on].concat(),
        vec!["check", &llama, &joint],
        vec!["explain", &llama, &joint, "--no-what-if"],
    ] {
        assert_fits(&arguments, true);
    }
    // These show how long they took, or solve anew.
    for arguments in [
        [&["plan", &model][..], &on].concat(),
        [&["explain", &model, &plan][..], &on].concat(),
        [&["compare", &model, "--solvers", "dp,one-device,equal-time"][..], &on].concat(),
        vec!["plan", &llama, "--cluster", "16xh100", "--parallel", "tp,dp,pp", "--global-batch", "32"],
        vec!["instances", "verify", "random-20", "bert-large-4xt4"],
    ] {
        assert_fits(&arguments, false);
    }
    let checked = [&["check", &model, &plan][..], &on].concat();
    let texts = [40, 80, 200].map(|columns| shown(columns, &checked));
    let [Some(narrow), Some(usual), Some(wide)] = texts else { return };
    // A narrow terminal gets blocks, a usual one a table without bars, and a wide one a table with bars.
    assert!(narrow.contains("communication  "), "{narrow}");
    assert!(!narrow.contains('█') && !usual.contains('█') && wide.contains('█'), "{narrow}{usual}{wide}");
    assert!(usual.contains('…') && !wide.contains('…'), "{usual}{wide}");
}
