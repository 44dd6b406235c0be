//! A headless Chromium, driven over the DevTools protocol.
//!
//! The protocol is JSON over a WebSocket: numbered commands, replies with the same numbers, and events in between,
//! which are stored until they are read.

use std::fs;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;
use tungstenite::{Message, WebSocket};

/// Names of the Chromium program.
const NAMES: [&str; 5] = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome"];
/// Maximum time to wait for an answer, sufficient on any machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// A browser with one page.
pub(crate) struct Browser {
    socket: WebSocket<TcpStream>,
    session: Option<String>,
    sent: u64,
    events: Vec<Value>,
    // Fields are dropped in this order, so that the folder is removed after the last write to it.
    _process: Process,
    _profile: TempDir,
}

/// The browser on this machine, if any: `STAGEWRIGHT_CHROMIUM`, or one of the usual names.
fn program() -> Option<PathBuf> {
    if let Some(given) = std::env::var_os("STAGEWRIGHT_CHROMIUM") {
        return Some(given.into());
    }
    let folders: Vec<PathBuf> = std::env::split_paths(&std::env::var_os("PATH")?).collect();
    let places = NAMES.iter().flat_map(|name| folders.iter().map(move |folder| folder.join(name)));
    places.into_iter().find(|path| path.is_file())
}

impl Browser {
    /// Starts a browser with an empty profile. Without Chromium, prints that the test is skipped and returns `None`.
    pub(crate) fn start() -> Option<Browser> {
        let Some(program) = program() else {
            println!("skipped: there is no Chromium; data/setup/install-browser installs one");
            return None;
        };
        let profile = TempDir::new().expect("a temporary folder");
        let process = Command::new(program)
            .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"])
            .args(["--disable-background-networking", "--disable-component-update", "--disable-sync"])
            .args(["--disable-dev-shm-usage", "--hide-scrollbars", "--remote-debugging-port=0"])
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .arg("about:blank")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("Chromium starts");
        let process = Process(process);
        let address = address(profile.path());
        let stream = TcpStream::connect(("127.0.0.1", address.0)).expect("Chromium listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a socket with a time-out");
        let url = format!("ws://127.0.0.1:{}{}", address.0, address.1);
        let (socket, _) = tungstenite::client(url, stream).expect("Chromium speaks its protocol");
        let (session, events) = (None, Vec::new());
        let mut browser = Browser { socket, session, sent: 0, events, _process: process, _profile: profile };
        let target = browser.send("Target.createTarget", json!({"url": "about:blank"}));
        let target = json!({"targetId": target["targetId"], "flatten": true});
        let session = browser.send("Target.attachToTarget", target);
        browser.session = session["sessionId"].as_str().map(str::to_owned);
        for domain in ["Page", "Runtime", "Log", "Network"] {
            browser.send(&format!("{domain}.enable"), json!({}));
        }
        Some(browser)
    }

    /// Sends a command and waits for its answer.
    pub(crate) fn send(&mut self, method: &str, parameters: Value) -> Value {
        self.sent += 1;
        let mut message = json!({"id": self.sent, "method": method, "params": parameters});
        if let Some(session) = &self.session {
            message["sessionId"] = session.clone().into();
        }
        self.socket.send(Message::text(message.to_string())).expect("Chromium listens");
        loop {
            let message = self.receive();
            if message["id"] == self.sent {
                assert!(message["error"].is_null(), "{method}: {}", message["error"]);
                return message["result"].clone();
            }
            self.events.push(message);
        }
    }

    fn receive(&mut self) -> Value {
        loop {
            if let Message::Text(text) = self.socket.read().expect("Chromium answers in time") {
                return serde_json::from_str(&text).expect("the protocol is JSON");
            }
        }
    }

    /// Opens a file and waits until it is loaded, all scripts have run and one frame is drawn. Returns the time that
    /// this took.
    pub(crate) fn open(&mut self, path: &Path) -> Duration {
        let started = Instant::now();
        self.open_still(path);
        self.evaluate(
            "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(1))))",
        );
        started.elapsed()
    }

    /// Opens a file and waits until it is loaded.
    pub(crate) fn open_still(&mut self, path: &Path) {
        self.events.clear();
        let answer = self.send("Page.navigate", json!({"url": format!("file://{}", path.display())}));
        assert!(answer["errorText"].is_null(), "{answer}");
        while !self.events.iter().any(|event| event["method"] == "Page.loadEventFired") {
            let event = self.receive();
            self.events.push(event);
        }
    }

    /// Evaluates a JavaScript expression.
    pub(crate) fn evaluate(&mut self, expression: &str) -> Value {
        let asked = json!({"expression": expression, "awaitPromise": true, "returnByValue": true});
        let answer = self.send("Runtime.evaluate", asked);
        assert!(answer["exceptionDetails"].is_null(), "{expression}: {}", answer["exceptionDetails"]);
        answer["result"]["value"].clone()
    }

    /// Returns the text of an element.
    pub(crate) fn text(&mut self, selector: &str) -> String {
        let text = self.evaluate(&format!("document.querySelector({}).textContent", json!(selector)));
        text.as_str().expect("an element has a text").to_owned()
    }

    /// Presses and releases a key.
    pub(crate) fn press(&mut self, key: &str) {
        let (text, code) = match key {
            "Tab" => ("", 9),
            "Enter" => ("\r", 13),
            " " => (" ", 32),
            "End" => ("", 35),
            "Home" => ("", 36),
            "ArrowLeft" => ("", 37),
            "ArrowUp" => ("", 38),
            "ArrowRight" => ("", 39),
            "ArrowDown" => ("", 40),
            _ => panic!("{key} has no code here"),
        };
        for kind in ["keyDown", "keyUp"] {
            let text = if kind == "keyDown" { text } else { "" };
            let event = json!({"type": kind, "key": key, "text": text, "windowsVirtualKeyCode": code});
            self.send("Input.dispatchKeyEvent", event);
        }
    }

    /// Moves the pointer to the middle of the element that a JavaScript expression returns. Returns its position.
    pub(crate) fn point(&mut self, element: &str) -> [f64; 2] {
        let middle = format!(
            "(() => {{ const at = {element}; at.scrollIntoView({{ block: 'center', behavior: 'instant' }}); \
             const {{ left, top, width, height }} = at.getBoundingClientRect(); \
             return [left + width / 2, top + height / 2]; }})()"
        );
        let place: [f64; 2] = serde_json::from_value(self.evaluate(&middle)).expect("two numbers");
        self.send("Input.dispatchMouseEvent", json!({"type": "mouseMoved", "x": place[0], "y": place[1]}));
        place
    }

    /// Clicks on the middle of the element that a JavaScript expression returns.
    pub(crate) fn click(&mut self, element: &str) {
        let [x, y] = self.point(element);
        for kind in ["mousePressed", "mouseReleased"] {
            let event = json!({"type": kind, "x": x, "y": y, "button": "left", "clickCount": 1});
            self.send("Input.dispatchMouseEvent", event);
        }
    }

    /// Sets the size of the window in CSS pixels.
    pub(crate) fn resize(&mut self, width: u32, height: u32) {
        let size = json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 700});
        self.send("Emulation.setDeviceMetricsOverride", size);
    }

    /// Sets the preferred colour scheme: `dark` or `light`.
    pub(crate) fn prefer(&mut self, scheme: &str) {
        let feature = json!({"name": "prefers-color-scheme", "value": scheme});
        self.send("Emulation.setEmulatedMedia", json!({"features": [feature]}));
    }

    /// Takes a screenshot of the window or, with `whole`, of the entire page. Returns a PNG in base64.
    pub(crate) fn picture(&mut self, whole: bool) -> String {
        let answer =
            self.send("Page.captureScreenshot", json!({"format": "png", "captureBeyondViewport": whole}));
        answer["data"].as_str().expect("a picture").to_owned()
    }

    /// Errors and console messages of the page since it was opened, and every other address that it requested.
    pub(crate) fn complaints(&mut self) -> Vec<String> {
        // Events that were pending have arrived by the time this command is answered.
        let own = self.evaluate("location.href.split('#')[0]");
        let complaint = |event: &Value| {
            let parameters = &event["params"];
            match event["method"].as_str()? {
                "Runtime.exceptionThrown" | "Log.entryAdded" => Some(parameters.to_string()),
                "Runtime.consoleAPICalled" => Some(parameters.to_string()),
                "Network.requestWillBeSent" if parameters["request"]["url"] != own => {
                    Some(parameters["request"]["url"].to_string())
                }
                _ => None,
            }
        };
        self.events.iter().filter_map(complaint).collect()
    }
}

/// A process that is killed when dropped.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        // Fails if the process has already ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Port and path at which the browser with this profile listens.
fn address(profile: &Path) -> (u16, String) {
    let started = Instant::now();
    loop {
        let text = fs::read_to_string(profile.join("DevToolsActivePort")).unwrap_or_default();
        if let Some((port, path)) = text.trim().split_once('\n') {
            return (port.parse().expect("a port"), path.to_owned());
        }
        assert!(started.elapsed() < PATIENCE, "Chromium does not start");
        sleep(Duration::from_millis(20));
    }
}
