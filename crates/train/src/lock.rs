//! Files that one process at a time works on.

use std::fs::{File, TryLockError};
use std::io::{self, ErrorKind};

/// Takes a file for this process until it is closed, or the process ends, however it ends. Says whether no other process has
/// it. On a file system without locks nobody is kept out.
///
/// # Errors
/// As the system has them.
pub fn take(file: &File) -> io::Result<bool> {
    match file.try_lock() {
        Ok(()) => Ok(true),
        Err(TryLockError::WouldBlock) => Ok(false),
        Err(TryLockError::Error(error)) if error.kind() == ErrorKind::Unsupported => Ok(true),
        Err(TryLockError::Error(error)) => Err(error),
    }
}
