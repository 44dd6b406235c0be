//! Errors on tables: a class left out, a family of dies left out, a random fifth left out.

use std::collections::BTreeMap;
use std::path::Path;

use rand::seq::SliceRandom;
use stagewright_core::document::CostsDocument;
use stagewright_core::{kernel, seed};
use stagewright_costs::import::aiconfigurator::{self, Options};
use stagewright_costs::{Costs, Summary};
use stagewright_learned::Estimator;
use stagewright_learned::estimate::Basis;
use stagewright_train::kernels::samples::from_tables;
use stagewright_train::kernels::{KernelSettings, Sample};

use super::closed::{Forms, forms, seconds_by_others};
use super::sources::Sources;
use super::{Outcome, fitted};

/// The devices whose closed forms were there before the networks.
const BEFORE: [&str; 5] = ["a100-80gb", "h100", "h200", "b200", "l40s"];

/// A device without siblings whose closed forms were not there.
const ALONE: [&str; 1] = ["rtx-pro-6000-server"];

/// The framework whose tables no network learned from.
const EXAM: &str = "trtllm";

/// Dies of one architecture.
const FAMILIES: [&[&str]; 2] = [&["h100", "h200"], &["b200", "b300", "gb200", "gb300"]];

/// Numbers of measured kernels that calibrate the networks for a class.
const FEW: [usize; 2] = [8, 32];

/// Shares of the errors below which spreads are compared with them.
const COVERED: [f64; 3] = [0.5, 0.68, 0.9];

/// Errors of a class, in one way of leaving out.
struct Row {
    class: String,
    before: Option<Summary>,
    closed: Option<Summary>,
    learned: Option<Summary>,
    /// After a calibration by few of the samples, on the others.
    calibrated: [Option<Summary>; 2],
    /// Basis, spread and absolute error of the logarithm of each learned prediction.
    spreads: Vec<(Basis, f64, f64)>,
}

/// One of a row's errors.
type Figure = fn(&Row) -> Option<Summary>;

/// Prints the errors of all classes, and geometric means over the classes whose closed forms were there before.
pub(crate) fn judge(sources: &Sources, settings: &KernelSettings, part: Option<&str>) -> Outcome<()> {
    let is_asked = |name: &str| part.is_none_or(|part| part == name);
    let samples: Vec<&Sample> = sources.tables.iter().collect();
    let known =
        [true, false].map(|before| forms(samples.iter().copied().filter(|sample| is_before(sample)), before));
    let single: Vec<Vec<&str>> = BEFORE.iter().chain(&ALONE).map(|name| vec![*name]).collect();
    let families = FAMILIES.iter().map(|family| family.to_vec()).collect();
    for (name, title, left_out) in
        [("class", "class left out", single), ("family", "family left out", families)]
    {
        if !is_asked(name) {
            continue;
        }
        let mut rows = Vec::new();
        for names in &left_out {
            let is_out = |sample: &&Sample| names.contains(&sample.device.name.as_str());
            let (test, learned): (Vec<&Sample>, Vec<&Sample>) =
                samples.iter().partition(|sample| is_out(sample));
            let known = known.each_ref().map(|forms| {
                let mut forms = forms.clone();
                forms.retain(|(name, ..), _| !names.contains(&name.as_str()));
                forms
            });
            let estimator = Estimator::new(fitted(&learned, settings, None)?);
            rows.extend(errors(&test, &estimator, Some(&known)));
            eprintln!("{title}: {names:?}");
        }
        print(title, &rows);
    }
    if !is_asked("fifth") {
        return Ok(());
    }
    let mut order: Vec<usize> = (0..samples.len()).collect();
    order.shuffle(&mut seed::stream(7, 0));
    let (test, learned) = order.split_at(samples.len() / 5);
    let chosen =
        |indices: &[usize]| -> Vec<&Sample> { indices.iter().map(|&index| samples[index]).collect() };
    let own = forms(chosen(learned), true);
    let estimator = Estimator::new(fitted(&chosen(learned), settings, None)?);
    let test = chosen(test);
    let mut rows = errors(&test, &estimator, None);
    for row in &mut rows {
        let pairs = test.iter().filter(|sample| sample.class() == row.class).filter_map(|sample| {
            let document = super::closed::document(sample)?;
            let kind = kernel::kind(document);
            let form = own.get(&(sample.device.name.clone(), kind, sample.precision))?;
            let work = kernel::work(document, sample.precision);
            Some((kernel::seconds(form, work), sample.seconds))
        });
        row.before = Summary::of(&pairs.collect::<Vec<_>>());
    }
    print("random fifth left out", &rows);
    Ok(())
}

fn is_before(sample: &Sample) -> bool {
    BEFORE.contains(&sample.device.name.as_str())
}

/// Errors of each class of some samples.
fn errors(test: &[&Sample], estimator: &Estimator, known: Option<&[Forms; 2]>) -> Vec<Row> {
    let mut classes: BTreeMap<String, Vec<&Sample>> = BTreeMap::new();
    for sample in test {
        classes.entry(sample.class()).or_default().push(sample);
    }
    let row = |(class, samples): (String, Vec<&Sample>)| {
        let summary = |predict: &dyn Fn(&Sample) -> Option<f64>| {
            let pairs: Vec<(f64, f64)> =
                samples.iter().filter_map(|sample| Some((predict(sample)?, sample.seconds))).collect();
            Summary::of(&pairs)
        };
        let calibrated = FEW.map(|few| {
            let mut order: Vec<&Sample> = samples.clone();
            order.shuffle(&mut seed::stream(3, 0));
            let (rows, others) = order.split_at(few.min(order.len()));
            let rows: Vec<_> =
                rows.iter().map(|sample| (sample.shape.clone(), sample.precision, sample.seconds)).collect();
            let estimator = estimator.calibrated(samples.first()?.device, &rows);
            let pairs: Vec<(f64, f64)> = others
                .iter()
                .filter_map(|sample| {
                    let found = estimator.seconds(sample.device, &sample.shape, sample.precision)?;
                    Some((found.seconds, sample.seconds))
                })
                .collect();
            Summary::of(&pairs)
        });
        Row {
            calibrated,
            before: known.and_then(|[before, _]| summary(&|sample| seconds_by_others(before, sample, true))),
            closed: known.and_then(|[_, forms]| summary(&|sample| seconds_by_others(forms, sample, false))),
            learned: summary(&|sample| {
                Some(estimator.seconds(sample.device, &sample.shape, sample.precision)?.seconds)
            }),
            spreads: samples
                .iter()
                .filter_map(|sample| {
                    let found = estimator.seconds(sample.device, &sample.shape, sample.precision)?;
                    Some((found.basis, found.spread, (found.seconds / sample.seconds).ln().abs()))
                })
                .collect(),
            class,
        }
    };
    classes.into_iter().map(row).collect()
}

fn print(title: &str, rows: &[Row]) {
    println!("\n{title}\n| class | n | before | siblings | learned | 8 measured | 32 measured |");
    println!("| --- | ---: | ---: | ---: | ---: | ---: | ---: |");
    for row in rows {
        let n = row.learned.as_ref().map_or(0, |summary| summary.n);
        let [before, closed, learned] = [&row.before, &row.closed, &row.learned].map(short);
        let [few, more] = row.calibrated.each_ref().map(short);
        println!("| {} | {n} | {before} | {closed} | {learned} | {few} | {more} |", row.class);
    }
    let of_before = |row: &&Row| BEFORE.contains(&row.class.split('/').next().unwrap_or_default());
    let figures: [(&str, Figure); 4] = [
        ("siblings", |row| row.closed),
        ("learned", |row| row.learned),
        ("8 measured", |row| row.calibrated[0]),
        ("32 measured", |row| row.calibrated[1]),
    ];
    for (name, figure) in figures {
        let ratios: Vec<[f64; 2]> = rows
            .iter()
            .filter(of_before)
            .filter_map(|row| {
                let (before, after) = (row.before?, figure(row)?);
                Some([after.median / before.median, after.p90 / before.p90])
            })
            .collect();
        if ratios.is_empty() {
            continue;
        }
        let mean = |index: usize| {
            (ratios.iter().map(|ratio| ratio[index].ln()).sum::<f64>() / ratios.len() as f64).exp()
        };
        let (median, p90) = (mean(0), mean(1));
        println!(
            "{name}, over {} classes: {median:.2} of the median, {p90:.2} of the 90th percentile",
            ratios.len()
        );
    }
    for basis in [Basis::Seen, Basis::Siblings, Basis::Others] {
        let of_basis: Vec<(f64, f64)> = rows
            .iter()
            .flat_map(|row| &row.spreads)
            .filter(|(own, ..)| *own == basis)
            .map(|(_, spread, error)| (*spread, *error))
            .collect();
        let quantiles = |figure: &dyn Fn(&(f64, f64)) -> f64| {
            let mut values: Vec<f64> = of_basis.iter().map(figure).collect();
            values.sort_by(f64::total_cmp);
            COVERED.map(|share| values[(share * values.len() as f64) as usize])
        };
        let mut by_spread = of_basis.clone();
        by_spread.sort_by(|left, right| left.0.total_cmp(&right.0));
        for third in by_spread.chunks(by_spread.len().div_ceil(3).max(1)) {
            let mut errors: Vec<f64> = third.iter().map(|(_, error)| *error).collect();
            errors.sort_by(f64::total_cmp);
            let middle = third[third.len() / 2].0;
            println!(
                "{basis:?}, a third with the median spread {middle:.3}: errors {:.3?}",
                COVERED.map(|share| errors[(share * errors.len() as f64) as usize])
            );
        }
        if !of_basis.is_empty() {
            println!(
                "{basis:?}, {} predictions, quantiles {COVERED:?}: spread {:.3?}, error {:.3?}, error by spread {:.2?}",
                of_basis.len(),
                quantiles(&|(spread, _)| *spread),
                quantiles(&|(_, error)| *error),
                quantiles(&|(spread, error)| error / spread),
            );
        }
    }
}

/// Prints the errors of networks on the tables of a framework that they did not learn from, beside those of each class's own closed
/// form and of the table that they did learn from, interpolated.
pub(crate) fn exam(folder: &Path, checkpoint: &Estimator) -> Outcome<()> {
    let mut systems = Vec::new();
    for entry in std::fs::read_dir(folder.join("systems/data"))? {
        let entry = entry?;
        if entry.path().join("gemm").join(EXAM).is_dir() {
            systems.push(entry.file_name().to_string_lossy().into_owned());
        }
    }
    systems.sort();
    let read = |framework: Option<&str>| -> Outcome<CostsDocument> {
        let (systems, framework) = (systems.clone(), framework.map(str::to_owned));
        let options = Options { systems, framework, ..Options::default() };
        Ok(aiconfigurator::import(folder, &options)?.document)
    };
    let learned = Costs::new([("learned from".to_owned(), read(None)?)])?;
    let mut samples = from_tables(&read(Some(EXAM))?);
    samples.retain(|sample| sample.device.is_nvidia());
    let mut classes: BTreeMap<String, Vec<&Sample>> = BTreeMap::new();
    for sample in &samples {
        classes.entry(sample.class()).or_default().push(sample);
    }
    println!("\ntables of {EXAM}\n| class | n | closed form | table, interpolated | learned |");
    println!("| --- | ---: | ---: | ---: | ---: |");
    for (class, samples) in classes {
        let cell = |predict: &dyn Fn(&Sample) -> Option<f64>| {
            let pairs: Vec<(f64, f64)> =
                samples.iter().filter_map(|sample| Some((predict(sample)?, sample.seconds))).collect();
            short(&Summary::of(&pairs))
        };
        let closed = |sample: &Sample| {
            let class = sample.device.class(sample.precision)?;
            let document = super::closed::document(sample)?;
            let fit = kernel::fit(&class, document, sample.precision)?;
            Some(kernel::seconds(fit, kernel::work(document, sample.precision)))
        };
        let table = |sample: &Sample| {
            let document = super::closed::document(sample)?;
            Some(learned.kernel(&sample.device.name, document, sample.precision)?.seconds)
        };
        let networks = |sample: &Sample| {
            Some(checkpoint.seconds(sample.device, &sample.shape, sample.precision)?.seconds)
        };
        let (closed, table, networks) = (cell(&closed), cell(&table), cell(&networks));
        println!("| {class} | {} | {closed} | {table} | {networks} |", samples.len());
    }
    Ok(())
}

/// Median and 90th percentile in percent.
fn short(summary: &Option<Summary>) -> String {
    summary
        .as_ref()
        .map_or("–".into(), |summary| format!("{:.1} / {:.1}", 100.0 * summary.median, 100.0 * summary.p90))
}
