//! The cluster document as indices: kinds, their devices by name, groups.

use rustc_hash::FxHashMap;
use stagewright_core::document::{
    ClassDocument, ClusterDocument, GroupDocument, KindDocument, LinkDocument, MatrixDocument,
};

use super::figure::{amount, rate, share};
use super::matrix;
use crate::error::CheckError;

/// Number of digits of the largest device number.
const MAX_DIGITS: usize = 10;

/// A kind with its class and group resolved.
#[derive(Debug)]
pub(crate) struct Kind<'a> {
    pub(crate) document: &'a KindDocument,
    /// Roofline of the kind's class, if the table has one.
    pub(crate) class: Option<&'a ClassDocument>,
    /// Index of the kind's group.
    pub(crate) group: Option<usize>,
    /// Number of devices of earlier kinds, which is also the index of the kind's first device among all devices.
    pub(crate) before: u64,
}

/// The cluster; kinds and groups keep the order of the document.
#[derive(Debug)]
pub(crate) struct Cluster<'a> {
    pub(crate) kinds: Vec<Kind<'a>>,
    pub(crate) groups: &'a [GroupDocument],
    /// Transfer times between all pairs of devices; only the makespan uses them.
    pub(crate) matrix: Option<&'a MatrixDocument>,
    classes: Vec<&'a str>,
    index: FxHashMap<&'a str, usize>,
}

impl<'a> Cluster<'a> {
    /// Reads the document and checks it: unique names, existing groups, figures in range, unambiguous device names, a
    /// square matrix.
    pub(crate) fn read(document: &'a ClusterDocument) -> Result<Self, CheckError> {
        for (name, class) in &document.classes {
            class_figures(name, class)?;
        }
        let mut groups: FxHashMap<&str, usize> = FxHashMap::default();
        for (position, group) in document.groups.iter().enumerate() {
            if groups.insert(&group.name, position).is_some() {
                return Err(CheckError::Duplicate { what: "group", name: group.name.clone() });
            }
            link_figures(&group.uplink, || format!("the uplink of group {:?}", group.name))?;
        }
        let mut index = FxHashMap::default();
        let mut kinds = Vec::with_capacity(document.kinds.len());
        let mut before = 0;
        for (position, kind) in document.kinds.iter().enumerate() {
            if index.insert(kind.name.as_str(), position).is_some() {
                return Err(CheckError::Duplicate { what: "kind", name: kind.name.clone() });
            }
            kinds.push(read_kind(document, &groups, kind, before)?);
            before += u64::from(kind.count);
        }
        let mut classes: Vec<&str> = document.classes.keys().map(String::as_str).collect();
        classes.extend(document.kinds.iter().map(|kind| kind.class.as_str()));
        let matrix = matrix::read(document)?;
        let cluster = Cluster { kinds, groups: &document.groups, matrix, classes, index };
        cluster.names_are_unambiguous()?;
        Ok(cluster)
    }

    /// Index of a kind.
    pub(crate) fn find_kind(&self, name: &str) -> Option<usize> {
        self.index.get(name).copied()
    }

    /// Whether a class of this name is in the table or used by a kind.
    pub(crate) fn has_class(&self, name: &str) -> bool {
        self.classes.contains(&name)
    }

    /// Kind and number of the device of this name.
    pub(crate) fn find_device(&self, name: &str) -> Option<(usize, u32)> {
        let digits = name.bytes().rev().take(MAX_DIGITS).take_while(u8::is_ascii_digit).count();
        (name.len() - digits..name.len()).find_map(|split| {
            let kind = self.find_kind(&name[..split])?;
            let number = self.number_in_kind(kind, name)?;
            Some((kind, number))
        })
    }

    /// Number of the device of this name among those of a kind: `acc2` is number 2 of three devices `acc`.
    pub(crate) fn number_in_kind(&self, kind: usize, device: &str) -> Option<u32> {
        let document = self.kinds[kind].document;
        let number = canonical(device.strip_prefix(document.name.as_str())?)?;
        (number < document.count).then_some(number)
    }

    /// Checks that no device of one kind shares its name with a device of another.
    ///
    /// If kind `b` is named `a` plus digits, the devices of `b` are named `a` plus these digits plus a number, the
    /// smallest of which is 0: names collide iff the name with the number 0 does. Near-linear in the length of the
    /// names.
    fn names_are_unambiguous(&self) -> Result<(), CheckError> {
        for kind in self.kinds.iter().filter(|kind| kind.document.count > 0) {
            let name = format!("{}0", kind.document.name);
            if let Some((other, _)) = self.find_device(&name)
                && self.kinds[other].document.name != kind.document.name
            {
                return Err(CheckError::AmbiguousDevice {
                    name,
                    first: self.kinds[other].document.name.clone(),
                    second: kind.document.name.clone(),
                });
            }
        }
        Ok(())
    }
}

fn read_kind<'a>(
    cluster: &'a ClusterDocument,
    groups: &FxHashMap<&str, usize>,
    kind: &'a KindDocument,
    before: u64,
) -> Result<Kind<'a>, CheckError> {
    for (what, bytes) in [("memory_bytes", kind.memory_bytes), ("reserve_bytes", kind.reserve_bytes)] {
        amount(bytes.unwrap_or(0.0), || format!("{what} of kind {:?}", kind.name))?;
    }
    if let Some(link) = &kind.link {
        link_figures(link, || format!("the link of kind {:?}", kind.name))?;
    }
    let unknown = |name: &String| CheckError::Unknown {
        place: format!("kind {:?}", kind.name),
        what: "group",
        name: name.clone(),
    };
    let group = match &kind.group {
        Some(name) => Some(*groups.get(name.as_str()).ok_or_else(|| unknown(name))?),
        None => None,
    };
    Ok(Kind { document: kind, class: cluster.classes.get(&kind.class), group, before })
}

fn class_figures(name: &str, class: &ClassDocument) -> Result<(), CheckError> {
    if let Some(peak) = class.peak_flops {
        rate(peak, || format!("peak_flops of class {name:?}"))?;
    }
    for &peak in class.peaks.values() {
        rate(peak, || format!("a peak of class {name:?}"))?;
    }
    if let Some(bandwidth) = class.memory_bandwidth {
        rate(bandwidth, || format!("memory_bandwidth of class {name:?}"))?;
    }
    if let Some(efficiency) = class.efficiency {
        share(efficiency, || format!("efficiency of class {name:?}"))?;
    }
    if let Some(efficiency) = class.training_efficiency {
        share(efficiency, || format!("training_efficiency of class {name:?}"))?;
    }
    for fit in &class.fits {
        let name_of = |field: &str| format!("{field} of a fit of class {name:?}");
        rate(fit.flops, || name_of("flops"))?;
        rate(fit.bandwidth, || name_of("bandwidth"))?;
        amount(fit.sharpness - 1.0, || name_of("sharpness, less 1,"))?;
        amount(fit.launch_s, || name_of("launch_s"))?;
        amount(fit.step_s, || name_of("step_s"))?;
        amount(fit.row_s, || name_of("row_s"))?;
        amount(fit.cache_bytes, || name_of("cache_bytes"))?;
    }
    amount(class.launch_overhead_s, || format!("launch_overhead_s of class {name:?}"))
}

fn link_figures(link: &LinkDocument, what: impl Fn() -> String) -> Result<(), CheckError> {
    amount(link.latency_s, || format!("latency_s of {}", what()))?;
    rate(link.bandwidth, || format!("bandwidth of {}", what()))
}

/// Parses a number in the form of device names: decimal, without sign and leading zeros.
fn canonical(digits: &str) -> Option<u32> {
    let plain = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    let leads = digits.len() > 1 && digits.starts_with('0');
    if plain && !leads { digits.parse().ok() } else { None }
}
