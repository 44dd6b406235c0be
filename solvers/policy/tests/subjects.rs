//! The network's input for a problem: it has edges even with colocation, and does not depend on the order of the
//! document.

use crate::support;

use candle_core::{DType, Device};
use rand::seq::SliceRandom;
use stagewright_core::document::{Execution, GraphDocument, OperatorDocument, Pass};
use stagewright_core::graph::{Graph, GraphBuilder, OpId};
use stagewright_core::objective::Objective;
use stagewright_core::problem::Problem;
use stagewright_core::seed;
use stagewright_makespan::assigned;
use stagewright_makespan::instance::Instance;
use stagewright_makespan::schedule::{Evaluator, Schedule};
use stagewright_policy::features::input;
use stagewright_policy::predict::Prediction;
use stagewright_policy::subject::{Base, Subject};
use stagewright_testing::learning::step;
use support::{random_network, small};

/// A chain with its backward pass, each backward operator on the device of its forward operator.
fn training(length: usize) -> Problem {
    let mut builder = GraphBuilder::new("training");
    for (pass, prefix) in [(Pass::Forward, "f"), (Pass::Backward, "b")] {
        for index in 0..length {
            builder.operator(OperatorDocument {
                pass,
                colocation: Some(format!("c{index}")),
                flop: Some(1e9 * (1.0 + index as f64)),
                bytes_moved: Some(1e6),
                seconds: [("acc".into(), 1.0 + index as f64), ("host".into(), 3.0)].into(),
                ..OperatorDocument::named(format!("{prefix}{index}"))
            });
        }
    }
    for index in 1..length {
        builder.tensor(&format!("f{}", index - 1), [format!("f{index}").as_str()], 1e6);
        builder.tensor(&format!("b{index}"), [format!("b{}", index - 1).as_str()], 1e6);
    }
    builder.tensor(&format!("f{}", length - 1), [format!("b{}", length - 1).as_str()], 1e6);
    let cluster = step(0, 2, 3).cluster().document().clone();
    let mut cluster = cluster;
    for kind in &mut cluster.kinds {
        kind.class = "acc".into();
        kind.link.get_or_insert(stagewright_core::document::LinkDocument { latency_s: 1e-6, bandwidth: 1e9 });
    }
    let cluster = stagewright_core::cluster::Cluster::from_document(cluster).expect("a valid cluster");
    let objective = Objective::Makespan { execution: Execution::Ports };
    let graph = builder.build().expect("a valid graph");
    Problem::new(graph, cluster, objective).expect("a valid problem")
}

#[test]
fn colocated_passes_have_edges() {
    let problem = training(12);
    let instance = Instance::new(&problem);
    let subject = Subject::new(&instance, usize::MAX, false);
    assert_eq!(subject.unit_count(), 12);
    assert_eq!(subject.edges().len(), 11);
    assert!(subject.edges().iter().all(|edge| edge.2 > 0.0), "{:?}", subject.edges());
    let place = |unit| subject.order().iter().position(|&other| other == unit);
    assert!(subject.edges().iter().all(|&(from, to, _)| place(from) < place(to)));
}

/// The network's output for every operator by name: priority and the sorted probabilities of its devices.
fn said(problem: &Problem) -> Vec<(String, f64, Vec<f64>)> {
    let network = random_network(small(), 21, DType::F64, &Device::Cpu);
    let instance = Instance::new(problem);
    let subject = Subject::new(&instance, usize::MAX, false);
    let homes: Vec<_> = instance.graph().operators().map(|op| instance.homes(op)[0]).collect();
    // Without priorities, operators that become ready at the same time would run in document order.
    let order = assigned::order(&instance, &homes);
    let base = Base::new(&subject, &mut Evaluator::new(&instance), &Schedule::by_order(homes, &order));
    let figures = input(&subject, &base, base.seconds, 0.5 * base.seconds);
    let prediction = Prediction::new(&network, &figures).expect("a prediction");
    let graph = instance.graph();
    let mut said: Vec<_> = graph
        .operators()
        .map(|op| {
            let unit = subject.level().cluster_of(graph.class_of(op)).index();
            let mut shares = prediction.devices_of(unit, figures.devices).to_vec();
            shares.sort_by(f64::total_cmp);
            (graph.operator(op).name.clone(), prediction.priority[unit], shares)
        })
        .collect();
    said.sort_by(|a, b| a.0.cmp(&b.0));
    said
}

/// Only for problems with distinct costs: identical units are ordered as in the document, and so are tensors that
/// become ready at the same time, which is why tensors are not shuffled.
#[test]
fn the_order_of_a_document_does_not_matter() {
    let mut seen = 0;
    // Without contention, operators that become ready at the same time run in document order whatever their priority.
    for number in (0..120).filter(|number| number % 3 != 1) {
        let problem = step(number, 14, 3);
        let instance = Instance::new(&problem);
        if instance.impossible().is_some() {
            continue;
        }
        let subject = Subject::new(&instance, usize::MAX, false);
        // Equal ranks are ordered as in the document.
        let is_distinct = |seconds: &dyn Fn(OpId) -> f64| {
            let mut all: Vec<u64> = problem.graph().operators().map(|op| seconds(op).to_bits()).collect();
            all.sort_unstable();
            all.windows(2).all(|pair| pair[0] != pair[1])
        };
        let on_first = |op| instance.seconds(op, instance.homes(op)[0]);
        let is_plain = subject.unit_count() == problem.graph().operator_count();
        if !is_plain || !is_distinct(&|op| instance.mean_seconds(op)) || !is_distinct(&on_first) {
            continue;
        }
        let mut document: GraphDocument = problem.graph().document().clone();
        let mut rng = seed::stream(77, number);
        document.operators.shuffle(&mut rng);
        let graph = Graph::from_document(document).expect("a valid graph");
        let other =
            Problem::pinned(graph, problem.cluster().clone(), *problem.objective(), problem.pins().clone())
                .expect("a valid problem");
        seen += 1;
        for (left, right) in said(&problem).iter().zip(said(&other)) {
            assert_eq!(left.0, right.0);
            assert!(
                (left.1 - right.1).abs() < 1e-6 * (1.0 + left.1.abs()),
                "{number}: {left:?} and {right:?}"
            );
            assert!(
                left.2.iter().zip(&right.2).all(|(a, b)| (a - b).abs() < 1e-6),
                "{number}: {left:?} and {right:?}"
            );
        }
    }
    assert!(seen >= 3, "{seen} seen");
}
