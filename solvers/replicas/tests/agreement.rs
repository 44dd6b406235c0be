//! Random small questions: plans are checked, and compared with all plans.

use rand::RngExt;
use stagewright_core::document::{
    ClusterDocument, LinkDocument, PlanStatus, RequestClassDocument, ServerDocument, ServingGoal,
    ServingMode, ServingQuestionDocument, ServingRole, ServingStatistic,
};
use stagewright_core::seed;
use stagewright_formats::clusters;
use stagewright_replicas::{Column, Solution};
use stagewright_serving::{Problem, Verdict, check};

use crate::fixture::{dense, mixture, question, solved};

/// The most combinations of replicas that are tried for a question.
const COMBINATIONS: u64 = 200_000;

const CLUSTERS: [&str; 7] =
    ["1xl40s", "3xl40s", "5xa100", "2xh100+2xl40s", "1xa100+3xt4", "3xt4", "2xh100+1xa100+2xt4"];

pub(crate) fn random(stream: u64, task: u64) -> (ClusterDocument, ServingQuestionDocument) {
    let mut random = seed::stream(stream, task);
    let mut asked = question(random.random_range(1..3000), random.random_range(1..400));
    if random.random_bool(0.3) {
        let share = random.random_range(0.1..0.9);
        asked.classes[0].share = share;
        asked.classes.push(RequestClassDocument {
            input: random.random_range(1..500),
            output: random.random_range(1..900),
            shared_prefix: 0,
            share: 1.0 - share,
        });
    }
    asked.goal = match random.random_range(0..6) {
        0 | 1 => ServingGoal::Devices,
        2 => ServingGoal::Price,
        3 => ServingGoal::Cache,
        _ => ServingGoal::Throughput,
    };
    asked.modes = match random.random_range(0..3) {
        0 => vec![ServingMode::Aggregated],
        1 => vec![ServingMode::Disaggregated],
        _ => asked.modes,
    };
    let is_alone = asked.classes.len() == 1;
    match random.random_range(0..3) {
        0 if is_alone || asked.goal == ServingGoal::Throughput => {
            asked.concurrency = Some(random.random_range(1.0_f64..40.0).floor());
        }
        1 if asked.goal == ServingGoal::Throughput => {}
        _ => asked.rate = Some(10.0_f64.powf(random.random_range(-1.0..2.5))),
    }
    asked.ttft_s = random.random_bool(0.6).then(|| random.random_range(0.03..3.0));
    asked.tpot_s = random.random_bool(0.6).then(|| random.random_range(0.001..0.1));
    asked.max_batch = random.random_bool(0.7).then(|| random.random_range(1..6));
    asked.max_stages = random.random_range(1..4);
    asked.engine = ["vllm", "sglang", "tensorrt-llm"][random.random_range(0..3)].to_owned();
    let mut cluster = clusters::find(CLUSTERS[random.random_range(0..CLUSTERS.len())]).expect("a cluster");
    if random.random_bool(0.4) {
        let link = LinkDocument { latency_s: 1e-5, bandwidth: 1e10 };
        for kind in &mut cluster.kinds {
            kind.server = Some(ServerDocument { devices: random.random_range(1..4), link });
        }
    }
    if random.random_bool(0.3) {
        asked.limits = ServingStatistic::P95;
    }
    if asked.goal == ServingGoal::Price {
        let names = cluster.kinds.iter().map(|kind| kind.name.clone());
        asked.prices = names.map(|name| (name, random.random_range(0.1..4.0))).collect();
    }
    (cluster, asked)
}

/// The best value of all plans, `None` if there is none; nothing of too many combinations.
pub(crate) fn best(problem: &Problem, solution: &Solution) -> Option<Option<f64>> {
    let mut search = Search { problem, solution, left: COMBINATIONS, best: None };
    let devices: Vec<u64> = problem.fleet.kinds.iter().map(|kind| kind.count).collect();
    let mut counts = vec![0; solution.space.columns.len()];
    search.extend(0, &devices, &mut counts);
    (search.left > 0).then_some(search.best)
}

struct Search<'s> {
    problem: &'s Problem,
    solution: &'s Solution,
    left: u64,
    best: Option<f64>,
}

impl Search<'_> {
    /// The largest number of a column beside those before it: replicas that run already are only as many as that.
    fn free(&self, column: usize, counts: &[u64]) -> u64 {
        let columns = &self.solution.space.columns;
        let Some(running) = columns[column].running(self.problem) else { return u64::MAX };
        let others = (0..column).filter(|&other| columns[other].kept == columns[column].kept);
        running.count - others.map(|other| counts[other]).sum::<u64>()
    }

    fn extend(&mut self, column: usize, devices: &[u64], counts: &mut Vec<u64>) {
        if self.left == 0 {
            return;
        }
        if column == counts.len() {
            self.left -= 1;
            if let Some(value) = value(self.problem, self.solution, counts) {
                let is_better = |best: f64| match self.problem.question.goal.is_maximised() {
                    true => value > best,
                    false => value < best,
                };
                if self.best.is_none_or(is_better) {
                    self.best = Some(value);
                }
            }
            return;
        }
        let size = &self.solution.space.sizes[self.solution.space.columns[column].size];
        let mut rest = devices.to_vec();
        loop {
            self.extend(column + 1, &rest, counts);
            if counts[column] == self.free(column, counts)
                || rest.iter().zip(&size.devices).any(|(rest, used)| used > rest)
            {
                break;
            }
            rest.iter_mut().zip(&size.devices).for_each(|(rest, used)| *rest -= used);
            counts[column] += 1;
        }
        counts[column] = 0;
    }
}

/// The value of numbers of replicas; `None` if they break a row.
fn value(problem: &Problem, solution: &Solution, counts: &[u64]) -> Option<f64> {
    let columns = &solution.space.columns;
    let sum = |class: usize, role: ServingRole, figure: &dyn Fn(usize) -> f64| -> f64 {
        let own =
            (0..counts.len()).filter(|&index| columns[index].class == class && columns[index].role == role);
        own.map(|index| counts[index] as f64 * figure(index)).sum()
    };
    let rate_of = |index: usize| columns[index].offer.rate;
    let flight_of = |index: usize| columns[index].offer.in_flight;
    let question = &problem.question;
    let is_throughput = question.goal == ServingGoal::Throughput;
    let slack = 1e-9;
    let (mut rate, mut in_flight, mut decoded) = (f64::INFINITY, 0.0, 0.0);
    for (class, document) in question.classes.iter().enumerate() {
        let prefill = sum(class, ServingRole::Prefill, &rate_of);
        let decode = sum(class, ServingRole::Decode, &rate_of);
        let own = sum(class, ServingRole::Aggregated, &rate_of) + prefill.min(decode);
        rate = rate.min(own / document.share);
        let served =
            sum(class, ServingRole::Aggregated, &flight_of) + sum(class, ServingRole::Decode, &flight_of);
        decoded += served;
        in_flight += served + sum(class, ServingRole::Prefill, &flight_of);
        if question.concurrency.is_some() && !is_throughput && decode > prefill * (1.0 + slack) {
            return None;
        }
    }
    let is_kept = match (question.concurrency, question.rate) {
        (Some(load), _) if is_throughput => in_flight <= load * (1.0 + slack),
        (Some(load), _) => decoded >= load * (1.0 - slack),
        (_, Some(load)) if !is_throughput => rate >= load * (1.0 - slack),
        _ => true,
    };
    if !is_kept || rate <= 0.0 || !is_packed(problem, solution, counts) {
        return None;
    }
    let used = |price: &dyn Fn(&str) -> f64| -> f64 {
        let each = counts.iter().zip(columns).map(|(&count, column)| {
            let devices = solution.space.sizes[column.size].devices.iter().zip(&problem.fleet.kinds);
            count as f64 * devices.map(|(&devices, kind)| devices as f64 * price(&kind.name)).sum::<f64>()
        });
        each.sum()
    };
    let goal = match question.goal {
        ServingGoal::Throughput => rate.min(question.rate.unwrap_or(f64::INFINITY)),
        ServingGoal::Devices => used(&|_| 1.0),
        ServingGoal::Price => used(&|name| question.prices[name]),
        ServingGoal::Cache => {
            let kept = counts.iter().zip(columns).filter(|(_, column)| column.role != ServingRole::Prefill);
            kept.map(|(&count, column)| (count * column.cache_tokens) as f64).sum()
        }
    };
    let Some(start) = &question.start else { return Some(goal) };
    let moved = counts.iter().zip(columns).filter(|(count, column)| **count > 0 && column.kept.is_none());
    let bytes: f64 = moved.map(|(&count, column)| count as f64 * weights(problem, column)).sum();
    let price = start.price_per_gb * bytes / 1e9;
    let has_load = !is_throughput && (question.concurrency.is_some() || question.rate.is_some());
    let value = if question.goal.is_maximised() { goal - price } else { goal + price };
    // Where nothing has to be served, plans are worth more than none.
    (has_load || value > 0.0).then_some(value)
}

/// Bytes of the weights of a replica.
pub(crate) fn weights(problem: &Problem, column: &Column) -> f64 {
    let replica = problem.given(&column.stages(problem)).expect("stages of the model");
    replica.stages().iter().map(|stage| stage.parallel().devices() as f64 * stage.weight_bytes()).sum()
}

/// Whether all groups of devices find servers, however they are tried.
fn is_packed(problem: &Problem, solution: &Solution, counts: &[u64]) -> bool {
    problem.fleet.kinds.iter().enumerate().filter(|(_, kind)| !kind.is_one_server()).all(|(index, kind)| {
        let server = kind.device.server;
        let mut room = vec![server; (kind.count / server) as usize];
        room.push(kind.count % server);
        let mut groups = Vec::new();
        for (column, &count) in solution.space.columns.iter().zip(counts) {
            let own =
                solution.space.sizes[column.size].key.groups.iter().filter(|group| group.0 as usize == index);
            for &(_, devices, number) in own {
                // Groups of several servers are that many groups of whole ones.
                let parts = (devices / server).max(1);
                groups.extend(std::iter::repeat_n(devices / parts, (parts * number * count) as usize));
            }
        }
        place(&groups, &mut room)
    })
}

fn place(groups: &[u64], room: &mut [u64]) -> bool {
    let Some((&devices, rest)) = groups.split_first() else { return true };
    (0..room.len()).any(|server| {
        if room[server] < devices {
            return false;
        }
        room[server] -= devices;
        let is_placed = place(rest, room);
        room[server] += devices;
        is_placed
    })
}

#[test]
fn plans_of_random_questions_are_checked_and_best() {
    let models = [dense(6, 1024, 8), mixture()];
    let (mut optimal, mut compared, mut infeasible) = (0, 0, 0);
    for task in 0..500 {
        let (cluster, asked) = random(7, task);
        let model = &models[usize::from(task % 4 == 3)];
        let shown = format!("{task}: {} {:?} {asked:?}", cluster.name, cluster.kinds[0].server);
        let problem = Problem::new("question", ("model", model), ("cluster", &cluster), asked).expect(&shown);
        let solution = solved(&problem);
        let plan = solution.document(&problem, &cluster, 0.0);
        let report = check(&problem, &plan);
        assert!(report.holds(), "{shown}\n{:?}", report.violations);
        assert!(
            matches!(report.bound, Verdict::Verified { .. }),
            "{shown}\n{:?} {:?} {:?}",
            report.bound,
            plan.status,
            plan.bound.value
        );
        let Some(best) = best(&problem, &solution) else { continue };
        compared += 1;
        match plan.status {
            PlanStatus::Optimal => {
                optimal += 1;
                let (value, best) = (plan.value.expect("a value"), best.expect("a plan"));
                assert!((value - best).abs() <= 1e-7 * best.abs(), "{shown}\n{value} {best}");
            }
            PlanStatus::Infeasible => {
                infeasible += 1;
                assert_eq!(best, None, "{shown}");
            }
            PlanStatus::Feasible | PlanStatus::Unknown => {}
        }
    }
    assert!(compared > 250 && optimal > 100 && infeasible > 50, "{compared} {optimal} {infeasible}");
}
