//! Schemes on structures made by hand.

use super::super::config::{Config, parse};
use super::*;

/// A tensor in bfloat16.
fn tensor(name: &str, role: Role, shape: &[u64]) -> Tensor {
    let (shape, encoding) = (shape.to_vec(), Encoding::BF16);
    let bytes = encoding.bytes(&shape).unwrap();
    Tensor { name: name.to_owned(), role, layer: None, shape, encoding, bytes, compute: None }
}

/// Tensors of a small model with two layers, experts in the second, and a tower.
fn model() -> Vec<Tensor> {
    let experts = "model.layers.1.mlp.experts.*";
    vec![
        tensor("model.embed_tokens.weight", Role::Embedding, &[1024, 256]),
        tensor("model.layers.0.input_layernorm.weight", Role::Norm, &[256]),
        tensor("model.layers.0.self_attn.q_proj.weight", Role::Query, &[512, 256]),
        tensor("model.layers.0.self_attn.q_proj.bias", Role::Query, &[512]),
        tensor("model.layers.0.mlp.down_proj.weight", Role::Down, &[256, 768]),
        tensor("model.layers.1.mlp.gate.weight", Role::Router, &[4, 256]),
        tensor(&format!("{experts}.gate_proj.weight"), Role::ExpertGate, &[4, 128, 256]),
        tensor(&format!("{experts}.gate_proj.bias"), Role::ExpertGate, &[4, 128]),
        tensor("model.layers.1.mlp.shared_experts.down_proj.weight", Role::SharedDown, &[256, 128]),
        tensor("lm_head.weight", Role::Head, &[1024, 256]),
        tensor("visual.blocks.0.attn.qkv.weight", Role::Tower, &[384, 128]),
        tensor("visual.pos_embed.weight", Role::Tower, &[64, 128]),
    ]
}

/// Encodings of the tensors that a configuration quantises, by the parts of their names that matter, and the cache.
fn quantised(config: &str, beside: Option<&str>) -> Result<(Vec<String>, Option<Encoding>)> {
    let map = parse("config.json", config.as_bytes())?;
    let beside = beside.map(|text| parse("hf_quant_config.json", text.as_bytes())).transpose()?;
    let beside = beside.as_ref().map(|map| Config::new("hf_quant_config.json", map));
    let config = Config::new("config.json", &map);
    let scheme = read(&config, beside.as_ref())?;
    let mut tensors = model();
    scheme.apply(&mut tensors)?;
    let shown = tensors.iter().zip(model()).filter(|(tensor, plain)| *tensor != plain).map(|(tensor, _)| {
        assert_eq!(tensor.encoding.bytes(&tensor.shape), Some(tensor.bytes));
        let module = tensor.name.trim_end_matches(".weight");
        let (_, module) = module.rsplit_once('.').unwrap_or(("", module));
        let module = if tensor.name.contains("shared") { "shared" } else { module };
        let compute = tensor.compute.map_or_else(String::new, |compute| format!("/{}", compute.name()));
        format!("{module}: {}{compute}", tensor.encoding.name())
    });
    Ok((shown.collect(), scheme.cache()))
}

/// Encodings under `quantization_config`.
fn under(quantisation: &str) -> Vec<String> {
    quantised(&format!(r#"{{"quantization_config": {quantisation}}}"#), None).unwrap().0
}

fn refused(quantisation: &str) -> stagewright_formats::InputError {
    let error = quantised(&format!(r#"{{"quantization_config": {quantisation}}}"#), None).unwrap_err();
    assert_eq!(error.code, "M013");
    error
}

#[test]
fn fp8_has_blocks_and_exceptions() {
    let block = r#""quant_method": "fp8", "fmt": "e4m3", "weight_block_size": [128, 128]"#;
    let format = "fp8_128x128/fp8";
    let all: Vec<String> =
        ["q_proj", "down_proj", "gate_proj", "shared", "qkv"].map(|name| format!("{name}: {format}")).into();
    assert_eq!(under(&format!("{{{block}}}")), all);
    let some = r#""modules_to_not_convert": ["gate", "lm_head", "model.layers.0.self_attn", "visual"]"#;
    assert_eq!(under(&format!("{{{block}, {some}}}")), all[1..4]);
    let text = format!(r#"{{"text_config": {{"quantization_config": {{{block}}}}}}}"#);
    assert_eq!(quantised(&text, None).unwrap().0, all[..4], "towers are outside of `text_config`");
    let fine = format!(r#"{{"quantization_config": {{{block}}}, "expert_dtype": "fp4"}}"#);
    assert_eq!(quantised(&fine, None).unwrap().0[2], "gate_proj: mxfp4/fp8");
    assert_eq!(under(r#"{"quant_method": "fp8"}"#)[0], "q_proj: fp8_tensor/fp8");
    assert_eq!(under(r#"{"quant_method": "fbgemm_fp8"}"#)[0], "q_proj: fp8_channel/fp8");
    refused(r#"{"quant_method": "fp8", "weight_block_size": [128]}"#);
    refused(r#"{"quant_method": "fp8", "fmt": "e3m4"}"#);
}

#[test]
fn model_optimizer_has_one_algorithm_or_many() {
    let file = |quantisation: &str| quantised("{}", Some(&format!(r#"{{"quantization": {quantisation}}}"#)));
    let (tensors, cache) = file(
        r#"{"quant_algo": "NVFP4", "kv_cache_quant_algo": "FP8", "group_size": 16,
            "exclude_modules": ["lm_head", "visual*", "language_model.model.layers.0*"]}"#,
    )
    .unwrap();
    assert_eq!(tensors, ["gate_proj: nvfp4_tensor/nvfp4", "shared: nvfp4_tensor/nvfp4"]);
    assert_eq!(cache, Some(Encoding::FP8));
    let mixed = |entries: &str| {
        file(&format!(r#"{{"quant_algo": "MIXED_PRECISION", "quantized_layers": {{{entries}}}}}"#))
    };
    let expert = |number: u64, algorithm: &str| {
        format!(r#""model.layers.1.mlp.experts.{number}.gate_proj": {{"quant_algo": "{algorithm}"}}"#)
    };
    let experts = (0..4).map(|number| expert(number, "W4A16_NVFP4")).collect::<Vec<_>>().join(", ");
    let head = r#""lm_head": {"quant_algo": "FP8"}, "layers.1.mlp.gate": {"quant_algo": "MXFP8"}"#;
    let (tensors, _) = mixed(&format!("{experts}, {head}")).unwrap();
    assert_eq!(tensors, ["gate: mxfp8/mxfp8", "gate_proj: nvfp4_tensor", "lm_head: fp8_tensor/fp8"]);
    let unlike = [expert(0, "FP8"), expert(1, "FP8"), expert(2, "FP8"), expert(3, "NVFP4")].join(", ");
    let error = mixed(&unlike).unwrap_err();
    assert_eq!(
        (error.code.name, error.place.to_string().as_str()),
        ("M013", "hf_quant_config.json: quantization.quantized_layers")
    );
    assert!(error.message.contains("experts of `model.layers.1.mlp.experts.*.gate_proj`"), "{error}");
    assert!(mixed(r#""decoder.7.up": {"quant_algo": "FP8"}"#).is_err(), "no such module");
    assert!(mixed(r#""lm_head": {"quant_algo": "FP9"}"#).unwrap_err().help.contains("FP8"));
    assert!(file(r#"{"quant_algo": "MIXED_PRECISION"}"#).is_err());
    assert!(file(r#"{"quant_algo": "NVFP4", "group_size": 32}"#).is_err());
    assert_eq!(
        file(r#"{"quant_algo": null, "kv_cache_quant_algo": "FP8"}"#).unwrap(),
        (vec![], Some(Encoding::FP8))
    );
    assert!(quantised("{}", Some("{}")).is_err(), "the file beside has no quantisation");
    assert_eq!(
        file(r#"{"quant_algo": "W4A8_AWQ", "group_size": 64}"#).unwrap().0[0],
        "q_proj: int4_g64s/fp8"
    );
}

#[test]
fn the_configuration_counts_before_the_file_beside_it() {
    let beside = r#"{"quantization": {"quant_algo": "NVFP4", "kv_cache_quant_algo": "FP8"}}"#;
    let config = r#"{"quantization_config": {"quant_algo": "FP8", "ignore": ["visual", "*mlp*"]}}"#;
    let (tensors, cache) = quantised(config, Some(beside)).unwrap();
    assert_eq!((tensors, cache), (vec!["q_proj: fp8_tensor/fp8".to_owned()], Some(Encoding::FP8)));
}

#[test]
fn layers_by_name_override_blocks() {
    let some = r#"{"quant_method": "fp8", "weight_block_size": [128, 128], "ignore": ["*.self_attn.*"],
        "quantized_layers": {"layers.1.mlp.experts": {"quant_algo": "NVFP4", "group_size": 16}}}"#;
    assert_eq!(under(some)[0], "q_proj: fp8_128x128/fp8", "exceptions of the named layers only");
    assert_eq!(under(some)[2], "gate_proj: nvfp4_tensor/nvfp4");
}

#[test]
fn compressed_tensors_have_groups_by_class_and_name() {
    let groups = |groups: &str, rest: &str| {
        format!(r#"{{"quant_method": "compressed-tensors", "config_groups": {{{groups}}}, {rest}}}"#)
    };
    let pack = r#""g": {"targets": ["Linear"], "input_activations": null,
        "weights": {"num_bits": 4, "type": "int", "strategy": "group", "group_size": 32, "symmetric": true}}"#;
    let ignore =
        r#""ignore": ["lm_head", "re:.*self_attn.*", "re:.*mlp\\.(gate|up|down)_proj.*", "re:.*visual"]"#;
    let format = r#""format": "pack-quantized""#;
    let experts = ["gate_proj: int4_g32s", "shared: int4_g32s"];
    assert_eq!(under(&groups(pack, &format!("{ignore}, {format}"))), experts);
    let dynamic = r#""a": {"targets": ["re:.*q_proj"], "weights": {"num_bits": 8, "type": "float", "strategy": "channel"},
          "input_activations": {"num_bits": 8, "type": "float", "dynamic": true}},
        "b": {"targets": ["model.layers.1.mlp.experts"], "format": "nvfp4-pack-quantized", "input_activations": null,
          "weights": {"num_bits": 4, "type": "float", "strategy": "tensor_group", "group_size": 16}},
        "c": {"targets": ["lm_head"], "input_activations": {"num_bits": 8, "type": "int"},
          "weights": {"num_bits": 8, "type": "int", "strategy": "channel"}}"#;
    assert_eq!(
        under(&groups(dynamic, r#""format": "mixed-precision", "ignore": []"#)),
        ["q_proj: fp8_channel/fp8", "gate_proj: nvfp4_tensor", "lm_head: int8_channel/i8"]
    );
    let mx = r#""g": {"targets": ["Linear"], "format": "mxfp4-pack-quantized",
        "weights": {"num_bits": 4, "type": "float", "strategy": "group", "group_size": 32, "scale_dtype": "torch.uint8"}}"#;
    assert_eq!(under(&groups(mx, ignore)), ["gate_proj: mxfp4", "shared: mxfp4"]);
    let scheme = r#""kv_cache_scheme": {"num_bits": 8, "type": "float"}"#;
    let (_, cache) =
        quantised(&format!(r#"{{"compression_config": {}}}"#, groups(pack, scheme)), None).unwrap();
    assert_eq!(cache, Some(Encoding::FP8));
    assert_eq!(
        refused(&groups(pack, r#""format": "marlin-24""#)).place.to_string(),
        "config.json: quantization_config.format"
    );
    refused(&groups(pack, r#""sparsity_config": {"format": "sparse-24-bitmask"}"#));
    refused(&groups(
        r#""g": {"targets": ["re:nowhere"], "weights": {"num_bits": 8, "type": "int"}}"#,
        format,
    ));
    let late =
        &groups(r#""g": {"targets": ["Linear"], "weights": {"num_bits": 16, "type": "float"}}"#, format);
    assert_eq!(
        refused(late).place.to_string(),
        "config.json: quantization_config.config_groups.g.weights.num_bits"
    );
}

#[test]
fn integers_in_groups_are_those_of_awq_and_gptq() {
    let awq =
        r#"{"quant_method": "awq", "bits": 4, "group_size": 128, "modules_to_not_convert": ["visual"]}"#;
    assert_eq!(
        under(awq),
        ["q_proj: int4_g128", "down_proj: int4_g128", "gate_proj: int4_g128", "shared: int4_g128"]
    );
    let gptq =
        |rest: &str| under(&format!(r#"{{"quant_method": "gptq", "bits": 4, "group_size": 64{rest}}}"#));
    assert_eq!(gptq("").len(), 4, "towers are not quantised");
    assert_eq!(gptq("")[0], "q_proj: int4_g64i");
    assert_eq!(gptq(r#", "lm_head": true"#)[4], "lm_head: int4_g64i");
    assert_eq!(gptq(r#", "modules_in_block_to_quantize": [["self_attn.q_proj"]]"#), ["q_proj: int4_g64i"]);
    let dynamic = r#", "dynamic": {"-:.*mlp.*": {}, "+:.*q_proj": {"bits": 8, "group_size": 128}}"#;
    assert_eq!(gptq(dynamic), ["q_proj: int8_g128i"]);
    assert_eq!(under(r#"{"quant_method": "gptq", "bits": 8, "group_size": -1}"#)[0], "q_proj: int8_channel");
    refused(r#"{"quant_method": "gptq", "bits": 16}"#);
}

#[test]
fn other_methods_and_errors() {
    let mx =
        r#"{"quant_method": "mxfp4", "modules_to_not_convert": ["model.layers.*.self_attn", "lm_head"]}"#;
    assert_eq!(under(mx), ["gate_proj: mxfp4"]);
    let four = r#"{"quant_method": "bitsandbytes", "load_in_4bit": true, "bnb_4bit_use_double_quant": true,
        "llm_int8_skip_modules": ["visual", "mlp"]}"#;
    assert_eq!(under(four), ["q_proj: bnb4_double"]);
    assert_eq!(
        under(r#"{"quant_method": "bitsandbytes", "load_in_8bit": true}"#)[0],
        "q_proj: int8_channel/i8"
    );
    refused(r#"{"quant_method": "bitsandbytes"}"#);
    refused("{}");
    let error = refused(r#"{"quant_method": "gtpq"}"#);
    assert!(error.message.contains("`gtpq`") && error.help.contains("did you mean gptq"), "{error}");
    assert!(error.help.contains("awq, bitsandbytes, compressed-tensors"), "{error}");
    let odd = refused(r#"{"quant_method": "awq", "bits": 4, "group_size": 0}"#);
    assert_eq!(odd.place.to_string(), "config.json: quantization_config.group_size");
    assert!(quantised(r#"{"torch_dtype": "int3"}"#, None).is_err());
    assert!(quantised(r#"{"expert_dtype": "fp3"}"#, None).is_err());
    // Rows of 24 numbers are no whole number of blocks of 16.
    let mut short = vec![tensor("model.layers.0.mlp.up_proj.weight", Role::Up, &[4, 24])];
    let map = parse("c", br#"{"quantization_config": {"quant_algo": "NVFP4"}}"#).unwrap();
    let config = Config::new("c", &map);
    assert!(read(&config, None).unwrap().apply(&mut short).unwrap_err().message.contains("nvfp4_tensor"));
}

#[test]
fn stacked_experts_are_quantised_by_the_names_of_single_ones() {
    let listed = |count: u64| {
        let entry =
            |expert: u64| format!(r#""layers.0.mlp.experts.{expert}.gate_proj": {{"quant_algo": "FP8"}}"#);
        let entries: Vec<String> = (0..count).map(entry).collect();
        let layers =
            format!(r#"{{"quant_algo": "MIXED_PRECISION", "quantized_layers": {{{}}}}}"#, entries.join(","));
        let map = parse("c", format!(r#"{{"quantization_config": {layers}}}"#).as_bytes()).unwrap();
        let shape = [4, 128, 64];
        let mut tensors = [tensor("model.layers.0.mlp.experts.gate_up_proj", Role::ExpertGateUp, &shape)];
        read(&Config::new("c", &map), None)?.apply(&mut tensors).map(|()| tensors[0].encoding)
    };
    assert_eq!(listed(4).unwrap().name(), "fp8_tensor");
    assert_eq!(listed(3).unwrap_err().code, "M013");
}

#[test]
fn thousands_of_experts_are_matched_fast() {
    let mut entries = Vec::new();
    let mut tensors = Vec::new();
    for layer in 0..60 {
        for name in ["w1", "w2", "w3"] {
            let module = |expert: &str| format!("layers.{layer}.mlp.experts.{expert}.{name}");
            entries.extend((0..256).map(|expert: u64| {
                format!(
                    r#""language_model.model.{}": {{"quant_algo": "NVFP4"}}"#,
                    module(&expert.to_string())
                )
            }));
            tensors.push(tensor(&format!("model.{}.weight", module("*")), Role::ExpertUp, &[256, 64, 64]));
        }
    }
    let text = format!(
        r#"{{"quantization_config": {{"quant_algo": "MIXED_PRECISION", "quantized_layers": {{{}}}}}}}"#,
        entries.join(",")
    );
    assert!(text.len() > 2_400_000);
    let started = std::time::Instant::now();
    let map = parse("config.json", text.as_bytes()).unwrap();
    read(&Config::new("config.json", &map), None).unwrap().apply(&mut tensors).unwrap();
    assert!(tensors.iter().all(|tensor| tensor.encoding.name() == "nvfp4_tensor"));
    assert!(started.elapsed().as_secs() < 10, "{:?}", started.elapsed());
}

/// Reads the quantisation of every configuration in a folder of `aiconfigurator-core`, if the environment names one.
#[test]
fn published_quantisations_are_read() {
    let Ok(folder) = std::env::var("STAGEWRIGHT_AICONFIGURATOR") else { return };
    let mut count = 0;
    for entry in std::fs::read_dir(format!("{folder}/model_configs")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        let Some(model) = name.strip_suffix("_config.json").filter(|model| !model.ends_with("_hf_quant"))
        else {
            continue;
        };
        let map = parse(&name, &std::fs::read(&path).unwrap()).unwrap();
        let beside = path.with_file_name(format!("{model}_hf_quant_config.json"));
        let beside = std::fs::read(beside).ok().map(|bytes| parse("hf_quant_config.json", &bytes).unwrap());
        let beside = beside.as_ref().map(|map| Config::new("hf_quant_config.json", map));
        let scheme =
            read(&Config::new(&name, &map), beside.as_ref()).unwrap_or_else(|error| panic!("{error}"));
        let quantised =
            ["FP8", "NVFP4", "V4-", "gpt-oss", "MiniMax-M2", "DeepSeek-R1", "DeepSeek-V3", "Kimi"];
        if quantised.iter().any(|part| model.contains(part)) {
            assert!(!scheme.rules.is_empty(), "{model}");
        }
        count += 1;
    }
    assert!(count > 80, "{count} configurations");
}
