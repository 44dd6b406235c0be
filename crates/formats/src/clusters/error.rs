//! Error of a text that names no built-in cluster.

use stagewright_core::code::Code;
use thiserror::Error;

use super::devices::{Device, devices};
use super::named::names;
use crate::code::N::*;
use crate::nearest::{instead, nearest};

/// Error of a text that names no built-in cluster.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum NameError {
    /// A name of neither a cluster nor a device.
    #[error("unknown cluster or device `{name}`{}", suggestion(.nearest))]
    Unknown {
        /// The name.
        name: String,
        /// The most similar name.
        nearest: Option<String>,
    },
    /// A name of no device, where only a device is possible.
    #[error("unknown device `{name}`{}", suggestion(.nearest))]
    UnknownDevice {
        /// The name.
        name: String,
        /// The most similar name.
        nearest: Option<String>,
    },
    /// Something is missing before or after `+`, `x`, `:` or `@`.
    #[error("`{text}` is incomplete: expected COUNTxDEVICE[:PRECISION][:MEMORY][@LINK] in every term")]
    Incomplete {
        /// The shorthand.
        text: String,
    },
    /// Two precisions, or two sizes of memory, in one term.
    #[error("`{term}` has a precision or a memory twice")]
    Twice {
        /// The term.
        term: String,
    },
    /// A named cluster in place of a device.
    #[error("`{name}` is a whole cluster, which cannot be multiplied, modified or joined")]
    Whole {
        /// The cluster.
        name: String,
    },
    /// A count of 0.
    #[error("`{term}` has a count of 0")]
    NoDevices {
        /// The term.
        term: String,
    },
    /// More devices than a cluster may have.
    #[error("{count} devices, more than {most}")]
    TooManyDevices {
        /// Number of devices.
        count: String,
        /// Largest number allowed.
        most: u64,
    },
    /// More terms than letters to distinguish them.
    #[error("more than {most} terms")]
    TooManyTerms {
        /// Largest number allowed.
        most: usize,
    },
    /// A precision that the device lacks.
    #[error("`{device}` has no peak at `{precision}`{}", suggestion(.nearest))]
    Precision {
        /// The device.
        device: String,
        /// The precision.
        precision: String,
        /// The device's precisions.
        known: Vec<&'static str>,
        /// The most similar precision.
        nearest: Option<String>,
    },
    /// A link that the device lacks.
    #[error("`{device}` has no link `{link}`{}", suggestion(.nearest))]
    Link {
        /// The device.
        device: String,
        /// The link.
        link: String,
        /// The device's links.
        known: Vec<&'static str>,
        /// The most similar link.
        nearest: Option<String>,
    },
    /// A link on a host.
    #[error("`{device}` is a host and has no link, so `{link}` does not apply")]
    HostLink {
        /// The device.
        device: String,
        /// The link.
        link: String,
    },
    /// A bridge between more than two devices.
    #[error("`{link}` of `{device}` is a bridge between two devices, but the count is {count}")]
    Bridge {
        /// The device.
        device: String,
        /// The link.
        link: String,
        /// Number of devices that are not hosts.
        count: u32,
    },
}

impl NameError {
    /// Error of a name that no device has.
    pub(super) fn unknown(name: &str) -> NameError {
        if names().any(|cluster| cluster == name) {
            return NameError::Whole { name: name.into() };
        }
        NameError::Unknown { name: name.into(), nearest: nearest(name, names_of_devices().chain(names())) }
    }

    /// Error of a name that no device has, where only a device is possible.
    pub(super) fn unknown_device(name: &str) -> NameError {
        NameError::UnknownDevice { name: name.into(), nearest: nearest(name, names_of_devices()) }
    }

    /// Error of a precision that a device lacks.
    pub(super) fn precision(device: &'static Device, name: &str) -> NameError {
        let known: Vec<&str> = device.peak_flops.keys().map(|precision| precision.name()).collect();
        NameError::Precision {
            device: device.name.clone(),
            precision: name.into(),
            nearest: nearest(name, known.iter().copied()),
            known,
        }
    }

    /// Error of a link that a device lacks.
    pub(super) fn link(device: &'static Device, name: &str) -> NameError {
        let known: Vec<&str> = device.links.keys().map(String::as_str).collect();
        NameError::Link {
            device: device.name.clone(),
            link: name.into(),
            nearest: nearest(name, known.iter().copied()),
            known,
        }
    }

    /// Stable error code.
    pub fn code(&self) -> Code {
        match self {
            NameError::Unknown { .. } | NameError::UnknownDevice { .. } => N001,
            NameError::Incomplete { .. } | NameError::Twice { .. } | NameError::Whole { .. } => N002,
            NameError::NoDevices { .. } => N003,
            NameError::TooManyDevices { .. } | NameError::TooManyTerms { .. } => N004,
            NameError::Precision { .. } => N005,
            NameError::Link { .. } | NameError::HostLink { .. } | NameError::Bridge { .. } => N006,
        }
        .into()
    }

    /// A hint for fixing the error.
    pub fn help(&self) -> String {
        match self {
            NameError::Unknown { .. } | NameError::Incomplete { .. } => {
                let name = match self {
                    NameError::Unknown { name, .. } => name.as_str(),
                    _ => "",
                };
                format!(
                    "give a file, a named cluster, or COUNTxDEVICE[:PRECISION][:MEMORY][@LINK] joined by +\n    \
                     clusters: {}; `stagewright clusters` lists all\n    \
                     devices: {}; `stagewright devices` lists all",
                    instead(name, names()),
                    instead(name, devices().iter().map(|device| device.name.as_str())),
                )
            }
            NameError::UnknownDevice { name, .. }
                if names().any(|cluster| cluster.eq_ignore_ascii_case(name)) =>
            {
                format!("it is a cluster: `stagewright clusters {name}` shows its devices")
            }
            NameError::UnknownDevice { name, .. } => {
                let names = devices().iter().map(|device| device.name.as_str());
                format!("{}; `stagewright devices` lists all", instead(name, names))
            }
            NameError::Whole { name } => {
                format!(
                    "write it out with `stagewright convert {name} cluster.toml`, edit that, and give the \
                     file"
                )
            }
            NameError::Twice { .. } => "leave one of them out".into(),
            NameError::NoDevices { .. } => "give a count of at least 1, or leave the term out".into(),
            NameError::TooManyDevices { .. } => "correct the counts".into(),
            NameError::TooManyTerms { .. } => "write the cluster to a file".into(),
            NameError::Precision { precision: name, known, .. } => {
                format!("{}, or leave it out", instead(name, known.iter().copied()))
            }
            NameError::Link { link: name, known, .. } => format!(
                "{}, name a slot such as pcie3x4 (generation 1 to 5; 1, 2, 4, 8 or 16 lanes), or leave it out",
                instead(name, known.iter().copied())
            ),
            NameError::HostLink { .. } => "leave the link out".into(),
            NameError::Bridge { .. } => {
                "leave the link out, or write the cluster to a file with a group for each pair".into()
            }
        }
    }
}

/// Names and aliases of all devices.
fn names_of_devices() -> impl Iterator<Item = &'static str> {
    devices().iter().flat_map(|device| {
        std::iter::once(device.name.as_str()).chain(device.aliases.iter().map(String::as_str))
    })
}

/// Ending of a message that suggests the nearest name, if any.
pub fn suggestion(nearest: &Option<String>) -> String {
    nearest.as_ref().map_or_else(String::new, |name| format!("; did you mean `{name}`?"))
}
