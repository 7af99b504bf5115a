//! Fewer words to type: commands that may be left out, `subscriptions create`, `listen --forward-to`.

use std::io::{BufRead as _, BufReader};

use serde_json::{Value, json};

use crate::process::{Served, closed_port, request};
use crate::program::Program;
use crate::support::{PATIENCE, Receiver, run, text, wrs_emulator};

#[test]
fn a_group_of_commands_alone_lists_or_shows() {
    let served = Served::start(&["--quiet", "--clock", "frozen"]);
    for (short, long) in [
        (&["requests"][..], &["requests", "list"][..]),
        (&["requests", "--status", "404"], &["requests", "list", "--status", "404"]),
        (&["deliveries", "--json"], &["deliveries", "list", "--json"]),
        (&["subscriptions"], &["subscriptions", "list"]),
        (&["scenarios"], &["scenarios", "list"]),
        (&["forwards"], &["forwards", "list"]),
        (&["clock"], &["clock", "show"]),
        (&["profile", "--key", "sk_test_a"], &["profile", "show", "--key", "sk_test_a"]),
    ] {
        let (short, long) = (served.call(short), served.call(long));
        assert!(long.status.success() && !long.stdout.is_empty(), "{long:?}");
        assert_eq!((short.status, text(&short.stdout)), (long.status, text(&long.stdout)));
    }
    let help = |arguments: &[&str]| text(&run(arguments).stdout);
    assert_eq!(help(&["help", "clock", "advance"]), help(&["clock", "advance", "--help"]));
    assert!(help(&["requests", "--help"]).contains("wait"));
}

#[test]
fn check_reads_the_usual_folder() {
    let folder = tempfile::tempdir().expect("a folder");
    let check = || Program::new(&["check"]).within(folder.path());
    let absent = "error: there is no folder ./scenarios here\n\nhint: name files or folders to check\n";
    check().status(2).stderr(absent).run();
    std::fs::create_dir(folder.path().join("scenarios")).expect("a folder");
    std::fs::write(folder.path().join("scenarios/mine.toml"), "[profile]\nrate_limit.requests = 5\n")
        .expect("the file is written");
    check().stdout("1 file, 0 errors, 0 warnings\n").run();
}

#[test]
fn a_subscription_is_created_for_a_key() {
    let served = Served::start(&["--quiet"]);
    let create = |arguments: &[&str]| served.call(&[&["subscriptions", "create"], arguments].concat());
    let url = "https://app.sink.localhost/hooks";
    let said = text(&create(&[url]).exits(0).stdout);
    let first = said.lines().next().expect("a line");
    assert!(
        first.starts_with("sub_")
            && first.ends_with(&format!(" created: workflow.completed,reference.matched to {url}")),
        "{said}"
    );
    let secret = said.lines().nth(1).and_then(|line| line.strip_prefix("secret: whsec_"));
    assert!(secret.is_some(), "{said}");
    assert_eq!(served.call(&["trigger", "reference.matched", "--wait"]).status.code(), Some(0));
    // The same again updates it; no request of the key was counted or noted.
    let again = create(&[url, "--events", "workflow.completed", "--description", "mine", "--json"]);
    let again: Value = serde_json::from_slice(&again.stdout).expect("JSON");
    assert_eq!((&again["created"], &again["secret"]), (&json!(false), &Value::Null));
    assert_eq!(
        (&again["subscription"]["events"], &again["subscription"]["description"]),
        (&json!(["workflow.completed"]), &json!("mine"))
    );
    assert_eq!(served.json(&["requests", "--json"])["data"], json!([]));
    create(&[url, "--key", "sk_test_other"]).exits(0);
    assert_eq!(served.json(&["subscriptions", "--json"])["data"].as_array().map(Vec::len), Some(2));
    for (arguments, part) in [(&["ftp://a"][..], "https"), (&[url, "--events", "nothing.happened"], "nothing.happened")]
    {
        create(arguments).exits(2).says(&[part]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn listen_subscribes_verifies_prints_and_hands_on() {
    let mut application = Receiver::plain(&[500, 200]).await;
    let served = Served::start(&["--quiet", "--set", "webhooks.retry.schedule=[\"10ms\"]"]);
    let there = format!("{}/hooks", application.address);
    let arguments = ["listen", "--listen", "127.0.0.1:0", "--forward-to", &there, "--key", "sk_test_a"];
    let mut listening = Served::spawn(wrs_emulator(&arguments).env("WRS_EMULATOR_URL", &served.url));
    assert!(listening.ready.starts_with("wrs-emulator listening on http://127.0.0.1:"));
    let reported = listening.line();
    assert!(reported.contains("ready: forwarding events for sk_test_a, by sub_"), "{reported}");
    served.call(&["trigger", "workflow.completed", "--wait", "--key", "sk_test_a"]).prints(&["answered 500"]);
    for status in [500, 200] {
        let line = listening.line();
        let expected = format!(" verified, forwarded to http://{there}, answered {status}\n");
        assert!(line.contains(" / workflow.completed evt_") && line.ends_with(&expected), "{line}");
        let received = tokio::time::timeout(PATIENCE, application.next()).await.expect("it arrives");
        assert!(!received.header("webhook-signature").is_empty());
    }
    // The end removes subscription and forward.
    assert_eq!(served.json(&["subscriptions", "--json"])["data"].as_array().map(Vec::len), Some(1));
    assert_eq!(listening.stop().0, Some(0));
    assert_eq!(served.json(&["subscriptions", "--json"])["data"], json!([]));
    assert_eq!(text(&served.call(&["forwards", "--key", "sk_test_a"]).stdout), "no forwards\n");
}

#[test]
fn listen_subscribes_with_a_secret_that_lasts() {
    let served = Served::start(&["--quiet"]);
    let port = closed_port().to_string();
    let start = |secret: Option<&str>| {
        let arguments = ["listen", "--listen", &format!("127.0.0.1:{port}"), "--json", "--forward-to", "1"];
        let mut command = wrs_emulator(&arguments);
        command.env("WRS_EMULATOR_URL", &served.url).envs(secret.map(|secret| ("WRS_WEBHOOK_SECRET", secret)));
        let listening = Served::spawn(&mut command);
        let ready: Value = serde_json::from_str(&listening.ready).expect("JSON");
        (listening, ready["secret"].as_str().map(str::to_owned))
    };
    // Killed, it leaves its subscription, whose secret is used again.
    let (mut killed, first) = start(None);
    killed.child.kill().and_then(|()| killed.child.wait()).expect("it can be killed");
    let (again, second) = start(None);
    assert!(first.is_some() && first == second, "{first:?} {second:?}");
    assert_eq!(again.stop().0, Some(0));
    let given = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    let (mut listening, secret) = start(Some(given));
    assert_eq!(secret.as_deref(), Some(given));
    served.call(&["trigger", "workflow.completed"]);
    let delivery: Value = serde_json::from_str(&listening.line()).expect("JSON");
    assert_eq!(delivery["verified"], true, "{delivery}");
    assert_eq!(listening.stop().0, Some(0));
    // A subscription of the program's own is not doubled.
    let forward = format!("https://app.example.com=http://127.0.0.1:{port}");
    assert!(served.call(&["forwards", "add", &forward]).status.success());
    let (listening, secret) = start(Some(given));
    assert_eq!((secret, listening.stop().0), (None, Some(0)));
    assert_eq!(served.json(&["subscriptions", "--json"])["data"], json!([]));
}

#[tokio::test(flavor = "multi_thread")]
async fn listen_answers_502_where_the_application_is_not() {
    let target = format!("127.0.0.1:{}", closed_port());
    let secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    let problem = "nothing listens on ";
    let arguments = ["listen", "--listen", "127.0.0.1:0", "--json", "--count", "1", "--forward-to", &target];
    let nowhere = ("WRS_EMULATOR_URL", "http://127.0.0.1:1");
    let mut listening = Served::spawn(wrs_emulator(&arguments).envs([("WRS_WEBHOOK_SECRET", secret), nowhere]));
    let ready: Value = serde_json::from_str(&listening.ready).expect("JSON");
    let url = ready["url"].as_str().expect("a URL").to_owned();
    let answer = tokio::task::spawn_blocking(move || request(&url, "POST /x HTTP/1.1", "{}"));
    let answer = answer.await.expect("no panic");
    let why = format!("http://{target}/x gave no answer: {problem}{target}");
    assert!(answer.starts_with("HTTP/1.1 502 ") && answer.contains(&why), "{answer}");
    let mut said = String::new();
    BufReader::new(listening.child.stderr.take().expect("a pipe")).read_line(&mut said).expect("text");
    assert!(said.starts_with("{\"note\":{\"message\":\"waiting for the emulator at http://127.0.0.1:1\"}}"), "{said}");
    let delivery: Value = serde_json::from_str(&listening.line()).expect("JSON");
    let found = delivery["forwarded"]["problem"].as_str().expect("a problem");
    assert!(found.contains(problem) && delivery["status"] == 502 && delivery["verified"] == false, "{delivery}");
    run(&["listen", "--forward-to", "ftp://x"])
        .exits(2)
        .says(&["hint: for example `--forward-to localhost:3000/hooks`"]);
    // It also works without an emulator, and says that it waits for one.
    let arguments = ["listen", "--listen", "127.0.0.1:0", "--forward-to", "1", "--emulator", "http://127.0.0.1:1"];
    let mut listening = Served::spawn(&mut wrs_emulator(&arguments));
    let mut said = BufReader::new(listening.child.stderr.take().expect("a pipe")).lines();
    let note = said.next().expect("a line").expect("text");
    assert_eq!(note, "note: waiting for the emulator at http://127.0.0.1:1");
}
