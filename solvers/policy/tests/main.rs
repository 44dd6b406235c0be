//! The network, its gradients, and the solvers around it.

mod checkpoints;
mod equivariance;
mod gpu;
mod gradients;
mod rows;
mod solver;
mod subjects;
mod support;
