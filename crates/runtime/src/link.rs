//! Links between processes: frames over TCP on the loopback interface, and a token bucket that throttles them.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::Path;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::protocol::{Throttle, now};
use crate::tensor::Tensor;

/// Largest rank of a tensor in a frame.
const LARGEST_RANK: u32 = 64;

/// Maximum number of connections that have yet to present their token.
const MOST_WAITING: usize = 64;

/// Time for a connection to present its token. Processes of the run present it immediately.
const TIME_FOR_TOKEN: Duration = Duration::from_secs(60);

/// Pause after a connection could not be accepted, such as for want of file descriptors.
const PAUSE: Duration = Duration::from_millis(10);

/// Time without an accepted connection after which the failure to accept is an error. Connections without a token are
/// closed earlier.
const TIME_TO_ACCEPT: Duration = TIME_FOR_TOKEN.saturating_mul(2);

/// Sends a tensor: its value, sample, type, shape and content.
///
/// # Errors
/// If the connection is closed.
pub(crate) fn send(stream: &mut impl Write, value: u32, sample: u32, tensor: &Tensor) -> io::Result<()> {
    let mut head = Vec::with_capacity(16 + 8 * tensor.dims.len());
    for number in [value, sample, tensor.elem as u32, tensor.dims.len() as u32] {
        head.extend(number.to_le_bytes());
    }
    tensor.dims.iter().for_each(|dim| head.extend(dim.to_le_bytes()));
    stream.write_all(&head)?;
    stream.write_all(tensor.bytes())
}

/// The head of a frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Head {
    /// Number of the value.
    pub(crate) value: u32,
    /// The sample.
    pub(crate) sample: u32,
    /// Element type, as in ONNX.
    pub(crate) elem: i32,
    /// Shape.
    pub(crate) dims: Vec<u64>,
}

/// A received tensor.
pub(crate) struct Received {
    /// Number of the value.
    pub(crate) value: u32,
    /// The sample.
    pub(crate) sample: u32,
    /// Time at which the first byte of the tensor arrived.
    pub(crate) started: u64,
    /// The tensor.
    pub(crate) tensor: Tensor,
}

/// Reads the head of a frame; `None` at the end of the stream.
///
/// # Errors
/// If the stream ends within the head, or the rank is too large.
pub(crate) fn head(stream: &mut impl Read) -> io::Result<Option<Head>> {
    let mut words = [0; 16];
    match stream.read(&mut words[..1])? {
        0 => return Ok(None),
        _ => stream.read_exact(&mut words[1..])?,
    }
    let word = |index: usize| {
        u32::from_le_bytes([words[index], words[index + 1], words[index + 2], words[index + 3]])
    };
    let rank = word(12);
    if rank > LARGEST_RANK {
        return Err(invalid(format!("a tensor of rank {rank}")));
    }
    let mut dims = vec![0; rank as usize];
    for dim in &mut dims {
        let mut bytes = [0; 8];
        stream.read_exact(&mut bytes)?;
        *dim = u64::from_le_bytes(bytes);
    }
    Ok(Some(Head { value: word(0), sample: word(4), elem: word(8) as i32, dims }))
}

/// Receives a tensor; `None` if the connection was closed without one.
///
/// # Errors
/// If the connection is closed within a frame, or the frame is invalid.
pub(crate) fn receive(stream: &mut impl Read) -> io::Result<Option<Received>> {
    let Some(head) = head(stream)? else { return Ok(None) };
    let started = now();
    let mut tensor = Tensor::zeros(head.elem, &head.dims).map_err(invalid)?;
    stream.read_exact(tensor.bytes_mut())?;
    Ok(Some(Received { value: head.value, sample: head.sample, started, tensor }))
}

fn invalid(message: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, message)
}

/// Writes outputs of a model to a file, by their positions.
pub(crate) fn write_outputs<'a>(
    path: &Path,
    outputs: impl Iterator<Item = (u32, &'a Tensor)>,
) -> Result<(), String> {
    let failed = |error: io::Error| format!("{} cannot be written: {error}", path.display());
    let mut file = io::BufWriter::new(File::options().create(true).append(true).open(path).map_err(failed)?);
    for (index, tensor) in outputs {
        send(&mut file, index, 0, tensor).map_err(failed)?;
    }
    file.flush().map_err(failed)
}

/// Connects to a process, and presents the token of the run.
///
/// # Errors
/// If the connection is refused or breaks.
pub(crate) fn connect(port: u16, token: &str) -> io::Result<TcpStream> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_nodelay(true)?;
    stream.write_all(token.as_bytes())?;
    Ok(stream)
}

/// Accepts connections until the process ends, and passes on those of the same run. Each connection presents its token
/// to a thread of its own, so a silent one blocks no other; any program on the machine may connect. If too many
/// connections wait, the oldest is closed. Nothing is passed on after an error.
pub(crate) fn admit(listener: TcpListener, token: &str) -> Receiver<io::Result<TcpStream>> {
    let (sender, admitted) = channel();
    let token: Arc<[u8]> = token.as_bytes().into();
    thread::spawn(move || {
        let waiting: Arc<Mutex<BTreeMap<usize, Arc<TcpStream>>>> = Arc::default();
        let mut fails_since = None;
        for number in 0.. {
            let stream = match listener.accept() {
                Ok((stream, _)) => Arc::new(stream),
                Err(error) => {
                    if fails_since.get_or_insert_with(Instant::now).elapsed() >= TIME_TO_ACCEPT {
                        // The receiver is dropped once all processes of the run are connected.
                        let _ = sender.send(Err(error));
                        return;
                    }
                    thread::sleep(PAUSE);
                    continue;
                }
            };
            fails_since = None;
            let mut all = locked(&waiting);
            all.insert(number, Arc::clone(&stream));
            if all.len() > MOST_WAITING
                && let Some((_, oldest)) = all.pop_first()
            {
                // The thread of this connection then reads the end of the stream.
                let _ = oldest.shutdown(Shutdown::Both);
            }
            drop(all);
            let (waiting, token, sender) = (Arc::clone(&waiting), Arc::clone(&token), sender.clone());
            thread::spawn(move || {
                let has_shown = shows(&stream, &token).is_ok_and(|is_so| is_so);
                // A stream that was closed to make room is no longer waiting.
                let kept = locked(&waiting).remove(&number).filter(|_| has_shown);
                drop(stream);
                if let Some(stream) = kept.and_then(Arc::into_inner) {
                    // The receiver is dropped once all processes of the run are connected.
                    let _ = sender.send(Ok(stream));
                }
            });
        }
    });
    admitted
}

fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether a connection shows the token of the run in time.
fn shows(mut stream: &TcpStream, token: &[u8]) -> io::Result<bool> {
    let end = Instant::now() + TIME_FOR_TOKEN;
    let (mut shown, mut count) = (vec![0; token.len()], 0);
    while count < token.len() {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(false);
        }
        stream.set_read_timeout(Some(left))?;
        match stream.read(&mut shown[count..])? {
            0 => return Ok(false),
            more => count += more,
        }
        if shown[..count] != token[..count] {
            return Ok(false);
        }
    }
    stream.set_read_timeout(None)?;
    stream.set_nodelay(true)?;
    Ok(true)
}

/// A token bucket without a burst: bytes pass at a rate, and a sender that is too early waits.
#[derive(Debug)]
pub(crate) struct Bucket {
    throttle: Option<Throttle>,
    free_at: Instant,
}

impl Bucket {
    /// A bucket with the limits of a throttle; unlimited without one.
    pub(crate) fn new(throttle: Option<Throttle>) -> Bucket {
        Bucket { throttle, free_at: Instant::now() }
    }

    /// Reserves the link for a tensor. Returns the time at which the tensor will have passed, or `None` without a
    /// throttle.
    pub(crate) fn reserve(&mut self, bytes: usize) -> Option<Instant> {
        let throttle = self.throttle?;
        let seconds = throttle.latency_s + bytes as f64 / throttle.bandwidth;
        self.free_at = self.free_at.max(Instant::now()) + Duration::from_secs_f64(seconds.min(1e6));
        Some(self.free_at)
    }
}

/// Waits until a tensor has passed.
pub(crate) fn pass(until: Option<Instant>) {
    if let Some(until) = until {
        thread::sleep(until.saturating_duration_since(Instant::now()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_passes_bytes_at_its_rate() {
        // The transfers take minutes, so that the clock cannot overtake the bucket between the two reservations.
        let mut bucket = Bucket::new(Some(Throttle { bandwidth: 1e3, latency_s: 0.5 }));
        let start = Instant::now();
        let [first, second] = [500_000, 1_000_000].map(|bytes| bucket.reserve(bytes).unwrap());
        assert!(first >= start + Duration::from_secs_f64(500.5));
        assert_eq!(second - first, Duration::from_secs_f64(1000.5));
        assert!(Bucket::new(None).reserve(1 << 40).is_none());
    }

    #[test]
    fn whoever_says_nothing_or_something_else_keeps_nobody_waiting() {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let admitted = admit(listener, "the token");
        // A message that never arrives fails the test.
        let limit = Duration::from_secs(600);
        let other = |said: &str| {
            let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
            stream.write_all(said.as_bytes()).unwrap();
            stream
        };
        // Connections that are silent, stop in the middle of a token, present a wrong one, or exceed the number that
        // may wait.
        let mut idle: Vec<TcpStream> = ["", "the", "a token\n"].into_iter().map(other).collect();
        idle.extend((0..3 * MOST_WAITING).map(|_| other("")));
        for sample in 0..3 {
            let mut own = connect(port, "the token").unwrap();
            let mut stream = admitted.recv_timeout(limit).unwrap().unwrap();
            stream.set_read_timeout(Some(limit)).unwrap();
            own.write_all(&[sample]).unwrap();
            let mut received = [0];
            stream.read_exact(&mut received).unwrap();
            assert_eq!(received, [sample]);
            idle.push(other(""));
        }
        // The first connections were closed to make room.
        idle[0].set_read_timeout(Some(limit)).unwrap();
        let is_closed = match idle[0].read(&mut [0]) {
            Ok(count) => count == 0,
            Err(error) => ![io::ErrorKind::WouldBlock, io::ErrorKind::TimedOut].contains(&error.kind()),
        };
        assert!(is_closed);
    }

    #[test]
    fn a_frame_with_a_false_rank_is_refused() {
        let mut head = vec![0; 12];
        head.extend(1000_u32.to_le_bytes());
        assert!(receive(&mut head.as_slice()).is_err());
        assert!(receive(&mut [0_u8; 0].as_slice()).unwrap().is_none());
    }
}
