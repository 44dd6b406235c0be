//! Suggestions for mistyped names.

/// Jaro–Winkler similarity, from 0 to 1, above which a name counts as mistyped.
const ALIKE: f64 = 0.8;

/// Longest text compared with names; a longer one is not a typing error.
const LONGEST_SLIP: usize = 64;

/// Maximum number of names listed.
const TOLD: usize = 3;

/// The candidate most similar to a name, with ties going to the first; `None` if none is similar.
///
/// ```
/// use stagewright_formats::nearest::nearest;
/// assert_eq!(nearest("dgx-a10", ["dgx-a100", "dgx-h100"].into_iter()).as_deref(), Some("dgx-a100"));
/// assert_eq!(nearest("laptop", ["dgx-a100", "dgx-h100"].into_iter()), None);
/// ```
pub fn nearest<'a>(name: &str, candidates: impl Iterator<Item = &'a str>) -> Option<String> {
    let (alike, best) = ranked(name, candidates).into_iter().next()?;
    (alike > ALIKE).then(|| best.to_owned())
}

/// The three candidates most similar to a name, in descending similarity, without duplicates; fewer if there are fewer
/// candidates.
///
/// Takes time O(candidates · (length of a name² + log candidates)).
///
/// ```
/// use stagewright_formats::nearest::nearest_three;
/// let known = ["local", "lns", "dpl", "dp", "milp"];
/// assert_eq!(nearest_three("loocal", known.into_iter()), ["local", "lns", "dpl"]);
/// ```
pub fn nearest_three<'a>(name: &str, candidates: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    ranked(name, candidates).into_iter().map(|(_, candidate)| candidate).take(TOLD).collect()
}

/// A suggestion for an unknown name: all names if they are few, otherwise their number and the three most similar ones.
///
/// ```
/// use stagewright_formats::nearest::instead;
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

/// The candidates in descending similarity, without duplicates; in their given order if they are equally similar or
/// the name is too long to be mistyped.
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
