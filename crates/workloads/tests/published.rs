//! Configurations of published models: those of `data/configurations`, and every one of the PyPI package
//! `aiconfigurator-core` 0.12.0 if the environment variable `STAGEWRIGHT_MODEL_CONFIGS` names its folder `model_configs`.
//! The test prints a row for each model, which `cargo test -p stagewright-workloads published -- --nocapture` shows.

use std::path::{Path, PathBuf};

use stagewright_core::document::GraphDocument;
use stagewright_core::graph::Graph;
use stagewright_structure::{Encoding, Figures, Structure, huggingface};
use stagewright_workloads::Optimizer;
use stagewright_workloads::language::{LanguageOptions, Phase};

use crate::models::{decode, draw, sum, weight_bytes};

/// Every configuration below a folder, with its name.
fn configurations(folder: &Path) -> Vec<(String, Structure)> {
    let mut found = Vec::new();
    let mut paths: Vec<PathBuf> = folder.read_dir().unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    for path in paths {
        let path = if path.is_dir() { path.join("config.json") } else { path };
        let name = path.strip_prefix(folder).unwrap().to_string_lossy().into_owned();
        let Some(stem) = name.strip_suffix("config.json").filter(|stem| !stem.ends_with("hf_quant_")) else {
            continue;
        };
        let beside = std::fs::read(folder.join(format!("{stem}hf_quant_config.json"))).ok();
        let beside = beside.as_deref().map(|bytes| ("hf_quant_config.json", bytes));
        let config = std::fs::read(&path).unwrap();
        let structure = huggingface::read(&name, &config, beside, &huggingface::Reading::default()).unwrap();
        found.push((stem.trim_end_matches(['_', '/']).to_owned(), structure));
    }
    found
}

/// Bytes of the tensors that each layer sends to later operators outside it, and of those without bytes.
fn sent(graph: &GraphDocument) -> Vec<(String, Vec<f64>)> {
    let layer = |name: &str| {
        graph
            .operators
            .iter()
            .find(|operator| operator.name == name)
            .and_then(|operator| operator.layer.clone())
    };
    let mut sent: Vec<(String, Vec<f64>)> = Vec::new();
    for tensor in &graph.tensors {
        let Some(from) = layer(&tensor.producer) else { continue };
        if tensor.consumers.iter().all(|consumer| layer(consumer).as_ref() == Some(&from)) {
            continue;
        }
        match sent.iter_mut().find(|(known, _)| *known == from) {
            Some((_, bytes)) => bytes.push(tensor.bytes),
            None => sent.push((from, vec![tensor.bytes])),
        }
    }
    sent
}

#[test]
#[expect(clippy::print_stdout, reason = "whoever runs the test reads the table")]
fn every_published_configuration_makes_graphs() {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data/configurations");
    let mut all = configurations(&data);
    assert!(all.len() >= 2);
    if let Some(folder) = std::env::var_os("STAGEWRIGHT_MODEL_CONFIGS") {
        let more = configurations(Path::new(&folder));
        assert!(more.len() >= 86, "{}", more.len());
        all.extend(more);
    }
    for (name, structure) in all {
        let parameters = structure.parameters() as f64;
        let bytes = structure.weight_bytes() as f64;
        for phase in [Phase::Prefill, Phase::Decode] {
            let options =
                LanguageOptions { phase, prediction: true, sequence: 128, ..LanguageOptions::default() };
            let graph = draw(&structure, &options);
            assert_eq!(weight_bytes(&graph), bytes, "{name}");
            Graph::from_document(graph).unwrap_or_else(|error| panic!("{name}: {error}"));
        }
        let phase = Phase::Training(Optimizer::Sgd);
        let options = LanguageOptions { phase, prediction: true, sequence: 2, ..LanguageOptions::default() };
        assert_eq!(weight_bytes(&draw(&structure, &options)), 2.0 * parameters, "{name}");
        let graph = draw(&structure, &decode(4, 4095));
        let figures = Figures::new(&structure, 4096, Encoding::BF16);
        let flop = sum(&graph, |operator| operator.flop.unwrap()) / 4.0 / figures.flop_per_token_at_context;
        let state = 4.0 * 2.0 * structure.hidden as f64;
        let edges = sent(&graph);
        let most = edges.iter().map(|(_, bytes)| bytes.len()).max().unwrap_or(0);
        let states = edges.iter().flat_map(|(_, bytes)| bytes).copied().fold(0.0, f64::max) / state;
        println!(
            "{name}\t{parameters}\t{bytes}\tdecode FLOP {:+.3} %\ttensors out of a layer {most}\thidden states {states}",
            100.0 * (flop - 1.0)
        );
        // Keys and values, or a selection, may be read by later layers; hyper-connections have several hidden states.
        assert!(most <= 3 && [1.0, 4.0].contains(&states), "{name}");
        // Figures have no softmax and count projections of the output of an encoder, which decode keeps; a step of decode
        // is none of an encoder's.
        let is_decoder =
            structure.head.is_some() && structure.layers.iter().all(|layer| layer.cross.is_none());
        assert!(!is_decoder || (1.0..1.011).contains(&flop), "{name}: {flop}");
    }
}
