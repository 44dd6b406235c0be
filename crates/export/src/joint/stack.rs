//! The stack of transformer layers of a joint plan, divided among its stages.

use super::plan::{Joint, Layer};
use crate::error::{ExportError, Result, Sited};
use stagewright_report::units::name as shown;

/// Hint for a model whose layers do not form a single stack.
const HELP: &str =
    "plan again with the embedding in the first stage and the head in the last, or choose fewer stages";

/// Numbers of transformer layers.
#[derive(Debug)]
pub(super) struct Stack {
    /// Layers of the stack in each stage.
    pub(super) counts: Vec<usize>,
}

impl Stack {
    /// Counts the layers of the stack in every stage. Operators before the stack must be in the first stage, and those
    /// after it in the last.
    ///
    /// # Errors
    /// If the numbered layers do not form a single stack in order (E014), or another layer is in the wrong stage
    /// (E015).
    pub(super) fn new(plan: &Joint, runtime: &'static str) -> Result<Stack> {
        let no_stack = |why: String| Err(ExportError::NoStack { runtime, why });
        let mut counts = vec![0; plan.stages.len()];
        let mut name: Option<&str> = None;
        let mut next = 0;
        let layers = plan.layers().filter(|(_, layer)| layer.number.is_some()).count();
        if layers == 0 {
            return no_stack("the plan has no numbered layers".into());
        }
        for (stage, layer) in plan.layers() {
            let Some(numbered) = &layer.number else {
                if next > 0 && next < layers {
                    return no_stack(format!("`{}` is between layers of the stack", shown(layer.name)));
                }
                let after = next > 0;
                let wanted = if after { plan.stages.len() - 1 } else { 0 };
                if stage != wanted {
                    return Err(misplaced(plan, stage, layer, after));
                }
                continue;
            };
            let stack = *name.get_or_insert(&numbered.stack);
            if numbered.stack != stack {
                return no_stack(format!(
                    "the plan has several: `{}` and `{}`",
                    shown(stack),
                    shown(&numbered.stack)
                ));
            }
            if numbered.number != next as u64 {
                return no_stack(format!("layer {next} of `{}` is not where it belongs", shown(stack)));
            }
            next += 1;
            counts[stage] += 1;
        }
        Ok(Stack { counts })
    }

    /// Number of layers.
    pub(super) fn layers(&self) -> usize {
        self.counts.iter().sum()
    }

    /// Whether all stages have the same number of layers.
    pub(super) fn is_even(&self) -> bool {
        self.counts.windows(2).all(|pair| pair[0] == pair[1])
    }
}

fn misplaced(plan: &Joint, stage: usize, layer: &Layer, after: bool) -> ExportError {
    let rule = if after {
        "layers after the stack, such as the head, run in the last stage"
    } else {
        "layers before the stack, such as the embedding, run in the first stage"
    };
    let device = plan.stages[stage].kind.unwrap_or("its devices").to_owned();
    let sited = Sited { operator: layer.name.to_owned(), device, at: layer.at.clone() };
    ExportError::Misplaced {
        operator: Box::new(sited),
        stage: stage + 1,
        stages: plan.stages.len(),
        rule,
        help: HELP,
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{plan, refused};
    use super::*;

    #[test]
    fn layers_are_counted_by_stage() {
        let document = plan(&["E", "0 1 2", "3 H"]);
        let stack = Stack::new(&Joint::read(&document).unwrap(), "Megatron").unwrap();
        assert_eq!(
            (stack.counts.as_slice(), stack.layers(), stack.is_even()),
            ([0, 3, 1].as_slice(), 4, false)
        );
    }

    #[test]
    fn models_that_are_no_stack_are_refused() {
        let refusal = |stages: &[&str]| {
            let (code, place, message) = refused(&plan(stages), "megatron-lm");
            (code, place.unwrap_or_default(), message)
        };
        assert_eq!(refusal(&["E", "H"]).0, "E014");
        assert_eq!(refusal(&["E 0 2 H"]).0, "E014");
        assert_eq!(refusal(&["E 1 0 H"]).0, "E014");
        let (code, place, message) = refusal(&["E 0", "E 1 H"]);
        assert_eq!((code, place.as_str()), ("E014", ""));
        assert!(message.ends_with("`embeddings` is between layers of the stack"), "{message}");
        let (code, place, message) = refusal(&["E 0 1 H", "H"]);
        assert_eq!((code, place.as_str()), ("E015", "stages[0].layers[3]"));
        assert!(
            message.starts_with("`head` is on gpu-a, stage 1 of 2, but layers after the stack"),
            "{message}"
        );
        assert_eq!(refusal(&["E", "E 0 H"]).1, "stages[1].layers[0]");
        let mut several = plan(&["E 0 1 H"]);
        several.stages[0].layers[2].layer = "encoder.layer.1".into();
        assert_eq!(refused(&several, "torchtitan").0, "E014");
    }
}
