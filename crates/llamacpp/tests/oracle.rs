//! Memory by device against `llama-fit-params` of llama.cpp, on random models and settings.
//!
//! Its answers are stored in `oracle/answers.txt`: the model, the setting, and MiB of weights, cache and buffers for each
//! device and the host, rounded down. With `STAGEWRIGHT_LLAMA_CPP`, the folder of its programs, it is asked again, and with
//! `STAGEWRIGHT_WRITE_ANSWERS=1` its answers are written. `data/setup/install-llama-cpp` builds it.

mod cases;
mod models;
#[allow(dead_code, reason = "the tests of plans ask it more")]
mod tool;

use std::path::Path;

use stagewright_llamacpp::memory::{MARGIN, Memory};
use stagewright_llamacpp::{Setting, place};
use stagewright_structure::{Mixer, Structure};

use tool::{Row, Tool};

const MODELS: usize = 60;
const SETTINGS: usize = 8;
const MIB: u64 = 1 << 20;

/// A model and a setting, and what they take on each device and on the host.
struct Case {
    name: String,
    structure: Structure,
    setting: Setting,
    rows: Vec<Row>,
}

impl Case {
    /// The case as a line of the file.
    fn line(&self) -> String {
        format!("{} | {} | {}", self.name, self.setting.line(), tool::written(&self.rows))
    }
}

/// All cases, with answers of the tool, or else with those of the file.
fn cases() -> Vec<Case> {
    let folder = tempfile::tempdir().expect("a folder");
    let tool = Tool::start();
    let stored = stored();
    let mut cases = Vec::new();
    for number in 0..MODELS {
        let (name, model) = models::model(number);
        let path = folder.path().join("model.gguf");
        model.write(&path);
        let structure = model.structure();
        let layers = structure.layers.len() as u64;
        let has_latents = structure.layers.iter().any(|layer| matches!(layer.mixer, Mixer::Latent(_)));
        for index in number * SETTINGS..(number + 1) * SETTINGS {
            let setting = cases::setting(index, layers, has_latents);
            let rows = match &tool {
                Some(tool) => tool.memory(&path, &setting).unwrap_or_else(|error| panic!("{name}: {error}")),
                None => stored.get(index).cloned().unwrap_or_default(),
            };
            cases.push(Case { name: name.clone(), structure: structure.clone(), setting, rows });
        }
    }
    cases
}

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/oracle/answers.txt");

/// Rows of the file.
fn stored() -> Vec<Vec<Row>> {
    let text = std::fs::read_to_string(Path::new(FILE)).unwrap_or_default();
    text.lines().map(|line| tool::stored(line.rsplit('|').next().unwrap_or(""))).collect()
}

/// Differences from the tool in the memories of a case, and the memories whose buffers are smaller by any.
fn differences(case: &Case) -> (Vec<String>, usize) {
    let placement = place(&case.structure, &case.setting);
    let memory = Memory::of("--flags", &case.structure, &case.setting, &placement)
        .unwrap_or_else(|error| panic!("{}: {error}", case.line()));
    let all = memory.devices.iter().chain([&memory.host]).zip(&case.rows).enumerate();
    let (mut wrong, mut below) = (Vec::new(), 0);
    for (row, (ours, &[weights, cache, compute])) in all {
        let differs = |ours: u64, theirs: u64| (ours / MIB).abs_diff(theirs) > 1;
        let is_too_small = ours.compute + MARGIN < compute * MIB;
        if differs(ours.weights, weights) || differs(ours.cache, cache) || is_too_small {
            let ours = [ours.weights, ours.cache, ours.compute].map(|bytes| bytes / MIB);
            wrong.push(format!("{}\n  memory {row}: {ours:?}", case.line()));
        }
        below += usize::from(ours.compute / MIB + 1 < compute);
    }
    (wrong, below)
}

/// Weights and caches are equal within a MiB. Buffers are bounded: none is below the tool's by more than the margin, and one
/// in fifty by more than a MiB.
#[test]
fn memory_is_what_llama_cpp_says() {
    let cases = cases();
    let text = cases.iter().map(|case| case.line() + "\n").collect::<String>();
    if std::env::var_os("STAGEWRIGHT_WRITE_ANSWERS").is_some() {
        std::fs::write(FILE, &text).expect("the file of answers");
    }
    let file = std::fs::read_to_string(FILE).expect("the file of answers");
    assert_eq!(text, file, "write it with STAGEWRIGHT_WRITE_ANSWERS=1");
    let found: Vec<(Vec<String>, usize)> = cases.iter().map(differences).collect();
    let wrong: Vec<&str> = found.iter().flat_map(|(wrong, _)| wrong).map(String::as_str).collect();
    assert!(wrong.is_empty(), "{} memories differ\n{}", wrong.len(), wrong.join("\n"));
    let rows: usize = cases.iter().map(|case| case.rows.len()).sum();
    assert!(rows > 3 * MODELS * SETTINGS, "an answer lacks memories");
    let below: usize = found.iter().map(|(_, below)| below).sum();
    assert!(below * 50 < rows, "buffers are smaller than those of llama.cpp in {below} of {rows} memories");
}
