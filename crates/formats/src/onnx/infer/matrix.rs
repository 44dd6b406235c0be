//! Matrix products and operators composed of them.

use std::collections::{BTreeMap, BTreeSet};

use super::fold::together;
use super::{Call, DataType, Inferred, Value, contradiction};

pub(super) fn gemm(call: &Call<'_>) -> Inferred {
    let (a, b) = (call.input(0)?, call.input(1)?);
    let elem = match (call.kind(), call.int("dtype")) {
        // The factors have 8 bits, and the output has a type of its own.
        ("GemmFloat8", to) => to.and_then(|to| i32::try_from(to).ok()).unwrap_or(DataType::Float as i32),
        _ => a.elem,
    };
    Ok(vec![Value::new(elem, of_matrices(call, a, b)?)])
}

/// Shape of a product of two matrices, each of which may be transposed.
pub(super) fn of_matrices(call: &Call<'_>, a: &Value, b: &Value) -> Inferred<Vec<u64>> {
    let (&[rows, inner], &[other, columns]) = (a.dims.as_slice(), b.dims.as_slice()) else {
        return contradiction(format!("{:?} and {:?} are not matrices", a.dims, b.dims));
    };
    let (rows, inner) = if call.flag("transA", false) { (inner, rows) } else { (rows, inner) };
    let (other, columns) = if call.flag("transB", false) { (columns, other) } else { (other, columns) };
    if inner != other {
        return contradiction(format!("the inner dimensions {inner} and {other} differ"));
    }
    Ok(vec![rows, columns])
}

/// A matrix product with broadcast batch axes; a vector is a row or a column.
pub(super) fn product(call: &Call<'_>) -> Inferred {
    // Quantised products have scale and zero point in between.
    let (a, b) = (call.input(0)?, call.input(if call.kind() == "QLinearMatMul" { 3 } else { 1 })?);
    let elem = match call.kind() {
        "MatMulInteger" | "MatMulInteger16" => DataType::Int32 as i32,
        "QLinearMatMul" => call.input(7)?.elem,
        _ => a.elem,
    };
    Ok(vec![Value::new(elem, multiplied(call, a, b)?)])
}

/// Shape of the product of two values.
pub(super) fn multiplied(call: &Call<'_>, a: &Value, b: &Value) -> Inferred<Vec<u64>> {
    stacked(call, a.dims.clone(), b.dims.clone())
}

/// Shape of the product of two shapes, whose last two dimensions may be transposed.
pub(super) fn stacked(call: &Call<'_>, mut left: Vec<u64>, mut right: Vec<u64>) -> Inferred<Vec<u64>> {
    if left.is_empty() || right.is_empty() {
        return contradiction("a scalar is not a matrix");
    }
    let (has_rows, has_columns) = (left.len() > 1, right.len() > 1);
    if !has_rows {
        left.insert(0, 1);
    }
    if !has_columns {
        right.push(1);
    }
    if call.flag("transA", false) {
        let last = left.len() - 1;
        left.swap(last - 1, last);
    }
    if call.flag("transB", false) {
        let last = right.len() - 1;
        right.swap(last - 1, last);
    }
    let (left_stack, left) = left.split_at(left.len() - 2);
    let (right_stack, right) = right.split_at(right.len() - 2);
    if left[1] != right[0] {
        return contradiction(format!("the inner dimensions {} and {} differ", left[1], right[0]));
    }
    let Some(mut dims) = together(left_stack, right_stack) else {
        return contradiction(format!("{left_stack:?} and {right_stack:?} do not broadcast"));
    };
    if has_rows {
        dims.push(left[0]);
    }
    if has_columns {
        dims.push(right[1]);
    }
    Ok(dims)
}

/// Name of an axis under an ellipsis, counted from the last: a private-use character instead of a letter.
fn hidden(from_end: usize) -> Option<char> {
    char::from_u32(0xf0000 + u32::try_from(from_end).ok()?)
}

/// Letters of a term, with `under_ellipsis` axes for its ellipsis.
fn spelt(term: &str, under_ellipsis: usize) -> Inferred<Vec<char>> {
    let (before, rest) = match term.split_once("...") {
        Some((before, after)) => (before, Some(after)),
        None => (term, None),
    };
    let after = rest.unwrap_or_default();
    if !before.chars().chain(after.chars()).all(char::is_alphabetic) {
        return contradiction(format!("the term `{term}` may contain only letters and one ellipsis"));
    }
    let hidden = (0..if rest.is_some() { under_ellipsis } else { 0 }).rev().filter_map(hidden);
    Ok(before.chars().chain(hidden).chain(after.chars()).collect())
}

/// Dimensions by letter, and the letters of the output. Axes under an ellipsis broadcast from the last.
pub(in super::super) fn letters(call: &Call<'_>) -> Inferred<(BTreeMap<char, u64>, Vec<char>)> {
    let equation: String = call.text("equation").unwrap_or_default().split_whitespace().collect();
    let (inputs, output) = match equation.split_once("->") {
        Some((inputs, output)) => (inputs, Some(output)),
        None => (equation.as_str(), None),
    };
    let mut dims = BTreeMap::new();
    let mut count: BTreeMap<char, usize> = BTreeMap::new();
    let mut widest = 0;
    for (index, term) in inputs.split(',').enumerate() {
        let input = call.input(index)?;
        let under_ellipsis = input.rank().saturating_sub(spelt(term, 0)?.len());
        let letters = spelt(term, under_ellipsis)?;
        if letters.len() != input.rank() {
            return contradiction(format!("the term `{term}` for an input of shape {:?}", input.dims));
        }
        if term.contains('.') {
            widest = widest.max(under_ellipsis);
        }
        for (letter, &dim) in letters.into_iter().zip(&input.dims) {
            *count.entry(letter).or_default() += 1;
            let known = dims.entry(letter).or_insert(dim);
            if *known == 1 {
                *known = dim;
            } else if dim != 1 && *known != dim {
                return contradiction(format!("`{letter}` is both {known} and {dim}"));
            }
        }
    }
    let output = match output {
        Some(output) => spelt(output, widest)?,
        // An implicit output has the axes under the ellipsis, and the letters that occur once, in order.
        None => {
            let once = count.iter().filter(|(letter, n)| **n == 1 && letter.is_alphabetic()).map(|(c, _)| *c);
            (0..widest).rev().filter_map(hidden).chain(once).collect()
        }
    };
    Ok((dims, output))
}

pub(super) fn einsum(call: &Call<'_>) -> Inferred {
    let (dims, output) = letters(call)?;
    let shape: Option<Vec<u64>> = output.iter().map(|letter| dims.get(letter).copied()).collect();
    match shape {
        Some(shape) if output.iter().collect::<BTreeSet<_>>().len() == output.len() => {
            Ok(vec![Value::new(call.input(0)?.elem, shape)])
        }
        _ => contradiction("the output of the equation repeats a letter, or has one that no input has"),
    }
}

/// Outputs: all hidden states, the last hidden state, and for an LSTM the last cell state.
pub(super) fn recurrent(call: &Call<'_>) -> Inferred {
    let (input, recurrence) = (call.input(0)?, call.input(2)?);
    let (&[first, second, _], &[directions, _, hidden]) = (input.dims.as_slice(), recurrence.dims.as_slice())
    else {
        return contradiction(format!("{:?} and {:?} are not of rank 3", input.dims, recurrence.dims));
    };
    let (all, last) = match call.int("layout").unwrap_or(0) {
        0 => (vec![first, directions, second, hidden], vec![directions, second, hidden]),
        _ => (vec![first, second, directions, hidden], vec![first, directions, hidden]),
    };
    let last = Value::new(input.elem, last);
    Ok(vec![Value::new(input.elem, all), last.clone(), last])
}
