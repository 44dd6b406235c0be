//! Evaluation of placements for the makespan.

use std::collections::BTreeMap;

use stagewright_core::document::{
    Communication, Execution, ObjectiveDocument, ObjectiveKind, PinTargets, PinsDocument, Schedule, Split,
    Training,
};
use stagewright_core::evaluate::{Violation, evaluate};
use stagewright_core::objective::{Objective, ObjectiveError};
use stagewright_core::placement::Placement;

use super::model::{Model, devices, kind, link, ops};

/// a -> b, one second each. The tensor takes two seconds, or three over the uplink of the box to which the second kind
/// belongs.
fn pair() -> Model {
    let kinds = vec![kind("acc", 2, link(0.0, 1.0), None), kind("far", 1, link(0.0, 1.0), Some("box"))];
    let mut model = Model::on(kinds).group("box", link(1.0, 1.0));
    let [a, b] = [1.0; 2].map(|seconds| model.operator(seconds));
    model.tensor(a, &[b], 2.0);
    model.operators[a].parameter_bytes = 5.0;
    model
}

#[test]
fn the_value_is_the_makespan_and_loads_are_what_is_busy() {
    let model = pair();
    let evaluation = evaluate(&model.problem(), &Placement::new(devices(&[0, 2])));
    assert!(evaluation.is_feasible(), "{:?}", evaluation.violations);
    assert_eq!(evaluation.value, 5.0);
    assert_eq!(evaluation.uplinks, [[3.0, 0.0]]);
    assert!(evaluation.calls.is_empty());
    let [first, second] = &evaluation.devices[..] else { panic!("two devices") };
    assert_eq!((first.compute(), first.sums[0].sent, first.sums[0].received), (1.0, 3.0, 0.0));
    assert_eq!((second.compute(), second.sums[0].sent, second.sums[0].received), (1.0, 0.0, 3.0));
    assert_eq!((first.load(), first.memory_bytes, second.memory_bytes), (4.0, 7.0, 2.0));
}

#[test]
fn every_violation_is_named() {
    let violations = |model: &Model, placement: &Placement| evaluate(&model.problem(), placement).violations;
    let here = Placement::new(devices(&[0, 0]));
    assert_eq!(violations(&pair(), &here), []);

    let mut model = pair();
    model.operators[1].unsupported = vec!["acc".into()];
    let unsupported = |operator: &str, device: &str| Violation::Unsupported {
        operator: operator.into(),
        device: device.into(),
    };
    assert_eq!(violations(&model, &here), [unsupported("op1", "acc0")]);

    let mut model = pair();
    model.pins = PinsDocument([("op0".into(), PinTargets::One("acc1".into()))].into());
    assert_eq!(violations(&model, &here), [unsupported("op0", "acc0")]);

    let mut model = pair();
    model.operators.iter_mut().for_each(|operator| operator.colocation = Some("same".into()));
    let apart = Violation::Colocation { first: "op0".into(), second: "op1".into() };
    assert_eq!(violations(&model, &Placement::new(devices(&[0, 1]))), [apart]);

    let mut model = pair();
    model.kinds[0].memory_bytes = Some(7.0);
    assert_eq!(violations(&model, &here), []);
    model.operators[1].workspace_bytes = 1.0;
    let memory = Violation::Memory { device: "acc0".into(), bytes: 8.0, limit: 7.0 };
    assert_eq!(violations(&model, &here), [memory]);

    let twice = |replicas| {
        let stages = devices(&[0]);
        let replicas = BTreeMap::from([(stages[0], replicas)]);
        Placement::with_stages(devices(&[0, 0]), stages, replicas)
    };
    let replicas = |replicas| Violation::Replicas { device: "acc0".into(), replicas, most: 1 };
    assert_eq!(violations(&pair(), &twice(2)), [replicas(2)]);
    let devices_used = Violation::Devices { kind: "acc".into(), used: 3, count: 2 };
    assert_eq!(violations(&pair(), &twice(3)), [replicas(3), devices_used]);
}

#[test]
fn a_priority_names_every_operator_once() {
    let model = pair();
    let violations = |order: &[u32]| {
        evaluate(&model.problem(), &Placement::with_priority(devices(&[0, 0]), ops(order))).violations
    };
    assert_eq!(violations(&[1, 0]), []);
    let times = |operator: &str, times| Violation::Priority { operator: operator.into(), times };
    assert_eq!(violations(&[1]), [times("op0", 0)]);
    assert_eq!(violations(&[1, 0, 1]), [times("op1", 2)]);
}

#[test]
fn a_priority_is_followed_where_it_counts() {
    let mut model = Model::on(vec![kind("acc", 2, link(0.0, 1.0), None)]);
    let [a, _, c] = [2.0, 2.0, 5.0].map(|seconds| model.operator(seconds));
    model.tensor(a, &[c], 0.0);
    let problem = model.problem();
    let value =
        |order: &[u32]| evaluate(&problem, &Placement::with_priority(devices(&[0, 0, 1]), ops(order))).value;
    assert_eq!((value(&[0, 1, 2]), value(&[1, 0, 2])), (7.0, 9.0));
}

#[test]
fn rules_of_pipelines_are_refused() {
    let step = Objective::from(ObjectiveKind::Makespan).to_document(None);

    let objective = |change: &dyn Fn(&mut ObjectiveDocument)| {
        let mut document = step.clone();
        change(&mut document);
        Objective::from_document(&document)
    };
    // The split rule has no effect.
    for split in [Split::Contiguous, Split::Convex, Split::Free] {
        let objective = objective(&|document| document.split = split);
        assert_eq!(objective, Ok(Objective::Makespan { execution: Execution::Ports }));
    }
    let refused = |change: &dyn Fn(&mut ObjectiveDocument)| match objective(change) {
        Err(error @ ObjectiveError::OnlyForThroughput(..)) => error.to_string().contains("makespan"),
        _ => false,
    };
    assert!(refused(&|document| document.communication = Communication::Duplex));
    assert!(refused(&|document| document.training = Training::Separate));
    assert!(refused(&|document| document.schedule = Schedule::GPipe));
    assert!(refused(&|document| document.max_replicas = Some(2)));
    let calls = objective(&|document| document.calls = Some(2));
    assert_eq!(calls, Err(ObjectiveError::CallsWithoutLatency(2)));
}
