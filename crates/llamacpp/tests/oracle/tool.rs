//! `llama-fit-params` with servers on this machine as its devices.

use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use stagewright_llamacpp::{Class, Device, Setting};

/// Port of the first server in stored lines.
const FIRST_PORT: u16 = 50052;

/// Servers of a machine.
pub(super) const SERVERS: usize = 3;

/// A server as a device of some memory. llama.cpp neither pipelines micro-batches over servers nor takes memory of its own
/// there, nor copies weights of the host to them for large batches.
pub(super) fn server(index: usize, memory: u64) -> Device {
    let mut device = Device::new(&format!("RPC{index}"), Class::Rocm, memory, 936e9, 71e12);
    device.buffer = buffer(FIRST_PORT + index as u16);
    device
}

/// Buffer type of a server: it counts its own devices, of which it has one, and not the servers.
fn buffer(port: u16) -> String {
    format!("RPC0[127.0.0.1:{port}]")
}

/// MiB of weights, cache and buffers, rounded down.
pub(super) type Row = [u64; 3];

/// Rows in a line of a file.
pub(super) fn stored(rows: &str) -> Vec<Row> {
    let row = |row: &str| -> Option<Row> {
        let numbers = row.split_whitespace().map(|number| number.parse().ok());
        numbers.collect::<Option<Vec<u64>>>()?.try_into().ok()
    };
    rows.split(',').filter_map(row).collect()
}

/// Rows as a part of a line of a file.
pub(super) fn written(rows: &[Row]) -> String {
    let rows: Vec<String> = rows.iter().map(|[a, b, c]| format!("{a} {b} {c}")).collect();
    rows.join(", ")
}

/// Programs of llama.cpp, and servers that end with it.
pub(super) struct Tool {
    folder: PathBuf,
    servers: Vec<Child>,
    ports: Vec<u16>,
}

impl Tool {
    /// Starts the servers, with programs in the folder that `STAGEWRIGHT_LLAMA_CPP` names; `None` if it is not set.
    pub(super) fn start() -> Option<Tool> {
        let folder = PathBuf::from(std::env::var_os("STAGEWRIGHT_LLAMA_CPP")?);
        let mut tool = Tool { folder, servers: Vec::new(), ports: Vec::new() };
        for _ in 0..SERVERS {
            let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
            let mut server = tool.program("ggml-rpc-server");
            server.args(["-H", "127.0.0.1", "-t", "1", "-p", &port.to_string()]);
            server.stdout(Stdio::null()).stderr(Stdio::null());
            let folder = tool.folder.display();
            tool.servers
                .push(server.spawn().unwrap_or_else(|error| panic!("ggml-rpc-server in {folder}: {error}")));
            tool.ports.push(port);
        }
        let until = Instant::now() + Duration::from_secs(30);
        for &port in &tool.ports {
            while TcpStream::connect(("127.0.0.1", port)).is_err() {
                assert!(Instant::now() < until, "ggml-rpc-server does not listen on port {port}");
                std::thread::sleep(Duration::from_millis(20));
            }
        }
        Some(tool)
    }

    fn program(&self, name: &str) -> Command {
        Command::new(self.folder.join(name))
    }

    /// A line with the ports of these servers.
    fn live(&self, line: &str) -> String {
        let mut line = line.to_owned();
        for (index, &port) in self.ports.iter().enumerate() {
            line = line.replace(&buffer(FIRST_PORT + index as u16), &buffer(port));
        }
        line
    }

    /// Memory of the devices of a setting in their order, and of the host. Weights are neither read nor laid out anew.
    pub(super) fn memory(&self, model: &Path, setting: &Setting) -> Result<Vec<Row>, String> {
        let line = self.live(&setting.line());
        let output = self.asked(model, SERVERS, &format!("{line} --no-repack -fitp on"));
        let printed = String::from_utf8_lossy(&output.stdout);
        let row = |row: &str| {
            let mut words = row.split_whitespace();
            let name = words.next()?.to_owned();
            let numbers = words.map(|word| word.parse().ok()).collect::<Option<Vec<u64>>>()?;
            Some((name, numbers.try_into().ok()?))
        };
        let rows: Vec<(String, Row)> = printed.lines().filter_map(row).collect();
        let names = setting.devices.iter().map(|device| device.name.as_str()).chain(["Host"]);
        let find = |name: &str| rows.iter().find(|row| row.0 == name).map(|row| row.1);
        let found = names.map(find).collect::<Option<Vec<Row>>>().filter(|_| output.status.success());
        found.ok_or_else(|| format!("{line}\n{printed}\n{}", String::from_utf8_lossy(&output.stderr)))
    }

    /// A printed line with the names of cards for those of the servers that stand for them.
    pub(super) fn named(&self, line: &str, cards: &[Device]) -> String {
        let cards = self.ports.iter().zip(cards);
        cards.fold(line.to_owned(), |line, (&port, card)| line.replace(&buffer(port), &card.name))
    }

    /// MiB of memory that a server has: those of this machine.
    pub(super) fn memory_of_server(&self, model: &Path) -> u64 {
        let output = self.asked(model, 1, "--list-devices");
        let printed = String::from_utf8_lossy(&output.stdout);
        // `RPC0: 127.0.0.1:50052 (24105 MiB, 24105 MiB free)`
        let free = printed.lines().find_map(|line| line.split_once("MiB, ")?.1.split_once(" MiB free"));
        free.and_then(|(free, _)| free.parse().ok()).unwrap_or_else(|| panic!("no memory in {printed}"))
    }

    /// What `llama-fit-params` says of a model on the first servers, with options that are quoted as in a shell.
    pub(super) fn asked(&self, model: &Path, servers: usize, options: &str) -> Output {
        let servers: Vec<String> =
            self.ports[..servers].iter().map(|port| format!("127.0.0.1:{port}")).collect();
        let script = format!("exec \"$0\" \"$@\" -fa on {options}");
        let mut shell = Command::new("sh");
        shell.args(["-c", &script]).arg(self.folder.join("llama-fit-params")).arg("-m").arg(model);
        shell.args(["--rpc", &servers.join(",")]).output().expect("a shell")
    }
}

impl Drop for Tool {
    fn drop(&mut self) {
        for server in &mut self.servers {
            // A server that has ended already needs no end.
            let _ = server.kill();
            let _ = server.wait();
        }
    }
}
