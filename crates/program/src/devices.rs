//! `devices`: the built-in devices, or some of them with the source of every figure.

use stagewright::clusters::{self, Device, Link, devices};
use stagewright::core::document::KernelFitDocument;
use stagewright::report::devices::peaks;
use stagewright::report::grid::{Column, Grid};
use stagewright::report::units::{bandwidth, bytes, bytes_closely, datasheet, seconds};
use stagewright::report::wrap::{facts, lines};

use super::args::DevicesArguments;
use super::error::{CliError, Result};
use super::exit::Exit;
use super::output;

/// Lines below the list.
const MORE: &str = "Peaks of int8 are in TOP/s. A class of devices in a cluster has the name of its device.\n\
    `stagewright devices NAME` shows every figure with its source; `--cluster 8xa100` plans for eight A100.";

pub(crate) fn run(arguments: &DevicesArguments) -> Result<Exit> {
    let found =
        |name: &String| clusters::device_named(name).map_err(|error| CliError::from(error).at("NAME"));
    let named = arguments.names.iter().map(found).collect::<Result<Vec<_>>>()?;
    let shown = if named.is_empty() { devices().iter().collect() } else { named.clone() };
    if arguments.json {
        output::data(&output::json(&shown)?)?;
    } else if named.is_empty() {
        output::result(&format!("{}\n{}", list(&shown), lines(MORE, output::width())))?;
    } else {
        output::blocks(shown.into_iter().map(facts_of))?;
    }
    Ok(Exit::Done)
}

/// Table of devices.
fn list(devices: &[&Device]) -> String {
    let mut grid = Grid::of(&[
        (Column::Keys, &["name"]),
        (Column::Figures, &["memory", "bandwidth"]),
        (Column::Words, &["dense TFLOP/s", "link"]),
    ]);
    for device in devices {
        let link = device.default_link.as_ref().and_then(|name| Some((name, device.links.get(name)?)));
        grid.row([
            device.name.clone(),
            device.memory_bytes.map(bytes).unwrap_or_default(),
            device.memory_bandwidth.map(bandwidth).unwrap_or_default(),
            peaks(device.peak_flops.iter()),
            link.map_or("host".into(), |(name, link)| format!("{name} {}", bandwidth(link.bandwidth))),
        ]);
    }
    grid.text(output::width())
}

/// The whole record of a device.
fn facts_of(device: &Device) -> String {
    let Device { estimates, .. } = device;
    let mut facts_of_device = vec![
        ("name", device.name.clone()),
        ("title", device.title.clone()),
        ("other names", device.aliases.join(", ")),
        ("role", device.role.name().to_owned()),
        ("dense TFLOP/s", peaks(device.peak_flops.iter())),
        ("precision", format!("{} for operators without one", device.default_precision())),
        ("bandwidth", device.memory_bandwidth.map_or("not published".into(), bandwidth)),
        ("source", device.source.clone()),
        ("memory", device.memory_bytes.map_or("chosen by its owner".into(), bytes_closely)),
        ("source", device.memory_source.clone().unwrap_or_default()),
        ("efficiency", format!("{} of the peak, an estimate", datasheet(estimates.efficiency))),
        (
            "training",
            estimates.training_efficiency.map_or(String::new(), |share| {
                format!("{} of the peak by the products of a training step, an estimate", datasheet(share))
            }),
        ),
        ("launch", format!("{} for an operator, an estimate", seconds(estimates.launch_overhead_s))),
        ("basis", estimates.basis.clone()),
    ];
    for (name, link) in &device.links {
        let is_default = device.default_link.as_ref() == Some(name);
        let mark = if is_default { ", the default" } else { "" };
        facts_of_device.extend(facts_of_link("link", &format!("{name}{mark}: "), link));
    }
    if let Some(server) = &device.server {
        facts_of_device.push(("server", format!("{} devices, joined by the default link", server.devices)));
        facts_of_device.extend(facts_of_link("network", "of each device to other servers: ", &server.link));
    }
    facts_of_device.extend(device.fits.iter().map(|fit| ("fit", fact_of_fit(fit))));
    facts(facts_of_device.into_iter().filter(|(_, text)| !text.is_empty()), output::width())
}

/// A link with the source of its bandwidth and the basis of its latency.
fn facts_of_link<'f>(heading: &'f str, name: &str, link: &Link) -> [(&'f str, String); 3] {
    let pair = if link.pair { ", a bridge between two devices" } else { "" };
    let figures = format!("{}, {} latency{pair}", bandwidth(link.bandwidth), seconds(link.latency_s));
    [
        (heading, format!("{name}{figures}")),
        ("source", link.source.clone()),
        ("basis", format!("latency: {}", link.basis)),
    ]
}

/// A fit to measurements, with all parameters of its formula.
fn fact_of_fit(fit: &KernelFitDocument) -> String {
    let row = (fit.row_s > 0.0).then(|| format!("{} to quantise a row", seconds(fit.row_s)));
    let parameters = [
        format!("{} at {}: {} TFLOP/s", fit.kernel.name(), fit.precision, datasheet(fit.flops / 1e12)),
        bandwidth(fit.bandwidth),
        format!("{} to launch", seconds(fit.launch_s)),
        format!("{} per square root of the inner dimension", seconds(fit.step_s)),
        format!("sharpness {}", datasheet(fit.sharpness)),
        format!("{} of cache", bytes(fit.cache_bytes)),
    ];
    let parameters: Vec<String> = parameters.into_iter().chain(row).collect();
    format!("{}. {}", parameters.join(", "), fit.source.as_deref().unwrap_or_default())
}
