//! Quantities for display: three to five significant digits and a unit.

use crate::text::visible;

/// Units of time.
const TIMES: [(f64, &str); 4] = [(1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns")];

/// Seconds as `12.35 ms`.
///
/// ```
/// use stagewright_core::units::seconds;
/// assert_eq!(seconds(0.0329107), "32.911 ms");
/// assert_eq!(seconds(0.0), "0 s");
/// assert_eq!(seconds(125.5), "125.50 s");
/// ```
pub fn seconds(value: f64) -> String {
    scaled(value, &TIMES, 0)
}

/// A mean in seconds and half of its interval, in the unit of the mean: `12.350 ± 0.021 ms`.
///
/// ```
/// use stagewright_core::units::interval;
/// assert_eq!(interval(0.01235, 2.1e-5), "12.350 ± 0.021 ms");
/// assert_eq!(interval(0.01235, 0.0), "12.350 ± 0 ms");
/// assert_eq!(interval(1.0, 2e-6), "1.0000 ± 2.0e-6 s");
/// assert_eq!(interval(0.0, 0.0), "0 s");
/// ```
pub fn interval(mean: f64, half: f64) -> String {
    if mean == 0.0 || !mean.is_finite() {
        return seconds(mean);
    }
    let (scale, unit) = unit_of(mean, &TIMES);
    let (mean, half) = (mean / scale, half / scale);
    let digits = digits_of(mean);
    let shown = match half {
        0.0 => "0".into(),
        // Never rounded to zero.
        half if half < 0.5 * 0.1_f64.powi(digits as i32) => format!("{half:.1e}"),
        half => format!("{half:.digits$}"),
    };
    format!("{mean:.digits$} ± {shown} {unit}")
}

/// Two times, with as many digits as it takes to distinguish them.
///
/// ```
/// use stagewright_core::units::seconds_apart;
/// assert_eq!(seconds_apart(1234.5, 1.0), ["1234.50 s", "1.0000 s"]);
/// assert_eq!(seconds_apart(1.0, 1.00000001), ["1.00000000 s", "1.00000001 s"]);
/// ```
pub fn seconds_apart(first: f64, second: f64) -> [String; 2] {
    apart(first, second, |value, more| scaled(value, &TIMES, more))
}

/// Two amounts of bytes, with at least two decimals and as many as it takes to distinguish them.
///
/// ```
/// use stagewright_core::units::bytes_apart;
/// assert_eq!(bytes_apart(7936013824.0, 7516192768.0), ["7.39 GiB", "7.00 GiB"]);
/// assert_eq!(bytes_apart(7516192769.0, 7516192768.0), ["7.000000001 GiB", "7.000000000 GiB"]);
/// assert_eq!(bytes_apart(11.0, 10.0), ["11 B", "10 B"]);
/// ```
pub fn bytes_apart(first: f64, second: f64) -> [String; 2] {
    apart(first, second, |value, more| with_digits(value, 2 + more))
}

/// Two shares as percentages, with as many digits as it takes to distinguish them.
///
/// ```
/// use stagewright_core::units::percent_apart;
/// assert_eq!(percent_apart(0.0, 0.25), ["0%", "25.00%"]);
/// assert_eq!(percent_apart(0.25, 0.250001), ["25.0000%", "25.0001%"]);
/// ```
pub fn percent_apart(first: f64, second: f64) -> [String; 2] {
    apart(first, second, percentage)
}

/// The texts of two values with the fewest more digits that make them differ; with no more digits if the values are
/// equal.
fn apart(first: f64, second: f64, text: impl Fn(f64, usize) -> String) -> [String; 2] {
    let texts = |more| [text(first, more), text(second, more)];
    (0..=MOST_MORE).map(texts).find(|[first, second]| first != second).unwrap_or_else(|| texts(0))
}

/// Largest number of further digits: with them, all 17 digits of a number are shown.
const MOST_MORE: usize = 15;

/// Bytes as `18.2 GiB`.
///
/// ```
/// use stagewright_core::units::bytes;
/// assert_eq!(bytes(1536.0), "1.5 KiB");
/// assert_eq!(bytes(f64::INFINITY), "unlimited");
/// ```
pub fn bytes(value: f64) -> String {
    with_digits(value, 1)
}

fn with_digits(value: f64, digits: usize) -> String {
    if value.is_infinite() {
        return "unlimited".into();
    }
    const UNITS: [&str; 6] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let mut value = value;
    let mut unit = 0;
    while value.abs() >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    // A whole number of bytes is exact.
    let digits = if unit == 0 && value.fract() == 0.0 { 0 } else { digits };
    format!("{value:.digits$} {}", UNITS[unit])
}

/// Bytes with three decimals, for figures that differ only there.
pub fn bytes_closely(value: f64) -> String {
    with_digits(value, 3)
}

/// Bytes per second as `1935 GB/s`, in decimal units as in datasheets, with the digits of the given figure.
///
/// ```
/// use stagewright_core::units::bandwidth;
/// assert_eq!((bandwidth(2.039e12).as_str(), bandwidth(15.75e9).as_str()), ("2039 GB/s", "15.75 GB/s"));
/// ```
pub fn bandwidth(value: f64) -> String {
    format!("{} GB/s", datasheet(value / 1e9))
}

/// A figure of a datasheet after a change of its unit: as many digits as it has, without the error of the division.
///
/// ```
/// use stagewright_core::units::datasheet;
/// assert_eq!(datasheet(2.039e12 / 1e9), "2039");
/// assert_eq!(datasheet(4.608), "4.608");
/// assert_eq!(datasheet(20000.0 / 1e9), "0.00002");
/// ```
pub fn datasheet(value: f64) -> String {
    let text = if value.abs() < 1e-3 { format!("{value:.12}") } else { format!("{value:.4}") };
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Floating-point operations as `8.2843 GFLOP`.
///
/// ```
/// use stagewright_core::units::flop;
/// assert_eq!(flop(8_284_300_000.0), "8.2843 GFLOP");
/// assert_eq!(flop(0.0), "0 FLOP");
/// ```
pub fn flop(value: f64) -> String {
    const UNITS: [(f64, &str); 6] =
        [(1.0, "FLOP"), (1e18, "EFLOP"), (1e15, "PFLOP"), (1e12, "TFLOP"), (1e9, "GFLOP"), (1e6, "MFLOP")];
    if value == 0.0 { scaled(value, &UNITS, 0) } else { scaled(value, &UNITS[1..], 0) }
}

/// A share as a percentage, never rounded to zero; a dash for a share of nothing, which is not finite.
pub fn percent(share: f64) -> String {
    percentage(share, 0)
}

fn percentage(share: f64, more: usize) -> String {
    if !share.is_finite() {
        "–".into()
    } else if share == 0.0 {
        "0%".into()
    } else if share.abs() < 1e-4 {
        format!("{:.*e}%", 1 + more, 100.0 * share)
    } else {
        format!("{:.*}%", 2 + more, 100.0 * share)
    }
}

/// Maximum length of a displayed name, in characters.
const LONGEST_NAME: usize = 60;

/// A name from a file, shortened and with every character visible.
///
/// ```
/// use stagewright_core::units::name;
/// assert_eq!(name("conv\u{1b}[2J"), "conv\\u{1b}[2J");
/// ```
pub fn name(text: &str) -> String {
    let end = text.char_indices().nth(LONGEST_NAME).map_or(text.len(), |(end, _)| end);
    visible(&text[..end]).into_owned()
}

/// The value in the largest unit that leaves at least 1, with five significant digits and some more.
fn scaled(value: f64, units: &[(f64, &'static str)], more: usize) -> String {
    if value == 0.0 || !value.is_finite() {
        // The sum with zero has no sign.
        return format!("{} {}", value + 0.0, units[0].1);
    }
    let (scale, unit) = unit_of(value, units);
    let shown = value / scale;
    format!("{shown:.digits$} {unit}", digits = more + digits_of(shown))
}

/// The largest unit that a value reaches, or else the smallest.
fn unit_of(value: f64, units: &[(f64, &'static str)]) -> (f64, &'static str) {
    units.iter().find(|(scale, _)| value.abs() >= *scale).or(units.last()).copied().unwrap_or((1.0, ""))
}

/// Decimals that give a value about five significant digits.
fn digits_of(shown: f64) -> usize {
    match shown.abs() {
        ..10.0 => 4,
        ..100.0 => 3,
        _ => 2,
    }
}
