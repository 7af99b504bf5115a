//! `sign`, `verify` and `listen` as people use them: the binary's streams, exit codes and messages.

use std::path::Path;

use serde_json::Value;
use wrs_emulator::contract::signature::SchemeName;

use crate::process::{NOWHERE, SUBSCRIBE, Served, exchange, request};
use crate::support::{Outcome, piped, text, wrs_emulator};

const SECRET: &str = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
const BODY: &str = r#"{"id":"evt_9","type":"workflow.completed","data":{"name":"é"}}"#;

/// Runs a command with the secret in the environment and `input` on stdin.
fn run(arguments: &[&str], input: &[u8]) -> Outcome {
    piped(wrs_emulator(arguments).env("WRS_WEBHOOK_SECRET", SECRET), input)
}

fn json(output: &Outcome) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

/// Signs `body` and writes the headers to a file.
fn signed(folder: &Path, arguments: &[&str], body: &str) -> String {
    let output = run(&[&["sign", "-"], arguments].concat(), body.as_bytes()).exits(0);
    let path = folder.join("headers.txt");
    std::fs::write(&path, &output.stdout).expect("the file is written");
    path.display().to_string()
}

#[test]
fn what_sign_prints_verify_accepts_for_every_scheme() {
    let folder = tempfile::tempdir().expect("a folder");
    for scheme in SchemeName::ALL.map(SchemeName::name) {
        for form in [&[][..], &["--json"]] {
            let headers = signed(folder.path(), &[&["--scheme", scheme], form].concat(), BODY);
            let output = run(&["verify", "-", "--scheme", scheme, "--headers", &headers], BODY.as_bytes());
            assert_eq!((output.status.code(), text(&output.stdout).as_str()), (Some(0), "verified\n"), "{scheme}");
        }
        run(
            &["verify", "-", "--scheme", scheme, "--headers", &folder.path().join("headers.txt").display().to_string()],
            b"{\"id\":1}",
        )
        .exits(1)
        .prints(&["nothing tried would verify"]);
    }
}

#[test]
fn sign_prints_the_published_vector_and_its_parts() {
    let arguments = &[
        "sign",
        "-",
        "--id",
        "msg_p5jXN8AQM9LWM0D4loKWxJek",
        "--timestamp",
        "1614265330",
        "--secret",
        "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
    ];
    let body = br#"{"test": 2432232314}"#;
    let output = run(arguments, body);
    assert_eq!(
        text(&output.stdout),
        "webhook-id: msg_p5jXN8AQM9LWM0D4loKWxJek\nwebhook-timestamp: 1614265330\nwebhook-signature: v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=\n"
    );
    let view = json(&run(&[&arguments[..], &["--json"]].concat(), body));
    assert_eq!(view["headers"]["webhook-timestamp"], "1614265330");
    assert_eq!(view["signatures"][0], "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    assert_eq!(view["signed_content"], "msg_p5jXN8AQM9LWM0D4loKWxJek.1614265330.{\"test\": 2432232314}");
    let several = run(
        &["sign", "-", "--secret", SECRET, "--secret", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "--json"],
        b"\xff",
    );
    let view = json(&several);
    assert_eq!(view["signatures"].as_array().map(Vec::len), Some(2), "{view}");
    assert!(view["signed_content_base64"].is_string() && view["signed_content"].is_null(), "{view}");
}

#[test]
fn a_custom_scheme_comes_from_settings() {
    let folder = tempfile::tempdir().expect("a folder");
    let settings = [
        "--scheme",
        "custom",
        "--set",
        "webhooks.custom.hash=sha512",
        "--set",
        "webhooks.custom.content={url}|{body}",
        "--set",
        "webhooks.custom.timestamp_header=",
    ];
    let url = ["--webhook-url", "https://app.example.com/hooks"];
    let headers = signed(folder.path(), &[&settings[..], &url].concat(), BODY);
    run(&[&["verify", "-", "--headers", &headers][..], &settings, &url].concat(), BODY.as_bytes()).exits(0);
    run(
        &[&["verify", "-", "--headers", &headers][..], &settings, &["--webhook-url", "https://app.example.com/hooks/"]]
            .concat(),
        BODY.as_bytes(),
    )
    .prints(&["would verify: the URL with its last slash"]);
    run(&[&["sign", "-"][..], &settings].concat(), BODY.as_bytes()).exits(2).says(&["expected --webhook-url URL"]);
}

#[test]
fn verify_names_what_would_hold() {
    let folder = tempfile::tempdir().expect("a folder");
    let check = |sign: &[&str], verify: &[&str], body: &str, parts: &[&str], change: &str| {
        let headers = signed(folder.path(), sign, BODY);
        let arguments = [&["verify", "-", "--headers", &headers], verify].concat();
        let output = run(&arguments, body.as_bytes());
        let said = text(&output.stdout);
        assert_eq!(output.status.code(), Some(1), "{verify:?}: {said}");
        assert!(text(&output.stderr).lines().all(|line| line.starts_with("warning: ")), "{output:?}");
        assert!(said.starts_with("not verified: "), "{said}");
        assert!(parts.iter().all(|part| said.contains(part)), "{parts:?} in {said}");
        assert!(!said.contains(SECRET), "{said}");
        let view = json(&run(&[&arguments[..], &["--json"]].concat(), body.as_bytes()));
        assert_eq!(view["verified"], false);
        assert_eq!(view["would_verify"][0]["changes"][0]["change"], change, "{view}");
    };
    check(&["--secret-key", "utf8"], &[], BODY, &["would verify: the secret read as `utf8`"], "secret_key");
    check(
        &["--scheme", "github", "--secret-key", "base64"],
        &["--scheme", "github"],
        BODY,
        &["read as `base64`"],
        "secret_key",
    );
    check(&[], &[], &format!("{BODY}\n"), &["the body without its last newline"], "body");
    check(
        &[],
        &[],
        r#"{"id": "evt_9", "type": "workflow.completed", "data": {"name": "\u00e9"}}"#,
        &["the body as compact JSON"],
        "body",
    );
    check(
        &["--timestamp", "1700000000"],
        &["--now", "1700000301"],
        BODY,
        &["301 s old", "only the time is off"],
        "time",
    );
    check(
        &["--timestamp", "1700000000"],
        &["--now", "1700000011", "--tolerance", "10"],
        BODY,
        &["11 s old", "only the time"],
        "time",
    );
    let late = ["the body without its last newline", "only the time is off"];
    check(&["--timestamp", "1700000000"], &["--now", "1700000301"], &format!("{BODY}\n"), &late, "body");
    let spaced = format!("{SECRET}\n");
    let github = ["--scheme", "github"];
    check(&github, &[&github[..], &["--secret", &spaced]].concat(), BODY, &["the white space around it"], "secret");
    for decorated in [format!("v1,{SECRET}"), format!("\"{SECRET}\""), format!("export SECRET='{SECRET}'")] {
        check(&[], &["--secret", &decorated], BODY, &["would verify: the secret without the "], "secret");
    }
    let form = format!("payload={}", BODY.replace('é', "%C3%A9").replace('"', "%22"));
    check(&[], &[], &form, &["the body decoded from a form"], "body");
    check(&["--scheme", "stripe"], &[], BODY, &["no `webhook-id` header", "scheme `stripe`"], "scheme");
    let lost = signed(folder.path(), &[], BODY);
    for body in ["", "[object Object]"] {
        let output = run(&["verify", "-", "--headers", &lost, "--json"], body.as_bytes()).exits(1);
        assert!(json(&output)["hint"].as_str().is_some_and(|hint| hint.contains("raw bytes")), "{output:?}");
        run(&["verify", "-", "--headers", &lost], body.as_bytes()).prints(&["\nthe body is "]);
    }
    run(&["verify", "-", "--headers", &lost, "--secret", &format!("\"{SECRET}\"")], BODY.as_bytes())
        .says(&["warning: the secret includes the quotes around it"]);
    run(&["verify", "-", "--headers", &lost, "--secret", &format!("{SECRET}\n")], BODY.as_bytes())
        .exits(2)
        .says(&["hint: pass the secret without the white space around it"]);
    let lf = signed(folder.path(), &[], "a\nb");
    run(&["verify", "-", "--headers", &lf], b"a\r\nb").prints(&["the body with LF instead of CR LF"]);
}

#[test]
fn bad_input_is_exit_2_with_its_reason() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = |name: &str, content: &[u8]| {
        let path = folder.path().join(name);
        std::fs::write(&path, content).expect("the file is written");
        path.display().to_string()
    };
    let here = folder.path().display().to_string();
    let missing = folder.path().join("missing").display().to_string();
    let body = file("body.json", BODY.as_bytes());
    let pem = file("empty.pem", b"nothing\n");
    let pair = format!("{pem}:{pem}");
    let lines = file("lines.txt", b"webhook-id: x\nno header\n");
    let not_utf8 = file("bytes.txt", b"a: \xff\n");
    for (arguments, parts) in [
        (&["sign"][..], &["FILE"][..]),
        (&["sign", &missing], &["cannot read", "missing"]),
        (&["sign", &here], &["cannot read"]),
        (&["sign", &body, "--scheme", "strip"], &["--scheme", "`strip`", "stripe"]),
        (&["sign", &body, "--scheme", "stripe,github"], &["expected one scheme, found stripe, github"]),
        (&["sign", &body, "--secret-key", "octal"], &["--secret-key", "utf8_with_prefix"]),
        (&["sign", &body, "--secret", ""], &["--secret", "found an empty string"]),
        (&["sign", &body, "--secret", "whsec_%"], &["to be base64", "--secret-key utf8"]),
        (&["sign", &body, "--timestamp", "soon"], &["--timestamp", "`soon`"]),
        (&["sign", &body, "--timestamp", "-5"], &["--timestamp", "`-5`"]),
        (&["sign", &body, "--id", "a\nb"], &["--id", "`a\\nb`"]),
        (&["sign", &body, "--webhook-url", "nowhere"], &["--webhook-url", "`nowhere`"]),
        (
            &["sign", &body, "--scheme", "custom", "--set", "webhooks.custom.content=x"],
            &["--set webhooks.custom.content=x", "leaves out"],
        ),
        (&["sign", &body, "--set", "webhook.custom.hash=sha1"], &["unknown setting"]),
        (&["verify", &body], &["expected the delivery's headers", "--header"]),
        (&["verify", &body, "--header", "nothing"], &["--header", "`nothing`"]),
        (&["verify", &body, "--headers", &lines], &["line 2", "`no header`"]),
        (&["verify", &body, "--headers", &not_utf8], &["not UTF-8"]),
        (&["verify", "-", "--headers", "-"], &["cannot both come from stdin"]),
        (&["verify", &body, "--tolerance", "-1", "--header", "a: b"], &["--tolerance"]),
        (&["verify", &body, "--now", "1.5", "--header", "a: b"], &["--now", "`1.5`"]),
        (&["listen", "--listen", "here"], &["--listen", "`here`"]),
        (&["listen", "--respond", "99"], &["--respond", "99"]),
        (&["listen", "--respond", "200,,500"], &["--respond"]),
        (&["listen", "--count", "0"], &["--count"]),
        (&["listen", "--tls", "cert.pem"], &["--tls", "CERT:KEY"]),
        (&["listen", "--tls", &pair], &["--tls", "is not PEM", "empty.pem"]),
        (&["listen", "--secret", "whsec_%"], &["to be base64"]),
    ] {
        let output = run(arguments, b"");
        let said = text(&output.stderr);
        assert_eq!((output.status.code(), text(&output.stdout).as_str()), (Some(2), ""), "{arguments:?}: {said}");
        assert!(parts.iter().all(|part| said.contains(part)), "{arguments:?}: {parts:?} in\n{said}");
        assert!(!said.contains("panicked"), "{said}");
    }
    crate::support::run(&["sign", &body]).exits(2).says(&["WRS_WEBHOOK_SECRET"]);
    let help = run(&["sign", "--help"], b"");
    assert!(text(&help.stdout).contains("WRS_WEBHOOK_SECRET") && !text(&help.stdout).contains(SECRET), "{help:?}");
}

/// Starts `listen`, perhaps with a secret.
fn listen(arguments: &[&str], secret: Option<&str>) -> Served {
    let mut command = wrs_emulator(&[&["listen", "--listen", "127.0.0.1:0"], arguments].concat());
    Served::spawn(command.envs(secret.map(|secret| ("WRS_WEBHOOK_SECRET", secret))))
}

/// A delivery by hand.
fn post(listening: &Served, target: &str, body: &[u8]) -> String {
    let (address, length) = (listening.address(), body.len());
    let head =
        format!("POST {target} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n");
    exchange(address, [head.as_bytes(), body].concat())
}

/// An emulator that delivers to `receiver`, with a subscription whose secret is `SECRET`.
fn emulator(receiver: &Served, more: &[&str]) -> Served {
    let forward = format!("https://app.example.com={}", receiver.url);
    let soon = "webhooks.retry.schedule=[\"0s\", \"10ms\", \"10ms\"]";
    let emulator = Served::start(&[&["--quiet", "--forward", &forward, "--set", soon], more].concat());
    let hook =
        format!(r#"{{"url":"https://app.example.com/hooks?a=1","events":["workflow.completed"],"secret":"{SECRET}"}}"#);
    assert!(request(&emulator.url, SUBSCRIBE, &hook).starts_with("HTTP/1.1 200 "));
    emulator
}

fn trigger(emulator: &Served) -> Outcome {
    emulator.call(&["trigger", "workflow.completed", "--wait"])
}

#[test]
fn listen_verifies_what_an_emulator_delivers_and_answers_by_its_script() {
    let arguments = ["--respond", "500,200", "--count", "2", "--json", "--url", NOWHERE];
    let mut listen = listen(&arguments, Some(SECRET));
    let emulator = emulator(&listen, &[]);
    trigger(&emulator);
    for status in [500, 200] {
        let line = listen.line();
        let delivery: Value = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"));
        assert_eq!((&delivery["verified"], &delivery["status"]), (&Value::from(true), &Value::from(status)), "{line}");
        assert_eq!((&delivery["target"], &delivery["type"]), (&"/hooks?a=1".into(), &"workflow.completed".into()));
        assert!(delivery["body"].as_str().is_some_and(|body| body.contains("workflow.completed")), "{line}");
        assert!(
            delivery["headers"].as_array().is_some_and(|all| all.iter().any(|one| one[0] == "webhook-id")),
            "{line}"
        );
    }
    let (code, rest, said) = listen.end();
    assert_eq!((code, rest.as_str()), (Some(0), ""), "{said}");
    assert!(said.starts_with("{\"note\":{\"message\":\"nothing is delivered here yet"), "{said}");
}

#[test]
fn listen_tells_why_a_delivery_does_not_verify_and_ends_with_1() {
    let arguments = ["--count", "2", "--secret-key", "utf8", "--respond", "410"];
    let mut listen = listen(&arguments, Some(SECRET));
    let emulator = emulator(&listen, &[]);
    trigger(&emulator);
    let line = listen.line();
    assert!(line.contains(" /hooks?a=1 workflow.completed evt_"), "{line}");
    assert!(line.contains("would verify: the secret read as") && line.ends_with("answered 410\n"), "{line}");
    let answer = post(&listen, "/x", b"{\"type\":\"a\\u001b[31m\\nb\"}");
    assert!(answer.starts_with("HTTP/1.1 410 "), "{answer}");
    let (code, rest, said) = listen.end();
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("2 of 2 deliveries did not verify"), "{said}");
    assert!(
        rest.contains("no `webhook-id` header") && !rest.contains('\u{1b}') && rest.lines().count() == 1,
        "{rest:?}"
    );
}

/// A receiver refuses a forgery; a good delivery is answered with 200.
#[test]
fn listen_refuses_what_does_not_verify_unless_it_is_told_the_statuses() {
    let listen = listen(&["--count", "2"], Some(SECRET));
    let emulator = emulator(&listen, &[]);
    let fired = |arguments: &[&str]| emulator.call(&[&["trigger", "workflow.completed", "--wait"], arguments].concat());
    fired(&["--tamper", "signature"]).exits(0);
    fired(&[]).exits(0);
    let (code, rest, _) = listen.end();
    assert!(code == Some(1) && rest.contains(" answered 401") && rest.contains(" verified, answered 200"), "{rest}");
}

#[test]
fn listen_without_a_secret_checks_nothing_and_ends_with_0_on_signals() {
    for signal in ["TERM", "INT"] {
        let mut listen = listen(&["--respond", "204", "--url", NOWHERE], None);
        assert!(post(&listen, "/a", b"no json").starts_with("HTTP/1.1 204 "));
        let line = listen.line();
        assert!(line.contains(" /a - - not checked, answered 204"), "{line}");
        let large = post(&listen, "/a", &vec![b'x'; 300 * 1024]);
        assert!(large.starts_with("HTTP/1.1 413 "), "{large}");
        let line = listen.line();
        assert!(line.contains("larger than 262144 bytes, answered 413"), "{line}");
        run(&["listen", "--listen", listen.address()], b"").exits(2);
        listen.signal(signal);
        let (code, rest, said) = listen.end();
        assert_eq!((code, rest.as_str()), (Some(0), ""), "{said}");
        assert!(said.starts_with("warning: no secret is set") && said.contains("--secret"), "{said}");
        let others = said.lines().skip(1).filter(|line| !line.is_empty()).count();
        assert!(others == 2 && said.contains("\nnote: nothing is delivered here yet"), "{said}");
    }
}

#[test]
fn listen_serves_https_from_pem_files() {
    let folder = tempfile::tempdir().expect("a folder");
    let key = rcgen::KeyPair::generate().expect("a key");
    let params = rcgen::CertificateParams::new(vec!["127.0.0.1".to_owned()]).expect("parameters");
    let certificate = params.self_signed(&key).expect("a certificate");
    let (certificate_file, key_file) = (folder.path().join("cert.pem"), folder.path().join("key.pem"));
    std::fs::write(&certificate_file, certificate.pem()).expect("the file is written");
    std::fs::write(&key_file, key.serialize_pem()).expect("the file is written");
    let pair = format!("{}:{}", certificate_file.display(), key_file.display());
    let mut receiver = listen(&["--tls", &pair, "--count", "1"], Some(SECRET));
    assert!(receiver.url.starts_with("https://"), "{}", receiver.url);
    // A client without TLS costs other clients nothing.
    let stray = std::net::TcpStream::connect(receiver.address()).expect("it listens");
    let authority = certificate_file.display().to_string();
    let emulator = emulator(&receiver, &["--webhook-ca", &authority]);
    trigger(&emulator).exits(0);
    assert!(receiver.line().contains("verified, answered 200"));
    assert_eq!(receiver.end().0, Some(0));
    drop(stray);
    let receiver = listen(&["--tls", "self-signed", "--count", "1"], Some(SECRET));
    let emulator = self::emulator(&receiver, &["--webhook-insecure"]);
    assert_eq!(trigger(&emulator).status.code(), Some(0));
    assert_eq!(receiver.end().0, Some(0));
}

/// Silent connections have ten seconds for their header block; a good sender is answered long before that.
#[test]
#[ignore = "measures the machine: `.ci/nightly large` runs it"]
fn listen_answers_at_once_behind_silent_connections() {
    for count in [64, 1000] {
        let listen = listen(&[], None);
        let address = listen.address();
        let silent: Vec<_> = (0..count).map(|_| std::net::TcpStream::connect(address).expect("it listens")).collect();
        let machine = wrs_emulator::clock::Clock::real();
        for _ in 0..3 {
            assert!(post(&listen, "/hooks", b"{}").starts_with("HTTP/1.1 200 "));
        }
        let spent = machine.instant().since_start();
        assert!(spent < std::time::Duration::from_secs(5), "{spent:?} behind {count}");
        drop(silent);
    }
}

/// An event that the emulator makes and signs, in each form in which it is printed.
#[test]
fn an_event_is_signed_without_being_sent() {
    let served = Served::start(&[]);
    let sign = |more: &[&str]| {
        served.call(&[&["sign", "--event", "workflow.completed", "--secret", SECRET][..], more].concat())
    };
    sign(&["--data", "workflow_id=wf_9"]).exits(0).prints(&[
        "webhook-signature: v1,",
        "\n\n{\"id\":\"evt_",
        "\"wf_9\"",
    ]);
    let to = "http://localhost:3000/hooks";
    let curl = sign(&["--output", "curl", "--webhook-url", to]).exits(0);
    curl.prints(&["curl -sS -X POST -H 'content-type: application/json' ", " --data-binary '{", to]);
    let forged: Value = serde_json::from_slice(&sign(&["--tamper", "body", "--json"]).exits(0).stdout).expect("JSON");
    assert!(forged["body"].as_str().is_some_and(|body| body.contains("\"tampered\":true")), "{forged}");
    sign(&["--tamper", "nothing"]).exits(2).says(&["--tamper", "future_timestamp"]);
    run(&["sign", "--tamper", "body", "FILE"], b"").exits(2).says(&["--tamper", "cannot be used with"]);
}
