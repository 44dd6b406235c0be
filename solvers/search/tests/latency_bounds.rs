//! Lower bounds on latency on random small problems: against every placement, against their definition, and on chains.

use stagewright_testing::random;

use std::collections::BTreeMap;

use rand::RngExt;
use random::Size;
use stagewright_core::bound::{Bound, CriticalPath};
use stagewright_core::call_timing::Offload;
use stagewright_core::cluster::{Cluster, DeviceId};
use stagewright_core::document::{
    CLUSTER_SCHEMA, ClusterDocument, KindDocument, LinkDocument, OperatorDocument, TensorDocument,
};
use stagewright_core::evaluate::evaluate;
use stagewright_core::graph::{GraphBuilder, OpId};
use stagewright_core::ids::Keyed;
use stagewright_core::objective::Objective;
use stagewright_core::placement::Placement;
use stagewright_core::problem::Problem;
use stagewright_core::seed;
use stagewright_core::solver::Stop;
use stagewright_core::tolerance;
use stagewright_search::latency::bound::{CallChainEffort, CallChains, Relaxed};

const FULL: CallChains = CallChains { effort: CallChainEffort::DEFAULT };

/// Efforts that leave operators out.
const SPARING: [CallChainEffort; 3] = [
    CallChainEffort { ideals: 4, ..CallChainEffort::DEFAULT },
    CallChainEffort { steps: 40, ..CallChainEffort::DEFAULT },
    CallChainEffort { ideals: 0, steps: 0 },
];

fn latency(calls: u32) -> Objective {
    Objective::Latency { calls }
}

fn problem(number: u64, operators: usize, devices: u32, calls: u32) -> Problem {
    let problem = random::problem(number, Size { operators, devices, groups: false });
    problem.with_objective(latency(calls)).expect("a valid objective")
}

fn relax(bound: CallChains, problem: &Problem) -> Relaxed {
    bound.relax(problem, &Stop::new(None, Default::default())).expect("nothing stops it")
}

/// The minimum latency over every operator on every host and in every call of every accelerator; `None` if there are
/// too many combinations.
pub(crate) fn optimum(problem: &Problem) -> Option<Option<f64>> {
    let sites: Vec<(DeviceId, u32)> = problem
        .cluster()
        .devices()
        .flat_map(|device| {
            let host = problem.pools()[problem.pool_of(device)].host;
            (0..if host { 1 } else { problem.objective().calls() }).map(move |call| (device, call))
        })
        .collect();
    let count = problem.graph().operator_count();
    if (sites.len() as f64).powi(count as i32) > 8_000.0 {
        return None;
    }
    let mut choice = vec![0usize; count];
    let mut best: Option<f64> = None;
    loop {
        let (devices, calls) = choice.iter().map(|&site| sites[site]).unzip();
        let evaluation = evaluate(problem, &Placement::with_calls(devices, calls));
        if evaluation.is_feasible() && best.is_none_or(|best| evaluation.value < best) {
            best = Some(evaluation.value);
        }
        let Some(place) = choice.iter().position(|&site| site + 1 < sites.len()) else { return Some(best) };
        choice[place] += 1;
        choice[..place].fill(0);
    }
}

#[test]
fn no_bound_passes_the_best_placement() {
    let (mut attacked, mut reached, mut planned, mut sparing, mut stronger) = ([0; 2], 0, 0, 0, 0);
    for number in 0..2500 {
        for (case, calls) in [(0, 1), (1, 2)] {
            let problem = problem(number, 3 + number as usize % 4, 2 + (number / 4) as u32 % 3, calls);
            let Some(Some(optimum)) = optimum(&problem) else { continue };
            let path = CriticalPath.compute(&problem).expect("a feasible problem has bounds").value;
            let relaxed = relax(FULL, &problem);
            let full = relaxed.bound.value;
            assert!(path <= optimum, "{number} {calls}: critical path {path} > {optimum}");
            assert!(full <= optimum, "{number} {calls}: {full} > {optimum}");
            stronger += u32::from(full > path * (1.0 + 1e-6));
            if let Some((placement, value)) = relaxed.plan {
                let evaluation = evaluate(&problem, &placement);
                assert!(
                    evaluation.is_feasible() && tolerance::same(evaluation.value, value),
                    "{number} {calls}"
                );
                assert!(value >= optimum * (1.0 - 1e-9), "{number} {calls}: {value} < {optimum}");
                planned += u32::from(value <= optimum * (1.0 + 1e-9));
            }
            for effort in SPARING {
                let less = relax(CallChains { effort }, &problem).bound.value;
                assert!(less <= full * (1.0 + 1e-8), "{number} {calls} {effort:?}: {less} > {full}");
                sparing += u32::from(0.0 < less && less < full * (1.0 - 1e-6));
            }
            attacked[case] += 1;
            reached += u32::from(full >= optimum * (1.0 - 1e-6));
        }
    }
    assert!(attacked[0] > 700 && attacked[1] > 500, "{attacked:?}");
    assert!(reached > 500 && planned > 300, "{reached} reached, {planned} planned");
    assert!(sparing > 200 && stronger > 200, "{sparing} {stronger}");
}

/// Two operators of a class on the host, one of them slow, and a call that reads the other.
#[test]
fn a_call_waits_for_no_more_of_a_class_than_it_reads() {
    let mut builder = GraphBuilder::new("class");
    for (name, class, seconds, colocation) in [
        ("quick", "cpu", 1.0, Some("pair")),
        ("slow", "cpu", 10.0, Some("pair")),
        ("reader", "acc", 4.0, None),
        ("end", "cpu", 1.0, None),
    ] {
        builder.operator(OperatorDocument {
            seconds: BTreeMap::from([(class.to_owned(), seconds)]),
            colocation: colocation.map(str::to_owned),
            ..OperatorDocument::named(name)
        });
    }
    for (from, to) in [("quick", "reader"), ("reader", "end"), ("slow", "end")] {
        builder.tensor(from, [to], 0.0);
    }
    let problem = problem_of(builder, 1, None);
    let relaxed = relax(FULL, &problem);
    assert_eq!(optimum(&problem), Some(Some(11.0)));
    assert_eq!(relaxed.bound.value, tolerance::round_down(11.0));
}

/// F by its definition: enumerates every set of operators and checks memory and convexity directly.
struct Definition<'p> {
    offload: Offload<'p>,
    /// The ancestors of each operator, including itself.
    before: Keyed<OpId, u32>,
    known: BTreeMap<(OpId, Vec<u64>), f64>,
}

impl<'p> Definition<'p> {
    fn value(problem: &'p Problem) -> f64 {
        let graph = problem.graph();
        let mut before = Keyed::filled(0u32, graph.operator_count());
        for &op in graph.topological() {
            let inputs = graph.predecessors(op).iter().map(|&input| before[input]);
            before[op] = inputs.fold(1 << op.0, |all, set| all | set);
        }
        let calls = problem
            .pools()
            .iter()
            .map(|pool| u64::from(pool.count() * problem.objective().calls()))
            .collect();
        let mut definition = Definition { offload: Offload::new(problem), before, known: BTreeMap::new() };
        let all = (1u32 << graph.operator_count()) - 1;
        definition.ready(all, &calls)
    }

    fn ready(&mut self, set: u32, calls: &Vec<u64>) -> f64 {
        let inside = self.before.ids().filter(|op| set >> op.0 & 1 == 1);
        inside.map(|op| self.operator(op, calls)).fold(0.0, f64::max)
    }

    fn operator(&mut self, op: OpId, calls: &Vec<u64>) -> f64 {
        if let Some(&known) = self.known.get(&(op, calls.clone())) {
            return known;
        }
        let (problem, waits) = (self.offload.problem(), self.ready(self.before[op] & !(1 << op.0), calls));
        let mut best = f64::INFINITY;
        for (pool, spec) in problem.pools().iter().enumerate() {
            if spec.host {
                best = best.min(self.offload.seconds(op, pool).map_or(f64::INFINITY, |own| waits + own));
            } else if calls[pool] > 0 {
                let mut left = calls.clone();
                left[pool] -= 1;
                for set in (1..1u32 << self.before.len()).filter(|set| set >> op.0 & 1 == 1) {
                    let Some(load) = self.load(set, pool) else { continue };
                    best = best.min(load + self.ready(self.below(set), &left));
                }
            }
        }
        self.known.insert((op, calls.clone()), best.max(waits));
        best.max(waits)
    }

    /// The ancestors of a set that are outside the set.
    fn below(&self, set: u32) -> u32 {
        let inside = self.before.ids().filter(|op| set >> op.0 & 1 == 1);
        inside.fold(0, |all, op| all | self.before[op]) & !set
    }

    fn load(&self, set: u32, pool: usize) -> Option<f64> {
        let (graph, spec) = (self.offload.graph(), &self.offload.problem().pools()[pool]);
        let holds = |op: &OpId| set >> op.0 & 1 == 1;
        let below = self.below(set);
        if graph.operators().any(|op| below >> op.0 & 1 == 1 && self.before[op] & set != 0) {
            return None;
        }
        let members: Vec<OpId> = graph.operators().filter(holds).collect();
        let bytes = |op: &OpId| {
            let operator = graph.operator(*op);
            operator.parameter_bytes
                + operator.optimizer_bytes
                + operator.workspace_bytes
                + operator.activation_bytes
        };
        if !tolerance::fits(members.iter().map(bytes).sum(), spec.memory) {
            return None;
        }
        let mut load = 0.0;
        for &op in &members {
            load += self.offload.seconds(op, pool)?;
        }
        for tensor in graph.tensors() {
            let pins = graph.pins(tensor);
            let parted = pins.iter().any(holds) && !pins.iter().all(holds);
            load += if parted { self.offload.transfer(tensor, pool) } else { 0.0 };
        }
        Some(load)
    }
}

#[test]
fn the_bound_is_its_definition() {
    let (mut compared, mut impossible) = (0, 0);
    for number in 0..1500 {
        for calls in [1, 2] {
            let problem = problem(number, 2 + number as usize % 5, 1 + (number / 5) as u32 % 4, calls);
            let graph = problem.graph();
            // The definition ignores colocation.
            let alone = calls == 2 || graph.class_count() == graph.operator_count();
            if graph.operator_count() > 7 || !alone {
                continue;
            }
            let (found, expected) = (relax(FULL, &problem).bound.value, Definition::value(&problem));
            // For graphs of version 2, the bound uses only the minimum bytes that devices need.
            if !problem.memory().is_sum() {
                assert!(found <= expected, "{number} {calls}: {found} > {expected}");
                continue;
            }
            if expected.is_infinite() {
                assert!(found.is_infinite() && FULL.compute(&problem).is_none(), "{number} {calls}: {found}");
                impossible += 1;
            } else {
                assert!(found <= expected, "{number} {calls}: {found} > {expected}");
                assert!(found >= expected * (1.0 - 1e-8), "{number} {calls}: {found} < {expected}");
                compared += 1;
            }
        }
    }
    assert!(compared > 400 && impossible > 25, "{compared} compared, {impossible} impossible");
}

/// A model on some accelerators, of given memory, and a host.
fn problem_of(builder: GraphBuilder, accelerators: u32, memory: Option<f64>) -> Problem {
    let kind = |name: &str, count, host, memory_bytes| KindDocument {
        reserve_bytes: None,
        name: name.into(),
        class: name.into(),
        count,
        host,
        memory_bytes,
        link: Some(LinkDocument { latency_s: 0.0, bandwidth: 1.0 }),
        group: None,
        server: None,
        ram: None,
    };
    let cluster = ClusterDocument {
        schema: CLUSTER_SCHEMA.into(),
        name: "few".into(),
        classes: BTreeMap::new(),
        kinds: vec![kind("acc", accelerators, false, memory), kind("cpu", 1, true, None)],
        groups: Vec::new(),
        matrix: None,
    };
    let (graph, cluster) = (builder.build().expect("a valid graph"), Cluster::from_document(cluster));
    Problem::new(graph, cluster.expect("a valid cluster"), latency(1)).expect("a problem")
}

/// A chain with skips, on a few accelerators with little memory and a host.
fn chain(number: u64) -> Problem {
    let mut rng = seed::stream(0xCAB1E, number);
    let count = rng.random_range(3..=6);
    let mut builder = GraphBuilder::new("chain");
    for index in 0..count {
        let own = f64::from(rng.random_range(1..=8));
        let cpu = own * f64::from(rng.random_range(2..=6));
        builder.operator(OperatorDocument {
            seconds: BTreeMap::from([("acc".to_owned(), own), ("cpu".to_owned(), cpu)]),
            parameter_bytes: f64::from(rng.random_range(1..=3)),
            ..OperatorDocument::named(format!("o{index}"))
        });
    }
    for index in 0..count - 1 {
        let further = (index + 2..count).filter(|_| rng.random_bool(0.15)).collect::<Vec<_>>();
        let consumers = [index + 1].into_iter().chain(further);
        builder.timed_tensor(TensorDocument {
            name: None,
            producer: format!("o{index}"),
            consumers: consumers.map(|to| format!("o{to}")).collect(),
            bytes: 0.0,
            seconds: BTreeMap::from([("acc".to_owned(), f64::from(rng.random_range(0..=6)))]),
        });
    }
    let accelerators = rng.random_range(1..=3);
    problem_of(builder, accelerators, Some(5.0))
}

#[test]
fn a_chain_is_solved() {
    let mut beyond = 0;
    for number in 0..200 {
        let problem = chain(number);
        let Some(Some(optimum)) = optimum(&problem) else { continue };
        let relaxed = relax(CallChains::default(), &problem);
        let (_, value) = relaxed.plan.expect("a chain has a placement");
        assert!(tolerance::same(value, optimum), "{number}: {value} {optimum}");
        assert!(
            tolerance::gap(value, relaxed.bound.value) == 0.0,
            "{number}: {value} {}",
            relaxed.bound.value
        );
        let path = CriticalPath.compute(&problem).expect("a feasible problem has bounds").value;
        beyond += u32::from(path < relaxed.bound.value * (1.0 - 1e-6));
    }
    assert!(beyond > 100, "{beyond}");
}
