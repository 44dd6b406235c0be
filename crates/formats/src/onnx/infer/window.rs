//! Convolutions and pooling: a window that moves over the spatial axes.

use super::{Call, DataType, Inferred, Value, contradiction};

/// Spatial attributes of a node, one entry per spatial axis.
struct Window {
    kernel: Vec<i64>,
    strides: Vec<i64>,
    dilations: Vec<i64>,
    /// Padding before and after.
    pads: Vec<(i64, i64)>,
}

/// Largest plausible attribute; up to it nothing here overflows.
const LARGEST: i64 = 1 << 40;

impl Window {
    fn from_call(call: &Call<'_>, kernel: Vec<i64>) -> Inferred<Window> {
        let axes = kernel.len();
        let list = |name: &str, default: i64, length: usize| {
            let list = call.ints(name).map_or_else(|| vec![default; length], <[i64]>::to_vec);
            match list.len() == length && list.iter().all(|&entry| (default..=LARGEST).contains(&entry)) {
                true => Ok(list),
                false => contradiction(format!("`{name}` is {list:?} for {axes} spatial axes")),
            }
        };
        let strides = list("strides", 1, axes)?;
        let dilations = list("dilations", 1, axes)?;
        let pads = list("pads", 0, 2 * axes)?;
        let pads = (0..axes).map(|axis| (pads[axis], pads[axes + axis])).collect();
        if kernel.iter().any(|&size| !(1..=LARGEST).contains(&size)) {
            return contradiction(format!("the window {kernel:?} is out of range"));
        }
        Ok(Window { kernel, strides, dilations, pads })
    }

    /// Extent of the dilated window along an axis.
    fn extent(&self, axis: usize) -> i128 {
        i128::from(self.dilations[axis]) * i128::from(self.kernel[axis] - 1) + 1
    }

    /// Output size along an axis: the number of positions of the window.
    fn positions(&self, call: &Call<'_>, axis: usize, input: u64) -> Inferred<u64> {
        let (input, stride) = (i128::from(input), i128::from(self.strides[axis]));
        let (before, after) = self.pads[axis];
        let ceil = call.flag("ceil_mode", false);
        let positions = match call.text("auto_pad").unwrap_or("NOTSET") {
            "SAME_UPPER" | "SAME_LOWER" => (input + stride - 1) / stride,
            padding => {
                let pads = if padding == "VALID" { 0 } else { i128::from(before) + i128::from(after) };
                let room = input + pads - self.extent(axis);
                if room < 0 {
                    return contradiction(format!(
                        "the window covers {} of an axis of {input}, padded by {pads}",
                        self.extent(axis)
                    ));
                }
                match ceil {
                    false => room / stride + 1,
                    true => {
                        let positions = (room + stride - 1) / stride + 1;
                        // The last window must start inside the input or the padding before it.
                        let beyond = (positions - 1) * stride >= input + i128::from(before);
                        positions - i128::from(beyond)
                    }
                }
            }
        };
        call.dim(positions)
    }
}

/// Whether data are channels-last, as ONNX Runtime's optimiser rearranges them. Weights are not.
fn has_channels_last(call: &Call<'_>) -> bool {
    call.kind().starts_with("Nhwc") || call.flag("channels_last", false)
}

/// Splits a shape into batch, channels and at least one spatial axis.
fn spatial(value: &Value, has_channels_last: bool) -> Inferred<(u64, u64, &[u64])> {
    match value.dims.as_slice() {
        [batch, spatial @ .., channels] if !spatial.is_empty() && has_channels_last => {
            Ok((*batch, *channels, spatial))
        }
        [batch, channels, spatial @ ..] if !spatial.is_empty() && !has_channels_last => {
            Ok((*batch, *channels, spatial))
        }
        dims => contradiction(format!("an input of shape {dims:?} has no spatial axes")),
    }
}

/// A shape of batch, channels and spatial axes, in the layout of the data.
fn together(call: &Call<'_>, batch: u64, channels: u64, axes: &[u64]) -> Vec<u64> {
    match has_channels_last(call) {
        true => [&[batch], axes, &[channels]].concat(),
        false => [&[batch, channels], axes].concat(),
    }
}

pub(super) fn convolution(call: &Call<'_>) -> Inferred {
    let input = call.input(0)?;
    // Quantised convolutions have scale and zero point in between.
    let weights = call.input(if call.kind() == "QLinearConv" { 3 } else { 1 })?;
    let (batch, channels, axes) = spatial(input, has_channels_last(call))?;
    let (first, second, sizes) = spatial(weights, false)?;
    let kernel = match call.ints("kernel_shape") {
        Some(kernel) => kernel.to_vec(),
        None => sizes.iter().map(|&size| size as i64).collect(),
    };
    let is_window = kernel.iter().zip(sizes).all(|(&kernel, &size)| u64::try_from(kernel) == Ok(size));
    if kernel.len() != axes.len() || sizes.len() != axes.len() || !is_window {
        return contradiction(format!(
            "weights of shape {:?} and a window of {kernel:?} for an input of {:?}",
            weights.dims, input.dims
        ));
    }
    let window = Window::from_call(call, kernel)?;
    let groups = match call.int("group").map_or(Ok(1), u64::try_from) {
        Ok(groups) if groups >= 1 && channels % groups == 0 => groups,
        _ => return contradiction(format!("{channels} channels in {:?} groups", call.int("group"))),
    };
    let transposed = call.kind() == "ConvTranspose";
    let expected = if transposed { first } else { second.saturating_mul(groups) };
    if expected != channels {
        return contradiction(format!("weights for {expected} channels, but an input with {channels}"));
    }
    let made = if transposed { second.saturating_mul(groups) } else { first };
    let mut sizes = Vec::with_capacity(axes.len());
    for (axis, &size) in axes.iter().enumerate() {
        sizes.push(match transposed {
            true => transposed_size(call, &window, axis, size)?,
            false => window.positions(call, axis, size)?,
        });
    }
    let dims = together(call, batch, made, &sizes);
    let elem = match call.kind() {
        "ConvInteger" => DataType::Int32 as i32,
        "QLinearConv" => call.input(7)?.elem,
        _ => input.elem,
    };
    Ok(vec![Value::new(elem, dims)])
}

fn transposed_size(call: &Call<'_>, window: &Window, axis: usize, input: u64) -> Inferred<u64> {
    if let Some(shape) = call.ints("output_shape") {
        // Some exporters write the batch and the channels before the spatial axes.
        return match shape.len().checked_sub(window.kernel.len()) {
            Some(before @ (0 | 2)) => call.dim(i128::from(shape[before + axis])),
            _ => contradiction(format!("`output_shape` is {shape:?}")),
        };
    }
    let (input, stride) = (i128::from(input), i128::from(window.strides[axis]));
    if matches!(call.text("auto_pad"), Some("SAME_UPPER" | "SAME_LOWER")) {
        return call.dim(input * stride);
    }
    let more =
        call.ints("output_padding").and_then(|padding| padding.get(axis)).map_or(0, |&more| i128::from(more));
    let (before, after) = window.pads[axis];
    call.dim(stride * (input - 1) + more + window.extent(axis) - i128::from(before) - i128::from(after))
}

pub(super) fn pool(call: &Call<'_>) -> Inferred {
    let input = call.input(0)?;
    let (batch, channels, axes) = spatial(input, has_channels_last(call))?;
    let kernel = call.ints("kernel_shape").unwrap_or_default().to_vec();
    if kernel.len() != axes.len() {
        return contradiction(format!("a window of {kernel:?} for {} spatial axes", axes.len()));
    }
    let window = Window::from_call(call, kernel)?;
    let mut sizes = Vec::with_capacity(axes.len());
    for (axis, &size) in axes.iter().enumerate() {
        sizes.push(window.positions(call, axis, size)?);
    }
    let dims = together(call, batch, channels, &sizes);
    let indices = Value::new(DataType::Int64 as i32, dims.clone());
    Ok(vec![Value::new(input.elem, dims), indices])
}

pub(super) fn global_pool(call: &Call<'_>) -> Inferred {
    let input = call.input(0)?;
    let (batch, channels, axes) = spatial(input, has_channels_last(call))?;
    let dims = together(call, batch, channels, &vec![1; axes.len()]);
    Ok(vec![Value::new(input.elem, dims)])
}
