//! Files that the measuring programs themselves write, if they are installed: the Python of `STAGEWRIGHT_PYTHON`, or
//! else `python3`.

#![expect(clippy::print_stderr, reason = "a test that is skipped says so")]

use std::fs;
use std::process::Command;

use stagewright_costs::import::{Format, Options, detect, import};
use stagewright_formats::torch;
use tempfile::TempDir;

/// A folder in which Python has run code that needs modules; `None` if a module is not installed.
fn run(modules: &str, files: &[(&str, &str)], code: &str) -> Option<TempDir> {
    let python = std::env::var_os("STAGEWRIGHT_PYTHON").unwrap_or_else(|| "python3".into());
    let folder = tempfile::tempdir().expect("there is room for a folder");
    for (name, text) in files {
        fs::write(folder.path().join(name), text).expect("there is room for a file");
    }
    let run = |code: &str| Command::new(&python).args(["-B", "-c", code]).current_dir(folder.path()).output();
    if !run(&format!("import {modules}")).is_ok_and(|output| output.status.success()) {
        eprintln!("skipped: Python has no {modules}");
        return None;
    }
    let output = run(code).expect("Python runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(folder)
}

#[test]
fn a_profile_of_onnx_runtime_has_the_nodes_of_the_model() {
    let code = "
import numpy, onnxruntime
from onnx import TensorProto, helper, numpy_helper
rng = numpy.random.default_rng(0)
weights = [numpy_helper.from_array(rng.standard_normal((256, 256)).astype(numpy.float32), f'w{at}') for at in range(2)]
nodes = [
    helper.make_node('MatMul', ['x', 'w0'], ['a'], name='up/MatMul'),
    helper.make_node('Softmax', ['a'], ['b'], name='up/Softmax'),
    helper.make_node('MatMul', ['b', 'w1'], ['y'], name='down/MatMul'),
]
value = lambda name: helper.make_tensor_value_info(name, TensorProto.FLOAT, [64, 256])
graph = helper.make_graph(nodes, 'g', [value('x')], [value('y')], weights)
model = helper.make_model(graph, opset_imports=[helper.make_opsetid('', 17)])
model.ir_version = 10
options = onnxruntime.SessionOptions()
options.enable_profiling = True
session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=['CPUExecutionProvider'])
for _ in range(5):
    session.run(None, {'x': rng.standard_normal((64, 256)).astype(numpy.float32)})
import os
os.rename(session.end_profiling(), 'profile.json')
";
    let Some(folder) = run("onnx, onnxruntime", &[], code) else { return };
    let bytes = fs::read(folder.path().join("profile.json")).unwrap();
    assert_eq!(detect("profile.json", &bytes), Ok(Format::OnnxRuntime));
    let costs = import("profile.json", &bytes, &Options::default()).unwrap();
    let names: Vec<&str> = costs.operators[0].seconds.keys().map(String::as_str).collect();
    assert_eq!(names, ["down/MatMul", "up/MatMul", "up/Softmax"]);
    let sum: f64 = costs.operators[0].seconds.values().sum();
    assert!(sum > 0.0 && sum < 60.0, "{sum}");
}

#[test]
fn a_trace_of_pytorch_has_the_operators_of_every_range() {
    let code = "
import torch
from torch.profiler import ProfilerActivity, profile, record_function
net = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 64)).eval()
for name, module in net.named_children():
    def enter(module, inputs, name=name):
        module.range = record_function(name)
        module.range.__enter__()
    module.register_forward_pre_hook(enter)
    module.register_forward_hook(lambda module, inputs, outputs: module.range.__exit__(None, None, None))
with torch.no_grad(), profile(activities=[ProfilerActivity.CPU]) as profiler:
    for _ in range(4):
        net(torch.randn(8, 64))
profiler.export_chrome_trace('trace.json')
";
    let Some(folder) = run("torch.profiler", &[], code) else { return };
    let bytes = fs::read(folder.path().join("trace.json")).unwrap();
    assert_eq!(detect("trace.json", &bytes), Ok(Format::Kineto));
    let costs = import("trace.json", &bytes, &Options::default()).unwrap();
    for name in ["0/addmm", "1/relu", "2/addmm"] {
        assert!(costs.operators[0].seconds[name] > 0.0, "{name}: {:?}", costs.operators[0].seconds);
    }
}

/// The script for kernels: run if PyTorch is installed, otherwise only parsed if Python is.
#[test]
fn the_script_for_kernels_writes_costs() {
    let files = [("stagewright_kernels.py", torch::KERNELS)];
    run("ast", &files, "import ast; ast.parse(open('stagewright_kernels.py').read())");
    let code = "
import sys
sys.argv[1:] = ['--small', '--seconds', '0.001', '--device', 'cpu', '--precisions', 'fp32', '--out', 'kernels.json']
import runpy
runpy.run_path('stagewright_kernels.py', run_name='__main__')
";
    let Some(folder) = run("torch", &files, code) else { return };
    let bytes = fs::read(folder.path().join("kernels.json")).unwrap();
    let costs = import("kernels.json", &bytes, &Options::default()).unwrap();
    let rows: Vec<usize> = costs.kernels.iter().map(|table| table.rows.len()).collect();
    assert_eq!(rows, [16, 4, 4, 4]);
    assert!(costs.kernels.iter().all(|table| table.class == "cpu"));
}
