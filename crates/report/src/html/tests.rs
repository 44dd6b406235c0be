use std::collections::BTreeMap;

use stagewright_core::cluster::{Cluster, DeviceId};
use stagewright_core::document::{
    CLUSTER_SCHEMA, ClusterDocument, GRAPH_SCHEMA, GraphDocument, KindDocument, LinkDocument,
    OperatorDocument, PlanStatus, Split, TensorDocument,
};
use stagewright_core::graph::{Graph, OpId};
use stagewright_core::ids::{Id, Keyed};
use stagewright_core::objective::Objective;
use stagewright_core::placement::Placement;
use stagewright_core::problem::Problem;
use stagewright_core::solver::{Plan, Solution, Status};

use super::groups::{Groups, MOST};
use super::{Page, markup, names, page};
use crate::comparison::{self, Comparison, Row};
use crate::convergence::Convergence;
use crate::document::{Provenance, plan_document};
use crate::steady::Steady;
use crate::step::Step;

/// A chain of operators with their layers, one second each.
fn graph(operators: &[(String, Option<String>)]) -> Graph {
    timed(operators, |_| 1.0)
}

/// A chain of operators with their layers and with seconds by position.
fn timed(operators: &[(String, Option<String>)], seconds: impl Fn(usize) -> f64) -> Graph {
    let document = |(index, (name, layer)): (usize, &(String, Option<String>))| OperatorDocument {
        layer: layer.clone(),
        seconds: BTreeMap::from([("acc".to_owned(), seconds(index))]),
        ..OperatorDocument::named(name.clone())
    };
    let tensor = |pair: &[(String, Option<String>)]| TensorDocument {
        name: None,
        producer: pair[0].0.clone(),
        consumers: vec![pair[1].0.clone()],
        bytes: 1e6,
        seconds: BTreeMap::new(),
    };
    Graph::from_document(GraphDocument {
        schema: GRAPH_SCHEMA.into(),
        name: "chain".into(),
        operators: operators.iter().enumerate().map(document).collect(),
        tensors: operators.windows(2).map(tensor).collect(),
        cluster: None,
        parameters: Vec::new(),
        batch: None,
        pipedream_skips: Vec::new(),
    })
    .expect("a sound graph")
}

fn problem(operators: &[(String, Option<String>)], devices: u32) -> Problem {
    problem_of(graph(operators), devices)
}

fn problem_of(graph: Graph, devices: u32) -> Problem {
    let kind = KindDocument {
        reserve_bytes: None,
        name: "acc".into(),
        class: "acc".into(),
        count: devices,
        host: false,
        memory_bytes: None,
        link: Some(LinkDocument { latency_s: 0.0, bandwidth: 1e6 }),
        group: None,
        server: None,
        ram: None,
    };
    let cluster = Cluster::from_document(ClusterDocument {
        schema: CLUSTER_SCHEMA.into(),
        name: String::new(),
        classes: BTreeMap::new(),
        kinds: vec![kind],
        groups: Vec::new(),
        matrix: None,
    });
    let cluster = cluster.expect("a sound cluster");
    Problem::new(graph, cluster, Objective::default()).expect("a sound problem")
}

fn named(names: impl IntoIterator<Item = String>) -> Vec<(String, Option<String>)> {
    names.into_iter().map(|name| (name, None)).collect()
}

/// Page of the placement that divides the chain into equal parts, one per device.
fn page_of(operators: &[(String, Option<String>)], devices: u32) -> String {
    page_of_graph(graph(operators), devices)
}

fn page_of_graph(graph: Graph, devices: u32) -> String {
    let operators = graph.operator_count();
    let problem = problem_of(graph, devices);
    let share = operators.div_ceil(devices as usize);
    let device_of = (0..operators).map(|op| DeviceId::new(op / share)).collect();
    let used = DeviceId::first(operators.div_ceil(share)).collect();
    let placement = Placement::with_stages(device_of, used, BTreeMap::new());
    let plan = Plan::new(&problem, placement).expect("a sound plan");
    let bound = stagewright_core::bound::LowerBound { value: 0.5, source: "none", certificate: None };
    let solution = Solution::with_plan("test", plan, bound, None);
    let provenance = Provenance { solver: "test".into(), seconds: 0.25, seed: 7 };
    let document = plan_document(&problem, &solution, provenance);
    let placement = &solution.plan.as_ref().expect("it has a plan").placement;
    let step = Step::new(&problem, placement);
    let mut convergence = Convergence::default();
    convergence.value(0.125, 1e9);
    page(&Page {
        model: "<chain>",
        cluster: "small",
        problem: &problem,
        document: &document,
        placement: Some(placement),
        step: Some(&step),
        convergence: Some(&convergence),
        comparison: None,
    })
}

/// The JSON data of a page.
fn data(page: &str) -> serde_json::Value {
    let (_, rest) = page.split_once("id=\"scene\">").expect("data");
    serde_json::from_str(rest.split_once("</script>").expect("an end").0).expect("JSON")
}

#[test]
fn every_place_of_the_template_is_filled() {
    let page = page_of(&named(["a".into(), "{{title}}".into()]), 2);
    // Placeholders in names are kept, those of the template are replaced.
    assert_eq!(page.matches("{{").count(), 1);
    assert!(page.contains("<title>&lt;chain&gt; on small</title>"));
    for part in ["sha256-", "value=\"1.0\"", "id=\"convergence\"", "id=\"timeline\"", "</html>"] {
        assert!(page.contains(part), "{part}");
    }
}

#[test]
fn no_name_ends_the_data() {
    let names = ["</script><script>alert(1)</script>", "<!--", "a\u{2028}b\u{2029}c", "x\0y"];
    let page = page_of(&named(names.map(str::to_owned)), 1);
    assert_eq!(page.matches("<script").count(), 2);
    assert_eq!(page.matches("</script>").count(), 2);
    assert!(!page.contains(['\u{2028}', '\u{2029}', '\0']));
    let data = data(&page);
    let texts = data["texts"].as_array().expect("texts");
    // A slash starts a new part of a name.
    assert!(texts.iter().any(|text| text == "script>"), "{texts:?}");
    assert!(texts.iter().any(|text| text == "a\\u{2028}b\\u{2029}c"), "{texts:?}");
}

#[test]
fn markup_and_data_are_escaped() {
    assert_eq!(markup::escape("<a b='c' d=\"e\">&"), "&lt;a b=&#39;c&#39; d=&quot;e&quot;&gt;&amp;");
    let json = markup::escape_json("[\"</script>&\u{2028}\"]");
    assert_eq!(json, "[\"\\u003c/script\\u003e\\u0026\\u2028\"]");
    assert_eq!(serde_json::from_str::<Vec<String>>(&json).expect("JSON"), ["</script>&\u{2028}"]);
    assert_eq!(markup::count(1234), "1234");
    assert_eq!(markup::count(53_997), "53\u{202f}997");
    assert_eq!(markup::count(1_000_000), "1\u{202f}000\u{202f}000");
}

#[test]
fn names_are_visible_and_short() {
    assert_eq!(names::visible("it's \"a\\b\" 模型"), "it's \"a\\b\" 模型");
    assert_eq!(names::visible("a\u{202e}b\0"), "a\\u{202e}b\\0");
    let long = format!("{}{}", "a".repeat(5000), "b".repeat(5000));
    assert_eq!(names::visible(&long), format!("{}…{}", "a".repeat(160), "b".repeat(80)));
    assert_eq!(names::visible(&"é".repeat(240)), "é".repeat(240));
    assert_eq!(names::last_part("a.b/c"), 4);
    assert_eq!(names::last_part("a."), 0);
    assert_eq!(names::last_part(""), 0);
    assert_eq!(
        ["a.layer.3", "a.b", "3", "3.4", ".3", "a.b.3.4", ""].map(names::title),
        [2, 2, 0, 0, 0, 4, 0]
    );
}

/// Names of the groups of an operator, outermost first.
fn path_of(groups: &Groups, op: u32) -> String {
    let mut names = Vec::new();
    let mut group = groups.group_of[OpId(op)];
    while group != 0 {
        names.push(groups.groups[group].name.clone());
        group = groups.groups[group].parent;
    }
    names.reverse();
    names.join(" > ")
}

/// Returns the number of members of the largest group. Asserts that every group is after its parent and has
/// members.
fn largest(groups: &Groups) -> usize {
    let mut members = Keyed::filled(0, groups.groups.len());
    for &group in &groups.group_of {
        members[group] += 1;
    }
    for (id, group) in groups.groups.enumerate().skip(1) {
        assert!(group.parent < id, "group {id} is before its parent");
        members[group.parent] += 1;
    }
    assert!(members.iter().all(|&members| members > 0), "a group without members");
    members.iter().copied().max().unwrap_or(0)
}

#[test]
fn groups_come_from_layers_then_names_then_order() {
    let operators = |pairs: &[(&str, Option<&str>)]| -> Vec<(String, Option<String>)> {
        pairs.iter().map(|(name, layer)| ((*name).to_owned(), layer.map(str::to_owned))).collect()
    };
    let groups = Groups::new(&graph(&operators(&[
        ("in", None),
        ("a", Some("model.encoder.0.attention")),
        ("b", Some("model.encoder.0.attention")),
        ("c", Some("model.encoder.1.attention")),
        ("d", Some("model.encoder.1.mlp")),
        ("e", Some("model.head")),
    ])));
    let paths: Vec<String> = (0..6).map(|op| path_of(&groups, op)).collect();
    let second = "model > encoder.1 > ";
    let wanted = [
        String::new(),
        "model > encoder.0.attention".into(),
        "model > encoder.0.attention".into(),
        format!("{second}attention"),
        format!("{second}mlp"),
        "model > head".into(),
    ];
    assert_eq!(paths, wanted);

    // A layer with a single operator makes no group; a larger layer contains the operator with its name.
    let groups = Groups::new(&graph(&operators(&[
        ("embeddings", Some("embeddings")),
        ("layer.0.attention", Some("layer.0.attention")),
        ("layer.0.mlp", Some("layer.0.mlp")),
        ("head", Some("head")),
        ("head.softmax", Some("head")),
    ])));
    let paths: Vec<String> = (0..5).map(|op| path_of(&groups, op)).collect();
    assert_eq!(paths, ["", "layer.0", "layer.0", "head", "head"]);

    let by_name: Vec<String> = (0..90).map(|index| format!("block{}/op{index}", index / 30)).collect();
    let groups = Groups::new(&graph(&named(by_name)));
    assert_eq!(path_of(&groups, 0), "block0");
    assert_eq!(path_of(&groups, 89), "block2");

    // Runs in chain order, nested if there are very many operators.
    let groups = Groups::new(&graph(&named((0..400).map(|index| format!("op{index}")))));
    assert_eq!(path_of(&groups, 0), "op0 … op133");
    assert_eq!(path_of(&groups, 399), "op267 … op399");
    let groups = Groups::new(&graph(&named((0..22_501).map(|index| format!("op{index}")))));
    assert_eq!(path_of(&groups, 0), "op0 … op11250 > op0 … op148");
    assert_eq!(path_of(&groups, 22_500), "op11251 … op22500 > op22351 … op22500");
    let groups = Groups::new(&graph(&named((0..300).map(|index| format!("layers.{index}")))));
    assert_eq!(path_of(&groups, 0), "layers.0 … layers.149");
    assert!(largest(&groups) <= MOST);
}

/// Name and layer of an operator, by index.
type Family = dyn Fn(usize) -> (String, Option<String>);

#[test]
fn no_group_is_large_whatever_the_names() {
    let deep = "a.".repeat(2000);
    let families: [Box<Family>; 6] = [
        Box::new(|index| (format!("op{index}"), Some(format!("layer{index}")))),
        Box::new(|index| (format!("{}.x{index}", index % 7), Some("one".into()))),
        Box::new(move |index| (format!("{deep}{index}"), None)),
        Box::new(|index| (format!("scope{}/op{index}", index % 300), None)),
        Box::new(|index| (format!("..//{index}"), Some("...".into()))),
        Box::new(|index| (index.to_string(), Some(format!("3.{}.1", index % 5)))),
    ];
    for (number, family) in families.iter().enumerate() {
        for count in [1, 2, 49, 151, 1500] {
            let groups = Groups::new(&graph(&(0..count).map(family).collect::<Vec<_>>()));
            assert!(largest(&groups) <= MOST, "family {number} of {count}");
        }
    }
}

#[test]
fn the_data_hold_every_operator_and_edge() {
    let operators = named((0..300).map(|index| format!("op{index}")));
    let data = data(&page_of(&operators, 3));
    let columns = &data["graph"]["operators"];
    for column in ["group", "stem", "name", "kind", "pass", "device", "seconds", "bytes", "readers"] {
        assert_eq!(columns[column].as_array().map(Vec::len), Some(300), "{column}");
    }
    assert_eq!(columns["steps"].as_array().map(Vec::len), Some(299));
    assert_eq!(columns["device"][299], 2);
    let of_all = data["graph"]["groups"]["seconds"][0].as_u64().expect("a figure") as usize;
    assert_eq!(data["seconds"]["text"][of_all], "300.00 s");
}

#[test]
fn the_timelines_cover_what_is_busy() {
    let count = 30_000;
    let data = data(&page_of(&named((0..count).map(|index| format!("op{index}"))), 2));
    for (name, cut) in [("timeline", 0), ("steady", 1)] {
        let timeline = &data[name];
        let ticks = timeline["ticks"].as_u64().expect("ticks");
        let mut shown = 0;
        for row in timeline["rows"].as_array().expect("rows") {
            let column = |name: &str| -> Vec<u64> {
                row[name].as_array().expect("a column").iter().filter_map(serde_json::Value::as_u64).collect()
            };
            let (starts, long, counts) = (column("start"), column("ticks"), column("count"));
            assert!(starts.is_sorted_by(|left, right| left < right), "two spans begin in one tick");
            assert!(starts.len() as u64 <= ticks);
            for (start, long) in starts.iter().zip(&long) {
                assert!(start + long <= ticks + 1, "{start} + {long} of {ticks}");
            }
            if row["name"] == "computes" {
                shown += counts.iter().sum::<u64>();
                // One long run, back to back, which the end of the period may cut in two.
                assert!(starts.len() <= 1 + cut, "{starts:?}");
            }
        }
        assert!((count as u64..=(count + cut) as u64).contains(&shown), "{name}: {shown}");
        assert_eq!(timeline["axis"].as_array().map(Vec::len), Some(5));
    }
}

#[test]
fn the_full_pipeline_is_beside_the_step() {
    // Five seconds and a transfer on the first device; a transfer and four seconds on the second.
    let page = page_of(&named((0..9).map(|index| format!("op{index}"))), 2);
    let lead = "One period of the full pipeline: 6.0000 s, the value of the plan. It works on 2 batches at once, each of \
                which takes 11.000 s from beginning to end.";
    assert!(page.contains(lead), "{page}");
    let (_, table) = page.split_once("id=\"steady-table\"").expect("a table");
    let (table, _) = table.split_once("</table>").expect("its end");
    assert_eq!((table.matches("<tr>").count(), table.matches("<td>1</td></tr>").count()), (3, 2), "{table}");
    let data = data(&page);
    let [first, second] = [0, 3].map(|row| data["steady"]["rows"][row].clone());
    assert_eq!((&first["device"], &first["name"]), (&0.into(), &"computes".into()));
    assert_eq!((&second["device"], &second["name"]), (&1.into(), &"receives".into()));
    // The tensor that the second device receives in the first second belongs to the previous batch.
    assert_eq!(first["batch"], serde_json::Value::Null, "all of the newest batch");
    assert_eq!((&second["start"], &second["batch"]), (&serde_json::json!([0]), &serde_json::json!([1])));
    assert_eq!(data["timeline"]["rows"][3]["batch"], serde_json::Value::Null);
}

#[test]
fn why_there_is_no_steady_state_is_escaped() {
    let problem = problem(&named(["a".into()]), 1);
    let markup = super::steady::markup(&Steady::none(&problem, "<no> pipeline".into()));
    assert_eq!(markup, "<p class=\"note\" id=\"no-steady\">No steady state: &lt;no&gt; pipeline.</p>\n");
}

#[test]
fn what_is_long_enough_to_be_seen_names_its_span() {
    // Long operators after short ones, so that they begin in the same tick, at every distance from its edge.
    let count = 600;
    let seconds = |index: usize| match index % 3 {
        0 => 1e-6 * (1 + index % 7) as f64,
        1 => 1e-4 * (1 + index % 5) as f64,
        _ => 1e-3 * (1 + index % 11) as f64,
    };
    let names = named((0..count).map(|index| format!("op{index}")));
    let data = data(&page_of_graph(timed(&names, seconds), 1));
    let numbers = |row: &serde_json::Value, column: &str| -> Vec<usize> {
        let column = row[column].as_array().expect("a column").iter();
        column.map(|number| number.as_u64().expect("a number") as usize).collect()
    };
    let ticks = data["timeline"]["ticks"].as_u64().expect("ticks") as f64;
    let scale = ticks / (0..count).map(seconds).sum::<f64>();
    let row = &data["timeline"]["rows"][0];
    let [operators, counts] = ["operator", "count"].map(|column| numbers(row, column));
    let long: Vec<usize> = (0..count).filter(|&index| seconds(index) * scale > 2.000_001).collect();
    assert!(long.len() > count / 4, "{} operators are long", long.len());
    for index in long {
        assert!(operators.contains(&index), "op{index} of {} ticks names no span", seconds(index) * scale);
    }
    assert!(counts.iter().any(|&count| count > 1), "nothing was merged");
    assert_eq!(counts.iter().sum::<usize>(), count);
}

#[test]
fn what_has_no_plan_has_a_page() {
    let problem = problem(&named(["a".into()]), 1);
    let bound = stagewright_core::bound::LowerBound { value: 1.0, source: "fluid", certificate: None };
    for (status, words) in [
        (Status::Infeasible, "infeasibility is proved"),
        (Status::Unknown, "neither found one nor proved infeasibility"),
    ] {
        let solution = Solution::without_plan("test", status, bound.clone(), None, "no room".into());
        let provenance = Provenance { solver: "test".into(), seconds: 0.0, seed: 0 };
        let mut document = plan_document(&problem, &solution, provenance);
        document.reason = Some("no <room>\nnone at all".into());
        let page = page(&Page {
            model: "chain",
            cluster: "small",
            problem: &problem,
            document: &document,
            placement: None,
            step: None,
            convergence: None,
            comparison: None,
        });
        assert!(page.contains(words), "{words}");
        assert!(page.contains("<bdi>no &lt;room&gt;</bdi>") && page.contains("<bdi>none at all</bdi>"));
        assert!(page.contains("id=\"scene\">null</script>"));
        assert!(!page.contains("id=\"graph\"") && !page.contains("id=\"devices\""));
    }
}

#[test]
fn a_chart_has_no_more_points_than_it_can_show() {
    let mut convergence = Convergence::default();
    for index in 0..100_000 {
        let step = f64::from(index);
        convergence.value(step * 1e-5, 3e5 - step);
        convergence.bound(step * 1e-5, step);
    }
    let problem = problem(&named(["a".into()]), 1);
    let solution = Solution::without_plan(
        "test",
        Status::Unknown,
        stagewright_core::bound::LowerBound { value: 99_999.0, source: "none", certificate: None },
        None,
        String::new(),
    );
    let provenance = Provenance { solver: "test".into(), seconds: 1.0, seed: 0 };
    let mut document = plan_document(&problem, &solution, provenance);
    assert!(
        super::convergence::section(&convergence, &document).is_none(),
        "without a plan nothing converges"
    );
    document.objective.value_s = Some(200_001.0);
    let section = super::convergence::section(&convergence, &document).expect("something was reported");
    // Each line has its first moment and the last of each of four hundred parts of the time.
    assert_eq!(section.markup.matches("<th scope=\"row\">").count(), 2 * 401);
    assert!(section.markup.contains("300000.00 s"), "the first value is at the top");
    assert_eq!(section.markup.matches("<i class=\"line ").count(), 2);

    // A line that is not drawn has no legend entry.
    let mut values = Convergence::default();
    values.value(0.5, 200_001.0);
    document.bound.value_s = None;
    let section = super::convergence::section(&values, &document).expect("something was reported");
    assert_eq!(section.markup.matches("<i class=\"line ").count(), 1);
    assert!(!section.markup.contains("between them"));
}

#[test]
fn a_comparison_is_a_table() {
    let row = |name: &str, value: Option<f64>| Row {
        name: name.into(),
        status: comparison::Status::Solved(if value.is_some() {
            PlanStatus::Feasible
        } else {
            PlanStatus::Unknown
        }),
        breaks: Vec::new(),
        split: Some(Split::Free),
        value_s: value,
        bound_s: Some(0.5),
        gap: value.map(|value| 1.0 - 0.5 / value),
        seconds: Some(0.25),
        memory_bytes: value.map(|_| 1024.0),
        memory_share: value.map(|_| 0.125),
        communication_s: value.map(|_| 0.0),
        idle_share: value.map(|_| 0.25),
        interval_s: None,
        speedup: value.map(|value| 2.0 / value),
        throughput: None,
        runs: Vec::new(),
        reason: value.is_none().then(|| "no time\nat all".into()),
        degrees: None,
        plan: None,
    };
    let rows = vec![row("<fast>", Some(1.0)), row("slow", Some(2.0)), row("none", None)];
    let comparison =
        Comparison { model: "chain".into(), baseline: Some("slow".into()), rows, ..Comparison::default() };
    let markup = super::comparison::section(&comparison).markup;
    assert_eq!(markup.matches("<tr>").count(), 4);
    assert_eq!(markup.matches("<td").count(), 27);
    let parts = [
        "<bdi>&lt;fast&gt;</bdi>",
        "title=\"0.5 s\">500.00 ms</data>",
        "<td>2.00×</td>",
        "12.50%",
        "<small><bdi>no time</bdi></small>",
        "unknown, free",
        "are over <bdi>slow</bdi>",
    ];
    for part in parts {
        assert!(markup.contains(part), "{part} is not in {markup}");
    }
}
