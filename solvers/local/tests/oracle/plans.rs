//! Plans of the search within the memory that llama.cpp says they take.
//!
//! Random models on machines of one to three servers, with room for a part of each: `llama-fit-params` is asked about the line
//! of every plan. A line of the file has the model, MiB of the devices and of RAM, the line of the plan, and MiB of weights,
//! cache and buffers on each device and on the host, rounded down.
//!
//! What no server has is not checked: contexts of CUDA, copies of weights for large batches, and copies of inputs for pipelined
//! micro-batches. Nor are several sequences in one cache, for which the tool has no option, and weights that are laid out anew
//! for the processor (`--repack`), which it leaves out of its figures; the line is asked with `--no-repack`.

use std::path::Path;

use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use stagewright_core::seed::stream;
use stagewright_llamacpp::memory::{MARGIN, Memory};
use stagewright_llamacpp::{Device, Goal, Host, Location, Override, Setting, place};
use stagewright_local::{Plan, Question};
use stagewright_structure::{Encoding, Mixer, Structure};

use super::{compare_with_stored, stored_lines};
use crate::kinds;
use crate::rules::{MIB, solved};
use crate::tool::{Row, SERVERS, Tool, server, stored, written};

const FILE: &str = "plans.txt";
const CASES: usize = 300;

/// Number of the first model, after those whose memory is compared without a plan.
const FIRST: usize = 60;

/// Cases that are not compared, because the search finds a plan there that its rules of memory then refuse: it moves a
/// projection from a layer to an earlier one that is alike but for its mixer, whose buffer is wider.
const LEFT_OUT: &[usize] = &[];

const MICRO_BATCHES: &[u64] = &[128, 512, 2048];

/// A plan, with the rows of the tool.
struct Case {
    name: String,
    plan: Plan,
    host: Host,
    rows: Vec<Row>,
}

impl Case {
    fn memories(&self) -> Vec<u64> {
        self.plan.setting.devices.iter().map(|device| device.memory).chain([self.host.memory]).collect()
    }

    /// The case as a line of the file.
    fn line(&self) -> String {
        let memories: Vec<String> = self.memories().iter().map(|bytes| (bytes / MIB).to_string()).collect();
        let (name, line) = (&self.name, self.plan.setting.line());
        format!("{name} | {} | {line} | {}", memories.join(" "), written(&self.rows))
    }

    /// Memories that differ from the tool's, or are too small for what it says.
    fn wrong(&self) -> Vec<String> {
        let Memory { devices, host } = &self.plan.memory;
        let all = devices.iter().chain([host]).zip(self.memories()).zip(&self.rows);
        let is_wrong = |((ours, memory), row): &((&stagewright_llamacpp::memory::Bytes, u64), &Row)| {
            let differs = |ours: u64, theirs: u64| (ours / MIB).abs_diff(theirs) > 1;
            // Three figures are each rounded down.
            let taken = (row.iter().sum::<u64>() + 3) * MIB;
            differs(ours.weights, row[0]) || differs(ours.cache, row[1]) || taken > *memory
        };
        let wrong = all.filter(is_wrong);
        wrong
            .map(|((ours, memory), row)| format!("{}\n  {row:?} of {memory}: {ours:?}", self.line()))
            .collect()
    }
}

fn pick<T: Copy>(random: &mut ChaCha8Rng, values: &[T]) -> T {
    values[random.random_range(0..values.len())]
}

/// Bytes of weights and cache, and of the largest buffer, with all of the model on one device.
fn whole(question: &Question<'_>) -> (u64, u64) {
    let setting = question.setting(vec![server(0, 0)], 512);
    let placement = place(question.structure, &setting);
    let memory = Memory::of("model", question.structure, &setting, &placement).expect("a followed model");
    let Some(device) = memory.devices.iter().next() else { return (0, 0) };
    let kept = device.weights + device.cache + memory.host.weights;
    (kept, device.compute.max(memory.host.compute))
}

/// Servers with room for a part of the model, and RAM for little more than the rest of it.
fn machine(random: &mut ChaCha8Rng, question: &Question<'_>) -> (Vec<Device>, Host) {
    let (kept, buffer) = whole(question);
    let count = random.random_range(1..=SERVERS);
    let part = random.random_range(0.1..1.1);
    let shares: Vec<f64> = (0..count).map(|_| random.random_range(0.3..1.0)).collect();
    let total: f64 = shares.iter().sum();
    let devices = shares.iter().enumerate().map(|(index, share)| {
        let room = MARGIN + (buffer as f64 * random.random_range(0.4..1.1)) as u64;
        let mut device = server(index, room + (kept as f64 * part * share / total) as u64);
        device.bandwidth = random.random_range(200..1000) as f64 * 1e9;
        device
    });
    let devices: Vec<Device> = devices.collect();
    let rest = kept as f64 * (1.05 - 0.8 * f64::min(part, 1.0));
    let ram = MARGIN + buffer + rest as u64;
    (devices, Host::new(ram, random.random_range(30..100) as f64 * 1e9))
}

/// The plan of a random machine and context for a model; with as much RAM as the model takes if there is none.
fn planned(number: usize, structure: &Structure) -> (Plan, Host) {
    let random = &mut stream(63, number as u64);
    let context = pick(random, &[300, 2048, 4096, 16_384, 65_536]);
    let has_latents = structure.layers.iter().any(|layer| matches!(layer.mixer, Mixer::Latent(_)));
    let cache = |random: &mut ChaCha8Rng| {
        Encoding::named(pick(random, &["f16", "f16", "f16", "q8_0", "q4_0"])).expect("an encoding")
    };
    let keys = cache(random);
    let values = if has_latents || random.random_bool(0.8) { keys } else { cache(random) };
    let (goal, micro_batches) = match random.random_range(0..3) {
        0 => (Goal::Request { prompt: context / 2, output: context / 8 }, MICRO_BATCHES),
        1 => (Goal::Prefill { prompt: context / 2 }, MICRO_BATCHES),
        _ => (Goal::Decode { tokens: context / 2 }, &[512][..]),
    };
    let none = Host::new(0, 0.0);
    let question = Question {
        structure,
        devices: &[],
        host: none,
        goal,
        context,
        sequences: 1,
        keys,
        values,
        micro_batches,
    };
    let (devices, mut host) = machine(random, &question);
    for _ in 0..2 {
        let question = Question { devices: &devices, host, ..question };
        let (solution, _) = solved(&question);
        assert_eq!(solution.stop, None, "case {number}");
        if let Some(plan) = solution.plan {
            return (plan, host);
        }
        let (kept, buffer) = whole(&question);
        host.memory += kept + 4 * buffer;
    }
    panic!("case {number} has no plan with all of the model in RAM")
}

/// All cases, with answers of the tool, or else with those of the file.
fn cases() -> Vec<Case> {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("model.gguf");
    let tool = Tool::start();
    let lines = stored_lines(FILE);
    let rows = |name: &str| -> Vec<Row> {
        let line = lines.iter().find(|line| line.split(" | ").next() == Some(name));
        line.and_then(|line| line.rsplit('|').next()).map_or_else(Vec::new, stored)
    };
    let case = |number: usize| {
        let (name, model) = kinds::model(FIRST + number);
        let (plan, host) = planned(number, &model.structure());
        let rows = match &tool {
            Some(tool) => {
                model.write(&path);
                ask(tool, &path, &plan.setting)
            }
            None => rows(&name),
        };
        Case { name, plan, host, rows }
    };
    (0..CASES).filter(|number| !LEFT_OUT.contains(number)).map(case).collect()
}

fn ask(tool: &Tool, model: &Path, setting: &Setting) -> Vec<Row> {
    tool.memory(model, setting).unwrap_or_else(|error| panic!("{error}"))
}

/// Weights and caches are the tool's within a MiB, and no memory is smaller than what the tool says that the plan takes.
#[test]
fn plans_fit_by_the_figures_of_the_tool() {
    let cases = cases();
    compare_with_stored(FILE, &cases.iter().map(Case::line).collect::<Vec<_>>());
    let is_complete = |case: &Case| case.rows.len() == case.plan.setting.devices.len() + 1;
    assert!(cases.iter().all(is_complete), "an answer lacks memories");
    let wrong: Vec<String> = cases.iter().flat_map(Case::wrong).collect();
    assert!(wrong.is_empty(), "{} memories\n{}", wrong.len(), wrong.join("\n"));

    let count = |is: &dyn Fn(&Plan) -> bool| cases.iter().filter(|case| is(&case.plan)).count();
    let has = |plan: &Plan, is: fn(&Override) -> bool| plan.setting.overrides.iter().any(is);
    let patterns = count(&|plan| has(plan, |exception| matches!(exception, Override::Tensors { .. })));
    let experts = count(&|plan| has(plan, |exception| matches!(exception, Override::FirstExperts(_))));
    let host = count(&|plan| plan.placement.slots.contains(&Location::Host));
    let several = count(&|plan| plan.setting.devices.len() > 1);
    let tight = cases.iter().flat_map(|case| case.memories().into_iter().zip(&case.rows));
    let tight = tight.filter(|(memory, row)| (row.iter().sum::<u64>() + 256) * MIB > *memory).count();
    println!(
        "{} plans: {patterns} with patterns, {experts} with --n-cpu-moe, {host} with layers on the host, {several} on \
         several devices; {tight} memories with less than 256 MiB left",
        cases.len()
    );
    assert!(patterns >= 100 && experts >= 20 && host >= 60 && several >= 100 && tight >= 150);
}
