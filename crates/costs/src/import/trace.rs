//! Chrome's trace format, which ONNX Runtime and PyTorch write: events with a category, a name, a start and a
//! duration in microseconds, as a list or under `traceEvents`.
//!
//! Only the fields that an importer uses are kept. A field of `args` with an unexpected type is ignored, since
//! programs differ in them; a duration with an unexpected type is an error.
//!
//! Source: "Trace Event Format", Google, 2016.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, de};
use stagewright_formats::{Result, read_json, text_of};

/// An event.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Event {
    /// Phase; `X` is an event with a duration.
    #[serde(default)]
    pub(crate) ph: Option<String>,
    /// Category.
    #[serde(default)]
    pub(crate) cat: Option<String>,
    /// Name.
    #[serde(default)]
    pub(crate) name: Option<String>,
    /// Start in microseconds.
    #[serde(default)]
    pub(crate) ts: Option<f64>,
    /// Duration in microseconds.
    #[serde(default)]
    pub(crate) dur: Option<f64>,
    /// Process: a number or a name.
    #[serde(default)]
    pub(crate) pid: Scalar,
    /// Thread: a number or a name.
    #[serde(default)]
    pub(crate) tid: Scalar,
    /// Arguments of the event.
    #[serde(default)]
    pub(crate) args: Args,
}

impl Event {
    pub(crate) fn name(&self) -> &str {
        self.name.as_deref().unwrap_or_default()
    }

    pub(crate) fn category(&self) -> &str {
        self.cat.as_deref().unwrap_or_default()
    }

    /// Whether the event has a duration. No importer here reads a begin and an end as two events.
    pub(crate) fn is_complete(&self) -> bool {
        self.ph.as_deref() == Some("X")
    }
}

/// A number or a text; anything else is `None`.
#[derive(Debug, Default, Clone, PartialEq)]
pub(crate) enum Scalar {
    /// Something else.
    #[default]
    None,
    /// A number.
    Number(f64),
    /// A text.
    Text(String),
}

impl Scalar {
    /// The value as a number, also if it is written as a text; `None` if it is not a number.
    pub(crate) fn number(&self) -> Option<f64> {
        match self {
            Scalar::Number(number) => Some(*number),
            Scalar::Text(text) => text.parse().ok(),
            Scalar::None => None,
        }
    }

    /// The text; `None` for a number or anything else.
    pub(crate) fn text(&self) -> Option<&str> {
        match self {
            Scalar::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The value as a key: numbers and texts that display identically have the same key.
    pub(crate) fn key(&self) -> Option<String> {
        match self {
            Scalar::Number(number) => Some(number.to_string()),
            Scalar::Text(text) => Some(text.clone()),
            Scalar::None => None,
        }
    }
}

impl<'de> Deserialize<'de> for Scalar {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ScalarVisitor)
    }
}

struct ScalarVisitor;

impl<'de> Visitor<'de> for ScalarVisitor {
    type Value = Scalar;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_str<E>(self, text: &str) -> Result<Scalar, E> {
        Ok(Scalar::Text(text.to_owned()))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Scalar, E> {
        Ok(Scalar::Number(number as f64))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Scalar, E> {
        Ok(Scalar::Number(number as f64))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Scalar, E> {
        Ok(Scalar::Number(number))
    }

    fn visit_bool<E>(self, _: bool) -> Result<Scalar, E> {
        Ok(Scalar::None)
    }

    fn visit_unit<E>(self) -> Result<Scalar, E> {
        Ok(Scalar::None)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Scalar, A::Error> {
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Scalar::None)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Scalar, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Scalar::None)
    }
}

/// Arguments of an event that importers use. The first of equal keys counts: PyTorch writes some of them twice.
#[derive(Debug, Default)]
pub(crate) struct Args {
    /// ONNX Runtime: the execution provider.
    pub(crate) provider: Scalar,
    /// ONNX Runtime: the node that launched a kernel, in some versions.
    pub(crate) parent_name: Scalar,
    /// PyTorch: the operator that runs, by number.
    pub(crate) external_id: Scalar,
    /// PyTorch: the number that a launch and its kernel share.
    pub(crate) correlation: Scalar,
    /// PyTorch: the collective that an NCCL kernel runs.
    pub(crate) collective: Scalar,
    /// PyTorch: elements that a device gives to a collective.
    pub(crate) elements_in: Scalar,
    /// PyTorch: elements that a device gets from a collective.
    pub(crate) elements_out: Scalar,
    /// PyTorch: number of devices of a collective.
    pub(crate) group_size: Scalar,
    /// PyTorch: type of the elements of a collective.
    pub(crate) dtype: Scalar,
    /// PyTorch: what the group of devices of a collective is for.
    pub(crate) group: Scalar,
    /// PyTorch: bytes in use on a device, and the kind of that device.
    pub(crate) total_allocated: Scalar,
    pub(crate) device_type: Scalar,
}

impl Args {
    fn field(&mut self, key: &str) -> Option<&mut Scalar> {
        Some(match key {
            "provider" => &mut self.provider,
            "parent_name" => &mut self.parent_name,
            "External id" | "external id" => &mut self.external_id,
            "correlation" => &mut self.correlation,
            "Collective name" => &mut self.collective,
            "In msg nelems" => &mut self.elements_in,
            "Out msg nelems" => &mut self.elements_out,
            "Group size" => &mut self.group_size,
            "dtype" => &mut self.dtype,
            "Process Group Description" => &mut self.group,
            "Total Allocated" => &mut self.total_allocated,
            "Device Type" => &mut self.device_type,
            _ => return None,
        })
    }
}

impl<'de> Deserialize<'de> for Args {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ArgsVisitor;

        impl<'de> Visitor<'de> for ArgsVisitor {
            type Value = Args;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Args, A::Error> {
                let mut args = Args::default();
                while let Some(key) = map.next_key::<String>()? {
                    match args.field(&key) {
                        Some(field) if *field == Scalar::None => *field = map.next_value()?,
                        _ => {
                            map.next_value::<IgnoredAny>()?;
                        }
                    }
                }
                Ok(args)
            }
        }

        deserializer.deserialize_map(ArgsVisitor)
    }
}

/// The list of events of a file, which may be cut off.
///
/// With `cut_off`, a list that ends without its bracket, in the middle of an event or between two, gives the events
/// before its end.
///
/// # Errors
/// If the text is not UTF-8, not JSON, not a list or an event is of another shape.
pub(crate) fn list(label: &str, bytes: &[u8], cut_off: bool) -> Result<Vec<Event>> {
    let mut events = Vec::new();
    let mut deserializer = serde_json::Deserializer::from_str(text_of(label, bytes)?);
    match Events(&mut events).deserialize(&mut deserializer).and_then(|()| deserializer.end()) {
        Ok(()) => Ok(events),
        Err(error) if error.is_eof() && cut_off => Ok(events),
        // Read again, to get the path of the error.
        Err(_) => read_json(label, bytes, &[]),
    }
}

/// Collects events, and keeps them if a later one cannot be read.
struct Events<'a>(&'a mut Vec<Event>);

impl<'de> DeserializeSeed<'de> for Events<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Events<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of events")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        while let Some(event) = seq.next_element::<Event>()? {
            self.0.push(event);
        }
        Ok(())
    }
}

/// A trace with its events under `traceEvents`.
#[derive(Debug, Deserialize)]
pub(crate) struct Trace {
    /// The events.
    #[serde(rename = "traceEvents")]
    pub(crate) events: Vec<Event>,
    /// GPUs of the server.
    #[serde(rename = "deviceProperties", default, deserialize_with = "devices")]
    pub(crate) devices: Vec<Device>,
}

/// A GPU.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Device {
    /// Product name of the GPU.
    #[serde(default)]
    pub(crate) name: Scalar,
}

/// Devices; `null` is an empty list.
fn devices<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Device>, D::Error> {
    Option::<Vec<Device>>::deserialize(deserializer).map(Option::unwrap_or_default).map_err(de::Error::custom)
}
