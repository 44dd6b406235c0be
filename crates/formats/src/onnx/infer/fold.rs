//! Elementwise operators: shapes, and contents if known.

use super::super::work::elements;
use super::{Call, DataType, Inferred, MAX_CONTENT, Value, contradiction, is_integer};

/// Output of a unary elementwise operator.
pub(super) fn unary(call: &Call<'_>, input: &Value, elem: i32) -> Value {
    let function: Option<fn(f64) -> f64> = match call.kind() {
        "Identity" => Some(|x| x),
        "Neg" => Some(|x| -x),
        "Abs" => Some(f64::abs),
        "Floor" => Some(f64::floor),
        "Ceil" => Some(f64::ceil),
        "Round" => Some(f64::round_ties_even),
        "Sqrt" => Some(f64::sqrt),
        "Not" => Some(|x| f64::from(x == 0.0)),
        _ => None,
    };
    let content = function.and_then(|function| {
        input.content.as_ref().map(|content| content.iter().map(|&number| function(number)).collect())
    });
    Value::new(elem, input.dims.clone()).with(content)
}

/// Output of an operator with broadcast inputs.
pub(super) fn broadcast(call: &Call<'_>) -> Inferred<Value> {
    let inputs: Vec<&Value> = call.inputs.iter().flatten().copied().collect();
    let Some(&first) = inputs.first() else { return contradiction("inputs are missing") };
    let mut dims = first.dims.clone();
    if call.kind() == "PRelu"
        || (call.opset < 7 && matches!(call.kind(), "Add" | "Sub" | "Mul" | "Div" | "Pow"))
    {
        // The second input broadcasts into the first; before operator set 7, from an axis given as an attribute.
        let content =
            (inputs.len() == 2 && inputs[1].dims == dims).then(|| content(call, &inputs, &dims)).flatten();
        return Ok(Value::new(first.elem, dims).with(content));
    }
    for input in &inputs[1..] {
        dims = match together(&dims, &input.dims) {
            Some(dims) => dims,
            None => return contradiction(format!("{dims:?} and {:?} do not broadcast", input.dims)),
        };
    }
    let elem = match call.kind() {
        "Equal" | "Greater" | "GreaterOrEqual" | "Less" | "LessOrEqual" | "And" | "Or" | "Xor" => {
            DataType::Bool as i32
        }
        "Where" => call.input(1)?.elem,
        _ => first.elem,
    };
    let content = content(call, &inputs, &dims);
    Ok(Value::new(elem, dims).with(content))
}

/// Shape that two shapes broadcast to, by numpy's rules.
pub(super) fn together(a: &[u64], b: &[u64]) -> Option<Vec<u64>> {
    let rank = a.len().max(b.len());
    let dim = |dims: &[u64], axis: usize| {
        (axis + dims.len()).checked_sub(rank).map_or(1, |own_axis| dims[own_axis])
    };
    (0..rank)
        .map(|axis| match (dim(a, axis), dim(b, axis)) {
            (a, b) if a == b => Some(a),
            (1, other) | (other, 1) => Some(other),
            _ => None,
        })
        .collect()
}

/// Content of a broadcast operation on known contents.
fn content(call: &Call<'_>, inputs: &[&Value], dims: &[u64]) -> Option<Vec<f64>> {
    let integer = is_integer(inputs.first()?.elem);
    let function: fn(&[f64]) -> f64 = match call.kind() {
        "Add" | "Sum" => |x| x.iter().sum(),
        "Sub" => |x| x[0] - x[1],
        "Mul" => |x| x[0] * x[1],
        "Div" if integer => |x| (x[0] / x[1]).trunc(),
        "Div" => |x| x[0] / x[1],
        "Mod" => |x| x[0] - (x[0] / x[1]).floor() * x[1],
        "Max" => |x| x.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        "Min" => |x| x.iter().copied().fold(f64::INFINITY, f64::min),
        "Equal" => |x| f64::from(x[0] == x[1]),
        "Greater" => |x| f64::from(x[0] > x[1]),
        "Less" => |x| f64::from(x[0] < x[1]),
        "And" => |x| f64::from(x[0] != 0.0 && x[1] != 0.0),
        "Or" => |x| f64::from(x[0] != 0.0 || x[1] != 0.0),
        "Where" => |x| if x[0] != 0.0 { x[1] } else { x[2] },
        _ => return None,
    };
    let least = match call.kind() {
        "Add" | "Sum" | "Max" | "Min" => 1,
        "Where" => 3,
        _ => 2,
    };
    if inputs.len() < least || elements(dims) > MAX_CONTENT as f64 {
        return None;
    }
    let spread: Vec<Vec<f64>> = inputs
        .iter()
        .map(|input| spread(input.content.as_ref()?, &input.dims, dims))
        .collect::<Option<_>>()?;
    let mut row = vec![0.0; spread.len()];
    let mut read = |i: usize| {
        row.iter_mut().zip(&spread).for_each(|(number, input)| *number = input[i]);
        function(&row)
    };
    Some((0..elements(dims) as usize).map(&mut read).collect())
}

/// Content broadcast to a shape with no more than [`MAX_CONTENT`] elements.
pub(super) fn spread(content: &[f64], from: &[u64], to: &[u64]) -> Option<Vec<f64>> {
    let skipped = to.len().checked_sub(from.len())?;
    let mut out = Vec::with_capacity(elements(to) as usize);
    let mut index = vec![0_u64; to.len()];
    for _ in 0..elements(to) as usize {
        let place = from
            .iter()
            .enumerate()
            .fold(0, |place, (axis, &dim)| place * dim + if dim == 1 { 0 } else { index[skipped + axis] });
        out.push(*content.get(usize::try_from(place).ok()?)?);
        for axis in (0..to.len()).rev() {
            index[axis] += 1;
            if index[axis] < to[axis] {
                break;
            }
            index[axis] = 0;
        }
    }
    Some(out)
}
