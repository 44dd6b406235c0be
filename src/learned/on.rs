//! The learned policy with the shipped network, its ablations, and the learned systems of the literature.

use stagewright_policy::systems::{Kind, Learned};
use stagewright_policy::{Origin, Parts, Policy};

/// The policy's name.
pub const NAME: &str = "policy";

/// The checkpoint in `data/policy`; its card is in the same folder.
pub const SHIPPED: &[u8] = include_bytes!("../../data/policy/checkpoint.safetensors");
/// Seed of the untrained network.
const UNTRAINED_SEED: u64 = 1;

pub(crate) static POLICY: Policy = Policy::new(
    NAME,
    "a graph neural network that guides candidates and search (makespan and contiguous throughput)",
    Origin::Checkpoint(SHIPPED),
    Parts::ALL,
);

pub(crate) static UNTRAINED: Policy = Policy::new(
    "policy-untrained",
    "the policy with an untrained network",
    Origin::Untrained(UNTRAINED_SEED),
    Parts::ALL,
);

pub(crate) static NO_NETWORK: Policy = Policy::new(
    "policy-no-network",
    "the policy without its network: floor and search",
    Origin::Nothing,
    Parts::ALL,
);

pub(crate) static NETWORK: Policy = Policy::new(
    "policy-network",
    "the network alone: its most likely plan, without floor and search",
    Origin::Checkpoint(SHIPPED),
    Parts { floor: false, draws: 1, search: false },
);

pub(crate) static GDP: Learned = Learned::new(
    "gdp",
    "GDP: a graph embedding and attention place all operators at once, trained on the graph (makespan)",
    Kind::Gdp,
);

pub(crate) static PLACETO: Learned = Learned::new(
    "placeto",
    "Placeto: re-places one group at a time, trained on the graph (makespan)",
    Kind::Placeto,
);

pub(crate) static HSDAG: Learned = Learned::new(
    "hsdag",
    "HSDAG: learns grouping and placement jointly, trained on the graph (makespan)",
    Kind::Hsdag,
);

pub(crate) static HDP: Learned =
    Learned::new("hdp", "HDP: a grouper and a recurrent placer, trained on the graph (makespan)", Kind::Hdp);

pub(crate) static GDP_UNTRAINED: Learned =
    Learned::untrained("gdp-untrained", "samples of untrained GDP (makespan)", Kind::Gdp);

pub(crate) static PLACETO_UNTRAINED: Learned =
    Learned::untrained("placeto-untrained", "samples of untrained Placeto (makespan)", Kind::Placeto);

pub(crate) static HSDAG_UNTRAINED: Learned =
    Learned::untrained("hsdag-untrained", "samples of untrained HSDAG (makespan)", Kind::Hsdag);

pub(crate) static HDP_UNTRAINED: Learned =
    Learned::untrained("hdp-untrained", "samples of untrained HDP (makespan)", Kind::Hdp);

/// The learned systems of the literature, as baselines.
pub static SYSTEMS: [&Learned; 4] = [&GDP, &PLACETO, &HSDAG, &HDP];

/// The learned systems of the literature without learning, as a baseline.
pub static UNTRAINED_SYSTEMS: [&Learned; 4] =
    [&GDP_UNTRAINED, &PLACETO_UNTRAINED, &HSDAG_UNTRAINED, &HDP_UNTRAINED];

/// The policy and its ablations that use the shipped network, which can be replaced by another checkpoint.
pub static WITH_CHECKPOINT: [&Policy; 2] = [&POLICY, &NETWORK];
