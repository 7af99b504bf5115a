//! `review differential` on the real binary: clients that each rely on one thing that was never promised are named for it, a sound one
//! for nothing; and whatever the command does, it ends and nothing is left behind.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use wrs_emulator::clock::machine;

use crate::exec::{ended, start};
use crate::process;
use crate::support::{Outcome, PATIENCE, finish, text, wrs_emulator};

const CLIENTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/review/differential");

/// A command that notes its runs.
const RUN: &[&str] = &["sh", "-c", "echo x >> runs"];

/// A folder for temporary files and a command's notes.
struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        let place = Self(tempfile::tempdir().expect("a folder"));
        std::fs::create_dir(place.path("tmp")).expect("a folder");
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// What a command has noted in a file, line by line.
    fn notes(&self, name: &str) -> Vec<String> {
        let text = std::fs::read_to_string(self.path(name)).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    fn command(&self, flags: &[&str], command: &[&str]) -> Command {
        let mut started = wrs_emulator(&[&["review", "differential"], flags, &["--"], command].concat());
        started.current_dir(self.0.path()).env("TMPDIR", self.path("tmp"));
        started
    }

    fn run(&self, flags: &[&str], script: &str) -> Outcome {
        outcome(&mut self.command(flags, &["sh", "-c", script]))
    }

    /// True if nothing is left in the folder for temporary files.
    fn is_clean(&self) -> bool {
        std::fs::read_dir(self.path("tmp")).expect("the folder").next().is_none()
    }
}

/// What comes of a command, which is killed if it hangs.
fn outcome(command: &mut Command) -> Outcome {
    let output = ended(start(command));
    Outcome::new(command, output)
}

/// What is said of a planted client.
fn of_client(name: &str, flags: &[&str]) -> (Option<i32>, Value) {
    let (place, script) = (Place::new(), format!("{CLIENTS}/{name}.py"));
    let flags = [&["--set", "webhooks.allow_http=true", "--json"], flags].concat();
    let output = outcome(&mut place.command(&flags, &["python3", "-SB", &script]));
    let report = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"));
    (output.status.code(), report)
}

/// The changes with this outcome, and their parts.
fn with_outcome<'r>(report: &'r Value, outcome: &str) -> Vec<(&'r str, Vec<&'r str>)> {
    let name = |value: &'r Value| value["name"].as_str().expect("a name");
    let changes = report["changes"].as_array().expect("changes").iter().filter(|change| change["outcome"] == outcome);
    changes
        .map(|change| (name(change), change["smallest"].as_array().expect("parts").iter().map(name).collect()))
        .collect()
}

/// A client, the change under which it fails, and the smallest parts of that.
const RELIES_ON: &[(&str, &str, &[&str])] = &[
    ("message-text", "message-text", &["422"]),
    ("error-codes", "error-codes", &["422"]),
    ("extra-fields", "extra-fields", &["answers"]),
    ("extra-headers", "extra-headers", &["Retry-After"]),
    ("ids", "long-ids", &[]),
    ("malformed-status", "malformed-status", &[]),
    ("unpublished-shapes", "unpublished-shapes", &["GET /v1/hello"]),
    ("key-order", "key-order", &["answers"]),
    ("extra-fields-of-events", "extra-fields", &["events"]),
    ("timestamps", "whole-seconds", &[]),
    ("doubled-events", "doubled-events", &[]),
    ("reordered-events", "reordered-events", &[]),
];

/// Each client fails under its change alone, and under no other that is tried.
#[test]
fn what_a_client_relies_on_is_found() {
    let check = |client: &str, change: &str, parts: &[&str]| {
        let (code, report) = of_client(client, &["--only", &format!("{change},short-ids")]);
        assert_eq!(with_outcome(&report, "failed"), [(change, parts.to_vec())], "{client}: {report:#}");
        assert_eq!((code, &report["unstable"]), (Some(1), &0.into()), "{client}: {report:#}");
        let kept = report["folder"].as_str().expect("a folder");
        let mut changes = report["changes"].as_array().expect("changes").iter();
        let is_kept = |change: &Value| change["output"].as_str().is_some_and(|path| path.starts_with(kept));
        assert!(changes.any(is_kept), "{report:#}");
    };
    // They wait more than they compute.
    for some in RELIES_ON.chunks(3) {
        std::thread::scope(|scope| {
            for (client, change, parts) in some {
                scope.spawn(move || check(client, change, parts));
            }
        });
    }
}

#[test]
fn a_sound_client_sees_every_change_and_passes() {
    let (code, report) = of_client("sound", &["--jobs", "3"]);
    assert_eq!((code, with_outcome(&report, "passed").len()), (Some(0), 13), "{report:#}");
    assert_eq!((&report["runs"], &report["folder"]), (&14.into(), &Value::Null), "{report:#}");
}

#[test]
fn the_smallest_part_and_the_first_request_that_differs_are_named() {
    let place = Place::new();
    let script = format!("{CLIENTS}/message-text.py");
    let flags = ["--only", "message-text,error-codes", "--junit", "results.xml"];
    let output = outcome(&mut place.command(&flags, &["python3", "-SB", &script]));
    let (said, progress) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(1), "{said}");
    for expected in [
        "failed         message-text",
        "passed         error-codes",
        "  smallest  422\n",
        "  first     POST /v1/events/subscribe (number 2) did not come any more\n",
        "  after     the answer 422 to POST /v1/events/subscribe (req_",
        "this message has another wording",
        "  repeat    wrs-emulator exec --set 'errors.messages.validation_error=\"this message has another wording\"' -- CMD, with your own flags\n",
        "    | AssertionError\n",
        "2 changes with 11 runs in ",
        "1 passed, 1 failed, 0 unstable, 0 not exercised; what each run printed is in ",
    ] {
        assert!(said.contains(expected), "{expected}: {said}");
    }
    assert_eq!(
        progress,
        "[0/2] the command as it is … passed\n[1/2] message-text … failed\n[2/2] error-codes … passed\n"
    );
    assert!(!said.contains('\u{1b}') && !progress.contains('\u{1b}'), "colors are for terminals");
    let results = std::fs::read_to_string(place.path("results.xml")).expect("the results");
    let document = roxmltree::Document::parse(&results).expect("XML");
    let suite = document.descendants().find(|node| node.has_tag_name("testsuite")).expect("a suite");
    assert_eq!(["tests", "failures", "skipped"].map(|name| suite.attribute(name)), [Some("3"), Some("1"), Some("0")]);
    // The whole output and the run of the smallest part are kept.
    let kept = said.rsplit("printed is in ").next().expect("a folder").trim();
    let run: Value = serde_json::from_slice(&std::fs::read(format!("{kept}/message-text-part-2.json")).expect("a run"))
        .expect("JSON");
    assert_eq!((&run["format"], &run["exec"]["exit_status"]), (&"wrs-emulator-run".into(), &1.into()));
    assert!(
        std::fs::read_to_string(format!("{kept}/message-text-part-2.txt")).expect("text").contains("AssertionError")
    );
}

#[test]
fn a_command_that_fails_as_it_is_is_run_once() {
    let place = Place::new();
    let output = place.run(&["--junit", "results.xml"], "echo x >> runs; echo told you >&2; exit 3");
    let said = text(&output.stdout);
    assert_eq!((output.status.code(), place.notes("runs").len()), (Some(1), 1), "{said}");
    assert!(
        said.starts_with("    | told you\nfailed  without any change: the command ended with exit status 3; make"),
        "{said}"
    );
    assert!(!place.is_clean(), "the output is kept");
    assert!(std::fs::read_to_string(place.path("results.xml")).expect("the results").contains("failures=\"1\""));
}

#[test]
fn a_flaky_command_is_unstable_and_no_change_is_accused() {
    // The runs are: plain, the change, plain again, the change again.
    for (fails, reason) in
        [("2", "passed when it was run again"), ("[23]", "without any change, too"), ("[234]", "without")]
    {
        let place = Place::new();
        let script = format!("echo x >> runs; case $(grep -c . runs) in {fails}) echo flaky; exit 1; esac");
        place
            .run(&["--only", "long-ids"], &script)
            .exits(0)
            .prints(&["\nunstable, so nothing is proven:\n  long-ids: the command ", reason]);
        assert!(!place.is_clean(), "the output is kept");
    }
}

#[test]
fn what_the_command_did_not_see_proves_nothing() {
    let place = Place::new();
    place.run(&["--jobs", "4"], "true").exits(0).prints(&[
        "\nnot exercised, so unproven:\n  message-text: let the command meet errors",
        "0 passed, 0 failed, 0 unstable, 13 not exercised\n",
    ]);
    assert!(place.is_clean(), "nothing failed");
    place
        .run(&["--only", "reordered-events", "--clock", "frozen"], "echo x >> runs")
        .prints(&["reordered-events: the command freezes the clock"]);
    assert_eq!(place.notes("runs").len(), 1);
}

#[test]
fn all_runs_have_one_seed_and_the_settings_given() {
    let place = Place::new();
    let call = "curl -s -H \"authorization: Bearer $WRS_API_KEY\" -H 'content-type: application/json' \
                -d '{\"url\":\"http://a.example/\",\"events\":[\"workflow.completed\"]}' $WRS_BASE_URL/v1/events/subscribe";
    let flags = ["--set", "webhooks.allow_http=true", "--clock", "2026-01-31T09:30:00Z", "--keep", "kept/all"];
    place.run(&[&flags[..], &["--only", "message-text,whole-seconds"]].concat(), call).exits(0);
    let [plain, same, other] = ["plain", "message-text", "whole-seconds"]
        .map(|name| std::fs::read_to_string(place.path(&format!("kept/all/{name}.txt"))).expect("its output"));
    assert!(plain.contains("\"created_at\":\"2026-01-31T09:30:00.000Z\"") && plain.contains("whsec_"), "{plain}");
    assert_eq!((&same, other.replace("00Z", "00.000Z")), (&plain, plain.clone()));
}

#[test]
fn wrong_usage_is_refused_before_anything_runs() {
    let place = Place::new();
    std::fs::write(place.path("plain"), "no program").expect("it is written");
    for (flags, command, expected) in [
        (&[][..], &[][..], "CMD"),
        (&[], &["no-such-command-anywhere"], "there is no command `no-such-command-anywhere`"),
        (&[], &["./plain"], "cannot run `./plain`"),
        (&["--only", "key-ordr"], RUN, "a similar value exists: 'key-order'"),
        (&["--jobs", "0"], RUN, "--jobs"),
        (&["--timeout", "0s"], RUN, "expected more than 0"),
        (&["--timeout", "soon"], RUN, "--timeout"),
        (&["--junit", "no/such/folder.xml"], RUN, "--junit: cannot write `no/such/folder.xml`"),
        (&["--keep", "plain"], RUN, "--keep: cannot create the folder `plain`"),
        (&["--state", "state.json"], RUN, "--state is of no use here"),
        (&["--listen", "127.0.0.1:9", "--jobs", "2"], RUN, "cannot listen on one port"),
        (&["--set", "no.such=1"], RUN, "--set"),
        (&["--scenario", "no-such-scenario"], RUN, "no-such-scenario"),
    ] {
        let output = outcome(&mut place.command(flags, command)).exits(2);
        let said = text(&output.stderr);
        assert!(said.contains(expected) && output.stdout.is_empty(), "{flags:?}: {said}");
        assert!(place.is_clean() && place.notes("runs").is_empty(), "{flags:?}");
    }
}

/// Waits until none of these processes exists.
fn assert_gone(processes: &[String]) {
    assert!(!processes.is_empty(), "the command has noted its processes");
    let began = machine::monotonic();
    for process in processes {
        // A process that has ended may wait for its parent, and then has no command line.
        let is_there =
            || std::fs::read(Path::new("/proc").join(process).join("cmdline")).is_ok_and(|line| !line.is_empty());
        while is_there() {
            assert!(began.elapsed() < PATIENCE, "process {process} is still there");
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
    }
}

const LINGER: &str = "sleep 1000 & echo $! >> processes; ";

#[test]
fn a_command_that_hangs_is_ended_with_all_that_it_started() {
    let place = Place::new();
    place
        .run(&["--timeout", "1s"], &format!("{LINGER} trap '' TERM; echo $$ >> processes; sleep 1000; sleep 1000"))
        .exits(1)
        .prints(&["the command did not end within 1 s; make the command pass first"]);
    assert_gone(&place.notes("processes"));
}

#[test]
fn a_change_that_makes_the_command_hang_has_failed() {
    let place = Place::new();
    let script = "case $(curl -s -H 'authorization: Bearer wrong' $WRS_BASE_URL/v1/system/status) in \
                  *req_????????????????????????????????????????*) sleep 1000;; esac";
    place.run(&["--only", "long-ids,error-codes", "--timeout", "3s"], script).prints(&[
        "\nlong-ids: failed: the command did not end within 3 s\n",
        "no request differs: the command fails on the contents of an answer",
        "\nnot exercised, so unproven:\n  error-codes: ",
    ]);
}

#[test]
fn what_a_command_leaves_running_does_not_meet_the_next_run() {
    let place = Place::new();
    let check = "for process in $(cat processes); do [ -s /proc/$process/cmdline ] && exit 1; done; ";
    place.run(&["--only", "long-ids,short-ids"], &format!("touch processes; {check}{LINGER}")).exits(0);
    assert_eq!(place.notes("processes").len(), 3);
    assert_gone(&place.notes("processes"));
}

#[test]
fn a_signal_ends_everything_and_leaves_nothing() {
    for (signal, code) in [("INT", 130), ("TERM", 143)] {
        let place = Place::new();
        let script = format!("{LINGER} echo $$ >> processes; sleep 1000");
        let child = start(&mut place.command(&["--jobs", "2"], &["sh", "-c", &script]));
        let began = machine::monotonic();
        while place.notes("processes").len() < 2 {
            assert!(began.elapsed() < PATIENCE, "the command does not start");
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        process::signal(&child, signal);
        assert_eq!(ended(child).status.code(), Some(code), "{signal}");
        assert_gone(&place.notes("processes"));
        assert!(place.is_clean(), "{signal}");
    }
}

#[test]
fn the_changes_are_listed() {
    let [plain, json] = [&[][..], &["--json"]].map(|more| {
        let output = finish(&mut wrs_emulator(&[&["review", "differential", "--list"], more].concat())).exits(0);
        text(&output.stdout)
    });
    let listed: Value = serde_json::from_str(&json).expect("JSON");
    for change in listed["data"].as_array().expect("changes") {
        let [name, clause] = ["name", "clause"].map(|field| change[field].as_str().expect("text"));
        assert!(plain.lines().any(|line| line.starts_with(name) && line.ends_with(clause)), "{name}: {plain}");
    }
}
