//! `costs`: measurements from other programs, their coverage, and their application to a model.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Serialize;
use stagewright::clusters;
#[cfg(feature = "parquet")]
use stagewright::code::U001;
use stagewright::core::document::{ClassDocument, CostsDocument, KernelFitDocument};
use stagewright::costs::import;
#[cfg(feature = "parquet")]
use stagewright::costs::import::aiconfigurator;
use stagewright::costs::{Accuracy, AccuracyOptions, Costs, LinkAccuracy, Source, Summary, TableSummary};
use stagewright::formats::write_graph;
use stagewright::report::grid::{Column, Grid};

use super::args::{
    ApplyCostsArguments, CostsArguments, CostsCommand, ImportCostsArguments, ShowCostsArguments,
};
use super::error::{CliError, Result};
use super::exit::Exit;
use super::files::{self, Input, Outputs, is_standard, read};
use super::{measured, output, resolve};

pub(crate) fn run(arguments: &CostsArguments) -> Result<Exit> {
    match &arguments.command {
        CostsCommand::Import(arguments) => import(arguments)?,
        CostsCommand::Show(arguments) => show(arguments)?,
        CostsCommand::Apply(arguments) => apply(arguments)?,
    }
    Ok(Exit::Done)
}

fn import(arguments: &ImportCostsArguments) -> Result<()> {
    files::outputs(&[("--out", arguments.out.as_deref())])?;
    let mut all = CostsDocument::new("");
    for source in &arguments.sources {
        let document = match source.is_dir() {
            true => of_folder(source, arguments)?,
            false => {
                let Input { label, bytes } = read(source)?;
                let options = import::Options {
                    class: arguments.class.clone(),
                    devices: arguments.devices,
                    transfer: arguments.transfer,
                    warm_up: arguments.warm_up,
                };
                import::import(&label, &bytes, &options)?
            }
        };
        if all.name.is_empty() {
            all.name = document.name;
        }
        all.operators.extend(document.operators);
        all.kernels.extend(document.kernels);
        all.links.extend(document.links);
    }
    // Checks that everything written can be read back.
    Costs::new([("the measurements".to_owned(), all.clone())])?;
    let text = import::native::write(&all);
    match arguments.out.as_deref().filter(|path| !is_standard(path)) {
        Some(path) => files::write(path, &text),
        None => output::data(&text),
    }
}

/// Refuses a folder of tables, because reading Parquet needs the feature `parquet`.
#[cfg(not(feature = "parquet"))]
fn of_folder(folder: &Path, _: &ImportCostsArguments) -> Result<CostsDocument> {
    Err(CliError::new(stagewright::code::U010, "this build cannot read tables of Parquet")
        .at(folder.display().to_string())
        .help("build with the feature `parquet`, which is on by default"))
}

/// Reads the tables of an installed `aiconfigurator-core`.
#[cfg(feature = "parquet")]
fn of_folder(folder: &Path, arguments: &ImportCostsArguments) -> Result<CostsDocument> {
    aiconfigurator::tables(folder).iter().try_for_each(|table| files::kept(table))?;
    let classes = match (&arguments.class, arguments.systems.as_slice()) {
        (None, _) => BTreeMap::new(),
        (Some(class), [system]) => BTreeMap::from([(system.clone(), class.clone())]),
        (Some(_), _) => {
            return Err(CliError::new(U001, "a class is for one system")
                .at("--class")
                .help("give one --system"));
        }
    };
    let options = aiconfigurator::Options {
        systems: arguments.systems.clone(),
        framework: arguments.framework.clone(),
        classes,
    };
    let imported = aiconfigurator::import(folder, &options)?;
    for note in &imported.notes {
        output::note(&format!("note: {note}"));
    }
    Ok(imported.document)
}

/// Output of `show`.
#[derive(Serialize)]
struct Shown {
    operators: Vec<ShownOperators>,
    kernels: Vec<TableSummary>,
    links: Vec<LinkAccuracy>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    accuracy: Vec<Accuracy>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    fits: BTreeMap<String, Vec<KernelFitDocument>>,
}

#[derive(Serialize)]
struct ShownOperators {
    class: String,
    source: String,
    operators: usize,
    seconds: f64,
}

fn show(arguments: &ShowCostsArguments) -> Result<()> {
    let documents = measured::documents(&arguments.files)?;
    let operators = documents.iter().flat_map(|(_, document)| &document.operators).map(|it| ShownOperators {
        class: it.class.clone(),
        source: it.source.clone(),
        operators: it.seconds.len(),
        seconds: it.seconds.values().sum(),
    });
    let operators = operators.collect();
    let costs = Costs::new(documents)?;
    let kernels: Vec<TableSummary> = costs.tables().collect();
    let names: Vec<String> = kernels.iter().map(|table| table.class.clone()).collect();
    let accuracy = match arguments.accuracy {
        true => costs.accuracy(&rooflines(&names), AccuracyOptions::default()),
        false => Vec::new(),
    };
    let fits = match arguments.fits {
        true => names.into_iter().map(|class| (class.clone(), costs.fits(&class))).collect(),
        false => BTreeMap::new(),
    };
    let shown = Shown { operators, kernels, links: costs.link_accuracy(), accuracy, fits };
    match arguments.json {
        true => output::data(&output::json(&shown)?),
        false => output::result(&text(&shown)),
    }
}

/// The rooflines of those classes that are built-in devices.
fn rooflines(classes: &[String]) -> BTreeMap<String, ClassDocument> {
    let roofline = |class: &String| {
        let class_of = clusters::find(&format!("1x{class}")).ok()?.classes.into_values().next()?;
        Some((class.clone(), ClassDocument { fits: Vec::new(), ..class_of }))
    };
    classes.iter().filter_map(roofline).collect()
}

fn text(shown: &Shown) -> String {
    let width = output::width();
    let mut parts = Vec::new();
    if !shown.operators.is_empty() {
        let mut grid = Grid::of(&[
            (Column::Names, &["class"]),
            (Column::Figures, &["operators", "ms"]),
            (Column::Words, &["source"]),
        ]);
        for it in &shown.operators {
            let ms = format!("{:.3}", 1e3 * it.seconds);
            grid.row([it.class.clone(), it.operators.to_string(), ms, it.source.clone()]);
        }
        parts.push(grid.text(width));
    }
    if !shown.kernels.is_empty() && shown.accuracy.is_empty() {
        let mut grid =
            Grid::of(&[(Column::Names, &["class", "kernel", "precision"]), (Column::Figures, &["sizes"])]);
        for table in &shown.kernels {
            let kernel = table.kernel.name().to_owned();
            grid.row([
                table.class.clone(),
                kernel,
                table.precision.name().to_owned(),
                table.rows.to_string(),
            ]);
        }
        parts.push(grid.text(width));
    }
    if !shown.accuracy.is_empty() {
        parts.push(accuracy(&shown.accuracy, width));
    }
    if !shown.links.is_empty() {
        let names = ["rows", "left-out row", "p90", "left-out group", "fit"];
        let mut grid = Grid::of(&[(Column::Names, &["class", "transfer"]), (Column::Figures, &names)]);
        for it in &shown.links {
            let between = if it.between_servers { " between servers" } else { "" };
            grid.row([
                it.class.clone(),
                format!("{}{between}", it.transfer.name()),
                it.rows.to_string(),
                middle(it.left_out_row.as_ref()),
                high(it.left_out_row.as_ref()),
                middle(it.left_out_devices.as_ref()),
                middle(it.fit.as_ref()),
            ]);
        }
        parts.push(grid.text(width));
    }
    for (class, fits) in &shown.fits {
        for fit in fits {
            let json = serde_json::to_string(fit).unwrap_or_default();
            parts.push(format!("{class}: {json}\n"));
        }
    }
    match parts.is_empty() {
        true => "no measurements\n".into(),
        false => parts.join("\n"),
    }
}

/// Formats prediction errors by what was left out: medians and 90th percentiles.
fn accuracy(rows: &[Accuracy], width: Option<u16>) -> String {
    let names = [
        "rows",
        "left-out row",
        "p90",
        "left-out size",
        "p90",
        "held out",
        "p90",
        "fit",
        "left-out class",
        "roofline",
    ];
    let mut grid = Grid::of(&[(Column::Names, &["class", "kernel", "precision"]), (Column::Figures, &names)]);
    for row in rows {
        // The dimension that is predicted worst represents all dimensions.
        let size = row.left_out_size.values().max_by(|left, right| left.median.total_cmp(&right.median));
        grid.row([
            row.class.clone(),
            row.kernel.name().to_owned(),
            row.precision.name().to_owned(),
            row.rows.to_string(),
            middle(row.left_out_row.as_ref()),
            high(row.left_out_row.as_ref()),
            middle(size),
            high(size),
            middle(row.held_out.as_ref()),
            high(row.held_out.as_ref()),
            middle(row.fit.as_ref()),
            middle(row.left_out_class.as_ref()),
            middle(row.roofline.as_ref()),
        ]);
    }
    grid.text(width)
}

fn middle(summary: Option<&Summary>) -> String {
    summary.map_or("-".into(), |summary| format!("{:.1}%", 100.0 * summary.median))
}

fn high(summary: Option<&Summary>) -> String {
    summary.map_or("-".into(), |summary| format!("{:.1}%", 100.0 * summary.p90))
}

fn apply(arguments: &ApplyCostsArguments) -> Result<()> {
    let outputs = files::outputs(&[("--out", arguments.out.as_deref())])?;
    let documents = resolve::documents_of(&arguments.model, &arguments.around, None, true)?;
    if let Some(path) = &arguments.out {
        let text = write_graph(&documents.model.graph);
        match is_standard(path) {
            true => output::data(&text)?,
            false => files::write(path, &text)?,
        }
    }
    if outputs == Outputs::Standard {
        return Ok(());
    }
    let names = Source::ALL.map(Source::name);
    let mut grid = Grid::of(&[(Column::Names, &["class"]), (Column::Figures, &names)]);
    for class in documents.coverage.operators.keys() {
        let counts = documents.coverage.counts(class);
        let cells = Source::ALL.map(|source| counts.get(&source).copied().unwrap_or(0).to_string());
        grid.row(std::iter::once(class.clone()).chain(cells));
    }
    output::result(&format!("operators by source of their seconds\n\n{}", grid.text(output::width())))
}
