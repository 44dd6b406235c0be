//! Errors by engine and mode, beside the peer's on the same rows.

use std::collections::BTreeMap;

use super::cases::Case;
use super::summary::summary;

/// Names of the two times.
const TIMES: [&str; 2] = ["TTFT", "TPOT"];

/// Prints errors by mode, and by engine and mode. `errors` has those of every case; `None` where a case was out of memory.
pub(crate) fn groups(title: &str, cases: &[&Case], errors: &[Option<[f64; 2]>]) {
    println!("\n{title}");
    let mut groups: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for (index, case) in cases.iter().enumerate() {
        let mode = if case.row.is_disaggregated() { "disaggregated" } else { "aggregated" };
        groups.entry(format!("{mode}, all engines")).or_default().push(index);
        groups.entry(format!("{mode}, {}", case.row.backend)).or_default().push(index);
    }
    for (name, members) in &groups {
        for (time, label) in TIMES.iter().enumerate() {
            let own: Vec<f64> = members.iter().filter_map(|&index| Some(errors[index]?[time])).collect();
            let both = members.iter().filter_map(|&index| {
                let peer = cases[index].peer_errors()[time]?;
                Some((errors[index]?[time], peer))
            });
            let (same, peer): (Vec<f64>, Vec<f64>) = both.unzip();
            println!("{name}, {label}: {}", summary(&own));
            if !peer.is_empty() {
                println!("    rows of the peer: {} | the peer: {}", summary(&same), summary(&peer));
            }
        }
    }
}
