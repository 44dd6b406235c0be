//! Time to simulate one step.
//!
//! Each operator reads two earlier ones, most of them near; every tensor has two readers on average. In a random
//! placement nearly every edge needs a transfer; in a placement of contiguous runs, such as solvers find, few edges do.
//! For each size and placement the bench prints the number of transfers, the minimum time to build the flow and to
//! simulate it on one thread, the events (ends of operators and transfers) per second of that simulation, and the
//! speed-up of a batch from one thread to two.
//!
//! Then it prints how many moves of one operator to another device are simulated per second: from scratch, and as
//! changes to one schedule. Both are measured without a limit, and with a run that ends once it reaches the makespan of
//! that schedule.
//!
//!     cargo bench -p stagewright-core --bench simulate            # up to 100,000 operators on 8 devices
//!     cargo bench -p stagewright-core --bench simulate -- 5000 32 # operators, devices

#![allow(clippy::print_stdout, reason = "a bench prints its table")]

use std::hint::black_box;
use std::time::Instant;

use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use stagewright_core::cluster::{Cluster, DeviceId};
use stagewright_core::document::{
    CLUSTER_SCHEMA, ClusterDocument, Execution, KindDocument, LinkDocument, OperatorDocument, TensorDocument,
};
use stagewright_core::graph::{GraphBuilder, OpId};
use stagewright_core::objective::Objective;
use stagewright_core::placement::Placement;
use stagewright_core::problem::Problem;
use stagewright_core::seed;
use stagewright_core::simulate::{Change, Flow, Rerun, Simulator, Template, Timeline, simulate_all};
use stagewright_core::tolerance;

const OPERATORS: [usize; 4] = [1_000, 10_000, 50_000, 100_000];
const DEVICES: u32 = 8;
const RUNS: usize = 30;
/// Minimum seconds spent on simulating moves from scratch.
const AT_LEAST: f64 = 2.0;
/// Maximum distance, in operators, from which most inputs come.
const NEAR: usize = 200;

/// A graph with its placements.
struct Case {
    operators: usize,
    problem: Problem,
    random: Vec<DeviceId>,
    runs: Vec<DeviceId>,
}

impl Case {
    fn new(operators: usize, devices: u32, rng: &mut ChaCha8Rng) -> Case {
        let length = operators.div_ceil(devices as usize);
        Case {
            operators,
            problem: problem(operators, devices, rng),
            random: (0..operators).map(|_| DeviceId(rng.random_range(0..devices))).collect(),
            runs: (0..operators).map(|op| DeviceId((op / length) as u32)).collect(),
        }
    }
}

fn main() {
    // Cargo passes flags of its own; the numbers are arguments of this bench.
    let numbers: Vec<usize> = std::env::args().skip(1).filter_map(|argument| argument.parse().ok()).collect();
    let devices = numbers.get(1).map_or(DEVICES, |&devices| devices as u32).max(1);
    let sizes = numbers.first().map_or(OPERATORS.to_vec(), |&operators| vec![operators.max(2)]);
    let mut rng = seed::stream(1, 0);
    let cases: Vec<Case> = sizes.into_iter().map(|size| Case::new(size, devices, &mut rng)).collect();

    println!(
        "| operators | placement | transfers | makespan | flow, ms | run, ms | million events/s | 2 threads |"
    );
    println!("| --- | --- | --- | --- | --- | --- | --- | --- |");
    for Case { problem, random, runs, .. } in &cases {
        let by_index = problem.graph().operators().collect();
        row("random", problem, &Placement::new(random.clone()));
        row("random, priority", problem, &Placement::with_priority(random.clone(), by_index));
        row("runs", problem, &Placement::new(runs.clone()));
    }
    println!();
    println!(
        "| operators | placement | settle, ms | anew, 1/s | changed, 1/s | anew below, 1/s | changed below, 1/s |"
    );
    println!("| --- | --- | --- | --- | --- | --- | --- |");
    for Case { operators, problem, random, runs } in &cases {
        let by_index: Vec<u32> = (0..*operators as u32).collect();
        moves("random", problem, random, &[], &mut rng);
        moves("random, priority", problem, random, &by_index, &mut rng);
        moves("runs", problem, runs, &[], &mut rng);
        moves("runs, priority", problem, runs, &by_index, &mut rng);
    }
}

/// Prints how many moves are simulated per second. Each move is simulated in both ways, from scratch and as a change.
fn moves(name: &str, problem: &Problem, device_of: &[DeviceId], ranks: &[u32], rng: &mut ChaCha8Rng) {
    let devices = problem.cluster().device_count() as u32;
    let tails = tails(problem);
    let mut template = Template::new(problem);
    let mut simulator = Simulator::new();
    let mut flow = Flow::default();
    let mut rerun = Rerun::new(problem, tails.clone());
    let mut moved = device_of.to_vec();
    rerun.settle(device_of, ranks);
    let begin = Instant::now();
    let settled = rerun.settle(device_of, ranks).makespan();
    let settling = begin.elapsed().as_secs_f64();
    let mut rates = Vec::new();
    for limit in [f64::INFINITY, settled] {
        let mut seconds = [0.0; 2];
        let mut count = 0u32;
        while seconds[0] < AT_LEAST {
            let op = rng.random_range(0..device_of.len());
            let to = DeviceId(rng.random_range(0..devices));
            let begin = Instant::now();
            moved[op] = to;
            flow = template.flow(&moved, ranks, flow);
            let anew = simulator.run_below(&flow, &tails, limit).map(Timeline::makespan);
            moved[op] = device_of[op];
            seconds[0] += begin.elapsed().as_secs_f64();
            let begin = Instant::now();
            rerun.change([Change::Device(OpId(op as u32), to)]);
            let changed = rerun.run_below(limit).map(|outcome| outcome.makespan);
            rerun.take_back();
            seconds[1] += begin.elapsed().as_secs_f64();
            assert_eq!(anew, changed, "both say the same");
            count += 1;
        }
        rates.extend(seconds.map(|seconds| f64::from(count) / seconds));
    }
    let [anew, changed, anew_below, changed_below] = rates[..] else { return };
    println!(
        "| {} | {name} | {:.2} | {anew:.0} | {changed:.0} | {anew_below:.0} | {changed_below:.0} |",
        device_of.len(),
        1e3 * settling
    );
}

/// Lower bounds on the seconds from the end of every operator to the end of the step.
fn tails(problem: &Problem) -> Vec<f64> {
    let graph = problem.graph();
    let mut tails = vec![0.0f64; graph.operator_count()];
    for &op in graph.topological().iter().rev() {
        let after = |&next: &OpId| problem.seconds(next, 0).unwrap_or(0.0) + tails[next.index()];
        tails[op.index()] = graph.successors(op).iter().map(after).fold(0.0, f64::max);
    }
    // The simulator adds in another order, so its sums may be slightly smaller.
    tails.into_iter().map(tolerance::round_down).collect()
}

fn row(name: &str, problem: &Problem, placement: &Placement) {
    let mut template = Template::new(problem);
    let mut flow = template.flow_of(placement, Flow::default());
    let mut simulator = Simulator::new();
    let makespan = simulator.run(&flow).makespan();
    let [mut making, mut running] = [f64::INFINITY; 2];
    for _ in 0..RUNS {
        let begin = Instant::now();
        flow = template.flow_of(placement, flow);
        making = making.min(begin.elapsed().as_secs_f64());
        let begin = Instant::now();
        black_box(simulator.run(black_box(&flow)));
        running = running.min(begin.elapsed().as_secs_f64());
    }
    let many = vec![placement.clone(); RUNS];
    let [single, two] = [1, 2].map(|threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("threads");
        let begin = Instant::now();
        black_box(pool.install(|| simulate_all(problem, &many)));
        begin.elapsed().as_secs_f64()
    });
    let (operators, transfers) = (flow.operator_count(), flow.transfer_count());
    println!(
        "| {operators} | {name} | {transfers} | {makespan:.3} | {:.2} | {:.2} | {:.2} | {:.2} |",
        1e3 * making,
        1e3 * running,
        1e-6 * (operators + transfers) as f64 / running,
        single / two
    );
}

fn problem(operators: usize, devices: u32, rng: &mut ChaCha8Rng) -> Problem {
    let mut readers = vec![Vec::new(); operators];
    for reader in 1..operators {
        for _ in 0..2 {
            let first = if rng.random_bool(0.9) { reader.saturating_sub(NEAR) } else { 0 };
            let from = rng.random_range(first..reader);
            if readers[from].last() != Some(&reader) {
                readers[from].push(reader);
            }
        }
    }
    let mut builder = GraphBuilder::new("bench");
    for op in 0..operators {
        builder.operator(OperatorDocument {
            seconds: [("acc".into(), rng.random_range(1e-5..1e-3))].into(),
            ..OperatorDocument::named(format!("op{op}"))
        });
    }
    for (op, readers) in readers.iter().enumerate().filter(|(_, readers)| !readers.is_empty()) {
        builder.timed_tensor(TensorDocument {
            name: None,
            producer: format!("op{op}"),
            consumers: readers.iter().map(|reader| format!("op{reader}")).collect(),
            bytes: rng.random_range(1e3..1e6),
            seconds: Default::default(),
        });
    }
    let cluster = ClusterDocument {
        schema: CLUSTER_SCHEMA.into(),
        name: String::new(),
        classes: Default::default(),
        kinds: vec![KindDocument {
            reserve_bytes: None,
            name: "acc".into(),
            class: "acc".into(),
            count: devices,
            host: false,
            memory_bytes: None,
            link: Some(LinkDocument { latency_s: 1e-6, bandwidth: 1e10 }),
            group: None,
            server: None,
            ram: None,
        }],
        groups: Vec::new(),
        matrix: None,
    };
    let objective = Objective::Makespan { execution: Execution::Ports };
    let cluster = Cluster::from_document(cluster).expect("a sound cluster");
    Problem::new(builder.build().expect("a sound graph"), cluster, objective).expect("a sound problem")
}
