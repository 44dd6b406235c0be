//! Published recipes of training runs: those of `data/recipes.toml`.

use std::sync::LazyLock;

use serde::Deserialize;
use stagewright_core::document::Schedule;

/// A published recipe: the degrees of a training run, whatever its model and its number of copies.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recipe {
    /// Name, by which it is compared.
    #[serde(skip)]
    pub name: String,
    /// The publication.
    pub source: String,
    /// Degree of tensor parallelism.
    pub tp: u32,
    /// Devices of a pipeline.
    pub pp: u32,
    /// Degree of context parallelism.
    #[serde(default = "no_division")]
    pub cp: u32,
    /// Degree of expert parallelism.
    #[serde(default = "no_division")]
    pub ep: u32,
    /// Stage of ZeRO.
    #[serde(default)]
    pub zero: u32,
    /// Configuration of all layers of a stack.
    pub recompute: String,
    /// Schedules that the plan may have.
    #[serde(default = "one_f_one_b")]
    pub schedules: Vec<Schedule>,
    /// Stages per device under schedules with several; `None` for any number.
    pub chunks: Option<u32>,
    /// How the layers of a stack are divided; `None` for any cut.
    pub cut: Option<Cut>,
}

/// A rule that divides the layers of a stack among stages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Cut {
    /// Every stage has as many layers.
    Even,
    /// Every stage has as many layers, where the embedding on the first and the head on the last count as one each.
    Ends,
}

fn no_division() -> u32 {
    1
}

fn one_f_one_b() -> Vec<Schedule> {
    vec![Schedule::OneFOneB]
}

impl Cut {
    /// Numbers of layers of the stages; `None` if the layers do not divide.
    pub fn divide(self, layers: u32, stages: u32) -> Option<Vec<u32>> {
        let ends = match self {
            Cut::Even => 0,
            Cut::Ends => 2,
        };
        let each = layers.checked_add(ends)?.checked_div(stages).filter(|&each| each > 0)?;
        if each.checked_mul(stages)? != layers + ends {
            return None;
        }
        let mut cut = vec![each; stages as usize];
        if self == Cut::Ends {
            *cut.first_mut()? -= 1;
            let last = cut.last_mut()?;
            *last = last.checked_sub(1)?;
        }
        Some(cut)
    }
}

static RECIPES: LazyLock<Vec<Recipe>> = LazyLock::new(|| {
    let text = include_str!("../../../data/recipes.toml");
    read_all(text).unwrap_or_else(|error| panic!("data/recipes.toml: {error}"))
});

fn read_all(text: &str) -> Result<Vec<Recipe>, toml::de::Error> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct File {
        recipes: toml::Table,
    }
    let file: File = toml::from_str(text)?;
    let read = |(name, recipe): (String, toml::Value)| Ok(Recipe { name, ..recipe.try_into()? });
    file.recipes.into_iter().map(read).collect()
}

/// The recipes of `data/recipes.toml`, by their names.
pub fn recipes() -> &'static [Recipe] {
    &RECIPES
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recipes_are_complete() {
        assert!(recipes().len() > 15);
        for recipe in recipes() {
            let Recipe { name, tp, pp, cp, ep, zero, recompute, schedules, chunks, cut, source } = recipe;
            assert!([tp, pp, cp, ep].iter().all(|&&degree| degree > 0) && *zero < 4, "{name}");
            assert!(["none", "selective", "full"].contains(&recompute.as_str()), "{name}");
            assert!(!schedules.is_empty() && source.len() > 20, "{name}");
            let is_interleaved = schedules.contains(&Schedule::Interleaved);
            assert!(chunks.is_none_or(|chunks| chunks > 1 && is_interleaved && *pp > 1), "{name}");
            // A rule says how many layers a stage has only if the number of stages is known.
            assert!(cut.is_none() || (schedules.len() == 1 && is_interleaved == chunks.is_some()), "{name}");
            assert!(cut.is_none() || !schedules.contains(&Schedule::DualPipeV), "{name}");
        }
    }

    #[test]
    fn published_models_have_the_published_cuts() {
        let cut = |name: &str, layers: u32| {
            let recipe = recipes().iter().find(|recipe| recipe.name == name).expect("a recipe");
            recipe.cut.expect("a rule").divide(layers, recipe.pp * recipe.chunks.unwrap_or(1))
        };
        assert_eq!(cut("bloom-176b", 70), Some([&[5][..], &[6; 10], &[5]].concat()));
        assert_eq!(cut("llama3-405b", 126), Some([&[0][..], &[1; 126], &[0]].concat()));
        assert_eq!(cut("megatron-selective-530b", 105), Some(vec![1; 105]));
        assert_eq!(cut("mt-nlg-530b", 105), Some(vec![3; 35]));
        assert_eq!(cut("bloom-176b", 71), None);
        assert_eq!(Cut::Even.divide(0, 1), None);
        assert_eq!(Cut::Even.divide(4, 0), None);
        assert_eq!(Cut::Ends.divide(0, 1), Some(vec![0]));
    }
}
