//! The minimum makespan over every placement and every priority.

use stagewright_core::cluster::DeviceId;
use stagewright_core::graph::OpId;
use stagewright_core::placement::Placement;
use stagewright_core::problem::Problem;
use stagewright_core::simulate::{Flow, Simulator, Template, Timeline};
use stagewright_core::tolerance::fits;

/// All permutations of `count` operators.
fn orders(count: usize) -> Vec<Vec<OpId>> {
    let mut orders: Vec<Vec<OpId>> = vec![Vec::new()];
    for op in (0..count as u32).map(OpId) {
        let longer = orders.iter().flat_map(|order| {
            (0..=order.len()).map(move |position| {
                let mut order = order.clone();
                order.insert(position, op);
                order
            })
        });
        orders = longer.collect();
    }
    orders
}

/// All orders in which every operator comes after its inputs.
fn linear_extensions(problem: &Problem) -> Vec<Vec<OpId>> {
    let graph = problem.graph();
    let mut orders: Vec<Vec<OpId>> = vec![Vec::new()];
    for _ in graph.operators() {
        let is_next = |order: &[OpId], op: OpId| {
            !order.contains(&op) && graph.predecessors(op).iter().all(|input| order.contains(input))
        };
        let longer = orders.iter().flat_map(|order| {
            graph
                .operators()
                .filter(|&op| is_next(order, op))
                .map(move |op| [order.as_slice(), &[op]].concat())
        });
        orders = longer.collect();
    }
    orders
}

/// Calls `show` with every feasible placement and its timeline: once without a priority, and once under each priority.
pub fn visit(problem: &Problem, show: impl FnMut(&Placement, &Timeline)) {
    visit_in_orders(problem, &orders(problem.graph().operator_count()), show);
}

/// Calls `show` with every feasible placement and its timeline: once without a priority, and once under each priority
/// in `orders`.
fn visit_in_orders(problem: &Problem, orders: &[Vec<OpId>], mut show: impl FnMut(&Placement, &Timeline)) {
    let (graph, cluster) = (problem.graph(), problem.cluster());
    let mut simulator = Simulator::new();
    let mut template = Template::new(problem);
    let mut flow = Flow::default();
    let mut device_of = vec![DeviceId(0); graph.operator_count()];
    loop {
        let runs = graph.operators().all(|op| {
            let device = device_of[op.index()];
            let first = graph.class(graph.class_of(op))[0];
            problem.seconds(op, problem.pool_of(device)).is_some() && device == device_of[first.index()]
        });
        if runs {
            let ordered =
                orders.iter().map(|order| Placement::with_priority(device_of.clone(), order.clone()));
            for placement in std::iter::once(Placement::new(device_of.clone())).chain(ordered) {
                flow = template.flow_of(&placement, flow);
                let timeline = simulator.run(&flow);
                if fits_everywhere(problem, timeline) {
                    show(&placement, timeline);
                }
            }
        }
        let last = cluster.device_count() as u32 - 1;
        let Some(position) = device_of.iter().position(|device| device.0 < last) else { return };
        device_of[position].0 += 1;
        device_of[..position].fill(DeviceId(0));
    }
}

/// Whether no device exceeds its memory.
pub fn fits_everywhere(problem: &Problem, timeline: &Timeline) -> bool {
    let cluster = problem.cluster();
    let mut peaks = cluster.devices().zip(timeline.peak_bytes());
    peaks.all(|(device, &bytes)| fits(bytes, cluster.memory(cluster.kind_of(device))))
}

/// The minimum makespan; `None` if every placement violates a constraint. Only priorities that rank every operator
/// after its inputs are tried, since the order in which operators start under any other priority is such a priority and
/// gives the same schedule.
pub fn optimum(problem: &Problem) -> Option<f64> {
    let mut best: Option<f64> = None;
    visit_in_orders(problem, &linear_extensions(problem), |_, timeline| {
        if best.is_none_or(|best| timeline.makespan() < best) {
            best = Some(timeline.makespan());
        }
    });
    best
}
