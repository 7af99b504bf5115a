//! `listen` and the emulator: what leads to it, whose URL is whose, and what is refused at the start.

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Child, Command, Stdio};

use crate::command_line::{Served, request};
use crate::support::{run, text, wrs_emulator};

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const NOWHERE: &str = "http://127.0.0.1:1";

/// A running `listen`, its URL, and what it says on stderr once it is ready.
struct Listening(Child, String);

impl Listening {
    fn start(arguments: &[&str]) -> Self {
        let mut command = wrs_emulator(&[&["listen", "--listen", "127.0.0.1:0"][..], arguments].concat());
        let command = command.env("WRS_WEBHOOK_SECRET", SECRET).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the binary runs");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("a pipe")).read_line(&mut line).expect("text");
        let url = line.trim().strip_prefix("wrs-emulator listening on ").expect("the ready line").to_owned();
        Self(child, url)
    }

    fn stop(mut self) -> String {
        self.0.kill().expect("it runs");
        self.0.wait().expect("it ends");
        let mut said = String::new();
        self.0.stderr.take().expect("a pipe").read_to_string(&mut said).expect("text");
        said
    }
}

/// What `listen` says that is to refuse to start; bounded, for one that starts listens for ever.
fn refused(arguments: &[&str]) -> String {
    let mut command = Command::new("timeout");
    command.args(["20", env!("CARGO_BIN_EXE_wrs-emulator"), "listen", "--listen", "127.0.0.1:0"]).args(arguments);
    let output = command.env_remove("WRS_WEBHOOK_SECRET").output().expect("the binary runs");
    assert!(output.status.code() == Some(2) && output.stdout.is_empty(), "{arguments:?}: {output:?}");
    text(&output.stderr)
}

/// The command below the note.
fn command(said: &str) -> &str {
    said.lines().map(str::trim_start).find(|line| line.starts_with("wrs-emulator ")).unwrap_or_else(|| panic!("{said}"))
}

#[test]
fn a_receiver_that_nothing_leads_to_says_so_with_a_command_to_paste() {
    let alone = Listening::start(&["--url", NOWHERE]);
    // The note is written after the ready line, so one answered request is proof that it is there.
    let here = alone.1.clone();
    assert!(request(&here, "POST / HTTP/1.1", "{}").starts_with("HTTP/1.1 200 "));
    let said = alone.stop();
    assert!(said.contains(&format!("note: nothing is delivered here yet: no emulator answers at {NOWHERE}")), "{said}");
    assert_eq!(command(&said), format!("wrs-emulator --forward https://app.example.com={here}"));

    let served = Served::start(&["--quiet"]);
    let url = format!(" --url {}", served.url);
    let listening = Listening::start(&["--url", &served.url]);
    let here = listening.1.clone();
    assert!(request(&here, "POST / HTTP/1.1", "{}").starts_with("HTTP/1.1 200 "));
    let said = listening.stop();
    assert!(said.contains("note: nothing is delivered here: no forward of sk_test_local goes to "), "{said}");
    assert_eq!(
        command(&said),
        format!(
            "wrs-emulator forwards add https://app.example.com={here}{url} && \
             wrs-emulator subscriptions create https://app.example.com/hooks{url}"
        )
    );

    // With a subscription its own URL is named, and with a forward there is nothing to say.
    let created = served.call(&["subscriptions", "create", "https://mine.example/in?a=1"]);
    assert_eq!(created.status.code(), Some(0), "{created:?}");
    let listening = Listening::start(&["--emulator", &served.url]);
    let here = listening.1.clone();
    assert!(request(&here, "POST / HTTP/1.1", "{}").starts_with("HTTP/1.1 200 "));
    let said = listening.stop();
    assert_eq!(command(&said), format!("wrs-emulator forwards add https://mine.example={here}{url}"));
    let port = here.rsplit(':').next().expect("a port");
    let added = served.call(&["forwards", "add", &format!("https://mine.example=http://localhost:{port}")]);
    assert_eq!(added.status.code(), Some(0), "{added:?}");
    let mut again =
        wrs_emulator(&["listen", "--listen", &format!("127.0.0.1:{port}"), "--url", &served.url, "--count", "1"]);
    let again = again.env("WRS_WEBHOOK_SECRET", SECRET).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut again = again.expect("the binary runs");
    let mut line = String::new();
    BufReader::new(again.stdout.take().expect("a pipe")).read_line(&mut line).expect("text");
    let _ = request(&here, "POST / HTTP/1.1", "{}");
    assert_eq!(text(&again.wait_with_output().expect("it ends").stderr), "error: 1 of 1 deliveries did not verify\n");
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
    let output = run(&["health", "--url", hook]);
    let said = text(&output.stderr);
    assert!(output.status.code() == Some(3) && said.contains("not the URL of a webhook"), "{said}");
    let listening = Listening::start(&["--webhook-url", hook, "--url", NOWHERE]);
    assert!(request(&listening.1, "POST / HTTP/1.1", "{}").starts_with("HTTP/1.1 200 "));
    listening.stop();
    let custom = ["--scheme", "custom", "--set", "webhooks.custom.content={url}.{body}", "--json"];
    for name in ["--webhook-url", "--url"] {
        let arguments = [&["sign", "/dev/null"][..], &custom, &[name, hook]].concat();
        let signed = wrs_emulator(&arguments).env("WRS_WEBHOOK_SECRET", SECRET).output().expect("the binary runs");
        assert!(text(&signed.stdout).contains(hook), "{signed:?}");
    }
    let missing = [&["sign", "/dev/null"][..], &custom].concat();
    let missing = wrs_emulator(&missing).env("WRS_WEBHOOK_SECRET", SECRET).output().expect("the binary runs");
    assert!(text(&missing.stderr).contains("expected --webhook-url URL"), "{missing:?}");
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
    Listening::start(&arguments).stop();
}

#[test]
fn an_application_on_a_host_that_does_not_exist_is_a_warning() {
    let alone = Listening::start(&["--url", NOWHERE, "--forward-to", "http://nosuch.invalid:3000"]);
    let said = alone.stop();
    assert!(said.contains("--forward-to: ") && said.contains("nosuch.invalid"), "{said}");
}
