//! The exact optimum over the workers that aiconfigurator lists, beside its own choice from them.
//!
//! aiconfigurator forms one replica from its workers and copies it. Here any numbers of any of its workers may be combined: the
//! program of the solver `replicas`, over these workers and their rates alone, on devices that are one server. `make
//! judge-candidates` lists the workers (`candidates/list.py`) and runs this bench. An optimum below the choice, or one that differs
//! from that of knapsacks over all workers, ends it with an error:
//!
//!     cargo bench --profile dev --no-default-features --features milp --bench candidates -- target/candidates.json

#![allow(clippy::print_stdout, reason = "a bench prints its table")]

use std::time::Instant;

use serde::Deserialize;
use stagewright_core::document::{
    RequestClassDocument, ServingGoal, ServingMode, ServingQuestionDocument, ServingRole, ServingSizeDocument,
};
use stagewright_core::solver::{Context, Settings, Silent, Status};
use stagewright_formats::clusters;
use stagewright_replicas::{Column, Shape, Space, solve_over};
use stagewright_serving::{Division, Offer, Parallel, Problem};
use stagewright_structure::huggingface::{self, Reading};

/// Relative difference of values that are the same.
const SAME: f64 = 1e-9;

/// A model for the problem, of which only devices and rates count.
const MODEL: &str = r#"{"model_type": "llama", "num_hidden_layers": 1, "hidden_size": 128, "num_attention_heads": 1,
    "intermediate_size": 128, "vocab_size": 128, "torch_dtype": "bfloat16"}"#;

/// The file of `candidates/list.py`.
#[derive(Deserialize)]
struct Listed {
    peer: String,
    cases: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    model: String,
    system: String,
    devices: u64,
    input: u64,
    output: u64,
    mode: String,
    requests_per_s: f64,
    seconds: f64,
    workers: Vec<Worker>,
}

#[derive(Deserialize)]
struct Worker {
    role: ServingRole,
    devices: u64,
    parallel: String,
    batch: u64,
    requests_per_s: f64,
}

fn main() {
    // Cargo passes its own flags.
    let path = std::env::args().skip(1).find(|word| !word.starts_with("--"));
    let path = path.unwrap_or_else(|| "target/candidates.json".into());
    let text = std::fs::read(&path)
        .unwrap_or_else(|error| panic!("{path}: {error}; make judge-candidates writes it"));
    let listed: Listed = serde_json::from_slice(&text).unwrap_or_else(|error| panic!("{path}: {error}"));
    println!("{}\n", listed.peer);
    println!(
        "| model | system | devices | workers | peer, requests/s | its seconds | exact | gain | ms | plan |"
    );
    println!("| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | --- |");
    let mut gains: Vec<f64> = listed.cases.iter().map(judged).collect();
    gains.sort_by(f64::total_cmp);
    let better: Vec<f64> = gains.iter().copied().filter(|gain| *gain > SAME).collect();
    let worse = gains.iter().filter(|gain| **gain < -SAME).count();
    let equal = gains.len() - better.len() - worse;
    println!("\n{} better, {equal} equal, {worse} worse", better.len());
    if let Some(largest) = better.last() {
        let [all, median] = [&gains, &better].map(|gains| percent(median(gains)));
        println!(
            "gain: median {all:.1}% of all, {median:.1}% of those that are better; largest {:.1}%",
            percent(*largest)
        );
    }
    assert_eq!(worse, 0, "an optimum over workers is below a choice from them");
}

/// Solves a case and prints its line; the gain over the choice of the peer.
fn judged(case: &Case) -> f64 {
    let problem = problem(case);
    let started = Instant::now();
    let space = Space::of(&problem, case.workers.iter().map(column).collect());
    let mut silent = Silent;
    let solution = solve_over(&problem, space, &mut Context::new(Settings::default(), &mut silent));
    let milliseconds = started.elapsed().as_secs_f64() * 1e3;
    assert_eq!(solution.status, Status::Optimal, "{} on {} devices", case.model, case.devices);
    let plan = solution.plan.expect("an optimum has a plan");
    let replicas = || plan.replicas.iter().map(|chosen| (&chosen.column, chosen.count));
    let devices: u64 = replicas().map(|(column, count)| column.shape.parallel.tensor * count).sum();
    assert!(devices <= case.devices, "{devices} of {} devices", case.devices);
    let rate = |role| {
        let rates = replicas().filter(|(column, _)| column.role == role);
        rates.map(|(column, count)| column.offer.rate * count as f64).sum::<f64>()
    };
    let [aggregated, prefill, decode] = ROLES.map(rate);
    for (name, value) in [("replicas", aggregated + prefill.min(decode)), ("knapsacks", by_knapsacks(case))] {
        assert!((value / plan.value - 1.0).abs() <= SAME, "{name}: {value}, not {}", plan.value);
    }
    let gain = plan.value / case.requests_per_s - 1.0;
    let words: Vec<String> = replicas().map(|(column, count)| shown(case, column, count)).collect();
    println!(
        "| {} | {} | {} | {} | {:.3} ({}) | {:.0} | {:.3} | {:.1}% | {milliseconds:.2} | {} |",
        case.model,
        case.system,
        case.devices,
        case.workers.len(),
        case.requests_per_s,
        case.mode,
        case.seconds,
        plan.value,
        // Rounding has no sign.
        if gain.abs() <= SAME { 0.0 } else { percent(gain) },
        words.join(", ")
    );
    gain
}

const ROLES: [ServingRole; 3] = [ServingRole::Aggregated, ServingRole::Prefill, ServingRole::Decode];

/// The question of a case on as many devices, without limits: its workers meet them.
fn problem(case: &Case) -> Problem {
    let question = ServingQuestionDocument {
        engine: "tensorrt-llm".into(),
        classes: vec![RequestClassDocument {
            input: case.input,
            output: case.output,
            shared_prefix: 0,
            share: 1.0,
        }],
        concurrency: None,
        rate: None,
        ttft_s: None,
        tpot_s: None,
        goal: ServingGoal::Throughput,
        modes: vec![ServingMode::Aggregated, ServingMode::Disaggregated],
        cache: None,
        chunk: None,
        memory_share: None,
        max_batch: None,
        max_stages: 1,
        speculation: None,
        prices: [].into(),
        factors: [].into(),
        limits: Default::default(),
        costs: Vec::new(),
        start: None,
    };
    let structure = huggingface::read("config.json", MODEL.as_bytes(), None, &Reading::default())
        .expect("a configuration");
    let mut cluster = clusters::find(&format!("{}xh100", case.devices)).expect("a cluster");
    cluster.kinds[0].server = None;
    Problem::new("question", (&case.model, &structure), ("devices", &cluster), question).expect("a problem")
}

fn column(worker: &Worker) -> (ServingSizeDocument, Column) {
    let groups = vec![(0, worker.devices, 1)];
    let rate = worker.requests_per_s;
    let column = Column {
        size: 0,
        role: worker.role,
        class: 0,
        shape: Shape { kinds: vec![0], parallel: Parallel::tensor(worker.devices) },
        batch: worker.batch,
        offer: Offer { rate, in_flight: 0.0, ttft: None, tpot: None, utilisation: None },
        cache_tokens: 0,
        division: Division::Balanced,
        given: None,
        kept: None,
        moved_bytes: 0.0,
    };
    (ServingSizeDocument { role: worker.role, class: 0, groups, kept: None }, column)
}

/// The optimum by a knapsack of each role over devices, with all workers, and every division of the devices among the three.
fn by_knapsacks(case: &Case) -> f64 {
    let devices = case.devices as usize;
    let [aggregated, prefill, decode] = ROLES.map(|role| {
        let mut best = vec![0.0_f64; devices + 1];
        for worker in case.workers.iter().filter(|worker| worker.role == role) {
            let used = worker.devices as usize;
            for index in used..=devices {
                best[index] = best[index].max(best[index - used] + worker.requests_per_s);
            }
        }
        best
    });
    let divided = (0..=devices).flat_map(|left| (0..=devices - left).map(move |right| (left, right)));
    divided
        .map(|(left, right)| prefill[left].min(decode[right]) + aggregated[devices - left - right])
        .fold(0.0, f64::max)
}

/// A replica in words: `5 decode tp2 at 64`.
fn shown(case: &Case, column: &Column, count: u64) -> String {
    let is_it = |worker: &&Worker| {
        worker.role == column.role
            && worker.devices == column.shape.parallel.tensor
            && worker.batch == column.batch
            && worker.requests_per_s == column.offer.rate
    };
    let parallel = case.workers.iter().find(is_it).map_or("", |worker| &worker.parallel);
    let degrees = parallel.strip_suffix("pp1dp1etp1ep1").unwrap_or(parallel);
    format!("{count} {} {degrees} at {}", column.role.name(), column.batch)
}

fn median(sorted: &[f64]) -> f64 {
    let middle = sorted.len() / 2;
    if sorted.len() % 2 == 1 { sorted[middle] } else { f64::midpoint(sorted[middle - 1], sorted[middle]) }
}

fn percent(share: f64) -> f64 {
    100.0 * share
}
