//! Settings as command lines.

use stagewright_core::text::quoted_word;

use super::{Override, Setting};

/// The options that differ from the defaults, and the devices, which have none.
pub(super) fn line(setting: &Setting) -> String {
    let default = Setting::new(Vec::new());
    let mut words: Vec<String> = Vec::new();
    let mut add = |differs: bool, option: &str, value: String| {
        if differs {
            words.push(option.to_owned());
            words.extend((!value.is_empty()).then_some(value));
        }
    };
    let none = String::new;
    add(true, "-dev", devices(setting));
    add(setting.layers.is_some(), "-ngl", setting.layers.map_or_else(none, |layers| layers.to_string()));
    let shares = setting.shares.iter().map(ToString::to_string).collect::<Vec<_>>();
    add(!shares.is_empty(), "-ts", shares.join(","));
    for exception in &setting.overrides {
        match exception {
            Override::Tensors { pattern, target } => {
                let word = format!("{}={}", pattern.text(), setting.buffer(*target));
                add(true, "-ot", quoted_word(&word).into_owned());
            }
            Override::FirstExperts(layers) => add(true, "-ncmoe", layers.to_string()),
            Override::AllExperts => add(true, "-cmoe", none()),
        }
    }
    add(setting.context.is_some(), "-c", setting.context.map_or_else(none, |context| context.to_string()));
    // A number of sequences that is given has caches of their own unless the line says otherwise.
    let is_automatic = (setting.sequences, setting.unified) == (default.sequences, default.unified);
    add(!is_automatic, "-np", setting.sequences.to_string());
    add(!is_automatic && setting.unified, "-kvu", none());
    add(setting.batch != default.batch, "-b", setting.batch.to_string());
    add(setting.micro_batch != default.micro_batch, "-ub", setting.micro_batch.to_string());
    add(setting.keys != default.keys, "-ctk", setting.keys.name().into_owned());
    add(setting.values != default.values, "-ctv", setting.values.name().into_owned());
    add(!setting.flash_attention, "-fa", "off".to_owned());
    add(!setting.mmap, "--load-mode", "none".to_owned());
    add(!setting.repack, "--no-repack", none());
    add(!setting.cache_on_devices, "--no-kv-offload", none());
    add(setting.whole_windows, "--swa-full", none());
    words.join(" ")
}

fn devices(setting: &Setting) -> String {
    let names = setting.devices.iter().map(|device| device.name.as_str()).collect::<Vec<_>>();
    if names.is_empty() { "none".to_owned() } else { quoted_word(&names.join(",")).into_owned() }
}
