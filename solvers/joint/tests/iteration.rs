//! Brute force over all joint plans of tiny training graphs, each timed by the independent checker.

mod hosts;
mod inputs;
mod plans;
mod requests;

use std::collections::BTreeMap;

use rand::RngExt;
use stagewright_core::document::{
    ClusterDocument, GraphDocument, JOINT_PLAN_SCHEMA, JointBoundDocument, JointExecutionDocument,
    JointObjectiveDocument, JointObjectiveKind, JointPlanDocument, JointStageDocument, OperatorDocument,
    Parallelism, PlanStatus, RecomputeWorkspace, Schedule,
};
use stagewright_core::seed;
use stagewright_core::solver::{Context, Limits, Settings, Silent, Status};
use stagewright_joint::iteration::{CutFault, ModelError, Problem, Request, Solution, solve};
use stagewright_verify::{JointReport, JointVerdict, check_joint};

use inputs::{count_tokens, random_cluster, random_cut, random_graph, random_ram, random_runtime, relate};

/// Names of the layers as planned, in their order.
fn layer_names(graph: &GraphDocument) -> Vec<Option<(String, bool)>> {
    let name = |operator: &OperatorDocument| {
        let layer = operator.layer.clone()?;
        Some((layer.clone(), layer.starts_with("layer.")))
    };
    graph.operators.iter().map(name).collect()
}

struct Case {
    graph: GraphDocument,
    cluster: ClusterDocument,
    request: Request,
    problem: Problem,
    /// Number of heads of all attentions, if the sizes of tensors determine it.
    heads: Option<u32>,
}

impl Case {
    fn random(number: u64) -> Case {
        Case::drawn(number, false)
    }

    /// A random case; with `is_mixed`, one with two kinds of devices that stages may mix.
    fn drawn(number: u64, is_mixed: bool) -> Case {
        let rng = &mut seed::stream(34, number);
        let mut parallel = BTreeMap::new();
        for parallelism in Parallelism::ALL {
            if matches!(parallelism, Parallelism::Offload | Parallelism::Mixed) {
                continue;
            }
            let share = if parallelism == Parallelism::Zero { 0.4 } else { 0.7 };
            if rng.random_bool(share) {
                let given = match parallelism {
                    Parallelism::Cp => rng.random_bool(0.15),
                    Parallelism::Shard => rng.random_bool(0.5),
                    Parallelism::Pp => rng.random_bool(0.1),
                    _ => false,
                };
                let given = given.then_some(2);
                parallel.insert(parallelism, given);
            }
        }
        let all = [
            Schedule::OneFOneB,
            Schedule::Interleaved,
            Schedule::ZeroBubble,
            Schedule::ZeroBubbleTwice,
            Schedule::DualPipeV,
        ];
        let mut schedules = vec![all[rng.random_range(0..all.len())]];
        if rng.random_bool(0.2) {
            schedules = all.to_vec();
        }
        let mut global_batch = match schedules == [Schedule::DualPipeV] {
            true => [2, 4, 4, 6],
            false => [1, 2, 2, 4],
        }[rng.random_range(0..4)];
        let mut graph = random_graph(rng);
        relate(&mut graph, number);
        let mut cluster = random_cluster(rng);
        if is_mixed {
            while cluster.kinds.len() != 2 {
                cluster = random_cluster(rng);
            }
            // Copies that one kind has too few devices for.
            global_batch = global_batch.max(2);
            let data = Some(global_batch as u32).filter(|_| rng.random_bool(0.6));
            parallel.extend([(Parallelism::Mixed, None), (Parallelism::Dp, data)]);
        }
        let rng = &mut seed::stream(35, number);
        let runtime = rng.random_bool(0.6).then(|| random_runtime(rng));
        for operator in
            graph.operators.iter_mut().filter(|operator| operator.kind.as_deref() == Some("softmax"))
        {
            operator.causal = rng.random_bool(0.5);
        }
        for class in cluster.classes.values_mut() {
            class.training_efficiency = [None, Some(0.5)][usize::from(rng.random_bool(0.5))];
        }
        for kind in cluster.kinds.iter_mut().filter(|_| rng.random_bool(0.5)) {
            kind.reserve_bytes = None;
        }
        let rng = &mut seed::stream(36, number);
        let heads = count_tokens(&mut graph, rng);
        let given = &mut seed::stream(38, number);
        if given.random_bool(0.5) {
            let offload = [None, None, None, Some(1), Some(0)][given.random_range(0..5)];
            parallel.insert(Parallelism::Offload, offload);
        }
        for kind in cluster.kinds.iter_mut() {
            kind.ram = random_ram(given);
        }
        let chunks = Some(rng.random_range(2..4)).filter(|_| rng.random_bool(0.3));
        let chunks = chunks.filter(|&chunks| {
            schedules.contains(&Schedule::Interleaved)
                || chunks == 2 && schedules.contains(&Schedule::DualPipeV)
        });
        let cut = Some(random_cut(&graph, rng)).filter(|_| rng.random_bool(0.3));
        let mut request =
            Request { parallel, global_batch, microbatch: None, schedules, chunks, cut, runtime };
        let read = |request: &Request| Problem::new(&graph, &layer_names(&graph), &cluster, request.clone());
        let problem = match read(&request) {
            Err(ModelError::Cut(CutFault::Stages { .. })) => {
                request.cut = None;
                read(&request)
            }
            problem => problem,
        };
        let problem = problem.unwrap_or_else(|error| panic!("{error}"));
        Case { graph, cluster, request, problem, heads }
    }

    fn solve(&self) -> Solution {
        let mut observer = Silent;
        let mut context = Context::new(
            Settings {
                limits: Limits { time: None, ..Limits::default() },
                threads: 1,
                ..Settings::default()
            },
            &mut observer,
        );
        solve(&self.problem, &mut context).expect("a solution")
    }

    /// A plan document; figures that the checker derives are left at zero.
    fn plan(&self, execution: JointExecutionDocument, stages: Vec<JointStageDocument>) -> JointPlanDocument {
        JointPlanDocument {
            schema: JOINT_PLAN_SCHEMA.into(),
            status: PlanStatus::Feasible,
            solver: "test".into(),
            model: "random".into(),
            options: None,
            cluster: None,
            objective: JointObjectiveDocument {
                kind: JointObjectiveKind::Iteration,
                parallel: self.request.parallel.clone(),
                global_batch: self.request.global_batch,
                microbatch: self.request.microbatch,
                schedules: self.request.schedules.clone(),
                chunks: self.request.chunks,
                cut: self.request.cut.clone(),
                recompute_workspace: RecomputeWorkspace::Max,
                runtime: self.request.runtime.clone(),
                value_s: Some(0.0),
            },
            bound: JointBoundDocument { value_s: None, source: "none".into() },
            gap: None,
            seconds: 0.0,
            origin: None,
            stop: None,
            reason: None,
            throughput: None,
            sources: None,
            execution: Some(execution),
            stages,
        }
    }

    /// The value of a plan by its price, if it is feasible.
    fn priced(&self, plan: &JointPlanDocument) -> Option<f64> {
        let price = self.problem.price(plan).filter(|_| self.is_possible(plan))?;
        Some(price.seconds).filter(|_| price.fits())
    }

    /// The value of a plan by the checker, if it is feasible.
    fn checked(&self, plan: &JointPlanDocument) -> Option<f64> {
        let report = check_joint(&self.graph, &self.cluster, plan).expect("documents");
        self.compare_price(plan, &report);
        let broken = report.violations.iter().any(|violation| violation.kind() != "figure");
        let value = report.value_s.filter(|_| !broken);
        assert_eq!(value.is_some(), self.priced(plan).is_some(), "{:?} {plan:?}", report.violations);
        value
    }

    /// Compares the price of a plan with the figures of the checker, if the plan has any.
    fn compare_price(&self, plan: &JointPlanDocument, report: &JointReport) {
        let same = |a: f64, b: f64| (a - b).abs() <= 1e-9 * a.abs().max(b.abs());
        let Some(value) = report.value_s else { return };
        let price = self.problem.price(plan).expect("a plan with figures has a price");
        assert!(same(price.seconds, value), "{} and {value}: {plan:?}", price.seconds);
        let fullest = report.stages.iter().map(|stage| stage.memory_bytes).fold(0.0, f64::max);
        let is_listed = report.stages.iter().any(|stage| same(stage.memory_bytes, price.memory_bytes));
        assert!(
            is_listed && price.memory_bytes <= fullest * (1.0 + 1e-9),
            "{} and {fullest}",
            price.memory_bytes
        );
    }

    /// The document of a solution, with its own figures and claims.
    fn document(&self, solution: &Solution) -> JointPlanDocument {
        let execution = solution.execution.clone().expect("a plan");
        let mut plan = self.plan(execution, solution.stages.clone());
        plan.objective.value_s = solution.value;
        plan.bound = JointBoundDocument { value_s: solution.bound, source: "joint".into() };
        let (value, bound) = (solution.value.expect("a value"), solution.bound.expect("a bound"));
        plan.gap = Some(stagewright_core::tolerance::gap(value, bound));
        plan
    }
}

/// Compares the solution of a case with the minimum value of all plans. Returns whether the solution is proved optimal,
/// has a plan, and is infeasible.
fn compared(case: &Case, number: u64, solution: &Solution, best: f64) -> [usize; 3] {
    let Some(value) = solution.value else {
        if solution.status == Status::Unknown {
            // The search for plans with several stages per device proves nothing, and bounds ignore what activations take of hosts.
            let is_free = |parallelism| case.request.parallel.get(&parallelism) == Some(&None);
            let is_given = case.request.parallel.get(&Parallelism::Recompute) == Some(&Some(3));
            let mut hosts = case.cluster.kinds.iter().filter_map(|kind| kind.ram);
            let may_offload = (is_given || is_free(Parallelism::Recompute) && is_free(Parallelism::Offload))
                && hosts.any(|ram| ram.memory_bytes.is_some());
            let has_chunks = case.request.schedules.iter().any(|schedule| schedule.has_chunks());
            assert!(has_chunks || may_offload, "{number}");
            assert!(solution.bound.is_none_or(|bound| bound <= best), "{number}");
            return [0, 0, 0];
        }
        assert_eq!(solution.status, Status::Infeasible, "{number}");
        assert_eq!(best, f64::INFINITY, "{number}: there is a plan: {:?}", solution.reason);
        return [0, 0, 1];
    };
    let bound = solution.bound.expect("a bound");
    assert!(bound <= best, "{number}: the bound is {bound}, but {best} is possible");
    assert!(value >= best * (1.0 - 1e-9), "{number}: {value} is below all plans, {best}");
    let is_optimal = solution.status == Status::Optimal;
    if is_optimal {
        assert!(value <= best * (1.0 + 1e-8), "{number}: {value} is not optimal, {best} is");
    }
    [usize::from(is_optimal), 1, 0]
}

/// Compares the solution of a case with all plans, timed by the checker. Returns whether the solution is proved optimal,
/// has a plan, is infeasible, and has a bound that the checker proves.
fn checked(number: u64) -> [usize; 4] {
    let case = Case::random(number);
    compared_with_all(&case, number, &case.solve())
}

fn compared_with_all(case: &Case, number: u64, solution: &Solution) -> [usize; 4] {
    let (best, worst) = case.brute_force(|plan| case.checked(plan));
    let [optimal, planned, infeasible] = compared(case, number, solution, best);
    if planned == 0 {
        return [optimal, planned, infeasible, 0];
    }
    let plan = case.document(solution);
    let report = check_joint(&case.graph, &case.cluster, &plan).expect("documents");
    assert!(report.holds(), "{number}: {:?}", report.violations);
    let is_verified = report.bound == JointVerdict::Verified;
    assert!(is_verified, "{number}: {:?} of {:?}", report.bound, plan.objective);
    // A bound above the best plan, in a plan that does not refute it.
    if let Some((greatest, mut plan)) = worst.filter(|worst| worst.0 > best * 1.001) {
        plan.bound.value_s = Some(best + (greatest - best) * 0.01);
        let report = check_joint(&case.graph, &case.cluster, &plan).expect("documents");
        assert_eq!(report.bound, JointVerdict::NotVerified, "{number}: {best} is possible");
    }
    [optimal, planned, infeasible, usize::from(is_verified)]
}

/// The new dimensions that a solution uses: context parallelism, groups of copies, chunks, DualPipeV, a cut of several stages, states on
/// hosts, those that take at least half of the memory of a host, and activations on hosts.
fn dimensions(case: &Case, solution: &Solution) -> [usize; 8] {
    let Some(execution) = &solution.execution else { return [0; 8] };
    let is_chunked = case.request.chunks.is_some() && execution.schedule == Schedule::Interleaved;
    let is_folded = execution.schedule == Schedule::DualPipeV;
    let is_cut = case.request.cut.as_ref().is_some_and(|cut| cut.len() > 1);
    let is_tight = execution.offload && {
        let price = case.problem.price(&case.document(solution)).expect("a plan");
        price.host_bytes > 0.5 * price.usable_host_bytes
    };
    let mut layers = solution.stages.iter().flat_map(|stage| &stage.layers);
    let has_activations = layers.any(|layer| layer.configuration == "offload");
    let groups = execution.shards.is_some();
    [
        execution.context > 1,
        groups,
        is_chunked,
        is_folded,
        is_cut,
        execution.offload,
        is_tight,
        has_activations,
    ]
    .map(usize::from)
}

#[test]
fn bounds_and_values_of_tiny_models_agree_with_prices_of_all_plans() {
    let halves = std::thread::scope(|scope| {
        let priced = |number: u64| -> [usize; 11] {
            let case = Case::random(number);
            let solution = case.solve();
            let (best, _) = case.brute_force(|plan| case.priced(plan));
            let [optimal, planned, infeasible] = compared(&case, number, &solution, best);
            if let Some(value) = solution.value {
                let price = case.priced(&case.document(&solution)).expect("a plan");
                assert!((price - value).abs() <= 1e-9 * value, "{number}: {price} and {value}");
            }
            let [contexts, groups, chunks, folded, cuts, hosts, tight, kept] = dimensions(&case, &solution);
            [optimal, planned, infeasible, contexts, groups, chunks, folded, cuts, hosts, tight, kept]
        };
        let halves = [1000, 3000].map(|first| {
            scope.spawn(move || (first..first + 2000).map(priced).collect::<Vec<[usize; 11]>>())
        });
        halves.map(|half| half.join().expect("a half whose cases agree"))
    });
    let sum = |column: usize| halves.iter().flatten().map(|outcome| outcome[column]).sum::<usize>();
    let [optimal, planned, infeasible, contexts, groups, chunks, folded, cuts, hosts, tight, kept] =
        [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10].map(sum);
    assert!(
        optimal > 1500
            && planned > 2000
            && infeasible > 300
            && contexts > 150
            && groups > 5
            && chunks > 15
            && folded > 30
            && cuts > 200
            && hosts > 300
            && tight > 50
            && kept > 0,
        "{optimal} of {planned} optimal, {infeasible} infeasible; {contexts} with context parallelism, {groups} with \
         groups of copies, {chunks} with given chunks, {folded} under DualPipeV, {cuts} with a cut, {hosts} with states on hosts, {tight} of them \
         with little left, {kept} with activations on hosts"
    );
}

/// Compares solutions of cases whose stages may have devices of two kinds with all plans.
fn mixed(numbers: std::ops::Range<u64>) -> Vec<[usize; 4]> {
    let compare = |number: u64| {
        let case = Case::drawn(number, true);
        let solution = case.solve();
        let is_mixed = solution.stages.iter().any(|stage| !stage.mixed.is_empty());
        let [optimal, planned, _, verified] = compared_with_all(&case, number, &solution);
        [optimal, planned, verified, usize::from(is_mixed)]
    };
    numbers.map(compare).collect()
}

#[test]
fn bounds_and_plans_with_stages_on_two_kinds_agree_with_all_plans() {
    let halves = std::thread::scope(|scope| {
        let halves = [7000, 7100].map(|first| scope.spawn(move || mixed(first..first + 100)));
        halves.map(|half| half.join().expect("a half whose cases agree"))
    });
    let sum = |column: usize| halves.iter().flatten().map(|outcome| outcome[column]).sum::<usize>();
    let [optimal, planned, verified, mixed] = [0, 1, 2, 3].map(sum);
    assert!(
        optimal > 50 && verified == planned && mixed > 15,
        "{optimal} of {planned} optimal, {verified} verified, {mixed} with stages on two kinds"
    );
}

#[test]
fn bounds_and_plans_of_tiny_models_agree_with_all_plans() {
    // Threads, not a pool: a worker of a pool that waits for the pool of a solve begins other cases on its stack.
    let halves = std::thread::scope(|scope| {
        let halves = [0, 500]
            .map(|first| scope.spawn(move || (first..first + 500).map(checked).collect::<Vec<[usize; 4]>>()));
        halves.map(|half| half.join().expect("a half whose cases agree"))
    });
    let sum = |column: usize| halves.iter().flatten().map(|outcome| outcome[column]).sum::<usize>();
    let [optimal, planned, infeasible, verified] = [0, 1, 2, 3].map(sum);
    assert!(
        optimal > 300 && planned > 500 && infeasible > 20 && verified == planned,
        "{optimal} of {planned} optimal, {verified} verified, {infeasible} infeasible"
    );
}
