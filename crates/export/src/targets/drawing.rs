//! Drawings of plans, independent of the notation: operators by layer, coloured by device.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use crate::paths::path;
use crate::placed::{Device, Placed};
use crate::runtime::{Passes, Runtime, Schedules, Sharing, Trained};
use stagewright_formats::layers::layers_of;
use stagewright_report::table::replicated;

/// Parts of a plan that a drawing does not show.
pub(super) const RUNTIME: Runtime = Runtime {
    name: "the drawing",
    passes: Passes::Drawn,
    overlaps: true,
    sharing: Sharing { trained: Trained::Noted(NOT_DRAWN), weight: NOT_DRAWN, constant: NOT_DRAWN },
    schedules: Schedules::Own(NOT_DRAWN),
};

const NOT_DRAWN: &str = "this is not drawn";

/// A drawing.
pub(super) struct Drawing {
    /// Operators by layer, in order of first appearance. A layer that is a single operator of the same name has an
    /// empty name.
    pub(super) layers: Vec<(String, Vec<usize>)>,
    /// Producers and readers, each pair once; empty without the model.
    pub(super) edges: Vec<(usize, usize)>,
    /// The colour of each device, as `#rrggbb`.
    pub(super) colours: Vec<String>,
    /// The label of each device: its name, replicas and stage.
    pub(super) devices: Vec<String>,
}

impl Drawing {
    pub(super) fn new(placed: &Placed) -> Drawing {
        let paths: Vec<Cow<str>> = placed.operators.iter().map(path).collect();
        let mut layers: Vec<(String, Vec<usize>)> = Vec::new();
        let mut index: BTreeMap<&str, usize> = BTreeMap::new();
        for (operator, found) in layers_of(&paths).iter().enumerate() {
            let place = *index.entry(found.path).or_insert_with(|| {
                layers.push((found.path.to_owned(), Vec::new()));
                layers.len() - 1
            });
            layers[place].1.push(operator);
        }
        for (layer, operators) in &mut layers {
            if matches!(operators[..], [only] if placed.operators[only].name == *layer) {
                layer.clear();
            }
        }
        let edges: BTreeSet<(usize, usize)> = placed
            .graph
            .into_iter()
            .flat_map(|graph| graph.operators().map(move |op| (graph, op)))
            .flat_map(|(graph, op)| graph.successors(op).iter().map(move |to| (op.index(), to.index())))
            .collect();
        let device = |device: &Device| {
            let document = device.document;
            let name = replicated(&document.name, document.replicas);
            match document.stage {
                Some(stage) => format!("{name}, stage {stage}"),
                None => name,
            }
        };
        Drawing {
            layers,
            edges: edges.into_iter().collect(),
            colours: (0..placed.devices.len()).map(colour).collect(),
            devices: placed.devices.iter().map(device).collect(),
        }
    }
}

/// A light colour for black text. Hues advance by the golden angle, so any number of them are distinct.
fn colour(device: usize) -> String {
    const GOLDEN: f64 = 137.507_764_050_037_85;
    let hue = (210.0 + device as f64 * GOLDEN) % 360.0;
    // Hue, saturation and lightness to red, green and blue: the formula of CSS Color 4, section 7.1.
    let (saturation, lightness) = (0.65, 0.78);
    let channel = |n: f64| {
        let k = (n + hue / 30.0) % 12.0;
        let a = saturation * f64::min(lightness, 1.0 - lightness);
        let value = lightness - a * f64::min(k - 3.0, 9.0 - k).clamp(-1.0, 1.0);
        (value * 255.0).round() as u8
    };
    format!("#{:02x}{:02x}{:02x}", channel(0.0), channel(8.0), channel(4.0))
}
