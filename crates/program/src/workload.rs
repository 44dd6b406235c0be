//! `workload`: generates the graph of a well-known model.

use std::path::Path;

use stagewright::core::document::GraphDocument;
use stagewright::core::problem::Problem;
use stagewright::formats::{write_graph, write_packed};
use stagewright::report::table::{WorkloadRow, workloads};
use stagewright::report::units::flop;
use stagewright::text::quoted;
use stagewright::train::recipe::RecipeError;
use stagewright::train::{Instance, Recipe, instance};
use stagewright::workloads::{FAMILIES, Family, Figures, Optimizer, Options, Size, Sizes, family};

use super::args::WorkloadArguments;
use super::convert::is_packed;
use super::error::{CliError, Result};
use super::exit::Exit;
use super::files;
use super::{output, resolve};

/// Maximum number of random problems from a recipe, which are written one per file.
const MAX_PROBLEMS: u64 = 1_000_000;

pub(crate) fn run(arguments: &WorkloadArguments) -> Result<Exit> {
    if let (Some(recipe), Some(count), Some(out)) = (&arguments.recipe, arguments.count, &arguments.out) {
        return instances(recipe, count, out);
    }
    let chosen = arguments.family.as_deref().map(known).transpose()?;
    match chosen {
        Some(family) if !arguments.list => generate(family, arguments),
        Some(family) => list(&[family], arguments),
        None => list(FAMILIES, arguments),
    }
}

/// The family of a name. For the path of a model, the error says what draws its graph.
fn known(name: &str) -> Result<&'static dyn Family> {
    family(name).map_err(|error| match Path::new(name).exists() {
        false => error.into(),
        true => CliError::from(error).help(format!(
            "`stagewright convert {} model.json --to native` draws the graph of a language model from its layers",
            quoted(name)
        )),
    })
}

/// Writes the first `count` problems of a recipe, each as a graph that contains its cluster.
fn instances(path: &Path, count: u64, out: &Path) -> Result<Exit> {
    resolve::count("--count", count, 1..=MAX_PROBLEMS)?;
    let recipe = recipe(path)?;
    let file_of = |index| out.join(format!("{}.json", instance::name(&recipe, index)));
    if (0..count).any(|index| files::is_same(path, &file_of(index))) {
        return Err(files::would_overwrite("--out", path, "give another folder"));
    }
    files::make_folder(out)?;
    for index in 0..count {
        let Instance { problem, .. } = instance(&recipe, index);
        files::write(&file_of(index), &write_graph(&with_own_cluster(&problem)))?;
    }
    output::note(&format!("{count} problems in {}", out.display()));
    Ok(Exit::Done)
}

/// Reads a training recipe.
pub(super) fn recipe(path: &Path) -> Result<Recipe> {
    let input = files::read(path)?;
    let wrong = |error: RecipeError| {
        CliError::new(error.code(), error.to_string())
            .at(format!("{}:{}", input.label, error.place()))
            .help(error.help())
    };
    Recipe::from_toml(&String::from_utf8_lossy(&input.bytes)).map_err(wrong)
}

/// The graph of a problem, which contains the cluster.
pub(super) fn with_own_cluster(problem: &Problem) -> GraphDocument {
    let cluster = Some(problem.cluster().document().clone());
    GraphDocument { cluster, ..problem.graph().document().clone() }
}

/// Generates the graph of a family.
pub(super) fn graph(family: &dyn Family, arguments: &WorkloadArguments) -> Result<GraphDocument> {
    Ok(family.generate(arguments.variant.as_deref(), &options(arguments))?)
}

fn generate(family: &dyn Family, arguments: &WorkloadArguments) -> Result<Exit> {
    let graph = graph(family, arguments)?;
    let figures = Figures::new(&graph, arguments.precision);
    match &arguments.out {
        Some(path) if is_packed(path) => {
            files::write_with(path, |file| file.write_all(&write_packed(&graph)))?;
        }
        Some(path) => files::write(path, &write_graph(&graph))?,
        None => output::data(&write_graph(&graph))?,
    }
    output::note(&format!(
        "{}: {} operators, {} tensors, {} parameters, {}",
        graph.name,
        figures.operators,
        figures.tensors,
        figures.parameters,
        flop(figures.flop)
    ));
    Ok(Exit::Done)
}

/// Lists every variant, or the requested one, under the given options. The default batch is one sample.
fn list(families: &[&dyn Family], arguments: &WorkloadArguments) -> Result<Exit> {
    let mut options = options(arguments);
    if arguments.batch.is_none() {
        options.sizes = options.sizes.with(Size::Batch, 1);
    }
    let mut rows = Vec::new();
    for family in families {
        let names = match &arguments.variant {
            Some(name) => vec![name.as_str()],
            None => family.variants(),
        };
        for (at, variant) in names.into_iter().enumerate() {
            let graph = family.generate(Some(variant), &options)?;
            let figures = Figures::new(&graph, options.precision);
            rows.push(WorkloadRow {
                family: family.name().into(),
                variant: variant.into(),
                operators: figures.operators,
                parameters: figures.parameters,
                flop: figures.flop,
                summary: if at == 0 { family.summary().into() } else { String::new() },
            });
        }
    }
    output::result(&workloads(&rows).text(output::width()))?;
    Ok(Exit::Done)
}

fn options(arguments: &WorkloadArguments) -> Options {
    let given = [
        (Size::Batch, arguments.batch),
        (Size::Sequence, arguments.sequence),
        (Size::Image, arguments.image),
        (Size::Hidden, arguments.hidden),
        (Size::Layers, arguments.layers),
        (Size::Vocabulary, arguments.vocabulary),
    ];
    let mut sizes = Sizes::default();
    for (size, value) in given {
        if let Some(value) = value {
            sizes = sizes.with(size, value);
        }
    }
    Options {
        sizes,
        training: arguments.training.then_some(arguments.optimizer.unwrap_or(Optimizer::Adam)),
        precision: arguments.precision,
        granularity: arguments.granularity,
    }
}
