//! Bounds of a combination from the work of all layers, without a look at stages.

use super::layers::Layers;
use super::place::{Place, Transfers};
use super::schedule::Position;

/// What all layers take on kinds of devices, each on the one where it takes the least.
#[derive(Debug)]
pub(super) struct Screen {
    /// Seconds of the two passes of a microbatch through all layers.
    passes: f64,
    /// Bytes that all layers need, with one microbatch in flight.
    bytes: f64,
    /// Figures of every class, in the units of its kind: the two passes, weight gradients, update. Over all kinds.
    weighted: Vec<Vec<[f64; 3]>>,
    /// Numbers of layers.
    counts: Vec<f64>,
    /// A kind's share of all work in a second, and its most stages.
    kinds: Vec<(f64, usize)>,
    /// Seconds of weight gradients over those of the two passes, at least.
    ratio: f64,
}

impl Screen {
    /// `None` if some layer cannot run on any of the kinds.
    pub(super) fn new(layers: &Layers, places: &[&Place]) -> Option<Self> {
        let counts: Vec<f64> = layers.classes.iter().map(|class| class.count as f64).collect();
        let (mut kinds, mut ratio) = (Vec::new(), f64::INFINITY);
        for place in places {
            let (mut passes, mut weights) = (0.0, 0.0);
            for (priced, count) in place.classes.iter().zip(&counts) {
                passes += count * priced.as_ref().map_or(0.0, |priced| priced.passes());
                weights += count * priced.as_ref().map_or(0.0, |priced| priced.weight());
            }
            let all: f64 = passes + weights;
            kinds.push((if all > 0.0 { 1.0 / all } else { 0.0 }, place.room));
            ratio = ratio.min(if passes > 0.0 { weights / passes } else { 0.0 });
        }
        let mut screen = Screen { passes: 0.0, bytes: 0.0, weighted: Vec::new(), counts, kinds, ratio };
        for class in 0..layers.classes.len() {
            let here = || places.iter().zip(&screen.kinds).filter_map(|(place, kind)| {
                Some((place.classes[class].as_ref()?, kind.0))
            });
            let least = |figure: &dyn Fn((&super::place::Priced, f64)) -> f64| {
                here().map(figure).fold(f64::INFINITY, f64::min)
            };
            let passes = least(&|(priced, _)| priced.passes());
            if passes.is_infinite() {
                return None;
            }
            let bytes = least(&|(priced, _)| priced.state + priced.least_kept());
            let weighted = here().map(|(priced, share)| {
                [priced.passes(), priced.weight(), priced.update].map(|seconds| seconds * share)
            });
            screen.weighted.push(weighted.collect());
            screen.passes += screen.counts[class] * passes;
            screen.bytes += screen.counts[class] * bytes;
        }
        Some(screen)
    }
}
