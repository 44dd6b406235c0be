//! Plans of language models that a page cannot show: GGUF files, and plans that a target has to refuse.

use serde_json::Value;

use super::{code, folder, path, root, run, stderr, stdout};

/// Runs a command that has to succeed.
fn done(words: &[&str]) -> String {
    let output = run(words);
    assert_eq!(code(&output), Some(0), "{words:?}: {}", stderr(&output));
    stdout(&output)
}

fn refused(words: &[&str], parts: &[&str]) {
    let output = run(words);
    assert_eq!(code(&output), Some(2), "{words:?}: {}", stdout(&output));
    for part in parts {
        assert!(stderr(&output).contains(part), "{part} is not in {}", stderr(&output));
    }
}

/// A plan of a GGUF file holds every tensor of the file, goes to llama.cpp and to no runtime of other names.
#[test]
fn a_gguf_file_is_planned_checked_and_exported() {
    let files = folder(&[]);
    let plan = path(&files, "plan.json");
    for file in ["llama.gguf", "experts.gguf"] {
        let model = root().join("tests/fuzz/seeds/gguf").join(file).display().to_string();
        let figures: Value = serde_json::from_str(&done(&["show", &model, "--json"])).expect("JSON");
        let pins = path(&files, "pins.toml");
        std::fs::write(&pins, "token_embd = \"cpu\"").expect("room");
        let cluster = "1xrtx-3090+1xryzen-7950x:64GiB";
        let question = ["--phase", "decode", "--cluster", cluster, "--whole-layers", "--pins", &pins];
        done(&[&["plan", &model, "--out", &plan], &question[..]].concat());
        assert!(done(&["check", &model, &plan]).contains("its claims hold"));
        let line = done(&["export", &plan, "--to", "llama-cpp", "--model", &model]);
        assert!(line.contains("--n-gpu-layers"), "{line}");
        refused(&["export", &plan, "--to", "accelerate", "--model", &model], &["error[U013]", "GGUF"]);
        let graph: Value =
            serde_json::from_str(&done(&["convert", &model, "-", "--to", "native"])).expect("JSON");
        let bytes = |entries: &Value, field: &str| -> f64 {
            let entries = entries.as_array().map_or(&[][..], Vec::as_slice);
            let is_weight = |entry: &&Value| field == "parameter_bytes" || entry["trained"] == true;
            entries.iter().filter(is_weight).filter_map(|entry| entry[field].as_f64()).sum()
        };
        let held = bytes(&graph["operators"], "parameter_bytes") + bytes(&graph["parameters"], "bytes");
        assert_eq!(figures["weight_bytes"], held, "{file}");
    }
}

#[test]
fn layers_of_prediction_go_to_no_runtime() {
    let files = folder(&[]);
    let plan = path(&files, "plan.json");
    let model = root().join("data/configurations/deepseek-v3").display().to_string();
    let question = ["--phase", "decode", "--granularity", "layer", "--cluster", "8xh200"];
    done(&[&["plan", &model, "--out", &plan], &question[..]].concat());
    let partition = done(&["export", &plan, "--to", "vllm", "--model", &model]);
    let counts = partition.trim().split_once('=').expect("a partition").1;
    assert_eq!(counts.split(',').filter_map(|count| count.parse::<u32>().ok()).sum::<u32>(), 61);
    done(&[&["plan", &model, "--prediction", "--out", &plan], &question[..]].concat());
    refused(
        &["export", &plan, "--to", "vllm", "--model", &model],
        &["error[U013]", "multi-token prediction"],
    );
}
