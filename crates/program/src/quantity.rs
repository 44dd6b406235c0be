//! Parsing of times, sizes and fractions.

use std::time::Duration;

use stagewright::core::document::bytes;

/// Parses a time such as `60s`, `500ms`, `2m`, `1h`; `none` means unlimited, and a number without a unit is in seconds.
pub(crate) fn time(text: &str) -> Result<Option<Duration>, String> {
    const UNITS: &[(&str, f64)] =
        &[("ms", 1e-3), ("s", 1.0), ("min", 60.0), ("m", 60.0), ("h", 3600.0), ("", 1.0)];
    if text == "none" {
        return Ok(None);
    }
    let seconds = scaled(text, UNITS)
        .ok_or_else(|| format!("`{text}` is not a duration (try 60s, 500ms, 2m, 1h or none)"))?;
    // Values too large for a `Duration` mean unlimited.
    Ok(Duration::try_from_secs_f64(seconds).ok())
}

/// Parses a size such as `8GiB`, `512MiB`, `1GB`, `1000B`; `none` means unlimited, and 0 needs no unit.
pub(crate) fn size(text: &str) -> Result<Option<u64>, String> {
    if text == "none" {
        return Ok(None);
    }
    let bytes = bytes(text).or_else(|| nothing(text)).ok_or_else(|| unclear(text))?;
    Ok(Some(bytes as u64))
}

/// Parses a fraction from 0 to 1, such as `1%` or `0.01`.
pub(crate) fn share(text: &str) -> Result<f64, String> {
    scaled(text, &[("%", 0.01), ("", 1.0)])
        .filter(|share| *share <= 1.0)
        .ok_or_else(|| format!("`{text}` is not a share from 0 to 1 (try 1% or 0.01)"))
}

/// Parses zero, which needs no unit.
fn nothing(text: &str) -> Option<f64> {
    scaled(text, &[("", 1.0)]).filter(|number| *number == 0.0)
}

/// The error for a text that is not a size, or for a number without a unit, which might not mean bytes.
fn unclear(text: &str) -> String {
    let examples = "8GiB, 512MiB, 1GB, 1000B or none";
    match scaled(text, &[("", 1.0)]) {
        Some(_) => format!("`{text}` has no unit (try {examples})"),
        None => format!("`{text}` is not a size (try {examples})"),
    }
}

/// Parses a finite, non-negative number with a unit, and scales it.
fn scaled(text: &str, units: &[(&str, f64)]) -> Option<f64> {
    let text = text.trim();
    units.iter().find_map(|(unit, scale)| {
        let number: f64 = text.strip_suffix(unit)?.trim_end().parse().ok()?;
        (number.is_finite() && number >= 0.0).then_some(number * scale)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_understood() {
        assert_eq!(time("1.5m"), Ok(Some(Duration::from_secs(90))));
        assert_eq!(time("250ms"), Ok(Some(Duration::from_millis(250))));
        assert_eq!(time("none"), Ok(None));
        assert_eq!(size("8GiB"), Ok(Some(8 << 30)));
        assert_eq!(size("1 GB"), Ok(Some(1_000_000_000)));
        assert_eq!(share("1%"), Ok(0.01));
    }

    #[test]
    fn nonsense_is_refused() {
        for text in ["", "-1s", "inf", "NaN", "1 fortnight", "1e999"] {
            assert!(time(text).is_err(), "{text}");
        }
        assert!(share("101%").is_err());
        assert!(size("GiB").is_err());
    }

    #[test]
    fn a_size_without_a_unit_is_refused_unless_it_is_zero() {
        for text in ["16", " 1e3 ", "0.5"] {
            assert!(size(text).is_err_and(|error| error.contains("has no unit (try ")), "{text}");
        }
        assert_eq!((time("60"), size("0")), (Ok(Some(Duration::from_secs(60))), Ok(Some(0))));
        assert_eq!(size("1000B"), Ok(Some(1000)));
    }
}
