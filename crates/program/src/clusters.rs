//! `clusters`: the built-in clusters, or some of them in detail.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde::Serialize;
use stagewright::clusters::{self, Comments, comments};
use stagewright::core::document::{ClassDocument, ClusterDocument, KindDocument};
use stagewright::report::devices::{link as figures, peaks_of};
use stagewright::report::grid::{Column, Grid};
use stagewright::report::units::{bandwidth, bytes_closely, datasheet, seconds};
use stagewright::report::wrap::{facts, lines};

use super::args::ClustersArguments;
use super::error::Result;
use super::exit::Exit;
use super::files::{at_most_one_standard, is_standard};
use super::{output, resolve};

/// Lines below the list.
const MORE: &str = "A shorthand is a cluster as well: COUNTxDEVICE[:PRECISION][:MEMORY][@LINK], joined by +, such as \
    8xv100:fp32@nvlink+1xepyc-7742.\n\
    `stagewright devices` lists the devices; `stagewright convert NAME cluster.toml` writes a cluster that can be \
    edited.";

/// A cluster, in JSON as well.
#[derive(Serialize)]
struct Built {
    /// Name, shorthand or path.
    name: String,
    /// Comments of the file of a built-in cluster.
    #[serde(flatten)]
    comments: Option<Comments>,
    /// The document that `--cluster` reads for the name.
    cluster: ClusterDocument,
}

pub(crate) fn run(arguments: &ClustersArguments) -> Result<Exit> {
    let is_list = arguments.names.is_empty();
    let given: Vec<Option<&Path>> = arguments.names.iter().map(|path| Some(path.as_path())).collect();
    at_most_one_standard(&given)?;
    let names =
        if is_list { clusters::names().map(PathBuf::from).collect() } else { arguments.names.clone() };
    let built = names.iter().map(|name| built(name)).collect::<Result<Vec<_>>>()?;
    if arguments.json {
        output::data(&output::json(&built)?)?;
    } else if is_list {
        output::result(&format!("{}\n{}", list(&built), lines(MORE, output::width())))?;
    } else {
        output::blocks(built.iter().map(facts_of))?;
    }
    Ok(Exit::Done)
}

/// Reads a cluster by name or shorthand, or from a file.
fn built(path: &Path) -> Result<Built> {
    let (_, cluster) = resolve::cluster_at(path, "NAME")?;
    // A file may contain the name of a built-in cluster; a folder of that name is not read.
    let comments =
        comments(&cluster.name).filter(|_| !is_standard(path) && (path.is_dir() || !path.exists()));
    let name = if comments.is_some() { cluster.name.clone() } else { path.display().to_string() };
    Ok(Built { name, comments, cluster })
}

/// Table of clusters.
fn list(built: &[Built]) -> String {
    let columns = ["devices, links", "hardware"];
    let mut grid = Grid::of(&[(Column::Keys, &["name"]), (Column::Words, &columns)]);
    for Built { name, comments, cluster } in built {
        let about = comments.as_ref().map(|comments| comments.about.clone()).unwrap_or_default();
        grid.row([name.clone(), devices_and_links(cluster), about]);
    }
    grid.text(output::width())
}

/// Counts and classes of the devices with their links, as `4 k80 (15.75 GB/s), uplinks 15.75 GB/s`.
fn devices_and_links(cluster: &ClusterDocument) -> String {
    let link = |kind: &KindDocument| {
        kind.link.map(|link| format!(" ({})", bandwidth(link.bandwidth))).unwrap_or_default()
    };
    let kinds = cluster.kinds.iter().map(|kind| format!("{} {}{}", kind.count, kind.class, link(kind)));
    let uplinks: BTreeSet<String> =
        cluster.groups.iter().map(|group| format!("uplinks {}", bandwidth(group.uplink.bandwidth))).collect();
    let kinds = kinds.collect::<Vec<_>>().join(" + ");
    [kinds].into_iter().chain(uplinks).collect::<Vec<_>>().join(", ")
}

/// A cluster in detail.
fn facts_of(built: &Built) -> String {
    let Built { name, comments, cluster } = built;
    let mut found = vec![("name".to_owned(), name.clone())];
    if let Some(Comments { about, remarks, .. }) = comments {
        found.push(("hardware".into(), about.clone()));
        found.extend(remarks.iter().map(|remark| ("remark".to_owned(), remark.clone())));
    }
    found.extend(cluster.kinds.iter().map(|kind| (format!("kind {}", kind.name), facts_of_kind(kind))));
    for group in &cluster.groups {
        found.push((format!("group {}", group.name), format!("uplink {}", figures(group.uplink))));
    }
    if cluster.matrix.is_some() {
        found.push(("matrix".into(), "delay and bandwidth of every two devices".into()));
    }
    for (name, class) in &cluster.classes {
        found.push((format!("class {name}"), facts_of_class(class)));
        found.extend(class.source.iter().map(|source| ("source".to_owned(), source.clone())));
    }
    let sources = comments.iter().flat_map(|comments| &comments.sources);
    found.extend(sources.map(|remark| (remark.subject.clone(), remark.text.clone())));
    found.push(("to edit it".into(), format!("stagewright convert {name} cluster.toml")));
    facts(found.iter().map(|(heading, text)| (heading.as_str(), text.clone())), output::width())
}

fn facts_of_kind(kind: &KindDocument) -> String {
    let mut parts = vec![format!("{} of class {}", kind.count, kind.class)];
    parts.extend(kind.memory_bytes.map(|size| format!("{} of memory each", bytes_closely(size))));
    parts.extend(kind.reserve_bytes.map(|size| format!("{} reserved for the runtime", bytes_closely(size))));
    parts.extend(kind.host.then(|| "host, whose communication is free".to_owned()));
    parts.extend(kind.link.map(|link| format!("link {}", figures(link))));
    parts.extend(kind.group.as_ref().map(|group| format!("in group {group}")));
    parts.extend(kind.server.map(|server| {
        format!("in servers of {}, for joint plans, with a link of {}", server.devices, figures(server.link))
    }));
    parts.extend(kind.ram.map(|ram| {
        let size = ram.memory_bytes.map_or_else(|| "unlimited memory".into(), bytes_closely);
        format!(
            "{size} of its host, for joint plans, at {}, {} away",
            bandwidth(ram.bandwidth),
            bandwidth(ram.link_bandwidth)
        )
    }));
    parts.join("; ")
}

fn facts_of_class(class: &ClassDocument) -> String {
    let mut parts = Vec::new();
    parts.extend(peaks_of(class).map(|peaks| format!("{peaks} TFLOP/s")));
    parts.extend(class.efficiency.map(|share| format!("{} of the peak reached", datasheet(share))));
    parts.extend(class.memory_bandwidth.map(bandwidth));
    parts.push(format!("{} to launch an operator", seconds(class.launch_overhead_s)));
    parts.join("; ")
}
