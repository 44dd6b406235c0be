//! The exact splitter against brute force and the textbook recurrence.

mod agreement;
mod iterate;
mod robust;
