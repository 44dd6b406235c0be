//! Modules of parallel branches in series.
//!
//! Szegedy, Vanhoucke, Ioffe, Shlens and Wojna, "Rethinking the Inception architecture for computer vision", CVPR 2016.

use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use super::super::shape::{Role, Shape};

/// Maximum number of layers of a branch.
const LONGEST: usize = 5;

/// A shape of about `operators` operators, but never more. There are few module designs, each repeated several times in
/// a row, as in real networks.
pub(super) fn shape(rng: &mut ChaCha8Rng, operators: usize) -> Shape {
    let has_norms = rng.random_bool(0.6);
    let layer = Role::layer(has_norms);
    let mut shape = Shape::default();
    let mut last = shape.add(Role::Input, &[]);
    let mut repeats = 0;
    let mut design: Vec<usize> = Vec::new();
    // A module has at least one layer and the concatenation.
    while shape.len() + layer.len() < operators {
        if repeats == 0 {
            repeats = rng.random_range(1..=4);
            design = (0..rng.random_range(2..=6)).map(|_| rng.random_range(1..=LONGEST)).collect();
        }
        repeats -= 1;
        let mut ends = Vec::with_capacity(design.len());
        for &layers in &design {
            let room = operators.saturating_sub(shape.len() + 1) / layer.len();
            if room > 0 {
                ends.push(shape.chain(&layer.repeat(layers.min(room)), &[last]));
            }
        }
        last = shape.add(Role::Combine, &ends);
    }
    shape
}
