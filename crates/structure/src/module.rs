//! Names of modules across checkpoints of one architecture, which differ in what stands before them.

/// Modules around a language model: checkpoints have some of them or none, in any order.
const AROUND: &[&str] = &[
    "backbone",
    "bert",
    "gpt_neox",
    "language_model",
    "model",
    "roberta",
    "text_model",
    "transformer",
    "vit",
];

/// Name without the modules around the language model: `layers.0.mlp.up_proj` for
/// `language_model.model.layers.0.mlp.up_proj`.
pub(crate) fn bare(name: &str) -> &str {
    let mut rest = name;
    while let Some((first, below)) = rest.split_once('.') {
        if !AROUND.contains(&first) {
            break;
        }
        rest = below;
    }
    rest
}

/// Name with a `*` for the number of an expert, and that number; `None` if the name has no single expert.
pub(crate) fn of_expert(name: &str) -> Option<(String, u64)> {
    let start = match name.strip_prefix("experts.") {
        Some(_) => "experts.".len(),
        None => name.find(".experts.")? + ".experts.".len(),
    };
    let (number, below) = match name[start..].find('.') {
        Some(length) => name[start..].split_at(length),
        None => (&name[start..], ""),
    };
    let number_of = number.bytes().all(|byte| byte.is_ascii_digit()).then(|| number.parse().ok())??;
    Some((format!("{}*{below}", &name[..start]), number_of))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_and_experts_are_recognised() {
        for name in ["model.layers.1.mlp", "language_model.model.layers.1.mlp", "layers.1.mlp"] {
            assert_eq!(bare(name), "layers.1.mlp");
        }
        assert_eq!(bare("model"), "model");
        assert_eq!(of_expert("layers.1.experts.12.up"), Some(("layers.1.experts.*.up".to_owned(), 12)));
        assert_eq!(of_expert("experts.3"), Some(("experts.*".to_owned(), 3)));
        for name in ["layers.1.experts.up", "layers.1.shared_experts.3.up", "layers.1.experts.", "experts.-1"]
        {
            assert_eq!(of_expert(name), None, "{name}");
        }
    }
}
