//! The fastest configurations of the layers of a stage that fit into its memory.
//!
//! The workspace of a stage is the largest workspace of its layers, so every possible value is tried: layers are then
//! in configurations that need no more, and the remaining memory is left for activations. If all layers with a choice
//! are alike, it suffices to count the layers in each configuration, and the answer is exact. Otherwise the seconds of
//! the backward pass and those of both passes are minimised separately, each by branch and bound on the numbers of
//! configurations of every class, with the linear relaxation of the rest (Kellerer, Pferschy and Pisinger 2004, chapter
//! 11). A search that takes too long is abandoned in favour of the relaxation, which is a bound as well.

use super::place::Setting;
use super::{Effort, Exhausted};

/// Maximum number of nodes of a search, and of numbers of layers that its leaves list.
const MOST_NODES: usize = 4096;
const MOST_LISTED: usize = 1 << 20;

/// Fraction of a layer by which rounding may change the number of recomputed layers.
const ROUNDING: f64 = 1e-9;

/// Lower bounds on the passes of a stage. For any choice of configurations, some point exceeds it in neither figure.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Point {
    pub(super) backward: f64,
    /// Seconds of the backward pass and the weight gradients together.
    pub(super) both: f64,
}

/// Layers of one class in a stage.
#[derive(Debug, Clone, Copy)]
pub(super) struct Group<'p> {
    pub(super) count: usize,
    pub(super) settings: &'p [Setting],
}

/// Points of the layers that fit into `room` bytes, given the microbatches in flight until the backward pass and until
/// the weight gradients. Empty if the layers do not fit.
pub(super) fn fastest(
    groups: &[Group],
    in_flight: [f64; 2],
    room: f64,
    effort: &mut Effort,
) -> Result<Vec<Point>, Exhausted> {
    let mut workspaces: Vec<f64> =
        groups.iter().flat_map(|group| group.settings.iter().map(|setting| setting.workspace)).collect();
    workspaces.sort_by(f64::total_cmp);
    workspaces.dedup();
    let mut points = Vec::new();
    for workspace in workspaces.into_iter().take_while(|&workspace| workspace <= room) {
        effort.spend(groups.len() as u64)?;
        let choices: Option<Vec<Choice>> =
            groups.iter().map(|group| Choice::new(group, in_flight, workspace)).collect();
        let Some(choices) = choices else { continue };
        within(&choices, room - workspace, effort, &mut points)?;
    }
    // Dominated points are redundant.
    points.sort_by(|left: &Point, right| {
        left.both.total_cmp(&right.both).then(left.backward.total_cmp(&right.backward))
    });
    let mut least = f64::INFINITY;
    points.retain(|point| {
        let is_less = point.backward < least;
        least = least.min(point.backward);
        is_less
    });
    Ok(points)
}

/// A slower configuration of a layer: its additional seconds over the fastest, and the bytes that it saves.
#[derive(Debug, Clone, Copy)]
struct Step {
    saved: f64,
    backward: f64,
    both: f64,
}

/// The configurations of the layers of a class.
#[derive(Debug)]
struct Choice {
    count: usize,
    /// Bytes that one layer in its fastest configuration keeps for microbatches in flight; `backward` and `both` are
    /// its seconds.
    kept: f64,
    backward: f64,
    both: f64,
    /// Other configurations that save memory.
    steps: Vec<Step>,
}

impl Choice {
    /// The configurations that need at most a workspace; `None` if there is no such configuration.
    fn new(group: &Group, in_flight: [f64; 2], workspace: f64) -> Option<Self> {
        let kept =
            |setting: &Setting| in_flight[0] * setting.activations[0] + in_flight[1] * setting.activations[1];
        let mut settings = group.settings.iter().filter(|setting| setting.workspace <= workspace);
        let first = settings.next()?;
        let steps = settings.map(|setting| Step {
            saved: kept(first) - kept(setting),
            backward: setting.backward - first.backward,
            both: setting.both - first.both,
        });
        Some(Choice {
            count: group.count,
            kept: kept(first),
            backward: first.backward,
            both: first.both,
            steps: steps.filter(|step| step.saved > 0.0).collect(),
        })
    }
}

/// Adds the points of configurations that keep at most `room` bytes.
fn within(
    choices: &[Choice],
    room: f64,
    effort: &mut Effort,
    points: &mut Vec<Point>,
) -> Result<(), Exhausted> {
    let total = |figure: fn(&Choice) -> f64| -> f64 {
        choices.iter().map(|choice| choice.count as f64 * figure(choice)).sum()
    };
    let fastest = Point { backward: total(|choice| choice.backward), both: total(|choice| choice.both) };
    let excess = total(|choice| choice.kept) - room;
    if excess <= 0.0 {
        points.push(fastest);
        return Ok(());
    }
    let open: Vec<&Choice> = choices.iter().filter(|choice| !choice.steps.is_empty()).collect();
    match open.as_slice() {
        [] => {}
        [choice] => {
            effort.spend((choice.count as u64).pow(choice.steps.len().saturating_sub(1).max(1) as u32))?;
            for counts in counts(choice.count, &choice.steps, excess) {
                let more = |figure: fn(&Step) -> f64| -> f64 {
                    counts.iter().zip(&choice.steps).map(|(&count, step)| count as f64 * figure(step)).sum()
                };
                points.push(Point {
                    backward: fastest.backward + more(|step| step.backward),
                    both: fastest.both + more(|step| step.both),
                });
            }
        }
        _ => {
            let backward = least(&open, |step| step.backward, excess, effort)?;
            let both = least(&open, |step| step.both, excess, effort)?;
            if backward.is_finite() && both.is_finite() {
                points.push(Point { backward: fastest.backward + backward, both: fastest.both + both });
            }
        }
    }
    Ok(())
}

/// Maximum number of steps of a class: there are four configurations.
const MOST_STEPS: usize = 3;

/// Numbers of layers that take each step.
type Counts = [usize; MOST_STEPS];

/// Numbers of layers that take each step, so that an excess is saved: for all numbers of layers that take the steps after the
/// first, the minimum number that take the first.
fn counts(count: usize, steps: &[Step], excess: f64) -> Vec<Counts> {
    let Some((first, later)) = steps.split_first() else { return Vec::new() };
    let mut found = Vec::new();
    for mut counts in numbers(count, later.len()) {
        counts.rotate_right(1);
        let saved: f64 = counts.iter().zip(steps).map(|(&count, step)| count as f64 * step.saved).sum();
        // At most a few thousand, unless there are fewer layers than that: then the exact number does not matter.
        counts[0] = ((excess - saved) / first.saved - ROUNDING).ceil().clamp(0.0, 1e9) as usize;
        if counts.iter().sum::<usize>() <= count {
            found.push(counts);
        }
    }
    found
}

/// All numbers of layers that take each of some steps, at most `count` together.
fn numbers(count: usize, steps: usize) -> Vec<Counts> {
    let mut all = vec![[0; MOST_STEPS]];
    for step in 0..steps {
        let with = |counts: Counts| {
            (0..=count - counts.iter().sum::<usize>()).map(move |number| {
                let mut counts = counts;
                counts[step] = number;
                counts
            })
        };
        all = all.into_iter().flat_map(with).collect();
    }
    all
}

/// Minimum seconds of steps that together save an excess; infinite if no steps do. A lower bound on this minimum if the
/// search takes too long.
fn least(
    open: &[&Choice],
    cost: fn(&Step) -> f64,
    excess: f64,
    effort: &mut Effort,
) -> Result<f64, Exhausted> {
    let mut search = Search { open, cost, slopes: Vec::new(), best: f64::INFINITY, nodes: 0, listed: 0 };
    for from in 0..=open.len() {
        search.slopes.push(slopes(&open[from..], cost));
    }
    let [relaxed, rounded] = search.relax(0, excess);
    search.best = rounded;
    search.visit(0, excess, 0.0);
    effort.spend((search.nodes + search.listed) as u64)?;
    Ok(if search.is_too_long() { relaxed } else { search.best })
}

/// An edge of the convex hull of the configurations of a class.
#[derive(Debug, Clone, Copy)]
struct Slope {
    count: f64,
    saved: f64,
    cost: f64,
}

/// The edges of the hulls of all classes, by ascending cost per byte.
fn slopes(open: &[&Choice], cost: fn(&Step) -> f64) -> Vec<Slope> {
    let mut slopes = Vec::new();
    for choice in open {
        let count = choice.count as f64;
        let mut steps = choice.steps.clone();
        let (mut saved, mut paid) = (0.0, 0.0);
        // From each point of the hull, the next is that of the flattest edge.
        loop {
            steps.retain(|step| step.saved > saved);
            let slope = |step: &Step| (cost(step) - paid) / (step.saved - saved);
            let flattest = |left: &&Step, right: &&Step| {
                slope(left).total_cmp(&slope(right)).then(right.saved.total_cmp(&left.saved))
            };
            let Some(&step) = steps.iter().min_by(flattest) else { break };
            slopes.push(Slope { count, saved: step.saved - saved, cost: cost(&step) - paid });
            (saved, paid) = (step.saved, cost(&step));
        }
    }
    slopes.sort_by(|left, right| (left.cost / left.saved).total_cmp(&(right.cost / right.saved)));
    slopes
}

/// A search for the number of layers of each class that take each step.
#[derive(Debug)]
struct Search<'c> {
    open: &'c [&'c Choice],
    cost: fn(&Step) -> f64,
    /// For each class, the slopes of that class and all later ones.
    slopes: Vec<Vec<Slope>>,
    best: f64,
    nodes: usize,
    /// Numbers of layers that leaves listed.
    listed: usize,
}

impl Search<'_> {
    fn is_too_long(&self) -> bool {
        self.nodes > MOST_NODES || self.listed > MOST_LISTED
    }

    /// The cost of the linear relaxation of classes from `class` on, and its cost when rounded up to whole layers;
    /// infinite if the classes cannot save the excess.
    fn relax(&self, class: usize, excess: f64) -> [f64; 2] {
        let (mut left, mut cost) = (excess, 0.0);
        for slope in &self.slopes[class] {
            if left <= 0.0 {
                break;
            }
            let needed = left / slope.saved - ROUNDING;
            if needed <= slope.count {
                let (part, whole) = (needed.max(0.0), needed.ceil().max(0.0));
                return [cost + part * slope.cost, cost + whole * slope.cost];
            }
            left -= slope.count * slope.saved;
            cost += slope.count * slope.cost;
        }
        if left <= 0.0 { [cost; 2] } else { [f64::INFINITY; 2] }
    }

    fn visit(&mut self, class: usize, excess: f64, paid: f64) {
        self.nodes += 1;
        if excess <= 0.0 {
            self.best = self.best.min(paid);
            return;
        }
        if self.is_too_long() || paid + self.relax(class, excess)[0] >= self.best {
            return;
        }
        let choice = self.open[class];
        if class + 1 == self.open.len() {
            let counts = counts(choice.count, &choice.steps, excess);
            self.listed += counts.len();
            for counts in counts {
                self.best = self.best.min(paid + self.paid(choice, counts));
            }
            return;
        }
        for mut counts in numbers(choice.count, choice.steps.len() - 1) {
            counts.rotate_right(1);
            for of_first in 0..=choice.count - counts.iter().sum::<usize>() {
                counts[0] = of_first;
                let saved: f64 =
                    counts.iter().zip(&choice.steps).map(|(&count, step)| count as f64 * step.saved).sum();
                self.visit(class + 1, excess - saved, paid + self.paid(choice, counts));
                if saved >= excess {
                    break;
                }
            }
            if self.is_too_long() {
                break;
            }
        }
    }

    fn paid(&self, choice: &Choice, counts: Counts) -> f64 {
        counts.iter().zip(&choice.steps).map(|(&count, step)| count as f64 * (self.cost)(step)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::super::place::Setting;
    use super::{Effort, Group, Point, fastest};

    /// The points of all choices for the layers that fit.
    fn all(groups: &[Group], in_flight: [f64; 2], room: f64) -> Vec<Point> {
        let layers: Vec<&[Setting]> =
            groups.iter().flat_map(|group| std::iter::repeat_n(group.settings, group.count)).collect();
        let mut found = Vec::new();
        for mut number in 0..layers.iter().map(|settings| settings.len()).product() {
            let (mut point, mut bytes, mut workspace) = (Point { backward: 0.0, both: 0.0 }, 0.0, 0.0f64);
            for settings in &layers {
                let setting: &Setting = &settings[number % settings.len()];
                number /= settings.len();
                point.backward += setting.backward;
                point.both += setting.both;
                bytes += in_flight[0] * setting.activations[0] + in_flight[1] * setting.activations[1];
                workspace = workspace.max(setting.workspace);
            }
            if bytes + workspace <= room {
                found.push(point);
            }
        }
        found
    }

    #[test]
    fn points_are_below_all_choices_that_fit() {
        // Small whole numbers from a linear congruential generator.
        let mut state = 3u64;
        let mut draw = |below: u64| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            ((state >> 33) % below) as f64
        };
        for case in 0..2000 {
            let classes: Vec<Vec<Setting>> = (0..1 + case % 3)
                .map(|_| {
                    let (kept, weight) = (4.0 + draw(9), draw(3));
                    let first = Setting {
                        backward: 3.0,
                        both: 3.0 + weight,
                        activations: if case % 2 == 0 { [0.0, kept] } else { [kept, 0.0] },
                        workspace: draw(3),
                    };
                    let mut again = |kept: f64| {
                        let seconds = first.both + draw(6);
                        let activations = [kept, 0.0];
                        Setting {
                            backward: seconds,
                            both: seconds,
                            activations,
                            workspace: first.workspace + draw(4),
                        }
                    };
                    let mut settings = vec![first, again(kept - 2.0), again(1.0)];
                    if case % 4 < 2 {
                        settings.push(again(0.0));
                    }
                    settings
                })
                .collect();
            let most = if case % 4 < 2 { 2 } else { 3 };
            let groups: Vec<Group> =
                classes.iter().map(|settings| Group { count: 1 + draw(most) as usize, settings }).collect();
            let in_flight = [1.0 + draw(3), 3.0];
            let room = draw(120);
            let mut effort = Effort { left: 1 << 20 };
            let points = fastest(&groups, in_flight, room, &mut effort).expect("few steps");
            let choices = all(&groups, in_flight, room);
            for choice in &choices {
                let is_above = |point: &Point| point.backward <= choice.backward && point.both <= choice.both;
                assert!(points.iter().any(is_above), "{groups:?} {room}: {choice:?} {points:?}");
            }
            // One class leaves nothing to relax, and without a feasible choice there is no point.
            assert!(points.is_empty() == choices.is_empty(), "{groups:?} {room}");
            if groups.len() == 1 {
                assert!(points.iter().all(|point| choices.contains(point)), "{groups:?} {room}");
            }
            let least =
                |points: &[Point]| points.iter().map(|point| point.both).fold(f64::INFINITY, f64::min);
            assert_eq!(least(&points), least(&choices));
        }
    }
}
