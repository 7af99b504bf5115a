//! The two output streams of commands: what cannot be written is an error, and what cannot be written at once is not lost.

use std::fs::File;
use std::io::{PipeReader, Read as _, Write as _, pipe};
use std::process::Stdio;

use rustix::fs::{OFlags, fcntl_setfl};
use serde_json::json;

use crate::process::{Served, Started, request};
use crate::support::{finish, text, wrs_emulator};

/// Every way in which commands print: documents, tables, JSON, listings, help, completions, XML.
const PRINTING: [&[&str]; 11] = [
    &["openapi"],
    &["profile", "schema"],
    &["assumptions", "--json"],
    &["completions", "bash"],
    &["--help"],
    &["sign", "--help-all"],
    &["snapshot", "save", "-", "--key", "*"],
    &["verdict", "--format", "junit"],
    &["requests", "--json"],
    &["requests"],
    &["requests", "export", "--har", "-"],
];

fn full() -> Stdio {
    File::options().write(true).open("/dev/full").expect("the device").into()
}

/// A pipe that does not block its writer, full before anything is written.
fn full_pipe() -> (PipeReader, Stdio, usize) {
    let (from, mut to) = pipe().expect("a pipe");
    fcntl_setfl(&to, OFlags::NONBLOCK).expect("it is made non-blocking");
    let mut filled = 0;
    while let Ok(count) = to.write(&[b'-'; 1024]) {
        filled += count;
    }
    (from, to.into(), filled)
}

#[test]
fn a_full_disk_is_an_error_with_a_reason() {
    let served = Served::start(&["--quiet"]);
    request(&served.url, "GET /v1/nowhere HTTP/1.1", "");
    for arguments in PRINTING {
        let output = finish(wrs_emulator(arguments).env("WRS_EMULATOR_URL", &served.url).stdout(full()));
        let output = output.exits(2);
        assert!(text(&output.stderr).contains("cannot write to stdout: No space left"), "{arguments:?}: {output:?}");
    }
    // Nobody learns its address, and it does not serve.
    for arguments in [["serve", "--listen", "127.0.0.1:0"], ["listen", "--listen", "127.0.0.1:0"]] {
        let output = finish(wrs_emulator(&arguments).env("WRS_WEBHOOK_SECRET", "whsec_a2V5").stdout(full()));
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {output:?}");
    }
    // What a failed command could not say is in its exit status alone.
    let silent = finish(wrs_emulator(&["openapi"]).stdout(full()).stderr(full()));
    assert_eq!(silent.status.code(), Some(2));
    // Messages are output as well.
    let warned = finish(wrs_emulator(&["health", "--url", &served.url]).env("WRS_EMULATOR_NONE", "1").stderr(full()));
    assert_eq!(warned.status.code(), Some(2));
}

#[test]
fn a_pipe_that_does_not_block_gets_everything() {
    let served = Served::start(&["--quiet", "--clock", "frozen"]);
    (0..100).for_each(|number| {
        drop(request(&served.url, &format!("GET /v1/nowhere/{number}/{} HTTP/1.1", "x".repeat(1000)), ""));
    });
    for arguments in PRINTING {
        let command = || {
            let mut command = wrs_emulator(arguments);
            command.env("WRS_EMULATOR_URL", &served.url);
            command
        };
        let whole = finish(&mut command()).exits(0).stdout.len();
        let (mut from, to, filled) = full_pipe();
        // The command holds an end of the pipe only for this statement.
        let mut child = Started::new(command().stdout(to));
        let mut received = Vec::new();
        from.read_to_end(&mut received).expect("its output");
        assert!(child.wait().expect("it ends").success(), "{arguments:?}");
        assert_eq!(received.len() - filled, whole, "{arguments:?}");
    }
}

#[test]
fn exec_passes_on_what_its_command_prints_at_the_readers_pace() {
    let folder = tempfile::tempdir().expect("a folder");
    let report = folder.path().join("report.json").display().to_string();
    let script = "head -c 300000 /dev/zero >&2 && head -c 300000 /dev/zero";
    for flags in [&["exec"][..], &["exec", "--report", &report]] {
        for is_stdout in [true, false] {
            let (mut from, to, filled) = full_pipe();
            let mut command = wrs_emulator(&[flags, &["--quiet", "--", "sh", "-c", script]].concat());
            command.stdout(Stdio::null()).stderr(Stdio::null());
            if is_stdout {
                command.stdout(to)
            } else {
                command.stderr(to)
            };
            let mut child = Started::new(&mut command);
            // It holds an end of the pipe.
            drop(command);
            let mut received = Vec::new();
            from.read_to_end(&mut received).expect("its output");
            assert_eq!(child.wait().expect("it ends").code(), Some(0), "{flags:?}");
            assert_eq!(received.split(|byte| *byte == 0).count(), 300_001, "{flags:?} {filled}");
        }
    }
}

#[test]
fn what_exec_cannot_pass_on_fails_the_run() {
    let folder = tempfile::tempdir().expect("a folder");
    let report = folder.path().join("report.json").display().to_string();
    let output = finish(wrs_emulator(&["exec", "--report", &report, "--", "echo", "lost"]).stdout(full()));
    let output = output.exits(2);
    assert!(text(&output.stderr).contains("cannot write to stdout: No space left"), "{output:?}");
}

/// A CI system executes such lines, and a person takes the others for the program's own.
#[test]
fn foreign_text_begins_no_line() {
    let served = Served::start(&["--quiet"]);
    let foreign = "x\nerror: forged\n::error::forged ##[error]forged";
    let failed = json!({ "key": "sk_test_a", "test": "t", "outcome": "failed", "message": foreign });
    let answer = request(&served.url, "POST /_emulator/outcome HTTP/1.1", &failed.to_string());
    assert!(answer.contains(" 200 "), "{answer}");
    for arguments in [
        &["explain", foreign][..],
        &["requests", "--status", foreign],
        &["scenarios", "use", foreign],
        &[foreign],
        &["verdict", "--fail-on", "unmatched"],
        &["verdict", "--format", "junit"],
        &["verdict", "--json"],
    ] {
        let output = served.call(arguments);
        for line in [text(&output.stdout), text(&output.stderr)].iter().flat_map(|shown| shown.lines()) {
            let is_command = line.trim_start().starts_with("::") || line.contains("##[");
            assert!(!is_command && !line.starts_with("error: forged"), "{arguments:?}: {line}");
        }
    }
}

/// As a secret that is mounted as a file has it.
#[test]
fn blanks_around_the_value_of_a_variable_do_not_count() {
    for end in ["\n", "\r\n", " "] {
        let token = format!("tok-abc123{end}");
        let mut serve = wrs_emulator(&["serve", "--quiet", "--listen", "127.0.0.1:0"]);
        let served = Served::spawn(serve.env("WRS_EMULATOR_CONTROL_TOKEN", &token));
        let mut command = wrs_emulator(&["requests", "--url", &served.url]);
        finish(command.env("WRS_EMULATOR_CONTROL_TOKEN", &token)).exits(0);
        finish(command.env("WRS_EMULATOR_CONTROL_TOKEN", "tok-abc123")).exits(0);
        finish(command.env("WRS_EMULATOR_CONTROL_TOKEN", "tok")).exits(2);
    }
}
