//! `listen` and the emulator: what leads to it, whose URL is whose, and what is refused at the start.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::process::Command;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use crate::probe_receiver::{self, Does};
use crate::process::{NOWHERE, Served, eventually, exchange, request};
use crate::support::{PATIENCE, finish, run, text, wrs_emulator};

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
/// Starts `listen` with a secret.
fn listen(arguments: &[&str]) -> Served {
    let mut command = wrs_emulator(&[&["listen", "--listen", "127.0.0.1:0"][..], arguments].concat());
    Served::spawn(command.env("WRS_WEBHOOK_SECRET", SECRET))
}

/// What it wrote to stderr by the time that it answers a request.
fn noted(listening: Served) -> String {
    // The note is written after the ready line, so one answered request is proof that it is there.
    assert!(request(&listening.url, "POST / HTTP/1.1", "{}").starts_with("HTTP/1.1 401 "));
    listening.stop().1
}

/// What `listen` says that is to refuse to start; bounded, for one that starts listens for ever.
fn refused(arguments: &[&str]) -> String {
    let mut command = Command::new("timeout");
    command.args(["20", env!("CARGO_BIN_EXE_wrs-emulator"), "listen", "--listen", "127.0.0.1:0"]).args(arguments);
    let output = finish(command.env_remove("WRS_WEBHOOK_SECRET"));
    assert!(output.status.code() == Some(2) && output.stdout.is_empty(), "{arguments:?}: {output:?}");
    text(&output.stderr)
}

/// The command below the note.
fn command(said: &str) -> &str {
    said.lines().map(str::trim_start).find(|line| line.starts_with("wrs-emulator ")).unwrap_or_else(|| panic!("{said}"))
}

#[test]
fn a_receiver_that_nothing_leads_to_says_so_with_a_command_to_paste() {
    let alone = listen(&["--url", NOWHERE]);
    let here = alone.url.clone();
    let said = noted(alone);
    assert!(said.contains(&format!("note: nothing is delivered here yet: no emulator answers at {NOWHERE}")), "{said}");
    assert_eq!(command(&said), format!("wrs-emulator --forward https://app.example.com={here}"));

    let served = Served::start(&["--quiet"]);
    let url = format!(" --url {}", served.url);
    let listening = listen(&["--url", &served.url]);
    let here = listening.url.clone();
    let said = noted(listening);
    assert!(
        said.contains(
            "note: nothing is delivered here yet: neither a forward nor a subscription of sk_test_local leads to "
        ),
        "{said}"
    );
    assert_eq!(
        command(&said),
        format!(
            "wrs-emulator forwards add https://app.example.com={here}{url} && \
             wrs-emulator subscriptions create https://app.example.com/hooks{url}"
        )
    );

    // With a subscription its own URL is named, and with a forward there is nothing to say.
    served.said(&["subscriptions", "create", "https://mine.example/in?a=1"]);
    let listening = listen(&["--emulator", &served.url]);
    let here = listening.url.clone();
    let said = noted(listening);
    assert_eq!(command(&said), format!("wrs-emulator forwards add https://mine.example={here}{url}"));
    let port = here.rsplit(':').next().expect("a port");
    served.said(&["forwards", "add", &format!("https://mine.example=http://localhost:{port}")]);
    let address = format!("127.0.0.1:{port}");
    let mut again = wrs_emulator(&["listen", "--listen", &address, "--url", &served.url, "--count", "1"]);
    let again = Served::spawn(again.env("WRS_WEBHOOK_SECRET", SECRET));
    let _ = request(&here, "POST / HTTP/1.1", "{}");
    assert_eq!(again.end().2, "error: 1 of 1 deliveries did not verify\n");
}

/// `--url` is the emulator's everywhere; the URL that a scheme signs is `--webhook-url`.
#[test]
fn the_url_of_a_webhook_is_not_taken_for_the_emulators() {
    let hook = "https://app.example.invalid/hooks";
    for more in [&[][..], &["--forward-to", "1"]] {
        let said = refused(&[&["--url", hook][..], more].concat());
        assert!(said.contains(&format!("--url: no emulator answers at `{hook}`")), "{said}");
        let hint = "hint: --url is the emulator's address; the URL of the subscription is --webhook-url";
        assert!(said.contains(hint), "{said}");
    }
    run(&["health", "--url", hook]).exits(3).says(&["not the URL of a webhook"]);
    let listening = listen(&["--webhook-url", hook, "--url", NOWHERE]);
    noted(listening);
    let custom = ["--scheme", "custom", "--set", "webhooks.custom.content={url}.{body}", "--json"];
    let signed = [&["sign", "/dev/null"][..], &custom, &["--webhook-url", hook]].concat();
    finish(wrs_emulator(&signed).env("WRS_WEBHOOK_SECRET", SECRET)).prints(&[hook]);
    let missing = [&["sign", "/dev/null"][..], &custom].concat();
    finish(wrs_emulator(&missing).env("WRS_WEBHOOK_SECRET", SECRET)).says(&["expected --webhook-url URL"]);
    assert!(refused(&["--webhook-url", "nothing"]).contains("--webhook-url: `nothing` is not a URL"));
}

#[test]
fn an_application_that_may_not_be_dialled_is_refused_at_the_start() {
    for (target, problem) in [
        ("8.8.8.8/hooks", "8.8.8.8 is on the internet; webhooks stay local unless you pass --allow-egress 8.8.8.8"),
        ("169.254.169.254", "it is never dialled"),
    ] {
        let said = refused(&["--url", NOWHERE, "--forward-to", target]);
        assert!(said.contains("--forward-to: ") && said.contains(problem) && !said.contains("leads there"), "{said}");
    }
    let arguments = ["--url", NOWHERE, "--forward-to", "http://8.8.8.8:9", "--allow-egress", "8.8.8.8"];
    listen(&arguments).stop();
}

/// Any client may have set a forward. `listen` looks whether one that another process made still leads anywhere, but not where nothing is
/// dialled: 0.0.0.0, which would lead to this machine.
#[test]
fn a_forward_that_may_not_be_dialled_is_not_tried() {
    let application = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = application.local_addr().expect("an address").port();
    let first = application.try_clone().expect("a listener");
    let (answers, answered) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let (mut stream, _) = first.accept().expect("a delivery");
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").expect("an open connection");
        answers.send(()).expect("the test waits");
        // Held open until the sender has read it.
        let _ = stream.read_to_end(&mut Vec::new());
    });
    let served = Served::start(&["--quiet"]);
    let leftover = json!({
        "key": "sk_test_local", "url": "https://listen.localhost:1", "events": ["workflow.completed"], "description": "wrs-emulator listen",
    });
    assert_eq!(served.control("POST", "subscriptions", &leftover).0, 200);
    let to = format!("http://0.0.0.0:{port}");
    let forward = json!({ "key": "sk_test_local", "webhooks": { "forwards": { "https://listen.localhost:1": to } } });
    assert_eq!(served.control("PATCH", "profile", &forward).0, 200);
    let running = forwarding(&served.url, &port.to_string());
    assert_eq!(subscriptions(&served).len(), 2, "what may not be tried is left alone");
    // Nor is it tried for a subscription that was lost and made again, or for a delivery.
    assert_eq!(
        served.control("POST", "events?wait=20s", &json!({ "key": "sk_test_local", "type": "workflow.completed" })).0,
        200
    );
    running.stop();
    answered.recv_timeout(PATIENCE).expect("the delivery of `listen` itself");
    application.set_nonblocking(true).expect("a listener");
    assert!(application.accept().is_err(), "and nothing else");
}

#[test]
fn an_application_on_a_host_that_does_not_exist_is_a_warning() {
    let alone = listen(&["--url", NOWHERE, "--forward-to", "http://nosuch.invalid:3000"]);
    let (_, said) = alone.stop();
    assert!(said.contains("--forward-to: ") && said.contains("nosuch.invalid"), "{said}");
}

/// A client that resolves `localhost` may try `::1` first.
#[test]
fn localhost_is_served_at_both_loopback_addresses() {
    let has_ipv6 = TcpListener::bind("[::1]:0").is_ok();
    let run = Served::start(&[]).said(&["run", "save", "-"]);
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("run.json").display().to_string();
    std::fs::write(&file, run).expect("it is written");
    for arguments in [
        &["serve", "--listen", "localhost:0", "--control-listen", "localhost:0"][..],
        &["listen", "--listen", "localhost:0", "--url", NOWHERE],
        &["run", "view", &file, "--listen", "localhost:0", "--no-open"],
    ] {
        let served = Served::spawn(&mut wrs_emulator(arguments));
        let port = served.address().strip_prefix("127.0.0.1:").expect("the address of IPv4 is shown").to_owned();
        let addresses = [Some(format!("127.0.0.1:{port}")), has_ipv6.then(|| format!("[::1]:{port}"))];
        for address in addresses.into_iter().flatten() {
            let head = format!("GET / HTTP/1.1\r\nHost: localhost:{port}\r\nConnection: close\r\n\r\n");
            let answer = exchange(&address, head);
            assert!(answer.starts_with("HTTP/1.1 "), "{arguments:?} at {address}: {answer}");
        }
    }
    if let Ok(other) = TcpListener::bind("[::1]:0") {
        let port = other.local_addr().expect("an address").port();
        // Clients might reach the program at ::1.
        let listen = format!("localhost:{port}");
        finish(&mut wrs_emulator(&["serve", "--listen", &listen])).exits(2).says(&["cannot listen on localhost:"]);
    }
}

/// Starts `listen --forward-to` an application at this address for an emulator at `url`.
fn forwarding(url: &str, to: &str) -> Served {
    Served::spawn(&mut wrs_emulator(&["listen", "--listen", "127.0.0.1:0", "--url", url, "--forward-to", to]))
}

/// The subscriptions of the emulator, as JSON.
fn subscriptions(served: &Served) -> Vec<Value> {
    served.json(&["subscriptions", "list", "--json"])["data"].as_array().expect("a list").clone()
}

#[test]
fn an_application_gets_the_query_and_the_user_of_its_address_and_its_redirect_is_named() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let requests = Arc::clone(&seen);
    let port = probe_receiver::receiver(move |request| {
        let authorization = request.header("authorization").to_owned();
        requests.lock().expect("no panic").push((request.lines[0].clone(), authorization));
        Does::Redirects
    })
    .port();
    let served = Served::start(&["--quiet", "--set", "webhooks.retry.preset=none"]);
    let mut listening = forwarding(&served.url, &format!("http://user:secret@127.0.0.1:{port}/hooks?token=abc"));
    listening.line();
    served.call(&["trigger", "workflow.completed", "--wait"]);
    let line = listening.line();
    assert!(
        line.contains("(Location: https://app.example.com/login), answered 302") && !line.contains("secret"),
        "{line}"
    );
    served
        .call(&["explain"])
        .prints(&["the receiver answered 302 (Location: https://app.example.com/login; by http://"]);
    let expected = ("POST /hooks?token=abc HTTP/1.1".to_owned(), "Basic dXNlcjpzZWNyZXQ=".to_owned());
    assert_eq!(*seen.lock().expect("no panic"), [expected]);
    listening.stop();
    assert_eq!(subscriptions(&served).len(), 0);
}

#[test]
fn a_502_says_why_the_application_gave_no_answer() {
    let closed = TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("an address");
    let breaks_off = TcpListener::bind("127.0.0.1:0").expect("a port");
    let broken = breaks_off.local_addr().expect("an address");
    std::thread::spawn(move || {
        for mut stream in breaks_off.incoming().flatten() {
            let _ = stream.read(&mut [0; 4096]);
        }
    });
    let served = Served::start(&["--quiet", "--set", "webhooks.retry.preset=none"]);
    for (address, scheme, why) in [
        (closed, "http", format!("nothing listens on {closed}; start your receiver there")),
        (broken, "http", "the connection".to_owned()),
        (broken, "https", "TLS".to_owned()),
    ] {
        let application = format!("{scheme}://{address}/hooks");
        let mut listening = forwarding(&served.url, &application);
        listening.line();
        let said = text(&served.call(&["trigger", "workflow.completed", "--wait"]).exits(1).stdout);
        let begin = format!("answered 502: {application} gave no answer: ");
        assert!(said.contains(&begin) && said.contains(&why), "{why}: {said}");
        let line = listening.line();
        assert!(line.contains(&format!("not forwarded to {application}: ")) && line.contains(&why), "{line}");
        listening.stop();
    }
}

/// What refused is the application, at its own address and path, and not `listen`.
#[test]
fn a_refusal_names_the_application_that_gave_it() {
    let application = format!("http://127.0.0.1:{}/hooks", crate::diagnosis::receiver(404, "no such page"));
    let served = Served::start(&["--quiet", "--set", "webhooks.retry.preset=none"]);
    let mut listening = forwarding(&served.url, &application);
    listening.line();
    let said = text(&served.call(&["trigger", "workflow.completed", "--wait"]).exits(1).stdout);
    assert!(said.contains(&format!("answered 404 (by {application}): no such page")), "{said}");
    let verdict = text(&served.call(&["verdict"]).stdout);
    assert!(verdict.contains(&format!("the receiver answered 404 (by {application}): no such page; ")), "{verdict}");
    listening.stop();
}

/// The same advice in an explanation as in the causes of a run.
#[test]
fn a_receiver_that_broke_down_is_asked_for_its_log() {
    let to = format!("https://app.example.com=http://127.0.0.1:{}", crate::diagnosis::receiver(500, "oops"));
    let served = Served::start(&["--quiet", "--set", "webhooks.retry.preset=none", "--forward", &to]);
    served.subscribe("https://app.example.com/hooks");
    served.call(&["trigger", "workflow.completed", "--wait"]).exits(1);
    for command in ["explain", "verdict"] {
        let said = text(&served.call(&[command]).stdout);
        assert!(said.contains("what does the receiver's own log say?"), "{command}: {said}");
    }
}

/// A scheme that signs the URL signs the one that `listen` subscribed.
#[test]
fn deliveries_of_a_scheme_that_signs_the_url_verify() {
    let custom = ["--set", "webhooks.scheme=custom", "--set", "webhooks.custom.content={url}.{body}"];
    let served = Served::start(&[&["--quiet"][..], &custom].concat());
    let port = crate::diagnosis::receiver(200, "fine");
    let arguments = [
        "listen",
        "--listen",
        "127.0.0.1:0",
        "--url",
        &served.url,
        "--forward-to",
        &port.to_string(),
        "--scheme",
        "custom",
    ];
    let content = ["--set", "webhooks.custom.content={url}.{body}"];
    let mut listening = Served::spawn(&mut wrs_emulator(&[&arguments[..], &content].concat()));
    listening.line();
    served.call(&["trigger", "workflow.completed", "--wait"]).exits(0);
    let line = listening.line();
    assert!(line.contains(" verified, forwarded to "), "{line}");
}

/// The emulator may start after `listen`, which subscribes then, and verifies with the secret that is made then.
#[test]
fn an_emulator_that_starts_later_is_waited_for() {
    let address = format!("127.0.0.1:{}", crate::process::closed_port());
    let port = crate::diagnosis::receiver(401, "no").to_string();
    let mut listening = forwarding(&format!("http://{address}"), &port);
    let served = Served::spawn(&mut wrs_emulator(&["serve", "--listen", &address, "--quiet"]));
    let ready = listening.line();
    assert!(ready.starts_with("ready: forwarding events for sk_test_local, by sub_"), "{ready}");
    served.call(&["trigger", "workflow.completed", "--wait"]).exits(1);
    let line = listening.line();
    let end = ", answered 401; this signature holds, so the app's secret or its body differs";
    assert!(line.contains(" verified, forwarded to ") && line.trim_end().ends_with(end), "{line}");
    let (_, said) = listening.stop();
    assert!(said.contains(&format!("note: waiting for the emulator at http://{address}")), "{said}");
    assert_eq!(subscriptions(&served).len(), 0, "{said}");
}

/// The user did not choose the usual port, so another is as good.
#[test]
fn a_free_port_is_used_where_the_usual_one_is_taken() {
    // If this fails, another program has it.
    let _taken = TcpListener::bind("127.0.0.1:9780");
    let listening = Served::spawn(&mut wrs_emulator(&["listen", "--url", NOWHERE]));
    assert_ne!(listening.address(), "127.0.0.1:9780");
    let (_, said) = listening.stop();
    assert!(
        said.contains("note: cannot listen on 127.0.0.1:9780: ") && said.contains("a free port is used instead"),
        "{said}"
    );
}

#[test]
fn a_subscription_that_the_emulator_lost_is_made_again() {
    let mut served = Served::start(&["--quiet"]);
    let (url, address) = (served.url.clone(), served.address().to_owned());
    let port = crate::diagnosis::receiver(200, "fine");
    let mut listening = forwarding(&url, &port.to_string());
    let made = listening.line();
    let secret = made.split_whitespace().find(|word| word.starts_with("whsec_")).expect("a secret");
    served.kill();
    let served = Served::spawn(&mut wrs_emulator(&["serve", "--listen", &address, "--seed", "2", "--quiet"]));
    eventually("it subscribes again", || subscriptions(&served).len() == 1);
    served.call(&["reset"]).exits(0);
    eventually("it subscribes after a reset, too", || subscriptions(&served).len() == 1);
    let id = subscriptions(&served)[0]["id"].as_str().expect("an id").to_owned();
    eventually("it is forwarded", || {
        text(&served.call(&["forwards", "--key", "sk_test_local"]).stdout).contains("listen.")
    });
    served.call(&["subscriptions", "show", &id, "--secret"]).prints(&[secret]);
    served.call(&["trigger", "workflow.completed", "--wait"]).exits(0);
    let line = listening.line();
    assert!(line.contains(" verified, forwarded to "), "{line}");
    let (_, said) = listening.stop();
    assert!(
        said.contains("the emulator lost the subscription; events for sk_test_local are delivered here again"),
        "{said}"
    );
    assert_eq!(subscriptions(&served).len(), 0, "{said}");
}

#[test]
fn leftovers_of_a_killed_process_are_removed_and_other_subscriptions_named() {
    let served = Served::start(&["--quiet"]);
    let port = crate::diagnosis::receiver(200, "fine").to_string();
    let mut killed = forwarding(&served.url, &port);
    killed.kill();
    let running = forwarding(&served.url, &port);
    assert_eq!(subscriptions(&served).len(), 1, "what was left behind is gone");
    let own = served.subscribe("https://app.example.com/hooks");
    let third = forwarding(&served.url, &port);
    assert_eq!(subscriptions(&served).len(), 3, "one that runs is left alone");
    let (_, said) = third.stop();
    let id = own["id"].as_str().expect("an id");
    let warning =
        format!("sk_test_local has another subscription, {id} to https://app.example.com/hooks, so each event");
    assert!(
        said.contains(&warning) && said.contains("forwards add https://app.example.com=http://127.0.0.1:"),
        "{said}"
    );
    let (_, said) = running.stop();
    assert!(said.contains("which a `listen` that was killed left behind"), "{said}");
    assert_eq!(text(&served.call(&["forwards", "--key", "sk_test_local"]).stdout), "no forwards\n");
}
