//! The built binary: its ready line, signals, a taken port, the limit of file descriptors, and memory under attack.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use super::bodies::subscription;
use super::peer::GOOD;
use crate::support::PATIENCE;

/// A running emulator; killed when dropped.
pub(crate) struct Served {
    child: Child,
    pub(crate) address: String,
}

impl Served {
    pub(crate) fn start(arguments: &[&str]) -> Self {
        Self::spawn(Command::new(env!("CARGO_BIN_EXE_wrs-emulator")).arg("serve").args(arguments))
    }

    /// Starts it after this line of shell.
    pub(crate) fn start_after(line: &str, arguments: &[&str]) -> Self {
        let script = format!("{line}; exec \"$0\" \"$@\"");
        Self::spawn(
            Command::new("sh").args(["-c", &script, env!("CARGO_BIN_EXE_wrs-emulator"), "serve"]).args(arguments),
        )
    }

    pub(super) fn id(&self) -> u32 {
        self.child.id()
    }

    fn spawn(command: &mut Command) -> Self {
        let mut child = command
            .args(["--listen", "127.0.0.1:0", "--seed", "7"])
            .current_dir(std::env::temp_dir())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary starts");
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().expect("a pipe")).read_line(&mut line).expect("a line of text");
        let address = line.trim().strip_prefix("wrs-emulator ready on http://").expect("the ready line").to_owned();
        Self { child, address }
    }

    pub(crate) fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(&self.address).expect("the emulator listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("an open socket");
        stream.set_write_timeout(Some(PATIENCE)).expect("an open socket");
        stream
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

    pub(crate) fn signal(&self, name: &str) {
        let sent = Command::new("kill").args(["-s", name, &self.child.id().to_string()]).status();
        assert!(sent.is_ok_and(|status| status.success()), "the signal is sent");
    }

    /// The listener is closed: the stop has begun.
    fn has_closed(&self) {
        eventually("the listener closes", || TcpStream::connect(&self.address).is_err());
    }

    pub(crate) fn exit_code(&mut self) -> i32 {
        self.exit_code_within(PATIENCE)
    }

    pub(crate) fn exit_code_within(&mut self, limit: Duration) -> i32 {
        let mut code = None;
        within(limit, "the process ends", || {
            code = self.child.try_wait().expect("a child to wait for");
            code.is_some()
        });
        code.and_then(|status| status.code()).expect("an exit code, not a signal")
    }

    /// What it said on stderr, after its end.
    pub(super) fn stop_and_read_stderr(mut self) -> String {
        self.signal("TERM");
        assert_eq!(self.exit_code(), 0);
        self.stderr()
    }

    /// What it said on stderr, once it has ended.
    pub(crate) fn stderr(&mut self) -> String {
        let mut text = String::new();
        self.child.stderr.take().expect("a pipe").read_to_string(&mut text).expect("text");
        text
    }

    /// It has ended, however it was made to.
    pub(crate) fn wait(&mut self) {
        eventually("the process ends", || self.child.try_wait().expect("a child to wait for").is_some());
    }

    /// Bytes of memory in use.
    pub(crate) fn resident(&self) -> usize {
        self.memory("VmRSS:")
    }

    /// The most bytes of memory in use so far.
    pub(crate) fn peak(&self) -> usize {
        self.memory("VmHWM:")
    }

    /// Bytes read so far, from files and sockets.
    pub(crate) fn bytes_read(&self) -> u64 {
        let io = std::fs::read_to_string(format!("/proc/{}/io", self.child.id())).expect("a running process");
        let count = io.lines().find_map(|line| line.strip_prefix("rchar: ")).expect("a line for what was read");
        count.parse().expect("a number")
    }

    /// How many of its threads have this name.
    pub(crate) fn threads(&self, name: &str) -> usize {
        let threads = std::fs::read_dir(format!("/proc/{}/task", self.child.id())).expect("a running process");
        let names = threads.flatten().filter_map(|thread| std::fs::read_to_string(thread.path().join("comm")).ok());
        names.filter(|found| found.trim() == name).count()
    }

    fn memory(&self, field: &str) -> usize {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).expect("a running process");
        let line = status.lines().find(|line| line.starts_with(field)).expect("a line for the memory in use");
        let kibibytes: usize = line.split_whitespace().nth(1).and_then(|text| text.parse().ok()).expect("a number");
        kibibytes * 1024
    }

    /// Processor time used so far, in ticks of which a second has 100.
    pub(crate) fn ticks(&self) -> u64 {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id())).expect("a running process");
        let after_name = stat.rsplit(") ").next().expect("fields after the name");
        let field = |number: usize| -> u64 {
            after_name.split(' ').nth(number - 3).and_then(|text| text.parse().ok()).expect("a number")
        };
        field(14) + field(15)
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn eventually(what: &str, holds: impl FnMut() -> bool) {
    within(PATIENCE, what, holds);
}

pub(crate) fn within(limit: Duration, what: &str, mut holds: impl FnMut() -> bool) {
    let pause = Duration::from_millis(10);
    let mut left = limit;
    while !holds() {
        left = left.checked_sub(pause).unwrap_or_else(|| panic!("not in time: {what}"));
        sleep(pause);
    }
}

/// The status of the next answer.
pub(crate) fn status(stream: &mut TcpStream) -> String {
    let mut start = [0; 12];
    stream.read_exact(&mut start).expect("an answer");
    String::from_utf8_lossy(&start[9..]).into_owned()
}

/// A request that has reached its handler and waits for its body.
fn under_way(served: &Served, size: usize) -> TcpStream {
    let mut stream = served.sending(subscription(&format!("Content-Length: {size}\r\nExpect: 100-continue\r\n")));
    let mut told = [0; 25];
    stream.read_exact(&mut told).expect("the interim answer");
    assert_eq!(&told, b"HTTP/1.1 100 Continue\r\n\r\n");
    stream
}

#[test]
fn a_signal_ends_an_idle_process_with_code_0() {
    for signal in ["TERM", "INT", "HUP", "QUIT"] {
        let mut served = Served::start(&["--grace", "1h"]);
        let _silent = served.connect();
        let mut idle = served.sending(GOOD);
        assert_eq!(status(&mut idle), "200");
        served.signal(signal);
        // Were anything waited for, it would be waited for an hour.
        assert_eq!(served.exit_code(), 0, "{signal}");
    }
}

#[test]
fn a_signal_lets_the_request_under_way_finish() {
    let mut served = Served::start(&["--grace", "1h"]);
    let body = "{\"url\": \"https://a.example/\", \"events\": [\"reference.matched\"]}";
    let mut stream = under_way(&served, body.len());
    served.signal("TERM");
    served.has_closed();
    stream.write_all(body.as_bytes()).expect("the body is taken");
    assert_eq!(status(&mut stream), "200");
    assert_eq!(served.exit_code(), 0);
}

#[test]
fn a_second_signal_ends_it_at_once() {
    for (signal, code) in [("TERM", 128 + 15), ("INT", 128 + 2), ("HUP", 128 + 1), ("QUIT", 128 + 3)] {
        let mut served = Served::start(&["--grace", "1h", "--body-timeout", "1h"]);
        let _under_way = under_way(&served, 100);
        served.signal("TERM");
        served.has_closed();
        served.signal(signal);
        assert_eq!(served.exit_code(), code, "{signal}");
    }
}

#[test]
fn a_busy_process_ends_with_its_grace_period() {
    let mut served = Served::start(&["--grace", "100ms", "--body-timeout", "1h"]);
    let _under_way = under_way(&served, 100);
    served.signal("TERM");
    assert_eq!(served.exit_code(), 0);
}

#[test]
fn a_log_that_nobody_reads_holds_nothing_up() {
    // As on a machine with one core: with more, only a part of the connections would wait.
    let served =
        Served::spawn(Command::new(env!("CARGO_BIN_EXE_wrs-emulator")).arg("serve").env("TOKIO_WORKER_THREADS", "1"));
    // Far more lines than a pipe holds.
    let mut client = served.sending(GOOD.repeat(5_000));
    let mut read = vec![0; 64 * 1024];
    let mut left: usize = 5_000 * 100;
    while left > 0 {
        let count = client.read(&mut read).expect("an answer in time");
        assert!(count > 0, "the end with answers missing");
        left = left.saturating_sub(count);
    }
    for _ in 0..200 {
        served.serves();
    }
}

/// Memory grows by no more than 128 MiB while `attack` holds its connections, and a good request is answered then.
fn bounded_in_memory(arguments: &[&str], attack: impl Fn(&Served) -> Vec<TcpStream>) {
    let served = Served::start(arguments);
    served.serves();
    let before = served.resident();
    let held = attack(&served);
    // Whatever was sent has been taken in once a later request is answered.
    for _ in 0..20 {
        served.serves();
    }
    let grown = served.resident().saturating_sub(before);
    assert!(grown <= 128 * 1024 * 1024, "{grown} bytes");
    drop(held);
    served.serves();
}

/// Sends what is taken without waiting: the emulator stops reading when it has had enough.
fn push(served: &Served, bytes: &[u8]) -> TcpStream {
    let mut stream = served.connect();
    stream.set_nonblocking(true).expect("an open socket");
    let mut rest = bytes;
    let mut tries = 0;
    while !rest.is_empty() && tries < 5 {
        match stream.write(rest) {
            Ok(count) => rest = &rest[count..],
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                tries += 1;
                sleep(Duration::from_millis(1));
            }
            Err(_) => break,
        }
    }
    stream
}

#[test]
fn half_sent_heads_take_little_memory() {
    let head = format!("GET /v1/hello HTTP/1.1\r\nHost: localhost\r\nX-A: {}", "a".repeat(15 * 1024));
    bounded_in_memory(&[], |served| (0..300).map(|_| push(served, head.as_bytes())).collect());
}

#[test]
fn half_sent_bodies_take_little_memory() {
    let size = 256 * 1024;
    let by_length = subscription(&format!("Content-Length: {size}\r\n")) + &"x".repeat(size - 1);
    bounded_in_memory(&[], |served| (0..400).map(|_| push(served, by_length.as_bytes())).collect());
    let in_chunks =
        subscription("Transfer-Encoding: chunked\r\n") + &format!("{:x}\r\n{}\r\n", 1000, "x".repeat(1000)).repeat(250);
    bounded_in_memory(&[], |served| (0..400).map(|_| push(served, in_chunks.as_bytes())).collect());
}

#[test]
fn answers_that_nobody_reads_take_little_memory() {
    let requests = GOOD.repeat(20_000);
    bounded_in_memory(&[], |served| (0..200).map(|_| push(served, &requests)).collect());
}

/// Fires events whose texts on the stream are nearly a megabyte each, and waits until they are delivered.
fn fire_large_events(served: &Served) {
    let hook = "{\"url\":\"https://app.sink.localhost/\",\"events\":[\"workflow.completed\"]}";
    let ask = |head: &str, body: &str| {
        let length = body.len();
        let head = format!(
            "{head} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nAuthorization: Bearer sk_test_local\r\nContent-Length: {length}\r\n\r\n"
        );
        assert_eq!(status(&mut served.sending(head + body)), "200");
    };
    ask("POST /v1/events/subscribe", hook);
    for _ in 0..20 {
        let note = "\\n".repeat(100_000);
        let event = format!("{{\"type\":\"workflow.completed\",\"data\":{{\"workflow_id\":\"{note}\"}}}}");
        ask("POST /_emulator/events?wait=20s", &event);
    }
}

#[test]
fn viewers_that_never_read_take_little_memory() {
    let served = Served::start(&["--quiet"]);
    fire_large_events(&served);
    let before = served.peak();
    let view = "GET /_emulator/stream HTTP/1.1\r\nHost: localhost\r\nLast-Event-ID: 0\r\n\r\n";
    let viewers: Vec<TcpStream> = (0..64).map(|_| served.sending(view)).collect();
    // Each was sent as much as it takes unread.
    let mut some = vec![0; 40 * 1024];
    for viewer in &viewers {
        eventually("the viewer was sent something", || viewer.peek(&mut some).expect("an open socket") == some.len());
    }
    // And what happens while they watch is made for each of them as well.
    fire_large_events(&served);
    served.serves();
    let grown = served.peak().saturating_sub(before);
    assert!(grown <= 96 * 1024 * 1024, "{grown} bytes for {} viewers", viewers.len());
}
