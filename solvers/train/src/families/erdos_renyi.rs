//! Erdős–Rényi random graphs: random pairs of operators are joined by edges from the lower to the higher index.
//!
//! Erdős and Rényi, "On random graphs I", Publicationes Mathematicae 1959; as task graphs in Cordeiro, Mounié,
//! Perarnau, Trystram, Vincent and Wagner, "Random graph generation for scheduling simulations", SIMUTools 2010.

use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use super::super::draw::log_uniform;
use super::super::shape::Shape;

/// A shape of `operators` operators and between one and five times as many edges.
pub(super) fn shape(rng: &mut ChaCha8Rng, operators: usize) -> Shape {
    let mut shape = Shape::default();
    for _ in 0..operators {
        shape.add_any(rng, &[]);
    }
    let edges = (operators as f64 * log_uniform(rng, 1.0, 5.0)).round() as usize;
    for _ in 0..edges {
        let [a, b] = [0; 2].map(|_| rng.random_range(0..operators));
        if a != b {
            shape.join(a.min(b), a.max(b));
        }
    }
    shape
}
