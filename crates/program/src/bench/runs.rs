//! Runs of child processes of this program, all of which can be ended at once.

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::process::{Child, Command, Output, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use super::locked;

/// Child processes, and whether more may be started.
#[derive(Debug, Default)]
pub(super) struct Runs {
    are_ended: AtomicBool,
    /// Runs in progress, by process id.
    children: Mutex<BTreeMap<u32, Run>>,
}

/// A run in progress.
#[derive(Debug)]
struct Run {
    child: Child,
    /// Whether the child starts processes of its own, which it ends when interrupted.
    starts_others: bool,
}

impl Run {
    /// Ends the run, unless it has ended already.
    fn end(&mut self) {
        #[cfg(unix)]
        if self.starts_others
            && let Some(process) = rustix::process::Pid::from_raw(self.child.id().cast_signed())
        {
            let _ = rustix::process::kill_process(process, rustix::process::Signal::TERM);
            return;
        }
        let _ = self.child.kill();
    }
}

impl Runs {
    /// Ends all runs, and prevents further ones.
    pub(super) fn end(&self) {
        // Set first, so that every thread that starts a child afterwards sees the flag.
        self.are_ended.store(true, Ordering::SeqCst);
        locked(&self.children).values_mut().for_each(Run::end);
    }

    /// Whether the runs were ended.
    pub(super) fn are_ended(&self) -> bool {
        self.are_ended.load(Ordering::SeqCst)
    }

    /// Runs a program until it ends; `None` if all runs were ended before. A child that starts processes of its own is
    /// then interrupted rather than killed.
    pub(super) fn run(&self, command: &mut Command, starts_others: bool) -> io::Result<Option<Output>> {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let (id, result, story) = {
            let mut children = locked(&self.children);
            if self.are_ended() {
                return Ok(None);
            }
            #[cfg(unix)]
            if starts_others {
                // In the same process group, a signal from the terminal would count as a first interrupt and that from
                // `end` as a second, which would end the child immediately.
                std::os::unix::process::CommandExt::process_group(command, 0);
            }
            let mut child = command.spawn()?;
            let (id, result, story) = (child.id(), child.stdout.take(), child.stderr.take());
            children.insert(id, Run { child, starts_others });
            (id, result, story)
        };
        let (stdout, stderr) = std::thread::scope(|scope| {
            let story = scope.spawn(|| whole(story));
            let result = whole(result);
            (result, story.join().unwrap_or_else(|_| Err(io::Error::other("its reader failed"))))
        });
        let run = locked(&self.children).remove(&id);
        let status = run.ok_or_else(|| io::Error::other("unknown process"))?.child.wait()?;
        let output = Output { status, stdout: stdout?, stderr: stderr? };
        Ok((!self.are_ended()).then_some(output))
    }
}

/// Everything read from a pipe until it is closed.
fn whole(pipe: Option<impl Read>) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if let Some(mut pipe) = pipe {
        pipe.read_to_end(&mut bytes)?;
    }
    Ok(bytes)
}
