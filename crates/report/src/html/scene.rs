//! The data of a page, which its scripts draw.

use std::io;

use serde::Serialize;
use stagewright_core::ids::Keyed;

use super::devices::colour;
use super::figures::Figures;
use super::graph::GraphData;
use super::names::visible;
use super::tables::Tables;
use super::timeline::TimelineData;
use super::{Page, steady, step};
use crate::steady::Steady;

/// All data, with the tables that the parts refer to.
#[derive(Serialize)]
struct Scene {
    devices: Vec<Device>,
    graph: Option<GraphData>,
    timeline: Option<TimelineData>,
    steady: Option<TimelineData>,
    texts: Vec<String>,
    seconds: Figures,
    bytes: Figures,
}

/// A device in the data.
#[derive(Serialize)]
pub(super) struct Device {
    pub(super) name: String,
    /// CSS classes for the colour of the device; `None` if each pass has a colour.
    pub(super) colour: Option<String>,
}

/// Returns the data as JSON, `null` without a plan.
pub(super) fn data(page: &Page, steady: Option<&Steady>) -> io::Result<String> {
    let Some(placement) = page.placement else { return Ok("null".into()) };
    let graph = page.problem.graph();
    let used = placement.used();
    let mut tables = Tables { place_of: Keyed::filled(0, graph.operator_count()), ..Tables::default() };
    tables.number_of = used.iter().copied().zip(0..).collect();
    for (place, &op) in (0..).zip(graph.topological()) {
        tables.place_of[op] = place;
    }
    let name = |&device| visible(&page.problem.cluster().device_name(device));
    let devices = used.iter().enumerate();
    let devices =
        devices.map(|(index, device)| Device { name: name(device), colour: Some(colour(index)) }).collect();
    let graph = GraphData::new(page.problem, placement, &mut tables);
    let timeline = page.step.and_then(|step| step::data(step, &mut tables));
    let steady = steady.filter(|_| page.step.is_some()).and_then(|steady| steady::data(steady, &mut tables));
    let Tables { texts, seconds, bytes, .. } = tables;
    let (graph, texts) = (Some(graph), texts.into_texts().into_vec());
    let scene = Scene { devices, graph, timeline, steady, texts, seconds, bytes };
    Ok(serde_json::to_string(&scene)?)
}
