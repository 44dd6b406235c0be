//! Unique names for the layers and configurations of a file, whose own names may repeat.

use std::collections::{BTreeMap, BTreeSet};

use stagewright_core::document::{PiperConfigurationDocument, PiperNodeDocument};

/// Names of the layers: the layer's own name if it is unique, `node<number>` if it is empty, `<name>#<number>` if
/// several layers share it. Further numbers are appended until no other layer has the name.
pub(super) fn layers(nodes: &[PiperNodeDocument]) -> Vec<String> {
    let own: Vec<String> = nodes
        .iter()
        .map(|node| if node.name.is_empty() { format!("node{}", node.id) } else { node.name.clone() })
        .collect();
    let mut bearers: BTreeMap<&str, usize> = BTreeMap::new();
    for name in &own {
        *bearers.entry(name).or_default() += 1;
    }
    let mut taken: BTreeSet<String> = own.iter().cloned().collect();
    let mut unique = Vec::with_capacity(own.len());
    for (node, name) in nodes.iter().zip(&own) {
        let mut name = name.clone();
        if bearers.get(name.as_str()).is_some_and(|&count| count > 1) {
            while !taken.insert(name.clone()) {
                name = format!("{name}#{}", node.id);
            }
        }
        unique.push(name);
    }
    unique
}

/// Names of the configurations of a layer at one degree: the names in the file, or their positions if names are missing
/// or repeated.
pub(super) fn configurations(all: &[PiperConfigurationDocument]) -> Vec<String> {
    let own: BTreeSet<&str> = all.iter().map(|configuration| configuration.id.as_str()).collect();
    if own.len() == all.len() && !own.contains("") {
        return all.iter().map(|configuration| configuration.id.clone()).collect();
    }
    (0..all.len()).map(|place| format!("#{place}")).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use stagewright_core::document::PiperNodeDocument;

    #[test]
    fn names_that_are_shared_or_missing_are_told_apart() {
        let written = [("a", 1), ("", 2), ("a", 3), ("a#1", 4), ("node2", 5)];
        let nodes = written.map(|(name, id)| PiperNodeDocument {
            id,
            name: name.into(),
            configurations: BTreeMap::new(),
        });
        assert_eq!(super::layers(&nodes), ["a#1#1", "node2#2", "a#3", "a#1", "node2#5"]);
    }
}
