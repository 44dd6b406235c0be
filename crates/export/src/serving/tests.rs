//! Tests of what all targets do, and of what each writes.

use stagewright_core::document::{PlanStatus, ServingPlanDocument, ServingRole, SpeculationDocument};

use super::testing::{aggregated, disaggregated, notes, plan, refused, replica, stage, text};
use super::{SERVING_TARGETS, serving_target};

/// The command of every process in a script.
fn commands(text: &str) -> Vec<&str> {
    text.lines().filter_map(|line| line.strip_prefix("    CUDA_VISIBLE_DEVICES=")).collect()
}

/// Whether a command has an option with a value.
fn has(command: &str, option: &str) -> bool {
    format!("{command} ").contains(&format!(" {option} "))
}

#[test]
fn targets_are_found_by_name() {
    for target in SERVING_TARGETS {
        assert!(std::ptr::eq(serving_target(target.name).unwrap(), *target));
    }
    let error = serving_target("vlm").unwrap_err();
    assert_eq!((error.code().name, error.to_string().contains("vllm")), ("E001", true));
}

#[test]
fn plans_without_replicas_are_refused() {
    let mut empty = plan("vllm", Vec::new());
    empty.status = PlanStatus::Infeasible;
    for target in SERVING_TARGETS {
        let (code, place, message) = refused(&empty, target.name);
        assert_eq!((code, place.as_deref()), ("E002", Some("status")));
        assert!(message.contains("infeasible"), "{message}");
    }
}

#[test]
fn plans_for_other_engines_are_refused() {
    for (engine, targets) in [
        ("vllm", &["sglang", "tensorrt-llm"][..]),
        ("sglang", &["vllm", "tensorrt-llm"]),
        ("tensorrt-llm", &["vllm", "sglang", "llm-d"]),
        ("other", &["vllm", "sglang", "tensorrt-llm", "dynamo", "llm-d"]),
    ] {
        for target in SERVING_TARGETS {
            let plan = disaggregated(engine);
            if targets.contains(&target.name) {
                let (code, place, _) = refused(&plan, target.name);
                assert_eq!((code, place.as_deref()), ("E035", Some("question.engine")), "{}", target.name);
            } else {
                text(&plan, target.name);
            }
        }
    }
}

#[test]
fn plans_that_contradict_themselves_are_refused_with_their_place() {
    let check = |change: fn(&mut ServingPlanDocument), place: &str| {
        let mut plan = disaggregated("vllm");
        change(&mut plan);
        for target in ["vllm", "dynamo", "llm-d", "router-weights"] {
            let (code, found, message) = refused(&plan, target);
            assert_eq!((code, found.as_deref()), ("E029", Some(place)), "{target}: {message}");
        }
    };
    check(|plan| plan.replicas[0].class = 1, "replicas[0].class");
    check(|plan| plan.replicas[1].stages.clear(), "replicas[1].stages");
    check(|plan| plan.replicas[1].count = 0, "replicas[1].count");
    check(|plan| plan.replicas[0].batch = 4, "replicas[0].batch");
    check(|plan| plan.replicas[1].requests_per_s = f64::NAN, "replicas[1].requests_per_s");
    check(|plan| plan.replicas[1].stages[0].first = 1, "replicas[1].stages[0].first");
    check(|plan| plan.replicas[1].stages[0].layers = 31, "replicas[1].stages");
    check(|plan| plan.replicas[1].stages[0].tensor = u64::MAX, "replicas[1].stages[0].tensor");
    check(|plan| plan.replicas[1].stages[0].experts = 3, "replicas[1].stages[0].experts");
    check(|plan| plan.replicas[1].stages[0].tensor = 6, "replicas[1].stages[0].tensor");
    check(|plan| plan.replicas[1].stages[0].kind = "medium".into(), "replicas[1].stages[0].kind");
    check(|plan| plan.replicas.truncate(1), "replicas[0].role");
    check(|plan| plan.replicas[0].count = u64::MAX, "replicas");
}

#[test]
fn stages_have_equal_degrees() {
    let stages = vec![stage("large", [4, 1, 1], 0, 20), stage("small", [2, 1, 1], 20, 12)];
    let (code, place, _) = refused(&aggregated("vllm", stages), "vllm");
    assert_eq!((code, place.as_deref()), ("E023", Some("replicas[0].stages[1].tensor")));
}

#[test]
fn copies_get_servers_and_devices() {
    let one = replica(ServingRole::Aggregated, 3, vec![stage("small", [1, 1, 1], 0, 32)]);
    let two = replica(ServingRole::Aggregated, 2, vec![stage("small", [2, 1, 1], 0, 32)]);
    let script = text(&plan("vllm", vec![one.clone(), two]), "vllm");
    // Larger groups come first: the second server is opened for the last copies.
    let devices: Vec<&str> =
        commands(&script).iter().map(|line| line.split(' ').next().unwrap_or_default()).collect();
    assert_eq!(devices, ["0,1", "2,3", "0", "1", "2"]);
    let too_many = replica(ServingRole::Aggregated, 9, one.stages);
    assert_eq!(refused(&plan("vllm", vec![too_many]), "vllm").0, "E029");
}

#[test]
fn launchers_give_every_server_as_many_ranks() {
    let stages = vec![stage("large", [8, 1, 1], 0, 20), stage("small", [8, 1, 1], 20, 12)];
    for target in ["vllm", "dynamo", "llm-d"] {
        let (code, _, message) = refused(&aggregated("vllm", stages.clone()), target);
        assert_eq!((code, message.contains("8 and 4 devices")), ("E016", true), "{message}");
    }
    let mixed = vec![stage("large", [4, 1, 1], 0, 20), stage("small", [4, 1, 1], 20, 12)];
    for target in ["dynamo", "llm-d"] {
        let (code, _, message) = refused(&aggregated("vllm", mixed.clone()), target);
        assert_eq!((code, message.contains("large and small")), ("E016", true), "{message}");
    }
    assert_eq!(refused(&aggregated("tensorrt-llm", mixed), "tensorrt-llm").0, "E016");
}

#[test]
fn a_pipeline_has_its_layers_and_a_process_on_each_server() {
    let stages = vec![stage("large", [4, 1, 1], 0, 20), stage("small", [4, 1, 1], 20, 12)];
    for (engine, variable, head) in [
        ("vllm", "VLLM_PP_LAYER_PARTITION=20,12", "--master-addr \"${SERVER_0}\""),
        ("sglang", "SGLANG_PP_LAYER_PARTITION=20,12", "--dist-init-addr \"${SERVER_0}:34000\""),
    ] {
        let script = text(&aggregated(engine, stages.clone()), engine);
        let commands = commands(&script);
        assert_eq!(commands.len(), 2);
        for (rank, command) in commands.iter().enumerate() {
            for option in [variable, head, "--nnodes 2", &format!("--node-rank {rank}")] {
                assert!(has(command, option), "{command} has no {option}");
            }
        }
        assert_eq!(
            commands.iter().filter(|command| command.contains("--headless")).count() == 1,
            engine == "vllm"
        );
    }
    let stages = vec![stage("large", [2, 1, 1], 0, 20), stage("large", [2, 1, 1], 20, 12)];
    let settings = text(&aggregated("tensorrt-llm", stages), "tensorrt-llm");
    for line in ["pp_partition:\n  - 20\n  - 12\n", "max_batch_size: 32\n", "pipeline_parallel_size: 2\n"] {
        assert!(settings.contains(line), "{settings}");
    }
}

#[test]
fn models_are_named_by_their_folder_and_quoted() {
    let line = |model: &str| {
        let mut plan = disaggregated("vllm");
        plan.model = model.into();
        let script = text(&plan, "vllm");
        let command = commands(&script)[0].to_owned();
        command.split_once("vllm serve ").unwrap().1.split_once(" --tensor").unwrap().0.to_owned()
    };
    for (model, shown) in [
        ("org/small", "org/small"),
        ("models/small/config.json", "models/small"),
        ("/config.json", "/"),
        ("config.json", "."),
        ("it's $(x)", r"'it'\''s $(x)'"),
        ("-rf", "./-rf"),
        ("a\nb", "MODEL"),
    ] {
        assert_eq!(line(model), shown);
    }
    let mut plan = disaggregated("vllm");
    plan.model = "a $(X): b".into();
    assert!(text(&plan, "dynamo").contains("\"a $$(X): b\""));
    plan.model = "a\nb".into();
    assert!(notes(&plan, "vllm").contains(r"put the model `a\nb` for MODEL"));
}

#[test]
fn drafts_and_lengths_are_noted() {
    let mut plan = disaggregated("vllm");
    plan.question.speculation = Some(SpeculationDocument { drafts: 3, acceptance: 0.7, draft_share: 0.1 });
    plan.question.chunk = Some(128);
    let notes = notes(&plan, "vllm");
    assert!(notes.contains("3 drafts a step, accepted with probability 0.7"), "{notes}");
    assert!(notes.contains("4096 + 512 tokens (class 0)"), "{notes}");
    // A step has all that is decoded, with its drafts.
    assert!(text(&plan, "vllm").contains("--max-num-batched-tokens 256"));
}

#[test]
fn engines_lack_degrees_and_encodings() {
    let groups = vec![stage("large", [2, 4, 4], 0, 32)];
    let (code, place, _) = refused(&aggregated("vllm", groups.clone()), "vllm");
    assert_eq!((code, place.as_deref()), ("E036", Some("replicas[0].stages[0].experts")));
    let (code, place, _) = refused(&aggregated("tensorrt-llm", groups.clone()), "dynamo");
    assert_eq!((code, place.as_deref()), ("E036", Some("replicas[0].stages[0].data")));
    let script = text(&aggregated("sglang", groups), "sglang");
    for option in ["--tp-size 8", "--attn-dp-size 4", "--ep-size 4", "--max-running-requests 256"] {
        assert!(has(commands(&script)[0], option), "{script}");
    }
    assert!(has(commands(&script)[0], "--chunked-prefill-size 32768"));
    let whole = text(&aggregated("vllm", vec![stage("large", [2, 4, 8], 0, 32)]), "vllm");
    for option in ["--tensor-parallel-size 2", "--data-parallel-size 4", "--enable-expert-parallel"] {
        assert!(has(commands(&whole)[0], option), "{whole}");
    }
    let mut apart = disaggregated("vllm");
    apart.replicas[1].stages = vec![stage("large", [2, 1, 1], 0, 16), stage("large", [2, 1, 1], 16, 16)];
    let (code, place, _) = refused(&apart, "llm-d");
    assert_eq!((code, place.as_deref()), ("E036", Some("replicas[1].stages")));
    for (engine, encoding, shown) in [
        ("vllm", "fp8", Some("--kv-cache-dtype fp8")),
        ("vllm", "q8_0", None),
        ("sglang", "fp8", Some("--kv-cache-dtype fp8_e4m3")),
        ("sglang", "f16", None),
        ("tensorrt-llm", "fp8", Some("dtype: fp8")),
        ("tensorrt-llm", "bf16", None),
    ] {
        let mut plan = disaggregated(engine);
        plan.question.cache = Some(encoding.into());
        match shown {
            Some(shown) => assert!(text(&plan, engine).contains(shown)),
            None => assert_eq!(refused(&plan, engine).0, "E036"),
        }
    }
}
