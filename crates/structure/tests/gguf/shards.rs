//! Models in several files.

use std::collections::BTreeMap;
use std::io::{Cursor, Error, ErrorKind};

use stagewright_formats::Result;
use stagewright_structure::Structure;
use stagewright_structure::gguf::{ReadSeek, read};

use super::models::small;
use super::writer::{Model, Value};

const NAMES: [&str; 3] =
    ["small-00001-of-00003.gguf", "small-00002-of-00003.gguf", "small-00003-of-00003.gguf"];

/// Three shards of a small model; keys are in the first alone.
fn shards() -> [Model; 3] {
    let whole = small();
    let third = whole.tensors.len().div_ceil(3);
    let mut shards = [whole.clone(), whole.clone(), whole.clone()];
    for (number, (shard, tensors)) in shards.iter_mut().zip(whole.tensors.chunks(third)).enumerate() {
        shard.tensors = tensors.to_vec();
        if number > 0 {
            shard.keys.clear();
        }
        shard.general("split.no", number as u32).general("split.count", 3);
        shard.general("split.tensors.count", Value::I32(whole.tensors.len() as i32));
    }
    shards
}

fn read_shards(label: &str, shards: &[Model; 3]) -> Result<Structure> {
    let files: BTreeMap<&str, Vec<u8>> = NAMES.into_iter().zip(shards.iter().map(Model::bytes)).collect();
    let open = |name: &str| -> std::io::Result<Box<dyn ReadSeek>> {
        match files.get(name) {
            Some(bytes) => Ok(Box::new(Cursor::new(bytes.clone()))),
            None => Err(Error::new(ErrorKind::NotFound, "no such file")),
        }
    };
    read(label, Box::new(Cursor::new(shards[0].bytes())), &mut { open })
}

#[test]
fn three_shards_are_one_model() {
    let structure = read_shards(&format!("models/{}", NAMES[0]), &shards()).unwrap();
    assert_eq!(structure, small().structure());
}

/// Code and place of the error after a change.
fn place(label: &str, change: impl Fn(&mut [Model; 3])) -> (String, String) {
    let mut shards = shards();
    change(&mut shards);
    let error = read_shards(label, &shards).unwrap_err();
    (error.code.to_string(), error.place.to_string())
}

fn set(shard: &mut Model, key: &str, number: u32) {
    shard.keys.retain(|(known, _)| known != key);
    shard.general(key, number);
}

#[test]
fn shards_that_contradict_each_other_are_refused() {
    let expect = |label: &str, change: fn(&mut [Model; 3]), expected: &str| {
        assert_eq!(place(label, change), ("M016".to_owned(), expected.to_owned()));
    };
    expect("model.gguf", |_| {}, "model.gguf: split.count");
    expect(NAMES[1], |_| {}, "small-00002-of-00003.gguf: split.no");
    expect(NAMES[0], |shards| set(&mut shards[0], "split.no", 1), "small-00001-of-00003.gguf: split.no");
    expect(NAMES[0], |shards| set(&mut shards[1], "split.no", 2), "small-00002-of-00003.gguf: split.no");
    expect(NAMES[0], |shards| set(&mut shards[2], "split.count", 4), "small-00003-of-00003.gguf: split.no");
    expect(
        NAMES[0],
        |shards| set(&mut shards[0], "split.tensors.count", 19),
        "small-00001-of-00003.gguf: split.tensors.count",
    );
    expect(
        NAMES[0],
        |shards| {
            let again = shards[0].tensors[0].clone();
            shards[2].tensors.push(again);
        },
        "small-00003-of-00003.gguf: token_embd.weight",
    );
    expect(
        NAMES[0],
        |shards| set(&mut shards[0], "split.count", 4),
        "small-00001-of-00003.gguf: split.count",
    );
}

#[test]
fn a_missing_shard_is_named() {
    let bytes = shards()[0].bytes();
    let error = read(NAMES[0], Box::new(Cursor::new(bytes)), &mut super::writer::alone).unwrap_err();
    assert_eq!(error.place.to_string(), NAMES[1]);
    assert!(error.help.contains("3 shards"), "{}", error.help);
}
