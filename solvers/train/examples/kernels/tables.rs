//! Errors on tables: a class left out, a family of dies left out, a random fifth left out.

use std::collections::BTreeMap;

use rand::seq::SliceRandom;
use stagewright_core::seed;
use stagewright_costs::Summary;
use stagewright_learned::Estimator;
use stagewright_train::kernels::{KernelSettings, Sample};

use super::closed::{Forms, forms, seconds_by_others};
use super::sources::Sources;
use super::{Outcome, fitted};

/// The devices whose closed forms were there before the networks.
const BEFORE: [&str; 5] = ["a100-80gb", "h100", "h200", "b200", "l40s"];

/// A device without siblings whose closed forms were not there.
const ALONE: [&str; 1] = ["rtx-pro-6000-server"];

/// Dies of one architecture.
const FAMILIES: [&[&str]; 2] = [&["h100", "h200"], &["b200", "b300", "gb200", "gb300"]];

/// Errors of a class, in one way of leaving out.
struct Row {
    class: String,
    before: Option<Summary>,
    closed: Option<Summary>,
    learned: Option<Summary>,
}

/// Prints the errors of all classes, and geometric means over the classes whose closed forms were there before.
pub(crate) fn judge(sources: &Sources, settings: &KernelSettings, part: Option<&str>) -> Outcome<()> {
    let is_asked = |name: &str| part.is_none_or(|part| part == name);
    let samples: Vec<&Sample> = sources.tables.iter().collect();
    let known = forms(samples.iter().copied().filter(|sample| is_before(sample)));
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
            let known = known
                .iter()
                .filter(|((name, ..), _)| !names.contains(&name.as_str()))
                .map(|(key, form)| (key.clone(), form.clone()))
                .collect();
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
    let own = forms(chosen(learned));
    let estimator = Estimator::new(fitted(&chosen(learned), settings, None)?);
    let test = chosen(test);
    let mut rows = errors(&test, &estimator, None);
    for row in &mut rows {
        let pairs = test.iter().filter(|sample| sample.class() == row.class).filter_map(|sample| {
            let document = super::closed::document(sample)?;
            let kind = stagewright_core::kernel::kind(document);
            let form = own.get(&(sample.device.name.clone(), kind, sample.precision))?;
            let work = stagewright_core::kernel::work(document, sample.precision);
            Some((stagewright_core::kernel::seconds(form, work), sample.seconds))
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
fn errors(test: &[&Sample], estimator: &Estimator, before: Option<&Forms>) -> Vec<Row> {
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
        Row {
            before: before.and_then(|forms| summary(&|sample| seconds_by_others(forms, sample, true))),
            closed: before.and_then(|forms| summary(&|sample| seconds_by_others(forms, sample, false))),
            learned: summary(&|sample| {
                Some(estimator.seconds(sample.device, &sample.shape, sample.precision)?.seconds)
            }),
            class,
        }
    };
    classes.into_iter().map(row).collect()
}

fn print(title: &str, rows: &[Row]) {
    println!("\n{title}\n| class | n | before | siblings | learned |\n| --- | ---: | ---: | ---: | ---: |");
    let short = |summary: &Option<Summary>| {
        summary.as_ref().map_or("–".into(), |summary| {
            format!("{:.1} / {:.1}", 100.0 * summary.median, 100.0 * summary.p90)
        })
    };
    for row in rows {
        let n = row.learned.as_ref().map_or(0, |summary| summary.n);
        let [before, closed, learned] = [&row.before, &row.closed, &row.learned].map(short);
        println!("| {} | {n} | {before} | {closed} | {learned} |", row.class);
    }
    let of_before = |row: &&Row| BEFORE.contains(&row.class.split('/').next().unwrap_or_default());
    for (name, figure) in
        [("siblings", (|row| row.closed) as fn(&Row) -> Option<Summary>), ("learned", |row| row.learned)]
    {
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
}
