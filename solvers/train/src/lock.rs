//! Files that only one process at a time works on.

use std::fs::{File, TryLockError};
use std::io::{self, ErrorKind};
use std::ops::{Deref, DerefMut};

/// A file that this process has locked, until the value is dropped or the process ends in any way.
#[derive(Debug)]
pub struct Locked(File);

impl Deref for Locked {
    type Target = File;

    fn deref(&self) -> &File {
        &self.0
    }
}

impl DerefMut for Locked {
    fn deref_mut(&mut self) -> &mut File {
        &mut self.0
    }
}

impl Drop for Locked {
    fn drop(&mut self) {
        // Closing is not enough: a child process that is starting has the file open as well until it runs its program.
        let _ = self.0.unlock();
    }
}

/// Locks a file; `None` if another process has it. On a file system without locks, no process is locked out.
///
/// # Errors
/// If the system cannot lock the file for another reason.
pub fn take(file: File) -> io::Result<Option<Locked>> {
    match file.try_lock() {
        Ok(()) => Ok(Some(Locked(file))),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) if error.kind() == ErrorKind::Unsupported => Ok(Some(Locked(file))),
        Err(TryLockError::Error(error)) => Err(error),
    }
}
