//! `--json` of every command: its output when it is done, refused, and when no emulator answers.
//!
//! The commands come from the program itself, so a new one needs a row in [`ROWS`].

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::help::all_help;
use crate::process::{NOWHERE, Served, Started, eventually, request};
use crate::support::{Outcome, finish, listing, text, wrs_emulator};

/// What a command prints on stdout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// One JSON value.
    Document,
    /// A record a line, then a line that states whether there are more.
    Listing,
    /// A JSON object a line, until a signal ends it.
    Stream,
    /// A script for a shell.
    Text,
    /// The output of another program, which has none here.
    Nothing,
}
use Form::{Document, Listing, Nothing, Stream, Text};

/// A command, its form, arguments with which it is done, and arguments with which it is refused, with exit status and code.
pub(crate) type Row = (&'static str, Form, &'static str, &'static str, i32, &'static str);

/// In order, against one emulator. `{name}` stands for an id or a file made before, see [`Stage`].
pub(crate) const ROWS: &[Row] = &[
    ("serve", Stream, "--listen 127.0.0.1:0", "--listen nowhere", 2, "usage"),
    ("exec", Nothing, "-- true", "-- {folder}/missing", 127, "not_run"),
    ("start", Document, "--listen 127.0.0.1:0", "--clock noon", 2, "usage"),
    ("status", Document, "", "--name nobody", 3, "unreachable"),
    ("env", Text, "", "--name nobody", 3, "unreachable"),
    ("logs", Text, "", "--name nobody", 1, "not_found"),
    ("stop", Document, "", "--name a/b", 2, "usage"),
    ("doctor", Document, "", "more", 2, "usage"),
    ("trigger", Document, "workflow.completed --wait", "workflow.completed --key sk_test_nobody", 1, "not_found"),
    ("listen", Stream, "--listen 127.0.0.1:0", "--listen 127.0.0.1:0 --headers x", 2, "usage"),
    (
        "sign",
        Document,
        "{folder}/body --secret whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
        "{folder}/missing --secret whsec_aGVsbG8=",
        2,
        "io",
    ),
    (
        "verify",
        Document,
        "{folder}/body --secret whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw --headers {folder}/signed.json",
        "{folder}/body --secret whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw --headers {folder}/broken.toml",
        2,
        "invalid_file",
    ),
    ("requests list", Listing, "--limit 1", "--key ws_nothing", 1, "not_found"),
    ("requests show", Document, "{request}", "req_nothing", 1, "not_found"),
    ("requests export", Document, "--har -", "--har {folder}/missing/x.har", 2, "io"),
    ("requests wait", Listing, "--status 200 --timeout 0s", "--status 418 --timeout 0s", 1, "timed_out"),
    ("deliveries list", Listing, "--status delivered", "--status lost", 2, "refused"),
    ("deliveries show", Document, "{delivery}", "dlv_nothing", 1, "not_found"),
    ("deliveries wait", Listing, "--count 1 --timeout 0s", "--count 99 --timeout 0s", 1, "timed_out"),
    ("deliveries redeliver", Document, "{delivery}", "dlv_nothing", 1, "not_found"),
    ("subscriptions list", Listing, "", "--key ws_nothing", 1, "not_found"),
    ("subscriptions create", Document, "https://b.sink.localhost/", "nowhere", 2, "refused"),
    ("subscriptions show", Document, "{subscription}", "sub_nothing", 1, "not_found"),
    ("subscriptions rotate", Document, "{subscription}", "sub_nothing", 1, "not_found"),
    ("subscriptions disable", Document, "{subscription}", "sub_nothing", 1, "not_found"),
    ("subscriptions enable", Document, "{subscription}", "sub_nothing", 1, "not_found"),
    ("forwards add", Document, "https://a.example=http://localhost:3000", "https://a.example", 2, "usage"),
    ("forwards list", Listing, "", "--key ws_nothing", 1, "not_found"),
    ("forwards remove", Document, "https://a.example", "https://a.example", 1, "not_found"),
    ("explain", Document, "{request}", "{request} --key sk_test_other", 1, "not_found"),
    ("verdict", Document, "", "--key nonsense", 2, "not_found"),
    ("review findings", Document, "--fail-on never", "--accept {folder}/broken.toml", 2, "invalid_file"),
    (
        "review probe",
        Listing,
        "--list",
        "http://127.0.0.1:1/ --secret whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
        2,
        "unreachable",
    ),
    ("calibrate", Document, "--from {folder}/recording.har", "--from {folder}/missing", 2, "io"),
    ("scenarios list", Listing, "", "more", 2, "usage"),
    ("scenarios show", Document, "always-429", "nothing", 1, "not_found"),
    ("scenarios use", Document, "always-429", "nothing", 1, "not_found"),
    ("scenarios off", Document, "", "--key ws_nothing", 1, "not_found"),
    ("scenarios follow", Document, "--key sk_test_a", "--key ws_nothing", 1, "not_found"),
    ("scenarios new", Document, "mine --folder {folder}/new", "mine --folder {folder}/body", 2, "io"),
    ("scenarios reload", Document, "", "more", 2, "usage"),
    ("scenarios schema", Document, "", "more", 2, "usage"),
    ("check", Document, "{folder}/new", "{folder}/missing", 2, "io"),
    ("clock show", Document, "", "--key ws_nothing", 1, "not_found"),
    ("clock freeze", Document, "", "--key ws_nothing", 1, "not_found"),
    ("clock auto", Document, "", "--key ws_nothing", 1, "not_found"),
    ("clock advance", Document, "1s", "soon", 2, "usage"),
    ("clock set", Document, "2030-01-01T00:00:00Z", "2030-01-01T00:00:00Z --key ws_nothing", 1, "not_found"),
    ("clock resume", Document, "", "--key ws_nothing", 1, "not_found"),
    ("clock follow", Document, "--key sk_test_local", "", 2, "refused"),
    ("snapshot save", Document, "{folder}/state.json", "{folder}/no/state.json", 2, "io"),
    (
        "snapshot fork",
        Document,
        "--from sk_test_local --key sk_test_fork",
        "--from sk_test_local --key sk_test_local",
        2,
        "refused",
    ),
    ("snapshot load", Document, "{folder}/state.json", "{folder}/broken.toml", 2, "invalid_file"),
    ("run save", Document, "{folder}/run.json", "{folder}/no/run.json", 2, "io"),
    ("run view", Stream, "{folder}/run.json", "{folder}/broken.toml", 2, "invalid_file"),
    ("run schema", Document, "", "more", 2, "usage"),
    ("profile show", Listing, "rate_limit", "nothing", 1, "not_found"),
    ("profile set", Document, "rate_limit.requests=5", "rate_limit.request=5", 2, "refused"),
    ("profile unset", Document, "rate_limit.requests", "nothing", 2, "refused"),
    ("assumptions", Listing, "", "--profile {folder}/broken.toml", 2, "invalid_file"),
    ("openapi", Document, "--control", "--profile {folder}/missing.toml", 2, "io"),
    ("completions", Text, "bash", "tcsh", 2, "usage"),
    ("profile schema", Document, "", "extra", 2, "usage"),
    ("profile default", Text, "", "extra", 2, "usage"),
    // Its stdin has ended; its questions are in `mcp.rs`.
    ("mcp", Nothing, "", "--no-such-flag", 2, "usage"),
    ("health", Document, "--wait 1s", "--wait soon", 2, "usage"),
    ("subscriptions delete", Document, "{subscription}", "sub_nothing", 1, "not_found"),
    ("reset", Document, "", "--all --key sk_test_local", 2, "usage"),
];

/// A recording of one call.
const RECORDING: &str = r#"{"log": {"entries": [{"startedDateTime": "2026-01-31T09:30:00.000Z", "request": {"method": "GET",
  "url": "http://localhost/v1/hello"}, "response": {"status": 200, "content": {"text": "{}"}}}]}}"#;

/// An emulator in which something happened, and a folder with files.
pub(crate) struct Stage {
    pub(crate) served: Served,
    folder: tempfile::TempDir,
    names: BTreeMap<&'static str, String>,
}

impl Stage {
    pub(crate) fn set() -> Self {
        let served = Served::start(&["--clock", "frozen", "--quiet"]);
        for _ in 0..3 {
            served.subscribe("https://app.sink.localhost/x");
        }
        served.json(&["trigger", "workflow.completed", "--wait", "--json"]);
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().display().to_string();
        for (name, content) in [("body", "{}"), ("broken.toml", "broken"), ("recording.har", RECORDING)] {
            std::fs::write(folder.path().join(name), content).expect("a file");
        }
        let body = format!("{path}/body");
        let signed = served.call(&["sign", &body, "--secret", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "--json"]);
        std::fs::write(folder.path().join("signed.json"), &signed.stdout).expect("a file");
        let names = BTreeMap::from([
            ("{request}", served.newest("requests")),
            ("{delivery}", served.newest("deliveries")),
            ("{subscription}", served.newest("subscriptions")),
            ("{folder}", path),
        ]);
        Self { served, folder, names }
    }

    /// A command with `--json` and these arguments, for the emulator at this address.
    fn command(&self, command: &str, arguments: &str, url: &str) -> Command {
        self.command_with(&["--json"], command, arguments, url)
    }

    pub(crate) fn command_with(&self, flags: &[&str], command: &str, arguments: &str, url: &str) -> Command {
        let words = command.split(' ').chain(flags.iter().copied()).chain(arguments.split_whitespace());
        let words =
            words.map(|word| self.names.iter().fold(word.to_owned(), |word, (name, id)| word.replace(name, id)));
        let words: Vec<String> = words.collect();
        let mut made = wrs_emulator(&words.iter().map(String::as_str).collect::<Vec<_>>());
        made.env("WRS_EMULATOR_URL", url).env("XDG_RUNTIME_DIR", self.folder.path()).current_dir(self.folder.path());
        made
    }

    fn output(&self, command: &str, arguments: &str, url: &str) -> Outcome {
        finish(&mut self.command(command, arguments, url))
    }
}

/// The objects of a text with one a line.
fn objects(text: &str) -> Vec<Value> {
    let parsed =
        text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap_or_else(|_| panic!("`{line}` is not JSON")));
    parsed.inspect(|line| assert!(line.is_object(), "{line}")).collect()
}

/// Compares a failure, which prints nothing but one error, and returns that.
#[track_caller]
fn fails(what: &str, output: &Outcome, status: i32, code: &str) -> Value {
    assert_eq!((output.status.code(), text(&output.stdout).as_str()), (Some(status), ""), "{what}: {output:?}");
    let [error] = &objects(&text(&output.stderr))[..] else { panic!("{what}: {output:?}") };
    let fields = error["error"].as_object().unwrap_or_else(|| panic!("{what}: {error}"));
    assert_eq!(fields["code"], code, "{what}: {error}");
    assert!(fields["message"].as_str().is_some_and(|message| !message.is_empty()), "{what}: {error}");
    assert!(fields["hint"].is_string() || fields["hint"].is_null(), "{what}: {error}");
    error["error"].clone()
}

#[test]
fn every_command_has_a_row() {
    let commands = all_help();
    let groups: BTreeSet<String> =
        commands.iter().filter_map(|(path, _)| Some(path.split_last()?.1.join(" "))).collect();
    let leaves = commands.iter().map(|(path, _)| path.join(" ")).filter(|path| !groups.contains(path));
    let rows = ROWS.iter().map(|(command, ..)| (*command).to_owned());
    assert_eq!(leaves.collect::<BTreeSet<_>>(), rows.collect::<BTreeSet<_>>());
}

#[test]
fn what_is_done_is_json_alone() {
    let stage = Stage::set();
    for (command, form, done, ..) in ROWS {
        let mut command_line = stage.command(command, done, &stage.served.url);
        if *form == Stream {
            let stream = Served::spawn(&mut command_line);
            let ready = stream.ready.clone();
            stream.signal("TERM");
            let (code, rest, log) = stream.end();
            assert_eq!(code, Some(0), "{command}: {rest}{log}");
            let first = &objects(&ready)[0];
            assert!(first["event"] == "ready" && first["url"].is_string(), "{command}: {first}");
            objects(&(rest + &log));
            continue;
        }
        let output = finish(&mut command_line).exits(0);
        let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
        objects(&stderr);
        match form {
            Document => assert!(
                serde_json::from_str::<Value>(&stdout).is_ok_and(|value| value.is_object()),
                "{command}: {stdout}"
            ),
            Listing => {
                let lines = objects(&stdout);
                let (end, records) = lines.split_last().expect("a last line");
                assert_eq!(
                    (&end["shown"], end["truncated"].is_boolean()),
                    (&json!(records.len()), true),
                    "{command}: {end}"
                );
            }
            Text => assert!(!stdout.is_empty(), "{command}"),
            Nothing => assert_eq!(stdout, "", "{command}"),
            Stream => unreachable!("it was handled above"),
        }
    }
}

#[test]
fn what_is_refused_is_one_error() {
    let stage = Stage::set();
    for (command, _, done, refused, status, code) in ROWS {
        // Some rows need what those before them made.
        if matches!(*command, "snapshot save" | "run save") {
            assert!(stage.output(command, done, &stage.served.url).status.success(), "{command}");
        }
        fails(command, &stage.output(command, refused, &stage.served.url), *status, code);
        let error = fails(command, &stage.output(command, "--no-such-flag", &stage.served.url), 2, "usage");
        assert!(error["hint"].is_string(), "{command}: {error}");
    }
    // What the emulator answered is kept.
    let error =
        fails("wait", &stage.output("requests wait", "--status 418 --timeout 0s", &stage.served.url), 1, "timed_out");
    assert_eq!(error["answer"]["nearest"].as_array().map(Vec::is_empty), Some(false), "{error}");
    let error = fails("typo", &stage.output("requests lst", "", &stage.served.url), 2, "usage");
    assert_eq!(error["hint"], "a similar subcommand exists: 'list'");
    let broken = stage.output("check", "{folder}/new --profile {folder}/broken.toml", &stage.served.url);
    assert_ne!(fails("check", &broken, 2, "io")["message"], Value::Null, "the folder is not there");
    // A flag in the environment counts as well, and so does a format that is JSON.
    let mut advance = wrs_emulator(&["clock", "advance", "soon"]);
    let advance = finish(advance.env("WRS_EMULATOR_CLOCK_ADVANCE_JSON", "1"));
    fails("environment", &advance, 2, "usage");
    fails("format", &finish(&mut wrs_emulator(&["verdict", "--format", "json", "--url", NOWHERE])), 3, "unreachable");
}

#[test]
fn an_emulator_that_cannot_be_reached_is_one_error() {
    let stage = Stage::set();
    let help: BTreeMap<String, &str> = all_help().iter().map(|(path, said)| (path.join(" "), said.as_str())).collect();
    let mut calls = 0;
    let calls_it = |command| !["mcp", "sign"].contains(&command) && help[command].contains("      --url <URL>");
    for (command, _, done, ..) in ROWS.iter().filter(|(command, ..)| calls_it(*command)) {
        // A receiver waits for the emulator to start.
        if *command == "listen" {
            let listening = Served::spawn(&mut stage.command(command, done, NOWHERE));
            listening.signal("TERM");
            let (_, _, said) = listening.end();
            let note = objects(&said).into_iter().find_map(|line| line["note"]["message"].as_str().map(str::to_owned));
            assert!(note.is_some_and(|note| note.contains("no emulator answers")), "{said}");
            continue;
        }
        // Its document shows which check failed.
        if *command == "doctor" {
            let output = stage.output(command, done, NOWHERE).exits(3);
            let diagnosis: Value = serde_json::from_slice(&output.stdout).expect("a document");
            assert_eq!((&diagnosis["healthy"], &diagnosis["checks"][0]["check"]), (&json!(false), &json!("emulator")));
            assert_eq!(text(&output.stderr), "");
            continue;
        }
        let done = done.replace("state.json", "body").replace("--wait 1s", "--wait 10ms");
        let error = fails(command, &stage.output(command, &done, NOWHERE), 3, "unreachable");
        assert!(error["hint"].as_str().is_some_and(|hint| hint.contains("start it")), "{command}: {error}");
        calls += 1;
    }
    // It calls one for an event alone.
    fails("sign", &stage.output("sign", "--event workflow.completed", NOWHERE), 3, "unreachable");
    assert!(calls > 35, "the commands that call were found: {calls}");
}

/// Every page but the last is marked as truncated, and its cursor leads on.
#[test]
fn a_listing_states_whether_there_is_more() {
    let stage = Stage::set();
    let url = &stage.served.url;
    let page = |arguments: &str| listing(&text(&stage.output("requests", arguments, url).stdout)).expect("a listing");
    let first = page("--limit 2");
    assert_eq!((&first["truncated"], &first["shown"]), (&json!(true), &json!(2)), "{first}");
    let last = page(&format!("--limit 2 --cursor {}", first["next_cursor"].as_str().expect("a cursor")));
    assert_eq!(
        (&last["truncated"], &last["shown"], last.get("next_cursor")),
        (&json!(false), &json!(1), None),
        "{last}"
    );
    assert_ne!(first["data"][0]["id"], last["data"][0]["id"]);
    let none = text(&stage.output("requests", "--status 500", url).stdout);
    assert_eq!(none, "{\"truncated\":false,\"shown\":0}\n");
    // Fields other than the records are in the last line.
    let scenarios = listing(&text(&stage.output("scenarios", "", url).stdout)).expect("a listing");
    assert!(scenarios["active_by_key"].is_array() && scenarios["generation"].is_number(), "{scenarios}");
}

/// As with `| head -1`.
#[test]
fn a_reader_that_leaves_ends_a_command_quietly() {
    let stage = Stage::set();
    for follow in [false, true] {
        let mut command =
            stage.command("requests list", if follow { "--follow" } else { "--limit 1000" }, &stage.served.url);
        let mut child = Started::new(command.stdout(Stdio::piped()).stderr(Stdio::piped()));
        let mut reader = BufReader::new(child.stdout.take().expect("a pipe"));
        let mut status = None;
        if follow {
            // It prints later records, and ends with the first one that cannot be written.
            let (sender, received) = std::sync::mpsc::channel();
            std::thread::spawn(move || {
                let _ = sender.send(reader.read_line(&mut String::new()).map(|_| reader));
            });
            eventually("it ends", || {
                request(&stage.served.url, "GET /v1/hello HTTP/1.1", "");
                let _ = received.try_recv().map(drop);
                status = child.try_wait().expect("it can be asked");
                status.is_some()
            });
        } else {
            drop(reader);
            status = Some(child.wait().expect("it ends"));
        }
        let _ = child.kill();
        let mut stderr = String::new();
        child.stderr.take().expect("a pipe").read_to_string(&mut stderr).expect("text");
        assert_eq!((status.and_then(|status| status.code()), stderr.as_str()), (Some(0), ""), "follow: {follow}");
    }
}

/// Each line of a followed list is a record, and the last one counts them.
#[test]
fn a_followed_list_ends_with_its_count() {
    let mut stage = Stage::set();
    let url = stage.served.url.clone();
    let mut command = stage.command("requests list", "--follow", &url);
    let mut child = Started::new(command.stdout(Stdio::piped()));
    let lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    let (sender, received) = std::sync::mpsc::channel();
    std::thread::spawn(move || lines.map_while(Result::ok).all(|line| sender.send(line).is_ok()));
    let mut first = None;
    eventually("a request is followed", || {
        request(&url, "GET /v1/hello HTTP/1.1", "");
        first = received.try_recv().ok();
        first.is_some()
    });
    stage.served.kill();
    assert_eq!(child.wait().expect("it ends").code(), Some(0));
    let lines: Vec<String> = first.into_iter().chain(received.iter()).collect();
    let followed = listing(&lines.join("\n")).unwrap_or_else(|| panic!("{lines:?}"));
    assert_eq!((&followed["truncated"], &followed["shown"]), (&json!(false), &json!(lines.len() - 1)), "{lines:?}");
    assert!(followed["data"][0]["path"] == "/v1/hello", "{lines:?}");
}

/// The words of people become words for programs everywhere: a warning, and the verdict of `exec`.
#[test]
fn warnings_and_verdicts_on_stderr_are_json_lines() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut exec =
        wrs_emulator(&["exec", "--json", "--fail-on", "unmatched", "--", "sh", "-c", "curl -s $WRS_BASE_URL/v1/no"]);
    let output = finish(exec.current_dir(folder)).exits(1);
    let verdict = objects(&text(&output.stderr)).pop().expect("a verdict");
    assert_eq!((&verdict["failed"], &verdict["counts"]["unmatched"]), (&json!(true), &json!(1)), "{verdict}");
    let signed = finish(&mut wrs_emulator(&["sign", "--json", "-", "--secret", "whsec_short"]));
    objects(&text(&signed.stderr));
}
