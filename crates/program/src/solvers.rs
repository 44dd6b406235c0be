//! `solvers`: the solvers, with the objectives, splits and schedules that they support.

use serde::Serialize;
use stagewright::core::document::Schedule;
use stagewright::registry::{Entry, SOLVERS};
use stagewright::report::grid::{Column, Grid};
use stagewright::report::wrap::{facts, lines};
use stagewright::support::{Refusal, Rules, Support};
use stagewright::tasks::placement::unknown_solver;

use super::args::SolversArguments;
use super::error::Result;
use super::exit::Exit;
use super::output;

/// Lines below the list.
const MORE: &str = "`auto`, the default of --solver, chooses among them by the objective; exec:COMMAND is a solver \
    in another program.\n\
    `stagewright solvers NAME` shows what a solver supports; docs/solvers.md has the methods and their limits.";

/// A solver, in JSON as well.
#[derive(Serialize)]
struct Row {
    name: &'static str,
    summary: &'static str,
    role: &'static str,
    /// Cargo feature that this build lacks and the solver needs.
    missing_feature: Option<&'static str>,
    proves_optimality: bool,
    starts_from_plan: bool,
    counts_simulations: bool,
    deterministic_across_threads: bool,
    #[serde(flatten)]
    support: Support,
}

pub(crate) fn run(arguments: &SolversArguments) -> Result<Exit> {
    let found = |name: &String| {
        let entry = SOLVERS.iter().find(|entry| entry.solver.name() == name);
        entry.ok_or_else(|| unknown_solver(name).at("NAME"))
    };
    let named = arguments.names.iter().map(found).collect::<Result<Vec<_>>>()?;
    let is_list = named.is_empty();
    let entries = if is_list { SOLVERS.iter().collect() } else { named };
    let rows: Vec<Row> = entries.into_iter().map(row).collect();
    if arguments.json {
        output::data(&output::json(&rows)?)?;
    } else if is_list {
        output::result(&format!("{}\n{}", list(&rows), lines(MORE, output::width())))?;
    } else {
        output::blocks(rows.iter().map(facts_of))?;
    }
    Ok(Exit::Done)
}

/// Asks a solver about everything.
fn row(Entry { solver, role }: &Entry) -> Row {
    let capabilities = solver.capabilities();
    Row {
        name: solver.name(),
        summary: solver.summary(),
        role: role.name(),
        missing_feature: solver.missing_feature(),
        proves_optimality: capabilities.exact,
        starts_from_plan: capabilities.starts_from_plan,
        counts_simulations: capabilities.counts_simulations,
        deterministic_across_threads: capabilities.deterministic_across_threads,
        support: Support::of(*solver),
    }
}

/// Table of solvers.
fn list(rows: &[Row]) -> String {
    let columns = ["objectives", "splits; schedules", "role"];
    let mut grid = Grid::of(&[(Column::Keys, &["solver"]), (Column::Words, &columns)]);
    for row in rows {
        let splits = distinct(row, |rules| rules.split);
        let schedules = distinct(row, |rules| rules.schedule.filter(|&name| name != Schedule::None.name()));
        let rules = if schedules.is_empty() { splits } else { format!("{splits}; {schedules}") };
        grid.row([row.name.into(), distinct(row, |rules| Some(rules.objective)), rules, row.guarantees()]);
    }
    grid.text(output::width())
}

/// The values of a rule among the supported combinations.
fn distinct(row: &Row, value: impl Fn(&Rules) -> Option<&'static str>) -> String {
    let mut found: Vec<&str> = Vec::new();
    for name in row.support.supports.iter().filter_map(value) {
        if !found.contains(&name) {
            found.push(name);
        }
    }
    found.join(", ")
}

impl Row {
    /// The role and the guarantees, as a list of words.
    fn guarantees(&self) -> String {
        let missing =
            self.missing_feature.map(|feature| format!("not in this build: needs the feature {feature}"));
        let guarantees = [
            (self.proves_optimality, "proves optimality"),
            (self.starts_from_plan, "starts from a plan"),
            (self.counts_simulations, "counts simulations"),
        ];
        let given = guarantees.into_iter().filter(|(is_given, _)| *is_given).map(|(_, text)| text.to_owned());
        [self.role.to_owned()].into_iter().chain(missing).chain(given).collect::<Vec<_>>().join(", ")
    }
}

/// A solver in detail. What one that is missing supports and guarantees is not known.
fn facts_of(row: &Row) -> String {
    let yes = |is_given: bool| if is_given { "yes" } else { "no" }.to_owned();
    let mut found =
        vec![("name", row.name.to_owned()), ("method", row.summary.into()), ("role", row.role.into())];
    if let Some(feature) = row.missing_feature {
        found.push(("needs", format!("a build with the feature {feature}")));
    } else {
        found.extend(row.support.supports.iter().map(|rules| ("supports", combination(rules))));
        let shown = |refusal: &Refusal| ("refuses", format!("{}: {}", refusal.objective, refusal.reason));
        found.extend(row.support.refuses.iter().map(shown));
        found.extend([
            ("proves optimality", yes(row.proves_optimality)),
            ("starts from a plan", yes(row.starts_from_plan)),
            ("counts simulations", yes(row.counts_simulations)),
            ("same for any threads", yes(row.deterministic_across_threads)),
        ]);
    }
    found.push(("more", "docs/solvers.md, docs/methods.md".into()));
    facts(found, output::width())
}

/// A combination of rules, as `throughput, contiguous split, schedule 1f1b`.
fn combination(rules: &Rules) -> String {
    let split = rules.split.map(|name| format!("{name} split"));
    let schedule = rules.schedule.filter(|&name| name != Schedule::None.name());
    let schedule = schedule.map(|name| format!("schedule {name}"));
    [rules.objective.to_owned()].into_iter().chain(split).chain(schedule).collect::<Vec<_>>().join(", ")
}
