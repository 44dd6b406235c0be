//! Hosts: updates and bytes by hand, since the search and prices share the costs of a layer, and brute force over stacks that
//! may keep activations there.

use rand::RngExt;
use stagewright_core::document::{
    ClusterDocument, GraphDocument, OperatorDocument, Parallelism, Pass, RamDocument, RuntimeDocument,
    Schedule,
};
use stagewright_core::seed;
use stagewright_joint::iteration::{Problem, Request};
use stagewright_verify::{JointVerdict, check_joint};

use super::inputs::{random_cluster, random_graph, random_runtime, random_stack};
use super::{Case, compared, layer_names};

const RAM: RamDocument = RamDocument { memory_bytes: Some(1e6), bandwidth: 3.0, link_bandwidth: 7.0 };

/// A plan on one stage without tensor parallelism, on a device that has room for everything.
fn case(number: u64, copies: u32, zero: u32, runtime: Option<RuntimeDocument>) -> Case {
    let graph = random_graph(&mut seed::stream(41, number));
    let mut cluster = random_cluster(&mut seed::stream(41, number));
    cluster.kinds.truncate(1);
    let kind = &mut cluster.kinds[0];
    (kind.count, kind.server, kind.memory_bytes, kind.ram) = (4, None, Some(1e9), Some(RAM));
    let given = [(Parallelism::Dp, copies), (Parallelism::Zero, zero), (Parallelism::Offload, 1)];
    let request = Request {
        parallel: given.map(|(kind, degree)| (kind, Some(degree))).into(),
        global_batch: 4,
        microbatch: None,
        schedules: vec![Schedule::OneFOneB],
        chunks: None,
        cut: None,
        runtime,
    };
    let problem = Problem::new(&graph, &layer_names(&graph), &cluster, request.clone()).expect("a problem");
    Case { graph, cluster, request, problem, heads: None }
}

fn sum(graph: &GraphDocument, figure: impl Fn(&OperatorDocument) -> f64) -> f64 {
    graph.operators.iter().map(figure).sum()
}

#[test]
fn updates_on_hosts_take_their_bytes_and_move_gradients_and_parameters() {
    let near = |found: f64, expected: f64| (found - expected).abs() <= 1e-9 * expected;
    for number in 0..20 {
        for (copies, zero, part) in [(1, 0, 1.0), (2, 0, 1.0), (2, 1, 0.5), (4, 2, 0.25), (4, 3, 0.25)] {
            for runtime in [None, Some(random_runtime(&mut seed::stream(42, number)))] {
                let speed = runtime.as_ref().map_or(1.0, |runtime| runtime.memory);
                let case = case(number, copies, zero, runtime);
                let is_update = |operator: &OperatorDocument| operator.pass == Pass::Update;
                let moved = sum(&case.graph, |operator| match is_update(operator) {
                    true => operator.bytes_moved.expect("bytes"),
                    false => 0.0,
                });
                let parameters = sum(&case.graph, |operator| operator.parameter_bytes);
                let states = sum(&case.graph, |operator| operator.optimizer_bytes);
                let is_gradient = |reader: &String| reader.ends_with(".update");
                let gradients: f64 = case
                    .graph
                    .tensors
                    .iter()
                    .filter(|tensor| tensor.consumers.iter().any(is_gradient))
                    .map(|tensor| tensor.bytes)
                    .sum();
                let solution = case.solve();
                let plan = case.document(&solution);
                let (_, updates) = case.problem.after_passes(&plan).expect("a plan")[0];
                let expected =
                    part * (moved / (RAM.bandwidth * speed) + (gradients + parameters) / RAM.link_bandwidth);
                assert!(near(updates, expected), "{number} {copies} {zero}: {updates} and {expected}");
                let host = solution.stages[0].host_bytes.expect("bytes on the host");
                assert!(near(host, part * states), "{number} {copies} {zero}: {host} of {states}");
                let price = case.problem.price(&plan).expect("a price");
                assert!(near(price.host_bytes, host) && near(price.usable_host_bytes, 1e6 * (1.0 + 1e-9)));
                let of_stage = case.problem.parts(&plan).expect("parts")[0];
                assert_eq!(of_stage.optimizer_bytes, 0.0);
            }
        }
    }
}

/// A stack on two devices that lack memory for all activations, beside hosts that may have them.
fn stack(number: u64) -> Case {
    let rng = &mut seed::stream(43, number);
    let graph = random_stack(rng);
    let mut cluster = random_cluster(rng);
    cluster.kinds.truncate(1);
    let kind = &mut cluster.kinds[0];
    let link_bandwidth = [1.0, 10.0, 100.0][rng.random_range(0..3)];
    let memory_bytes = Some(f64::from(rng.random_range(20..400))).filter(|_| rng.random_bool(0.5));
    kind.ram = Some(RamDocument { memory_bytes, bandwidth: 3.0, link_bandwidth });
    (kind.count, kind.server, kind.memory_bytes) = (2, None, Some(1e9));
    let all = [
        Schedule::OneFOneB,
        Schedule::ZeroBubble,
        Schedule::ZeroBubbleTwice,
        Schedule::Interleaved,
        Schedule::DualPipeV,
    ];
    let schedule = all[rng.random_range(0..all.len())];
    let schedules = vec![schedule];
    let given = rng.random_bool(0.2).then_some(3);
    let parallel = [(Parallelism::Pp, None), (Parallelism::Recompute, given), (Parallelism::Offload, None)];
    let request = Request {
        parallel: parallel.into(),
        global_batch: 4,
        microbatch: Some(1),
        schedules,
        chunks: None,
        cut: None,
        runtime: rng.random_bool(0.5).then(|| random_runtime(rng)),
    };
    let read = |cluster: &ClusterDocument| {
        Problem::new(&graph, &layer_names(&graph), cluster, request.clone()).expect("a problem")
    };
    let plenty = read(&cluster);
    let mut case = Case {
        graph: graph.clone(),
        cluster: cluster.clone(),
        request: request.clone(),
        problem: plenty,
        heads: None,
    };
    let solution = case.solve();
    // Of a given configuration with too little room on hosts, there is no plan.
    let price = (!solution.stages.is_empty()).then(|| case.problem.price(&case.document(&solution)));
    let needed = price.flatten().map_or(1e3, |price| price.memory_bytes);
    case.cluster.kinds[0].memory_bytes = Some(needed * rng.random_range(0.5..1.0));
    case.cluster.kinds[0].reserve_bytes = Some(0.0);
    case.problem = read(&case.cluster);
    case
}

#[test]
fn activations_on_hosts_are_in_no_better_plan_and_bounds_hold() {
    let [mut optimal, mut planned, mut kept] = [0; 3];
    for number in 0..300 {
        let case = stack(number);
        let solution = case.solve();
        let (best, _) = case.brute_force(|plan| case.priced(plan));
        let [is_optimal, is_planned, _] = compared(&case, number, &solution, best);
        (optimal, planned) = (optimal + is_optimal, planned + is_planned);
        if is_planned == 0 {
            continue;
        }
        let plan = case.document(&solution);
        let report = check_joint(&case.graph, &case.cluster, &plan).expect("documents");
        assert!(report.holds(), "{number}: {:?}", report.violations);
        assert_eq!(report.bound, JointVerdict::Verified, "{number}: {:?}", plan.objective);
        let mut layers = plan.stages.iter().flat_map(|stage| &stage.layers);
        kept += usize::from(layers.any(|layer| layer.configuration == "offload"));
    }
    assert!(
        optimal > 50 && planned > 150 && kept > 60,
        "{optimal} of {planned} optimal, {kept} with activations on hosts"
    );
}
