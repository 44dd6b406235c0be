//! Bars of parts that are stacked, such as the purposes that memory serves.

use std::fmt::Write;

use super::markup::escape;
use crate::table::share;

/// Fraction of the largest figure below which a part is treated as rounding error.
pub(super) const ROUNDING: f64 = 1e-9;

/// A part, with its colour and its figure in every bar.
pub(super) struct Part {
    pub(super) name: &'static str,
    pub(super) colour: &'static str,
    pub(super) figures: Vec<f64>,
}

/// Parts in the order in which they are stacked, without those that no bar has.
pub(super) struct Parts(pub(super) Vec<Part>);

impl Parts {
    pub(super) fn new(parts: impl IntoIterator<Item = Part>) -> Parts {
        let mut parts: Vec<Part> = parts.into_iter().collect();
        for figure in parts.iter_mut().flat_map(|part| &mut part.figures) {
            *figure = positive(*figure);
        }
        let largest = parts.iter().flat_map(|part| &part.figures).copied().fold(0.0, f64::max);
        parts.retain(|part| part.figures.iter().any(|&figure| figure > ROUNDING * largest));
        Parts(parts)
    }

    /// The legend of the bars that show `quantity`; empty if there are fewer than two parts.
    pub(super) fn key(&self, quantity: &str) -> String {
        if self.0.len() < 2 {
            return String::new();
        }
        let item =
            |Part { name, colour, .. }: &Part| format!("<li><i class=\"chip {colour}\"></i>{name}</li>");
        let items: String = self.0.iter().map(item).collect();
        format!("<ul class=\"key\" aria-hidden=\"true\"><li>{quantity}:</li>{items}</ul>\n")
    }

    /// Rectangles of a bar that is `whole` long, each with its name and figure.
    pub(super) fn bar(&self, index: usize, whole: f64, words: fn(f64) -> String) -> String {
        let mut text = String::new();
        let mut before = 0.0;
        for Part { name, colour, figures } in &self.0 {
            let end = before + figures[index];
            let [from, to] = [before, end].map(|sum| 1000.0 * share(sum, whole));
            before = end;
            if to > from {
                // Writing to a string cannot fail.
                let _ = write!(
                    text,
                    "<rect class=\"{colour}\" x=\"{from:.1}\" width=\"{:.1}\" height=\"10\"><title>{name} {}</title></rect>",
                    to - from,
                    escape(&words(figures[index]))
                );
            }
        }
        text
    }

    /// The figures of a bar in words.
    pub(super) fn words(&self, index: usize, words: fn(f64) -> String) -> String {
        let parts = self.0.iter().map(|part| format!("{} {}", part.name, words(part.figures[index])));
        escape(&parts.collect::<Vec<_>>().join(", "))
    }
}

/// A figure that can be drawn: negative and non-finite figures come from invalid documents.
pub(super) fn positive(figure: f64) -> f64 {
    if figure.is_finite() { figure.max(0.0) } else { 0.0 }
}

/// The usable part of a memory bar.
pub(super) fn room(limit: f64) -> String {
    format!("<rect class=\"room\" width=\"{:.1}\" height=\"10\"/>", 1000.0 * limit)
}

/// A mark at the limit of memory, within the bar.
pub(super) fn mark(limit: f64) -> String {
    const WIDE: f64 = 6.0;
    let x = (1000.0 * limit).clamp(WIDE, 1000.0) - WIDE;
    format!("<rect class=\"limit\" x=\"{x:.1}\" width=\"{WIDE:.1}\" height=\"10\"/>")
}
