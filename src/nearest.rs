//! The name that was meant by a slip of the keyboard.

/// How like a name has to be to be suggested, from 0 to 1 (Jaro–Winkler).
const ALIKE: f64 = 0.8;

/// Longest text that is compared with names: nothing longer is a slip of one of them.
const LONGEST_SLIP: usize = 64;

/// The candidate that is most like a name, the first of them where several are; none where none is like it.
///
/// ```
/// use stagewright::nearest::nearest;
/// assert_eq!(nearest("dgx-a10", ["dgx-a100", "dgx-h100"].into_iter()).as_deref(), Some("dgx-a100"));
/// assert_eq!(nearest("laptop", ["dgx-a100", "dgx-h100"].into_iter()), None);
/// ```
pub fn nearest<'a>(name: &str, candidates: impl Iterator<Item = &'a str>) -> Option<String> {
    if name.len() > LONGEST_SLIP {
        return None;
    }
    let mut best = (ALIKE, None);
    for candidate in candidates {
        let alike = strsim::jaro_winkler(name, candidate);
        if alike > best.0 {
            best = (alike, Some(candidate));
        }
    }
    best.1.map(str::to_owned)
}
