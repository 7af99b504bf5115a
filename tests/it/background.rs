//! An emulator in the background: `start`, `stop`, `status`, `env` and `logs`. Over the real binary.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::process::{Started, eventually};
use crate::support::{Outcome, finish, text, with_default_signals, wrs_emulator};

const FREE_PORT: [&str; 3] = ["start", "--listen", "127.0.0.1:0"];

/// A folder in which emulators are started, and one for their records. Those that still serve are stopped at the end.
struct Project {
    folder: tempfile::TempDir,
    records: tempfile::TempDir,
}

impl Project {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().expect("a folder"), records: tempfile::tempdir().expect("a folder") }
    }

    fn at_home(&self, mut command: Command) -> Command {
        command.current_dir(self.folder.path()).env("XDG_RUNTIME_DIR", self.records.path());
        command
    }

    fn command(&self, arguments: &[&str]) -> Command {
        self.at_home(wrs_emulator(arguments))
    }

    fn run(&self, arguments: &[&str]) -> Outcome {
        finish(&mut self.command(arguments))
    }

    /// Runs a line of shell, in which `$0` is the program, in a session of its own.
    fn shell(&self, line: &str) -> Outcome {
        let mut shell = with_default_signals("setsid");
        shell.args(["sh", "-c", line, env!("CARGO_BIN_EXE_wrs-emulator")]).stdin(Stdio::null());
        finish(&mut self.at_home(shell))
    }

    /// Starts at a free port and returns the base URL.
    #[track_caller]
    fn start(&self, options: &[&str]) -> String {
        let started = self.run(&[&FREE_PORT, options].concat()).exits(0);
        text(&started.stdout).trim().to_owned()
    }

    #[track_caller]
    fn status(&self) -> Value {
        serde_json::from_slice(&self.run(&["status", "--json"]).exits(0).stdout).expect("JSON")
    }

    /// Ends the process of this folder, without its knowledge.
    fn kill(&self) {
        let process = self.status()["process"].to_string();
        let killed = Command::new("kill").args(["-9", &process]).status().expect("kill runs");
        assert!(killed.success());
        eventually("it is noticed", || self.run(&["status"]).status.code() == Some(3));
    }

    /// The only file with this ending.
    fn file(&self, ending: &str) -> PathBuf {
        let files = fs::read_dir(self.records.path().join("wrs-emulator")).expect("a folder");
        let mut files = files.map(|file| file.expect("a file").path());
        files.find(|path| path.extension().is_some_and(|found| found == ending)).expect("a file")
    }
}

impl Drop for Project {
    fn drop(&mut self) {
        for name in [&[][..], &["--name", "shop"]] {
            drop(self.command(&[&["stop"], name].concat()).output());
        }
    }
}

fn answers(url: &str) -> bool {
    finish(&mut wrs_emulator(&["health", "--url", url])).status.code() == Some(0)
}

#[test]
fn every_command_finds_it_until_it_is_stopped() {
    let project = Project::new();
    project
        .run(&["status"])
        .exits(3)
        .says(&["no emulator was started for this folder", "start it with `wrs-emulator start`"]);
    project
        .run(&["logs"])
        .exits(1)
        .says(&["no emulator was started for this folder", "start it with `wrs-emulator start`"]);
    let started = project.run(&[&FREE_PORT[..], &["--seed", "1", "--state", "state.json"]].concat()).exits(0);
    let url = text(&started.stdout).trim().to_owned();
    started.says(&["eval \"$(wrs-emulator env)\"", "`wrs-emulator stop`"]);
    project.run(&["subscriptions", "create", "https://a.sink.localhost/"]).exits(0);
    project.run(&["trigger", "workflow.completed", "--wait"]).exits(0);
    let status = project.status();
    assert_eq!((&status["url"], &status["keys"], &status["problems"]), (&url.as_str().into(), &1.into(), &0.into()));
    project.run(&["status"]).exits(0).prints(&[&url, "1 key, 0 problems"]);
    // Also from a folder below.
    fs::create_dir(project.folder.path().join("tests")).expect("it is created");
    finish(project.command(&["deliveries"]).current_dir(project.folder.path().join("tests")))
        .exits(0)
        .prints(&["delivered"]);
    project.run(&["logs"]).exits(0).prints(&["wrs-emulator ready on", "workflow.completed"]);
    // Whatever has another address in the environment.
    finish(project.command(&["health"]).env("WRS_EMULATOR_LISTEN", "127.0.0.1:1")).exits(0);
    // A command with an emulator of its own keeps it, and so does what runs in it.
    let inner = project.run(&["exec", "--", "sh", "-c", "echo $WRS_EMULATOR_URL"]).exits(0);
    assert_ne!(text(&inner.stdout).trim(), url);
    let stopped = project.run(&["stop"]).exits(0).says(&["has ended"]);
    assert!(stopped.stdout.is_empty() && !answers(&url));
    // It had the time to save its state.
    let state = fs::read_to_string(project.folder.path().join("state.json")).expect("it is saved");
    assert!(state.contains("a.sink.localhost"), "{state}");
    project.run(&["stop"]).exits(0).says(&["no emulator was started for this folder"]);
    project.run(&["env"]).exits(3);
    project.run(&["logs"]).exits(0).prints(&["workflow.completed"]);
}

/// A command line may be longer than a megabyte, though none of its arguments.
#[test]
fn an_emulator_with_many_options_is_found() {
    let project = Project::new();
    let hosts = vec!["a-name-of-a-public-host.example"; 3_900].join(",");
    let options = [["--allow-egress", hosts.as_str()]; 9];
    project.start(options.as_flattened());
    assert!(fs::metadata(project.file("json")).expect("a record").len() > 1024 * 1024);
    project.run(&["status"]).exits(0);
    project.run(&["stop"]).exits(0).says(&["has ended"]);
}

#[test]
fn a_second_start_finds_the_first_or_says_what_differs() {
    let project = Project::new();
    let url = project.start(&["--seed", "1", "--clock", "frozen"]);
    assert_eq!(project.start(&["--clock=frozen", "--seed=1", "--quiet"]), url, "written differently");
    let mut by_variable = project.command(&FREE_PORT);
    let by_variable = finish(by_variable.envs([("WRS_EMULATOR_SEED", "1"), ("WRS_EMULATOR_CLOCK", "frozen")])).exits(0);
    assert_eq!(text(&by_variable.stdout).trim(), url);
    project.run(&[&FREE_PORT[..], &["--seed", "2", "--tls", "self-signed"]].concat()).exits(1).says(&[
        "was started with other options",
        "--clock: started with frozen, now real",
        "--seed: started with 1, now 2",
        "--tls: started with nothing, now self-signed",
        "wrs-emulator stop --name",
    ]);
    let shop = project.start(&["--name", "shop"]);
    assert!(shop != url && answers(&shop) && answers(&url));
    project.run(&["status", "--name", "shop"]).exits(0).prints(&[&shop, "  shop, for "]);
    project.run(&["status", "--name", "nobody"]).exits(3).says(&["`shop` serves: choose it with `--name shop`"]);
    // The variable chooses it for every command.
    finish(project.command(&["scenarios", "use", "always-429"]).env("WRS_EMULATOR_NAME", "shop")).exits(0);
    finish(project.command(&["logs"]).env("WRS_EMULATOR_NAME", "shop")).exits(0).prints(&[&shop, "always-429"]);
    // A shell completes the name.
    let mut typed = project.command(&["--", "wrs-emulator", "stop", "--name", "sh"]);
    assert_eq!(text(&finish(typed.env("_WRS_EMULATOR_COMPLETE", "bash")).stdout), "shop\n");
    project.run(&["start", "--name", "a/b"]).exits(2).says(&["--name: expected"]);
}

#[test]
fn two_starts_at_once_start_one_emulator() {
    let project = Project::new();
    let begin = || {
        let mut start = project.command(&[&FREE_PORT[..], &["--json"]].concat());
        Started::new(start.stdout(Stdio::piped()).stderr(Stdio::piped()))
    };
    let starts = [(); 4].map(|()| begin());
    let found = starts.map(|start| {
        let output = start.output();
        assert!(output.status.success(), "{output:?}");
        serde_json::from_slice::<Value>(&output.stdout).expect("JSON")
    });
    assert!(found.iter().all(|one| one == &found[0]), "{found:?}");
    assert_eq!(found[0]["process"], project.status()["process"]);
}

#[test]
fn a_process_that_died_is_noticed_and_blocks_nothing() {
    let project = Project::new();
    project.start(&[]);
    project.kill();
    let hint = "`wrs-emulator logs` shows its log, and `wrs-emulator start` starts it again";
    project.run(&["status"]).exits(3).says(&["has ended, without `stop`", hint]);
    project.run(&["logs", "--follow"]).exits(0).prints(&["ready on"]);
    assert!(answers(&project.start(&["--seed", "1"])), "also with other options");
    project.kill();
    project.run(&["stop"]).exits(0).says(&["had already ended"]);
    // A record of something else, and one whose process id belongs to another process by now.
    let records = project.records.path().join("wrs-emulator");
    for stale in ["not a record".to_owned(), fs::read_to_string("/proc/self/stat").unwrap_or_default()] {
        fs::write(records.join("shop.json"), stale).expect("it is written");
        assert!(answers(&project.start(&["--name", "shop"])));
        project.run(&["stop", "--name", "shop"]).exits(0);
    }
    project.start(&["--name", "shop"]);
    let record = fs::read(records.join("shop.json")).expect("it is read");
    project.run(&["stop", "--name", "shop"]).exits(0);
    let mut record: Value = serde_json::from_slice(&record).expect("JSON");
    record["process"] = std::process::id().into();
    fs::write(records.join("shop.json"), record.to_string()).expect("it is written");
    project.run(&["stop", "--name", "shop"]).exits(0).says(&["had already ended"]);
}

#[test]
fn a_start_that_fails_says_why() {
    let project = Project::new();
    // By its options, before anything starts.
    project.run(&["start", "--clock", "noon"]).exits(2).says(&["--clock: expected"]);
    // By its log.
    fs::create_dir(project.folder.path().join("scenarios")).expect("it is created");
    fs::write(project.folder.path().join("scenarios/bad.toml"), "nonsense = 1\n").expect("it is written");
    project.run(&[&FREE_PORT[..], &["--scenario", "bad"]].concat()).exits(1).says(&[
        "the emulator ended before it was ready",
        "the scenarios cannot be used",
        "nonsense",
        "wrs-emulator logs",
    ]);
    project.run(&["status"]).exits(3).says(&["no emulator"]);
    project.run(&["logs"]).exits(0).prints(&["nonsense"]);
}

/// As under `timeout`: nobody would know of an emulator that goes on.
#[test]
fn it_ends_if_the_start_that_waited_for_it_was_ended() {
    let project = Project::new();
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let log = project.folder.path().join("log");
    let mut serving = project.command(&FREE_PORT);
    let serving = serving.env("_WRS_EMULATOR_LOG", &log).stdout(writer).stderr(Stdio::null());
    assert_eq!(serving.status().expect("it runs").code(), Some(2));
    let said = fs::read_to_string(log).expect("a log");
    assert!(said.contains("the `wrs-emulator start` that waited for this emulator was ended"), "{said}");
}

#[test]
fn a_folder_that_cannot_be_used_is_said() {
    let project = Project::new();
    let start = |folder: &Path| finish(project.command(&FREE_PORT).env("XDG_RUNTIME_DIR", folder));
    // Of another user, or readable by others.
    let folder = project.records.path().join("wrs-emulator");
    fs::create_dir(&folder).expect("it is created");
    for mode in [0o755, 0o770] {
        fs::set_permissions(&folder, fs::Permissions::from_mode(mode)).expect("it may be changed");
        project.run(&FREE_PORT).exits(2).says(&["belongs to another user, or other users", "chmod 700"]);
    }
    // Commands that need no record are not kept from their work.
    project.run(&["health", "--url", "http://127.0.0.1:1"]).exits(3).says(&["cannot reach the emulator"]);
    project.run(&["scenarios", "schema"]).exits(0);
    start(Path::new("/dev/null")).exits(2).says(&["cannot use `/dev/null/wrs-emulator`", "XDG_RUNTIME_DIR"]);
    start(&folder.join("missing")).exits(2).says(&["cannot use", "XDG_RUNTIME_DIR"]);
    std::os::unix::fs::symlink(project.folder.path(), project.folder.path().join("wrs-emulator")).expect("a link");
    start(project.folder.path()).exits(2).says(&["belongs to another user"]);
}

/// No byte can be written, as on a full disk; a real one is in `tests/machine/full_disk.sh`.
#[test]
fn a_full_disk_starts_nothing() {
    let project = Project::new();
    let failed = project
        .shell(r#"trap '' XFSZ; ulimit -f 0; "$0" start --listen 127.0.0.1:0 2>&1 | cat; "$0" status 2>&1 | cat"#);
    failed.prints(&["error: cannot use", "in XDG_RUNTIME_DIR", "no emulator"]);
    assert!(answers(&project.start(&[])), "once there is space");
}

/// A shell that ends sends SIGHUP, Ctrl-C reaches the whole group, and some runners kill what a command leaves behind.
#[test]
fn it_outlives_the_shell_that_started_it() {
    for signal in ["HUP", "INT", "KILL"] {
        let project = Project::new();
        let shell = project.shell(&format!("\"$0\" start --listen 127.0.0.1:0 && kill -{signal} 0"));
        assert!(shell.status.code().is_none(), "the shell was killed: {shell:?}");
        assert!(answers(text(&shell.stdout).trim()), "{shell:?}");
    }
}

/// Whoever waits for the end of its output, as `$(…)` does and a test runner with a further file, does not wait for the emulator.
#[test]
fn it_keeps_no_stream_of_the_shell() {
    let project = Project::new();
    let line =
        r#"timeout 30 sh -c 'url=$("$0" start --listen 127.0.0.1:0 2>&1 3>&1 | tail -1); echo "it was $url"' "$0""#;
    project.shell(line).exits(0).prints(&["it was "]);
}

#[test]
fn its_variables_are_printed_for_each_shell() {
    let project = Project::new();
    let options = ["--tls", "self-signed", "--control-token", "a secret"];
    let url = project.start(&options);
    let script = r#"eval "$("$0" env)"; unset XDG_RUNTIME_DIR; curl -sf "$WRS_BASE_URL/v1/system/status" -H "Authorization: Bearer $WRS_API_KEY" \
        && "$0" requests --json"#;
    project.shell(script).exits(0).prints(&["\"ok\":true", "/v1/system/status"]);
    // The variables do not count as other options.
    let again = r#"eval "$("$0" env)"; "$0" start --listen 127.0.0.1:0 --tls self-signed --control-token "a secret""#;
    project.shell(again).exits(0).prints(&[&url]);
    // All of them are taken back, also once it has stopped.
    let unset = r#"unset SSL_CERT_FILE CURL_CA_BUNDLE REQUESTS_CA_BUNDLE NODE_EXTRA_CA_CERTS
        env | sort > before; eval "$("$0" env)"; "$0" stop; eval "$("$0" env --unset)"; env | sort | diff before -"#;
    project.shell(unset).exits(0);

    let url = project.start(&options);
    let token = "export WRS_EMULATOR_CONTROL_TOKEN='a secret'\n";
    project.run(&["env"]).exits(0).prints(&[&format!("export WRS_BASE_URL={url}\n"), token]);
    project.run(&["env", "--shell", "fish"]).exits(0).prints(&[&format!("set -gx WRS_BASE_URL {url}\n")]);
    project.run(&["env", "--shell", "powershell"]).exits(0).prints(&[&format!("$env:WRS_BASE_URL = '{url}'\n")]);
    project.run(&["env", "--unset", "--shell", "fish"]).exits(0).prints(&["set -e WRS_BASE_URL\n"]);
    for private in ["json", "log"] {
        let mode = project.file(private).metadata().expect("a file").permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{private}");
    }
}

#[test]
fn its_log_is_followed_until_it_ends() {
    let project = Project::new();
    project.start(&[]);
    let mut follow = project.command(&["logs", "--follow"]);
    let mut follow = Started::new(follow.stdout(Stdio::piped()));
    let mut lines = BufReader::new(follow.stdout.take().expect("a pipe")).lines().map_while(Result::ok);
    assert!(lines.next().is_some_and(|line| line.contains("ready on")));
    project.run(&["subscriptions", "create", "https://a.sink.localhost/"]).exits(0);
    project.run(&["trigger", "workflow.completed"]).exits(0);
    assert!(lines.any(|line| line.contains("event workflow.completed")));
    // A full log is renamed, and a new one begins.
    let log = project.file("log");
    fs::rename(&log, log.with_extension("log.old")).expect("it is renamed");
    fs::write(&log, "a new log\n").expect("it is written");
    assert!(lines.any(|line| line == "a new log"));
    project.run(&["stop"]).exits(0);
    assert!(follow.wait().expect("it ends").success());
    project.run(&["logs"]).exits(0).prints(&["ready on", "a new log\n"]);
}
