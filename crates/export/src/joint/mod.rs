//! Export of joint plans, whose meaning is in `docs/joint.md`, to the runtimes that execute them.
//!
//! A plan is read once, into [`Joint`], which checks that the plan is for an iteration and that its numbers agree. A
//! target then writes it in the notation of its runtime, or refuses: no stage, degree or recomputation is changed to
//! make a plan fit. Differences between a runtime and the cost model that do not change the plan are in its notes.

mod notes;
pub mod plan;
mod recompute;
mod stack;
mod targets;
#[cfg(test)]
mod testing;

pub use plan::Joint;
pub use targets::JOINT_TARGETS;

use stagewright_core::document::JointPlanDocument;
use stagewright_formats::nearest::nearest;

use crate::{Export, ExportError, Result};

/// A runtime that executes joint plans.
#[derive(Debug)]
pub struct JointTarget {
    /// Name on the command line.
    pub name: &'static str,
    /// Description of the output, for display.
    pub summary: &'static str,
    /// Limits of the target: the parts of a plan that it cannot express, in one line.
    pub limits: &'static str,
    /// Writes a plan, or returns the reason why it cannot.
    pub write: fn(&Joint) -> Result<Export>,
}

/// Looks up a target for joint plans by name.
///
/// # Errors
/// If there is no such target (E001, with the most similar name).
pub fn joint_target(name: &str) -> Result<&'static JointTarget> {
    if let Some(target) = JOINT_TARGETS.iter().find(|target| target.name == name) {
        return Ok(target);
    }
    let known: Vec<&'static str> = JOINT_TARGETS.iter().map(|target| target.name).collect();
    let nearest = nearest(name, known.iter().copied());
    Err(ExportError::UnknownTarget { name: name.to_owned(), nearest, known })
}

/// Writes a joint plan for a runtime, with usage notes.
///
/// # Errors
/// If there is no such target (E001), if the plan has no stages or its numbers disagree (E002, E022 and E029), or if
/// the runtime cannot execute it (E014, E015, E018, E023 to E028, E030, E033 and E034).
pub fn export_joint_noted(plan: &JointPlanDocument, target: &str) -> Result<Export> {
    let target = joint_target(target)?;
    (target.write)(&Joint::read(plan)?)
}

/// Writes a joint plan for a runtime.
///
/// # Errors
/// If there is no such target (E001), if the plan has no stages or its numbers disagree (E002, E022 and E029), or if
/// the runtime cannot execute it (E014, E015, E018, E023 to E028, E030, E033 and E034).
pub fn export_joint(plan: &JointPlanDocument, target: &str) -> Result<String> {
    export_joint_noted(plan, target).map(|export| export.text)
}

#[cfg(test)]
mod tests {
    use stagewright_core::document::{
        ContextExchange, JointObjectiveKind, JointPlanDocument, Precision, Schedule,
    };

    use super::testing::{divide, dualpipe_v, execution, interleaved, plan, refused, text, with};
    use super::{JOINT_TARGETS, export_joint_noted, joint_target};

    #[test]
    fn targets_are_found_by_name() {
        for target in JOINT_TARGETS {
            assert!(std::ptr::eq(joint_target(target.name).unwrap(), *target));
        }
        let error = joint_target("megatron-ml").unwrap_err();
        assert_eq!((error.code().name, error.to_string().contains("megatron-lm")), ("E001", true));
    }

    #[test]
    fn all_targets_refuse_documents_without_a_plan_for_an_iteration() {
        let mut sampled = plan(&["E 0 H"]);
        sampled.objective.kind = JointObjectiveKind::TimePerSample;
        let mut empty = plan(&["E 0 H"]);
        empty.stages.clear();
        let mut unexecuted = plan(&["E 0 H"]);
        unexecuted.execution = None;
        for target in JOINT_TARGETS {
            assert_eq!(refused(&sampled, target.name).0, "E022");
            assert_eq!(refused(&empty, target.name).0, "E002");
            assert_eq!(refused(&unexecuted, target.name).0, "E002");
        }
    }

    #[test]
    fn numbers_that_disagree_are_refused_with_their_place() {
        let good = || with(plan(&["E 0 1 H"]), 1, 2, 3);
        let check = |change: fn(&mut super::JointPlanDocument), place: &str| {
            let mut plan = good();
            change(&mut plan);
            let (code, place_of_error, _) = refused(&plan, "fsdp2");
            assert_eq!((code, place_of_error.as_deref()), ("E029", Some(place)));
        };
        check(|plan| plan.objective.global_batch = 12, "execution");
        check(|plan| plan.stages[0].data = 4, "stages[0].data");
        check(|plan| plan.stages[0].tensor = 0, "stages[0].tensor");
        check(|plan| plan.stages[0].mixed = [("gpu-a".into(), 1)].into(), "stages[0].mixed");
        check(|plan| plan.stages[0].layers.clear(), "stages[0].layers");
        check(|plan| plan.stages[0].layers[2].configuration = "half".into(), "stages[0].layers[2]");
        check(|plan| execution(plan).expert = 3, "execution.expert");
        check(|plan| execution(plan).zero = 4, "execution.zero");
        check(|plan| execution(plan).context = 2, "execution.context");
        check(|plan| execution(plan).exchange = Some(ContextExchange::Ring), "execution.context");
        check(|plan| execution(plan).context = 0, "execution.context");
        for shards in [0, 1, 2, 3] {
            let mut plan = good();
            execution(&mut plan).shards = Some(shards);
            assert_eq!(refused(&plan, "fsdp2").1.as_deref(), Some("execution.shards"));
        }
        check(|plan| execution(plan).microbatches = u32::MAX, "execution");
        check(|plan| execution(plan).schedule = Schedule::GPipe, "execution.schedule");
        check(|plan| execution(plan).schedule = Schedule::None, "execution.schedule");
    }

    #[test]
    fn stages_on_a_device_agree_with_the_schedule() {
        let check =
            |mut plan: super::JointPlanDocument, change: fn(&mut super::JointPlanDocument), place: &str| {
                change(&mut plan);
                for target in JOINT_TARGETS {
                    let (code, place_of_error, _) = refused(&plan, target.name);
                    assert_eq!((code, place_of_error.as_deref()), ("E029", Some(place)));
                }
            };
        let good = || interleaved(&["E 0", "1", "2", "3 H"], 2);
        for chunks in [0, 1, 3, 4, 8] {
            check(interleaved(&["E 0", "1", "2", "3 H"], chunks), |_| (), "execution.chunks");
        }
        check(good(), |plan| execution(plan).schedule = Schedule::OneFOneB, "execution.chunks");
        check(good(), |plan| execution(plan).schedule = Schedule::ZeroBubble, "execution.chunks");
        check(plan(&["E 0", "1 H"]), |plan| execution(plan).chunks = 0, "execution.chunks");
        let odd = |plan: &mut super::JointPlanDocument| {
            execution(plan).microbatches = 7;
            plan.objective.global_batch = 14;
        };
        check(good(), odd, "execution.microbatches");
        check(good(), |plan| plan.stages[3].tensor = 4, "stages[3].tensor");
        let folded = || dualpipe_v(&["E 0", "1", "2", "3 H"]);
        check(folded(), |plan| execution(plan).chunks = 4, "execution.chunks");
        check(dualpipe_v(&["E 0", "1 H"]), |_| (), "execution.chunks");
        let few = |plan: &mut super::JointPlanDocument| {
            execution(plan).microbatches = 3;
            plan.objective.global_batch = 6;
        };
        check(folded(), few, "execution.microbatches");
        check(folded(), |plan| plan.stages[2].tensor = 4, "stages[2].tensor");
        check(good(), |plan| plan.stages[2].kind = None, "stages[2].kind");
    }

    /// A feature that a joint plan can have, at a stage of ZeRO.
    struct Feature {
        /// Name of the feature, in the words of the table.
        name: &'static str,
        /// Plans without and with the feature, equal in everything else.
        without: fn(u32) -> JointPlanDocument,
        with: fn(u32) -> JointPlanDocument,
    }

    fn features() -> Vec<Feature> {
        type Made = fn(u32) -> JointPlanDocument;
        fn changed(zero: u32, change: impl FnOnce(&mut JointPlanDocument)) -> JointPlanDocument {
            let mut plan = whole(zero);
            change(&mut plan);
            plan
        }
        const WHOLE: Made = whole;
        const PIPED: Made = |_| piped(0);
        let features: [(&str, Made, Made); 33] = [
            ("stages", WHOLE, |_| piped(0)),
            ("stages with different numbers of layers", PIPED, |_| with(plan(&["E 0", "1 2 3 H"]), 1, 2, 0)),
            (
                "several stages of a device (`--schedule interleaved`)",
                |_| plan(&["E 0 1", "2 3 H"]),
                |_| interleaved(&["E 0", "1", "2", "3 H"], 2),
            ),
            ("`--schedule zero-bubble`", PIPED, |_| {
                let mut plan = piped(0);
                execution(&mut plan).schedule = Schedule::ZeroBubble;
                plan
            }),
            ("`--schedule zero-bubble-2p`", PIPED, |_| {
                let mut plan = piped(0);
                execution(&mut plan).schedule = Schedule::ZeroBubbleTwice;
                plan
            }),
            (
                "`--schedule dualpipe-v`",
                |_| plan(&["E 0 1", "2 3 H"]),
                |_| dualpipe_v(&["E 0", "1", "2", "3 H"]),
            ),
            ("tensor parallelism", WHOLE, |zero| with(whole(zero), 2, 2, zero)),
            ("tensor parallelism that differs between stages", PIPED, |_| {
                let mut plan = piped(0);
                plan.stages[1].tensor = 4;
                plan
            }),
            ("data parallelism", WHOLE, |zero| {
                let mut plan = with(whole(zero), 1, 4, zero);
                execution(&mut plan).microbatches = 4;
                plan.objective.global_batch = 16;
                plan
            }),
            (
                "context parallelism by a ring, with ZeRO 3",
                |_| whole(3),
                |_| changed(3, |plan| divide(plan, 2, ContextExchange::Ring)),
            ),
            (
                "context parallelism by all-to-alls, with ZeRO 3",
                |_| whole(3),
                |_| changed(3, |plan| divide(plan, 2, ContextExchange::AllToAll)),
            ),
            (
                "expert parallelism, with ZeRO 3",
                |_| whole(3),
                |_| changed(3, |plan| execution(plan).expert = 2),
            ),
            (
                "expert parallelism with tensor parallelism",
                |_| with(whole(0), 2, 2, 3),
                |_| {
                    let mut plan = with(whole(0), 2, 2, 3);
                    execution(&mut plan).expert = 2;
                    plan
                },
            ),
            ("ZeRO 0 with several copies", |_| whole(3), |_| whole(0)),
            ("ZeRO 1 in one stage", |_| whole(3), |_| whole(1)),
            ("ZeRO 2 in one stage", |_| whole(3), |_| whole(2)),
            ("ZeRO 3 in one stage", |_| whole(2), |_| whole(3)),
            ("ZeRO 1 in a pipeline", PIPED, |_| piped(1)),
            ("ZeRO 2 and 3 in a pipeline", PIPED, |_| piped(3)),
            (
                "ZeRO 3 over groups of copies",
                |_| with(whole(3), 1, 4, 3),
                |_| {
                    let mut plan = with(whole(3), 1, 4, 3);
                    execution(&mut plan).shards = Some(2);
                    plan
                },
            ),
            (
                "ZeRO 1 over groups of copies, in a pipeline",
                |_| with(piped(1), 1, 4, 1),
                |_| {
                    let mut plan = with(piped(1), 1, 4, 1);
                    execution(&mut plan).shards = Some(2);
                    plan
                },
            ),
            (
                "states of the optimizer on the host, with ZeRO 1",
                |_| whole(1),
                |_| changed(1, |plan| execution(plan).offload = true),
            ),
            (
                "states of the optimizer on the host, with ZeRO 3",
                |_| whole(3),
                |_| changed(3, |plan| execution(plan).offload = true),
            ),
            ("recomputation of all layers", WHOLE, |zero| with(plan(&["E 0f 1f 2f 3f H"]), 1, 2, zero)),
            ("selective recomputation of all layers", WHOLE, |zero| {
                with(plan(&["E 0s 1s 2s 3s H"]), 1, 2, zero)
            }),
            ("recomputation of the first layers of a stage", WHOLE, |zero| {
                with(plan(&["E 0f 1f 2 3 H"]), 1, 2, zero)
            }),
            ("recomputation of other layers", WHOLE, |zero| with(plan(&["E 0 1f 2 3s H"]), 1, 2, zero)),
            ("activations on the host", WHOLE, |zero| with(plan(&["E 0o 1o 2 3 H"]), 1, 2, zero)),
            ("microbatches", WHOLE, |zero| {
                changed(zero, |plan| {
                    execution(plan).microbatches = 4;
                    plan.objective.global_batch = 8;
                })
            }),
            ("devices of several kinds", PIPED, |_| {
                let mut plan = piped(0);
                plan.stages[1].kind = Some("gpu-b".into());
                plan
            }),
            ("a stage with devices of two kinds", WHOLE, |zero| {
                changed(zero, |plan| {
                    plan.stages[0].kind = None;
                    plan.stages[0].mixed = [("gpu-a".into(), 1), ("gpu-b".into(), 1)].into();
                })
            }),
            ("a precision (`--precision`)", WHOLE, |zero| {
                changed(zero, |plan| plan.options.get_or_insert_default().precision = Some(Precision::Bf16))
            }),
            ("a reserve (`--memory-reserve`)", WHOLE, |zero| {
                changed(zero, |plan| plan.options.get_or_insert_default().memory_reserve = Some(1 << 30))
            }),
        ];
        features.into_iter().map(|(name, without, with)| Feature { name, without, with }).collect()
    }

    /// One stage with two copies.
    fn whole(zero: u32) -> JointPlanDocument {
        with(plan(&["E 0 1 2 3 H"]), 1, 2, zero)
    }

    /// Two stages with two copies.
    fn piped(zero: u32) -> JointPlanDocument {
        with(plan(&["E 0 1", "2 3 H"]), 1, 2, zero)
    }

    /// A row of the table on the page: the targets that write, note and refuse the feature, and those that drop it.
    fn row(feature: &Feature) -> [Vec<String>; 4] {
        let mut row = [const { Vec::new() }; 4];
        for target in JOINT_TARGETS {
            // `fully_shard` divides states whenever there are copies.
            let zero = if target.name == "fsdp2" { 3 } else { 0 };
            let export = match export_joint_noted(&(feature.with)(zero), target.name) {
                Err(error) => {
                    row[2].push(format!("{} ({})", target.name, error.code()));
                    continue;
                }
                Ok(export) => export,
            };
            let plain = export_joint_noted(&(feature.without)(zero), target.name)
                .unwrap_or_else(|error| panic!("{} without {}: {error}", target.name, feature.name));
            let noted = export.notes.iter().any(|note| !plain.notes.contains(note));
            let column = match (export.text != plain.text, noted) {
                (true, _) => 0,
                (false, true) => 1,
                (false, false) => 3,
            };
            row[column].push(target.name.into());
        }
        row
    }

    #[test]
    fn a_joint_plan_is_written_noted_or_refused_as_the_page_says() {
        let page = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/runtimes.md");
        let page = std::fs::read_to_string(page).unwrap();
        let mut table =
            String::from("| a joint plan has | written | noted | refused |\n| --- | --- | --- | --- |\n");
        for feature in features() {
            let [written, noted, refused, dropped] = row(&feature).map(|targets| targets.join(", "));
            assert!(dropped.is_empty(), "{dropped}: {} is dropped", feature.name);
            table.push_str(&format!("| {} | {written} | {noted} | {refused} |\n", feature.name));
        }
        let table = table.replace("|  |", "| |").replace("|  |", "| |");
        assert!(page.contains(&table), "docs/runtimes.md should have this table:\n{table}");
    }

    #[test]
    fn zero_bubble_on_one_device_is_1f1b() {
        let whole = with(plan(&["E 0f 1 H"]), 1, 1, 0);
        for schedule in [Schedule::ZeroBubble, Schedule::ZeroBubbleTwice] {
            let mut apart = whole.clone();
            execution(&mut apart).schedule = schedule;
            assert_eq!(text(&apart, "fsdp2"), text(&whole, "fsdp2"));
        }
    }
}
