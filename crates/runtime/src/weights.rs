//! The weights of a model in one file, which all sub-models refer to, so that processes share its pages.
//!
//! Weights may be in the model, in files beside it, or missing; random numbers take the place of missing weights. The
//! results then have no meaning, but computing them takes the same time: values neither overflow nor become denormal,
//! since matrices are scaled by their inner dimension (Glorot and Bengio, AISTATS 2010) and vectors, among them
//! variances, lie between a half and one and a half.

use std::fs::File;
use std::io::{BufWriter, Read, Seek, SeekFrom, Write};
use std::path::{Component, Path, PathBuf};

use rand::rngs::StdRng;
use rand::{Rng, RngExt, SeedableRng};
use stagewright_formats::onnx::proto::tensor_proto::{DataLocation, DataType};
use stagewright_formats::onnx::proto::{
    GraphProto, ModelProto, SparseTensorProto, StringStringEntryProto, TensorProto,
};

use crate::error::{Result, RunError};
use crate::tensor::element;

/// Name of the file, beside the sub-models.
pub(crate) const FILE: &str = "weights.bin";

/// Tensors of fewer bytes stay in the model: ONNX Runtime reads them while it infers shapes.
const SMALLEST: usize = 1024;

/// Every tensor starts at a multiple of this, so that the file can be mapped.
const ALIGNMENT: u64 = 4096;

/// Substitutes for missing weights.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Missing {
    /// No substitute: missing weights are an error.
    Refuse,
    /// Random numbers with this seed.
    Random(u64),
}

/// Moves the weights of a model to `weights.bin` in a folder. Tensors of bodies and attributes, most often few and
/// small, are moved into the model if they are in files beside it.
///
/// # Errors
/// If weights are missing from the file named by the model, or the file cannot be written.
pub fn gather(model: &mut ModelProto, beside: Option<&Path>, missing: Missing, folder: &Path) -> Result<()> {
    let path = folder.join(FILE);
    let failed = || RunError::io(format!("{} cannot be written", path.display()));
    let mut writer = BufWriter::with_capacity(1 << 20, File::create(&path).map_err(failed())?);
    let mut offset = 0_u64;
    let Some(graph) = model.graph.as_mut() else { return Ok(()) };
    for (index, tensor) in graph.initializer.iter_mut().enumerate() {
        if !is_external(tensor) && tensor.raw_data.as_ref().is_none_or(|data| data.len() < SMALLEST) {
            continue;
        }
        let data = match tensor.raw_data.take() {
            Some(data) if !is_external(tensor) => data,
            _ => external(tensor, tensor.name(), beside, missing, index)?,
        };
        if data.len() < SMALLEST {
            hold(tensor, data);
            continue;
        }
        let start = offset.next_multiple_of(ALIGNMENT);
        std::io::copy(&mut std::io::repeat(0).take(start - offset), &mut writer).map_err(failed())?;
        writer.write_all(&data).map_err(failed())?;
        offset = start + data.len() as u64;
        let entry =
            |key: &str, value: String| StringStringEntryProto { key: Some(key.into()), value: Some(value) };
        tensor.data_location = Some(DataLocation::External as i32);
        tensor.external_data = vec![
            entry("location", FILE.into()),
            entry("offset", start.to_string()),
            entry("length", data.len().to_string()),
        ];
    }
    let mut index = graph.initializer.len();
    each_inner(graph, &mut |tensor, maker| {
        if is_external(tensor) {
            // The tensor of an attribute rarely has a name.
            let name = if tensor.name().is_empty() { maker } else { tensor.name() };
            let data = external(tensor, name, beside, missing, index)?;
            hold(tensor, data);
            index += 1;
        }
        Ok(())
    })?;
    writer.into_inner().map_err(|error| failed()(error.into_error()))?.sync_data().map_err(failed())
}

/// Calls `each` with the name of every file beside a model that [`gather`] reads, perhaps twice. The model is not
/// changed.
///
/// # Errors
/// The first error of `each`.
pub fn each_location<E>(
    model: &mut ModelProto,
    mut each: impl FnMut(&str) -> Result<(), E>,
) -> Result<(), E> {
    let mut visit = |tensor: &mut TensorProto, _: &str| {
        let mut entries = tensor.external_data.iter().filter(|entry| entry.key() == "location");
        entries.try_for_each(|entry| each(entry.value()))
    };
    let Some(graph) = model.graph.as_mut() else { return Ok(()) };
    graph.initializer.iter_mut().try_for_each(|tensor| visit(tensor, ""))?;
    each_inner(graph, &mut visit)
}

fn is_external(tensor: &TensorProto) -> bool {
    tensor.data_location == Some(DataLocation::External as i32)
}

/// Puts the content of a tensor into the model.
fn hold(tensor: &mut TensorProto, data: Vec<u8>) {
    tensor.data_location = None;
    tensor.external_data.clear();
    tensor.raw_data = Some(data);
}

/// Operation on a tensor. The second argument is the first output of the node that holds the tensor, or empty without a
/// node.
type Visit<'a, E> = dyn FnMut(&mut TensorProto, &str) -> Result<(), E> + 'a;

/// Visits the tensors of a graph that are not its initializers: those of sparse initializers, attributes and bodies.
fn each_inner<E>(graph: &mut GraphProto, visit: &mut Visit<'_, E>) -> Result<(), E> {
    for sparse in &mut graph.sparse_initializer {
        each_part(sparse, "", visit)?;
    }
    for node in &mut graph.node {
        let maker = node.output.first().map_or("", String::as_str);
        for attribute in &mut node.attribute {
            for tensor in attribute.t.iter_mut().chain(&mut attribute.tensors) {
                visit(tensor, maker)?;
            }
            for sparse in attribute.sparse_tensor.iter_mut().chain(&mut attribute.sparse_tensors) {
                each_part(sparse, maker, visit)?;
            }
            for body in attribute.g.iter_mut().chain(&mut attribute.graphs) {
                body.initializer.iter_mut().try_for_each(|tensor| visit(tensor, maker))?;
                each_inner(body, visit)?;
            }
        }
    }
    Ok(())
}

/// Visits the values and the indices of a sparse tensor.
fn each_part<E>(sparse: &mut SparseTensorProto, maker: &str, visit: &mut Visit<'_, E>) -> Result<(), E> {
    sparse.values.iter_mut().chain(&mut sparse.indices).try_for_each(|tensor| visit(tensor, maker))
}

/// Bytes of a tensor whose content is not in the model, called `name` in errors.
fn external(
    tensor: &TensorProto,
    name: &str,
    beside: Option<&Path>,
    missing: Missing,
    index: usize,
) -> Result<Vec<u8>> {
    let absent = |cause: String| RunError::NoWeights { tensor: name.to_owned(), cause };
    let dims: Option<Vec<usize>> = tensor.dims.iter().map(|&dim| usize::try_from(dim).ok()).collect();
    let count = dims
        .as_ref()
        .and_then(|dims| dims.iter().try_fold(1_usize, |product, &dim| product.checked_mul(dim)));
    let bytes = count
        .and_then(|count| element(tensor.data_type())?.byte_size(count))
        .filter(|&bytes| bytes <= 1 << 40);
    let bytes = bytes.ok_or_else(|| absent("its shape or element type has no size in bytes".into()))?;
    match (read(tensor, beside, bytes), missing) {
        (Ok(data), _) => Ok(data),
        (Err(cause), Missing::Refuse) => Err(absent(cause)),
        (Err(_), Missing::Random(seed)) => {
            let mut data = vec![0; bytes];
            let mut rng = StdRng::seed_from_u64(seed.wrapping_add(index as u64));
            fill_weights(&mut data, tensor.data_type(), &tensor.dims, &mut rng);
            Ok(data)
        }
    }
}

/// Reads a tensor from a file beside the model.
fn read(tensor: &TensorProto, beside: Option<&Path>, bytes: usize) -> Result<Vec<u8>, String> {
    let entry = |key: &str| {
        tensor.external_data.iter().find(|entry| entry.key() == key).map(StringStringEntryProto::value)
    };
    let folder = beside.ok_or("the model has no folder")?;
    let location = entry("location").ok_or("the model names no file")?;
    // A model from elsewhere must not make this program read other files.
    let inside =
        Path::new(location).components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
    if !inside {
        return Err(format!("`{location}` is not inside the folder of the model"));
    }
    let number = |key: &str| {
        entry(key).map_or(Ok(None), |text| {
            text.parse::<u64>().map(Some).map_err(|_| format!("{key} `{text}` is no number"))
        })
    };
    let (offset, length) = (number("offset")?.unwrap_or(0), number("length")?);
    if length.is_some_and(|length| length != bytes as u64) {
        return Err(format!("it should have {bytes} bytes, the model says {}", length.unwrap_or(0)));
    }
    let path: PathBuf = folder.join(location);
    let failed = |error: std::io::Error| format!("{}: {error}", path.display());
    let mut file = File::open(&path).map_err(failed)?;
    let size = file.metadata().map_err(failed)?.len();
    if size.saturating_sub(offset) < bytes as u64 {
        return Err(format!("{}: ends before byte {}", path.display(), offset.saturating_add(bytes as u64)));
    }
    file.seek(SeekFrom::Start(offset)).map_err(failed)?;
    let mut data = vec![0; bytes];
    file.read_exact(&mut data).map_err(failed)?;
    Ok(data)
}

/// Fills a tensor with random weights.
fn fill_weights(data: &mut [u8], elem: i32, dims: &[i64], rng: &mut StdRng) {
    let is_vector = dims.iter().filter(|&&dim| dim > 1).count() <= 1;
    let largest = dims.first().copied().unwrap_or(1).max(1) as f64;
    let count: f64 = dims.iter().map(|&dim| dim as f64).product();
    // The inner dimension of convolutions and transposed matrices; for matrices whose inner dimension comes first, an
    // estimate.
    let inner = (count / largest).max(if dims.len() == 2 { largest.min(count / largest) } else { 1.0 });
    let width = (3.0 / inner).sqrt();
    let (low, high) = if is_vector { (0.5, 1.5) } else { (-width, width) };
    match DataType::try_from(elem) {
        Ok(DataType::Uint8 | DataType::Int8 | DataType::Uint4 | DataType::Int4) if !is_vector => {
            rng.fill_bytes(data)
        }
        _ => fill(data, elem, low, high, rng),
    }
}

/// Fills a tensor with random numbers: floating-point numbers in a range, or integers 0 and 1, for which every table
/// has an entry.
pub(crate) fn fill(data: &mut [u8], elem: i32, low: f64, high: f64, rng: &mut StdRng) {
    let mut number = || low + (high - low) * rng.random::<f64>();
    match DataType::try_from(elem) {
        Ok(DataType::Float) => {
            data.chunks_exact_mut(4)
                .for_each(|bytes| bytes.copy_from_slice(&(number() as f32).to_le_bytes()));
        }
        Ok(DataType::Double) => {
            data.chunks_exact_mut(8).for_each(|bytes| bytes.copy_from_slice(&number().to_le_bytes()));
        }
        Ok(DataType::Bfloat16) => {
            let upper = |value: f64| (((value as f32).to_bits() >> 16) as u16).to_le_bytes();
            data.chunks_exact_mut(2).for_each(|bytes| bytes.copy_from_slice(&upper(number())));
        }
        Ok(DataType::Float16) => {
            data.chunks_exact_mut(2)
                .for_each(|bytes| bytes.copy_from_slice(&half(number() as f32).to_le_bytes()));
        }
        _ => {
            let width = element(elem).and_then(|element| element.byte_size(1)).unwrap_or(1).max(1);
            data.fill(0);
            data.chunks_mut(width).for_each(|bytes| bytes[0] = u8::from(rng.random::<bool>()));
        }
    }
}

/// A number in half precision, rounded towards zero; below the normal range it is zero.
fn half(value: f32) -> u16 {
    let bits = value.to_bits();
    let sign = (bits >> 16) as u16 & 0x8000;
    let exponent = (bits >> 23 & 0xff) as i32 - 127 + 15;
    match exponent {
        i32::MIN..=0 => sign,
        31.. => sign | 0x7bff,
        _ => sign | (exponent as u16) << 10 | (bits >> 13 & 0x3ff) as u16,
    }
}

#[cfg(test)]
mod tests {
    use stagewright_formats::onnx::proto::{AttributeProto, NodeProto};

    use super::*;

    /// A tensor of two bytes, stored in the file `beside` at an offset.
    fn elsewhere(name: &str, offset: &str) -> TensorProto {
        let entry = |key: &str, value: &str| StringStringEntryProto {
            key: Some(key.into()),
            value: Some(value.into()),
        };
        TensorProto {
            name: Some(name.into()),
            dims: vec![2],
            data_type: Some(DataType::Uint8 as i32),
            data_location: Some(DataLocation::External as i32),
            external_data: vec![entry("location", "beside"), entry("offset", offset)],
            ..TensorProto::default()
        }
    }

    /// Sub-models are in another folder, where ONNX Runtime does not find files beside the model.
    #[test]
    fn external_tensors_of_bodies_and_attributes_are_gathered() {
        let node = |output: &str, attribute| NodeProto {
            output: vec![output.into()],
            attribute: vec![attribute],
            ..NodeProto::default()
        };
        let constant = AttributeProto { t: Some(elsewhere("", "2")), ..AttributeProto::default() };
        let body = GraphProto {
            initializer: vec![elsewhere("inner", "0")],
            node: vec![node("constant", constant)],
            ..GraphProto::default()
        };
        let branch = AttributeProto { g: Some(body), ..AttributeProto::default() };
        let graph = GraphProto { node: vec![node("chosen", branch)], ..GraphProto::default() };
        let mut model = ModelProto { graph: Some(graph), ..ModelProto::default() };
        let folder = tempfile::tempdir().unwrap();
        let path = Some(folder.path());
        let mut locations = Vec::new();
        let passed = each_location(&mut model, |location| {
            locations.push(location.to_owned());
            Ok::<(), RunError>(())
        });
        assert!(passed.is_ok());
        assert_eq!(locations, ["beside", "beside"]);
        let error = gather(&mut model.clone(), path, Missing::Refuse, folder.path()).unwrap_err();
        assert_eq!(error.code(), "H004");
        std::fs::write(folder.path().join("beside"), [1, 2, 3]).unwrap();
        let error = gather(&mut model.clone(), path, Missing::Refuse, folder.path()).unwrap_err();
        assert!(error.to_string().contains("`constant`"), "{error}");
        std::fs::write(folder.path().join("beside"), [1, 2, 3, 4]).unwrap();
        gather(&mut model, path, Missing::Refuse, folder.path()).unwrap();
        let body = model.graph.as_ref().and_then(|graph| graph.node[0].attribute[0].g.as_ref()).unwrap();
        let constant = body.node[0].attribute[0].t.as_ref().unwrap();
        assert!(![&body.initializer[0], constant].into_iter().any(is_external));
        assert_eq!([body.initializer[0].raw_data(), constant.raw_data()], [[1_u8, 2], [3, 4]]);
    }

    #[test]
    fn halves_are_those_of_the_standard() {
        assert_eq!(
            [1.0, -2.0, 0.5, 65504.0, 1e9, 1e-9].map(half),
            [0x3c00, 0xc000, 0x3800, 0x7bff, 0x7bff, 0]
        );
    }

    #[test]
    fn a_location_outside_the_folder_is_refused() {
        let entry = |key: &str, value: &str| StringStringEntryProto {
            key: Some(key.into()),
            value: Some(value.into()),
        };
        for location in ["../secret", "/etc/passwd", "a/../../b"] {
            let tensor =
                TensorProto { external_data: vec![entry("location", location)], ..TensorProto::default() };
            assert!(
                read(&tensor, Some(Path::new("/tmp")), 4).unwrap_err().contains("not inside"),
                "{location}"
            );
        }
    }

    #[test]
    fn random_integers_are_entries_of_any_table() {
        let mut data = vec![9; 64];
        fill(&mut data, DataType::Int64 as i32, 0.0, 1.0, &mut StdRng::seed_from_u64(1));
        let numbers: Vec<i64> =
            data.chunks_exact(8).map(|bytes| i64::from_le_bytes(bytes.try_into().unwrap())).collect();
        assert!(numbers.iter().all(|number| [0, 1].contains(number)), "{numbers:?}");
    }
}
