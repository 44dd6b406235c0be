//! Device class of the times of a profile, checked against the cluster.
//!
//! A profile does not state the device that it was measured on. With `--profile-class`, the cluster must have a
//! device of that class; without it, the class is unambiguous if all accelerators of the cluster have the same one.

use std::collections::{BTreeMap, BTreeSet};

use stagewright_core::document::ClusterDocument;
use stagewright_formats::Imported;
use stagewright_formats::nearest::{instead, nearest};
use stagewright_formats::reference::ACCELERATOR;

use crate::code::U011;
use crate::failure::{Failure, Result};

/// Assigns the times of a profile to their device class. `place` names the option that gives the class.
///
/// # Errors
/// If the cluster has no device of the requested class, or no class was requested and its accelerators are not all
/// of one class (U011).
pub(super) fn on(
    model: &mut Imported,
    asked: Option<&str>,
    cluster: &ClusterDocument,
    place: impl Fn(&str) -> String,
) -> Result<()> {
    if !model.format.has_option("profile_class") {
        return Ok(());
    }
    let classes: BTreeSet<&str> = cluster.kinds.iter().map(|kind| kind.class.as_str()).collect();
    if classes.contains(asked.unwrap_or(ACCELERATOR)) {
        return Ok(());
    }
    if let Some(asked) = asked {
        let meant = nearest(asked, classes.iter().copied());
        let meant = meant.map(|class| format!("; did you mean `{class}`?")).unwrap_or_default();
        return Err(Failure::new(U011, format!("the cluster has no device of class `{asked}`{meant}"))
            .at(place("profile_class"))
            .help(instead(asked, classes.iter().copied())));
    }
    let accelerators: BTreeSet<&str> =
        cluster.kinds.iter().filter(|kind| !kind.host).map(|kind| kind.class.as_str()).collect();
    let mut found = accelerators.iter();
    match (found.next(), found.next()) {
        (Some(only), None) => {
            rename(model, only);
            Ok(())
        }
        _ => Err(Failure::new(U011, "the profile does not state the class of the measured device")
            .at(place("profile_class"))
            .help(instead("", classes.iter().copied()))),
    }
}

/// Moves the times of the default profile class to another class.
fn rename(model: &mut Imported, class: &str) {
    let moved = |seconds: &mut BTreeMap<String, f64>| {
        if let Some(time) = seconds.remove(ACCELERATOR) {
            seconds.insert(class.to_owned(), time);
        }
    };
    for operator in &mut model.graph.operators {
        moved(&mut operator.seconds);
        for unsupported in operator.unsupported.iter_mut().filter(|name| *name == ACCELERATOR) {
            class.clone_into(unsupported);
        }
    }
    for tensor in &mut model.graph.tensors {
        moved(&mut tensor.seconds);
    }
}
