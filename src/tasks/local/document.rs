//! Plan documents of local plans.

use std::collections::BTreeMap;

use stagewright_core::document::{
    LOCAL_PLAN_SCHEMA, LocalBoundDocument, LocalGoal, LocalMemoryDocument, LocalObjectiveDocument,
    LocalOverrideDocument, LocalPlanDocument, LocalSettingDocument, OriginDocument, PlanStatus,
};
use stagewright_core::tolerance;
use stagewright_llamacpp::memory::{Bytes, Memory};
use stagewright_llamacpp::speed::{Work, decode, prefill};
use stagewright_llamacpp::{DeviceId, Location, Setting, place};
use stagewright_local::Plan;

use super::question::{Fixed, Local};
use crate::failure::Result;

/// A setting with what follows from it, whether it fits or not.
pub(super) fn judged(local: &Local, label: &str, setting: Setting) -> Result<Plan> {
    let placement = place(&local.structure, &setting);
    let memory = Memory::of(label, &local.structure, &setting, &placement)?;
    let goal = local.fixed_of(&setting).goal;
    let seconds = goal.seconds(&local.structure, &setting, &placement, local.machine.host);
    Ok(Plan { setting, placement, memory, seconds: seconds.unwrap_or(f64::INFINITY) })
}

impl Local {
    /// The document of a plan or of none, without its bound.
    pub(super) fn planned(
        &self,
        solver: &str,
        fixed: &Fixed,
        plan: Option<&Plan>,
        took: f64,
    ) -> LocalPlanDocument {
        let value = plan.map(|plan| plan.seconds).filter(|seconds| seconds.is_finite());
        let tokens = (self.objective.kind == LocalGoal::Decode).then(|| fixed.goal.generated().1);
        LocalPlanDocument {
            schema: LOCAL_PLAN_SCHEMA.into(),
            status: PlanStatus::Unknown,
            solver: solver.into(),
            model: self.model_name(),
            options: self.options.clone(),
            cluster: self.cluster.clone(),
            objective: LocalObjectiveDocument {
                tokens,
                to_devices: plan.is_some_and(|plan| self.has_projections_elsewhere(plan)),
                value_s: value,
                ..self.objective.clone()
            },
            bound: LocalBoundDocument { value_s: None, source: "none".into() },
            gap: None,
            seconds: took,
            origin: Some(OriginDocument::of_library()),
            stop: None,
            reason: None,
            setting: plan.map(|plan| self.setting(fixed, plan)),
        }
    }

    /// The file of the model if it was planned from one, so that exported lines run as they are; else its name.
    fn model_name(&self) -> String {
        let is_file = self.label.to_ascii_lowercase().ends_with(".gguf");
        if is_file { self.label.clone() } else { self.structure.name.clone() }
    }

    /// Whether tensors are on a device that does not have their layer.
    fn has_projections_elsewhere(&self, plan: &Plan) -> bool {
        let located = self.structure.tensors.iter().zip(&plan.placement.tensors);
        located.filter_map(|(tensor, location)| Some((tensor.layer?, (*location)?))).any(
            |(layer, location)| {
                let slot = usize::try_from(layer).ok().and_then(|layer| plan.placement.slots.get(layer));
                location != Location::Host && slot.is_some_and(|slot| *slot != location)
            },
        )
    }

    fn setting(&self, fixed: &Fixed, plan: &Plan) -> LocalSettingDocument {
        let Plan { setting, placement, memory, .. } = plan;
        let (structure, host) = (&self.structure, self.machine.host);
        let (_, tokens) = fixed.goal.generated();
        let prompt = fixed.goal.prompt();
        let blocks = placement.slots.len() as u64 - 1;
        let of_device = |id: DeviceId| {
            let device = &setting.devices[id];
            let kind = self.machine.devices.iter().position(|other| other.name == device.name);
            let kind = kind.and_then(|kind| self.kinds.get(kind)).cloned().unwrap_or_default();
            let bytes = &memory.devices[id];
            held(
                &device.name,
                kind,
                range(placement.slots.as_slice(), Location::Device(id)),
                bytes,
                device.memory,
            )
        };
        let on_host = range(&placement.slots, Location::Host);
        LocalSettingDocument {
            flags: setting.line(),
            context: fixed.context,
            sequences: setting.sequences,
            batch: setting.batch,
            micro_batch: setting.micro_batch,
            cache: [setting.keys.name().into_owned(), setting.values.name().into_owned()],
            gpu_layers: setting.layers.unwrap_or(blocks + 1).min(blocks + 1),
            blocks,
            token_s: Some(decode(&Work::of(structure, setting, placement, tokens), setting, host)),
            prompt_s: match prompt {
                0 => None,
                prompt => prefill(structure, setting, placement, host, prompt),
            },
            devices: setting.devices.ids().map(of_device).collect(),
            host: held("CPU", self.host_kind.clone(), on_host, &memory.host, host.memory),
            overrides: self.overrides(plan),
        }
    }

    /// Projections that are elsewhere than their slot, by where they are.
    fn overrides(&self, plan: &Plan) -> Vec<LocalOverrideDocument> {
        let Plan { setting, placement, .. } = plan;
        let mut moved: BTreeMap<u64, Vec<(String, Location)>> = BTreeMap::new();
        for (tensor, location) in self.structure.tensors.iter().zip(&placement.tensors) {
            let (Some(block), Some(location)) = (tensor.layer, location) else { continue };
            let slot = usize::try_from(block).ok().and_then(|block| placement.slots.get(block));
            let module = tensor.name.split('.').nth(2).unwrap_or_default().to_owned();
            let entry = (module, *location);
            let known = moved.entry(block).or_default();
            if slot != Some(location) && !known.contains(&entry) {
                known.push(entry);
            }
        }
        let mut by_modules: BTreeMap<(Vec<String>, Location), Vec<u64>> = BTreeMap::new();
        for (block, entries) in moved {
            let mut by_target: BTreeMap<Location, Vec<String>> = BTreeMap::new();
            for (module, location) in entries {
                by_target.entry(location).or_default().push(module);
            }
            for (target, mut modules) in by_target {
                modules.sort();
                by_modules.entry((modules, target)).or_default().push(block);
            }
        }
        let target = |location: Location| match location {
            Location::Host => "CPU".to_owned(),
            Location::Device(device) => setting.devices[device].name.clone(),
        };
        let line = |((modules, location), blocks): ((Vec<String>, Location), Vec<u64>)| {
            LocalOverrideDocument { blocks, modules, target: target(location) }
        };
        by_modules.into_iter().map(line).collect()
    }
}

/// The slots of a location, which are neighbours.
fn range(slots: &[Location], location: Location) -> [u64; 2] {
    let first = slots.iter().position(|slot| *slot == location).unwrap_or(0);
    let count = slots.iter().filter(|slot| **slot == location).count();
    [first as u64, (first + count) as u64]
}

fn held(name: &str, kind: String, slots: [u64; 2], bytes: &Bytes, memory: u64) -> LocalMemoryDocument {
    LocalMemoryDocument {
        name: name.to_owned(),
        kind,
        slots,
        weights: bytes.weights,
        cache: bytes.cache,
        compute: bytes.compute,
        other: bytes.context.saturating_add(bytes.copies),
        memory,
    }
}

/// The document with its gap.
pub(super) fn with_gap(mut plan: LocalPlanDocument) -> LocalPlanDocument {
    let known = plan.objective.value_s.zip(plan.bound.value_s);
    plan.gap = known.map(|(value, bound)| tolerance::gap(value, bound));
    plan
}
