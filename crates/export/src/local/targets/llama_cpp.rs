//! `llama-server` and `llama-cli` of llama.cpp.
//!
//! Both take the options of the plan, with `--fit off`, so that nothing is changed to fit. The command line for one
//! conversation has one sequence and no `--kv-unified`. Builds before `--load-mode none` had `--no-mmap`.
//!
//! Source: `common/arg.cpp` and `tools/server/server.cpp` of llama.cpp 0c1e57098.

use stagewright_core::text::quoted;
use stagewright_llamacpp::Setting;

use super::super::notes::{noted, servers};
use super::super::{Local, LocalTarget};
use crate::{Export, Result};

/// The version of llama.cpp whose options targets write.
pub(super) const VERSION: &str = "llama.cpp 0c1e57098";

pub(super) static SERVER: LocalTarget = LocalTarget {
    name: "llama-server",
    summary: "llama.cpp: one line of a shell that starts the server",
    limits: "none",
    write: |plan| Ok(line(plan, "llama-server", &plan.line)),
};

pub(super) static CLI: LocalTarget = LocalTarget {
    name: "llama-cli",
    summary: "llama.cpp: one line of a shell that starts a conversation",
    limits: "one conversation, which has the context that sequences share",
    write: write_cli,
};

fn write_cli(plan: &Local) -> Result<Export> {
    let mut setting = plan.line.clone();
    if !setting.unified {
        return Ok(line(plan, "llama-cli", &setting));
    }
    // The automatic number of sequences, which a line does not name; the program takes it as one.
    let default = Setting::new(Vec::new());
    (setting.sequences, setting.unified) = (default.sequences, default.unified);
    let note = (plan.setting.sequences > 1).then(|| {
        format!(
            "the conversation has the whole context, which {} sequences of the plan share",
            plan.setting.sequences
        )
    });
    Ok(line(plan, "llama-cli", &setting).also(note))
}

fn line(plan: &Local, program: &str, setting: &Setting) -> Export {
    let servers_of_line = plan.servers();
    let text =
        format!("{program} -m {}{servers_of_line} {} --fit off\n", quoted(plan.model()), setting.line());
    let note = servers(plan, &text);
    noted(plan, text, VERSION).also(note)
}

#[cfg(test)]
mod tests {
    use stagewright_core::document::KindDocument;

    use super::super::super::testing::{changed, experts, notes, one_device, patterns, text, two_devices};

    #[test]
    fn the_line_has_the_options_of_the_plan() {
        let expected = "llama-server -m small.gguf -dev CUDA0 -ngl 9 -c 8192 -np 1 -kvu --fit off\n";
        assert_eq!(text(&one_device(), "llama-server"), expected);
        let expected = "llama-server -m MODEL.gguf -dev CUDA1,CUDA0 -ngl 9 -ts 3,6 -c 8192 -np 1 -kvu -ctk q8_0 -ctv q8_0 \
                        --fit off\n";
        assert_eq!(text(&two_devices(), "llama-server"), expected);
        let expected = "llama-server -m MODEL.gguf -dev CUDA0 -ngl 9 -ncmoe 3 -c 8192 -np 1 -kvu -b 4096 -ub 4096 --fit off\n";
        assert_eq!(text(&experts(), "llama-server"), expected);
        let expected = r"llama-server -m MODEL.gguf -dev CUDA0 -ngl 9 -ncmoe 3 -ot 'blk\.(5|7)\.(ffn_up_exps)\.=CPU' -c 8192 -np 1 -kvu -b 4096 -ub 4096 --fit off";
        assert_eq!(text(&patterns(), "llama-server").trim_end(), expected);
    }

    #[test]
    fn the_command_line_has_one_conversation() {
        let expected = "llama-cli -m small.gguf -dev CUDA0 -ngl 9 -c 8192 --fit off\n";
        assert_eq!(text(&one_device(), "llama-cli"), expected);
        let several = changed(one_device(), ("-np 1 -kvu", "-np 3 -kvu"), |setting| setting.sequences = 3);
        assert_eq!(text(&several, "llama-cli"), expected);
        assert!(notes(&several, "llama-cli").contains("which 3 sequences of the plan share"));
        let apart = changed(one_device(), ("-np 1 -kvu", "-np 3"), |setting| setting.sequences = 3);
        assert!(text(&apart, "llama-cli").contains(" -np 3 "));
    }

    #[test]
    fn weights_are_read_by_the_load_mode() {
        let plan = changed(one_device(), ("-kvu", "-kvu --no-mmap"), |_| ());
        assert!(text(&plan, "llama-server").ends_with("-kvu --load-mode none --fit off\n"));
        assert!(notes(&one_device(), "llama-server").contains("1.0 GiB of weights are mapped from the file"));
        assert!(!notes(&plan, "llama-server").contains("mapped"));
    }

    #[test]
    fn the_model_is_one_word_of_a_shell() {
        let mut plan = one_device();
        plan.model = "it's $(touch x).gguf".into();
        assert!(text(&plan, "llama-server").starts_with(r"llama-server -m 'it'\''s $(touch x).gguf' -dev"));
        plan.model = "two\nlines.gguf".into();
        assert!(text(&plan, "llama-server").starts_with("llama-server -m MODEL.gguf -dev"));
        assert!(notes(&plan, "llama-server").contains(r"put the file of `two\nlines.gguf` for MODEL.gguf"));
    }

    #[test]
    fn notes_have_memory_and_speed() {
        let notes = notes(&two_devices(), "llama-server");
        for part in [
            "for llama.cpp 0c1e57098",
            "CUDA1 is small, CUDA0 is large: compare with `llama-server --list-devices`",
            "memory: 3.0 GiB of 4.0 GiB on CUDA1, 6.0 GiB of 8.0 GiB on CUDA0, 1.5 GiB of 16.0 GiB on RAM; the least margin is \
             1.0 GiB, on CUDA1",
            "predicted for llama.cpp: 40.0 tokens/s, a prompt of 2000 tokens in 1.5000 s",
        ] {
            assert!(notes.contains(part), "{part}\n{notes}");
        }
        let full = changed(one_device(), ("", ""), |setting| setting.devices[0].memory = 1 << 30);
        assert!(super::super::super::testing::notes(&full, "llama-server").contains("CUDA0 lacks 5.0 GiB"));
    }

    #[test]
    fn devices_of_servers_need_their_addresses() {
        let flags = r"-dev RPC0 -ngl 9 -ot 'output_norm\.=RPC0[127.0.0.1:50052]' -c 8192 -np 1 -kvu";
        let plan = changed(one_device(), ("", ""), |setting| {
            setting.flags = flags.into();
            setting.devices[0].name = "RPC0".into();
        });
        assert!(text(&plan, "llama-server").contains(r"-ot 'output_norm\.=RPC0[127.0.0.1:50052]'"));
        assert!(notes(&plan, "llama-server").contains("put `--rpc HOST:PORT,…`"));
        assert!(!notes(&one_device(), "llama-server").contains("--rpc"));
    }

    /// All servers are named, so that `RPC1` is the second, though the plan leaves the first out.
    #[test]
    fn servers_of_the_machine_are_named_before_their_devices() {
        let flags = "-dev RPC1 -ngl 9 -c 8192 -np 1 -kvu";
        let mut plan = changed(one_device(), ("", ""), |setting| {
            setting.flags = flags.into();
            setting.devices[0].name = "RPC1".into();
        });
        let kinds = ["rpc://127.0.0.1:50052", "rpc://node:50053", "rpc://node:50053"];
        plan.cluster.kinds = kinds.map(|name| KindDocument::named(name, 1)).to_vec();
        for target in ["llama-server", "llama-cli", "llama-bench"] {
            let line = text(&plan, target);
            assert!(
                line.contains(" -m small.gguf --rpc 127.0.0.1:50052,node:50053 -dev RPC1 -ngl 9"),
                "{line}"
            );
            assert!(!notes(&plan, target).contains("put `--rpc"));
        }
        plan.setting = one_device().setting;
        assert!(!text(&plan, "llama-server").contains("--rpc"));
    }
}
