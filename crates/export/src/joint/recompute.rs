//! Recomputation as runtimes express it: the same for all layers, or for the first layers of every stage.

use super::plan::{Joint, Layer, Recompute};
use crate::Result;
use crate::error::JointError;

/// Hint for layers with different configurations.
const ALIKE: &str = "plan with recompute=full, recompute=selective or without it, or export to fsdp2, which names every layer";

/// Hint for layers other than the first of a stage.
const FIRST: &str =
    "where the layers of a stage are alike, give the configurations `full` to its first layers instead";

/// Hint for layers that keep activations on the host.
const ON_DEVICE: &str = "plan without recompute=offload, with offload=0 or offload=1, or export to fsdp2";

/// Recomputation of the transformer layers in Megatron Core.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Recomputation {
    /// No layer is recomputed.
    None,
    /// `selective`, for all layers.
    Selective,
    /// `full`, for all layers, each separately.
    All,
    /// `full`, for this number of first layers in every stage, or for all layers of a stage that has fewer.
    First(usize),
}

impl Recomputation {
    /// Recomputation of a plan.
    ///
    /// # Errors
    /// If it is neither the same for all layers nor for an equal number of first layers of every stage (E025).
    pub(super) fn new(plan: &Joint) -> Result<Recomputation> {
        only_numbered(plan)?;
        on_device(
            plan,
            "Megatron moves inputs of some modules to the host, not all that a layer keeps for its backward pass",
        )?;
        let stack = || plan.layers().filter(|(_, layer)| layer.number.is_some());
        if stack().any(|(_, layer)| layer.recompute == Recompute::Selective) {
            return match stack().find(|(_, layer)| layer.recompute != Recompute::Selective) {
                None => Ok(Recomputation::Selective),
                Some((stage, layer)) => {
                    let rule = "Megatron recomputes selectively in all layers or in none";
                    Err(refuse(stage, layer, rule.into(), ALIKE))
                }
            };
        }
        if stack().all(|(_, layer)| layer.recompute == Recompute::Full) {
            return Ok(Recomputation::All);
        }
        let mut largest = 0;
        for stage in &plan.stages {
            largest =
                largest.max(stage.layers.iter().filter(|layer| layer.recompute == Recompute::Full).count());
        }
        if largest == 0 {
            return Ok(Recomputation::None);
        }
        for (index, stage) in plan.stages.iter().enumerate() {
            let numbered = stage.layers.iter().filter(|layer| layer.number.is_some());
            let full = numbered.clone().filter(|layer| layer.recompute == Recompute::Full).count();
            let ahead = numbered.clone().take_while(|layer| layer.recompute == Recompute::Full).count();
            let Some(next) = numbered.clone().nth(ahead) else { continue };
            if full > ahead {
                let rule = "Megatron recomputes the first layers of a stage, and a later layer of this one is `full`";
                return Err(refuse(index, next, rule.into(), FIRST));
            }
            if ahead < largest {
                let rule = format!(
                    "Megatron recomputes equally many first layers in every stage: {largest} in another stage, {ahead} in this"
                );
                return Err(refuse(index, next, rule, ALIKE));
            }
        }
        Ok(Recomputation::First(largest))
    }
}

/// The configuration common to all transformer layers.
///
/// # Errors
/// If they have different ones (E025).
pub(super) fn of_all(plan: &Joint, runtime: &'static str) -> Result<Recompute> {
    only_numbered(plan)?;
    let mut stack = plan.layers().filter(|(_, layer)| layer.number.is_some());
    let Some((_, first)) = stack.next() else { return Ok(Recompute::None) };
    match stack.find(|(_, layer)| layer.recompute != first.recompute) {
        None => Ok(first.recompute),
        Some((stage, layer)) => {
            let rule = format!(
                "`{}` has `{}` and {runtime} treats all layers alike",
                first.name,
                first.recompute.name()
            );
            Err(refuse(stage, layer, rule, ALIKE))
        }
    }
}

/// Refuses all recomputation.
///
/// # Errors
/// If a layer is recomputed (E025).
pub(super) fn no_layer(plan: &Joint, rule: &'static str, help: &'static str) -> Result<()> {
    match plan.layers().find(|(_, layer)| layer.recompute != Recompute::None) {
        None => Ok(()),
        Some((stage, layer)) => Err(refuse(stage, layer, rule.into(), help)),
    }
}

/// Refuses activations on the host.
///
/// # Errors
/// If a layer has them there (E025).
pub(super) fn on_device(plan: &Joint, rule: &'static str) -> Result<()> {
    match plan.layers().find(|(_, layer)| layer.recompute == Recompute::Offload) {
        None => Ok(()),
        Some((stage, layer)) => Err(refuse(stage, layer, rule.into(), ON_DEVICE)),
    }
}

/// Refuses to recompute an embedding or a head.
fn only_numbered(plan: &Joint) -> Result<()> {
    let other = |(_, layer): &(usize, &Layer)| layer.number.is_none() && layer.recompute != Recompute::None;
    match plan.layers().find(other) {
        None => Ok(()),
        Some((stage, layer)) => {
            Err(refuse(stage, layer, "only transformer layers are recomputed".into(), ALIKE))
        }
    }
}

fn refuse(stage: usize, layer: &Layer, rule: String, help: &'static str) -> crate::ExportError {
    JointError::Recomputation {
        layer: layer.name.to_owned(),
        stage: stage + 1,
        found: layer.recompute.name(),
        rule,
        help,
        at: layer.at.clone(),
    }
    .into()
}

#[cfg(test)]
mod tests {
    use super::super::testing::{plan, refused};
    use super::*;

    fn of(stages: &[&str]) -> Recomputation {
        Recomputation::new(&Joint::read(&plan(stages)).unwrap()).unwrap()
    }

    #[test]
    fn megatron_recomputes_all_layers_or_the_first_of_every_stage() {
        assert_eq!(of(&["E 0", "1 H"]), Recomputation::None);
        assert_eq!(of(&["E 0s", "1s H"]), Recomputation::Selective);
        assert_eq!(of(&["E 0f 1f", "2f H"]), Recomputation::All);
        assert_eq!(of(&["E 0f 1", "2f 3 H"]), Recomputation::First(1));
        // If a stage has fewer layers, all of them.
        assert_eq!(of(&["E 0f 1f 2", "3f H"]), Recomputation::First(2));
        assert_eq!(of(&["E", "0f 1f 2 H"]), Recomputation::First(2));
    }

    #[test]
    fn other_recomputation_is_refused_with_the_stage() {
        let refusal = |stages: &[&str]| {
            let (code, place, message) = refused(&plan(stages), "megatron-lm");
            assert_eq!(code, "E025");
            (place.unwrap_or_default(), message)
        };
        let (place, message) = refusal(&["E 0f 1f", "2f 3 H"]);
        assert_eq!(place, "stages[1].layers[1]");
        assert_eq!(
            message,
            "`decoder.layer.3` of stage 2 has the configuration `none`, but Megatron recomputes equally many first layers \
             in every stage: 2 in another stage, 1 in this"
        );
        assert_eq!(refusal(&["E 0 1f", "2 3f H"]).0, "stages[0].layers[1]");
        assert_eq!(refusal(&["E 0s 1s", "2s 3f H"]).0, "stages[1].layers[1]");
        assert_eq!(refusal(&["Es 0s 1s H"]).0, "stages[0].layers[0]");
    }

    #[test]
    fn layers_alike_have_one_configuration() {
        let document = plan(&["E 0s 1s H"]);
        assert_eq!(of_all(&Joint::read(&document).unwrap(), "torchtitan"), Ok(Recompute::Selective));
        let (code, place, _) = refused(&plan(&["E 0s 1", "2 H"]), "torchtitan");
        assert_eq!((code, place.as_deref()), ("E025", Some("stages[0].layers[2]")));
    }
}
