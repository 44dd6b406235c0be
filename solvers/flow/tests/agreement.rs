//! Plans and bounds of small random problems against all plans, and against the independent checker.

use rand::Rng;
use stagewright_core::document::{
    FlowEnd, FlowNodeDocument, FlowOutside, LAYER_PLAN_SCHEMA, LayerBoundDocument, LayerFlowDocument,
    LayerNodeDocument, LayerPlanDocument,
};
use stagewright_core::seed;
use stagewright_core::solver::{Context, Limits, Silent, Status};
use stagewright_core::tolerance;
use stagewright_flow::{Problem, Ranges, Request, Solution, hops, route, solve};
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
        hops: plan.map(|plan| hops(problem, &plan.ranges) as u32),
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
    let problem = Problem::new(document).expect("a problem");
    let mut observer = Silent;
    let mut context = Context::new(Limits::default(), &mut observer);
    let solution = solve(&problem, request, &mut context);
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
    let (is_ample, is_monotone) = (below(2) == 0, below(4) > 0);
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
        let mut rate = |scale: u64| if is_ample { 1000.0 } else { below(scale) as f64 };
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
        let is_short = hops(problem, ranges) <= max_hops;
        return if is_short { route(problem, ranges).flow } else { 0.0 };
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
        assert_eq!(solution.status == Status::Infeasible && best > 0.0, false, "{number}");
        proved += usize::from(matches!(solution.status, Status::Optimal | Status::Infeasible));
        found += usize::from(value >= best * (1.0 - 1e-9));
    }
    // Bounds of prices are relaxations; plans are searched for.
    assert!(proved >= cases as usize / 2, "{proved} of {cases} proved");
    assert!(found >= cases as usize * 98 / 100, "{found} of {cases} found");
}
