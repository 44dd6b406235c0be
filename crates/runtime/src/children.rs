//! Processes that this program starts: reads their lines, notices when they end, and leaves none behind.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::error::{Result, RunError};
use crate::protocol::{Order, Report, Task};

/// Bytes of standard error that are kept of each process.
const KEPT_ERROR: usize = 2000;

/// Interval between checks for an interrupt.
const TICK: Duration = Duration::from_millis(100);

/// Time that the cause of a failure may take to show.
const GRACE: Duration = Duration::from_millis(300);

/// A message of a process, or the end of its messages.
enum Heard {
    Said(Report),
    Unreadable(String),
    Closed,
}

/// Started processes. They are killed when this is dropped.
pub(crate) struct Children {
    children: Vec<Running>,
    heard: Receiver<(usize, Heard)>,
    /// Longest time without a line from any process.
    patience: Duration,
    stop: Arc<dyn Fn() -> bool + Send + Sync>,
}

struct Running {
    name: String,
    child: Child,
    input: Option<ChildStdin>,
    error: Arc<Mutex<Vec<u8>>>,
}

impl Children {
    /// Starts a process for each task: this executable, with the given argument.
    ///
    /// # Errors
    /// If a process cannot be started.
    pub(crate) fn start(
        program: &Path,
        arguments: &[&str],
        tasks: &[(String, Task)],
        patience: Duration,
        stop: Arc<dyn Fn() -> bool + Send + Sync>,
    ) -> Result<Children> {
        let (sender, heard) = channel();
        let mut children = Children { children: Vec::new(), heard, patience, stop };
        for (index, (name, task)) in tasks.iter().enumerate() {
            let failed = || RunError::io(format!("the process of {name} cannot be started"));
            let mut command = Command::new(program);
            command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
            // An interrupt from the terminal reaches this program alone, which stops its processes.
            #[cfg(unix)]
            std::os::unix::process::CommandExt::process_group(&mut command, 0);
            let mut child = command.spawn().map_err(failed())?;
            let (output, errors, input) = (child.stdout.take(), child.stderr.take(), child.stdin.take());
            let error = Arc::new(Mutex::new(Vec::new()));
            if let Some(output) = output {
                listen(index, output, sender.clone());
            }
            if let Some(errors) = errors {
                keep(errors, Arc::clone(&error));
            }
            children.children.push(Running { name: name.clone(), child, input, error });
            children.tell(index, task)?;
        }
        Ok(children)
    }

    /// Number of processes.
    pub(crate) fn len(&self) -> usize {
        self.children.len()
    }

    /// Name of a process.
    pub(crate) fn name(&self, index: usize) -> &str {
        &self.children[index].name
    }

    /// Sends a line to a process.
    ///
    /// # Errors
    /// If the process has ended.
    pub(crate) fn order(&mut self, index: usize, order: &Order) -> Result<()> {
        self.tell(index, order)
    }

    fn tell<T: serde::Serialize>(&mut self, index: usize, message: &T) -> Result<()> {
        let mut line = serde_json::to_vec(message).expect("messages are JSON");
        line.push(b'\n');
        let told = match self.children[index].input.as_mut() {
            Some(input) => input.write_all(&line).and_then(|()| input.flush()),
            None => Err(std::io::ErrorKind::BrokenPipe.into()),
        };
        told.map_err(|_| self.died(index))
    }

    /// Waits for the next meaningful report; `waiting` says which processes still have to report. A report that a
    /// measurement continues only shows that no process hangs.
    ///
    /// # Errors
    /// If a process fails, ends, sends an unintelligible message, or no process sends anything for too long.
    pub(crate) fn next(&mut self, waiting: &dyn Fn(usize) -> bool) -> Result<(usize, Report)> {
        let mut start = Instant::now();
        loop {
            if (self.stop)() {
                return Err(RunError::Interrupted);
            }
            let (index, heard) = match self.heard.recv_timeout(TICK) {
                Ok(heard) => heard,
                Err(RecvTimeoutError::Timeout) => {
                    if start.elapsed() >= self.patience {
                        return Err(self.hung(waiting));
                    }
                    continue;
                }
                Err(RecvTimeoutError::Disconnected) => return Err(self.hung(waiting)),
            };
            match heard {
                Heard::Said(Report::Failed { message }) => {
                    // A process that is killed breaks the connections of others, which may report that first.
                    thread::sleep(GRACE);
                    if let Some(killed) = (0..self.children.len()).find(|&index| self.is_killed(index)) {
                        return Err(self.died(killed));
                    }
                    return Err(RunError::Failed { device: self.children[index].name.clone(), message });
                }
                Heard::Said(Report::Measuring) => start = Instant::now(),
                Heard::Said(report) => return Ok((index, report)),
                Heard::Unreadable(line) => {
                    let message = format!("it wrote `{line}`");
                    return Err(RunError::Failed { device: self.children[index].name.clone(), message });
                }
                Heard::Closed => {
                    if waiting(index) {
                        let died = self.died(index);
                        return Err(if (self.stop)() { RunError::Interrupted } else { died });
                    }
                }
            }
        }
    }

    /// Lets the processes end by themselves.
    pub(crate) fn finish(mut self) {
        for running in &mut self.children {
            running.input = None;
        }
        let end = Instant::now() + Duration::from_secs(5);
        for running in &mut self.children {
            while Instant::now() < end && matches!(running.child.try_wait(), Ok(None)) {
                thread::sleep(Duration::from_millis(2));
            }
        }
    }

    /// Whether a process was ended by a signal.
    fn is_killed(&mut self, index: usize) -> bool {
        let status = self.children[index].child.try_wait().ok().flatten();
        status.is_some_and(|status| status.code().is_none())
    }

    fn hung(&self, waiting: &dyn Fn(usize) -> bool) -> RunError {
        let names: Vec<&str> =
            (0..self.children.len()).filter(|&index| waiting(index)).map(|index| self.name(index)).collect();
        RunError::Hung { device: names.join(", "), seconds: self.patience.as_secs() }
    }

    fn died(&mut self, index: usize) -> RunError {
        // A failing process reports its failure before it ends, and the report may still be on its way. Meanwhile
        // others may continue to report.
        let end = Instant::now() + GRACE;
        while Instant::now() < end
            && let Ok((other, heard)) = self.heard.recv_timeout(TICK)
        {
            if let (true, Heard::Said(Report::Failed { message })) = (other == index, heard) {
                return RunError::Failed { device: self.children[index].name.clone(), message };
            }
        }
        let running = &mut self.children[index];
        let end = Instant::now() + Duration::from_secs(1);
        let mut status = None;
        while status.is_none() && Instant::now() < end {
            status = running.child.try_wait().ok().flatten();
            thread::sleep(Duration::from_millis(5));
        }
        let how = status.map_or_else(|| "closed its output".to_owned(), ended);
        let error = running.error.lock().unwrap_or_else(PoisonError::into_inner);
        let text = String::from_utf8_lossy(&error);
        let how = match text.trim() {
            "" => how,
            text => format!("{how}; it wrote: {text}"),
        };
        RunError::Died { device: running.name.clone(), how }
    }
}

impl Drop for Children {
    fn drop(&mut self) {
        for running in &mut self.children {
            // A process that has ended cannot be killed, and need not be.
            let _ = running.child.kill();
            let _ = running.child.wait();
        }
    }
}

fn ended(status: ExitStatus) -> String {
    #[cfg(unix)]
    if let Some(signal) = std::os::unix::process::ExitStatusExt::signal(&status) {
        return format!("was killed by signal {signal}");
    }
    match status.code() {
        Some(code) => format!("ended with code {code}"),
        None => "ended".into(),
    }
}

/// Passes on the lines of a process.
fn listen(index: usize, output: impl Read + Send + 'static, sender: Sender<(usize, Heard)>) {
    thread::spawn(move || {
        for line in BufReader::new(output).lines() {
            let Ok(line) = line else { break };
            let heard = match serde_json::from_str(&line) {
                Ok(report) => Heard::Said(report),
                Err(_) => Heard::Unreadable(line.chars().take(200).collect()),
            };
            if sender.send((index, heard)).is_err() {
                return;
            }
        }
        // Sending fails only if the receiver has been dropped.
        let _ = sender.send((index, Heard::Closed));
    });
}

/// Keeps the end of a process's standard error.
fn keep(mut errors: impl Read + Send + 'static, kept: Arc<Mutex<Vec<u8>>>) {
    thread::spawn(move || {
        let mut buffer = [0; 4096];
        while let Ok(count @ 1..) = errors.read(&mut buffer) {
            let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
            kept.extend_from_slice(&buffer[..count]);
            let surplus = kept.len().saturating_sub(KEPT_ERROR);
            kept.drain(..surplus);
        }
    });
}
