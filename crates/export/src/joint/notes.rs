//! Usage notes that several targets give.

use stagewright_report::units::name as shown;

use super::plan::Joint;

/// The devices to run on: their number and, where kinds differ, the ranks of each stage.
///
/// Ranks are numbered like the devices of a joint plan: tensor-parallel groups first, then those of a sample, then
/// copies, then stages.
pub(super) fn devices(plan: &Joint) -> String {
    let of_stage = |tensor: u32| u64::from(tensor).saturating_mul(plan.copies());
    // Later stages run on the devices of these.
    let stages = &plan.stages[..plan.devices];
    let total: u64 = stages.iter().map(|stage| of_stage(stage.tensor)).sum();
    let mut note = format!("run on {total} device{}", if total == 1 { "" } else { "s" });
    // Kinds of devices in the order of the ranks, with their numbers. Copies of a stage are on one kind after the
    // other.
    let on_kinds = stages.iter().flat_map(|stage| {
        let of_copy = of_stage(stage.tensor) / u64::from(plan.execution.data.max(1));
        let mixed =
            stage.mixed.iter().map(move |(kind, &copies)| (kind.as_str(), of_copy * u64::from(copies)));
        let whole = (stage.kind.unwrap_or("?"), of_stage(stage.tensor));
        mixed.chain(stage.mixed.is_empty().then_some(whole))
    });
    let on_kinds: Vec<(&str, u64)> = on_kinds.collect();
    if on_kinds.windows(2).any(|pair| pair[0].0 != pair[1].0) {
        let mut start = 0;
        for (kind, devices) in on_kinds {
            let end = start + devices;
            note.push_str(&format!("; ranks {start} to {}: {}", end - 1, shown(kind)));
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
        document.stages[1].kind = None;
        document.stages[1].mixed = [("gpu-a".into(), 1), ("gpu-b".into(), 1)].into();
        let note = devices(&Joint::read(&document).unwrap());
        assert_eq!(note, "run on 8 devices; ranks 0 to 3: gpu-a; ranks 4 to 5: gpu-a; ranks 6 to 7: gpu-b");
    }

    #[test]
    fn devices_are_counted_once_for_all_their_stages() {
        let mut document = interleaved(&["E 0", "1", "2", "3 H"], 2);
        assert_eq!(devices(&Joint::read(&document).unwrap()), "run on 8 devices");
        divide(&mut document, 4, ContextExchange::Ring);
        assert_eq!(devices(&Joint::read(&document).unwrap()), "run on 32 devices");
    }
}
