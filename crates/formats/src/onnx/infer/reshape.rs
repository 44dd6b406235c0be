//! Operators that make shapes and constants, or reshape their input.

use super::super::work::elements;
use super::{Call, DataType, Inferred, LARGEST_RANK, MAX_CONTENT, Value, contradiction, of_tensor, unknown};

const INT64: i32 = DataType::Int64 as i32;

pub(super) fn shape(call: &Call<'_>) -> Inferred {
    let dims = &call.input(0)?.dims;
    let rank = dims.len() as i64;
    let clamp = |axis: i64| (if axis < 0 { axis.saturating_add(rank) } else { axis }).clamp(0, rank) as usize;
    let start = clamp(call.int("start").unwrap_or(0));
    let end = clamp(call.int("end").unwrap_or(rank)).max(start);
    Ok(vec![Value::integers(dims[start..end].iter().map(|&dim| dim as f64).collect())])
}

pub(super) fn constant(call: &Call<'_>) -> Inferred {
    let scalar = |elem: DataType, number: f64| Value::new(elem as i32, Vec::new()).with(Some(vec![number]));
    if let Some(tensor) = call.tensor("value") {
        return match of_tensor(tensor) {
            Some(value) => Ok(vec![value]),
            None => contradiction("the constant has an invalid shape"),
        };
    }
    if let Some(ints) = call.ints("value_ints") {
        let value = Value::new(INT64, vec![ints.len() as u64]);
        return Ok(vec![value.with(Some(ints.iter().map(|&number| number as f64).collect()))]);
    }
    if let Some(floats) = call.floats("value_floats") {
        let value = Value::new(DataType::Float as i32, vec![floats.len() as u64]);
        return Ok(vec![value.with(Some(floats.iter().map(|&number| f64::from(number)).collect()))]);
    }
    if let Some(int) = call.int("value_int") {
        return Ok(vec![scalar(DataType::Int64, int as f64)]);
    }
    match call.float("value_float") {
        Some(float) => Ok(vec![scalar(DataType::Float, f64::from(float))]),
        None => unknown("the constant is sparse or text"),
    }
}

pub(super) fn constant_of_shape(call: &Call<'_>) -> Inferred {
    let shape = call.content(0)?;
    let dims = sizes(call, shape)?;
    let (elem, number) = match call.tensor("value") {
        Some(tensor) => {
            (tensor.data_type(), of_tensor(tensor).and_then(|value| value.content?.first().copied()))
        }
        None => (DataType::Float as i32, Some(0.0)),
    };
    let count = elements(&dims);
    let content = number.filter(|_| count <= MAX_CONTENT as f64).map(|number| vec![number; count as usize]);
    Ok(vec![Value::new(elem, dims).with(content)])
}

pub(super) fn range(call: &Call<'_>) -> Inferred {
    let number = |index: usize| match call.content(index)? {
        [number] => Ok(*number),
        _ => contradiction(format!("input {index} is not a scalar")),
    };
    let (start, limit, delta) = (number(0)?, number(1)?, number(2)?);
    let count = ((limit - start) / delta).ceil().max(0.0);
    if !count.is_finite() {
        return contradiction(format!("a range from {start} to {limit} by {delta}"));
    }
    let content = (count <= MAX_CONTENT as f64)
        .then(|| (0..count as usize).map(|i| start + i as f64 * delta).collect());
    Ok(vec![Value::new(call.input(0)?.elem, vec![call.dim(count as i128)?]).with(content)])
}

/// Converts numbers to dimensions, none of which may be open.
pub(super) fn sizes(call: &Call<'_>, shape: &[f64]) -> Inferred<Vec<u64>> {
    if shape.len() > LARGEST_RANK {
        return contradiction(format!("a shape of too many dimensions, {}", shape.len()));
    }
    shape.iter().map(|&size| call.dim(size as i128)).collect()
}

pub(super) fn reshape(call: &Call<'_>) -> Inferred {
    let data = call.input(0)?;
    let Some(shape) = call.list(1, "shape")? else { return contradiction("the shape is missing") };
    if shape.len() > LARGEST_RANK {
        return contradiction(format!("a shape of too many dimensions, {}", shape.len()));
    }
    let keep_zero = call.flag("allowzero", false);
    let mut dims = Vec::with_capacity(shape.len());
    let mut open = None;
    for (axis, &size) in shape.iter().enumerate() {
        dims.push(match size {
            0 if !keep_zero => match data.dims.get(axis) {
                Some(&dim) => dim,
                None => {
                    return contradiction(format!("axis {axis} copies an axis that the input does not have"));
                }
            },
            -1 if open.is_none() => {
                open = Some(axis);
                1
            }
            size => call.dim(i128::from(size))?,
        });
    }
    let (had, has) = (elements(&data.dims), elements(&dims));
    if let Some(axis) = open {
        let rest = if has == 0.0 { 0.0 } else { had / has };
        if rest.fract() != 0.0 {
            return contradiction(format!("{:?} cannot be reshaped to {shape:?}", data.dims));
        }
        dims[axis] = call.dim(rest as i128)?;
    } else if had != has {
        return contradiction(format!("{:?} cannot be reshaped to {shape:?}", data.dims));
    }
    Ok(vec![moved(data, dims)])
}

/// A value under another shape, with the same elements in the same order.
pub(super) fn moved(data: &Value, dims: Vec<u64>) -> Value {
    Value::new(data.elem, dims).with(data.content.clone())
}

pub(super) fn flatten(call: &Call<'_>) -> Inferred {
    let data = call.input(0)?;
    let axis = match call.int("axis").unwrap_or(1) {
        // One past the last axis is allowed here.
        axis if axis == data.rank() as i64 => data.rank(),
        axis => call.axis(axis, data.rank())?,
    };
    let (rows, columns) = data.dims.split_at(axis);
    let dims = vec![call.dim(elements(rows) as i128)?, call.dim(elements(columns) as i128)?];
    Ok(vec![moved(data, dims)])
}

pub(super) fn squeeze(call: &Call<'_>) -> Inferred {
    let data = call.input(0)?;
    let axes = call.list(1, "axes")?.map(|axes| call.axes(&axes, data.rank())).transpose()?;
    let mut dims = Vec::new();
    for (axis, &dim) in data.dims.iter().enumerate() {
        let goes = axes.as_ref().map_or(dim == 1, |axes| axes.contains(&axis));
        if goes && dim != 1 {
            return contradiction(format!("axis {axis} of {:?} is not 1", data.dims));
        }
        if !goes {
            dims.push(dim);
        }
    }
    Ok(vec![moved(data, dims)])
}

pub(super) fn unsqueeze(call: &Call<'_>) -> Inferred {
    let data = call.input(0)?;
    let Some(axes) = call.list(1, "axes")? else { return contradiction("axes are missing") };
    let rank = data.rank() + axes.len();
    if rank > LARGEST_RANK {
        return contradiction(format!("a shape of too many dimensions, {rank}"));
    }
    let axes = call.axes(&axes, rank)?;
    if (1..axes.len()).any(|index| axes[..index].contains(&axes[index])) {
        return contradiction(format!("an axis occurs twice in {axes:?}"));
    }
    let mut old = data.dims.iter().copied();
    let dims = (0..rank).map(|axis| if axes.contains(&axis) { 1 } else { old.next().unwrap_or(1) }).collect();
    Ok(vec![moved(data, dims)])
}
