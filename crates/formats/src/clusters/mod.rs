//! Built-in clusters: devices with published figures, servers and pods by name, and a shorthand.
//!
//! `data/clusters/devices.toml` holds the devices: peaks by precision, memory, links, and the source of every
//! figure. From them a shorthand such as `8xa100` or `4xt4+1xepyc-7742` makes a cluster in which every device
//! is attached to one fabric. A cluster with more structure, such as servers with uplinks, is a named
//! document in `data/clusters`, such as `dgx-a100`. Either way the result is a plain [`ClusterDocument`],
//! which can be written to a file and edited.
//!
//! ```
//! let cluster = stagewright_formats::clusters::find("8xv100:fp32@nvlink")?;
//! assert_eq!((cluster.kinds[0].count, cluster.classes["v100-16gb-fp32"].peak_flops), (8, Some(15.7e12)));
//! # Ok::<(), stagewright_formats::clusters::NameError>(())
//! ```

mod comments;
mod devices;
mod error;
mod named;
mod shorthand;

use stagewright_core::document::ClusterDocument;

pub use comments::{Comments, Remark, comments};
pub use devices::{Chip, Device, Estimates, Link, Precision, Role, Server, device, devices};
pub use error::NameError;
pub use error::suggestion;
pub use named::{named, names};
pub use shorthand::shorthand;

/// Finds a cluster by name, otherwise by shorthand. Case is ignored.
///
/// Time grows with the length of the text and the number of built-in names.
///
/// # Errors
/// If the text is neither; the error suggests the nearest names.
pub fn find(text: &str) -> Result<ClusterDocument, NameError> {
    named(text).map_or_else(|| shorthand(text), Ok)
}

/// Finds a device by name or alias. Case is ignored.
///
/// # Errors
/// If there is no such device; the error suggests the nearest names.
pub fn device_named(name: &str) -> Result<&'static Device, NameError> {
    device(&name.to_ascii_lowercase()).ok_or_else(|| NameError::unknown_device(name))
}

/// Whether a text starts with a count, as a shorthand does; its errors are then errors of a shorthand.
pub fn is_counted(text: &str) -> bool {
    shorthand::split_count(&text.to_ascii_lowercase()).0.is_some()
}
