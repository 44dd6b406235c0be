//! Tasks on a Ray cluster, through a driver in Python.
//!
//! This program starts `python3 -m stagewright.driver ADDRESS` and writes JSON lines to its standard input: first a
//! [`Head`], which says how to start this program on a node, then one [`Task`] per line. The driver submits the tasks
//! to Ray, repeats tasks whose node or process died, and writes one line per task: the reply or an error. On a node,
//! the program runs with the arguments of the head, and [`serve`] answers one request after the other.
//!
//! The driver ends when asked to, when its input ends and all tasks are answered, or when this program ends.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};
use stagewright::code::X001;

use super::error::{CliError, Result};
use super::output;
use crate::code::A::*;

/// Environment variable that names the Python interpreter.
const PYTHON: &str = "STAGEWRIGHT_PYTHON";

/// Environment variable with the folder of reference inputs, which nodes need as well.
const SHARED: &str = "STAGEWRIGHT_SHARED";

/// Module of the driver.
const DRIVER: &str = "stagewright.driver";

/// Instruction for installing the driver and Ray.
const INSTALL: &str = "install the Python package and Ray: pip install target/wheels/stagewright-*.whl ray";

const SCHEMA: &str = "stagewright.tasks/1";

/// Interval at which a wait for replies checks for an interrupt.
const POLL: Duration = Duration::from_millis(100);

/// Time given to the driver to cancel its tasks and leave the cluster.
const FAREWELL: Duration = Duration::from_secs(15);

/// The first line to the driver: how a node starts this program.
#[derive(Serialize)]
struct Head<'a> {
    schema: &'static str,
    program: String,
    arguments: &'a [String],
    folder: String,
    /// Environment variables on which the paths of a suite depend.
    environment: BTreeMap<&'static str, String>,
}

/// Digest of the running program, which a node compares: another build could give other answers. O(bytes of the
/// program), a few tenths of a second.
pub(crate) fn digest_of_program() -> io::Result<String> {
    digest_of_file(&std::env::current_exe()?)
}

/// Digest of a regular file; returns an error for anything else. O(bytes).
pub(crate) fn digest_of_file(path: &Path) -> io::Result<String> {
    // Opening a pipe would wait for its writer.
    if !fs::metadata(path)?.is_file() {
        return Err(io::Error::other("not a regular file"));
    }
    let (mut file, mut hasher) = (File::open(path)?, Sha256::new());
    let mut chunk = vec![0; 1 << 20];
    loop {
        match file.read(&mut chunk)? {
            0 => return Ok(BASE64.encode(hasher.finalize())),
            count => hasher.update(&chunk[..count]),
        }
    }
}

/// Digest of the running program, for a request.
///
/// # Errors
/// If the program cannot be read (A001).
#[cfg(feature = "policy")]
pub(crate) fn own_digest() -> Result<String> {
    digest_of_program().map_err(|error| {
        CliError::new(A001, format!("cannot read this program: {error}"))
            .help("start it by its full path, in a folder that exists")
    })
}

/// Refuses a request from another build.
///
/// # Errors
/// If the digests of the programs differ (A005).
#[cfg(feature = "policy")]
pub(crate) fn refuse_other_build(asked: &str, own: &str) -> Result<()> {
    match asked == own {
        true => Ok(()),
        false => Err(CliError::new(A005, "the node has another build of the program")
            .help("give all nodes the same program, in the same folder")),
    }
}

/// A task for a node.
#[derive(Debug, Serialize)]
pub(crate) struct Task<Q> {
    /// Identifier of the task, which its reply repeats.
    pub(crate) id: usize,
    /// Name of the task on the dashboard and in errors.
    pub(crate) label: String,
    /// Number of cores that the task occupies.
    pub(crate) cpus: usize,
    /// Memory in bytes that the task occupies; `None` if Ray need not account for it.
    pub(crate) memory: Option<u64>,
    /// Request that [`serve`] answers on the node.
    pub(crate) request: Q,
}

/// A line written by the driver.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Said {
    /// The reply of a task.
    Reply { id: usize, reply: Value },
    /// The error of a task that has no reply.
    Error { id: usize, error: String },
    /// A line for standard error.
    Note(String),
    /// Ray is not installed.
    NoRay(String),
    /// The cluster cannot be reached.
    NoCluster(String),
}

/// Parses a line of the driver: `{"id": 3, "reply": …}`, `{"id": 3, "error": "…"}`, or an object with one field.
fn said(line: &str) -> Option<Said> {
    let Value::Object(mut fields) = serde_json::from_str(line).ok()? else { return None };
    if let Some(id) = fields.get("id").and_then(Value::as_u64) {
        let id = usize::try_from(id).ok()?;
        return match (fields.remove("reply"), fields.remove("error")) {
            (Some(reply), None) => Some(Said::Reply { id, reply }),
            (None, Some(Value::String(error))) => Some(Said::Error { id, error }),
            _ => None,
        };
    }
    serde_json::from_value(Value::Object(fields)).ok()
}

/// A driver, with the number of its unanswered tasks.
pub(crate) struct Cluster {
    driver: Child,
    tasks: Option<ChildStdin>,
    lines: Receiver<String>,
    /// Returns the last line that the driver wrote to standard error.
    story: Option<JoinHandle<String>>,
    address: String,
    /// Number of unanswered tasks.
    open: usize,
}

impl Cluster {
    /// Starts a driver for the cluster at an address: `auto`, or the host and port of its head node. The nodes start
    /// this program with `arguments`.
    ///
    /// # Errors
    /// If there is no Python. The driver reports everything else when the first reply is read.
    pub(crate) fn start(address: &str, arguments: &[String]) -> Result<Cluster> {
        let unknown = |error: io::Error| {
            CliError::new(A001, format!("cannot find this program or its folder: {error}"))
                .help("start it by its full path, in a folder that exists")
        };
        let head = Head {
            schema: SCHEMA,
            program: std::env::current_exe().map_err(unknown)?.display().to_string(),
            arguments,
            folder: std::env::current_dir().map_err(unknown)?.display().to_string(),
            environment: std::env::var(SHARED).ok().map(|folder| (SHARED, folder)).into_iter().collect(),
        };
        let python = std::env::var_os(PYTHON).filter(|name| !name.is_empty());
        let python = python.unwrap_or_else(|| "python3".into());
        let mut driver = Command::new(&python)
            .args(["-m", DRIVER, address])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| {
                CliError::new(A001, format!("cannot start Python: {error}"))
                    .at(python.display().to_string())
                    .help(format!("install Python 3.10 or later, or set {PYTHON} to its path"))
            })?;
        let (sender, lines) = channel();
        if let Some(replies) = driver.stdout.take() {
            thread::spawn(move || {
                let lines = BufReader::new(replies).lines().map_while(io::Result::ok);
                // Ends when the receiver is dropped, at the end of the run.
                lines.map(|line| sender.send(line)).take_while(std::result::Result::is_ok).for_each(drop);
            });
        }
        let story = driver.stderr.take().map(|story| thread::spawn(move || last_line(story)));
        let tasks = driver.stdin.take();
        let mut cluster = Cluster { driver, tasks, lines, story, address: address.to_owned(), open: 0 };
        cluster.write(&head)?;
        Ok(cluster)
    }

    /// Sends a task to the driver, which accepts tasks at any time.
    pub(crate) fn submit(&mut self, task: &Task<impl Serialize>) -> Result<()> {
        self.write(task)?;
        self.open += 1;
        Ok(())
    }

    /// Waits for the next reply. Returns the task's id with the reply, or with an error that concerns only this task;
    /// `None` if all tasks are answered, or if `stop` returns true.
    ///
    /// # Errors
    /// If the package or Ray is not installed, the cluster cannot be reached, or the driver fails.
    pub(crate) fn next<A: DeserializeOwned>(
        &mut self,
        stop: impl Fn() -> bool,
    ) -> Result<Option<(usize, Result<A, String>)>> {
        while self.open > 0 && !stop() {
            let line = match self.lines.recv_timeout(POLL) {
                Ok(line) => line,
                Err(RecvTimeoutError::Timeout) => continue,
                Err(RecvTimeoutError::Disconnected) => return Err(self.ended()),
            };
            if let Some(answer) = self.heard(&line)? {
                self.open -= 1;
                return Ok(Some(answer));
            }
        }
        Ok(None)
    }

    /// The answer in a line, if it has one.
    fn heard<A: DeserializeOwned>(&self, line: &str) -> Result<Option<(usize, Result<A, String>)>> {
        match said(line) {
            Some(Said::Reply { id, reply }) => {
                let reply = serde_json::from_value(reply);
                Ok(Some((id, reply.map_err(|error| format!("the reply is of another version: {error}")))))
            }
            Some(Said::Error { id, error }) => Ok(Some((id, Err(error)))),
            Some(Said::Note(note)) => {
                output::note(&note);
                Ok(None)
            }
            Some(Said::NoRay(cause)) => {
                let cause = format!("cannot import Ray: {cause}");
                Err(CliError::new(A002, cause).at(self.address.clone()).help(INSTALL))
            }
            Some(Said::NoCluster(cause)) => {
                Err(CliError::new(A003, format!("cannot reach the Ray cluster: {cause}"))
                    .at(self.address.clone())
                    .help("start one with `ray start --head`, and give its HOST:PORT, or auto on its nodes"))
            }
            None => Err(self.failed(&format!("unexpected line: {line}"))),
        }
    }

    fn write(&mut self, line: &impl Serialize) -> Result<()> {
        let mut text = serde_json::to_vec(line)
            .map_err(|error| CliError::new(X001, format!("cannot write JSON: {error}")))?;
        text.push(b'\n');
        match self.tasks.as_mut().map(|tasks| tasks.write_all(&text)) {
            Some(Ok(())) => Ok(()),
            _ => Err(self.ended()),
        }
    }

    /// The error for an unexpected end of the driver.
    fn ended(&mut self) -> CliError {
        // The driver's last lines may explain why it ended.
        while let Ok(line) = self.lines.recv_timeout(FAREWELL) {
            if let Err(error) = self.heard::<Value>(&line) {
                return error;
            }
        }
        let last = self.story.take().and_then(|story| story.join().ok()).unwrap_or_default();
        if last.contains("No module named") {
            return CliError::new(A002, format!("Python lacks the driver: {last}"))
                .at(DRIVER)
                .help(format!("{INSTALL}; {PYTHON} chooses the interpreter"));
        }
        self.failed(&last)
    }

    fn failed(&self, cause: &str) -> CliError {
        CliError::new(A004, format!("the driver of the cluster failed: {cause}"))
            .at(self.address.clone())
            .help("start again; with a journal, finished tasks are not lost")
    }
}

/// Ends the driver, which cancels its unanswered tasks.
impl Drop for Cluster {
    fn drop(&mut self) {
        if let Some(mut tasks) = self.tasks.take() {
            // A driver that has ended cannot receive the message.
            let _ = tasks.write_all(b"{\"end\":true}\n");
        }
        let began = Instant::now();
        while matches!(self.driver.try_wait(), Ok(None)) {
            if began.elapsed() > FAREWELL {
                let _ = self.driver.kill();
                let _ = self.driver.wait();
            }
            thread::sleep(POLL / 10);
        }
    }
}

/// The last line that is not blank.
fn last_line(text: impl io::Read) -> String {
    let lines = BufReader::new(text).lines().map_while(io::Result::ok);
    lines.filter(|line| !line.trim().is_empty()).last().unwrap_or_default()
}

/// The answer of a node to one request.
#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum Answer<A> {
    Reply(A),
    Error(String),
}

/// Answers requests on a node: reads one request per line of standard input and writes one line for each, until
/// standard input is closed. `ended` is called as soon as it is closed, even while a request is being answered.
pub(crate) fn serve<Q: DeserializeOwned, A: Serialize>(
    ended: impl FnOnce() + Send + 'static,
    mut answer: impl FnMut(Q) -> Result<A>,
) -> Result<()> {
    let (sender, lines) = channel();
    thread::spawn(move || {
        let mut lines = io::stdin().lines().map_while(io::Result::ok);
        while lines.next().is_some_and(|line| sender.send(line).is_ok()) {}
        ended();
    });
    for line in lines {
        let answer = match serde_json::from_str(&line) {
            Ok(request) => {
                answer(request).map_or_else(|error| Answer::Error(error.to_string()), Answer::Reply)
            }
            Err(error) => Answer::Error(format!("the request is of another version: {error}")),
        };
        let text = serde_json::to_string(&answer)
            .map_err(|error| CliError::new(X001, format!("cannot write JSON: {error}")))?;
        output::data(&(text + "\n"))?;
    }
    Ok(())
}
