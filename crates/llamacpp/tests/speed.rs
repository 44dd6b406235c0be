//! The formula of speed: by hand, and against published measurements.
#![allow(clippy::print_stdout, reason = "errors by class, for those who fit the constants")]

use std::collections::BTreeSet;
use std::path::PathBuf;

use stagewright_core::ids::Keyed;
use stagewright_llamacpp::speed::{Reads, Work, decode, prefill};
use stagewright_llamacpp::{Class, DeviceId, Host, Setting, place};
use stagewright_structure::Structure;

use crate::fixture::{GIB, dense, device, experts, parse};
use crate::judge::rows::{self, Case, Row};
use crate::judge::summary::{quantile, summary};
use crate::judge::{devices, fit, models as lineup};
use crate::models::{self, Widths};

const HOST: Host = Host::new(64 * GIB, 50e9);

fn work(structure: &Structure, count: usize, line: &str, tokens: u64) -> Work {
    let setting = parse(count, line);
    Work::of(structure, &setting, &place(structure, &setting), tokens)
}

fn bytes(structure: &Structure, is_counted: impl Fn(&str) -> bool, share: impl Fn(bool) -> f64) -> f64 {
    let tensors = structure.tensors.iter().filter(|tensor| is_counted(&tensor.name));
    let read = tensors.map(|tensor| {
        let factor = device("CUDA0").rates.factor(tensor.encoding.bytes_per_number());
        share(tensor.role.is_expert()) * tensor.bytes as f64 / factor
    });
    read.sum()
}

fn assert_near(value: f64, expected: f64) {
    assert!((value / expected - 1.0).abs() < 1e-12, "{value} is not {expected}");
}

#[test]
fn a_token_reads_every_weight_but_the_table_and_a_quarter_of_the_experts() {
    let structure = dense();
    let all = bytes(&structure, |name| name != "token_embd.weight", |_| 1.0);
    assert_near(work(&structure, 1, "", 0).devices[DeviceId(0)].bytes, all);
    let structure = experts();
    let active =
        bytes(&structure, |name| name != "token_embd.weight", |is_expert| if is_expert { 0.25 } else { 1.0 });
    assert_near(work(&structure, 1, "", 0).devices[DeviceId(0)].bytes, active);
}

/// Keys and values of 2 heads of 64 in 8 layers, with 16 bits, or with 34 bytes for 32 numbers of the keys.
#[test]
fn a_token_reads_the_cache() {
    let structure = dense();
    let read = |line: &str, tokens: u64| work(&structure, 1, line, tokens).devices[DeviceId(0)].bytes;
    let difference = |line: &str| read(line, 1000) - read(line, 0);
    assert!((difference("") - 8000.0 * 256.0 * 2.0).abs() < 1e-3);
    assert!((difference("-ctk q8_0") - 8000.0 * 128.0 * (34.0 / 32.0 + 2.0)).abs() < 1e-3);
}

#[test]
fn a_tied_output_reads_the_table() {
    let mut model = models::small();
    model.tensors.retain(|tensor| tensor.name != "output.weight");
    let structure = model.structure();
    let all = bytes(&structure, |_| true, |_| 1.0);
    assert_near(work(&structure, 1, "", 0).devices[DeviceId(0)].bytes, all);
    // On the host the bytes have no factor.
    assert_near(work(&structure, 1, "-ngl 0", 0).host.bytes, structure.weight_bytes() as f64);
}

#[test]
fn layers_hops_and_crossings_are_counted() {
    let structure = experts();
    let counts = |line: &str| {
        let work = work(&structure, 2, line, 0);
        let of = |reads: &Reads| [reads.layers, reads.expert_layers];
        (
            [of(&work.host), of(&work.devices[DeviceId(0)]), of(&work.devices[DeviceId(1)])],
            work.hops,
            work.crossings,
        )
    };
    assert_eq!(counts("-ts 5,4"), ([[0, 0], [5, 5], [4, 3]], 1, 0));
    assert_eq!(counts("-ts 5,4 -ncmoe 6"), ([[0, 0], [5, 0], [4, 2]], 1, 6));
    assert_eq!(counts("-ts 1,0 -ngl 4"), ([[5, 5], [4, 3], [0, 0]], 0, 0));
    assert_eq!(counts("-ts 1,0 -ot 'blk\\.2\\.ffn_up_exps=CUDA1'"), ([[0, 0], [9, 8], [0, 0]], 2, 0));
}

#[test]
fn seconds_are_the_sum_of_the_parts() {
    let setting = parse(2, "");
    let reads = |bytes: f64, layers: u64, expert_layers: u64| Reads { bytes, layers, expert_layers };
    let devices: Keyed<DeviceId, Reads> = vec![reads(9.36e8, 10, 4), reads(0.0, 0, 0)].into();
    let work = Work { devices, host: reads(2.65e7, 3, 2), hops: 2, crossings: 5 };
    let expected = 1e-3 / 0.97 + 10.0 * 47e-6 + 4.0 * 45e-6 + 1e-3 + 3.0 * 31e-6 + 2.0 * 153e-6 + 5.0 * 27e-6;
    assert_near(decode(&work, &setting, HOST), expected);
}

/// Larger micro-batches copy the experts of the host less often, and the same prompt is read sooner.
#[test]
fn the_micro_batch_divides_the_copies() {
    let structure = gpt_oss_120b();
    let seconds = |line: &str| {
        let setting = parse(1, line);
        prefill(&structure, &setting, &place(&structure, &setting), HOST, 8192).expect("a measured class")
    };
    let on_device = seconds("");
    let copies = |line: &str| seconds(line) - on_device;
    let experts = structure.tensors.iter().filter(|tensor| tensor.role.is_expert() && tensor.shape.len() > 2);
    let experts: u64 = experts.map(|tensor| tensor.bytes).sum();
    assert!((copies("-cmoe -ub 2048 -b 2048") / (4.0 * experts as f64 / 40e9) - 1.0).abs() < 0.01);
    assert!((copies("-cmoe -ub 4096 -b 4096") / (2.0 * experts as f64 / 40e9) - 1.0).abs() < 0.01);
    let mut setting = parse(1, "");
    setting.devices[DeviceId(0)].rates.expert_products = None;
    assert_eq!(prefill(&structure, &setting, &place(&structure, &setting), HOST, 8192), None, "not measured");
}

fn gpt_oss_120b() -> Structure {
    let widths = Widths {
        layers: 36,
        hidden: 2880,
        heads: 64,
        kv_heads: 8,
        head: 64,
        inner: 2880,
        vocabulary: 201_088,
    };
    models::gpt_oss(&widths, 128, 4).structure()
}

/// Rows of the file of published measurements; `None` without `STAGEWRIGHT_SHARED`.
fn measured() -> Option<Vec<Row>> {
    let shared = PathBuf::from(std::env::var_os("STAGEWRIGHT_SHARED")?);
    Some(rows::read(&shared.join("data/local-runs/measured.csv")).expect("rows of the table"))
}

/// The errors that the constants state. The rows were fitted to.
#[test]
fn published_tokens_a_second_are_met() {
    let Some(rows) = measured() else { return println!("skipped: STAGEWRIGHT_SHARED is not set") };
    let cases: Vec<Case> = rows.iter().filter_map(|row| row.case().ok()).collect();
    let quantiles = |cases: &[&Case]| {
        let errors: Vec<f64> = cases.iter().map(|case| case.error().abs()).collect();
        (quantile(errors.clone(), 0.5), quantile(errors, 0.9))
    };
    let (median, high) = quantiles(&cases.iter().collect::<Vec<_>>());
    assert_eq!(cases.len(), 65);
    assert!(median < 0.06 && high < 0.16, "{median} and {high}");
    let of_host: Vec<&Case> = cases.iter().filter(|case| case.has_experts_on_host()).collect();
    let (median, high) = quantiles(&of_host);
    assert!(of_host.len() == 3 && median < 0.15 && high < 0.20, "{median} and {high}");
}

/// Constants that are fitted without a source predict its rows, and those fitted to all are the shipped ones.
#[test]
fn sources_that_are_left_out_are_met() {
    let Some(rows) = measured() else { return println!("skipped: STAGEWRIGHT_SHARED is not set") };
    let cases: Vec<Case> = rows.iter().filter_map(|row| row.case().ok()).collect();
    let sources: BTreeSet<&str> = cases.iter().map(|case| case.row.source.as_str()).collect();
    let mut errors = Vec::new();
    for source in sources {
        let (own, others): (Vec<_>, Vec<_>) = cases.iter().partition(|case| case.row.source == source);
        let values = fit::fit(&others);
        errors.extend(own.iter().map(|case| fit::error(case, &values).abs()));
    }
    let (median, high) = (quantile(errors.clone(), 0.5), quantile(errors, 0.9));
    assert!(median < 0.08 && high < 0.25, "{median} and {high}");
    let all = fit::fit(&cases.iter().collect::<Vec<_>>());
    for ((name, shipped, ..), value) in fit::CONSTANTS.iter().zip(all) {
        assert!((shipped / value - 1.0).abs() < 0.03, "{name}: {shipped} but {value}");
    }
}

/// A file with fewer columns, a word for a number and a count of devices has a case or a reason for each row.
#[test]
fn rows_without_a_figure_have_a_reason() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    let text = "devices,model,size_gib,tg,device_class,cpu_expert_layers\n\
                2x3090,Llama-3-70B,39.59,16.5,cuda24,\n\
                Foo,llama3-8B,4.58,1,cuda24,\n\
                3090,llama3-9B,4.58,1,cuda24,\n\
                3090,llama3-8B,4.58,?,cuda24,\n\
                3090,gpt-oss-120b,59.02,30,cuda26,20\n\
                3090+3060,llama3-8B,4.58,90,cuda26,0\n";
    std::fs::write(file.path(), text).expect("written");
    let rows = rows::read(file.path()).expect("rows");
    let reasons = ["", "`Foo`", "`llama3-9B`", "no tokens", "bandwidth of RAM", "0 shares of layers for 2"];
    for (row, reason) in rows.iter().zip(reasons) {
        let case = row.case().map(|case| case.error());
        assert!(
            case.as_ref().err().is_some_and(|error| error.contains(reason)) || reason.is_empty(),
            "{case:?}"
        );
    }
    assert!(
        rows.len() == 6
            && rows[0].case().is_ok_and(|case| case.devices.len() == 2 && case.error().abs() < 0.1)
    );
    assert_eq!(summary(&[-0.1, 0.05, 0.3]), "n 3, signed +5.0%, median 10.0%, p90 26.0%");
}

/// Names of models and devices as people write them.
#[test]
fn published_names_are_understood() {
    let same = |left: &str, right: &str| {
        assert_eq!(
            lineup::find(left).map(|model| model.weights),
            lineup::find(right).map(|model| model.weights)
        );
        assert!(lineup::find(left).is_some(), "{left}");
    };
    same("Meta-Llama-3.1-8B-Instruct", "llama3-8B");
    same("Qwen3-30B-A3B-Instruct-2507", "qwen3-30B-A3B");
    same("Qwen 2.5 Coder 7B", "qwen2-7B");
    assert_eq!(lineup::find("llama-33B").map(|model| model.layers), Some(60.0));
    assert_eq!(lineup::find("deepseek-r1-distill-qwen-1.5B"), None, "another size");
    let bandwidth = |name: &str| devices::find(name, "cuda26").map(|device| device.bandwidth / 1e9);
    assert_eq!(
        ["RTX4000Ada", "6000Ada", "A100-PCIe", "A100-SXM"].map(bandwidth),
        [360.0, 960.0, 1935.0, 2039.0].map(Ok)
    );
    assert_eq!(
        ["M2Ultra", "3090Ti", "4070S", "5060Ti"].map(bandwidth),
        [800.0, 1008.0, 504.0, 448.0].map(Ok)
    );
    assert_eq!(["GB10", "R9700", "RTX 3090", "7900XTX"].map(bandwidth), [273.0, 640.0, 936.0, 960.0].map(Ok));
    assert!(bandwidth("ROCm").is_err());
    let class = |name: &str, class: &str| devices::find(name, class).map(|device| device.class);
    assert_eq!(class("H100-PCIe", "hbm24"), Ok(Class::Hbm2024));
    assert_eq!(class("M1Max", "metal24"), Ok(Class::Metal2024));
    assert_eq!(class("P100", "pascal"), Ok(Class::Pascal));
}

/// gpt-oss-120b with experts of some layers on the host, by micro-batch.
#[test]
fn published_prompts_a_second_are_met() {
    let Some(rows) = measured() else { return println!("skipped: STAGEWRIGHT_SHARED is not set") };
    let structure = gpt_oss_120b();
    let rows = rows.iter().filter(|row| row.devices == "3090" && row.model == "gpt-oss-120b");
    let mut count = 0;
    for row in rows {
        let flags = row.flags.split_once("-ub ").expect("a micro-batch");
        let moved = row.cpu_expert_layers.unwrap_or(0.0);
        let setting = parse(1, &format!("-ncmoe {moved} -ub {0} -b {0}", flags.1));
        let prompt: u64 = if flags.1 == "8192" { 8192 } else { 4096 };
        let seconds = prefill(&structure, &setting, &place(&structure, &setting), HOST, prompt);
        let error = prompt as f64 / seconds.expect("a measured class") / row.pp.expect("a prompt") - 1.0;
        println!("-ub {}: {:.1}%", flags.1, 100.0 * error);
        assert!(error.abs() < 0.08, "-ub {}: {error}", flags.1);
        count += 1;
    }
    assert_eq!(count, 4);
}

/// A dense model on four cards with GDDR: the share of the peak that products reach differs by card.
#[test]
fn published_prompts_of_a_dense_model_are_met() {
    let Some(rows) = measured() else { return println!("skipped: STAGEWRIGHT_SHARED is not set") };
    let widths = Widths {
        layers: 32,
        hidden: 4096,
        heads: 32,
        kv_heads: 8,
        head: 128,
        inner: 14_336,
        vocabulary: 128_256,
    };
    let structure = models::llama(&widths, false).structure();
    let mut count = 0;
    for name in ["3080", "4070Ti", "3090", "4090"] {
        let row =
            rows.iter().find(|row| row.devices == name && row.model == "llama3-8B" && row.quant == "Q4_K_M");
        let row = row.unwrap_or_else(|| panic!("a row of {name}"));
        let setting = Setting::new(vec![devices::find(name, &row.device_class).expect("a device")]);
        let seconds = prefill(&structure, &setting, &place(&structure, &setting), HOST, 1024);
        let error = 1024.0 / seconds.expect("a measured class") / row.pp.expect("a prompt") - 1.0;
        println!("{name}: {:.1}%", 100.0 * error);
        assert!(error.abs() < 0.25, "{name}: {error}");
        count += 1;
    }
    assert_eq!(count, 4);
}
