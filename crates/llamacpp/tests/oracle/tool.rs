//! `llama-fit-params` with servers on this machine as its devices.

use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::cases::{FIRST_PORT, SERVERS, buffer};

/// Programs of llama.cpp, and servers that end with it.
pub(super) struct Tool {
    folder: PathBuf,
    servers: Vec<Child>,
    ports: Vec<u16>,
}

/// Rows of the answer: a device or the host, and MiB of weights, cache and buffers, rounded down.
pub(super) type Rows = Vec<(String, [u64; 3])>;

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

    /// Memory under a line, whose words are quoted as in a shell. Weights are neither read nor laid out anew.
    pub(super) fn memory(&self, model: &Path, line: &str) -> Result<Rows, String> {
        let servers: Vec<String> = self.ports.iter().map(|port| format!("127.0.0.1:{port}")).collect();
        let program = self.folder.join("llama-fit-params");
        let script = format!("exec \"$0\" \"$@\" {}", self.live(line));
        let mut shell = Command::new("sh");
        shell.args(["-c", &script]).arg(program).arg("-m").arg(model).args(["--rpc", &servers.join(",")]);
        let output = shell.args(["-fa", "on", "-fitp", "on"]).output().expect("a shell");
        let printed = String::from_utf8_lossy(&output.stdout);
        let row = |row: &str| {
            let mut words = row.split_whitespace();
            let name = words.next()?.to_owned();
            let numbers = words.map(|word| word.parse().ok()).collect::<Option<Vec<u64>>>()?;
            Some((name, numbers.try_into().ok()?))
        };
        let rows: Rows = printed.lines().filter_map(row).collect();
        let errors = String::from_utf8_lossy(&output.stderr);
        let is_whole = output.status.success() && rows.len() > 1;
        if is_whole { Ok(rows) } else { Err(format!("{line}\n{printed}\n{errors}")) }
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
