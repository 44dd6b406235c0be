//! `llama-server` of ik_llama.cpp, a fork of llama.cpp.
//!
//! Devices, shares and patterns are those of llama.cpp; `--fit` is off, and flash attention and fused experts are on, by
//! default. Three things differ:
//!
//! - the output is on a device only if all blocks are: k layers of n blocks are the last k blocks up to k = n;
//! - `--n-cpu-moe` moves other blocks than the first, so experts are moved by patterns;
//! - sequences divide the context, and do not share it.
//!
//! Source: `gpt_params_find_arg` in `common/common.cpp` (007d64009), `llm_load_tensors` in `src/llama.cpp` and
//! `docs/parameters.md` (01544b4b8) of ik_llama.cpp.

use stagewright_core::text::{quoted, quoted_word};

use super::super::notes::{noted, servers};
use super::super::plan::{FLAGS, LLAMA, lacks};
use super::super::{Local, LocalTarget};
use crate::{Export, Result};

pub(super) static TARGET: LocalTarget = LocalTarget {
    name: "ik_llama.cpp",
    summary: "ik_llama.cpp: one line of a shell that starts its llama-server",
    limits: "all layers on devices or none; no `--swa-full`; one sequence, if sequences share a context",
    write,
};

fn write(plan: &Local) -> Result<Export> {
    let line = &plan.line;
    let layers = plan.layers();
    if layers > 0 && layers < plan.slots() {
        let what = format!("{layers} of {} layers on devices, the output among them", plan.slots());
        let rule = "ik_llama.cpp puts the output on a device only with all blocks";
        return Err(lacks(what, rule, "export to llama-server", "setting.gpu_layers"));
    }
    if line.whole_windows {
        return Err(lacks("`--swa-full`", "ik_llama.cpp has no such option", LLAMA, FLAGS));
    }
    let names: Vec<&str> = line.devices.iter().map(|device| device.name.as_str()).collect();
    let mut words = vec!["llama-server".to_owned(), "-m".to_owned(), quoted(plan.model()).into_owned()];
    match names.is_empty() {
        // The list of devices cannot be empty.
        true => words.insert(0, "CUDA_VISIBLE_DEVICES=".to_owned()),
        false => words.push(format!("-dev {}", quoted_word(&names.join(",")))),
    }
    words.push(format!("-ngl {layers}"));
    if names.len() > 1 {
        words.push("-sm layer".to_owned());
        let shares: Vec<String> = line.shares.iter().map(ToString::to_string).collect();
        words.extend((!shares.is_empty()).then(|| format!("-ts {}", shares.join(","))));
    }
    words.extend(plan.patterns().iter().map(|pattern| format!("-ot {}", quoted_word(pattern))));
    words.push(format!("-c {} -b {} -ub {}", plan.setting.context, line.batch, line.micro_batch));
    words.push(format!("-ctk {} -ctv {}", line.keys.name(), line.values.name()));
    words.push(format!("-fa {}", if line.flash_attention { "on" } else { "off" }));
    words.extend((!line.unified).then(|| format!("-np {}", line.sequences)));
    words.extend((!line.mmap).then(|| "--no-mmap".to_owned()));
    words.extend((!line.cache_on_devices).then(|| "-nkvo".to_owned()));
    let shared = (line.unified && line.sequences > 1).then(|| {
        format!("one sequence has the whole context, which {} sequences of the plan share", line.sequences)
    });
    let text = words.join(" ") + "\n";
    let servers = servers(plan, &text);
    Ok(noted(plan, text, "ik_llama.cpp 007d64009").also(servers).also(shared).note(
        "kernels and buffers differ from those of llama.cpp: measure before relying on memory and speed; `-rtr` lays out \
         weights of the host for the processor, and then reads them into RAM",
    ))
}

#[cfg(test)]
mod tests {
    use super::super::super::testing::{changed, notes, one_device, patterns, refused, text, two_devices};

    const TARGET: &str = "ik_llama.cpp";

    #[test]
    fn the_line_has_the_notation_of_the_fork() {
        let expected =
            "llama-server -m small.gguf -dev CUDA0 -ngl 9 -c 8192 -b 2048 -ub 512 -ctk f16 -ctv f16 -fa on\n";
        assert_eq!(text(&one_device(), TARGET), expected);
        let line = text(&two_devices(), TARGET);
        assert!(line.contains(" -dev CUDA1,CUDA0 -ngl 9 -sm layer -ts 3,6 -c 8192 "), "{line}");
        let line = text(&patterns(), TARGET);
        let expected = r" -ot 'blk\.(0|1|2)\.ffn_(up|down|gate|gate_up)_(ch|)exps=CPU' -ot 'blk\.(5|7)\.(ffn_up_exps)\.=CPU' -c";
        assert!(line.contains(expected) && !line.contains("-ncmoe"), "{line}");
    }

    #[test]
    fn a_machine_without_devices_hides_them() {
        let plan =
            changed(one_device(), ("-dev CUDA0 -ngl 9", "-dev none"), |setting| setting.devices.clear());
        assert!(
            text(&plan, TARGET).starts_with("CUDA_VISIBLE_DEVICES= llama-server -m small.gguf -ngl 0 -c")
        );
    }

    #[test]
    fn sequences_divide_the_context_or_are_one() {
        let apart = changed(one_device(), ("-np 1 -kvu", "-np 2"), |setting| setting.sequences = 2);
        assert!(text(&apart, TARGET).ends_with(" -fa on -np 2\n"));
        let shared = changed(one_device(), ("-np 1", "-np 2"), |setting| setting.sequences = 2);
        assert!(text(&shared, TARGET).ends_with(" -fa on\n"));
        assert!(notes(&shared, TARGET).contains("which 2 sequences of the plan share"));
    }

    #[test]
    fn switches_are_written() {
        let plan = changed(one_device(), ("-kvu", "-kvu -fa off --no-mmap --no-kv-offload"), |_| ());
        assert!(text(&plan, TARGET).ends_with(" -fa off --no-mmap -nkvo\n"));
    }

    #[test]
    fn what_the_fork_lacks_is_refused() {
        let part = changed(one_device(), ("-ngl 9", "-ngl 5"), |setting| setting.gpu_layers = 5);
        let (code, place, message) = refused(&part, TARGET);
        assert_eq!((code, place.as_deref()), ("E032", Some("setting.gpu_layers")));
        assert!(message.contains("5 of 9 layers"), "{message}");
        let whole = changed(one_device(), ("-kvu", "-kvu --swa-full"), |_| ());
        assert_eq!(refused(&whole, TARGET).1.as_deref(), Some("setting.flags"));
    }
}
