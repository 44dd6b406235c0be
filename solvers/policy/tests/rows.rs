//! The segment sum and the operations built on it, against dense matrices, finite differences, and between devices.

use candle_core::{DType, Device, Error, Result, Tensor, Var};
use rand::{Rng, RngExt};
use stagewright_core::ids::Id;
use stagewright_core::seed::stream;
use stagewright_policy::rows::{Rows, RowsError};

/// Random compressed rows with the dense matrix that they represent.
struct Case {
    rows: Rows,
    dense: Vec<Vec<f64>>,
}

/// `entries` entries at random positions, so that some repeat and some rows are empty.
fn case(rng: &mut impl Rng, rows: usize, columns: usize, entries: usize) -> Case {
    let mut indices = vec![vec![]; rows];
    let mut dense = vec![vec![0.0; columns]; rows];
    for _ in 0..entries {
        let (row, column) = (rng.random_range(0..rows), rng.random_range(0..columns));
        indices[row].push(u32::new(column));
        dense[row][column] += 1.0;
    }
    let mut offsets = vec![0];
    for row in &indices {
        offsets.push(offsets[offsets.len() - 1] + u32::new(row.len()));
    }
    Case { rows: Rows::new(columns, offsets, indices.concat()).unwrap(), dense }
}

/// Numbers of rows, columns and entries: small matrices, matrices without entries, columns or rows, and matrices with
/// rows long enough to be split into pieces.
const SIZES: [(usize, usize, usize); 9] = [
    (1, 1, 1),
    (7, 5, 12),
    (40, 30, 100),
    (3, 4, 0),
    (0, 4, 0),
    (3, 0, 0),
    (0, 0, 0),
    (5, 9, 3000),
    (1, 300, 70_000),
];
const WIDTHS: [usize; 6] = [0, 1, 3, 4, 31, 96];

fn random(rng: &mut impl Rng, rows: usize, width: usize, dtype: DType, device: &Device) -> Tensor {
    let numbers: Vec<f64> = (0..rows * width).map(|_| rng.random_range(-1.0..1.0)).collect();
    Tensor::from_vec(numbers, (rows, width), device).unwrap().to_dtype(dtype).unwrap()
}

fn numbers(x: &Tensor) -> Vec<f64> {
    x.to_dtype(DType::F64).unwrap().flatten_all().unwrap().to_vec1().unwrap()
}

fn segment_of(rng: &mut impl Rng, items: usize, segments: u32) -> Vec<u32> {
    (0..items).map(|_| rng.random_range(0..segments)).collect()
}

#[track_caller]
fn assert_close(found: &[f64], wanted: &[f64], tolerance: f64) {
    assert_eq!(found.len(), wanted.len());
    for (i, (found, wanted)) in found.iter().zip(wanted).enumerate() {
        let close = (found - wanted).abs() <= tolerance * wanted.abs().max(1.0);
        assert!(close || found == wanted, "number {i} is {found}, not {wanted}");
    }
}

/// The GPU, if there is one and the build can use it.
#[allow(clippy::print_stderr, reason = "a test that is skipped says so")]
fn gpu() -> Option<Device> {
    if !cfg!(feature = "cuda") {
        eprintln!("skipped: without the feature `cuda` no GPU is used");
        return None;
    }
    let said = |error: Error| error.to_string().lines().next().unwrap_or_default().to_owned();
    Device::new_cuda(0).map_err(|error| eprintln!("skipped: no GPU answers: {}", said(error))).ok()
}

/// The product `dense x` for `x` of `width` numbers per item, and the product with the absolute values of `x`, to which
/// the rounding error is proportional.
fn product(dense: &[Vec<f64>], x: &[f64], width: usize) -> [Vec<f64>; 2] {
    [|x: f64| x, f64::abs].map(|function: fn(f64) -> f64| {
        let number = |row: &Vec<f64>, k: usize| -> f64 {
            row.iter().enumerate().map(|(j, a)| a * function(x[j * width + k])).sum()
        };
        dense.iter().flat_map(|row| (0..width).map(|k| number(row, k)).collect::<Vec<_>>()).collect()
    })
}

#[track_caller]
fn assert_product(found: &Tensor, dense: &[Vec<f64>], x: &Tensor) {
    // An addition is off by half a unit in the last place, and no item here goes through more than a thousand
    // additions.
    let unit = if found.dtype() == DType::F32 { f32::EPSILON.into() } else { f64::EPSILON };
    let [wanted, scale] = product(dense, &numbers(x), x.dims()[1]);
    assert_eq!(found.dims(), [dense.len(), x.dims()[1]]);
    assert_eq!(found.dtype(), x.dtype());
    for (i, found) in numbers(found).into_iter().enumerate() {
        assert!(
            (found - wanted[i]).abs() <= 500.0 * unit * scale[i],
            "number {i} is {found}, not {}",
            wanted[i]
        );
    }
}

/// Compares sums and maxima of every case on `device` with the dense matrix.
fn agree_with_dense(device: &Device, sizes: &[(usize, usize, usize)], widths: &[usize]) {
    for (task, &(row_count, columns, entries)) in sizes.iter().enumerate() {
        let mut rng = stream(1, task as u64);
        let Case { rows, dense } = case(&mut rng, row_count, columns, entries);
        let transposed: Vec<Vec<f64>> =
            (0..columns).map(|j| dense.iter().map(|row| row[j]).collect()).collect();
        assert_eq!((rows.row_count(), rows.column_count()), (row_count, columns));
        for (&width, dtype) in widths.iter().flat_map(|width| [(width, DType::F32), (width, DType::F64)]) {
            let x = random(&mut rng, columns, width, dtype, device);
            assert_product(&rows.sum(&x).unwrap(), &dense, &x);
            let back = random(&mut rng, row_count, width, dtype, device);
            assert_product(&rows.transposed().sum(&back).unwrap(), &transposed, &back);

            let items = numbers(&x);
            let largest: Vec<f64> = (0..row_count * width)
                .map(|index| {
                    let present = (0..columns).filter(|&j| dense[index / width][j] > 0.0);
                    present.map(|j| items[j * width + index % width]).fold(f64::NEG_INFINITY, f64::max)
                })
                .collect();
            assert_eq!(numbers(&rows.max(&x).unwrap()), largest);
        }
    }
}

#[test]
fn sums_and_largest_items_agree_with_a_dense_matrix() {
    agree_with_dense(&Device::Cpu, &SIZES, &WIDTHS);
}

#[test]
fn gather_takes_rows_and_segments_add_them() {
    let x = Tensor::new(&[[1f32, 10.0], [2.0, 20.0], [4.0, 40.0]], &Device::Cpu).unwrap();
    let gather = Rows::gather(3, vec![2, 0, 2, 1]).unwrap();
    assert_eq!(numbers(&gather.sum(&x).unwrap()), [4.0, 40.0, 1.0, 10.0, 4.0, 40.0, 2.0, 20.0]);
    let segments = Rows::segments(4, &[3, 1, 3]).unwrap();
    assert_eq!(numbers(&segments.sum(&x).unwrap()), [0.0, 0.0, 2.0, 20.0, 0.0, 0.0, 5.0, 50.0]);
}

fn read_any_layout(device: &Device) {
    let mut rng = stream(2, 0);
    let Case { rows, .. } = case(&mut rng, 6, 8, 20);
    let wide = random(&mut rng, 12, 10, DType::F64, device);
    let views = [
        wide.t().unwrap().narrow(0, 1, 8).unwrap(),
        wide.narrow(0, 3, 8).unwrap(),
        wide.narrow(0, 3, 8).unwrap().narrow(1, 2, 5).unwrap(),
        wide.narrow(0, 0, 1).unwrap().broadcast_as((8, 10)).unwrap(),
        // Contiguous, but not aligned for packed loads on a GPU.
        wide.flatten_all().unwrap().narrow(0, 1, 64).unwrap().reshape((8, 8)).unwrap(),
    ];
    for view in views {
        let copy = Tensor::from_vec(numbers(&view), view.dims(), device).unwrap();
        assert_eq!(numbers(&rows.sum(&view).unwrap()), numbers(&rows.sum(&copy).unwrap()));
        assert_eq!(numbers(&rows.max(&view).unwrap()), numbers(&rows.max(&copy).unwrap()));
    }
}

#[test]
fn any_layout_is_read_as_what_it_shows() {
    read_any_layout(&Device::Cpu);
}

/// Compares the gradient of a random combination of the outputs of `f` with central differences, in `f64`.
fn check_gradient(device: &Device, x: &Tensor, f: impl Fn(&Tensor) -> Result<Tensor>) {
    const STEP: f64 = 1e-5;
    let value = f(x).unwrap();
    let (rows, width) = value.dims2().unwrap();
    let weights = random(&mut stream(3, 0), rows, width, DType::F64, device);
    let loss = |x: &Tensor| (f(x)? * &weights)?.sum_all();

    let variable = Var::from_tensor(x).unwrap();
    let gradients = loss(&variable).unwrap().backward().unwrap();
    let found = numbers(gradients.get(&variable).unwrap());
    let point = numbers(x);
    let wanted: Vec<f64> = (0..point.len())
        .map(|i| {
            let moved = |by: f64| {
                let mut point = point.clone();
                point[i] += by;
                let moved = Tensor::from_vec(point, x.dims(), device).unwrap();
                loss(&moved).unwrap().to_scalar::<f64>().unwrap()
            };
            (moved(STEP) - moved(-STEP)) / (2.0 * STEP)
        })
        .collect();
    assert!(wanted.iter().any(|number| number.abs() > 1e-3), "a gradient of zero shows nothing");
    assert_close(&found, &wanted, 1e-8);
}

/// Checks the gradient of every operation, alone and composed with others.
fn gradients_agree(device: &Device) {
    let mut rng = stream(4, 0);
    let Case { rows, .. } = case(&mut rng, 9, 7, 25);
    let x = random(&mut rng, 7, 3, DType::F64, device);
    check_gradient(device, &x, |x| rows.sum(x));
    check_gradient(device, &x, |x| rows.sum(&x.sqr()?)?.tanh());
    // Through the same matrix and back.
    check_gradient(device, &x, |x| rows.transposed().sum(&rows.sum(x)?.tanh()?));

    let Case { rows: long, .. } = case(&mut rng, 2, 7, 900);
    check_gradient(device, &x, |x| (long.sum(x)? / 100.0)?.tanh());
    let repeats: Vec<u32> = (0..600).map(|i| i % 7).collect();
    check_gradient(device, &x, |x| Rows::gather(7, repeats.clone()).unwrap().sum(x)?.tanh());
    check_gradient(device, &x, |x| Rows::gather(7, vec![6, 0, 6, 3]).unwrap().sum(x)?.sqr());

    let segments = Rows::segments(4, &[3, 0, 3, 3, 1, 0, 1]).unwrap();
    check_gradient(device, &x, |x| segments.sum(x)?.sqr());
    check_gradient(device, &x, |x| segments.softmax(x));
    // Attention: the softmax and the items that it weighs depend on the same numbers.
    let transposed = |x: &Tensor| x.t()?.contiguous()?.t();
    check_gradient(device, &x, |x| segments.sum(&(segments.softmax(x)? * x.sqr()?)?)?.tanh());
    check_gradient(device, &x, |x| rows.sum(&segments.softmax(&transposed(x)?)?)?.tanh());
}

#[test]
fn gradients_agree_with_finite_differences() {
    gradients_agree(&Device::Cpu);
}

#[test]
fn no_gradient_goes_through_the_largest_item() {
    let x = Var::from_tensor(&random(&mut stream(5, 0), 4, 2, DType::F64, &Device::Cpu)).unwrap();
    let segments = Rows::segments(2, &[0, 1, 1, 0]).unwrap();
    let loss = segments.max(&x).unwrap().sum_all().unwrap();
    assert!(loss.backward().unwrap().get(&x).is_none());
}

/// Compares a softmax with its definition, on items that overflow unless it is stable.
fn softmax_agrees(device: &Device, dtype: DType, tolerance: f64) {
    for (task, (items, count, width)) in [(1, 1, 1), (40, 6, 3), (2000, 3, 5)].into_iter().enumerate() {
        let mut rng = stream(6, task as u64);
        let segment_of = segment_of(&mut rng, items, count);
        // Far from zero, with a different offset for each segment.
        let x: Vec<f64> = (0..items * width)
            .map(|index| rng.random_range(-3.0..3.0) + 4096.0 * (f64::from(segment_of[index / width]) - 1.0))
            .collect();
        let x = Tensor::from_vec(x, (items, width), device).unwrap().to_dtype(dtype).unwrap();
        let values = numbers(&x);
        let wanted: Vec<f64> = (0..items * width)
            .map(|i| {
                let same = |&j: &usize| segment_of[j] == segment_of[i / width];
                let total: f64 =
                    (0..items).filter(same).map(|j| (values[j * width + i % width] - values[i]).exp()).sum();
                1.0 / total
            })
            .collect();
        let segments = Rows::segments(count as usize, &segment_of).unwrap();
        assert_close(&numbers(&segments.softmax(&x).unwrap()), &wanted, tolerance);
    }
}

#[test]
fn softmax_agrees_with_its_definition() {
    softmax_agrees(&Device::Cpu, DType::F32, 1e-6);
    softmax_agrees(&Device::Cpu, DType::F64, 1e-12);
}

#[test]
fn a_softmax_of_nothing_is_nothing() {
    for (items, width) in [(0, 4), (3, 0)] {
        let x = Tensor::zeros((items, width), DType::F32, &Device::Cpu).unwrap();
        let segments = Rows::segments(2, &vec![1; items]).unwrap();
        assert_eq!(segments.softmax(&x).unwrap().dims(), [items, width]);
    }
}

#[test]
fn results_have_the_same_bits_whatever_the_number_of_threads() {
    let with_threads = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| {
            let mut rng = stream(7, 0);
            let mut bits = vec![];
            for (rows, columns, entries) in [(700, 900, 4000), (3, 2000, 9000)] {
                let Case { rows, .. } = case(&mut rng, rows, columns, entries);
                let segments = Rows::segments(3, &segment_of(&mut rng, columns, 3)).unwrap();
                let x = random(&mut rng, columns, 33, DType::F32, &Device::Cpu);
                let x = Var::from_tensor(&x).unwrap();
                let out = rows.sum(&segments.softmax(&x).unwrap()).unwrap();
                let gradients = out.sqr().unwrap().sum_all().unwrap().backward().unwrap();
                for result in [&out, gradients.get(&x).unwrap()] {
                    let numbers: Vec<f32> = result.flatten_all().unwrap().to_vec1().unwrap();
                    bits.extend(numbers.into_iter().map(f32::to_bits));
                }
            }
            bits
        })
    };
    let alone = with_threads(1);
    assert!(alone == with_threads(2), "two threads give other bits than one");
    assert!(alone == with_threads(3), "three threads give other bits than one");
}

#[test]
fn rows_that_cannot_be_are_refused() {
    let refused = |columns, offsets: &[u32], indices: &[u32]| {
        Rows::new(columns, offsets.to_vec(), indices.to_vec()).unwrap_err()
    };
    assert_eq!(refused(3, &[], &[]), RowsError::NoOffsets);
    assert_eq!(refused(3, &[1, 1], &[0]), RowsError::FirstOffset(1));
    assert_eq!(refused(3, &[0, 2, 1], &[0]), RowsError::Decreasing { row: 1 });
    assert_eq!(refused(3, &[0, 1], &[0, 1]), RowsError::LastOffset { offset: 1, entries: 2 });
    assert_eq!(refused(3, &[0, 2], &[0, 3]), RowsError::Column { entry: 1, column: 3, columns: 3 });
    let many = u32::MAX as usize + 1;
    assert_eq!(refused(many, &[0], &[]), RowsError::TooMany(many));
    assert!(matches!(Rows::segments(2, &[0, 2]), Err(RowsError::Column { .. })));
}

#[test]
fn tensors_that_do_not_fit_are_refused() {
    let rows = Rows::gather(3, vec![2, 0]).unwrap();
    for shape in [vec![2, 4], vec![3], vec![3, 4, 1]] {
        let x = Tensor::zeros(shape, DType::F32, &Device::Cpu).unwrap();
        let error = rows.sum(&x).unwrap_err();
        assert!(error.to_string().contains("shape mismatch in rows-sum"), "{error}");
    }
    let x = Tensor::zeros((3, 4), DType::U32, &Device::Cpu).unwrap();
    let error = rows.sum(&x).unwrap_err();
    assert!(error.to_string().contains("unsupported dtype U32 for op rows-sum"), "{error}");
}

#[test]
fn a_softmax_over_anything_but_segments_is_refused() {
    let x = Tensor::zeros((3, 4), DType::F32, &Device::Cpu).unwrap();
    let error = Rows::gather(3, vec![2, 0, 0]).unwrap().softmax(&x).unwrap_err();
    assert!(error.to_string().contains("column 0 is in 2"), "{error}");
    let error = Rows::gather(3, vec![1, 0]).unwrap().softmax(&x).unwrap_err();
    assert!(error.to_string().contains("column 2 is in 0"), "{error}");
}

#[test]
fn a_gpu_agrees_with_dense_matrices_and_finite_differences() {
    let Some(gpu) = gpu() else { return };
    // Only rows are empty here, not tensors: candle may not be able to allocate zero bytes on a GPU.
    agree_with_dense(&gpu, &[SIZES[0], SIZES[1], SIZES[2], SIZES[3], SIZES[7], SIZES[8]], &WIDTHS[1..]);
    read_any_layout(&gpu);
    gradients_agree(&gpu);
    softmax_agrees(&gpu, DType::F32, 1e-5);
    softmax_agrees(&gpu, DType::F64, 1e-12);
}

#[test]
fn a_gpu_agrees_with_the_processor_and_with_itself() {
    let Some(gpu) = gpu() else { return };
    let mut rng = stream(8, 0);
    for (rows, columns, entries) in [(4000, 3000, 20_000), (2, 3000, 90_000)] {
        let Case { rows, .. } = case(&mut rng, rows, columns, entries);
        for width in [96, 33] {
            let x = random(&mut rng, columns, width, DType::F32, &Device::Cpu);
            let on_gpu = x.to_device(&gpu).unwrap();
            let sums = numbers(&rows.sum(&on_gpu).unwrap());
            assert_close(&sums, &numbers(&rows.sum(&x).unwrap()), 1e-4);
            // A second copy of the rows starts from scratch on the GPU.
            assert_eq!(sums, numbers(&rows.transposed().transposed().sum(&on_gpu).unwrap()));
        }
    }
}
