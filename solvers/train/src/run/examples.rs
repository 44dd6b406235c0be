//! Examples from labels.

use rand_chacha::ChaCha8Rng;
use stagewright_core::bound::strongest;
use stagewright_core::document::ObjectiveKind;
use stagewright_core::evaluate::evaluate;
use stagewright_core::placement::Placement;
use stagewright_core::problem::Problem;
use stagewright_core::solver::Stop;
use stagewright_makespan::instance::Instance;
use stagewright_makespan::schedule::{Evaluator, Schedule};
use stagewright_policy::features::input;
use stagewright_policy::learn::{Example, Start, Teacher, base_schedule, example};
use stagewright_policy::solver::MAX_UNITS;
use stagewright_policy::subject::{Base, Subject, step_of};

use super::super::instance::instance;
use super::super::label::{Label, Labelled};
use super::super::recipe::Recipe;
use super::super::store::StoredLabel;
use super::Result;

/// The example of a stored label under its recipe.
///
/// # Errors
/// If the label does not fit the recipe.
pub fn example_of(recipe: &Recipe, stored: &StoredLabel, rng: &mut ChaCha8Rng) -> Result<Example> {
    let drawn = instance(recipe, stored.index);
    let label = stored.label(&drawn.problem)?;
    let step = step_of(&drawn.problem)?;
    let instance = Instance::new(&step);
    let stop = Stop::new(None, Default::default());
    Lesson::new(&drawn.problem, &instance).example(&label, &stop, rng)
}

/// A problem, prepared for any number of examples.
pub struct Lesson<'s, 'p> {
    problem: &'p Problem,
    subject: Subject<'s, 'p>,
    evaluator: Evaluator<'s, 'p>,
    /// The bound that the policy uses when it plans, which need not be the strongest.
    bound: f64,
}

impl<'s, 'p> Lesson<'s, 'p> {
    /// Prepares a problem, given the instance of its step.
    pub fn new(problem: &'p Problem, instance: &'s Instance<'p>) -> Lesson<'s, 'p> {
        let is_throughput = problem.objective().kind() == ObjectiveKind::Throughput;
        let subject = Subject::new(instance, MAX_UNITS, is_throughput);
        Lesson { problem, subject, evaluator: Evaluator::new(instance), bound: strongest(problem).value }
    }

    /// An example: a random plan to improve on, with targets from the plans of a label.
    ///
    /// # Errors
    /// If an invariant is broken.
    pub fn example(&mut self, label: &Label, stop: &Stop, rng: &mut ChaCha8Rng) -> Result<Example> {
        let teacher = |plan: &Labelled| Teacher { value: plan.value, placement: plan.placement.clone() };
        let teachers: Vec<Teacher> = label.plans.iter().map(teacher).collect();
        let schedule = base_schedule(Start::draw(rng), &self.subject, &teachers, stop, rng)?;
        let base = Base::new(&self.subject, &mut self.evaluator, &schedule);
        let value = match self.problem.objective().kind() {
            ObjectiveKind::Throughput => bottleneck(self.problem, &schedule),
            ObjectiveKind::Makespan | ObjectiveKind::Latency => base.seconds,
        };
        let figures = input(&self.subject, &base, value, self.bound);
        Ok(example(&self.subject, figures, &teachers, self.bound, rng))
    }
}

/// The largest load under a schedule's devices, contiguous or not.
fn bottleneck(problem: &Problem, schedule: &Schedule) -> f64 {
    evaluate(problem, &Placement::new(schedule.device_of.clone())).value
}
