//! `exec` and `verdict` in CI systems, by the variables that these set, and the scripts of the shipped CI files.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::process::{Command, Output};
use std::thread;

use crate::process::{Served, closed_port};
use crate::support::{sized, text, wrs_emulator};

const CALLS: &str = "for path in helo helo 100%25; do curl -s -o /dev/null $WRS_BASE_URL/v1/$path; done";

/// `exec FLAGS -- sh -c SCRIPT` with these variables.
fn exec(variables: &[(&str, &str)], flags: &[&str], script: &str) -> Output {
    let arguments = [&["exec"], flags, &["--", "sh", "-c", script]].concat();
    wrs_emulator(&arguments).envs(variables.iter().copied()).output().expect("it runs")
}

#[test]
fn github_shows_each_cause_and_a_summary() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (summary, report) = (path("summary"), path("report.html"));
    std::fs::write(&summary, "before\n").expect("it is written");
    let github = [("GITHUB_ACTIONS", "true"), ("GITHUB_STEP_SUMMARY", summary.as_str())];
    let output = exec(&github, &["--fail-on", "unmatched,undelivered", "--report", &report], CALLS);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    let errors: Vec<&str> = said.lines().filter(|line| line.starts_with("::error ")).collect();
    assert_eq!(errors.len(), 2, "one for each cause\n{said}");
    let first = "::error title=wrs-emulator%3A unmatched::GET /v1/helo: no endpoint `/v1/helo`; did you mean GET /v1/hello? (404); correct the path; 2 times; first req_";
    assert!(errors[0].starts_with(first), "{said}");
    assert!(errors[1].starts_with("::error title=wrs-emulator%3A unmatched::GET /v1/100%2525: "), "{said}");
    assert_eq!(said.lines().last(), Some(format!("note: the report is in `{report}`").as_str()));
    let written = std::fs::read_to_string(&summary).expect("a summary");
    for part in ["before\n### wrs-emulator: verdict\n\n    ✗ unmatched: 3 requests", "    · undelivered: ", &report]
    {
        assert!(written.contains(part), "{part}: {written}");
    }

    // Nothing was asked for: warnings, and the exit code of the command.
    let unasked = exec(&github, &[], &format!("{CALLS}; exit 3"));
    let said = text(&unasked.stderr);
    assert!(unasked.status.code() == Some(3) && said.starts_with("::error title=wrs-emulator%3A command::"), "{said}");
    let idle = exec(&github, &[], "true");
    let nothing = "::warning title=wrs-emulator%3A unused::0 requests arrived; does your code read WRS_BASE_URL?\n";
    assert_eq!((idle.status.code(), text(&idle.stderr).as_str()), (Some(0), nothing));
    let failed = text(&exec(&github, &["--fail-on", "unused"], "exit 3").stderr);
    assert_eq!(failed.matches("::error ").count(), 1, "one for one cause\n{failed}");
    assert!(failed.contains("✗ unused: 1 check had nothing to judge\n    see above\n"), "{failed}");
    // A summary that cannot be written does not change the outcome.
    let gone = exec(&[github[0], ("GITHUB_STEP_SUMMARY", "/no/such/file")], &[], "curl -s $WRS_BASE_URL/v1/hello");
    let said = text(&gone.stderr);
    assert!(gone.status.code() == Some(0) && said.starts_with("warning: the summary of the job cannot be"), "{said}");
}

/// GitHub executes `::name` at the beginning of a line, after white space, and `##[name]` anywhere: nothing that a client sent, a receiver
/// answered or a test said gets there, in the log or in a verdict of any form.
#[test]
fn nothing_of_a_live_run_is_a_command() {
    let script = r#"curl -s -o /dev/null "$WRS_BASE_URL/v1/helo%0A%20::add-mask::x%23%23%5Berror%5Dx?%23%23%5Berror%5D"
        post() { curl -sf -o /dev/null -H 'Content-Type: application/json' -d "$2" "$WRS_EMULATOR_URL/_emulator/$1" || exit 9; }
        post outcome '{"key":"sk_test_local","test":"a\n::add-mask::x ##[error]x","outcome":"failed","message":"b\n\t::add-mask::x ##[error]x","output":"::add-mask::x\n ::add-mask::x ##[error]x"}'
        post subscriptions '{"url":"https://app.sink.localhost/%0A::add-mask::x%23%23[error]x","events":["workflow.completed"],"description":"\n::add-mask::x ##[error]x"}'
        post 'events?wait=10s' '{"type":"workflow.completed","data":{"workflow_id":"\n::add-mask::x ##[error]x"}}'"#;
    for format in ["text", "json", "junit"] {
        let flags = ["--verbose", "--fail-on", "unmatched,undelivered,findings", "--verdict-format", format];
        let output = exec(&[("GITHUB_ACTIONS", "true")], &flags, script);
        let said = text(&output.stdout) + &text(&output.stderr);
        assert!(output.status.code() == Some(1) && said.contains("helo"), "{format}: {said}");
        let is_command = |line: &&str| line.trim_start().starts_with("::add-mask::") || line.contains("##[");
        assert_eq!(said.lines().find(is_command), None, "{format}: {said}");
    }
}

/// A run whose tests failed is red, whatever --fail-on names, with the refusal that explains each test.
#[test]
fn failed_tests_are_causes() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (summary, report) = (path("summary"), path("run.json"));
    let github = [("GITHUB_ACTIONS", "true"), ("GITHUB_STEP_SUMMARY", summary.as_str())];
    let script = r#"
post() { curl -s -o /dev/null -H 'Content-Type: application/json' -d "$1" "$WRS_EMULATOR_URL$2" -H "Authorization: Bearer $3"; }
for key in sk_test_a sk_test_b; do
  post '{"url":"https://a.example","event":["workflow.completed"]}' /v1/events/subscribe $key
  curl -s -o /dev/null "$WRS_EMULATOR_URL/v1/system/status?include_checks=x" -H "Authorization: Bearer $key"
  post '{"key":"'$key'","test":"subscribes '$key'","outcome":"failed","message":"assert 422 == 200"}' /_emulator/outcome
done
post '{"key":"sk_test_c","test":"adds","outcome":"failed","message":"1 != 2"}' /_emulator/outcome
curl -s -o /dev/null "$WRS_EMULATOR_URL/v1/system/status?include_checks=y" -H "Authorization: Bearer sk_test_e"
post '{"key":"sk_test_e","test":"sets","outcome":"failed","message":"ControlError","refused":{"call":"PATCH profile","status":422,"code":"invalid","message":"no such setting"}}' /_emulator/outcome
post '{"key":"sk_test_d","test":"fine","outcome":"passed"}' /_emulator/outcome
exit 1"#;
    let output = exec(&github, &["--fail-on", "unmatched", "--report", &report], script);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    let errors: Vec<&str> = said.lines().filter(|line| line.starts_with("::error ")).collect();
    let [refused, own, other] = errors[..] else { panic!("one for each cause\n{said}") };
    // The test did not get to what it would have found wrong.
    let call = "::error title=wrs-emulator%3A sets::the test's own control call was refused: PATCH profile: 422 invalid: no such setting; \
                correct this call, or the steps of the test before it; also: GET /v1/system/status was refused with 422 ";
    assert!(own.starts_with(call), "{said}");
    assert!(refused.starts_with("::error title=wrs-emulator%3A subscribes sk_test_a and 1 more test::POST "), "{said}");
    assert!(
        refused.contains("POST /v1/events/subscribe was refused with 422 Unprocessable Entity: `events` "),
        "{said}"
    );
    assert!(
        refused.contains("; 2 times; first req_") && refused.contains("; test subscribes sk_test_a, test sub"),
        "{said}"
    );
    assert!(
        other.contains("title=wrs-emulator%3A adds::1 != 2; the test made no request") && other.contains("test adds"),
        "{said}"
    );
    assert!(said.contains("✗ tests: 4 tests failed\n"), "{said}");
    let written = std::fs::read_to_string(&summary).expect("a summary");
    assert!(written.contains("    ✗ tests: 4 tests failed\n"), "{written}");
    let saved = wrs_emulator(&["verdict", "--from", &report, "--fail-on", "unmatched"]);
    let saved = { saved }.output().expect("it runs");
    assert!(
        saved.status.success() && text(&saved.stdout).contains("✗ tests: 4 tests failed\n"),
        "{}",
        text(&saved.stdout)
    );
}

/// The subscription of a receiver at <https://shop.example>, and one event.
const ONE_EVENT: &str = r#"
post() { curl -s -o /dev/null -H 'Content-Type: application/json' -H "Authorization: Bearer $WRS_API_KEY" -d "$1" "$WRS_EMULATOR_URL$2"; }
post '{"url":"https://shop.example/hooks","events":["workflow.completed"]}' /v1/events/subscribe
post '{"type":"workflow.completed"}' /_emulator/events
"#;

/// The flags of an emulator that forwards to this port. Its clock moves only while a call waits, so only once the command has ended.
fn forwarding(port: u16) -> [String; 3] {
    let forward = format!("--forward=https://shop.example=http://127.0.0.1:{port}");
    [forward, "--clock=auto".to_owned(), "--fail-on=undelivered".to_owned()]
}

/// A receiver that the tests start ends with them, so that later attempts find nothing: the answer before that is the cause.
#[test]
fn a_receiver_that_ended_with_the_command_is_judged_by_its_answer() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (summary, report) = (path("summary"), path("run.json"));
    let github = [("GITHUB_ACTIONS", "true"), ("GITHUB_STEP_SUMMARY", summary.as_str())];
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let flags = forwarding(listener.local_addr().expect("an address").port());
    let receiver = thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a delivery");
        // Gone before it answers, so that no attempt after this one reaches it.
        drop(listener);
        let mut head = [0; 64];
        let _ = stream.read(&mut head).expect("a request");
        stream
            .write_all(b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 13\r\nConnection: close\r\n\r\nbad signature")
            .expect("an answer");
        let _ = std::io::copy(&mut stream, &mut std::io::sink());
    });
    let flags: Vec<&str> = flags.iter().map(String::as_str).chain(["--report", &report]).collect();
    let output = exec(&github, &flags, &format!("{ONE_EVENT} exit 1"));
    receiver.join().expect("it answered");
    let said = text(&output.stderr);
    let cause = "the receiver answered 401: bad signature; only 2xx accepts an event; \
                 does your receiver use the secret that was generated for this subscription (its own is passed as `secret`), verify the body as received, and answer this only to a wrong signature?";
    let error = said.lines().find(|line| line.starts_with("::error "));
    assert!(error.is_some_and(|error| error.contains(cause) && error.contains("; dlv_")), "{said}");
    let sentence = "the receiver answered 401: bad signature; only 2xx accepts an event";
    assert_eq!(said.matches(sentence).count(), 2, "the verdict and the annotation\n{said}");
    assert!(said.contains("✗ undelivered: 1 delivery failed\n"), "{said}");
    let written = std::fs::read_to_string(&summary).expect("a summary");
    assert!(
        written.contains("does your receiver use the secret that was generated for this subscription (its own is passed as `secret`), verify the body as received, and answer this only to a wrong signature?"),
        "{written}"
    );
    let run: serde_json::Value = serde_json::from_slice(&std::fs::read(&report).expect("a report")).expect("JSON");
    let lost = &run["verification"]["undelivered"][0];
    assert_eq!(
        lost["remedy"],
        "does your receiver use the secret that was generated for this subscription (its own is passed as `secret`), verify the body as received, and answer this only to a wrong signature?",
        "{lost}"
    );
    let shown = run["deliveries"][0]["summary"].as_str().expect("a sentence");
    assert!(shown.contains("the receiver answered 401: bad signature"), "{shown}");
}

/// An event that came too late for the tests.
#[test]
fn a_webhook_after_the_end_of_the_command_is_told_as_that() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let flags = forwarding(listener.local_addr().expect("an address").port());
    let receiver = thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a delivery");
        drop(listener);
        let _ = stream.read(&mut [0; 64]).expect("a request");
        stream.write_all(b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n").expect("an answer");
        let _ = std::io::copy(&mut stream, &mut std::io::sink());
    });
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let late = "[[emit]]\nevent = 'workflow.completed'\non = { operation = 'events.subscribe' }\ndelay = '1s'\n";
    let said = text(&exec(&[], &[&flags[..], &["--scenario-text", late]].concat(), ONE_EVENT).stderr);
    receiver.join().expect("it answered");
    let cause =
        ": cancelled: nothing listened there after the command had ended\n        should the test wait for this event?";
    assert!(said.contains("✗ undelivered: 1 delivery failed\n") && said.contains(cause), "{said}");
    // One that never ran did not end with the command.
    let flags = forwarding(closed_port());
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let said = text(&exec(&[], &flags, ONE_EVENT).stderr);
    assert!(said.contains("nothing listens on 127.0.0.1:") && !said.contains("cancelled"), "{said}");
}

/// A subscription that the tests delete after a refusal does not hide it either.
#[test]
fn a_deleted_subscription_does_not_hide_the_answer() {
    let served = Served::start(&["--clock", "frozen"]);
    served.call(&["subscriptions", "create", "https://app.sink.localhost/hooks"]);
    exec_script(
        &served,
        "curl -s -d '{\"respond\":[401]}' -H 'Content-Type: application/json' $WRS_EMULATOR_URL/_emulator/sink/app",
    );
    served.call(&["trigger", "workflow.completed", "--wait"]);
    let id = served.json(&["subscriptions", "list", "--json"])["data"][0]["id"].as_str().expect("an id").to_owned();
    served.call(&["subscriptions", "delete", &id]);
    let cause = "the receiver answered 401; only 2xx accepts an event; then cancelled: the subscription was deleted or disabled";
    served.call(&["clock", "advance", "1s"]);
    let verdict = text(&served.call(&["verdict", "--json"]).stdout);
    assert!(verdict.contains(cause), "{verdict}");
}

/// Without a plug-in, the refusals are all that may explain why a command failed.
#[test]
fn a_failed_command_names_what_was_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (summary, report) = (path("summary"), path("run.json"));
    let github = [("GITHUB_ACTIONS", "true"), ("GITHUB_STEP_SUMMARY", summary.as_str())];
    let script = r#"
get() { curl -s -o /dev/null "$WRS_BASE_URL/v1/system/status$2" -H "Authorization: Bearer $1"; }
get wrong; get wrong; get sk_test_a '?include_checks=x'; get sk_test_a
"#;
    let flags = ["--fail-on", "unmatched", "--report", &report];
    let output = exec(&github, &flags, &format!("{script} exit 3"));
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{said}");
    let errors: Vec<&str> = said.lines().filter(|line| line.starts_with("::error ")).collect();
    let [key, parameter] = errors[..] else { panic!("one for each cause\n{said}") };
    let refused = "GET /v1/system/status was refused with 401 Unauthorized: the Bearer token does not have the prefix of an API key";
    assert!(key.starts_with(&format!("::error title=wrs-emulator%3A command::{refused}")), "{said}");
    assert!(key.contains("; 2 times; first req_"), "{said}");
    assert!(
        parameter.contains(" 422 Unprocessable Entity: `include_checks` ") && parameter.contains("; key sk_test_a; "),
        "{said}"
    );
    assert!(said.contains("✗ command: it exited with 3, and this went wrong\n    GET /v1/"), "{said}");
    let written = std::fs::read_to_string(&summary).expect("a summary");
    assert!(written.contains("    ✗ command: it exited with 3"), "{written}");
    let saved = text(&wrs_emulator(&["verdict", "--from", &report]).output().expect("it runs").stdout);
    assert!(saved.contains(refused), "{saved}");
    // What was refused is no problem if the command succeeded.
    let passed = text(&exec(&github, &flags, script).stderr);
    assert!(!passed.contains("refused"), "{passed}");
}

/// A test whose client sent another key is explained by what was refused while it ran.
#[test]
fn a_failed_test_names_what_came_without_its_key() {
    let script = r#"
post() { curl -s -o /dev/null -H 'Content-Type: application/json' -d "$1" "$WRS_EMULATOR_URL/_emulator/$2"; }
get() { curl -s -o /dev/null "$WRS_BASE_URL/v1/system/status$2" -H "Authorization: Bearer $1"; }
get before
post '{"key":"sk_test_a"}' reset
get during '?first'; get during
post '{"key":"sk_test_a","test":"a","outcome":"failed","message":"assert 401 == 200"}' outcome
get after
post '{"key":"sk_test_b"}' reset
post '{"key":"sk_test_b","test":"b","outcome":"failed","message":"assert 1 == 2"}' outcome
exit 1"#;
    let said = text(&exec(&[], &["--fail-on", "unmatched"], script).stderr);
    let lines: Vec<&str> = said.lines().collect();
    let a =
        lines.iter().position(|line| line.starts_with("    GET /v1/system/status was refused with 401 Un")).expect("a");
    assert!(lines[a].ends_with("the prefix of an API key; it came while the test ran"), "{said}");
    assert!(lines[a + 2].ends_with("said: assert 401 == 200"), "{said}");
    assert!(lines[a + 3].contains("2 times; first req_") && lines[a + 3].ends_with("; test a"), "{said}");
    assert!(said.contains("    assert 1 == 2; the test made no request with its key\n"), "{said}");
}

/// Each of ten causes is one, whatever the tests' runner says, with one sentence in the terminal, the summary, the annotation, the
/// `JUnit` file and the report.
#[test]
fn a_red_job_has_one_cause_for_each_failed_test_and_one_sentence_everywhere() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (summary, report, junit) = (path("summary"), path("run.json"), path("verdict.xml"));
    let github = [("GITHUB_ACTIONS", "true"), ("GITHUB_STEP_SUMMARY", summary.as_str())];
    let script = r#"
control() { curl -s -o /dev/null -X "${3-POST}" -H 'Content-Type: application/json' -d "$2" "$WRS_EMULATOR_URL/_emulator/$1"; }
call() { curl -s -o /dev/null "$WRS_BASE_URL/v1/$1" -H "Authorization: Bearer $key" "${@:2}"; }
begin() { key=sk_test_$1; control reset "{\"key\":\"$key\"}"; }
fail() { control outcome "{\"key\":\"$key\",\"test\":\"$1\",\"outcome\":\"failed\",\"message\":\"assert 0 == 1\"}"; }
begin value; call 'system/status?include_checks=True'; fail 'wrong value'
begin path; call nowhere; fail 'wrong path'
begin method; call system/status -X DELETE; fail 'wrong method'
begin field; call events/subscribe -H 'Content-Type: application/json' -d '{"url":"https://a.example","event":["workflow.completed"]}'; fail 'wrong field'
begin key; key=test_wrong; call system/status; key=sk_test_key; fail 'bad key'
begin silent; fail 'silent'
begin other; key=sk_test_local; call system/status; key=sk_test_other; fail 'other key'
begin gone; control subscriptions "{\"key\":\"$key\",\"url\":\"https://127.0.0.1:1/hooks\"}"
control 'events?wait=20s' "{\"key\":\"$key\",\"type\":\"workflow.completed\"}"; fail 'receiver gone'
begin again; control clock "{\"key\":\"$key\",\"mode\":\"frozen\"}"; control "profile?key=$key" '{"rate_limit":{"requests":1}}' PATCH
call system/status; call system/status; control clock "{\"key\":\"$key\",\"advance\":\"1h\"}"; call system/status; fail 'survived 429'
begin call; call nowhere
control outcome "{\"key\":\"$key\",\"test\":\"refused call\",\"outcome\":\"failed\",\"message\":\"ControlError\",\"refused\":{\"call\":\"PATCH profile\",\"status\":422,\"code\":\"invalid\",\"message\":\"unknown setting\"}}"
begin fine; call 'system/status?include_checks=maybe'
control outcome "{\"key\":\"$key\",\"test\":\"expects a 422\",\"outcome\":\"passed\"}"
exit 1"#;
    let flags =
        ["--clock", "frozen", "--fail-on", "unmatched,undelivered", "--report", &report, "--verdict-file", &junit];
    let output = exec_bash(&github, &flags, script);
    let said = text(&output.stderr);
    let read = |path: &str| std::fs::read_to_string(path).expect("it is written");
    let run: serde_json::Value = serde_json::from_str(&read(&report)).expect("JSON");
    let causes = run["verification"]["causes"].as_array().expect("causes");
    let found: Vec<(&str, &str, &str)> = causes
        .iter()
        .filter_map(|cause| {
            let text = |field: &str| cause[field].as_str();
            Some((cause["tests"][0]["test"].as_str()?, text("kind")?, text("sentence")?))
        })
        .collect();
    let expected = [
        ("receiver gone", "undelivered", "workflow.completed to https://127.0.0.1:1/hooks: "),
        (
            "wrong method",
            "unmatched",
            "DELETE /v1/system/status: `/v1/system/status` accepts GET, HEAD, not DELETE (405)",
        ),
        ("wrong path", "unmatched", "GET /v1/nowhere: no endpoint `/v1/nowhere`"),
        (
            "bad key",
            "refused",
            "GET /v1/system/status was refused with 401 Unauthorized: the Bearer token does not have the prefix",
        ),
        (
            "wrong field",
            "refused",
            "POST /v1/events/subscribe was refused with 422 Unprocessable Entity: `events` is required",
        ),
        (
            "wrong value",
            "refused",
            "GET /v1/system/status was refused with 422 Unprocessable Entity: `include_checks` must be",
        ),
        (
            "refused call",
            "control_call",
            "the test's own control call was refused: PATCH profile: 422 invalid: unknown setting",
        ),
        (
            "other key",
            "silent",
            "assert 0 == 1; the test made no request with its key; while it ran, 1 request came with the key sk_test_local",
        ),
        ("silent", "silent", "assert 0 == 1; the test made no request with its key"),
        ("survived 429", "runner", "assert 0 == 1; every failed request succeeded when it was sent again"),
    ];
    assert_eq!(found.len(), expected.len(), "{found:#?}");
    for (cause, expected) in found.iter().zip(&expected) {
        assert!((cause.0, cause.1) == (expected.0, expected.1) && cause.2.starts_with(expected.2), "{found:#?}");
    }
    let xml = read(&junit);
    let document = roxmltree::Document::parse(&xml).unwrap_or_else(|error| panic!("{error}: {xml}"));
    for (test, _, sentence) in found {
        assert_eq!(said.matches(&format!("    {sentence}\n")).count(), 1, "the terminal: {sentence}\n{said}");
        assert!(said.contains(&format!("::error title=wrs-emulator%3A {test}::{sentence}; ")), "{sentence}\n{said}");
        assert!(read(&summary).contains(&format!("        {sentence}\n")), "the summary: {sentence}");
        let mut cases = document.descendants().filter(|node| node.attribute("name") == Some(test));
        let failure = cases.next().and_then(|case| case.first_element_child()).expect("a failure of each test");
        assert_eq!(failure.attribute("message"), Some(sentence), "{xml}");
    }
    // No cause is told a second time as a kind of problem.
    assert_eq!(said.matches("::error ").count(), expected.len(), "{said}");
    assert!(said.contains("✗ unmatched: 3 requests matched no endpoint\n    see above\n"), "{said}");
    let explained = text(&wrs_emulator(&["explain", "--from", &report]).output().expect("it runs").stdout);
    assert!(explained.starts_with(expected[0].2) && explained.contains("\ndlv_"), "the first cause: {explained}");
}

/// A green run is explained by what it warns of, which is rarely its newest request.
#[test]
fn a_run_that_passed_is_explained_by_its_first_warning() {
    let folder = tempfile::tempdir().expect("a folder");
    let report = folder.path().join("run.json").display().to_string();
    let script = "curl -s $WRS_BASE_URL/v1/helo; curl -s $WRS_BASE_URL/v1/hello";
    let ran = wrs_emulator(&["exec", "--report", &report, "--", "sh", "-c", script]).output().expect("it runs");
    assert!(ran.status.success(), "{}", text(&ran.stderr));
    let explained = text(&wrs_emulator(&["explain", "--from", &report]).output().expect("it runs").stdout);
    assert!(explained.starts_with("GET /v1/helo: no endpoint `/v1/helo`"), "{explained}");
}

/// What a retry meets after the test has ended is not why it failed.
#[test]
fn a_test_failed_of_the_answer_that_it_saw() {
    let script = r#"
control() { curl -s -o /dev/null -H 'Content-Type: application/json' -d "$2" "$WRS_EMULATOR_URL/_emulator/$1"; }
control sink/app '{"respond":[401,503]}'
control subscriptions '{"key":"sk_test_a","url":"https://app.sink.localhost/hooks"}'
control 'events?wait=20s' '{"key":"sk_test_a","type":"workflow.completed"}'
control outcome '{"key":"sk_test_a","test":"a","outcome":"failed","message":"assert 0 == 1"}'
control clock '{"advance":"1s"}'
exit 1"#;
    let said = text(&exec_bash(&[], &["--clock", "frozen", "--fail-on", "undelivered"], script).stderr);
    let cause = "✗ tests: 1 test failed\n    workflow.completed to https://app.sink.localhost/hooks: the receiver answered 401; only 2xx accepts an event\n";
    assert!(said.starts_with(cause), "{said}");
}

/// Totals are true beyond the thousand that are listed.
#[test]
fn all_failed_tests_are_counted() {
    let count = sized("1001", "2001");
    let script = r#"
for number in $(seq COUNT); do
  [ $number = 1 ] || echo next
  printf 'url = "%s/_emulator/outcome"\ndata = "{\\"key\\":\\"sk_test_%s\\",\\"test\\":\\"t%s\\",\\"outcome\\":\\"failed\\",\\"message\\":\\"no\\"}"\nheader = "Content-Type: application/json"\noutput = /dev/null\n' "$WRS_EMULATOR_URL" $number $number
done | curl -s -K -
curl -s -o /dev/null $WRS_BASE_URL/v1/hello; exit 1"#;
    let output = exec_bash(&[], &["--fail-on", "unmatched"], &script.replace("COUNT", count));
    let said = text(&output.stderr);
    assert!(said.contains(&format!("✗ tests: {count} tests failed\n")), "{said}");
}

/// `exec` of a script for bash.
fn exec_bash(variables: &[(&str, &str)], flags: &[&str], script: &str) -> Output {
    let arguments = [&["exec"], flags, &["--", "bash", "-c", script]].concat();
    wrs_emulator(&arguments).envs(variables.iter().copied()).output().expect("it runs")
}

#[test]
fn a_verdict_of_its_own_is_shown_as_well() {
    let folder = tempfile::tempdir().expect("a folder");
    let summary = folder.path().join("summary");
    let served = Served::start(&[]);
    exec_script(&served, CALLS);
    let mut github = wrs_emulator(&["verdict", "--url", &served.url, "--fail-on", "unmatched", "--format", "json"]);
    let output = github.env("GITHUB_ACTIONS", "true").env("GITHUB_STEP_SUMMARY", &summary).output().expect("it runs");
    assert!(serde_json::from_slice::<serde_json::Value>(&output.stdout).is_ok(), "data stays data: {output:?}");
    assert_eq!(text(&output.stderr), "", "with JSON, stderr has nothing else");
    assert!(std::fs::read_to_string(&summary).expect("a summary").contains("    ✗ unmatched: "));
    let gitlab = |flags: &[&str]| {
        let arguments = [&["verdict", "--url", &served.url], flags].concat();
        let output = wrs_emulator(&arguments).env("GITLAB_CI", "true").output().expect("it runs");
        (text(&output.stdout), text(&output.stderr))
    };
    // The marks are no part of the data.
    let (data, marks) = gitlab(&["--fail-on", "unmatched"]);
    assert!(data.starts_with("✗ unmatched: ") && !data.contains('\u{1b}'), "{data:?}");
    assert!(is_section(&marks, ":wrs_emulator\r\u{1b}[0Kwrs-emulator: verdict\n"), "{marks:?}");
    assert!(is_section(&gitlab(&[]).1, ":wrs_emulator[collapsed=true]\r"));
    assert!(gitlab(&["--json"]).0.starts_with('{'));
}

#[test]
fn gitlab_has_a_section_of_the_log() {
    for (flags, code, part) in [
        (&["--fail-on", "unmatched"][..], 1, ":wrs_emulator\r\u{1b}[0Kwrs-emulator: verdict\n✗ unmatched: 3 requests"),
        (&[], 0, ":wrs_emulator[collapsed=true]\r\u{1b}[0Kwrs-emulator: verdict\n✗ unmatched: 3 requests"),
    ] {
        let output = exec(&[("GITLAB_CI", "true")], flags, CALLS);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{said}");
        assert!(is_section(&said, part), "{said:?}");
    }
}

fn is_section(text: &str, part: &str) -> bool {
    text.starts_with("\u{1b}[0Ksection_start:")
        && text.contains(part)
        && text.contains("\u{1b}[0Ksection_end:")
        && text.ends_with(":wrs_emulator\r\u{1b}[0K\n")
}

/// Runs a script with the variables that the shipped files set for their jobs.
fn exec_script(served: &Served, script: &str) -> Output {
    let folder = tempfile::tempdir().expect("a folder");
    Command::new("bash")
        .args(["-e", "-o", "pipefail", "-c", script])
        .current_dir(folder.path())
        .envs([("WRS_BASE_URL", &*served.url), ("WRS_EMULATOR_URL", &served.url)])
        .envs([("WRS_API_KEY", "sk_test_ci"), ("WRS_EMULATOR_CONTROL_TOKEN", "only-for-this-job")])
        .env("NO_PROXY", "127.0.0.1")
        .output()
        .expect("bash runs")
}

/// The block of a shipped file that asks for the verdict.
fn verdict_script(file: &str) -> String {
    let file = format!("{}/docs/examples/{file}", env!("CARGO_MANIFEST_DIR"));
    let yaml = std::fs::read_to_string(file).expect("the file is there");
    let (before, after) = yaml.split_once("/_emulator/verdict?").expect("it asks for the verdict");
    let (_, start) = before.rsplit_once("|\n").expect("a block");
    let indent = start.len() - start.trim_start().len();
    let (line, rest) = after.split_once('\n').expect("a line");
    let rest = rest.lines().take_while(|line| line.len() - line.trim_start().len() >= indent);
    let rest: String = rest.map(|line| format!("{line}\n")).collect();
    format!("{start}/_emulator/verdict?{line}\n{rest}")
}

#[test]
fn the_shipped_scripts_print_the_causes_and_name_the_report() {
    for (file, error) in
        [("github.yml", "::error title=wrs-emulator::GET /v1/100%2525: "), ("gitlab.yml", "GET /v1/100%25: ")]
    {
        let script = verdict_script(file);
        let served = Served::start(&["--control-token", "only-for-this-job"]);
        let idle = exec_script(&served, &script);
        let printed = text(&idle.stdout);
        assert!(idle.status.code() == Some(1) && printed.contains("0 requests arrived; does"), "{file}: {idle:?}");
        exec_script(&served, "curl -s $WRS_BASE_URL/v1/hello");
        let good = exec_script(&served, &script);
        assert_eq!((good.status.code(), text(&good.stdout).as_str()), (Some(0), ""), "{file}: {good:?}");
        exec_script(&served, CALLS);
        let red = exec_script(&served, &script);
        let printed = text(&red.stdout);
        assert_eq!(red.status.code(), Some(1), "{file}: {red:?}");
        assert!(printed.contains(error) && printed.contains("report.html"), "{file}: {printed}");
    }
}
