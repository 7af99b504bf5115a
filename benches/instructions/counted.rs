//! A process under valgrind, which counts the instructions that it executes in user space.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use tempfile::TempDir;

/// How often a file is looked for, and how many times: a start under valgrind takes some seconds.
const GLANCE: (Duration, u32) = (Duration::from_millis(5), 6000);

/// A running process whose instructions are counted.
#[derive(Debug)]
pub(crate) struct Counted {
    child: Child,
    folder: TempDir,
}

impl Counted {
    /// Starts a program with these arguments, in its own empty folder in which `files` are put before.
    pub(crate) fn start<A: AsRef<OsStr>>(program: &Path, arguments: &[A], files: &[(&str, &str)]) -> io::Result<Self> {
        let folder = tempfile::tempdir()?;
        for (name, text) in files {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap_or(folder.path()))?;
            fs::write(path, text)?;
        }
        let mut command = Command::new("valgrind");
        command.args(["--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null", "--log-file=count"]);
        command.arg(program).args(arguments).current_dir(folder.path());
        // Two workers on every machine: the cost of waking one another is part of the figure.
        command.env_clear().env("PATH", "/usr/bin:/bin").env("TOKIO_WORKER_THREADS", "2");
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::inherit()).spawn();
        let child = child.map_err(|error| {
            io::Error::new(error.kind(), format!("valgrind: {error}; Debian's package `valgrind` has it"))
        })?;
        Ok(Self { child, folder })
    }

    /// The port in the URL that the process writes to the file `url` of its folder.
    pub(crate) fn port(&mut self) -> io::Result<u16> {
        let (pause, times) = GLANCE;
        for _ in 0..times {
            let text = fs::read_to_string(self.folder.path().join("url")).unwrap_or_default();
            if let Some(url) = text.strip_suffix('\n') {
                let port = url.rsplit(':').next().and_then(|port| port.parse().ok());
                return port.ok_or_else(|| io::Error::other(format!("not a URL with a port: `{url}`")));
            }
            if let Some(status) = self.child.try_wait()? {
                return Err(io::Error::other(format!("the process ended at once: {status}")));
            }
            sleep(pause);
        }
        Err(io::Error::other("the process did not report its address"))
    }

    /// Asks the process to end, and gives its count.
    pub(crate) fn stop(self) -> io::Result<u64> {
        // The child is valgrind itself, which passes the signal on.
        Command::new("kill").args(["-TERM", &self.child.id().to_string()]).status()?;
        self.count()
    }

    /// Waits for the process to end, and gives its count.
    pub(crate) fn count(mut self) -> io::Result<u64> {
        self.child.wait()?;
        let log = fs::read_to_string(self.folder.path().join("count"))?;
        let count = log.lines().find_map(|line| line.split_once("refs:"));
        let digits = count.map_or_else(String::new, |(_, count)| count.replace([',', ' '], ""));
        digits.parse().map_err(|_| io::Error::other(format!("valgrind gave no count:\n{log}")))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
