//! A process that this program starts: it reads its task from standard input and reports to standard output.

use std::io;
use std::net::TcpListener;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use ort::environment::Environment;

use crate::library;
use crate::link;
use crate::protocol::{
    Order, PingTask, ProfileReport, ProfileTask, Report, SegmentInput, Task, Work, ports, report,
};
use crate::session::{Loaded, Written, input};
use crate::stage;
use crate::tensor::Tensor;

/// Runs of a model before it is timed.
const WARM_UP: usize = 2;

/// Time between two reports of a running measurement, which show that it does not hang. The program that reads the
/// reports must disturb the measurement as little as possible.
const PULSE: Duration = Duration::from_millis(500);

/// Does the task on standard input. A failure is reported; the process then ends with code 1.
pub fn run() -> u8 {
    end_with_the_program();
    let (sender, orders) = channel();
    let task = match first_line(sender) {
        Ok(task) => task,
        Err(message) => return failed(message),
    };
    match work(&task, orders) {
        // The other side closes the input when it has read the report, which ends this process.
        Ok(()) => loop {
            thread::park();
        },
        Err(message) => failed(message),
    }
}

fn failed(message: String) -> u8 {
    // If the receiver has been dropped, there is nothing to report to.
    let _ = report(&Report::Failed { message });
    1
}

/// Reads the task, and forwards the messages after it. A closed input ends the process, because its parent has ended.
fn first_line(sender: Sender<Order>) -> Result<Task, String> {
    let mut line = String::new();
    io::stdin().read_line(&mut line).map_err(|error| format!("no task: {error}"))?;
    let task = serde_json::from_str(&line).map_err(|error| format!("no task: {error}"))?;
    thread::spawn(move || {
        for line in io::stdin().lines() {
            let Ok(Ok(order)) = line.map(|line| serde_json::from_str(&line)) else { break };
            if sender.send(order).is_err() {
                break;
            }
        }
        #[expect(clippy::disallowed_methods, reason = "nobody is left to report to")]
        std::process::exit(0);
    });
    Ok(task)
}

/// Makes the system kill this process when the thread that started it ends. The closed input ends the process as well,
/// unless the exit handlers of ONNX Runtime wait for an unfinished computation.
fn end_with_the_program() {
    #[cfg(target_os = "linux")]
    // If this fails, the closed input still ends the process.
    let _ = rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL));
}

/// Keeps this process on one core.
#[cfg(target_os = "linux")]
fn pin(core: usize) -> Result<(), String> {
    let mut cores = rustix::thread::CpuSet::new();
    cores.set(core);
    rustix::thread::sched_setaffinity(None, &cores)
        .map_err(|error| format!("core {core} is not available: {error}"))
}

#[cfg(not(target_os = "linux"))]
fn pin(_: usize) -> Result<(), String> {
    Ok(())
}

fn work(task: &Task, orders: Receiver<Order>) -> Result<(), String> {
    if let Some(core) = task.core {
        pin(core)?;
    }
    let environment = library::load(&task.library).map_err(|error| error.to_string())?;
    match &task.work {
        Work::Stage(stage) => stage::run(&environment, task.optimization, stage, orders),
        Work::Profile(profile) => measure(&environment, task, profile, &orders),
        Work::Ping(ping) => ping_task(ping, &orders),
    }
}

/// Waits for the start of a measurement.
fn wait_for_go(orders: &Receiver<Order>) -> Result<(), String> {
    loop {
        match orders.recv() {
            Ok(Order::Go) => return Ok(()),
            Ok(_) => {}
            Err(_) => return Err("no order to start".into()),
        }
    }
}

/// Reports of a running measurement, between its runs.
struct Pulse(Instant);

impl Pulse {
    fn beat(&mut self) -> Result<(), String> {
        if self.0.elapsed() < PULSE {
            return Ok(());
        }
        self.0 = Instant::now();
        report(&Report::Measuring)
    }
}

/// Times a whole model, then its nodes.
fn measure(
    environment: &Environment,
    task: &Task,
    profile: &ProfileTask,
    orders: &Receiver<Order>,
) -> Result<(), String> {
    let contents: Vec<(&SegmentInput, Tensor)> = profile
        .inputs
        .iter()
        .map(|each| Ok((each, input(each, profile.seed)?)))
        .collect::<Result<_, String>>()?;
    let given: Vec<(&str, &Tensor)> =
        contents.iter().map(|(each, tensor)| (each.name.as_str(), tensor)).collect();
    let written = Written { profile: None, optimized: profile.optimized.clone() };
    let mut model = Loaded::new(environment, &profile.model, task.optimization, &written)?;
    report(&Report::Ready { port: None })?;
    wait_for_go(orders)?;
    let mut pulse = Pulse(Instant::now());
    for _ in 0..WARM_UP {
        model.run(&given)?;
        pulse.beat()?;
    }
    let mut seconds = Vec::new();
    for _ in 0..profile.runs {
        let start = Instant::now();
        let outputs = model.run(&given)?;
        seconds.push(start.elapsed().as_secs_f64());
        if let (1, Some(path)) = (seconds.len(), &profile.outputs) {
            let outputs = outputs.iter().zip(0..).map(|((_, tensor), index)| (index, tensor));
            link::write_outputs(path, outputs)?;
        }
        pulse.beat()?;
    }
    drop(model);
    let mut path = None;
    if let Some(prefix) = &profile.profile {
        let written = Written { profile: Some(prefix.clone()), optimized: None };
        let mut model = Loaded::new(environment, &profile.model, task.optimization, &written)?;
        for _ in 0..WARM_UP + profile.runs as usize {
            model.run(&given)?;
            pulse.beat()?;
        }
        path = Some(model.end_profile()?);
    }
    report(&Report::Profile(ProfileReport { seconds, profile: path }))
}

/// Sends tensors of several sizes, or receives them. The seconds of a size are those from its first tensor to its last,
/// divided by their number: tensors are sent back to back, so this is the time per tensor of the slower side. The
/// receiver has no buffer, which would take in several small tensors at once: those of a pipeline arrive one by one.
fn ping_task(ping: &PingTask, orders: &Receiver<Order>) -> Result<(), String> {
    let failed = |error: io::Error| error.to_string();
    let listener = TcpListener::bind(("127.0.0.1", 0)).map_err(failed)?;
    let port = listener.local_addr().map_err(failed)?.port();
    let admitted = link::admit(listener, &ping.token);
    report(&Report::Ready { port: Some(port) })?;
    let ports = ports(orders)?;
    let mut times = Vec::new();
    if ping.index == 0 {
        let mut stream = link::connect(ports[1], &ping.token).map_err(failed)?;
        for &(bytes, count) in &ping.sizes {
            let mut tensor = Tensor::zeros(2, &[bytes])?;
            tensor.bytes_mut().fill(1);
            for _ in 0..=count {
                link::send(&mut stream, 0, 0, &tensor).map_err(failed)?;
            }
            times.push((bytes, 0.0));
        }
    } else {
        let mut stream = admitted.recv().map_err(|_| "nobody can connect")?.map_err(failed)?;
        for &(bytes, count) in &ping.sizes {
            let mut start = Instant::now();
            for index in 0..=count {
                link::receive(&mut stream).map_err(failed)?.ok_or("the sender ended")?;
                if index == 0 {
                    start = Instant::now();
                }
            }
            times.push((bytes, start.elapsed().as_secs_f64() / f64::from(count.max(1))));
        }
    }
    report(&Report::Ping(times))
}

/// The cores that this process may use. On systems without affinities, cores are numbered and processes are not pinned.
pub fn cores() -> Vec<usize> {
    #[cfg(target_os = "linux")]
    if let Ok(allowed) = rustix::thread::sched_getaffinity(None) {
        return (0..rustix::thread::CpuSet::MAX_CPU).filter(|&core| allowed.is_set(core)).collect();
    }
    (0..thread::available_parallelism().map_or(1, std::num::NonZero::get)).collect()
}

/// Bytes of main memory, on Linux.
pub fn memory() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? * 1024)
}
