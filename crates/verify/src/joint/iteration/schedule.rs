//! The time of the 1F1B schedule, by a simulation of its passes in the order of their dependencies.
//!
//! Stage s of p, counted from 0, starts with min(p − s, m) forward passes. Then a backward and a forward pass alternate, and
//! the other backward passes follow. A forward pass waits for that of its microbatch on the previous stage, a backward pass
//! for that on the next stage.

/// A pass of a microbatch.
#[derive(Debug, Clone, Copy)]
enum Pass {
    Forward(usize),
    Backward(usize),
}

/// Seconds of the passes of a microbatch on a stage.
#[derive(Debug, Clone, Copy)]
pub(super) struct Times {
    pub(super) forward: f64,
    pub(super) backward: f64,
}

/// A stage while it is simulated.
#[derive(Debug, Default)]
struct Stage {
    /// Number of passes that it has finished.
    done: usize,
    /// End of the last of them.
    free: f64,
    /// Ends of its forward passes.
    forward: Vec<f64>,
    /// Ends of its backward passes.
    backward: Vec<f64>,
}

/// Seconds until the last pass of `microbatches` has ended. O(stages · microbatches).
pub(super) fn seconds(times: &[Times], microbatches: usize) -> f64 {
    let count = times.len();
    let mut stages: Vec<Stage> = (0..count).map(|_| Stage::default()).collect();
    // A pass that ends can let the stages next to it go on.
    let mut open: Vec<usize> = (0..count).rev().collect();
    while let Some(at) = open.pop() {
        let before = stages[at].done;
        while let Some(pass) = pass(stages[at].done, count - at, microbatches) {
            let ready = match pass {
                Pass::Forward(_) if at == 0 => Some(0.0),
                Pass::Forward(number) => stages[at - 1].forward.get(number).copied(),
                // Its own forward pass has ended: the stage runs in order.
                Pass::Backward(_) if at + 1 == count => Some(0.0),
                Pass::Backward(number) => stages[at + 1].backward.get(number).copied(),
            };
            let Some(ready) = ready else { break };
            let stage = &mut stages[at];
            let start = stage.free.max(ready);
            match pass {
                Pass::Forward(_) => {
                    stage.free = start + times[at].forward;
                    stage.forward.push(stage.free);
                }
                Pass::Backward(_) => {
                    stage.free = start + times[at].backward;
                    stage.backward.push(stage.free);
                }
            }
            stage.done += 1;
        }
        if stages[at].done > before {
            open.extend(at.checked_sub(1));
            open.extend(Some(at + 1).filter(|&next| next < count));
        }
    }
    stages.iter().map(|stage| stage.free).fold(0.0, f64::max)
}

/// The pass that a stage runs after `done` others; `from_last` counts the stages from it to the last one.
fn pass(done: usize, from_last: usize, microbatches: usize) -> Option<Pass> {
    let first = from_last.min(microbatches);
    if done < first {
        return Some(Pass::Forward(done));
    }
    // Pairs of a backward and a forward pass, as long as there are forward passes.
    let (pair, is_second) = ((done - first) / 2, (done - first) % 2 == 1);
    let pairs = microbatches - first;
    if pair < pairs {
        return Some(if is_second { Pass::Forward(first + pair) } else { Pass::Backward(pair) });
    }
    let backward = done - microbatches;
    (backward < microbatches).then_some(Pass::Backward(backward))
}

#[cfg(test)]
mod tests {
    use super::{Times, seconds};

    #[test]
    fn equal_stages_take_the_textbook_time() {
        // (m + p − 1) · (f + b).
        let times = [Times { forward: 1.0, backward: 2.0 }; 3];
        assert_eq!(seconds(&times, 4), 18.0);
        assert_eq!(seconds(&times, 1), 9.0);
        assert_eq!(seconds(&times[..1], 5), 15.0);
        assert_eq!(seconds(&[], 5), 0.0);
    }

    #[test]
    fn a_slow_last_stage_is_never_idle_between_microbatches() {
        let times = [Times { forward: 1.0, backward: 4.0 }, Times { forward: 2.0, backward: 3.0 }];
        // Stage 0: F0 0–1, F1 1–2, B0 6–10, F2 10–11, B1 11–15, B2 16–20; stage 1: F0 1–3, B0 3–6, F1 6–8, B1 8–11,
        // F2 11–13, B2 13–16.
        assert_eq!(seconds(&times, 3), 20.0);
    }
}
