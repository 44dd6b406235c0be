//! Output of `llama-bench` in its four notations, and machines that are calibrated by it.

use stagewright_core::ids::Keyed;
use stagewright_llamacpp::bench::{Run, read};
use stagewright_llamacpp::speed::{Work, decode, prefill};
use stagewright_llamacpp::{Host, Machine, Setting, calibrate, place};
use stagewright_structure::Structure;

use crate::fixture::{GIB, dense, devices, experts};

/// The same four tests, printed by a build of llama.cpp 0c1e57098 for a processor.
const JSON: &str = include_str!("bench/llama-bench.json");
const JSON_LINES: &str = include_str!("bench/llama-bench.jsonl");
const CSV: &str = include_str!("bench/llama-bench.csv");
const MARKDOWN: &str = include_str!("bench/llama-bench.md");

fn runs(text: &str) -> Vec<Run> {
    read("bench", text.as_bytes()).unwrap_or_else(|error| panic!("{error}"))
}

fn error(text: &str) -> String {
    read("bench", text.as_bytes()).expect_err("no runs").to_string()
}

#[test]
fn the_four_notations_say_the_same() {
    let expected = runs(JSON);
    assert_eq!(expected.len(), 4);
    let tests: Vec<_> = expected.iter().map(|run| [run.prompt, run.generated, run.depth]).collect();
    assert_eq!(tests, [[16, 0, 0], [0, 4, 0], [16, 0, 64], [0, 4, 64]]);
    assert_eq!(
        (expected[0].layers, expected[0].threads, expected[0].keys.as_str()),
        (Some(0), Some(1), "q8_0")
    );
    for text in [JSON_LINES, CSV, MARKDOWN] {
        let runs = runs(text);
        let tests: Vec<_> = runs.iter().map(|run| [run.prompt, run.generated, run.depth]).collect();
        assert_eq!(tests, [[16, 0, 0], [0, 4, 0], [16, 0, 64], [0, 4, 64]]);
        for (run, expected) in runs.iter().zip(&expected) {
            assert!(
                (run.size / expected.size - 1.0).abs() < 1e-3
                    && (run.weights / expected.weights - 1.0).abs() < 1e-3
            );
            let same = |run: &Run| {
                (run.model.clone(), run.backends.clone(), run.keys.clone(), run.threads, run.shares.clone())
            };
            assert_eq!(same(run), same(expected));
        }
    }
    // JSON and CSV have every column; each notation was printed by a run of its own.
    let mut again = runs(CSV);
    again.iter_mut().zip(&expected).for_each(|(run, expected)| run.speed = expected.speed);
    assert_eq!(again, expected);
}

/// A table as users publish it: log lines around it, several devices, shares and overrides.
#[test]
fn a_published_table_is_read() {
    let text = "\
ggml_cuda_init: found 2 CUDA devices:
  Device 0: NVIDIA GeForce RTX 3090, compute capability 8.6, VMM: yes
| model                          |       size |     params | backend    | ngl |  n_cpu_moe | n_ubatch | fa | dev          | ts           |            test |                  t/s |
| ------------------------------ | ---------: | ---------: | ---------- | --: | ---------: | -------: | -: | ------------ | ------------ | --------------: | -------------------: |
| gpt-oss 120B MXFP4 MoE         |  59.02 GiB |   116.83 B | CUDA       |  99 |         20 |     2048 |  1 | CUDA0/CUDA1  | 3.00/1.00    |          pp2048 |       1112.54 ± 9.21 |
| gpt-oss 120B MXFP4 MoE         |  59.02 GiB |   116.83 B | CUDA       |  99 |         20 |     2048 |  1 | CUDA0/CUDA1  | 3.00/1.00    |   tg128 @ d4096 |         32.96 ± 0.11 |

build: 0c1e570 (1)
";
    let runs = runs(text);
    assert_eq!(
        (runs.len(), runs[0].layers, runs[0].expert_layers, runs[0].micro_batch),
        (2, Some(99), 20, 2048)
    );
    assert_eq!(
        (runs[0].devices.as_slice(), runs[0].shares.as_slice()),
        (["CUDA0".into(), "CUDA1".into()].as_slice(), [3.0, 1.0].as_slice())
    );
    assert_eq!((runs[1].generated, runs[1].depth, runs[1].speed), (128, 4096, 32.96));
    assert!((runs[1].size / (59.02 * GIB as f64) - 1.0).abs() < 1e-12 && runs[1].weights == 116.83e9);
}

#[test]
fn what_cannot_be_read_is_named_with_its_place() {
    assert!(error("").contains("L011") && error("hello").contains("no output of `llama-bench`"));
    assert!(error("[]").contains("has no test"));
    assert!(error("[{\"avg_ts\": 1.0,").contains("bench:1:16"), "{}", error("[{\"avg_ts\": 1.0,"));
    assert!(error(&JSON_LINES.replacen("\"avg_ts\"", "\"avg\"", 1)).contains("`avg_ts` is missing"));
    assert!(error(&JSON.replacen("\"n_ubatch\": 512", "\"n_ubatch\": -1", 1)).contains("[0].n_ubatch"));
    assert!(error(&CSV.replacen("\"2048\"", "\"many\"", 1)).contains("bench:2:1"));
    assert!(error(&MARKDOWN.replacen("tg4", "xx4", 1)).contains("`test` is no test"));
    assert!(error(&MARKDOWN.replacen("MiB", "stones", 1)).contains("is no size"));
    assert!(error(&MARKDOWN.replacen("| CPU ", "| CPU | ", 1)).contains("cells under"));
    assert!(error("[1]").contains("no object"));
}

const HOST: Host = Host::new(64 * GIB, 50e9);

/// A run of a setting, at the speed that the formula gives a machine.
fn measured(structure: &Structure, machine: &Machine, line: &str, [prompt, generated]: [u64; 2]) -> Run {
    let setting = Setting::parse("line", line, &machine.devices).expect("a line");
    let placement = place(structure, &setting);
    let speed = match prompt {
        0 => 1.0 / decode(&Work::of(structure, &setting, &placement, generated / 2), &setting, machine.host),
        _ => {
            prompt as f64
                / prefill(structure, &setting, &placement, machine.host, prompt).expect("a known class")
        }
    };
    let devices: &Keyed<_, _> = &setting.devices;
    Run {
        size: structure.weight_bytes() as f64,
        devices: devices.iter().map(|device| device.name.clone()).collect(),
        layers: setting.layers,
        shares: setting.shares.iter().map(|&share| f64::from(share)).collect(),
        backends: "CUDA".into(),
        prompt,
        generated,
        speed,
        ..runs(JSON)[0].clone()
    }
}

/// A machine whose second card and processor are slower than estimated is found out from runs of it.
#[test]
fn factors_are_found_from_runs() {
    let structure = experts();
    let machine = Machine { devices: devices(2), host: HOST };
    let mut real = machine.clone();
    for (device, factor) in real.devices.iter_mut().zip([1.1, 1.6]) {
        device.rates.efficiency /= factor;
        device.rates.layer *= factor;
        device.rates.expert_layer *= factor;
        device.rates.expert_products = device.rates.expert_products.map(|share| share / (2.0 * factor));
    }
    (real.host.efficiency, real.host.layer) = (real.host.efficiency / 2.0, real.host.layer * 2.0);
    let lines = ["-dev CUDA0 -ngl 99", "-dev CUDA0,CUDA1 -ngl 99 -ts 1,1", "-dev CUDA0 -ngl 2"];
    let mut runs: Vec<Run> = lines.iter().map(|line| measured(&structure, &real, line, [0, 128])).collect();
    runs.extend(lines[..2].iter().map(|line| measured(&structure, &real, line, [512, 0])));
    runs.iter_mut().for_each(|run| (run.keys, run.values) = ("f16".into(), "f16".into()));
    let (calibrated, notes) = calibrate(&structure, &machine, &runs);
    let near =
        |value: f64, expected: f64| assert!((value / expected - 1.0).abs() < 1e-6, "{value}: {notes:#?}");
    for (device, real) in calibrated.devices.iter().zip(&real.devices) {
        near(device.rates.efficiency, real.rates.efficiency);
        near(device.rates.layer, real.rates.layer);
        near(device.rates.expert_products.expect("a share"), real.rates.expert_products.expect("a share"));
    }
    near(calibrated.host.efficiency, real.host.efficiency);
    assert_eq!(notes.len(), 5, "{notes:#?}");
    assert!(notes[0].contains("CUDA0: tokens take 1.100 times") && notes[0].contains("run 1"), "{notes:#?}");
    let (again, _) = calibrate(&structure, &calibrated, &runs);
    near(again.devices[1].rates.efficiency, calibrated.devices[1].rates.efficiency);
}

#[test]
fn runs_that_say_nothing_of_the_machine_are_named() {
    let structure = dense();
    let machine = Machine { devices: devices(1), host: HOST };
    let good = measured(&structure, &machine, "-dev CUDA0 -ngl 99", [0, 128]);
    let other = |change: &dyn Fn(&mut Run)| {
        let mut run = good.clone();
        change(&mut run);
        let (calibrated, notes) = calibrate(&structure, &machine, &[run]);
        assert_eq!(calibrated, machine);
        notes.join("; ")
    };
    assert!(other(&|run| run.size *= 1.1).contains("its model has"));
    assert!(other(&|run| run.backends = "Vulkan".into()).contains("backend Vulkan"));
    assert!(other(&|run| run.split_mode = "row".into()).contains("--split-mode row"));
    assert!(other(&|run| run.prompt = 512).contains("together"));
    assert!(other(&|run| run.speed *= 100.0).contains("0.01 times"));
    assert!(other(&|run| run.devices = vec!["CUDA7".into()]).contains("CUDA7"));
    // A build without devices says that it put all layers on them, as it was told.
    let mut run = measured(&structure, &machine, "-dev CUDA0 -ngl 0", [0, 128]);
    (run.backends, run.layers, run.speed) = ("CPU".into(), Some(99), run.speed / 2.0);
    let (calibrated, notes) = calibrate(&structure, &machine, &[run]);
    assert_eq!(calibrated.devices, machine.devices);
    assert!(calibrated.host != machine.host && notes[0].starts_with("the host: tokens take"), "{notes:?}");
}
