//! The process of one device: it runs its segments as soon as their inputs have arrived, the oldest sample first.
//!
//! | communication | sends | waits for the link, if it is throttled |
//! | --- | --- | --- |
//! | serial | between segments | between segments: for sending and for receiving |
//! | overlap | in a thread of its own | in threads; one bucket for both directions |
//! | duplex | in a thread of its own | in threads; a bucket for each direction |
//!
//! Copying takes time on the core in any case, as all threads share it.

use std::collections::BTreeMap;
use std::io::{self, BufReader};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use ort::environment::Environment;
use stagewright_core::document::Communication;

use crate::link::{self, Bucket, Received, pass, write_outputs};
use crate::protocol::{
    Optimization, Order, Report, Segment, Span, SpanKind, StageReport, StageTask, now, ports, report,
};
use crate::session::{Loaded, Written, input};
use crate::tensor::Tensor;

/// Event that a stage waits for.
enum Event {
    Received(Received),
    Credit(u32),
    Broken(String),
}

/// A tensor on its way out.
type Outgoing = (u32, u32, Arc<Tensor>);

/// The link of a device: one bucket, or one for each direction.
#[derive(Clone)]
struct Link {
    out: Arc<Mutex<Bucket>>,
    within: Arc<Mutex<Bucket>>,
}

impl Link {
    fn new(task: &StageTask) -> Link {
        let bucket = || Arc::new(Mutex::new(Bucket::new(task.throttle)));
        let out = bucket();
        let within = if task.communication == Communication::Duplex { bucket() } else { Arc::clone(&out) };
        Link { out, within }
    }
}

fn reserve(bucket: &Mutex<Bucket>, bytes: usize) -> Option<std::time::Instant> {
    bucket.lock().unwrap_or_else(PoisonError::into_inner).reserve(bytes)
}

/// The sending side of a device.
struct Sending {
    streams: BTreeMap<usize, TcpStream>,
    targets: BTreeMap<u32, Vec<usize>>,
    link: Link,
    spans: Arc<Mutex<Vec<Span>>>,
}

impl Sending {
    fn send(&mut self, (value, sample, tensor): Outgoing) -> Result<(), String> {
        let start_ns = now();
        let until = reserve(&self.link.out, tensor.bytes().len());
        for target in self.targets.get(&value).into_iter().flatten() {
            let stream = self.streams.get_mut(target).ok_or("a process without a connection")?;
            link::send(stream, value, sample, &tensor)
                .map_err(|error| format!("sending to process {target}: {error}"))?;
        }
        pass(until);
        let span = Span { kind: SpanKind::Send, sample, of: value, start_ns, end_ns: now() };
        self.spans.lock().unwrap_or_else(PoisonError::into_inner).push(span);
        Ok(())
    }
}

/// Destination of finished tensors.
enum Out {
    /// Tensors are sent at once.
    Here(Sending),
    /// Tensors are sent by a thread.
    Thread(Sender<Outgoing>, thread::JoinHandle<Result<(), String>>),
}

/// Runs all samples and reports their times.
///
/// # Errors
/// If a model cannot be loaded or run, or a connection breaks.
pub(crate) fn run(
    environment: &Environment,
    optimization: Optimization,
    task: &StageTask,
    orders: Receiver<Order>,
) -> Result<(), String> {
    let mut stage = Stage::load(environment, optimization, task)?;
    let failed = |error: io::Error| error.to_string();
    let listener = TcpListener::bind(("127.0.0.1", 0)).map_err(failed)?;
    let port = listener.local_addr().map_err(failed)?.port();
    let admitted = link::admit(listener, &task.token);
    report(&Report::Ready { port: Some(port) })?;
    let ports = ports(&orders)?;
    let mut streams = BTreeMap::new();
    for &target in &task.targets {
        let port = *ports.get(target).ok_or("a process without a port")?;
        streams.insert(target, link::connect(port, &task.token).map_err(failed)?);
    }
    let (events, heard) = channel();
    let (link, broken) = (Link::new(task), events.clone());
    for _ in 0..task.sources {
        let stream = admitted.recv().map_err(|_| "nobody can connect")?.map_err(failed)?;
        let waits = (task.communication != Communication::Serial).then(|| Arc::clone(&link.within));
        listen(stream, events.clone(), waits, Arc::clone(&stage.spans));
    }
    thread::spawn(move || {
        for order in orders {
            if let Order::Credit(credit) = order
                && events.send(Event::Credit(credit)).is_err()
            {
                return;
            }
        }
    });
    report(&Report::Connected)?;
    let targets = task
        .segments
        .iter()
        .flat_map(|segment| &segment.outputs)
        .filter(|output| !output.to.is_empty())
        .map(|output| (output.value, output.to.clone()))
        .collect();
    let sending = Sending { streams, targets, link: link.clone(), spans: Arc::clone(&stage.spans) };
    let mut out = match task.communication {
        Communication::Serial => Out::Here(sending),
        _ => in_thread(sending, broken),
    };
    stage.run_all(task, &link, &mut out, &heard)?;
    if let Out::Thread(sender, thread) = out {
        drop(sender);
        thread.join().map_err(|_| "the sending thread panicked")??;
    }
    let mut spans = std::mem::take(&mut *stage.spans.lock().unwrap_or_else(PoisonError::into_inner));
    spans.sort_by_key(|span| (span.start_ns, span.end_ns));
    report(&Report::Stage(StageReport { spans, peak_memory: peak_memory() }))
}

fn in_thread(mut sending: Sending, events: Sender<Event>) -> Out {
    let (sender, outgoing) = channel::<Outgoing>();
    let thread = thread::spawn(move || {
        for tensor in outgoing {
            if let Err(message) = sending.send(tensor) {
                // The main thread may have ended already.
                let _ = events.send(Event::Broken(message.clone()));
                return Err(message);
            }
        }
        Ok(())
    });
    Out::Thread(sender, thread)
}

/// Receives tensors in a thread. With a bucket, each is forwarded once the emulated link has transferred it.
fn listen(
    stream: TcpStream,
    events: Sender<Event>,
    waits: Option<Arc<Mutex<Bucket>>>,
    spans: Arc<Mutex<Vec<Span>>>,
) {
    thread::spawn(move || {
        let mut stream = BufReader::with_capacity(1 << 16, stream);
        loop {
            let event = match link::receive(&mut stream) {
                Ok(Some(received)) => {
                    if let Some(bucket) = &waits {
                        pass(reserve(bucket, received.tensor.bytes().len()));
                    }
                    let (kind, value, sample) = (SpanKind::Receive, received.value, received.sample);
                    let span = Span { kind, sample, of: value, start_ns: received.started, end_ns: now() };
                    spans.lock().unwrap_or_else(PoisonError::into_inner).push(span);
                    Event::Received(received)
                }
                // A process that has sent everything closes its end.
                Ok(None) => return,
                Err(error) => Event::Broken(format!("a connection broke: {error}")),
            };
            let is_broken = matches!(event, Event::Broken(_));
            if events.send(event).is_err() || is_broken {
                return;
            }
        }
    });
}

/// The segments of a device and the tensors that wait for them.
struct Stage<'a> {
    segments: Vec<(&'a Segment, Loaded)>,
    /// Next sample of every segment.
    next: Vec<u32>,
    /// Inputs of the model by name.
    given: BTreeMap<&'a str, Tensor>,
    /// Tensors by value and sample, with the number of segments that still read them.
    held: BTreeMap<(u32, u32), (Arc<Tensor>, usize)>,
    /// Number of segments that read each value.
    readers: BTreeMap<u32, usize>,
    spans: Arc<Mutex<Vec<Span>>>,
    /// Samples below this number may start.
    credit: u32,
}

impl<'a> Stage<'a> {
    fn load(
        environment: &Environment,
        optimization: Optimization,
        task: &'a StageTask,
    ) -> Result<Stage<'a>, String> {
        let mut segments = Vec::new();
        let mut given = BTreeMap::new();
        let mut readers = BTreeMap::new();
        for segment in &task.segments {
            let loaded = Loaded::new(environment, &segment.model, optimization, &Written::default())?;
            segments.push((segment, loaded));
            for each in &segment.inputs {
                match each.value {
                    Some(value) => *readers.entry(value).or_insert(0) += 1,
                    None if !given.contains_key(each.name.as_str()) => {
                        given.insert(each.name.as_str(), input(each, task.seed)?);
                    }
                    None => {}
                }
            }
        }
        let next = vec![0; segments.len()];
        Ok(Stage { segments, next, given, held: BTreeMap::new(), readers, spans: Arc::default(), credit: 0 })
    }

    fn run_all(
        &mut self,
        task: &StageTask,
        link: &Link,
        out: &mut Out,
        heard: &Receiver<Event>,
    ) -> Result<(), String> {
        let mut finished = 0;
        while let Some(oldest) = self.next.iter().copied().min().filter(|&oldest| oldest < task.samples) {
            while finished < oldest {
                report(&Report::Done { sample: finished })?;
                finished += 1;
            }
            // With serial communication, a tensor is taken in only when nothing can be computed.
            while task.communication != Communication::Serial
                && let Ok(event) = heard.try_recv()
            {
                self.take(event, task, link)?;
            }
            match self.ready(task.samples) {
                Some(segment) => self.run(segment, task, out)?,
                None => {
                    let event = heard.recv().map_err(|_| "nothing more comes")?;
                    self.take(event, task, link)?;
                }
            }
        }
        (finished..task.samples).try_for_each(|sample| report(&Report::Done { sample }))
    }

    fn take(&mut self, event: Event, task: &StageTask, link: &Link) -> Result<(), String> {
        match event {
            Event::Received(received) => {
                if task.communication == Communication::Serial
                    && let Some(until) = reserve(&link.within, received.tensor.bytes().len())
                {
                    let start_ns = now();
                    pass(Some(until));
                    let (kind, value, sample) = (SpanKind::Receive, received.value, received.sample);
                    let span = Span { kind, sample, of: value, start_ns, end_ns: now() };
                    self.spans.lock().unwrap_or_else(PoisonError::into_inner).push(span);
                }
                let readers = self.readers.get(&received.value).copied().unwrap_or(0);
                self.held.insert((received.value, received.sample), (Arc::new(received.tensor), readers));
                Ok(())
            }
            Event::Credit(credit) => {
                self.credit = credit;
                Ok(())
            }
            Event::Broken(message) => Err(message),
        }
    }

    /// The segment to run next: among those that have all inputs, the one with the oldest sample.
    fn ready(&self, samples: u32) -> Option<usize> {
        let is_ready = |&index: &usize| {
            let (segment, _) = &self.segments[index];
            let sample = self.next[index];
            let has = |value| self.held.contains_key(&(value, sample));
            let may_start = !is_source(segment) || sample < self.credit;
            sample < samples && may_start && segment.inputs.iter().filter_map(|input| input.value).all(has)
        };
        (0..self.segments.len()).filter(is_ready).min_by_key(|&index| (self.next[index], index))
    }

    fn run(&mut self, index: usize, task: &StageTask, out: &mut Out) -> Result<(), String> {
        let sample = self.next[index];
        let (segment, loaded) = &mut self.segments[index];
        let start_ns = now();
        let mut given: Vec<(&str, &Tensor)> = Vec::with_capacity(segment.inputs.len());
        for each in &segment.inputs {
            let tensor = match each.value {
                Some(value) => self.held.get(&(value, sample)).map(|(tensor, _)| &**tensor),
                None => self.given.get(each.name.as_str()),
            };
            given.push((&each.name, tensor.ok_or("an input is missing")?));
        }
        let made = loaded.run(&given)?;
        let span = Span { kind: SpanKind::Run, sample, of: index as u32, start_ns, end_ns: now() };
        self.spans.lock().unwrap_or_else(PoisonError::into_inner).push(span);
        for value in segment.inputs.iter().filter_map(|input| input.value) {
            if let Some((_, readers)) = self.held.get_mut(&(value, sample)) {
                *readers = readers.saturating_sub(1);
                if *readers == 0 {
                    self.held.remove(&(value, sample));
                }
            }
        }
        for (output, (_, tensor)) in segment.outputs.iter().zip(made) {
            if let (0, Some(index), Some(path)) = (sample, output.output, &task.outputs) {
                write_outputs(path, std::iter::once((index, &tensor)))?;
            }
            let tensor = Arc::new(tensor);
            if output.readers > 0 {
                self.held.insert((output.value, sample), (Arc::clone(&tensor), output.readers));
            }
            if output.to.is_empty() {
                continue;
            }
            match out {
                Out::Here(sending) => sending.send((output.value, sample, tensor))?,
                Out::Thread(sender, _) => {
                    sender.send((output.value, sample, tensor)).map_err(|_| "the link is closed")?
                }
            }
        }
        self.next[index] += 1;
        Ok(())
    }
}

/// Whether a segment reads nothing but inputs of the model.
fn is_source(segment: &Segment) -> bool {
    segment.inputs.iter().all(|input| input.value.is_none())
}

/// Largest resident memory of this process in bytes, if Linux reports it.
fn peak_memory() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? * 1024)
}
