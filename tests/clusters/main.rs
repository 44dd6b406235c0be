//! The built-in clusters: what the files of `data/clusters` say, what a shorthand makes of it, and the
//! command line.

mod command;
mod devices;
mod named;
mod shorthand;
