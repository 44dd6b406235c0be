//! Errors by engine and mode, beside the peer's on the same rows.

use std::collections::BTreeMap;

use super::cases::Case;
use super::summary::summary;

/// Names of the two times.
const TIMES: [&str; 2] = ["TTFT", "TPOT"];

/// Relative errors of the two times of a case, each if there is one.
pub(crate) type Errors = [Option<f64>; 2];

/// Prints errors by mode, and by engine and mode, beside those of the peer on the rows that both predict.
pub(crate) fn groups(title: &str, cases: &[&Case], errors: &[Errors], peers: &[Errors]) {
    println!("\n{title}");
    let mut groups: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for (index, case) in cases.iter().enumerate() {
        let mode = if case.row.is_disaggregated() { "disaggregated" } else { "aggregated" };
        groups.entry(format!("{mode}, all engines")).or_default().push(index);
        groups.entry(format!("{mode}, {}", case.row.backend)).or_default().push(index);
    }
    for (name, members) in &groups {
        for (time, label) in TIMES.iter().enumerate() {
            let own: Vec<f64> = members.iter().filter_map(|&index| errors[index][time]).collect();
            let both = members.iter().filter_map(|&index| errors[index][time].zip(peers[index][time]));
            let (same, peer): (Vec<f64>, Vec<f64>) = both.unzip();
            println!("{name}, {label}: {}", summary(&own));
            if !peer.is_empty() {
                println!("    rows of the peer: {} | the peer: {}", summary(&same), summary(&peer));
            }
        }
    }
}
