//! States divided over groups of copies, with figures computed by hand.

use serde_json::{Value, json};

use super::iteration::{check, cluster, graph, stage};
use super::runtimes::runtime;

/// A plan of one stage with four copies, of which two in a server divide states: σ is 1/2.
pub(super) fn groups(zero: u32, figures: [f64; 7]) -> Value {
    let only = stage(4, 1, figures, &[["block.0", "none"], ["block.1", "none"]]);
    let value = figures[1] + figures[3];
    let mut plan = super::plan("iteration", 4, &["dp", "zero", "shard"], value, json!([only]));
    plan["execution"] = json!({"microbatch": 1, "microbatches": 1, "data": 4, "expert": 1, "zero": zero,
                               "shards": 2});
    plan
}

pub(super) fn large() -> Value {
    let mut cluster = cluster();
    cluster["kinds"][0]["memory_bytes"] = json!(400.0);
    cluster
}

fn sound(plan: Value) {
    let report = check(graph(), large(), plan).expect("documents");
    assert!(report.holds(), "{:?}\n{:?}", report.violations, report.stages);
}

#[test]
fn groups_divide_states_and_reduce_parts_between_them() {
    // Scatters of 40 and 20 bytes take 1 + 20 / 4 and 1 + 10 / 4, gathers as long. All-reduces of 20 and 10 bytes between the
    // servers take 2 · (2 + 10 / 2) and 2 · (2 + 5 / 2). Updates 4.5 / 2 and 2.5 / 2.
    // States 60 + 60 + 140 / 2, activations 72 / 2, workspace 56 / 2.
    sound(groups(1, [1.0, 23.0, 8.5, 45.5, 254.0, 190.0, 36.0]));
    // Scatters in the backward pass, and 60 / 2 bytes of gradients.
    sound(groups(2, [1.0, 32.5, 8.5, 36.0, 224.0, 160.0, 36.0]));
    // Gathers in both passes, scatters in the backward pass. States 60 / 2 + 60 / 2 + 140 / 2, and the workspace of the first
    // layer is 32 / 2 + 40.
    sound(groups(3, [1.0, 51.5, 18.0, 26.5, 222.0, 130.0, 36.0]));
}

#[test]
fn groups_have_the_collectives_of_a_runtime() {
    let mut plan = groups(1, [1.0, 20.0, 7.0, 88.5, 254.0, 190.0, 36.0]);
    plan["objective"]["runtime"] = runtime(json!({"buckets": 3.0, "reduction": 0.5, "copies": 2.0}));
    // Scatters of half of the bytes take 3 + 10 / 4 and 3 + 5 / 4, gathers 3 + 20 / 4 and 3 + 10 / 4, and all-reduces of 10
    // and 5 bytes through one port of a server 3 · 2 + 10 / 2 and 3 · 2 + 5 / 2: twice all of that. Updates 4 / 2 and 2 / 2.
    sound(plan);
}

#[test]
fn groups_that_are_not_allowed_are_named() {
    let needs = |change: fn(&mut Value)| {
        let mut plan = groups(1, [1.0, 23.0, 8.5, 45.5, 254.0, 190.0, 36.0]);
        change(&mut plan);
        let report = check(graph(), large(), plan).expect("documents");
        let found = report.violations.iter().map(ToString::to_string);
        let found: Vec<String> = found.filter(|text| text.starts_with("shards")).collect();
        assert_eq!(found.len(), 1, "{found:?}");
        found[0].clone()
    };
    let divisor = "a divisor of the 4 copies, above 1 and below 4";
    for shards in [0, 1, 3, 4, 5, u32::MAX] {
        let mut plan = groups(1, [1.0, 23.0, 8.5, 45.5, 254.0, 190.0, 36.0]);
        plan["execution"]["shards"] = json!(shards);
        let report = check(graph(), large(), plan).expect("documents");
        let found: Vec<String> = report.violations.iter().map(ToString::to_string).collect();
        assert_eq!(found, [format!("shards is {shards}, but must be {divisor}")]);
    }
    assert_eq!(
        needs(|plan| plan["objective"]["parallel"] = json!({"dp": null, "zero": null})),
        "shards is 2, but must be absent without shard"
    );
    assert_eq!(
        needs(|plan| plan["execution"]["zero"] = json!(0)),
        "shards is 2, but must be absent without ZeRO"
    );
    assert_eq!(
        needs(|plan| plan["execution"]["expert"] = json!(2)),
        "shards is 2, but must be absent with expert parallelism"
    );
    assert_eq!(
        needs(|plan| plan["objective"]["parallel"]["shard"] = json!(4)),
        "shards is 2, but must be absent, since the given number is that of all copies"
    );
    assert_eq!(
        needs(|plan| {
            plan["objective"]["parallel"]["shard"] = json!(2);
            plan["execution"]["shards"] = Value::Null;
        }),
        "shards is 4, but must be 2, as given"
    );
}

#[test]
fn a_given_number_means_all_copies_where_there_are_no_groups() {
    let holds = |given: u32, zero: u32| {
        let mut plan = groups(zero, [0.0; 7]);
        plan["objective"]["parallel"]["shard"] = json!(given);
        plan["execution"]["shards"] = Value::Null;
        let report = check(graph(), large(), plan).expect("documents");
        report.violations.iter().all(|found| found.kind() == "figure")
    };
    assert!(holds(4, 1) && holds(8, 1) && holds(2, 0));
    assert!(!holds(2, 1) && !holds(3, 1));
}
