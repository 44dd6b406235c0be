//! Every configuration of the PyPI package `aiconfigurator-core` 0.12.0, against published numbers of parameters. The
//! environment variable `STAGEWRIGHT_MODEL_CONFIGS` names its folder `model_configs`; without it the test does nothing. With
//! `STAGEWRIGHT_WRITE_MODELS=1` it writes the section of `docs/models.md` that has its table.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde_json::Value;
use stagewright_structure::huggingface::{Reading, read};
use stagewright_structure::{Role, Structure, Tensor};

/// Tensors that a figure counts.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Part {
    /// Every tensor of the checkpoint.
    All,
    /// Without prediction layers.
    Main,
    /// Without prediction layers and encoders.
    Language,
}
use Part::{All, Language, Main};

/// Where a figure is from.
#[derive(Debug, Clone, Copy)]
enum Source {
    /// The model's paper, card or name.
    Card,
    /// The count that Hugging Face shows for the files, or the sum of their headers.
    Files,
    /// The parameters and buffers of the model in transformers 5.24, from the same configuration.
    Framework,
}
use Source::{Card, Files, Framework};

/// A part of the name of a configuration, and the number of its parameters: exact, or in billions.
type Row = (&'static str, Part, &'static str, Source);

const TABLE: &[Row] = &[
    ("DeepSeek-R1", Main, "671_026_419_200", Framework),
    ("DeepSeek-V3", Main, "671_026_419_200", Framework),
    ("DeepSeek-V3", All, "684_489_845_504", Files),
    ("DeepSeek-V3.2", Main, "671_877_944_064", Framework),
    ("DeepSeek-V3.2", All, "685", Files),
    ("DeepSeek-V4-Flash", Main, "284_334_567_511", Framework),
    ("DeepSeek-V4-Flash", Main, "284", Card),
    ("DeepSeek-V4-Pro", Main, "1_572_999_528_803", Framework),
    ("DeepSeek-V4-Pro", All, "1598.84", Files),
    ("gemma-4-26B", Main, "25_805_936_206", Framework),
    ("gemma-4-26B", Language, "25.2", Card),
    ("gemma-4-31B", Main, "31_273_088_876", Framework),
    ("gemma-4-31B", Language, "30.7", Card),
    ("GLM-5", Main, "743_911_218_432", Framework),
    ("GLM-5", Main, "744", Card),
    ("GLM-5", All, "753.9", Files),
    ("GLM-5.2", Main, "743_377_019_904", Framework),
    ("GLM-5.2", All, "753", Files),
    ("GLM-5.3", Main, "743_377_019_904", Framework),
    ("gpt-oss-120b", Main, "116_829_156_672", Framework),
    ("gpt-oss-120b", Main, "116.83", Card),
    ("gpt-oss-20b", Main, "20_914_757_184", Framework),
    ("gpt-oss-20b", Main, "20.91", Card),
    ("Kimi-K2-Instruct", All, "1026.4", Files),
    ("Kimi-K2.5", Main, "1_026_879_376_368", Framework),
    ("Kimi-K2.6", Main, "1_026_879_376_368", Framework),
    ("Kimi-K2.7", Main, "1_026_879_376_368", Framework),
    ("Kimi-K3", All, "2780", Card),
    ("Llama-3.1-8B", All, "8_030_261_248", Files),
    ("Llama-3.1-70B", All, "70_553_706_496", Files),
    ("Llama-3.1-405B", All, "405_853_388_800", Files),
    ("Llama-3_3-Nemotron-Super-49B", All, "49.87", Files),
    ("Llama-4-Maverick", Language, "400.7", Files),
    ("Llama-4-Scout", Language, "107.8", Files),
    ("MiMo-7B", All, "7.83", Files),
    ("MiMo-V2-Flash", Main, "308_778_780_864", Framework),
    ("MiMo-V2-Flash", Main, "309", Card),
    ("MiniMax-M2", All, "228_689_764_864", Framework),
    ("MiniMax-M2", All, "228.7", Files),
    ("MiniMax-M3-NVFP4", All, "427_040_140_160", Framework),
    ("Mixtral-8x22B", All, "140_620_634_112", Files),
    ("Mixtral-8x7B", All, "46_702_792_704", Files),
    ("Nemotron-3-Nano-30B", All, "31_577_940_288", Framework),
    ("Nemotron-3-Nano-30B", All, "31.6", Card),
    ("Nemotron-3-Super-120B", Main, "120_668_707_840", Framework),
    ("Nemotron-3-Super-120B", All, "123.6", Files),
    ("Nemotron-3-Ultra-550B", Main, "549_308_993_536", Framework),
    ("Nemotron-3.5-Lightning-30B", Main, "31_577_940_288", Framework),
    ("Nemotron-H-56B", All, "56_324_350_464", Framework),
    ("Qwen3-0.6B", All, "596_049_920", Framework),
    ("Qwen3-1.7B", All, "1_720_574_976", Framework),
    ("Qwen3-8B", All, "8_190_735_360", Files),
    ("Qwen3-32B", All, "32_762_123_264", Files),
    ("Qwen3-30B-A3B", All, "30_532_122_624", Files),
    ("Qwen3-235B-A22B", All, "235_093_634_560", Files),
    ("Qwen3-Coder-480B", All, "480_154_875_392", Files),
    ("Qwen3-VL-2B", All, "2_127_532_032", Framework),
    ("Qwen3-VL-2B", All, "2.13", Files),
    ("Qwen3-VL-4B", All, "4_437_815_808", Framework),
    ("Qwen3-VL-8B", All, "8_767_123_696", Framework),
    ("Qwen3-VL-30B", All, "31_070_754_032", Framework),
    ("Qwen3-VL-32B", All, "33_357_390_064", Framework),
    ("Qwen3-VL-32B", All, "33.4", Files),
    ("Qwen3-VL-235B", All, "235_670_022_896", Framework),
    ("Qwen3.5-27B", Main, "27_356_728_560", Framework),
    ("Qwen3.5-35B", Main, "35_107_181_936", Framework),
    ("Qwen3.5-122B", Main, "122_562_817_776", Framework),
    ("Qwen3.5-397B", Main, "396_802_360_816", Framework),
    ("Qwen3.5-397B", Main, "397", Card),
    ("Qwen3.6-27B", Main, "27_356_728_560", Framework),
    ("Qwen3.6-35B", Main, "35_107_181_936", Framework),
];

/// Configurations of the package without a figure, and why.
const WITHOUT_FIGURE: &[(&str, &str)] = &[
    ("MiniMax-M3_config", "a language model alone, which is published with an encoder of images only"),
    ("Step-3.7-Flash", "the package leaves out the encoder of images and the heads of layers with a window"),
];

/// Largest difference from a figure, as a part of it. A rounded figure may also differ by half its last digit.
const TOLERANCE: f64 = 0.001;

/// Modules outside towers that project images into a language model.
const PROJECTIONS: [&str; 5] =
    ["mm_projector", "multi_modal_projector", "patch_merge_mlp", "model.embed_vision", "vit_large_projector"];

fn count(structure: &Structure, part: Part) -> u64 {
    let predicts = |layer: u64| structure.layers[layer as usize].is_prediction;
    let counts = |tensor: &&Tensor| {
        let is_prediction = tensor.layer.is_some_and(predicts) || tensor.role == Role::Prediction;
        let is_image =
            tensor.role == Role::Tower || PROJECTIONS.iter().any(|path| tensor.name.starts_with(path));
        part == All || (!is_prediction && (part == Main || !is_image))
    };
    structure.tensors.iter().filter(counts).map(Tensor::elements).sum()
}

/// A figure as a number, with the largest difference from it.
fn figure(text: &str) -> (f64, f64) {
    if text.contains('_') {
        return (text.replace('_', "").parse().unwrap(), 0.0);
    }
    let decimals = text.split_once('.').map_or(0, |(_, decimals)| decimals.len());
    let value = 1e9 * text.parse::<f64>().unwrap();
    (value, (TOLERANCE * value).max(0.5e9 / 10f64.powi(decimals as i32)))
}

/// The entries of a table whose name is the longest that the name of a configuration contains.
fn entries<'t, T>(table: &'t [T], key: impl Fn(&T) -> &str, model: &str) -> Vec<&'t T> {
    let contains = |entry: &&T| model.to_lowercase().contains(&key(entry).to_lowercase());
    let longest = table.iter().filter(contains).map(|entry| key(entry).len()).max();
    table.iter().filter(contains).filter(|entry| Some(key(entry).len()) == longest).collect()
}

/// Every configuration of the folder with the modules that its quantisation lists, by its name; a second file beside one
/// gives its quantisation.
fn structures(folder: PathBuf) -> BTreeMap<String, (Structure, BTreeSet<String>)> {
    let mut structures = BTreeMap::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        let Some(model) = name.strip_suffix("_config.json").filter(|model| !model.ends_with("_hf_quant"))
        else {
            continue;
        };
        let beside = path.with_file_name(format!("{model}_hf_quant_config.json"));
        let bytes = [std::fs::read(&path).unwrap(), std::fs::read(&beside).unwrap_or_default()];
        let quantisation = (!bytes[1].is_empty()).then_some(("hf_quant_config.json", &bytes[1][..]));
        let structure = read(&name, &bytes[0], quantisation, &Reading::default());
        let structure = structure.unwrap_or_else(|error| panic!("{name}: {error:?}"));
        let listed = bytes.iter().flat_map(|bytes| modules(bytes)).collect();
        structures.insert(name.clone(), (structure, listed));
    }
    structures
}

/// Modules of layers that a configuration of quantisation names in full, with `*` for the number of an expert.
fn modules(bytes: &[u8]) -> Vec<String> {
    let config: Value = serde_json::from_slice(bytes).unwrap_or_default();
    let mut found = Vec::new();
    for place in ["/quantization_config", "/text_config/quantization_config", "/quantization"] {
        let Some(quantisation) = config.pointer(place) else { continue };
        for key in ["ignore", "modules_to_not_convert", "exclude_modules"] {
            let listed = quantisation[key].as_array().into_iter().flatten().filter_map(Value::as_str);
            found.extend(listed.map(str::to_owned));
        }
        found.extend(
            quantisation["quantized_layers"]
                .as_object()
                .into_iter()
                .flat_map(|layers| layers.keys().cloned()),
        );
    }
    let is_plain = |name: &String| name.contains("layers.") && !name.contains('*') && !name.contains(':');
    found.into_iter().filter(is_plain).map(|name| any_expert(&name)).collect()
}

/// A name with `*` for the number after `experts`.
fn any_expert(name: &str) -> String {
    let mut parts: Vec<&str> = name.split('.').collect();
    let place = parts.iter().position(|&part| part == "experts").map_or(0, |place| place + 1);
    if let Some(number) = parts.get_mut(place).filter(|part| part.parse::<u64>().is_ok()) {
        *number = "*";
    }
    parts.join(".")
}

/// Head of the table in the page.
const HEADER: &str = "| configuration | counted | published | by | Stagewright | difference |\n| --- | --- | ---: | --- | ---: | ---: |\n";

#[test]
#[expect(
    clippy::print_stdout,
    reason = "whoever runs the test reads the table of differences, or that it was skipped"
)]
fn every_configuration_has_its_published_parameters_and_the_modules_of_its_quantisation() {
    let Some(folder) = std::env::var_os("STAGEWRIGHT_MODEL_CONFIGS") else {
        println!(
            "skipped: STAGEWRIGHT_MODEL_CONFIGS does not name the folder model_configs of aiconfigurator-core"
        );
        return;
    };
    let structures = structures(folder.into());
    assert!(structures.len() >= 86, "{} configurations", structures.len());
    let mut table = String::new();
    for (model, (structure, listed)) in &structures {
        let names: BTreeSet<&str> = structure.tensors.iter().map(|tensor| &tensor.name[..]).collect();
        let has = |module: &str| {
            let below = format!("{module}.");
            names.contains(module)
                || names.range(&below[..]..).next().is_some_and(|name| name.starts_with(&below))
        };
        // The lists of GLM-5 name a module that no implementation has.
        let lost = listed.iter().find(|module| !has(module) && !module.ends_with(".indexers_proj"));
        assert_eq!(lost, None, "{model} lists a module without tensors");
        let rows = entries(TABLE, |row| row.0, model);
        let without = entries(WITHOUT_FIGURE, |entry| entry.0, model);
        assert!(!rows.is_empty() || !without.is_empty(), "{model} is in no table");
        for (_, reason) in without {
            println!("{model}\t{}\tno figure: {reason}", count(structure, All));
        }
        for (_, part, text, source) in rows {
            let ours = count(structure, *part);
            let (value, largest) = figure(text);
            let difference = ours as f64 - value;
            let name = model.trim_end_matches("_config.json").replacen("--", "/", 1);
            let counted = match part {
                All => "all tensors",
                Main => "without prediction layers",
                Language => "language model alone",
            };
            let published = text.replace('_', "");
            let unit = if text.contains('_') { "" } else { " B" };
            let source = match source {
                Card => "card or paper",
                Files => "files",
                Framework => "transformers",
            };
            let off = 100.0 * difference / value;
            table +=
                &format!("| {name} | {counted} | {published}{unit} | {source} | {ours} | {off:+.3}% |\n");
            assert!(difference.abs() <= largest, "{model}: {part:?} has {ours} parameters, not {text}");
        }
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/models.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let (before, shown) = page.split_once(HEADER).expect("a section about configurations");
    if std::env::var_os("STAGEWRIGHT_WRITE_MODELS").is_some() {
        std::fs::write(&path, format!("{before}{HEADER}{table}")).unwrap();
        return;
    }
    assert_eq!(shown, table, "write it with STAGEWRIGHT_WRITE_MODELS=1");
}
