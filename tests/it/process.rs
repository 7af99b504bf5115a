//! The built binary as a process that runs until it is stopped, and requests written by hand.

use std::io::{BufRead as _, BufReader, Read, Write as _};
use std::net::TcpStream;
use std::ops::{Deref, DerefMut};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread::sleep;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use serde_json::{Value, json};

use crate::support::{KEY, Outcome, PATIENCE, finish, listing, text, with_default_signals, wrs_emulator};
use crate::wire::peer::GOOD;

/// A subscribe request of the sample key, without its body.
pub(crate) const SUBSCRIBE: &str = "POST /v1/events/subscribe HTTP/1.1\r\nAuthorization: Bearer sk_test_local";
/// An address without a listener.
pub(crate) const NOWHERE: &str = "http://127.0.0.1:1";
/// A status check of the sample key.
pub(crate) const STATUS: &str = "GET /v1/system/status HTTP/1.1\r\nAuthorization: Bearer sk_test_local";

/// A program that runs beside a test, the one way in which tests start any. Killed when dropped, so that a test that panics leaves nothing
/// behind.
pub(crate) struct Started {
    child: Option<Child>,
    /// Whether it leads a group of processes, which are killed with it.
    leads: bool,
}

impl Started {
    pub(crate) fn new(command: &mut Command) -> Self {
        Self { child: Some(command.spawn().expect("the program runs")), leads: false }
    }

    /// Leading a group of its own, which is killed with all that it runs.
    pub(crate) fn with_group(command: &mut Command) -> Self {
        let mut started = Self::new(command.process_group(0));
        started.leads = true;
        started
    }

    /// Waits for the end, but not for ever: a program that hangs is killed, and its test fails.
    pub(crate) fn output(mut self) -> Output {
        let child = self.child.take().expect("it is there until now");
        let (id, leads) = (child.id(), self.leads);
        let (done, ended) = channel::<()>();
        let watchdog = std::thread::spawn(move || {
            let hangs = ended.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout);
            if hangs {
                kill(id, leads);
            }
            hangs
        });
        let output = child.wait_with_output().expect("it ends");
        drop(done);
        assert!(!watchdog.join().expect("the watchdog ends"), "it did not end by itself: {output:?}");
        output
    }
}

impl Deref for Started {
    type Target = Child;

    fn deref(&self) -> &Child {
        self.child.as_ref().expect("it is there until `output`")
    }
}

impl DerefMut for Started {
    fn deref_mut(&mut self) -> &mut Child {
        self.child.as_mut().expect("it is there until `output`")
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        // Once it was waited for, another process may have its number.
        if let Some(child) = &mut self.child
            && let Ok(None) = child.try_wait()
        {
            kill(child.id(), self.leads);
            let _ = child.wait();
        }
    }
}

/// Kills a process that was not waited for yet, or its group.
fn kill(id: u32, group: bool) {
    let pid = i32::try_from(id).ok().and_then(Pid::from_raw).expect("a process's number");
    // It may have ended already.
    let _ = if group { kill_process_group(pid, Signal::KILL) } else { kill_process(pid, Signal::KILL) };
}

/// A process that prints a ready line with its URL: an emulator, or another command that listens. Killed when dropped.
pub(crate) struct Served {
    pub(crate) child: Started,
    pub(crate) stdout: BufReader<ChildStdout>,
    pub(crate) ready: String,
    pub(crate) url: String,
}

impl Served {
    pub(crate) fn start(arguments: &[&str]) -> Self {
        Self::spawn(&mut wrs_emulator(&[&["serve", "--listen", "127.0.0.1:0", "--seed", "1"], arguments].concat()))
    }

    /// Starts an emulator after this line of shell.
    pub(crate) fn start_after(line: &str, arguments: &[&str]) -> Self {
        let script = format!("{line}; exec \"$0\" \"$@\"");
        let mut command = with_default_signals("sh");
        command.args(["-c", &script, env!("CARGO_BIN_EXE_wrs-emulator"), "serve", "--listen", "127.0.0.1:0"]);
        Self::spawn(command.args(arguments).current_dir(std::env::temp_dir()))
    }

    pub(crate) fn spawn(command: &mut Command) -> Self {
        // With an arena of the allocator for each thread, resident memory would depend on which threads had work.
        let command = command.env("MALLOC_ARENA_MAX", "1");
        let mut child = Started::new(command.stdout(Stdio::piped()).stderr(Stdio::piped()));
        let mut stdout = BufReader::new(child.stdout.take().expect("a pipe"));
        let mut ready = String::new();
        stdout.read_line(&mut ready).expect("a ready line");
        let start = ready.find("http").unwrap_or_else(|| panic!("no address in `{ready}`"));
        let url: String = ready[start..].chars().take_while(|c| !c.is_whitespace() && *c != '"').collect();
        Self { child, stdout, ready, url: url.replace("0.0.0.0", "127.0.0.1") }
    }

    pub(crate) fn address(&self) -> &str {
        self.url.split("//").nth(1).and_then(|rest| rest.split('/').next()).expect("an address")
    }

    /// A client command against this emulator.
    pub(crate) fn call(&self, arguments: &[&str]) -> Outcome {
        finish(wrs_emulator(arguments).env("WRS_EMULATOR_URL", &self.url))
    }

    /// What a command prints that succeeds.
    #[track_caller]
    pub(crate) fn said(&self, arguments: &[&str]) -> String {
        text(&self.call(arguments).exits(0).stdout)
    }

    /// What a command writes to stderr that ends with this exit code.
    #[track_caller]
    pub(crate) fn fails(&self, arguments: &[&str], code: i32) -> String {
        text(&self.call(arguments).exits(code).stderr)
    }

    /// The document or the listing that a command prints.
    pub(crate) fn json(&self, arguments: &[&str]) -> Value {
        let output = self.call(arguments);
        if let Some(listing) = listing(&text(&output.stdout)) {
            return listing;
        }
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{arguments:?}: {error}: {output:?}"))
    }

    /// The id of the newest of these records.
    pub(crate) fn newest(&self, records: &str) -> String {
        self.json(&[records, "--json"])["data"][0]["id"].as_str().expect("an id").to_owned()
    }

    /// A request of the sample key with a body of JSON: status and body.
    pub(crate) fn send(&self, method: &str, path: &str, body: impl AsRef<[u8]>) -> (u16, String) {
        self.send_as("application/json", method, path, body)
    }

    pub(crate) fn send_as(&self, media: &str, method: &str, path: &str, body: impl AsRef<[u8]>) -> (u16, String) {
        let body = body.as_ref();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {KEY}\r\nContent-Type: {media}\r\n\
             Content-Length: {}\r\nConnection: close\r\n\r\n",
            body.len()
        );
        let answer = exchange(self.address(), [head.as_bytes(), body].concat());
        let status = answer.get(9..12).and_then(|status| status.parse().ok());
        let body = answer.split_once("\r\n\r\n").map(|(_, body)| body.to_owned()).unwrap_or_default();
        (status.unwrap_or_else(|| panic!("{method} {path} got no answer: {answer}")), body)
    }

    /// A call of the control API: status and body.
    pub(crate) fn control(&self, method: &str, path: &str, body: &Value) -> (u16, String) {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        self.send(method, &format!("/_emulator/{path}"), body)
    }

    /// Subscribes a URL to `workflow.completed`.
    #[track_caller]
    pub(crate) fn subscribe(&self, url: &str) -> Value {
        let hook = json!({ "url": url, "events": ["workflow.completed"] });
        let (status, body) = self.send("POST", "/v1/events/subscribe", hook.to_string());
        assert_eq!(status, 200, "{body}");
        serde_json::from_str(&body).expect("JSON")
    }

    pub(crate) fn connect(&self) -> TcpStream {
        connect(self.address())
    }

    pub(crate) fn sending(&self, bytes: impl AsRef<[u8]>) -> TcpStream {
        let mut stream = self.connect();
        stream.write_all(bytes.as_ref()).expect("the bytes are taken");
        stream
    }

    /// A good request is answered.
    pub(crate) fn serves(&self) {
        assert_eq!(status(&mut self.sending(GOOD)), "200");
    }

    /// The next line that it prints.
    pub(crate) fn line(&mut self) -> String {
        let mut line = String::new();
        self.stdout.read_line(&mut line).expect("a line");
        line
    }

    pub(crate) fn signal(&self, name: &str) {
        signal(&self.child, name);
    }

    /// Waits for the end; gives exit code, the rest of stdout, and stderr.
    pub(crate) fn end(mut self) -> (Option<i32>, String, String) {
        let (mut rest, log) = (String::new(), &mut String::new());
        self.stdout.read_to_string(&mut rest).expect("text");
        self.child.stderr.take().expect("a pipe").read_to_string(log).expect("text");
        (self.child.wait().expect("it ends").code(), rest, std::mem::take(log))
    }

    /// Ends it with SIGTERM; gives its exit code and its log.
    pub(crate) fn stop(self) -> (Option<i32>, String) {
        self.signal("TERM");
        let (code, _, log) = self.end();
        (code, log)
    }

    pub(crate) fn exit_code(&mut self) -> i32 {
        let mut code = None;
        eventually("the process ends", || {
            code = self.child.try_wait().expect("a child to wait for");
            code.is_some()
        });
        code.and_then(|status| status.code()).expect("an exit code, not a signal")
    }

    pub(crate) fn kill(&mut self) {
        self.child.kill().and_then(|()| self.child.wait()).expect("it ends");
    }

    /// A file of `/proc` about it.
    fn proc(&self, name: &str) -> String {
        std::fs::read_to_string(format!("/proc/{}/{name}", self.child.id())).expect("a running process")
    }

    /// Bytes of memory in use.
    pub(crate) fn resident(&self) -> usize {
        self.memory("VmRSS:")
    }

    /// The most bytes of memory in use so far.
    pub(crate) fn peak(&self) -> usize {
        self.memory("VmHWM:")
    }

    fn memory(&self, field: &str) -> usize {
        let status = self.proc("status");
        let line = status.lines().find(|line| line.starts_with(field)).expect("a line for the memory in use");
        let kibibytes: usize = line.split_whitespace().nth(1).and_then(|text| text.parse().ok()).expect("a number");
        kibibytes * 1024
    }

    /// Bytes read so far, from files and sockets.
    pub(crate) fn bytes_read(&self) -> u64 {
        let io = self.proc("io");
        let count = io.lines().find_map(|line| line.strip_prefix("rchar: ")).expect("a line for the bytes read");
        count.parse().expect("a number")
    }

    /// Processor time used so far, in ticks of which a second has 100.
    pub(crate) fn ticks(&self) -> u64 {
        let stat = self.proc("stat");
        let after_name = stat.rsplit(") ").next().expect("fields after the name");
        let field = |number: usize| -> u64 {
            after_name.split(' ').nth(number - 3).and_then(|text| text.parse().ok()).expect("a number")
        };
        field(14) + field(15)
    }

    /// How many of its threads have this name.
    pub(crate) fn threads(&self, name: &str) -> usize {
        let threads = std::fs::read_dir(format!("/proc/{}/task", self.child.id())).expect("a running process");
        let names = threads.flatten().filter_map(|thread| std::fs::read_to_string(thread.path().join("comm")).ok());
        names.filter(|found| found.trim() == name).count()
    }
}

pub(crate) fn signal(child: &Child, name: &str) {
    let sent = Command::new("kill").args(["-s", name, &child.id().to_string()]).status();
    assert!(sent.is_ok_and(|status| status.success()), "the signal is sent");
}

pub(crate) fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let pause = Duration::from_millis(10);
    let mut left = PATIENCE;
    while !holds() {
        left = left.checked_sub(pause).unwrap_or_else(|| panic!("not in time: {what}"));
        sleep(pause);
    }
}

pub(crate) fn connect(address: &str) -> TcpStream {
    let stream = TcpStream::connect(address).expect("it listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("an open socket");
    stream.set_write_timeout(Some(PATIENCE)).expect("an open socket");
    stream
}

/// Sends these bytes on their own connection; gives what comes until its end, whatever that is.
pub(crate) fn exchange(address: &str, bytes: impl AsRef<[u8]>) -> String {
    let mut stream = connect(address);
    // An answer may come before everything is out, and a reset after it.
    let _ = stream.write_all(bytes.as_ref());
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    text(&answer)
}

/// One request by hand: a head without its last fields, and a body of JSON.
pub(crate) fn request(url: &str, head: &str, body: &str) -> String {
    let address = url.trim_start_matches("http://");
    let length = body.len();
    let fields = "Connection: close\r\nContent-Type: application/json";
    exchange(address, format!("{head}\r\nHost: {address}\r\n{fields}\r\nContent-Length: {length}\r\n\r\n{body}"))
}

/// The next answer of a connection that stays: status and body.
pub(crate) fn answer(stream: &mut impl Read) -> (u16, String) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).expect("a head");
        head.push(byte[0]);
    }
    let head = text(&head);
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).expect("a length");
    let mut body = vec![0; length.parse().expect("a number")];
    stream.read_exact(&mut body).expect("the whole body");
    (head[9..12].parse().expect("a status"), text(&body))
}

/// The status of the next answer.
pub(crate) fn status(stream: &mut TcpStream) -> String {
    let mut start = [0; 12];
    stream.read_exact(&mut start).expect("an answer");
    text(&start[9..])
}

/// A port without a listener.
pub(crate) fn closed_port() -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("an address").port()
}
