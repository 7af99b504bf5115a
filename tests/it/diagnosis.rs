//! `explain` of a delivery as a diagnosis: what failed, what the receiver said, what to paste next.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::process::Command;
use std::thread;

use wrs_emulator::clock::Clock;

use crate::probe_receiver::{self, Does};
use crate::process::{SUBSCRIBE, Served, closed_port, request};
use crate::support::{Outcome, finish, run, text};

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

/// A receiver that gives one answer to all; gives its port.
pub(crate) fn receiver(status: u16, body: &'static str) -> u16 {
    probe_receiver::receiver(move |_| Does::Says(status, body)).port()
}

/// An emulator that forwards to this receiver and has one delivery of one event to it.
fn delivered(arguments: &[&str], port: u16) -> Served {
    let forward = format!("https://app.example.com=http://127.0.0.1:{port}");
    let served = Served::start(&[&["--forward", &forward][..], arguments].concat());
    let hook =
        format!(r#"{{"url":"https://app.example.com/hooks","events":["workflow.completed"],"secret":"{SECRET}"}}"#);
    assert!(request(&served.url, SUBSCRIBE, &hook).starts_with("HTTP/1.1 200 "));
    served.call(&["trigger", "workflow.completed", "--data", "workflow_id=it's", "--wait"]);
    served
}

/// Pastes a line of the output into a shell.
fn pasted(shown: &str, begins: &str, secret: &str) -> Outcome {
    let line = shown.lines().map(str::trim_start).find(|line| line.starts_with(begins));
    let line = line.unwrap_or_else(|| panic!("no line begins with `{begins}`: {shown}"));
    let folder = std::path::Path::new(env!("CARGO_BIN_EXE_wrs-emulator")).parent().expect("a folder");
    let path = format!("{}:{}", folder.display(), std::env::var("PATH").expect("a path"));
    let mut command = Command::new("sh");
    command.args(["-c", line]).env("PATH", path);
    finish(command.env("WRS_WEBHOOK_SECRET", secret))
}

#[test]
fn a_refused_delivery_is_told_with_the_answer_and_commands_to_paste() {
    let port = receiver(401, "signature mismatch\nand a stack trace");
    let served = delivered(&["--clock", "frozen"], port);
    let shown = text(&served.call(&["explain"]).stdout);
    assert!(shown.contains("\n  ✗ attempt 1        the receiver answered 401: signature mismatch"), "{shown}");
    assert!(!shown.contains('✓') && !shown.contains("stack trace"), "{shown}");
    let subscriptions = served.json(&["subscriptions", "list", "--key", "*", "--json"]);
    let subscription = subscriptions["data"][0]["id"].as_str().expect("an id");
    let asked = format!(
        "signed correctly with the secret of {subscription}: does your receiver use the same one, and verify the body as received? To see the secret:\n  wrs-emulator subscriptions show {subscription} --secret --url {}\n",
        served.url
    );
    assert!(shown.contains(&asked), "{shown}");
    let verified = pasted(&shown, "printf", SECRET);
    assert_eq!((verified.status.code(), text(&verified.stdout).as_str()), (Some(0), "verified\n"), "{verified:?}");
    assert_eq!(pasted(&shown, "printf", "whsec_aGlkZGVuaGlkZGVuaGlkZGVu").status.code(), Some(1));
    assert!(shown.contains("· attempt 2        is due in "), "{shown}");
    pasted(&shown, "wrs-emulator clock advance", SECRET).exits(0);
    let listed = served.json(&["deliveries", "list", "--json"]);
    assert_eq!(listed["data"][0]["attempts"], 2, "{listed}");
    let again = pasted(&shown, "wrs-emulator deliveries redeliver", SECRET);
    assert!(text(&again.stdout).starts_with("dlv_"), "{again:?}");
    let id = listed["data"][0]["id"].as_str().expect("an id");
    let explained = served.json(&["explain", id, "--json"]);
    let verdicts: Vec<&str> =
        explained["steps"].as_array().expect("steps").iter().filter_map(|step| step["verdict"].as_str()).collect();
    assert_eq!(verdicts, ["failed", "failed", "not_reached"], "{explained}");
    assert!(explained["advice"].as_array().is_some_and(|advice| advice.len() >= 3), "{explained}");
}

/// A receiver that is stopped after it refused a delivery: its answer is still what went wrong.
#[test]
fn a_receiver_that_is_gone_by_the_next_attempt_is_explained_by_its_answer() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let receiver = thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a delivery");
        drop(listener);
        let _ = stream.read(&mut [0; 64]).expect("a request");
        stream
            .write_all(b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
            .expect("an answer");
        let _ = std::io::copy(&mut stream, &mut std::io::sink());
    });
    let served = delivered(&["--clock", "frozen"], port);
    receiver.join().expect("it answered");
    served.call(&["clock", "advance", "1s"]);
    let shown = text(&served.call(&["explain"]).stdout);
    let summary = ": attempt 1 failed and another is due: the receiver answered 401; only 2xx accepts an event; attempt 2 found no receiver\n";
    assert!(
        shown.contains(summary)
            && shown.contains("does your receiver use the same one, and verify the body as received?"),
        "{shown}"
    );
    let verdict = text(&served.call(&["verdict"]).stdout);
    assert!(
        verdict.contains(
            "        does your receiver use the secret of this subscription, verify the body as received, and answer this only to a wrong signature?\n        \
             attempt 1 failed and another is due; attempt 2 found no receiver\n"
        ),
        "{verdict}"
    );
}

/// A receiver with one raw answer to all, made of the time; gives its port.
fn raw_receiver(answer: impl Fn() -> String + Send + 'static) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let _ = stream.read(&mut [0; 8192]);
            let _ = stream.write_all(answer().as_bytes());
            let _ = std::io::copy(&mut stream, &mut std::io::sink());
        }
    });
    port
}

/// The clock of a receiver, which its `Date` shows, is asked about before secret and body, and only if it differs from the signature's.
#[test]
fn a_receiver_whose_clock_is_off_is_asked_about_its_clock() {
    let refuses = |off: i64| {
        move || {
            let now = Clock::real().now().wall.checked_add(jiff::SignedDuration::from_secs(off)).expect("a time");
            let date = jiff::fmt::rfc2822::DateTimePrinter::new().timestamp_to_rfc9110_string(&now).expect("a date");
            format!("HTTP/1.1 401 X\r\ndate: {date}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
        }
    };
    let now = Clock::real().now().wall;
    let frozen = now.checked_sub(jiff::SignedDuration::from_hours(2)).expect("a time").to_string();
    let of_receiver = " the time of the signature: a receiver that checks the time refuses that; is its clock right?";
    let of_emulator =
        " off this machine's: a receiver that checks the time refuses that; to sign by the machine's clock:";
    let secret = "does your receiver use the same one";
    for (arguments, off, expected, remedy) in [
        (&[][..], -3600, Some(format!(" behind{of_receiver}")), "the receiver's clock is far from"),
        (&[], 86_400, Some(format!(" ahead of{of_receiver}")), "the receiver's clock is far from"),
        (&[], -20, None, "does your receiver use the secret"),
        (&["--clock", &frozen], 0, Some(of_emulator.to_owned()), "it was signed by the emulator's clock"),
        // It shares the emulator's clock.
        (&["--clock", &frozen], -7200, None, "does your receiver use the secret"),
    ] {
        let served =
            delivered(&[&["--set", "webhooks.retry.preset=none"], arguments].concat(), raw_receiver(refuses(off)));
        let shown = text(&served.call(&["explain"]).stdout);
        let asked = shown.find(secret).unwrap_or_else(|| panic!("the secret is asked about too: {shown}"));
        match expected {
            Some(expected) => assert!(shown.find(&expected).is_some_and(|at| at < asked), "{off}: {shown}"),
            None => assert!(!shown.contains("clock"), "{off}: {shown}"),
        }
        let verdict = text(&served.call(&["verdict"]).stdout);
        assert!(verdict.contains(remedy), "{off}: {verdict}");
        // A receiver that refuses another time does as it should, whatever its secret.
        let review: serde_json::Value =
            serde_json::from_slice(&served.call(&["review", "findings", "--json"]).stdout).expect("JSON");
        let found = review["data"].as_array().unwrap_or_else(|| panic!("{review}"));
        let has_finding = found.iter().any(|finding| finding["code"] == "receiver-refuses-valid");
        assert_eq!(has_finding, remedy.starts_with("does your"), "{off}");
        let is_told = verdict.contains("wrs-emulator profile set webhooks.timestamp=real --url ");
        assert_eq!(is_told, remedy.starts_with("it was signed"), "{off}: {verdict}");
    }
}

/// A page of HTML is shown as a person reads it, and leads to the questions that frameworks and proxies give reason for.
#[test]
fn a_page_of_html_is_read_and_asked_about_its_framework() {
    let page = |title: &str, body: &str| {
        format!(
            "<!DOCTYPE html>\n<html><head><title>{title}</title><style>p {{ }}</style></head><body>{body}</body></html>"
        )
    };
    let framework = "does it accept the host of this URL, and is the route exempt from its CSRF check?";
    let secret = "does your receiver use the same one";
    for (status, body, shown, questions) in [
        (
            404,
            page("Error", "<pre>Cannot POST /h</pre>"),
            ": Error: Cannot POST /h",
            &["have a route for POST at the path"][..],
        ),
        (403, page("403 No", "<h1>No</h1><p>CSRF <b>failed</b>.</p>"), ": 403 No: CSRF failed.", &[framework, secret]),
        (400, page("HostRefused\n  at /h", ""), ": HostRefused at /h", &[framework, secret]),
        (400, "{\"error\":\"no\"}".to_owned(), ": {\"error\":\"no\"}", &[secret]),
        (
            400,
            "Client sent an HTTP request to an HTTPS server.\n".to_owned(),
            ": Client sent an HTTP request to an HTTPS server.",
            &["the port is one for TLS"],
        ),
        (405, String::new(), " 405;", &["does the route of your receiver accept POST?"]),
        (413, page("413 Too Large", "<hr>nginx"), ": 413 Too Large: nginx", &["within the limit of your receiver"]),
        (
            500,
            page("Error", "<pre>KEY is undefined<br> &nbsp; at x</pre>"),
            ": Error: KEY is undefined; at x",
            &["did its handler throw an exception? The answer shows where"],
        ),
    ] {
        let answer =
            format!("HTTP/1.1 {status} X\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}", body.len());
        let served = delivered(&["--set", "webhooks.retry.preset=none"], raw_receiver(move || answer.clone()));
        let explained = text(&served.call(&["explain"]).stdout);
        assert!(
            explained.contains(&format!("the receiver answered {status}{}", shown.trim_start_matches(" 405"))),
            "{explained}"
        );
        let places: Vec<_> = questions.iter().map(|question| explained.find(question)).collect();
        assert!(places.iter().all(Option::is_some) && places.is_sorted(), "{status}: {explained}");
        assert_eq!(explained.matches('?').count(), questions.len(), "{status}: {explained}");
        let verdict = text(&served.call(&["verdict"]).stdout);
        assert_eq!(verdict.matches('?').count(), 1, "{status}: {verdict}");
    }
}

#[test]
fn explain_without_an_id_explains_the_newest_request_or_delivery() {
    let served = delivered(&[], receiver(200, "fine"));
    let shown = text(&served.call(&["explain"]).stdout);
    assert!(
        shown.starts_with("dlv_") && shown.contains("✓ attempt 1        the receiver answered 200: fine"),
        "{shown}"
    );
    assert!(!shown.contains("does your receiver"), "{shown}");
    let status = "GET /v1/system/status?include_checks=x HTTP/1.1\r\nAuthorization: Bearer sk_test_other";
    assert!(request(&served.url, status, "").starts_with("HTTP/1.1 422 "));
    let shown = text(&served.call(&["explain"]).stdout);
    assert!(shown.starts_with("req_") && shown.contains("include_checks"), "{shown}");
    let own = text(&served.call(&["explain", "--key", "sk_test_local"]).stdout);
    assert!(own.starts_with("dlv_"), "{own}");
    let nothing = served.fails(&["explain", "--key", "sk_test_nobody"], 1);
    assert!(nothing.contains("no request and no delivery"), "{nothing}");
}

#[test]
fn a_failure_without_an_answer_is_not_told_as_a_wrong_secret() {
    let free = closed_port();
    let served = delivered(&[], free);
    let shown = text(&served.call(&["explain"]).stdout);
    assert!(shown.contains("✗ attempt 1") && !shown.contains("does your receiver"), "{shown}");
}

/// Each command and each address in an explanation is one that helps as it is.
#[test]
fn advice_names_the_key_the_scheme_and_every_address() {
    // Another emulator answers a TLS handshake in plain HTTP, as most servers do.
    let server = Served::start(&["--quiet"]);
    let plain: u16 = server.url.rsplit(':').next().and_then(|port| port.parse().ok()).expect("a port");
    let closed = closed_port();
    let forward = format!("https://plain.example=https://127.0.0.1:{plain}");
    let rule = format!("https://plain.example=http://127.0.0.1:{plain}");
    for (key, url, expected) in [
        (
            "sk_test_local",
            format!("https://localhost:{closed}"),
            format!("nothing listens on 127.0.0.1:{closed} or [::1]:{closed}\n"),
        ),
        (
            "sk_test_a",
            "https://plain.example".to_owned(),
            format!("to deliver over plain HTTP:\n  wrs-emulator forwards add {rule} --url http://127.0.0.1:"),
        ),
        (
            "sk_test_a",
            format!("https://localhost:{plain}"),
            format!("wrs-emulator forwards add https://localhost:{plain}=http://localhost:{plain} --url http://"),
        ),
    ] {
        let served = Served::start(&["--quiet", "--clock", "frozen", "--forward", &forward]);
        served.said(&["subscriptions", "create", &url, "--key", key]);
        served.call(&["trigger", "workflow.completed", "--wait", "--key", key]);
        let shown = text(&served.call(&["explain"]).stdout);
        assert!(shown.contains(&expected), "{shown}");
        let advance = shown.lines().map(str::trim).find(|line| line.starts_with("wrs-emulator clock advance"));
        let advance = advance.unwrap_or_else(|| panic!("{shown}"));
        assert_eq!(advance.contains(" --key sk_test_a "), key == "sk_test_a", "{advance}");
        assert_eq!(pasted(&shown, "wrs-emulator clock advance", SECRET).status.code(), Some(0));
        assert_eq!(served.json(&["deliveries", "--json"])["data"][0]["attempts"], 2, "{advance}");
    }
}

/// A command names the emulator that it was asked at. A log and a saved run are read when that has ended: they name an option of the next.
#[test]
fn a_forward_is_advised_as_it_works_where_it_is_read() {
    let served = Served::start(&["--clock", "frozen"]);
    // The guard refuses it, so nothing is dialled.
    served.said(&["subscriptions", "create", "https://8.8.8.8/hooks"]);
    let fired = text(&served.call(&["trigger", "workflow.completed", "--wait"]).stdout);
    let id = served.newest("deliveries");
    let rule = "https://8.8.8.8=http://localhost:PORT";
    let command = format!("wrs-emulator forwards add {rule} --url {}", served.url);
    let advised = format!("to deliver to your own machine: `{command}`");
    let shown = served.said(&["deliveries", "show", &id]);
    let judged = text(&served.call(&["verdict"]).stdout);
    for said in [&fired, &shown, &judged] {
        assert!(said.contains(&advised), "{advised}: {said}");
    }
    let explained = served.said(&["explain", &id]);
    assert!(explained.contains(&format!("to deliver to your own machine:\n  {command}\n")), "{explained}");

    let folder = tempfile::tempdir().expect("a folder");
    let report = folder.path().join("report.html").display().to_string();
    served.said(&["run", "save", &report]);
    let (_, log) = served.stop();
    let option = format!("to deliver to your own machine: `--forward {rule}`");
    let line = log.lines().find(|line| line.contains(&id)).unwrap_or_else(|| panic!("{log}"));
    assert!(line.contains(&option) && !line.contains("forwards add"), "{line}");
    for arguments in
        [&["verdict", "--from", &report][..], &["explain", &id, "--from", &report], &["explain", "--from", &report]]
    {
        let said = text(&run(arguments).stdout);
        let lines = option.replace(": `", ":\n  ").replace('`', "\n");
        assert!(said.contains(&option) || said.contains(&lines), "{arguments:?}: {said}");
        assert!(!said.contains("forwards add"), "{arguments:?}: {said}");
    }
    let page = std::fs::read_to_string(&report).expect("a report");
    let (plain, _) = page.split_once("<script").expect("plain HTML comes first");
    assert!(!plain.contains("forwards add"), "{plain}");
}

/// What the settings would allow is said without a command in the answer of the API, which knows no address, and as advice elsewhere.
#[test]
fn what_a_setting_or_a_scenario_would_answer_is_advice() {
    let served = Served::start(&["--quiet"]);
    for (method, path, body, answered, command) in [
        (
            "POST",
            "/v1/events/subscribe",
            r#"{"url":"http://plain.example","events":["workflow.completed"]}"#,
            "`webhooks.allow_http`",
            "wrs-emulator profile set webhooks.allow_http=true --url ",
        ),
        ("GET", "/v1/workflows", "", "`announced-endpoints`", "wrs-emulator scenarios use announced-endpoints --url "),
    ] {
        let (_, answer) = served.send(method, path, body);
        assert!(answer.contains(answered) && !answer.contains("wrs-emulator"), "{answer}");
        let explained = served.said(&["explain"]);
        assert!(explained.contains(command), "{explained}");
        let judged = served.json(&["verdict", "--json"]);
        let causes = judged["causes"].as_array().expect("causes");
        assert!(causes.iter().any(|cause| cause["advice"]["do"].is_string()), "{judged}");
    }
}
