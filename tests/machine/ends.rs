//! Runs that cannot start, or that fail: a clear error, and no process left behind.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Child, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use prost::Message;
use stagewright::formats::ImportOptions;
use stagewright::formats::onnx::Whole;
use stagewright::formats::onnx::proto::tensor_proto::DataLocation;
use stagewright::formats::onnx::proto::{
    FunctionProto, GraphProto, NodeProto, OperatorSetIdProto, StringStringEntryProto,
};
use stagewright::runtime::cut::{cut, write_whole};

use super::model::{chain, floats, model, node, tensor, write};
use super::{command, run, runtime, stderr, text};

/// Time after which a test is considered to hang.
const PATIENCE: Duration = Duration::from_secs(600);

/// A model, a machine of two cores and a plan of two stages, without measurements.
struct Planned {
    folder: tempfile::TempDir,
}

impl Planned {
    fn new(runtime: &Path) -> Planned {
        let planned = Planned { folder: tempfile::tempdir().unwrap() };
        write(&chain(8, 256, 512), &planned.path("model.onnx"));
        let machine = "schema = \"stagewright.cluster/1\"\n[classes.cpu]\npeak_flops = 1e11\nmemory_bandwidth = 1e10\n\
                       [[kinds]]\nname = \"cpu\"\nclass = \"cpu\"\ncount = 2\nlink = { bandwidth = 1e9 }\n";
        std::fs::write(planned.path("machine.toml"), machine).unwrap();
        planned.plan(runtime, "machine.toml", "plan.json");
        planned
    }

    fn plan(&self, runtime: &Path, machine: &str, plan: &str) {
        let (model, machine, plan) = (self.path("model.onnx"), self.path(machine), self.path(plan));
        let planned =
            run(runtime, &["plan", text(&model), "--cluster", text(&machine), "--out", text(&plan)]);
        assert!(planned.status.success(), "{}", stderr(&planned));
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.folder.path().join(name)
    }

    /// A run that would take hours.
    fn endless(&self, runtime: &Path, more: &[&str]) -> Child {
        let (model, plan) = (self.path("model.onnx"), self.path("plan.json"));
        let arguments =
            [&["run", text(&model), text(&plan), "--samples", "1000000", "--no-compare"], more].concat();
        let mut command = command(runtime, &arguments);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the program starts")
    }
}

/// Processes started by a process.
fn children(parent: u32) -> BTreeSet<u32> {
    let processes = std::fs::read_dir("/proc").into_iter().flatten().filter_map(|entry| {
        let process: u32 = entry.ok()?.file_name().to_str()?.parse().ok()?;
        let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
        let own_parent: u32 =
            status.lines().find_map(|line| line.strip_prefix("PPid:"))?.trim().parse().ok()?;
        (own_parent == parent).then_some(process)
    });
    processes.collect()
}

fn is_alive(process: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    status.lines().any(|line| line.starts_with("State:") && !line.contains('Z'))
}

/// Waits until both processes of a run are computing. Returns their ids.
fn at_work(run: &Child) -> Vec<u32> {
    let end = Instant::now() + PATIENCE;
    loop {
        let processes: Vec<u32> = children(run.id()).into_iter().collect();
        let busy = |&process: &u32| {
            let times = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
            let after = times.rsplit(')').next().unwrap_or_default();
            after.split_whitespace().nth(11).and_then(|ticks| ticks.parse::<u64>().ok()).unwrap_or(0) > 30
        };
        if processes.len() == 2 && processes.iter().all(busy) {
            return processes;
        }
        assert!(Instant::now() < end, "the processes did not start");
        thread::sleep(Duration::from_millis(50));
    }
}

fn signal(process: u32, name: &str) {
    let sent = std::process::Command::new("kill").args([&format!("-{name}"), &process.to_string()]).status();
    assert!(sent.is_ok_and(|status| status.success()));
}

/// Waits for a run to end. Returns its exit code and standard error; none of its processes may remain.
fn end(run: Child, processes: &[u32]) -> (Option<i32>, String) {
    let output = run.wait_with_output().expect("the program ends");
    let end = Instant::now() + PATIENCE;
    while processes.iter().any(|&process| is_alive(process)) {
        assert!(Instant::now() < end, "a process is left behind");
        thread::sleep(Duration::from_millis(20));
    }
    (output.status.code(), stderr(&output))
}

#[test]
#[cfg(target_os = "linux")]
fn a_killed_process_ends_the_run() {
    let Some(runtime) = runtime() else { return };
    let run = Planned::new(&runtime).endless_kept(&runtime, &[]);
    let processes = at_work(&run.1);
    signal(processes[1], "KILL");
    let (code, said) = end(run.1, &processes);
    assert_eq!(code, Some(2));
    assert!(said.contains("error[H006]") && said.contains("killed by signal 9"), "{said}");
}

#[test]
#[cfg(target_os = "linux")]
fn a_process_that_hangs_ends_the_run() {
    let Some(runtime) = runtime() else { return };
    let run = Planned::new(&runtime).endless_kept(&runtime, &["--patience", "30s"]);
    let processes = at_work(&run.1);
    signal(processes[0], "STOP");
    let (code, said) = end(run.1, &processes);
    assert_eq!(code, Some(2));
    assert!(said.contains("error[H007]"), "{said}");
}

#[test]
#[cfg(target_os = "linux")]
fn an_interrupt_ends_the_run() {
    let Some(runtime) = runtime() else { return };
    let run = Planned::new(&runtime).endless_kept(&runtime, &[]);
    let processes = at_work(&run.1);
    signal(run.1.id(), "INT");
    let (code, said) = end(run.1, &processes);
    assert_eq!(code, Some(5), "{said}");
}

#[test]
#[cfg(target_os = "linux")]
fn processes_end_with_the_program_that_started_them() {
    let Some(runtime) = runtime() else { return };
    let run = Planned::new(&runtime).endless_kept(&runtime, &[]);
    let processes = at_work(&run.1);
    signal(run.1.id(), "KILL");
    end(run.1, &processes);
}

#[test]
#[cfg(target_os = "linux")]
fn processes_that_measure_end_with_the_program_that_started_them() {
    let Some(runtime) = runtime() else { return };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.onnx");
    write(&chain(8, 256, 512), &path);
    let cores = stagewright::runtime::worker::cores();
    let cores: Vec<String> = cores.iter().take(2).map(ToString::to_string).collect();
    let arguments = ["profile", text(&path), "--runs", "100000", "--cores", &cores.join(",")];
    let mut command = command(&runtime, &arguments);
    let run = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the program starts");
    let processes = at_work(&run);
    signal(run.id(), "KILL");
    end(run, &processes);
}

#[test]
fn a_measurement_that_goes_on_is_no_hang() {
    let Some(runtime) = runtime() else { return };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.onnx");
    write(&chain(8, 256, 512), &path);
    // All runs together take longer than the patience, but each takes only a small part of it.
    let output = run(&runtime, &["profile", text(&path), "--runs", "150", "--patience", "3s"]);
    assert!(output.status.success(), "{}", stderr(&output));
}

impl Planned {
    /// Starts an endless run, and keeps the folder with its files.
    fn endless_kept(self, runtime: &Path, more: &[&str]) -> (Planned, Child) {
        let run = self.endless(runtime, more);
        (self, run)
    }
}

#[test]
fn what_cannot_be_run_is_refused_with_the_reason() {
    let Some(runtime) = runtime() else { return };
    let planned = Planned::new(&runtime);
    let (model, plan) = (planned.path("model.onnx"), planned.path("plan.json"));
    let refused = |arguments: &[&str], code: &str, cause: &str| {
        let output = run(&runtime, arguments);
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(code) && said.contains(cause), "{arguments:?}: {said}");
    };
    let one_core = ["run", text(&model), text(&plan), "--cores", "0"];
    refused(&one_core, "H005", "the plan uses 2 devices, and there are 1 cores");
    refused(&["run", text(&model), text(&plan), "--cores", "100000"], "U001", "core 100000 is not available");
    refused(&["run", text(&model), text(&plan), "--onnxruntime", "/dev/null"], "H002", "/dev/null");
    refused(&["run", "-", "-"], "I004", "standard input");
    refused(&["profile", text(&model), "--precision", "fp16"], "H005", "casts the model to fp16");
    let json = concat!(env!("CARGO_MANIFEST_DIR"), "/../../data/demo/model.json");
    refused(&["profile", json], "H005", "cannot be run");
    // Weights in a missing file.
    let mut absent = chain(1, 4, 512);
    let weight = &mut absent.graph.as_mut().unwrap().initializer[0];
    weight.raw_data = None;
    weight.data_location = Some(DataLocation::External as i32);
    weight.external_data =
        vec![StringStringEntryProto { key: Some("location".into()), value: Some("weights".into()) }];
    write(&absent, &planned.path("absent.onnx"));
    refused(&["profile", text(&planned.path("absent.onnx"))], "H004", "--random-weights");
    let random =
        run(&runtime, &["profile", text(&planned.path("absent.onnx")), "--random-weights", "--runs", "1"]);
    assert!(random.status.success(), "{}", stderr(&random));
}

/// All nodes of a file use one version of each operator set.
#[test]
fn a_function_with_another_operator_set_is_refused() {
    let mut model = model(GraphProto {
        input: vec![floats("x", &[4])],
        node: vec![NodeProto { domain: Some("local".into()), ..node("F", "y", &["x"]) }],
        output: vec![floats("y", &[4])],
        ..GraphProto::default()
    });
    model.functions = vec![FunctionProto {
        name: Some("F".into()),
        domain: Some("local".into()),
        input: vec!["a".into()],
        output: vec!["r".into()],
        node: vec![node("Relu", "r", &["a"])],
        opset_import: vec![OperatorSetIdProto { domain: Some(String::new()), version: Some(13) }],
        ..FunctionProto::default()
    }];
    let whole = Whole::new("model", &model.encode_to_vec(), &ImportOptions::default()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let placement = whole.operators.iter().flatten().map(|name| (name.clone(), 0)).collect();
    let parts = cut(&whole, &placement, 1, folder.path()).map(drop);
    let all = write_whole(&whole, &folder.path().join("whole.onnx")).map(drop);
    for result in [parts, all] {
        let refused = result.expect_err("two versions of an operator set");
        assert_eq!(refused.code(), "H012");
        assert!(
            refused.to_string().contains("`y/r`") && refused.help().contains("onnx.inliner"),
            "{refused}"
        );
    }
}

#[test]
fn a_process_without_memory_ends_the_run() {
    let Some(runtime) = runtime() else { return };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("large.onnx");
    // The sum of a column and a row of 2^22 numbers each takes 64 TiB.
    let side = 1 << 22;
    let graph = GraphProto {
        input: vec![floats("x", &[side, 1]), floats("y", &[1, side])],
        initializer: vec![tensor("one", &[1], &[1.0])],
        node: vec![node("Add", "sum", &["x", "y"]), node("ReduceMax", "most", &["sum"])],
        output: vec![floats("most", &[1, 1])],
        ..GraphProto::default()
    };
    write(&model(graph), &path);
    let output = run(&runtime, &["profile", text(&path), "--runs", "1"]);
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("error[H008]") || said.contains("error[H006]"), "{said}");
}
