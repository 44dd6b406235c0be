//! Names of modules in transformers, where they differ from those of the checkpoint's tensors.
//!
//! Since version 5, transformers renames the tensors of some checkpoints while it loads them (`conversion_mapping.py`). Files
//! and structures have the old names; runtimes that divide a model by its modules look for the new ones, which operators
//! therefore have. `tests/runtimes/work.py` compares them.

use std::borrow::Cow;

use stagewright_structure::Structure;

/// Parts of names in checkpoints and in transformers 5.24, by architecture, in the order in which they are replaced.
const RENAMED: &[(&str, &[[&str; 2]])] = &[
    ("gpt_neox", &[["embed_out.", "lm_head."]]),
    ("mixtral", &[[".block_sparse_moe.", ".mlp."]]),
    ("nemotron_h", &[["backbone.", "model."]]),
    (
        "vit",
        &[
            ["vit.encoder.layer.", "vit.layers."],
            [".attention.attention.query.", ".attention.q_proj."],
            [".attention.attention.key.", ".attention.k_proj."],
            [".attention.attention.value.", ".attention.v_proj."],
            [".attention.output.dense.", ".attention.o_proj."],
            [".intermediate.dense.", ".mlp.fc1."],
            [".output.dense.", ".mlp.fc2."],
        ],
    ),
];

/// The structure with its tensors named after the modules of transformers.
pub(super) fn renamed(structure: &Structure) -> Cow<'_, Structure> {
    let known = RENAMED.iter().find(|(architecture, _)| *architecture == structure.architecture);
    let Some((_, parts)) = known else { return Cow::Borrowed(structure) };
    let mut renamed = structure.clone();
    for tensor in &mut renamed.tensors {
        for [old, new] in *parts {
            tensor.name = tensor.name.replacen(old, new, 1);
        }
    }
    Cow::Owned(renamed)
}

/// Module of a projection to the vocabulary without weights of its own.
pub(super) fn tied_head(structure: &Structure) -> &'static str {
    if structure.architecture == "whisper" { "proj_out" } else { "lm_head" }
}

#[cfg(test)]
mod tests {
    use stagewright_structure::huggingface::{self, Reading};

    use super::*;

    /// Names in transformers of the tensors of two narrow layers.
    fn names(architecture: &str, more: &str) -> Vec<String> {
        let config = format!(
            r#"{{"model_type": "{architecture}", "hidden_size": 64, "intermediate_size": 128,
            "num_attention_heads": 4, "num_key_value_heads": 4, "num_hidden_layers": 2, "vocab_size": 100{more}}}"#
        );
        let structure =
            huggingface::read("config.json", config.as_bytes(), None, &Reading::default()).unwrap();
        let renamed = renamed(&structure);
        renamed.tensors.iter().map(|tensor| tensor.name.clone()).collect()
    }

    #[test]
    fn tensors_have_the_names_of_modules() {
        let has = |names: &[String], name: &str| names.iter().any(|known| known == name);
        assert!(has(&names("gpt_neox", ""), "lm_head.weight"));
        let mixtral = names("mixtral", r#", "num_local_experts": 4, "num_experts_per_tok": 2"#);
        assert!(has(&mixtral, "model.layers.1.mlp.gate.weight"));
        let hybrid = r#", "hybrid_override_pattern": "M*", "head_dim": 16, "mamba_num_heads": 8, "mamba_head_dim": 16,
            "ssm_state_size": 16, "n_groups": 2, "conv_kernel": 4"#;
        let nemotron = names("nemotron_h", hybrid);
        assert!(
            has(&nemotron, "model.layers.1.mixer.q_proj.weight") && has(&nemotron, "model.norm_f.weight")
        );
        let vit = names("vit", r#", "image_size": 32, "patch_size": 16"#);
        let of_layer = ["attention.q_proj", "attention.o_proj", "mlp.fc1", "mlp.fc2", "layernorm_after"];
        for module in of_layer {
            assert!(has(&vit, &format!("vit.layers.1.{module}.weight")), "{module}: {vit:?}");
        }
    }
}
