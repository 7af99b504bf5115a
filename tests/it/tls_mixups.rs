//! TLS where it is not expected, plain HTTP where TLS is, untrusted certificates: each is named with its remedy.

use crate::process::{NOWHERE, Served, exchange};
use crate::program::Program;
use crate::support::{finish, run, text, wrs_emulator};

const PLAIN: &str = "this is plain HTTP on a TLS port: use https://";

fn health(url: &str, arguments: &[&str]) -> String {
    let said = text(&run(&[&["health", "--url", url], arguments].concat()).exits(3).stderr);
    assert!(!said.contains("start it there"), "{said}");
    said
}

#[test]
fn the_command_line_tells_the_ways_apart_in_which_tls_goes_wrong() {
    let plain = Served::start(&["--quiet"]);
    let as_tls = plain.url.replace("http:", "https:");
    let said = health(&as_tls, &[]);
    assert!(said.contains(&format!("{as_tls}: it does not speak TLS")), "{said}");
    assert!(said.contains(&format!("hint: use --url {}, or start it with --tls self-signed", plain.url)), "{said}");

    let secure = Served::start(&["--quiet", "--tls", "self-signed"]);
    let as_plain = secure.url.replace("https:", "http:");
    let said = health(&as_plain, &[]);
    assert!(said.contains(&format!("{as_plain}: it speaks TLS")), "{said}");
    assert!(said.contains(&format!("hint: use --url {}", secure.url)), "{said}");

    let said = health(&secure.url, &[]);
    assert!(said.contains("its certificate is not trusted"), "{said}");
    assert!(
        said.contains(&format!("hint: pass its authority with --ca FILE (from {}/_emulator/ca.pem)", secure.url)),
        "{said}"
    );
    let other = crate::support::Certificates::for_localhost();
    let said = health(&secure.url, &["--ca", &other.ca_file().display().to_string()]);
    assert!(said.contains("hint: no authority in the file given signed it"), "{said}");

    finish(&mut wrs_emulator(&["health", "--url", &secure.url, "--ca", "nosuch.pem"])).exits(2).says(&[
        "--ca: cannot read",
        &format!("hint: save the emulator's authority first: curl -sk -o ca.pem {}/_emulator", secure.url),
    ]);

    // What is no emulator at all.
    let closed = health("https://127.0.0.1:1", &[]);
    assert!(closed.contains("hint: start it with `wrs-emulator --listen 127.0.0.1:1 --tls self-signed`"), "{closed}");
}

#[test]
fn plain_http_on_a_tls_port_is_answered_logged_and_journalled() {
    let served = Served::start(&["--tls", "self-signed"]);
    let plain = b"GET /v1/hello HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let answer = exchange(served.address(), plain);
    assert!(answer.starts_with("HTTP/1.1 400 ") && answer.contains(PLAIN), "{answer}");
    let rows = served.json(&["requests", "list", "--json", "--insecure"]);
    let id = rows["data"][0]["id"].as_str().expect("an entry").to_owned();
    assert_eq!(rows["data"][0]["status"], 400, "{rows}");
    served.call(&["explain", &id, "--insecure"]).prints(&[PLAIN]);
    // A handshake that fails leaves a line of the log.
    exchange(served.address(), b"\x16\x03\x01\x00\x05hello");
    // Nor are other bytes an entry of the journal.
    let rest = exchange(served.address(), b"\x01\x02\x03\x04\x05\x06");
    assert!(!rest.contains("HTTP"), "{rest:?}");
    // One that only looks whether the port is open is no failure.
    drop(served.connect());
    let rows = served.json(&["requests", "list", "--json", "--insecure"]);
    assert_eq!(rows["data"].as_array().map(Vec::len), Some(1), "{rows}");
    let (_, log) = served.stop();
    assert_eq!(log.matches(PLAIN).count(), 1, "{log}");
    assert_eq!(log.matches("a TLS handshake with 127.0.0.1 failed: ").count(), 2, "{log}");
}

#[test]
fn a_certificate_and_a_key_in_the_wrong_order_are_told_apart() {
    let folder = tempfile::tempdir().expect("a folder");
    let key = rcgen::KeyPair::generate().expect("a key");
    let names = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).expect("parameters");
    let certificate = names.self_signed(&key).expect("a certificate");
    for (name, pem) in [("cert.pem", certificate.pem()), ("key.pem", key.serialize_pem())] {
        std::fs::write(folder.path().join(name), pem).expect("the file is written");
    }
    Program::new(&["serve", "--listen", "127.0.0.1:0", "--tls", "key.pem:cert.pem"])
        .within(folder.path())
        .status(2)
        .stderr(
            "error: --tls: `key.pem` has a private key and `cert.pem` a certificate; expected CERT:KEY, which is \
             cert.pem:key.pem\n",
        )
        .run();
}

#[test]
fn files_that_hold_something_else_are_named_for_what_they_are() {
    let folder = tempfile::tempdir().expect("a folder");
    let (key, other) = (rcgen::KeyPair::generate().expect("a key"), rcgen::KeyPair::generate().expect("a key"));
    let names = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).expect("parameters");
    let certificate = names.self_signed(&key).expect("a certificate");
    for (name, bytes) in [
        ("cert.pem", certificate.pem().into_bytes()),
        ("cert.der", certificate.der().to_vec()),
        ("key.pem", key.serialize_pem().into_bytes()),
        ("other.pem", other.serialize_pem().into_bytes()),
        ("request.pem", names.serialize_request(&key).expect("a request").pem().expect("PEM").into_bytes()),
        ("locked.pem", b"-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n".to_vec()),
        ("empty.pem", Vec::new()),
    ] {
        std::fs::write(folder.path().join(name), bytes).expect("the file is written");
    }
    for (flag, value, said) in [
        ("--tls", "cert.der:key.pem", "`cert.der` is a certificate in DER; expected certificates in PEM"),
        ("--tls", "request.pem:key.pem", "`request.pem` is an unsigned certificate request; expected"),
        ("--tls", "empty.pem:key.pem", "`empty.pem` is empty; expected certificates in PEM"),
        ("--tls", "cert.pem:cert.pem", "`cert.pem` is a certificate; expected a private key in PEM"),
        (
            "--tls",
            "cert.pem:locked.pem",
            "`locked.pem` is a private key with a passphrase; expected a private key in PEM",
        ),
        (
            "--tls",
            "cert.pem:other.pem",
            "the certificate in `cert.pem` and the key in `other.pem` cannot be used: the key does not belong to the certificate",
        ),
        ("--webhook-ca", "key.pem", "there is no certificate in `key.pem`, which is a private key; expected"),
        ("--webhook-ca", "cert.der", "there is no certificate in `cert.der`, which is a certificate in DER; expected"),
    ] {
        let mut command = wrs_emulator(&["serve", "--listen", "127.0.0.1:0", flag, value]);
        finish(command.current_dir(folder.path())).exits(2).says(&[&format!("error: {flag}: {said}")]);
    }
}

#[test]
fn a_receiver_that_serves_tls_answers_plain_http_as_well() {
    let arguments = ["listen", "--listen", "127.0.0.1:0", "--tls", "self-signed", "--url", NOWHERE];
    let listening = Served::spawn(&mut wrs_emulator(&arguments));
    let answer = exchange(listening.address(), b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n");
    assert!(answer.starts_with("HTTP/1.1 400 ") && answer.contains(PLAIN), "{answer}");
}
