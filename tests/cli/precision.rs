//! Precisions without a peak on a device class are reported.

use serde_json::json;

use super::{code, folder, path, run, stderr};

#[test]
fn numbers_without_a_peak_are_told_in_one_note() {
    let model = |precisions: &[&str]| {
        let operator = |(index, precision): (usize, &&str)| json!({"name": format!("o{index}"), "flop": 1e9, "bytes_moved": 1e6, "precision": precision});
        let operators: Vec<_> = precisions.iter().enumerate().map(operator).collect();
        json!({"schema": "stagewright.graph/2", "operators": operators}).to_string()
    };
    let folder = folder(&[
        ("known.json", &model(&["fp32", "fp16"])),
        ("other.json", &model(&["fp32", "bf16", "bf16", "fp8"])),
    ]);
    let told = |name: &str, cluster: &str| {
        let output = run(&["plan", &path(&folder, name), "--cluster", cluster, "--json"]);
        assert_eq!(code(&output), Some(0), "{}", stderr(&output));
        stderr(&output)
    };
    assert_eq!(told("known.json", "2xv100-16gb"), "");
    let note = told("other.json", "2xv100-16gb+1xk80");
    assert_eq!(note.lines().count(), 1, "{note}");
    assert!(note.starts_with("note: ") && note.contains("--precision"), "{note}");
    let each = [
        "2 bf16 operators on v100-16gb, priced at its peak of fp16",
        "1 fp8 operator on k80, priced at its peak of fp32",
    ];
    assert!(each.iter().all(|part| note.contains(part)), "{note}");
    assert!(!note.contains("fp32 operator "), "{note}");
    // The shorthand requests one peak for all precisions.
    assert_eq!(told("other.json", "2xv100-16gb:fp16"), "");
}
