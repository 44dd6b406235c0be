//! Results of benchmarks in the formats of their programs.

use stagewright_serving::benchmark::{Benchmark, Offered, read};

/// Fields that `vllm bench serve --save-result` writes.
fn vllm(rate: &str, concurrency: &str, completed: u64) -> String {
    format!(
        r#"{{"date": "20261101-120000", "backend": "vllm", "model_id": "m", "num_prompts": 640, "request_rate": {rate},
        "burstiness": 1.0, "max_concurrency": {concurrency}, "duration": 80.0, "completed": {completed},
        "total_input_tokens": 2621440, "total_output_tokens": 327680, "request_throughput": 8.0, "mean_ttft_ms": 250.0,
        "median_ttft_ms": 240.0, "p99_ttft_ms": 900.0, "mean_tpot_ms": 12.5, "mean_itl_ms": 12.5}}"#
    )
}

#[test]
fn runs_of_vllm_and_sglang_are_read() {
    let found = read("bench.json", vllm("\"inf\"", "64", 640).as_bytes()).expect("a result");
    let expected = Benchmark {
        requests: 640,
        input: 4096,
        output: 512,
        offered: Offered::Closed(64),
        ttft: 0.25,
        tpot: 0.0125,
    };
    assert_eq!(found, [expected]);
    let all_at_once = read("bench.json", vllm("Infinity", "null", 640).as_bytes()).expect("a result");
    assert_eq!(all_at_once[0].offered, Offered::Closed(640));
    let lines =
        [vllm("4.5", "null", 640), vllm("9", "640", 640)].map(|run| run.replace('\n', " ")).join("\n");
    let several = read("bench.jsonl", lines.as_bytes()).expect("results");
    assert_eq!(
        several.iter().map(|run| run.offered).collect::<Vec<_>>(),
        [Offered::Rate(4.5), Offered::Rate(9.0)]
    );
}

#[test]
fn runs_of_aiperf_are_read() {
    let text = r#"{"request_count": {"unit": "requests", "avg": 200.0}, "benchmark_duration": {"unit": "sec", "avg": 15.2},
        "time_to_first_token": {"unit": "ms", "avg": 1588.8, "p50": 787.5}, "inter_token_latency": {"unit": "ms", "avg": 51.76},
        "input_sequence_length": {"unit": "tokens", "avg": 550.0}, "output_sequence_length": {"unit": "tokens", "avg": 96.85},
        "was_cancelled": false, "input_config": {"loadgen": {"concurrency": 100, "request_rate_mode": "concurrency_burst"}}}"#;
    let found = read("profile_export_aiperf.json", text.as_bytes()).expect("a result");
    let [run] = found[..] else { panic!("{found:?}") };
    assert_eq!((run.requests, run.input, run.output, run.offered), (200, 550, 97, Offered::Closed(100)));
    assert!((run.ttft - 1.5888).abs() < 1e-12 && (run.tpot - 0.05176).abs() < 1e-12, "{run:?}");
}

#[test]
fn files_that_are_no_results_are_refused() {
    let refused = |text: &str| read("bench.json", text.as_bytes()).expect_err(text).to_string();
    for text in ["", "[]", "{}", "{\"completed\": 3}", "null\n{}", "\u{0}"] {
        assert!(refused(text).contains("bench.json"), "{text}");
    }
    assert!(refused(&vllm("\"inf\"", "64", 0)).contains("no request was finished"));
    assert!(refused(&vllm("\"trace\"", "64", 5)).contains("`trace`"));
    assert!(refused(&vllm("-1", "null", 5)).contains("rate is -1"));
    assert!(refused(&vllm("\"inf\"", "0", 5)).contains("concurrency is 0"));
    assert!(refused(&vllm("1", "null", 5).replace("12.5", "NaN")).contains("bench.json"));
    assert!(refused(&vllm("1", "null", 5).replace("250.0", "0")).contains("first token is 0"));
    assert!(refused(&vllm("5", "8", 640)).contains("at a rate, and at most 8"));
    assert!(refused(&vllm("\"inf\"", "64", 640).replace("327680", "640")).contains("one token"));
    let lines = format!("{}\n{{}}", vllm("1", "null", 5).replace('\n', " "));
    assert!(refused(&lines).contains("bench.json"), "{}", refused(&lines));
}
