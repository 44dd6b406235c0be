//! Usage notes that several targets give.

use stagewright_report::units::name as shown;

use super::plan::Joint;

/// The devices to run on: their number and, where kinds differ, the ranks of each stage.
///
/// Ranks are numbered like the devices of a joint plan: tensor-parallel groups first, then those of a sample, then copies, then
/// stages.
pub(super) fn devices(plan: &Joint) -> String {
    let of_stage = |tensor: u32| u64::from(tensor).saturating_mul(plan.copies());
    // Later stages run on the devices of these.
    let stages = &plan.stages[..plan.devices];
    let total: u64 = stages.iter().map(|stage| of_stage(stage.tensor)).sum();
    let mut note = format!("run on {total} device{}", if total == 1 { "" } else { "s" });
    if stages.windows(2).any(|pair| pair[0].kind != pair[1].kind) {
        let mut start = 0;
        for stage in stages {
            let end = start + of_stage(stage.tensor);
            note.push_str(&format!("; ranks {start} to {}: {}", end - 1, shown(stage.kind.unwrap_or("?"))));
            start = end;
        }
    }
    note
}

#[cfg(test)]
mod tests {
    use stagewright_core::document::ContextExchange;

    use super::super::testing::{divide, interleaved, plan};
    use super::*;

    #[test]
    fn ranks_are_listed_where_kinds_differ() {
        let mut document = plan(&["E 0", "1 H"]);
        assert_eq!(devices(&Joint::read(&document).unwrap()), "run on 8 devices");
        document.stages[1].kind = Some("gpu-b".into());
        let note = devices(&Joint::read(&document).unwrap());
        assert_eq!(note, "run on 8 devices; ranks 0 to 3: gpu-a; ranks 4 to 7: gpu-b");
    }

    #[test]
    fn devices_are_counted_once_for_all_their_stages() {
        let mut document = interleaved(&["E 0", "1", "2", "3 H"], 2);
        assert_eq!(devices(&Joint::read(&document).unwrap()), "run on 8 devices");
        divide(&mut document, 4, ContextExchange::Ring);
        assert_eq!(devices(&Joint::read(&document).unwrap()), "run on 32 devices");
    }
}
