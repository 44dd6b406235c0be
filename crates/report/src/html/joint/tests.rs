use stagewright_core::document::{
    ClassDocument, ClusterDocument, ContextExchange, JOINT_PLAN_SCHEMA, JointBoundDocument,
    JointExecutionDocument, JointLayerDocument, JointObjectiveDocument, JointObjectiveKind,
    JointPartsDocument, JointPlanDocument, JointStageDocument, KindDocument, OriginDocument, Parallelism,
    PlanStatus, RecomputeWorkspace, Schedule, SourcesDocument, ThroughputDocument,
};

use super::{JointPage, write};
use crate::joint::JointFigures;

const GIB: f64 = 1024.0 * 1024.0 * 1024.0;

/// A stage of four layers, one of which is recomputed: one second forward, two backward, and half a second after both.
fn stage(index: usize) -> JointStageDocument {
    let layer = |number: usize| JointLayerDocument {
        layer: format!("decoder.layer.{}", 4 * index + number),
        configuration: if number == 3 { "full" } else { "none" }.into(),
    };
    JointStageDocument {
        kind: Some("gpu".into()),
        mixed: Default::default(),
        data: 2,
        tensor: 4,
        in_flight: 2,
        seconds: 3.0,
        forward_s: Some(1.0),
        weight_s: None,
        update_s: Some(0.5),
        memory_bytes: 3.0 * GIB,
        state_bytes: Some(GIB),
        host_bytes: None,
        activation_bytes: Some(GIB),
        layers: (0..4).map(layer).collect(),
    }
}

/// A plan of equal stages, with one device each.
fn plan(schedule: Schedule, stages: usize, microbatches: u32) -> JointPlanDocument {
    let kind = KindDocument {
        memory_bytes: Some(5.0 * GIB),
        reserve_bytes: Some(GIB),
        ..KindDocument::named("gpu", 64)
    };
    let class = ClassDocument { peak_flops: Some(1e12), ..ClassDocument::default() };
    JointPlanDocument {
        schema: JOINT_PLAN_SCHEMA.into(),
        status: PlanStatus::Feasible,
        solver: "test".into(),
        model: "model".into(),
        options: None,
        cluster: Some(ClusterDocument {
            classes: [("gpu".to_owned(), class)].into(),
            kinds: vec![kind],
            ..ClusterDocument::new("cluster")
        }),
        objective: JointObjectiveDocument {
            kind: JointObjectiveKind::Iteration,
            parallel: [(Parallelism::Tp, Some(4)), (Parallelism::Pp, None)].into(),
            global_batch: 48,
            microbatch: None,
            schedules: vec![schedule],
            chunks: None,
            cut: None,
            recompute_workspace: RecomputeWorkspace::Max,
            runtime: None,
            value_s: Some(24.0),
        },
        bound: JointBoundDocument { value_s: Some(18.0), source: "bound".into() },
        gap: Some(0.25),
        seconds: 0.1,
        origin: Some(OriginDocument {
            date: Some("2024-02-29T12:34:56Z".into()),
            command: Some("stagewright plan '<model>'".into()),
            ..OriginDocument::of_library()
        }),
        stop: None,
        reason: None,
        throughput: Some(ThroughputDocument {
            batches_per_s: 2.0 / 3.0,
            samples_per_s: Some(2.0),
            tokens_per_s: Some(200.0),
        }),
        sources: Some(SourcesDocument { measured: 0.25, guessed: 0.75, ..SourcesDocument::default() }),
        execution: Some(JointExecutionDocument {
            microbatch: 3,
            microbatches,
            data: 2,
            expert: 1,
            zero: 1,
            schedule,
            chunks: 1,
            context: 1,
            exchange: None,
            shards: None,
            offload: false,
        }),
        stages: (0..stages).map(stage).collect(),
    }
}

fn page_with(document: &JointPlanDocument, parts: Option<&[JointPartsDocument]>) -> String {
    let figures = JointFigures { flop: 1e12 };
    let page = JointPage {
        model: &document.model,
        cluster: Some("a <cluster>"),
        document,
        parts,
        figures,
        comparison: None,
    };
    let mut bytes = Vec::new();
    write(&page, &mut bytes).expect("memory takes what is written");
    String::from_utf8(bytes).expect("text is written")
}

fn page(document: &JointPlanDocument) -> String {
    page_with(document, None)
}

/// The JSON data of a page.
fn data(page: &str) -> serde_json::Value {
    let (_, rest) = page.split_once("id=\"scene\">").expect("data");
    serde_json::from_str(rest.split_once("</script>").expect("an end").0).expect("JSON")
}

/// A column of a row of the timeline.
fn column(data: &serde_json::Value, row: usize, name: &str) -> Vec<u64> {
    let column = data["timeline"]["rows"][row][name].as_array().expect("a column").iter();
    column.map(|number| number.as_u64().expect("a number")).collect()
}

#[test]
fn a_plan_has_all_sections() {
    let page = page(&plan(Schedule::OneFOneB, 4, 8));
    assert!(!page.contains("{{"), "a place of the template is empty");
    for part in [
        "<title>model on a &lt;cluster&gt;</title>",
        "time of an iteration of 48 samples",
        "No plan is better by more than",
        "2.0000 samples per second, 200.00 tokens per second",
        "<dt>utilisation</dt><dd>6.25% of the peak of its devices</dd>",
        "<dt>costs</dt><dd>25% measured, 75% guessed</dd>",
        "<dt>command</dt><dd><code><bdi>stagewright plan &#39;&lt;model&gt;&#39;</bdi></code></dd>",
        "<dt>date</dt><dd><bdi>2024-02-29T12:34:56Z</bdi></dd>",
        "id=\"origin-table\"",
        "<dt>devices</dt><dd>32 of 64 in use</dd>",
        "<dt>tp</dt><dd>4</dd>",
        "<dt>microbatches</dt><dd>8 of 3 samples</dd>",
        "<dt>schedule</dt><dd>1F1B</dd>",
        "<dt>allowed</dt><dd>tp=4, pp</dd>",
        "id=\"stage-table\"",
        "<bdi>decoder.layer.0</bdi> to <bdi>3</bdi> <small>4 layers: 1 <bdi>full</bdi>, 3 <bdi>none</bdi></small>",
        "of 4.0 GiB",
        "<summary><bdi>decoder.layer.0</bdi> to <bdi>2</bdi></summary><ul><li><bdi>decoder.layer.0</bdi></li>",
        "data-pass=\"1\"></i>backward",
    ] {
        assert!(page.contains(part), "{part} is not in {page}");
    }
    // Three equal layers and one that is recomputed on each of four stages.
    let (_, layers) = page.split_once("id=\"layer-table\"").expect("a table");
    assert_eq!(layers.split_once("</table>").expect("its end").0.matches("<th scope=\"row\">").count(), 8);
    assert!(!page.contains("does not fit"));
}

#[test]
fn parts_are_stacked_up_to_the_limit() {
    let mut plan = plan(Schedule::OneFOneB, 2, 8);
    plan.stages[1].memory_bytes = 8.0 * GIB;
    let part = |seconds, bytes| JointPartsDocument {
        compute_s: seconds,
        // A rounding error, which is not a part.
        recompute_s: -1e-20,
        transfer_s: 3.0 - seconds,
        parameter_bytes: bytes,
        workspace_bytes: bytes,
        ..JointPartsDocument::default()
    };
    let page = page_with(&plan, Some(&[part(2.0, GIB), part(3.0, 4.0 * GIB)]));
    let (_, rest) = page.split_once("class=\"devices stages\"").expect("bars");
    let (bars, _) = rest.split_once("</ul>").expect("their end");
    for part in [
        "aria-label=\"time: compute 2.0000 s, transfers 1.0000 s\"",
        "<rect class=\"d0\" x=\"0.0\" width=\"666.7\" height=\"10\"><title>compute 2.0000 s</title></rect>",
        "<rect class=\"d1\" x=\"666.7\" width=\"333.3\"",
        // The other stage uses eight GiB.
        "aria-label=\"memory: parameters 1.0 GiB, workspace 1.0 GiB, other 1.0 GiB\"",
        "<rect class=\"room\" width=\"500.0\" height=\"10\"/>",
        "<rect class=\"limit\" x=\"494.0\"",
        "<b>does not fit</b>",
    ] {
        assert!(bars.contains(part), "{part} is not in {bars}");
    }
    assert!(!page.contains("recomputation"));
    // A part of one stage may be absent from another; missing figures leave the rest empty.
    page_with(&plan, Some(&[]));
}

#[test]
fn the_timeline_has_every_pass() {
    let data = data(&page(&plan(Schedule::OneFOneB, 4, 8)));
    assert_eq!(
        (&data["timeline"]["microbatches"], &data["timeline"]["axis"][4]),
        (&8.into(), &"33.500 s".into())
    );
    for row in 0..4 {
        let operators = column(&data, row, "operator");
        let passes = column(&data, row, "pass");
        assert_eq!(operators.len(), 17, "two passes of each microbatch, and the update");
        assert!(operators[..16].iter().all(|operator| operator / 8 == row as u64));
        assert_eq!(passes.iter().filter(|&&pass| pass == 1).count(), 8);
        assert_eq!(passes[16], 2, "the update is last");
    }
    // The first stage works alone for a second, and the last begins in the fourth.
    assert_eq!(data["seconds"]["text"][column(&data, 3, "from")[0] as usize], "3.0000 s");
}

#[test]
fn chunks_share_a_device() {
    let mut plan = plan(Schedule::Interleaved, 4, 8);
    plan.execution.as_mut().expect("an execution").chunks = 2;
    let page = page(&plan);
    let data = data(&page);
    assert_eq!(data["timeline"]["rows"].as_array().map(Vec::len), Some(2));
    let mut stages: Vec<u64> =
        column(&data, 1, "operator")[..32].iter().map(|operator| operator / 8).collect();
    stages.sort_unstable();
    stages.dedup();
    assert_eq!(stages, [1, 3]);
    for part in ["16 of 64 in use", "stage 3 <small>device 1, ", "interleaved 1F1B, 2 stages of a device"] {
        assert!(page.contains(part), "{part}");
    }
    assert!(page.contains("other stages and workspace 1.0 GiB"));
    // The updates of both stages of a device.
    assert!(page.contains("the update after them, 1.0000 s"), "{page}");
}

#[test]
fn stages_of_a_v_are_on_the_first_device_again() {
    let mut plan = plan(Schedule::DualPipeV, 4, 8);
    plan.execution.as_mut().expect("an execution").chunks = 2;
    let page = page(&plan);
    assert_eq!(data(&page)["timeline"]["rows"].as_array().map(Vec::len), Some(2));
    for part in ["stage 3 <small>device 0, ", "stage 2 <small>device 1, ", "DualPipeV"] {
        assert!(page.contains(part), "{part}");
    }
}

#[test]
fn weight_gradients_are_passes_of_their_own() {
    // The update of the first stage begins after those of all stages, or after its own passes without a bubble.
    for (schedule, update) in [(Schedule::ZeroBubble, "27.000 s"), (Schedule::ZeroBubbleTwice, "24.000 s")] {
        let mut plan = plan(schedule, 4, 8);
        for stage in &mut plan.stages {
            (stage.seconds, stage.forward_s, stage.weight_s) = (3.0, Some(1.0), Some(1.0));
        }
        let page = page(&plan);
        assert!(page.contains("data-pass=\"5\"></i>weight gradients"));
        let times = "aria-label=\"time: forward 1.0000 s, backward 1.0000 s, weight gradients 1.0000 s\"";
        assert!(page.contains(times));
        let data = data(&page);
        let passes = column(&data, 0, "pass");
        assert_eq!(passes.iter().filter(|&&pass| pass == 5).count(), 8);
        let begun = column(&data, 0, "from")[passes.len() - 1] as usize;
        assert_eq!(data["seconds"]["text"][begun], update, "{schedule:?}");
    }
}

#[test]
fn a_timeline_that_cannot_be_drawn_is_left_out() {
    let mut free = plan(Schedule::OneFOneB, 1, 1);
    free.stages[0] = JointStageDocument::default();
    for (plan, why) in [
        (
            plan(Schedule::OneFOneB, 2, 1_000_000),
            "2 stages and 1000000 microbatches make more than 4194304 tasks",
        ),
        (
            plan(Schedule::OneFOneB, 501, 1),
            "the pipeline has 501 devices, and 500 are the most that are drawn",
        ),
        (plan(Schedule::None, 2, 1), "the schedule is none: there is nothing to run"),
        (free, "an iteration takes no time that can be drawn"),
        (plan(Schedule::OneFOneB, 2, 0), "a pipeline needs at least one stage and one microbatch"),
    ] {
        let page = page(&plan);
        let why = format!("<p class=\"note\" id=\"no-timeline\">The timeline is left out: {why}.</p>");
        assert!(page.contains(&why), "{why} is not in {page}");
        assert!(page.contains("id=\"scene\">null</script>"));
    }
}

#[test]
fn passes_too_short_to_be_drawn_are_several() {
    let page = page(&plan(Schedule::OneFOneB, 8, 20_000));
    assert!(page.len() < 2_000_000, "{} bytes", page.len());
    assert!(page.contains("data-pass=\"6\"></i>several"));
    let data = data(&page);
    for row in 0..8 {
        let (passes, counts) = (column(&data, row, "pass"), column(&data, row, "count"));
        assert_eq!(counts.iter().sum::<u64>(), 40_001);
        let mixed = passes.iter().zip(counts).filter(|(pass, _)| **pass == 6).map(|(_, count)| count);
        assert!(mixed.sum::<u64>() > 39_900, "forward and backward passes alternate");
    }
    // The first passes of a long pipeline are all forward and the last all backward, and they are shown as such.
    let data = self::data(&self::page(&plan(Schedule::OneFOneB, 60, 4000)));
    let passes = column(&data, 0, "pass");
    assert_eq!((passes[0], passes[passes.len() - 2]), (0, 1), "{passes:?}");
    assert!(passes.contains(&6));
}

#[test]
fn a_plan_per_sample_has_no_timeline() {
    let mut plan = plan(Schedule::OneFOneB, 2, 1);
    plan.objective.kind = JointObjectiveKind::TimePerSample;
    (plan.execution, plan.cluster, plan.throughput) = (None, None, None);
    for (index, stage) in plan.stages.iter_mut().enumerate() {
        let (layers, data) = (std::mem::take(&mut stage.layers), index as u32 + 1);
        *stage = JointStageDocument {
            data,
            tensor: 1,
            seconds: 1.0,
            memory_bytes: GIB,
            layers,
            ..Default::default()
        };
    }
    let page = page(&plan);
    assert!(!page.contains("id=\"timeline\"") && page.contains("id=\"scene\">null</script>"));
    for part in [
        "time per sample of the slowest stage, 48 microbatches, recompute workspace max",
        "<dt>dp</dt><dd>1 to 2</dd>",
        "<dt>devices</dt><dd>3 in use</dd>",
        "aria-label=\"memory: memory 1.0 GiB\"",
        "memory of one of its devices.</p>\n<div",
        "id=\"layer-table\"",
    ] {
        assert!(page.contains(part), "{part} is not in {page}");
    }
    assert!(!page.contains("samples per second") && !page.contains("class=\"limit\""));
}

#[test]
fn no_plan_is_a_summary() {
    let mut plan = plan(Schedule::OneFOneB, 0, 1);
    (plan.execution, plan.objective.value_s, plan.gap) = (None, None, None);
    (plan.throughput, plan.sources) = (None, None);
    plan.status = PlanStatus::Infeasible;
    plan.reason = Some("no <room>\nnone at all".into());
    let page = page(&plan);
    for part in [
        "infeasibility is proved",
        "<dt>devices</dt><dd>64</dd>",
        "<bdi>no &lt;room&gt;</bdi>",
        "<bdi>none at all</bdi>",
    ] {
        assert!(page.contains(part), "{part} is not in {page}");
    }
    assert_eq!(page.matches("<section").count(), 2, "the summary and the origin");
}

#[test]
fn hostile_names_and_figures_are_shown() {
    let evil = "</script><script>alert(1)</script>\u{202e}\0\"'";
    let figures = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -1.0, 0.0, f64::MAX, f64::MIN_POSITIVE];
    let schedules = [
        Schedule::OneFOneB,
        Schedule::Interleaved,
        Schedule::ZeroBubble,
        Schedule::ZeroBubbleTwice,
        Schedule::DualPipeV,
        Schedule::GPipe,
    ];
    for schedule in schedules {
        for figure in figures {
            let mut plan = plan(schedule, 5, 5);
            plan.execution.as_mut().expect("an execution").chunks = 0;
            plan.model = evil.into();
            plan.reason = Some(evil.into());
            plan.objective.value_s = Some(figure);
            (plan.bound.value_s, plan.gap, plan.seconds) = (Some(figure), Some(figure), figure);
            plan.bound.source = evil.into();
            let kind = &mut plan.cluster.as_mut().expect("a cluster").kinds[0];
            (kind.name, kind.memory_bytes) = (evil.into(), Some(figure));
            (kind.count, plan.stages[4].data, plan.stages[4].tensor) = (u32::MAX, u32::MAX, u32::MAX);
            plan.stages[0].seconds = figure;
            plan.stages[1].forward_s = Some(figure);
            plan.stages[2].weight_s = Some(figure);
            plan.stages[3].update_s = Some(figure);
            for stage in &mut plan.stages {
                stage.kind = Some(evil.into());
                (stage.memory_bytes, stage.state_bytes) = (figure, Some(figure));
                stage.layers[1].layer = evil.repeat(1000);
                stage.layers[2].configuration = evil.into();
            }
            plan.stages[4].layers.clear();
            let parts = [JointPartsDocument {
                compute_s: figure,
                parameter_bytes: figure,
                ..JointPartsDocument::default()
            }; 9];
            for parts in [None, Some(&parts[..])] {
                let page = page_with(&plan, parts);
                assert_eq!((page.matches("<script").count(), page.matches("</script>").count()), (2, 2));
                assert!(!page.contains(['\u{202e}', '\0']));
                for drawn in page.split("<rect").skip(1) {
                    let drawn = drawn.split_once('>').expect("an end").0;
                    assert!(
                        !drawn.contains("NaN") && !drawn.contains("inf") && !drawn.contains("\"-"),
                        "{drawn}"
                    );
                }
            }
        }
    }
}

#[test]
fn context_parallelism_and_groups_of_shards_are_shown_if_they_are_used() {
    let mut plan = plan(Schedule::OneFOneB, 2, 8);
    let parts = [JointPartsDocument { compute_s: 2.0, context_s: 1.0, ..JointPartsDocument::default() }; 2];
    let plain = page_with(&plan, Some(&[JointPartsDocument { context_s: 0.0, ..parts[0] }; 2]));
    assert!(!plain.contains("<dt>cp</dt>") && !plain.contains("context parallelism"));
    let execution = plan.execution.as_mut().expect("an execution");
    (execution.context, execution.exchange) = (2, Some(ContextExchange::AllToAll));
    (execution.zero, execution.shards) = (3, Some(2));
    (plan.objective.chunks, plan.objective.cut) = (Some(2), Some(vec![3, 5]));
    plan.objective.schedules = vec![Schedule::OneFOneB, Schedule::Interleaved];
    let page = page_with(&plan, Some(&parts));
    for part in [
        "32 of 64 in use",
        "<dt>cp</dt><dd>2 by all-to-all</dd>",
        "<dt>ZeRO</dt><dd>3 over groups of 2</dd>",
        "<dt>schedules allowed</dt><dd>1f1b, interleaved with 2 stages of a device</dd>",
        "<dt>layers asked for</dt><dd>3, 5</dd>",
        "tp\u{a0}4 ×\u{a0}cp\u{a0}2 ×\u{a0}dp\u{a0}2",
        "aria-label=\"time: compute 2.0000 s, context parallelism 1.0000 s\"",
        // Half of the rate of a device, since twice as many work.
        "<dt>utilisation</dt><dd>6.25% of the peak of its devices</dd>",
    ] {
        assert!(page.contains(part), "{part} is not in {page}");
    }
}

#[test]
fn states_on_the_host_are_shown_if_a_plan_has_them_there() {
    let mut plan = plan(Schedule::OneFOneB, 2, 8);
    let is_shown = |page: &str| [page.contains("states on the host"), page.contains("host's memory")];
    assert_eq!(is_shown(&page_with(&plan, None)), [false; 2]);
    plan.execution.as_mut().expect("an execution").offload = true;
    plan.stages[1].host_bytes = Some(7.0 * GIB);
    let page = page_with(&plan, None);
    assert_eq!(is_shown(&page), [true; 2]);
    assert!(
        page.contains("<dt>optimizer</dt><dd>states on the host</dd>") && page.contains("7.0 GiB"),
        "{page}"
    );
}
