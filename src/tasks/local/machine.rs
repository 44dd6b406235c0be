//! The machine of a question, calibrated by runs on it.

use stagewright_core::document::ClusterDocument;
use stagewright_llamacpp::{Machine, bench, calibrate};
use stagewright_structure::Structure;

use crate::failure::Result;
use crate::files::Input;

/// The machine that a cluster is, with the speeds that outputs of `llama-bench` show.
pub(super) fn machine(
    label: &str,
    cluster: &ClusterDocument,
    structure: &Structure,
    benches: &[Input],
    notes: &mut Vec<String>,
) -> Result<Machine> {
    let (mut machine, remarks) = Machine::of(label, cluster)?;
    notes.extend(remarks);
    for Input { label, bytes } in benches {
        let runs = bench::read(label, bytes)?;
        let (calibrated, remarks) = calibrate(structure, &machine, &runs);
        machine = calibrated;
        notes.extend(remarks.into_iter().map(|remark| format!("{label}: {remark}")));
    }
    Ok(machine)
}

/// Kinds of the devices in their order, and of the host.
pub(super) fn spoken(cluster: &ClusterDocument) -> (Vec<String>, String) {
    let devices = cluster.kinds.iter().filter(|kind| !kind.host);
    let names = devices.flat_map(|kind| std::iter::repeat_n(kind.name.clone(), kind.count as usize));
    let host = cluster.kinds.iter().find(|kind| kind.host).map(|kind| kind.name.clone());
    (names.collect(), host.unwrap_or_default())
}
