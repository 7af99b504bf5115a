//! An emulator in the background: `start`, `stop`, `status`, `env` and `logs`.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::support::{Outcome, finish, text, wrs_emulator};

/// A folder in which emulators are started, and one for their records. Whatever still serves is stopped in the end.
struct Desk {
    folder: tempfile::TempDir,
    records: tempfile::TempDir,
}

impl Desk {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().expect("a folder"), records: tempfile::tempdir().expect("a folder") }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = wrs_emulator(arguments);
        command.current_dir(self.folder.path()).env("XDG_RUNTIME_DIR", self.records.path());
        command
    }

    fn run(&self, arguments: &[&str]) -> Outcome {
        finish(&mut self.command(arguments))
    }

    /// Starts at a free port and returns the base URL.
    #[track_caller]
    fn start(&self, options: &[&str]) -> String {
        let started = self.run(&[&["start", "--listen", "127.0.0.1:0"], options].concat()).exits(0);
        text(&started.stdout).trim().to_owned()
    }

    /// The only file with this ending.
    fn file(&self, ending: &str) -> PathBuf {
        let files = fs::read_dir(self.records.path().join("wrs-emulator")).expect("a folder");
        let mut files = files.map(|file| file.expect("a file").path());
        files.find(|path| path.extension().is_some_and(|found| found == ending)).expect("a file")
    }
}

impl Drop for Desk {
    fn drop(&mut self) {
        for name in ["", "shop"] {
            let named: &[&str] = if name.is_empty() { &["stop"] } else { &["stop", "--name", name] };
            drop(self.command(named).output());
        }
    }
}

fn answers(url: &str) -> bool {
    finish(&mut wrs_emulator(&["health", "--url", url])).status == Some(0)
}

#[test]
fn what_was_started_is_found_by_every_command_until_it_is_stopped() {
    let desk = Desk::new();
    desk.run(&["status"]).exits(3).says(&["no emulator", "`wrs-emulator start` starts it"]);
    let url = desk.start(&["--seed", "1"]);
    assert!(answers(&url));
    desk.run(&["trigger", "workflow.completed"]).exits(0);
    let status: Value = serde_json::from_slice(&desk.run(&["status", "--json"]).exits(0).stdout).expect("JSON");
    assert_eq!((&status["url"], &status["keys"], &status["problems"]), (&url.as_str().into(), &1.into(), &0.into()));
    // Also below the folder.
    fs::create_dir(desk.folder.path().join("tests")).expect("it is made");
    finish(desk.command(&["requests"]).current_dir(desk.folder.path().join("tests"))).exits(0);
    desk.run(&["logs"]).exits(0).prints(&["wrs-emulator ready on", "workflow.completed"]);
    let stopped = desk.run(&["stop"]).exits(0).says(&["stopped", &url]);
    assert!(stopped.stdout.is_empty() && !answers(&url));
    desk.run(&["stop"]).exits(0).says(&["nothing to stop"]);
    desk.run(&["env"]).exits(3);
}

#[test]
fn a_second_start_finds_the_first_or_says_what_differs() {
    let desk = Desk::new();
    let url = desk.start(&["--seed", "1"]);
    assert_eq!(desk.start(&["--seed", "1"]), url);
    let other = desk.run(&["start", "--listen", "127.0.0.1:0", "--seed", "2"]).exits(1);
    other.says(&["started already with other options", "it was started with: 1", "now asked for:       2", "wrs-emulator stop --name"]);
    let shop = desk.start(&["--name", "shop"]);
    assert!(shop != url && answers(&shop) && answers(&url));
    desk.run(&["status", "--name", "shop"]).exits(0).prints(&["shop: ", &shop]);
    desk.run(&["status", "--name", "nobody"]).exits(3).says(&["others serve: ", "shop"]);
}

#[test]
fn two_starts_at_once_start_one_emulator() {
    let desk = Desk::new();
    let begin = || desk.command(&["start", "--listen", "127.0.0.1:0"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let starts: Vec<_> = (0..4).map(|_| begin().expect("it runs")).collect();
    let urls = starts.into_iter().map(|start| {
        let output = start.wait_with_output().expect("it ends");
        assert!(output.status.success(), "{output:?}");
        text(&output.stdout)
    });
    let urls: std::collections::BTreeSet<String> = urls.collect();
    assert_eq!(urls.len(), 1, "{urls:?}");
}

#[test]
fn an_emulator_that_died_is_said_to_have_and_blocks_nothing() {
    let desk = Desk::new();
    let url = desk.start(&[]);
    let record: Value = serde_json::from_slice(&fs::read(desk.file("json")).expect("it is read")).expect("JSON");
    let killed = Command::new("kill").args(["-9", &record["process"].to_string()]).status().expect("kill runs");
    assert!(killed.success());
    while answers(&url) {}
    desk.run(&["status"]).exits(3).says(&["ended without being stopped", "wrs-emulator logs"]);
    let again = desk.start(&[]);
    assert!(answers(&again));
    // A file of something else does not block either.
    desk.run(&["stop"]).exits(0);
    fs::write(desk.records.path().join("wrs-emulator/shop.json"), "not a record").expect("it is written");
    assert!(answers(&desk.start(&["--name", "shop"])));
}

#[test]
fn what_keeps_it_from_starting_is_said() {
    let desk = Desk::new();
    // By the options, before anything starts.
    desk.run(&["start", "--clock", "noon"]).exits(2).says(&["--clock: expected"]);
    // By the log of the process.
    fs::create_dir(desk.folder.path().join("scenarios")).expect("it is made");
    fs::write(desk.folder.path().join("scenarios/bad.toml"), "nonsense = 1\n").expect("it is written");
    desk.run(&["start", "--listen", "127.0.0.1:0", "--scenario", "bad"])
        .exits(1)
        .says(&["ended before it was ready", "the scenarios cannot be used", "nonsense"]);
    // A folder that others can read.
    let folder = desk.records.path().join("wrs-emulator");
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).expect("it may be changed");
    desk.run(&["start"]).exits(2).says(&["belongs to another user, or others can read it", "chmod 700"]);
    finish(desk.command(&["start"]).env("XDG_RUNTIME_DIR", "/dev/null")).exits(2).says(&["cannot make the folder"]);
    desk.run(&["start", "--name", "a/b"]).exits(2).says(&["--name: expected"]);
}

/// A shell that ends sends SIGHUP, and Ctrl-C reaches the whole group.
#[test]
fn it_outlives_the_shell_that_started_it() {
    let desk = Desk::new();
    let script = r#"trap '' INT HUP; "$0" start --listen 127.0.0.1:0 && kill -INT 0 && kill -HUP 0"#;
    let mut shell = Command::new("setsid");
    shell.args(["sh", "-c", script, env!("CARGO_BIN_EXE_wrs-emulator")]);
    shell.current_dir(desk.folder.path()).env("XDG_RUNTIME_DIR", desk.records.path());
    let output = shell.output().expect("a shell");
    let url = text(&output.stdout).trim().to_owned();
    assert!(answers(&url), "{output:?}");
}

#[test]
fn its_variables_are_printed_for_each_shell() {
    let desk = Desk::new();
    let url = desk.start(&["--tls", "self-signed", "--control-token", "secret token"]);
    let script = r#"eval "$("$0" env)"; unset XDG_RUNTIME_DIR; curl -sf "$WRS_BASE_URL/v1/system/status" -H "Authorization: Bearer $WRS_API_KEY" && "$0" requests --json"#;
    let mut shell = Command::new("sh");
    shell.args(["-c", script, env!("CARGO_BIN_EXE_wrs-emulator")]);
    shell.current_dir(desk.folder.path()).env("XDG_RUNTIME_DIR", desk.records.path());
    finish(&mut shell).exits(0).prints(&["\"ok\":true", "/v1/system/status"]);
    desk.run(&["env"]).exits(0).prints(&[&format!("export WRS_BASE_URL={url}\n"), "export WRS_EMULATOR_CONTROL_TOKEN='secret token'\n"]);
    desk.run(&["env", "--shell", "fish"]).exits(0).prints(&[&format!("set -gx WRS_BASE_URL {url}\n")]);
    desk.run(&["env", "--shell", "powershell"]).exits(0).prints(&[&format!("$env:WRS_BASE_URL = '{url}'\n")]);
    desk.run(&["env", "--unset"]).exits(0).prints(&["unset WRS_BASE_URL\n"]);
    let record = desk.file("json").metadata().expect("a file");
    assert_eq!(record.permissions().mode() & 0o777, 0o600, "it has the token");
    assert!(Path::new(&desk.records.path().join("wrs-emulator")).is_dir());
}
