//! Requests that are refused, and the reasons why given degrees have no plan.

use std::num::NonZeroU64;

use stagewright_core::document::{
    GraphDocument, KindDocument, Parallelism, RamDocument, RuntimeDocument, Schedule, ServerDocument,
};
use stagewright_core::seed;
use stagewright_core::solver::Status;
use stagewright_joint::iteration::{CutFault, ModelError, Problem, Request};

use super::inputs::{random_cluster, random_graph, random_runtime};
use super::{Case, layer_names};

/// A graph of two layers with attentions and 12 tokens in a sample, on four devices in servers of two.
fn case(request: Request) -> Result<Case, ModelError> {
    let has = |name: &str| format!("layer.{name}.scores");
    let mut graphs = (0..).map(|number| random_graph(&mut seed::stream(40, number)));
    let has_both = |graph: &GraphDocument| {
        let named = |name: &str| graph.operators.iter().any(|operator| operator.name == name);
        named(&has("0")) && named(&has("1"))
    };
    let mut graph = graphs.find(has_both).expect("a graph");
    graph.batch.as_mut().expect("a batch").tokens = NonZeroU64::new(12);
    let mut cluster = random_cluster(&mut seed::stream(40, 0));
    cluster.kinds.truncate(1);
    cluster.kinds[0].count = 4;
    cluster.kinds[0].memory_bytes = Some(1e9);
    let link = cluster.kinds[0].link.expect("a link");
    cluster.kinds[0].server = Some(ServerDocument { devices: 2, link });
    let problem = Problem::new(&graph, &layer_names(&graph), &cluster, request.clone())?;
    Ok(Case { graph, cluster, request, problem, heads: None })
}

fn request(parallel: &[(Parallelism, Option<u32>)], schedules: &[Schedule]) -> Request {
    Request {
        parallel: parallel.iter().copied().collect(),
        global_batch: 4,
        microbatch: None,
        schedules: schedules.to_vec(),
        chunks: None,
        cut: None,
        runtime: None,
    }
}

const PLAIN: &[Schedule] = &[Schedule::OneFOneB];
const INTERLEAVED: &[Schedule] = &[Schedule::Interleaved];
const DUALPIPE_V: &[Schedule] = &[Schedule::DualPipeV];

#[test]
fn chunks_belong_to_schedules_with_several_stages_per_device() {
    let any = [(Parallelism::Pp, None)];
    for (chunks, schedules, is_refused) in [
        (1, INTERLEAVED, true),
        (2, PLAIN, true),
        (2, INTERLEAVED, false),
        (2, DUALPIPE_V, false),
        (3, DUALPIPE_V, true),
    ] {
        let request = Request { chunks: Some(chunks), ..request(&any, schedules) };
        let error = case(request).err();
        let is_range = matches!(error, Some(ModelError::Range { what: "the number of chunks", .. }));
        assert_eq!(is_range, is_refused, "{chunks} {schedules:?}: {error:?}");
    }
}

#[test]
fn cuts_fit_the_layers_and_the_degrees() {
    let any = (Parallelism::Pp, None);
    let two = (Parallelism::Pp, Some(2));
    let without = (Parallelism::Dp, None);
    let stages = |stages| Some(CutFault::Stages { stages });
    let both = &[Schedule::OneFOneB, Schedule::Interleaved];
    for (cut, pp, schedules, chunks, fault) in [
        (&[1, 1][..], any, PLAIN, None, None),
        (&[1, 1], two, PLAIN, None, None),
        (&[0, 1, 1, 0], any, PLAIN, None, None),
        (&[0, 1, 1, 0], two, INTERLEAVED, Some(2), None),
        (&[0, 1, 1, 0], two, both, None, None),
        (&[0, 1, 1, 0], two, DUALPIPE_V, None, None),
        (&[1, 1], any, DUALPIPE_V, None, stages(2)),
        (&[2], without, PLAIN, None, None),
        (&[1, 2], any, PLAIN, None, Some(CutFault::Layers { found: 3, layers: 2 })),
        (&[], any, PLAIN, None, Some(CutFault::Layers { found: 0, layers: 2 })),
        (&[1, 0, 1], any, PLAIN, None, Some(CutFault::Stage { stage: 1 })),
        (&[1, 1], without, PLAIN, None, stages(2)),
        (&[0, 1, 1], two, PLAIN, None, stages(3)),
        (&[1, 1], any, INTERLEAVED, None, stages(2)),
        (&[0, 1, 1, 0], any, INTERLEAVED, Some(3), stages(4)),
        (&[0, 1, 1, 0], any, both, Some(3), stages(4)),
    ] {
        let request = Request { cut: Some(cut.to_vec()), chunks, ..request(&[pp], schedules) };
        let error = case(request).err();
        assert_eq!(error, fault.map(ModelError::Cut), "{cut:?} {pp:?} {schedules:?} {chunks:?}");
    }
}

#[test]
fn the_ends_of_a_cut_need_layers_beside_the_numbered_ones() {
    let plain = case(request(&[], PLAIN)).expect("a case");
    let numbered = |name: &Option<(String, bool)>| {
        let (layer, _) = name.clone()?;
        Some(match layer.as_str() {
            "embeddings" => ("layer.0".to_owned(), true),
            "head" => ("layer.1".to_owned(), true),
            _ => (layer, true),
        })
    };
    let names: Vec<_> = layer_names(&plain.graph).iter().map(numbered).collect();
    for (cut, stage) in [(vec![0, 2], 0), (vec![2, 0], 1)] {
        let request = Request { cut: Some(cut), ..request(&[(Parallelism::Pp, None)], PLAIN) };
        let error = Problem::new(&plain.graph, &names, &plain.cluster, request).err();
        assert_eq!(error, Some(ModelError::Cut(CutFault::Stage { stage })));
    }
}

#[test]
fn groups_of_one_copy_are_refused() {
    let error = case(request(&[(Parallelism::Shard, Some(1))], PLAIN)).err();
    assert!(matches!(error, Some(ModelError::Range { found: 1, .. })), "{error:?}");
}

#[test]
fn reasons_name_what_a_degree_does_not_divide() {
    use Parallelism::{Cp, Dp, Shard, Tp, Zero};
    let runtime = RuntimeDocument { fused_attention: false, ..random_runtime(&mut seed::stream(40, 0)) };
    for (parallel, runtime, reason) in [
        (
            &[(Cp, Some(5))][..],
            None,
            "cp 5 does not divide the 12 tokens of a sample into two equal parts for each device",
        ),
        (&[(Cp, Some(2))], Some(runtime), "cp 2 needs a runtime whose attentions run in one kernel"),
        (
            &[(Dp, Some(4)), (Shard, Some(3)), (Zero, Some(1))],
            None,
            "shard 3 does not divide the 4 copies of dp 4",
        ),
        (
            &[(Dp, Some(2)), (Cp, Some(2)), (Shard, Some(3)), (Zero, Some(1))],
            None,
            "shard 3 does not divide the 4 copies of dp 2 and cp 2",
        ),
        (
            &[(Tp, Some(2)), (Dp, Some(2)), (Cp, Some(2))],
            None,
            "tp 2, dp 2, cp 2 and pp 1 need 8 devices, and there are 4",
        ),
    ] {
        let case = case(Request { runtime, ..request(parallel, PLAIN) }).expect("a case");
        let solution = case.solve();
        assert_eq!((solution.status, solution.reason.as_deref()), (Status::Infeasible, Some(reason)));
    }
}

#[test]
fn what_is_on_the_host_is_0_or_1() {
    let error = case(request(&[(Parallelism::Offload, Some(2))], PLAIN)).err();
    assert!(matches!(error, Some(ModelError::Range { found: 2, range: "0 or 1", .. })), "{error:?}");
}

/// The reason why there is no plan with states on hosts, which have the memory `ram`.
fn refused(parallel: &[(Parallelism, Option<u32>)], ram: Option<RamDocument>) -> String {
    let mut case = case(request(&[], PLAIN)).expect("a case");
    case.cluster.kinds[0].ram = ram;
    let request = request(&[parallel, &[(Parallelism::Offload, Some(1))]].concat(), PLAIN);
    case.problem =
        Problem::new(&case.graph, &layer_names(&case.graph), &case.cluster, request).expect("a case");
    let solution = case.solve();
    assert_eq!(solution.status, Status::Infeasible);
    solution.reason.expect("a reason")
}

#[test]
fn reasons_name_the_memory_that_hosts_lack() {
    let ram = |bytes| RamDocument { memory_bytes: Some(bytes), bandwidth: 1.0, link_bandwidth: 1.0 };
    let reason = refused(&[], None);
    assert_eq!(reason, "offload 1 needs a kind of devices that states the memory of its host: add `ram`");
    let reason = refused(&[(Parallelism::Pp, None)], Some(ram(1e-3)));
    assert!(
        reason.starts_with("the host's memory for a device of kind kind0 has 0.0 GB; the states of the optimizer need at least")
            && reason.contains("ZeRO 0, states on the host and a microbatch of"),
        "{reason}"
    );
}

#[test]
fn kinds_without_hosts_have_no_stage_with_states_on_hosts() {
    let mut case = case(request(&[], PLAIN)).expect("a case");
    let ram = RamDocument { memory_bytes: None, bandwidth: 1.0, link_bandwidth: 1.0 };
    let slow = KindDocument { name: "slow".into(), ram: Some(ram), ..case.cluster.kinds[0].clone() };
    case.cluster.kinds.push(slow);
    for kind in &mut case.cluster.kinds {
        kind.count = 2;
    }
    let read = |case: &Case, parallel: &[(Parallelism, Option<u32>)]| {
        let request = request(parallel, PLAIN);
        Problem::new(&case.graph, &layer_names(&case.graph), &case.cluster, request).expect("a case")
    };
    let offload = (Parallelism::Offload, Some(1));
    case.problem = read(&case, &[(Parallelism::Pp, None), offload]);
    let solution = case.solve();
    assert!(!solution.stages.is_empty(), "{solution:?}");
    assert!(solution.stages.iter().all(|stage| stage.kind.as_deref() == Some("slow")), "{solution:?}");
    assert!(solution.stages.iter().all(|stage| stage.host_bytes.is_some()), "{solution:?}");
    case.problem = read(&case, &[(Parallelism::Dp, Some(4)), offload]);
    let reason = "tp 1, dp 4 and pp 1 need 4 devices, and there are 2 whose kinds state `ram`";
    assert_eq!(case.solve().reason.as_deref(), Some(reason));
}
