//! Where the figures of a page come from: the program and its options, the costs, and the devices in use.

use serde_json::Value;
use stagewright_core::document::{
    ClassDocument, ClusterDocument, JointPlanDocument, KindDocument, LocalPlanDocument, ModelOptionsDocument,
    OriginDocument, PlanDocument, ReplicaDocument, ServingPlanDocument, SourcesDocument,
};

use super::markup::{count, escape, table};
use super::names::visible;
use super::shell::Section;
use super::summary::facts;
use crate::comparison::{Comparison, Setting};
use crate::joint::{kinds_of, pipeline_devices};
use crate::table::sources;
use crate::{devices, units};

/// The origin that plan documents of all kinds and comparisons state.
pub(super) struct Origin<'a> {
    origin: Option<&'a OriginDocument>,
    /// The cluster of a comparison, in words; `None` on the page of a plan, whose heading names it.
    cluster: Option<&'a str>,
    options: Option<&'a ModelOptionsDocument>,
    sources: Option<&'a SourcesDocument>,
    devices: Vec<Used<'a>>,
}

/// A kind of devices that a plan uses.
struct Used<'a> {
    kind: &'a KindDocument,
    /// The figures of its class; `None` if all of its times are measured.
    class: Option<&'a ClassDocument>,
    /// Number of devices in use.
    count: u64,
}

impl<'a> Origin<'a> {
    /// The origin of a placement on a cluster.
    pub(super) fn of_placement(plan: &'a PlanDocument, cluster: &'a ClusterDocument) -> Origin<'a> {
        let in_use = |kind: &KindDocument| {
            let devices = plan.devices.iter().filter(|device| device.kind == kind.name);
            devices.map(|device| u64::from(device.replicas)).fold(0, u64::saturating_add)
        };
        Origin {
            origin: plan.origin.as_ref(),
            options: plan.model.as_ref(),
            sources: plan.sources.as_ref(),
            cluster: None,
            devices: used(cluster, in_use),
        }
    }

    /// The origin of a joint plan.
    pub(super) fn of_joint(plan: &'a JointPlanDocument) -> Origin<'a> {
        let devices = plan.cluster.as_ref().map(|cluster| {
            used(cluster, |kind| {
                let stages = plan.stages.iter().take(pipeline_devices(plan));
                let on_kinds = stages.flat_map(|stage| kinds_of(plan, stage, cluster));
                let on_kind = on_kinds.filter(|(of_stage, _)| of_stage.name == kind.name);
                on_kind.map(|(_, devices)| devices).fold(0, u64::saturating_add)
            })
        });
        Origin {
            origin: plan.origin.as_ref(),
            options: plan.options.as_ref(),
            sources: plan.sources.as_ref(),
            cluster: None,
            devices: devices.unwrap_or_default(),
        }
    }

    /// The origin of a local plan, whose host runs what no device does.
    pub(super) fn of_local(plan: &'a LocalPlanDocument) -> Origin<'a> {
        let in_use = |kind: &KindDocument| {
            let devices = plan.setting.iter().flat_map(|setting| &setting.devices);
            let count = devices.filter(|device| device.kind == kind.name).count() as u64;
            if kind.host { u64::from(plan.setting.is_some()) } else { count }
        };
        Origin {
            origin: plan.origin.as_ref(),
            options: plan.options.as_ref(),
            sources: None,
            cluster: None,
            devices: used(&plan.cluster, in_use),
        }
    }

    /// The origin of a serving plan.
    pub(super) fn of_serving(plan: &'a ServingPlanDocument) -> Origin<'a> {
        let in_use = |kind: &KindDocument| {
            let of_replica = |replica: &ReplicaDocument| {
                let stages = replica.stages.iter().filter(|stage| stage.kind == kind.name);
                let devices = stages.map(|stage| stage.tensor.saturating_mul(stage.data));
                devices.fold(0, u64::saturating_add).saturating_mul(replica.count)
            };
            plan.replicas.iter().map(of_replica).fold(0, u64::saturating_add)
        };
        Origin {
            origin: plan.origin.as_ref(),
            options: plan.options.as_ref(),
            sources: None,
            cluster: None,
            devices: used(&plan.cluster, in_use),
        }
    }

    /// The origin of a page that may have a comparison. The page of a comparison was made by the comparison, whichever
    /// command made the plan that it shows.
    pub(super) fn or_of(self, comparison: Option<&'a Comparison>) -> Origin<'a> {
        let Some(Setting { cluster, sources, options, origin, .. }) = comparison.map(|it| &it.setting) else {
            return self;
        };
        Origin {
            origin: origin.as_ref(),
            cluster: cluster.as_deref(),
            options: options.as_ref(),
            sources: sources.as_ref(),
            ..self
        }
    }

    /// Origin section.
    pub(super) fn section(&self) -> Section {
        let mut markup = String::from(
            "<h2 id=\"origin-title\">Origin</h2>\n<p class=\"lead\">Where the figures of this page come from.</p>\n",
        );
        markup.push_str(&facts(&self.facts()));
        if !self.devices.is_empty() {
            markup.push_str(&self.devices());
        }
        Section { id: "origin", title: "Origin", markup }
    }

    fn facts(&self) -> Vec<(&'static str, String)> {
        let text = |text: &str| format!("<bdi>{}</bdi>", escape(&visible(text)));
        let mut rows = Vec::new();
        if let Some(OriginDocument { version, date, command }) = self.origin {
            rows.extend(
                command.as_ref().map(|command| ("command", format!("<code>{}</code>", text(command)))),
            );
            rows.extend(date.as_ref().map(|date| ("date", text(date))));
            rows.push(("version", text(version)));
        }
        rows.extend(self.cluster.map(|cluster| ("cluster", text(cluster))));
        rows.extend(self.options.map(|options| ("options of the model", text(&options_of(options)))));
        rows.extend(self.sources.map(|shares| ("costs", sources(shares))));
        rows
    }

    /// Table of the devices in use, and the sources of their figures.
    fn devices(&self) -> String {
        let mut columns = vec![
            ("kind", true),
            ("class", true),
            ("in use", false),
            ("memory", false),
            ("reserved", false),
            ("peak in TFLOP/s", true),
            ("of it reached", false),
            ("memory bandwidth", false),
            ("launch", false),
            ("link", true),
            ("link between servers", true),
        ];
        let has_ram = self.devices.iter().any(|device| device.kind.ram.is_some());
        columns.extend(has_ram.then_some(("host's memory", false)));
        let rows = self.devices.iter().map(|device| device.row(has_ram));
        let mut markup = table("origin-table", "Figures of the devices in use", &columns, rows);
        let mut rows: Vec<(&str, String)> = Vec::new();
        for device in &self.devices {
            let source = device.class.and_then(|class| class.source.as_deref());
            let source = source.map(|source| format!("{}: {source}", device.kind.class));
            rows.extend(source.map(|source| ("source of the figures", escape(&visible(&source)))));
        }
        rows.dedup();
        if !rows.is_empty() {
            markup.push_str(&facts(&rows));
        }
        markup
    }
}

impl Used<'_> {
    /// Cells of the kind, with the memory of its host if `has_ram`.
    fn row(&self, has_ram: bool) -> Vec<String> {
        let Used { kind, class, count: in_use } = self;
        let bytes = |size: Option<f64>, none: &str| size.map_or_else(|| none.to_owned(), units::bytes);
        let or_none = |text: Option<String>| text.unwrap_or_default();
        let link = match (kind.host, kind.link) {
            (true, _) => "host".to_owned(),
            (false, link) => or_none(link.map(devices::link)),
        };
        let mut cells = vec![
            visible(&kind.name),
            visible(&kind.class),
            count(usize::try_from(*in_use).unwrap_or(usize::MAX)),
            bytes(kind.memory_bytes, "unlimited"),
            bytes(kind.reserve_bytes, ""),
            or_none(class.and_then(devices::peaks_of)),
            or_none(class.and_then(|class| class.efficiency).map(units::percent)),
            or_none(class.and_then(|class| class.memory_bandwidth).map(units::bandwidth)),
            or_none(class.map(|class| units::seconds(class.launch_overhead_s))),
            link,
            or_none(kind.server.map(|server| devices::link(server.link))),
        ];
        cells.extend(has_ram.then(|| or_none(kind.ram.map(|ram| bytes(ram.memory_bytes, "unlimited")))));
        cells.iter().map(|cell| escape(cell)).collect()
    }
}

/// The kinds of which a plan uses devices, or all kinds without a plan.
fn used<'a>(cluster: &'a ClusterDocument, in_use: impl Fn(&KindDocument) -> u64) -> Vec<Used<'a>> {
    let of_kind =
        |kind: &'a KindDocument| Used { kind, class: cluster.classes.get(&kind.class), count: in_use(kind) };
    let all: Vec<Used<'a>> = cluster.kinds.iter().map(of_kind).collect();
    let has_plan = all.iter().any(|used| used.count > 0);
    all.into_iter().filter(|used| !has_plan || used.count > 0).collect()
}

/// The options of a model in words: `whole layers; batch 8`.
fn options_of(options: &ModelOptionsDocument) -> String {
    let plain = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let texts = |name: &str, value: &Value| match value {
        Value::Bool(true) => vec![String::new()],
        Value::Array(values) => values.iter().map(plain).collect(),
        Value::Object(sizes) => sizes.iter().map(|(key, value)| format!("{key}={}", plain(value))).collect(),
        value if name == "memory_reserve" => vec![units::bytes(value.as_f64().unwrap_or(0.0))],
        value => vec![plain(value)],
    };
    // A struct of names, numbers and switches is an object.
    let Ok(Value::Object(fields)) = serde_json::to_value(options) else { return String::new() };
    let words = fields.iter().map(|(name, value)| {
        let texts = texts(name, value).join(", ");
        format!("{} {texts}", name.replace('_', " ")).trim_end().to_owned()
    });
    words.collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_words() {
        let options = ModelOptionsDocument {
            batch: Some(8),
            whole_layers: true,
            dims: [("past".to_owned(), 3), ("sequence".to_owned(), 128)].into(),
            memory_reserve: Some(16 << 30),
            costs: vec!["a.json".into(), "b.json".into()],
            ..ModelOptionsDocument::default()
        };
        let expected =
            "batch 8; costs a.json, b.json; dims past=3, sequence=128; memory reserve 16.0 GiB; whole layers";
        assert_eq!(options_of(&options), expected);
    }
}
