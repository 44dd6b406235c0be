//! Normalisations. Statistics are computed and applied: a mean (1 FLOP per element), a variance (3), the
//! shift and the scale (2), and the affine map (2). The backward pass computes two sums over the gradients
//! and takes twice the FLOP. Running statistics are not parameters and are left out.

use crate::{Piece, Read, Record, Tape, Tensor};

/// Bytes of a statistic, stored in single precision.
const STATISTIC_WIDTH: f64 = 4.0;

/// FLOP per element with mean and variance.
const CENTRED: f64 = 8.0;

/// FLOP per element with only a mean square.
const UNCENTRED: f64 = 4.0;

impl Tape {
    /// Normalises over batch and space, with a scale and a shift per channel (Ioffe and Szegedy 2015).
    pub(crate) fn batch_norm(&mut self, name: &str, x: Tensor) -> Tensor {
        let channels = x.dim(1) as f64;
        self.norm("batch_norm", name, x, 2.0 * channels, 2.0 * channels, CENTRED)
    }

    /// Normalises over the last dimension, with a scale and a shift per element of it (Ba, Kiros and Hinton
    /// 2016).
    pub(crate) fn layer_norm(&mut self, name: &str, x: Tensor) -> Tensor {
        let width = x.last() as f64;
        self.norm("layer_norm", name, x, 2.0 * width, 2.0 * x.elements() / width, CENTRED)
    }

    /// Divides by the root mean square of the last dimension, with a scale (Zhang and Sennrich 2019).
    pub(crate) fn rms_norm(&mut self, name: &str, x: Tensor) -> Tensor {
        let width = x.last() as f64;
        self.norm("rms_norm", name, x, width, x.elements() / width, UNCENTRED)
    }

    /// Normalises over groups of channels, with a scale and a shift per channel (Wu and He 2018).
    pub(crate) fn group_norm(&mut self, name: &str, x: Tensor, groups: u64) -> Tensor {
        let statistics = 2.0 * (x.dim(0) * groups) as f64;
        self.norm("group_norm", name, x, 2.0 * x.dim(1) as f64, statistics, CENTRED)
    }

    fn norm(
        &mut self,
        kind: &'static str,
        name: &str,
        x: Tensor,
        parameters: f64,
        statistics: f64,
        flop: f64,
    ) -> Tensor {
        let record = record(kind, x, parameters, statistics, flop * x.elements());
        self.record(name, record, x.shape)
    }
}

/// A normalisation of each of `rows` parts of a tensor: centred, with mean and variance, or by the mean square alone.
pub(crate) fn normalise(x: Tensor, rows: f64, parameters: f64, is_centred: bool) -> Record {
    let (kind, statistics, flop) = match is_centred {
        true => ("layer_norm", 2.0, CENTRED),
        false => ("rms_norm", 1.0, UNCENTRED),
    };
    record(kind, x, parameters, statistics * rows, flop * x.elements())
}

fn record(kind: &'static str, x: Tensor, parameters: f64, statistics: f64, flop: f64) -> Record {
    let reads = [Read::Input(0), Read::Saved, Read::Weights];
    Record::new(kind, [x])
        .parameters(parameters)
        .flop(flop)
        .saves(statistics * STATISTIC_WIDTH)
        .piece(Piece::whole(2.0 * flop, &reads).and_weights(parameters))
}
