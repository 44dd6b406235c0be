//! Fits and errors of the tables of an installed `aiconfigurator-core`: how the fits of `data/clusters/devices.toml`
//! were made.
//!
//! ```text
//! cargo run --release -p stagewright-costs --example tables -- FOLDER [fits|errors] [SYSTEM …]
//! ```

#![allow(clippy::print_stdout, reason = "an example prints its result")]

use std::collections::BTreeMap;
use std::error::Error;
use std::path::Path;

use stagewright_core::document::{ClassDocument, KernelFitDocument};
use stagewright_costs::import::aiconfigurator::{self, Options};
use stagewright_costs::{AccuracyOptions, Costs, Summary};
use stagewright_formats::clusters::devices;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments.next().ok_or("give the folder of the package")?;
    let what = arguments.next().unwrap_or_else(|| "errors".into());
    let options = Options { systems: arguments.collect(), ..Options::default() };
    let imported = aiconfigurator::import(Path::new(&folder), &options)?;
    for note in &imported.notes {
        println!("# {note}");
    }
    let sources: BTreeMap<_, _> = imported
        .document
        .kernels
        .iter()
        .map(|table| ((table.class.clone(), table.kernel, table.precision), table.source.clone()))
        .collect();
    let costs = Costs::new([(folder, imported.document)])?;
    let classes: BTreeMap<String, ClassDocument> =
        devices().iter().filter_map(|device| Some((device.name.clone(), device.all_peaks()?))).collect();
    let errors = costs.accuracy(&classes, AccuracyOptions::default());
    if what == "fits" {
        for error in &errors {
            let fits = costs.fits(&error.class);
            let fit = fits.iter().find(|fit| fit.kernel == error.kernel && fit.precision == error.precision);
            let (Some(fit), Some(own)) = (fit, error.fit) else { continue };
            let source = &sources[&(error.class.clone(), error.kernel, error.precision)];
            print_fit(&error.class, fit, source, own);
        }
        return Ok(());
    }
    println!("| class | kernel | precision | rows | row | size | fifth | fit | other classes | roofline |");
    println!("| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |");
    for error in errors {
        let sizes: Vec<String> = error
            .left_out_size
            .iter()
            .map(|(name, summary)| format!("{name} {}", short(Some(*summary))))
            .collect();
        println!(
            "| {} | {} | {} | {} | {} | {} | {} | {} | {} | {} |",
            error.class,
            error.kernel.name(),
            error.precision,
            error.rows,
            short(error.left_out_row),
            sizes.join("; "),
            short(error.held_out),
            short(error.fit),
            short(error.left_out_class),
            short(error.roofline),
        );
    }
    println!("\n| class | transfer | rows | bytes | devices | fit |");
    println!("| --- | --- | --- | --- | --- | --- |");
    for error in costs.link_accuracy() {
        println!(
            "| {} | {} | {} | {} | {} | {} |",
            error.class,
            error.transfer.name(),
            error.rows,
            short(error.left_out_row),
            short(error.left_out_devices),
            short(error.fit)
        );
    }
    Ok(())
}

/// Median, 90th percentile and mean, in percent.
fn short(summary: Option<Summary>) -> String {
    let Some(Summary { median, p90, mean, .. }) = summary else { return "-".into() };
    format!("{:.1}/{:.1}/{:.1}", 100.0 * median, 100.0 * p90, 100.0 * mean)
}

fn print_fit(class: &str, fit: &KernelFitDocument, source: &str, own: Summary) {
    println!("[[devices.{class}.fits]]");
    println!("kernel = \"{}\"", fit.kernel.name());
    println!("precision = \"{}\"", fit.precision);
    println!("launch_s = {:.2e}", fit.launch_s);
    println!("step_s = {:.2e}", fit.step_s);
    if fit.row_s > 0.0 {
        println!("row_s = {:.2e}", fit.row_s);
    }
    println!("flops = {:.3e}", fit.flops);
    println!("bandwidth = {:.3e}", fit.bandwidth);
    println!("sharpness = {:.2}", fit.sharpness);
    println!("cache_bytes = {:.1e}", fit.cache_bytes);
    println!(
        "source = \"{source}; median error {:.0}%, 90th percentile {:.0}%, mean {:.0}%\"\n",
        100.0 * own.median,
        100.0 * own.p90,
        100.0 * own.mean
    );
}
