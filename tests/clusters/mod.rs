//! Built-in clusters: the files of `data/clusters`, the shorthand, and the command line.

mod command;
mod devices;
mod named;
mod shorthand;
