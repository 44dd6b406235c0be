//! Placements from other programs: a device for every operator, without the rest of a plan.
//!
//! ```json
//! {"conv1": "gpu0", "relu1": "gpu0", "fc": "gpu1"}
//! ["gpu0", "gpu0", "gpu1"]
//! {"devices": [{"name": "gpu0", "ops": ["conv1", "relu1"]}, {"name": "gpu1", "ops": ["fc"]}]}
//! ```
//!
//! The second form lists a device for each operator in the order of the model. A device is given by its name, or by its
//! number among all devices of the cluster, kind by kind. Operators that are unknown, missing or placed twice are
//! errors of the plan, wherever it is used.

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};
use stagewright_core::document::{ClusterDocument, DeviceDocument, PLAN_SCHEMA, PlanDocument};

use crate::code::{S007, S008};
use crate::error::{At, InputError, Result};
use crate::notation::Notation;
use crate::text::Sniff;
use crate::{Imported, unevaluated};

/// How an assignment is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Devices by operator.
    Map,
    /// Devices in the order of the operators.
    Order,
    /// Operators by device.
    Lists,
}

/// The form of a text; `None` for a plan document and for any other text.
pub(crate) fn detect(text: &str, json: &Sniff) -> Option<Form> {
    if text.trim_start().starts_with('[') {
        return Some(Form::Order);
    }
    match json.schema.as_deref() {
        None | Some(PLAN_SCHEMA) => {}
        Some(_) => return None,
    }
    let members: Members = serde_json::from_str(text).ok()?;
    match (members.status.or(members.solver).or(members.objective), members.devices) {
        (Some(_), _) => None,
        (None, Some(_)) => Some(Form::Lists),
        (None, None) => json.schema.is_none().then_some(Form::Map),
    }
}

/// Features that distinguish the forms from each other and from a plan document.
#[derive(Debug, Deserialize)]
struct Members {
    status: Option<IgnoredAny>,
    solver: Option<IgnoredAny>,
    objective: Option<IgnoredAny>,
    devices: Option<IgnoredAny>,
}

/// Reads an assignment as a plan without a value: zeros for the figures of the devices.
pub(crate) fn import(
    label: &str,
    text: &str,
    form: Form,
    model: &Imported,
    cluster: Option<&ClusterDocument>,
) -> Result<PlanDocument> {
    let cluster = cluster.or(model.graph.cluster.as_ref());
    let operators = &model.graph.operators;
    let mut devices = Devices { label, cluster, number_of: BTreeMap::new(), documents: Vec::new() };
    match form {
        Form::Map => {
            let Pairs(pairs) = Notation::Json.read(label, text)?;
            for (operator, device) in pairs {
                devices.place(&operator, &device, operator.clone())?;
            }
        }
        Form::Order => {
            let order: Vec<Device> = Notation::Json.read(label, text)?;
            if order.len() != operators.len() {
                let message =
                    format!("{} devices, and the model has {} operators", order.len(), operators.len());
                let help = "give a device for each operator, in the order of the model, or a map by name";
                return Err(InputError::new(S007, label, At::Whole, message, help));
            }
            for (index, (operator, device)) in operators.iter().zip(&order).enumerate() {
                devices.place(&format!("[{index}]"), device, operator.name.clone())?;
            }
        }
        Form::Lists => {
            let lists: Lists = Notation::Json.read(label, text)?;
            for (index, list) in lists.devices.into_iter().enumerate() {
                for operator in list.ops {
                    devices.place(&format!("devices[{index}].name"), &list.name, operator)?;
                }
            }
        }
    }
    if devices.documents.is_empty() && !operators.is_empty() {
        let help = "give a device for each operator of the model";
        return Err(InputError::new(S007, label, At::Whole, "no operator has a device", help));
    }
    Ok(unevaluated::plan(devices.documents))
}

/// A device: its name, or its number in the cluster.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged, expecting = "expected the name of a device, or its number")]
enum Device {
    Number(u32),
    Name(String),
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Lists {
    #[serde(default, rename = "schema")]
    _schema: Option<String>,
    devices: Vec<List>,
}

#[derive(Debug, Deserialize)]
struct List {
    name: Device,
    ops: Vec<String>,
}

/// The members of an object in their order. Duplicates are kept.
struct Pairs(Vec<(String, Device)>);

impl<'de> Deserialize<'de> for Pairs {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        struct Both;

        impl<'de> Visitor<'de> for Both {
            type Value = Pairs;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("an object with a device for every operator")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> std::result::Result<Pairs, A::Error> {
                let mut pairs = Vec::new();
                while let Some(pair) = map.next_entry()? {
                    pairs.push(pair);
                }
                Ok(Pairs(pairs))
            }
        }

        deserializer.deserialize_map(Both)
    }
}

/// The devices of an assignment, in the order in which they are named.
struct Devices<'a> {
    label: &'a str,
    cluster: Option<&'a ClusterDocument>,
    number_of: BTreeMap<String, usize>,
    documents: Vec<DeviceDocument>,
}

impl Devices<'_> {
    /// Places an operator; `place` is where the device is named.
    fn place(&mut self, place: &str, device: &Device, operator: String) -> Result<()> {
        let name = match device {
            Device::Name(name) => name.clone(),
            Device::Number(number) => self.numbered(place, *number)?,
        };
        let index = *self.number_of.entry(name).or_insert_with_key(|name| {
            let kind = self.cluster.and_then(|cluster| {
                let number = |kind: &str| name.strip_prefix(kind)?.parse::<u32>().ok();
                cluster.kinds.iter().find(|kind| number(&kind.name).is_some_and(|number| number < kind.count))
            });
            let kind = kind.map_or_else(
                || name.trim_end_matches(|digit: char| digit.is_ascii_digit()),
                |kind| kind.name.as_str(),
            );
            self.documents.push(unevaluated::device(name.clone(), kind.to_owned()));
            self.documents.len() - 1
        });
        self.documents[index].ops.push(operator);
        Ok(())
    }

    /// Name of the device with a number among all devices of the cluster.
    fn numbered(&self, place: &str, number: u32) -> Result<String> {
        let refused = |message: String, help: &str| {
            Err(InputError::at_path(S008, self.label, place.to_owned(), message, help))
        };
        let Some(cluster) = self.cluster else {
            return refused(
                format!("the device {number}, without a cluster"),
                "give a cluster, or names of devices",
            );
        };
        let mut left = number;
        for kind in &cluster.kinds {
            if left < kind.count {
                return Ok(format!("{}{left}", kind.name));
            }
            left -= kind.count;
        }
        let count: u64 = cluster.kinds.iter().map(|kind| u64::from(kind.count)).sum();
        refused(format!("the device {number}, and the cluster has {count}"), "count devices from 0")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::PlanFile;
    use crate::{ImportOptions, import_model};

    fn model() -> Imported {
        let text = br#"{"schema": "stagewright.graph/1", "operators": [{"name": "a"}, {"name": "b"}, {"name": "c"}], "tensors": []}"#;
        import_model("model.json", text, &ImportOptions::default()).unwrap()
    }

    fn cluster() -> ClusterDocument {
        let text =
            br#"{"schema": "stagewright.cluster/1", "kinds": [{"name": "gpu", "class": "g", "count": 1},
            {"name": "gpu0x", "class": "g", "count": 2}]}"#;
        crate::import_cluster("cluster.json", text).unwrap()
    }

    fn read(text: &str, cluster: Option<&ClusterDocument>) -> Result<Vec<(String, String, Vec<String>)>> {
        let plan = PlanFile::read("p", text.as_bytes())?.for_model(&model(), cluster)?;
        Ok(plan.devices.into_iter().map(|device| (device.name, device.kind, device.ops)).collect())
    }

    #[test]
    fn every_form_names_the_same_placement() {
        let on = |name: &str, kind: &str, ops: &[&str]| {
            (name.to_owned(), kind.to_owned(), ops.iter().map(|&op| op.to_owned()).collect())
        };
        let wanted = vec![on("gpu0x1", "gpu0x", &["a", "c"]), on("gpu0", "gpu", &["b"])];
        for text in [
            r#"{"a": "gpu0x1", "b": "gpu0", "c": "gpu0x1"}"#,
            r#"["gpu0x1", "gpu0", "gpu0x1"]"#,
            "[2, 0, 2]",
            r#"{"a": 2, "b": "gpu0", "c": 2}"#,
            r#"{"devices": [{"name": "gpu0x1", "ops": ["a", "c"]}, {"name": 0, "ops": ["b"]}]}"#,
            r#"{"schema": "stagewright.plan/1", "devices": [{"name": 2, "ops": ["a", "c"]}, {"name": "gpu0", "ops": ["b"]}]}"#,
        ] {
            assert_eq!(read(text, Some(&cluster())), Ok(wanted.clone()), "{text}");
        }
    }

    #[test]
    fn an_operator_that_is_there_twice_stays_so() {
        let devices = read(r#"{"a": "x0", "a": "y0"}"#, None).unwrap();
        assert_eq!(devices.iter().map(|device| device.2.len()).sum::<usize>(), 2);
    }

    #[test]
    fn wrong_lengths_and_numbers_are_refused() {
        let known = cluster();
        let error = |text: &str, cluster: Option<&ClusterDocument>| {
            let error = read(text, cluster).unwrap_err();
            (error.code.name, error.place.at.to_string())
        };
        assert_eq!(error(r#"["x0"]"#, None), ("S007", String::new()));
        assert_eq!(error("[0, 0, 3]", Some(&known)), ("S008", "[2]".into()));
        assert_eq!(error(r#"{"b": 0}"#, None), ("S008", "b".into()));
        assert_eq!(error(r#"{"a": -1}"#, None).0, "F005");
        assert_eq!(error(r#"{"status": "optimal"}"#, None).0, "F003");
    }
}
