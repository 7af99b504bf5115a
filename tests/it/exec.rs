//! `exec` and `verdict` on the real binary: the command's streams, environment, signals and exit code, and the verdict in each
//! of its forms.

use std::borrow::BorrowMut;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};

use crate::process::{self, Started};
use crate::run_files::data_of;
use crate::support::{text, wrs_emulator};

const CURL: &str = "curl -s -o /dev/null";

/// What `exec` says if its command did not use the emulator.
const NOTHING_ARRIVED: &str = "note: 0 requests arrived; does your code read WRS_BASE_URL?\n";

/// A scenario that refuses two status checks.
const TWO_REFUSALS: &str = "[[rule]]\nname = 'two'\nwhen = { operation = 'system.status' }\ntimes = 2\nreply = { error = 'rate_limit_exceeded' }\n";

fn run(mut command: impl BorrowMut<Command>) -> Output {
    start(command.borrow_mut()).output()
}

/// Starts a program in its own process group, so that it can be ended together with its children.
pub(crate) fn start(command: &mut Command) -> Started {
    Started::with_group(command.stdout(Stdio::piped()).stderr(Stdio::piped()))
}

/// `exec FLAGS -- sh -c SCRIPT`.
fn exec(flags: &[&str], script: &str) -> Output {
    run(wrs_emulator(&[&["exec"], flags, &["--", "sh", "-c", script]].concat()))
}

fn said(output: &Output) -> String {
    text(&output.stderr)
}

/// A command that called only the control API, and wrongly, found its emulator: the call is the cause, not the address.
#[test]
fn a_refused_control_call_is_the_cause_of_a_command_that_sent_no_request() {
    let patch = "curl -s -o /dev/null -X PATCH -H 'content-type: application/json' -d '{\"nope\":1}' $WRS_BASE_URL/_emulator/profile";
    let refused = "a control call was refused: PATCH profile: 422 validation_error: unknown setting `nope`";
    for code in [0, 1] {
        let said = said(&exec(&[], &format!("{patch}; exit {code}")));
        assert!(
            said.starts_with(&format!("note: 0 requests arrived; {refused}")) && !said.contains("WRS_BASE_URL"),
            "{said}"
        );
        let judged = text(&exec(&["--fail-on", "unmatched"], &format!("{patch}; exit {code}")).stderr);
        assert!(judged.contains(refused) && !judged.contains("WRS_BASE_URL"), "{judged}");
    }
    // A reset forgets it.
    let reset = "curl -s -o /dev/null -X POST -H 'content-type: application/json' -d '{\"key\":\"*\"}' $WRS_BASE_URL/_emulator/reset";
    assert_eq!(said(&exec(&[], &format!("{patch}; {reset}"))), NOTHING_ARRIVED);
}

#[test]
fn the_command_has_the_streams_and_its_exit_code_is_told() {
    let greeting = exec(&[], "read line; echo \"$line back\"; echo aside >&2");
    assert_eq!(
        (greeting.status.code(), text(&greeting.stdout).as_str(), said(&greeting).as_str()),
        (Some(0), " back\n", format!("aside\n{NOTHING_ARRIVED}").as_str())
    );
    for code in [0, 1, 3, 255] {
        let output = exec(&[], &format!("exit {code}"));
        assert_eq!(output.status.code(), Some(code));
        assert_eq!((text(&output.stdout), said(&output)), (String::new(), NOTHING_ARRIVED.to_owned()), "exit {code}");
    }
    assert_eq!(exec(&[], "kill -TERM $$").status.code(), Some(128 + 15));
    assert_eq!(exec(&[], "kill -KILL $$").status.code(), Some(128 + 9));
    let mut cat = start(wrs_emulator(&["exec", "--", "cat"]).stdin(Stdio::piped()));
    cat.stdin.take().expect("a pipe").write_all(b"fed").expect("it reads");
    assert_eq!(text(&cat.output().stdout), "fed");
}

#[test]
fn a_command_that_cannot_be_run_is_127_or_126() {
    let folder = tempfile::tempdir().expect("a folder");
    let plain = folder.path().join("plain").display().to_string();
    std::fs::write(&plain, "no program").expect("the file is written");
    for (program, code) in [("no-such-command-anywhere", 127), ("/no/such/path", 127), (plain.as_str(), 126)] {
        let output = run(wrs_emulator(&["exec", "--", program]));
        assert_eq!(output.status.code(), Some(code), "{output:?}");
        assert!(said(&output).contains(&format!("`{program}`")) && said(&output).contains("hint:"), "{output:?}");
    }
    for wrong in [
        &["exec"][..],
        &["exec", "--"],
        &["exec", "--fail-on", "nothing", "--", "true"],
        &["exec", "--set", "x=1", "--", "true"],
    ] {
        assert_eq!(run(wrs_emulator(wrong)).status.code(), Some(2), "{wrong:?}");
    }
}

#[test]
fn the_environment_leads_to_the_emulator() {
    let script = "curl -sf -H \"Authorization: Bearer $WRS_API_KEY\" $WRS_BASE_URL/v1/system/status && \
                  curl -sf $WRS_EMULATOR_URL/_emulator/health && echo && echo key=$WRS_API_KEY token=$WRS_EMULATOR_CONTROL_TOKEN";
    let output = exec(&[], script);
    let out = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(out.contains("\"ok\":true") && out.contains("\"status\":\"ready\""), "{out}");
    assert!(out.ends_with("key=sk_test_local token=\n"), "{out}");
    let own = run(wrs_emulator(&["exec", "--", "sh", "-c", script]).env("WRS_API_KEY", "sk_test_own"));
    assert!(text(&own.stdout).contains("key=sk_test_own"), "{own:?}");
    let empty = run(wrs_emulator(&["exec", "--", "sh", "-c", script]).env("WRS_API_KEY", ""));
    assert!(text(&empty.stdout).contains("key=sk_test_local"), "{empty:?}");
    // Beyond loopback a token is made; the command gets it, and the address is one that can be dialled.
    let beyond = exec(
        &["--listen", "0.0.0.0:0"],
        &format!("echo $WRS_BASE_URL; {} health; {script}", env!("CARGO_BIN_EXE_wrs-emulator")),
    );
    let out = text(&beyond.stdout);
    assert!(
        out.starts_with("http://127.0.0.1:") && out.contains("token=ctl_") && out.contains("ready (version"),
        "{beyond:?}"
    );
    // A separate control listener has its own address, and TLS its own scheme.
    let apart = exec(
        &["--control-listen", "127.0.0.1:0", "--fail-on", "unmatched"],
        &format!("{CURL} $WRS_BASE_URL/v1/hello; test $WRS_BASE_URL != $WRS_EMULATOR_URL"),
    );
    assert_eq!(apart.status.code(), Some(0), "{apart:?}");
    let trusted = exec(&["--tls", "self-signed"], "curl -sS --cacert $WRS_EMULATOR_CA $WRS_BASE_URL/v1/hello");
    assert!(trusted.status.code() == Some(0) && text(&trusted.stdout).contains("Hello"), "{trusted:?}");
    let tls = exec(&["--tls", "self-signed", "--fail-on", "unmatched"], "curl -sk $WRS_BASE_URL/v1/nothing");
    assert!(tls.status.code() == Some(1) && said(&tls).contains("/v1/nothing"), "{tls:?}");
}

/// The values of variables are bytes, and so are arguments.
#[test]
fn what_is_not_utf_8_is_passed_on() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt as _;
    let odd = OsStr::from_bytes(b"a\xff\xfeb");
    let mut command =
        wrs_emulator(&["exec", "--", "sh", "-c", "printf '%s|%s|%s' \"$ODD\" \"$NO_PROXY\" \"$1\"", "sh"]);
    let output = run(command.arg(odd).env("ODD", odd).env("NO_PROXY", odd));
    let mut parts = output.stdout.split(|byte| *byte == b'|');
    assert_eq!(parts.next(), Some(odd.as_bytes()), "{output:?}");
    assert!(parts.next().is_some_and(|list| list.starts_with(b"a\xff\xfeb,127.0.0.1")), "{output:?}");
    assert_eq!(parts.next(), Some(odd.as_bytes()), "{output:?}");
}

/// A proxy that does not exist, in the variables that clients read.
const NO_SUCH_PROXY: [(&str, &str); 4] = [
    ("http_proxy", "http://127.0.0.1:1"),
    ("HTTP_PROXY", "http://127.0.0.1:1"),
    ("HTTPS_PROXY", "http://127.0.0.1:1"),
    ("ALL_PROXY", "http://127.0.0.1:1"),
];

#[test]
fn behind_a_proxy_the_command_and_our_own_calls_reach_the_emulator() {
    let calls = format!(
        "curl -sS $WRS_BASE_URL/v1/hello && {} health && python3 -c 'import os, urllib.request; \
         urllib.request.urlopen(os.environ[\"WRS_BASE_URL\"] + \"/v1/hello\")'",
        env!("CARGO_BIN_EXE_wrs-emulator")
    );
    let mut behind = wrs_emulator(&["exec", "--fail-on", "unmatched,undelivered", "--", "sh", "-ec", &calls]);
    let output = run(behind.envs(NO_SUCH_PROXY));
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(text(&output.stdout).contains("Hello") && text(&output.stdout).contains("ready (version"), "{output:?}");
    let note =
        "note: `http_proxy` is set; the command's calls to the emulator and to loopback bypass it, by `NO_PROXY`";
    assert_eq!(said(&output).matches(note).count(), 1, "{output:?}");
    // The emulator need not be at a loopback address. Its own list is kept, and what else the command calls goes to the proxy.
    let script = "echo $NO_PROXY $no_proxy; curl -s http://elsewhere.test/; echo $?";
    let mut far = wrs_emulator(&["exec", "--quiet", "--listen", "127.0.0.9:0", "--", "sh", "-c", script]);
    let output = run(far.envs(NO_SUCH_PROXY).env("NO_PROXY", "a.test,localhost"));
    let list = "a.test,localhost,127.0.0.1,::1,127.0.0.9";
    assert_eq!((text(&output.stdout), said(&output)), (format!("{list} {list}\n7\n"), String::new()));
    // Without a proxy nothing is said.
    assert_eq!(said(&exec(&[], "curl -s $WRS_BASE_URL/v1/hello")), "");
}

/// `tests/clients/trust.py` asks clients in more languages.
#[test]
fn the_command_trusts_an_emulator_that_serves_tls() {
    let calls = "curl -sSf $WRS_BASE_URL/v1/hello && curl -sSf --cacert $WRS_EMULATOR_CA $WRS_BASE_URL/v1/hello && \
                 python3 -c 'import os, urllib.request; urllib.request.urlopen(os.environ[\"WRS_BASE_URL\"] + \"/v1/hello\")' && \
                 echo $JAVA_TOOL_OPTIONS && dirname $SSL_CERT_FILE";
    let flags = ["exec", "--quiet", "--tls", "self-signed", "--", "sh", "-ec", calls];
    let output = run(wrs_emulator(&flags).envs(NO_SUCH_PROXY));
    assert_eq!((output.status.code(), said(&output).as_str()), (Some(0), ""), "{output:?}");
    let printed = text(&output.stdout);
    let folder = printed.lines().last().expect("a folder");
    assert_eq!(printed.matches("Hello").count(), 2, "{printed}");
    let java = format!("-Djavax.net.ssl.trustStore={folder}/bundle.p12 -Djavax.net.ssl.trustStoreType=PKCS12");
    assert!(printed.contains(&java), "{printed}");
    assert!(!std::path::Path::new(folder).exists(), "{folder} is removed");
    // A client whose variable names something else is left alone.
    let output = run(wrs_emulator(&["exec", "--tls", "self-signed", "--", "sh", "-c", "echo $CURL_CA_BUNDLE"])
        .env("CURL_CA_BUNDLE", "/no/such/file"));
    assert_eq!(text(&output.stdout), "/no/such/file\n");
    assert!(said(&output).contains("note: `CURL_CA_BUNDLE` names no file of certificates"), "{output:?}");
}

#[test]
fn settings_of_flags_are_judged_together_and_every_problem_is_reported() {
    let (test, live) = ("keys.test_prefix=sk_live_", "keys.live_prefix=sk_prod_");
    for order in [[test, live], [live, test]] {
        let output = exec(&["--set", order[0], "--set", order[1]], "true");
        assert_eq!(output.status.code(), Some(0), "{order:?}: {output:?}");
    }
    let folder = tempfile::tempdir().expect("a folder");
    let profile = folder.path().join("profile.toml").display().to_string();
    std::fs::write(&profile, "environment = 'production'\n[keys]\ntest_prefix = 'sk_live_'\n").expect("it is written");
    assert_eq!(exec(&["--profile", &profile, "--set", live], "true").status.code(), Some(0));
    let wrong = ["--set", "rate_limit.window=0s", "--set", "rate_limit.request=1"];
    let output = exec(&[&["--profile", &profile][..], &wrong].concat(), "true");
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    for part in [
        "--set rate_limit.window=0s: `rate_limit.window`: expected at least 1ms",
        "--set rate_limit.request=1: unknown setting",
        "profile.toml:3:15: `keys.test_prefix`: test and live keys cannot both begin with \"sk_live_\" [profile/bad-value]",
    ] {
        assert!(said(&output).contains(part), "{part}: {}", said(&output));
    }
}

#[test]
fn jobs_side_by_side_do_not_fight_for_a_port() {
    let script =
        format!("echo $WRS_BASE_URL; {} exec -- sh -c 'echo $WRS_BASE_URL'", env!("CARGO_BIN_EXE_wrs-emulator"));
    let output = exec(&[], &script);
    let urls: Vec<String> = text(&output.stdout).lines().map(str::to_owned).collect();
    assert!(output.status.success() && urls.len() == 2 && urls[0] != urls[1], "{output:?}");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("an address").to_string();
    let refused = exec(&["--listen", &address], "echo ran");
    assert_eq!((refused.status.code(), text(&refused.stdout).as_str()), (Some(2), ""), "{refused:?}");
    let by_environment = run(wrs_emulator(&["exec", "--", "true"]).env("WRS_EMULATOR_LISTEN", &address));
    assert_eq!(by_environment.status.code(), Some(2), "{by_environment:?}");
}

/// Starts a command that says when it is ready, sends a signal to `exec`, and gives what came of it.
fn signalled(signal: &str, script: &str) -> Output {
    let mut child = start(&mut wrs_emulator(&["exec", "--", "sh", "-c", script]));
    // Read byte by byte, so that what follows stays in the pipe.
    let mut ready = BufReader::with_capacity(1, child.stdout.as_mut().expect("a pipe"));
    let mut line = String::new();
    ready.read_line(&mut line).expect("a line");
    assert_eq!(line, "ready\n");
    process::signal(&child, signal);
    child.output()
}

#[test]
fn signals_are_handed_on_to_the_command() {
    // `read` from a pipe that stays open waits for ever, and a trap interrupts it.
    let wait = "mkfifo $d/pipe; exec 3<>$d/pipe; echo ready; read line <&3";
    let script = |trap: &str| format!("d=$(mktemp -d); trap 'rm -r $d' EXIT; {trap}; {wait}");
    for (signal, number) in [("TERM", 15), ("INT", 2), ("HUP", 1), ("QUIT", 3)] {
        let handled = signalled(signal, &script(&format!("trap 'echo got {signal}; exit 7' {signal}")));
        assert_eq!((handled.status.code(), text(&handled.stdout)), (Some(7), format!("got {signal}\n")), "{handled:?}");
        let died = signalled(signal, "echo ready; exec tail -f /dev/null");
        assert_eq!(died.status.code(), Some(128 + number), "{died:?}");
    }
}

/// A cancelled job is killed soon after, and its report is the one that is read.
#[test]
fn a_command_that_ignores_signals_is_killed_and_the_report_is_written() {
    let folder = tempfile::tempdir().expect("a folder");
    let report = folder.path().join("report.json").display().to_string();
    let script = format!("trap '' TERM INT; {CURL} $WRS_BASE_URL/v1/hello; echo ready; exec tail -f /dev/null");
    for (grace, again, said) in [
        ("0s", None, "warning: the command is killed: signal 15 did not end it within 0 ms (--grace)"),
        ("1h", Some("INT"), "warning: the command is killed: signal 2 is the second"),
    ] {
        let flags = ["exec", "--grace", grace, "--report", &report, "--", "sh", "-c", &script];
        let mut child = start(&mut wrs_emulator(&flags));
        let mut line = String::new();
        let mut ready = BufReader::new(child.stdout.take().expect("a pipe"));
        ready.read_line(&mut line).expect("a line");
        process::signal(&child, "TERM");
        if let Some(again) = again {
            // Signals that come together are one.
            process::eventually("it ends", || {
                process::signal(&child, again);
                child.try_wait().expect("it can be asked").is_some()
            });
        }
        let output = child.output();
        assert_eq!(output.status.code(), Some(137), "{output:?}");
        assert!(text(&output.stderr).contains(said), "{output:?}");
        let document: Value = serde_json::from_slice(&std::fs::read(&report).expect("a report")).expect("it is JSON");
        assert_eq!((&document["exec"]["signal"], document["requests"].as_array().map(Vec::len)), (&json!(9), Some(1)));
    }
}

/// A subscription of the sample key to a receiver that is built in.
fn subscribe(sink: &str) -> String {
    format!(
        "{CURL} -H \"Authorization: Bearer $WRS_API_KEY\" -H 'Content-Type: application/json' \
         -d '{{\"url\":\"https://{sink}.sink.localhost/x\",\"events\":[\"workflow.completed\"]}}' $WRS_BASE_URL/v1/events/subscribe"
    )
}

/// Makes the built-in receiver answer so, then fires an event.
fn fire(sink: &str, respond: &str) -> String {
    let control = format!("{CURL} -H 'Content-Type: application/json'");
    format!(
        "{control} -d '{{\"respond\":{respond}}}' $WRS_EMULATOR_URL/_emulator/sink/{sink}; \
         {control} -d '{{\"type\":\"workflow.completed\"}}' $WRS_EMULATOR_URL/_emulator/events"
    )
}

fn status_checks(count: usize) -> String {
    format!(
        "for i in $(seq {count}); do {CURL} -H \"Authorization: Bearer $WRS_API_KEY\" $WRS_BASE_URL/v1/system/status; done"
    )
}

#[test]
fn each_kind_makes_a_run_fail_when_it_is_named_and_only_then() {
    let script =
        format!("{CURL} $WRS_BASE_URL/v1/helo; {}; {}; {}", subscribe("app"), fire("app", "[500]"), status_checks(1));
    let flags = ["--scenario-text", TWO_REFUSALS, "--set", "webhooks.retry.preset=custom"];
    for (kind, part) in [
        ("unmatched", "GET /v1/helo: no endpoint `/v1/helo`; did you mean GET /v1/hello?"),
        ("undelivered", "the receiver answered 500; only 2xx accepts an event\n"),
        ("unfinished", "rule `two` of scenario `inline-1` applied 1 of 2 times"),
    ] {
        let failed = exec(&[&flags[..], &["--fail-on", kind]].concat(), &script);
        assert_eq!((failed.status.code(), text(&failed.stdout).as_str()), (Some(1), ""), "{kind}: {failed:?}");
        let verdict = said(&failed);
        assert!(verdict.starts_with(&format!("✗ {kind}: 1 ")) && verdict.contains(part), "{kind}: {verdict}");
        let cases = verdict.lines().filter(|line| !line.starts_with("    "));
        assert_eq!(cases.count(), 1, "{kind}: other kinds are not reported\n{verdict}");
        let other_code = exec(&[&flags[..], &["--fail-on", kind]].concat(), &format!("{script}; exit 4"));
        assert!(other_code.status.code() == Some(4) && said(&other_code).contains(part), "{other_code:?}");
    }
    let unasked = exec(&flags, &script);
    assert_eq!((unasked.status.code(), said(&unasked).as_str()), (Some(0), ""), "{unasked:?}");
    let good =
        format!("{CURL} $WRS_BASE_URL/v1/hello; {}; {}; {}", subscribe("app"), fire("app", "[200]"), status_checks(2));
    let all = exec(&[&flags[..], &["--fail-on", "unmatched,undelivered", "--fail-on", "unfinished"]].concat(), &good);
    assert_eq!(all.status.code(), Some(0), "{all:?}");
    assert_eq!(said(&all).matches('✓').count(), 3, "{all:?}");
}

#[test]
fn deliveries_are_given_time_to_settle_but_no_more_than_is_allowed() {
    let script = format!("{}; {}", subscribe("app"), fire("app", "[500,500]"));
    let repeats = ["--fail-on", "undelivered", "--set", "webhooks.retry.preset=custom", "--set"];
    let soon = exec(&[&repeats[..], &["webhooks.retry.schedule=[\"100ms\", \"100ms\"]"]].concat(), &script);
    assert_eq!(soon.status.code(), Some(0), "{soon:?}");
    let late = exec(&[&repeats[..], &["webhooks.retry.schedule=[\"1h\"]"]].concat(), &script);
    assert!(late.status.code() == Some(1) && said(&late).contains("another is due"), "{late:?}");
    // Were the flag not read, the variable would have it wait for minutes.
    let flags = [&["exec"], &repeats[..], &["webhooks.retry.schedule=[\"4m\"]", "--settle", "1ms"]].concat();
    let mut hurried = wrs_emulator(&[&flags[..], &["--", "sh", "-c", &script]].concat());
    let hurried = run(hurried.env("WRS_EMULATOR_SETTLE", "5m"));
    assert!(hurried.status.code() == Some(1) && said(&hurried).contains("attempt 1 failed"), "{hurried:?}");
    let wrong = exec(&["--settle", "301s"], "echo ran");
    assert_eq!((wrong.status.code(), text(&wrong.stdout).as_str()), (Some(2), ""), "{wrong:?}");
}

/// A wait that takes longer than a second is said, as otherwise nothing is printed meanwhile.
#[test]
fn a_long_wait_for_retries_is_said() {
    let script = format!("{}; {}; exit 3", subscribe("app"), fire("app", "[500]"));
    // The note is waited for, not the retry, which would take minutes.
    let late = ["--fail-on", "undelivered", "--set", "webhooks.retry.schedule=[\"4m\"]"];
    let flags = [&["exec"], &late[..], &["--settle", "5m", "--", "sh", "-c", &script]].concat();
    let mut waiting = start(&mut wrs_emulator(&flags));
    let mut lines = BufReader::new(waiting.stderr.take().expect("a pipe")).lines();
    let first = lines.next().expect("a line").expect("text");
    assert_eq!(first, "note: waiting up to 5 min for 1 retry that is due (`--settle 0s` to skip)");
    process::signal(&waiting, "TERM");
    assert_eq!(waiting.output().status.code(), Some(143));
    let hurried = exec(&[&late[..], &["--settle", "0s"]].concat(), &script);
    assert!(!said(&hurried).contains("waiting"), "{hurried:?}");
    // Once the command has failed, a retry after its end explains nothing.
    let soon = ["--set", "webhooks.retry.schedule=[\"3s\"]"];
    for (status, attempts) in [(3, 1), (0, 2)] {
        let script = format!("{}; {}; exit {status}", subscribe("app"), fire("app", "[500]"));
        let (_, document) = reported("run.json", &soon, &["sh", "-c", &script]);
        let made = document.expect("a report")["deliveries"][0]["attempts"].as_array().map(Vec::len);
        assert_eq!(made, Some(attempts), "exit {status}");
    }
}

#[test]
fn planned_events_that_are_due_within_the_settle_time_are_awaited() {
    let scenario = "[[emit]]\nevent = 'workflow.completed'\non = { operation = 'system.status' }\ndelay = '100ms'\n";
    let respond = |status: u16| {
        let control = format!("{CURL} -H 'Content-Type: application/json'");
        let sink = "$WRS_EMULATOR_URL/_emulator/sink/app";
        format!("{}; {control} -d '{{\"respond\":[{status}]}}' {sink}; {}", subscribe("app"), status_checks(1))
    };
    let flags = ["--scenario-text", scenario, "--set", "webhooks.retry.preset=custom", "--fail-on", "undelivered"];
    for (status, code, part) in [(500, 1, "the receiver answered 500"), (200, 0, "every delivery arrived")] {
        let output = exec(&[&flags[..], &["--settle", "15s"]].concat(), &respond(status));
        assert!(output.status.code() == Some(code) && said(&output).contains(part), "{status}: {output:?}");
        assert!(!said(&output).contains("note: 0 "), "a delivery was judged: {output:?}");
    }
}

#[test]
fn a_run_that_uses_nothing_fails_if_that_is_asked_for() {
    let hello = format!("{CURL} $WRS_BASE_URL/v1/hello");
    let delivered = format!("{}; {}", subscribe("app"), fire("app", "[200]"));
    for (fail_on, script, part) in [
        ("unused", "true", Some("0 requests arrived; does your code read WRS_BASE_URL?")),
        ("unused", hello.as_str(), None),
        ("undelivered,unused", hello.as_str(), Some("there was no delivery")),
        ("undelivered,unused", delivered.as_str(), None),
        ("unfinished,unused", hello.as_str(), Some("no scenario is active")),
        ("undelivered", "true", Some("0 requests arrived; does your code read WRS_BASE_URL?")),
        ("undelivered", hello.as_str(), None),
    ] {
        let output = exec(&["--fail-on", fail_on], script);
        let code = i32::from(part.is_some());
        assert_eq!(output.status.code(), Some(code), "{fail_on}, {script}: {output:?}");
        if let Some(part) = part {
            assert!(said(&output).contains("\u{2717} unused: ") && said(&output).contains(part), "{output:?}");
        }
    }
    let allowed = exec(&["--fail-on", "undelivered", "--allow-unused"], "true");
    assert_eq!(allowed.status.code(), Some(0), "{allowed:?}");
    assert!(said(&allowed).starts_with("· undelivered: "), "{allowed:?}");
    let contradicting = exec(&["--fail-on", "unused", "--allow-unused"], "echo ran");
    assert_eq!((contradicting.status.code(), text(&contradicting.stdout).as_str()), (Some(2), ""), "{contradicting:?}");
    // Without --fail-on the exit code stays the command's.
    let unasked = exec(&[], "exit 3");
    assert_eq!((unasked.status.code(), said(&unasked).as_str()), (Some(3), NOTHING_ARRIVED));
    assert_eq!(said(&exec(&["--quiet"], "true")), "");
}

#[test]
fn tests_that_made_no_request_are_named() {
    let ended = |key: &str, test: &str| {
        format!(
            "{CURL} -H 'Content-Type: application/json' -d '{{\"key\":\"{key}\",\"test\":\"{test}\",\"outcome\":\"passed\"}}' \
             $WRS_EMULATOR_URL/_emulator/outcome"
        )
    };
    let call = format!("{CURL} -H 'Authorization: Bearer sk_test_one' $WRS_BASE_URL/v1/nothing");
    let script = format!("{call}; {}; {}", ended("sk_test_one", "test_one"), ended("sk_test_two", "test_two"));
    let output = exec(&["--fail-on", "unmatched"], &script);
    let said = said(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("; test test_one, key sk_test_one\n"), "{said}");
    assert!(said.contains("\n! test test_two, key sk_test_two made no request with its key\n"), "{said}");
    assert_eq!(said.matches("made no request").count(), 1, "{said}");
}

#[test]
fn verdicts_are_written_as_json_and_as_junit() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("verdict");
    let file = path.display().to_string();
    // A path may hold what XML must escape, or cannot carry at all.
    let script = format!("{CURL} \"$WRS_BASE_URL/v1/a&b'c%3Cd\"; {CURL} --request-target '/v1/[\"x\"]' $WRS_BASE_URL");
    let flags = ["--verdict-file", &file, "--verdict-format"];
    let json = exec(&[&flags[..], &["json", "--fail-on", "unmatched"]].concat(), &script);
    assert!(json.status.code() == Some(1) && said(&json).starts_with("✗ unmatched: 2 requests"), "{json:?}");
    let read = || std::fs::read_to_string(&path).expect("the file is written");
    let verdict: Value = serde_json::from_str(&read()).unwrap_or_else(|error| panic!("{error}: {}", read()));
    assert_eq!(verdict["unmatched"][0]["path"], "/v1/a&b'c%3Cd");
    assert_eq!((&verdict["failed"], &verdict["falls_short"]), (&Value::Bool(true), &json!(["unmatched"])));
    // The ending of the name says it as well.
    let by_name = folder.path().join("verdict.xml").display().to_string();
    exec(&["--verdict-file", &by_name, "--fail-on", "unmatched"], &script);
    assert!(std::fs::read_to_string(by_name).expect("the file is written").starts_with("<?xml"));
    let junit = exec(&[&flags[..], &["junit", "--fail-on", "unmatched,undelivered"]].concat(), &script);
    assert_eq!(junit.status.code(), Some(1), "{junit:?}");
    let xml = read();
    let document = roxmltree::Document::parse(&xml).unwrap_or_else(|error| panic!("{error}: {xml}"));
    let cases: Vec<(&str, &str)> = document
        .descendants()
        .filter(|node| node.has_tag_name("testcase"))
        .map(|case| {
            let outcome =
                case.children().find(roxmltree::Node::is_element).map_or("passed", |node| node.tag_name().name());
            let name = case.attribute("name").expect("a name");
            (name, outcome)
        })
        .collect();
    assert_eq!(cases, [("GET /v1/a&b'c%3Cd", "failure"), ("GET /v1/[\"x\"]", "failure"), ("undelivered", "skipped"),]);
    let failure = document.descendants().find(|node| node.has_tag_name("failure")).expect("a failure");
    assert!(failure.attribute("message").is_some_and(|message| message.ends_with("(404)")), "{xml}");
    let reported = failure.text().expect("the entries");
    assert!(reported.contains("correct the path\n") && reported.contains("req_"), "{reported}");
    let suite = document.descendants().find(|node| node.has_tag_name("testsuite")).expect("a suite");
    assert!(suite.attribute("time").is_some_and(|time| time.parse::<f64>().is_ok_and(|time| time > 0.0)), "{xml}");
    let at = suite.attribute("timestamp").expect("a time");
    assert!(at.parse::<jiff::civil::DateTime>().is_ok(), "{at}");
    // Without --fail-on a file is written all the same, and nothing is reported.
    let quiet = exec(&[&flags[..], &["json"]].concat(), &script);
    assert_eq!((quiet.status.code(), said(&quiet).as_str()), (Some(0), ""), "{quiet:?}");
    assert_eq!(serde_json::from_str::<Value>(&read()).expect("JSON")["counts"]["unmatched"], 2);
    let here = folder.path().display().to_string();
    let refused = exec(&["--verdict-file", &here], "echo ran");
    assert_eq!((refused.status.code(), text(&refused.stdout).as_str()), (Some(2), ""), "{refused:?}");
}

#[test]
fn the_log_is_there_for_those_who_ask() {
    let script = format!("{CURL} $WRS_BASE_URL/v1/hello");
    let verbose = exec(&["--verbose"], &script);
    assert!(said(&verbose).contains("200 GET /v1/hello req_") && text(&verbose.stdout).is_empty(), "{verbose:?}");
    let by_environment =
        run(wrs_emulator(&["exec", "--log", "json", "--", "sh", "-c", &script]).env("WRS_EMULATOR_VERBOSE", "yes"));
    let record: Value = serde_json::from_slice(&by_environment.stderr).expect("one JSON object");
    assert_eq!(record["target"], "/v1/hello");
}

/// A redelivery is logged when it happens, which is not when its event did.
#[test]
fn a_redelivery_is_logged_at_its_own_time() {
    let control = format!("{CURL} -H 'Content-Type: application/json'");
    let api = "$WRS_EMULATOR_URL/_emulator";
    let again = format!(
        "{control} -d '{{\"advance\":\"60s\"}}' {api}/clock; id=$(curl -s {api}/deliveries | grep -o 'dlv_[a-z0-9]*' | head -1); \
         {control} -X POST \"{api}/deliveries/$id/redeliver?wait=15s\""
    );
    let script = format!("{}; {}; {again}", subscribe("app"), fire("app", "[200]"));
    let output = exec(&["--clock", "2026-01-31T09:30:00Z", "--verbose", "--log", "json"], &script);
    let records: Vec<Value> = said(&output).lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let events: Vec<&str> = records
        .iter()
        .filter(|record| record["event"] == "event")
        .map(|record| record["at"].as_str().expect("a time"))
        .collect();
    assert_eq!(events, ["2026-01-31T09:30:00.000Z", "2026-01-31T09:31:00.000Z"], "{output:?}");
}

#[test]
fn the_verdict_is_a_command_of_its_own_as_well() {
    let binary = env!("CARGO_BIN_EXE_wrs-emulator");
    // In a service container there is no `exec`: the verdict is asked for when the tests are through. The key that the command
    // finds in its environment does not narrow it.
    let ask = |flags: &str| exec(&[], &format!("{CURL} $WRS_BASE_URL/v1/helo; {binary} verdict {flags}"));
    for (flags, code) in [
        ("", 0),
        ("--fail-on undelivered,unfinished", 0),
        ("--fail-on unmatched", 1),
        ("--fail-on unmatched --key sk_test_local", 1),
        ("--fail-on unmatched --key sk_test_local --allow-unused", 0),
        ("--fail-on everything", 2),
        ("--wait 400s", 2),
    ] {
        let output = ask(flags);
        assert_eq!(output.status.code(), Some(code), "{flags}: {output:?}");
        let reported = text(&output.stdout).contains("✗ unmatched: 1 request");
        assert_eq!(reported, flags.is_empty() || flags == "--fail-on unmatched", "{flags}: {output:?}");
    }
    let vacuous = text(&ask("--fail-on unfinished").stdout);
    assert!(vacuous.contains("· unfinished: no scenario is active\n"), "{vacuous}");
    let json: Value = serde_json::from_slice(&ask("--format json").stdout).expect("JSON");
    assert_eq!((&json["counts"]["unmatched"], &json["failed"]), (&Value::from(1), &Value::Bool(false)));
    let junit = text(&ask("--format junit").stdout);
    let document = roxmltree::Document::parse(&junit).unwrap_or_else(|error| panic!("{error}: {junit}"));
    assert_eq!(document.descendants().filter(|node| node.has_tag_name("failure")).count(), 1, "{junit}");
    let absent = run(wrs_emulator(&["verdict", "--url", "http://127.0.0.1:1", "--fail-on", "unmatched"]));
    assert_eq!(absent.status.code(), Some(3), "no verdict is no pass");
}

/// `exec --report` with the name of a file in a new folder; gives the output and the text of the file.
fn written(name: &str, flags: &[&str], command: &[&str]) -> (Output, Option<String>) {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join(name).display().to_string();
    let output = run(wrs_emulator(&[&["exec", "--report", &file], flags, &["--"], command].concat()));
    (output, std::fs::read_to_string(&file).ok())
}

/// The same with the document in the file.
fn reported(name: &str, flags: &[&str], command: &[&str]) -> (Output, Option<Value>) {
    let (output, written) = written(name, flags, command);
    let read = if name == "report.html" { data_of } else { |text: &str| serde_json::from_str(text).expect("JSON") };
    let document = written.map(|text| read(&text));
    (output, document)
}

#[test]
fn a_report_is_written_however_the_command_ends() {
    let request = "curl -s -o /dev/null $WRS_BASE_URL/v1/nowhere";
    for (name, script, code, signal) in [
        ("run.json", "true", 0, Value::Null),
        ("report.html", "exit 3", 3, Value::Null),
        ("run.json", "kill -KILL $$", 137, 9.into()),
        ("report.html", "kill -TERM $$", 143, 15.into()),
    ] {
        let script = format!("{request}; {script}");
        let (output, document) = reported(name, &[], &["sh", "-c", &script]);
        assert_eq!(output.status.code(), Some(code), "{script}");
        let printed = said(&output);
        let last = printed.lines().last().unwrap_or_default();
        assert!(last.starts_with("note: the report is in `/") && last.ends_with(&format!("/{name}`")), "{printed}");
        // A command that failed may have failed of the request that no endpoint matches.
        assert_eq!(printed.contains("GET /v1/nowhere: no endpoint"), code != 0, "{printed}");
        let document = document.unwrap_or_else(|| panic!("{script}: no report"));
        assert!(document["exec"]["duration_ms"].is_u64(), "{script}");
        let expected = json!({
            "duration_ms": document["exec"]["duration_ms"], "command": ["sh", "-c", script], "exit_status": code, "signal": signal, "problem": null,
            "output": "", "fail_on": [], "failed_by": [], "failed_because": [], "failed_findings": []
        });
        assert_eq!(document["exec"], expected);
        assert_eq!(document["requests"][0]["path"], "/v1/nowhere");
        assert_eq!(document["verification"]["counts"]["unmatched"], 1);
    }
    for (program, code) in [("no-such-command-anywhere", 127), ("/etc/passwd", 126)] {
        let (output, document) = reported("run.json", &[], &[program, "--token=sk_live_abcdefgh1234"]);
        assert_eq!(output.status.code(), Some(code), "{output:?}");
        let exec = &document.expect("a report")["exec"];
        assert_eq!((&exec["exit_status"], &exec["command"][0]), (&code.into(), &program.into()));
        assert!(exec["problem"].as_str().is_some_and(|problem| problem.contains(program)), "{exec}");
        assert!(!exec.to_string().contains("abcdefgh"), "{exec}");
    }
    // The verdict fails the run, and the report has its problems.
    let (output, document) = reported("run.json", &["--fail-on", "unmatched,undelivered"], &["sh", "-c", request]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let exec = &document.expect("a report")["exec"];
    assert_eq!(exec["exit_status"], 0);
    assert_eq!((&exec["fail_on"], &exec["failed_by"]), (&json!(["unmatched", "undelivered"]), &json!(["unmatched"])));
    assert_eq!(exec["failed_because"], json!(["1 request matched no endpoint"]));
}

#[test]
fn a_report_without_scripts_begins_with_how_the_command_ended() {
    let request = "curl -s -o /dev/null $WRS_BASE_URL/v1/nowhere";
    for (flags, script, first, ending) in [
        (&["--fail-on", "unmatched"][..], request, "Failed: GET /v1/nowhere: no endpoint", "exit status 0"),
        (&[], &format!("{request}; exit 3"), "Failed: GET /v1/nowhere: no endpoint", "exit status 3"),
        (&[], "kill -KILL $$", "Failed: 0 requests arrived; does your code read WRS_BASE_URL?", "signal 9"),
        (&[], "curl -s -o /dev/null $WRS_BASE_URL/v1/hello", "Passed: 1 request and 0 deliveries", "exit status 0"),
    ] {
        let (_, page) = written("my report.html", flags, &["sh", "-c", script]);
        let page = page.unwrap_or_else(|| panic!("{script}: no report"));
        let (plain, _) = page.split_once(wrs_emulator::ui::DATA_START).expect("the data");
        assert!(plain.contains(&format!("<h1>{first}")), "{script}: {plain}");
        assert!(plain.contains(&format!(": {ending}</p>")), "{script}: {plain}");
        assert!(plain.contains("\nwrs-emulator run view 'my report.html'\n"), "{script}: {plain}");
    }
}

#[test]
fn a_report_has_the_end_of_what_the_command_printed_and_the_command_prints_it_all_the_same() {
    let script = "echo one; echo sk_live_abcdefgh1234 >&2; printf '\\033[31mlast\\033[0m\\n'";
    let (output, document) = reported("run.json", &["--quiet"], &["sh", "-c", script]);
    assert_eq!(
        (text(&output.stdout).as_str(), said(&output).as_str()),
        ("one\n\u{1b}[31mlast\u{1b}[0m\n", "sk_live_abcdefgh1234\n")
    );
    let kept = document.expect("a report")["exec"]["output"].as_str().expect("a text").to_owned();
    let mut lines: Vec<&str> = kept.split_inclusive('\n').collect();
    lines.sort_unstable();
    assert_eq!(lines, ["last\n", "one\n", "sk_live_…1234\n"]);
    // Of long output the last whole lines are kept.
    let (_, document) = reported("run.json", &[], &["sh", "-c", "seq -f 'line %g' 20000"]);
    let kept = document.expect("a report")["exec"]["output"].as_str().expect("a text").to_owned();
    assert!(kept.starts_with("line ") && kept.ends_with("\nline 20000\n"), "{}", &kept[..40]);
    assert!((64 * 1024 - 20..=64 * 1024).contains(&kept.len()), "{}", kept.len());
    // What it leaves running does not hold the job up.
    let (output, document) = reported(
        "report.html",
        &["--control-token", "s3cret-token"],
        &["sh", "-c", "sleep 5 & echo $WRS_EMULATOR_CONTROL_TOKEN; exit 4"],
    );
    assert_eq!((output.status.code(), &document.expect("a report")["exec"]["output"]), (Some(4), &"…\n".into()));
}

#[test]
fn a_report_waits_for_what_is_due_and_is_written_when_exec_is_ended() {
    let fired = format!("{}; {} trigger workflow.completed", subscribe("late"), env!("CARGO_BIN_EXE_wrs-emulator"));
    let (output, document) = reported("run.json", &[], &["sh", "-c", &format!("{fired} >/dev/null")]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(document.expect("a report")["deliveries"][0]["status"], "delivered");

    // While the command runs, while its output is passed on to a reader that is slow, and while the emulator waits for a retry.
    let retried = format!("{}; {}; echo $$", subscribe("slow"), fire("slow", "[500]"));
    for script in ["echo $$; exec sleep 1000", "echo $$; exec head -c 120000 /dev/zero", &retried] {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("report.html").display().to_string();
        let retry = "webhooks.retry.schedule=[\"4m\"]";
        let flags = ["exec", "--report", &file, "--settle", "5m", "--set", retry, "--", "sh", "-c", script];
        let mut child = start(&mut wrs_emulator(&flags));
        let mut process = String::new();
        let mut out = BufReader::new(child.stdout.as_mut().expect("a pipe"));
        out.read_line(&mut process).expect("the command's process");
        let is_there = || std::path::Path::new("/proc").join(process.trim()).exists();
        if !script.contains("sleep") {
            process::eventually("the command has ended", || !is_there());
        }
        process::signal(&child, "TERM");
        let output = child.output();
        assert_eq!(output.status.code(), Some(143), "{script}: {output:?}");
        let document = data_of(&std::fs::read_to_string(&file).expect("a report"));
        assert!(document["exec"]["exit_status"].is_number(), "{script}");
    }
}

#[test]
fn a_report_that_cannot_be_written_does_not_hide_how_the_command_ended() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).display().to_string();
    // Found before the command runs.
    for file in [path("none/report.html"), folder.path().display().to_string(), "/dev/null".to_owned()] {
        let output = exec(&["--report", &file], &format!("touch {}", path("ran")));
        assert_eq!(output.status.code(), Some(2), "{file}: {output:?}");
        assert!(said(&output).contains(&format!("--report: cannot write `{file}`")), "{output:?}");
        assert!(!folder.path().join("ran").exists(), "{file}: the command was not run");
    }
    // An older report would be taken for that of this run.
    std::fs::write(path("report.html"), "old").expect("it is written");
    let gone = exec(&["--report", &path("report.html")], &format!("test ! -e {}", path("report.html")));
    assert_eq!(gone.status.code(), Some(0), "{gone:?}");
    // Found when it is written.
    for (code, expected) in [(0, 2), (3, 3)] {
        std::fs::create_dir_all(folder.path().join("later")).expect("a folder");
        let script = format!("rm -r {}; exit {code}", path("later"));
        let output = exec(&["--report", &path("later/report.html")], &script);
        assert_eq!(output.status.code(), Some(expected), "{output:?}");
        assert!(said(&output).contains("--report: cannot write"), "{output:?}");
    }
}
