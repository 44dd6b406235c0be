//! Export of local plans to the programs that run a language model on one machine.
//!
//! A plan is a command line of llama.cpp with what follows from it. It is read once, into [`Local`], which checks that the
//! line and the document agree. A target then writes the line in the notation of its program, or refuses: no tensor is moved,
//! and no option left out, to make a plan fit. Notes say what memory and time the plan counts on, and what differs.

mod notes;
pub mod plan;
mod targets;
#[cfg(test)]
mod testing;

pub use plan::Local;
pub use targets::LOCAL_TARGETS;

use stagewright_core::document::LocalPlanDocument;
use stagewright_formats::nearest::nearest;

use crate::{Export, ExportError, Result};

/// A program that runs a language model on one machine.
#[derive(Debug)]
pub struct LocalTarget {
    /// Name on the command line.
    pub name: &'static str,
    /// Description of the output, for display.
    pub summary: &'static str,
    /// Limits of the target: the parts of a plan that it cannot express, in one line.
    pub limits: &'static str,
    /// Writes a plan, or returns the reason why it cannot.
    pub write: fn(&Local) -> Result<Export>,
}

/// Looks up a target for local plans by name.
///
/// # Errors
/// If there is no such target (E001, with the most similar name).
pub fn local_target(name: &str) -> Result<&'static LocalTarget> {
    if let Some(target) = LOCAL_TARGETS.iter().find(|target| target.name == name) {
        return Ok(target);
    }
    let known: Vec<&'static str> = LOCAL_TARGETS.iter().map(|target| target.name).collect();
    let nearest = nearest(name, known.iter().copied());
    Err(ExportError::UnknownTarget { name: name.to_owned(), nearest, known })
}

/// Writes a local plan for a program, with usage notes.
///
/// # Errors
/// If there is no such target (E001), if the document has no setting or contradicts itself (E002 and E029), or if the program
/// cannot run it (E016, E017 and E032).
pub fn export_local_noted(plan: &LocalPlanDocument, target: &str) -> Result<Export> {
    let target = local_target(target)?;
    (target.write)(&Local::read(plan)?)
}

/// Writes a local plan for a program.
///
/// # Errors
/// If there is no such target (E001), if the document has no setting or contradicts itself (E002 and E029), or if the program
/// cannot run it (E016, E017 and E032).
pub fn export_local(plan: &LocalPlanDocument, target: &str) -> Result<String> {
    export_local_noted(plan, target).map(|export| export.text)
}

#[cfg(test)]
mod tests {
    use stagewright_core::document::{LocalPlanDocument, PlanStatus};

    use super::testing::{one_device, refused, two_devices};
    use super::{LOCAL_TARGETS, local_target};

    #[test]
    fn targets_are_found_by_name() {
        for target in LOCAL_TARGETS {
            assert!(std::ptr::eq(local_target(target.name).unwrap(), *target));
        }
        let error = local_target("llama-srever").unwrap_err();
        assert_eq!((error.code().name, error.to_string().contains("llama-server")), ("E001", true));
    }

    #[test]
    fn documents_without_a_setting_are_refused() {
        let mut plan = one_device();
        (plan.setting, plan.status) = (None, PlanStatus::Infeasible);
        for target in LOCAL_TARGETS {
            let (code, place, message) = refused(&plan, target.name);
            assert_eq!((code, place.as_deref()), ("E002", Some("status")));
            assert!(message.contains("infeasible"), "{message}");
        }
    }

    #[test]
    fn flags_that_disagree_with_the_document_are_refused_with_their_place() {
        let check = |change: fn(&mut LocalPlanDocument), place: &str| {
            let mut plan = two_devices();
            change(&mut plan);
            for target in LOCAL_TARGETS {
                let (code, found, message) = refused(&plan, target.name);
                assert_eq!((code, found.as_deref()), ("E029", Some(place)), "{}: {message}", target.name);
            }
        };
        fn setting(plan: &mut LocalPlanDocument) -> &mut stagewright_core::document::LocalSettingDocument {
            plan.setting.as_mut().expect("it has one")
        }
        check(|plan| setting(plan).flags.push_str(" -nglx 3"), "setting.flags");
        check(|plan| setting(plan).flags.push_str(" -dev CUDA7"), "setting.flags");
        check(|plan| setting(plan).flags.push_str(" -dev CUDA0,CUDA1"), "setting.devices");
        check(|plan| setting(plan).gpu_layers = 8, "setting.gpu_layers");
        check(|plan| setting(plan).context = 4096, "setting.context");
        check(|plan| setting(plan).sequences = 2, "setting.sequences");
        check(|plan| setting(plan).batch = 4096, "setting.batch");
        check(|plan| setting(plan).micro_batch = 1024, "setting.micro_batch");
        check(|plan| setting(plan).cache[1] = "q4_0".into(), "setting.cache");
        check(|plan| setting(plan).blocks = u64::MAX, "setting.blocks");
        check(|plan| setting(plan).devices[0].slots = [6, 2], "setting.devices[0].slots");
        check(|plan| setting(plan).devices[1].slots = [6, 99], "setting.devices[1].slots");
    }
}
