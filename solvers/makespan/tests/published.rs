//! Published schedules: the worked example of the paper on HEFT and CPOP, ten tasks on three processors, and the task
//! graphs of GiPH.
//!
//! Topcuoglu, Hariri and Wu, "Performance-effective and low-complexity task scheduling for heterogeneous computing",
//! IEEE TPDS 2002, figures 2 to 4: HEFT reaches 80 and CPOP 86.

use stagewright_testing::heterogeneous;

use stagewright_core::cluster::Cluster;
use stagewright_core::document::{
    CLUSTER_SCHEMA, ClusterDocument, Execution, KindDocument, OperatorDocument, TensorDocument,
};
use stagewright_core::graph::GraphBuilder;
use stagewright_core::objective::Objective;
use stagewright_core::problem::Problem;
use stagewright_core::solver::{Context, Limits, Silent, Solver};
use stagewright_makespan::{ANNEALING, CPOP, HEFT, OrderSplit, TABU};

/// Seconds of every task on every processor.
const SECONDS: [[f64; 3]; 10] = [
    [14.0, 16.0, 9.0],
    [13.0, 19.0, 18.0],
    [11.0, 13.0, 19.0],
    [13.0, 8.0, 17.0],
    [12.0, 13.0, 10.0],
    [13.0, 16.0, 9.0],
    [7.0, 15.0, 11.0],
    [5.0, 11.0, 14.0],
    [18.0, 12.0, 20.0],
    [21.0, 7.0, 16.0],
];

/// Producer, reader, and seconds of the transfer.
const EDGES: [(usize, usize, f64); 15] = [
    (1, 2, 18.0),
    (1, 3, 12.0),
    (1, 4, 9.0),
    (1, 5, 11.0),
    (1, 6, 14.0),
    (2, 8, 19.0),
    (2, 9, 16.0),
    (3, 7, 23.0),
    (4, 8, 27.0),
    (4, 9, 23.0),
    (5, 9, 13.0),
    (6, 8, 15.0),
    (7, 10, 17.0),
    (8, 10, 11.0),
    (9, 10, 13.0),
];

fn example(execution: Execution) -> Problem {
    let classes = ["p1", "p2", "p3"];
    let mut builder = GraphBuilder::new("example");
    for (task, seconds) in SECONDS.iter().enumerate() {
        let seconds = classes.iter().zip(seconds).map(|(class, &seconds)| (class.to_string(), seconds));
        let name = format!("t{}", task + 1);
        builder.operator(OperatorDocument { seconds: seconds.collect(), ..OperatorDocument::named(name) });
    }
    for (from, to, seconds) in EDGES {
        builder.timed_tensor(TensorDocument {
            name: None,
            producer: format!("t{from}"),
            consumers: vec![format!("t{to}")],
            bytes: 1.0,
            seconds: classes.iter().map(|class| (class.to_string(), seconds)).collect(),
        });
    }
    let kind = |class: &&str| KindDocument {
        reserve_bytes: None,
        name: class.to_string(),
        class: class.to_string(),
        count: 1,
        host: false,
        memory_bytes: None,
        link: None,
        group: None,
        server: None,
        ram: None,
    };
    let cluster = ClusterDocument {
        schema: CLUSTER_SCHEMA.into(),
        name: String::new(),
        classes: Default::default(),
        kinds: classes.iter().map(kind).collect(),
        groups: Vec::new(),
        matrix: None,
    };
    let objective = Objective::Makespan { execution };
    let cluster = Cluster::from_document(cluster).expect("a sound cluster");
    Problem::new(builder.build().expect("a sound graph"), cluster, objective).expect("a sound problem")
}

fn value(solver: &dyn Solver, problem: &Problem) -> f64 {
    value_within(solver, problem, Some(10_000))
}

fn value_within(solver: &dyn Solver, problem: &Problem, simulations: Option<u64>) -> f64 {
    let mut silent = Silent;
    let limits = Limits { time: None, simulations, ..Limits::default() };
    let mut context = Context::new(limits, &mut silent);
    let solution = solver.solve(problem, &mut context).expect("a problem that it takes");
    solution.value().expect("a plan")
}

#[test]
fn list_schedulers_reach_what_is_published() {
    let problem = example(Execution::ContentionFree);
    assert_eq!(value(&HEFT, &problem), 80.0);
    assert_eq!(value(&CPOP, &problem), 86.0);
}

#[test]
fn search_beats_list_schedulers() {
    let problem = example(Execution::ContentionFree);
    for solver in [&OrderSplit as &dyn Solver, &ANNEALING, &TABU] {
        assert!(value(solver, &problem) < 80.0, "{}", solver.name());
    }
}

#[test]
fn ports_take_longer_than_no_contention() {
    let [free, ports] = [Execution::ContentionFree, Execution::Ports].map(example);
    for solver in [&HEFT as &dyn Solver, &ANNEALING] {
        assert!(value(solver, &free) <= value(solver, &ports), "{}", solver.name());
    }
}

/// Without a time limit a search ends after the same number of simulations on every machine.
#[test]
fn annealing_is_below_published_heft() {
    let Some(tasks) = heterogeneous::tasks() else { return };
    let mut ratios = [0.0; 2];
    for task in &tasks {
        let problem = task.problem();
        for (ratio, solver) in ratios.iter_mut().zip([&HEFT as &dyn Solver, &ANNEALING]) {
            *ratio += value_within(solver, &problem, None) / task.heft_makespan / 48.0;
        }
    }
    let [heft, annealing] = ratios;
    assert!((heft - 1.0).abs() < 1e-3, "{heft}");
    assert!(annealing < 0.97, "{annealing}");
}
