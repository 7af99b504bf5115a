//! `exec --under` on the real binary: suites that each lean on one thing that was never promised are told which, a tolerant one passes
//! under every reading; the grid in each of its forms; and whatever the command does, it ends.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::exec::start;
use crate::process::{self, Started, eventually};
use crate::run_files::data_of;
use crate::support::{Outcome, text, wrs_emulator};

const SUITES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/under");

/// A folder in which commands run and leave notes.
struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("a folder"))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, content: &str) {
        std::fs::write(self.path(name), content).expect("it is written");
    }

    /// What a command has noted in a file, line by line.
    fn notes(&self, name: &str) -> Vec<String> {
        let text = std::fs::read_to_string(self.path(name)).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    fn command(&self, readings: &str, flags: &[&str], command: &[&str]) -> Command {
        let mut started = wrs_emulator(&[&["exec", "--under", readings], flags, &["--"], command].concat());
        started.current_dir(self.0.path());
        started
    }

    fn run(&self, readings: &str, flags: &[&str], script: &str) -> Outcome {
        outcome(&mut self.command(readings, flags, &["sh", "-c", script]))
    }

    /// One of the suites, with the JSON that is printed.
    fn suite(&self, name: &str, readings: &str, flags: &[&str]) -> (Option<i32>, Value) {
        let (script, always) = (format!("{SUITES}/{name}.py"), ["--json", "--set", "webhooks.allow_http=true"]);
        let flags = [&always, flags].concat();
        let output = outcome(&mut self.command(readings, &flags, &["python3", "-SB", &script]));
        let grid = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"));
        (output.status.code(), grid)
    }
}

/// What comes of a command, which is killed if it hangs.
fn outcome(command: &mut Command) -> Outcome {
    let output = start(command).output();
    Outcome::new(command, output)
}

/// The readings of a grid, and those that failed with the first test that did.
fn readings(grid: &Value) -> (Vec<&str>, Vec<(&str, Option<&str>)>) {
    fn name(row: &Value) -> &str {
        row["reading"].as_str().expect("a name")
    }
    let rows = grid["readings"].as_array().expect("rows");
    let failed = rows.iter().filter(|row| row["exit_status"] != 0);
    (rows.iter().map(name).collect(), failed.map(|row| (name(row), row["failed_test"].as_str())).collect())
}

const PRESETS: &str = "contract,friendly,hostile";
const PASSES: &str = "your suite passes under every reading";

/// Three suites, each under the presets and under each change.
#[test]
fn the_reading_that_breaks_a_suite_is_named() {
    let check = |suite: &str, readings_of: &str, broken: &[(&str, Option<&str>)], sentence: &str| {
        let (code, grid) = Place::new().suite(suite, readings_of, &["--jobs", "4"]);
        let (all, failed) = readings(&grid);
        assert_eq!((all[0], all.len()), ("contract", if readings_of == "each" { 17 } else { 3 }), "{grid:#}");
        assert_eq!((code, failed), (Some(i32::from(!broken.is_empty())), broken.to_vec()), "{suite}: {grid:#}");
        assert_eq!(grid["sentence"], sentence, "{suite}");
        let first = broken.first().map_or("contract", |(name, _)| name);
        assert_eq!(grid["reading"], first, "{suite}");
    };
    let hostile = "your suite passes unless the profile is `hostile`";
    let (place, count) = (Some("test_subscription"), Some("test_count"));
    // They wait more than they compute.
    std::thread::scope(|scope| {
        scope.spawn(|| {
            check("tolerant", PRESETS, &[], PASSES);
            check("key-order", PRESETS, &[("hostile", place)], hostile);
            check("events-once", PRESETS, &[("hostile", count)], hostile);
        });
        scope.spawn(|| check("tolerant", "each", &[], PASSES));
        scope.spawn(|| {
            let unless = "your suite passes unless the keys of JSON objects come in the reverse order (`key-order`)";
            check("key-order", "each", &[("key-order", place)], unless);
            let unless = "your suite passes unless each event is delivered twice (`doubled-events`)";
            check("events-once", "each", &[("doubled-events", count)], unless);
        });
    });
}

/// Fails under `key-order`, with its last lines on stdout.
const LEANS: &str = "curl -s -H \"authorization: Bearer $WRS_API_KEY\" $WRS_BASE_URL/v1/system/status | tee seen | \
                     grep -q '^{\"ok\"' || { echo 'got:'; cat seen; exit 3; }";

#[test]
fn the_grid_is_printed_with_what_failed_runs_printed() {
    let place = Place::new();
    let output = place.run("friendly,key-order", &[], &format!("echo hello; {LEANS}")).exits(1);
    let (said, progress) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(
        said,
        "reading    exit  problems  first failed test\n\
         contract   0     0         -\n\
         friendly   0     0         -\n\
         key-order  3     0         -\n\
         \n\
         ✗ your suite passes unless the keys of JSON objects come in the reverse order (`key-order`)\n"
    );
    let expected = "hello\nnote: [1/3] contract: passed\nnote: [2/3] friendly: passed\n\
                    note: [3/3] key-order: failed, exit status 3\n    | hello\n    | got:\n    | {\"";
    assert!(progress.starts_with(expected), "{progress}");
    assert!(!said.contains('\u{1b}') && !progress.contains('\u{1b}'), "colors are for terminals");
    let quiet = place.run("key-order", &["--quiet"], "echo hello").exits(0);
    assert_eq!(text(&quiet.stderr), "hello\n");
    assert!(text(&quiet.stdout).ends_with("✓ your suite passes under every reading\n"), "{quiet:?}");
}

#[test]
fn the_report_is_that_of_the_first_reading_that_failed() {
    let place = Place::new();
    let summary = place.path("summary");
    let mut command = place.command("each", &["--report", "report.html", "--json"], &["sh", "-c", LEANS]);
    command.env("GITHUB_ACTIONS", "true").env("GITHUB_STEP_SUMMARY", &summary);
    let output = outcome(&mut command).exits(1);
    let printed: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let sentence = "your suite passes unless the keys of JSON objects come in the reverse order (`key-order`)";
    assert_eq!((&printed["reading"], &printed["sentence"]), (&json!("key-order"), &json!(sentence)));
    let run = data_of(&std::fs::read_to_string(place.path("report.html")).expect("a report"));
    assert_eq!((&run["exec"]["under"], &run["exec"]["exit_status"]), (&printed, &json!(3)));
    assert!(run["exec"]["output"].as_str().is_some_and(|output| output.starts_with("got:")), "{}", run["exec"]);
    assert_eq!(run["requests"].as_array().map(Vec::len), Some(1));
    let said = text(&output.stderr);
    assert!(said.lines().all(|line| serde_json::from_str::<Value>(line).is_ok()), "{said}");
    assert!(said.contains("the report of `key-order` is in `report.html`"), "{said}");
    let mut command = place.command("key-order", &[], &["sh", "-c", LEANS]);
    let annotated = outcome(command.env("GITHUB_ACTIONS", "true").env("GITHUB_STEP_SUMMARY", "")).exits(1);
    let said = text(&annotated.stderr);
    assert!(said.contains(&format!("::error title=wrs-emulator::{sentence}\n")), "{said}");
    let written = std::fs::read_to_string(&summary).expect("a summary");
    assert!(written.starts_with(&format!("### wrs-emulator: readings\n\n    ✗ {sentence}\n    reading ")), "{written}");
    assert!(written.ends_with("\n\nThe whole run: `report.html`\n\n"), "{written}");
    // Of a saved run the same is judged.
    place.run("each", &["--report", "run.json"], "true").exits(0);
    let run: Value = serde_json::from_slice(&std::fs::read(place.path("run.json")).expect("a run")).expect("JSON");
    assert_eq!(run["exec"]["under"]["reading"], "contract");
    outcome(wrs_emulator(&["verdict", "--from", "run.json"]).current_dir(place.0.path())).exits(0);
}

#[test]
fn a_suite_that_fails_under_contract_is_run_once() {
    let place = Place::new();
    let output = place.run("each", &[], "echo x >> runs; echo told you >&2; exit 3").exits(3);
    assert_eq!((place.notes("runs").len(), text(&output.stderr).matches("told you").count()), (1, 1), "{output:?}");
    output.prints(&["contract  3 ", "\n✗ your suite fails under `contract` itself; mend that first\n"]);
    // What --fail-on names fails a reading, too.
    place
        .run("each", &["--fail-on", "unmatched"], "curl -s -o /dev/null $WRS_BASE_URL/v1/helo")
        .exits(1)
        .prints(&["contract  1     1 "])
        .says(&["[1/17] contract: failed, exit status 1; 1 request matched no endpoint\n"]);
}

#[test]
fn a_reading_is_a_preset_a_change_or_a_profile_file() {
    let place = Place::new();
    place.write("mine.toml", "hello.body = { version = 'mine' }\n");
    let call = "curl -s -H \"authorization: Bearer $WRS_API_KEY\" -H 'content-type: application/json' \
                -d '{\"url\":\"http://a.example/\",\"events\":[\"workflow.completed\"]}' $WRS_BASE_URL/v1/events/subscribe >> all; \
                echo >> all; curl -s $WRS_BASE_URL/v1/hello >> hello; echo >> hello";
    // What is named twice is run once, and the settings, the clock and the seed are the same each time.
    let readings = "mine.toml,whole-seconds,contract,mine.toml";
    let flags = ["--set", "webhooks.allow_http=true", "--clock", "2026-01-31T09:30:00Z"];
    place.run(readings, &flags, call).exits(0).prints(&["\ncontract ", "\nmine.toml ", "\nwhole-seconds "]);
    let [plain, mine, seconds] = &place.notes("all")[..] else { panic!("three runs: {:?}", place.notes("all")) };
    assert!(plain.contains("\"created_at\":\"2026-01-31T09:30:00.000Z\"") && plain.contains("whsec_"), "{plain}");
    assert_eq!((mine, seconds.replace("00Z", "00.000Z")), (plain, plain.clone()));
    let hello = place.notes("hello");
    assert!(hello[1].contains("\"version\":\"mine\"") && hello[0] == hello[2] && hello[0] != hello[1], "{hello:?}");
    place
        .run("./mine.toml", &[], "test -e all && curl -s $WRS_BASE_URL/v1/hello | grep -v mine")
        .exits(1)
        .prints(&["✗ your suite passes unless the profile is `./mine.toml`\n"]);
}

#[test]
fn several_runs_at_a_time_are_listed_in_their_order() {
    let place = Place::new();
    // Each of the two waits for the other to have begun, and the first for the end of the second to be reported.
    let script = "mkdir -p runs; : > runs/$$; [ $(ls runs | wc -l) = 1 ] && exit; \
                  while [ $(ls runs | wc -l) != 3 ]; do sleep 0.05; done; \
                  case $(curl -s -H \"authorization: Bearer $WRS_API_KEY\" $WRS_BASE_URL/v1/system/status) in '{\"ok\"'*) \
                  until grep -q '2/3' said; do sleep 0.05; done;; esac";
    let said = std::fs::File::create(place.path("said")).expect("a file");
    let mut command = place.command("friendly,key-order", &["--jobs", "2"], &["sh", "-c", script]);
    let output = Started::with_group(command.stdout(Stdio::piped()).stderr(said)).output();
    Outcome::new(&command, output).exits(0).prints(&[
        "exit  problems  first failed test\ncontract   0     1         -\nfriendly   0     0         -\nkey-order  0 ",
    ]);
    let ends = &place.notes("said")[1..];
    assert_eq!(ends, ["note: [2/3] key-order: passed", "note: [3/3] friendly: passed"]);
}

#[test]
fn wrong_usage_is_refused_before_anything_runs() {
    let place = Place::new();
    place.write("broken.toml", "rate_limit.request = 5\n");
    for (readings, flags, expected) in [
        (
            "key-ordr",
            &[][..],
            "--under: unknown reading `key-ordr`\n\nhint: did you mean `key-order`? a reading is contract, ",
        ),
        ("nonsense", &[], "or one of its changes: message-text, error-codes, key-order, "),
        ("contract,", &[], "unknown reading ``"),
        ("no/such.toml", &[], "--under: cannot read `no/such.toml`"),
        ("broken.toml", &[], "broken.toml:1:"),
        ("each", &["--set", "no.such=1"], "--set"),
        ("each", &["--jobs", "0"], "--jobs"),
        ("each", &["--profile", "hostile"], "cannot be used with '--profile"),
        ("each", &["--state", "state.json"], "cannot be used with '--state"),
        ("each", &["--verdict-file", "verdict.xml"], "cannot be used with '--verdict-file"),
        ("each", &["--listen", "127.0.0.1:9", "--jobs", "2"], "cannot listen on one port"),
        ("each", &["--report", "no/such/folder.html"], "--report: cannot write"),
    ] {
        let output = place.run(readings, flags, "echo x >> runs").exits(2);
        let said = text(&output.stderr);
        assert!(said.contains(expected) && output.stdout.is_empty(), "{readings} {flags:?}: {said}");
        assert!(place.notes("runs").is_empty(), "{readings} {flags:?}");
    }
    let missing = outcome(&mut place.command("each", &[], &["no-such-command-anywhere"])).exits(127);
    missing.says(&["there is no command `no-such-command-anywhere`"]);
    outcome(&mut wrs_emulator(&["exec", "--jobs", "2", "--", "true"])).exits(2).says(&["--under"]);
}

/// Those that run get it, and no other begins.
#[test]
fn a_signal_ends_every_run() {
    for (signal, code) in [("INT", 130), ("TERM", 143)] {
        let place = Place::new();
        let script = "[ -e first ] || { : > first; exit; }; echo $$ >> processes; exec sleep 1000";
        let flags = ["--jobs", "2", "--report", "run.json"];
        let child = start(&mut place.command("each", &flags, &["sh", "-c", script]));
        eventually("two runs begin", || place.notes("processes").len() == 2);
        process::signal(&child, signal);
        let output = child.output();
        let said = text(&output.stdout);
        assert_eq!(output.status.code(), Some(code), "{output:?}");
        assert!(said.contains("✗ interrupted: 3 of 17 readings were tried\n"), "{said}");
        assert!(said.contains(&format!("message-text  {code} ")), "{said}");
        let processes = place.notes("processes");
        assert_eq!(processes.len(), 2, "no other run began");
        for process in processes {
            assert!(!PathBuf::from("/proc").join(&process).exists(), "process {process} is still there");
        }
        assert!(place.path("run.json").exists());
    }
}
