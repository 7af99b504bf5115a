//! Captured deliveries as the product and curl print them: `verify --headers` and `calibrate --delivery` read them as they are.

use std::process::Command;

use wrs_emulator::lab::calibrate::delivery::CapturedDelivery;

use crate::process::{NOWHERE, SUBSCRIBE, Served, request};
use crate::support::{Outcome, finish, piped, text, wrs_emulator};

const SECRET: &str = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
const BODY: &str = r#"{"id":"evt_9","type":"workflow.completed","data":{"name":"é"}}"#;

/// Runs a command with the secret in the environment and `input` on stdin.
fn run(arguments: &[&str], input: &[u8]) -> Outcome {
    piped(wrs_emulator(arguments).env("WRS_WEBHOOK_SECRET", SECRET), input)
}

fn subscribe(emulator: &Served, url: &str) {
    let hook = format!(r#"{{"url":"{url}","events":["workflow.completed"],"secret":"{SECRET}"}}"#);
    assert!(request(&emulator.url, SUBSCRIBE, &hook).starts_with("HTTP/1.1 200 "));
}

#[test]
fn what_the_product_prints_of_a_delivery_is_verified_as_it_is() {
    let listen = ["listen", "--listen", "127.0.0.1:0", "--json", "--url", NOWHERE];
    let mut listen = Served::spawn(wrs_emulator(&listen).env("WRS_WEBHOOK_SECRET", SECRET));
    let forward = format!("https://app.example.com={}", listen.url);
    let emulator = Served::start(&["--quiet", "--forward", &forward]);
    subscribe(&emulator, "https://app.example.com/hooks?a=1");
    emulator.said(&["trigger", "workflow.completed", "--wait"]);
    let line = listen.line();
    let id = emulator.newest("deliveries");
    let shown = emulator.said(&["deliveries", "show", &id, "--json"]);
    let archive = emulator.said(&["requests", "export", "--har", "-", "--deliveries"]);
    let in_sink = Served::start(&["--quiet"]);
    subscribe(&in_sink, "https://app.sink.localhost/hooks");
    in_sink.said(&["trigger", "workflow.completed", "--wait"]);
    let sink = in_sink.send("GET", "/_emulator/sink/app", "").1;
    let run_document = in_sink.said(&["run", "save", "-"]);
    for (what, capture) in
        [("listen", &line), ("show", &shown), ("HAR", &archive), ("sink", &sink), ("run", &run_document)]
    {
        let output = run(&["verify", "--headers", "-"], capture.as_bytes());
        assert_eq!(text(&output.stdout), "verified\n", "{what}: {output:#?}\n{capture}");
        let marked = [b"\xef\xbb\xbf", capture.as_bytes()].concat();
        run(&["verify", "--headers", "-"], &marked).exits(0);
        let delivery = CapturedDelivery::read(capture.as_bytes()).expect("a delivery").shows(SECRET).settings;
        assert_eq!(delivery["webhooks.scheme"].as_ref().expect("it is seen").value, "standard", "{what}");
    }
    let folder = tempfile::tempdir().expect("a folder");
    let body = folder.path().join("body.json").display().to_string();
    let document: serde_json::Value = serde_json::from_str(&shown).expect("JSON");
    std::fs::write(&body, document["attempts"][0]["request"]["body"].as_str().expect("a body")).expect("a file");
    run(&["verify", &file_with(&folder, &shown), "--headers", "-"], shown.as_bytes())
        .exits(1)
        .prints(&["would verify: the body as --headers has it"]);
    run(&["verify", "--headers", "-"], b"webhook-id: evt_9\n").exits(2).says(&["which --headers does not have"]);
    // A list has no headers.
    let list = emulator.said(&["deliveries", "--json"]);
    run(&["verify", &body, "--headers", "-"], list.as_bytes()).exits(2).says(&["--headers: expected"]);
}

fn file_with(folder: &tempfile::TempDir, content: &str) -> String {
    let path = folder.path().join("other.json").display().to_string();
    std::fs::write(&path, content).expect("a file");
    path
}

#[test]
fn of_several_deliveries_the_one_with_the_body_is_verified() {
    let emulator = Served::start(&["--quiet"]);
    subscribe(&emulator, "https://app.sink.localhost/hooks");
    for _ in 0..2 {
        emulator.said(&["trigger", "workflow.completed", "--wait"]);
    }
    let archive = emulator.said(&["requests", "export", "--har", "-", "--deliveries"]);
    let newest = emulator.newest("deliveries");
    let bodies = emulator.json(&["run", "save", "-"])["deliveries"]
        .as_array()
        .expect("deliveries")
        .iter()
        .map(|delivery| {
            let body = delivery["attempts"][0]["request"]["body"].as_str().expect("a body").to_owned();
            (delivery["id"] == newest.as_str(), delivery["event"].as_str().expect("an event").to_owned(), body)
        })
        .collect::<Vec<_>>();
    assert_eq!(bodies.len(), 2, "{bodies:?}");
    let folder = tempfile::tempdir().expect("a folder");
    let headers = folder.path().join("run.har").display().to_string();
    std::fs::write(&headers, archive).expect("a file");
    for (is_newest, event, body) in &bodies {
        run(&["verify", "-", "--headers", &headers], body.as_bytes())
            .exits(0)
            .says(&["note: --headers has 2 signed messages; this is about the last with this body"]);
        let alone = run(&["verify", "--headers", &headers, "--json"], b"").exits(0);
        assert_eq!(text(&alone.stdout).contains(event), *is_newest, "{alone:#?}");
    }
}

/// Each event that `sign` makes is verified as it is printed, and each forgery is refused for what it is.
#[test]
fn a_signed_event_is_verified_as_it_is_printed() {
    let emulator = Served::start(&["--quiet"]);
    let forgeries = ["body", "signature", "secret", "old_secret", "timestamp", "future_timestamp", "headers"];
    for output in ["http", "json"] {
        let sign = ["sign", "--event", "workflow.completed", "--secret", SECRET, "--output", output];
        let event = emulator.said(&sign);
        run(&["verify", "--headers", "-"], event.as_bytes()).exits(0).prints(&["verified"]);
        for forgery in forgeries {
            let forged = emulator.said(&[&sign[..], &["--tamper", forgery]].concat());
            let refused = run(&["verify", "--headers", "-"], forged.as_bytes()).exits(1);
            let said = text(&refused.stdout);
            assert!(said.starts_with("not verified: ") && !said.contains("newline:"), "{output} {forgery}: {said}");
        }
    }
    let command = emulator.said(&["sign", "--event", "workflow.completed", "--secret", SECRET, "--output", "curl"]);
    run(&["verify", "--headers", "-"], command.as_bytes()).exits(2).says(&["expected `name: value`, found `curl -sS"]);
}

#[test]
fn what_curl_prints_is_verified() {
    let listen = ["listen", "--listen", "127.0.0.1:0", "--url", NOWHERE, "--respond", "204"];
    let listen = Served::spawn(wrs_emulator(&listen).env("WRS_WEBHOOK_SECRET", SECRET));
    let signed = text(&run(&["sign", "-"], BODY.as_bytes()).exits(0).stdout);
    let headers = signed.lines().flat_map(|line| ["-H", line]);
    let mut curl = Command::new("curl");
    curl.args(["-v", "--data-binary", BODY, &listen.url]).args(headers);
    let printed = finish(&mut curl).exits(0);
    run(&["verify", "-", "--headers", "-"], b"").exits(2);
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("curl.txt").display().to_string();
    std::fs::write(&file, &printed.stderr).expect("a file");
    run(&["verify", "-", "--headers", &file], BODY.as_bytes()).exits(0).prints(&["verified"]);
}

fn changed_at_the_end(signature: &str) -> String {
    let (rest, last) = signature.split_at(signature.len() - 1);
    format!("{rest}{}", if last == "0" { "1" } else { "0" })
}

/// A name that occurs twice has two values, and each may be the right one.
#[test]
fn every_value_of_a_repeated_header_counts() {
    let wrong = format!("v1,{}=", "A".repeat(43));
    for scheme in ["standard", "stripe", "github"] {
        let signed = text(&run(&["sign", "-", "--scheme", scheme], BODY.as_bytes()).exits(0).stdout);
        let (last, others) = signed.trim_end().rsplit_once('\n').map_or((signed.trim_end(), ""), |(a, b)| (b, a));
        let (name, value) = last.split_once(": ").expect("a header");
        let other = if scheme == "standard" { wrong.clone() } else { changed_at_the_end(value) };
        for values in [[value, &other], [&other, value]] {
            let folder = tempfile::tempdir().expect("a folder");
            let file = folder.path().join("headers.txt").display().to_string();
            let as_list = serde_json::json!({ name: values }).to_string();
            let lines = format!("{others}\n{name}: {}\n{}: {}\n", values[0], name.to_uppercase(), values[1]);
            std::fs::write(&file, &lines).expect("a file");
            run(&["verify", "-", "--scheme", scheme, "--headers", &file], BODY.as_bytes()).exits(0);
            if others.is_empty() {
                std::fs::write(&file, &as_list).expect("a file");
                run(&["verify", "-", "--scheme", scheme, "--headers", &file], BODY.as_bytes()).exits(0);
            }
            // Both that were found are named.
            std::fs::write(&file, &lines).expect("a file");
            let refused = run(&["verify", "-", "--scheme", scheme, "--headers", &file], b"{}").exits(1);
            if scheme != "stripe" {
                refused.prints(&[values[0], values[1]]);
            }
        }
    }
}
