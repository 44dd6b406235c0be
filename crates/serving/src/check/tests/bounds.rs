//! Bounds of prices against the best plans of brute force.

use super::super::program::Program;
use super::super::report::Findings;
use super::super::space::Space;
use super::super::totals::{Part, totals};
use super::{Random, problem};
use crate::fleet::Problem;

/// A plan as numbers of columns, with what brute force calls at each.
struct Search<'p> {
    problem: &'p Problem,
    columns: Vec<(usize, Part)>,
    /// Best objective of all plans, and of those with at most and with more than some replicas of a size.
    best: [f64; 3],
    cut: (usize, u64),
}

impl Search<'_> {
    /// Tries all numbers of the columns from `next` on.
    fn run(&mut self, next: usize, free: &mut Vec<u64>, parts: &mut Vec<(usize, Part)>) {
        if next == self.columns.len() {
            return self.judge(parts);
        }
        self.run(next + 1, free, parts);
        let (size, part) = self.columns[next].clone();
        let before = free.clone();
        for count in 1.. {
            for &(kind, devices, number) in &part.groups {
                let free = &mut free[kind as usize];
                match free.checked_sub(devices * number) {
                    Some(rest) => *free = rest,
                    None => {
                        *free = u64::MAX;
                        break;
                    }
                }
            }
            if free.contains(&u64::MAX) {
                break;
            }
            let moved = count as f64 * part.moved;
            parts.push((size, Part { count, moved, ..part.clone() }));
            self.run(next + 1, free, parts);
            parts.pop();
        }
        *free = before;
    }

    fn judge(&mut self, parts: &[(usize, Part)]) {
        let own: Vec<Part> = parts.iter().map(|(_, part)| part.clone()).collect();
        let mut findings = Findings::default();
        let value = totals(self.problem, &own, &mut findings).value;
        if findings.is_broken {
            return;
        }
        let goal = self.problem.question.goal;
        let value = if goal.is_maximised() { value } else { -value };
        let cut: u64 = parts.iter().filter(|part| part.0 == self.cut.0).map(|part| part.1.count).sum();
        let side = if cut <= self.cut.1 { 1 } else { 2 };
        for index in [0, side] {
            self.best[index] = self.best[index].max(value);
        }
    }
}

/// The best objectives of all plans over the columns of a space: everywhere, and on both sides of a cut.
pub(super) fn brute(problem: &Problem, space: &Space, cut: (usize, u64)) -> [f64; 3] {
    let columns = space.sizes.iter().enumerate().flat_map(|(index, size)| {
        size.columns.iter().map(move |column| {
            let part = Part {
                role: size.role,
                class: size.class,
                count: 1,
                groups: size.groups.clone(),
                rate: column.rate,
                in_flight: column.in_flight,
                tokens: column.tokens,
                moved: column.moved,
            };
            (index, part)
        })
    });
    let best = [f64::NEG_INFINITY; 3];
    let mut search = Search { problem, columns: columns.collect(), best, cut };
    let mut free = problem.fleet.kinds.iter().map(|kind| kind.count).collect();
    search.run(0, &mut free, &mut Vec::new());
    search.best
}

#[test]
fn no_plan_of_brute_force_is_better_than_a_bound() {
    let mut random = Random(7);
    let (mut cases, mut solved, mut close) = (0, 0, 0);
    while cases < 300 {
        let problem = problem(&mut random);
        let space = Space::new(&problem);
        let columns: usize = space.sizes.iter().map(|size| size.columns.len()).sum();
        if space.sizes.is_empty() || columns > 40 {
            continue;
        }
        cases += 1;
        let size = random.range(0, space.sizes.len() as u64 - 1) as usize;
        let cut = (size, random.range(0, space.sizes[size].most));
        let best = brute(&problem, &space, cut);
        solved += usize::from(best[0].is_finite() && best[0] != 0.0);
        let program = Program::new(&problem, &space);
        let mut sides = [program.ranges(), program.ranges(), program.ranges()];
        sides[1][size].1 = cut.1;
        sides[2][size].0 = cut.1 + 1;
        // Prices that improve the bound step by step come near to the best ones.
        let scale = program.largest_rate(&sides[0]).max(1.0);
        let mut prices: Vec<f64> = program.right.iter().map(|_| scale * random.share().powi(6)).collect();
        let mut least = f64::INFINITY;
        for _ in 0..3000 {
            let mut tried = prices.clone();
            for _ in 0..random.range(1, 3) {
                let row = random.range(0, prices.len() as u64 - 1) as usize;
                tried[row] = match random.range(0, 3) {
                    0 => 0.0,
                    1 => 1.0 / f64::from(1_u32 << random.range(0, 3)),
                    2 => scale * random.share().powi(8),
                    _ => tried[row] * (0.7 + 0.6 * random.share()),
                };
            }
            for (ranges, best) in sides.iter().zip(best) {
                if ranges[size].0 <= ranges[size].1 {
                    let bound = program.bound(&tried, ranges);
                    assert!(bound >= best, "{bound} < {best}: {:?}", problem.question);
                }
            }
            let bound = program.bound(&tried, &sides[0]);
            if bound <= least {
                (least, prices) = (bound, tried);
            }
        }
        close += usize::from(least <= best[0] + 0.25 * best[0].abs());
    }
    assert!(solved >= 100, "{solved} of {cases} have a plan");
    assert!(close >= 60, "{close} of {cases} bounds are near the best plan");
}
