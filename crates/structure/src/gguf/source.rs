//! Bytes of a file, read in order with their offsets.

use std::io::{BufReader, Read, Seek, SeekFrom};

use stagewright_formats::code::M;
use stagewright_formats::{At, InputError, Result};

/// A file, or bytes in memory.
pub trait ReadSeek: Read + Seek {}

impl<T: Read + Seek> ReadSeek for T {}

/// Maximum number of bytes before the data; the largest tokenisers take 20 MB.
const LARGEST_HEADER: u64 = 1 << 27;

/// Position in a file whose length is known.
pub(super) struct Source<'a> {
    label: &'a str,
    reader: BufReader<Box<dyn ReadSeek + 'a>>,
    offset: u64,
    length: u64,
}

impl<'a> Source<'a> {
    /// Starts at the first byte.
    ///
    /// # Errors
    /// If the length cannot be found (M016).
    pub(super) fn new(label: &'a str, mut reader: Box<dyn ReadSeek + 'a>) -> Result<Source<'a>> {
        let length = reader.seek(SeekFrom::End(0)).and_then(|length| {
            reader.seek(SeekFrom::Start(0))?;
            Ok(length)
        });
        let length = length
            .map_err(|error| malformed(label, At::Whole, format!("the file cannot be read: {error}")))?;
        Ok(Source { label, reader: BufReader::with_capacity(1 << 16, reader), offset: 0, length })
    }

    pub(super) fn offset(&self) -> u64 {
        self.offset
    }

    pub(super) fn length(&self) -> u64 {
        self.length
    }

    /// An error at a byte.
    pub(super) fn fault(&self, offset: u64, message: impl Into<String>) -> InputError {
        malformed(self.label, At::Path(format!("byte {offset}")), message)
    }

    /// An error about a key or a tensor.
    pub(super) fn fault_of(&self, name: &str, message: impl Into<String>) -> InputError {
        malformed(self.label, At::Path(name.to_owned()), message)
    }

    /// Refuses to go beyond the end of the file, or beyond any header.
    fn require(&self, count: u64) -> Result<()> {
        let end = self.offset.checked_add(count).filter(|&end| end <= self.length);
        match end {
            None => {
                let message = format!("the file ends at byte {}, {count} bytes are needed here", self.length);
                Err(self.fault(self.offset, message))
            }
            Some(end) if end > LARGEST_HEADER => {
                let message = format!("the header is larger than {} MiB", LARGEST_HEADER >> 20);
                Err(self.fault(self.offset, message))
            }
            Some(_) => Ok(()),
        }
    }

    /// Refuses a count of items of at least `bytes` each that the rest of the file cannot hold.
    pub(super) fn require_items(&self, count: u64, bytes: u64) -> Result<()> {
        self.require(count.saturating_mul(bytes))
    }

    /// The next bytes.
    pub(super) fn bytes<const N: usize>(&mut self) -> Result<[u8; N]> {
        let mut bytes = [0; N];
        self.fill(&mut bytes)?;
        Ok(bytes)
    }

    fn fill(&mut self, bytes: &mut [u8]) -> Result<()> {
        self.require(bytes.len() as u64)?;
        let read = self.reader.read_exact(bytes);
        read.map_err(|error| self.fault(self.offset, format!("the file cannot be read: {error}")))?;
        self.offset += bytes.len() as u64;
        Ok(())
    }

    pub(super) fn u32(&mut self) -> Result<u32> {
        self.bytes().map(u32::from_le_bytes)
    }

    pub(super) fn u64(&mut self) -> Result<u64> {
        self.bytes().map(u64::from_le_bytes)
    }

    /// Goes over bytes without keeping them.
    pub(super) fn skip(&mut self, count: u64) -> Result<()> {
        self.require(count)?;
        // `require` bounds the count by that of a header.
        let skipped = self.reader.seek_relative(count as i64);
        skipped.map_err(|error| self.fault(self.offset, format!("the file cannot be read: {error}")))?;
        self.offset += count;
        Ok(())
    }

    /// A text of at most `longest` bytes; `None` if it is longer, and then it is skipped. Returns its length besides.
    pub(super) fn text(&mut self, longest: u64) -> Result<(u64, Option<Vec<u8>>)> {
        let length = self.u64()?;
        if length > longest {
            self.skip(length)?;
            return Ok((length, None));
        }
        self.require(length)?;
        let mut bytes = vec![0; length as usize];
        self.fill(&mut bytes)?;
        Ok((length, Some(bytes)))
    }
}

/// An error about a malformed header.
pub(super) fn malformed(label: &str, position: At, message: impl Into<String>) -> InputError {
    let help = "check that the file was copied or downloaded completely, and that it is a GGUF file";
    InputError::new(M::M016, label, position, message, help)
}
