//! The cluster: kinds of interchangeable devices, their links, and groups with uplinks.

use std::sync::Arc;

use rustc_hash::FxHashMap;
use thiserror::Error;

use crate::code::C::*;
use crate::code::Code;
use crate::document::{
    CLUSTER_SCHEMA, ClassDocument, ClusterDocument, GroupDocument, KindDocument, LinkDocument,
    MatrixDocument, RamDocument,
};
use crate::id;
use crate::ids::Keyed;

/// Maximum number of devices of a cluster; a larger count is taken for a typing error.
pub const MAX_DEVICES: u64 = 1_000_000;

id! {
    /// Index of a device in its cluster: the devices of the first kind, then those of the second, and so on.
    pub DeviceId;
}

/// Invalid cluster document.
#[derive(Debug, Clone, PartialEq, Error)]
#[non_exhaustive]
pub enum ClusterError {
    /// Wrong or unknown schema.
    #[error("schema is `{found}`, expected `{CLUSTER_SCHEMA}`")]
    Schema {
        /// Schema of the document.
        found: String,
    },
    /// No kind, or only kinds without devices.
    #[error("the cluster has no devices")]
    NoDevices,
    /// More than [`MAX_DEVICES`] devices.
    #[error("{count} devices, more than {MAX_DEVICES}")]
    TooManyDevices {
        /// Number of devices.
        count: u64,
    },
    /// An empty or repeated name of a kind or group, or a repeated name of a device.
    #[error("{what} `{name}` is empty or appears twice")]
    BadName {
        /// `kind`, `group` or `device`.
        what: &'static str,
        /// The name.
        name: String,
        /// JSON path.
        path: String,
    },
    /// A kind in a group that is not listed.
    #[error("kind `{kind}` is in the group `{group}`, which is not listed")]
    UnknownGroup {
        /// The kind.
        kind: String,
        /// The group.
        group: String,
        /// JSON path.
        path: String,
    },
    /// A number out of range.
    #[error("{field} is {value}, expected {expected}")]
    BadNumber {
        /// Field.
        field: &'static str,
        /// Value found.
        value: f64,
        /// Expected range.
        expected: &'static str,
        /// JSON path.
        path: String,
    },
    /// A matrix that is not square over all devices.
    #[error("matrix `{field}` is not {devices} by {devices}")]
    BadMatrix {
        /// Field.
        field: &'static str,
        /// Number of devices.
        devices: usize,
    },
}

impl ClusterError {
    /// Stable error code.
    pub fn code(&self) -> Code {
        match self {
            ClusterError::Schema { .. } => C001,
            ClusterError::NoDevices => C002,
            ClusterError::TooManyDevices { .. } => C003,
            ClusterError::BadName { .. } => C004,
            ClusterError::UnknownGroup { .. } => C005,
            ClusterError::BadNumber { .. } => C006,
            ClusterError::BadMatrix { .. } => C007,
        }
        .into()
    }

    /// JSON path of the defect.
    pub fn place(&self) -> String {
        match self {
            ClusterError::Schema { .. } => "schema".into(),
            ClusterError::NoDevices | ClusterError::TooManyDevices { .. } => "kinds".into(),
            ClusterError::BadName { path, .. }
            | ClusterError::UnknownGroup { path, .. }
            | ClusterError::BadNumber { path, .. } => path.clone(),
            ClusterError::BadMatrix { field, .. } => format!("matrix.{field}"),
        }
    }

    /// Suggested fix.
    pub fn help(&self) -> &'static str {
        match self {
            ClusterError::Schema { .. } => "set schema to stagewright.cluster/1",
            ClusterError::NoDevices => "give at least one kind a count of at least 1",
            ClusterError::TooManyDevices { .. } => "correct the counts",
            ClusterError::BadName { .. } => {
                "give every kind and group a unique name; the device names (kind name plus number) must be unique too"
            }
            ClusterError::UnknownGroup { .. } => "add the group under `groups` or correct the name",
            ClusterError::BadNumber { .. } => "correct the number",
            ClusterError::BadMatrix { .. } => {
                "give one row and one column per device, in the order of the kinds"
            }
        }
    }
}

/// Builds a cluster in code.
///
/// ```
/// use stagewright_core::cluster::ClusterBuilder;
/// use stagewright_core::document::{ClassDocument, KindDocument, LinkDocument};
///
/// let mut builder = ClusterBuilder::new("a server");
/// builder.class("gpu", ClassDocument { peak_flops: Some(1e14), ..ClassDocument::default() });
/// builder.kind(KindDocument {
///     memory_bytes: Some(80.0 * 1073741824.0),
///     link: Some(LinkDocument { latency_s: 5e-6, bandwidth: 3e11 }),
///     ..KindDocument::named("gpu", 8)
/// });
/// let cluster = builder.build()?;
/// assert_eq!(cluster.device_count(), 8);
/// # Ok::<(), stagewright_core::cluster::ClusterError>(())
/// ```
#[derive(Debug, Clone)]
pub struct ClusterBuilder {
    document: ClusterDocument,
}

impl ClusterBuilder {
    /// An empty cluster.
    pub fn new(name: impl Into<String>) -> Self {
        ClusterBuilder { document: ClusterDocument::new(name) }
    }

    /// Adds a compute class, or replaces the class of that name.
    pub fn class(&mut self, name: impl Into<String>, class: ClassDocument) -> &mut Self {
        self.document.classes.insert(name.into(), class);
        self
    }

    /// Adds a kind of devices.
    pub fn kind(&mut self, kind: KindDocument) -> &mut Self {
        self.document.kinds.push(kind);
        self
    }

    /// Adds a group of devices with an uplink; kinds refer to their group by name.
    pub fn group(&mut self, name: impl Into<String>, uplink: LinkDocument) -> &mut Self {
        self.document.groups.push(GroupDocument { name: name.into(), uplink });
        self
    }

    /// The document so far.
    pub fn document(&self) -> &ClusterDocument {
        &self.document
    }

    /// Checks everything and builds the cluster.
    ///
    /// # Errors
    /// The first defect found.
    pub fn build(self) -> Result<Cluster, ClusterError> {
        Cluster::from_document(self.document)
    }
}

/// A checked, immutable cluster.
#[derive(Debug, Clone)]
pub struct Cluster {
    document: Arc<ClusterDocument>,
    first_device: Vec<DeviceId>,
    kind_of: Keyed<DeviceId, usize>,
    group_of_kind: Vec<Option<usize>>,
}

impl Cluster {
    /// Checks a document and builds its cluster.
    ///
    /// # Errors
    /// The first defect found, with its JSON path.
    pub fn from_document(document: impl Into<Arc<ClusterDocument>>) -> Result<Cluster, ClusterError> {
        let document = document.into();
        if document.schema != CLUSTER_SCHEMA {
            return Err(ClusterError::Schema { found: document.schema.clone() });
        }
        let count = count_devices(&document)?;
        for (name, class) in &document.classes {
            check_class(class, &format!("classes.{name}"))?;
        }
        let groups = group_numbers(&document)?;
        let mut names: FxHashMap<&str, ()> = FxHashMap::default();
        let mut first_device = Vec::with_capacity(document.kinds.len() + 1);
        let mut kind_of: Keyed<DeviceId, usize> = Vec::with_capacity(count as usize).into();
        let mut group_of_kind = Vec::with_capacity(document.kinds.len());
        for (index, kind) in document.kinds.iter().enumerate() {
            let path = format!("kinds[{index}]");
            let is_new = names.insert(&kind.name, ()).is_none();
            check_name("kind", &kind.name, is_new, &path)?;
            check_kind(kind, &path)?;
            group_of_kind.push(group_number(kind, &groups, &path)?);
            first_device.push(kind_of.next_id());
            kind_of.extend(std::iter::repeat_n(index, kind.count as usize));
        }
        first_device.push(kind_of.next_id());
        if let Some(matrix) = &document.matrix {
            check_matrix(matrix, kind_of.len())?;
        }
        let cluster = Cluster { document, first_device, kind_of, group_of_kind };
        cluster.check_device_names()?;
        Ok(cluster)
    }

    /// Checks that no two devices share a name, as `acc1` + `0` and `acc` + `10` would.
    fn check_device_names(&self) -> Result<(), ClusterError> {
        let names = || self.document.kinds.iter().map(|kind| kind.name.as_str());
        if !names().any(|short| names().any(|long| long != short && long.starts_with(short))) {
            return Ok(());
        }
        let mut seen: FxHashMap<String, ()> = FxHashMap::default();
        for device in self.devices() {
            let name = self.device_name(device);
            if seen.insert(name.clone(), ()).is_some() {
                let path = format!("kinds[{}].name", self.kind_of(device));
                return Err(ClusterError::BadName { what: "device", name, path });
            }
        }
        Ok(())
    }

    /// The document that the cluster was built from.
    pub fn document(&self) -> &ClusterDocument {
        &self.document
    }

    /// Number of devices.
    pub fn device_count(&self) -> usize {
        self.kind_of.len()
    }

    /// All devices, by index.
    pub fn devices(&self) -> impl ExactSizeIterator<Item = DeviceId> + use<> {
        self.kind_of.ids()
    }

    /// Number of kinds.
    pub fn kind_count(&self) -> usize {
        self.document.kinds.len()
    }

    /// Document of a kind.
    pub fn kind(&self, kind: usize) -> &KindDocument {
        &self.document.kinds[kind]
    }

    /// The kind of a device.
    pub fn kind_of(&self, device: DeviceId) -> usize {
        self.kind_of[device]
    }

    /// The devices of a kind.
    pub fn devices_of(&self, kind: usize) -> impl ExactSizeIterator<Item = DeviceId> + use<> {
        (self.first_device[kind].0..self.first_device[kind + 1].0).map(DeviceId)
    }

    /// The name of a device: its kind's name and its number within the kind.
    pub fn device_name(&self, device: DeviceId) -> String {
        let kind = self.kind_of(device);
        format!("{}{}", self.kind(kind).name, device.0 - self.first_device[kind].0)
    }

    /// Memory of a device of a kind; infinite if the document sets no limit.
    pub fn memory(&self, kind: usize) -> f64 {
        self.kind(kind).memory_bytes.unwrap_or(f64::INFINITY)
    }

    /// Number of groups.
    pub fn group_count(&self) -> usize {
        self.document.groups.len()
    }

    /// The group of a kind.
    pub fn group_of_kind(&self, kind: usize) -> Option<usize> {
        self.group_of_kind[kind]
    }

    /// The device with the given name.
    pub fn device_named(&self, name: &str) -> Option<DeviceId> {
        (0..self.kind_count()).find_map(|kind| {
            let digits = name.strip_prefix(self.kind(kind).name.as_str())?;
            let device = self.devices_of(kind).nth(digits.parse().ok()?)?;
            // `acc+1` and `acc01` parse as numbers but are not device names.
            (self.device_name(device) == name).then_some(device)
        })
    }

    /// The devices to which a name refers: those with that name, otherwise those of the kind, otherwise those of the
    /// class. Empty if the name is unknown.
    pub fn named(&self, name: &str) -> Vec<DeviceId> {
        let kinds = |wanted: &dyn Fn(&KindDocument) -> bool| -> Vec<DeviceId> {
            (0..self.kind_count())
                .filter(|&kind| wanted(self.kind(kind)))
                .flat_map(|kind| self.devices_of(kind))
                .collect()
        };
        if let Some(device) = self.device_named(name) {
            return vec![device];
        }
        let mut found = kinds(&|kind| kind.name == name);
        if found.is_empty() {
            found = kinds(&|kind| kind.class == name);
        }
        found
    }
}

/// Counts the devices and checks that there are at least one and at most [`MAX_DEVICES`].
fn count_devices(document: &ClusterDocument) -> Result<u64, ClusterError> {
    match document.kinds.iter().map(|kind| u64::from(kind.count)).sum() {
        0 => Err(ClusterError::NoDevices),
        count if count > MAX_DEVICES => Err(ClusterError::TooManyDevices { count }),
        count => Ok(count),
    }
}

/// Checks the groups and returns the number of each by name.
fn group_numbers(document: &ClusterDocument) -> Result<FxHashMap<&str, usize>, ClusterError> {
    let mut numbers: FxHashMap<&str, usize> = FxHashMap::default();
    for (index, group) in document.groups.iter().enumerate() {
        let path = format!("groups[{index}]");
        let is_new = numbers.insert(&group.name, index).is_none();
        check_name("group", &group.name, is_new, &path)?;
        check_link(&group.uplink, &format!("{path}.uplink"))?;
    }
    Ok(numbers)
}

/// Number of the group of a kind.
fn group_number(
    kind: &KindDocument,
    groups: &FxHashMap<&str, usize>,
    path: &str,
) -> Result<Option<usize>, ClusterError> {
    let Some(group) = &kind.group else { return Ok(None) };
    let unknown = || ClusterError::UnknownGroup {
        kind: kind.name.clone(),
        group: group.clone(),
        path: format!("{path}.group"),
    };
    groups.get(group.as_str()).copied().ok_or_else(unknown).map(Some)
}

fn check_name(what: &'static str, name: &str, is_new: bool, path: &str) -> Result<(), ClusterError> {
    match is_new && !name.is_empty() {
        true => Ok(()),
        false => Err(ClusterError::BadName { what, name: name.into(), path: format!("{path}.name") }),
    }
}

fn check(
    good: bool,
    field: &'static str,
    value: f64,
    expected: &'static str,
    path: &str,
) -> Result<(), ClusterError> {
    if good {
        Ok(())
    } else {
        Err(ClusterError::BadNumber { field, value, expected, path: format!("{path}.{field}") })
    }
}

fn check_nonnegative(field: &'static str, value: f64, path: &str) -> Result<(), ClusterError> {
    check(value.is_finite() && value >= 0.0, field, value, "a finite number of at least 0", path)
}

fn check_link(link: &LinkDocument, path: &str) -> Result<(), ClusterError> {
    let positive = |value: f64| value.is_finite() && value > 0.0;
    check(positive(link.bandwidth), "bandwidth", link.bandwidth, "a finite number above 0", path)?;
    check_nonnegative("latency_s", link.latency_s, path)
}

fn check_kind(kind: &KindDocument, path: &str) -> Result<(), ClusterError> {
    if let Some(link) = &kind.link {
        check_link(link, &format!("{path}.link"))?;
    }
    if let Some(ram) = &kind.ram {
        check_ram(ram, &format!("{path}.ram"))?;
    }
    check_nonnegative("memory_bytes", kind.memory_bytes.unwrap_or(0.0), path)?;
    check_nonnegative("reserve_bytes", kind.reserve_bytes.unwrap_or(0.0), path)
}

fn check_ram(ram: &RamDocument, path: &str) -> Result<(), ClusterError> {
    let positive = |field, value: f64| {
        check(value.is_finite() && value > 0.0, field, value, "a finite number above 0", path)
    };
    ram.memory_bytes.map_or(Ok(()), |bytes| positive("memory_bytes", bytes))?;
    positive("bandwidth", ram.bandwidth)?;
    positive("link_bandwidth", ram.link_bandwidth)
}

fn check_matrix(matrix: &MatrixDocument, devices: usize) -> Result<(), ClusterError> {
    for (field, rows) in [("delay_s", &matrix.delay_s), ("seconds_per_byte", &matrix.seconds_per_byte)] {
        if rows.len() != devices || rows.iter().any(|row| row.len() != devices) {
            return Err(ClusterError::BadMatrix { field, devices });
        }
        for (index, row) in rows.iter().enumerate() {
            let path = format!("matrix.{field}[{index}]");
            row.iter().try_for_each(|&value| check_nonnegative(field, value, &path))?;
        }
    }
    Ok(())
}

fn check_class(class: &ClassDocument, path: &str) -> Result<(), ClusterError> {
    let positive = |value: f64| value.is_finite() && value > 0.0;
    if let Some(value) = class.peak_flops {
        check(positive(value), "peak_flops", value, "a finite number above 0", path)?;
    }
    for &value in class.peaks.values() {
        check(positive(value), "peaks", value, "finite numbers above 0", path)?;
    }
    if let Some(value) = class.memory_bandwidth {
        check(positive(value), "memory_bandwidth", value, "a finite number above 0", path)?;
    }
    for (name, share) in
        [("efficiency", class.efficiency), ("training_efficiency", class.training_efficiency)]
    {
        let Some(value) = share else { continue };
        check(value > 0.0 && value <= 1.0, name, value, "a share above 0 and at most 1", path)?;
    }
    for (index, fit) in class.fits.iter().enumerate() {
        let path = format!("{path}.fits[{index}]");
        for (field, value) in [("flops", fit.flops), ("bandwidth", fit.bandwidth)] {
            check(positive(value), field, value, "a finite number above 0", &path)?;
        }
        check(
            fit.sharpness >= 1.0 && fit.sharpness.is_finite(),
            "sharpness",
            fit.sharpness,
            "a finite number of at least 1",
            &path,
        )?;
        check_nonnegative("launch_s", fit.launch_s, &path)?;
        check_nonnegative("step_s", fit.step_s, &path)?;
        check_nonnegative("row_s", fit.row_s, &path)?;
        check_nonnegative("cache_bytes", fit.cache_bytes, &path)?;
    }
    check_nonnegative("launch_overhead_s", class.launch_overhead_s, path)
}
