//! Rules of people: their plans are valid, and no better than the best one.

use stagewright_core::document::ServingMode;
use stagewright_core::solver::{Context, Limits, Settings, Silent};
use stagewright_replicas::rules::{RULES, rule};
use stagewright_serving::{Problem, check};

use crate::agreement::random;
use crate::fixture::{dense, mixture, solved};

#[test]
fn plans_of_rules_are_valid_and_no_better_than_the_best() {
    let models = [dense(6, 1024, 8), mixture()];
    let mut planned = vec![0; RULES.len()];
    let mut worse = vec![0; RULES.len()];
    for task in 0..150 {
        let (cluster, mut asked) = random(7, 1000 + task);
        // A ring has a stage of every device.
        asked.max_stages = 8;
        let model = &models[usize::from(task % 4 == 3)];
        let shown = format!("{task}: {} {:?} {asked:?}", cluster.name, cluster.kinds[0].server);
        let problem = Problem::new("question", ("model", model), ("cluster", &cluster), asked).expect(&shown);
        let best = solved(&problem);
        for (index, known) in RULES.iter().enumerate() {
            let mut observer = Silent;
            let mut context = Context::new(Settings::from(Limits::default()), &mut observer);
            let plan =
                rule(&problem, &cluster, known.name, &mut context).expect("threads").expect(known.name);
            let Some(value) = plan.value else { continue };
            let report = check(&problem, &plan);
            // Without a limit between tokens, prompts wait for the slowest decode replica of all, here with equal layers.
            let is_other = known.name == "equal-layers" && problem.question.tpot_s.is_none();
            assert!(
                is_other || report.violations.is_empty(),
                "{} of {shown}\n{:?}",
                known.name,
                report.violations
            );
            planned[index] += 1;
            let best = best.plan.as_ref().map(|plan| plan.value);
            let best =
                best.unwrap_or_else(|| panic!("{} has a plan where there is none: {shown}", known.name));
            let ahead = if problem.question.goal.is_maximised() { value - best } else { best - value };
            worse[index] += usize::from(ahead < -1e-9 * best.abs());
            // Decode replicas of the space have balanced layers, and a ring has layers by memory.
            let is_apart = problem.question.modes.contains(&ServingMode::Disaggregated);
            let is_in_space = known.name != "exo" && (known.name != "equal-layers" || !is_apart);
            assert!(!is_in_space || ahead <= 1e-9 * best.abs(), "{} of {shown}: {value} {best}", known.name);
        }
    }
    assert!(planned.iter().all(|count| *count >= 10), "{planned:?}");
    assert!(worse.iter().sum::<usize>() >= 50, "{worse:?}");
}

#[test]
fn no_rule_has_an_unknown_name() {
    let (cluster, asked) = random(7, 1);
    let model = dense(6, 1024, 8);
    let problem =
        Problem::new("question", ("model", &model), ("cluster", &cluster), asked).expect("a question");
    let mut observer = Silent;
    let mut context = Context::new(Settings::from(Limits::default()), &mut observer);
    assert_eq!(rule(&problem, &cluster, "best", &mut context).expect("threads"), None);
}
