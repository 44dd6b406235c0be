//! Lines of logs, and the figures in them.

use std::borrow::Cow;

/// Plausible maximum of the seconds of an iteration.
const LONGEST: f64 = 1e9;

/// The lines of a text. Progress bars end lines with a carriage return.
pub(super) fn lines(text: &str) -> impl Iterator<Item = Cow<'_, str>> {
    text.split(['\n', '\r']).map(plain)
}

/// A line without escape sequences, which terminals show as colours.
fn plain(line: &str) -> Cow<'_, str> {
    if !line.contains('\u{1b}') {
        return Cow::Borrowed(line);
    }
    let mut pieces = line.split('\u{1b}');
    let mut text = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let rest = piece.strip_prefix('[').unwrap_or(piece);
        text.push_str(
            rest.trim_start_matches(|c: char| c.is_ascii_digit() || c == ';').get(1..).unwrap_or_default(),
        );
    }
    Cow::Owned(text)
}

/// The number after a label such as `tps:`, with or without separators of thousands.
pub(super) fn number_after(line: &str, label: &str) -> Option<f64> {
    let (_, rest) = line.split_once(label)?;
    number(rest)
}

/// The number at the start of a text.
pub(super) fn number(text: &str) -> Option<f64> {
    let text = text.trim_start();
    let end = text.find(|c: char| !(c.is_ascii_digit() || matches!(c, '.' | ',' | 'e' | 'E' | '+' | '-')));
    let digits = text[..end.unwrap_or(text.len())].trim_end_matches([',', '.', '-']);
    // No figure is longer.
    let number: f64 = (digits.len() < 64).then(|| digits.replace(',', "").parse().ok())??;
    (number.is_finite() && number >= 0.0).then_some(number)
}

/// Milliseconds in seconds, if they are plausible.
pub(super) fn from_ms(milliseconds: f64) -> Option<f64> {
    Some(milliseconds / 1e3).filter(|&seconds| seconds <= LONGEST)
}

/// A figure that an iteration has: above 0, and no longer than an iteration can be.
pub(super) fn positive(figure: f64) -> Option<f64> {
    Some(figure).filter(|figure| (1e-9..=1e15).contains(figure))
}

/// Raises a maximum to a figure, if it is larger.
pub(super) fn raise(maximum: &mut Option<f64>, figure: Option<f64>) {
    if let Some(figure) = figure.and_then(positive) {
        *maximum = Some(maximum.map_or(figure, |known| known.max(figure)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_end_where_the_text_goes_on() {
        for (text, value) in [
            ("tps: 7,012  tflops", Some(7012.0)),
            ("tps: 1.5e3,", Some(1500.0)),
            ("tps: 291.2/300.4", Some(291.2)),
            ("tps: nan", None),
            ("tps: -3", None),
            ("tps:", None),
            ("tps: 1e999", None),
            ("wps: 3", None),
        ] {
            assert_eq!(number_after(text, "tps:"), value, "{text}");
        }
        assert_eq!(number(&"9".repeat(100_000)), None);
    }

    #[test]
    fn colours_are_left_out() {
        let plain: Vec<_> = lines("\u{1b}[31mstep:  1 \u{1b}[1;32mloss: 2\u{1b}[0m\rnext\n\u{1b}").collect();
        assert_eq!(plain, ["step:  1 loss: 2", "next", ""]);
    }
}
