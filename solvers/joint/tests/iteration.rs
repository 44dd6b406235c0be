//! Brute force over all joint plans of tiny training graphs, each timed by the independent checker.

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use rand::{Rng, RngExt};
use stagewright_core::document::{
    BatchDocument, CLUSTER_SCHEMA, ClassDocument, ClusterDocument, GRAPH_SCHEMA_2, GraphDocument,
    JOINT_PLAN_SCHEMA, JointBoundDocument, JointExecutionDocument, JointLayerDocument,
    JointObjectiveDocument, JointObjectiveKind, JointPlanDocument, JointStageDocument, KindDocument,
    LinkDocument, OperatorDocument, Parallelism, Pass, PlanStatus, RecomputeWorkspace, RuntimeDocument,
    Schedule, ServerDocument, TensorDocument,
};
use stagewright_core::seed;
use stagewright_core::solver::{Context, Limits, Settings, Silent, Status};
use stagewright_joint::iteration::{Problem, Request, Solution, solve};
use stagewright_verify::{JointReport, JointVerdict, check_joint};

/// A graph that is built from forward operators, one by one, with a backward operator for each.
#[derive(Default)]
struct Tape {
    operators: Vec<OperatorDocument>,
    backward: Vec<OperatorDocument>,
    updates: Vec<OperatorDocument>,
    tensors: Vec<TensorDocument>,
    layer: String,
}

impl Tape {
    /// Adds an operator with one output of random size; returns its name.
    fn add(
        &mut self,
        rng: &mut impl Rng,
        name: &str,
        kind: &str,
        inputs: &[&str],
        parameters: bool,
    ) -> String {
        let full = format!("{}.{name}", self.layer);
        let operator = |name: String, pass: Pass, rng: &mut dyn FnMut(u32) -> f64| OperatorDocument {
            kind: Some(kind.into()),
            pass,
            colocation: Some(full.clone()),
            layer: Some(self.layer.clone()),
            flop: Some(rng(60)),
            bytes_moved: Some(rng(40)),
            ..OperatorDocument::named(name)
        };
        let mut draw = |limit: u32| f64::from(rng.random_range(0..limit)) / 3.0;
        let mut forward = operator(full.clone(), Pass::Forward, &mut draw);
        let mut backward = operator(format!("{full}.grad"), Pass::Backward, &mut draw);
        if kind == "input" {
            (forward.flop, forward.bytes_moved, forward.launches) = (Some(0.0), Some(0.0), Some(0.0));
        }
        backward.workspace_bytes = draw(6);
        forward.activation_bytes = draw(4);
        if parameters {
            forward.parameter_bytes = draw(30) + 1.0;
            let mut update = operator(format!("{full}.update"), Pass::Update, &mut draw);
            update.optimizer_bytes = draw(60);
            let read = vec![update.name.clone()];
            self.tensors.push(TensorDocument::new(backward.name.clone(), read, forward.parameter_bytes));
            self.updates.push(update);
        }
        for input in inputs {
            let index = self.tensors.iter().position(|tensor| tensor.producer == *input).expect("an input");
            self.tensors[index].consumers.push(full.clone());
            if rng.random_bool(0.6) {
                self.tensors[index].consumers.push(backward.name.clone());
            }
            let to = format!("{input}.grad");
            if self.backward.iter().any(|other| other.name == to) {
                let bytes = self.tensors[index].bytes;
                self.tensors.push(TensorDocument::new(backward.name.clone(), vec![to], bytes));
            }
        }
        let bytes = if rng.random_bool(0.1) { 0.0 } else { f64::from(rng.random_range(1..30)) };
        self.tensors.push(TensorDocument::new(full.clone(), Vec::new(), bytes));
        self.operators.push(forward);
        if kind != "input" {
            self.backward.push(backward);
        }
        full
    }

    fn document(mut self, samples: u64) -> GraphDocument {
        self.operators.extend(self.backward.into_iter().rev());
        self.operators.extend(self.updates);
        GraphDocument {
            operators: self.operators,
            tensors: self.tensors,
            batch: Some(BatchDocument { samples: samples.try_into().expect("samples"), tokens: None }),
            ..GraphDocument::new(GRAPH_SCHEMA_2, "random")
        }
    }
}

/// A random model of up to four layers: attentions, feed-forward blocks, experts.
fn random_graph(rng: &mut impl Rng) -> GraphDocument {
    let mut tape = Tape { layer: "embeddings".into(), ..Tape::default() };
    let tokens = tape.add(rng, "tokens", "input", &[], false);
    let mut x = tape.add(rng, "table", "embedding", &[&tokens], true);
    for number in 0..rng.random_range(1..3) {
        tape.layer = format!("layer.{number}");
        let has_scale = rng.random_bool(0.5);
        let norm = tape.add(rng, "norm", "rms_norm", &[&x], has_scale);
        let out = match rng.random_range(0..3) {
            0 => {
                let query = tape.add(rng, "query", "linear", &[&norm], true);
                let key = tape.add(rng, "key", "linear", &[&norm], true);
                let scores = tape.add(rng, "scores", "matmul", &[&query, &key], false);
                // Some scores are scaled apart, in the sequence's layout.
                let scaled = match has_scale {
                    true => tape.add(rng, "scale", "multiply", &[&scores], false),
                    false => scores,
                };
                let weights = tape.add(rng, "softmax", "softmax", &[&scaled], false);
                let context = tape.add(rng, "context", "matmul", &[&weights, &query], false);
                tape.add(rng, "output", "linear", &[&context], true)
            }
            1 => {
                let up = tape.add(rng, "up", "linear", &[&norm], true);
                let active = tape.add(rng, "active", "gelu", &[&up], false);
                tape.add(rng, "down", "linear", &[&active], true)
            }
            _ => {
                let gate = tape.add(rng, "gate", "linear", &[&norm], true);
                let dispatch = tape.add(rng, "dispatch", "dispatch", &[&norm, &gate], false);
                let first = tape.add(rng, "expert.0", "linear", &[&dispatch], true);
                // A dispatch has an output for every expert.
                let bytes = f64::from(rng.random_range(1..9));
                let second = tape.add(rng, "expert.1", "linear", &[&dispatch], true);
                let shared = tape.tensors.iter_mut().find(|tensor| tensor.producer == dispatch);
                let shared = shared.expect("the output of the dispatch");
                shared.consumers.retain(|reader| !reader.starts_with(&second));
                let readers = vec![second.clone(), format!("{second}.grad")];
                tape.tensors.push(TensorDocument::new(dispatch, readers, bytes));
                tape.add(rng, "combine", "combine", &[&gate, &first, &second], false)
            }
        };
        x = tape.add(rng, "add", "add", &[&out, &x], false);
    }
    tape.layer = "head".into();
    let logits = tape.add(rng, "output", "linear", &[&x], true);
    tape.add(rng, "loss", "loss", &[&logits], false);
    tape.document(rng.random_range(1..3))
}

/// Changes the colocation in some graphs, and the number of experts of a dispatch.
fn relate(graph: &mut GraphDocument, number: u64) {
    for (index, operator) in graph.operators.iter_mut().enumerate() {
        match number % 4 {
            1 if operator.pass != Pass::Forward && index % 2 == 0 => operator.colocation = None,
            2 if operator.layer.as_deref() == Some("layer.0") => operator.colocation = Some("all".into()),
            3 if operator.kind.as_deref() == Some("dispatch") => operator.experts = NonZeroU32::new(4),
            _ => {}
        }
    }
}

fn random_cluster(rng: &mut impl Rng) -> ClusterDocument {
    let link = |rng: &mut dyn FnMut(u32) -> f64| LinkDocument { latency_s: rng(3), bandwidth: rng(20) + 1.0 };
    let mut cluster = ClusterDocument { schema: CLUSTER_SCHEMA.into(), ..ClusterDocument::new("random") };
    let kinds = [1, 1, 1, 1, 1, 1, 1, 2, 2, 3][rng.random_range(0..10)];
    for kind in 0..kinds {
        let name = format!("kind{kind}");
        let mut draw = |limit: u32| f64::from(rng.random_range(0..limit)) / 7.0;
        cluster.classes.insert(
            name.clone(),
            ClassDocument {
                peak_flops: Some(draw(9) + 1.0),
                memory_bandwidth: Some(draw(9) + 1.0),
                launch_overhead_s: draw(4),
                ..ClassDocument::default()
            },
        );
        let (inside, outside) = (link(&mut draw), link(&mut draw));
        // Three kinds have many plans.
        let count = rng.random_range(1..if kinds < 3 { 5 } else { 3 });
        let server = ServerDocument { devices: rng.random_range(1..3), link: outside };
        cluster.kinds.push(KindDocument {
            memory_bytes: Some(f64::from(rng.random_range(60..900))),
            reserve_bytes: Some(0.0),
            link: Some(inside),
            server: Some(server).filter(|server| server.devices <= count && rng.random_bool(0.7)),
            ..KindDocument::named(name, count)
        });
    }
    cluster
}

/// Constants of a runtime, some of which change nothing.
fn random_runtime(rng: &mut impl Rng) -> RuntimeDocument {
    let mut pick = |values: [f64; 3]| values[rng.random_range(0..3)];
    RuntimeDocument {
        compute: 1.0,
        copies: 1.0,
        exchanges: 1.0,
        transfers: 1.0,
        name: "random".into(),
        source: None,
        sequence_parallel: pick([0.0, 0.0, 1.0]) > 0.5,
        fused_attention: pick([0.0, 0.0, 1.0]) > 0.5,
        attention: pick([0.5, 1.0, 2.0]),
        memory: pick([0.5, 0.7, 1.0]),
        passes: pick([1.0, 2.0, 3.0]),
        norms: pick([1.0, 1.0, 4.0]),
        scores: pick([1.0, 3.0, 3.0]),
        link: pick([0.4, 0.6, 1.0]),
        network: pick([0.4, 0.6, 1.0]),
        tensor: pick([0.4, 1.0, 1.7]),
        contention: pick([0.0, 0.2, 1.0]),
        host_s: pick([0.0, 3.0, 30.0]),
        pipeline_host_s: pick([0.0, 0.0, 5.0]),
        iteration_s: pick([0.0, 1.0, 20.0]),
        reduction: pick([1.0, 1.0, 2.0]),
        gradients: pick([0.5, 1.0, 2.0]),
        buckets: pick([0.25, 0.5, 1.0]),
        loss: pick([0.0, 1.0, 3.5]),
        whole_loss: pick([0.0, 0.0, 1.0]) > 0.5,
        reserve_bytes: pick([0.0, 50.0, 300.0]),
    }
}

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
}

impl Case {
    fn random(number: u64) -> Case {
        let rng = &mut seed::stream(34, number);
        let mut parallel = BTreeMap::new();
        for parallelism in Parallelism::ALL {
            let share = if parallelism == Parallelism::Zero { 0.4 } else { 0.7 };
            if rng.random_bool(share) {
                parallel.insert(parallelism, None);
            }
        }
        let mut schedules =
            vec![[Schedule::OneFOneB, Schedule::Interleaved, Schedule::ZeroBubble][rng.random_range(0..3)]];
        if rng.random_bool(0.2) {
            schedules = vec![Schedule::OneFOneB, Schedule::Interleaved, Schedule::ZeroBubble];
        }
        let global_batch = [1, 2, 2, 4][rng.random_range(0..4)];
        let mut graph = random_graph(rng);
        relate(&mut graph, number);
        let mut cluster = random_cluster(rng);
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
        let request =
            Request { parallel, global_batch, microbatch: None, schedules, chunks: None, cut: None, runtime };
        let problem = Problem::new(&graph, &layer_names(&graph), &cluster, request.clone());
        let problem = problem.unwrap_or_else(|error| panic!("{error}"));
        Case { graph, cluster, request, problem }
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
                microbatch: None,
                schedules: self.request.schedules.clone(),
                chunks: None,
                cut: None,
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

    /// The value of a plan by the checker, if it is feasible.
    fn value(&self, plan: &JointPlanDocument) -> Option<f64> {
        let report = check_joint(&self.graph, &self.cluster, plan).expect("documents");
        self.compare_price(plan, &report);
        let broken = report.violations.iter().any(|violation| violation.kind() != "figure");
        report.value_s.filter(|_| !broken)
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

    /// Minimum value over all plans, infinite if there is none, and the plan of maximum value.
    fn brute_force(&self) -> (f64, Option<(f64, JointPlanDocument)>) {
        let mut names: Vec<String> = Vec::new();
        for operator in &self.graph.operators {
            let layer = operator.layer.clone().expect("a layer");
            if !names.contains(&layer) {
                names.push(layer);
            }
        }
        let (mut best, mut worst) = (f64::INFINITY, None::<(f64, JointPlanDocument)>);
        let mut each = |plan: &JointPlanDocument| {
            if let Some(value) = self.value(plan) {
                best = best.min(value);
                if worst.as_ref().is_none_or(|worst| value > worst.0) {
                    worst = Some((value, plan.clone()));
                }
            }
        };
        let batch = self.request.global_batch as u32;
        let devices: u32 = self.cluster.kinds.iter().map(|kind| kind.count).sum();
        let configurations: &[&str] = match self.request.parallel.contains_key(&Parallelism::Recompute) {
            true => &["none", "selective", "full"],
            false => &["none"],
        };
        for data in 1..=batch.min(devices) {
            for microbatch in 1..=batch {
                if !batch.is_multiple_of(data * microbatch) {
                    continue;
                }
                for (expert, zero) in
                    [1, 2, 4].into_iter().flat_map(|expert| (0..4).map(move |zero| (expert, zero)))
                {
                    let microbatches = batch / data / microbatch;
                    let execution = JointExecutionDocument {
                        microbatch,
                        microbatches,
                        data,
                        expert,
                        zero,
                        schedule: Schedule::OneFOneB,
                        chunks: 1,
                        context: 1,
                        exchange: None,
                        shards: None,
                    };
                    // A single copy has nothing to shard.
                    if (zero > 0 && data == 1) || !data.is_multiple_of(expert) {
                        continue;
                    }
                    for &schedule in &self.request.schedules {
                        let interleaved = [(2, 2), (2, 3), (3, 2)].map(Some);
                        let shapes: &[Option<(usize, usize)>] = match schedule {
                            Schedule::Interleaved => &interleaved,
                            _ => &[None],
                        };
                        for &shape in shapes {
                            let chunks = shape.map_or(1, |(_, chunks)| chunks as u32);
                            let execution = JointExecutionDocument { schedule, chunks, ..execution.clone() };
                            self.stages(
                                &names,
                                data,
                                configurations,
                                shape,
                                &mut Vec::new(),
                                &mut |stages| {
                                    each(&self.plan(execution.clone(), stages.to_vec()));
                                },
                            );
                        }
                    }
                }
            }
        }
        (best, worst)
    }

    /// Calls `call` with every way to divide the remaining layers into stages, for the interleaving `shape` of devices
    /// and chunks if there is one.
    fn stages(
        &self,
        names: &[String],
        data: u32,
        configurations: &[&str],
        shape: Option<(usize, usize)>,
        stages: &mut Vec<JointStageDocument>,
        call: &mut dyn FnMut(&[JointStageDocument]),
    ) {
        let placed: usize = stages.iter().map(|stage| stage.layers.len()).sum();
        let full = shape.is_some_and(|(devices, chunks)| stages.len() == devices * chunks);
        if placed == names.len() {
            if shape.is_some() && !full {
                return;
            }
            let mut stages = stages.clone();
            let count = stages.len() as u32;
            for (stage_index, stage) in stages.iter_mut().enumerate() {
                stage.in_flight = count - stage_index as u32;
            }
            call(&stages);
            return;
        }
        if full {
            return;
        }
        // The previous stage on the same device.
        let same = shape
            .and_then(|(devices, _)| stages.len().checked_sub(devices))
            .map(|index| stages[index].clone());
        for end in placed + 1..=names.len() {
            for kind in &self.cluster.kinds {
                for tensor in 1..=kind.count {
                    let used = stages.iter().filter(|stage| stage.kind.as_ref() == Some(&kind.name));
                    let used: u32 = used.map(|stage| stage.tensor * stage.data).sum();
                    match &same {
                        Some(same) if (same.kind.as_ref(), same.tensor) != (Some(&kind.name), tensor) => {
                            continue;
                        }
                        None if used + tensor * data > kind.count => break,
                        _ => {}
                    }
                    let open: Vec<usize> =
                        (placed..end).filter(|&layer| names[layer].starts_with("layer.")).collect();
                    for number in 0..configurations.len().pow(open.len() as u32) {
                        let configuration = |layer: usize| {
                            let digit_place = open.iter().position(|&other| other == layer);
                            let digit = digit_place
                                .map_or(0, |place| number / configurations.len().pow(place as u32));
                            configurations[digit % configurations.len()].to_owned()
                        };
                        let layers = (placed..end).map(|layer| JointLayerDocument {
                            layer: names[layer].clone(),
                            configuration: configuration(layer),
                        });
                        stages.push(JointStageDocument {
                            kind: Some(kind.name.clone()),
                            data,
                            tensor,
                            layers: layers.collect(),
                            ..JointStageDocument::default()
                        });
                        self.stages(names, data, configurations, shape, stages, call);
                        stages.pop();
                    }
                }
            }
        }
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

/// Compares the solution of a case with all plans. Returns whether the solution is proved optimal, has a plan, is
/// infeasible, and has a bound that the checker proves.
fn compared(number: u64) -> [usize; 4] {
    let case = Case::random(number);
    let solution = case.solve();
    let (best, worst) = case.brute_force();
    let Some(value) = solution.value else {
        if solution.status == Status::Unknown {
            // The search for interleaved plans proves nothing.
            assert!(case.request.schedules.contains(&Schedule::Interleaved), "{number}");
            assert!(solution.bound.is_none_or(|bound| bound <= best), "{number}");
            return [0, 0, 0, 0];
        }
        assert_eq!(solution.status, Status::Infeasible, "{number}");
        assert_eq!(best, f64::INFINITY, "{number}: there is a plan");
        return [0, 0, 1, 0];
    };
    let bound = solution.bound.expect("a bound");
    let plan = case.document(&solution);
    let report = check_joint(&case.graph, &case.cluster, &plan).expect("documents");
    assert!(report.holds(), "{number}: {:?}", report.violations);
    let is_verified = report.bound == JointVerdict::Verified;
    // A bound above the best plan, in a plan that does not refute it.
    if let Some((greatest, mut plan)) = worst.filter(|worst| worst.0 > best * 1.001) {
        plan.bound.value_s = Some(best + (greatest - best) * 0.01);
        let report = check_joint(&case.graph, &case.cluster, &plan).expect("documents");
        assert_eq!(report.bound, JointVerdict::NotVerified, "{number}: {best} is possible");
    }
    assert!(bound <= best, "{number}: the bound is {bound}, but {best} is possible");
    assert!(value >= best * (1.0 - 1e-9), "{number}: {value} is below all plans, {best}");
    let is_optimal = solution.status == Status::Optimal;
    if is_optimal {
        assert!(value <= best * (1.0 + 1e-8), "{number}: {value} is not optimal, {best} is");
    }
    [usize::from(is_optimal), 1, 0, usize::from(is_verified)]
}

#[test]
fn bounds_and_plans_of_tiny_models_agree_with_all_plans() {
    // Threads, not a pool: a worker of a pool that waits for the pool of a solve begins other cases on its stack.
    let halves = std::thread::scope(|scope| {
        let halves = [0, 500].map(|first| {
            scope.spawn(move || (first..first + 500).map(compared).collect::<Vec<[usize; 4]>>())
        });
        halves.map(|half| half.join().expect("a half whose cases agree"))
    });
    let sum = |column: usize| halves.iter().flatten().map(|outcome| outcome[column]).sum::<usize>();
    let [optimal, planned, infeasible, verified] = [0, 1, 2, 3].map(sum);
    assert!(
        optimal > 300 && planned > 500 && infeasible > 20 && verified == planned,
        "{optimal} of {planned} optimal, {verified} verified, {infeasible} infeasible"
    );
}
