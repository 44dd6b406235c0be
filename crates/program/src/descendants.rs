//! The processes that a command started, and how they are ended.
//!
//! A command is a process group of its own, which is ended as a whole. A process that has left the group (`setsid`), or
//! that lost its parent (a double fork), is not reached in this way. On Linux, this process therefore adopts orphans
//! (it is a *subreaper*): each process that a command started becomes a child of this one once the processes in between
//! have ended. So all children are killed until there are none, except those that this process had before its first
//! command: a shell that replaces itself by this program leaves its background jobs to it. No process escapes by
//! ignoring signals or closing descriptors. Process ids are not reused in the meantime, because a child keeps its id
//! until this process has waited for it: for a command, this happens after its group was signalled; for a child from
//! before, never.
//!
//! On other systems, only the group is ended. On no system does this end processes that another service starts on
//! behalf of a command, nor those left over if this process itself is killed.

use std::io;
use std::process::{Child, Command, ExitStatus};

/// Makes a command the leader of a process group of its own, and lets this process adopt its orphans.
pub(crate) fn adopt(command: &mut Command) {
    #[cfg(unix)]
    std::os::unix::process::CommandExt::process_group(command, 0);
    #[cfg(target_os = "linux")]
    {
        linux::spare_earlier();
        // If this fails, only the group is ended, as on other systems.
        let _ = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
    }
    #[cfg(not(unix))]
    let _ = command;
}

/// Whether a command has ended. If its process id also identifies a group, the command stays unreaped until [`end`], so
/// that the id is not reused.
pub(crate) fn has_ended(child: &mut Child) -> io::Result<bool> {
    #[cfg(unix)]
    {
        use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        Ok(waitid(WaitId::Pid(Pid::from_child(child)), options)?.is_some())
    }
    #[cfg(not(unix))]
    {
        Ok(child.try_wait()?.is_some())
    }
}

/// Ends a command with everything that it started. Returns its exit status if it had ended by itself, and whether
/// processes remain that cannot be killed.
pub(crate) fn end(child: &mut Child) -> (Option<ExitStatus>, bool) {
    let has_ended = has_ended(child).unwrap_or(false);
    // A group without processes needs no signal.
    #[cfg(unix)]
    let _ = rustix::process::kill_process_group(
        rustix::process::Pid::from_child(child),
        rustix::process::Signal::KILL,
    );
    let status = if has_ended { child.wait().ok() } else { None };
    #[cfg(target_os = "linux")]
    {
        (status, linux::end_children())
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = child.kill();
        let _ = child.wait();
        (status, false)
    }
}

/// Ends all children of this process, if it adopts orphans. Returns whether processes remain that cannot be killed.
pub(crate) fn end_adopted() -> bool {
    #[cfg(target_os = "linux")]
    {
        matches!(rustix::process::child_subreaper(), Ok(Some(_))) && linux::end_children()
    }
    #[cfg(not(target_os = "linux"))]
    {
        false
    }
}

#[cfg(target_os = "linux")]
mod linux {
    use std::fs;
    use std::sync::OnceLock;
    use std::thread;
    use std::time::{Duration, Instant};

    use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, getpid, kill_process, waitid};

    /// Time allowed for processes to disappear after being killed. Only a process that is blocked in the kernel, or
    /// that runs as another user, takes longer.
    const PATIENCE: Duration = Duration::from_secs(5);

    /// Interval at which children that are being killed are polled.
    const POLL: Duration = Duration::from_millis(1);

    /// Children that this process had before its first command.
    static EARLIER: OnceLock<Vec<Pid>> = OnceLock::new();

    /// Records the children that this process has at the first call, so that they are never killed.
    pub(super) fn spare_earlier() {
        EARLIER.get_or_init(children);
    }

    /// Kills the children of this process, and those that it adopts as a result, until only the earlier ones are left.
    /// Returns whether others remain.
    pub(super) fn end_children() -> bool {
        let earlier = EARLIER.get().map_or(&[][..], Vec::as_slice);
        let began = Instant::now();
        loop {
            let mut started = children();
            started.retain(|child| !earlier.contains(child));
            if started.is_empty() {
                return false;
            }
            for child in started {
                let _ = kill_process(child, Signal::KILL);
                // A process that has not ended yet is listed again.
                let _ = waitid(WaitId::Pid(child), WaitIdOptions::EXITED | WaitIdOptions::NOHANG);
            }
            if began.elapsed() >= PATIENCE {
                return true;
            }
            thread::sleep(POLL);
        }
    }

    /// The children of this process, from the kernel's list or, if the kernel has none, from a scan of all processes.
    fn children() -> Vec<Pid> {
        listed().unwrap_or_else(found)
    }

    /// The children that the kernel lists for every thread; `None` if it keeps no such lists.
    pub(super) fn listed() -> Option<Vec<Pid>> {
        let mut children = Vec::new();
        for thread in fs::read_dir("/proc/self/task").ok()?.filter_map(Result::ok) {
            // A thread may have ended in the meantime.
            let Ok(list) = fs::read_to_string(thread.path().join("children")) else { continue };
            children.push(list);
        }
        let pids = |list: &String| list.split_whitespace().filter_map(pid).collect::<Vec<_>>();
        (!children.is_empty()).then(|| children.iter().flat_map(pids).collect())
    }

    /// Processes whose parent is this process.
    pub(super) fn found() -> Vec<Pid> {
        let is_child = |pid: &Pid| {
            let about = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            // The name before the last parenthesis may contain anything; the state and the parent follow.
            let parent = about.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().nth(1));
            parent.and_then(self::pid) == Some(getpid())
        };
        let processes = fs::read_dir("/proc").into_iter().flatten().filter_map(Result::ok);
        processes.filter_map(|process| pid(process.file_name().to_str()?)).filter(is_child).collect()
    }

    fn pid(text: &str) -> Option<Pid> {
        text.parse().ok().and_then(Pid::from_raw)
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::linux::{found, listed};

    #[test]
    fn both_ways_find_a_child() {
        let mut child = std::process::Command::new("sleep").arg("1000").spawn().expect("it starts");
        let process = rustix::process::Pid::from_raw(child.id().cast_signed()).expect("a number");
        assert!(found().contains(&process));
        assert!(listed().is_none_or(|children| children.contains(&process)));
        child.kill().expect("it runs");
        child.wait().expect("it is a child");
    }
}
