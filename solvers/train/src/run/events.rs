//! Measurements as TensorBoard events, which `tensorboard --logdir FOLDER` shows during a run.
//!
//! A file of events is a sequence of records, each a message framed by its length and two checksums (`TFRecord`):
//!
//! ```text
//! length: u64 | masked CRC of the length: u32 | message | masked CRC of the message: u32
//! ```
//!
//! All numbers are little-endian, and a checksum c (CRC-32C) is masked as ((c >> 15) | (c << 17)) + `0xa282ead8`. The
//! first event names the version of the format; the others have a step, the wall time in seconds since 1970, and one
//! single-precision scalar for every column of the measurements.
//!
//! TensorBoard keeps a file open and reads appended data; it loses track of a file that is replaced or truncated. So a
//! file only grows, except for an incomplete record at its end, which is not read. A resumed run that drops
//! measurements after its state appends a restart mark with the first of their steps: TensorBoard then drops what it
//! has read from that step on.
//!
//! The messages follow `tensorboard/compat/proto/event.proto` and `summary.proto`, reduced to the fields and tags that
//! are used here, and the records follow `tensorflow/core/lib/io/record_writer.cc`.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crc::{CRC_32_ISCSI, Crc};
use prost::Message;

use super::{Folder, Result, RunError};

/// CRC-32C.
const CHECKSUM: Crc<u32> = Crc::<u32>::new(&CRC_32_ISCSI);
/// Number that is added to a rotated checksum.
const MASK: u32 = 0xa282_ead8;
/// Bytes of a record before its message, and after it.
const HEAD: usize = 12;
const TAIL: usize = 4;

/// Version of the format.
const VERSION: &str = "brain.Event:2";
/// Status of a session that starts.
const START: i32 = 1;

/// Beginning and end of the name of a file of events; the seconds since 1970 are between them.
const PREFIX: &str = "events.out.tfevents.";
const SUFFIX: &str = ".stagewright";

/// A message of a file of events.
#[derive(Clone, PartialEq, Message)]
struct Event {
    /// Seconds since 1970.
    #[prost(double, tag = "1")]
    wall_time: f64,
    #[prost(int64, tag = "2")]
    step: i64,
    #[prost(string, optional, tag = "3")]
    file_version: Option<String>,
    #[prost(message, optional, tag = "5")]
    summary: Option<Summary>,
    #[prost(message, optional, tag = "7")]
    session: Option<Session>,
}

#[derive(Clone, PartialEq, Message)]
struct Summary {
    #[prost(message, repeated, tag = "1")]
    values: Vec<Value>,
}

#[derive(Clone, PartialEq, Message)]
struct Value {
    #[prost(string, tag = "1")]
    tag: String,
    #[prost(float, tag = "2")]
    number: f32,
}

#[derive(Clone, PartialEq, Message)]
struct Session {
    #[prost(int32, tag = "1")]
    status: i32,
}

/// The scalars of a measurement.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Scalars {
    /// Step of the measurement.
    pub(super) step: u64,
    /// Columns with their numbers.
    pub(super) values: Vec<(String, f64)>,
}

impl Scalars {
    fn event(&self, wall_time: f64) -> Event {
        let value = |(tag, number): &(String, f64)| Value { tag: tag.clone(), number: *number as f32 };
        let values = self.values.iter().map(value).collect();
        Event { wall_time, step: step(self), summary: Some(Summary { values }), ..Event::default() }
    }
}

fn step(scalars: &Scalars) -> i64 {
    i64::try_from(scalars.step).unwrap_or(i64::MAX)
}

/// The event file of a run, open for appending.
#[derive(Debug)]
pub(super) struct Events {
    file: File,
    path: PathBuf,
}

impl Events {
    /// Opens the file of events of a folder, or creates it, and makes it show exactly the given measurements. A
    /// measurement that it lacks is appended with the current time.
    ///
    /// # Errors
    /// If the file cannot be read or written.
    pub(super) fn open(folder: &Folder, measured: &[Scalars]) -> Result<Events> {
        let path = match newest(folder.path())? {
            Some(path) => path,
            None => folder.path().join(format!("{PREFIX}{:010}{SUFFIX}", now() as u64)),
        };
        let (events, whole) = read(&Folder::read(&path)?.unwrap_or_default());
        // A file without its head is written anew.
        let whole = if events.len() < 2 { 0 } else { whole };
        let shown = shown(events);
        let is_same = |(event, scalars): &(&Event, &Scalars)| **event == scalars.event(event.wall_time);
        let same = shown.iter().zip(measured).take_while(is_same).count();
        let mut records = Vec::new();
        if whole == 0 {
            let version = Event { wall_time: now(), file_version: Some(VERSION.into()), ..Event::default() };
            // The mark of the first session, without which the next one would count as the first.
            records.extend([record(&version), restart(0)].concat());
        } else if let Some(first) = shown.get(same) {
            let next = measured.get(same).map_or(first.step, |scalars| first.step.min(step(scalars)));
            records.extend(restart(next));
        }
        records.extend(measured[same..].iter().flat_map(|scalars| record(&scalars.event(now()))));
        let failed = |error: std::io::Error| RunError::file("write", &path, &error);
        let mut file = File::options().append(true).create(true).open(&path).map_err(failed)?;
        file.set_len(whole as u64).and_then(|()| file.write_all(&records)).map_err(failed)?;
        Ok(Events { file, path })
    }

    /// Appends a measurement in a single write, with the current time.
    ///
    /// # Errors
    /// If it cannot be written.
    pub(super) fn append(&mut self, measured: &Scalars) -> Result<()> {
        let record = record(&measured.event(now()));
        self.file.write_all(&record).map_err(|error| RunError::file("write", &self.path, &error))
    }
}

/// The newest event file in a folder, among those that a run wrote.
fn newest(folder: &Path) -> Result<Option<PathBuf>> {
    let failed = |error: std::io::Error| RunError::file("read", folder, &error);
    let mut found = None;
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let name = entry.file_name();
        if name.to_str().is_some_and(|name| name.starts_with(PREFIX) && name.ends_with(SUFFIX)) {
            found = found.max(Some(entry.path()));
        }
    }
    Ok(found)
}

/// The events with a measurement that TensorBoard shows after reading the given events.
fn shown(events: Vec<Event>) -> Vec<Event> {
    let mut shown: Vec<Event> = Vec::new();
    for event in events {
        if event.session.is_some() {
            shown.retain(|earlier| earlier.step < event.step);
        } else if event.summary.is_some() {
            shown.push(event);
        }
    }
    shown
}

/// Seconds since 1970.
fn now() -> f64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64())
}

fn masked(bytes: &[u8]) -> [u8; 4] {
    CHECKSUM.checksum(bytes).rotate_right(15).wrapping_add(MASK).to_le_bytes()
}

/// Encodes the mark of a session that starts at a step, as a record.
fn restart(step: i64) -> Vec<u8> {
    let session = Some(Session { status: START });
    record(&Event { wall_time: now(), step, session, ..Event::default() })
}

/// Encodes an event as a record.
fn record(event: &Event) -> Vec<u8> {
    let message = event.encode_to_vec();
    let length = (message.len() as u64).to_le_bytes();
    [&length[..], &masked(&length), &message, &masked(&message)].concat()
}

/// Decodes the events of a file up to the first record that is incomplete or damaged. Also returns the number of bytes
/// that they take.
fn read(bytes: &[u8]) -> (Vec<Event>, usize) {
    let (mut events, mut offset) = (Vec::new(), 0);
    while let Some((event, taken)) = first(&bytes[offset..]) {
        events.push(event);
        offset += taken;
    }
    (events, offset)
}

/// Decodes the first event in `bytes`. Also returns the number of bytes that its record takes.
fn first(bytes: &[u8]) -> Option<(Event, usize)> {
    let (length, rest) = bytes.split_first_chunk::<8>()?;
    let rest = rest.strip_prefix(&masked(length))?;
    let (message, rest) = rest.split_at_checked(usize::try_from(u64::from_le_bytes(*length)).ok()?)?;
    rest.strip_prefix(&masked(message))?;
    Some((Event::decode(message).ok()?, HEAD + message.len() + TAIL))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bytes that TensorBoard's own `RecordWriter` (2.21.0) writes for the version at 1.5 s, and at 2.5 s for
    /// the scalar `loss` of 0.5 at step 4.
    const WRITTEN: &str = "1800000000000000a37f4b2209000000000000f83f1a0d627261696e2e4576656e743a322a28646c\
        1a00000000000000129bd82d09000000000000044010042a0d0a0b0a046c6f7373150000003f4898a777";

    fn scalars(step: u64, loss: f64) -> Scalars {
        Scalars { step, values: vec![("loss".into(), loss)] }
    }

    fn hexadecimal(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    #[test]
    fn records_are_those_of_tensorboard() {
        // The check value of CRC-32C (iSCSI, RFC 3720).
        assert_eq!(CHECKSUM.checksum(b"123456789"), 0xe306_9283);
        let version = Event { wall_time: 1.5, file_version: Some(VERSION.into()), ..Event::default() };
        let events = [version, scalars(4, 0.5).event(2.5)];
        let bytes = events.iter().map(record).collect::<Vec<_>>().concat();
        assert_eq!(hexadecimal(&bytes), WRITTEN);
        assert_eq!(read(&bytes), (events.to_vec(), bytes.len()));
        // An incomplete record is not read.
        for cut in 0..bytes.len() {
            let first = if cut < 40 { 0 } else { 40 };
            assert_eq!(read(&bytes[..cut]).1, first, "{cut}");
        }
        for offset in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[offset] ^= 1;
            assert!(read(&damaged).1 < bytes.len(), "{offset}");
        }
    }

    /// Steps, numbers and wall times that TensorBoard shows for a folder.
    fn rows(folder: &Path) -> Vec<(i64, f32, f64)> {
        let bytes = std::fs::read(newest(folder).unwrap().unwrap()).unwrap();
        let (events, whole) = read(&bytes);
        assert_eq!(whole, bytes.len());
        assert_eq!(events[0].file_version.as_deref(), Some(VERSION));
        assert_eq!(events[1].session, Some(Session { status: START }));
        let row = |event: Event| {
            let value = &event.summary.as_ref().unwrap().values[0];
            assert_eq!(value.tag, "loss");
            (event.step, value.number, event.wall_time)
        };
        shown(events).into_iter().map(row).collect()
    }

    #[test]
    fn a_resumed_run_shows_every_step_once() {
        let scratch = tempfile::tempdir().unwrap();
        let folder = Folder::new(scratch.path()).unwrap();
        let mut events = Events::open(&folder, &[]).unwrap();
        let all = [scalars(4, 0.5), scalars(8, 0.25), scalars(12, 0.125)];
        all.iter().for_each(|scalars| events.append(scalars).unwrap());
        let first = rows(scratch.path());
        let numbers: Vec<(i64, f32)> = first.iter().map(|row| (row.0, row.1)).collect();
        assert_eq!(numbers, [(4, 0.5), (8, 0.25), (12, 0.125)]);
        let path = newest(scratch.path()).unwrap().unwrap();
        let whole = std::fs::read(&path).unwrap();

        // With nothing to drop, nothing is written.
        Events::open(&folder, &all).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), whole);

        // The state is that of step 8: the file grows, and shows the remaining events with their times.
        events = Events::open(&folder, &all[..2]).unwrap();
        assert!(std::fs::read(&path).unwrap().starts_with(&whole));
        assert_eq!(rows(scratch.path()), first[..2]);
        events.append(&scalars(12, 0.0625)).unwrap();
        assert_eq!(rows(scratch.path())[..2], first[..2]);
        assert_eq!(rows(scratch.path())[2].1, 0.0625);

        // The program may be killed at any byte.
        for cut in 0..whole.len() {
            std::fs::write(&path, &whole[..cut]).unwrap();
            Events::open(&folder, &all[..2]).unwrap();
            let rows: Vec<(i64, f32)> = rows(scratch.path()).iter().map(|row| (row.0, row.1)).collect();
            assert_eq!(rows, numbers[..2], "{cut}");
        }

        // A run without an event file, as earlier versions leave it, and then a run with other measurements.
        std::fs::remove_file(&path).unwrap();
        Events::open(&folder, &all).unwrap();
        assert_eq!(rows(scratch.path()).len(), 3);
        Events::open(&folder, &[scalars(3, 0.5), scalars(8, 0.75)]).unwrap();
        let rows: Vec<(i64, f32)> = rows(scratch.path()).iter().map(|row| (row.0, row.1)).collect();
        assert_eq!(rows, [(3, 0.5), (8, 0.75)]);
    }
}
