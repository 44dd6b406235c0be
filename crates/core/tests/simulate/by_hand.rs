//! Cases worked by hand.

use stagewright_core::document::MatrixDocument;
use stagewright_core::placement::Placement;
use stagewright_core::simulate::{
    Activity, Cause, ContentionFree, CriticalStep, Flow, FlowBuilder, FlowError, Operator, OutBus, Rules,
    Span,
};

use super::model::{Model, devices, host, kind, link, operators, ops, run, transfers};

/// `count` devices of one kind, with links that take one second per byte.
fn accelerators(count: u32) -> Model {
    Model::on(vec![kind("acc", count, link(0.0, 1.0), None)])
}

#[test]
fn what_leaves_a_device_leaves_one_after_the_other() {
    let mut model = accelerators(3);
    let [a, b, c] = [1.0, 1.0, 1.0].map(|seconds| model.operator(seconds));
    model.tensor(a, &[b], 2.0);
    model.tensor(a, &[c], 3.0);
    let flow = Flow::from_placement(&model.problem(), &Placement::new(devices(&[0, 1, 2])));
    let timeline = run(&flow);
    assert_eq!(transfers(&timeline), [[1.0, 3.0], [3.0, 6.0]]);
    assert_eq!(operators(&timeline), [[0.0, 1.0], [3.0, 4.0], [6.0, 7.0]]);
    assert_eq!(flow.port_seconds(), [5.0, 0.0, 0.0, 0.0, 2.0, 3.0]);
    assert_eq!(flow.device_seconds(), [1.0, 1.0, 1.0]);
    assert_eq!(timeline.utilisation(3.5), 0.5);
}

#[test]
fn what_enters_a_device_enters_one_after_the_other() {
    let mut model = accelerators(3);
    let [a, b, c] = [1.0, 2.0, 1.0].map(|seconds| model.operator(seconds));
    model.tensor(b, &[c], 2.0);
    model.tensor(a, &[c], 3.0);
    let timeline = run(&Flow::from_placement(&model.problem(), &Placement::new(devices(&[0, 1, 2]))));
    // The transfer of the second tensor was requested first.
    assert_eq!(transfers(&timeline), [[4.0, 6.0], [1.0, 4.0]]);
    assert_eq!(timeline.makespan(), 7.0);
}

#[test]
fn the_first_in_line_keeps_its_port_from_those_behind() {
    // a -> c occupies the ports of a and c until 6. a -> d is first in line at d's port but waits for a's, and b -> d
    // waits behind it.
    let mut model = accelerators(4);
    let [a, b, c, d] = [1.0, 2.0, 1.0, 1.0].map(|seconds| model.operator(seconds));
    model.tensor(a, &[c], 5.0);
    model.tensor(a, &[d], 1.0);
    model.tensor(b, &[d], 1.0);
    let flow = Flow::from_placement(&model.problem(), &Placement::new(devices(&[0, 1, 2, 3])));
    let timeline = run(&flow);
    assert_eq!(transfers(&timeline), [[1.0, 6.0], [6.0, 7.0], [7.0, 8.0]]);
    let path = timeline.critical_path(&flow);
    let step = |activity, start, end, cause| CriticalStep { activity, span: Span { start, end }, cause };
    assert_eq!(
        path,
        [
            step(Activity::Operator(3), 8.0, 9.0, Cause::Input),
            step(Activity::Transfer(2), 7.0, 8.0, Cause::Port),
            step(Activity::Transfer(1), 6.0, 7.0, Cause::Port),
            step(Activity::Transfer(0), 1.0, 6.0, Cause::Input),
            step(Activity::Operator(0), 0.0, 1.0, Cause::Nothing),
        ]
    );
}

#[test]
fn requests_of_one_time_stand_by_tensor_then_destination() {
    let mut model = accelerators(3);
    let [a, b, c, d] = [1.0, 1.0, 0.0, 0.0].map(|seconds| model.operator(seconds));
    model.tensor(b, &[c], 1.0);
    model.tensor(a, &[d, c], 1.0);
    // a and b end at 1. a runs on device 0, b on 1, c on 2 and d on 1.
    let timeline = run(&Flow::from_placement(&model.problem(), &Placement::new(devices(&[0, 1, 2, 1]))));
    // Tensor 0 goes to device 2 before tensor 1 does. The transfer of tensor 1 to device 1 was requested before that to
    // device 2, and its ports are free.
    assert_eq!(transfers(&timeline), [[1.0, 2.0], [1.0, 2.0], [2.0, 3.0]]);
}

#[test]
fn an_operator_without_duration_asks_before_any_transfer_of_its_time_starts() {
    let mut model = accelerators(2);
    let [a, b, c] = [1.0, 0.0, 1.0].map(|seconds| model.operator(seconds));
    let first = model.tensor(b, &[c], 2.0);
    let second = model.tensor(a, &[c], 2.0);
    model.tensor(a, &[b], 0.0);
    let timeline = run(&Flow::from_placement(&model.problem(), &Placement::new(devices(&[0, 0, 1]))));
    assert_eq!(operators(&timeline)[b], [1.0, 1.0]);
    assert_eq!(transfers(&timeline)[first], [1.0, 3.0]);
    assert_eq!(transfers(&timeline)[second], [3.0, 5.0]);
}

#[test]
fn an_operator_does_not_wait_for_a_transfer_that_takes_no_time() {
    let mut model = accelerators(2);
    let [far, busy, urgent, other] = [1.0; 4].map(|seconds| model.operator(seconds));
    model.tensor(far, &[urgent], 0.0);
    let on = Placement::with_priority(
        devices(&[1, 0, 0, 0]),
        ops(&[urgent, busy, other, far].map(|op| op as u32)),
    );
    let timeline = run(&Flow::from_placement(&model.problem(), &on));
    // At 1 `other` is ready. `urgent` is not ready before its transfer has started, and transfers start after operators
    // do.
    assert_eq!(operators(&timeline)[urgent], [2.0, 3.0]);
    assert_eq!(operators(&timeline)[other], [1.0, 2.0]);
}

#[test]
fn uplinks_are_shared_and_slow_what_crosses_them() {
    let near = kind("near", 2, link(0.0, 1.0), Some("box"));
    let far = kind("far", 2, link(1.0, 1.0), None);
    let mut model = Model::on(vec![near, far]).group("box", link(3.0, 2.0));
    let [a, b, c, d, e] = [1.0; 5].map(|seconds| model.operator(seconds));
    model.tensor(a, &[b, c], 1.0);
    model.tensor(b, &[d], 1.0);
    model.tensor(b, &[e], 4.0);
    // near0, near1, far0 and far1 are devices 0 to 3; e stays in the box.
    let timeline = run(&Flow::from_placement(&model.problem(), &Placement::new(devices(&[0, 1, 2, 3, 0]))));
    // a to near1 takes 1 inside the box. a to far0 crosses the uplink in 3 + 2 seconds, after the transfer to near1 has
    // left a's port: 2 to 7. b ends at 3, but its transfer to far1 needs the uplink, which is free at 7; it waits for
    // the uplink as the first in line at its own port. Then follow the 4 seconds of the tensor that e reads.
    assert_eq!(transfers(&timeline), [[1.0, 2.0], [2.0, 7.0], [7.0, 12.0], [12.0, 16.0]]);
}

#[test]
fn hosts_have_no_ports_and_pay_only_the_link_of_the_other_end() {
    let mut model = Model::on(vec![kind("acc", 2, link(0.0, 1.0), None), host(2, None)]);
    let [a, b, c, d] = [1.0; 4].map(|seconds| model.operator(seconds));
    model.tensor(a, &[b, c, d], 2.0);
    // host0 sends to both accelerators at the same time, and to the other host at no cost.
    let timeline = run(&Flow::from_placement(&model.problem(), &Placement::new(devices(&[2, 0, 1, 3]))));
    assert_eq!(transfers(&timeline), [[1.0, 3.0], [1.0, 3.0], [1.0, 1.0]]);
}

#[test]
fn a_matrix_says_how_long_and_ports_still_carry_one_at_a_time() {
    let mut model = accelerators(3);
    let [a, b, c] = [1.0; 3].map(|seconds| model.operator(seconds));
    model.tensor(a, &[b, c], 2.0);
    model.matrix = Some(MatrixDocument {
        delay_s: vec![vec![0.0, 1.0, 2.0], vec![9.0; 3], vec![9.0; 3]],
        seconds_per_byte: vec![vec![0.0, 0.5, 3.0], vec![9.0; 3], vec![9.0; 3]],
    });
    let timeline = run(&Flow::from_placement(&model.problem(), &Placement::new(devices(&[0, 1, 2]))));
    assert_eq!(transfers(&timeline), [[1.0, 3.0], [3.0, 11.0]]);
}

#[test]
fn a_tensor_goes_once_to_each_device_that_reads_it() {
    let mut model = accelerators(3);
    let [a, b, c, d, e] = [1.0; 5].map(|seconds| model.operator(seconds));
    model.tensor(a, &[e, d, c, b], 2.0);
    let flow = Flow::from_placement(&model.problem(), &Placement::new(devices(&[0, 1, 1, 2, 0])));
    let timeline = run(&flow);
    assert_eq!(transfers(&timeline), [[1.0, 3.0], [3.0, 5.0]]);
    // Both readers on device 1 are ready at 3, and the lower index runs first. The reader on the home device need not
    // wait.
    assert_eq!(operators(&timeline)[b..], [[3.0, 4.0], [4.0, 5.0], [5.0, 6.0], [1.0, 2.0]]);
    assert_eq!(
        (0..2).map(|transfer| flow.destinations(transfer).collect()).collect::<Vec<Vec<_>>>(),
        [[1], [2]]
    );
    assert_eq!([flow.tensor_of(1), flow.producer_of(1)], [0, 0]);
}

#[test]
fn queues_go_by_priority_or_else_by_time_and_index() {
    let mut model = accelerators(2);
    // Without a priority, x keeps device 0 busy until 4. a and b are ready at 1.5, c when early has run.
    let [a, b, c, x, late, early] = [1.0, 1.0, 1.0, 4.0, 1.5, 1.0].map(|seconds| model.operator(seconds));
    model.tensor(early, &[c], 0.0);
    model.tensor(late, &[b, a], 0.0);
    let on = devices(&[0, 0, 0, 0, 1, 0]);
    let problem = model.problem();
    let starts = |placement: &Placement| -> Vec<f64> {
        run(&Flow::from_placement(&problem, placement)).operators().iter().map(|span| span.start).collect()
    };
    // x has the lowest index of the operators ready at 0. Then run early, also ready at 0, then a and b, then c, which
    // is ready at 5.
    assert_eq!(starts(&Placement::new(on.clone())), [5.0, 6.0, 7.0, 0.0, 0.0, 4.0]);
    let by = |order: &[usize]| {
        let order: Vec<u32> = order.iter().map(|&op| op as u32).collect();
        starts(&Placement::with_priority(on.clone(), ops(&order)))
    };
    assert_eq!(by(&[early, x, c, b, a, late]), [7.0, 6.0, 5.0, 1.0, 0.0, 0.0]);
    assert_eq!(by(&[c, b, early, a, x, late]), [3.0, 2.0, 1.0, 4.0, 0.0, 0.0]);
}

#[test]
fn memory_is_held_from_start_to_last_need() {
    let mut model = accelerators(2);
    let [a, b, c] = [1.0, 1.0, 2.0].map(|seconds| model.operator(seconds));
    model.tensor(a, &[b, c], 4.0);
    model.tensor(a, &[], 100.0);
    model.tensor(b, &[], 10.0);
    model.operators[a].parameter_bytes = 1000.0;
    model.operators[b].optimizer_bytes = 2000.0;
    model.operators[c].workspace_bytes = 30.0;
    model.operators[c].activation_bytes = 1e9;
    let problem = model.problem();
    // a holds 104; its unread output is freed when it ends. b adds 10 to the 4 bytes that are being sent until 5.
    let timeline = run(&Flow::from_placement(&problem, &Placement::new(devices(&[0, 0, 1]))));
    assert_eq!(timeline.peak_bytes(), [3104.0, 34.0]);
    let timeline = run(&Flow::from_placement(&problem, &Placement::new(devices(&[0, 1, 1]))));
    // On device 1, b runs from 5 with 10 bytes, then c with 30; the 4 bytes stay until both have read them.
    assert_eq!(timeline.peak_bytes(), [1104.0, 2034.0]);
}

#[test]
fn what_ends_makes_room_for_what_starts() {
    let mut model = accelerators(1);
    let [a, b, c] = [1.0; 3].map(|seconds| model.operator(seconds));
    model.tensor(a, &[b], 5.0);
    model.tensor(b, &[c], 7.0);
    model.operators[c].workspace_bytes = 6.0;
    let timeline = run(&Flow::from_placement(&model.problem(), &Placement::new(devices(&[0, 0, 0]))));
    // 5 bytes, then 5 + 7 while b runs, then 7 + 6.
    assert_eq!(timeline.peak_bytes(), [13.0]);
}

#[test]
fn of_two_edges_between_a_pair_the_last_output_counts_at_the_place_of_the_first() {
    let step = OutBus {
        devices: 2,
        placement: &[0, 1, 1],
        seconds: &[1.0, 1.0, 0.0],
        output_bytes: &[vec![10.0, 20.0], vec![], vec![]],
        edges: &[(0, 1, 0), (0, 2, 0), (0, 1, 1)],
        launch_gap: 5.0,
        bus_gap: 2.0,
        bytes_per_second: 10.0,
    };
    let timeline = run(&step.flow().expect("a sound step"));
    // Output 1 is sent first, from 1 to 3, and output 0 after the gap, from 5 to 6. The bus then pauses until 8, device
    // 1 until 9.
    assert_eq!(transfers(&timeline), [[1.0, 3.0], [5.0, 6.0]]);
    assert_eq!(operators(&timeline), [[0.0, 1.0], [3.0, 4.0], [9.0, 9.0]]);
    assert_eq!(timeline.makespan(), 9.0);
}

#[test]
fn the_last_gap_counts() {
    let step = OutBus {
        devices: 1,
        placement: &[0],
        seconds: &[1.0],
        output_bytes: &[vec![]],
        edges: &[],
        launch_gap: 5.0,
        bus_gap: 0.0,
        bytes_per_second: 1.0,
    };
    assert_eq!(run(&step.flow().expect("a sound step")).makespan(), 6.0);
}

#[test]
fn an_empty_step_takes_no_time() {
    let flow = FlowBuilder::new(Rules::PORTS, 0, 0, false).finish().expect("a sound flow");
    let timeline = run(&flow);
    assert_eq!((timeline.makespan(), timeline.utilisation(0.0)), (0.0, 0.0));
    assert!(timeline.critical_path(&flow).is_empty());
}

/// At 3, the tensor for operator 4 arrives before operator 1 ends. But operator 4 must first receive it and request the
/// device, while 2 is already waiting and starts first. So at 5, operator 2 ends before 4, and 3 requests the device
/// before 5.
#[test]
fn without_contention_what_follows_at_one_time_waits_for_its_turn() {
    let edges = [(0, 1, 1.0), (0, 2, 2.0), (0, 3, 1.0), (0, 4, 1.0), (2, 3, 0.0), (4, 5, 0.0)];
    let step = ContentionFree {
        placement: &[1, 1, 1, 1, 0, 1],
        seconds: &[2.0, 1.0, 2.0, 1.0, 2.0, 3.0],
        edges: &edges,
        delay: &[vec![0.0; 2], vec![0.0; 2]],
        seconds_per_byte: &[vec![0.0, 1.0], vec![1.0, 0.0]],
    };
    let timeline = run(&step.flow().expect("a sound step"));
    let starts: Vec<f64> = timeline.operators().iter().map(|span| span.start).collect();
    assert_eq!(starts, [0.0, 2.0, 3.0, 5.0, 3.0, 6.0]);
    assert_eq!(timeline.makespan(), 9.0);
}

#[test]
fn what_makes_no_flow_is_named() {
    let operator = Operator::default();
    let error = |change: &dyn Fn(&mut FlowBuilder)| {
        let mut flow = FlowBuilder::new(Rules::PORTS, 2, 1, false);
        flow.operator(operator);
        flow.operator(Operator { device: 1, ..operator });
        change(&mut flow);
        flow.finish().err().map(|error| error.to_string())
    };
    assert_eq!(error(&|_| {}), None);
    let says = |words: &str, change: &dyn Fn(&mut FlowBuilder)| {
        assert_eq!(error(change).as_deref(), Some(words));
    };
    says("device of operator 2 is 2, expected less than 2", &|flow| {
        flow.operator(Operator { device: 2, ..operator });
    });
    says("seconds of operator 2 is NaN, expected a finite number of at least 0", &|flow| {
        flow.operator(Operator { seconds: f64::NAN, ..operator });
    });
    says("bytes of copy 0 is -1, expected a finite number of at least 0", &|flow| {
        flow.tensor(0, -1.0, []);
    });
    says("the sum with seconds of operator 3 exceeds 1e200", &|flow| {
        flow.operator(Operator { seconds: 9e199, ..operator });
        flow.operator(Operator { seconds: 9e199, ..operator });
    });
    says("port of transfer 0 is 1, expected less than 1", &|flow| {
        flow.tensor(0, 1.0, []);
        flow.transfer(1.0, 0.0, [1]);
        flow.copy(1, [1]);
    });
    says("reader of copy 0 is 2, expected less than 2", &|flow| {
        flow.tensor(0, 1.0, [2]);
    });
    says("operator 1 reads copy 0, which is on another device", &|flow| {
        flow.tensor(0, 1.0, [1]);
    });
    says("2 operators are on a cycle or behind one", &|flow| {
        for (from, to) in [(0, 1), (1, 0)] {
            flow.tensor(from, 1.0, []);
            flow.transfer(1.0, 0.0, [0]);
            flow.copy(to, [to]);
        }
    });

    let matrix = [vec![0.0]];
    let free = ContentionFree {
        placement: &[0, 0],
        seconds: &[1.0, 1.0],
        edges: &[(0, 1, 1.0)],
        delay: &matrix,
        seconds_per_byte: &matrix,
    };
    assert!(free.flow().is_ok());
    let error = |step: ContentionFree<'_>| step.flow().err().map(|error| error.to_string());
    let says = |step, words: &str| assert_eq!(error(step).as_deref(), Some(words));
    says(ContentionFree { placement: &[0], ..free }, "1 devices of operators, expected 2");
    says(ContentionFree { placement: &[0, 1], ..free }, "device of operator 1 is 1, expected less than 1");
    says(ContentionFree { edges: &[(0, 2, 1.0)], ..free }, "end of edge 0 is 2, expected less than 2");
    says(ContentionFree { delay: &[vec![]], ..free }, "0 columns of a matrix, expected 1");
    let bus = OutBus {
        devices: 1,
        placement: &[0, 0],
        seconds: &[1.0, 1.0],
        output_bytes: &[vec![1.0], vec![]],
        edges: &[(0, 1, 1)],
        launch_gap: 0.0,
        bus_gap: 0.0,
        bytes_per_second: 1.0,
    };
    let unknown = FlowError::Unknown { what: "output read of operator", at: 0, index: 1, count: 1 };
    assert_eq!(bus.flow().err(), Some(unknown));
    let beyond = FlowError::Unknown { what: "device of operator", at: 1, index: 3, count: 1 };
    assert_eq!(OutBus { placement: &[0, 3], edges: &[(0, 1, 0)], ..bus }.flow().err(), Some(beyond));
}
