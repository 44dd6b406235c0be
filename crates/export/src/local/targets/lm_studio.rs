//! LM Studio: the load parameters of a model.
//!
//! GPU Offload is a number of layers up to that of the blocks, which stands for all layers; a smaller one counts the output, as
//! `--gpu-layers` does, so that no figure leaves out the first block alone. Experts of the first blocks go to the processor, as by
//! `--n-cpu-moe`. Several devices have equal shares in the order of the system.
//!
//! Source: `LLMLoadModelConfig.ts` and issue 252 of lmstudio-js, the notes on releases 0.3.14 (devices), 0.3.23 and 0.4.0 (experts) of
//! LM Studio.

use stagewright_llamacpp::Override;

use super::super::notes::noted;
use super::super::plan::{FLAGS, LLAMA, lacks, numbered};
use super::super::{Local, LocalTarget};
use crate::{Export, ExportError, Result};

/// Types of a cache (`llmLlamaCacheQuantizationTypes`).
const CACHE_TYPES: [&str; 8] = ["f32", "f16", "q8_0", "q4_0", "q4_1", "iq4_nl", "q5_0", "q5_1"];

pub(super) static TARGET: LocalTarget = LocalTarget {
    name: "lm-studio",
    summary: "LM Studio: the load parameters of a model",
    limits: "experts of the first blocks as the only override; equal shares of devices; not all layers but the first",
    write,
};

fn write(plan: &Local) -> Result<Export> {
    check(plan)?;
    let (line, setting) = (&plan.line, plan.setting);
    let experts = experts(plan)?;
    let on = |is_on: bool| if is_on { "on" } else { "off" }.to_owned();
    let layers = plan.layers().min(setting.blocks);
    let mut rows = vec![
        ("Context Length", setting.context.to_string()),
        ("GPU Offload", format!("{layers} of {}", setting.blocks)),
    ];
    rows.extend((experts > 0).then(|| ("Layers with MoE weights forced onto CPU", experts.to_string())));
    rows.extend([
        ("Evaluation Batch Size", line.batch.to_string()),
        ("Physical Batch Size", line.micro_batch.to_string()),
        ("Max Concurrent Predictions", line.sequences.to_string()),
        ("Unified KV Cache", on(line.unified)),
        ("Offload KV Cache to GPU Memory", on(line.cache_on_devices)),
        ("Flash Attention", on(line.flash_attention)),
        ("K Cache Quantization Type", line.keys.name().into_owned()),
        ("V Cache Quantization Type", line.values.name().into_owned()),
        ("Try mmap", on(line.mmap)),
    ]);
    let rows: String = rows.iter().map(|(name, value)| format!("{name}: {value}\n")).collect();
    let names: Vec<&str> = line.devices.iter().map(|device| device.name.as_str()).collect();
    let only = (!names.is_empty()).then(|| {
        let split = if names.len() > 1 { ", with the strategy `Split evenly`" } else { "" };
        format!("switch off all devices but {}{split}", names.join(" and "))
    });
    let ratio = layers as f64 / setting.blocks.max(1) as f64;
    let share = format!("`lms load` takes the offload as `--gpu {ratio}`");
    Ok(noted(plan, rows, "LM Studio 0.4").also(only).note(share))
}

/// Blocks whose experts are on the host.
fn experts(plan: &Local) -> Result<u64> {
    let mut blocks = 0;
    for exception in &plan.line.overrides {
        blocks = blocks.max(match exception {
            Override::FirstExperts(first) => (*first).min(plan.setting.blocks),
            Override::AllExperts => plan.setting.blocks,
            Override::Tensors { pattern, .. } => {
                let what = format!("the override `{}`", pattern.text());
                return Err(lacks(what, "LM Studio moves only experts of the first blocks", LLAMA, FLAGS));
            }
        });
    }
    Ok(blocks)
}

fn check(plan: &Local) -> Result<()> {
    let line = &plan.line;
    plan.check_own("LM Studio runs on devices of its machine alone")?;
    if plan.layers() == plan.setting.blocks && plan.layers() > 0 {
        let what = format!("{} of {} layers on devices", plan.layers(), plan.slots());
        let rule = "LM Studio takes the number of blocks as all layers";
        return Err(lacks(what, rule, "export to llama-server", "setting.gpu_layers"));
    }
    check_shares(plan)?;
    let types = [line.keys.name(), line.values.name()];
    if let Some(name) = types.iter().find(|name| !CACHE_TYPES.contains(&name.as_ref())) {
        let rule = "LM Studio has no such type";
        return Err(lacks(format!("a cache of {name}"), rule, "plan with another type", "setting.cache"));
    }
    let options = [(line.whole_windows, "`--swa-full`"), (!line.repack, "`--no-repack`")];
    match options.into_iter().find(|option| option.0) {
        Some((_, option)) => Err(lacks(option, "LM Studio has no such option", LLAMA, FLAGS)),
        None => Ok(()),
    }
}

/// Checks that devices are in the order of the system, with the slots that equal shares give.
fn check_shares(plan: &Local) -> Result<()> {
    let names: Vec<(&str, Option<u32>)> =
        plan.line.devices.iter().map(|device| numbered(&device.name)).collect();
    if names.windows(2).any(|pair| pair[0].0 != pair[1].0 || pair[0].1 >= pair[1].1) {
        let names: Vec<&str> = plan.line.devices.iter().map(|device| device.name.as_str()).collect();
        let rule = "LM Studio has the devices of one backend in the order of the system";
        return Err(ExportError::Devices { what: names.join(" before "), rule });
    }
    let counts: Vec<u64> =
        plan.setting.devices.iter().map(|device| device.slots[1] - device.slots[0]).collect();
    let (total, devices) = (counts.iter().sum::<u64>(), counts.len() as u64);
    // Slot j goes to the first device whose prefix share exceeds j / total.
    let before = |device: u64| (device * total).div_ceil(devices);
    let is_even = (0..).zip(&counts).all(|(device, &count)| count == before(device + 1) - before(device));
    if !is_even {
        let counts = counts.iter().map(|&count| count as usize).collect();
        let (rule, help) = ("LM Studio has equal shares", "plan on one device, or export to llama-server");
        return Err(ExportError::Counts { counts, rule, help });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::super::testing::{
        changed, experts, notes, one_device, patterns, refused, text, two_devices,
    };
    use crate::local::testing::even;

    #[test]
    fn parameters_are_listed() {
        let expected = "Context Length: 8192\nGPU Offload: 8 of 8\nEvaluation Batch Size: 2048\nPhysical Batch Size: 512\n\
                        Max Concurrent Predictions: 1\nUnified KV Cache: on\nOffload KV Cache to GPU Memory: on\n\
                        Flash Attention: on\nK Cache Quantization Type: f16\nV Cache Quantization Type: f16\nTry mmap: on\n";
        assert_eq!(text(&one_device(), "lm-studio"), expected);
        assert!(notes(&one_device(), "lm-studio").contains("`lms load` takes the offload as `--gpu 1`"));
        let part = changed(one_device(), ("-ngl 9", "-ngl 6"), |setting| setting.gpu_layers = 6);
        assert!(text(&part, "lm-studio").contains("GPU Offload: 6 of 8\n"));
        assert!(notes(&part, "lm-studio").contains("`--gpu 0.75`"));
    }

    #[test]
    fn experts_of_the_first_blocks_are_a_parameter() {
        assert!(text(&experts(), "lm-studio").contains("Layers with MoE weights forced onto CPU: 3\n"));
        let all = changed(experts(), ("-ncmoe 3", "-cmoe"), |_| ());
        assert!(text(&all, "lm-studio").contains("Layers with MoE weights forced onto CPU: 8\n"));
        let (code, place, message) = refused(&patterns(), "lm-studio");
        assert_eq!((code, place.as_deref()), ("E032", Some("setting.flags")));
        assert!(message.contains("only experts of the first blocks"), "{message}");
    }

    #[test]
    fn devices_have_equal_shares_in_order() {
        assert!(text(&even(), "lm-studio").contains("GPU Offload: 8 of 8\n"));
        assert!(
            notes(&even(), "lm-studio")
                .contains("all devices but CUDA0 and CUDA1, with the strategy `Split evenly`")
        );
        let uneven = changed(even(), ("-ts 5,4", "-ts 4,5"), |setting| {
            (setting.devices[0].slots, setting.devices[1].slots) = ([0, 4], [4, 9]);
        });
        let (code, _, message) = refused(&uneven, "lm-studio");
        assert_eq!((code, message.contains("4, 5 layers")), ("E017", true), "{message}");
        let (code, _, message) = refused(&two_devices(), "lm-studio");
        assert_eq!((code, message.contains("CUDA1 before CUDA0")), ("E016", true), "{message}");
        let remote =
            changed(one_device(), ("CUDA0", "RPC0"), |setting| setting.devices[0].name = "RPC0".into());
        assert_eq!(refused(&remote, "lm-studio").0, "E016");
    }

    #[test]
    fn what_lm_studio_lacks_is_refused() {
        let all_but_one = changed(one_device(), ("-ngl 9", "-ngl 8"), |setting| setting.gpu_layers = 8);
        let (code, place, _) = refused(&all_but_one, "lm-studio");
        assert_eq!((code, place.as_deref()), ("E032", Some("setting.gpu_layers")));
        let brain =
            changed(one_device(), ("-kvu", "-kvu -ctk bf16"), |setting| setting.cache[0] = "bf16".into());
        assert_eq!(refused(&brain, "lm-studio").1.as_deref(), Some("setting.cache"));
        for option in ["--swa-full", "--no-repack"] {
            let plan = changed(one_device(), ("-kvu", &format!("-kvu {option}")), |_| ());
            let (code, _, message) = refused(&plan, "lm-studio");
            assert_eq!((code, message.contains(option)), ("E032", true));
        }
    }
}
