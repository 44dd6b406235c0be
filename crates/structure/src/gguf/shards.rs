//! Shards of a model: the union of their tensors, with the keys of the first.

use std::collections::BTreeSet;
use std::io;

use stagewright_formats::{At, InputError, Result};

use super::read::{Header, Value, header};
use super::source::{ReadSeek, malformed};

/// Opens a shard by its name, in the folder of the first.
pub type Sibling<'a> = dyn FnMut(&str) -> io::Result<Box<dyn ReadSeek>> + 'a;

/// Maximum number of shards; names have five digits, and the largest models come in some hundreds.
const MOST_SHARDS: u64 = 1 << 12;

const NUMBER: &str = "split.no";
const COUNT: &str = "split.count";
const TENSORS: &str = "split.tensors.count";

/// Reads the header of a file, and those of its other shards if it is the first of several.
///
/// # Errors
/// If a header is malformed, the file is not the first shard, its name is not that of one, a shard cannot be opened, or
/// shards contradict each other (M016).
pub(super) fn union(label: &str, reader: Box<dyn ReadSeek + '_>, sibling: &mut Sibling) -> Result<Header> {
    let mut first = header(label, reader)?;
    let count = number(label, &first, COUNT)?.unwrap_or(1);
    if count <= 1 {
        return Ok(first);
    }
    let own = number(label, &first, NUMBER)?.unwrap_or(0);
    let name = Name::of(label).filter(|name| name.count == count);
    let Some(name) = name else {
        let message =
            format!("the file is shard {} of {count}, and its name does not say so", own.saturating_add(1));
        let mut error = fault(label, COUNT, message);
        error.help =
            format!("name the shards as llama-gguf-split does, as in model-00001-of-{count:05}.gguf");
        return Err(error);
    };
    if count > MOST_SHARDS {
        return Err(fault(label, COUNT, format!("the model has {count} shards, more than {MOST_SHARDS}")));
    }
    if own != 0 || name.number != 1 {
        let message = format!("the file is shard {} of {count}, not the first", own.saturating_add(1));
        let mut error = fault(label, NUMBER, message);
        error.help = format!("give the first, {}", name.shard(1));
        return Err(error);
    }
    let mut seen: BTreeSet<String> = first.tensors.iter().map(|tensor| tensor.name.clone()).collect();
    for number in 2..=count {
        let shard = shard(&name.shard(number), number, count, sibling)?;
        for tensor in shard.header.tensors {
            if !seen.insert(tensor.name.clone()) {
                return Err(fault(&shard.label, &tensor.name, "an earlier shard has the tensor too"));
            }
            first.tensors.push(tensor);
        }
    }
    let found = first.tensors.len() as u64;
    match number(label, &first, TENSORS)? {
        Some(expected) if expected != found => {
            Err(fault(label, TENSORS, format!("the shards have {found} tensors, not {expected}")))
        }
        _ => Ok(first),
    }
}

struct Shard {
    label: String,
    header: Header,
}

fn shard(name: &str, shard: u64, count: u64, sibling: &mut Sibling) -> Result<Shard> {
    let reader = sibling(name).map_err(|error| {
        let mut fault = malformed(name, At::Whole, format!("the shard cannot be opened: {error}"));
        fault.help = format!("put all {count} shards into one folder");
        fault
    })?;
    let header = header(name, reader)?;
    let own = (number(name, &header, NUMBER)?, number(name, &header, COUNT)?);
    if own != (Some(shard - 1), Some(count)) {
        return Err(fault(
            name,
            NUMBER,
            format!("the file does not say that it is shard {shard} of {count}"),
        ));
    }
    Ok(Shard { label: name.to_owned(), header })
}

fn number(label: &str, header: &Header, key: &str) -> Result<Option<u64>> {
    let whole = |value: &Value| match value {
        Value::Whole(number) => u64::try_from(*number).ok(),
        _ => None,
    };
    let Some(value) = header.values.get(key) else { return Ok(None) };
    whole(value)
        .map(Some)
        .ok_or_else(|| fault(label, key, "the value is no whole number that is not negative"))
}

fn fault(label: &str, place: &str, message: impl Into<String>) -> InputError {
    malformed(label, At::Path(place.to_owned()), message)
}

/// Name of a shard, as in `model-00001-of-00003.gguf`.
#[derive(Debug, Clone, PartialEq)]
struct Name {
    stem: String,
    number: u64,
    count: u64,
}

impl Name {
    fn of(label: &str) -> Option<Name> {
        let file = label.rsplit(['/', '\\']).next()?;
        let (rest, count) = file.strip_suffix(".gguf")?.rsplit_once("-of-")?;
        let (stem, number) = rest.rsplit_once('-')?;
        let digits = |text: &str| (text.len() == 5).then(|| text.parse().ok())?;
        Some(Name { stem: stem.to_owned(), number: digits(number)?, count: digits(count)? })
    }

    fn shard(&self, number: u64) -> String {
        format!("{}-{number:05}-of-{:05}.gguf", self.stem, self.count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_shards_read_back() {
        let name = Name::of("models/big-model-00001-of-00003.gguf").unwrap();
        assert_eq!(name, Name { stem: "big-model".to_owned(), number: 1, count: 3 });
        assert_eq!(name.shard(2), "big-model-00002-of-00003.gguf");
        for label in ["model.gguf", "model-1-of-3.gguf", "model-00001-of-00003.bin", "-of-.gguf", ""] {
            assert_eq!(Name::of(label), None, "{label}");
        }
    }
}
