//! The memory bound on random small problems with too little memory: against every placement, and against other bounds.

use stagewright_core::bound::{Bound, CriticalPath, Fluid, HeaviestUnit, MemoryPrices, strongest_of};
use stagewright_core::cluster::Cluster;
use stagewright_core::document::{
    CLUSTER_SCHEMA, ClusterDocument, Communication, Execution, KindDocument, LinkDocument, OperatorDocument,
    Schedule, Split,
};
use stagewright_core::graph::GraphBuilder;
use stagewright_core::objective::{Objective, Throughput};
use stagewright_core::problem::Problem;
use stagewright_testing::brute_force;
use stagewright_testing::random::{self, Size};
use stagewright_testing::tight::tight;

use crate::latency_bounds;

const OTHERS: [&dyn Bound; 3] = [&Fluid, &HeaviestUnit, &CriticalPath];

/// The problem of a seed under a split rule and mode, with less memory.
fn throughput(number: u64, split: Split) -> Problem {
    let (operators, devices) = if number.is_multiple_of(3) { (6, 2) } else { (4, 4) };
    let problem = random::problem(number, Size { operators, devices, groups: number.is_multiple_of(2) });
    let given = *problem.objective();
    let communication =
        if number.is_multiple_of(4) { given.rules().communication } else { Communication::Serial };
    let objective = match split {
        Split::Contiguous => Throughput { split, communication, ..given.rules() },
        _ => Throughput { split, communication, schedule: Schedule::None, microbatches: 1, ..given.rules() },
    };
    tight(&problem.with_objective(objective).expect("a valid objective"), number)
}

#[test]
fn memory_bounds_no_throughput_beyond_the_best_placement() {
    let (mut attacked, mut stronger, mut reached) = ([0; 3], [0; 3], [0; 3]);
    for number in 0..1000 {
        for (rule, split) in [Split::Contiguous, Split::Convex, Split::Free].into_iter().enumerate() {
            let problem = throughput(number, split);
            let Some(optimum) = brute_force::optimum(&problem) else { continue };
            let value = MemoryPrices.compute(&problem).expect("a feasible problem has bounds").value;
            assert!(value <= optimum, "{number} {split:?}: {value} > {optimum}");
            attacked[rule] += 1;
            let passes = MemoryPrices.applies(&problem)
                && value > strongest_of(&OTHERS, &problem).value * (1.0 + 1e-6);
            stronger[rule] += u32::from(passes);
            reached[rule] += u32::from(passes && value >= optimum * (1.0 - 1e-6));
        }
    }
    assert!(attacked.iter().all(|&count| count > 300), "{attacked:?}");
    assert!(stronger.iter().all(|&count| count > 60), "{stronger:?} passed the others");
    assert!(reached.iter().all(|&count| count > 15), "{reached:?} reached the optimum");
}

#[test]
fn memory_bounds_no_latency_beyond_the_best_placement() {
    let (mut attacked, mut stronger, mut reached) = (0, 0, 0);
    for number in 0..1500 {
        let size =
            Size { operators: 3 + number as usize % 4, devices: 2 + (number / 4) as u32 % 3, groups: false };
        let calls = 1 + number as u32 % 2;
        let problem = random::problem(number, size);
        let problem = problem.with_objective(Objective::Latency { calls }).expect("a valid objective");
        let problem = tight(&problem, number);
        let Some(Some(optimum)) = latency_bounds::optimum(&problem) else { continue };
        let value = MemoryPrices.compute(&problem).expect("a feasible problem has bounds").value;
        assert!(value <= optimum, "{number} {calls}: {value} > {optimum}");
        attacked += 1;
        let passes = MemoryPrices.applies(&problem)
            && value > CriticalPath.compute(&problem).map_or(0.0, |path| path.value) * (1.0 + 1e-6);
        stronger += u32::from(passes);
        reached += u32::from(passes && value >= optimum * (1.0 - 1e-6));
    }
    assert!(attacked > 400 && stronger > 100 && reached > 30, "{attacked} {stronger} {reached}");
}

/// The memory bound for experts of the given bytes, 1 ms each on a card and 10 ms on a host, on cards of the given
/// memory.
fn experts(bytes: &[f64], cards: u32, memory: f64, objective: impl Into<Objective>) -> f64 {
    let mut builder = GraphBuilder::new("experts");
    for (index, &bytes) in bytes.iter().enumerate() {
        builder.operator(OperatorDocument {
            seconds: [("card".into(), 0.001), ("cpu".into(), 0.01)].into(),
            parameter_bytes: bytes,
            ..OperatorDocument::named(format!("expert{index}"))
        });
    }
    let kind = |name: &str, count, memory_bytes| KindDocument {
        server: None,
        ram: None,
        reserve_bytes: None,
        name: name.into(),
        class: name.into(),
        count,
        host: name == "cpu",
        memory_bytes,
        link: Some(LinkDocument { latency_s: 0.0, bandwidth: 1e9 }),
        group: None,
    };
    let cluster = Cluster::from_document(ClusterDocument {
        schema: CLUSTER_SCHEMA.into(),
        name: "cards".into(),
        classes: Default::default(),
        kinds: vec![kind("card", cards, Some(memory)), kind("cpu", 1, None)],
        groups: Vec::new(),
        matrix: None,
    });
    let (graph, cluster) = (builder.build().expect("a graph"), cluster.expect("a cluster"));
    let problem = Problem::new(graph, cluster, objective).expect("a problem");
    assert!(MemoryPrices.applies(&problem));
    MemoryPrices.compute(&problem).expect("a bound").value
}

#[test]
fn experts_beyond_a_card_run_on_the_host() {
    let makespan = || Objective::Makespan { execution: Execution::Ports };
    let reaches = |value: f64, expected: f64| {
        assert!(value <= expected && value >= expected * (1.0 - 2e-9), "{value} of {expected}");
    };
    let weights = [1.0; 8];
    for memory in [4.0, 4.5, 4.999] {
        reaches(experts(&weights, 1, memory, makespan()), 0.04);
        reaches(experts(&weights, 1, memory, Throughput { split: Split::Free, ..Default::default() }), 0.04);
        reaches(experts(&weights, 1, memory, Throughput::default()), 0.04);
        // A host runs experts side by side, but one expert has to run there.
        reaches(experts(&weights, 1, memory, Objective::Latency { calls: 1 }), 0.01);
    }
    // Twelve experts on two cards, each of which holds three: a sum of bytes would use the fraction that each card
    // loses.
    reaches(experts(&[1.0; 12], 2, 3.7, makespan()), 0.06);
    // Experts of six bytes on cards of ten bytes, each of which holds one.
    reaches(experts(&[6.0; 5], 3, 10.0, makespan()), 0.02);
    // Small experts do not hide the large ones.
    let mixed = [[0.01; 20].as_slice(), &[1.0; 8]].concat();
    assert!(experts(&mixed, 1, 4.5, makespan()) >= 0.04 * (1.0 - 2e-9));
}
