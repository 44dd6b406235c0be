//! Logs of training: what each kind says of an iteration, and logs that say nothing.

use proptest::prelude::*;
use serde_json::json;
use stagewright_core::document::TransferKind;
use stagewright_costs::training::{Kind, Log, Pace, Part, read};

fn read_log(text: &str) -> Log {
    read("train.log", text.as_bytes()).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// Seconds of the groups of a log, each with its first part.
fn timed(log: &Log) -> Vec<(Part, f64)> {
    log.timed.iter().map(|timed| (timed.parts[0], (timed.seconds * 1e6).round() / 1e6)).collect()
}

#[test]
fn megatron_says_seconds_timers_and_memory() {
    let mut text = String::from(
        "(min, max) time across ranks (ms):\n    model-and-optimizer-setup .....: (10.0, 20.0)\n",
    );
    for (iteration, milliseconds) in
        [(1, 9000.0), (2, 1200.0), (3, 1001.0), (4, 1000.0), (5, 1003.0), (6, 999.0)]
    {
        text += &format!(
            " [2026-01-02 03:04:05] iteration {iteration:8}/     100 | consumed samples: 64 | elapsed time per iteration \
             (ms): {milliseconds:.1} | lm loss: 8.1E+00 |\n\
             (min, max) time across ranks (ms):\n\
             \x20   forward-backward ...............................: (880.00, {:.2})\n\
             \x20   forward-compute ................................: (200.00, 250.00)\n\
             \x20   backward-compute ...............................: (400.00, 500.00)\n\
             \x20   all-grads-sync .................................: (40.00, 90.00)\n\
             \x20   optimizer ......................................: (60.00, 61.00)\n\
             \x20   optimizer-inner-step ...........................: (30.00, 31.00)\n",
            milliseconds * 0.9,
        );
    }
    for (rank, mebibytes) in [(0, 1024.0), (8, 2048.0)] {
        text += &format!(
            "[Rank {rank}] (after 2 iterations) memory (MB) | allocated: 100.0 | max allocated: {mebibytes:.1} | reserved: \
             2.0 | max reserved: 9999.0\n"
        );
    }
    let log = read_log(&text);
    assert_eq!((log.kind, log.readings, log.warm_up), (Kind::Megatron, 4, 2));
    assert_eq!(log.pace, Pace::Iteration(1.0005));
    assert_eq!(log.memory_bytes, Some(f64::from(1_u32 << 31)));
    let passes = (900.0 + 900.9) / 2.0 / 1e3;
    let expected = [
        (Part::Compute, 0.75),
        (Part::Transfers, passes - 0.04 - 0.75),
        (Part::Copies, 0.04),
        (Part::Update, 0.031),
    ];
    for ((part, seconds), (wanted, known)) in timed(&log).into_iter().zip(expected) {
        assert_eq!(part, wanted);
        assert!((seconds - known).abs() < 1e-6, "{part:?}: {seconds}, not {known}");
    }
    assert_eq!(log.rest, [Part::Outside]);
}

#[test]
fn megatron_with_fewer_timers_divides_less() {
    let lines = "0: iteration 10/ 100 | elapsed time per iteration (ms): 291.2/300.4 |\n\
                 0: max time across ranks (ms):\n\
                 0:     forward-backward ...............................: 221.30\n";
    let log = read_log(lines);
    assert_eq!(timed(&log), [(Part::Compute, 0.2213)]);
    assert!(log.timed[0].parts.contains(&Part::Bubble));
    assert_eq!(log.rest, [Part::Update, Part::Outside]);
    assert_eq!(log.pace, Pace::Iteration(0.2912));
    let plain = read_log("iteration 10/ 100 | elapsed time per iteration (ms): 291.2 |\n");
    assert_eq!((plain.timed, plain.rest), (vec![], vec![]));
}

#[test]
fn derivatives_of_megatron_are_read() {
    for (line, seconds, memory) in [
        (
            "[default7]: iteration 12695/ 115311 | elapsed time per iteration (s): 105.22 | learning rate: 6E-05 |",
            105.22,
            None,
        ),
        ("[INFO] - iteration= 1/ 99 | elapsed_time_per_iteration_ms=29570.0 | lm loss=11.1", 29.57, None),
        (
            "Training epoch 0, iteration 4/99 | max_memory_allocated: 115792977920 | train_step_timing in s: 6.08 |",
            6.08,
            Some(115_792_977_920.0),
        ),
        (
            "Epoch 0: : 5%|5 | 1/20 [00:01<00:19, reduced_train_loss=11.0, train_step_timing in s=2.31]\rEpoch 0",
            2.31,
            None,
        ),
    ] {
        let log = read_log(line);
        assert_eq!((log.pace, log.memory_bytes), (Pace::Iteration(seconds), memory), "{line}");
    }
    // Megatron-DeepSpeed has timers of DeepSpeed.
    let log = read_log(
        "time (ms) | optimizer_allgather: 10.00 | optimizer_gradients: 1.0 | optimizer_step: 5.0\n\
                  time (ms) | fwd: 300.00 | bwd: 600.00 | bwd_inner: 560.00 | bwd_allreduce: 40.00 | step: 60.00\n\
                  iteration 1/ 9 | elapsed time per iteration (ms): 1000.0 |\n",
    );
    assert_eq!(timed(&log), [(Part::Compute, 0.86), (Part::CopiesInPasses, 0.05)]);
    assert_eq!(log.rest, [Part::Update, Part::Outside]);
}

#[test]
fn torchtitan_says_a_rate_between_colours() {
    let line = |step: u32, rate: &str| {
        format!(
            "[rank0]:[titan] 2026-01-02 03:04:05,678 - root - INFO - \x1b[31mstep: {step:2}  \x1b[32mloss:  7.1  \
             \x1b[38;5;208mgrad_norm:  1.2  \x1b[36mmemory: 35.25GiB(37.17%)  \x1b[34mtps: {rate}  \x1b[35mtflops: 1,234.50  \
             \x1b[36mmfu: 38.1%\x1b[39m\n"
        )
    };
    let text = [line(1, "312"), line(10, "7,000"), line(20, "7,100"), line(30, "7,050")].concat()
        + "validate step: 30  loss:  7.0  memory: 90.0GiB(99%)  tps: 99,000\n";
    let log = read_log(&text);
    assert_eq!((log.kind, log.readings, log.warm_up), (Kind::Torchtitan, 2, 2));
    assert_eq!(log.pace, Pace::Tokens(7075.0));
    assert_eq!(log.memory_bytes, Some(35.25 * f64::from(1 << 30)));
    assert_eq!(
        read_log("step: 10  loss: 4.3  memory: 10.0GiB(9%)  wps: 6,500  mfu: 9%").pace,
        Pace::Tokens(6500.0)
    );
}

#[test]
fn deepspeed_says_rates_timers_or_seconds() {
    let timers = "[Rank 0] time (ms) | fwd_microstep: 100.00 | bwd_microstep: 200.00 | bwd_inner_microstep: 200.00 | \
                  bwd_allreduce_microstep: 0.00 | step_microstep: 0.00\n\
                  [Rank 0] time (ms) | fwd_microstep: 100.00 | bwd_microstep: 240.00 | bwd_inner_microstep: 200.00 | \
                  bwd_allreduce_microstep: 40.00 | step_microstep: 60.00\n";
    let microbatches = read_log(timers);
    assert_eq!(
        (microbatches.kind, microbatches.pace),
        (Kind::Deepspeed, Pace::Microbatch(0.1 + 0.24 + 0.06))
    );
    assert!(microbatches.timed.is_empty());
    let whole = timers.to_owned()
        + "[Rank 0] time (ms) | fwd: 200.00 | bwd: 440.00 | bwd_inner: 400.00 | bwd_allreduce: 40.00 | step: 60.00\n";
    let log = read_log(&whole);
    assert_eq!(log.pace, Pace::Iteration(0.7));
    assert_eq!(timed(&log), [(Part::Compute, 0.6), (Part::CopiesInPasses, 0.04)]);
    assert_eq!(log.rest, [Part::Update, Part::Outside, Part::Copies]);
    let log = read_log(
        &(whole
            + "epoch=0/micro_step=20/global_step=10, RunningAvgSamplesPerSec=50.1, CurrSamplesPerSec=55.25, MemAllocated=4.3GB, \
           MaxMemAllocated=30.5GB\n"),
    );
    assert_eq!((log.pace, log.memory_bytes), (Pace::Samples(55.25), Some(30.5 * f64::from(1 << 30))));
    let log = read_log("steps: 20 loss: 7.1205 iter time (s): 0.583 samples/sec: 54.883\n");
    assert_eq!(log.pace, Pace::Iteration(0.583));
}

/// A trace of three steps of 100 ms, of which the first is warm-up.
fn trace() -> serde_json::Value {
    let event = |category: &str, name: &str, start: f64, length: f64, stream: u32| {
        let [start, length] = [start, length].map(|milliseconds| milliseconds * 1e3);
        json!({"ph": "X", "cat": category, "name": name, "pid": 0, "tid": stream, "ts": start, "dur": length})
    };
    let mut events = vec![json!({"ph": "M", "name": "process_name", "pid": 0, "args": {"name": "python"}})];
    for step in 0..3 {
        let start = f64::from(step) * 100.0;
        events.push(event("user_annotation", &format!("ProfilerStep#{step}"), start, 100.0, 9));
        events.push(event("gpu_user_annotation", &format!("ProfilerStep#{step}"), start, 400.0, 7));
        // 40 ms of compute on two streams that overlap.
        events.push(event("kernel", "sm90_gemm", start, 30.0, 7));
        events.push(event("kernel", "flash_fwd", start + 20.0, 20.0, 8));
        // 30 ms, of which compute hides 10.
        let mut reduce = event(
            "kernel",
            "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
            start + 30.0,
            30.0,
            20,
        );
        reduce["args"] =
            json!({"Collective name": "allreduce", "Group size": 8, "Process Group Description": "mesh_TP"});
        events.push(reduce);
        let mut exchange = event("kernel", "ncclDevKernel_SendRecv", start + 60.0, 10.0, 21);
        exchange["args"] = json!({"Collective name": "all_to_allv", "Group size": 4});
        events.push(exchange);
        events.push(event("kernel", "ncclDevKernel_SendRecv", start + 70.0, 5.0, 22));
        events.push(event("gpu_memcpy", "Memcpy HtoD (Pinned -> Device)", start + 90.0, 10.0, 7));
        events.push(
            json!({"ph": "i", "cat": "cpu_instant_event", "name": "[memory]", "pid": 1, "tid": 1, "ts": 1.0,
                           "args": {"Device Type": 1, "Total Allocated": 1e9 + f64::from(step)}}),
        );
    }
    // A second device that hardly works does not count.
    events.push(json!({"ph": "X", "cat": "kernel", "name": "other", "pid": 1, "tid": 7, "ts": 0, "dur": 10}));
    json!({"schemaVersion": 1, "traceEvents": events})
}

#[test]
fn a_trace_says_compute_and_the_collectives_that_it_does_not_hide() {
    let log = read_log(&trace().to_string());
    assert_eq!((log.kind, log.readings, log.warm_up), (Kind::Profiler, 2, 1));
    assert_eq!((log.pace, log.memory_bytes), (Pace::Iteration(0.1), Some(1e9 + 2.0)));
    assert_eq!(timed(&log), [(Part::Compute, 0.04)]);
    assert_eq!(log.rest, [Part::Host, Part::Outside]);
    let mut exposed: Vec<_> = log
        .exposed
        .iter()
        .map(|known| {
            (known.transfer, known.group.as_deref(), known.devices, (known.seconds * 1e6).round() / 1e6)
        })
        .collect();
    exposed.sort_by(|a, b| b.3.total_cmp(&a.3));
    assert_eq!(
        exposed,
        [
            (Some(TransferKind::AllReduce), Some("mesh_tp"), Some(8), 0.02),
            (Some(TransferKind::AllToAll), None, Some(4), 0.01),
            (Some(TransferKind::Send), None, None, 0.005),
        ]
    );
    // The list alone is a trace too, also without its end.
    let list = trace()["traceEvents"].to_string();
    assert_eq!(read_log(&list[..list.len() - 1]).pace, log.pace);
}

#[test]
fn a_log_without_an_iteration_is_refused_with_what_is_missing() {
    for (text, missing) in [
        ("", "elapsed time per iteration"),
        ("training ...\n", "tps: …"),
        ("\u{0}\u{1}\u{fffd}", "ProfilerStep#"),
        ("iteration 1/ 2 | elapsed time per iteration (ms): nan |\n", "of Megatron-LM"),
        ("iteration 1/ 2 | elapsed time per iteration (ms): 0.0 |\n", "of Megatron-LM"),
        ("step: 1 loss: 2.0 tps: -5\n", "of torchtitan"),
        ("x, CurrSamplesPerSec=inf, y\n", "of DeepSpeed"),
        ("time (ms) | fwd: 1.0 | bwd: 2.0\n", "of DeepSpeed"),
        ("{\"traceEvents\": []}", "ProfilerStep#"),
        ("[{\"ph\": \"X\", \"name\": \"ProfilerStep#1\", \"ts\": 1, \"dur\": -5}]", "ProfilerStep#"),
    ] {
        let error = read("train.log", text.as_bytes()).unwrap_err();
        assert_eq!(error.code, "Q112", "{text}");
        assert!(error.help.contains(missing), "{text}: {}", error.help);
    }
    assert_eq!(read("trace.json", b"{\"traceEvents\": [").unwrap_err().code, "F002");
}

#[test]
fn many_events_and_long_lines_take_little_time() {
    let started = std::time::Instant::now();
    let long = format!("elapsed time per iteration (ms): {}\n", "9.".repeat(4_000_000));
    assert_eq!(read("f", long.as_bytes()).unwrap_err().code, "Q112");
    let colours = "\x1b[".repeat(2_000_000) + "mstep: 1 loss: 1 tps: 5";
    assert!(read("f", colours.as_bytes()).is_ok());
    let count = 20_000;
    let events: Vec<_> = (0..count)
        .flat_map(|number| {
            // Every kernel runs through all steps, in a group of its own.
            let event = |category: &str, name: String| {
                json!({"ph": "X", "cat": category, "name": name, "ts": number, "dur": count,
                       "args": {"Process Group Description": number.to_string()}})
            };
            [event("user_annotation", format!("ProfilerStep#{number}")), event("kernel", "nccl".to_owned())]
        })
        .collect();
    assert!(read("f", json!(events).to_string().as_bytes()).is_ok());
    assert!(started.elapsed().as_secs() < 60, "{:?}", started.elapsed());
}

proptest! {
    #[test]
    fn no_text_makes_a_reader_panic(
        pieces in prop::collection::vec(
            prop::sample::select(vec![
                "elapsed time per iteration (ms):", "(s):", " ..", "....:", "(", ", ", ")", "forward-compute",
                "backward-compute", "forward-backward", "step:", "loss:", " tps:", "memory:", "GiB", "time (ms) |", "| fwd:", "| bwd:",
                "| step:", "_microstep", "CurrSamplesPerSec=", "max allocated:", "1e308", "-", "9", "nan", "\n", "\r",
                "\u{1b}[", "\u{1b}", "é", " ", "m",
                "{\"traceEvents\":[", "[{\"ph\":\"X\"", "}]", ",\"ts\":1e300", ",\"dur\":1", ",\"name\":\"ProfilerStep#1\"",
            ]),
            0..40,
        )
    ) {
        let _any = read("f", pieces.concat().as_bytes());
    }

    #[test]
    fn no_bytes_make_a_reader_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _any = read("f", &bytes);
    }
}
