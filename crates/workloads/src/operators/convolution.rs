//! Convolutions and pooling of images `[batch, channels, height, width]`.
//!
//! The workspace of a convolution is the im2col matrix of one image, with the window of each output
//! position as a row (Chellapilla, Puri and Simard, "High performance convolutional neural networks for
//! document processing", 2006). Windows of a single element need none.

use crate::error::WorkloadError;
use crate::{Piece, Read, Record, Tape, Tensor};

/// Bytes of the index that max pooling saves for each output.
const INDEX_WIDTH: f64 = 4.0;

/// Padding of a window beyond the border.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Padding {
    /// Rows and columns of zeros on each side.
    Each(u64, u64),
    /// Padding with the rows and columns of zeros that an output of ⌈input / stride⌉ needs.
    Same,
}

/// A window that slides over an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Window {
    pub(crate) kernel: (u64, u64),
    pub(crate) stride: (u64, u64),
    pub(crate) padding: Padding,
    pub(crate) dilation: u64,
}

impl Window {
    /// A window with stride one and without padding.
    pub(crate) const fn new(rows: u64, columns: u64) -> Window {
        Window { kernel: (rows, columns), stride: (1, 1), padding: Padding::Each(0, 0), dilation: 1 }
    }

    /// A square window.
    pub(crate) const fn square(side: u64) -> Window {
        Window::new(side, side)
    }

    pub(crate) const fn stride(mut self, stride: u64) -> Window {
        self.stride = (stride, stride);
        self
    }

    /// Pads each side by `by` rows and columns.
    pub(crate) const fn pad(mut self, by: u64) -> Window {
        self.padding = Padding::Each(by, by);
        self
    }

    pub(crate) const fn same(mut self) -> Window {
        self.padding = Padding::Same;
        self
    }

    pub(crate) const fn dilation(mut self, dilation: u64) -> Window {
        self.dilation = dilation;
        self
    }

    fn area(&self) -> f64 {
        (self.kernel.0 * self.kernel.1) as f64
    }

    /// Height and width of the output; `None` if the window does not fit.
    fn output(&self, height: u64, width: u64) -> Option<(u64, u64)> {
        let along = |size: u64, kernel: u64, stride: u64, padding: u64| {
            let reach = self.dilation * (kernel - 1) + 1;
            Some((size + 2 * padding).checked_sub(reach)? / stride + 1)
        };
        match self.padding {
            Padding::Same => Some((height.div_ceil(self.stride.0), width.div_ceil(self.stride.1))),
            Padding::Each(rows, columns) => Some((
                along(height, self.kernel.0, self.stride.0, rows)?,
                along(width, self.kernel.1, self.stride.1, columns)?,
            )),
        }
    }
}

/// A convolution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Conv {
    pub(crate) out: u64,
    pub(crate) window: Window,
    pub(crate) groups: u64,
    pub(crate) bias: bool,
}

impl Conv {
    /// A convolution with `out` output channels, without a bias.
    pub(crate) const fn new(out: u64, window: Window) -> Conv {
        Conv { out, window, groups: 1, bias: false }
    }

    pub(crate) const fn groups(mut self, groups: u64) -> Conv {
        self.groups = groups;
        self
    }

    pub(crate) const fn bias(mut self) -> Conv {
        self.bias = true;
        self
    }
}

impl Tape {
    fn slide(&mut self, name: &str, x: Tensor, window: &Window) -> (u64, u64) {
        window.output(x.dim(2), x.dim(3)).unwrap_or_else(|| {
            let operator = self.full_name(name);
            self.fail(WorkloadError::ImageTooSmall { operator });
            (1, 1)
        })
    }

    /// A convolution; FLOP are 2 · output elements · input channels per group · window area.
    pub(crate) fn conv(&mut self, name: &str, x: Tensor, conv: Conv) -> Tensor {
        let (height, width) = self.slide(name, x, &conv.window);
        let column = x.dim(1) as f64 / conv.groups as f64 * conv.window.area();
        let weights = conv.out as f64 * (column + if conv.bias { 1.0 } else { 0.0 });
        let shape = [x.dim(0), conv.out, height, width];
        let flop = 2.0 * (shape.map(|dim| dim as f64).iter().product::<f64>()) * column;
        let lowered = column * conv.groups as f64 * (height * width) as f64 * self.width;
        let workspace = if conv.window.kernel == (1, 1) { 0.0 } else { lowered };
        let record = Record::new(if conv.groups > 1 { "grouped_conv2d" } else { "conv2d" }, [x])
            .parameters(weights)
            .flop(flop)
            .workspace(workspace)
            .piece(Piece::of_inputs("grad_input", &[0], flop, &[Read::Weights]).workspace(workspace))
            .piece(Piece::of_weights(weights, flop, &[Read::Input(0)]).workspace(workspace));
        self.record(name, record, shape)
    }

    /// Max pooling.
    pub(crate) fn max_pool(&mut self, name: &str, x: Tensor, window: Window) -> Tensor {
        let (height, width) = self.slide(name, x, &window);
        let shape = [x.dim(0), x.dim(1), height, width];
        let out: f64 = shape.map(|dim| dim as f64).iter().product();
        let record = Record::new("max_pool", [x])
            .flop(out * window.area())
            .saves(out * INDEX_WIDTH)
            .piece(Piece::whole(out, &[Read::Saved]));
        self.record(name, record, shape)
    }

    /// Average pooling.
    pub(crate) fn average_pool(&mut self, name: &str, x: Tensor, window: Window) -> Tensor {
        let (height, width) = self.slide(name, x, &window);
        let shape = [x.dim(0), x.dim(1), height, width];
        let out: f64 = shape.map(|dim| dim as f64).iter().product();
        let record = Record::new("average_pool", [x])
            .flop(out * window.area())
            .piece(Piece::whole(out * window.area(), &[]));
        self.record(name, record, shape)
    }

    /// Global average pooling to `[batch, channels]`.
    pub(crate) fn global_pool(&mut self, name: &str, x: Tensor) -> Tensor {
        let record =
            Record::new("average_pool", [x]).flop(x.elements()).piece(Piece::whole(x.elements(), &[]));
        self.record(name, record, [x.dim(0), x.dim(1)])
    }

    /// Nearest-neighbour upsampling: repeats every pixel in both directions.
    pub(crate) fn upsample(&mut self, name: &str, x: Tensor, times: u64) -> Tensor {
        let shape = [x.dim(0), x.dim(1), x.dim(2) * times, x.dim(3) * times];
        let record = Record::new("upsample", [x])
            .piece(Piece::whole(x.elements() * ((times * times) as f64 - 1.0), &[]));
        self.record(name, record, shape)
    }
}
