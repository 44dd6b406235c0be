//! The solvers in the comparison.

use std::time::Instant;

use stagewright::code::{U001, U004};
use stagewright::core::document::{ObjectiveKind, Schedule, Split};
use stagewright::core::objective::Objective;
use stagewright::core::problem::Problem;
use stagewright::registry::{self, Role, SOLVERS};
use stagewright::report::comparison::Contender;
use stagewright::report::document::{Provenance, plan_document};
use stagewright::tasks::Kind;
use stagewright::tasks::placement::Chosen;

use crate::error::{CliError, Result, place};
use crate::progress::Progress;
use crate::resolve::{self, Solving};
use crate::{external, interrupt};

/// A solver with its own objective.
pub(super) struct Entrant {
    /// Name on the command line.
    pub(super) name: String,
    /// The objective, with the entrant's split.
    pub(super) objective: Objective,
    chosen: Chosen,
}

/// The solvers of a list. An entry is `auto`, the name of a solver, or a group of them (`exact`, `search`,
/// `baselines`, `learned`, `all`), and may have its own split rule: `bnp@free`. A group means its members that support
/// the objective; `none` means no solver. `exec:COMMAND` is a solver in another program. The default list is `auto` and the baselines, for throughput of a non-free split without a schedule
/// also `auto@free`.
pub(super) fn entrants(list: &[String], objective: &Objective) -> Result<Vec<Entrant>> {
    let usual;
    let list = if list.is_empty() {
        usual = self::usual(objective);
        &usual
    } else {
        list
    };
    if list == [NONE] {
        return Ok(Vec::new());
    }
    let mut entrants: Vec<Entrant> = Vec::new();
    for entry in list {
        // The `@` is kept, so that a member of a group is named as if it were listed alone. In a command, `@` is part
        // of the command.
        let at = entry.find('@').filter(|_| !entry.starts_with(external::PREFIX));
        let (name, at) = entry.split_at(at.unwrap_or(entry.len()));
        let split = match at.strip_prefix('@') {
            Some(split) => split_named(entry, split, objective)?,
            None => objective.rules().split,
        };
        let objective = objective.with_split(split);
        let (names, is_group) = members(name, &objective);
        if names.is_empty() {
            let supporting = registry::supporting(&objective).join(", ");
            return Err(CliError::new(
                U004,
                format!("no solver of the group `{name}` supports the objective"),
            )
            .at("--solvers")
            .help(format!("use some of {supporting}, or another --objective")));
        }
        for name in names {
            let full = format!("{name}{at}");
            if entrants.iter().any(|entrant| entrant.name == full) {
                continue;
            }
            let chosen = resolve::solver(name, &objective).map_err(|error| match is_group {
                true => error,
                false => error.at("--solvers"),
            })?;
            entrants.push(Entrant { name: full, objective, chosen });
        }
    }
    Ok(entrants)
}

/// The list without solvers, for a comparison of plans.
const NONE: &str = "none";

fn usual(objective: &Objective) -> Vec<String> {
    let mut list = vec!["auto".to_owned()];
    let is_free = objective.kind() != ObjectiveKind::Throughput || objective.rules().split == Split::Free;
    if !is_free && objective.rules().schedule == Schedule::None {
        list.push("auto@free".into());
    }
    list.push("baselines".into());
    list
}

/// The groups of solvers, each with the roles of its members.
const GROUPS: [(&str, &[Role]); 5] = [
    ("exact", &[Role::Exact]),
    ("search", &[Role::Search]),
    ("baselines", &[Role::Baseline]),
    ("learned", &[Role::Learned]),
    ("all", &[Role::Exact, Role::Search, Role::Baseline]),
];

/// The names of the groups.
pub(crate) fn groups() -> impl Iterator<Item = &'static str> {
    GROUPS.iter().map(|(name, _)| *name)
}

/// Returns the solvers of a group that support an objective, or the single name; and whether it is a group.
fn members<'a>(name: &'a str, objective: &Objective) -> (Vec<&'a str>, bool) {
    let of = |roles: &[Role]| {
        let supporting = SOLVERS
            .iter()
            .filter(|entry| roles.contains(&entry.role) && entry.solver.unsupported(objective).is_none());
        supporting.map(|entry| entry.solver.name()).collect()
    };
    match GROUPS.iter().find(|(group, _)| *group == name) {
        Some((_, roles)) => (of(roles), true),
        None => (vec![name], false),
    }
}

fn split_named(entry: &str, split: &str, objective: &Objective) -> Result<Split> {
    let wrong = |cause: String| {
        Err(CliError::new(U001, cause)
            .at("--solvers")
            .help("write NAME@contiguous, NAME@convex or NAME@free"))
    };
    if objective.kind() != ObjectiveKind::Throughput {
        return wrong(format!("`{entry}` names a split, which applies only to throughput"));
    }
    match split {
        "contiguous" => Ok(Split::Contiguous),
        "convex" => Ok(Split::Convex),
        "free" => Ok(Split::Free),
        other => wrong(format!("unknown split rule `{other}`")),
    }
}

impl Entrant {
    /// Solves under the limits.
    pub(super) fn solve(&self, problem: &Problem, solving: &Solving, verbose: bool) -> Result<Contender> {
        let started = Instant::now();
        let mut progress = Progress::new(verbose, Kind::Placement);
        let options = solving.options().interrupt(interrupt::watch());
        let solution = self.chosen.solve(problem, &options, &mut progress, &place())?;
        let provenance = Provenance {
            solver: self.chosen.label.clone(),
            seconds: started.elapsed().as_secs_f64(),
            seed: solving.seed,
        };
        let plan = plan_document(problem, &solution, provenance);
        Ok(Contender { name: self.name.clone(), plan, given: None })
    }
}

#[cfg(all(test, feature = "policy"))]
mod tests {
    use super::*;

    #[test]
    fn what_takes_all_the_time_is_asked_for_by_name_or_group() {
        let step = Objective::from(ObjectiveKind::Makespan);
        let names = |list: &[&str], objective: &Objective| -> Option<Vec<String>> {
            let list: Vec<String> = list.iter().map(|entry| (*entry).to_owned()).collect();
            let found = entrants(&list, objective).ok()?;
            Some(found.into_iter().map(|entrant| entrant.name).collect())
        };
        let usual = names(&[], &step).expect("solvers");
        let slow = ["gdp", "placeto", "hsdag", "hdp"];
        assert!(usual.iter().all(|name| !slow.contains(&name.as_str())), "{usual:?}");
        assert_eq!(names(&["learned"], &step), Some(slow.map(str::to_owned).into()));
        assert_eq!(names(&["learned"], &Objective::default()), None, "none of them supports it");
    }
}
