use stagewright_core::document::{
    ClusterDocument, KindDocument, OriginDocument, PlanStatus, ReplicaDocument, RequestClassDocument,
    SERVING_PLAN_SCHEMA, ServingBoundDocument, ServingGoal, ServingMode, ServingPlanDocument,
    ServingQuestionDocument, ServingRole, ServingStageDocument,
};

use super::{Explained, Point, ServingPage, StageMemory, WhatIf, write};

const GIB: f64 = (1_u64 << 30) as f64;

fn stage(kind: &str, tensor: u64, first: u32, layers: u32) -> ServingStageDocument {
    ServingStageDocument { kind: kind.into(), tensor, data: 1, experts: 1, first, layers }
}

fn replica(role: ServingRole, count: u64, rate: f64, stages: Vec<ServingStageDocument>) -> ReplicaDocument {
    ReplicaDocument {
        role,
        class: 0,
        count,
        stages,
        batch: if role == ServingRole::Prefill { 0 } else { 48 },
        requests_per_s: rate,
        ttft_s: (role != ServingRole::Decode).then_some(0.7),
        tpot_s: (role != ServingRole::Prefill).then_some(0.004),
        utilisation: (role == ServingRole::Prefill).then_some(0.5),
        cache_tokens: 1000,
        kept: 0,
    }
}

/// A plan of two pipelines for prompts, and a replica that decodes.
fn plan() -> ServingPlanDocument {
    let kinds = vec![KindDocument::named("<fast>", 8), KindDocument::named("slow", 8)];
    ServingPlanDocument {
        schema: SERVING_PLAN_SCHEMA.into(),
        status: PlanStatus::Optimal,
        solver: "replicas".into(),
        model: "a <model>".into(),
        options: None,
        cluster: ClusterDocument { kinds, ..ClusterDocument::new("rack") },
        question: ServingQuestionDocument {
            engine: "vllm".into(),
            classes: vec![RequestClassDocument { input: 4096, output: 512, shared_prefix: 0, share: 1.0 }],
            concurrency: Some(64.0),
            rate: None,
            ttft_s: Some(2.0),
            tpot_s: Some(0.05),
            goal: ServingGoal::Throughput,
            modes: vec![ServingMode::Disaggregated],
            cache: None,
            chunk: None,
            memory_share: None,
            max_batch: None,
            max_stages: 4,
            speculation: None,
            prices: [].into(),
            factors: [].into(),
            limits: Default::default(),
            costs: Vec::new(),
            start: None,
        },
        value: Some(20.0),
        bound: ServingBoundDocument { value: Some(25.0), source: "table".into(), certificate: None },
        gap: Some(0.2),
        requests_per_s: Some(20.0),
        tokens_per_s: Some(10_240.0),
        devices: Some(12),
        moved_bytes: None,
        seconds: 0.03,
        origin: Some(OriginDocument::of_library()),
        stop: None,
        reason: None,
        replicas: vec![
            replica(ServingRole::Prefill, 2, 12.5, vec![stage("slow", 1, 0, 8), stage("slow", 1, 8, 24)]),
            replica(ServingRole::Decode, 1, 20.0, vec![stage("<fast>", 8, 0, 32)]),
        ],
    }
}

fn page(
    document: &ServingPlanDocument,
    memory: &[Vec<StageMemory>],
    explained: Option<&Explained>,
) -> String {
    let mut bytes = Vec::new();
    write(&ServingPage { document, memory, explained }, &mut bytes).expect("memory takes what is written");
    String::from_utf8(bytes).expect("text is written")
}

fn assert_has(page: &str, parts: &[&str]) {
    for part in parts {
        assert!(page.contains(part), "{part} is not in {page}");
    }
}

#[test]
fn a_plan_has_pools_and_stages() {
    let of = |weights: f64, caches: f64| StageMemory {
        weights: weights * GIB,
        caches: caches * GIB,
        room: 4.0 * GIB,
        memory: 8.0 * GIB,
    };
    let memory = [vec![of(1.0, 0.0), of(3.0, 0.0)], vec![of(2.0, 2.0)]];
    let page = page(&plan(), &memory, None);
    assert!(!page.contains("{{"), "a place of the template is empty");
    assert_has(
        &page,
        &[
            "<title>a &lt;model&gt; on rack</title>",
            "throughput: 4096 to 512 tokens; 64 in flight; TTFT 2.0000 s; TPOT 50.000 ms",
            "<dd id=\"throughput\">20.000 <small>requests/s</small></dd><dd class=\"note\">10240 tokens/s</dd>",
            "<rect class=\"proved\" width=\"800.0\"",
            "<dt>devices</dt><dd>12 of 16 in use</dd>",
            // 25 requests/s of prompts, of which 20 are decoded.
            "<small>of 16 devices; 2 replicas, <data value=\"0.19999999999999996\"",
            "2 × prefill <small>12.500 requests/s each, TTFT 700.00 ms, reads prompts 50.00% of the time</small>",
            "1 × decode <small>20.000 requests/s each, batch 48, TPOT 4.0000 ms",
            "<rect class=\"d1 h0\" x=\"250.0\" width=\"750.0\"",
            "aria-label=\"layers 8 to 31\"",
            "<bdi>&lt;fast&gt;</bdi> <small>tp8, 8 devices</small>",
            "aria-label=\"memory: weights 2.0 GiB, caches 2.0 GiB\"><rect class=\"room\" width=\"750.0\"",
            "<rect class=\"d5\" x=\"250.0\" width=\"250.0\"",
            "id=\"origin-table\"",
        ],
    );
    assert!(!page.contains("id=\"limits\""));
}

#[test]
fn other_limits_are_drawn() {
    let point =
        |ttft: f64, tpot: f64, value: Option<f64>| Point { ttft_s: Some(ttft), tpot_s: Some(tpot), value };
    let explained = Explained {
        binds: vec![vec!["TTFT"], vec!["load"]],
        what_ifs: vec![WhatIf { change: "one <fast> fails".into(), value: Some(15.0) }],
        frontier: vec![
            point(2.0, 0.025, None),
            point(2.0, 0.05, Some(20.0)),
            point(2.0, 0.1, Some(24.0)),
            point(1.0, 0.05, Some(16.0)),
            point(8.0, 0.05, Some(20.0)),
        ],
    };
    let page = page(&plan(), &[], Some(&explained));
    assert_has(
        &page,
        &[
            "bound by TTFT</small>",
            // Half to four times the limits: a third of the width for each doubling.
            "<path class=\"\" d=\"M333.3 120.0H666.7V0.0\"/>",
            "<path class=\"bound\" d=\"M0.0 240.0H333.3V120.0H1000.0V120.0\"/>",
            "<span class=\"top\">24.000 requests/s</span><span class=\"bottom\">16.000 requests/s</span>",
            "<th scope=\"row\"><bdi>one &lt;fast&gt; fails</bdi></th><td>15.000 requests/s</td><td>-25.0%</td>",
            "<td>no plan</td>",
        ],
    );
    assert!(!page.contains("class=\"bar memory\" viewBox=\"0 0 1000 10\" preserveAspectRatio=\"none\" role=\"img\" aria-label=\"memory: "));
}

#[test]
fn a_limit_alone_is_drawn_without_the_other() {
    let document = ServingPlanDocument {
        question: ServingQuestionDocument { ttft_s: None, ..plan().question },
        ..plan()
    };
    let points = [0.05, 0.1].map(|tpot| Point { ttft_s: None, tpot_s: Some(tpot), value: Some(20.0) });
    let explained = Explained { frontier: points.to_vec(), ..Explained::default() };
    let page = page(&document, &[], Some(&explained));
    // Equal values are a line in the middle.
    assert_has(&page, &["<path class=\"\" d=\"M0.0 120.0H1000.0V120.0\"/>", "<td>50.000 ms</td>"]);
    assert!(!page.contains("limit on TTFT"));
}

#[test]
fn a_question_without_a_plan_has_a_reason() {
    let document = ServingPlanDocument {
        status: PlanStatus::Infeasible,
        value: None,
        gap: None,
        devices: None,
        reason: Some("nothing <fits>".into()),
        replicas: Vec::new(),
        ..plan()
    };
    let page = page(&document, &[], None);
    assert_has(&page, &["infeasibility is proved", "nothing &lt;fits&gt;", "id=\"origin-table\""]);
    assert!(!page.contains("id=\"replicas\"") && !page.contains("id=\"pools\""));
}

/// A document of a stranger may claim any numbers.
#[test]
fn numbers_out_of_range_are_drawn() {
    let mut document = plan();
    let stage = ServingStageDocument {
        tensor: u64::MAX,
        data: u64::MAX,
        first: u32::MAX,
        layers: u32::MAX,
        ..stage("unknown", 1, 0, 1)
    };
    document.replicas = vec![ReplicaDocument {
        count: u64::MAX,
        requests_per_s: f64::NAN,
        stages: vec![stage; 600],
        ..document.replicas.remove(0)
    }];
    let page = page(&document, &[], None);
    assert_eq!(page.matches("<span class=\"stage\">").count(), 512);
}
