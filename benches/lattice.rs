//! Synthetic lattices: parallel chains, whose ideals form a product.
//!
//! c chains of n operators have (n + 1)^c ideals. Costs and transfers are uniform in [1, 2], on six equal devices.
//! For each seed the bench prints status, gap, time and the peak size of the tables:
//!
//!     cargo bench --bench lattice              # 5 chains of 15 and 7 chains of 9, seeds 0 to 9, two threads
//!     cargo bench --bench lattice -- 5 15 0 3  # chains, length, first and last seed

#![allow(clippy::print_stdout, reason = "a bench prints its table")]

use std::time::{Duration, Instant};

use rand::RngExt;
use stagewright_core::cluster::Cluster;
use stagewright_core::document::{
    CLUSTER_SCHEMA, ClusterDocument, KindDocument, OperatorDocument, TensorDocument,
};
use stagewright_core::graph::GraphBuilder;
use stagewright_core::objective::Objective;
use stagewright_core::problem::Problem;
use stagewright_core::seed;
use stagewright_core::solver::{Context, Limits, Settings, Silent, Solver};
use stagewright_dp::Dp;

const DEVICES: u32 = 6;
const THREADS: usize = 2;
const LIMITS: Limits =
    Limits { time: Some(Duration::from_secs(60)), memory: Some(4 << 30), gap: 0.0, simulations: None };

fn main() {
    // Cargo adds flags; the remaining arguments are the numbers.
    let numbers: Vec<u64> = std::env::args().skip(1).filter_map(|argument| argument.parse().ok()).collect();
    println!("| chains | length | ideals | seed | status | value | gap | seconds | ideals kept | MB |");
    println!("| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |");
    match numbers[..] {
        [chains, length, first, last] => family(chains, length, first..=last),
        _ => {
            family(5, 15, 0..=9);
            family(7, 9, 0..=9);
        }
    }
}

fn family(chains: u64, length: u64, seeds: std::ops::RangeInclusive<u64>) {
    for number in seeds {
        let problem = parallel_chains(chains, length, number);
        let mut silent = Silent;
        let started = Instant::now();
        let mut context =
            Context::new(Settings { limits: LIMITS, threads: THREADS, ..Settings::default() }, &mut silent);
        let solution = Dp.solve(&problem, &mut context).expect("a contiguous problem");
        let statistic = |name| {
            solution.statistics.iter().find(|(known, _)| *known == name).map_or(0, |&(_, count)| count)
        };
        println!(
            "| {chains} | {length} | {:.2e} | {number} | {:?} | {:.6} | {:.2}% | {:.2} | {} | {:.1} |",
            ((length + 1) as f64).powi(chains as i32),
            solution.status,
            solution.value().unwrap_or(f64::NAN),
            100.0 * solution.gap().unwrap_or(f64::NAN),
            started.elapsed().as_secs_f64(),
            statistic("ideals"),
            statistic("peak_bytes") as f64 / 1e6,
        );
    }
}

fn parallel_chains(chains: u64, length: u64, number: u64) -> Problem {
    let mut rng = seed::stream(number, 0);
    let mut builder = GraphBuilder::new(format!("{chains} chains of {length}"));
    for chain in 0..chains {
        for index in 0..length {
            builder.operator(OperatorDocument {
                seconds: [("acc".to_owned(), rng.random_range(1.0..2.0))].into(),
                ..OperatorDocument::named(format!("{chain}.{index}"))
            });
            if index > 0 {
                builder.timed_tensor(TensorDocument {
                    name: None,
                    producer: format!("{chain}.{}", index - 1),
                    consumers: vec![format!("{chain}.{index}")],
                    bytes: 0.0,
                    seconds: [("acc".to_owned(), rng.random_range(1.0..2.0))].into(),
                });
            }
        }
    }
    let cluster = ClusterDocument {
        schema: CLUSTER_SCHEMA.into(),
        name: "six equal devices".into(),
        classes: Default::default(),
        kinds: vec![KindDocument {
            reserve_bytes: None,
            name: "acc".into(),
            class: "acc".into(),
            count: DEVICES,
            host: false,
            memory_bytes: None,
            link: None,
            group: None,
            server: None,
            ram: None,
        }],
        groups: Vec::new(),
        matrix: None,
    };
    let cluster = Cluster::from_document(cluster).expect("a valid cluster");
    Problem::new(builder.build().expect("a valid graph"), cluster, Objective::default())
        .expect("a valid problem")
}
