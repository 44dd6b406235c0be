//! Figures of a language model: parameters, weights, cache and work, for display.

use stagewright_core::document::ModelOptionsDocument;
use stagewright_core::units::{bytes, flop};
use stagewright_report::grid::{Column, Grid};
use stagewright_report::wrap::facts;
use stagewright_structure::{Encoding, Figures, Structure};

use crate::code::U001;
use crate::failure::{Failure, Result};

/// Tokens of a sequence for the figures at a context, if neither an option nor the model gives them.
const CONTEXT: u64 = 4096;

/// Figures of a structure for the tokens and the encoding of its cache that options give, or else those of the model.
///
/// # Errors
/// If there is no such encoding (U001). `place` names an option.
pub fn figures(
    structure: &Structure,
    options: &ModelOptionsDocument,
    place: impl Fn(&str) -> String,
) -> Result<Figures> {
    let cache = match &options.cache {
        Some(name) => encoding(name, place)?,
        None => structure.cache.unwrap_or(Encoding::BF16),
    };
    let context = options.context.or(structure.context).unwrap_or(CONTEXT);
    Ok(Figures::new(structure, context, cache))
}

/// The encoding of cached keys and values by its name.
///
/// # Errors
/// If there is no such encoding (U001).
pub fn encoding(name: &str, place: impl Fn(&str) -> String) -> Result<Encoding> {
    Encoding::named(name).ok_or_else(|| {
        Failure::new(U001, format!("`{name}` is no encoding"))
            .at(place("cache"))
            .help("write bf16, fp8, q8_0 or another encoding of weights")
    })
}

/// The figures and a table of weights by encoding, as text for a terminal of `width` characters.
pub fn text(figures: &Figures, width: Option<u16>) -> String {
    let weights = bytes(figures.weight_bytes);
    format!("{}\n{}", facts(lines(figures, weights), width), table(figures, width))
}

/// A number of weights, as in `8.03 B`.
fn count(weights: f64) -> String {
    let units = [(1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "k")];
    match units.iter().find(|(unit, _)| weights >= *unit) {
        Some((unit, name)) => format!("{:.2} {name}", weights / unit),
        None => format!("{weights}"),
    }
}

/// Lines of figures, each with its name, and of bytes of weights by encoding.
pub fn summary(figures: &Figures) -> Vec<(&'static str, String)> {
    let rows = figures.weights.iter().map(|row| format!("{} in {}", bytes(row.bytes), row.encoding));
    lines(figures, rows.collect::<Vec<_>>().join(", "))
}

fn lines(figures: &Figures, weights: String) -> Vec<(&'static str, String)> {
    let name = match figures.name == figures.architecture {
        true => figures.name.clone(),
        false => format!("{} ({})", figures.name, figures.architecture),
    };
    let mut shown = vec![
        ("model", name),
        ("layers", figures.layers.to_string()),
        ("parameters", format!("{} ({:.0})", count(figures.parameters), figures.parameters)),
    ];
    if figures.active_parameters < figures.parameters {
        shown.push(("active", format!("{} for a token", count(figures.active_parameters))));
    }
    if figures.prediction_parameters > 0.0 {
        let prediction = count(figures.prediction_parameters);
        shown.push(("prediction", format!("{prediction} more in layers of multi-token prediction")));
    }
    if figures.tower_parameters > 0.0 {
        shown.push(("towers", format!("{} of the parameters, in encoders", count(figures.tower_parameters))));
    }
    shown.push(("weights", weights));
    shown.extend(kept(figures));
    let (first, last) = (flop(figures.flop_per_token), flop(figures.flop_per_token_at_context));
    shown.push(("work", format!("{first} a token, {last} after {} tokens", figures.at_context)));
    shown
}

/// Lines about what a sequence keeps between steps; none for an encoder.
fn kept(figures: &Figures) -> Vec<(&'static str, String)> {
    let mut lines = Vec::new();
    if figures.cache_bytes_per_token > 0.0 {
        let (token, encoding) = (bytes(figures.cache_bytes_per_token), &figures.cache_encoding);
        lines.push(("cache", format!("{token} a token in {encoding}")));
    }
    if figures.cross_cache_bytes_per_token > 0.0 {
        let cross = bytes(figures.cross_cache_bytes_per_token);
        lines.push(("", format!("{cross} besides for a token of the encoder")));
    }
    if figures.state_bytes > 0.0 {
        lines.push(("state", format!("{} a sequence", bytes(figures.state_bytes))));
    }
    if figures.cache_bytes > 0.0 {
        let (kept, context) = (bytes(figures.cache_bytes), figures.at_context);
        lines.push(("", format!("{kept} for a sequence of {context} tokens")));
    }
    lines
}

/// Table of weights by encoding.
fn table(figures: &Figures, width: Option<u16>) -> String {
    let mut grid =
        Grid::of(&[(Column::Keys, &["encoding"]), (Column::Figures, &["weights", "bytes", "bits a weight"])]);
    for row in &figures.weights {
        let bits = 8.0 * row.bytes / row.parameters.max(1.0);
        grid.row([row.encoding.clone(), count(row.parameters), bytes(row.bytes), format!("{bits:.3}")]);
    }
    grid.text(width)
}
