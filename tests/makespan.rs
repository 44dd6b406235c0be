//! One step under dataflow execution, on small random problems: the evaluation agrees with the independent checker,
//! with ports and without contention; in the timeline of a plan reported feasible no device exceeds its memory; and
//! `auto` announces the plan it returns.

use stagewright_testing::steps as problems;

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::time::Duration;

use problems::{placed, problem};
use rand::RngExt;
use stagewright::placement::placement;
use stagewright::portfolio;
use stagewright::report::document::{Provenance, plan_document};
use stagewright_core::bound::LowerBound;
use stagewright_core::cluster::DeviceId;
use stagewright_core::document::{Execution, PlanDocument};
use stagewright_core::evaluate::{Evaluation, Violation, evaluate};
use stagewright_core::graph::{Graph, TensorId};
use stagewright_core::objective::Objective;
use stagewright_core::placement::Placement;
use stagewright_core::problem::Problem;
use stagewright_core::seed;
use stagewright_core::simulate::{Flow, Simulator, Timeline};
use stagewright_core::solver::{Context, Event, Limits, Observer, Plan, Solution};
use stagewright_core::tolerance;
use stagewright_verify::{Report, ViolationKind, check};

/// Writes a plan as a document and reads it back.
fn written(problem: &Problem, placement: &Placement, evaluation: &Evaluation) -> PlanDocument {
    let plan = Plan { placement: placement.clone(), evaluation: evaluation.clone() };
    let solution = Solution::with_plan("none", plan, LowerBound::TRIVIAL, None);
    let provenance = Provenance { solver: "none".into(), seconds: 0.0, seed: 0 };
    let text = serde_json::to_string(&plan_document(problem, &solution, provenance)).expect("JSON");
    serde_json::from_str(&text).expect("the same document")
}

/// The violations that the checker should find. It computes figures only if it can determine when every operator runs.
fn expected(evaluation: &Evaluation, report: &Report) -> BTreeSet<ViolationKind> {
    let kind = |violation: &Violation| match violation {
        Violation::Unsupported { .. } => Some(ViolationKind::Support),
        Violation::Colocation { .. } => Some(ViolationKind::Colocation),
        Violation::Memory { .. } => report.value_s.map(|_| ViolationKind::PeakMemory),
        Violation::Priority { .. } => Some(ViolationKind::Priority),
        other => panic!("{other}"),
    };
    evaluation.violations.iter().filter_map(kind).collect()
}

/// The violations that the checker found, with pins counted as missing support, because the evaluation does not
/// distinguish the two. If an operator is on a device that must not run it, the evaluation gives it no time, so figures
/// are not compared.
fn found(report: &Report) -> BTreeSet<ViolationKind> {
    let kinds = report.violations.iter().map(|violation| match violation.kind {
        ViolationKind::Pins => ViolationKind::Support,
        kind => kind,
    });
    let mut kinds: BTreeSet<ViolationKind> = kinds.collect();
    if kinds.contains(&ViolationKind::Support) {
        kinds.retain(|kind| kind.breaks_feasibility() && *kind != ViolationKind::PeakMemory);
    }
    kinds
}

/// Evaluates a placement, writes it as a plan and checks the plan; asserts that both find the same violations.
pub(super) fn agreed(problem: &Problem, chosen: &Placement, number: u64) -> (Evaluation, Report) {
    let evaluation = evaluate(problem, chosen);
    let plan = written(problem, chosen, &evaluation);
    assert_eq!(placement(problem, &plan).as_ref(), Ok(chosen), "{number}");
    let report = check(problem.graph().document(), problem.cluster().document(), None, &plan);
    let report = report.expect("a sound problem");
    // The plan claims value, loads, peaks and uplinks, so agreement means that none of them is among the violations.
    let said = &report.violations;
    let mut expected = expected(&evaluation, &report);
    if expected.contains(&ViolationKind::Support) {
        expected.remove(&ViolationKind::PeakMemory);
    }
    assert_eq!(found(&report), expected, "{number}: {said:?}");
    assert_eq!(evaluation.is_feasible(), said.is_empty(), "{number}: {said:?}");
    (evaluation, report)
}

#[test]
fn evaluation_and_checker_agree_on_random_steps() {
    let mut seen = [0; 6];
    for number in 0..20_000 {
        let problem = problem(number);
        let chosen = placed(&problem, number);
        let (evaluation, report) = agreed(&problem, &chosen, number);
        let communicates = evaluation.devices.iter().any(|device| device.communication() > 0.0);
        let found = found(&report);
        seen[0] += u32::from(report.holds() && communicates);
        seen[1] += u32::from(report.holds() && !chosen.priority().is_empty());
        seen[2] += u32::from(evaluation.uplinks.iter().any(|load| load[0] > 0.0));
        seen[3] += u32::from(report.holds() && problem.cluster().document().matrix.is_some());
        seen[4] += u32::from(found.contains(&ViolationKind::PeakMemory));
        seen[5] += u32::from(found.contains(&ViolationKind::Priority));
    }
    assert!(seen.iter().all(|&count| count > 300), "{seen:?}");
}

/// The problem without contention, with the readers of each tensor in random order.
fn without_contention(problem: &Problem, number: u64) -> Problem {
    let mut rng = seed::stream(0x57EB, number);
    let mut graph = problem.graph().document().clone();
    for tensor in &mut graph.tensors {
        for index in 1..tensor.consumers.len() {
            tensor.consumers.swap(index, rng.random_range(0..=index));
        }
    }
    let graph = Graph::from_document(graph).expect("a sound graph");
    let objective = Objective::Makespan { execution: Execution::ContentionFree };
    Problem::pinned(graph, problem.cluster().clone(), objective, problem.pins().clone()).expect("a problem")
}

#[test]
fn evaluation_and_checker_agree_without_contention() {
    let mut seen = [0; 6];
    for number in 0..20_000 {
        let with_ports = problem(number);
        let problem = without_contention(&with_ports, number);
        let chosen = placed(&problem, number);
        let (evaluation, report) = agreed(&problem, &chosen, number);
        let matrix = problem.cluster().document().matrix.is_some();
        let found = found(&report);
        seen[0] += u32::from(report.holds() && !matrix);
        seen[1] += u32::from(report.holds() && matrix);
        seen[2] += u32::from(report.holds() && !chosen.priority().is_empty());
        seen[3] += u32::from(report.holds() && evaluation.value != evaluate(&with_ports, &chosen).value);
        seen[4] += u32::from(found.contains(&ViolationKind::PeakMemory));
        seen[5] += u32::from(found.contains(&ViolationKind::Priority));
    }
    assert!(seen.iter().all(|&count| count > 300), "{seen:?}");
}

/// Bytes on every device at a given time, computed from the half-open intervals of the timeline.
fn bytes_at(
    problem: &Problem,
    placement: &Placement,
    flow: &Flow,
    timeline: &Timeline,
    now: f64,
) -> Vec<f64> {
    let graph = problem.graph();
    let mut bytes = vec![0.0; problem.cluster().device_count()];
    let operators = timeline.operators();
    for op in graph.operators() {
        let (document, span) = (graph.operator(op), operators[op.index()]);
        let held = &mut bytes[placement.device_of(op).index()];
        *held += document.parameter_bytes + document.optimizer_bytes;
        *held += if graph.is_version_2() { document.activation_bytes } else { 0.0 };
        *held += if span.start <= now && now < span.end { document.workspace_bytes } else { 0.0 };
    }
    for (parameter, document) in graph.parameters().iter().enumerate() {
        let mut devices: Vec<_> =
            graph.readers(parameter).iter().map(|&op| placement.device_of(op)).collect();
        devices.sort_unstable();
        devices.dedup();
        for device in devices {
            bytes[device.index()] += document.bytes + document.optimizer_bytes;
        }
    }
    let last_reader = |tensor: TensorId, device: DeviceId| {
        let here = graph.consumers(tensor).iter().filter(|&&op| placement.device_of(op) == device);
        here.map(|op| operators[op.index()].end).fold(0.0, f64::max)
    };
    for tensor in graph.tensors() {
        let producer = graph.producer(tensor);
        let (home, made) = (placement.device_of(producer), operators[producer.index()]);
        let mut until = made.end.max(last_reader(tensor, home));
        for transfer in
            (0..flow.transfer_count() as u32).filter(|&transfer| flow.tensor_of(transfer) == tensor.0)
        {
            let moved = timeline.transfers()[transfer as usize];
            until = until.max(moved.end);
            for there in flow.destinations(transfer) {
                if moved.start <= now && now < last_reader(tensor, DeviceId(there)) {
                    bytes[there as usize] += graph.bytes(tensor);
                }
            }
        }
        let stays = graph.is_version_2() && graph.consumers(tensor).is_empty();
        if made.start <= now && (stays || now < until) {
            bytes[home.index()] += graph.bytes(tensor);
        }
    }
    bytes
}

#[test]
fn a_feasible_plan_never_holds_more_than_a_device_has() {
    let (mut feasible, mut limited, mut exact) = (0, 0, 0);
    let mut simulator = Simulator::new();
    for number in 0..4_000 {
        let problem = problem(number);
        let chosen = placed(&problem, number);
        let evaluation = evaluate(&problem, &chosen);
        if !evaluation.is_feasible() {
            continue;
        }
        feasible += 1;
        let flow = Flow::from_placement(&problem, &chosen);
        let timeline = simulator.run(&flow);
        let spans = || timeline.operators().iter().chain(timeline.transfers());
        let mut peaks = vec![0.0f64; problem.cluster().device_count()];
        for now in spans().map(|span| span.start) {
            for (peak, bytes) in peaks.iter_mut().zip(bytes_at(&problem, &chosen, &flow, timeline, now)) {
                *peak = peak.max(bytes);
            }
        }
        let takes_time = spans().all(|span| span.start < span.end);
        for device in &evaluation.devices {
            let (shown, limit) =
                (peaks[device.device.index()], problem.pools()[problem.pool_of(device.device)].memory);
            assert!(tolerance::fits(shown, limit), "{number}: {shown} of {limit}");
            // Activities of zero duration are in no interval, but count towards the peak.
            assert!(tolerance::fits(shown, device.memory_bytes), "{number}: {shown}, {device:?}");
            assert!(
                !takes_time || tolerance::same(shown, device.memory_bytes),
                "{number}: {shown}, {device:?}"
            );
            limited += u32::from(limit.is_finite());
            exact += u32::from(takes_time);
        }
    }
    assert!(feasible > 1_000 && limited > 1_000 && exact > 50, "{feasible}, {limited}, {exact}");
}

/// The values that a solver announced.
struct Announced(Vec<f64>);

impl Observer for Announced {
    fn event(&mut self, event: &Event) -> ControlFlow<()> {
        if let Event::Incumbent { value } = event {
            self.0.push(*value);
        }
        ControlFlow::Continue(())
    }
}

/// Without time, only a single device and the list schedulers are tried; observers receive these plans too.
#[test]
fn auto_announces_the_plans_that_it_begins_with() {
    let mut plans = 0;
    for number in 0..200 {
        let problem = problem(number);
        let auto = portfolio::auto(problem.objective()).expect("auto takes steps").solver;
        let limits = Limits { time: Some(Duration::ZERO), ..Limits::default() };
        let mut warm_start = None;
        // The second run starts from the answer of the first and announces nothing else.
        for limit in [usize::MAX, 1] {
            let mut announced = Announced(Vec::new());
            let mut context = Context::new(limits, &mut announced);
            context.warm_start = warm_start.take();
            let solution = auto.solve(&problem, &mut context).expect("an answer");
            assert_eq!(announced.0.last().copied(), solution.value(), "{number}: {:?}", announced.0);
            assert!(announced.0.len() <= limit, "{number}: {:?}", announced.0);
            plans += u32::from(solution.value().is_some());
            warm_start = solution.plan.map(|plan| plan.placement);
        }
    }
    assert!(plans > 100, "{plans}");
}
