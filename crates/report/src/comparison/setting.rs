//! The setting of a comparison: devices, costs and options of the models, and the command.

use serde::Serialize;
use stagewright_core::document::{ClusterDocument, ModelOptionsDocument, OriginDocument, SourcesDocument};

use super::Comparison;
use crate::table;
use crate::units::{name, seconds};

/// Devices, costs and options of a model in a comparison.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Setting {
    /// Name of the cluster with its devices, in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster: Option<String>,
    /// Name of the runtime that joint plans are priced for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runtime: Option<String>,
    /// Where the seconds of the operators come from in the best plan.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sources: Option<SourcesDocument>,
    /// Options that the model and the cluster leave open; only those that were given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub options: Option<ModelOptionsDocument>,
    /// The program that made the comparison.
    #[serde(skip)]
    pub origin: Option<OriginDocument>,
    /// Seeds of the contenders that depend on one.
    #[serde(skip)]
    pub seeds: Vec<u64>,
}

/// Names among files of measurements that stand for prices of what was not measured.
const PRICES: [&str; 2] = ["closed", "learned"];

impl Setting {
    /// The setting of a model on a cluster, before a plan is known.
    pub fn new(cluster: &ClusterDocument, options: Option<&ModelOptionsDocument>) -> Setting {
        let kinds = cluster.kinds.iter().map(|kind| format!("{} × {}", kind.count, name(&kind.name)));
        let devices = kinds.collect::<Vec<_>>().join(", ");
        let cluster = match cluster.name.as_str() {
            "" => devices,
            own => format!("{}: {devices}", name(own)),
        };
        Setting { cluster: Some(cluster), options: options.cloned(), ..Setting::default() }
    }

    /// Where the costs come from, in words.
    fn costs(&self) -> Option<String> {
        let shares = self.sources.as_ref().map(table::sources);
        let named = self.options.iter().flat_map(|options| &options.costs).map(String::as_str);
        let files: Vec<&str> = named.filter(|name| !PRICES.contains(name)).collect();
        let files = (!files.is_empty()).then(|| format!("measurements of {}", files.join(", ")));
        let words: Vec<String> = shares.into_iter().chain(files).collect();
        (!words.is_empty()).then(|| words.join("; "))
    }

    fn layers(&self) -> Option<String> {
        let is_whole = self.options.as_ref().is_some_and(|options| options.whole_layers);
        is_whole.then(|| "whole: the operators of a layer share a device".into())
    }
}

/// Facts about comparisons, for the lines below or above their table: a line for all models where they agree, otherwise one
/// for each.
pub fn facts(comparisons: &[Comparison]) -> Vec<(&'static str, String)> {
    let mut lines = Vec::new();
    if let [comparison] = comparisons {
        lines.extend(best_known(comparison));
    }
    let each = |fact: &dyn Fn(&Setting) -> Option<String>| -> Vec<String> {
        let mut all = comparisons.iter().map(|comparison| fact(&comparison.setting));
        match all.next() {
            Some(first) if all.all(|other| other == first) => first.into_iter().collect(),
            _ => comparisons
                .iter()
                .filter_map(|comparison| {
                    Some(format!("{}: {}", name(&comparison.model), fact(&comparison.setting)?))
                })
                .collect(),
        }
    };
    lines.extend(each(&|setting| setting.cluster.clone()).into_iter().map(|fact| ("cluster", fact)));
    lines.extend(each(&|setting| setting.runtime.clone()).into_iter().map(|fact| ("runtime", fact)));
    lines.extend(each(&Setting::costs).into_iter().map(|fact| ("costs", fact)));
    lines.extend(each(&Setting::layers).into_iter().map(|fact| ("layers", fact)));
    let Some(setting) = comparisons.first().map(|comparison| &comparison.setting) else { return lines };
    lines.extend(seeds(setting));
    if let Some(origin) = &setting.origin {
        lines.extend(origin.command.iter().map(|command| ("command", command.clone())));
        let date = origin.date.as_ref().map(|date| format!(", {date}"));
        lines.push(("version", format!("stagewright {}{}", origin.version, date.unwrap_or_default())));
    }
    lines
}

/// Facts about the figures of a comparison, without those about their origin.
pub(crate) fn facts_of_figures(comparison: &Comparison) -> Vec<(&'static str, String)> {
    best_known(comparison).into_iter().chain(seeds(&comparison.setting)).collect()
}

/// The best known value, and the one that the library records.
fn best_known(comparison: &Comparison) -> Option<(&'static str, String)> {
    let best = comparison.best_known_s.map(seconds)?;
    let recorded = comparison.recorded_s.map(|value| format!(" ({} in the library)", seconds(value)));
    Some(("best known", best + &recorded.unwrap_or_default()))
}

/// The seeds and the meaning of the values, if there are several seeds.
fn seeds(setting: &Setting) -> Option<(&'static str, String)> {
    let list: Vec<String> = setting.seeds.iter().map(u64::to_string).collect();
    let fact = format!(
        "{}: values are means ± half of the 95% interval of Student's t; what no seed changes ran once",
        list.join(", ")
    );
    (list.len() > 1).then_some(("seeds", fact))
}
