//! The question of an instance, as the default of commands that read its model.
//!
//! A value is comparable with the library's only if it answers the same question. So `plan`, `bound` and `compare` on
//! `instance:NAME` take the instance's value of every option that they are not given. `--objective` or `--parallel` poses
//! another question: the rules of one objective mean nothing under another, so none of the instance's are taken.

use std::collections::BTreeSet;
use std::path::Path;

use stagewright::core::document::Schedule;
use stagewright::formats::runtimes;

use super::entry::Entry;
use super::library::Library;
use super::{model, name};
use crate::args::{AroundArguments, ImportArguments, ObjectiveArguments, ParallelArguments, Surroundings};
use crate::error::{Result, place};
use crate::output;

/// The options that pose a question about the model of an instance.
#[derive(Debug)]
pub(crate) struct Posed {
    /// Inputs besides the model.
    pub(crate) around: AroundArguments,
    /// The objective and its rules.
    pub(crate) objective: ObjectiveArguments,
    /// Parallelism of a joint plan.
    pub(crate) parallel: ParallelArguments,
    /// The best value recorded in the library; `None` if the question is another.
    pub(crate) value: Option<f64>,
}

/// The given options completed by those of the instance that a path names; `None` for any other path. A note says if they
/// pose a question other than the instance's.
pub(crate) fn posed(
    path: &Path,
    around: &AroundArguments,
    objective: Option<&ObjectiveArguments>,
    parallel: Option<&ParallelArguments>,
) -> Result<Option<Posed>> {
    let Some(name) = name(path) else { return Ok(None) };
    let library = Library::open(None)?;
    let entry = library.find(name)?;
    let own = Posed::of(entry, path)?;
    let mut posed = own.with(around, objective, parallel);
    if let Some(difference) = posed.difference(&own, entry) {
        posed.value = None;
        output::note(&format!("note: {difference}: the value cannot be compared with the library's"));
    }
    Ok(Some(posed))
}

impl Posed {
    /// The question of an instance. The cluster is left out, because it is in the model.
    fn of(entry: &Entry, path: &Path) -> Result<Posed> {
        let own = model::question(entry, path)?;
        Ok(Posed {
            around: own.model.around,
            objective: own.objective,
            parallel: own.parallel,
            value: entry.value,
        })
    }

    /// The question of given options, with these defaults.
    fn with(
        &self,
        around: &AroundArguments,
        objective: Option<&ObjectiveArguments>,
        parallel: Option<&ParallelArguments>,
    ) -> Posed {
        let objective = objective.cloned().unwrap_or_default();
        let parallel = parallel.cloned().unwrap_or_default();
        let is_complete = objective.0.text("objective").is_some() || parallel.is_given();
        let (objective, parallel) = match is_complete {
            true => (objective, parallel),
            false => (
                ObjectiveArguments(objective.0.or(&self.objective.0)),
                ParallelArguments(parallel.0.or(&self.parallel.0)),
            ),
        };
        let AroundArguments { surroundings, import } = &self.around;
        let around = AroundArguments {
            surroundings: Surroundings(around.surroundings.0.or(&surroundings.0)),
            import: ImportArguments(around.import.0.or(&import.0)),
        };
        Posed { around, objective, parallel, value: self.value }
    }

    /// Description of the difference from the question of an instance; `None` if there is none.
    fn difference(&self, own: &Posed, entry: &Entry) -> Option<String> {
        if !self.has_objective_of(own) {
            let (name, known) = (&entry.name, entry.objective());
            return Some(format!("the objective differs from that of instance:{name}, `{known}`"));
        }
        let (given, known) = (&self.around.surroundings.0, &own.around.surroundings.0);
        let has_other_devices =
            given.file("cluster").is_some_and(|path| path.to_str() != entry.cluster.as_deref());
        let has_other_inputs = ["pins", "costs"].iter().any(|name| !given.files(name).is_empty())
            || given.values() != known.values();
        let (given, known) = (self.around.import.0.values(), own.around.import.0.values());
        let has_other_model = given
            .iter()
            .any(|(name, value)| name != "format" && *value != false && known.get(name) != Some(value));
        let differs = has_other_devices || has_other_inputs || has_other_model;
        let what = "the devices, the costs or the options of the model";
        differs.then(|| format!("{what} differ from those of instance:{}", entry.name))
    }

    /// Whether two questions have the same objective, with defaults written or not.
    fn has_objective_of(&self, other: &Posed) -> bool {
        match (self.parallel.is_given(), other.parallel.is_given()) {
            (true, true) => self.joint() == other.joint(),
            (false, false) => {
                let objective = |posed: &Posed| {
                    let (objective, _) = posed.objective.options().ok()?.objective(&place()).ok()?;
                    Some(objective)
                };
                objective(self).is_some_and(|asked| objective(other) == Some(asked))
            }
            _ => false,
        }
    }

    /// The options of a joint plan, with parallelism in any order and the default schedule: kinds of parallelism, samples of
    /// a batch and of a microbatch, workspace, schedules, chunks and cut, and runtime. `None` if they cannot be read.
    fn joint(&self) -> Option<impl PartialEq + use<>> {
        let parallel = self.parallel.options().ok()??;
        let kinds: BTreeSet<String> =
            parallel.parallel.split(',').map(|kind| kind.trim().to_owned()).collect();
        let mut schedules = self.objective.options().ok()?.schedule;
        if schedules.is_empty() {
            schedules.push(Schedule::OneFOneB);
        }
        let workspace = parallel.recompute_workspace.unwrap_or_default();
        let runtime = parallel.runtime.unwrap_or_else(|| runtimes::DEFAULT.into());
        let samples = (parallel.global_batch, parallel.microbatch);
        Some((kinds, samples, workspace, schedules, parallel.chunks, parallel.cut, runtime))
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::args::{Arguments, Asked, Command};

    /// The question of `plan` with options on an instance, and its difference from that of the instance.
    fn asked(instance: &str, options: &str) -> (Posed, Option<String>) {
        let library = Library::open(None).unwrap_or_else(|error| panic!("{error}"));
        let entry = library.find(instance).unwrap_or_else(|error| panic!("{error}"));
        let words = ["stagewright", "plan", "MODEL"].into_iter().chain(options.split_whitespace());
        let Ok(Asked::Command(command)) = Arguments::try_parse_from(words).and_then(Arguments::asked) else {
            panic!("{options}")
        };
        let Command::Plan(given) = *command else { panic!("{options}") };
        let own = Posed::of(entry, Path::new("MODEL")).unwrap_or_else(|error| panic!("{error}"));
        let posed = own.with(&given.model.around, Some(&given.objective), Some(&given.parallel));
        let difference = posed.difference(&own, entry);
        (posed, difference)
    }

    #[test]
    fn the_same_question_in_other_words_is_no_difference() {
        for (instance, options) in [
            ("random-20", ""),
            ("random-20", "--objective throughput --split contiguous"),
            ("random-22-makespan", ""),
            ("random-22-makespan", "--objective makespan --time-limit 1s"),
            ("random-19-free", "--split free --seed 1"),
            ("bert-large-4xt4", "--cluster 4xt4"),
            ("iopddl-G", "--time-limit 1s"),
            ("llama-3-70b-infeasible", ""),
            ("llama-3-70b-infeasible", "--schedule 1f1b"),
            (
                "llama-3-70b-infeasible",
                "--parallel recompute,tp,dp,pp,ep,zero --global-batch 2048 --runtime ideal",
            ),
        ] {
            assert_eq!(asked(instance, options).1, None, "{instance} {options}");
        }
    }

    #[test]
    fn another_question_is_named() {
        let objective = "the objective differs ";
        let around = "the devices, the costs or the options of the model differ ";
        for (instance, options, expected) in [
            ("random-20", "--split free", objective),
            ("random-20", "--objective makespan", objective),
            ("random-20", "--parallel dp", objective),
            ("random-20", "--whole-layers", around),
            ("random-20", "--memory-reserve 1KiB", around),
            ("random-22-makespan", "--execution contention-free", objective),
            ("random-22-makespan", "--objective throughput", objective),
            ("bert-large-4xt4", "--cluster 8xt4", around),
            ("llama-3-70b-infeasible", "--parallel tp,dp --global-batch 2048", objective),
            (
                "llama-3-70b-infeasible",
                "--parallel recompute,tp,dp,pp,ep,zero --global-batch 2048",
                objective,
            ),
            ("llama-3-70b-infeasible", "--schedule zero-bubble", objective),
            ("llama-3-70b-infeasible", "--objective throughput", objective),
        ] {
            let (_, difference) = asked(instance, options);
            assert!(difference.as_deref().is_some_and(|text| text.starts_with(expected)), "{options}");
        }
    }

    #[test]
    fn given_options_complete_those_of_the_instance_unless_they_name_another_objective() {
        let (posed, _) = asked("random-22-makespan", "--execution contention-free");
        assert_eq!(posed.objective.0.text("objective"), Some("makespan"));
        assert_eq!(posed.objective.0.text("execution"), Some("contention-free"));
        let (posed, _) = asked("llama-3-70b-infeasible", "--schedule zero-bubble");
        assert_eq!(posed.parallel.0.number("global_batch"), Some(2048));
        let (posed, _) = asked("llama-3-70b-infeasible", "--objective throughput");
        assert!(!posed.parallel.is_given());
        let (posed, _) = asked("random-22-makespan", "--parallel dp");
        assert!(posed.parallel.is_given() && posed.objective.0.values().is_empty());
    }
}
