//! Folding grids of layers and steps, whose folded graphs are known.

use stagewright_core::cluster::{Cluster, DeviceId};
use stagewright_core::document::{
    CLUSTER_SCHEMA, ClusterDocument, Execution, GRAPH_SCHEMA_2, GraphDocument, KindDocument, LinkDocument,
    OperatorDocument, ParameterDocument, TensorDocument,
};
use stagewright_core::graph::Graph;
use stagewright_core::objective::Objective;
use stagewright_core::problem::Problem;
use stagewright_core::solver::{Context, Limits, Settings, Silent, Solver, Status, Stop};

use super::*;

const OPERATORS: usize = 4;

/// A recurrent network of layers and steps with a head for all steps.
fn grid(layers: usize, steps: usize, head_seconds: f64) -> GraphDocument {
    let mut graph = GraphDocument::new(GRAPH_SCHEMA_2, "grid");
    let name = |layer: usize, step: usize, part: usize| {
        format!("layer.{layer}.step{step}.part_{}", ["a", "b", "c", "d"][part])
    };
    let tensor = |producer: String, consumers: Vec<String>| TensorDocument {
        name: None,
        producer,
        consumers,
        bytes: 8.0,
        seconds: Default::default(),
    };
    let operator = |name: String, seconds: f64| OperatorDocument {
        seconds: [("acc".to_owned(), seconds)].into(),
        ..OperatorDocument::named(name)
    };
    for layer in 0..layers {
        for step in 0..steps {
            for part in 0..OPERATORS {
                graph.operators.push(operator(name(layer, step, part), 1.0 + part as f64));
                let mut readers = Vec::new();
                if part + 1 < OPERATORS {
                    readers.push(name(layer, step, part + 1));
                } else {
                    readers.extend((step + 1 < steps).then(|| name(layer, step + 1, 0)));
                    readers.extend((layer + 1 < layers).then(|| name(layer + 1, step, 0)));
                    readers.extend((layer + 1 == layers).then(|| "head".to_owned()));
                }
                graph.tensors.push(tensor(name(layer, step, part), readers));
            }
        }
        let readers = (0..steps).map(|step| name(layer, step, 0)).collect();
        graph.parameters.push(ParameterDocument {
            name: format!("weight of {layer}"),
            bytes: 40.0,
            optimizer_bytes: 0.0,
            readers,
            trained: false,
            together: false,
        });
    }
    graph.operators.push(operator("head".to_owned(), head_seconds));
    graph
}

fn problem(graph: GraphDocument, devices: u32, memory_bytes: Option<f64>) -> Problem {
    let kind = KindDocument {
        server: None,
        ram: None,
        name: "acc".into(),
        class: "acc".into(),
        count: devices,
        host: false,
        memory_bytes,
        reserve_bytes: None,
        link: Some(LinkDocument { latency_s: 0.0, bandwidth: 16.0 }),
        group: None,
    };
    let cluster = ClusterDocument {
        schema: CLUSTER_SCHEMA.into(),
        name: String::new(),
        classes: Default::default(),
        kinds: vec![kind],
        groups: Vec::new(),
        matrix: None,
    };
    let cluster = Cluster::from_document(cluster).expect("a cluster");
    let objective = Objective::Makespan { execution: Execution::Ports };
    Problem::new(Graph::from_document(graph).expect("a graph"), cluster, objective).expect("a problem")
}

/// The edges by the names of their operators, with the number of a step replaced.
fn edges(graph: &Graph, step: impl Fn(usize) -> usize) -> Vec<(String, String)> {
    let renamed = |op: OpId| {
        let name = &graph.operator(op).name;
        let Some((before, rest)) = name.split_once(".step") else { return name.clone() };
        let (number, after) = rest.split_once('.').expect("a part");
        format!("{before}.step{}.{after}", step(number.parse().expect("a number")))
    };
    let mut edges: Vec<(String, String)> = graph
        .operators()
        .flat_map(|op| graph.successors(op).iter().map(move |&next| (op, next)))
        .map(|(from, to)| (renamed(from), renamed(to)))
        .collect();
    edges.sort();
    edges
}

#[test]
fn a_folded_grid_is_the_grid_of_fewer_steps() {
    for (layers, steps, wanted) in [(3, 60, 200), (2, 100, 100), (9, 40, 300)] {
        let whole = problem(grid(layers, steps, 60.0), 2, Some(1000.0));
        let instance = Instance::new(&whole);
        let axes = Axes::new(&instance);
        let folded = Folded::new(&instance, &axes, wanted).expect("the steps repeat");
        let small = folded.problem.graph();
        let kept: Vec<usize> = (0..steps)
            .filter(|step| {
                small.operators().any(|op| small.operator(op).name.contains(&format!("layer.0.step{step}.")))
            })
            .collect();
        assert!(kept.len() < steps && kept.contains(&0) && kept.contains(&(steps - 1)));
        let short = problem(grid(layers, kept.len(), 1.0), 2, None);
        let place = |step: usize| kept.iter().position(|&other| other == step).expect("a step that is kept");
        assert_eq!(edges(small, place), edges(short.graph(), |step| step), "{layers} layers, {steps} steps");
        // The head and the memory of the weights belong to all steps.
        let share = kept.len() as f64 / steps as f64;
        let head = small.operators().find(|&op| small.operator(op).name == "head").expect("the head");
        let seconds = folded.problem.seconds(head, 0).expect("it can run");
        assert!((seconds - 60.0 * share).abs() < 1e-9, "{seconds}");
        assert!((small.parameters()[0].bytes - 40.0 * share).abs() < 1e-9);
    }
}

#[test]
fn every_rule_keeps_the_ends_and_reaches_every_value() {
    let whole = problem(grid(2, 90, 1.0), 3, None);
    let instance = Instance::new(&whole);
    let axes = Axes::new(&instance);
    let folded = Folded::new(&instance, &axes, 120).expect("the steps repeat");
    let longest = folded.longest();
    for rule in Unfolding::candidates(longest) {
        let values = folded.values(rule);
        let axis = values.iter().position(|values| values.len() == 90).expect("the axis of steps");
        assert!(values[axis].iter().all(|&value| (value as usize) < longest), "{rule:?}");
        // Without values before or after those that are repeated, an end is part of the repetition.
        let (keeps_first, keeps_last) = match rule {
            Unfolding::Stretched => (true, true),
            Unfolding::Repeated { periods, .. } if periods == longest => (true, false),
            Unfolding::Repeated { before, .. } => (before > 0.0, before < 1.0),
        };
        assert!(!keeps_first || values[axis][0] == 0, "{rule:?}");
        assert!(!keeps_last || values[axis][89] as usize == longest - 1, "{rule:?}");
        let device_of: Vec<DeviceId> =
            folded.problem.graph().operators().map(|op| DeviceId::new(op.index() % 3)).collect();
        let devices = folded.unfold(&instance, whole.graph().operators(), &device_of, &values);
        assert!(instance.admits(&devices), "{rule:?}");
    }
}

#[test]
fn the_plan_is_no_worse_than_that_of_the_list_scheduler() {
    for threads in [1, 2] {
        let whole = problem(grid(4, 700, 50.0), 4, Some(60_000.0));
        let limits = Limits { time: Some(Duration::from_secs(2)), ..Limits::default() };
        let mut silent = Silent;
        let mut context = Context::new(Settings { limits, threads, ..Settings::default() }, &mut silent);
        let solution = Fold.solve(&whole, &mut context).expect("no defect");
        let plan = solution.plan.expect("a plan");
        let list = HEFT.plan(&whole, context.stop()).expect("a plan");
        assert!(plan.value() <= list.value(), "{} after {}", plan.value(), list.value());
        assert!(plan.value() >= solution.bound.value);
    }
}

#[test]
fn a_graph_without_numbers_is_not_folded() {
    let mut graph = grid(2, 8, 1.0);
    graph.operators.truncate(3);
    graph.tensors.truncate(2);
    graph.parameters.clear();
    let whole = problem(graph, 2, None);
    let mut silent = Silent;
    let mut context = Context::new(Settings::default(), &mut silent);
    let solution = Fold.solve(&whole, &mut context).expect("no defect");
    assert_eq!(solution.status, Status::Unknown);
    assert!(solution.plan.is_none() && solution.reason.is_some());
}

#[test]
fn a_small_graph_that_repeats_is_not_said_to_lack_numbers() {
    let whole = problem(grid(2, 90, 1.0), 2, None);
    let mut silent = Silent;
    let mut context = Context::new(Settings::default(), &mut silent);
    let reason = Fold.solve(&whole, &mut context).expect("no defect").reason.expect("a reason");
    assert!(reason.contains("721 operators"), "{reason}");
}

#[test]
fn sections_have_the_shortest_period() {
    use super::axes::{Section, sections};
    let work = [1.0; 14];
    let operators = [9, 1, 2, 1, 2, 1, 2, 1, 2, 5, 5, 5, 5, 7];
    let expected = [(0, 1, 1), (1, 8, 2), (9, 4, 1), (13, 1, 1)];
    let expected = expected.map(|(start, len, period)| Section { start, len, period });
    assert_eq!(sections(&operators, &work), expected);
}

/// From one device, moves of strands spread the work, and keep classes together.
#[test]
fn moves_of_strands_shorten_steps_and_keep_classes_together() {
    for number in 0..6 {
        let mut graph = grid(4, 60, 5.0);
        if number % 2 == 1 {
            // Every operator and the one after it.
            for (index, operator) in graph.operators.iter_mut().enumerate() {
                operator.colocation = Some(format!("c{}", index / 2));
            }
        }
        let whole = problem(graph, 3, None);
        let instance = Instance::new(&whole);
        let axes = Axes::new(&instance);
        let strands = Strands::new(whole.graph(), &axes);
        let device_of = vec![DeviceId(0); whole.graph().operator_count()];
        let mut evaluator = Evaluator::without_tails(&instance);
        let start = evaluator.score(&by_rank(&instance, device_of.clone()));
        let mut silent = Silent;
        let context = Context::new(Settings { seed: number, ..Settings::default() }, &mut silent);
        let mut other = evaluator.clone();
        let evaluators = vec![&mut evaluator, &mut other];
        let found = strands.improved(evaluators, device_of, &Stop::never(), &context).expect("a pool");
        let found = found.expect("a schedule");
        assert!(instance.admits(&found.schedule.device_of), "{number}");
        assert!(is_better(found.score, start), "{number}: {} after {}", found.score.makespan, start.makespan);
        assert_eq!(other.score(&found.schedule), found.score, "{number}");
    }
}
