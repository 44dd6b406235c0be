//! The search against the rules that people use, on machines that people have.

use std::time::{Duration, Instant};

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use stagewright_core::solver::{Context, Settings, Silent};
use stagewright_llamacpp::{Class, Device, Goal, Host, Location, Override};
use stagewright_local::rules::{RULES, rule};
use stagewright_local::{Plan, Question, Solution, solve};
use stagewright_structure::{Encoding, Structure};

use crate::models::{self, Widths};
use crate::writer::Model;

pub(crate) const GIB: u64 = 1 << 30;
pub(crate) const MIB: u64 = 1 << 20;

/// Micro-batches that people try.
pub(crate) const MICRO_BATCHES: &[u64] = &[128, 256, 512, 1024, 2048, 4096];

/// Largest relative gap, of 70 billion parameters and their cache on two cards that hold half of them.
const LARGEST_GAP: f64 = 0.1;

/// Relative difference of sums in another order.
pub(crate) const ROUNDING: f64 = 1e-9;

#[derive(Clone, Copy, Debug)]
pub(crate) enum Card {
    Rtx3090,
    Rtx4090,
    Rtx3060,
    Rtx4060,
    Rtx5060Ti,
    P40,
}

use Card::{P40, Rtx3060, Rtx3090, Rtx4060, Rtx4090, Rtx5060Ti};

/// A card by its data sheet, without what a desktop takes of it.
pub(crate) fn device(index: usize, card: Card) -> Device {
    let (class, mib, bandwidth, peak) = match card {
        Rtx3090 => (Class::Cuda, 24_576, 936e9, 71e12),
        Rtx4090 => (Class::Cuda, 24_564, 1008e9, 165.2e12),
        Rtx3060 => (Class::Cuda, 12_288, 360e9, 25.48e12),
        Rtx4060 => (Class::Cuda, 8_188, 272e9, 30.23e12),
        Rtx5060Ti => (Class::Cuda, 16_311, 448e9, 47.41e12),
        P40 => (Class::Pascal, 23_040, 346e9, 11.76e12),
    };
    Device::new(&format!("CUDA{index}"), class, mib * MIB, bandwidth, peak)
}

pub(crate) fn machine(cards: &[Card]) -> Vec<Device> {
    (0..).zip(cards).map(|(index, &card)| device(index, card)).collect()
}

const QWEN_30B: Widths =
    Widths { layers: 48, hidden: 2048, heads: 32, kv_heads: 4, head: 128, inner: 768, vocabulary: 151_936 };

pub(crate) fn llama_70b() -> Model {
    let widths = Widths {
        layers: 80,
        hidden: 8192,
        heads: 64,
        kv_heads: 8,
        head: 128,
        inner: 28_672,
        vocabulary: 128_256,
    };
    models::llama(&widths, true)
}

pub(crate) fn qwen_30b() -> Model {
    models::qwen3_moe(&QWEN_30B, 128, 8)
}

pub(crate) fn qwen_235b() -> Model {
    models::qwen3_moe(&Widths { layers: 94, hidden: 4096, heads: 64, inner: 1536, ..QWEN_30B }, 128, 8)
}

pub(crate) fn gpt_oss_120b() -> Model {
    let widths = Widths {
        layers: 36,
        hidden: 2880,
        heads: 64,
        kv_heads: 8,
        head: 64,
        inner: 2880,
        vocabulary: 201_088,
    };
    models::gpt_oss(&widths, 128, 4)
}

fn structures() -> [Structure; 4] {
    [llama_70b(), qwen_30b(), qwen_235b(), gpt_oss_120b()].map(|model| model.structure())
}

pub(crate) fn question<'a>(
    structure: &'a Structure,
    devices: &'a [Device],
    host: Host,
    context: u64,
) -> Question<'a> {
    Question {
        structure,
        devices,
        host,
        goal: Goal::Decode { tokens: 4096 },
        context,
        sequences: 1,
        keys: Encoding::F16,
        values: Encoding::F16,
        micro_batches: &[512],
    }
}

pub(crate) fn solved(question: &Question<'_>) -> (Solution, Duration) {
    let begin = Instant::now();
    let mut observer = Silent;
    let mut context = Context::new(Settings::default(), &mut observer);
    let solution = solve("model", question, &mut context).unwrap_or_else(|error| panic!("{error}"));
    (solution, begin.elapsed())
}

/// Solves a case, prints a row, and compares the plan with all rules. Returns the seconds of the rules that fit by the
/// seconds of the plan.
fn compared(name: &str, question: &Question<'_>) -> Vec<Option<f64>> {
    let (solution, duration) = solved(question);
    let best = solution.plan.as_ref().map_or(f64::INFINITY, |plan| plan.seconds);
    assert_eq!(solution.stop, None, "{}", name);
    let gap = if best.is_finite() { 1.0 - solution.bound / best } else { 0.0 };
    assert!((0.0..=LARGEST_GAP).contains(&gap), "{}: bound {}, plan {best}", name, solution.bound);
    let speed = |seconds: f64| question.goal.generated().0 as f64 / seconds;
    let mut row =
        format!("{:44} {:7.2} s {:6.2}% {:7.2}", name, duration.as_secs_f64(), 100.0 * gap, speed(best));
    let mut ratios = Vec::new();
    for known in RULES {
        let setting = rule("model", question, known.name).unwrap_or_else(|error| panic!("{error}"));
        let plan = setting.map(|setting| Plan::of("model", question, setting).expect("a followed model"));
        let plan = plan.flatten();
        row += &plan
            .as_ref()
            .map_or_else(|| format!(" {:>7}", "-"), |plan| format!(" {:7.2}", speed(plan.seconds)));
        if let Some(plan) = &plan {
            assert!(
                best <= plan.seconds * (1.0 + ROUNDING),
                "{}: {} s by the search, {} s by {}\n{:?}\n{}",
                name,
                best,
                plan.seconds,
                known.name,
                solution.plan.as_ref().map(|plan| plan.setting.line()),
                plan.setting.line()
            );
        }
        ratios.push(plan.map(|plan| plan.seconds / best));
    }
    println!("{row}");
    ratios
}

fn header() {
    let names = RULES.iter().map(|rule| format!(" {:>7.7}", rule.name));
    println!(
        "{:44} {:>9} {:>7} {:>7}{}",
        "tokens a second",
        "search",
        "gap",
        "search",
        names.collect::<String>()
    );
}

pub(crate) fn ddr5(gib: u64) -> Host {
    Host::new(gib * GIB, 89.6e9)
}

/// Six machines and models of which people ask.
#[test]
fn no_rule_is_faster_on_known_machines() {
    let [llama, small, large, gpt_oss] = structures();
    let cases: [(&str, &Structure, &[Card], u64, u64); 6] = [
        ("gpt-oss-120b, 3090 + 5060 Ti", &gpt_oss, &[Rtx3090, Rtx5060Ti], 96, 32_768),
        ("Llama-3.3-70B, 3090 + 3060", &llama, &[Rtx3090, Rtx3060], 64, 8192),
        ("Qwen3-30B-A3B, 4060 laptop", &small, &[Rtx4060], 32, 16_384),
        ("Qwen3-235B-A22B, 3090 + 5060 Ti", &large, &[Rtx3090, Rtx5060Ti], 128, 32_768),
        ("Qwen3-30B-A3B, 3090 + 3060", &small, &[Rtx3090, Rtx3060], 64, 32_768),
        ("gpt-oss-120b, 4090 + P40", &gpt_oss, &[Rtx4090, P40], 96, 32_768),
    ];
    header();
    for (name, structure, cards, ram, context) in cases {
        let devices = machine(cards);
        let question = question(structure, &devices, ddr5(ram), context);
        compared(name, &question);
    }
}

/// Random machines with known cards, of whose memory a desktop takes some.
#[test]
fn no_rule_is_faster_on_random_machines() {
    let mut random = ChaCha8Rng::seed_from_u64(89);
    let names = ["Llama-3.3-70B", "Qwen3-30B-A3B", "Qwen3-235B-A22B", "gpt-oss-120b"];
    let structures: Vec<_> = names.into_iter().zip(structures()).collect();
    header();
    let mut all = vec![Vec::new(); RULES.len()];
    for case in 0..36 {
        let (name, structure) = &structures[case % structures.len()];
        let cards = [Rtx3090, Rtx4090, Rtx3060, Rtx4060, Rtx5060Ti, P40];
        let count = random.random_range(1..=3);
        // How fast a P40 reads prompts with experts was not measured.
        let is_request = case % 3 == 2;
        let most = if is_request { cards.len() - 1 } else { cards.len() };
        let chosen: Vec<Card> = (0..count).map(|_| cards[random.random_range(0..most)]).collect();
        let mut devices = machine(&chosen);
        devices.iter_mut().for_each(|device| device.memory -= random.random_range(0..1536) * MIB);
        let bandwidth = [51.2e9, 76.8e9, 89.6e9, 204.8e9][random.random_range(0..4)];
        let on_devices: u64 = devices.iter().map(|device| device.memory).sum();
        // With little more RAM than the rest of the model needs, plans must fill the devices.
        let scarce = structure.weight_bytes().saturating_sub(on_devices) + random.random_range(1..8) * GIB;
        let ram = [32 * GIB, 64 * GIB, 128 * GIB, 192 * GIB, scarce][random.random_range(0..5)];
        let host = Host::new(ram, bandwidth);
        let context = [4096, 8192, 16_384, 32_768, 65_536][random.random_range(0..5)];
        let mut question = question(structure, &devices, host, context);
        if is_request {
            question.goal = Goal::Request { prompt: 2000, output: 400 };
            question.micro_batches = MICRO_BATCHES;
        }
        let kind = if is_request { "request" } else { "decode" };
        let name = format!("{name} {chosen:?} {} {context} {kind}", host.memory / GIB);
        let ratios = compared(&name, &question);
        all.iter_mut().zip(ratios).for_each(|(all, ratio)| all.extend(ratio));
    }
    for (rule, ratios) in RULES.iter().zip(&mut all) {
        ratios.sort_by(f64::total_cmp);
        let (Some(median), Some(most)) = (ratios.get(ratios.len() / 2), ratios.last()) else { continue };
        println!(
            "{:10} fits {:2} of 36, slower by {median:.3} (median) to {most:.3}",
            rule.name,
            ratios.len()
        );
    }
    let fitting =
        |name: &str| RULES.iter().position(|rule| rule.name == name).map_or(0, |index| all[index].len());
    assert!(
        fitting("fit") >= 15 && fitting("n-cpu-moe") >= 15,
        "{} and {}",
        fitting("fit"),
        fitting("n-cpu-moe")
    );
}

/// The largest model of the tests on two and three unlike cards, with a micro-batch to choose, in seconds.
#[test]
fn ninety_four_layers_of_experts_take_seconds() {
    let structure = qwen_235b().structure();
    for cards in [&[Rtx3090, Rtx5060Ti][..], &[Rtx4090, Rtx5060Ti, Rtx3060]] {
        let devices = machine(cards);
        for goal in [Goal::Decode { tokens: 4096 }, Goal::Request { prompt: 8192, output: 512 }] {
            for ram in [128, 104] {
                let question = Question {
                    goal,
                    micro_batches: MICRO_BATCHES,
                    ..question(&structure, &devices, ddr5(ram), 32_768)
                };
                let (solution, duration) = solved(&question);
                let seconds = solution.plan.as_ref().map(|plan| (plan.seconds, plan.setting.micro_batch));
                println!("{cards:?} {ram} GiB {goal:?}: {:.2} s, {seconds:?}", duration.as_secs_f64());
                assert_eq!(solution.stop, None);
                assert!(duration < Duration::from_secs(60), "{duration:?}");
            }
        }
    }
}

/// What `llama-fit-params` printed: slots, shares, what overflows where from the first partial layers, and the layers without
/// their experts after the last of these.
struct Printed {
    layers: u64,
    shares: &'static [f32],
    overflows: &'static [(&'static str, Option<usize>)],
    without_experts: std::ops::RangeInclusive<u32>,
}

/// Answers of the tool (llama.cpp 0c1e57098) on RPC servers with `--fit-target` for these MiB, where its buffers of computation
/// are those of the formula.
#[test]
fn fit_says_what_the_tool_says() {
    const NONE: std::ops::RangeInclusive<u32> = std::ops::RangeInclusive::new(1, 0);
    let [llama, small, large, gpt_oss] = structures();
    let printed =
        |layers, shares, overflows, without_experts| Printed { layers, shares, overflows, without_experts };
    let cases: [(&Structure, u64, &[u64], Printed); 7] = [
        (&llama, 32_768, &[20_000, 14_000], printed(53, &[32.0, 21.0], &[], NONE)),
        (
            &small,
            4096,
            &[14_000],
            printed(49, &[], &[(r"blk\.36\.ffn_(gate|up|gate_up|down).*", None)], 37..=48),
        ),
        (&large, 4096, &[14_000], printed(95, &[], &[(r"blk\.5\.ffn_down.*", None)], 6..=94)),
        (
            &large,
            32_768,
            &[20_000, 14_000],
            printed(
                95,
                &[13.0, 82.0],
                &[(r"blk\.12\.ffn_(gate|gate_up|down).*", Some(1)), (r"blk\.15\.ffn_down.*", None)],
                16..=94,
            ),
        ),
        (
            &large,
            16_384,
            &[6000, 20_000],
            printed(
                95,
                &[4.0, 91.0],
                &[(r"blk\.3\.ffn_down.*", Some(1)), (r"blk\.12\.ffn_(gate|up|gate_up|down).*", None)],
                13..=94,
            ),
        ),
        (
            &large,
            8192,
            &[9000, 7000, 12_000],
            printed(
                95,
                &[6.0, 4.0, 85.0],
                &[
                    (r"blk\.5\.ffn_down.*", Some(1)),
                    (r"blk\.9\.ffn_down.*", Some(2)),
                    (r"blk\.14\.ffn_(gate|up|gate_up|down).*", None),
                ],
                15..=94,
            ),
        ),
        (
            &gpt_oss,
            8192,
            &[9000, 7000, 12_000],
            printed(
                37,
                &[6.0, 4.0, 27.0],
                &[
                    (r"blk\.5\.ffn_(gate|gate_up|down).*", Some(1)),
                    (r"blk\.9\.ffn_(gate|gate_up|down).*", Some(2)),
                    (r"blk\.15\.ffn_(gate|gate_up|down).*", None),
                ],
                16..=36,
            ),
        ),
    ];
    for (structure, context, targets, printed) in cases {
        // Servers take no memory beside what they hold, which ROCm is taken to do as well.
        let server = |(index, &target): (usize, &u64)| {
            Device::new(&format!("RPC{index}"), Class::Rocm, target * MIB + GIB, 400e9, 50e12)
        };
        let devices: Vec<Device> = targets.iter().enumerate().map(server).collect();
        let question = question(structure, &devices, ddr5(512), context);
        let setting = rule("model", &question, "fit").expect("a followed model").expect("a setting");
        assert_eq!((setting.layers, &setting.shares[..]), (Some(printed.layers), printed.shares));
        let experts = |layer: u32| (format!(r"blk\.{layer}\.ffn_(up|down|gate_up|gate)_(ch|)exps"), None);
        let overflows = printed.overflows.iter().map(|&(pattern, device)| (pattern.to_owned(), device));
        let expected: Vec<_> = overflows.chain(printed.without_experts.map(experts)).collect();
        let found = setting.overrides.iter().map(|exception| match exception {
            Override::Tensors { pattern, target: Location::Host } => (pattern.text().to_owned(), None),
            Override::Tensors { pattern, target: Location::Device(device) } => {
                (pattern.text().to_owned(), Some(device.index()))
            }
            other => panic!("{other:?}"),
        });
        assert_eq!(found.collect::<Vec<_>>(), expected, "{}", setting.line());
    }
}

/// 48 layers in proportion to 24 and 12 GiB, the output with the last.
#[test]
fn exo_divides_by_memory() {
    let structure = qwen_30b().structure();
    let devices = machine(&[Rtx3060, Rtx3090]);
    let question = question(&structure, &devices, ddr5(64), 4096);
    let setting = rule("model", &question, "exo").expect("a followed model").expect("a setting");
    assert_eq!(setting.line(), "-dev CUDA1,CUDA0 -ts 32,17 -c 4096 -np 1");
}
