//! A target refuses exactly those plans that it cannot express, with code, place and help.

use stagewright::core::document::{Pass, PlanDocument};
use stagewright::core::graph::Graph;
use stagewright::export::{ExportError, TARGETS, target};

use super::plans::{
    cut_before, device, export, graph, of_pass, operator, pipeline, text, unordered, workload,
};

fn refused(to: &str, plan: &PlanDocument, graph: Option<&Graph>) -> (&'static str, Option<String>, String) {
    let error = export(to, plan, graph).err().unwrap_or_else(|| panic!("{to} takes it"));
    assert!(!error.help().is_empty());
    (error.code().name, error.place().map(str::to_owned), error.to_string())
}

/// Targets that run only pipelines.
const PIPELINES: [&str; 10] = [
    "torch-pipelining",
    "torchtitan",
    "megatron",
    "megatron-layers",
    "deepspeed",
    "vllm",
    "sglang",
    "torchgpipe",
    "llama-cpp",
    "pipedream",
];

#[test]
fn a_layer_that_is_cut_is_named_with_what_is_on_both_sides() {
    let graph = workload("llama", "2-7b", 4);
    let plan = cut_before(&graph, &["decoder.layer.1.feed_forward"]);
    for to in [
        "megatron",
        "megatron-layers",
        "vllm",
        "sglang",
        "torchtitan",
        "torchgpipe",
        "deepspeed",
        "pipedream",
    ] {
        let (code, place, message) = refused(to, &plan, Some(&graph));
        assert_eq!((code, place.as_deref()), ("E010", Some("devices[1].ops[0]")), "{to}: {message}");
        let expected = "the plan cuts inside `model.layers.1`: `decoder.layer.1.attention` is on acc0, \
                        `decoder.layer.1.feed_forward` on acc1";
        assert_eq!(message, expected);
    }
    let help = export("vllm", &plan, None).unwrap_err().help();
    assert!(
        help.contains("--whole-layers")
            && help.contains("--granularity layer")
            && help.contains("colocation")
            && help.contains("pin"),
        "{help}"
    );
}

#[test]
fn replicas_are_refused_but_where_there_are_such_stages() {
    let graph = workload("llama", "2-7b", 4);
    let mut plan = cut_before(&graph, &["decoder.layer.1.attention"]);
    plan.devices[1].replicas = 2;
    for target in TARGETS.iter().filter(|target| !["pipedream", "dot", "mermaid"].contains(&target.name)) {
        let (code, place, message) = refused(target.name, &plan, Some(&graph));
        assert_eq!((code, place.as_deref()), ("E007", Some("devices[1].replicas")), "{}", target.name);
        assert!(message.starts_with("acc1 stands for 2 devices"), "{message}");
    }
    assert!(text("dot", &plan, None).contains("acc1 ×2, stage 1"));
    plan.devices[1].replicas = u32::MAX;
    assert_eq!(refused("pipedream", &plan, Some(&graph)).0, "E016");
}

#[test]
fn several_calls_are_refused_but_in_drawings() {
    let graph = workload("llama", "2-7b", 4);
    let mut plan = cut_before(&graph, &["decoder.layer.1.attention"]);
    plan.devices[0].calls = Some(vec![vec!["tokens".into()], vec!["embeddings".into()]]);
    for target in TARGETS.iter().filter(|target| !["dot", "mermaid"].contains(&target.name)) {
        let (code, place, _) = refused(target.name, &plan, Some(&graph));
        assert_eq!((code, place.as_deref()), ("E008", Some("devices[0].calls")), "{}", target.name);
    }
    // No runtime executes a drawing, so `runs` is false for drawings.
    for (to, runs) in [("dot", false), ("mermaid", false), ("openvino", true)] {
        let plan = cut_before(&graph, &[]);
        assert_eq!(export(to, &plan, None).expect("it is taken").runs, runs, "{to}");
    }
    text("dot", &plan, None);
}

#[test]
fn the_clusters_of_a_drawing_are_the_layers_that_are_kept_whole() {
    let model = graph(
        vec![
            operator("embed", None),
            operator("layers.0.attention", Some("layers.0.attention")),
            operator("layers.0.mlp", Some("layers.0.mlp")),
            operator("head.norm", None),
            operator("head.linear", None),
        ],
        &[],
    );
    let names: Vec<&str> = model.operators().map(|op| model.operator(op).name.as_str()).collect();
    let drawing = text("dot", &pipeline(vec![device("acc0", "acc", &names)]), Some(&model));
    let labels: Vec<&str> =
        drawing.lines().filter_map(|line| line.trim_start().strip_prefix("label=")).collect();
    assert_eq!(labels, ["\"devices\";", "\"layers.0\";", "\"head\";"], "{drawing}");
}

#[test]
fn what_is_no_pipeline_is_refused_where_there_are_only_pipelines() {
    let model = graph(
        vec![operator("m.layers.0", None), operator("m.layers.1", None), operator("m.layers.2", None)],
        &[("m.layers.0", "m.layers.1"), ("m.layers.1", "m.layers.2")],
    );
    let there_and_back =
        vec![device("acc0", "acc", &["m.layers.0", "m.layers.2"]), device("acc1", "acc", &["m.layers.1"])];
    for to in PIPELINES {
        // A plan without an order, for which no order exists.
        assert_eq!(refused(to, &unordered(there_and_back.clone()), Some(&model)).0, "E009", "{to}");
        // A plan whose order contradicts the tensors.
        let (code, place, message) = refused(to, &pipeline(there_and_back.clone()), Some(&model));
        let place = place.as_deref();
        assert_eq!((code, place), ("E009", Some("devices[0].ops[1]")), "{to}: {message}");
    }
    for to in ["megatron", "vllm", "sglang", "llama-cpp"] {
        assert_eq!(refused(to, &unordered(there_and_back.clone()), None).0, "E009", "{to}");
        // The layers run backwards, which their numbers show even without the model.
        let (code, _, message) = refused(to, &pipeline(there_and_back.clone()), None);
        assert_eq!(code, "E015", "{to}: {message}");
    }
    // The same devices are accepted by a target that places operators freely, and others if an order exists.
    text("accelerate", &unordered(there_and_back), Some(&model));
    let backwards =
        vec![device("acc1", "acc", &["m.layers.2"]), device("acc0", "acc", &["m.layers.0", "m.layers.1"])];
    assert_eq!(text("vllm", &unordered(backwards), Some(&model)), "VLLM_PP_LAYER_PARTITION=2,1\n");
}

#[test]
fn backward_operators_are_with_their_forward_operators() {
    let model = |layer: Option<&str>, colocation: Option<&str>| {
        let mut backward = of_pass("g", layer, Pass::Backward);
        backward.colocation = colocation.map(str::to_owned);
        let mut forward = operator("layers.0", Some("layers.0"));
        forward.colocation = colocation.map(str::to_owned);
        let rest = operator("layers.1", Some("layers.1"));
        graph(vec![forward, rest, backward], &[("layers.0", "layers.1"), ("layers.1", "g")])
    };
    let together =
        pipeline(vec![device("acc0", "acc", &["layers.0", "g"]), device("acc1", "acc", &["layers.1"])]);
    let apart =
        pipeline(vec![device("acc0", "acc", &["layers.0"]), device("acc1", "acc", &["layers.1", "g"])]);
    let targets = || PIPELINES.into_iter().filter(|to| *to != "torchtitan").chain(["accelerate"]);
    for known in [model(Some("layers.0"), None), model(None, Some("class"))] {
        for to in targets() {
            text(to, &together, Some(&known));
            let (code, place, message) = refused(to, &apart, Some(&known));
            assert_eq!((code, place.as_deref()), ("E011", Some("devices[1].ops[1]")), "{to}: {message}");
        }
    }
    for to in targets() {
        assert_eq!(refused(to, &together, Some(&model(None, None))).0, "E012", "{to}");
    }
    // Targets that place single operators accept any device.
    for to in ["openvino", "dot", "mermaid"] {
        text(to, &apart, Some(&model(Some("layers.0"), None)));
    }
}

#[test]
fn what_is_no_layer_belongs_to_the_ends() {
    let plan = |middle: &str| {
        pipeline(vec![
            device("acc0", "acc", &["embed", "layers.0"]),
            device("acc1", "acc", &["layers.1", middle]),
            device("acc2", "acc", &["layers.2", "head"]),
        ])
    };
    for to in ["megatron", "megatron-layers", "vllm", "sglang"] {
        let (code, place, message) = refused(to, &plan("norm"), None);
        assert_eq!((code, place.as_deref()), ("E015", Some("devices[1].ops[1]")), "{to}");
        assert!(message.starts_with("`norm` is on acc1, stage 2 of 3"), "{message}");
        // The layers must be numbered without gaps, and belong to one stack.
        assert_eq!(refused(to, &plan("layers.4"), None).0, "E014", "{to}");
        assert_eq!(refused(to, &plan("encoder.0"), None).0, "E014", "{to}");
        let none = pipeline(vec![device("acc0", "acc", &["a"]), device("acc1", "acc", &["b"])]);
        assert_eq!(refused(to, &none, None).0, "E014", "{to}");
    }
    let flat =
        pipeline(vec![device("acc0", "acc", &["embed", "layers.0"]), device("acc1", "acc", &["head"])]);
    let model = |edges| {
        graph(vec![operator("embed", None), operator("layers.0", None), operator("head", None)], edges)
    };
    let row = model(&[("embed", "layers.0"), ("layers.0", "head")]);
    for to in ["vllm", "sglang", "megatron-layers"] {
        assert_eq!(refused(to, &flat, Some(&row)).0, "E017", "{to}: the last stage has no layer");
    }
    let expected =
        "--num-layers 1 --pipeline-model-parallel-size 2 --pipeline-model-parallel-layout 'Et|L'\n";
    assert_eq!(text("megatron", &flat, Some(&row)), expected);
    // An operator in the same stage as the whole stack: only the model shows whether it precedes the stack.
    assert_eq!(refused("megatron", &flat, None).0, "E006");
    let after = model(&[("layers.0", "embed"), ("layers.0", "head")]);
    assert_eq!(refused("megatron", &flat, Some(&after)).0, "E015");
    let last =
        pipeline(vec![device("acc0", "acc", &["embed"]), device("acc1", "acc", &["layers.0", "head"])]);
    assert_eq!(refused("megatron", &last, None).0, "E006");
    text("megatron", &last, Some(&row));
    let before = model(&[("embed", "layers.0"), ("head", "layers.0")]);
    assert_eq!(refused("megatron", &last, Some(&before)).0, "E015");
    // If a stack spans several stages, another operator of the first stage must not read the stack's layers, and one of
    // the last stage must not feed them.
    let names = ["embed", "layers.0", "aux", "layers.1", "head"];
    let plan = pipeline(vec![device("acc0", "acc", &names[..3]), device("acc1", "acc", &names[3..])]);
    let model = |edges: &[(&str, &str)]| {
        let chain = [("embed", "layers.0"), ("layers.0", "layers.1")];
        graph(names.iter().map(|name| operator(name, None)).collect(), &[&chain, edges].concat())
    };
    let fits = model(&[("aux", "layers.0"), ("layers.1", "head")]);
    assert_eq!(text("vllm", &plan, Some(&fits)), "VLLM_PP_LAYER_PARTITION=1,1\n");
    for to in ["megatron", "megatron-layers", "vllm", "sglang"] {
        assert_eq!(refused(to, &plan, None).0, "E006", "{to}");
        let (code, place, message) =
            refused(to, &plan, Some(&model(&[("layers.0", "aux"), ("layers.1", "head")])));
        assert_eq!((code, place.as_deref()), ("E015", Some("devices[0].ops[2]")), "{to}: {message}");
        let (code, place, message) = refused(to, &plan, Some(&model(&[("head", "layers.1")])));
        assert_eq!((code, place.as_deref()), ("E015", Some("devices[1].ops[1]")), "{to}: {message}");
    }
    // A stage without a layer of the stack is unambiguous.
    let ends = pipeline(vec![
        device("acc0", "acc", &["embed"]),
        device("acc1", "acc", &["layers.0", "layers.1"]),
        device("acc2", "acc", &["head"]),
    ]);
    assert!(text("megatron", &ends, None).contains("'E|t*2|L'"));
    // llama.cpp keeps the embedding on the host, which must come first.
    let (code, _, message) = refused("llama-cpp", &flat, Some(&row));
    assert_eq!(code, "E015");
    assert!(message.ends_with("llama.cpp keeps the token embedding on the host"), "{message}");
    let host_last = pipeline(vec![device("acc0", "acc", &["layers.0"]), device("cpu0", "cpu", &["head"])]);
    assert_eq!(refused("llama-cpp", &host_last, None).0, "E016");
}

#[test]
fn hosts_are_told_by_the_cluster_before_the_name() {
    let plan = pipeline(vec![device("cpu0", "cpu", &["layers.0"]), device("x0", "x", &["layers.1"])]);
    assert_eq!(refused("vllm", &plan, None).0, "E016");
    let cluster = |cpu_is_host: bool| {
        serde_json::from_value(serde_json::json!({
            "schema": "stagewright.cluster/1",
            "kinds": [
                {"name": "x", "class": "x", "count": 1, "host": !cpu_is_host},
                {"name": "cpu", "class": "cpu", "count": 1, "host": cpu_is_host},
            ],
        }))
        .expect("it is a cluster")
    };
    let map = |cluster| {
        super::plans::export_on("accelerate", &plan, None, Some(&cluster)).expect("it is taken").text
    };
    assert_eq!(map(cluster(true)), "{\n    \"layers.0\": \"cpu\",\n    \"layers.1\": 0\n}\n");
    assert_eq!(map(cluster(false)), "{\n    \"layers.0\": 0,\n    \"layers.1\": \"cpu\"\n}\n");
    // A built-in processor is recognised as a host by its name.
    let built_in = pipeline(vec![device("epyc-77420", "epyc-7742", &["layers.0"])]);
    assert_eq!(refused("vllm", &built_in, None).0, "E016");
}

#[test]
fn devices_that_a_runtime_lacks_are_refused() {
    let three = unordered(vec![
        device("acc0", "acc", &["a"]),
        device("cpu0", "cpu", &["b"]),
        device("cpu1", "cpu", &["c"]),
        device("npu0", "npu", &["d"]),
    ]);
    for to in ["openvino", "accelerate", "onnxruntime"] {
        assert_eq!(refused(to, &three, None).0, "E016", "{to}");
    }
    let accelerators = unordered(vec![device("acc0", "acc", &["a"]), device("acc1", "acc", &["b"])]);
    assert_eq!(refused("onnxruntime", &accelerators, None).0, "E016");
    let npus = unordered(vec![device("npu0", "NPU", &["a"]), device("npu1", "NPU", &["b"])]);
    assert_eq!(refused("openvino", &npus, None).0, "E016");
}

#[test]
fn targets_say_that_they_need_the_model() {
    let plan = pipeline(vec![device("acc0", "acc", &["layers.0"])]);
    for to in ["torch-pipelining", "torchgpipe", "deepspeed", "pipedream"] {
        assert_eq!(refused(to, &plan, None).0, "E006", "{to}");
        assert!(target(to).expect("it is there").limits.contains("--model"), "{to} says so in the list");
    }
}

#[test]
fn a_module_that_is_cut_runs_its_own_operators_where_their_inputs_are() {
    let model = |add_reads: &str, parameter_bytes: f64| {
        let mut add = operator("add", Some("block"));
        add.parameter_bytes = parameter_bytes;
        graph(
            vec![operator("a", Some("block.a")), operator("b", Some("block.b")), add],
            &[("a", "b"), (add_reads, "add")],
        )
    };
    let plan = |device_of_add: usize| {
        let mut ops = [vec!["a"], vec!["b"]];
        ops[device_of_add].push("add");
        unordered(vec![device("acc0", "acc", &ops[0]), device("acc1", "acc", &ops[1])])
    };
    let map = "{\n    \"block.a\": 0,\n    \"block.b\": 1\n}\n";
    assert_eq!(text("accelerate", &plan(1), Some(&model("b", 0.0))), map);
    assert_eq!(text("accelerate", &plan(0), Some(&model("a", 0.0))), map);
    assert_eq!(refused("accelerate", &plan(0), Some(&model("b", 0.0))).0, "E013");
    assert_eq!(refused("accelerate", &plan(1), Some(&model("b", 1.0))).0, "E013");
    // The two operators of one module are on two devices, so the module is cut.
    let two = graph(vec![operator("x", Some("m")), operator("y", Some("m"))], &[("x", "y")]);
    let apart = unordered(vec![device("acc0", "acc", &["x"]), device("acc1", "acc", &["y"])]);
    assert_eq!(refused("accelerate", &apart, Some(&two)).0, "E010");
}

#[test]
fn a_plan_of_another_model_is_refused_by_every_target() {
    let model = graph(vec![operator("layers.0", None), operator("layers.1", None)], &[]);
    let cases = [
        (vec![device("acc0", "acc", &["layers.0", "layers.2"])], "E003"),
        (vec![device("acc0", "acc", &["layers.0"])], "E004"),
        (
            vec![device("acc0", "acc", &["layers.0", "layers.1"]), device("acc1", "acc", &["layers.0"])],
            "E005",
        ),
        (vec![device("acc0", "acc", &[])], "E002"),
        (Vec::new(), "E002"),
    ];
    for (devices, code) in cases {
        for target in TARGETS {
            assert_eq!(
                refused(target.name, &pipeline(devices.clone()), Some(&model)).0,
                code,
                "{}",
                target.name
            );
        }
    }
}

#[test]
fn a_module_that_runs_twice_is_no_place_to_cut() {
    // `shared` runs at both ends, so a cut before it would add a stage.
    let model = graph(
        vec![operator("a", Some("shared")), operator("b", Some("body")), operator("c", Some("shared"))],
        &[("a", "b"), ("b", "c")],
    );
    let plan = pipeline(vec![device("acc0", "acc", &["a", "b"]), device("acc1", "acc", &["c"])]);
    assert_eq!(refused("torch-pipelining", &plan, Some(&model)).0, "E010");
    // Cuts cannot divide a program that runs a stage again after a later one.
    let branches = graph(vec![operator("a", None), operator("b", None), operator("c", None)], &[("a", "c")]);
    let plan = pipeline(vec![device("acc0", "acc", &["a", "c"]), device("acc1", "acc", &["b"])]);
    assert_eq!(refused("torch-pipelining", &plan, Some(&branches)).0, "E015");
}

#[test]
fn what_is_in_no_module_goes_with_a_neighbour_on_its_device() {
    // The exporter names operators outside all modules after their operation.
    let names = ["embed", "layers.0", "alias", "layers.1"];
    let layer = |name: &&'static str| operator(name, (*name != "alias").then_some(name));
    let chain: Vec<(&str, &str)> = names.windows(2).map(|pair| (pair[0], pair[1])).collect();
    let model = graph(names.iter().map(layer).collect(), &chain);
    let apart = pipeline(vec![
        device("acc0", "acc", &names[..2]),
        device("acc1", "acc", &names[2..3]),
        device("acc2", "acc", &names[3..]),
    ]);
    for to in PIPELINES.into_iter().chain(["accelerate"]) {
        let (code, place, message) = refused(to, &apart, Some(&model));
        assert_eq!((code, place.as_deref()), ("E021", Some("devices[1].ops[0]")), "{to}: {message}");
        assert_eq!(
            message,
            "`alias` on acc1 is in no module, and its inputs and readers are on other devices"
        );
        assert!(export(to, &apart, Some(&model)).unwrap_err().help().contains("--pins"));
    }
    for (ends, number) in [(3, 0), (2, 1)] {
        let beside =
            pipeline(vec![device("acc0", "acc", &names[..ends]), device("acc1", "acc", &names[ends..])]);
        let map = text("accelerate", &beside, Some(&model));
        assert!(map.contains(&format!("\"layers.{number}\": {number}")) && !map.contains("alias"), "{map}");
    }
    // A target that places operators one by one can give `alias` a device of its own.
    assert!(
        text("openvino", &unordered(apart.devices.clone()), Some(&model)).contains("\"alias\": \"GPU.1\"")
    );
}

#[test]
fn modules_without_an_address_are_refused() {
    let refused = |to: &str, other: &str, name: &str| {
        let model = graph(vec![operator(other, None), operator(name, None)], &[(other, name)]);
        let plan = pipeline(vec![device("acc0", "acc", &[other]), device("acc1", "acc", &[name])]);
        let (code, _, message) = refused(to, &plan, Some(&model));
        assert_eq!(code, "E018", "{to}, `{name}`: {message}");
        assert!(message.contains("a part of its path is empty"), "{message}");
    };
    for to in ["accelerate", "torch-pipelining"] {
        // `a` is on both devices, so no shorter path can be used.
        for name in ["a..b", "a.", ".", ".a", "a..0"] {
            refused(to, "a.x", name);
        }
    }
    for to in ["torchtitan", "torchgpipe", "deepspeed", "pipedream"] {
        for name in [".", ".a", "a..0"] {
            refused(to, "x", name);
        }
    }
}

#[test]
fn torchtitans_own_names_stand_for_an_embedding_a_norm_and_a_head() {
    let export = |before: &[&str], after: &[&str]| {
        let names: Vec<&str> =
            before.iter().chain(&["m.layers.0", "m.layers.1"]).chain(after).copied().collect();
        let edges: Vec<(&str, &str)> = names.windows(2).map(|pair| (pair[0], pair[1])).collect();
        let model = graph(names.iter().map(|name| operator(name, None)).collect(), &edges);
        let cut = before.len() + 1;
        let divided =
            pipeline(vec![device("acc0", "acc", &names[..cut]), device("acc1", "acc", &names[cut..])]);
        let whole = pipeline(vec![device("acc0", "acc", &names)]);
        [divided, whole]
            .map(|plan| export("torchtitan", &plan, Some(&model)).map_err(|error| error.to_string()))
    };
    for after in [&["m.norm", "lm_head"][..], &["m.ln_f", "output"], &["head"]] {
        assert!(export(&["m.embed"], after).iter().all(Result::is_ok), "{after:?}");
    }
    for (before, after, told) in [
        (&["m.wte", "m.wpe"][..], &["m.ln_f", "lm_head"][..], "`m.wte` and `m.wpe` before it"),
        (&["m.embed"], &["m.pooler"], "`m.pooler` after it"),
        (&["m.embed"], &["m.norm", "m.ln_f"], "`m.norm` and `m.ln_f` after it"),
        (&["m.embed"], &["m.norm", "head", "aux_head"], "`m.norm`, `head` and `aux_head` after it"),
    ] {
        for found in export(before, after) {
            let message = found.expect_err(told);
            assert!(message.contains(told), "{message}");
        }
    }
    // With a single stage, the plan does not show which operators precede the stack.
    let whole = pipeline(vec![device("acc0", "acc", &["m.embed", "m.layers.0"])]);
    assert_eq!(refused("torchtitan", &whole, None).0, "E006");
}

/// Targets that divide a sequence of layers.
const SEQUENCES: [&str; 3] = ["torchgpipe", "deepspeed", "pipedream"];

#[test]
fn a_sequence_is_in_the_order_of_the_tensors() {
    let names = ["head", "layers.1", "layers.0", "embed"];
    let edges = [("embed", "layers.0"), ("layers.0", "layers.1"), ("layers.1", "head")];
    let backwards = graph(names.iter().map(|name| operator(name, None)).collect(), &edges);
    let plan = pipeline(vec![device("acc0", "acc", &names)]);
    for to in SEQUENCES {
        let text = text(to, &plan, Some(&backwards));
        let place = |name: &str| text.find(&format!("\"{name}\"")).expect("it is listed");
        assert!(edges.iter().all(|(from, to)| place(from) < place(to)), "{to}: {text}");
    }
}

#[test]
fn layers_that_read_from_one_another_are_no_sequence() {
    // Module `a` runs before `b` and after `c`.
    let names = ["a_first", "b_only", "c_only", "a_last", "d_only"];
    let edges: Vec<(&str, &str)> = names.windows(2).map(|pair| (pair[0], pair[1])).collect();
    let model = graph(names.iter().map(|name| operator(name, Some(&name[..1]))).collect(), &edges);
    let plan = pipeline(vec![device("acc0", "acc", &names)]);
    for to in SEQUENCES {
        let (code, place, message) = refused(to, &plan, Some(&model));
        assert_eq!((code, place.as_deref()), ("E019", Some("devices[0].ops[0]")), "{to}: {message}");
        assert!(message.starts_with("`a`, `b` and `c` form a cycle"), "{message}");
    }
}

#[test]
fn a_branch_is_no_chain() {
    let names = ["in", "embed", "layers.0", "aux", "layers.1", "head"];
    let chain = [
        ("in", "embed"),
        ("embed", "layers.0"),
        ("layers.0", "aux"),
        ("aux", "layers.1"),
        ("layers.1", "head"),
    ];
    let model = |edges: &[(&str, &str)]| {
        let mut operators: Vec<_> = names.iter().map(|name| operator(name, None)).collect();
        operators[0].kind = Some("input".into());
        graph(operators, edges)
    };
    let plan = pipeline(vec![device("acc0", "acc", &names[..4]), device("acc1", "acc", &names[4..])]);
    // Every layer may read the inputs of the model.
    let masked = model(&[&chain[..], &[("in", "layers.1")]].concat());
    let skip = model(&[&chain[..], &[("embed", "head")]].concat());
    let apart = model(&[&chain[..2], &[("in", "aux")], &chain[3..]].concat());
    for to in ["torchgpipe", "deepspeed"] {
        text(to, &plan, Some(&masked));
        let (code, place, message) = refused(to, &plan, Some(&skip));
        assert_eq!((code, place.as_deref()), ("E020", Some("devices[1].ops[1]")), "{to}: {message}");
        let named = ["`head` reads ", "of `embed`", "after `layers.1`"];
        assert!(named.iter().all(|part| message.contains(part)), "{message}");
        let (code, place, message) = refused(to, &plan, Some(&apart));
        assert_eq!((code, place.as_deref()), ("E020", Some("devices[0].ops[3]")), "{to}: {message}");
        assert!(message.starts_with("`aux` does not read `layers.0`"), "{message}");
    }
    for model in [&masked, &skip, &apart] {
        text("pipedream", &plan, Some(model));
    }
}

#[test]
fn targets_have_names_of_their_own_and_limits_in_one_line() {
    let mut names: Vec<&str> = TARGETS.iter().map(|target| target.name).collect();
    for target in TARGETS {
        assert!(!target.limits.is_empty() && !target.limits.contains('\n'), "{}", target.name);
        assert!(!target.limits.contains("  "), "{}: {}", target.name, target.limits);
    }
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), TARGETS.len());
    let nearest = |name: &str| match target(name).expect_err("there is none") {
        ExportError::UnknownTarget { nearest, .. } => nearest,
        error => panic!("{error}"),
    };
    assert_eq!(nearest("vlmm").as_deref(), Some("vllm"));
    assert_eq!(nearest("torch-pipeline").as_deref(), Some("torch-pipelining"));
    assert_eq!(nearest(&"x".repeat(1 << 20)), None);
}
