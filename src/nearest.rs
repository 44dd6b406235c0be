//! The names that were meant by a slip of the keyboard.

/// How like a name has to be to be taken for what was meant, from 0 to 1 (Jaro–Winkler).
const ALIKE: f64 = 0.8;

/// Longest text that is compared with names: nothing longer is a slip of one of them.
const LONGEST_SLIP: usize = 64;

/// Names that are told of a longer list.
const TOLD: usize = 3;

/// The candidate that is most like a name, the first of them where several are; none where none is like it.
///
/// ```
/// use stagewright::nearest::nearest;
/// assert_eq!(nearest("dgx-a10", ["dgx-a100", "dgx-h100"].into_iter()).as_deref(), Some("dgx-a100"));
/// assert_eq!(nearest("laptop", ["dgx-a100", "dgx-h100"].into_iter()), None);
/// ```
pub fn nearest<'a>(name: &str, candidates: impl Iterator<Item = &'a str>) -> Option<String> {
    let (alike, best) = ranked(name, candidates).into_iter().next()?;
    (alike > ALIKE).then(|| best.to_owned())
}

/// The three candidates that are most like a name, the most alike first, each once; all where there are no more.
///
/// Takes time O(candidates · (length of a name² + log candidates)).
///
/// ```
/// use stagewright::nearest::nearest_three;
/// let known = ["local", "lns", "dpl", "dp", "milp"];
/// assert_eq!(nearest_three("loocal", known.into_iter()), ["local", "lns", "dpl"]);
/// ```
pub fn nearest_three<'a>(name: &str, candidates: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    ranked(name, candidates).into_iter().map(|(_, candidate)| candidate).take(TOLD).collect()
}

/// What to use instead of a name that is not known: all names where they are few, else the three that are most
/// like it, and how many there are.
///
/// ```
/// use stagewright::nearest::instead;
/// assert_eq!(instead("foo", ["base", "large"].into_iter()), "use one of base, large");
/// let many = ["base", "large", "small", "tiny"];
/// assert_eq!(instead("larg", many.into_iter()), "the nearest of 4 are large, base, small");
/// ```
pub fn instead<'a>(name: &str, candidates: impl Iterator<Item = &'a str>) -> String {
    let candidates: Vec<&str> = candidates.collect();
    if candidates.len() <= TOLD {
        return format!("use one of {}", candidates.join(", "));
    }
    let told = nearest_three(name, candidates.iter().copied()).join(", ");
    format!("the nearest of {} are {told}", candidates.len())
}

/// The candidates, each once, the most alike first; as they come where they are equally so or the name is too long to
/// be a slip.
fn ranked<'a>(name: &str, candidates: impl Iterator<Item = &'a str>) -> Vec<(f64, &'a str)> {
    let alike = |candidate: &'a str| {
        let alike = if name.len() > LONGEST_SLIP { 0.0 } else { strsim::jaro_winkler(name, candidate) };
        (alike, candidate)
    };
    let mut seen = std::collections::BTreeSet::new();
    let mut ranked: Vec<(f64, &str)> = candidates.filter(|name| seen.insert(*name)).map(alike).collect();
    ranked.sort_by(|(left, _), (right, _)| right.total_cmp(left));
    ranked
}
