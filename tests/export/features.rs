//! For each feature of a plan, every target writes it, notes it by name, or refuses it: `docs/runtimes.md` has the
//! table.

use std::collections::BTreeMap;

use stagewright::core::document::{
    Communication, GRAPH_SCHEMA_2, GraphDocument, ModelOptionsDocument, ObjectiveKind, OperatorDocument,
    ParameterDocument, Pass, PlanDocument, Precision, Schedule,
};
use stagewright::core::graph::Graph;
use stagewright::export::{Export, ExportError, TARGETS};

use super::plans::{device, export, graph, of_pass, operator, pipeline, unordered};
use super::random::{assigned, parameter};

/// A training step of a chain with a stack of two layers, on two devices.
struct Case {
    graph: GraphDocument,
    plan: PlanDocument,
}

const LAYERS: [&str; 4] = ["embed", "layers.0", "layers.1", "head"];

/// The plain case for a target: some targets need a host.
fn base(to: &str, trains: bool) -> Case {
    let (first, kind) =
        if ["llama-cpp", "onnxruntime"].contains(&to) { ("cpu0", "cpu") } else { ("acc0", "acc") };
    let mut operators: Vec<OperatorDocument> = LAYERS.iter().map(|name| operator(name, Some(name))).collect();
    let mut names: Vec<String> = LAYERS.iter().map(|&name| name.to_owned()).collect();
    if trains {
        let backward = LAYERS.iter().rev().map(|name| (format!("{name}.grad"), *name));
        for (name, layer) in backward {
            operators.push(of_pass(&name, Some(layer), Pass::Backward));
            names.push(name);
        }
    }
    let edges: Vec<(&str, &str)> =
        names.windows(2).map(|pair| (pair[0].as_str(), pair[1].as_str())).collect();
    let document = graph(operators, &edges).document().clone();
    let on = |layers: &[&str]| -> Vec<String> {
        let of_layer = |name: &&String| layers.iter().any(|layer| name.trim_end_matches(".grad") == *layer);
        names.iter().filter(of_layer).cloned().collect()
    };
    let of_kind = |name, kind, layers: &[&str]| {
        let names = on(layers);
        device(name, kind, &names.iter().map(String::as_str).collect::<Vec<_>>())
    };
    let mut plan = pipeline(vec![of_kind(first, kind, &LAYERS[..2]), of_kind("acc1", "acc", &LAYERS[2..])]);
    plan.objective.kind = ObjectiveKind::Makespan;
    Case { graph: GraphDocument { schema: GRAPH_SCHEMA_2.into(), ..document }, plan }
}

impl Case {
    fn export(&self, to: &str) -> Result<Export, ExportError> {
        export(to, &self.plan, Some(&Graph::from_document(self.graph.clone()).expect("it is a graph")))
    }

    fn share(&mut self, name: &str, layers: &[&str], trained: bool) {
        let reads = |operator: &&OperatorDocument| layers.contains(&operator.name.trim_end_matches(".grad"));
        let readers = self.graph.operators.iter().filter(reads).map(|operator| operator.name.clone());
        let readers: Vec<String> = readers.collect();
        self.graph.parameters.push(ParameterDocument { trained, ..parameter(name, &readers) });
    }

    fn options(&mut self) -> &mut ModelOptionsDocument {
        self.plan.model.get_or_insert_default()
    }

    fn schedule(&mut self, schedule: Schedule) {
        (self.plan.objective.schedule, self.plan.objective.microbatches) = (schedule, Some(6));
    }

    /// Places everything on the last device.
    fn on_one_device(mut self) -> Case {
        let names: Vec<String> = self.graph.operators.iter().map(|operator| operator.name.clone()).collect();
        self.plan.devices =
            vec![device("acc1", "acc", &names.iter().map(String::as_str).collect::<Vec<_>>())];
        self
    }
}

/// A feature that a plan can have.
struct Feature {
    /// Name of the feature in the table.
    name: &'static str,
    /// Texts of which a note on the feature contains one.
    named: &'static [&'static str],
    /// Whether the plan is for a training step.
    trains: bool,
    add: fn(&mut Case),
}

/// Six microbatches, in the notation of each runtime.
const MICROBATCHES: [&str; 5] =
    ["6 microbatches", "n_microbatches=6", "size to 6 times", "size of 6 times", "steps to 6"];

const FEATURES: [Feature; 23] = [
    Feature {
        name: "a trained weight of the embedding and the head, on two devices",
        named: &["`embed.weight`"],
        trains: true,
        add: |case| case.share("embed.weight", &["embed", "head"], true),
    },
    Feature {
        name: "a trained weight of two layers of the stack, on two devices",
        named: &["`layers.0.weight`"],
        trains: true,
        add: |case| case.share("layers.0.weight", &["layers.0", "layers.1"], true),
    },
    Feature {
        name: "a weight of the embedding and the head in inference, on two devices",
        named: &["`embed.weight`"],
        trains: false,
        add: |case| case.share("embed.weight", &["embed", "head"], true),
    },
    Feature {
        name: "a constant on two devices, such as a mask",
        named: &["`layers.0.mask`"],
        trains: true,
        add: |case| case.share("layers.0.mask", &["layers.0", "layers.1"], false),
    },
    Feature {
        name: "a parameter that the whole model holds",
        named: &["`table`"],
        trains: true,
        add: |case| case.share("table", &["layers.0"], false),
    },
    Feature {
        name: "backward and update operators",
        named: &["backward pass"],
        trains: false,
        add: |case| {
            let host = case.plan.devices[0].kind == "cpu";
            *case = base(if host { "llama-cpp" } else { "" }, true);
        },
    },
    Feature {
        name: "replicas of a stage",
        named: &["replicas"],
        trains: true,
        add: |case| case.plan.devices[1].replicas = 2,
    },
    Feature {
        name: "calls of a device (`--objective latency`)",
        named: &["calls"],
        trains: true,
        add: |case| {
            let operators = case.plan.devices[1].ops.iter();
            case.plan.devices[1].calls = Some(operators.map(|operator| vec![operator.clone()]).collect());
        },
    },
    Feature {
        name: "priorities (`--objective makespan`)",
        named: &["order of the operators on a device"],
        trains: true,
        add: |case| {
            let all = case.graph.operators.iter().map(|operator| operator.name.clone());
            case.plan.priority = Some(all.collect());
        },
    },
    Feature {
        name: "the schedule `gpipe` with its microbatches",
        named: &MICROBATCHES,
        trains: true,
        add: |case| case.schedule(Schedule::GPipe),
    },
    Feature {
        name: "the schedule `1f1b` with its microbatches",
        named: &MICROBATCHES,
        trains: true,
        add: |case| case.schedule(Schedule::OneFOneB),
    },
    Feature {
        name: "the schedule `zero-bubble` with its microbatches",
        named: &MICROBATCHES,
        trains: true,
        add: |case| case.schedule(Schedule::ZeroBubble),
    },
    Feature {
        name: "the throughput of a full pipeline",
        named: &["full pipeline"],
        trains: true,
        add: |case| case.plan.objective.kind = ObjectiveKind::Throughput,
    },
    Feature {
        name: "a batch size (`--batch`, `--dim`)",
        named: &["a batch of 12"],
        trains: true,
        add: |case| case.options().batch = Some(12),
    },
    Feature {
        name: "a precision (`--precision`)",
        named: &["the precision bf16"],
        trains: true,
        add: |case| case.options().precision = Some(Precision::Bf16),
    },
    Feature {
        name: "a key-value cache (`--context`, `--sequences`)",
        named: &["a key-value cache of 2048 tokens"],
        trains: false,
        add: |case| case.options().context = Some(2048),
    },
    Feature {
        name: "a reserve (`--memory-reserve`)",
        named: &["2.0 GiB free"],
        trains: true,
        add: |case| case.options().memory_reserve = Some(2 << 30),
    },
    Feature {
        name: "transfers that overlap (`--communication overlap`)",
        named: &["transfers that overlap"],
        trains: true,
        add: |case| case.plan.objective.communication = Communication::Overlap,
    },
    Feature {
        name: "which devices of several kinds, of which some are idle",
        named: &["b7"],
        trains: true,
        add: |case| {
            case.plan.devices[1].name = "b7".into();
            case.plan.devices[1].kind = "b".into();
            case.plan.devices.insert(0, device("b6", "b", &[]));
        },
    },
    Feature {
        name: "a host",
        named: &["cpu0"],
        trains: true,
        add: |case| {
            // A stage with other operators has one layer fewer.
            if case.plan.devices[0].kind == "cpu" {
                let (host, accelerator) = case.plan.devices.split_at_mut(1);
                accelerator[0].ops.extend(host[0].ops.extract_if(.., |name| name.starts_with("layers.0")));
            }
            case.plan.devices[0].name = "cpu0".into();
            case.plan.devices[0].kind = "cpu".into();
        },
    },
    Feature {
        name: "stages that are not contiguous (`--split free`)",
        named: &["contiguous"],
        trains: true,
        add: |case| {
            let own = |layers: [&str; 2]| -> Vec<String> {
                let names = case.graph.operators.iter().map(|operator| operator.name.clone());
                names.filter(|name| layers.contains(&name.trim_end_matches(".grad"))).collect()
            };
            let both = [own(["embed", "layers.1"]), own(["layers.0", "head"])];
            let mut devices = case.plan.devices.clone();
            devices.iter_mut().zip(both).for_each(|(device, own)| (device.stage, device.ops) = (None, own));
            case.plan = unordered(devices);
        },
    },
    Feature {
        name: "a layer on two devices",
        named: &["layers.0"],
        trains: false,
        add: |case| {
            let parts = ["layers.0.a", "layers.0.b"];
            case.graph.operators[1] = operator(parts[0], None);
            case.graph.operators.insert(2, operator(parts[1], None));
            case.graph.tensors[0].consumers = vec![parts[0].into()];
            case.graph.tensors[1].producer = parts[1].into();
            let mut inside = case.graph.tensors[0].clone();
            (inside.producer, inside.consumers) = (parts[0].into(), vec![parts[1].into()]);
            case.graph.tensors.push(inside);
            case.plan.devices[0].ops[1] = parts[0].into();
            case.plan.devices[1].ops.insert(0, parts[1].into());
        },
    },
    Feature {
        name: "a backward operator apart from its forward operator",
        named: &["layers.0.grad"],
        trains: true,
        add: |case| {
            case.plan.devices[0].ops.retain(|name| name != "layers.0.grad");
            case.plan.devices[1].ops.push("layers.0.grad".into());
        },
    },
];

/// The four columns of the table: how targets treat a feature.
const OUTCOMES: [&str; 4] = ["written", "noted", "nothing to write", "refused"];

/// How a target treats a feature: a column of the table, and the code if it refuses.
fn outcome(to: &str, feature: &Feature) -> (usize, Option<&'static str>) {
    let before = base(to, feature.trains);
    let plain = before.export(to).unwrap_or_else(|error| panic!("{to} takes the plain plan: {error}"));
    let mut case = before;
    (feature.add)(&mut case);
    match case.export(to) {
        Err(error) => {
            assert!(!error.help().is_empty(), "{error}");
            (3, Some(error.code().name))
        }
        Ok(export) if export.text != plain.text => (0, None),
        Ok(export) => {
            let mut new = export.notes.iter().filter(|note| !plain.notes.contains(note));
            let is_named = |note: &String| feature.named.iter().any(|name| note.contains(name));
            (if new.any(is_named) { 1 } else { 2 }, None)
        }
    }
}

/// The table as the page should show it.
fn table() -> String {
    let mut table = format!("| a plan has | {} |\n| --- | --- | --- | --- | --- |\n", OUTCOMES.join(" | "));
    for feature in &FEATURES {
        let mut cells: BTreeMap<usize, Vec<String>> = BTreeMap::new();
        let mut codes: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for target in TARGETS {
            match outcome(target.name, feature) {
                (_, Some(code)) => codes.entry(code).or_default().push(target.name),
                (column, None) => cells.entry(column).or_default().push(target.name.to_owned()),
            }
        }
        let refused = codes.iter().map(|(code, targets)| format!("{code}: {}", targets.join(", ")));
        cells.insert(3, vec![refused.collect::<Vec<_>>().join("; ")]);
        let cell = |column: usize| cells.get(&column).map(|names| names.join(", ")).unwrap_or_default();
        table.push_str(&format!(
            "| {} | {} | {} | {} | {} |\n",
            feature.name,
            cell(0),
            cell(1),
            cell(2),
            cell(3)
        ));
    }
    table.replace("|  |", "| |").replace("|  |", "| |")
}

#[test]
fn a_plan_is_written_noted_or_refused_as_the_page_says() {
    let page = std::path::Path::new(crate::ROOT).join("docs/runtimes.md");
    let page = std::fs::read_to_string(page).expect("the page is there");
    let table = table();
    assert!(page.contains(&table), "docs/runtimes.md should have this table:\n{table}");
}

#[test]
fn nothing_that_a_plan_prices_is_dropped() {
    // There is nothing to write if the runtime behaves by default as the plan says.
    let by_itself = |to: &str, feature: &str| match feature {
        // Megatron, vLLM, SGLang and llama.cpp have models of their own; PyTorch and torchtitan keep what a model
        // holds.
        "a parameter that the whole model holds" => {
            !["accelerate", "torchgpipe", "deepspeed", "pipedream"].contains(&to)
        }
        // Modules that run forward run backward.
        "backward and update operators" => !["vllm", "sglang", "llama-cpp"].contains(&to),
        "the throughput of a full pipeline" => !["accelerate", "openvino", "onnxruntime"].contains(&to),
        _ => false,
    };
    for feature in &FEATURES {
        for target in TARGETS {
            let (column, _) = outcome(target.name, feature);
            let dropped = OUTCOMES[column] == "nothing to write" && !by_itself(target.name, feature.name);
            assert!(!dropped, "{} drops {}", target.name, feature.name);
        }
    }
}

fn notes(case: &Case, to: &str) -> String {
    case.export(to).unwrap_or_else(|error| panic!("{to}: {error}")).notes.join("\n")
}

#[test]
fn a_tied_weight_is_refused_where_runtimes_refuse_it() {
    for (to, rule) in [
        ("torchgpipe", "GPipe takes no parameter on several devices"),
        ("torchtitan", "torchtitan takes no tied weights in a pipeline"),
        ("pipedream", "PipeDream would train separate copies of it"),
    ] {
        for trains in [true, false] {
            let mut case = base(to, trains);
            case.share("embed.weight", &["embed", "head"], true);
            let error = case.export(to).expect_err(to);
            assert_eq!((error.code().name, error.place()), ("E031", Some("devices[1].ops[1]")));
            assert_eq!(error.to_string(), format!("`embed.weight` is a weight on acc0 and acc1, but {rule}"));
            // On one device, the shared weight is not copied.
            let mut together = base(to, trains);
            together.share("embed.weight", &["embed", "layers.0"], true);
            together.export(to).unwrap_or_else(|error| panic!("{to}: {error}"));
        }
    }
}

#[test]
fn a_weight_is_on_several_devices_whichever_pass_reads_it() {
    for readers in [["embed", "head.grad"], ["embed.grad", "head"], ["embed.grad", "head.grad"]] {
        let mut case = base("torchtitan", true);
        let readers = readers.map(str::to_owned);
        case.graph.parameters.push(ParameterDocument { trained: true, ..parameter("w", &readers) });
        assert_eq!(case.export("torchtitan").expect_err("it is tied").code(), "E031", "{readers:?}");
        assert!(
            notes(&case, "torch-pipelining")
                .contains("`w` is on acc0 and acc1: the plan synchronises its gradient")
        );
    }
}

#[test]
fn a_weight_of_three_stages_is_named_with_all_its_devices() {
    let mut case = base("torch-pipelining", true);
    let ops = &mut case.plan.devices;
    let last = device("acc2", "acc", &["head", "head.grad"]);
    ops[1].ops.retain(|name| !name.starts_with("head"));
    ops.push(last);
    let case_plan = pipeline(ops.clone());
    case.plan = case_plan;
    case.share("embed.weight", &["embed", "layers.1", "head"], true);
    case.share("other.weight", &["embed", "layers.1", "head"], true);
    let told =
        "`embed.weight` and `other.weight` are on acc0, acc1 and acc2: the plan synchronises its gradient";
    assert!(notes(&case, "torch-pipelining").contains(told), "{}", notes(&case, "torch-pipelining"));
    assert!(case.export("torchgpipe").expect_err("tied").to_string().contains("on acc0, acc1 and acc2, but"));
}

#[test]
fn deepspeed_ties_the_layers_of_a_weight() {
    let mut case = base("deepspeed", true);
    case.share("embed.weight", &["embed", "head"], true);
    let export = case.export("deepspeed").expect("it is tied");
    assert!(
        export.text.starts_with("from deepspeed.pipe import PipelineModule, TiedLayerSpec\n"),
        "{}",
        export.text
    );
    assert!(
        export.text.contains("TIED = {\n    \"embed.weight\": [[\"embed\"], [\"head\"]]\n}\n"),
        "{}",
        export.text
    );
    assert!(export.text.contains("for weight, readers in TIED.items():"), "{}", export.text);
    let told =
        "`embed.weight`: PlannedPipelineModule refuses the layers in TIED unless they are TiedLayerSpecs";
    assert!(export.notes.iter().any(|note| note.starts_with(told)), "{:?}", export.notes);
}

#[test]
fn deepspeed_ties_the_layers_of_one_stage_as_well() {
    for layers in [["embed", "layers.0"], ["layers.1", "head"]] {
        let mut case = base("deepspeed", true);
        case.share("shared.weight", &layers, true);
        case.share("shared.mask", &layers, false);
        case.share("own.weight", &layers[..1], true);
        let export = case.export("deepspeed").expect("it is tied");
        let [first, second] = layers;
        let tied = format!("TIED = {{\n    \"shared.weight\": [[\"{first}\"], [\"{second}\"]]\n}}\n");
        assert!(export.text.contains(&tied), "{}", export.text);
        assert!(
            export
                .notes
                .iter()
                .any(|note| note.starts_with("`shared.weight`: PlannedPipelineModule refuses")),
            "{:?}",
            export.notes
        );
    }
}

#[test]
fn a_schedule_on_one_device_keeps_no_more_microbatches_than_the_plan() {
    const REFUSED: &str = "E030";
    let export = |to: &str, schedule: Schedule, microbatches: u32| {
        let mut case = base(to, true).on_one_device();
        case.schedule(schedule);
        case.plan.objective.microbatches = Some(microbatches);
        case.export(to)
    };
    let (gpipe, alternating, zero_bubble) = (Schedule::GPipe, Schedule::OneFOneB, Schedule::ZeroBubble);
    for (to, schedule, told) in [
        ("torch-pipelining", gpipe, Ok("ScheduleGPipe(stage, n_microbatches=6)")),
        ("torch-pipelining", alternating, Ok("Schedule1F1B(stage, n_microbatches=6)")),
        ("torch-pipelining", zero_bubble, Ok("ScheduleInterleavedZeroBubble([stage], n_microbatches=6)")),
        ("torchtitan", gpipe, Ok("pipeline_parallel_schedule = \"GPipe\"")),
        ("torchtitan", alternating, Ok("pipeline_parallel_schedule = \"1F1B\"")),
        ("torchtitan", zero_bubble, Ok("pipeline_parallel_schedule = \"InterleavedZeroBubble\"")),
        // On one device, 1F1B keeps one microbatch in flight, the minimum, so it can replace any schedule.
        ("megatron", gpipe, Ok("--global-batch-size of 6 times")),
        ("megatron", zero_bubble, Ok("--global-batch-size of 6 times")),
        ("deepspeed", gpipe, Ok("gradient_accumulation_steps to 6")),
        ("deepspeed", zero_bubble, Ok("gradient_accumulation_steps to 6")),
        // GPipe keeps all microbatches in flight.
        ("torchgpipe", gpipe, Ok("give `chunks` to GPipe")),
        ("torchgpipe", alternating, Err(REFUSED)),
        ("torchgpipe", zero_bubble, Err(REFUSED)),
        ("pipedream", alternating, Err(REFUSED)),
    ] {
        match (export(to, schedule, 6), told) {
            (Ok(export), Ok(told)) => {
                assert!(export.notes.iter().any(|note| note.contains(told)), "{to}: {:?}", export.notes);
            }
            (Err(error), Err(code)) => {
                assert_eq!((error.code().name, error.place()), (code, Some("objective.schedule")))
            }
            (found, _) => panic!("{to} with {}: {found:?}", schedule.name()),
        }
    }
    // The text contains `chunks` whenever a note asks for it.
    for (schedule, microbatches, chunks) in [(gpipe, 6, "\nchunks = 6\n"), (alternating, 1, "\nchunks = 1\n")]
    {
        let export = export("torchgpipe", schedule, microbatches).expect("GPipe keeps no more");
        assert!(export.text.contains(chunks), "{}", export.text);
    }
}

#[test]
fn zero_bubble_of_pytorch_takes_a_list_of_stages() {
    let mut case = base("torch-pipelining", true);
    case.schedule(Schedule::ZeroBubble);
    let told = "run the stages with ScheduleInterleavedZeroBubble([stage], n_microbatches=6)";
    assert!(notes(&case, "torch-pipelining").contains(told), "{}", notes(&case, "torch-pipelining"));
}

#[test]
fn megatron_ties_the_embedding_and_the_head_alone() {
    for to in ["megatron", "megatron-layers"] {
        let mut case = base(to, true);
        case.share("embed.weight", &["embed", "head"], true);
        assert!(
            notes(&case, to).contains("`embed.weight`: do not give --untie-embeddings-and-output-weights")
        );
        let mut case = base(to, true);
        case.share("layers.0.weight", &["layers.0", "layers.1"], true);
        let error = case.export(to).expect_err("a layer of the stack is tied");
        assert_eq!((error.code().name, error.place()), ("E031", Some("devices[1].ops[0]")));
        assert!(error.help().contains("deepspeed") && !error.help().contains("megatron"), "{}", error.help());
    }
}

#[test]
fn megatron_is_told_whether_the_head_has_a_weight_of_its_own() {
    const UNTIE: &str = "--untie-embeddings-and-output-weights";
    let weights = |case: &mut Case, layer: &str, bytes: f64| {
        let operator = case.graph.operators.iter_mut().find(|operator| operator.name == layer);
        operator.expect("it is there").parameter_bytes = bytes;
    };
    for to in ["megatron", "megatron-layers"] {
        for one_device in [false, true] {
            let plain = || if one_device { base(to, true).on_one_device() } else { base(to, true) };
            let untied = |head: f64| {
                let mut case = plain();
                weights(&mut case, "embed", 64.0);
                weights(&mut case, "head", head);
                case.export(to).expect("it is a stack")
            };
            let own = untied(64.0);
            assert!(own.text.trim_end().ends_with(UNTIE), "{}", own.text);
            assert!(!own.notes.iter().any(|note| note.contains(UNTIE)), "{:?}", own.notes);
            // A norm or a pooler is not a head, and neither is an operator without weights.
            for small in [1.0, 0.0] {
                let unknown = untied(small);
                assert!(!unknown.text.contains(UNTIE), "{}", unknown.text);
                let told = "the plan does not say whether the model does";
                assert!(unknown.notes.iter().any(|note| note.contains(told)), "{:?}", unknown.notes);
            }
            let mut tied = plain();
            tied.share("embed.weight", &["embed", "head"], true);
            let tied = tied.export(to).expect("they are tied");
            assert!(!tied.text.contains(UNTIE), "{}", tied.text);
            let told = format!("`embed.weight`: do not give {UNTIE}");
            assert!(tied.notes.iter().any(|note| note.starts_with(&told)), "{:?}", tied.notes);
        }
    }
    // Without the model, it is unknown whether weights are tied.
    let names = ["embed", "layers.0", "layers.1", "head"];
    let apart = (0..).zip(&names).map(|(number, name)| device(&format!("acc{number}"), "acc", &[name]));
    let export = export("megatron", &pipeline(apart.collect()), None).expect("the stages tell the order");
    assert!(!export.text.contains(UNTIE), "{}", export.text);
    assert!(export.notes.iter().any(|note| note.contains(UNTIE)), "{:?}", export.notes);
}

#[test]
fn without_the_model_it_is_said_that_shared_weights_are_not_known() {
    let mut written = 0;
    for target in TARGETS {
        let case = base(target.name, false);
        let Ok(export) = export(target.name, &case.plan, None) else { continue };
        let told = export.notes.iter().any(|note| note.contains("without --model it is not known"));
        assert!(told, "{}: {:?}", target.name, export.notes);
        written += 1;
    }
    assert!(written > 0, "all targets need the model");
}

#[test]
fn microbatches_that_pytorch_does_not_run_are_refused() {
    for to in ["torch-pipelining", "torchtitan"] {
        let mut few = base(to, true);
        few.schedule(Schedule::OneFOneB);
        few.plan.objective.microbatches = Some(1);
        let error = few.export(to).expect_err("fewer microbatches than stages");
        assert_eq!((error.code().name, error.place()), ("E028", Some("objective.microbatches")));
        few.schedule(Schedule::ZeroBubble);
        few.plan.objective.microbatches = Some(5);
        assert_eq!(few.export(to).expect_err("no whole rounds").code(), "E028");
    }
}

#[test]
fn a_table_of_a_divided_module_has_a_device_by_its_own_name() {
    let names = ["model.embed", "model.layers.0", "model.layers.1", "lm_head"];
    let edges: Vec<(&str, &str)> = names.windows(2).map(|pair| (pair[0], pair[1])).collect();
    let operators = names.iter().map(|name| operator(name, Some(name))).collect();
    let mut document =
        GraphDocument { schema: GRAPH_SCHEMA_2.into(), ..graph(operators, &edges).document().clone() };
    let read = |readers: &[&str]| readers.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
    let middle = read(&names[1..3]);
    for (name, readers) in [
        ("model.rope_table", &middle),
        ("root_table", &middle),
        ("scale", &read(&["lm_head"])),
        ("model.idle.table", &read(&["lm_head"])),
        ("model.idle.mask", &read(&["lm_head"])),
        ("idle.first", &read(&["model.embed"])),
        ("idle.second", &read(&["lm_head"])),
        ("model.layers.0.mask", &middle),
    ] {
        document.parameters.push(parameter(name, readers));
    }
    let plan = pipeline(vec![device("acc0", "acc", &names[..2]), device("acc1", "acc", &names[2..])]);
    let map = |document: &GraphDocument| {
        export("accelerate", &plan, Some(&Graph::from_document(document.clone()).expect("a graph")))
    };
    let found = map(&document).expect("every tensor has a device");
    let expected = serde_json::json!({
        "model.embed": 0, "model.layers.0": 0, "model.layers.1": 1, "lm_head": 1,
        "model.rope_table": 0, "root_table": 0, "scale": 1, "model.idle": 1, "idle.first": 0, "idle.second": 1,
    });
    assert_eq!(serde_json::from_str::<serde_json::Value>(&found.text).expect("it is JSON"), expected);
    // A name that is no valid key is refused for a weight, and noted for a constant.
    for name in ["", "model..table", "model.layers"] {
        let with = |trained: bool| {
            let mut unnamed = document.clone();
            unnamed.parameters.push(ParameterDocument { trained, ..parameter(name, &middle) });
            map(&unnamed)
        };
        assert_eq!(with(true).expect_err(name).code(), "E018", "`{name}`");
        let noted = with(false).expect("a constant may have any name");
        assert_eq!(noted.text, found.text, "`{name}`");
        let told = format!("`{name}`: the device map does not place it");
        assert!(noted.notes.iter().any(|note| note.starts_with(&told)), "{:?}", noted.notes);
    }
}

#[test]
fn a_tensor_of_a_module_on_another_device_than_its_readers_is_named() {
    for (to, readers, named) in [
        ("accelerate", &["head"][..], true),
        ("accelerate", &["embed", "head"], false),
        ("torchtitan", &["head"], true),
        ("torchtitan", &["embed", "head"], true),
        ("torchtitan", &["embed"], false),
    ] {
        let mut case = base(to, true);
        let plain = case.export(to).expect("it is a stack");
        case.share("embed.table", readers, false);
        let export = case.export(to).expect("a constant may be elsewhere");
        assert_eq!(export.text, plain.text);
        let starts =
            ["`embed.table`: Accelerate has it on the device of its module", "`embed.table`: read in stages"];
        let is_named = export.notes.iter().any(|note| starts.iter().any(|start| note.starts_with(start)));
        assert_eq!(is_named, named, "{to}, {readers:?}: {:?}", export.notes);
    }
    for to in ["accelerate", "torchtitan"] {
        let mut case = base(to, true);
        case.share("embed.weight", &["head"], true);
        let error = case.export(to).expect_err("the weight would be elsewhere");
        assert_eq!(error.code().name, "E018", "{to}: {error}");
        assert!(error.to_string().contains("`embed.weight`"), "{error}");
    }
}

#[test]
fn torchtitan_names_a_child_in_every_stage_that_reads_it() {
    let mut case = base("torchtitan", true);
    case.share("rope.cos", &["layers.0"], false);
    case.share("rope.sin", &["layers.1"], false);
    case.share("bias.first", &["layers.1"], false);
    case.share("bias.second", &["layers.1"], false);
    let export = case.export("torchtitan").expect("a child that runs nothing may be copied");
    let parts: Vec<Vec<String>> = assigned(&export.text, "module_fqns_per_model_part");
    assert_eq!(parts, [vec!["embed", "layers.0", "rope"], vec!["layers.1", "head", "bias", "rope"]]);
    // A child without a name is refused for a trained weight, and noted for a constant.
    for trained in [true, false] {
        let mut unnamed = base("torchtitan", true);
        unnamed.share(".weight", &["layers.1"], trained);
        match unnamed.export("torchtitan") {
            Err(error) => assert_eq!((error.code().name, trained), ("E018", true)),
            Ok(export) => {
                assert!(
                    export.notes.iter().any(|note| note.starts_with("`.weight`: ")),
                    "{:?}",
                    export.notes
                );
                assert!(!trained);
            }
        }
    }
}
