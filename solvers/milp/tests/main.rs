//! Integer programs and column generation against brute force.

mod branching;
mod calls;
mod colgen;
mod cutnet;
mod support;
