//! Parts of manifests for Kubernetes.

use serde_json::{Map, Value, json};

use super::super::Serving;
use super::super::plan::Replica;
use super::super::servers::{Node, check_even};
use crate::{ExportError, Result};

/// Label of nodes with their kind of devices, which users set.
const KIND: &str = "stagewright/kind";

/// Advice on the labels of nodes, and on devices.
pub(super) fn nodes(plan: &Serving) -> String {
    let kinds = plan.replicas.iter().map(|replica| label(plan, replica.nodes[0].kind));
    let mut kinds: Vec<String> = kinds.collect();
    kinds.sort();
    kinds.dedup();
    format!(
        "label nodes with their devices: `kubectl label node NODE {KIND}=KIND`, with {}",
        kinds.join(" or ")
    )
}

/// Pods of a copy: their number, and the devices of each.
///
/// # Errors
/// If the copy has devices of several kinds, or pods of different sizes (E016).
pub(super) fn pods(replica: &Replica) -> Result<(u64, u64)> {
    check_even(&replica.nodes)?;
    let Node { kind, devices } = replica.nodes[0];
    if replica.nodes.iter().any(|node| node.kind != kind) {
        let what = format!("{} in a copy of {}", replica.kinds().join(" and "), replica.name);
        return Err(ExportError::Devices {
            what,
            rule: "all pods of a copy have one template, for nodes of one kind",
        });
    }
    Ok((replica.nodes.len() as u64, devices))
}

/// Selector of the nodes for a replica.
pub(super) fn selector(plan: &Serving, replica: &Replica) -> Value {
    let mut selector = Map::new();
    selector.insert(KIND.to_owned(), label(plan, replica.nodes[0].kind).into());
    selector.into()
}

/// Devices of a container.
pub(super) fn resources(devices: u64) -> Value {
    json!({ "limits": { "nvidia.com/gpu": devices.to_string() } })
}

/// Arguments of a container. Kubernetes puts variables in for `$(NAME)`, and `$(` for `$$(`.
pub(super) fn arguments<T: AsRef<str>>(words: &[T]) -> Vec<String> {
    words.iter().map(|word| word.as_ref().replace("$(", "$$(")).collect()
}

/// Variables of a container.
pub(super) fn variables(entries: &[(&str, String)]) -> Value {
    entries.iter().map(|(name, value)| json!({ "name": name, "value": value })).collect()
}

/// Name of a kind as the value of a label; with its number if the name is none.
fn label(plan: &Serving, kind: usize) -> String {
    let name = plan.cluster().kinds[kind].name.as_str();
    if is_label(name) { name.to_owned() } else { format!("kind-{kind}") }
}

/// Last part of the name of the model as the value of a label.
pub(super) fn model_label(plan: &Serving) -> String {
    let name = plan.model().trim_end_matches('/').rsplit('/').next().unwrap_or_default();
    if is_label(name) { name.to_owned() } else { "model".to_owned() }
}

/// Whether a text is the value of a label.
fn is_label(text: &str) -> bool {
    let is_end = |character: Option<char>| character.is_some_and(|found| found.is_ascii_alphanumeric());
    let is_inner = |character: char| character.is_ascii_alphanumeric() || "-_.".contains(character);
    text.len() <= 63
        && text.chars().all(is_inner)
        && is_end(text.chars().next())
        && is_end(text.chars().last())
}
