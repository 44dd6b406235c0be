//! Whole models in single precision: the sum of their kernels beside measured and published milliseconds.
//!
//! The operators are those of PyTorch without fusion, as NeuSight's authors ran them: every elementwise operation is a
//! kernel, and a backward pass has two products for each of the forward pass. Mixtures of experts are left out.

use std::collections::BTreeMap;
use std::fs::File;

use serde::Deserialize;
use stagewright_core::document::{KernelDocument, Precision};
use stagewright_costs::Summary;
use stagewright_formats::clusters::device;
use stagewright_learned::{Estimator, Rowwise, Shape};
use stagewright_train::kernels::samples::catalogued;

use super::Outcome;

#[derive(Deserialize)]
struct Row {
    model_name: String,
    seqlen: f64,
    batch: f64,
    device: String,
    mode: String,
    option: String,
    label_all_e2e_latency: f64,
    neusight_all_e2e_latency: Option<f64>,
}

/// A transformer: layers, width, heads, width of the feed-forward block, vocabulary, and whether its activation is
/// GPT-2's, of eight kernels.
struct Transformer {
    layers: f64,
    width: f64,
    heads: f64,
    inner: f64,
    vocabulary: f64,
    has_long_gelu: bool,
}

fn transformer(name: &str) -> Option<Transformer> {
    let (layers, width, heads, vocabulary, has_long_gelu) = match name {
        "bert_large" => (24.0, 1024.0, 16.0, 30522.0, false),
        "gpt2_large" => (36.0, 1280.0, 20.0, 50257.0, true),
        "gpt3_xl" => (24.0, 3072.0, 24.0, 50257.0, true),
        "gpt3_27" => (32.0, 2560.0, 32.0, 50257.0, true),
        "opt_13" => (24.0, 2048.0, 32.0, 50272.0, false),
        _ => return None,
    };
    Some(Transformer { layers, width, heads, inner: 4.0 * width, vocabulary, has_long_gelu })
}

/// Kernels of a step, with their numbers.
fn kernels(model: &Transformer, batch: f64, tokens: f64, is_training: bool) -> Vec<(Shape, f64)> {
    let &Transformer { layers, width, heads, inner, vocabulary, has_long_gelu } = model;
    let rows = batch * tokens;
    let mut kernels = Vec::new();
    let mut product = |batch: f64, m: f64, n: f64, k: f64, count: f64| {
        let mut add = |m, n, k| {
            kernels.push((Shape::Library(KernelDocument::Product { batch, m, n, k }), count));
        };
        add(m, n, k);
        if is_training {
            add(m, k, n);
            add(k, n, m);
        }
    };
    product(1.0, rows, 3.0 * width, width, layers);
    product(batch * heads, tokens, tokens, width / heads, layers);
    product(batch * heads, tokens, width / heads, tokens, layers);
    product(1.0, rows, width, width, layers);
    product(1.0, rows, inner, width, layers);
    product(1.0, rows, width, inner, layers);
    product(1.0, rows, vocabulary, width, 1.0);
    let passes = if is_training { 2.0 } else { 1.0 };
    let mut over = |operation, rows: f64, columns: f64, count: f64| {
        kernels.push((Shape::Rows { operation, rows, columns }, passes * count));
    };
    let scores = batch * heads * tokens;
    over(Rowwise::DivideNumber, scores, tokens, layers);
    over(Rowwise::Add, scores, tokens, layers);
    over(Rowwise::Softmax, scores, tokens, layers);
    over(Rowwise::LayerNormalisation, rows, width, 2.0 * layers + 1.0);
    over(Rowwise::Add, rows, width, 2.0 * layers);
    if has_long_gelu {
        over(Rowwise::MultiplyNumber, rows, inner, 3.0 * layers);
        over(Rowwise::PowerNumber, rows, inner, layers);
        over(Rowwise::Tanh, rows, inner, layers);
        over(Rowwise::AddNumber, rows, inner, layers);
        over(Rowwise::Add, rows, inner, layers);
        over(Rowwise::Multiply, rows, inner, layers);
    } else {
        over(Rowwise::Gelu, rows, inner, layers);
    }
    kernels
}

/// Prints a line for each row that can be said, and errors over all and over devices that were not learned from.
pub(crate) fn judge(file: &str, seen: &[&str], contenders: &[(&str, &Estimator)]) -> Outcome<()> {
    let titles: Vec<&str> = contenders.iter().map(|&(title, _)| title).collect();
    println!(
        "\nwhole models\n| model | device | batch | step | measured, ms | published | {} |",
        titles.join(" | ")
    );
    println!("| --- | --- | ---: | --- | ---: | ---: |{}", " ---: |".repeat(titles.len()));
    let mut errors: BTreeMap<(&str, &str), Vec<(f64, f64)>> = BTreeMap::new();
    let mut left_out = 0;
    for row in csv::Reader::from_reader(File::open(file)?).deserialize() {
        let row: Row = row?;
        let name = row.device.replace('_', " ");
        let (Some(model), Some(device)) = (transformer(&row.model_name), device(catalogued(&name))) else {
            left_out += 1;
            continue;
        };
        if !row.option.is_empty() {
            left_out += 1;
            continue;
        }
        let kernels = kernels(&model, row.batch, row.seqlen, row.mode == "train");
        let which = if seen.contains(&device.name.as_str()) { "seen" } else { "unseen" };
        let mut cells = Vec::new();
        for &(title, estimator) in contenders {
            let sum = kernels.iter().try_fold(0.0, |sum, (shape, count)| {
                Some(sum + count * estimator.seconds(device, shape, Precision::Fp32)?.seconds)
            });
            let Some(seconds) = sum else {
                cells.push("–".into());
                continue;
            };
            errors.entry((title, which)).or_default().push((1e3 * seconds, row.label_all_e2e_latency));
            cells.push(format!("{:.1}", 1e3 * seconds));
        }
        if let Some(published) = row.neusight_all_e2e_latency {
            errors.entry(("published", which)).or_default().push((published, row.label_all_e2e_latency));
        }
        println!(
            "| {} | {} | {} | {} | {:.1} | {} | {} |",
            row.model_name,
            device.name,
            row.batch,
            row.mode,
            row.label_all_e2e_latency,
            row.neusight_all_e2e_latency.map_or("–".into(), |value| format!("{value:.1}")),
            cells.join(" | "),
        );
    }
    println!("left out: {left_out} rows of mixtures, of several devices, with fusion, or of unknown devices");
    for ((title, which), pairs) in errors {
        if let Some(Summary { n, median, p90, mean }) = Summary::of(&pairs) {
            let [median, p90, mean] = [median, p90, mean].map(|share| 100.0 * share);
            println!("{title}, devices {which}: n {n}, median {median:.1}%, p90 {p90:.1}%, mean {mean:.1}%");
        }
    }
    Ok(())
}
