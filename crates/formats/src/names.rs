//! Names of models, and the layers and passes of a training step that operator names encode.
//!
//! Most formats have no field for the layer of an operator or for colocation, but the frameworks that write
//! them encode both in names:
//!
//! | written by | name | layer |
//! | --- | --- | --- |
//! | TensorFlow | `encoder/layer_3/attention/MatMul` | `encoder.layer_3.attention` |
//! | PyTorch's ONNX exporter by tracing | `/layer1/layer1.0/conv1/Conv` | `layer1.0.conv1` |
//! | PyTorch modules | `encoder.3.attention.query` | `encoder.3.attention` |
//!
//! In TensorFlow the gradient of `A/MatMul` is named `gradients/A/MatMul_grad/…`, a read of the variable
//! `A/weights` `A/weights/read`, and its update `…/update_A/weights/Apply…`.

use std::collections::{BTreeMap, BTreeSet};

use stagewright_core::document::Pass;

/// Whether a list, whose entries are separated by blanks, contains a name.
pub(crate) fn is_among(name: &str, list: &str) -> bool {
    list.split(' ').any(|listed| listed == name)
}

/// Model name for formats that store none: the file name without its extension.
pub(super) fn stem(label: &str) -> &str {
    let file = label.rsplit(['/', '\\']).next().unwrap_or(label);
    match file.rsplit_once('.') {
        Some((stem, _)) if !stem.is_empty() => stem,
        _ => file,
    }
}

/// Unique names of nodes, from their possibly empty names and their numbers: the own name if it is unique,
/// `node<number>` if it is empty, `<name>#<number>` if several nodes share it.
pub(super) fn unique<'a>(nodes: impl Iterator<Item = (&'a str, i64)>) -> Vec<String> {
    let mut names: Vec<(String, i64)> = nodes
        .map(|(name, number)| {
            (if name.is_empty() { format!("node{number}") } else { name.to_owned() }, number)
        })
        .collect();
    let mut bearers: BTreeMap<&str, usize> = BTreeMap::new();
    for (name, _) in &names {
        *bearers.entry(name).or_default() += 1;
    }
    let shared: Vec<bool> = names.iter().map(|(name, _)| bearers[name.as_str()] > 1).collect();
    let mut taken: BTreeSet<String> = bearers.keys().map(|name| (*name).to_owned()).collect();
    for ((name, number), shared) in names.iter_mut().zip(shared) {
        if shared {
            // Another node may already have that name, so this may need repeating.
            while !taken.insert(name.clone()) {
                name.push_str(&format!("#{number}"));
            }
        }
    }
    names.into_iter().map(|(name, _)| name).collect()
}

/// Dotted layer path in an operator's name: everything but the last part.
pub(crate) fn layer(name: &str) -> Option<String> {
    let separator = if name.contains('/') { '/' } else { '.' };
    let (path, _) = name.rsplit_once(separator)?;
    if separator == '.' {
        return (!path.is_empty()).then(|| path.to_owned());
    }
    let (mut layer, mut last) = (String::new(), 0);
    for part in path.split('/').filter(|part| !part.is_empty()) {
        // PyTorch repeats the path so far, or the last part of it: /layer1/layer1.0/…, /model/layer1/layer1.0/….
        let repeats =
            |from: &usize| part.strip_prefix(&layer[*from..]).is_some_and(|rest| rest.starts_with('.'));
        if let Some(from) = [0, last].into_iter().find(repeats) {
            layer.truncate(from);
            last = from;
        } else {
            if !layer.is_empty() {
                layer.push('.');
            }
            last = layer.len();
        }
        layer.push_str(part);
    }
    (!layer.is_empty()).then_some(layer)
}

/// Pass of a TensorFlow node, and the node that it is colocated with; `None` if it is not colocated.
pub(super) fn role(name: &str) -> (Pass, Option<&str>) {
    if let Some(rest) =
        name.strip_prefix("gradients/").or_else(|| name.split_once("/gradients/").map(|p| p.1))
    {
        return (Pass::Backward, rest.split_once("_grad/").map(|(forward, _)| forward));
    }
    if let Some((_, rest)) = name.split_once("/update_") {
        return (Pass::Update, rest.rsplit_once('/').map(|(variable, _)| variable));
    }
    (Pass::Forward, name.strip_suffix("/read"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_are_shared_or_missing_are_told_apart() {
        let written = [("a", 1), ("", 2), ("a", 3), ("a#1", 4), ("node2", 5)];
        assert_eq!(unique(written.into_iter()), ["a#1#1", "node2#2", "a#3", "a#1", "node2#5"]);
    }

    #[test]
    fn layers_are_the_leading_parts_of_names() {
        assert_eq!(layer("encoder/layer_3/attention/MatMul").as_deref(), Some("encoder.layer_3.attention"));
        assert_eq!(layer("/layer1/layer1.0/conv1/Conv").as_deref(), Some("layer1.0.conv1"));
        let below = "/model/layer1/layer1.0/downsample/downsample.0/Conv";
        assert_eq!(layer(below).as_deref(), Some("model.layer1.0.downsample.0"));
        assert_eq!(layer("/features/features.0/features.0.1/Conv").as_deref(), Some("features.0.1"));
        assert_eq!(layer("encoder.3.attention.query").as_deref(), Some("encoder.3.attention"));
        assert_eq!(layer("resnetv17_conv0_fwd"), None);
        assert_eq!(layer("/Conv"), None);
        assert_eq!(layer(""), None);
    }

    #[test]
    fn roles_are_read_off_tensorflow_names() {
        assert_eq!(role("gradients/a/MatMul_grad/MatMul_1"), (Pass::Backward, Some("a/MatMul")));
        assert_eq!(role("train/gradients/a/b_grad/Sum"), (Pass::Backward, Some("a/b")));
        assert_eq!(role("gradients/Shape"), (Pass::Backward, None));
        assert_eq!(role("Adam/update_a/weights/ApplyAdam"), (Pass::Update, Some("a/weights")));
        assert_eq!(role("a/weights/read"), (Pass::Forward, Some("a/weights")));
        assert_eq!(role("a/MatMul"), (Pass::Forward, None));
    }

    #[test]
    fn a_model_is_called_what_its_file_is_called() {
        assert_eq!(stem("models/resnet50.v1.onnx"), "resnet50.v1");
        assert_eq!(stem(".hidden"), ".hidden");
        assert_eq!(stem("standard input"), "standard input");
    }
}
