//! Links between processes: frames over TCP on the loopback interface, and a token bucket that throttles them.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

use crate::protocol::Throttle;
use crate::tensor::Tensor;

/// Longest shape of a frame.
const LARGEST_RANK: u32 = 64;

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
    /// When its first byte was there.
    pub(crate) started: u64,
    /// The tensor.
    pub(crate) tensor: Tensor,
}

/// Reads the head of a frame; `None` at the end of the stream.
///
/// # Errors
/// If the stream ends within it, or its rank is false.
pub(crate) fn head(stream: &mut impl Read) -> io::Result<Option<Head>> {
    let mut words = [0; 16];
    match stream.read(&mut words[..1])? {
        0 => return Ok(None),
        _ => stream.read_exact(&mut words[1..])?,
    }
    let word = |at: usize| u32::from_le_bytes([words[at], words[at + 1], words[at + 2], words[at + 3]]);
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

/// Receives a tensor; `None` if the connection was closed before one.
///
/// # Errors
/// If the connection is closed within a frame, or the frame is invalid.
pub(crate) fn receive(stream: &mut impl Read) -> io::Result<Option<Received>> {
    let Some(head) = head(stream)? else { return Ok(None) };
    let started = crate::worker::now();
    let mut tensor = Tensor::zeros(head.elem, &head.dims).map_err(invalid)?;
    stream.read_exact(tensor.bytes_mut())?;
    Ok(Some(Received { value: head.value, sample: head.sample, started, tensor }))
}

fn invalid(message: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, message)
}

/// Connects to a process, and shows that it belongs to the same run.
///
/// # Errors
/// If nobody listens.
pub(crate) fn connect(port: u16, token: &str) -> io::Result<TcpStream> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_nodelay(true)?;
    stream.write_all(token.as_bytes())?;
    Ok(stream)
}

/// Accepts a connection of the same run; others are closed.
///
/// # Errors
/// If the listener fails. It waits until a connection comes: whoever started the process limits the time.
pub(crate) fn accept(listener: &std::net::TcpListener, token: &str) -> io::Result<TcpStream> {
    loop {
        let (mut stream, _) = listener.accept()?;
        stream.set_read_timeout(Some(Duration::from_secs(10)))?;
        let mut shown = vec![0; token.len()];
        if stream.read_exact(&mut shown).is_ok() && shown == token.as_bytes() {
            stream.set_read_timeout(None)?;
            stream.set_nodelay(true)?;
            return Ok(stream);
        }
    }
}

/// A token bucket without a burst: bytes pass at a rate, and whoever comes too early waits.
#[derive(Debug)]
pub(crate) struct Bucket {
    throttle: Option<Throttle>,
    free_at: Instant,
}

impl Bucket {
    /// A bucket that lets everything pass if there is no throttle.
    pub(crate) fn new(throttle: Option<Throttle>) -> Bucket {
        Bucket { throttle, free_at: Instant::now() }
    }

    /// Reserves the link for a tensor, and returns when it has passed.
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
        let mut bucket = Bucket::new(Some(Throttle { bandwidth: 1e6, latency_s: 0.5 }));
        let start = Instant::now();
        bucket.reserve(500_000);
        let end = bucket.reserve(1_000_000).unwrap().duration_since(start).as_secs_f64();
        assert!((2.5..2.6).contains(&end), "{end}");
        assert!(Bucket::new(None).reserve(1 << 40).is_none());
    }

    #[test]
    fn a_frame_with_a_false_rank_is_refused() {
        let mut head = vec![0; 12];
        head.extend(1000_u32.to_le_bytes());
        assert!(receive(&mut head.as_slice()).is_err());
        assert!(receive(&mut [0_u8; 0].as_slice()).unwrap().is_none());
    }
}
