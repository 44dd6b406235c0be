//! Measurements as TensorBoard events, which `tensorboard --logdir FOLDER` shows while a run goes on.
//!
//! A file of events is a sequence of records, each a message framed by its length and two checksums (`TFRecord`):
//!
//! ```text
//! length: u64 | masked CRC of the length: u32 | message | masked CRC of the message: u32
//! ```
//!
//! All numbers are little-endian, and a checksum c (CRC-32C) is masked as ((c >> 15) | (c << 17)) + `0xa282ead8`. The
//! first event names the version of the format; the others have a step, the wall time in seconds since 1970, and one
//! scalar of single precision for every column of the measurements.
//!
//! TensorBoard keeps a file open and reads what is appended, so events are appended, and a file is never changed in
//! another way. A resumed run drops the measurements after its state. It then writes the remaining events, with their
//! wall times, to a file with a later name, and removes the earlier one; the first event of the new file has the mark of
//! a restart, at which a running TensorBoard drops what it has read.
//!
//! The messages are those of `tensorboard/compat/proto/event.proto` and `summary.proto`, and the records those of
//! `tensorflow/core/lib/io/record_writer.cc`, with the fields and tags that are used here.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crc::{CRC_32_ISCSI, Crc};
use prost::Message;

use super::{Folder, Result, RunError};

/// CRC-32C.
const CHECKSUM: Crc<u32> = Crc::<u32>::new(&CRC_32_ISCSI);
/// Added to a rotated checksum.
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
    /// Its step.
    pub(super) step: u64,
    /// Columns with their numbers.
    pub(super) values: Vec<(String, f64)>,
}

impl Scalars {
    fn event(&self, wall_time: f64) -> Event {
        let value = |(tag, number): &(String, f64)| Value { tag: tag.clone(), number: *number as f32 };
        let values = self.values.iter().map(value).collect();
        let step = i64::try_from(self.step).unwrap_or(i64::MAX);
        Event { wall_time, step, summary: Some(Summary { values }), ..Event::default() }
    }
}

/// The file of events of a run, open for further ones.
#[derive(Debug)]
pub(super) struct Events {
    file: File,
    path: PathBuf,
}

impl Events {
    /// Opens the file of events of a folder, which then has exactly the given measurements. If it has others, as after a
    /// kill, or is incomplete, another file replaces it. A measurement without an event gets the present time.
    ///
    /// # Errors
    /// If a file cannot be read, written or removed.
    pub(super) fn open(folder: &Folder, measured: &[Scalars]) -> Result<Events> {
        let found = files(folder.path())?;
        let mut times = BTreeMap::new();
        let mut is_same = found.len() == 1;
        for (_, path) in &found {
            let bytes = Folder::read(path)?.unwrap_or_default();
            let (events, whole) = read(&bytes);
            is_same &= whole == bytes.len();
            let shown: Vec<&Event> = events.iter().filter(|event| event.summary.is_some()).collect();
            is_same &= shown.len() == measured.len()
                && shown
                    .iter()
                    .zip(measured)
                    .all(|(event, scalars)| **event == scalars.event(event.wall_time))
                && events.first().is_some_and(|event| event.file_version.as_deref() == Some(VERSION));
            times.extend(shown.iter().map(|event| (event.step, event.wall_time)));
        }
        let path = match found.last() {
            Some((_, path)) if is_same => path.clone(),
            last => {
                let now = now();
                let after = last.map_or(0, |(seconds, _)| seconds + 1);
                let seconds = after.max(now as u64);
                let path = folder.path().join(format!("{PREFIX}{seconds:010}{SUFFIX}"));
                Folder::write(&path, &written(measured, &times, now))?;
                for (_, old) in &found {
                    std::fs::remove_file(old).map_err(|error| RunError::file("remove", old, &error))?;
                }
                path
            }
        };
        let file = File::options().append(true).open(&path);
        let file = file.map_err(|error| RunError::file("open", &path, &error))?;
        Ok(Events { file, path })
    }

    /// Appends a measurement in a single write, with the present time.
    ///
    /// # Errors
    /// If it cannot be written.
    pub(super) fn append(&mut self, measured: &Scalars) -> Result<()> {
        let record = record(&measured.event(now()));
        self.file.write_all(&record).map_err(|error| RunError::file("write", &self.path, &error))
    }
}

/// The contents of a file with some measurements: of known wall time, else of the time `now`.
fn written(measured: &[Scalars], times: &BTreeMap<i64, f64>, now: f64) -> Vec<u8> {
    let version = Event { wall_time: now, file_version: Some(VERSION.into()), ..Event::default() };
    let restart = Event { wall_time: now, session: Some(Session { status: START }), ..Event::default() };
    let mut bytes = [record(&version), record(&restart)].concat();
    for scalars in measured {
        let mut event = scalars.event(now);
        event.wall_time = times.get(&event.step).copied().unwrap_or(now);
        bytes.extend(record(&event));
    }
    bytes
}

/// The files of events in a folder that a run wrote, by the number in their names.
fn files(folder: &Path) -> Result<Vec<(u64, PathBuf)>> {
    let failed = |error: std::io::Error| RunError::file("read", folder, &error);
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let name = entry.file_name();
        let number = name.to_str().and_then(|name| name.strip_prefix(PREFIX)?.strip_suffix(SUFFIX));
        found.extend(number.and_then(|number| number.parse().ok()).map(|number| (number, entry.path())));
    }
    found.sort();
    Ok(found)
}

/// Seconds since 1970.
fn now() -> f64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64())
}

fn masked(bytes: &[u8]) -> [u8; 4] {
    CHECKSUM.checksum(bytes).rotate_right(15).wrapping_add(MASK).to_le_bytes()
}

/// An event as a record.
fn record(event: &Event) -> Vec<u8> {
    let message = event.encode_to_vec();
    let length = (message.len() as u64).to_le_bytes();
    [&length[..], &masked(&length), &message, &masked(&message)].concat()
}

/// The events of a file up to the first record that is incomplete or damaged, and the bytes that they take.
fn read(bytes: &[u8]) -> (Vec<Event>, usize) {
    let (mut events, mut at) = (Vec::new(), 0);
    while let Some((event, taken)) = first(&bytes[at..]) {
        events.push(event);
        at += taken;
    }
    (events, at)
}

/// The first event of some bytes, and the bytes of its record.
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

    /// What TensorBoard's own `RecordWriter` (2.21.0) writes for the version at 1.5 s, and at 2.5 s for the scalar
    /// `loss` of 0.5 at step 4.
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
        // A record is whole or it is not read.
        for cut in 0..bytes.len() {
            let first = if cut < 40 { 0 } else { 40 };
            assert_eq!(read(&bytes[..cut]).1, first, "{cut}");
        }
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1;
            assert!(read(&damaged).1 < bytes.len(), "{at}");
        }
    }

    /// Steps, numbers and wall times of the events of a folder, and the number of its files.
    fn shown(folder: &Path) -> (Vec<(i64, f32, f64)>, usize) {
        let files = files(folder).unwrap();
        let (events, whole) = read(&std::fs::read(&files[0].1).unwrap());
        assert_eq!(whole, std::fs::metadata(&files[0].1).unwrap().len() as usize);
        assert_eq!(events[0].file_version.as_deref(), Some(VERSION));
        assert_eq!(events[1].session, Some(Session { status: START }));
        let number = |event: &Event| {
            let value = &event.summary.as_ref().unwrap().values[0];
            assert_eq!(value.tag, "loss");
            (event.step, value.number, event.wall_time)
        };
        (events[2..].iter().map(number).collect(), files.len())
    }

    #[test]
    fn a_resumed_run_shows_every_step_once() {
        let scratch = tempfile::tempdir().unwrap();
        let folder = Folder::new(scratch.path()).unwrap();
        let mut events = Events::open(&folder, &[]).unwrap();
        let all = [scalars(4, 0.5), scalars(8, 0.25), scalars(12, 0.125)];
        all.iter().for_each(|scalars| events.append(scalars).unwrap());
        let (first, _) = shown(scratch.path());
        assert_eq!(
            first.iter().map(|row| (row.0, row.1)).collect::<Vec<_>>(),
            [(4, 0.5), (8, 0.25), (12, 0.125)]
        );

        // Nothing to drop: the same file is appended to.
        let before = files(scratch.path()).unwrap();
        events = Events::open(&folder, &all).unwrap();
        assert_eq!(files(scratch.path()).unwrap(), before);
        events.append(&scalars(16, 0.1)).unwrap();
        assert_eq!(shown(scratch.path()).0[..3], first[..]);

        // The state is that of step 8: a later file has its events, with their times, and the earlier one is gone.
        events = Events::open(&folder, &all[..2]).unwrap();
        assert_eq!(shown(scratch.path()), (first[..2].to_vec(), 1));
        assert!(files(scratch.path()).unwrap() > before);
        events.append(&scalars(12, 0.2)).unwrap();

        // A kill within a record.
        let (_, path) = files(scratch.path()).unwrap().remove(0);
        let bytes = std::fs::read(&path).unwrap();
        std::fs::write(&path, &bytes[..bytes.len() - 3]).unwrap();
        Events::open(&folder, &all[..2]).unwrap();
        assert_eq!(shown(scratch.path()), (first[..2].to_vec(), 1));

        // A kill between writing the new file and removing the old one.
        let (number, path) = files(scratch.path()).unwrap().remove(0);
        std::fs::copy(&path, scratch.path().join(format!("{PREFIX}{:010}{SUFFIX}", number + 1))).unwrap();
        Events::open(&folder, &all[..2]).unwrap();
        assert_eq!(shown(scratch.path()), (first[..2].to_vec(), 1));

        // A run without events, as earlier versions leave it.
        files(scratch.path()).unwrap().iter().for_each(|(_, path)| std::fs::remove_file(path).unwrap());
        Events::open(&folder, &all[..2]).unwrap();
        let (rows, _) = shown(scratch.path());
        assert!(rows.iter().zip(&first).all(|(now, then)| now.1 == then.1 && now.2 >= then.2), "{rows:?}");
    }
}
