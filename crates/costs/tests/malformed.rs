//! Every file of `data/malformed/costs` is rejected for its reason, and every seed of the fuzzer is accepted.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use stagewright_costs::import::{Options, import, native};

fn folder(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

/// File, code and place.
const CASES: [(&str, &str, &str); 38] = [
    ("bytes_negative.json", "Q109", "links[0].rows[1][0]"),
    ("chakra_broken.et", "Q107", "node[1]"),
    ("chakra_cut_off.et", "Q107", "node[2]"),
    ("chakra_gpu_unnamed.et", "Q108", ""),
    ("chakra_no_durations.et", "Q102", ""),
    ("cut_off.json", "F002", "30:1"),
    ("devices_one.json", "Q109", "links[0].devices"),
    ("dimension_fractional.json", "Q109", "kernels[0].rows[0][1]"),
    ("empty.txt", "F008", ""),
    ("field_misspelt.json", "F004", "operators[0].secnods"),
    ("kernel_unknown.json", "F005", "kernels[0].kernel"),
    ("kineto_cut_off.json", "F002", "51:10"),
    ("kineto_duration_as_text.json", "F005", "traceEvents[0].dur"),
    ("kineto_gpu_unnamed.json", "Q108", ""),
    ("kineto_negative.json", "Q103", "traceEvents[1].dur"),
    ("kineto_no_operators.json", "Q102", ""),
    ("later_version.json", "F007", "schema"),
    ("nccl_no_ranks.txt", "Q105", ""),
    ("nccl_no_rows.txt", "Q102", ""),
    ("nccl_not_a_number.txt", "Q104", "10:59"),
    ("nccl_one_rank.txt", "Q105", ""),
    ("nccl_product_missing.txt", "Q108", ""),
    ("nccl_row_cut_off.txt", "Q104", "11:61"),
    ("nccl_test_unknown.txt", "Q106", ""),
    ("nccl_test_without_table.txt", "Q106", ""),
    ("nccl_time_negative.txt", "Q103", "10:57"),
    ("nccl_wrong_results.txt", "Q111", "10:82"),
    ("onnxruntime_comma.json", "F002", "2:101"),
    ("onnxruntime_launches.json", "Q110", "[1]"),
    ("onnxruntime_negative.json", "Q103", "[1].dur"),
    ("onnxruntime_no_nodes.json", "Q102", ""),
    ("onnxruntime_text.json", "F005", "[0].dur"),
    ("other.csv", "Q101", ""),
    ("other_json.json", "Q101", ""),
    ("plan_as_costs.json", "F007", "schema"),
    ("row_too_short.json", "Q109", "kernels[1].rows[0]"),
    ("seconds_negative.json", "Q109", "operators[0].seconds.relu1"),
    ("spread_without_seconds.json", "Q109", "operators[0].spread.pool1"),
];

#[test]
fn every_malformed_file_is_rejected_for_its_reason() {
    let mut found = BTreeSet::new();
    for entry in fs::read_dir(folder("data/malformed/costs")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let outcome = import(&name, &fs::read(&path).unwrap(), &Options::default());
        match outcome {
            Err(error) => {
                found.insert((name, error.code.to_owned(), error.place.at.to_string()));
            }
            Ok(costs) => panic!("{name}: {costs:?}"),
        }
    }
    let expected: BTreeSet<_> = CASES
        .iter()
        .map(|&(name, code, place)| (name.to_owned(), code.to_owned(), place.to_owned()))
        .collect();
    assert_eq!(found, expected);
}

#[test]
fn every_seed_of_the_fuzzer_is_read_and_read_back() {
    for entry in fs::read_dir(folder("tests/fuzz/seeds/costs")).unwrap() {
        let path = entry.unwrap().path();
        let options = Options { class: Some("gpu".into()), ..Options::default() };
        let costs = import("seed", &fs::read(&path).unwrap(), &options)
            .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        assert!(!costs.operators.is_empty() || !costs.links.is_empty(), "{}", path.display());
        assert_eq!(native::import("again", native::write(&costs).as_bytes()), Ok(costs));
    }
}

/// Too deep to keep as files.
#[test]
fn depth_bombs_are_errors_and_no_crash() {
    for start in ["[", "{\"schema\":\"stagewright.costs/1\",\"a\":", "{\"traceEvents\":", "[{\"model_run\":"]
    {
        for open in ["[", "{\"a\":"] {
            let bomb = start.to_owned() + &open.repeat(100_000);
            assert!(import("bomb", bomb.as_bytes(), &Options::default()).is_err());
        }
    }
}
