//! `show`, and structures that `convert` writes.

use std::fs;

use serde_json::{Value, json};

use super::{code, folder, path, root, run, stderr, stdout};

fn configuration(model: &str) -> String {
    root().join("data/configurations").join(model).display().to_string()
}

fn figures(model: &str, more: &[&str]) -> Value {
    let output = run(&[&["show", model, "--json"], more].concat());
    assert_eq!(code(&output), Some(0), "{}", stderr(&output));
    serde_json::from_str(&stdout(&output)).expect("JSON")
}

/// Parameters and bytes of the checkpoints; the cache by the formulas of the papers.
#[test]
fn figures_are_those_of_the_papers() {
    let llama = figures(&configuration("llama-3.1-8b"), &["--context", "8192"]);
    assert_eq!(llama["parameters"], 8_030_261_248.0);
    assert_eq!(llama["weight_bytes"], 2.0 * 8_030_261_248.0);
    assert_eq!(llama["cache_bytes_per_token"], f64::from(32 * 2 * 8 * 128 * 2));
    assert_eq!(llama["cache_bytes"], 8192.0 * f64::from(32 * 2 * 8 * 128 * 2));
    let deepseek = figures(&configuration("deepseek-v3"), &["--cache", "fp8"]);
    assert_eq!(deepseek["parameters"], 671_026_419_200.0);
    assert_eq!(deepseek["cache_bytes_per_token"], f64::from(61 * (512 + 64)));
    let active = deepseek["active_parameters"].as_f64().expect("a number");
    assert!((active / 37e9 - 1.0).abs() < 0.02, "{active}");
    assert_eq!(deepseek["weights"][0]["encoding"], "fp8_128x128");
}

#[test]
fn a_converted_structure_has_the_figures_of_its_configuration() {
    let files = folder(&[]);
    for model in ["llama-3.1-8b", "deepseek-v3"] {
        let (model, structure) = (configuration(model), path(&files, "structure.json"));
        let output = run(&["convert", &model, &structure]);
        assert_eq!(code(&output), Some(0), "{}", stderr(&output));
        assert_eq!(figures(&structure, &[]), figures(&model, &[]));
    }
}

#[test]
fn what_describes_no_layers_is_refused_with_what_to_do() {
    let files = folder(&[]);
    let config = path(&files, "config.json");
    let refused = |words: &[&str], content: &Value, parts: &[&str]| {
        fs::write(&config, content.to_string()).expect("room");
        let output = run(words);
        assert_eq!(code(&output), Some(2), "{}", stdout(&output));
        for part in parts {
            assert!(stderr(&output).contains(part), "{part} is not in {}", stderr(&output));
        }
    };
    let unknown = json!({"model_type": "lama", "hidden_size": 64});
    refused(
        &["show", &config],
        &unknown,
        &["error[M014]", "unknown architecture `lama`", "nearest known one is llama"],
    );
    refused(
        &["show", &config, "--as", "llama"],
        &unknown,
        &["error[M013]", "config.json: intermediate_size"],
    );
    refused(&["show", &config], &json!({"operators": []}), &["error[F006]", "config.json"]);
    refused(&["show", &config, "--cache", "half"], &json!({"model_type": "llama"}), &["error[M013]"]);
    refused(&["plan", &config], &unknown, &["error[M014]", "--as llama"]);
    let empty = folder(&[]);
    let output = run(&["show", &empty.path().display().to_string()]);
    assert!(code(&output) == Some(2) && stderr(&output).contains("no config.json"), "{}", stderr(&output));
    let missing = path(&files, "missing");
    let output = run(&["show", &missing]);
    assert!(code(&output) == Some(2) && stderr(&output).contains("error[I001]"), "{}", stderr(&output));
}

#[test]
fn headers_of_weights_are_read_with_their_configuration() {
    let files = folder(&[]);
    let config = json!({"model_type": "llama", "hidden_size": 8, "intermediate_size": 16, "num_hidden_layers": 1,
        "num_attention_heads": 2, "vocab_size": 10, "tie_word_embeddings": true, "torch_dtype": "bfloat16"});
    fs::write(path(&files, "config.json"), config.to_string()).expect("room");
    let model = files.path().display().to_string();
    let derived = figures(&model, &[]);
    // If shards are missing, sizes are those of the configuration, and a note says so.
    let structure = path(&files, "structure.json");
    assert_eq!(code(&run(&["convert", &model, &structure])), Some(0));
    let document: Value =
        serde_json::from_str(&fs::read_to_string(&structure).expect("a file")).expect("JSON");
    fs::remove_file(&structure).expect("a file");
    let tensors = document["tensors"].as_array().expect("tensors");
    let name = |tensor: &Value| tensor["name"].as_str().expect("a name").to_owned();
    let shards: serde_json::Map<String, Value> =
        tensors.iter().map(|tensor| (name(tensor), "model-00001-of-00001.safetensors".into())).collect();
    let index = json!({"metadata": {"total_size": derived["weight_bytes"].as_f64()}, "weight_map": shards});
    fs::write(path(&files, "model.safetensors.index.json"), index.to_string()).expect("room");
    let output = run(&["show", &model]);
    assert_eq!(code(&output), Some(0), "{}", stderr(&output));
    assert!(stderr(&output).contains("1 of 1 files of weights are not there"), "{}", stderr(&output));
    // A shard in 32 bits doubles the bytes; one that ends in its header is refused.
    let mut offset = 0;
    let mut header = serde_json::Map::new();
    for tensor in tensors {
        let bytes = 2 * tensor["bytes"].as_u64().expect("bytes");
        let entry =
            json!({"dtype": "F32", "shape": tensor["shape"], "data_offsets": [offset, offset + bytes]});
        header.insert(name(tensor), entry);
        offset += bytes;
    }
    let header = Value::Object(header).to_string();
    let shard = path(&files, "model-00001-of-00001.safetensors");
    fs::write(&shard, [&(header.len() as u64).to_le_bytes(), header.as_bytes()].concat()).expect("room");
    let file = fs::OpenOptions::new().write(true).open(&shard).expect("a file");
    file.set_len(8 + header.len() as u64 + offset).expect("room");
    let stored = figures(&model, &[]);
    assert_eq!(stored["weight_bytes"].as_f64(), derived["weight_bytes"].as_f64().map(|bytes| 2.0 * bytes));
    assert_eq!(stored["parameters"], derived["parameters"]);
    file.set_len(20).expect("room");
    let output = run(&["show", &shard]);
    assert!(code(&output) == Some(2) && stderr(&output).contains("error[M016]"), "{}", stderr(&output));
}
