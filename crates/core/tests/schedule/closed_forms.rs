//! Iteration times and bubbles compared with the published formulas.

use stagewright_core::document::Schedule;
use stagewright_core::schedule::{Pipeline, ScheduleError, iteration, updated};

use super::{close, pipeline, run, times};

const SIZES: [(u32, u32); 9] = [(1, 1), (1, 5), (2, 1), (2, 2), (3, 7), (4, 4), (4, 8), (5, 3), (8, 32)];

#[test]
fn equal_stages_under_gpipe_and_1f1b() {
    for schedule in [Schedule::GPipe, Schedule::OneFOneB] {
        for (p, m) in SIZES {
            let (forward, backward) = (2.0, 3.5);
            let pipeline = pipeline(schedule, m, &vec![[forward, backward, 0.0]; p as usize]);
            let run = run(&pipeline);
            let slots = f64::from(m + p - 1);
            assert!(
                close(run.seconds, slots * (forward + backward)),
                "{schedule:?} {p} {m}: {}",
                run.seconds
            );
            assert!(close(run.bubble, f64::from(p - 1) / slots), "{schedule:?} {p} {m}: {}", run.bubble);
            assert!(close(run.seconds, iteration(schedule, &times(&pipeline), m)));
            for (stage, &held) in (0..p).zip(&run.in_flight) {
                let expected = if schedule == Schedule::GPipe { m } else { m.min(p - stage) };
                assert_eq!(held, expected, "{schedule:?} {p} {m}, stage {stage}");
            }
        }
    }
}

#[test]
fn unequal_stages_under_gpipe_are_two_flow_shops() {
    let stages = [[1.0, 4.0, 0.0], [3.0, 2.5, 0.0], [2.0, 0.0, 0.0], [0.5, 1.0, 0.0]];
    for m in [1, 2, 9] {
        let pipeline = pipeline(Schedule::GPipe, m, &stages);
        let again = f64::from(m - 1);
        let expected = 6.5 + again * 3.0 + 7.5 + again * 4.0;
        assert!(close(run(&pipeline).seconds, expected));
        assert!(close(iteration(Schedule::GPipe, &times(&pipeline), m), expected));
    }
}

#[test]
fn interleaving_divides_the_bubble() {
    for (p, v, rounds) in [(1, 1, 3), (2, 1, 2), (2, 3, 1), (2, 2, 4), (4, 2, 2), (4, 3, 1), (3, 4, 5)] {
        let m = p * rounds;
        let mut pipeline = pipeline(Schedule::Interleaved, m, &vec![[1.5, 2.0, 0.0]; (p * v) as usize]);
        pipeline.devices = p;
        let run = run(&pipeline);
        let (busy, filling) = (f64::from(m * v), f64::from(p - 1));
        assert!(close(run.seconds, 3.5 * (busy + filling)), "{p} {v} {m}: {}", run.seconds);
        assert!(close(run.bubble, filling / (busy + filling)), "{p} {v} {m}: {}", run.bubble);
    }
}

#[test]
fn zero_bubble_has_the_published_bubble() {
    // The schedule is designed for passes of about equal length: (p − 1)(F + B − W), Qi et al., table 2.
    for (forward, backward, weight) in [(1.0, 1.0, 1.0), (1.0, 1.25, 0.75), (1.0, 1.1, 1.0)] {
        for (p, m) in [(1, 4), (2, 2), (2, 6), (4, 4), (4, 8), (8, 24)] {
            let pipeline = pipeline(Schedule::ZeroBubble, m, &vec![[forward, backward, weight]; p as usize]);
            let run = run(&pipeline);
            let idle = f64::from(p - 1) * (forward + backward - weight);
            let expected = f64::from(m) * (forward + backward + weight) + idle;
            assert!(
                close(run.seconds, expected),
                "{p} {m} {forward} {backward} {weight}: {} for {expected}",
                run.seconds
            );
            assert!(close(run.seconds, iteration(Schedule::ZeroBubble, &times(&pipeline), m)));
            assert!(run.in_flight.iter().all(|&held| held == p.min(m)), "{:?}", run.in_flight);
        }
    }
}

#[test]
fn equal_passes_under_zero_bubble_2p_have_no_bubble() {
    for (p, m) in [(1, 1), (1, 4), (2, 3), (2, 9), (4, 7), (4, 8), (8, 24)] {
        let pipeline = pipeline(Schedule::ZeroBubbleTwice, m, &vec![[1.0; 3]; p as usize]);
        let run = run(&pipeline);
        assert_eq!((run.seconds, run.bubble), (f64::from(3 * m), 0.0), "{p} {m}");
        assert!(run.in_flight.iter().all(|&held| held == 2 * p - 1), "{:?}", run.in_flight);
        assert_eq!(iteration(Schedule::ZeroBubbleTwice, &times(&pipeline), m), run.seconds);
    }
}

#[test]
fn equal_passes_under_dualpipe_v_have_the_published_bubble() {
    // (p − 1) (F & B + B − 3 W) with B = 2 F and W = F, where F & B takes as long as both (DeepSeek-AI, "DualPipe", 2025).
    for (p, m) in [(1, 2), (1, 5), (2, 4), (2, 9), (3, 7), (4, 8), (4, 20), (8, 40)] {
        let stages = vec![[1.0; 3]; 2 * p as usize];
        let pipeline = Pipeline { devices: p, ..pipeline(Schedule::DualPipeV, m, &stages) };
        let run = run(&pipeline);
        assert_eq!(run.seconds, f64::from(6 * m + 2 * (p - 1)), "{p} {m}");
        assert!(run.in_flight.iter().all(|&held| held == 2 * p + 1), "{p} {m}: {:?}", run.in_flight);
    }
}

#[test]
fn a_stage_under_zero_bubble_2p_updates_after_its_own_passes() {
    // Stage 0: F 0–1, F 1–2, F 2–3, B 4–6, W 6–7, B 7–9, W 9–10, B 10–12, W 12–13; stage 1: F 1–3, B 3–4, F 4–6, B 6–7,
    // F 7–9, B 9–10, W 10–13, W 13–16, W 16–19.
    let pipeline = pipeline(Schedule::ZeroBubbleTwice, 3, &[[1.0, 2.0, 1.0], [2.0, 1.0, 3.0]]);
    let run = run(&pipeline);
    let spans = run.tasks.iter().map(|tasks| tasks.iter().map(|(_, span)| span.start).collect::<Vec<f64>>());
    let expected = [
        vec![0.0, 1.0, 2.0, 4.0, 6.0, 7.0, 9.0, 10.0, 12.0],
        vec![1.0, 3.0, 4.0, 6.0, 7.0, 9.0, 10.0, 13.0, 16.0],
    ];
    assert!(spans.eq(expected), "{:?}", run.tasks);
    assert_eq!(run.seconds, 18.0);
    let of_updates = |updates: &[f64]| updated(Schedule::ZeroBubbleTwice, &times(&pipeline), updates, 3);
    assert_eq!(of_updates(&[]), 18.0);
    assert_eq!(of_updates(&[3.0, 1.0]), 19.0);
    assert_eq!(of_updates(&[7.0, 1.0]), 20.0);
    assert_eq!(updated(Schedule::ZeroBubble, &times(&pipeline), &[7.0, 1.0], 3), 26.0);
}

#[test]
fn what_takes_no_time_has_no_bubble() {
    for schedule in [
        Schedule::GPipe,
        Schedule::OneFOneB,
        Schedule::ZeroBubble,
        Schedule::ZeroBubbleTwice,
        Schedule::Interleaved,
    ] {
        let run = run(&pipeline(schedule, 4, &[[0.0; 3]; 2]));
        assert_eq!((run.seconds, run.bubble), (0.0, 0.0), "{schedule:?}");
    }
}

#[test]
fn what_cannot_be_scheduled_is_refused_by_name() {
    let code = |change: &dyn Fn(&mut stagewright_core::schedule::Pipeline)| {
        let mut pipeline = pipeline(Schedule::Interleaved, 4, &[[1.0, 1.0, 0.0]; 4]);
        pipeline.devices = 2;
        change(&mut pipeline);
        pipeline.run().err().map(|error: ScheduleError| error.code().name)
    };
    assert_eq!(code(&|_| {}), None);
    assert_eq!(code(&|pipeline| pipeline.microbatches = 0), Some("T001"));
    assert_eq!(code(&|pipeline| pipeline.stages.clear()), Some("T001"));
    assert_eq!(code(&|pipeline| pipeline.schedule = Schedule::None), Some("T003"));
    assert_eq!(code(&|pipeline| pipeline.schedule = Schedule::GPipe), Some("T003"));
    assert_eq!(code(&|pipeline| pipeline.devices = 3), Some("T004"));
    assert_eq!(code(&|pipeline| pipeline.microbatches = 5), Some("T005"));
    assert_eq!(code(&|pipeline| pipeline.microbatches = u32::MAX), Some("T006"));
    assert_eq!(code(&|pipeline| pipeline.transfers = vec![[0.0; 2]]), Some("T007"));
    assert_eq!(code(&|pipeline| pipeline.stages[1].times.forward = f64::NAN), Some("T008"));
    assert_eq!(code(&|pipeline| pipeline.stages[1].times.backward = -1.0), Some("T008"));
}
