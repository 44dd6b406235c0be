//! Random settings for a model.

use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use stagewright_core::seed::stream;
use stagewright_llamacpp::setting::Pattern;
use stagewright_llamacpp::{Device, Location, Override, Setting};
use stagewright_structure::Encoding;

use super::tool::{SERVERS, server};
use crate::fixture::{GIB, on};

/// A setting by its number for a model of as many layers. Shares are always given, because the default is free memory.
/// Latents have keys and values in one, of one type.
pub(super) fn setting(number: usize, layers: u64, has_latents: bool) -> Setting {
    let mut random = stream(62, number as u64);
    let random = &mut random;
    let mut devices: Vec<Device> = (0..SERVERS).map(|index| server(index, 24 * GIB)).collect();
    devices.rotate_left(random.random_range(0..SERVERS));
    devices.truncate(random.random_range(1..=SERVERS));
    let count = devices.len();
    let mut setting = Setting::new(devices);
    setting.layers = random.random_bool(0.5).then(|| random.random_range(0..=layers + 2));
    setting.shares = (0..count).map(|_| random.random_range(0_u8..20).into()).collect();
    setting.shares[count - 1] += 1.0;
    setting.overrides = overrides(random, count as u32, layers);
    setting.context = Some(pick(random, &[100, 300, 1000, 4096, 10_000, 32_768, 100_000, 131_072]));
    setting.sequences = pick(random, &[1, 1, 1, 2, 3, 4, 7]);
    // `llama-fit-params` has no option for sequences that share a cache.
    setting.unified = false;
    setting.batch = pick(random, &[2048, 2048, 4096, 256, 100]);
    setting.micro_batch = pick(random, &[512, 512, 128, 2048, 4096, 77]);
    setting.keys = cache_type(random);
    setting.values = if has_latents || random.random_bool(0.7) { setting.keys } else { cache_type(random) };
    setting.repack = false;
    setting.cache_on_devices = random.random_bool(0.93);
    setting.whole_windows = random.random_bool(0.1);
    setting
}

fn pick(random: &mut ChaCha8Rng, values: &[u64]) -> u64 {
    values[random.random_range(0..values.len())]
}

fn cache_type(random: &mut ChaCha8Rng) -> Encoding {
    let name = ["f16", "f16", "q8_0", "q4_0"][random.random_range(0..4)];
    Encoding::named(name).expect("an encoding")
}

fn overrides(random: &mut ChaCha8Rng, devices: u32, layers: u64) -> Vec<Override> {
    let target = |random: &mut ChaCha8Rng| match random.random_range(0..=devices) {
        0 => Location::Host,
        index => on(index - 1),
    };
    let count = [0, 0, 1, 1, 2, 3][random.random_range(0..6)];
    let one = |random: &mut ChaCha8Rng| match random.random_range(0..10) {
        0..3 => Override::FirstExperts(random.random_range(0..=layers)),
        3 => Override::AllExperts,
        _ => {
            let text = pattern(random, layers);
            let pattern = Pattern::new(&text).expect("a pattern");
            Override::Tensors { pattern, target: target(random) }
        }
    };
    (0..count).map(|_| one(random)).collect()
}

fn pattern(random: &mut ChaCha8Rng, layers: u64) -> String {
    let layer = random.random_range(0..layers);
    let parts = [
        r"ffn_.*",
        r"ffn_(gate|up).*",
        r"ffn_down\.",
        r"ffn_up_exps",
        r"ffn_down_exps",
        r".*_exps",
        r"ffn_.*_shexp",
        r"attn_.*",
        "",
    ];
    let part = parts[random.random_range(0..parts.len())];
    match random.random_range(0..8) {
        0 => r"^output\.weight$".to_owned(),
        1 => r"^token_embd\.weight$".to_owned(),
        2 => format!(r"blk\.(1|3|5)\.{part}"),
        3 | 4 => format!(r"blk\..*\.{part}"),
        _ => format!(r"blk\.{layer}\.{part}"),
    }
}
