//! The search against the `--fit` of llama.cpp itself, on models and machines that people have.
//!
//! `llama-fit-params` chooses for servers that have the memory of the cards by `--fit-target`, which needs a machine with more
//! RAM than the largest card; headers of the models are enough. It leaves 1 GiB free on every device beside half a GiB for the
//! context of CUDA, and plans leave 64 MiB beside the context. So the search is asked twice: for the cards, and for devices
//! with no more memory than the tool's line takes by the rules of memory here, which shows what is due to the placement alone.
//! RAM, which the tool never looks at, is that of the machine. Time is that of the formula for both.
//!
//! A line of the file has the case and the line that the tool chose, with patterns of the same projections as one and the
//! names of the cards, or what it said when it failed.

use std::path::Path;
use std::time::Duration;

use stagewright_llamacpp::memory::{CUDA_CONTEXT, MARGIN, Memory};
use stagewright_llamacpp::setting::Pattern;
use stagewright_llamacpp::{Device, Location, Override, Setting, place};
use stagewright_local::Question;
use stagewright_structure::Structure;

use super::{compare_with_stored, stored_lines};
use crate::kinds::{Parts, gemma_3, glm_4_5, readable};
use crate::models::Widths;
use crate::rules::Card::{self, P40, Rtx3060, Rtx3090, Rtx4060, Rtx4090, Rtx5060Ti};
use crate::rules::{
    GIB, MIB, ROUNDING, ddr5, gpt_oss_120b, llama_70b, machine, question, qwen_30b, qwen_235b, solved,
};
use crate::tool::Tool;
use crate::writer::Model;

const FILE: &str = "fit.txt";

/// Bytes that `--fit` leaves free on a device beside its context.
const FREE: u64 = GIB;

/// GLM-4.5-Air, whose last layer predicts, in 8 bits.
fn glm() -> Model {
    let widths = Widths {
        layers: 47,
        hidden: 4096,
        heads: 96,
        kv_heads: 8,
        head: 128,
        inner: 10_944,
        vocabulary: 151_552,
    };
    let parts = Parts { first: 1, has_output: true, has_prediction: true };
    glm_4_5(&widths, (128, 8), 1408, parts)
}

/// Gemma 3 27B, with windows, in 8 bits.
fn gemma() -> Model {
    let widths = Widths {
        layers: 62,
        hidden: 5376,
        heads: 32,
        kv_heads: 16,
        head: 128,
        inner: 21_504,
        vocabulary: 262_208,
    };
    gemma_3(&widths, 1024)
}

/// A model by its name, with its machines: cards, GiB of RAM, and tokens of context.
type Cases = (&'static str, fn() -> Model, &'static [(&'static [Card], u64, u64)]);

const CASES: &[Cases] = &[
    (
        "gpt-oss-120b",
        gpt_oss_120b,
        &[
            (&[Rtx3090, Rtx5060Ti], 96, 32_768),
            (&[Rtx3090, Rtx3060], 64, 16_384),
            (&[Rtx4090, P40], 96, 32_768),
            (&[Rtx3090], 64, 8192),
            (&[Rtx4090, Rtx3090, Rtx3060], 32, 32_768),
        ],
    ),
    (
        "Qwen3-235B-A22B",
        qwen_235b,
        &[
            (&[Rtx3090, Rtx5060Ti], 128, 32_768),
            (&[Rtx3090, Rtx3060], 128, 8192),
            (&[Rtx4090, P40], 96, 16_384),
            (&[Rtx3090], 256, 16_384),
            (&[Rtx4090, Rtx3090, Rtx5060Ti], 128, 32_768),
            (&[Rtx3090, Rtx3060], 64, 8192),
        ],
    ),
    (
        "Qwen3-30B-A3B",
        qwen_30b,
        &[
            (&[Rtx3090, Rtx3060], 64, 32_768),
            (&[Rtx3090, Rtx5060Ti], 32, 131_072),
            (&[Rtx3060], 32, 16_384),
            (&[Rtx4060], 32, 8192),
            (&[Rtx4090, P40], 64, 65_536),
            (&[Rtx5060Ti, Rtx3060, Rtx4060], 32, 32_768),
        ],
    ),
    (
        "Llama-3.3-70B",
        llama_70b,
        &[
            (&[Rtx3090, Rtx3060], 64, 8192),
            (&[Rtx3090, Rtx5060Ti], 64, 16_384),
            (&[Rtx4090, P40], 64, 8192),
            (&[Rtx4090], 64, 4096),
            (&[Rtx3090, Rtx3090, Rtx3060], 32, 32_768),
            (&[Rtx4060, Rtx4060], 32, 4096),
        ],
    ),
    (
        "GLM-4.5-Air",
        glm,
        &[
            (&[Rtx3090, Rtx5060Ti], 96, 32_768),
            (&[Rtx4090, Rtx3090, Rtx3060], 128, 32_768),
            (&[Rtx3090], 128, 8192),
            (&[Rtx4090, P40], 48, 16_384),
        ],
    ),
    (
        "Gemma-3-27B",
        gemma,
        &[(&[Rtx3090, Rtx3060], 64, 32_768), (&[Rtx5060Ti], 64, 8192), (&[Rtx4060, Rtx3060], 32, 16_384)],
    ),
];

/// The line that the tool chooses for cards, with their names.
fn asked(tool: &Tool, model: &Path, devices: &[Device], context: u64) -> String {
    let free = tool.memory_of_server(model);
    let target = |device: &Device| {
        let usable = (device.memory - CUDA_CONTEXT - FREE) / MIB;
        let left = free.checked_sub(usable);
        left.unwrap_or_else(|| panic!("{usable} MiB of a card, and {free} MiB of RAM")).to_string()
    };
    let targets: Vec<String> = devices.iter().map(target).collect();
    let options = format!("-c {context} -np 1 --no-repack -fitt {}", targets.join(","));
    let output = tool.asked(model, devices.len(), &options);
    let printed = String::from_utf8_lossy(&output.stdout);
    match printed.lines().find(|line| line.starts_with("-c ")).filter(|_| output.status.success()) {
        Some(line) => merged(&tool.named(line, devices), devices).line(),
        None => {
            let errors = String::from_utf8_lossy(&output.stderr);
            let last = errors.lines().rfind(|line| !line.is_empty()).unwrap_or_default();
            format!("{FAILED} {}", last.split_whitespace().skip(2).collect::<Vec<_>>().join(" "))
        }
    }
}

const FAILED: &str = "failed:";

/// Largest gain of the tool in as much memory as its line takes to the byte: its patterns for gates match routers as well,
/// which plans keep, so that a plan has room for a projection less.
const ROUTERS: f64 = 1e-3;

/// Largest relative gap of plans.
const LARGEST_GAP: f64 = 0.06;

/// The setting of a line of the tool, where overrides of the same projections of several layers are one.
fn merged(line: &str, devices: &[Device]) -> Setting {
    // The printed line leaves out shares if all but the first are 0.
    let number = line.split_whitespace().skip_while(|word| *word != "-ngl").nth(1).unwrap_or_default();
    let is_alone = devices.len() > 1 && !line.contains("-ts") && !number.starts_with('-');
    let shares = if is_alone { format!(" -ts {number}") } else { String::new() };
    let mut setting = parsed(&format!("{line}{shares} -np 1"), devices);
    let mut overrides: Vec<(String, Vec<String>, Location)> = Vec::new();
    for exception in &setting.overrides {
        let Override::Tensors { pattern, target } = exception else { panic!("{exception:?}") };
        let rest = pattern.text().strip_prefix(r"blk\.").and_then(|rest| rest.split_once(r"\."));
        let (layer, module) = rest.unwrap_or_else(|| panic!("{}", pattern.text()));
        match overrides.iter_mut().find(|(other, _, place)| (other.as_str(), *place) == (module, *target)) {
            Some((_, layers, _)) => layers.push(layer.to_owned()),
            None => overrides.push((module.to_owned(), vec![layer.to_owned()], *target)),
        }
    }
    let whole = overrides.into_iter().map(|(module, layers, target)| {
        let pattern = Pattern::new(&format!(r"blk\.({})\.{module}", layers.join("|"))).expect("a pattern");
        Override::Tensors { pattern, target }
    });
    setting.overrides = whole.collect();
    setting
}

fn parsed(line: &str, devices: &[Device]) -> Setting {
    Setting::parse("--flags", line, devices).unwrap_or_else(|error| panic!("{line}: {error}"))
}

/// Bytes of a setting.
fn memory(question: &Question<'_>, setting: &Setting) -> Memory {
    let placement = place(question.structure, setting);
    Memory::of("model", question.structure, setting, &placement).expect("a followed model")
}

/// Tokens a second of a setting, whether it fits or not.
fn speed(question: &Question<'_>, setting: &Setting) -> f64 {
    let placement = place(question.structure, setting);
    let seconds = question.goal.seconds(question.structure, setting, &placement, question.host);
    question.goal.generated().0 as f64 / seconds.expect("a measured speed")
}

/// Tokens a second of the plan; `None` if it is proved that none fits.
fn searched(question: &Question<'_>) -> (Option<f64>, Duration) {
    let (solution, duration) = solved(question);
    assert_eq!(solution.stop, None);
    let Some(plan) = solution.plan else {
        assert!(solution.bound.is_infinite(), "it is not proved that no plan fits");
        return (None, duration);
    };
    assert!(solution.bound >= plan.seconds * (1.0 - LARGEST_GAP), "{} {}", solution.bound, plan.seconds);
    (Some(speed(question, &plan.setting)), duration)
}

/// Prints the row of a case. Returns what the plan gains over the tool's line if that fits, and what it gains in as much memory.
fn compared(name: &str, question: &Question<'_>, answer: &str) -> Option<[f64; 2]> {
    let (ours, duration) = searched(question);
    let setting = (!answer.starts_with(FAILED)).then(|| parsed(answer, question.devices));
    let theirs = setting.as_ref().map(|setting| speed(question, setting));
    let taken = setting.as_ref().map(|setting| memory(question, setting));
    let lacking = setting.iter().zip(&taken).flat_map(|(setting, taken)| {
        taken.shortfalls(setting, question.host).into_iter().map(|(location, bytes)| match location {
            Location::Host => format!("RAM lacks {:.1} GiB", bytes as f64 / GIB as f64),
            Location::Device(id) => format!("{} lacks {} MiB", setting.devices[id].name, bytes / MIB),
        })
    });
    let lacking: Vec<String> = lacking.collect();
    let fitting = theirs.zip(taken).filter(|_| lacking.is_empty());
    let gains = fitting.map(|(theirs, taken)| {
        let mut devices = question.devices.to_vec();
        for (device, taken) in devices.iter_mut().zip(taken.devices.iter()) {
            device.memory = taken.total() + MARGIN;
        }
        let (in_as_much, _) = searched(&Question { devices: &devices, ..*question });
        [ours, in_as_much].map(|ours| ours.unwrap_or(0.0) / theirs - 1.0)
    });
    let shown = |speed: Option<f64>| speed.map_or_else(|| "-".to_owned(), |speed| format!("{speed:.2}"));
    let percent = |index: usize| {
        gains.map_or_else(|| "-".to_owned(), |gains: [f64; 2]| format!("{:.1}%", gains[index] * 100.0))
    };
    let remark = if setting.is_none() { answer.to_owned() } else { lacking.join("; ") };
    let [theirs, ours] = [theirs, ours].map(shown);
    println!(
        "{name:62} {theirs:>8} {ours:>8} {:>8} {:>8} {:8.3} s  {remark}",
        percent(0),
        percent(1),
        duration.as_secs_f64(),
    );
    gains
}

/// A case by its name, and the answer to it.
struct Case {
    name: String,
    devices: Vec<Device>,
    ram: u64,
    context: u64,
    answer: String,
}

fn cases_of(
    cases: &Cases,
    tool: Option<&Tool>,
    stored: &mut impl Iterator<Item = String>,
) -> (Structure, Vec<Case>) {
    let (name, model, machines) = cases;
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("model.gguf");
    let mut model = model();
    let structure = model.structure();
    readable(&mut model);
    model.write(&path);
    let case = |&(cards, ram, context): &(&'static [Card], u64, u64)| {
        let devices = machine(cards);
        let line = stored.next().unwrap_or_default();
        let answer = match tool {
            Some(tool) => asked(tool, &path, &devices, context),
            None => line.split_once(" | ").unwrap_or_default().1.to_owned(),
        };
        Case { name: format!("{name}, {cards:?}, {ram} GiB, {context}"), devices, ram, context, answer }
    };
    (structure, machines.iter().map(case).collect())
}

/// No line that the tool chooses is faster than the plan, where it fits; where the tool fails or RAM cannot hold its choice, the
/// plan fits, or it is proved that none does.
#[test]
fn no_choice_of_fit_is_faster() {
    let tool = Tool::start();
    let mut stored = stored_lines(FILE).into_iter();
    let (mut lines, mut gains) = (Vec::new(), Vec::new());
    let names = ["--fit", "plan", "gain", "as full", "planned in"].map(|name| format!("{name:>8}")).join(" ");
    println!("{:62} {names}", "tokens a second");
    for cases in CASES {
        let (structure, cases) = cases_of(cases, tool.as_ref(), &mut stored);
        for case in cases {
            lines.push(format!("{} | {}", case.name, case.answer));
            let question = question(&structure, &case.devices, ddr5(case.ram), case.context);
            gains.push(compared(&case.name, &question, &case.answer));
        }
    }
    compare_with_stored(FILE, &lines);
    let shown = |column: usize| {
        let mut sorted: Vec<f64> = gains.iter().flatten().map(|gains| gains[column]).collect();
        sorted.sort_by(f64::total_cmp);
        let percent = |index: usize| sorted[index] * 100.0;
        format!("{:.1}% (median) to {:.1}%", percent(sorted.len() / 2), percent(sorted.len() - 1))
    };
    let fitting = gains.iter().flatten().count();
    println!(
        "{} cases, {fitting} of which --fit solves; gain {}; in as much memory {}",
        lines.len(),
        shown(0),
        shown(1)
    );
    assert!(lines.len() == 30 && fitting >= 25);
    let is_slower = |&[gain, as_full]: &[f64; 2]| gain < -ROUNDING || as_full < -ROUTERS;
    assert_eq!(gains.iter().flatten().filter(|gains| is_slower(gains)).count(), 0, "--fit is faster");
}
