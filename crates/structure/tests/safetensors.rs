//! Headers of weights, made here for small models, joined with structures from configurations.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use stagewright_formats::Result;
use stagewright_structure::safetensors::{Dtype, Header, Index, compare, join};
use stagewright_structure::{Encoding, Role, Structure, Tensor, huggingface};

/// A configuration of two layers with more keys.
fn structure(keys: &str) -> Structure {
    let config = format!(
        r#"{{"model_type": "llama", "hidden_size": 256, "intermediate_size": 512, "num_attention_heads": 4,
            "num_key_value_heads": 2, "num_hidden_layers": 2, "vocab_size": 1000{keys}}}"#
    );
    huggingface::read("config.json", config.as_bytes(), None, &huggingface::Reading::default()).unwrap()
}

/// Name, type and shape of a tensor in a file.
type Entry = (String, &'static str, Vec<u64>);

/// A file with a header, and without its weights.
fn file(entries: &[Entry]) -> Vec<u8> {
    let mut end = 0;
    let mut header = serde_json::Map::new();
    header.insert("__metadata__".into(), serde_json::json!({"format": "pt"}));
    for (name, dtype, shape) in entries {
        let start = end;
        end += shape.iter().product::<u64>() * Dtype::named(dtype).unwrap().bits() / 8;
        let entry = serde_json::json!({"dtype": dtype, "shape": shape, "data_offsets": [start, end]});
        header.insert(name.clone(), entry);
    }
    let text = serde_json::to_vec(&header).unwrap();
    [&(text.len() as u64).to_le_bytes()[..], &text].concat()
}

fn header(entries: &[Entry]) -> Header {
    Header::read("model.safetensors", file(entries).as_slice(), None).unwrap()
}

/// The tensors of a structure as a file in bfloat16 has them, with those of `change` in place of each.
fn entries(structure: &Structure, change: impl Fn(&Tensor) -> Option<Vec<Entry>>) -> Vec<Entry> {
    let plain = |tensor: &Tensor| vec![(tensor.name.clone(), "BF16", tensor.shape.clone())];
    structure.tensors.iter().flat_map(|tensor| change(tensor).unwrap_or_else(|| plain(tensor))).collect()
}

fn plain(structure: &Structure) -> Vec<Entry> {
    entries(structure, |_| None)
}

fn joined(structure: &Structure, entries: &[Entry]) -> Result<Structure> {
    let mut joined = structure.clone();
    join(&mut joined, "model", &[header(entries)]).map(|()| joined)
}

/// The place of the contradiction of a file.
fn contradiction(structure: &Structure, entries: &[Entry]) -> String {
    let error = joined(structure, entries).unwrap_err();
    assert_eq!(error.code, "M017", "{error}");
    error.place.to_string()
}

/// Bytes of a file's tensors.
fn bytes(entries: &[Entry]) -> u64 {
    header(entries).tensors.values().map(|entry| entry.bytes).sum()
}

fn entry(name: &str, dtype: &'static str, shape: &[u64]) -> Entry {
    (name.to_owned(), dtype, shape.to_vec())
}

#[test]
fn weights_in_bfloat16_are_those_derived() {
    let derived = structure("");
    let mut found = plain(&derived);
    assert_eq!(joined(&derived, &found).unwrap(), derived);
    // Two files, and buffers.
    let second = found.split_off(7);
    found.push(entry("model.layers.0.self_attn.rotary_emb.inv_freq", "F32", &[32]));
    found.push(entry("model.embeddings.position_ids", "I64", &[1, 128]));
    let mut whole = derived.clone();
    join(&mut whole, "model", &[header(&found), header(&second)]).unwrap();
    assert_eq!(whole, derived);
    let twice = join(&mut whole, "model", &[header(&found), header(&second), header(&second)]).unwrap_err();
    assert_eq!(twice.code, "M016");
    assert_eq!(whole, derived, "an error leaves the structure");
}

#[test]
fn names_of_the_file_and_its_types_win() {
    let derived = structure("");
    let mut found = plain(&derived);
    for (name, dtype, _) in &mut found {
        *name = name.strip_prefix("model.").unwrap_or(name).to_owned();
        *dtype = "F32";
    }
    let whole = joined(&derived, &found).unwrap();
    assert_eq!(whole.weight_bytes(), 2 * derived.weight_bytes());
    assert!(whole.tensors.iter().all(|tensor| tensor.encoding == Encoding::F32));
    assert_eq!(whole.tensors[1].name, "layers.0.input_layernorm.weight");
}

#[test]
fn contradictions_name_their_tensor() {
    let derived = structure("");
    let missing = "model: model.layers.1.mlp.up_proj.weight";
    let found: Vec<Entry> = plain(&derived)
        .into_iter()
        .filter(|(name, ..)| name != "model.layers.1.mlp.up_proj.weight")
        .collect();
    assert_eq!(contradiction(&derived, &found), missing);
    let mut found = plain(&derived);
    found.push(entry("model.layers.2.mlp.up_proj.weight", "BF16", &[512, 256]));
    assert_eq!(contradiction(&derived, &found), "model.safetensors: model.layers.2.mlp.up_proj.weight");
    for shape in [[512, 255], [256, 512], [512, 512]] {
        let found = entries(&derived, |tensor| {
            let is_up = tensor.name == "model.layers.1.mlp.up_proj.weight";
            is_up.then(|| vec![entry(&tensor.name, "BF16", &shape)])
        });
        assert_eq!(contradiction(&derived, &found), "model.safetensors: model.layers.1.mlp.up_proj.weight");
    }
    let mut found = plain(&derived);
    found.push(entry("model.layers.1.up_proj.weight_scale", "F32", &[1]));
    assert!(
        contradiction(&derived, &found).ends_with("model.layers.1.up_proj.weight_scale"),
        "scales of nothing"
    );
    let mut found = plain(&derived);
    found.push(entry("layers.0.input_layernorm.weight", "BF16", &[256]));
    assert!(joined(&derived, &found).unwrap_err().message.contains("twice"));
}

#[test]
fn a_tied_head_may_be_stored_or_not_or_alone() {
    let derived = structure(r#", "tie_word_embeddings": true"#);
    let mut found = plain(&derived);
    assert_eq!(joined(&derived, &found).unwrap(), derived);
    found.push(entry("lm_head.weight", "BF16", &[1000, 256]));
    assert_eq!(joined(&derived, &found).unwrap(), derived, "a copy does not count");
    found.remove(0);
    assert_eq!(joined(&derived, &found).unwrap(), derived);
    found.pop();
    assert_eq!(contradiction(&derived, &found), "model: model.embed_tokens.weight");
    found.push(entry("lm_head.weight", "BF16", &[999, 256]));
    assert_eq!(contradiction(&derived, &found), "model.safetensors: lm_head.weight");
}

/// Whether a tensor is the weight of a product in a layer.
fn is_product(tensor: &Tensor) -> bool {
    tensor.layer.is_some() && tensor.shape.len() == 2
}

/// The tensors of a file where each product has parts, by the path of its module, its outputs and inputs.
fn in_parts(structure: &Structure, parts: impl Fn(&str, u64, u64) -> Vec<Entry>) -> Vec<Entry> {
    entries(structure, |tensor| {
        let module = tensor.name.strip_suffix(".weight")?;
        is_product(tensor).then(|| parts(module, tensor.shape[0], tensor.shape[1]))
    })
}

#[test]
fn parts_of_quantised_weights_count_to_them() {
    type Parts = fn(&str, u64, u64) -> Vec<Entry>;
    let cases: [(&str, &str, Parts); 6] = [
        (
            r#"{"quant_method": "fp8", "weight_block_size": [128, 128]}"#,
            "fp8_128x128",
            |module, rows, columns| {
                vec![
                    entry(&format!("{module}.weight"), "F8_E4M3", &[rows, columns]),
                    entry(
                        &format!("{module}.weight_scale_inv"),
                        "F32",
                        &[rows.div_ceil(128), columns.div_ceil(128)],
                    ),
                ]
            },
        ),
        (
            r#"{"quant_method": "gptq", "bits": 4, "group_size": 128}"#,
            "int4_g128i",
            |module, rows, columns| {
                vec![
                    entry(&format!("{module}.qweight"), "I32", &[columns / 8, rows]),
                    entry(&format!("{module}.qzeros"), "I32", &[columns / 128, rows / 8]),
                    entry(&format!("{module}.scales"), "F16", &[columns / 128, rows]),
                    entry(&format!("{module}.g_idx"), "I32", &[columns]),
                ]
            },
        ),
        (r#"{"quant_method": "awq", "bits": 4, "group_size": 128}"#, "int4_g128", |module, rows, columns| {
            vec![
                entry(&format!("{module}.qweight"), "I32", &[columns, rows / 8]),
                entry(&format!("{module}.qzeros"), "I32", &[columns / 128, rows / 8]),
                entry(&format!("{module}.scales"), "F16", &[columns / 128, rows]),
            ]
        }),
        (
            r#"{"quant_algo": "W4A16_NVFP4", "kv_cache_scheme": "FP8"}"#,
            "nvfp4_tensor",
            |module, rows, columns| {
                vec![
                    entry(&format!("{module}.weight"), "U8", &[rows, columns / 2]),
                    entry(&format!("{module}.weight_scale"), "F8_E4M3", &[rows, columns / 16]),
                    entry(&format!("{module}.weight_scale_2"), "F32", &[]),
                ]
            },
        ),
        (
            r#"{"quant_method": "compressed-tensors", "config_groups": {"a": {"weights": {"num_bits": 4, "type": "int",
                "strategy": "group", "group_size": 32}}}}"#,
            "int4_g32s",
            |module, rows, columns| {
                vec![
                    entry(&format!("{module}.weight_packed"), "I32", &[rows, columns / 8]),
                    entry(&format!("{module}.weight_scale"), "BF16", &[rows, columns / 32]),
                ]
            },
        ),
        (r#"{"quant_method": "bitsandbytes", "load_in_4bit": true}"#, "bnb4", |module, rows, columns| {
            vec![
                entry(&format!("{module}.weight"), "U8", &[rows * columns / 2, 1]),
                entry(&format!("{module}.weight.absmax"), "F32", &[rows * columns / 64]),
            ]
        }),
    ];
    for (quantisation, encoding, parts) in cases {
        let derived = structure(&format!(r#", "quantization_config": {quantisation}"#));
        let found = in_parts(&derived, parts);
        let whole = joined(&derived, &found).unwrap_or_else(|error| panic!("{encoding}: {error}"));
        assert_eq!(whole, derived, "{encoding}: the derived bytes are exact");
        assert_eq!(whole.weight_bytes(), bytes(&found));
        // Without a quantisation in the configuration, the encoding follows from the parts.
        let inferred = joined(&structure(""), &found).unwrap_or_else(|error| panic!("{encoding}: {error}"));
        assert_eq!(inferred.weight_bytes(), bytes(&found));
        let product = inferred.tensors.iter().find(|tensor| is_product(tensor)).unwrap();
        assert_eq!(product.encoding.name(), encoding);
    }
}

#[test]
fn small_parts_beside_weights_count_and_plain_weights_stay_plain() {
    let derived = structure(r#", "quantization_config": {"quant_algo": "FP8"}"#);
    let mut found = in_parts(&derived, |module, rows, columns| {
        vec![
            entry(&format!("{module}.weight"), "F8_E4M3", &[rows, columns]),
            entry(&format!("{module}.weight_scale"), "F32", &[]),
            entry(&format!("{module}.input_scale"), "F32", &[]),
        ]
    });
    found.push(entry("model.layers.0.self_attn.k_proj.k_scale", "F32", &[1]));
    found.push(entry("model.layers.1.self_attn.v_scale", "F32", &[1]));
    let whole = joined(&derived, &found).unwrap();
    assert_eq!(whole.weight_bytes(), bytes(&found));
    assert_eq!(whole.weight_bytes(), derived.weight_bytes() + 14 * 4 + 8);
    assert!(whole.tensors.iter().any(|tensor| tensor.compute == Some(Encoding::FP8)));
    let whole = joined(&derived, &plain(&derived)).unwrap();
    assert_eq!(whole.tensors, structure("").tensors, "weights that are not quantised compute in 16 bits");
}

/// A structure with experts in its last layer: apart, or with gates and projections up stacked.
fn with_experts(stacked: bool) -> Structure {
    let mut structure = structure("");
    let expert = |name: &str, role: Role, shape: [u64; 3]| Tensor {
        name: format!("model.layers.1.mlp.experts.{name}"),
        role,
        layer: Some(1),
        shape: shape.to_vec(),
        encoding: Encoding::BF16,
        bytes: 2 * shape.iter().product::<u64>(),
        compute: None,
    };
    structure.tensors.extend(match stacked {
        true => vec![
            expert("gate_up_proj", Role::ExpertGateUp, [4, 128, 256]),
            expert("down_proj", Role::ExpertDown, [4, 256, 64]),
        ],
        false => vec![
            expert("*.gate_proj.weight", Role::ExpertGate, [4, 64, 256]),
            expert("*.up_proj.weight", Role::ExpertUp, [4, 64, 256]),
            expert("*.down_proj.weight", Role::ExpertDown, [4, 256, 64]),
        ],
    });
    structure
}

/// The tensors of a file with an entry for each expert.
fn apart(structure: &Structure) -> Vec<Entry> {
    entries(structure, |tensor| {
        let of =
            |expert: u64| entry(&tensor.name.replace('*', &expert.to_string()), "BF16", &tensor.shape[1..]);
        tensor.name.contains('*').then(|| (0..4).map(of).collect())
    })
}

#[test]
fn experts_are_apart_or_stacked() {
    let (separate, stacked) = (with_experts(false), with_experts(true));
    assert_eq!(joined(&separate, &apart(&separate)).unwrap(), separate);
    assert_eq!(joined(&stacked, &plain(&stacked)).unwrap(), stacked);
    assert_eq!(joined(&separate, &plain(&stacked)).unwrap(), stacked, "files stack them");
    assert_eq!(joined(&stacked, &apart(&separate)).unwrap(), separate, "files have them apart");
    let turned = entries(&stacked, |tensor| {
        let [experts, outputs, inputs] = tensor.shape[..] else { return None };
        Some(vec![entry(&tensor.name, "BF16", &[experts, inputs, outputs])])
    });
    assert_eq!(joined(&stacked, &turned).unwrap(), stacked, "inputs before outputs");
    let mut found = apart(&separate);
    found.retain(|(name, ..)| !name.ends_with("experts.2.up_proj.weight"));
    assert_eq!(contradiction(&separate, &found), "model: model.layers.1.mlp.experts.2.up_proj.weight");
    let mut found = apart(&separate);
    found.push(entry("model.layers.1.mlp.experts.4.up_proj.weight", "BF16", &[64, 256]));
    assert_eq!(
        contradiction(&separate, &found),
        "model.safetensors: model.layers.1.mlp.experts.4.up_proj.weight"
    );
}

#[test]
fn stacked_experts_are_packed_as_in_gpt_oss() {
    let stacked = with_experts(true);
    let found = entries(&stacked, |tensor| {
        let [experts, outputs, inputs] = tensor.shape[..] else { return None };
        Some(vec![
            entry(&format!("{}_blocks", tensor.name), "U8", &[experts, outputs, inputs / 32, 16]),
            entry(&format!("{}_scales", tensor.name), "U8", &[experts, outputs, inputs / 32]),
        ])
    });
    let whole = joined(&stacked, &found).unwrap();
    assert_eq!(whole.weight_bytes(), bytes(&found));
    assert!(whole.tensors.iter().filter(|tensor| tensor.role.is_expert()).all(|tensor| {
        tensor.encoding.name() == "mxfp4" && tensor.encoding.bytes(&tensor.shape) == Some(tensor.bytes)
    }));
}

#[test]
fn an_index_has_names_and_a_total() {
    let derived = structure("");
    let index = |total: u64, names: &[Entry]| {
        let map: serde_json::Map<String, serde_json::Value> =
            names.iter().map(|(name, ..)| (name.clone(), "1.safetensors".into())).collect();
        let text = serde_json::json!({"metadata": {"total_size": total}, "weight_map": map}).to_string();
        Index::read("index.json", text.as_bytes()).unwrap()
    };
    let (names, total) = (plain(&derived), derived.weight_bytes());
    assert_eq!(compare(&derived, &index(total, &names)).unwrap(), None);
    assert_eq!(compare(&derived, &index(total + total / 2000, &names)).unwrap(), None, "0.05%");
    let note = compare(&derived, &index(total + total / 100, &names)).unwrap().unwrap();
    assert!(note.contains("(+1.00%)"), "{note}");
    let error = compare(&derived, &index(total, &names[1..])).unwrap_err();
    assert_eq!(
        (error.code.name, error.place.to_string().as_str()),
        ("M017", "index.json: model.embed_tokens.weight")
    );
    let separate = with_experts(false);
    let found = index(separate.weight_bytes(), &apart(&separate));
    assert_eq!(compare(&separate, &found).unwrap(), None);
}

/// Reads a file and joins it; an error has a code, and nothing panics.
fn try_join(structure: &Structure, bytes: &[u8]) -> bool {
    let result = Header::read("model.safetensors", bytes, None)
        .and_then(|header| join(&mut structure.clone(), "model", &[header]));
    match result {
        Ok(()) => true,
        Err(error) => {
            assert!(matches!(error.code.name, "M015" | "M016" | "M017"), "{error}");
            false
        }
    }
}

#[test]
fn mutilated_headers_are_refused_or_read() {
    let derived = with_experts(false);
    let whole = file(&apart(&derived));
    assert!(try_join(&derived, &whole));
    for length in 0..whole.len() {
        assert!(!try_join(&derived, &whole[..length]), "truncated to {length} bytes");
    }
    let mut random = ChaCha8Rng::seed_from_u64(7);
    let mut read = 0;
    for _ in 0..2000 {
        let mut flipped = whole.clone();
        let index = random.random_range(0..flipped.len());
        flipped[index] ^= 1 << random.random_range(0..8);
        read += usize::from(try_join(&derived, &flipped));
    }
    assert!(read < 200, "{read} of 2000 files with a flipped bit are read");
}
