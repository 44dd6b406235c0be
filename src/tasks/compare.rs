//! Solvers, expert rules and given plans side by side on one question.

use std::sync::atomic::Ordering;

use serde::Serialize;
use stagewright_core::document::{ClusterDocument, ModelOptionsDocument, OriginDocument};
use stagewright_core::solver::{Context, Observer};
use stagewright_report::comparison::{self, Comparison, Contender, Entry, Planned, Row, Setting};
use stagewright_report::grid::Grid;

use super::{Kind, Session, SolverChoice, json};
use crate::code::{U001, U003, U007, U013, X001};
use crate::failure::{Failure, Result};
use crate::nearest::instead;
use crate::reading::Place;

/// What takes part in a comparison.
pub struct Contest<'a> {
    /// Name of the model in the result.
    pub model: &'a str,
    /// Solvers, groups of solvers, and expert rules; the usual ones if the list is empty, and none for `none`.
    pub solvers: &'a [String],
    /// The solver of a name.
    pub choice: &'a dyn Fn(&str) -> Result<SolverChoice>,
    /// Given plans.
    pub given: Vec<Contender>,
    /// Contender that speed-ups are relative to; `None` for the usual one, if it takes part.
    pub baseline: Option<&'a str>,
    /// Seeds of the contenders that depend on one, at least one; any other contender takes the first.
    pub seeds: &'a [u64],
    /// Value recorded for an instance of the library under the same question, in seconds.
    pub recorded_s: Option<f64>,
    /// The program that makes the comparison.
    pub origin: OriginDocument,
    /// The observer of a contender's solve with a seed: what improves one contender's plan need not improve another's.
    pub observer: &'a dyn Fn(&str, u64) -> Box<dyn Observer>,
}

/// A solver or an expert rule of a comparison, by name.
pub struct Entered {
    /// Name of its row.
    pub name: String,
    /// The error of a solver that does not support the question (U004).
    pub refusal: Option<Failure>,
}

/// Finds the plan of an entrant.
pub(super) type Solve<'t> = dyn Fn(&mut Context<'_>) -> Result<Planned> + 't;

/// A solver or an expert rule in a comparison.
pub(super) struct Entrant<'t> {
    pub(super) name: String,
    /// Finds the plan; the error if the entrant does not support the question.
    pub(super) solve: Result<Box<Solve<'t>>>,
    /// Whether the plan depends on the seed.
    pub(super) depends_on_seed: bool,
}

impl Entrant<'_> {
    /// The entrant by name.
    pub(super) fn entered(self) -> Entered {
        Entered { name: self.name, refusal: self.solve.err() }
    }
}

/// Whether a list of solvers asks for plans alone.
pub(super) fn is_without_solvers(list: &[String]) -> bool {
    list == ["none"]
}

/// Checks the names in a comparison of one model or several before anything is solved. `entrants` are the solvers and rules of
/// all models, and `given` the given plans.
///
/// # Errors
/// No contender, or two of one name (U001), solvers of which none supports any of the questions (U004), or a baseline that is
/// not among them (U007).
pub fn check_names(
    entrants: Vec<Entered>,
    given: &[&str],
    baseline: Option<&str>,
    place: &Place,
) -> Result<()> {
    if let Some(twice) = given.iter().find(|&&name| entrants.iter().any(|entrant| entrant.name == name)) {
        return Err(Failure::new(U001, format!("`{twice}` is the name of both a solver and a plan"))
            .at(place("plan"))
            .help(format!("give the plan another name: {} NAME=FILE", place("plan"))));
    }
    let names = || entrants.iter().map(|entrant| entrant.name.as_str()).chain(given.iter().copied());
    if names().next().is_none() {
        return Err(Failure::new(U001, "nothing takes part")
            .at(place("solvers"))
            .help(format!("give a solver or a {}", place("plan"))));
    }
    if let Some(asked) = baseline.filter(|asked| !names().any(|name| name == *asked)) {
        return Err(Failure::new(U007, format!("`{asked}` is not part of the comparison"))
            .at(place("baseline"))
            .help(instead(asked, names())));
    }
    match entrants.iter().all(|entrant| entrant.refusal.is_some()) {
        true => entrants.into_iter().find_map(|entrant| entrant.refusal).map_or(Ok(()), Err),
        false => Ok(()),
    }
}

impl Contest<'_> {
    /// The setting of the comparison, with the devices and options of its question.
    pub(super) fn setting(
        &self,
        cluster: Option<&ClusterDocument>,
        options: Option<&ModelOptionsDocument>,
    ) -> Setting {
        let setting = cluster.map(|cluster| Setting::new(cluster, options)).unwrap_or_default();
        Setting { origin: Some(self.origin.clone()), seeds: self.seeds.to_vec(), ..setting }
    }

    /// The contender that speed-ups are relative to: the one that is asked for, or else the first whose solver is `usual`,
    /// under any split.
    pub(super) fn baseline(&self, entrants: &[Entrant<'_>], usual: Option<&str>) -> Option<String> {
        let names = entrants.iter().map(|entrant| entrant.name.as_str());
        let mut names = names.chain(self.given.iter().map(|contender| contender.name.as_str()));
        let usual = || names.find(|name| usual.is_some() && name.split('@').next() == usual);
        self.baseline.or_else(usual).map(str::to_owned)
    }

    /// Solves for every entrant in turn, with every seed if it depends on one, until an interrupt comes. The given plans are
    /// first in the result.
    ///
    /// # Errors
    /// A defect of a solver.
    pub(super) fn solve(
        self,
        entrants: Vec<Entrant<'_>>,
        session: &mut Session<'_>,
    ) -> Result<Vec<Contender>> {
        let interrupt = session.options.settings.interrupt.clone();
        let mut contenders = self.given;
        for Entrant { name, solve, depends_on_seed } in entrants {
            let solve = match solve {
                Ok(solve) => solve,
                Err(refusal) => {
                    contenders
                        .push(Contender { name, entry: Entry::Unsupported(refusal.cause().to_owned()) });
                    continue;
                }
            };
            let count = if depends_on_seed { self.seeds.len() } else { 1 };
            let mut plans = Vec::new();
            for &seed in self.seeds.iter().take(count) {
                if interrupt.load(Ordering::Relaxed) {
                    break;
                }
                session.options.settings.seed = seed;
                let mut observer = (self.observer)(&name, seed);
                plans.push((seed, solve(&mut session.options.context(&mut *observer))?));
                drop(observer);
                if interrupt.load(Ordering::Relaxed) {
                    session.note(&format!(
                        "interrupted: {name} was cut short on {}, and nothing after it was solved",
                        self.model
                    ));
                }
            }
            if !plans.is_empty() {
                contenders.push(Contender { name, entry: Entry::Solved(plans) });
            }
        }
        Ok(contenders)
    }
}

/// The entrants of a list of expert rules, all that support the question if it is empty.
///
/// # Errors
/// A name of no rule (U003).
pub(super) fn listed<'t>(
    rules: Vec<Entrant<'t>>,
    list: &[String],
    place: &Place,
) -> Result<Vec<Entrant<'t>>> {
    if is_without_solvers(list) {
        return Ok(Vec::new());
    }
    let known: Vec<String> = rules.iter().map(|rule| rule.name.clone()).collect();
    if let Some(name) = list.iter().find(|name| !known.contains(name)) {
        return Err(Failure::new(U003, format!("unknown rule `{name}`"))
            .at(place("solvers"))
            .help(instead(name, known.iter().map(String::as_str))));
    }
    let is_listed = |rule: &Entrant<'_>| match list.is_empty() {
        true => rule.solve.is_ok(),
        false => list.contains(&rule.name),
    };
    Ok(rules.into_iter().filter(is_listed).collect())
}

/// The error of a question that has nothing to compare.
pub(super) fn incomparable(kind: Kind) -> Failure {
    Failure::new(
        U013,
        format!("a {} has one solver and no expert rules, so nothing is compared", kind.name()),
    )
    .at("MODEL")
    .help("use plan, and check for plans of your own")
}

/// The JSON of comparisons of placements.
#[derive(Serialize)]
struct Comparisons<'a> {
    schema: &'static str,
    #[serde(flatten)]
    made: Option<Made<'a>>,
    models: &'a [Comparison],
}

/// Origin and seeds of the comparisons of one command.
#[derive(Serialize)]
struct Made<'a> {
    origin: &'a OriginDocument,
    seeds: &'a [u64],
}

const SCHEMA: &str = "stagewright.comparison/1";

/// A row of the JSON of joint plans.
#[derive(Serialize)]
struct JointRow<'a> {
    plan: &'a str,
    model: &'a str,
    #[serde(flatten)]
    row: &'a Row,
}

/// Comparisons of questions of one kind as JSON: a document for placements, and for joint plans a list of rows in the order in
/// which the contenders entered.
///
/// # Errors
/// If they have no JSON (X001).
pub fn comparisons_json(kind: Kind, comparisons: &[Comparison]) -> Result<String> {
    if kind != Kind::Joint {
        let made = comparisons.first().and_then(|comparison| {
            let setting = &comparison.setting;
            Some(Made { origin: setting.origin.as_ref()?, seeds: &setting.seeds })
        });
        return json(&Comparisons { schema: SCHEMA, made, models: comparisons });
    }
    let rows = comparisons.iter().flat_map(|comparison| {
        comparison.as_entered().map(|row| JointRow { plan: &row.name, model: &comparison.model, row })
    });
    json(&rows.collect::<Vec<_>>())
}

/// Comparisons of questions of one kind as CSV with a header.
///
/// # Errors
/// If the writer fails (X001).
pub fn comparisons_csv(comparisons: &[Comparison]) -> Result<String> {
    comparison::csv(comparisons).map_err(|error| Failure::new(X001, format!("cannot write CSV: {error}")))
}

/// Comparisons as a table of a paper in LaTeX, with the provenance in comments.
pub fn comparisons_latex(comparisons: &[Comparison]) -> String {
    comparison::paper(comparisons)
}

/// Comparisons as a table, for one model a row for each contender, for several a row for each model; with the reasons why some
/// contenders have no plan, a line each.
pub fn comparisons_table(comparisons: &[Comparison]) -> (Grid, String) {
    let grid = match comparisons {
        [comparison] => comparison::contenders(comparison),
        several => comparison::models(several),
    };
    (grid, comparison::reasons(comparisons))
}
