//! The learned policy with the shipped network, its ablations, and the learned systems of the literature.

use stagewright_core::solver::Solver;
use stagewright_policy::{Origin, Parts, Policy};
use stagewright_systems::{Kind, Learned};

/// The policy's name.
pub const NAME: &str = "policy";

/// The checkpoint in `data/policy`; its model card is in the same folder.
pub const SHIPPED: &[u8] = include_bytes!("../../data/policy/checkpoint.safetensors");
/// Seed of the untrained network.
const UNTRAINED_SEED: u64 = 1;

/// The policy with the shipped network.
pub static POLICY: Policy = Policy::new(
    NAME,
    "a graph neural network that guides candidates and search (makespan and contiguous throughput)",
    Origin::Checkpoint(SHIPPED),
    Parts::ALL,
);

static UNTRAINED: Policy = Policy::new(
    "policy-untrained",
    "the policy with an untrained network",
    Origin::Untrained(UNTRAINED_SEED),
    Parts::ALL,
);

static NO_NETWORK: Policy = Policy::new(
    "policy-no-network",
    "the policy without its network: floor and search",
    Origin::Nothing,
    Parts::ALL,
);

static NETWORK: Policy = Policy::new(
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

/// The learned systems of the literature, as baselines.
pub static SYSTEMS: [&Learned; 4] = [&GDP, &PLACETO, &HSDAG, &HDP];

/// The ablations: the policy and the systems, each without one of its parts.
pub(crate) const ABLATIONS: [&dyn Solver; 7] = [
    &UNTRAINED,
    &NO_NETWORK,
    &NETWORK,
    &Learned::untrained("gdp-untrained", "samples of untrained GDP (makespan)", Kind::Gdp),
    &Learned::untrained("placeto-untrained", "samples of untrained Placeto (makespan)", Kind::Placeto),
    &Learned::untrained("hsdag-untrained", "samples of untrained HSDAG (makespan)", Kind::Hsdag),
    &Learned::untrained("hdp-untrained", "samples of untrained HDP (makespan)", Kind::Hdp),
];
