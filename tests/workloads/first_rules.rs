//! Graphs under the first cost rules, byte for byte as before the second rules existed.

use sha2::{Digest, Sha256};
use stagewright::workloads::{CostRules, Granularity, Optimizer, Options};

use super::generate;

/// Each line has family, variant, granularity, pass and the first eight bytes of the SHA-256 of the written document.
const PINNED: &str = include_str!("first_rules.txt");

#[test]
fn graphs_of_the_first_rules_never_change() {
    for line in PINNED.lines() {
        let [family, variant, granularity, pass, expected] = line.split(' ').collect::<Vec<_>>()[..] else {
            panic!("`{line}` is no line of the list");
        };
        let options = Options {
            training: (pass == "training").then_some(Optimizer::Adam),
            granularity: if granularity == "layer" { Granularity::Layer } else { Granularity::Operator },
            cost_rules: CostRules::One,
            ..Options::default()
        };
        let mut text =
            serde_json::to_string_pretty(&generate(family, variant, &options)).expect("it is JSON");
        text.push('\n');
        let digest = Sha256::digest(text.as_bytes());
        let found: String = digest[..8].iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(found, expected, "{line}");
    }
}
