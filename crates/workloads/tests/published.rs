//! Every configuration of the PyPI package `aiconfigurator-core` 0.12.0. The environment variable `STAGEWRIGHT_MODEL_CONFIGS`
//! names its folder `model_configs`; without it the test does nothing.

use std::path::PathBuf;

use stagewright_core::graph::Graph;
use stagewright_structure::huggingface;
use stagewright_workloads::language::{LanguageOptions, Phase};

use crate::models::{draw, weight_bytes};

#[test]
fn every_published_configuration_makes_graphs() {
    let Some(folder) = std::env::var_os("STAGEWRIGHT_MODEL_CONFIGS").map(PathBuf::from) else { return };
    let mut drawn = 0;
    for entry in folder.read_dir().unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let Some(stem) = name.strip_suffix("_config.json").filter(|stem| !stem.ends_with("_hf_quant")) else {
            continue;
        };
        let beside = std::fs::read(path.with_file_name(format!("{stem}_hf_quant_config.json"))).ok();
        let config = std::fs::read(&path).unwrap();
        let beside = beside.as_deref().map(|bytes| ("hf_quant_config.json", bytes));
        let structure = huggingface::read(&name, &config, beside, &huggingface::Reading::default()).unwrap();
        for phase in [Phase::Prefill, Phase::Decode] {
            let options =
                LanguageOptions { phase, prediction: true, sequence: 128, ..LanguageOptions::default() };
            let graph = draw(&structure, &options);
            assert_eq!(weight_bytes(&graph), structure.weight_bytes() as f64, "{name}");
            Graph::from_document(graph).unwrap_or_else(|error| panic!("{name}: {error}"));
        }
        drawn += 1;
    }
    assert!(drawn >= 86, "{drawn}");
}
