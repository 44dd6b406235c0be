//! Small local plans for tests: eight blocks with 8192 tokens of context.

use stagewright_core::document::{
    ClusterDocument, LOCAL_PLAN_SCHEMA, LocalBoundDocument, LocalGoal, LocalMemoryDocument,
    LocalObjectiveDocument, LocalOverrideDocument, LocalPlanDocument, LocalSettingDocument, PlanStatus,
};

use super::{export_local, export_local_noted};

/// All layers on one device, of a model with the name of its file.
pub(super) fn one_device() -> LocalPlanDocument {
    let mut plan = plan("-dev CUDA0 -ngl 9 -c 8192 -np 1 -kvu", vec![memory("CUDA0", "large", [0, 9], 6, 8)]);
    plan.model = "small.gguf".into();
    plan
}

/// Layers on two devices in the order 1, 0, with a cache of 8 bits.
pub(super) fn two_devices() -> LocalPlanDocument {
    let devices = vec![memory("CUDA1", "small", [0, 3], 3, 4), memory("CUDA0", "large", [3, 9], 6, 8)];
    let mut plan = plan("-dev CUDA1,CUDA0 -ngl 9 -ts 3,6 -c 8192 -np 1 -kvu -ctk q8_0 -ctv q8_0", devices);
    setting(&mut plan).cache = ["q8_0", "q8_0"].map(str::to_owned);
    plan
}

/// Layers on two devices in equal shares, the first of which has the layer that is left over.
pub(super) fn even() -> LocalPlanDocument {
    let devices = vec![memory("CUDA0", "large", [0, 5], 5, 8), memory("CUDA1", "large", [5, 9], 4, 8)];
    plan("-dev CUDA0,CUDA1 -ngl 9 -ts 5,4 -c 8192 -np 1 -kvu", devices)
}

/// Experts of the first three blocks on the host.
pub(super) fn experts() -> LocalPlanDocument {
    let flags = "-dev CUDA0 -ngl 9 -ncmoe 3 -c 8192 -np 1 -kvu -b 4096 -ub 4096";
    let mut plan = plan(flags, vec![memory("CUDA0", "large", [0, 9], 6, 8)]);
    (setting(&mut plan).batch, setting(&mut plan).micro_batch) = (4096, 4096);
    let modules = ["ffn_up_exps", "ffn_gate_exps", "ffn_down_exps"].map(str::to_owned).to_vec();
    let moved = LocalOverrideDocument { blocks: vec![0, 1, 2], modules, target: "CPU".into() };
    setting(&mut plan).overrides = vec![moved];
    plan
}

/// The same, and one projection of two later blocks.
pub(super) fn patterns() -> LocalPlanDocument {
    changed(experts(), ("-ncmoe 3", r"-ncmoe 3 -ot 'blk\.(5|7)\.(ffn_up_exps)\.=CPU'"), |setting| {
        let modules = vec!["ffn_up_exps".to_owned()];
        setting.overrides.push(LocalOverrideDocument { blocks: vec![5, 7], modules, target: "CPU".into() });
    })
}

/// A plan with a part of its flags replaced, and another change of its setting.
pub(super) fn changed(
    mut plan: LocalPlanDocument,
    (part, replacement): (&str, &str),
    change: impl FnOnce(&mut LocalSettingDocument),
) -> LocalPlanDocument {
    let setting = setting(&mut plan);
    assert!(setting.flags.contains(part), "{} has no {part}", setting.flags);
    if !part.is_empty() {
        setting.flags = setting.flags.replace(part, replacement);
    }
    change(setting);
    plan
}

fn setting(plan: &mut LocalPlanDocument) -> &mut LocalSettingDocument {
    plan.setting.as_mut().expect("it has one")
}

fn plan(flags: &str, devices: Vec<LocalMemoryDocument>) -> LocalPlanDocument {
    let host =
        LocalMemoryDocument { cache: 0, compute: 1 << 29, ..memory("CPU", "processor", [0, 0], 1, 16) };
    LocalPlanDocument {
        schema: LOCAL_PLAN_SCHEMA.into(),
        status: PlanStatus::Optimal,
        solver: "local".into(),
        model: "small".into(),
        options: None,
        cluster: ClusterDocument::new("machine"),
        objective: LocalObjectiveDocument {
            kind: LocalGoal::Request,
            prompt: Some(2000),
            output: Some(400),
            tokens: None,
            micro_batch: None,
            to_devices: false,
            value_s: Some(11.5),
        },
        bound: LocalBoundDocument { value_s: Some(11.5), source: "search".into() },
        gap: Some(0.0),
        seconds: 0.1,
        origin: None,
        stop: None,
        reason: None,
        setting: Some(LocalSettingDocument {
            flags: flags.into(),
            context: 8192,
            sequences: 1,
            batch: 2048,
            micro_batch: 512,
            cache: ["f16", "f16"].map(str::to_owned),
            gpu_layers: 9,
            blocks: 8,
            token_s: Some(0.025),
            prompt_s: Some(1.5),
            devices,
            host,
            overrides: Vec::new(),
        }),
    }
}

/// A device that takes and has whole GiB.
fn memory(name: &str, kind: &str, slots: [u64; 2], taken: u64, memory: u64) -> LocalMemoryDocument {
    LocalMemoryDocument {
        name: name.into(),
        kind: kind.into(),
        slots,
        weights: taken << 30,
        cache: 0,
        compute: 0,
        other: 0,
        memory: memory << 30,
    }
}

/// The text that a target writes.
pub(super) fn text(plan: &LocalPlanDocument, target: &str) -> String {
    export_local(plan, target).unwrap_or_else(|error| panic!("{target} refuses it: {error}"))
}

/// The notes that a target gives, a line each.
pub(super) fn notes(plan: &LocalPlanDocument, target: &str) -> String {
    let export =
        export_local_noted(plan, target).unwrap_or_else(|error| panic!("{target} refuses it: {error}"));
    export.notes.join("\n")
}

/// Code, place and message with which a target refuses a plan.
pub(super) fn refused(plan: &LocalPlanDocument, target: &str) -> (&'static str, Option<String>, String) {
    let error = export_local(plan, target).err().unwrap_or_else(|| panic!("{target} takes it"));
    assert!(!error.help().is_empty());
    (error.code().name, error.place().map(str::to_owned), error.to_string())
}
