//! Plans and bounds of small random problems against all plans, and against the independent checker.

use rand::Rng;
use stagewright_core::document::{
    FlowEnd, FlowNodeDocument, FlowOutside, LAYER_PLAN_SCHEMA, LayerBoundDocument, LayerCertificateDocument,
    LayerFlowDocument, LayerNodeDocument, LayerPlanDocument, PlanStatus,
};
use stagewright_core::seed;
use stagewright_core::solver::{Context, Limits, Settings, Silent, Status};
use stagewright_core::tolerance;
use stagewright_flow::{Problem, Ranges, Request, Solution, route, solve};
use stagewright_verify::{LayerReport, LayerVerdict, check_layers};

/// The document of an answer.
pub(crate) fn document(problem: &Problem, request: &Request, solution: &Solution) -> LayerPlanDocument {
    let plan = solution.plan.as_ref();
    let value = plan.map(|plan| plan.flow);
    let nodes = plan.map_or_else(Vec::new, |plan| {
        let held =
            plan.ranges.iter().zip(&plan.routing.nodes).enumerate().filter(|(_, (range, _))| range.1 > 0);
        held.map(|(node, (&(first, layers), &flow))| LayerNodeDocument {
            node: node as u32,
            first: first as u32,
            layers: layers as u32,
            flow,
        })
        .collect()
    });
    LayerPlanDocument {
        schema: LAYER_PLAN_SCHEMA.into(),
        status: solution.status.into(),
        solver: stagewright_flow::NAME.into(),
        problem: problem.name.clone(),
        max_hops: request.max_hops,
        value,
        bound: LayerBoundDocument {
            value: Some(solution.bound.flow),
            source: solution.bound.source().into(),
            certificate: Some(solution.bound.certificate.clone()),
        },
        gap: value.map(|value| tolerance::gap(solution.bound.flow, value)),
        hops: plan.map(|plan| plan.routing.hops(&plan.ranges) as u32),
        seconds: 0.0,
        seed: 0,
        origin: None,
        stop: None,
        nodes,
        links: plan.map_or_else(Vec::new, |plan| plan.routing.links.clone()),
    }
}

/// Solves a problem, and checks the answer.
pub(crate) fn answered(document: &LayerFlowDocument, request: &Request) -> (Problem, Solution, LayerReport) {
    answered_with_seed(document, request, 0)
}

pub(crate) fn answered_with_seed(
    document: &LayerFlowDocument,
    request: &Request,
    seed: u64,
) -> (Problem, Solution, LayerReport) {
    let problem = Problem::new(document).expect("a problem");
    let mut observer = Silent;
    let settings = Settings { seed, ..Settings::from(Limits::default()) };
    let mut context = Context::new(settings, &mut observer);
    let solution = solve(&problem, request, &mut context).expect("threads");
    let plan = self::document(&problem, request, &solution);
    let report = check_layers(document, &plan).expect("documents");
    assert!(report.holds(), "{:?}\n{plan:?}", report.violations);
    assert!(matches!(report.bound, LayerVerdict::Verified { .. }), "{:?}", report.bound);
    (problem, solution, report)
}

fn random(number: u64) -> (LayerFlowDocument, Request) {
    let mut draws = seed::stream(number, 7);
    let mut below = |limit: u64| draws.next_u64() % limit;
    let (layers, count) = (2 + below(3) as u32, 2 + below(3));
    let (is_ample, is_monotone, is_sparse) = (below(2) == 0, below(4) > 0, below(2) == 0);
    let mut nodes: Vec<FlowNodeDocument> = Vec::new();
    for node in 0..count {
        // Some nodes are equal.
        if node > 0 && below(3) == 0 {
            nodes.push(nodes[node as usize - 1].clone());
            continue;
        }
        let mut throughput: Vec<f64> = (0..1 + below(3)).map(|_| 1.0 + below(40) as f64).collect();
        if is_monotone {
            throughput.sort_by(|a, b| b.total_cmp(a));
        }
        nodes.push(FlowNodeDocument { name: None, throughput });
    }
    let mut links = Vec::new();
    for node in 0..count as u32 {
        let mut rate = |scale: u64| match (is_ample, is_sparse && below(2) == 0) {
            (true, _) => 1000.0,
            (false, true) => 0.0,
            (false, false) => below(scale) as f64,
        };
        links.push((FlowEnd::Outside(FlowOutside::Source), FlowEnd::Node(node), rate(100)));
        links.push((FlowEnd::Node(node), FlowEnd::Outside(FlowOutside::Sink), rate(100)));
        for other in (0..count as u32).filter(|&other| other != node) {
            links.push((FlowEnd::Node(node), FlowEnd::Node(other), rate(60)));
        }
    }
    let max_hops = (below(3) == 0).then(|| 1 + below(4) as u32);
    (LayerFlowDocument { schema: None, name: "random".into(), layers, nodes, links }, Request { max_hops })
}

/// Maximum tokens per second over all ranges of all nodes.
fn best(problem: &Problem, max_hops: usize, ranges: &mut Ranges, node: usize) -> f64 {
    if node == problem.nodes() {
        let routing = route(problem, ranges);
        return if routing.hops(ranges) <= max_hops { routing.flow } else { 0.0 };
    }
    let mut largest: f64 = best(problem, max_hops, ranges, node + 1);
    for layers in 1..=problem.rates[node].len() {
        for first in 0..=problem.layers - layers {
            ranges[node] = (first, layers);
            largest = largest.max(best(problem, max_hops, ranges, node + 1));
        }
    }
    ranges[node] = (0, 0);
    largest
}

#[test]
fn bounds_and_plans_of_small_problems_agree_with_all_plans() {
    let (mut proved, mut found) = (0, 0);
    let cases = 120;
    for number in 0..cases {
        let (document, request) = random(number);
        let (problem, solution, report) = answered(&document, &request);
        let limit = request.max_hops.map_or(usize::MAX, |hops| hops as usize);
        let best = best(&problem, limit, &mut vec![(0, 0); problem.nodes()], 0);
        let value = report.value.unwrap_or(0.0);
        assert!(solution.bound.flow >= best * (1.0 - 1e-12), "{number}: {} < {best}", solution.bound.flow);
        assert!(value <= best * (1.0 + 1e-9), "{number}: {value} > {best}");
        assert!(solution.status != Status::Infeasible || best == 0.0, "{number}: {best}");
        proved += usize::from(matches!(solution.status, Status::Optimal | Status::Infeasible));
        found += usize::from(value >= best * (1.0 - 1e-9));
    }
    // Bounds of prices are relaxations; plans are searched for.
    assert!(proved >= cases as usize / 2, "{proved} of {cases} proved");
    assert!(found >= cases as usize * 98 / 100, "{found} of {cases} found");
}

/// Certificates and plans that claim too much; all problems have tokens that flow.
#[test]
fn forged_claims_are_refused() {
    let problem = |nodes: &[&[f64]], layers| {
        let ends = |node| {
            [FlowEnd::Outside(FlowOutside::Source), FlowEnd::Node(node), FlowEnd::Outside(FlowOutside::Sink)]
        };
        let mut links = Vec::new();
        for node in 0..nodes.len() as u32 {
            let [source, end, sink] = ends(node);
            links.extend([(source, end, 1000.0), (end, sink, 1000.0)]);
            links.extend(
                (0..nodes.len() as u32)
                    .filter(|&other| other != node)
                    .map(|other| (end, FlowEnd::Node(other), 1000.0)),
            );
        }
        let nodes =
            nodes.iter().map(|rates| FlowNodeDocument { name: None, throughput: rates.to_vec() }).collect();
        LayerFlowDocument { schema: None, name: "forged".into(), layers, nodes, links }
    };
    let bounded =
        |document: &LayerFlowDocument, max_hops, certificate: LayerCertificateDocument, source: &str| {
            let plan = LayerPlanDocument {
                schema: LAYER_PLAN_SCHEMA.into(),
                status: PlanStatus::Infeasible,
                solver: "forged".into(),
                problem: document.name.clone(),
                max_hops,
                value: None,
                bound: LayerBoundDocument {
                    value: Some(0.0),
                    source: source.into(),
                    certificate: Some(certificate),
                },
                gap: None,
                hops: None,
                seconds: 0.0,
                seed: 0,
                origin: None,
                stop: None,
                nodes: Vec::new(),
                links: Vec::new(),
            };
            let report = check_layers(document, &plan).expect("documents");
            assert_eq!(report.bound, LayerVerdict::Refuted, "{plan:?}");
            let empty = LayerPlanDocument { status: PlanStatus::Feasible, value: Some(5.0), ..plan };
            let report = check_layers(document, &empty).expect("documents");
            assert!(
                report.violations.iter().any(|violation| violation.kind == "figure"),
                "{:?}",
                report.violations
            );
        };
    // Equality up to rounding, a price of two digits, and a flow above zero.
    let three = problem(&[&[10.0], &[10.0], &[10.0]], 3);
    bounded(&three, Some(3), LayerCertificateDocument::Hops { flow: 0.0, price: 0.002 }, "hops");
    let one = problem(&[&[10.0, 10.0]], 2);
    bounded(&one, None, LayerCertificateDocument::Prices { flow: 0.0, prices: vec![1.5e-323] }, "prices");
    bounded(&one, None, LayerCertificateDocument::Prices { flow: 0.0, prices: vec![1.0] }, "prices");
    bounded(&three, None, LayerCertificateDocument::Chain { flow: 0.0, prices: vec![1.0; 3] }, "chain");
}
