//! From labels to examples.

use rand_chacha::ChaCha8Rng;
use stagewright_core::cluster::DeviceId;
use stagewright_core::document::ObjectiveKind;
use stagewright_core::evaluate::evaluate;
use stagewright_core::placement::Placement;
use stagewright_core::problem::Problem;
use stagewright_policy::features::input;
use stagewright_policy::learn::{Example, Start, Teacher, base_schedule, example};
use stagewright_policy::solver::MOST_UNITS;
use stagewright_policy::subject::{Base, Subject, step_of};
use stagewright_search::makespan::scene::Scene;
use stagewright_search::makespan::schedule::{Judge, Schedule};

use super::super::instance::instance;
use super::super::label::Label;
use super::super::recipe::Recipe;
use super::super::store::StoredLabel;
use super::RunError;

/// The example of a stored label under its recipe.
///
/// # Errors
/// A label that cannot be of this recipe.
pub fn example_of(recipe: &Recipe, stored: &StoredLabel, rng: &mut ChaCha8Rng) -> Result<Example, RunError> {
    let instance = instance(recipe, stored.index);
    let label = stored.label(&instance.problem)?;
    problem_example(&instance.problem, &label, rng)
}

/// The example of a label: a drawn plan to improve on, and what the plans of the label teach about it.
///
/// # Errors
/// A broken invariant.
pub fn problem_example(problem: &Problem, label: &Label, rng: &mut ChaCha8Rng) -> Result<Example, RunError> {
    let step = step_of(problem)?;
    let scene = Scene::new(&step);
    let is_throughput = problem.objective().kind == ObjectiveKind::Throughput;
    let subject = Subject::new(&scene, MOST_UNITS, is_throughput);
    let teachers: Vec<Teacher> = label
        .plans
        .iter()
        .map(|plan| Teacher { value: plan.value, placement: plan.placement.clone() })
        .collect();
    let schedule = base_schedule(Start::draw(rng), &subject, &teachers, rng)?;
    let mut judge = Judge::new(&scene);
    let base = Base::new(&subject, &mut judge, &schedule);
    let value = if is_throughput { bottleneck(problem, &schedule) } else { base.seconds };
    let figures = input(&subject, &base, value, label.bound);
    Ok(example(&subject, figures, &teachers, label.bound, rng))
}

/// The largest load under a schedule's devices, contiguous or not.
fn bottleneck(problem: &Problem, schedule: &Schedule) -> f64 {
    let device_of: Vec<DeviceId> = schedule.device_of.clone();
    evaluate(problem, &Placement::new(device_of)).value
}
