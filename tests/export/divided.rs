//! Random pipelines: every export is interpreted as its runtime interprets it, and must place every operator as the
//! plan does.

use std::collections::BTreeMap;

use rand::seq::{IndexedRandom, SliceRandom};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use stagewright::core::document::{GRAPH_SCHEMA_2, GraphDocument, OperatorDocument, PlanDocument};
use stagewright::core::graph::Graph;
use stagewright::export::ExportError;
use stagewright::workloads::Granularity;

use super::plans::{cut_before, device, export, graph, operator, pipeline, text, workload_of};
use super::random::{ROUNDS, above, assigned};

/// A model that is a chain with one stack of layers, and a plan with random cuts.
struct Case {
    graph: Graph,
    plan: PlanDocument,
    /// The stage of each operator.
    stage: Vec<usize>,
    /// The layer of the stack to which each operator belongs, if any.
    block: Vec<Option<usize>>,
    /// Whether each operator is before the stack.
    before: Vec<bool>,
    /// The path of each operator.
    paths: Vec<String>,
    stages: usize,
    blocks: usize,
}

impl Case {
    fn random(rng: &mut ChaCha8Rng) -> Case {
        let blocks = rng.random_range(1..7);
        let stack = *["layers", "model.layers", "a\"\\.h"].choose(rng).expect("some");
        let mut paths: Vec<(String, Option<usize>, bool)> = Vec::new();
        for index in 0..rng.random_range(0..3) {
            paths.push((format!("embed.word{index}"), None, true));
        }
        for block in 0..blocks {
            for part in 0..rng.random_range(1..4) {
                paths.push((format!("{stack}.{block}.part{part}"), Some(block), false));
            }
        }
        for index in 0..rng.random_range(0..3) {
            paths.push((["norm", "head"][index].to_owned(), None, false));
        }
        let count = paths.len();
        let stages = rng.random_range(1..=count.min(4));
        // Cuts are mostly between layers, so that many plans can be exported.
        let ends: Vec<usize> = (1..count)
            .filter(|&index| paths[index].1 != paths[index - 1].1 || paths[index].1.is_none())
            .collect();
        let anywhere = rng.random_bool(0.3) || ends.len() < stages;
        let mut cuts: Vec<usize> = if anywhere { (1..count).collect() } else { ends };
        while cuts.len() >= stages {
            cuts.remove(rng.random_range(0..cuts.len()));
        }
        let stage: Vec<usize> =
            (0..count).map(|index| cuts.iter().filter(|&&cut| cut <= index).count()).collect();
        let names: Vec<&str> = paths.iter().map(|(path, ..)| path.as_str()).collect();
        // The host may run the first stage.
        let host = rng.random_bool(0.5);
        let devices = (0..stages).map(|own| {
            let ops: Vec<&str> =
                (0..count).filter(|&index| stage[index] == own).map(|index| names[index]).collect();
            match host && own == 0 {
                true => device("cpu0", "cpu", &ops),
                false => device(&format!("acc{own}"), "acc", &ops),
            }
        });
        let plan = pipeline(devices.collect());
        // A model may list its operators in any order.
        let mut operators: Vec<OperatorDocument> = names.iter().map(|name| operator(name, None)).collect();
        operators.shuffle(rng);
        let edges: Vec<(&str, &str)> = names.windows(2).map(|pair| (pair[0], pair[1])).collect();
        Case {
            graph: graph(operators, &edges),
            plan,
            stage,
            block: paths.iter().map(|(_, block, _)| *block).collect(),
            before: paths.iter().map(|(.., before)| *before).collect(),
            paths: paths.into_iter().map(|(path, ..)| path).collect(),
            stages,
            blocks,
        }
    }

    fn has_host(&self) -> bool {
        self.plan.devices[0].kind == "cpu"
    }

    /// Whether a layer of the stack is divided between two stages.
    fn cuts_a_block(&self) -> bool {
        (1..self.stage.len()).any(|index| {
            self.stage[index] != self.stage[index - 1]
                && self.block[index].is_some()
                && self.block[index] == self.block[index - 1]
        })
    }

    /// Whether an operator before the stack is outside the first stage, or one after the stack is outside the last.
    fn has_strays(&self) -> bool {
        let end = |index: usize| if self.before[index] { 0 } else { self.stages - 1 };
        (0..self.stage.len()).any(|index| self.block[index].is_none() && self.stage[index] != end(index))
    }

    /// Whether there are several stages, and one of them has both layers of the stack and other operators.
    fn has_doubts(&self) -> bool {
        let beside = |index: usize| self.block[index].is_none();
        let shared =
            |index: usize| (0..self.stage.len()).any(|b| !beside(b) && self.stage[b] == self.stage[index]);
        self.stages > 1 && (0..self.stage.len()).any(|index| beside(index) && shared(index))
    }

    /// Whether no layer is divided between stages.
    fn keeps_layers_whole(&self) -> bool {
        let together =
            |a: usize, b: usize| layer(self, a) != layer(self, b) || self.stage[a] == self.stage[b];
        (0..self.stage.len()).all(|a| (0..a).all(|b| together(a, b)))
    }

    /// Number of layers of the stack in each stage.
    fn counts(&self) -> Vec<usize> {
        let stage_of =
            |block: usize| self.stage[self.block.iter().position(|own| *own == Some(block)).expect("some")];
        (0..self.stages).map(|own| (0..self.blocks).filter(|&block| stage_of(block) == own).count()).collect()
    }

    /// Checks that stages with these numbers of layers place every operator as the plan does, if operators before the
    /// stack belong to the first stage and operators after it to the last.
    fn check(&self, counts: &[usize]) {
        assert_eq!(counts.len(), self.stages);
        for index in 0..self.stage.len() {
            let expected = match self.block[index] {
                Some(block) => {
                    let mut end = 0;
                    let holds = |count: &usize| {
                        end += count;
                        block < end
                    };
                    counts.iter().position(holds).expect("the layer is in a stage")
                }
                None if self.before[index] => 0,
                None => self.stages - 1,
            };
            assert_eq!(self.stage[index], expected, "{} in {counts:?}", self.paths[index]);
        }
    }

    /// Exports the plan with and without the model. The results must agree unless the model is required.
    fn export(&self, to: &str) -> Result<String, ExportError> {
        let with = export(to, &self.plan, Some(&self.graph));
        let without = export(to, &self.plan, None);
        match without.as_ref().map_err(|error| error.code().name) {
            Err("E006") => assert!(self.has_doubts() || (to == "torchtitan" && self.stages == 1)),
            // Which of two errors is reported may depend on the order of the operators.
            Err(_) => assert!(with.is_err()),
            Ok(without) => {
                let with = with.as_ref().unwrap_or_else(|error| panic!("{error}"));
                assert_eq!(unordered(to, &with.text), unordered(to, &without.text));
            }
        }
        with.map(|export| export.text)
    }
}

/// Sorts the modules within each stage of torchtitan, because their order is irrelevant.
fn unordered(to: &str, text: &str) -> String {
    if to != "torchtitan" {
        return text.to_owned();
    }
    let mut parts: Vec<Vec<String>> = assigned(text, "module_fqns_per_model_part");
    parts.iter_mut().for_each(|part| part.sort());
    format!("{parts:?}")
}

/// Runs all cases, and checks that enough of them were exported and enough refused.
fn cases(body: impl Fn(&Case) -> bool) {
    let mut outcomes = [0, 0];
    for seed in 0..ROUNDS {
        let case = Case::random(&mut ChaCha8Rng::seed_from_u64(seed));
        outcomes[usize::from(body(&case))] += 1;
    }
    assert!(outcomes.iter().all(|&count| count > 15), "{outcomes:?} were refused and written");
}

fn numbers(text: &str) -> Vec<usize> {
    text.trim().split(',').map(|number| number.parse().expect("a number")).collect()
}

#[test]
fn servers_put_every_layer_where_the_plan_has_it() {
    for (to, variable) in [("vllm", "VLLM_PP_LAYER_PARTITION="), ("sglang", "SGLANG_PP_LAYER_PARTITION=")] {
        cases(|case| match case.export(to) {
            Ok(text) => {
                assert!(!case.has_host());
                case.check(&numbers(text.strip_prefix(variable).expect("the variable")));
                true
            }
            Err(error) => {
                let empty = case.counts().contains(&0);
                let due = case.has_host() || case.cuts_a_block() || case.has_strays() || empty;
                assert!(due, "{error}: {:?} {:?}", case.paths, case.stage);
                false
            }
        });
    }
}

/// Parses a layout without brackets, as `PipelineParallelLayerLayout.parse_str_to_list` does.
fn stages_of_layout(layout: &str) -> Vec<String> {
    let mut unrolled = String::new();
    let mut rest = layout.chars().peekable();
    while let Some(c) = rest.next() {
        if c != '*' {
            assert!("Et|L".contains(c), "{layout}");
            unrolled.push(c);
            continue;
        }
        let mut digits = String::new();
        while let Some(digit) = rest.next_if(char::is_ascii_digit) {
            digits.push(digit);
        }
        let repeated = unrolled.pop().expect("something is repeated");
        unrolled.extend(std::iter::repeat_n(repeated, digits.parse().expect("a number")));
    }
    unrolled.split('|').map(str::to_owned).collect()
}

/// The value after an option.
fn value<'a>(flags: &'a str, option: &str) -> Option<&'a str> {
    let mut words = flags.split_whitespace();
    words.find(|word| *word == option).and_then(|_| words.next())
}

#[test]
fn layouts_of_megatron_put_every_layer_where_the_plan_has_it() {
    cases(|case| match case.export("megatron") {
        Ok(text) => {
            let layout = value(&text, "--pipeline-model-parallel-layout").expect("a layout");
            let stages = stages_of_layout(layout.trim_matches('\''));
            let all = stages.concat();
            // The checks of `validate_layer_layout`.
            assert!(all.starts_with('E') && all.ends_with('L'), "{layout}");
            assert_eq!((all.matches('E').count(), all.matches('L').count()), (1, 1));
            let count = |stage: &String| stage.matches('t').count();
            let counts: Vec<usize> = stages.iter().map(count).collect();
            assert_eq!(value(&text, "--num-layers"), Some(counts.iter().sum::<usize>().to_string().as_str()));
            case.check(&counts);
            true
        }
        Err(error) => {
            let due = case.has_host() || case.cuts_a_block() || case.has_strays();
            assert!(due, "{error}: {:?} {:?}", case.paths, case.stage);
            false
        }
    });
}

/// The layers of every stage according to `get_num_layers_to_build`.
fn counts_of_flags(flags: &str) -> Vec<usize> {
    let number = |option| value(flags, option).map(|value| value.parse::<usize>().expect("a number"));
    let (mut layers, size) =
        (number("--num-layers").expect("it is given"), number("--pipeline-model-parallel-size"));
    let size = size.expect("it is given");
    let first = number("--decoder-first-pipeline-num-layers");
    let last = number("--decoder-last-pipeline-num-layers");
    layers -= first.unwrap_or(0) + last.unwrap_or(0);
    let left = size - usize::from(first.is_some()) - usize::from(last.is_some());
    assert!(if left == 0 { layers == 0 } else { layers % left == 0 }, "{flags}");
    let each = layers.checked_div(left).unwrap_or(0);
    (0..size)
        .map(|stage| match (stage, size - 1 - stage) {
            (0, _) if first.is_some() => first.expect("it is given"),
            (_, 0) if last.is_some() => last.expect("it is given"),
            _ => each,
        })
        .collect()
}

#[test]
fn counts_of_megatron_put_every_layer_where_the_plan_has_it() {
    cases(|case| match case.export("megatron-layers") {
        Ok(text) => {
            case.check(&counts_of_flags(&text));
            true
        }
        Err(error) => {
            let counts = case.counts();
            let inner = counts.get(1..counts.len() - 1).unwrap_or_default();
            let uneven = inner.iter().any(|count| *count != inner[0]) || counts.contains(&0);
            let due = case.has_host() || case.cuts_a_block() || case.has_strays() || uneven;
            assert!(due, "{error}: {:?} {:?}", case.paths, case.stage);
            false
        }
    });
}

/// The device of every layer and of the output, with 0 for the host, according to `load_tensors`.
fn devices_of_llama(flags: &str, layers: usize) -> Vec<usize> {
    let offloaded: usize = value(flags, "--n-gpu-layers").expect("it is given").parse().expect("a number");
    let split = value(flags, "--tensor-split").map(numbers).unwrap_or_default();
    let sum: f32 = split.iter().map(|part| *part as f32).sum();
    let mut so_far = 0.0_f32;
    let ends: Vec<f32> = split
        .iter()
        .map(|part| {
            so_far += *part as f32;
            so_far / sum
        })
        .collect();
    let start = (layers + 1).saturating_sub(offloaded);
    let active = offloaded.min(layers + 1);
    (0..=layers)
        .map(|layer| {
            if layer < start || layer - start >= active {
                return 0;
            }
            let share = (layer - start) as f32 / active as f32;
            1 + ends.iter().position(|end| *end > share).expect("the shares end at 1")
        })
        .collect()
}

#[test]
fn llama_cpp_puts_every_layer_where_the_plan_has_it() {
    cases(|case| {
        let hosts = usize::from(case.has_host());
        match case.export("llama-cpp") {
            Ok(text) => {
                let devices = devices_of_llama(&text, case.blocks);
                for index in 0..case.stage.len() {
                    let device = match case.block[index] {
                        Some(block) => devices[block],
                        None if case.before[index] => 0,
                        None => devices[case.blocks],
                    };
                    // Device 0 is the host, which runs stage 0 if the plan has a host.
                    assert_eq!(case.stage[index] + 1 - hosts, device, "{} in {text}", case.paths[index]);
                }
                true
            }
            Err(error) => {
                let end = |index: usize| case.block[index].is_none() && case.stage[index] == 0;
                let embedding = !case.has_host() && (0..case.stage.len()).any(end);
                let due = case.cuts_a_block() || case.has_strays() || embedding;
                assert!(due, "{error}: {:?} {:?}", case.paths, case.stage);
                false
            }
        }
    });
}

/// The layer of an operator: inside the stack, the path up to the layer's number; outside, the first component of the
/// path.
fn layer(case: &Case, index: usize) -> &str {
    let path = &case.paths[index];
    match case.block[index] {
        Some(block) => {
            above(path).into_iter().find(|part| part.ends_with(&format!(".{block}"))).expect("its layer")
        }
        None => above(path)[0],
    }
}

#[test]
fn sequences_are_divided_where_the_plan_divides_them() {
    for to in ["torchgpipe", "deepspeed", "pipedream"] {
        cases(|case| {
            let text = match export(to, &case.plan, Some(&case.graph)) {
                Ok(export) => export.text,
                Err(error) => {
                    let due = !case.keeps_layers_whole() || (case.has_host() && to != "torchgpipe");
                    assert!(due, "{error}: {:?} {:?}", case.paths, case.stage);
                    return false;
                }
            };
            let (layers, stages): (Vec<String>, Vec<usize>) = match to {
                "torchgpipe" => {
                    let balance: Vec<usize> = assigned(&text, "balance");
                    let stages =
                        balance.iter().enumerate().flat_map(|(stage, count)| vec![stage; *count]).collect();
                    (assigned(&text, "layers"), stages)
                }
                "deepspeed" => {
                    let parts: Vec<usize> = assigned(&text, "PARTS");
                    let stages =
                        parts.windows(2).enumerate().flat_map(|(stage, pair)| vec![stage; pair[1] - pair[0]]);
                    (assigned(&text, "LAYERS"), stages.collect())
                }
                _ => {
                    let maps: serde_json::Value = serde_json::from_str(&text).expect("it is JSON");
                    let read = |key: &str| maps[key].clone();
                    let mut stages: Vec<usize> =
                        serde_json::from_value(read("module_to_stage_map")).expect("a list of stages");
                    assert_eq!(stages.pop(), Some(case.stages - 1), "the criterion");
                    for stage in 0..case.stages {
                        assert_eq!(maps["stage_to_rank_map"][stage.to_string()], serde_json::json!([stage]));
                    }
                    (serde_json::from_value(read("modules")).expect("a list of names"), stages)
                }
            };
            assert_eq!(layers.len(), stages.len());
            let mut in_order: Vec<&str> = (0..case.stage.len()).map(|index| layer(case, index)).collect();
            in_order.dedup();
            assert_eq!(layers, in_order, "however the model lists them");
            for index in 0..case.stage.len() {
                let places: Vec<usize> =
                    (0..layers.len()).filter(|&place| layers[place] == layer(case, index)).collect();
                let [place] = places.as_slice() else {
                    panic!("{} is in {layers:?} {places:?}", case.paths[index])
                };
                assert_eq!(stages[*place], case.stage[index]);
            }
            true
        });
    }
}

#[test]
fn titans_modules_are_those_of_the_plan() {
    cases(|case| {
        // Children of the model and of its list of layers keep their names; other modules get the names that
        // torchtitan's models use.
        let named = case.paths.iter().any(|path| path.starts_with("layers."));
        match case.export("torchtitan") {
            Ok(text) => {
                let parts: Vec<Vec<String>> = assigned(&text, "module_fqns_per_model_part");
                assert_eq!(parts.len(), case.stages);
                if named {
                    let mut modules: Vec<(String, usize)> = (0..case.stage.len())
                        .map(|index| (layer(case, index).to_owned(), case.stage[index]))
                        .collect();
                    modules.dedup();
                    let found = parts.iter().enumerate().flat_map(|(stage, part)| {
                        part.iter().map(move |name| (name.clone(), stage)).collect::<Vec<_>>()
                    });
                    let mut found: Vec<(String, usize)> = found.collect();
                    found.sort();
                    modules.sort();
                    assert_eq!(found, modules);
                } else {
                    let count =
                        |part: &Vec<String>| part.iter().filter(|name| name.starts_with("layers.")).count();
                    case.check(&parts.iter().map(count).collect::<Vec<_>>());
                    let mut all: Vec<String> =
                        (0..case.blocks).map(|block| format!("layers.{block}")).collect();
                    all.insert(0, "tok_embeddings".into());
                    all.extend(["norm".into(), "lm_head".into()]);
                    assert_eq!(parts.concat(), all);
                }
                true
            }
            Err(error) => {
                let due = case.has_host() || !case.keeps_layers_whole() || (!named && case.has_strays());
                assert!(due, "{error}: {:?} {:?}", case.paths, case.stage);
                false
            }
        }
    });
}

#[test]
fn a_program_is_cut_where_the_plan_cuts_it() {
    cases(|case| {
        // The operators are not modules themselves, but belong to modules, which are the layers of the case.
        let count = case.stage.len();
        let modules: Vec<&str> = (0..count).map(|index| layer(case, index)).collect();
        let names: Vec<String> = (0..count).map(|index| format!("op{index}")).collect();
        let operators = (0..count).map(|index| operator(&names[index], Some(modules[index]))).collect();
        let edges: Vec<(&str, &str)> =
            names.windows(2).map(|pair| (pair[0].as_str(), pair[1].as_str())).collect();
        let model = graph(operators, &edges);
        let mut plan = case.plan.clone();
        let mut next = names.iter();
        for device in &mut plan.devices {
            device.ops = next.by_ref().take(device.ops.len()).cloned().collect();
        }
        // A module begins at an operator if this is the first of its operators and they are contiguous.
        let begins = |module: &str, index: usize| {
            let own: Vec<usize> =
                (0..count).filter(|&other| above(modules[other]).contains(&module)).collect();
            own[0] == index && own[own.len() - 1] + 1 - own[0] == own.len()
        };
        let cuts: Vec<usize> =
            (1..count).filter(|&index| case.stage[index] != case.stage[index - 1]).collect();
        let Ok(export) = export("torch-pipelining", &plan, Some(&model)) else {
            let stuck = |index: usize| !above(modules[index]).iter().any(|part| begins(part, index));
            assert!(cuts.iter().any(|&index| stuck(index)), "{modules:?} {:?}", case.stage);
            return false;
        };
        let spec: BTreeMap<String, String> =
            assigned(&export.text.replace("SplitPoint.BEGINNING", "\"BEGINNING\""), "split_spec");
        let mut stage = 0;
        for (index, module) in modules.iter().enumerate() {
            let cuts = |part: &&str| spec.contains_key(*part) && begins(part, index);
            stage += above(module).iter().filter(|part| cuts(part)).count();
            assert_eq!(stage, case.stage[index], "{index} in {spec:?}");
        }
        true
    });
}

/// A view, and a norm computed in the kernel of the last sum before it, are still modules of the model.
#[test]
fn a_layer_in_the_kernel_of_another_is_a_module() {
    let riding = |name: &str, kernel: &str, parameter_bytes: f64| OperatorDocument {
        colocation: Some(kernel.into()),
        launches: Some(0.0),
        parameter_bytes,
        ..operator(name, Some(name))
    };
    let kernel =
        |name: &str| OperatorDocument { colocation: Some(name.into()), ..operator(name, Some(name)) };
    let names = ["embed", "layers.0", "layers.1", "norm", "flatten", "head"];
    let operators = vec![
        kernel("embed"),
        kernel("layers.0"),
        kernel("layers.1"),
        riding("norm", "layers.1", 4.0),
        riding("flatten", "layers.1", 0.0),
        kernel("head"),
    ];
    // A reader of the view reads the tensor of the norm.
    let edges = [
        ("embed", "layers.0"),
        ("layers.0", "layers.1"),
        ("layers.1", "norm"),
        ("norm", "flatten"),
        ("norm", "head"),
    ];
    let model =
        GraphDocument { schema: GRAPH_SCHEMA_2.into(), ..graph(operators, &edges).document().clone() };
    let model = Graph::from_document(model).expect("it is a graph");
    let plan = pipeline(vec![
        device("acc0", "acc", &names[..2]),
        device("acc1", "acc", &names[2..5]),
        device("acc2", "acc", &names[5..]),
    ]);
    let map = text("accelerate", &plan, Some(&model));
    assert!(
        names.iter().all(|name| map.contains(&format!("\"{name}\": "))) && map.contains("\"norm\": 1"),
        "{map}"
    );
    let list = text("torchgpipe", &plan, Some(&model));
    assert!(list.contains("balance = [2, 3, 1]") && list.contains("\"norm\",\n    \"flatten\","), "{list}");
    let parts = text("torchtitan", &plan, Some(&model));
    assert!(parts.contains("[\"layers.1\", \"norm\", \"flatten\"]"), "{parts}");
    // OpenVINO may merge operations if these have no kernel of their own.
    assert!(text("openvino", &plan, Some(&model)).contains("FREE = [\n    \"norm\",\n    \"flatten\"\n]"));
    // Layers are counted as before, because the kernel of the norm belongs to the stack.
    assert!(text("megatron", &plan, Some(&model)).contains("'Et|t|L'"));
}

#[test]
fn modules_that_compute_nothing_are_listed_where_numbers_leave_them_room() {
    let names = ["0", "1", "3", "6", "40"];
    let edges: Vec<(&str, &str)> = names.windows(2).map(|pair| (pair[0], pair[1])).collect();
    let model = graph(names.iter().map(|name| operator(name, Some(name))).collect(), &edges);
    let plan = pipeline(vec![device("acc0", "acc", &names[..3]), device("acc1", "acc", &names[3..])]);
    let list = text("torchgpipe", &plan, Some(&model));
    assert!(list.contains("balance = [6, 2]"), "{list}");
    let layers: Vec<&str> =
        list.lines().filter_map(|line| line.strip_prefix("    \"")?.split('"').next()).collect();
    assert_eq!(layers, ["0", "1", "2", "3", "4", "5", "6", "40"]);
}

/// Tensors of published models that no operator represents: they belong to modules that do not run, or that have
/// submodules.
#[test]
fn every_tensor_of_a_published_model_has_a_device_wherever_the_model_is_cut() {
    type Names = &'static [&'static str];
    let rotary: Names = &["model.rotary_emb.inv_freq", "model.rotary_emb.original_inv_freq"];
    let families: [(&str, &str, Names, Names); 7] = [
        ("llama", "2-7b", rotary, &[]),
        ("mixtral", "8x7b", rotary, &[]),
        ("deepseek", "v3", rotary, &[]),
        ("deepseek", "v2-lite", rotary, &[]),
        ("bert", "base", &["embeddings.position_ids", "embeddings.token_type_ids"], &["embeddings.norm"]),
        (
            "bert",
            "base-pretraining",
            &["bert.embeddings.position_ids", "bert.embeddings.token_type_ids", "cls.predictions.bias"],
            &["embeddings.norm", "masked_tokens.decoder"],
        ),
        ("vit", "b16", &["vit.embeddings.cls_token", "vit.embeddings.position_embeddings"], &[]),
    ];
    for (family, variant, tensors, within) in families {
        let graph = workload_of(family, variant, 1, Granularity::Operator);
        let names: Vec<&str> = graph.operators().map(|op| graph.operator(op).name.as_str()).collect();
        let mut written: Vec<&str> = Vec::new();
        for &first in &names[1..] {
            let Ok(export) = export("accelerate", &cut_before(&graph, &[first]), Some(&graph)) else {
                continue;
            };
            let map: BTreeMap<String, serde_json::Value> =
                serde_json::from_str(&export.text).expect("it is JSON");
            for tensor in tensors {
                // The empty name refers to the whole model.
                let holders = above(tensor).into_iter().chain([""]);
                let keys = holders.filter(|part| map.contains_key(*part)).count();
                assert_eq!(keys, 1, "{family} {variant}, cut before {first}: {tensor} in {map:?}");
            }
            written.push(first);
        }
        assert!(!written.is_empty(), "{family} {variant} is never written");
        // The model is also cut within a module that holds such a tensor.
        for first in within {
            assert!(written.contains(first), "{family} {variant} is not cut before {first}: {written:?}");
        }
    }
}
