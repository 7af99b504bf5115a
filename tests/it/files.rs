//! The program's own files: whatever is put where a file is expected, nothing blocks, nothing foreign is overwritten, and a
//! file that could not be written is reported.

use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::{Value, json};

use crate::exec::start;
use crate::process::{Served, eventually, signal};
use crate::support::{Outcome, finish, text, wrs_emulator};
use crate::wire::process::{has_closed, under_way};

fn make_pipe(path: &Path) {
    let made = Command::new("mkfifo").arg(path).status().expect("mkfifo runs");
    assert!(made.success(), "the pipe is made");
}

/// Between a look at a file and its opening another may have taken its place.
#[test]
fn a_pipe_renamed_over_a_scenario_while_it_is_read_blocks_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    std::fs::write(path("story.toml"), "title = \"one\"\n").expect("it is written");
    make_pipe(&path(".pipe"));
    let mut served = Served::start(&["--scenarios", &folder.path().display().to_string()]);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                std::fs::hard_link(path(".pipe"), path(".next")).expect("it is linked");
                std::fs::rename(path(".next"), path("story.toml")).expect("it is renamed");
                std::fs::write(path(".next"), "title = \"two\"\n").expect("it is written");
                std::fs::rename(path(".next"), path("story.toml")).expect("it is renamed");
            }
        });
        let tried = std::panic::catch_unwind(|| {
            for _ in 0..300 {
                let (status, _) = served.control("POST", "scenarios/reload", &json!({}));
                assert!([200, 422].contains(&status), "{status}");
            }
            served.serves();
        });
        done.store(true, Ordering::Relaxed);
        tried.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    });
    served.signal("TERM");
    assert_eq!(served.exit_code(), 0);
}

/// A folder, and the path of a state in it.
fn with_state() -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("state.json").display().to_string();
    (folder, file)
}

/// What is in a folder, in order.
fn names_in(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).expect("a folder").flatten();
    let mut names: Vec<String> = entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// Runs a command that is to end by itself.
fn run(arguments: &[&str]) -> Outcome {
    let mut command = wrs_emulator(arguments);
    let output = start(&mut command).output();
    Outcome::new(&command, output)
}

/// A second process with this state.
fn serve_again(state: &str) -> Outcome {
    run(&["serve", "--listen", "127.0.0.1:0", "--state", state])
}

#[test]
fn a_state_that_cannot_be_saved_at_the_stop_is_an_exit_code_of_1() {
    let (folder, state) = with_state();
    let served = Served::start(&["--state", &state]);
    served.serves();
    // A save at the same moment may put its file into the folder that is being removed.
    while folder.path().exists() {
        let _ = std::fs::remove_dir_all(folder.path());
    }
    let (code, said) = served.stop();
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("error: the state was not saved in `") && said.contains("state.json"), "{said}");

    let (folder, state) = with_state();
    let folder = folder.path().display().to_string();
    let remove = format!("until rm -rf {folder}; do :; done");
    run(&["exec", "--state", &state, "--listen", "127.0.0.1:0", "--", "sh", "-c", &remove])
        .exits(1)
        .says(&["the state was not saved in `"]);
}

/// A link may lead to a file that is not a scenario at all: a diagnostic gives the place in it, and none of its text.
#[test]
fn a_link_out_of_the_folder_shows_nothing_of_its_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let elsewhere = tempfile::tempdir().expect("a folder");
    for (name, text) in [("passwords", "root:hidden:0"), ("credentials", "[registry]\nkey = 'hidden'\n")] {
        std::fs::write(elsewhere.path().join(name), text).expect("it is written");
        let link = folder.path().join(format!("{name}.toml"));
        std::os::unix::fs::symlink(elsewhere.path().join(name), link).expect("it is linked");
    }
    std::fs::write(folder.path().join("own.toml"), "title = shown\n").expect("it is written");
    let served = Served::start(&["--scenarios", folder.path().to_str().expect("text")]);
    let (_, listed) = served.control("GET", "scenarios", &Value::Null);
    assert!(!listed.contains("hidden") && listed.contains("title = shown"), "{listed}");
    for name in ["passwords.toml", "credentials.toml"] {
        assert!(listed.contains(name), "{listed}");
    }
    let (code, said) = served.stop();
    assert!(code == Some(0) && !said.contains("hidden"), "{code:?} {said}");
}

/// Reading such a folder is slow, so there are fewer of them.
#[test]
#[ignore = "measures the machine: `.ci/nightly large` runs it"]
fn a_folder_full_of_other_files_costs_next_to_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    for number in 0..40_000 {
        std::fs::write(folder.path().join(format!("{number}.log")), "").expect("it is written");
    }
    let served = Served::start(&["--scenarios", folder.path().to_str().expect("text")]);
    served.serves();
    std::thread::sleep(Duration::from_secs(2));
    let before = served.ticks();
    std::thread::sleep(Duration::from_secs(6));
    let used = served.ticks() - before;
    assert!(used <= 30, "{used} hundredths of a second in six seconds");
}

#[test]
fn every_signal_that_asks_for_the_end_saves_the_state() {
    for signal in ["HUP", "QUIT"] {
        let (folder, state) = with_state();
        let mut served = Served::start(&["--state", &state]);
        served.serves();
        served.signal(signal);
        assert_eq!(served.exit_code(), 0, "{signal}");
        let saved = std::fs::read_to_string(folder.path().join("state.json")).expect("the state is saved");
        assert!(saved.contains("wrs-emulator snapshot"), "{signal}: {saved}");
    }
}

/// The second signal, as `timeout` and impatient people send it, cuts short what the first one waits for, and no more.
#[test]
fn a_second_signal_loses_nothing_of_the_state() {
    let (folder, state) = with_state();
    let flags = ["--state", &state, "--grace", "1h", "--body-timeout", "1h", "--set", "rate_limit.enabled=false"];
    let mut served = Served::start(&flags);
    for number in 0..400 {
        let hook = json!({
            "url": format!("https://app.sink.localhost/{number}"), "events": ["workflow.completed"],
            "description": "x".repeat(60_000),
        });
        served.send("POST", "/v1/events/subscribe", hook.to_string());
    }
    served.subscribe("https://app.sink.localhost/last");
    let _waited_for = under_way(&served, 100);
    served.signal("INT");
    has_closed(&served);
    served.signal("INT");
    assert_eq!(served.exit_code(), 128 + 2);
    let saved = std::fs::read_to_string(folder.path().join("state.json")).expect("the state is saved");
    assert!(saved.contains("https://app.sink.localhost/last") && saved.ends_with('}'));
    assert_eq!(names_in(folder.path()), ["state.json"]);
}

#[test]
fn a_signal_while_exec_computes_the_verdict_loses_nothing_of_the_state() {
    let (folder, state) = with_state();
    // The delivery is due in an hour, so the verdict is waited for.
    let script = "curl -s -H \"Authorization: Bearer $WRS_API_KEY\" -H 'Content-Type: application/json' \
         -d '{\"url\":\"https://app.sink.localhost/kept\",\"events\":[\"workflow.completed\"]}' \
         \"$WRS_BASE_URL/v1/events/subscribe\" > subscribed && \
         curl -s -H 'Content-Type: application/json' -d '{\"type\":\"workflow.completed\",\"delay\":\"60s\"}' \
         \"$WRS_EMULATOR_URL/_emulator/events\" > fired";
    let arguments =
        ["exec", "--state", &state, "--settle", "5m", "--fail-on", "undelivered", "--listen", "127.0.0.1:0"];
    let mut command = wrs_emulator(&[&arguments[..], &["--", "sh", "-c", script]].concat());
    let mut child = start(command.current_dir(folder.path()));
    eventually("the command has ended", || {
        std::fs::read_to_string(folder.path().join("fired")).is_ok_and(|text| text.ends_with('\n'))
    });
    // The first may still go to the command.
    eventually("it ends", || {
        signal(&child, "INT");
        child.try_wait().expect("a child to wait for").is_some()
    });
    assert_eq!(child.wait().expect("it ends").code(), Some(128 + 2));
    let saved = std::fs::read_to_string(folder.path().join("state.json")).expect("the state is saved");
    let saved: Value = serde_json::from_str(&saved).expect("a snapshot");
    assert_eq!(saved["workspaces"][0]["deliveries"].as_array().map(Vec::len), Some(1), "{saved}");
    assert_eq!(names_in(folder.path()), ["fired", "state.json", "subscribed"]);
}

#[test]
fn a_hang_up_that_nohup_ignores_ends_nothing() {
    let served = Served::start_after("trap '' HUP", &[]);
    served.signal("HUP");
    served.serves();
    assert_eq!(served.stop().0, Some(0));
}

/// As a script starts its background jobs; the emulator must not be left behind by Ctrl-C.
#[test]
fn a_background_job_is_ended_by_each_signal_that_asks_for_it() {
    for signal in ["TERM", "INT", "QUIT"] {
        let mut served = Served::start_after("trap '' INT QUIT", &[]);
        served.serves();
        served.signal(signal);
        assert_eq!(served.exit_code(), 0, "{signal}");
    }
    let mut served = Served::start_after("trap '' INT QUIT HUP TERM", &[]);
    served.signal("TERM");
    assert_eq!(served.exit_code(), 0, "SIGTERM ends it always");
}

#[test]
fn a_limit_on_file_sizes_is_reported_and_ends_nothing() {
    let (_folder, state) = with_state();
    let served = Served::start_after("ulimit -f 4", &["--state", &state]);
    served.subscribe(&format!("https://app.example.com/{}", "x".repeat(1_500)));
    let (code, said) = served.stop();
    assert!(code == Some(1) && said.contains("the state was not saved in `"), "{code:?} {said}");
}

#[test]
fn a_second_process_with_the_same_state_is_refused() {
    let (folder, state) = with_state();
    assert_eq!(Served::start(&["--state", &state]).stop().0, Some(0));
    let [link, hard] = ["link.json", "hard.json"].map(|name| folder.path().join(name));
    std::os::unix::fs::symlink(&state, &link).expect("it is linked");
    std::fs::hard_link(&state, &hard).expect("it is linked");
    let mut first = Served::start(&["--state", &state]);
    for round in 0..3 {
        // A file next to it, such as a lock, decides nothing.
        for entry in std::fs::read_dir(folder.path()).expect("a folder").flatten() {
            if !["state.json", "link.json", "hard.json"].contains(&entry.file_name().to_str().expect("text")) {
                let _ = std::fs::remove_file(entry.path());
            }
        }
        for name in [Path::new(&state), &link, &hard] {
            let refused = serve_again(name.to_str().expect("text"));
            refused.exits(2).says(&["another process keeps its state there"]);
        }
        // Each save replaces the file.
        let number = |path: &str| std::os::unix::fs::MetadataExt::ino(&std::fs::metadata(path).expect("it is there"));
        let before = number(&state);
        first.subscribe(&format!("https://app.sink.localhost/{round}"));
        eventually("it is saved", || number(&state) != before);
    }
    std::fs::remove_file(link).and_then(|()| std::fs::remove_file(hard)).expect("they are removed");
    // Whoever was killed holds nothing.
    first.kill();
    let again = Served::start(&["--state", &state]);
    again.serves();
    assert_eq!(again.stop().0, Some(0));
    assert_eq!(names_in(folder.path()), ["state.json"]);
}

/// Files that others put next to it are neither followed nor overwritten, and no other user can read the saved state.
#[test]
fn a_saved_state_follows_no_link_and_is_private() {
    use std::os::unix::fs::{PermissionsExt as _, symlink};
    let (folder, state) = with_state();
    let (victim, file) = (folder.path().join("victim"), Path::new(&state));
    std::fs::write(&victim, "precious").expect("it is written");
    symlink(&victim, folder.path().join("state.json.tmp")).expect("it is linked");
    let first = Served::start(&["--state", &state]);
    assert_eq!(first.stop().0, Some(0));
    let mode = || std::fs::metadata(file).expect("it is there").permissions().mode() & 0o777;
    assert_eq!(mode(), 0o600);
    std::fs::set_permissions(file, std::fs::Permissions::from_mode(0o644)).expect("it may be changed");
    let second = Served::start(&["--state", &state]);
    assert_eq!(mode(), 0o600);
    assert_eq!(second.stop().0, Some(0));
    assert_eq!(std::fs::read_to_string(&victim).expect("it is there"), "precious");
}

/// `sign <(curl …)`: a command that a person runs waits for the other end of a pipe.
#[test]
fn commands_of_people_read_pipes() {
    let folder = tempfile::tempdir().expect("a folder");
    let pipe = folder.path().join("pipe");
    make_pipe(&pipe);
    let writer = std::thread::spawn({
        let pipe = pipe.clone();
        move || std::fs::write(pipe, "{}").expect("the command reads it")
    });
    let sign = ["sign", "--secret", "0123456789abcdef", "--secret-key", "utf8", pipe.to_str().expect("a path of text")];
    let output = finish(&mut wrs_emulator(&sign));
    writer.join().expect("it was read");
    assert!(output.status.success() && text(&output.stdout).contains("webhook-signature"), "{output:?}");
}
