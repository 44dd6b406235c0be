//! The records of all options, in the order in which help lists them.

use super::Values::{Choice as Of, Choices, File, Files, Number, Numbers, Switch, Text, Texts};
use super::{Choice, Group, Kind, OptionRecord, Values};

const PLACEMENT: &[Kind] = &[Kind::Placement];
const JOINT: &[Kind] = &[Kind::Joint];
const EITHER: &[Kind] = &[Kind::Placement, Kind::Joint];
const LOCAL: &[Kind] = &[Kind::Local];
const SERVING: &[Kind] = &[Kind::Serving];
/// Questions about running engines on one machine or several.
const DEPLOYED: &[Kind] = &[Kind::Local, Kind::Serving];
const ON_DEVICES: &[Kind] = &[Kind::Placement, Kind::Joint, Kind::Local];
const ON_CLUSTERS: &[Kind] = &[Kind::Placement, Kind::Joint, Kind::Local, Kind::Serving];
/// Questions about the configuration of a language model.
const CONFIGURED: &[Kind] = &[Kind::Placement, Kind::Joint, Kind::Serving];
const ANY: &[Kind] =
    &[Kind::Placement, Kind::Joint, Kind::Local, Kind::Strategies, Kind::LayerFlow, Kind::Serving];
/// Questions whose plans can be compared with measurements of running programs.
const MEASURED: &[Kind] = &[Kind::Joint, Kind::Serving];
const FLOW: &[Kind] = &[Kind::LayerFlow];
const STARTED: &[Kind] = &[Kind::Placement, Kind::Strategies, Kind::Serving];
/// Those whose solvers have tables, threads or random choices.
const SEARCHED: &[Kind] = &[Kind::Placement, Kind::Joint, Kind::Strategies, Kind::LayerFlow];
const THREADED: &[Kind] = &[Kind::Placement, Kind::Joint, Kind::Strategies, Kind::LayerFlow, Kind::Serving];

const fn option(
    group: Group,
    name: &'static str,
    kinds: &'static [Kind],
    values: Values,
    help: &'static str,
) -> OptionRecord {
    OptionRecord {
        name,
        written: None,
        group,
        values,
        help,
        default: "",
        is_value: false,
        kinds,
        requires: None,
    }
}

impl OptionRecord {
    const fn written_as(self, written: &'static str) -> OptionRecord {
        OptionRecord { written: Some(written), ..self }
    }

    const fn by_default(self, default: &'static str) -> OptionRecord {
        OptionRecord { default, ..self }
    }

    const fn set_to(self, value: &'static str) -> OptionRecord {
        OptionRecord { default: value, is_value: true, ..self }
    }

    const fn with(self, requires: &'static str) -> OptionRecord {
        OptionRecord { requires: Some(requires), ..self }
    }
}

/// An option whose meaning individual commands document.
const fn of_command(name: &'static str, kinds: &'static [Kind]) -> OptionRecord {
    option(Group::Command, name, kinds, Switch, "")
}

const fn named(name: &'static str) -> Choice {
    Choice { name, help: "", switch: None }
}

const fn switch(name: &'static str, value: bool) -> Choice {
    Choice { name, help: "", switch: Some(value) }
}

const SCHEDULES: &[Choice] = &[
    named("none"),
    named("gpipe"),
    named("1f1b"),
    named("interleaved"),
    named("zero-bubble"),
    named("zero-bubble-2p"),
    named("dualpipe-v"),
];
const PRECISIONS: &[Choice] = &[
    named("fp64"),
    named("fp32"),
    named("tf32"),
    named("fp16"),
    named("bf16"),
    named("fp8"),
    named("fp4"),
    named("int8"),
    named("int4"),
];
const GRADIENTS: &[Choice] = &[
    Choice { name: "mirrored", help: "Like the activations, as in the NeurIPS 2020 package", switch: None },
    Choice {
        name: "reversed",
        help: "From each reader back along its edge, in the order of a true backward pass",
        switch: None,
    },
];
const PHASES: &[Choice] = &[
    Choice { name: "prefill", help: "Reads the prompts of new sequences", switch: None },
    Choice { name: "decode", help: "Computes one more token of every sequence", switch: None },
    Choice { name: "training", help: "Trains on whole sequences", switch: None },
];
const U32: u64 = u32::MAX as u64;

/// All options of questions.
pub const OPTIONS: &[OptionRecord] = &[
    option(
        Group::Surroundings,
        "cluster",
        ON_CLUSTERS,
        File("CLUSTER"),
        "Cluster: a TOML or JSON file, a built-in name such as dgx-a100, or devices such as 8xa100 or \
         4xv100:fp32+1xepyc-7742. Optional if the model carries its own, or the plan that is read keeps it",
    ),
    option(
        Group::Surroundings,
        "pins",
        PLACEMENT,
        File("FILE"),
        "Pins file: operators, and the devices, kinds or classes that each may use",
    ),
    option(
        Group::Surroundings,
        "memory_reserve",
        ON_CLUSTERS,
        Text("SIZE"),
        "Memory to keep free on every device except hosts, instead of the cluster's reserve: 16GiB, none",
    ),
    option(
        Group::Surroundings,
        "costs",
        ON_CLUSTERS,
        Files("FILE"),
        "Measurements that price the model instead of the roofline, in any format that `costs import` reads. What was not \
         measured is priced by networks (`learned`, the default for placements) or by closed forms (`closed`); for a local plan, outputs of \
         llama-bench on the machine; repeat for several files",
    ),
    option(Group::Reading, "format", EITHER, Text("FORMAT"), "Format of the model")
        .by_default("detected from the file"),
    option(Group::Reading, "phase", EITHER, Of(PHASES), "Step of a language model").by_default("prefill"),
    option(
        Group::Reading,
        "batch",
        EITHER,
        Number("N", u64::MAX),
        "Batch size, if the model leaves it open; of a language model, sequences in a step, 1 by default",
    ),
    option(
        Group::Reading,
        "sequence",
        EITHER,
        Number("N", u64::MAX),
        "Number of new tokens of a sequence in prefill and training",
    )
    .by_default("2048, or as many as the model reads"),
    option(
        Group::Reading,
        "dims",
        EITHER,
        Texts("NAME=N"),
        "Size of a dimension that the model only names; repeat for every such name",
    )
    .written_as("dim"),
    option(
        Group::Reading,
        "context",
        ON_DEVICES,
        Number("N", u64::MAX),
        "Number of tokens in the key-value cache, if the model leaves it open; before the step of a language model, 0 by \
         default in prefill, and in decode 4095 or as many as the model reads; of a local plan, all that llama-server holds, by \
         default what its prompts and answers need, or else as many as cost little time",
    ),
    option(
        Group::Reading,
        "sequences",
        ON_DEVICES,
        Number("N", u64::MAX),
        "Number of sequences with a key-value cache",
    )
    .by_default("the batch; 1 in a local plan"),
    option(
        Group::Reading,
        "precision",
        EITHER,
        Of(PRECISIONS),
        "Cast all floating-point numbers to this precision; of a language model only activations, and everything in \
         training, where fp8 is the precision of products in layers alone",
    )
    .by_default("that of the model; bf16"),
    option(
        Group::Reading,
        "cache",
        ON_CLUSTERS,
        Text("ENCODING"),
        "Encoding of cached keys and values: bf16, fp8, q8_0, or another one of weights; in a local plan one that llama.cpp \
         has for caches",
    )
    .by_default("that of the model, or bf16; in a local plan f16, or q8_0 if nothing fits with it"),
    option(
        Group::Reading,
        "granularity",
        EITHER,
        Of(&[named("operator"), named("layer")]),
        "Operators of the graph: kernels, or layers",
    )
    .by_default("operator"),
    option(Group::Reading, "expert_group", EITHER, Number("N", u64::MAX), "Routed experts in an operator")
        .by_default("all of a layer"),
    option(
        Group::Reading,
        "optimizer",
        EITHER,
        Of(&[named("sgd"), named("momentum"), named("adam")]),
        "Update rule of training",
    )
    .by_default("adam"),
    option(Group::Reading, "all_logits", EITHER, Switch, "Compute the logits of every token in prefill"),
    option(Group::Reading, "prediction", EITHER, Switch, "Also run the layers of multi-token prediction"),
    option(
        Group::Reading,
        "tower_tokens",
        EITHER,
        Number("N", u64::MAX),
        "Tokens of a sequence that encoders of images, audio or text read",
    )
    .by_default("none, and they hold their weights without running; that of a decoder as many as it is made for"),
    option(
        Group::Reading,
        "architecture",
        CONFIGURED,
        Text("TYPE"),
        "Architecture to read a configuration as, instead of its model_type",
    )
    .written_as("as"),
    option(
        Group::Reading,
        "set",
        CONFIGURED,
        Texts("NAME=N"),
        "Width or count that overrides the configuration's: layers, hidden, ffn, heads, kv_heads, head_width, vocabulary, \
         experts, top_k, expert_ffn, tied and others, or a key of the file; repeat for several",
    ),
    option(
        Group::Reading,
        "tied_together",
        EITHER,
        Of(&[switch("copy", false), switch("together", true)]),
        "Placement of weights that several operators read: a copy on each device, or together with all their readers",
    )
    .written_as("tied")
    .by_default("copy"),
    option(
        Group::Reading,
        "without_fusion",
        EITHER,
        Of(&[switch("on", false), switch("off", true)]),
        "Fuse the operators that runtimes run in one kernel",
    )
    .written_as("fusion")
    .by_default("on"),
    option(
        Group::Reading,
        "whole_layers",
        EITHER,
        Switch,
        "Keep the operators of every layer on one device, as runtimes that divide layers require",
    ),
    option(
        Group::Reading,
        "time_unit",
        EITHER,
        Of(&[named("s"), named("ms"), named("us"), named("ns")]),
        "Unit of the model's times; required for piper files, which do not state theirs",
    ),
    option(
        Group::Reading,
        "keep_input_costs",
        EITHER,
        Switch,
        "Keep the profiled times of input nodes, which measure data loading",
    ),
    option(Group::Reading, "profile_class", EITHER, Text("CLASS"), "Device class of the profiled times")
        .by_default("acc"),
    option(
        Group::Reading,
        "gradients",
        EITHER,
        Of(GRADIENTS),
        "Transfer of gradients, if a profile lists only forward edges",
    )
    .by_default("mirrored"),
    option(
        Group::Objective,
        "objective",
        PLACEMENT,
        Of(&[named("throughput"), named("latency"), named("makespan")]),
        "Objective to optimise",
    )
    .by_default("throughput"),
    option(
        Group::Objective,
        "split",
        PLACEMENT,
        Of(&[named("contiguous"), named("convex"), named("free")]),
        "Sets of operators that may share a device",
    )
    .by_default("contiguous"),
    option(
        Group::Objective,
        "communication",
        PLACEMENT,
        Of(&[named("serial"), named("overlap"), named("duplex")]),
        "Overlap of communication with compute",
    )
    .by_default("serial"),
    option(
        Group::Objective,
        "training",
        PLACEMENT,
        Of(&[named("combined"), named("separate")]),
        "Scoring of the passes of a training step",
    )
    .by_default("combined"),
    option(
        Group::Objective,
        "calls",
        PLACEMENT,
        Number("Q", U32),
        "Maximum number of calls per accelerator, for latency",
    )
    .by_default("1"),
    option(
        Group::Objective,
        "execution",
        PLACEMENT,
        Of(&[named("ports"), named("contention-free")]),
        "Execution of a step, for makespan: transfers through ports, or contention-free as in GiPH's simulator",
    )
    .by_default("ports"),
    option(
        Group::Objective,
        "schedule",
        EITHER,
        Choices(SCHEDULES),
        "Pipeline schedule: the value is the time of one iteration; also sets the activations in memory. With \
         --parallel, those that a plan may have, separated by commas: 1f1b, interleaved, zero-bubble, \
         zero-bubble-2p, dualpipe-v",
    )
    .by_default("none; 1f1b with --parallel"),
    option(
        Group::Objective,
        "microbatches",
        PLACEMENT,
        Number("M", U32),
        "Number of microbatches of the schedule",
    ),
    option(
        Group::Objective,
        "max_replicas",
        PLACEMENT,
        Number("R", U32),
        "Maximum number of devices that a stage may be replicated on",
    )
    .by_default("1"),
    option(
        Group::Selection,
        "stages",
        PLACEMENT,
        Number("N", U32),
        "Exact number of stages: devices that hold operators, the replicas of a stage counted once",
    ),
    option(
        Group::Selection,
        "max_hops",
        FLOW,
        Number("N", U32),
        "Maximum number of nodes that a token may pass",
    ),
    option(
        Group::Selection,
        "all_devices",
        PLACEMENT,
        Switch,
        "Give every device work; hosts only in a cluster of hosts",
    ),
    option(
        Group::Selection,
        "alone",
        PLACEMENT,
        Texts("PATTERN"),
        "Give the operators of this name, or that match this pattern with * and ?, a stage that holds nothing else; \
         repeat for further stages",
    ),
    option(
        Group::Selection,
        "within",
        PLACEMENT,
        Text("SHARE"),
        "Choose among the plans whose value exceeds the best by at most this share, such as 1%",
    )
    .with("then"),
    option(
        Group::Selection,
        "then",
        PLACEMENT,
        Of(&[
            Choice { name: "memory", help: "Bytes on the device that uses most", switch: None },
            Choice { name: "devices", help: "Devices with work", switch: None },
            Choice { name: "communication", help: "Seconds of communication of all devices", switch: None },
        ]),
        "What the chosen plan minimises",
    )
    .with("within"),
    option(
        Group::Joint,
        "parallel",
        JOINT,
        Text("LIST"),
        "Parallelism that a joint plan may use: tp, cp, dp, pp, ep, zero, shard, recompute, offload, mixed, separated by commas. tp=8 gives a \
         degree, pp=4 the devices of a pipeline (groups of tp · cp devices of one copy), zero=1 a stage, shard=8 the copies \
         that divide states, recompute=full a configuration of all layers of a stack, offload=1 the states of the optimizer in the memory \
         of hosts, which kinds state as `ram`, recompute=offload activations there; recompute and offload together allow both. mixed allows \
         stages with devices of two kinds. Without it, every operator runs on \
         one device",
    ),
    option(
        Group::Joint,
        "global_batch",
        JOINT,
        Number("N", u64::MAX),
        "Samples of a batch over all copies",
    )
    .by_default("the microbatches in a file of Piper")
    .with("parallel"),
    option(Group::Joint, "microbatch", JOINT, Number("N", U32), "Samples of a microbatch")
        .by_default("any")
        .with("parallel"),
    option(Group::Joint, "chunks", JOINT, Number("N", U32), "Stages per device under the schedules interleaved and dualpipe-v")
        .by_default("any")
        .with("parallel"),
    option(
        Group::Joint,
        "cut",
        JOINT,
        Numbers("LIST", U32),
        "Layers of the stack on every stage, in the order of the stages: 10,12,12,10",
    )
    .by_default("any")
    .with("parallel"),
    option(
        Group::Joint,
        "runtime",
        JOINT,
        Text("RUNTIME"),
        "Runtime whose overlaps, memory and host determine a joint plan: megatron, torchtitan, fsdp, deepspeed, nanotron, \
         scaling, eager, or ideal, which loses nothing and overlaps nothing; or a file with the constants of one",
    )
    .by_default("megatron")
    .with("parallel"),
    option(
        Group::Joint,
        "recompute_workspace",
        JOINT,
        Of(&[named("max"), named("sum")]),
        "Memory of layers of a piper file that are recomputed: the largest of a stage, or their sum as Piper counts",
    )
    .by_default("max")
    .with("parallel"),
    option(
        Group::Local,
        "local",
        LOCAL,
        Switch,
        "Plan a GGUF file for llama.cpp on one machine: the order of the cards, their layers, projections in RAM, and the \
         micro-batch",
    ),
    option(
        Group::Local,
        "goal",
        DEPLOYED,
        Of(&[
            Choice { name: "decode", help: "Seconds of a token", switch: None },
            Choice { name: "prefill", help: "Seconds until a prompt is read", switch: None },
            Choice { name: "request", help: "Seconds of a prompt and the tokens that answer it", switch: None },
            Choice { name: "throughput", help: "Requests per second of a serving plan", switch: None },
            Choice { name: "devices", help: "Fewest devices that serve a load", switch: None },
            Choice { name: "price", help: "Least price of an hour that serves a load", switch: None },
            Choice { name: "cache", help: "Tokens in the caches of all replicas", switch: None },
        ]),
        "Goal: decode, prefill or request of a local plan; throughput, devices, price or cache of a serving plan",
    )
    .by_default("request with lengths, or else decode; throughput"),
    option(Group::Local, "prompt", LOCAL, Number("N", u64::MAX), "Tokens of the prompt"),
    option(Group::Local, "output", DEPLOYED, Number("N", u64::MAX), "Tokens that answer a prompt"),
    option(Group::Local, "micro_batch", LOCAL, Number("N", u64::MAX), "Tokens of a micro-batch (--ubatch-size)")
        .by_default("the fastest of 128 to 4096 with a prompt, or else 512"),
    option(
        Group::Serving,
        "serve",
        SERVING,
        Switch,
        "Plan replicas of a language model that engines serve: which devices, degrees, stages and batches, with prompts apart from \
         decoding or not",
    ),
    option(Group::Serving, "engine", SERVING, Text("ENGINE"), "Engine: vllm, sglang or tensorrt-llm")
        .by_default("vllm"),
    option(Group::Serving, "input", SERVING, Number("N", u64::MAX), "Tokens of a request's prompt"),
    option(
        Group::Serving,
        "shared_prefix",
        SERVING,
        Number("N", u64::MAX),
        "Tokens at the beginning of a prompt that are cached already",
    )
    .by_default("0"),
    option(
        Group::Serving,
        "classes",
        SERVING,
        Texts("IN:OUT=SHARE"),
        "Class of requests by tokens of prompt and answer, with its share of all requests: 4096:512=70%, or 4096:512:1024=70% with a \
         prefix that is cached already; repeat for several, in place of --input and --output",
    )
    .written_as("class"),
    option(
        Group::Serving,
        "concurrency",
        SERVING,
        Number("N", 1 << 40),
        "Requests in the system at once: at most for throughput, and to be served for other goals",
    ),
    option(Group::Serving, "rate", SERVING, Text("RATE"), "Requests per second that arrive, in place of --concurrency"),
    option(Group::Serving, "ttft", SERVING, Text("TIME"), "Limit on the time to the first token: 2s, 500ms")
        .by_default("none"),
    option(Group::Serving, "tpot", SERVING, Text("TIME"), "Limit on the time between tokens: 50ms")
        .by_default("none"),
    option(
        Group::Serving,
        "limits",
        SERVING,
        Of(&[
            Choice { name: "mean", help: "Mean times of requests", switch: None },
            Choice { name: "p95", help: "Times that one request in twenty may exceed", switch: None },
        ]),
        "Times that --ttft and --tpot limit",
    )
    .by_default("mean"),
    option(
        Group::Serving,
        "modes",
        SERVING,
        Choices(&[
            Choice { name: "aggregated", help: "Replicas read prompts and decode", switch: None },
            Choice { name: "disaggregated", help: "Some replicas read prompts, others decode", switch: None },
        ]),
        "Modes that a plan may mix",
    )
    .written_as("mode")
    .by_default("both"),
    option(Group::Serving, "chunk", SERVING, Number("N", u64::MAX), "Tokens of prompts in a step")
        .by_default("that of the engine"),
    option(Group::Serving, "memory_share", SERVING, Text("SHARE"), "Share of memory that the engine uses: 90%")
        .by_default("that of the engine"),
    option(Group::Serving, "max_batch", SERVING, Number("N", u64::MAX), "Maximum number of sequences of a rank")
        .by_default("as many as fit"),
    option(Group::Serving, "max_stages", SERVING, Number("N", 64), "Maximum number of stages of a replica")
        .by_default("4"),
    option(
        Group::Serving,
        "speculation",
        SERVING,
        Text("N:P[:S]"),
        "Speculative decoding, or multi-token prediction: tokens of a draft, probability that one is accepted, and the time to draft \
         one as a share of a step: 3:0.7:0.1",
    )
    .by_default("none"),
    option(
        Group::Serving,
        "prices",
        SERVING,
        Texts("KIND=PRICE"),
        "Price of a device for an hour: h100=2.50; repeat for every kind",
    )
    .written_as("price"),
    option(
        Group::Serving,
        "calibration",
        SERVING,
        Text("FILE"),
        "File of measured factors on times, as `make judge-serving OPTIONS=--calibration` writes them",
    ),
    option(
        Group::Serving,
        "move_price",
        SERVING,
        Text("PRICE"),
        "Price of a gigabyte (10⁹ bytes) of weights that replicas load which do not run in the plan of --start, in the unit of the \
         goal: 0.05",
    ),
    option(
        Group::Solving,
        "time_limit",
        ANY,
        Text("TIME"),
        "Wall-clock limit of the solve, from when its inputs are read: 60s, 500ms, 2m, none. Several hundred thousand \
         operators may take some tenths of a second more",
    )
    .set_to("60s"),
    option(
        Group::Solving,
        "memory_limit",
        SEARCHED,
        Text("SIZE"),
        "Memory limit of the solver's tables: 8GiB, none",
    )
    .set_to("8GiB"),
    option(
        Group::Solving,
        "gap",
        ANY,
        Text("SHARE"),
        "Stop at this gap, such as 1% or 0.01, and exit with 4 if it is not reached",
    ),
    option(Group::Solving, "seed", SEARCHED, Number("N", u64::MAX), "Seed of every random choice").set_to("0"),
    option(Group::Solving, "threads", THREADED, Number("N", u64::MAX), "Worker threads")
        .by_default("one per processor"),
    // The kinds for which `bound` takes a solver; `plan` also accepts the name of a strategy problem's only solver.
    of_command("solver", PLACEMENT),
    of_command("start", STARTED),
    of_command("simulations", PLACEMENT),
    of_command("checkpoint", PLACEMENT),
    of_command("flags", LOCAL),
    of_command("robust", PLACEMENT),
    of_command("costs_off", PLACEMENT),
    of_command("measured", MEASURED),
    of_command("dot", PLACEMENT),
    of_command("trace", PLACEMENT),
    of_command("html", ON_CLUSTERS),
    of_command("convergence", EITHER),
    of_command("solvers", ON_CLUSTERS),
    of_command("plan", ON_DEVICES),
    of_command("baseline", ON_DEVICES),
    of_command("seeds", EITHER),
];

#[cfg(test)]
mod tests {
    use serde::Serialize;
    use serde_json::{Map, Value, json};
    use stagewright_core::document::{
        GranularityDocument, ModelOptionsDocument, OptimizerDocument, PhaseDocument, Precision,
    };
    use stagewright_formats::FORMATS;

    use super::super::{Group, OPTIONS, Values, option, read};
    use super::PRECISIONS;
    use crate::tasks::{LocalOptions, ObjectiveOptions, ParallelOptions, SelectionOptions, ServingOptions};

    /// Every value of an option, as it is read.
    fn values(values: Values) -> Vec<Value> {
        match values {
            Values::Switch => vec![json!(true)],
            Values::Number(_, most) => vec![json!(0), json!(most)],
            Values::Numbers(_, most) => vec![json!([0, most])],
            Values::Text(_) | Values::File(_) => vec![json!("text")],
            Values::Texts(_) | Values::Files(_) => vec![json!(["text"])],
            Values::Choice(choices) => choices
                .iter()
                .map(|choice| choice.switch.map_or_else(|| json!(choice.name), Value::Bool))
                .collect(),
            Values::Choices(choices) => choices.iter().map(|choice| json!([choice.name])).collect(),
        }
    }

    fn reads(group: Group, name: &str, value: Value) -> Result<(), crate::failure::Failure> {
        let place = &(std::sync::Arc::new(str::to_owned) as crate::reading::Place);
        let mut given = Map::from_iter([(name.to_owned(), value)]);
        match group {
            Group::Surroundings | Group::Reading => read::<ModelOptionsDocument>(given, place).map(|_| ()),
            Group::Objective => read::<ObjectiveOptions>(given, place).map(|_| ()),
            Group::Selection => read::<SelectionOptions>(given, place).map(|_| ()),
            Group::Joint => {
                given.entry("parallel").or_insert_with(|| json!("dp"));
                read::<ParallelOptions>(given, place).map(|_| ())
            }
            Group::Local => read::<LocalOptions>(given, place).map(|_| ()),
            Group::Serving => read::<ServingOptions>(given, place).map(|_| ()),
            Group::Solving | Group::Command => Ok(()),
        }
    }

    /// Options that the program itself converts first: texts with a unit or a name, paths, and goals, some of which are of local
    /// plans and some of serving plans.
    const INTERPRETED: [&str; 8] =
        ["cluster", "pins", "memory_reserve", "costs", "dims", "set", "within", "goal"];

    #[test]
    fn every_value_is_read() {
        for record in OPTIONS.iter().filter(|record| !INTERPRETED.contains(&record.name)) {
            for value in values(record.values) {
                reads(record.group, record.name, value)
                    .unwrap_or_else(|error| panic!("{}: {error}", record.name));
            }
        }
        assert!(reads(Group::Objective, "split", json!("none")).is_err());
        assert!(reads(Group::Joint, "microbatch", json!(1_u64 << 32)).is_err());
    }

    fn fields(structure: impl Serialize) -> Vec<String> {
        match serde_json::to_value(structure).expect("JSON") {
            Value::Object(fields) => fields.into_iter().map(|(name, _)| name).collect(),
            other => panic!("{other}"),
        }
    }

    /// Every option of the model formats is defined, and so is every field of the document.
    #[test]
    fn every_field_and_every_option_of_a_format_is_defined() {
        let named = FORMATS.iter().flat_map(|entry| entry.options.iter().copied());
        let unknown: Vec<_> = named.filter(|name| option(name).is_none()).collect();
        assert!(unknown.is_empty(), "{unknown:?}");
        let every = ModelOptionsDocument {
            format: Some(String::new()),
            batch: Some(1),
            whole_layers: true,
            dims: [(String::new(), 1)].into(),
            context: Some(1),
            sequences: Some(1),
            precision: Some(Precision::Fp32),
            tied_together: true,
            without_fusion: true,
            time_unit: Some(stagewright_core::document::TimeUnitDocument::S),
            keep_input_costs: true,
            profile_class: Some(String::new()),
            gradients: Some(stagewright_core::document::GradientsDocument::Mirrored),
            memory_reserve: Some(1),
            costs: vec![String::new()],
            phase: Some(PhaseDocument::Decode),
            sequence: Some(1),
            cache: Some(String::new()),
            granularity: Some(GranularityDocument::Layer),
            expert_group: Some(1),
            optimizer: Some(OptimizerDocument::Sgd),
            all_logits: true,
            prediction: true,
            tower_tokens: Some(1),
            architecture: Some(String::new()),
            set: [(String::new(), 1)].into(),
            ..ModelOptionsDocument::default()
        };
        let unknown: Vec<_> = fields(every).into_iter().filter(|name| option(name).is_none()).collect();
        assert!(unknown.is_empty(), "{unknown:?}");
        let names: Vec<_> = Precision::ALL.iter().map(|precision| precision.name()).collect();
        assert_eq!(PRECISIONS.iter().map(|choice| choice.name).collect::<Vec<_>>(), names);
    }

    #[test]
    fn names_are_unique() {
        let mut names: Vec<_> = OPTIONS.iter().map(|record| record.name).collect();
        names.sort_unstable();
        let count = names.len();
        names.dedup();
        assert_eq!(names.len(), count);
    }
}
