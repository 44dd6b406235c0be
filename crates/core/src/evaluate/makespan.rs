//! The makespan of one step under dataflow execution.

use super::constraint::{check_colocation, check_device_counts, check_replicas};
use super::{DeviceLoad, Evaluation, Violation};
use crate::objective::PassSums;
use crate::placement::Placement;
use crate::problem::Problem;
use crate::schedule::StageTimes;
use crate::simulate::{Flow, Ports, Simulator};
use crate::tolerance;

/// Evaluates a placement with [`Simulator`]. The load of a device is the time of its compute and of the transfers
/// through its ports, and its memory is the peak; the load of an uplink is the time of its transfers. Without
/// contention there are no ports, and the times of transfers are zero. The split rule is ignored.
pub(super) fn evaluate(problem: &Problem, placement: &Placement) -> Evaluation {
    let (graph, cluster) = (problem.graph(), problem.cluster());
    let flow = Flow::from_placement(problem, placement);
    let mut simulator = Simulator::new();
    let timeline = simulator.run(&flow);
    let (compute, by_port) = (flow.device_seconds(), flow.port_seconds());
    let carried = |port: u32| by_port.get(port as usize).copied().unwrap_or(0.0);
    let ports = Ports::new(problem);

    let mut violations = Vec::new();
    for op in graph.operators() {
        let device = placement.device_of(op);
        if problem.seconds(op, problem.pool_of(device)).is_none() {
            violations.push(Violation::Unsupported {
                operator: graph.operator(op).name.clone(),
                device: cluster.device_name(device),
            });
        }
    }
    let mut devices = Vec::new();
    for device in placement.used() {
        let sums = PassSums {
            compute: compute[device.index()],
            sent: carried(ports.egress(device)),
            received: carried(ports.ingress(device)),
            synchronised: 0.0,
        };
        let (bytes, limit) =
            (timeline.peak_bytes()[device.index()], problem.pools()[problem.pool_of(device)].memory);
        if !tolerance::fits(bytes, limit) {
            violations.push(Violation::Memory { device: cluster.device_name(device), bytes, limit });
        }
        devices.push(DeviceLoad {
            device,
            replicas: placement.replicas(device),
            pass_loads: [sums.compute + sums.sent + sums.received, 0.0],
            sums: [sums, PassSums::default()],
            synchronised: 0.0,
            times: StageTimes::default(),
            memory_bytes: bytes,
        });
    }
    check_colocation(problem, placement, &mut violations);
    check_replicas(problem, &devices, &mut violations);
    check_device_counts(problem, &devices, &mut violations);
    check_priority(problem, placement, &mut violations);
    let uplinks = (0..cluster.group_count()).map(|group| [carried(ports.uplink(group)), 0.0]);
    Evaluation {
        value: timeline.makespan(),
        devices,
        uplinks: uplinks.collect(),
        calls: Vec::new(),
        violations,
    }
}

/// Checks that the priority, if there is one, names every operator exactly once.
fn check_priority(problem: &Problem, placement: &Placement, violations: &mut Vec<Violation>) {
    if placement.priority().is_empty() {
        return;
    }
    let graph = problem.graph();
    let mut times = vec![0; graph.operator_count()];
    for op in placement.priority() {
        times[op.index()] += 1;
    }
    for (op, times) in graph.operators().zip(times).filter(|&(_, times)| times != 1) {
        violations.push(Violation::Priority { operator: graph.operator(op).name.clone(), times });
    }
}
