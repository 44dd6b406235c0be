//! Groups of `runs.csv`: who measured them, the runtime, and what its columns leave open.

/// A group of runs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Group {
    name: &'static str,
    /// The people and the cluster, for leaving out.
    pub(crate) source: &'static str,
    /// Name of the runtime's profile.
    pub(crate) runtime: &'static str,
    /// Whether its attention in one kernel is that of cuDNN or FlashAttention 3.
    pub(crate) has_new_kernels: bool,
    /// Whether it divides sequences in a tensor-parallel group, if the row does not say so.
    pub(crate) divides_sequences: bool,
}

const fn group(name: &'static str, source: &'static str, runtime: &'static str) -> Group {
    Group { name, source, runtime, has_new_kernels: false, divides_sequences: false }
}

const fn new(group: Group) -> Group {
    Group { has_new_kernels: true, ..group }
}

const fn divided(group: Group) -> Group {
    Group { divides_sequences: true, ..group }
}

static GROUPS: [Group; 29] = [
    group("amp-het", "amp", "eager"),
    group("amp-t4", "amp", "eager"),
    new(divided(group("bridge-dense", "bridge-dense", "megatron"))),
    group("bs-181b", "bs-181b", "deepspeed"),
    new(group("dsv3", "dsv3", "megatron")),
    group("fms-fsdp", "fms-fsdp", "fsdp"),
    group("hagemann", "hagemann", "scaling"),
    group("korthikanti22", "korthikanti22", "megatron"),
    new(divided(group("llama3-paper", "llama3-paper", "megatron"))),
    group("llm-foundry", "foundry", "fsdp"),
    new(group("maxtext", "maxtext", "fsdp")),
    new(divided(group("megatron-h100", "megatron-h100", "megatron"))),
    group("mist-l4", "mist-l4", "eager"),
    new(group("mixtral", "mixtral", "megatron")),
    group("mt-nlg", "mt-nlg", "deepspeed"),
    group("narayanan21", "narayanan21", "megatron"),
    new(divided(group("nemo-15b", "nemo", "megatron"))),
    new(divided(group("nemo-175b", "nemo", "megatron"))),
    new(divided(group("nemo-340b", "nemo", "megatron"))),
    new(divided(group("nemo-llama", "nemo", "megatron"))),
    group("opt", "opt", "fsdp"),
    group("sailor-gh200", "sailor", "eager"),
    group("sailor-mit", "sailor", "eager"),
    divided(group("torchtitan-h100", "torchtitan-h100", "torchtitan")),
    divided(group("ultrascale", "ultrascale", "nanotron")),
    group("zb-1.5B", "zb", "megatron"),
    group("zb-14.6B", "zb", "megatron"),
    group("zb-28.3B", "zb", "megatron"),
    group("zb-6.2B", "zb", "megatron"),
];

/// The group of a name, if it is known.
pub(crate) fn find(name: &str) -> Option<&'static Group> {
    GROUPS.iter().find(|group| group.name == name)
}
