//! Ollama: a Modelfile, with the environment of its server in a note.
//!
//! `num_gpu` is a number of layers from the output, `num_ctx` the tokens of a sequence, and `num_batch` those of a micro-batch.
//! The type of the cache and flash attention are of the server (`OLLAMA_KV_CACHE_TYPE`, `OLLAMA_FLASH_ATTENTION`), as is the number
//! of sequences (`OLLAMA_NUM_PARALLEL`), each of which has a context of its own. Ollama puts layers on as few devices as they
//! fit, by free memory, so that a plan is for one device, which `CUDA_VISIBLE_DEVICES` chooses.
//!
//! Source: `docs/modelfile.mdx` (071c82b16), `docs/faq.mdx` (00182b504), and `assignLayers` in `llm/server.go` and
//! `NewContextParams` in `llama/llama.go` of Ollama 0.13.

use stagewright_core::text::visible;

use super::super::notes::noted;
use super::super::plan::{FLAGS, LLAMA, lacks, numbered};
use super::super::{Local, LocalTarget};
use crate::{Export, ExportError, Result};

/// Types of a cache.
const CACHE_TYPES: [&str; 3] = ["f16", "q8_0", "q4_0"];

pub(super) static TARGET: LocalTarget = LocalTarget {
    name: "ollama",
    summary: "Ollama: a Modelfile with num_gpu, num_ctx and num_batch",
    limits: "one device of the machine; no overrides; keys and values of one type, f16, q8_0 or q4_0",
    write,
};

fn write(plan: &Local) -> Result<Export> {
    check(plan)?;
    let line = &plan.line;
    // Sequences that share a context are one.
    let parallel = if line.unified { 1 } else { line.sequences };
    let model = plan.model();
    let folder = if model.starts_with('/') { "" } else { "./" };
    let mut text = format!("FROM {folder}{model}\n");
    text.push_str(&format!("PARAMETER num_gpu {}\n", plan.layers()));
    text.push_str(&format!("PARAMETER num_ctx {}\n", plan.setting.context / parallel));
    text.push_str(&format!("PARAMETER num_batch {}\n", line.micro_batch));
    text.push_str(if line.mmap { "" } else { "PARAMETER use_mmap false\n" });
    let part = (plan.layers() > 0 && plan.layers() < plan.slots()).then(|| {
        "with a part of the layers, the engine of Ollama may keep the output on the host and take one block more: compare the \
         line `offloaded` of its log"
            .to_owned()
    });
    let shared = (line.unified && line.sequences > 1).then(|| {
        format!("one request has the whole context, which {} sequences of the plan share", line.sequences)
    });
    Ok(noted(plan, text, "Ollama 0.13").note(environment(plan, parallel)).also(part).also(shared))
}

/// The environment of the server.
fn environment(plan: &Local, parallel: u64) -> String {
    let line = &plan.line;
    let mut words = vec![
        format!("OLLAMA_FLASH_ATTENTION={}", u8::from(line.flash_attention)),
        format!("OLLAMA_KV_CACHE_TYPE={}", line.keys.name()),
        format!("OLLAMA_NUM_PARALLEL={parallel}"),
    ];
    words.extend(line.devices.iter().filter_map(|device| {
        let (backend, number) = numbered(&device.name);
        let variable = match backend {
            "CUDA" => "CUDA_VISIBLE_DEVICES",
            "ROCm" => "ROCR_VISIBLE_DEVICES",
            "Vulkan" => "GGML_VK_VISIBLE_DEVICES",
            _ => return None,
        };
        number.map(|number| format!("{variable}={number}"))
    }));
    format!(
        "start the server with `{} ollama serve`, then `ollama create NAME -f Modelfile`",
        words.join(" ")
    )
}

fn check(plan: &Local) -> Result<()> {
    let line = &plan.line;
    let rule = "Ollama runs on devices of its machine alone";
    plan.check_own(rule)?;
    if line.devices.len() > 1 {
        let what = format!("{} devices with shares", line.devices.len());
        return Err(ExportError::Devices { what, rule: "Ollama divides layers by free memory itself" });
    }
    if let Some(pattern) = plan.patterns().first() {
        let what = format!("the override `{}`", visible(pattern));
        return Err(lacks(what, "Ollama keeps a layer together", LLAMA, FLAGS));
    }
    let [keys, values] = [line.keys.name(), line.values.name()];
    let rule = "Ollama has one type for keys and values, f16, q8_0 or q4_0";
    if keys != values || !CACHE_TYPES.contains(&keys.as_ref()) {
        let what = format!("a cache of {keys} and {values}");
        return Err(lacks(what, rule, "plan with one of these types", "setting.cache"));
    }
    let options = [
        (line.whole_windows, "`--swa-full`"),
        (!line.repack, "`--no-repack`"),
        (!line.cache_on_devices, "`--no-kv-offload`"),
    ];
    match options.into_iter().find(|option| option.0) {
        Some((_, option)) => Err(lacks(option, "Ollama has no such option", LLAMA, FLAGS)),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::testing::{
        changed, experts, notes, one_device, patterns, refused, text, two_devices,
    };

    #[test]
    fn a_modelfile_has_layers_context_and_batch() {
        let expected =
            "FROM ./small.gguf\nPARAMETER num_gpu 9\nPARAMETER num_ctx 8192\nPARAMETER num_batch 512\n";
        assert_eq!(text(&one_device(), "ollama"), expected);
        let environment = "OLLAMA_FLASH_ATTENTION=1 OLLAMA_KV_CACHE_TYPE=f16 OLLAMA_NUM_PARALLEL=1 CUDA_VISIBLE_DEVICES=0 ollama serve";
        assert!(notes(&one_device(), "ollama").contains(environment));
        assert!(!notes(&one_device(), "ollama").contains("offloaded"));
        let part = changed(one_device(), ("-ngl 9", "-ngl 5"), |setting| setting.gpu_layers = 5);
        assert!(
            text(&part, "ollama").contains("num_gpu 5\n") && notes(&part, "ollama").contains("`offloaded`")
        );
        let mut absolute = one_device();
        absolute.model = "/models/small.gguf".into();
        assert!(text(&absolute, "ollama").starts_with("FROM /models/small.gguf\n"));
    }

    #[test]
    fn sequences_divide_the_context_or_are_one() {
        let apart = changed(one_device(), ("-np 1 -kvu", "-np 2"), |setting| setting.sequences = 2);
        assert!(text(&apart, "ollama").contains("num_ctx 4096\n"));
        assert!(notes(&apart, "ollama").contains("OLLAMA_NUM_PARALLEL=2"));
        let shared = changed(one_device(), ("-np 1", "-np 2"), |setting| setting.sequences = 2);
        assert!(text(&shared, "ollama").contains("num_ctx 8192\n"));
        assert!(notes(&shared, "ollama").contains("which 2 sequences of the plan share"));
    }

    #[test]
    fn switches_are_written() {
        let plan = changed(one_device(), ("-kvu", "-kvu -fa off --no-mmap"), |_| ());
        assert!(text(&plan, "ollama").ends_with("PARAMETER use_mmap false\n"));
        assert!(notes(&plan, "ollama").contains("OLLAMA_FLASH_ATTENTION=0"));
    }

    #[test]
    fn devices_are_chosen_by_the_variable_of_their_backend() {
        for (name, variable) in [
            ("ROCm1", "ROCR_VISIBLE_DEVICES=1"),
            ("Vulkan2", "GGML_VK_VISIBLE_DEVICES=2"),
            ("MTL0", "PARALLEL=1 ollama"),
        ] {
            let plan =
                changed(one_device(), ("CUDA0", name), |setting| setting.devices[0].name = name.into());
            assert!(notes(&plan, "ollama").contains(variable), "{name}");
        }
    }

    #[test]
    fn what_ollama_lacks_is_refused() {
        let (code, _, message) = refused(&two_devices(), "ollama");
        assert_eq!(code, "E016");
        assert!(message.contains("2 devices"), "{message}");
        let remote =
            changed(one_device(), ("CUDA0", "RPC0"), |setting| setting.devices[0].name = "RPC0".into());
        assert_eq!(refused(&remote, "ollama").0, "E016");
        for plan in [experts(), patterns()] {
            let (code, place, _) = refused(&plan, "ollama");
            assert_eq!((code, place.as_deref()), ("E032", Some("setting.flags")));
        }
        for (flags, cache) in [("-ctk q8_0", ["q8_0", "f16"]), ("-ctk bf16 -ctv bf16", ["bf16", "bf16"])] {
            let flags = format!("-kvu {flags}");
            let plan =
                changed(one_device(), ("-kvu", &flags), |setting| setting.cache = cache.map(str::to_owned));
            let (code, place, _) = refused(&plan, "ollama");
            assert_eq!((code, place.as_deref()), ("E032", Some("setting.cache")));
        }
        for option in ["--swa-full", "--no-repack", "--no-kv-offload"] {
            let plan = changed(one_device(), ("-kvu", &format!("-kvu {option}")), |_| ());
            let (code, _, message) = refused(&plan, "ollama");
            assert_eq!((code, message.contains(option)), ("E032", true));
        }
    }
}
