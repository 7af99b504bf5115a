//! A server as its own process: started, asked, measured by what the kernel counts (`/proc`), ended when dropped.
//!
//! Both servers are started the same way, with an empty environment in an empty folder, and write their addresses to
//! a file, so their starts can be compared. This is also the one file that reads the machine's time.

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::answer::{Answer, ask};
use crate::bare;

/// How often the file is looked for; short beside any start.
const GLANCE: Duration = Duration::from_micros(50);
/// How often it is looked for in all: some ten seconds.
const GLANCES: u32 = 100_000;

/// What is to be started.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Subject<'a> {
    /// The emulator, everything on.
    Emulator,
    /// The bare server, giving this answer.
    Bare(&'a Answer),
}

/// A running server.
#[derive(Debug)]
pub(crate) struct Server {
    child: Child,
    /// Where it serves.
    pub(crate) address: SocketAddr,
}

/// A server that has just given its first answer.
#[derive(Debug)]
pub(crate) struct Started {
    /// The server.
    pub(crate) server: Server,
    /// Its first answer.
    pub(crate) answer: Answer,
    /// From before the process was made to after the answer was read.
    pub(crate) elapsed: Duration,
}

/// The machine's monotonic time.
#[allow(clippy::disallowed_methods, reason = "the machine is what is measured; no emulated clock is involved")]
pub(crate) fn moment() -> Instant {
    Instant::now()
}

impl Subject<'_> {
    /// Starts the server and waits for its first answer.
    pub(crate) fn start(self) -> io::Result<Started> {
        let folder = tempfile::tempdir()?;
        let port_file = folder.path().join("url");
        let mut command = self.command(&port_file)?;
        command.env_clear().current_dir(folder.path()).stdin(Stdio::null()).stdout(Stdio::null());
        let begun = moment();
        let child = command.spawn()?;
        // From here on a failure ends the process as well.
        let mut server = Server { child, address: SocketAddr::from(([127, 0, 0, 1], 0)) };
        server.address = server.read_address(&port_file)?;
        let answer = ask(server.address)?;
        Ok(Started { elapsed: moment() - begun, server, answer })
    }

    fn command(self, port_file: &Path) -> io::Result<Command> {
        Ok(match self {
            Self::Emulator => {
                let mut command = Command::new(env!("CARGO_BIN_EXE_wrs-emulator"));
                command.args(["serve", "--quiet", "--listen", "127.0.0.1:0", "--port-file"]).arg(port_file);
                // Quota is counted for every request, and no request is refused.
                command.args(["--set", "rate_limit.requests=4294967295"]);
                command
            }
            Self::Bare(answer) => {
                let mut command = Command::new(std::env::current_exe()?);
                command.arg(bare::FLAG).arg(port_file).arg(answer.to_text());
                command
            }
        })
    }
}

impl Server {
    fn read_address(&mut self, port_file: &Path) -> io::Result<SocketAddr> {
        for _ in 0..GLANCES {
            let text = fs::read_to_string(port_file).unwrap_or_default();
            // The line's end shows that the line was written whole.
            if let Some(url) = text.strip_suffix('\n') {
                let address = url.strip_prefix("http://").unwrap_or(url);
                return address.parse().map_err(|_| io::Error::other(format!("not an address: `{url}`")));
            }
            if let Some(status) = self.child.try_wait()? {
                return Err(io::Error::other(format!("the server ended at once: {status}")));
            }
            sleep(GLANCE);
        }
        Err(io::Error::new(io::ErrorKind::TimedOut, "the server did not report its address"))
    }

    /// The processor time that all its threads have used. Neither server ends threads while it is measured, so nothing is
    /// lost from the sum.
    pub(crate) fn processor_time(&self) -> io::Result<Duration> {
        let tasks = fs::read_dir(format!("/proc/{}/task", self.child.id()))?;
        tasks.map(|task| read_schedule(&task?.path().join("schedstat"))).sum()
    }

    /// The bytes that it holds in memory.
    pub(crate) fn resident_bytes(&self) -> io::Result<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kibibytes: Option<u64> = line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse().ok());
        kibibytes.map(|count| count * 1024).ok_or_else(|| io::Error::other("no VmRSS in /proc/PID/status"))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself, which has been reported already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The processor time that the calling thread has used.
pub(crate) fn processor_time_of_this_thread() -> io::Result<Duration> {
    read_schedule(Path::new("/proc/thread-self/schedstat"))
}

/// The processor time in a `schedstat` file: the first of its numbers, in nanoseconds.
fn read_schedule(file: &Path) -> io::Result<Duration> {
    let text = fs::read_to_string(file)?;
    let first = text.split(' ').next().and_then(|number| number.parse().ok());
    first.map(Duration::from_nanos).ok_or_else(|| io::Error::other(format!("no time in {}", file.display())))
}
