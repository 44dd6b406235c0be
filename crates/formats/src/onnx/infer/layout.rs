//! Operators that move elements: shapes, and contents where shapes are computed.

use super::super::work::elements;
use super::fold::{spread, together};
use super::reshape::{moved, sizes};
use super::{Call, DataType, Inferred, LARGEST_RANK, MAX_CONTENT, Value, contradiction};

const INT64: i32 = DataType::Int64 as i32;

pub(super) fn transpose(call: &Call<'_>) -> Inferred {
    let data = call.input(0)?;
    let order = match call.ints("perm") {
        Some(order) => call.axes(order, data.rank())?,
        None => (0..data.rank()).rev().collect(),
    };
    let mut sorted = order.clone();
    sorted.sort_unstable();
    if !sorted.into_iter().eq(0..data.rank()) {
        return contradiction(format!("{order:?} is not a permutation of the axes of {:?}", data.dims));
    }
    let dims: Vec<u64> = order.iter().map(|&axis| data.dims[axis]).collect();
    let is_list = data.dims.iter().filter(|&&dim| dim != 1).count() <= 1;
    Ok(vec![if is_list { moved(data, dims) } else { Value::new(data.elem, dims) }])
}

pub(super) fn concat(call: &Call<'_>) -> Inferred {
    let parts: Vec<&Value> = call.inputs.iter().flatten().copied().collect();
    let first = call.input(0)?;
    let axis = call.axis(call.int("axis").unwrap_or(1), first.rank())?;
    let mut dims = first.dims.clone();
    dims[axis] = 0;
    for part in &parts {
        let fits = part.rank() == dims.len()
            && (0..dims.len()).all(|dim| dim == axis || part.dims[dim] == dims[dim]);
        if !fits {
            return contradiction(format!(
                "{:?} cannot be appended to {:?} at axis {axis}",
                part.dims, first.dims
            ));
        }
        dims[axis] = call.dim(i128::from(dims[axis]) + i128::from(part.dims[axis]))?;
    }
    let content = (dims.len() == 1).then(|| {
        let contents: Option<Vec<&[f64]>> = parts.iter().map(|part| part.content.as_deref()).collect();
        contents.map(|contents| contents.concat())
    });
    Ok(vec![Value::new(first.elem, dims).with(content.flatten())])
}

pub(super) fn split(call: &Call<'_>) -> Inferred {
    let data = call.input(0)?;
    let axis = call.axis(call.int("axis").unwrap_or(0), data.rank())?;
    let whole = data.dims[axis];
    let count = call.node.output.len().max(1) as u64;
    let sizes: Vec<u64> = match call.list(1, "split")? {
        Some(sizes) => sizes.iter().map(|&size| call.dim(i128::from(size))).collect::<Inferred<_>>()?,
        None => {
            let each = whole.div_ceil(count);
            (0..count).map(|part| each.min(whole.saturating_sub(part * each))).collect()
        }
    };
    if sizes.iter().map(|&size| size as f64).sum::<f64>() != whole as f64 {
        return contradiction(format!("parts of {sizes:?} for an axis of {whole}"));
    }
    let mut from = 0;
    let mut parts = Vec::with_capacity(sizes.len());
    for size in sizes {
        let mut dims = data.dims.clone();
        dims[axis] = size;
        let content = match (&data.content, data.rank()) {
            (Some(content), 1) => content.get(from..from + size as usize).map(<[f64]>::to_vec),
            _ => None,
        };
        from += size as usize;
        parts.push(Value::new(data.elem, dims).with(content));
    }
    Ok(parts)
}

pub(super) fn slice(call: &Call<'_>) -> Inferred {
    let data = call.input(0)?;
    let (Some(starts), Some(ends)) = (call.list(1, "starts")?, call.list(2, "ends")?) else {
        return contradiction("starts and ends are missing");
    };
    let axes = match call.list(3, "axes")? {
        Some(axes) => call.axes(&axes, data.rank())?,
        None => (0..starts.len()).collect(),
    };
    let steps = call.list(4, "steps")?.unwrap_or_else(|| vec![1; starts.len()]);
    let fits = [ends.len(), axes.len(), steps.len()].iter().all(|&length| length == starts.len());
    if !fits || axes.iter().any(|&axis| axis >= data.rank()) {
        return contradiction(format!("{} starts, {} ends, axes {axes:?}", starts.len(), ends.len()));
    }
    let mut dims = data.dims.clone();
    let mut content = data.content.clone().filter(|_| data.rank() == 1);
    for (index, &axis) in axes.iter().enumerate() {
        let (size, step) = (dims[axis] as i64, steps[index]);
        let clamp = |bound: i64, low: i64, high: i64| {
            (if bound < 0 { bound.saturating_add(size) } else { bound }).clamp(low, high)
        };
        let (start, span) = match step {
            0 => return contradiction("a slice has a step of 0"),
            1.. => {
                let start = clamp(starts[index], 0, size);
                (start, clamp(ends[index], 0, size) - start)
            }
            _ => {
                // A start before the first element is clamped to it, unless the axis is empty.
                let start = clamp(starts[index], 0.min(size - 1), size - 1);
                (start, start - clamp(ends[index], -1, size - 1))
            }
        };
        let count = (i128::from(span).max(0) + i128::from(step).abs() - 1) / i128::from(step).abs();
        dims[axis] = call.dim(count)?;
        content = content.and_then(|content| {
            let element =
                |i: i128| content.get(usize::try_from(i128::from(start) + i * i128::from(step)).ok()?);
            (0..count).map(|i| element(i).copied()).collect()
        });
    }
    Ok(vec![Value::new(data.elem, dims).with(content)])
}

pub(super) fn gather(call: &Call<'_>) -> Inferred {
    let (data, indices) = (call.input(0)?, call.input(1)?);
    let axis = call.axis(call.int("axis").unwrap_or(0), data.rank())?;
    let dims = [&data.dims[..axis], &indices.dims, &data.dims[axis + 1..]].concat();
    if dims.len() > LARGEST_RANK {
        return contradiction(format!("a shape of too many dimensions, {}", dims.len()));
    }
    let content = match (&data.content, &indices.content, data.rank()) {
        (Some(content), Some(indices), 1) => indices
            .iter()
            .map(|&index| {
                let index = if index < 0.0 { index + content.len() as f64 } else { index };
                (index >= 0.0).then(|| content.get(index as usize).copied()).flatten()
            })
            .collect(),
        _ => None,
    };
    Ok(vec![Value::new(data.elem, dims).with(content)])
}

pub(super) fn gather_nd(call: &Call<'_>) -> Inferred {
    let (data, indices) = (call.input(0)?, call.input(1)?);
    let batch = call.int("batch_dims").unwrap_or(0);
    let Some((&depth, kept)) = indices.dims.split_last() else {
        return contradiction("the indices are a scalar");
    };
    match usize::try_from(batch).ok().and_then(|batch| data.dims.get(batch.checked_add(depth as usize)?..)) {
        Some(rest) if kept.len() + rest.len() <= LARGEST_RANK => {
            Ok(vec![Value::new(data.elem, [kept, rest].concat())])
        }
        _ => contradiction(format!(
            "indices of shape {:?} for an input of shape {:?}",
            indices.dims, data.dims
        )),
    }
}

pub(super) fn expand(call: &Call<'_>) -> Inferred {
    let data = call.input(0)?;
    let shape = sizes(call, call.content(1)?)?;
    let Some(dims) = together(&data.dims, &shape) else {
        return contradiction(format!("{:?} and {shape:?} do not broadcast", data.dims));
    };
    let few = elements(&dims) <= MAX_CONTENT as f64;
    let content =
        data.content.as_ref().filter(|_| few).and_then(|content| spread(content, &data.dims, &dims));
    Ok(vec![Value::new(data.elem, dims).with(content)])
}

pub(super) fn tile(call: &Call<'_>) -> Inferred {
    let data = call.input(0)?;
    let repeats = call.content(1)?;
    if repeats.len() != data.rank() {
        return contradiction(format!("{} repeats for an input of shape {:?}", repeats.len(), data.dims));
    }
    let each = data.dims.iter().zip(repeats);
    let dims =
        each.map(|(&dim, &repeat)| call.dim((dim as f64 * repeat) as i128)).collect::<Inferred<_>>()?;
    Ok(vec![Value::new(data.elem, dims)])
}

pub(super) fn pad(call: &Call<'_>) -> Inferred {
    let data = call.input(0)?;
    let Some(pads) = call.list(1, "pads")?.or_else(|| call.ints("paddings").map(<[i64]>::to_vec)) else {
        return contradiction("pads are missing");
    };
    let axes = match call.optional(3) {
        Some(_) => call.axes(&call.list(3, "axes")?.unwrap_or_default(), data.rank())?,
        None => (0..data.rank()).collect(),
    };
    if pads.len() != 2 * axes.len() {
        return contradiction(format!("{} pads for {} axes", pads.len(), axes.len()));
    }
    let mut dims = data.dims.clone();
    for (index, &axis) in axes.iter().enumerate() {
        let (before, after) = (i128::from(pads[index]), i128::from(pads[axes.len() + index]));
        dims[axis] = call.dim(i128::from(dims[axis]) + before + after)?;
    }
    Ok(vec![Value::new(data.elem, dims)])
}

pub(super) fn resize(call: &Call<'_>) -> Inferred {
    let data = call.input(0)?;
    // Inputs are X, scales before operator set 11, and X, roi, scales, sizes since.
    let (scales, sizes) = if call.kind() == "Upsample" || call.opset < 11 { (1, None) } else { (2, Some(3)) };
    let axes = match call.ints("axes") {
        Some(axes) => call.axes(axes, data.rank())?,
        None => (0..data.rank()).collect(),
    };
    let each_axis = |numbers: Vec<f64>| match numbers.len() == axes.len() {
        true => Ok(numbers),
        false => contradiction(format!("{} sizes or scales for {} axes", numbers.len(), axes.len())),
    };
    let given = |index: usize| call.optional(index).is_some_and(|value| elements(&value.dims) > 0.0);
    let mut dims = data.dims.clone();
    if let Some(index) = sizes.filter(|&index| given(index)) {
        let sizes = each_axis(call.content(index)?.to_vec())?;
        // One scale for all axes: the smallest or the largest that the sizes imply.
        let scales = axes.iter().zip(&sizes).map(|(&axis, &size)| size / data.dims[axis] as f64);
        let scale = match call.text("keep_aspect_ratio_policy") {
            Some("not_larger") => Some(scales.fold(f64::INFINITY, f64::min)),
            Some("not_smaller") => Some(scales.fold(0.0, f64::max)),
            _ => None,
        };
        for (&axis, &size) in axes.iter().zip(&sizes) {
            let size = scale.map_or(size, |scale| (data.dims[axis] as f64 * scale).round());
            dims[axis] = call.dim(size as i128)?;
        }
        return Ok(vec![Value::new(data.elem, dims)]);
    }
    let scales: Vec<f64> = match (given(scales), call.floats("scales")) {
        (true, _) => call.content(scales)?.to_vec(),
        (false, Some(scales)) => scales.iter().map(|&scale| f64::from(scale)).collect(),
        (false, None) => return contradiction("scales or sizes are missing"),
    };
    for (&axis, scale) in axes.iter().zip(each_axis(scales)?) {
        dims[axis] = call.dim((dims[axis] as f64 * scale).floor() as i128)?;
    }
    Ok(vec![Value::new(data.elem, dims)])
}

pub(super) fn depth_to_space(call: &Call<'_>) -> Inferred {
    let data = call.input(0)?;
    let (&[batch, channels, height, width], Some(block @ 1..=65536)) =
        (data.dims.as_slice(), call.int("blocksize"))
    else {
        return contradiction(format!(
            "an input of shape {:?} and blocks of {:?}",
            data.dims,
            call.int("blocksize")
        ));
    };
    let (block, whole) = (block as u64, |all: u64, part: u64| match all % part {
        0 => Ok(all / part),
        _ => contradiction(format!("{all} is not a multiple of {part}")),
    });
    let larger = |dim: u64| call.dim(i128::from(dim) * i128::from(block));
    let dims = if call.kind() == "DepthToSpace" {
        vec![batch, whole(channels, block * block)?, larger(height)?, larger(width)?]
    } else {
        let channels = call.dim(i128::from(channels) * i128::from(block * block))?;
        vec![batch, channels, whole(height, block)?, whole(width, block)?]
    };
    Ok(vec![Value::new(data.elem, dims)])
}

pub(super) fn one_hot(call: &Call<'_>) -> Inferred {
    let indices = call.input(0)?;
    let depth = match call.content(1)? {
        [depth] => call.dim(*depth as i128)?,
        _ => return contradiction("the depth is not a scalar"),
    };
    let mut dims = indices.dims.clone();
    dims.insert(call.axis(call.int("axis").unwrap_or(-1), indices.rank() + 1)?, depth);
    Ok(vec![Value::new(call.input(2)?.elem, dims)])
}

pub(super) fn top_k(call: &Call<'_>) -> Inferred {
    let data = call.input(0)?;
    let axis = call.axis(call.int("axis").unwrap_or(-1), data.rank())?;
    let count = match (call.optional(1), call.int("k")) {
        (Some(_), _) => call.content(1)?.first().map(|&count| count as i128),
        (None, count) => count.map(i128::from),
    };
    let Some(count) = count else { return contradiction("k is missing") };
    let mut dims = data.dims.clone();
    dims[axis] = call.dim(count)?;
    Ok(vec![Value::new(data.elem, dims.clone()), Value::new(INT64, dims)])
}

pub(super) fn arg_max(call: &Call<'_>) -> Inferred {
    let data = call.input(0)?;
    let axis = call.axis(call.int("axis").unwrap_or(0), data.rank())?;
    let dims = without(&data.dims, &[axis], call.flag("keepdims", true));
    Ok(vec![Value::new(INT64, dims)])
}

pub(super) fn reduce(call: &Call<'_>) -> Inferred {
    let data = call.input(0)?;
    let listed = match call.kind() {
        // Scale and zero point follow the data in this operator.
        "QLinearReduceMean" => call.ints("axes").map(<[i64]>::to_vec),
        _ => call.list(1, "axes")?,
    };
    let axes = match listed.filter(|axes| !axes.is_empty()) {
        Some(axes) => call.axes(&axes, data.rank())?,
        None if call.flag("noop_with_empty_axes", false) => return Ok(vec![data.clone()]),
        None => (0..data.rank()).collect(),
    };
    let dims = without(&data.dims, &axes, call.flag("keepdims", true));
    let content = match (&data.content, data.rank(), call.kind()) {
        (Some(content), 1, "ReduceProd") => Some(vec![content.iter().product()]),
        (Some(content), 1, "ReduceSum") => Some(vec![content.iter().sum()]),
        (Some(content), 1, "ReduceMax") => {
            Some(vec![content.iter().copied().fold(f64::NEG_INFINITY, f64::max)])
        }
        (Some(content), 1, "ReduceMin") => Some(vec![content.iter().copied().fold(f64::INFINITY, f64::min)]),
        _ => None,
    };
    Ok(vec![Value::new(data.elem, dims).with(content)])
}

/// A shape with some axes reduced to 1, or removed.
fn without(dims: &[u64], axes: &[usize], keep: bool) -> Vec<u64> {
    let kept = dims.iter().enumerate().filter(|(axis, _)| keep || !axes.contains(axis));
    kept.map(|(axis, &dim)| if axes.contains(&axis) { 1 } else { dim }).collect()
}
