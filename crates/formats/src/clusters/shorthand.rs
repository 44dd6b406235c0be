//! Cluster shorthand: `COUNTxDEVICE[:PRECISION][:MEMORY][@LINK]`, joined by `+`.
//!
//! ```text
//! 8xa100                   eight A100 at the peak of each operator's precision, over the usual link of A100 servers
//! 8xv100:fp32@nvlink       one peak for all operators, and the link by name
//! 4xt4+1xepyc-7742:256GiB  two kinds; a processor is a host, with as much memory as its owner bought
//! 1xrtx-3060:12GiB@pcie3x4 memory, and a slot of four lanes of PCI Express 3.0
//! ```
//!
//! A term without a precision has all peaks of its device, and the 16-bit peak for operators without a precision. A
//! term with a precision has only the peak at that precision.
//!
//! All devices are attached to one fabric, each by its own link. If a term has more devices than a server of the
//! vendor, over the usual link, joint plans assume that the devices are in such servers. For other plans, servers have
//! to be groups with an uplink each, which a shorthand cannot express: write the cluster to a file.

use stagewright_core::cluster::MAX_DEVICES;
use stagewright_core::document::{ClusterDocument, KindDocument, LinkDocument};

use super::devices::{Device, Precision, Role, device};
use super::error::NameError;

/// Largest number of terms: a letter distinguishes kinds of one role.
const MAX_TERMS: usize = 26;

/// A parsed term.
struct Term {
    count: u32,
    device: &'static Device,
    /// The precision that the term names.
    precision: Option<Precision>,
    /// Bytes of memory of each device, if the term states them.
    memory: Option<f64>,
    link: Option<String>,
}

/// Builds the cluster of a shorthand.
///
/// # Errors
/// If a term is empty, names an unknown device, precision or link, or has a count out of range.
pub fn shorthand(text: &str) -> Result<ClusterDocument, NameError> {
    let text = text.to_ascii_lowercase();
    if text.split('+').count() > MAX_TERMS {
        return Err(NameError::TooManyTerms { most: MAX_TERMS });
    }
    let terms = text.split('+').map(|part| term(part, &text)).collect::<Result<Vec<_>, _>>()?;
    let total: u64 = terms.iter().map(|term| u64::from(term.count)).sum();
    if total > MAX_DEVICES {
        return Err(NameError::TooManyDevices { count: total.to_string(), most: MAX_DEVICES });
    }
    check_bridges(&terms)?;
    let mut cluster = ClusterDocument::new(text.clone());
    for (index, Term { count, device, precision, memory, link }) in terms.iter().enumerate() {
        let class = class_name(&terms, index);
        let figures = precision.map_or_else(|| device.all_peaks(), |precision| device.class(precision));
        if let Some(document) = figures {
            cluster.classes.insert(class.clone(), document);
        }
        cluster.kinds.push(KindDocument {
            class,
            host: device.role == Role::Cpu,
            memory_bytes: memory.or(device.memory_bytes),
            server: device
                .server
                .as_ref()
                .filter(|server| *count > server.devices && *link == device.default_link)
                .map(|server| server.document()),
            link: link.as_ref().and_then(|link| link_document(device, link)),
            ..KindDocument::named(kind_name(&terms, index), *count)
        });
    }
    Ok(cluster)
}

/// Checks bridges: a bridge joins two devices, of one term or of two, and cannot reach a third device on the fabric.
fn check_bridges(terms: &[Term]) -> Result<(), NameError> {
    let count = terms.iter().filter(|term| term.device.role != Role::Cpu).map(|term| term.count).sum();
    for Term { device, link, .. } in terms {
        let bridge = link.as_ref().filter(|&link| device.links.get(link).is_some_and(|link| link.pair));
        if let Some(link) = bridge.filter(|_| count > 2) {
            return Err(NameError::Bridge { device: device.name.clone(), link: link.clone(), count });
        }
    }
    Ok(())
}

/// Name of a term's kind: its role, with a letter if several terms share it. Devices are `gpu3`, or `gpu-b3`.
fn kind_name(terms: &[Term], index: usize) -> String {
    let role = terms[index].device.role;
    let of_role = |terms: &[Term]| terms.iter().filter(|term| term.device.role == role).count();
    if of_role(terms) == 1 {
        return role.name().into();
    }
    let letter = char::from(b'a' + of_role(&terms[..index]) as u8);
    format!("{}-{letter}", role.name())
}

/// Name of a term's class. It contains the default precision only if another term has the same device with
/// all its peaks.
fn class_name(terms: &[Term], index: usize) -> String {
    let Term { device, precision, .. } = &terms[index];
    let is_open = |other: &Term| other.device.name == device.name && other.precision.is_none();
    match precision {
        None => device.name.clone(),
        Some(precision) if *precision == device.default_precision() && terms.iter().any(is_open) => {
            format!("{}-{precision}", device.name)
        }
        Some(precision) => device.class_name(*precision),
    }
}

/// Splits a leading count (the digits before an `x`) from the rest; without one, returns the whole text.
pub(super) fn split_count(text: &str) -> (Option<&str>, &str) {
    let rest = text.trim_start_matches(|c: char| c.is_ascii_digit());
    let digits = &text[..text.len() - rest.len()];
    match rest.strip_prefix('x') {
        Some(rest) if !digits.is_empty() => (Some(digits), rest),
        _ => (None, text),
    }
}

/// A term of a shorthand.
fn term(text: &str, whole: &str) -> Result<Term, NameError> {
    let (count, rest) = split_count(text);
    let (rest, link) = split_last(rest, '@');
    let mut parts = rest.split(':');
    let name = parts.next().unwrap_or_default();
    if name.is_empty() || link == Some("") || parts.clone().any(str::is_empty) {
        return Err(NameError::Incomplete { text: whole.into() });
    }
    let device = device(name).ok_or_else(|| NameError::unknown(name))?;
    let count = count.map_or(Ok(1), |digits| parse_count(text, digits))?;
    let (mut precision, mut memory) = (None, None);
    for part in parts {
        let bytes = size(part);
        if (bytes.is_some() && memory.is_some()) || (bytes.is_none() && precision.is_some()) {
            return Err(NameError::Twice { term: text.into() });
        }
        if bytes.is_some() {
            memory = bytes;
            continue;
        }
        let known = Precision::named(part).filter(|precision| device.peak_flops.contains_key(precision));
        precision = Some(known.ok_or_else(|| NameError::precision(device, part))?);
    }
    let link = match link {
        None => device.default_link.clone(),
        Some(name) if device.role == Role::Cpu => {
            return Err(NameError::HostLink { device: device.name.clone(), link: name.into() });
        }
        Some(name) => {
            link_document(device, name).ok_or_else(|| NameError::link(device, name))?;
            Some(name.to_owned())
        }
    };
    Ok(Term { count, device, precision, memory, link })
}

/// A link by name: one of the device's, or a slot of PCI Express such as `pcie3x4`.
fn link_document(device: &Device, name: &str) -> Option<LinkDocument> {
    device.links.get(name).map(|link| link.document()).or_else(|| slot(name))
}

/// A slot of PCI Express by generation and lanes. Of generation 3 and later, 128 of 130 bits are data, before that 8 of 10
/// (PCI Express Base Specification). As for the links of `devices.toml`, a transfer goes through the host.
fn slot(name: &str) -> Option<LinkDocument> {
    let (generation, lanes) = name.strip_prefix("pcie")?.split_once('x')?;
    let lane = match generation.strip_prefix('-').unwrap_or(generation) {
        "1" => 0.25e9,
        "2" => 0.5e9,
        "3" => 15.75e9 / 16.0,
        "4" => 31.5e9 / 16.0,
        "5" => 63e9 / 16.0,
        _ => return None,
    };
    let lanes = [1.0, 2.0, 4.0, 8.0, 16.0].into_iter().find(|count| lanes == count.to_string())?;
    Some(LinkDocument { latency_s: 10e-6, bandwidth: lane * lanes })
}

/// A number of bytes with a unit, such as `12gib`; `None` for other text.
fn size(text: &str) -> Option<f64> {
    const UNITS: [(&str, f64); 8] = [
        ("kib", 1024.0),
        ("mib", 1048576.0),
        ("gib", 1073741824.0),
        ("tib", 1099511627776.0),
        ("kb", 1e3),
        ("mb", 1e6),
        ("gb", 1e9),
        ("tb", 1e12),
    ];
    let (digits, unit) = UNITS.iter().find_map(|(name, unit)| Some((text.strip_suffix(name)?, unit)))?;
    let bytes = (digits.parse::<f64>().ok()? * unit).round();
    let is_plain = digits.starts_with(|digit: char| digit.is_ascii_digit());
    (is_plain && bytes >= 1.0 && bytes.is_finite()).then_some(bytes)
}

fn split_last(text: &str, separator: char) -> (&str, Option<&str>) {
    text.rsplit_once(separator).map_or((text, None), |(before, after)| (before, Some(after)))
}

fn parse_count(term: &str, digits: &str) -> Result<u32, NameError> {
    match digits.parse::<u32>() {
        Ok(0) => Err(NameError::NoDevices { term: term.into() }),
        Ok(count) => Ok(count),
        Err(_) => Err(NameError::TooManyDevices { count: digits.into(), most: MAX_DEVICES }),
    }
}
