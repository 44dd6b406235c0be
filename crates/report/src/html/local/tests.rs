use stagewright_core::document::{
    ClusterDocument, KindDocument, LOCAL_PLAN_SCHEMA, LocalBoundDocument, LocalGoal, LocalMemoryDocument,
    LocalObjectiveDocument, LocalOverrideDocument, LocalPlanDocument, LocalSettingDocument, OriginDocument,
    PlanStatus,
};

use super::{LocalPage, write};
use crate::local::LocalTimes;

const GIB: u64 = 1 << 30;

/// A memory of eight GiB, of which four are in use.
fn memory(name: &str, kind: &str, slots: [u64; 2]) -> LocalMemoryDocument {
    LocalMemoryDocument {
        name: name.into(),
        kind: kind.into(),
        slots,
        weights: 2 * GIB,
        cache: GIB / 2,
        compute: GIB,
        other: GIB / 2,
        memory: 8 * GIB,
    }
}

/// A plan of a model of six blocks, whose devices begin with the given slots after those of the host.
fn plan(host: u64, devices: &[u64]) -> LocalPlanDocument {
    let ends = devices.iter().skip(1).copied().chain([7]);
    let of_device = |(index, (&first, end)): (usize, (&u64, u64))| {
        memory(&format!("CUDA{index}"), &format!("gpu-{index}"), [first, end])
    };
    let kinds = (0..devices.len()).map(|index| KindDocument::named(format!("gpu-{index}"), 1));
    let cpu = KindDocument { host: true, ..KindDocument::named("cpu", 1) };
    LocalPlanDocument {
        schema: LOCAL_PLAN_SCHEMA.into(),
        status: PlanStatus::Feasible,
        solver: "local".into(),
        model: "a <model>.gguf".into(),
        options: None,
        cluster: ClusterDocument { kinds: kinds.chain([cpu]).collect(), ..ClusterDocument::new("desk") },
        objective: LocalObjectiveDocument {
            kind: LocalGoal::Decode,
            prompt: None,
            output: None,
            tokens: Some(100),
            micro_batch: None,
            to_devices: false,
            value_s: Some(0.02),
        },
        bound: LocalBoundDocument { value_s: Some(0.015), source: "local".into() },
        gap: Some(0.25),
        seconds: 0.1,
        origin: Some(OriginDocument::of_library()),
        stop: None,
        reason: None,
        setting: Some(LocalSettingDocument {
            flags: format!("-ot 'blk\\.3\\.=CPU' {} -c 512", "-v ".repeat(100)),
            context: 512,
            sequences: 1,
            batch: 2048,
            micro_batch: 512,
            cache: ["f16".into(), "f16".into()],
            gpu_layers: if devices.is_empty() { 0 } else { 7 - host },
            blocks: 6,
            token_s: Some(0.02),
            prompt_s: None,
            devices: devices.iter().zip(ends).enumerate().map(of_device).collect(),
            host: memory("CPU", "cpu", [0, host]),
            overrides: Vec::new(),
        }),
    }
}

fn page(document: &LocalPlanDocument, times: Option<&LocalTimes>) -> String {
    let mut bytes = Vec::new();
    write(&LocalPage { document, times, comparison: None }, &mut bytes)
        .expect("memory takes what is written");
    String::from_utf8(bytes).expect("text is written")
}

fn assert_has(page: &str, parts: &[&str]) {
    for part in parts {
        assert!(page.contains(part), "{part} is not in {page}");
    }
}

/// Blocks of each class, in their order.
fn blocks(page: &str) -> Vec<&str> {
    let (_, rest) = page.split_once("<ol class=\"blocks\" aria-hidden=\"true\">").expect("blocks");
    let lines = rest.split_once("</ol>").expect("their end").0.lines();
    lines
        .filter_map(|line| line.strip_prefix("<li class=\"")?.split_once('"'))
        .map(|(class, _)| class)
        .collect()
}

#[test]
fn a_plan_on_three_devices_has_all_sections() {
    let mut plan = plan(1, &[1, 3, 5]);
    let setting = plan.setting.as_mut().expect("a setting");
    let moved = |blocks: &[u64], module: &str, target: &str| LocalOverrideDocument {
        blocks: blocks.to_vec(),
        modules: vec![module.into(), "ffn_down_exps".into()],
        target: target.into(),
    };
    setting.overrides = vec![moved(&[1, 2, 3, 5], "ffn_<up>", "CPU"), moved(&[3], "ffn_gate", "CUDA2")];
    let times = LocalTimes { host: 0.004, devices: vec![0.002, 0.003, 0.009], ways: 0.002 };
    let page = page(&plan, Some(&times));
    assert!(!page.contains("{{"), "a place of the template is empty");
    assert_has(
        &page,
        &[
            "<title>a &lt;model&gt;.gguf on desk</title>",
            "a token after 100 others",
            "50.00 tokens/s",
            "No plan is better by more than",
            "<dt>context</dt><dd>512 tokens in f16, micro-batches of 512</dd>",
            "<dt>layers on devices</dt><dd>6 of 7, the output among them</dd>",
            "wherever their projections are",
            "<code>llama-server -ot &#39;blk\\.3\\.=CPU&#39; -v ",
            "-c 512</code>",
            "title=\"layer 3 on CUDA1; ffn_&lt;up&gt;, ffn_down_exps on CPU; ffn_gate, ffn_down_exps on CUDA2\"\
             ><i class=\"rest\"></i><i class=\"d2 h0\"></i></li>",
            "<td class=\"word\">1 to 3, 5</td>",
            "<li><i class=\"chip d1 h0\"></i><bdi>CUDA1</bdi></li>",
            "aria-label=\"time: 9.0000 ms\"><rect class=\"d2 h0\" width=\"450.0\" height=\"10\"/>",
            "aria-label=\"memory: weights 2.0 GiB, cache 512.0 MiB, compute 1.0 GiB, other 512.0 MiB, free 4.0 GiB\"",
            "<rect class=\"d5\" x=\"250.0\" width=\"62.5\"",
            "<span class=\"layers\">5 and output</span>",
            "<th scope=\"row\">ways between</th>",
            "id=\"origin-table\"",
            "id=\"scene\">null</script>",
        ],
    );
    let classes = ["rest", "d0 h0", "d0 h0", "d1 h0", "d1 h0", "d2 h0", "d2 h0 output"];
    assert_eq!(blocks(&page), classes);
    assert!(!page.contains("does not fit"));
    // The host and three devices, and the ways between.
    let (_, table) = page.split_once("id=\"memory-table\"").expect("a table");
    assert_eq!(table.split_once("</table>").expect("its end").0.matches("<th scope=\"row\">").count(), 5);
}

#[test]
fn a_plan_without_devices_is_on_the_host() {
    let plan = plan(7, &[]);
    let page = page(&plan, Some(&LocalTimes { host: 0.02, ..LocalTimes::default() }));
    assert_eq!(blocks(&page), ["rest", "rest", "rest", "rest", "rest", "rest", "rest output"]);
    assert_has(&page, &["<dd>0 of 7, the output among them</dd>", "0 to 5 and output", "100%"]);
    assert!(!page.contains("CUDA") && !page.contains("override-table") && !page.contains("lower part"));
}

#[test]
fn a_device_may_hold_nothing_but_projections() {
    let mut plan = plan(7, &[7]);
    let setting = plan.setting.as_mut().expect("a setting");
    setting.gpu_layers = 0;
    setting.devices[0].memory = 3 * GIB;
    let page = page(&plan, None);
    assert_eq!(blocks(&page).len(), 7);
    // Three GiB of four are three quarters of the bar.
    assert_has(&page, &["<b>does not fit</b>", "<rect class=\"limit\" x=\"744.0\"", "free 0 B\""]);
    assert!(!page.contains("Seconds of a token") && !page.contains("ways between"));
}

#[test]
fn a_question_without_a_plan_has_a_reason() {
    let plan = LocalPlanDocument {
        setting: None,
        status: PlanStatus::Infeasible,
        reason: Some("nothing <fits>".into()),
        ..plan(7, &[])
    };
    let page = page(&plan, None);
    assert_has(&page, &["infeasibility is proved", "nothing &lt;fits&gt;", "id=\"origin-table\""]);
    assert!(!page.contains("id=\"memory\"") && !page.contains("llama-server"));
}

/// A document of a stranger may claim any number of layers.
#[test]
fn too_many_layers_are_not_drawn() {
    let mut plan = plan(7, &[]);
    plan.setting.as_mut().expect("a setting").blocks = u64::MAX;
    assert!(!page(&plan, None).contains("class=\"blocks\""));
}
