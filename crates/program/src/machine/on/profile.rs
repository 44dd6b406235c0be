//! `profile`: measures the operators of a model, and the links, on this machine.

use std::collections::BTreeMap;
use std::path::Path;

use stagewright::core::document::{
    ClassDocument, ClusterDocument, CostsDocument, GraphDocument, KindDocument, LinkCostsDocument,
    LinkDocument, OperatorCostsDocument, OperatorDocument, TransferKind,
};
use stagewright::costs::fitted_link;
use stagewright::formats::{Notation, write_cluster};
use stagewright::report::grid::{Column, Grid};
use stagewright::report::wrap::facts;
use stagewright::runtime::pipeline::Host;
use stagewright::runtime::profile::{Profile, links, profile};
use stagewright::runtime::{RunError, worker};

use super as machine;
use crate::args::ProfileArguments;
use crate::error::Result;
use crate::exit::Exit;
use crate::files::{self, Outputs, is_standard};
use crate::model_options::{Kept, model_options};
use crate::output;

/// FLOP rate and bandwidth used to divide the seconds of a fused kernel among the operators that it replaces.
const SHARES: (f64, f64) = (1e11, 1e10);

/// Maximum number of operators that the table shows.
const SHOWN: usize = 20;

pub(crate) fn run(arguments: &ProfileArguments) -> Result<Exit> {
    let outputs =
        files::outputs(&[("--out", arguments.out.as_deref()), ("--machine", arguments.machine.as_deref())])?;
    let options = model_options(&arguments.import, Kept::default())?;
    // A model that cannot run needs no runtime.
    let mut model = machine::model(&arguments.model, &options)?;
    let host = machine::host(&arguments.host)?;
    let folder = machine::folder()?;
    machine::move_weights(&mut model, &arguments.model, &arguments.host, folder.path())?;
    let shares = shares(&model.imported.graph);
    let share = |name: &str| shares.get(name).copied().unwrap_or(0.0);
    let runs = arguments.runs.max(1);
    let measured = match profile(&host, &model.whole, &share, runs, arguments.host.seed, folder.path()) {
        Ok(measured) => measured,
        Err(RunError::Interrupted) => {
            output::note("note: interrupted before all was measured");
            return Ok(Exit::NoPlan);
        }
        Err(error) => return Err(machine::failed(&model.label, &error)),
    };
    let rows = arguments.machine.as_ref().map(|_| link_rows(&host)).transpose()?.flatten();
    let source = format!("ONNX Runtime on {} cores at once, optimisation {}", host.cores.len(), level(&host));
    let mut costs = CostsDocument::new(model.imported.graph.name.clone());
    costs.operators.push(OperatorCostsDocument {
        class: arguments.class.clone(),
        source: source.clone(),
        seconds: measured.seconds.clone(),
        spread: measured.spreads.clone(),
    });
    if let (Some(path), Some(rows)) = (&arguments.machine, &rows) {
        costs.links.push(LinkCostsDocument {
            class: arguments.class.clone(),
            transfer: TransferKind::Send,
            devices: 2,
            between_servers: false,
            source: "TCP between processes on the loopback interface".into(),
            rows: rows.clone(),
        });
        let cluster = cluster(&host, &arguments.class, fitted_link(rows));
        files::write(path, &write_cluster(&cluster, notation(path)))?;
    }
    if let Some(path) = &arguments.out {
        let text = output::json(&costs)?;
        match is_standard(path) {
            true => output::data(&text)?,
            false => files::write(path, &text)?,
        }
    }
    if outputs == Outputs::Files {
        output::result(&table(&measured, &host))?;
    }
    Ok(Exit::Done)
}

/// Weights for dividing the seconds of a kernel among its operators, not yet normalised.
fn shares(graph: &GraphDocument) -> BTreeMap<&str, f64> {
    let share = |operator: &OperatorDocument| {
        let (flop, bytes) = (operator.flop.unwrap_or(0.0), operator.bytes_moved.unwrap_or(0.0));
        (flop / SHARES.0).max(bytes / SHARES.1)
    };
    graph.operators.iter().map(|operator| (operator.name.as_str(), share(operator))).collect()
}

/// Measures transfers between two cores, as pairs of bytes and seconds; `None` if an interrupt ended the measurement.
fn link_rows(host: &Host) -> Result<Option<Vec<[f64; 2]>>> {
    match links(host) {
        Err(RunError::Interrupted) => {
            output::note("note: interrupted before the links were measured, so no cluster was written");
            Ok(None)
        }
        rows => Ok(Some(rows.map_err(|error| machine::failed("--machine", &error))?)),
    }
}

fn level(host: &Host) -> &'static str {
    use stagewright::runtime::protocol::Optimization;
    match host.optimization {
        Optimization::None => "none",
        Optimization::Basic => "basic",
        Optimization::Extended => "extended",
    }
}

/// This machine as a cluster: one device per core, each with an equal share of the memory.
fn cluster(host: &Host, class: &str, link: Option<LinkDocument>) -> ClusterDocument {
    let mut cluster = ClusterDocument::new("this machine");
    cluster.classes.insert(class.into(), ClassDocument::default());
    let count = host.cores.len().max(1) as u32;
    cluster.kinds.push(KindDocument {
        memory_bytes: worker::memory().map(|bytes| (bytes / u64::from(count)) as f64),
        link,
        ..KindDocument::named(class, count)
    });
    cluster
}

fn table(measured: &Profile, host: &Host) -> String {
    let mut rows: Vec<(&String, f64)> =
        measured.seconds.iter().map(|(name, &seconds)| (name, seconds)).collect();
    rows.sort_by(|left, right| right.1.total_cmp(&left.1).then_with(|| left.0.cmp(right.0)));
    let mut grid = Grid::of(&[(Column::Names, &["operator"]), (Column::Figures, &["ms", "share", "spread"])]);
    for (name, seconds) in rows.iter().take(SHOWN) {
        let spread = measured.spreads.get(*name).copied().unwrap_or(0.0);
        grid.row([
            (*name).clone(),
            format!("{:.3}", 1e3 * seconds),
            format!("{:.1}%", 100.0 * seconds / measured.whole_s),
            format!("{:.1}%", 100.0 * spread),
        ]);
    }
    let hidden = rows.len().saturating_sub(SHOWN);
    let more = if hidden > 0 { format!("and {hidden} more\n") } else { String::new() };
    let width = output::width();
    let summary = facts(
        [
            (
                "whole model",
                format!("{:.3} ms, spread {:.1}%", 1e3 * measured.whole_s, 100.0 * measured.spread),
            ),
            (
                "operators",
                format!(
                    "{}; timed one by one they take {:.1}% of that",
                    rows.len(),
                    100.0 * measured.covered
                ),
            ),
            ("cores", format!("{}, all at once", host.cores.len())),
        ],
        width,
    );
    format!("{}{more}\n{summary}", grid.text(width))
}

/// The notation that a file name implies.
fn notation(path: &Path) -> Notation {
    match path.extension().is_some_and(|extension| extension == "toml") {
        true => Notation::Toml,
        false => Notation::Json,
    }
}
