//! Joint plans, with figures computed by hand.

mod contexts;
mod extremes;
mod hosts;
mod iteration;
mod layers;
mod mixed;
mod parts;
mod proof;
mod runtimes;
mod schedules;
mod shards;
mod soundness;

use serde_json::{Value, json};
use stagewright_verify::{JointReport, JointViolation};

/// A joint plan for an objective of this kind, with the given batch, parallelism, value and stages.
fn plan(kind: &str, batch: u64, parallel: &[&str], value: f64, stages: Value) -> Value {
    let parallel: serde_json::Map<String, Value> =
        parallel.iter().map(|&name| (name.to_owned(), Value::Null)).collect();
    json!({
        "schema": "stagewright.joint-plan/1", "status": "feasible", "solver": "hand", "model": "tiny",
        "options": {"time_unit": "s"},
        "objective": {"kind": kind, "parallel": parallel, "global_batch": batch, "recompute_workspace": "max",
                      "value_s": value},
        "bound": {"value_s": null, "source": "none"}, "gap": null, "seconds": 0.0, "stages": stages,
    })
}

/// Stable names of the violations, each once.
fn kinds(report: &JointReport) -> Vec<&'static str> {
    let mut kinds: Vec<&str> = report.violations.iter().map(JointViolation::kind).collect();
    kinds.sort_unstable();
    kinds.dedup();
    kinds
}
