//! Instances: the numbered problems of a recipe.

use std::sync::Arc;

use stagewright_core::cluster::Cluster;
use stagewright_core::contraction::Units;
use stagewright_core::document::{ClusterDocument, ObjectiveKind};
use stagewright_core::graph::Graph;
use stagewright_core::problem::Problem;
use stagewright_core::seed;
use stagewright_core::solver::{Context, Limits, Plan, Silent, SolveError, Solver};
use stagewright_makespan::HEFT;
use stagewright_search::OneDevice;
use stagewright_search::dpl::{OrderEffort, best_over_orders};

use super::clusters;
use super::draw::{log_uniform_count, one_of};
use super::recipe::Recipe;

/// Growth of device memory while no plan fits: a factor, and at least this share of all bytes of the graph. So after
/// about twenty steps every device can hold everything.
const MORE_MEMORY: f64 = 1.4;
const LEAST_MORE: f64 = 0.05;
/// Memory limit in bytes for the tables of the program over linear orders.
const MEMORY: u64 = 512 << 20;

/// A training problem.
#[derive(Debug, Clone)]
pub struct Instance {
    /// Name of the instance, made of the family, the seed and the number.
    pub name: String,
    /// Family of the instance's graph.
    pub family: &'static str,
    /// The problem, which has a feasible placement.
    pub problem: Problem,
}

/// The instance with a given number: a family, a size, a cluster and an objective, drawn from the random stream of the
/// recipe's seed and the number. The same recipe and number give the same documents.
///
/// Takes the time of a few list schedules or linear orders, which ensure that some placement fits the memory.
pub fn instance(recipe: &Recipe, index: u64) -> Instance {
    let document = recipe.document();
    let mut rng = seed::stream(document.seed, index);
    let family = one_of(&mut rng, recipe.families());
    let objective = one_of(&mut rng, &document.objectives).objective();
    let [least, largest] = document.operators;
    let size = log_uniform_count(&mut rng, least, largest);
    let size =
        family.nearest(size, [least, largest]).expect("every family of a recipe has graphs of its sizes");
    let name = name(recipe, index);
    let mut graph = family.graph(&mut rng, size);
    graph.name = name.clone();
    let graph = Arc::new(Graph::from_document(graph).expect("families make sound graphs"));
    let cluster = ClusterDocument {
        name: name.clone(),
        ..clusters::cluster(&mut rng, &graph, objective.kind(), &document.proportions())
    };
    let problem = |cluster: &ClusterDocument| {
        let cluster = Cluster::from_document(cluster.clone()).expect("drawn clusters are sound");
        Problem::new(graph.clone(), cluster, objective)
            .expect("every kind prices every operator and transfer of the families")
    };
    let least_more = LEAST_MORE * all_bytes(&graph);
    let (mut cluster, mut made) = (cluster.clone(), problem(&cluster));
    while first_plan(&made).expect("solvers take what recipes ask for").is_none() {
        cluster = clusters::with_more_memory(&cluster, MORE_MEMORY, least_more)
            .expect("without limits any device holds everything");
        made = problem(&cluster);
    }
    Instance { name, family: family.name, problem: made }
}

/// The name of the instance with a given number. O(1).
pub fn name(recipe: &Recipe, index: u64) -> String {
    let seed = recipe.document().seed;
    let family = one_of(&mut seed::stream(seed, index), recipe.families());
    format!("{}-{seed}-{index}", family.name)
}

/// Total bytes of operators, shared parameters and tensors.
fn all_bytes(graph: &Graph) -> f64 {
    let operators: f64 = graph.operators().map(|op| graph.operator(op).bytes()).sum();
    let shared = graph.parameters().iter().map(|shared| shared.bytes + shared.optimizer_bytes).sum::<f64>();
    operators + shared + graph.tensors().map(|tensor| graph.bytes(tensor)).sum::<f64>()
}

/// A plan that is found quickly and without a time limit, so that it depends on the problem only: everything on one
/// device, a list schedule, or the best split of a few linear orders. `None` if none of these fits.
///
/// # Errors
/// If a solver does not support the problem.
pub(super) fn first_plan(problem: &Problem) -> Result<Option<Plan>, SolveError> {
    let mut silent = Silent;
    let limits = Limits { time: None, memory: Some(MEMORY), gap: 0.0, simulations: None };
    let mut context = Context::new(limits, &mut silent);
    if problem.objective().kind() == ObjectiveKind::Makespan {
        let found = HEFT.solve(problem, &mut context)?.plan;
        return Ok(found.or(OneDevice.solve(problem, &mut context)?.plan));
    }
    let found = OneDevice.solve(problem, &mut context)?.plan;
    match found {
        Some(plan) => Ok(Some(plan)),
        None => best_over_orders(problem, &Units::of(problem), OrderEffort::Plain, &mut context),
    }
}
