//! `llama-bench` of llama.cpp, which measures what a plan predicts.
//!
//! A comma in a value, or an option that is given twice, makes another test, so devices and shares are divided by `/`, and
//! overrides by `;`, all in one `-ot`. `-ncmoe` counts after every `-ot`, wherever it stands: next to patterns, it is written as
//! one. The time of a request is that of `-pg`; a token is generated in the middle of the tokens that decoding counts on.
//!
//! Source: `tools/llama-bench/llama-bench.cpp` of llama.cpp 0c1e57098. Builds before `--load-mode` had `-mmp 0`.

use stagewright_core::document::{LocalGoal, LocalObjectiveDocument};
use stagewright_core::text::{quoted, quoted_word};
use stagewright_llamacpp::Override;

use super::super::notes::{noted, servers};
use super::super::plan::{FLAGS, LLAMA, lacks};
use super::super::{Local, LocalTarget};
use super::llama_cpp::VERSION;
use crate::{Export, Result};

/// Tokens that a test of decoding generates.
const GENERATED: u64 = 64;

pub(super) static TARGET: LocalTarget = LocalTarget {
    name: "llama-bench",
    summary: "llama.cpp: one line of a shell that measures what the plan predicts",
    limits: "no cache of 32 bits, no `--swa-full`, no `;` in a pattern; a context of the tokens that are measured",
    write,
};

fn write(plan: &Local) -> Result<Export> {
    let line = &plan.line;
    if line.whole_windows {
        return Err(lacks("`--swa-full`", "llama-bench has no such option", LLAMA, FLAGS));
    }
    let types = [line.keys.name(), line.values.name()];
    if types.contains(&"f32".into()) {
        return Err(lacks("a cache of f32", "llama-bench has no such type", LLAMA, "setting.cache"));
    }
    let names: Vec<&str> = line.devices.iter().map(|device| device.name.as_str()).collect();
    let devices = if names.is_empty() { "none".to_owned() } else { names.join("/") };
    let mut text = format!("llama-bench -m {}{}", quoted(plan.model()), plan.servers());
    text.push_str(&format!(" -dev {}", quoted_word(&devices)));
    text.push_str(&format!(" -ngl {}", plan.layers()));
    if !line.shares.is_empty() {
        let shares: Vec<String> = line.shares.iter().map(ToString::to_string).collect();
        text.push_str(&format!(" -ts {}", shares.join("/")));
    }
    text.push_str(&overrides(plan)?);
    text.push_str(&format!(
        " -b {} -ub {} -ctk {} -ctv {}",
        line.batch, line.micro_batch, types[0], types[1]
    ));
    text.push_str(if line.flash_attention { " -fa 1" } else { " -fa 0" });
    for (is_given, option) in
        [(!line.mmap, " -lm none"), (!line.repack, " --repack 0"), (!line.cache_on_devices, " -nkvo 1")]
    {
        text.push_str(if is_given { option } else { "" });
    }
    text.push_str(&format!(" {}\n", tests(&plan.document.objective)));
    let note = "the context has only the tokens that are measured, so memory is less than in the plan";
    let servers = servers(plan, &text);
    Ok(noted(plan, text, VERSION).also(servers).note(note))
}

fn overrides(plan: &Local) -> Result<String> {
    let first = |exception: &Override| match exception {
        Override::FirstExperts(blocks) => Some(*blocks),
        _ => None,
    };
    let counts: Option<Vec<u64>> = plan.line.overrides.iter().map(first).collect();
    if let Some(counts) = counts {
        let largest = counts.into_iter().max().filter(|&blocks| blocks > 0);
        return Ok(largest.map_or_else(String::new, |blocks| format!(" -ncmoe {blocks}")));
    }
    let patterns = plan.patterns();
    if let Some(pattern) = patterns.iter().find(|pattern| pattern.contains(';')) {
        let help = "write the pattern without `;`";
        return Err(lacks(format!("`-ot {pattern}`"), "llama-bench divides patterns by `;`", help, FLAGS));
    }
    Ok(format!(" -ot {}", quoted_word(&patterns.join(";"))))
}

/// The tests that measure an objective.
fn tests(objective: &LocalObjectiveDocument) -> String {
    let (prompt, output) = (objective.prompt.unwrap_or(0), objective.output.unwrap_or(0));
    match objective.kind {
        LocalGoal::Prefill => format!("-p {prompt} -n 0"),
        LocalGoal::Request => format!("-p {prompt} -n 0 -pg {prompt},{output}"),
        LocalGoal::Decode => {
            let tokens = objective.tokens.unwrap_or(0);
            let generated = tokens.saturating_mul(2).clamp(1, GENERATED);
            format!("-p 0 -n {generated} -d {}", tokens - generated / 2)
        }
    }
}

#[cfg(test)]
mod tests {
    use stagewright_core::document::LocalGoal;

    use super::super::super::testing::{changed, experts, one_device, patterns, refused, text, two_devices};

    #[test]
    fn the_line_has_the_notation_of_the_tool() {
        let expected = "llama-bench -m small.gguf -dev CUDA0 -ngl 9 -b 2048 -ub 512 -ctk f16 -ctv f16 -fa 1 \
                        -p 2000 -n 0 -pg 2000,400\n";
        assert_eq!(text(&one_device(), "llama-bench"), expected);
        let line = text(&two_devices(), "llama-bench");
        assert!(
            line.contains(" -dev CUDA1/CUDA0 -ngl 9 -ts 3/6 -b 2048 -ub 512 -ctk q8_0 -ctv q8_0 "),
            "{line}"
        );
        assert!(text(&experts(), "llama-bench").contains(" -ngl 9 -ncmoe 3 -b 4096 -ub 4096 "));
    }

    /// The tool merges `-ncmoe` after all patterns, and a second `-ot` is another test.
    #[test]
    fn experts_beside_patterns_are_a_pattern() {
        let line = text(&patterns(), "llama-bench");
        let expected = r" -ot 'blk\.(0|1|2)\.ffn_(up|down|gate|gate_up)_(ch|)exps=CPU;blk\.(5|7)\.(ffn_up_exps)\.=CPU' -b";
        assert!(line.contains(expected), "{line}");
        assert!(!line.contains("-ncmoe"));
        let all = changed(experts(), ("-ncmoe 3", "-cmoe"), |_| ());
        assert!(text(&all, "llama-bench").contains(r" -ot '\.ffn_(up|down|gate|gate_up)_(ch|)exps=CPU' -b"));
    }

    #[test]
    fn tests_measure_the_objective() {
        let mut plan = one_device();
        plan.objective.kind = LocalGoal::Prefill;
        assert!(text(&plan, "llama-bench").ends_with(" -p 2000 -n 0\n"));
        plan.objective.kind = LocalGoal::Decode;
        for (tokens, expected) in
            [(None, "-p 0 -n 1 -d 0"), (Some(10), "-p 0 -n 20 -d 0"), (Some(4000), "-p 0 -n 64 -d 3968")]
        {
            plan.objective.tokens = tokens;
            assert!(text(&plan, "llama-bench").ends_with(&format!(" {expected}\n")), "{tokens:?}");
        }
    }

    #[test]
    fn switches_have_values() {
        let flags = "-kvu -fa off --no-mmap --no-repack --no-kv-offload";
        let plan = changed(one_device(), ("-kvu", flags), |_| ());
        assert!(text(&plan, "llama-bench").contains(" -fa 0 -lm none --repack 0 -nkvo 1 -p "));
    }

    #[test]
    fn options_that_the_tool_lacks_are_refused() {
        let whole = changed(one_device(), ("-kvu", "-kvu --swa-full"), |_| ());
        let (code, place, message) = refused(&whole, "llama-bench");
        assert_eq!((code, place.as_deref()), ("E032", Some("setting.flags")));
        assert!(message.contains("`--swa-full`"), "{message}");
        let wide =
            changed(one_device(), ("-kvu", "-kvu -ctk f32"), |setting| setting.cache[0] = "f32".into());
        assert_eq!(refused(&wide, "llama-bench").1.as_deref(), Some("setting.cache"));
        let divided = changed(one_device(), ("-kvu", "-kvu -ot 'a;b=CPU'"), |_| ());
        assert!(refused(&divided, "llama-bench").2.contains("divides patterns by `;`"));
    }
}
